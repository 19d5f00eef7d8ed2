//! Files that run: nobody writes to them meanwhile, and what somebody writes to does not run.
//!
//! ```text
//!   writers of a regular file     0         nobody writes, and it does not run
//!                               > 0         so many have it open for writing: it cannot be run
//!                               < 0         so many run it: it cannot be written
//! ```
//!
//! Linux: `do_open_execat`, `get_write_access`, `deny_write_access`; `i_writecount`.

use super::{lookup_flags, only};
use crate::{
    file::File,
    fs::Access,
    inode::InodeId,
    lock,
    mount::MntFlags,
    task::{At, Task},
    vfs::Vfs,
    walk::{Lookup, lookup::keep},
};
use pathwalk_abi::{AtFlags, Errno, FileType, OpenFlags, Result};

impl Task {
    /// `execveat(dir, path, …, flags)`, as far as it is about the file: opens what is to be run. execveat(2)
    ///
    /// While the answer lives nobody can open the file for writing, or change its size: `ETXTBSY`.
    ///
    /// # Errors
    ///
    /// - `ENOENT`, `ENAMETOOLONG`: of the path as such.
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - those of the lookup.
    /// - `ELOOP`: it is a symlink, and not to be followed.
    /// - `EACCES`: it is no regular file, or the mount forbids it, or permission is refused.
    /// - `ETXTBSY`: somebody has it open for writing.
    pub fn open_exec<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> Result<Executable> {
        let lookup = lookup_flags(flags) | Lookup::AUTOMOUNT;
        let path = path.as_ref();
        // What is wrong with the path as such is said before, and what with the place that it begins in after.
        self.request(At::Cwd, path, lookup)?;
        only(flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let held = keep(&self.request(dir.into(), path, lookup)?)?;
        let vfs = self.vfs();
        let forbidden = held.mnt_flags().contains(MntFlags::NOEXEC);
        match vfs.inode(held.inode()).file_type() {
            Some(FileType::Symlink) => return Err(Errno::ELOOP),
            Some(FileType::Regular) if !forbidden => {}
            _ => return Err(Errno::EACCES),
        }
        vfs.inode_permission(held.inode(), Access::EXEC, &held.seen_by(self.cred.subject()))?;
        // It is open from here on, also where it cannot run.
        let file = self.file_open(held, OpenFlags::RDONLY, None, None)?;
        file.fsnotify_open_exec();
        vfs.deny_write_access(file.inode())?;
        Ok(Executable(file))
    }
}

/// A file that runs: see [`Task::open_exec`].
#[derive(Debug)]
#[must_use = "the file may be written again when this is dropped"]
pub struct Executable(File);

impl Executable {
    /// The file, open for reading.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        self.0.vfs().allow_write_access(self.0.inode());
    }
}

/// The right to write to a regular file, as long as this lives; nobody runs it meanwhile.
#[must_use = "the right ends when this is dropped"]
pub(crate) struct WriteAccess<'v> {
    vfs: &'v Vfs,
    inode: InodeId,
}

impl Drop for WriteAccess<'_> {
    fn drop(&mut self) {
        self.vfs.put_write_access(self.inode);
    }
}

impl Vfs {
    /// Counts one more who writes to a regular file that the caller holds.
    ///
    /// # Errors
    ///
    /// - `ETXTBSY`: it runs.
    pub(crate) fn get_write_access(&self, inode: InodeId) -> Result<WriteAccess<'_>> {
        self.count_writers(
            inode,
            |count| if count < 0 { Err(Errno::ETXTBSY) } else { Ok(count + 1) },
        )?;
        Ok(WriteAccess { vfs: self, inode })
    }

    /// Counts one less who writes.
    pub(crate) fn put_write_access(&self, inode: InodeId) {
        let less = self.count_writers(inode, |count| Ok(count - 1));
        debug_assert!(less.is_ok(), "nothing refuses it");
    }

    fn deny_write_access(&self, inode: InodeId) -> Result<()> {
        self.count_writers(
            inode,
            |count| if count > 0 { Err(Errno::ETXTBSY) } else { Ok(count - 1) },
        )
    }

    fn allow_write_access(&self, inode: InodeId) {
        let less = self.count_writers(inode, |count| Ok(count + 1));
        debug_assert!(less.is_ok(), "nothing refuses it");
    }

    fn count_writers(&self, inode: InodeId, f: impl FnOnce(i32) -> Result<i32>) -> Result<()> {
        let slot = self.inode(inode);
        let _guard = slot.lockref.lock(lock::INODE);
        let count = slot.writers();
        count.set(f(count.get().cast_signed())?.cast_unsigned());
        Ok(())
    }
}
