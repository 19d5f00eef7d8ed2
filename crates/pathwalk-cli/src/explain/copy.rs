//! Copying files of the host into memory: everything but their contents.

use crate::error::Error;
use pathwalk::{AtFlags, Dev, Errno, FileType, Task};
use std::{
    fs::{self, Metadata},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// Makes a file like `from` at `to`: its type, mode, owner, group, symlink body and device number. The root, which is
/// there, is only made like it.
pub(super) fn copy(task: &Task, from: &Path, metadata: &Metadata, to: &[u8]) -> Result<(), Error> {
    let kind = FileType::from_mode(metadata.mode()).unwrap_or(FileType::Regular);
    match kind {
        FileType::Symlink => {
            let body = fs::read_link(from).map_err(|cause| Error::at(from, &cause))?;
            task.symlink(body.as_os_str().as_bytes(), to)
        }
        FileType::Directory if to == b"/" => Ok(()),
        FileType::Directory => task.mkdir(to, 0o700),
        _ => task.mknod(to, kind.to_mode() | 0o600, Dev::from_stat(metadata.rdev())),
    }
    .and_then(|()| liken(task, metadata, to))
    .map_err(|errno| not_copied(from, errno))
}

/// Gives a file that is there owner, group and mode of another.
pub(super) fn liken(task: &Task, metadata: &Metadata, to: &[u8]) -> Result<(), Errno> {
    task.lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    // After the owner, whose change takes set-id bits away.
    match FileType::from_mode(metadata.mode()) {
        Some(FileType::Symlink) => Ok(()),
        _ => task.fchmodat2(pathwalk::At::Cwd, to, metadata.mode() & 0o7777, AtFlags::empty()),
    }
}

/// What is said of a file that could be read but not made in memory.
pub(super) fn not_copied(from: &Path, errno: Errno) -> Error {
    Error::doing(format_args!("copying {} into memory", from.display()), errno)
}
