//! Controlling terminals, which the kernel has by process: what is opened here is opened by another one.
//!
//! ```text
//!   /dev/tty              the terminal of the caller's session, opened by its own name
//!   another terminal      by who leads a session that has none: the thread makes it that, by TIOCSCTTY
//! ```
//!
//! Linux: `tty_open_current_tty`, `tty_open_proc_set_tty`.

use crate::{
    engine::{Caller, Cloexec, Engine, Reply},
    errand::Call,
    image::has_own_filter,
    procfs,
    sys::{answer, ptrace},
};
use pathwalk::{Errno, OpenFlags, Result};
use rustix::fs::{self, Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};

/// The major number of `/dev/tty`, `/dev/console` and `/dev/ptmx`, none of which becomes anybody's.
const AUXILIARY: u32 = 5;
/// That of consoles; the first of them is the one that is shown.
const CONSOLES: u32 = 4;
/// That of the terminals in `/dev/pts`.
const PTS: u32 = 136;

/// Whether a device is `/dev/tty`.
pub(crate) fn is_current(device: u64) -> bool {
    device == fs::makedev(AUXILIARY, 0)
}

/// What the kernel says of a thread's session.
struct Session {
    /// The process that leads it.
    leader: u32,
    /// The device that is its terminal; 0 where it has none.
    terminal: u64,
}

impl Session {
    /// # Errors
    ///
    /// - `ESRCH`: the thread is gone.
    fn of(tid: u32) -> Result<Self> {
        let text = crate::sys::read_record(format!("/proc/{tid}/stat"));
        let text = text.map_err(|_| Errno::ESRCH)?;
        let text = String::from_utf8_lossy(&text);
        // The name may have anything in it.
        let rest = text.rsplit_once(") ").ok_or(Errno::ESRCH)?.1;
        let mut fields = rest.split(' ').skip(3);
        let leader = fields.next().and_then(|field| field.parse().ok()).ok_or(Errno::ESRCH)?;
        let terminal: i32 = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
        Ok(Self { leader, terminal: terminal.cast_unsigned().into() })
    }
}

/// Opens the terminal of the caller's session; none where that is this process's too.
///
/// # Errors
///
/// - `ENXIO`: it has none.
/// - those of opening it.
pub(crate) fn open_current(
    engine: &Engine,
    caller: &Caller,
    flags: OpenFlags,
) -> Result<Option<OwnedFd>> {
    let Session { terminal, .. } = Session::of(caller.tid)?;
    engine.still_waits(caller)?;
    if terminal == 0 {
        return Err(Errno::ENXIO);
    }
    if Session::of(std::process::id())?.terminal == terminal {
        return Ok(None);
    }
    let told = OpenFlags::ACCMODE | OpenFlags::NONBLOCK | OpenFlags::APPEND;
    let told = OFlags::from_bits_retain((flags & told).bits() as u32);
    let path = name_of(terminal).ok_or(Errno::ENXIO)?;
    let fd = answer(fs::open(path, told | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()))?;
    if answer(fs::fstat(&fd))?.st_rdev == terminal { Ok(Some(fd)) } else { Err(Errno::ENXIO) }
}

/// The path of a terminal on the host.
fn name_of(device: u64) -> Option<String> {
    let (major, minor) = (fs::major(device), fs::minor(device));
    if major == PTS {
        return Some(format!("/dev/pts/{minor}"));
    }
    let link = std::fs::read_link(format!("/sys/dev/char/{major}:{minor}")).ok()?;
    Some(format!("/dev/{}", link.file_name()?.to_str()?))
}

/// Whether a device that was opened so becomes the terminal of the caller's session, if it is one and nobody's.
pub(crate) fn becomes_current(caller: &Caller, device: u64, flags: OpenFlags) -> bool {
    let (major, minor) = (fs::major(device), fs::minor(device));
    let read = !flags.contains(OpenFlags::WRONLY);
    if flags.contains(OpenFlags::NOCTTY) || !read || major == AUXILIARY {
        return false;
    }
    (major, minor) != (CONSOLES, 0)
        && Session::of(caller.tid).is_ok_and(|Session { leader, terminal }| {
            terminal == 0 && procfs::process_of_thread(caller.tid) == Some(leader)
        })
}

impl Engine {
    /// Gives a thread that leads a session a terminal, and has it make that the session's. Where it is one already the thread has
    /// it all the same.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: it can have no further descriptor.
    pub(crate) fn install_terminal(
        &mut self,
        caller: &Caller,
        fd: &OwnedFd,
        cloexec: Cloexec,
    ) -> Result<Reply> {
        let tid = caller.tid;
        // Who is traced goes without; so does who has a filter of its own, which may kill it for the call. In the middle of another
        // thread's exec nobody can be seized, who is about to end anyway.
        self.still_waits(caller)?;
        let seized = !has_own_filter(tid)
            && !self.patches.has_to_wait(tid, libc::SYS_execve as u32)
            && ptrace::seize(tid).is_ok()
            && ptrace::interrupt(tid).is_ok();
        let number = self.listener.add_fd(caller.id, fd.as_fd(), cloexec == Cloexec::Yes, true);
        if let Err(errno) = number {
            let _ = self.listener.send(caller.id, Err(errno));
        }
        if seized {
            let args = |number: i64| [number.cast_unsigned(), libc::TIOCSCTTY, 0];
            let call = number.ok().map(|number| Call { nr: libc::SYS_ioctl, args: args(number) });
            self.send_on_errand(tid, call);
        }
        Ok(Reply::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_session_is_told() {
        let mut child = Command::new("setsid").args(["sleep", "60"]).spawn().expect("setsid");
        let own = loop {
            let session = Session::of(child.id()).expect("it runs");
            if session.leader == child.id() {
                break session;
            }
        };
        assert_eq!(own.terminal, 0);
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        assert!(Session::of(1 << 30).is_err());
    }

    #[test]
    fn terminals_have_names() {
        assert_eq!(name_of(fs::makedev(PTS, 7)).as_deref(), Some("/dev/pts/7"));
        // A disk has none there.
        assert_eq!(name_of(fs::makedev(1023, 1)), None);
    }
}
