//! The kernel's calls: one system call instruction each, without the C library and without a copy.

use std::ffi::{CStr, CString};
use std::hint::black_box;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pathwalk_abi::{Errno, OpenFlags};
use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, Stat, Statx, StatxFlags, Uid, XattrFlags,
};
use rustix::mount::{MountFlags, UnmountFlags};

use super::Place;
use super::realpath::{self, Scratch};
use crate::contender::{Look, Mounted, Worker};

/// Makes system calls in a thread that sees the contender's file system; it stays in that thread.
#[derive(Debug)]
pub struct KernelWorker {
    pub(super) place: Arc<Place>,
    pub(super) stays: PhantomData<*const ()>,
    pub(super) scratch: Scratch,
    /// Whether null is a path, as far as is known.
    pub(super) takes_null: bool,
}

impl KernelWorker {
    /// Where a path begins, and what is left of it.
    #[inline]
    fn at<'a>(&'a self, path: &'a CStr) -> (BorrowedFd<'a>, &'a CStr) {
        match self.place.directory() {
            None => (CWD, path),
            Some(directory) => (directory, relative(path)),
        }
    }

    /// Makes a symlink; an absolute target begins where paths begin.
    fn symlink_in(&self, target: &CStr, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        if target.to_bytes().starts_with(b"/") {
            rustix::fs::symlinkat(self.long(target), dir, name).map_err(errno)
        } else {
            rustix::fs::symlinkat(target, dir, name).map_err(errno)
        }
    }

    /// The same with an absolute path, for calls that take no directory.
    fn long(&self, path: &CStr) -> CString {
        let long = [self.place.prefix(), path.to_bytes()].concat();
        CString::new(long).expect("made of two strings without NUL")
    }
}

/// A path from the root of a file system that is not the root.
fn relative(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let slashes = bytes.iter().take_while(|&&byte| byte == b'/').count();
    match CStr::from_bytes_with_nul(&bytes[slashes..]) {
        Ok(rest) if !rest.is_empty() => rest,
        _ => c".",
    }
}

impl Worker for KernelWorker {
    type File = OwnedFd;

    #[inline]
    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        rustix::fs::accessat(at, path, Access::EXISTS, AtFlags::empty()).map_err(errno)
    }

    #[inline]
    fn stat(&mut self, path: &CStr) -> Result<Look, Errno> {
        let (at, path) = self.at(path);
        rustix::fs::statat(at, path, AtFlags::empty()).map(look).map_err(errno)
    }

    #[inline]
    fn lstat(&mut self, path: &CStr) -> Result<Look, Errno> {
        let (at, path) = self.at(path);
        rustix::fs::statat(at, path, AtFlags::SYMLINK_NOFOLLOW).map(look).map_err(errno)
    }

    /// Who may not mount reads an absolute body with the directory before it, as it was made.
    #[inline]
    fn readlink(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
        let (at, path) = self.at(path);
        let len = rustix::fs::readlinkat_raw(at, path, &mut *buf).map_err(errno)?;
        let prefix = self.place.prefix();
        if prefix.is_empty() || !buf[..len].starts_with(prefix) {
            return Ok(len);
        }
        buf.copy_within(prefix.len()..len, 0);
        Ok(len - prefix.len())
    }

    fn realpath(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let len = realpath::realpath(self, path, &mut scratch, buf);
        self.scratch = scratch;
        len
    }

    #[inline]
    fn statx(&mut self, path: &CStr) -> Result<Look, Errno> {
        let (at, path) = self.at(path);
        rustix::fs::statx(at, path, AtFlags::empty(), StatxFlags::BASIC_STATS)
            .map(look_x)
            .map_err(errno)
    }

    #[inline]
    fn open(&mut self, path: &CStr, flags: OpenFlags, mode: u32) -> Result<OwnedFd, Errno> {
        let (at, path) = self.at(path);
        let flags = OFlags::from_bits_retain(flags.bits() as u32) | OFlags::CLOEXEC;
        rustix::fs::openat(at, path, flags, Mode::from_raw_mode(mode)).map_err(errno)
    }

    #[inline]
    fn fstat(&mut self, file: &OwnedFd) -> Result<Look, Errno> {
        rustix::fs::fstat(file).map(look).map_err(errno)
    }

    #[inline]
    fn fstatat_empty(&mut self, file: &OwnedFd) -> Result<Look, Errno> {
        rustix::fs::statat(file, c"", AtFlags::EMPTY_PATH).map(look).map_err(errno)
    }

    #[inline]
    fn statx_empty(&mut self, file: &OwnedFd) -> Result<Look, Errno> {
        rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
            .map(look_x)
            .map_err(errno)
    }

    /// Linux takes null for an empty path since 6.11; who runs on an older one is told so once, by `EFAULT`.
    #[inline]
    fn statx_null(&mut self, file: &OwnedFd) -> Result<Look, Errno> {
        if self.takes_null {
            match super::statx_null(file.as_fd()) {
                Err(rustix::io::Errno::FAULT) => self.takes_null = false,
                told => return told.map(look_null).map_err(errno),
            }
        }
        self.statx_empty(file)
    }

    #[inline]
    fn openat(&mut self, dir: &OwnedFd, name: &CStr, flags: OpenFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::from_bits_retain(flags.bits() as u32) | OFlags::CLOEXEC;
        rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(errno)
    }

    #[inline]
    fn statx_at(&mut self, dir: &OwnedFd, name: &CStr) -> Result<Look, Errno> {
        rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
            .map(look_x)
            .map_err(errno)
    }

    #[inline]
    fn getdents(&mut self, dir: &OwnedFd, buf: &mut [u8]) -> Result<usize, Errno> {
        super::getdents64(dir.as_fd(), buf).map_err(errno)
    }

    #[inline]
    fn mkdir(&mut self, path: &CStr, mode: u32) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        rustix::fs::mkdirat(at, path, Mode::from_raw_mode(mode)).map_err(errno)
    }

    fn symlink(&mut self, target: &CStr, path: &CStr) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        self.symlink_in(target, at, path)
    }

    #[inline]
    fn mkdirat(&mut self, dir: &OwnedFd, name: &CStr, mode: u32) -> Result<(), Errno> {
        rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode)).map_err(errno)
    }

    fn symlinkat(&mut self, target: &CStr, dir: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        self.symlink_in(target, dir.as_fd(), name)
    }

    #[inline]
    fn mknodat(&mut self, dir: &OwnedFd, name: &CStr, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::mknodat(dir, name, rustix::fs::FileType::RegularFile, mode, 0).map_err(errno)
    }

    #[inline]
    fn rmdir(&mut self, path: &CStr) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        rustix::fs::unlinkat(at, path, AtFlags::REMOVEDIR).map_err(errno)
    }

    #[inline]
    fn unlink(&mut self, path: &CStr) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        rustix::fs::unlinkat(at, path, AtFlags::empty()).map_err(errno)
    }

    #[inline]
    fn rename(&mut self, old: &CStr, new: &CStr) -> Result<(), Errno> {
        let ((old_at, old), (new_at, new)) = (self.at(old), self.at(new));
        rustix::fs::renameat(old_at, old, new_at, new).map_err(errno)
    }

    fn chmod(&mut self, path: &CStr, mode: u32) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        rustix::fs::chmodat(at, path, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(errno)
    }

    fn chown(&mut self, path: &CStr, uid: u32, gid: u32) -> Result<(), Errno> {
        let (at, path) = self.at(path);
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(at, path, Some(uid), Some(gid), AtFlags::empty()).map_err(errno)
    }

    fn setxattr(&mut self, path: &CStr, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        rustix::fs::setxattr(self.long(path), name, value, XattrFlags::empty()).map_err(errno)
    }

    #[inline]
    fn mount(&mut self, _what: Mounted, path: &CStr) -> Result<(), Errno> {
        if self.place.directory().is_some() {
            return Err(Errno::EPERM);
        }
        rustix::mount::mount(c"tmpfs", path, c"tmpfs", MountFlags::empty(), None).map_err(errno)
    }

    #[inline]
    fn umount(&mut self, path: &CStr) -> Result<(), Errno> {
        if self.place.directory().is_some() {
            return Err(Errno::EPERM);
        }
        rustix::mount::unmount(path, UnmountFlags::DETACH).map_err(errno)
    }

    fn umask(&mut self, mask: u32) -> u32 {
        rustix::process::umask(Mode::from_raw_mode(mask)).as_raw_mode()
    }
}

#[inline]
fn look(stat: Stat) -> Look {
    let stat = black_box(&stat);
    Look::of(stat.st_mode, stat.st_nlink as u32, stat.st_size as u64)
}

#[inline]
fn look_x(stat: Statx) -> Look {
    let stat = black_box(&stat);
    Look::of(u32::from(stat.stx_mode), stat.stx_nlink, stat.stx_size)
}

/// The same of the C library's structure, which is the kernel's.
#[inline]
fn look_null(stat: libc::statx) -> Look {
    let stat = black_box(&stat);
    Look::of(u32::from(stat.stx_mode), stat.stx_nlink, stat.stx_size)
}

/// A number outside the errors of Linux cannot come from the kernel.
#[inline]
fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO)
}
