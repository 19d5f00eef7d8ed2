//! What a walk has counted of a place that it may come to, while a file system is asked there: it is given back whatever
//! becomes of that, also where the file system panics.

use super::{Place, Walk, hold::Hold, observe::Observer};
use crate::{dcache::DentryId, mount::MountId, vfs::Vfs};

/// Counts of a dentry and of its mount, where that is not the one that the walk is in and has counted.
pub(crate) struct Counts<'v> {
    vfs: &'v Vfs,
    dentry: DentryId,
    mnt: Option<MountId>,
}

impl<'v> Counts<'v> {
    /// Takes over the caller's count of a name in the walk's mount.
    pub(crate) fn of_child(vfs: &'v Vfs, dentry: DentryId) -> Self {
        Self { vfs, dentry, mnt: None }
    }

    /// Takes over the caller's counts of what is mounted somewhere.
    pub(super) fn of_mounted(vfs: &'v Vfs, mnt: MountId, root: DentryId) -> Self {
        Self { vfs, dentry: root, mnt: Some(mnt) }
    }

    /// The same once more.
    pub(super) fn again(&self) -> Self {
        self.vfs.dget(self.dentry);
        if let Some(mnt) = self.mnt {
            self.vfs.mntget(mnt);
        }
        Self { ..*self }
    }

    pub(crate) fn dentry(&self) -> DentryId {
        self.dentry
    }

    /// Gives back the count of a name that was only asked about: see [`Vfs::dput_keeping`].
    pub(super) fn put_keeping(self) {
        debug_assert!(self.mnt.is_none(), "what is mounted is no file");
        self.vfs.dput_keeping(self.into_raw());
    }

    /// The counts, for who gives them back otherwise.
    pub(crate) fn into_raw(self) -> DentryId {
        let dentry = self.dentry;
        std::mem::forget(self);
        dentry
    }
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.vfs.dput(self.dentry);
        if let Some(mnt) = self.mnt {
            self.vfs.mntput(mnt);
        }
    }
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Takes over what a walk that holds has counted of a place that it came to.
    pub(super) fn counts_of(&self, place: &Place) -> Counts<'a> {
        let mnt = (place.mnt != self.at.mnt).then_some(place.mnt);
        Counts { vfs: self.vfs, dentry: place.dentry, mnt }
    }
}
