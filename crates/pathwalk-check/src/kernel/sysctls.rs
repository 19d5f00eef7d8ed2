//! `fs.protected_*` of the whole machine, set as a table needs, and set back after.

use crate::ours::Settings;
use std::{fs, io};

/// Set otherwise, until this goes.
pub(crate) struct Sysctls(Settings);

impl Sysctls {
    /// Sets what differs from what is set.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub(crate) fn set(wanted: Settings) -> io::Result<Self> {
        let before = Self(Settings::running());
        write(wanted)?;
        Ok(before)
    }
}

impl Drop for Sysctls {
    fn drop(&mut self) {
        write(self.0).expect("what was written can be written back");
    }
}

fn write(settings: Settings) -> io::Result<()> {
    for (name, value) in [
        ("protected_symlinks", settings.protected_symlinks.into()),
        ("protected_hardlinks", settings.protected_hardlinks.into()),
        ("protected_regular", settings.protected_regular),
        ("protected_fifos", settings.protected_fifos),
    ] {
        fs::write(format!("/proc/sys/fs/{name}"), value.to_string())?;
    }
    Ok(())
}
