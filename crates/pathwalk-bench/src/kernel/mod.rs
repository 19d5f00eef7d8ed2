//! The running kernel as a contender: the answers everyone else must give, and the rate to beat.
//!
//! ```text
//!  Chroot::tmpfs ─┐ detached mount ─ load ─► each thread: unshare(CLONE_FS), fchdir, chroot
//!  Chroot::ext4 ──┘
//!  Prefixed ──────── temporary directory ─► every path with the directory before it
//! ```
//!
//! There are two file systems because they differ: ext4 keeps negative dentries, tmpfs asks its
//! directory again for every name that is not there.

mod load;
mod mounts;

use std::ffi::{CStr, OsStr};
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use pathwalk_abi::Errno;
use rustix::fs::Access;
use rustix::thread::UnshareFlags;
use tempfile::TempDir;

use crate::Error;
use crate::contender::{Contender, Worker};
use crate::tree::Tree;

/// The kernel, each thread chrooted into a file system that holds the tree and nothing else.
///
/// The file system is mounted for this value alone, in no mount namespace, and goes with it, also
/// if the process is killed.
#[derive(Debug)]
pub struct Chroot {
    name: &'static str,
    root: OwnedFd,
}

impl Chroot {
    /// Loads the tree into a new tmpfs: the contender `kernel-tmpfs`.
    ///
    /// # Errors
    ///
    /// Without the right to mount or to chroot, and for anything that fails on the way.
    pub fn tmpfs(tree: &Tree) -> Result<Chroot, Error> {
        Chroot::load("kernel-tmpfs", mounts::tmpfs()?, tree)
    }

    /// Loads the tree into a new ext4 on a loop device: the contender `kernel-ext4`.
    ///
    /// # Errors
    ///
    /// Without the right to mount or to chroot, without `losetup` or `mkfs.ext4`, and for anything
    /// that fails on the way.
    pub fn ext4(tree: &Tree) -> Result<Chroot, Error> {
        Chroot::load("kernel-ext4", mounts::ext4()?, tree)
    }

    fn load(name: &'static str, root: OwnedFd, tree: &Tree) -> Result<Chroot, Error> {
        load::load(tree, &root, b"")?;
        Ok(Chroot { name, root })
    }
}

impl Contender for Chroot {
    type Worker = ChrootWorker;

    fn name(&self) -> &str {
        self.name
    }

    fn worker(&self) -> Result<ChrootWorker, Error> {
        unshare_fs().map_err(|cause| Error::doing("unshare(CLONE_FS)", cause))?;
        rustix::process::fchdir(&self.root).map_err(|cause| Error::doing("fchdir", cause))?;
        rustix::process::chroot(".").map_err(|cause| Error::doing("chroot", cause))?;
        Ok(ChrootWorker(PhantomData))
    }
}

/// Gives the calling thread a root and a working directory of its own.
#[expect(unsafe_code, reason = "rustix marks unshare unsafe for the sake of other flags")]
fn unshare_fs() -> rustix::io::Result<()> {
    // SAFETY: only CLONE_FILES needs care, since it lets descriptors mean different files in
    // different threads; CLONE_FS leaves the descriptors shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
}

/// Calls access(2) in a thread whose root is the contender's; it stays in that thread.
#[derive(Debug)]
pub struct ChrootWorker(PhantomData<*const ()>);

impl Worker for ChrootWorker {
    #[inline]
    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        access(path)
    }
}

/// The kernel for those who may not mount: a temporary directory, named at the head of every path.
///
/// Its walks are longer by the components of that directory, so its times flatter whoever is
/// compared with it.
#[derive(Debug)]
pub struct Prefixed {
    root: TempDir,
}

impl Prefixed {
    /// Loads the tree into a new temporary directory: the contender `kernel-tmpdir`.
    ///
    /// # Errors
    ///
    /// For anything that fails on the way.
    pub fn tmpdir(tree: &Tree) -> Result<Prefixed, Error> {
        let root = tempfile::Builder::new()
            .prefix("pathwalk-bench-")
            .tempdir()
            .map_err(|cause| Error::doing("making a temporary directory", cause))?;
        let dir = rustix::fs::open(
            root.path(),
            rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .map_err(|cause| Error::doing("opening a temporary directory", cause))?;
        load::load(tree, &dir, root.path().as_os_str().as_bytes())?;
        Ok(Prefixed { root })
    }
}

impl Contender for Prefixed {
    type Worker = PrefixedWorker;

    fn name(&self) -> &str {
        "kernel-tmpdir"
    }

    fn spell(&self, path: &[u8]) -> Vec<u8> {
        let mut spelt = self.root.path().to_owned().into_os_string();
        spelt.push(OsStr::from_bytes(path));
        spelt.into_encoded_bytes()
    }

    fn worker(&self) -> Result<PrefixedWorker, Error> {
        Ok(PrefixedWorker(()))
    }
}

/// Calls access(2) in any thread.
#[derive(Debug)]
pub struct PrefixedWorker(());

impl Worker for PrefixedWorker {
    #[inline]
    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        access(path)
    }
}

/// `access(path, F_OK)`: one system call instruction, without the C library and without a copy.
#[inline]
fn access(path: &CStr) -> Result<(), Errno> {
    rustix::fs::access(path, Access::EXISTS)
        // A number outside the errors of Linux cannot come from the kernel.
        .map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO))
}
