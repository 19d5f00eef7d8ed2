//! The running kernel as a contender: the answers everyone else must give, and the rate to beat.
//!
//! ```text
//!  Kernel::tmpfs ─┐ mounted in a namespace of its own ─► each thread enters it and chroots
//!  Kernel::ext4 ──┘
//!  Kernel::tmpdir ─ temporary directory ───────────────► every path relative to its descriptor
//! ```
//!
//! There are two file systems because they differ: ext4 keeps negative dentries, tmpfs asks its
//! directory again for every name that is not there.

mod mounts;
mod realpath;
mod worker;

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Arc;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountPropagationFlags, MoveMountFlags, mount_change, move_mount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use tempfile::TempDir;

use crate::Error;
use crate::contender::Contender;

pub use worker::KernelWorker;

/// The kernel with an empty file system.
#[derive(Debug)]
pub struct Kernel {
    name: &'static str,
    place: Arc<Place>,
}

/// Where its files are.
#[derive(Debug)]
enum Place {
    /// A file system that is the root in a mount namespace; both go with this value and its threads,
    /// also if the process is killed.
    Mount { namespace: OwnedFd, root: OwnedFd },
    /// A directory, for those who may not mount.
    Directory { dir: TempDir, root: OwnedFd },
}

impl Kernel {
    /// Mounts a new tmpfs: the contender `kernel-tmpfs`.
    ///
    /// # Errors
    ///
    /// Without the right to mount or to chroot, and for anything that fails on the way.
    pub fn tmpfs() -> Result<Kernel, Error> {
        Kernel::mounted("kernel-tmpfs", mounts::tmpfs()?)
    }

    /// Mounts a new ext4 on a loop device, with room for so many files: the contender `kernel-ext4`.
    ///
    /// # Errors
    ///
    /// Without the right to mount or to chroot, without `losetup` or `mkfs.ext4`, and for anything
    /// that fails on the way.
    pub fn ext4(files: u64) -> Result<Kernel, Error> {
        Kernel::mounted("kernel-ext4", mounts::ext4(files)?)
    }

    /// Makes a new temporary directory: the contender `kernel-tmpdir`. It cannot mount, and its
    /// absolute symlinks are longer by the directory's path.
    ///
    /// # Errors
    ///
    /// For anything that fails on the way.
    pub fn tmpdir() -> Result<Kernel, Error> {
        let dir = tempfile::Builder::new()
            .prefix("pathwalk-bench-")
            .tempdir()
            .map_err(|cause| Error::doing("making a temporary directory", cause))?;
        let root = rustix::fs::open(
            dir.path(),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|cause| Error::doing("opening a temporary directory", cause))?;
        Ok(Kernel { name: "kernel-tmpdir", place: Arc::new(Place::Directory { dir, root }) })
    }

    /// Hangs a mount over the root of a new mount namespace, in a thread that is gone afterwards.
    fn mounted(name: &'static str, root: OwnedFd) -> Result<Kernel, Error> {
        let make = || {
            unshare(UnshareFlags::FS | UnshareFlags::NEWNS)?;
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
            move_mount(&root, c"", CWD, c"/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open("/proc/thread-self/ns/mnt", flags, Mode::empty())
        };
        let made = thread::scope(|scope| scope.spawn(make).join());
        let namespace = made
            .map_err(|_| Error::new("the thread that makes a mount namespace died"))?
            .map_err(|cause| Error::doing("making a mount namespace", cause))?;
        Ok(Kernel { name, place: Arc::new(Place::Mount { namespace, root }) })
    }
}

impl Contender for Kernel {
    type Worker = KernelWorker;

    const LEAVES_WORK: bool = true;

    fn name(&self) -> &str {
        self.name
    }

    fn worker(&self) -> Result<KernelWorker, Error> {
        if let Place::Mount { namespace, root } = &*self.place {
            let enter = || {
                unshare(UnshareFlags::FS)?;
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
                rustix::process::fchdir(root)?;
                rustix::process::chroot(".")
            };
            enter().map_err(|cause| Error::doing("entering a mount namespace", cause))?;
        }
        Ok(KernelWorker {
            place: Arc::clone(&self.place),
            stays: PhantomData,
            scratch: realpath::Scratch::default(),
            takes_null: true,
        })
    }
}

impl Place {
    /// What relative paths begin at; paths stay absolute in a file system that is the root.
    fn directory(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Place::Mount { .. } => None,
            Place::Directory { root, .. } => Some(root.as_fd()),
        }
    }

    /// What stands before the absolute symlinks.
    fn prefix(&self) -> &[u8] {
        match self {
            Place::Mount { .. } => b"",
            Place::Directory { dir, .. } => dir.path().as_os_str().as_bytes(),
        }
    }
}

/// Gives the calling thread a root, a working directory and perhaps mounts of its own.
#[expect(unsafe_code, reason = "rustix marks unshare unsafe for the sake of other flags")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: only CLONE_FILES needs care, since it lets descriptors mean different files in
    // different threads; the flags given here leave the descriptors shared.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// `getdents64(dir, buf)`: lists a directory into a buffer; rustix has only an iterator of its own.
#[expect(unsafe_code, reason = "a system call that nobody wraps")]
fn getdents64(dir: BorrowedFd<'_>, buf: &mut [u8]) -> rustix::io::Result<usize> {
    let (fd, at, len) = (dir.as_raw_fd(), buf.as_mut_ptr(), buf.len());
    // SAFETY: the kernel writes at most `len` bytes at `at`, which the slice lends for the call.
    let got = unsafe { libc::syscall(libc::SYS_getdents64, fd, at, len) };
    usize::try_from(got).map_err(|_| last_errno())
}

/// `statx(fd, NULL, AT_EMPTY_PATH, STATX_BASIC_STATS)`: rustix has no way to give no path.
#[expect(unsafe_code, reason = "a system call that nobody wraps")]
fn statx_null(fd: BorrowedFd<'_>) -> rustix::io::Result<libc::statx> {
    let (flags, mask) = (libc::AT_EMPTY_PATH, libc::STATX_BASIC_STATS);
    let mut stat = MaybeUninit::<libc::statx>::uninit();
    let (fd, at) = (fd.as_raw_fd(), stat.as_mut_ptr());
    let path = ptr::null::<libc::c_char>();
    // SAFETY: the kernel writes one `struct statx` at `at`, which has room for it, and reads no path at null: it takes it for
    // an empty one, or says EFAULT.
    let done = unsafe { libc::syscall(libc::SYS_statx, fd, path, flags, mask, at) };
    if done != 0 {
        return Err(last_errno());
    }
    // SAFETY: the call succeeded, and then the kernel wrote the whole structure.
    Ok(unsafe { stat.assume_init() })
}

/// Why the last call by the C library failed.
fn last_errno() -> rustix::io::Errno {
    let error = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}

#[cfg(test)]
mod tests {
    use pathwalk_abi::OpenFlags;

    use super::*;
    use crate::contender::Worker;

    #[test]
    fn who_names_no_path_is_told_of_the_file_itself() {
        let kernel = Kernel::tmpdir().expect("a temporary directory");
        let mut worker = kernel.worker().expect("a worker");
        let file = worker.open(c"/file", OpenFlags::CREAT | OpenFlags::WRONLY, 0o600);
        let file = file.expect("a file");
        let want = worker.fstat(&file);
        assert!(want.is_ok_and(|look| look.nlink == 1));
        assert_eq!(worker.statx_null(&file), want);
        // So does who runs on an older kernel, and he asks no more.
        worker.takes_null = false;
        assert_eq!(worker.statx_null(&file), want);
    }
}
