//! A directory of the host that is pathwalk's root for a run, and goes with it.

use crate::kernel::sys::{Arg, syscall};
use pathwalk::Coherence;
use std::{
    fs::{self, File, Permissions},
    io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::Path,
};
use tempfile::TempDir;

/// Whether others may change the directory, as pathwalk is to look at it; nobody does. One that is watched takes a queue of the
/// kernel's, of which a user has so many, and the calls that are compared would find one less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnHost {
    /// Cached names are true
    Exclusive,
    /// Cached names are asked about at each use
    Strict,
}

impl OnHost {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Strict => "strict",
        }
    }
}

impl From<OnHost> for Coherence {
    fn from(how: OnHost) -> Self {
        match how {
            OnHost::Exclusive => Self::Exclusive,
            OnHost::Strict => Self::Strict,
        }
    }
}

/// ioctl_iflags(2)
const FS_IOC_SETFLAGS: i64 = 0x4008_6602;

/// It lies on a tmpfs, empty at first.
pub(crate) struct HostDir(TempDir);

impl HostDir {
    /// Makes it as the root of a tmpfs is.
    pub(crate) fn make() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a tmpfs that everybody may write");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("it is our own");
        Self(dir)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &[u8] {
        self.0.path().as_os_str().as_bytes()
    }
}

impl Drop for HostDir {
    /// What a run made immutable or append-only would stay, and with it all that is above.
    fn drop(&mut self) {
        if fs::remove_dir_all(self.0.path()).is_err() {
            let freed = free(self.0.path());
            let removed = freed.and_then(|()| fs::remove_dir_all(self.0.path()));
            if let Err(error) = removed {
                eprintln!("pathwalk check: {} stays: {error}", self.0.path().display());
            }
        }
    }
}

/// Takes all flags from a directory, then from what is in it.
fn free(dir: &Path) -> io::Result<()> {
    take_flags(dir)?;
    for entry in fs::read_dir(dir)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        let kind = entry?;
        if kind.is_dir() {
            free(&path)?;
        } else if kind.is_file() {
            take_flags(&path)?;
        }
    }
    Ok(())
}

fn take_flags(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let mut none = [0];
    let (fd, request) = (Arg::Int(file.as_raw_fd().into()), Arg::Int(FS_IOC_SETFLAGS));
    let taken = syscall(libc::SYS_ioctl, [fd, request, Arg::Words(&mut none)]);
    taken.map(drop).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
}
