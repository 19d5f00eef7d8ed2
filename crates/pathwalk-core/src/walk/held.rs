//! A place that outlives the walk: what open, chdir and mount keep.
//!
//! Linux: `struct path`.

use crate::{
    dcache::{DIRECTORY, Dentry, DentryId},
    inode::{InodeId, InodeRef},
    mount::{MntFlags, Mount, MountId, remount::Writing},
    vfs::{SbRef, Vfs},
};
use pathwalk_abi::Result;

/// A mount and a dentry, both counted.
pub(crate) struct HeldPath<'a> {
    vfs: &'a Vfs,
    mnt: MountId,
    dentry: DentryId,
    /// Whether the counts are another's, which is there for longer.
    lent: bool,
}

impl<'a> HeldPath<'a> {
    /// Takes over the caller's counts.
    pub(crate) fn new(vfs: &'a Vfs, mnt: MountId, dentry: DentryId) -> Self {
        Self { vfs, mnt, dentry, lent: false }
    }

    /// The same place by the same counts.
    pub(crate) fn lend(&self) -> HeldPath<'_> {
        HeldPath { lent: true, ..*self }
    }

    /// The counts, for who gives them back otherwise.
    pub(crate) fn into_raw(self) -> (MountId, DentryId) {
        assert!(!self.lent, "who lent them gives them back");
        let raw = (self.mnt, self.dentry);
        std::mem::forget(self);
        raw
    }

    /// Gives back the counts of a place that was only asked about: see [`Vfs::dput_keeping`].
    pub(crate) fn put_keeping(self) {
        let vfs = self.vfs;
        let (mnt, dentry) = self.into_raw();
        let _mnt = MountCount { vfs, id: mnt };
        vfs.dput_keeping(dentry);
    }

    pub(crate) fn vfs(&self) -> &'a Vfs {
        self.vfs
    }

    pub(crate) fn mnt(&self) -> MountId {
        self.mnt
    }

    pub(crate) fn mount(&self) -> &'a Mount {
        self.vfs.mount_slot(self.mnt)
    }

    pub(crate) fn dentry(&self) -> DentryId {
        self.dentry
    }

    pub(crate) fn slot(&self) -> &'a Dentry {
        self.vfs.dentry(self.dentry)
    }

    /// A held place is positive and stays so.
    pub(crate) fn inode(&self) -> InodeId {
        InodeId(self.slot().inode.get())
    }

    pub(crate) fn inode_ref(&self) -> InodeRef<'a> {
        self.vfs.inode_ref(self.inode())
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.slot().is(DIRECTORY)
    }

    /// The file system; there while the mount is.
    pub(crate) fn sb(&self) -> SbRef<'a> {
        self.vfs.superblock(self.slot().sb.get()).expect("a held mount keeps its superblock")
    }

    /// Whether the place is the root of its mount.
    ///
    /// Linux: `path_mounted`.
    pub(crate) fn is_mount_root(&self) -> bool {
        self.mount().root() == self.dentry
    }

    /// Notes that something is changed through the mount, until the result is dropped.
    ///
    /// # Errors
    ///
    /// `EROFS`: the mount or its file system is read-only.
    ///
    /// Linux: `mnt_want_write`.
    pub(crate) fn want_write(&self) -> Result<Writing<'a>> {
        Writing::new(self.vfs, self.mnt)
    }

    pub(crate) fn mnt_flags(&self) -> MntFlags {
        self.mount().flags()
    }
}

/// A count of a mount by who used it. It goes behind the dentry's, also where the file system panics at that.
pub(crate) struct MountCount<'a> {
    pub(crate) vfs: &'a Vfs,
    pub(crate) id: MountId,
}

impl Drop for MountCount<'_> {
    fn drop(&mut self) {
        self.vfs.mntput_used(self.id);
    }
}

impl Drop for HeldPath<'_> {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        let _mnt = MountCount { vfs: self.vfs, id: self.mnt };
        self.vfs.dput(self.dentry);
    }
}
