//! What a file system keeps for one opening of a file.

use super::Emit;
use crate::inode::InodeRef;
use pathwalk_abi::{Errno, Result, Timespec};
use std::os::fd::BorrowedFd;

/// What a file system keeps for one opening, if it keeps anything.
pub(crate) type Handle = Option<Box<dyn OpenHandle>>;

/// An open file as its file system keeps it: made by [`FileSystem::open`](super::FileSystem::open), dropped when the last
/// that has the file closes it, whatever became of its name.
///
/// Its methods are called as those of the file system are, by any number of threads at once.
///
/// Linux: `struct file` as `f_op` sees it; `private_data`.
pub trait OpenHandle: Send + Sync {
    /// As [`FileSystem::read`](super::FileSystem::read).
    ///
    /// # Errors
    ///
    /// `EIO` and its like.
    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// As [`FileSystem::write`](super::FileSystem::write).
    ///
    /// # Errors
    ///
    /// - `EFBIG`: the offset lies behind what a file can have.
    /// - `ENOSPC`: there is no room for a single byte.
    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        now: Timespec,
    ) -> Result<(u64, usize)>;

    /// As [`FileSystem::readdir`](super::FileSystem::readdir).
    ///
    /// # Errors
    ///
    /// `EIO` and its like.
    fn readdir(&self, dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        let _ = (dir, offset, emit);
        Err(Errno::EIO)
    }

    /// The position in a directory that lies so far behind its end, or before it; where that is, file systems differ.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: there is no such position.
    fn seek_end(&self, dir: InodeRef<'_>, by: i64) -> Result<u64> {
        dir.attr().size.checked_add_signed(by).ok_or(Errno::EINVAL)
    }

    /// The descriptor of the host that this opening is, if it is one: read, write, mmap and exec by it are the host's own.
    ///
    /// Its position is not that of the [`File`](crate::File). What is changed by it the cache must learn:
    /// [`InodeRef::ask_for_attributes`].
    fn host_fd(&self, inode: InodeRef<'_>) -> Option<BorrowedFd<'_>> {
        let _ = inode;
        None
    }
}
