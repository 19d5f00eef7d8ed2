//! `fs.protected_*` of the whole machine, set as a table or a run needs, and set back after.
//!
//! Who sets them back is a process of its own, which waits until it is told to or nobody is left to tell it: however this
//! one ends, they come back.

use crate::ours::Settings;
use std::{
    fmt::Write as _,
    fs,
    io::{self, BufRead, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

/// Set otherwise, until this goes.
pub(crate) struct Sysctls {
    sets_back: Child,
}

impl Sysctls {
    /// Sets what differs from what is set.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub(crate) fn set(wanted: Settings) -> io::Result<Self> {
        // What interrupts this process may be sent to all that it started.
        let mut script = String::from("trap '' INT TERM HUP QUIT; echo ready; read told; ");
        for (name, value) in Settings::running().protections() {
            let _ = write!(script, "echo {value} >{}; ", file(name));
        }
        let mut sets_back = Command::new("/bin/sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = sets_back.stdout.take().expect("it has a pipe to speak to");
        let mut ready = String::new();
        BufReader::new(said).read_line(&mut ready)?;
        let set = Self { sets_back };
        for (name, value) in wanted.protections() {
            fs::write(file(name), value.to_string())?;
        }
        Ok(set)
    }
}

impl Drop for Sysctls {
    fn drop(&mut self) {
        let tell = self.sets_back.stdin.as_mut().expect("it has a pipe to hear from");
        // Closing it would not do: threads with descriptors of their own have the pipe too.
        let told = tell.write_all(b"\n").and_then(|()| self.sets_back.wait());
        assert!(told.is_ok_and(|status| status.success()), "what was written can be written back");
    }
}

fn file(name: &str) -> String {
    format!("/proc/sys/fs/{name}")
}
