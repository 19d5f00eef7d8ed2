//! What takes part in a benchmark: a contender, and a worker of it in each thread.
//!
//! ```text
//!   Contender          one machine: the kernel with a file system, pathwalk, another way
//!     └ Worker         who makes the calls in one thread: one method per call
//! ```
//!
//! A workload is written once, generic over the worker, so that every contender is called as directly
//! as by a program of its own, and does the same.

use std::ffi::CStr;

use pathwalk_abi::{Errno, FileType, OpenFlags};

use crate::Error;

/// One way to answer the calls.
pub trait Contender: Send + Sync + 'static {
    /// What makes the calls in one thread.
    type Worker: Worker;

    /// Whether the calls answer what Linux answers; the floor's do not.
    const ANSWERS: bool = true;

    /// Whether its calls leave work for later: the kernel frees what was dropped when nobody can look at it any more.
    const LEAVES_WORK: bool = false;

    /// Returns the name of its rows in the report.
    fn name(&self) -> &str;

    /// Makes the worker of the calling thread, which it never leaves: a root directory, for one,
    /// can belong to a thread.
    ///
    /// # Errors
    ///
    /// Where the thread cannot be given what the calls need.
    fn worker(&self) -> Result<Self::Worker, Error>;

    /// Bytes of memory behind the names and inodes, where it can tell.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// What a call that tells about a file told, as far as file systems must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The type and the permission bits.
    pub mode: u32,
    /// The number of names; of a directory, where file systems count differently, 0.
    pub nlink: u32,
    /// The size; of a directory 0.
    pub size: u64,
}

impl Look {
    /// What of these file systems must agree on.
    #[inline]
    pub(crate) fn of(mode: u32, nlink: u32, size: u64) -> Self {
        let directory = FileType::from_mode(mode) == Some(FileType::Directory);
        let (nlink, size) = if directory { (0, 0) } else { (nlink, size) };
        Self { mode, nlink, size }
    }
}

/// What is mounted by [`Worker::mount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounted {
    /// A file system in memory.
    Memory,
    /// One with a permission method of its own. The kernel mounts one in memory.
    Asking {
        /// Whether directories that everyone may search need not be asked about.
        opts_in: bool,
    },
    /// One that is asked for names, as a disk or a server is. The kernel mounts one in memory.
    Incomplete,
}

/// What makes the calls in one thread, each named as in Linux.
///
/// Paths are C strings, so that nobody has to copy them: the kernel wants the NUL, and the bytes
/// without it are as near. Every method fails with what Linux' call fails with.
#[expect(missing_docs, clippy::missing_errors_doc, reason = "one for all, above")]
pub trait Worker {
    /// An open file; dropping it closes it.
    type File;

    fn access(&mut self, path: &CStr) -> Result<(), Errno>;
    fn stat(&mut self, path: &CStr) -> Result<Look, Errno>;
    fn lstat(&mut self, path: &CStr) -> Result<Look, Errno>;
    fn statx(&mut self, path: &CStr) -> Result<Look, Errno>;
    fn readlink(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno>;
    /// The canonical path: in one call, or as a C library finds it where there is no such call.
    fn realpath(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno>;
    fn open(&mut self, path: &CStr, flags: OpenFlags, mode: u32) -> Result<Self::File, Errno>;

    fn fstat(&mut self, file: &Self::File) -> Result<Look, Errno>;
    /// `fstatat(file, "", AT_EMPTY_PATH)`.
    fn fstatat_empty(&mut self, file: &Self::File) -> Result<Look, Errno>;
    /// `statx(file, "", AT_EMPTY_PATH)`.
    fn statx_empty(&mut self, file: &Self::File) -> Result<Look, Errno>;
    /// `statx(file, NULL, AT_EMPTY_PATH)`; where null is no path yet, the same with `""`.
    fn statx_null(&mut self, file: &Self::File) -> Result<Look, Errno>;

    /// `openat(dir, name, flags)`.
    fn openat(
        &mut self,
        dir: &Self::File,
        name: &CStr,
        flags: OpenFlags,
    ) -> Result<Self::File, Errno>;
    /// `statx(dir, name, AT_SYMLINK_NOFOLLOW)`.
    fn statx_at(&mut self, dir: &Self::File, name: &CStr) -> Result<Look, Errno>;
    /// `getdents64(dir, buf)`: returns how many bytes.
    fn getdents(&mut self, dir: &Self::File, buf: &mut [u8]) -> Result<usize, Errno>;

    fn mkdir(&mut self, path: &CStr, mode: u32) -> Result<(), Errno>;
    fn symlink(&mut self, target: &CStr, path: &CStr) -> Result<(), Errno>;
    fn mkdirat(&mut self, dir: &Self::File, name: &CStr, mode: u32) -> Result<(), Errno>;
    fn symlinkat(&mut self, target: &CStr, dir: &Self::File, name: &CStr) -> Result<(), Errno>;
    /// `mknodat(dir, name, mode, 0)`: a regular file.
    fn mknodat(&mut self, dir: &Self::File, name: &CStr, mode: u32) -> Result<(), Errno>;
    fn rmdir(&mut self, path: &CStr) -> Result<(), Errno>;
    fn unlink(&mut self, path: &CStr) -> Result<(), Errno>;
    fn rename(&mut self, old: &CStr, new: &CStr) -> Result<(), Errno>;
    fn chmod(&mut self, path: &CStr, mode: u32) -> Result<(), Errno>;
    fn chown(&mut self, path: &CStr, uid: u32, gid: u32) -> Result<(), Errno>;
    fn setxattr(&mut self, path: &CStr, name: &CStr, value: &[u8]) -> Result<(), Errno>;

    fn mount(&mut self, what: Mounted, path: &CStr) -> Result<(), Errno>;
    /// `umount2(path, MNT_DETACH)`.
    fn umount(&mut self, path: &CStr) -> Result<(), Errno>;

    fn umask(&mut self, mask: u32) -> u32;

    /// How many walks of this thread had to hold their place so far, where that can be seen.
    fn held(&self) -> Option<u64> {
        None
    }
}
