//! Changing the flags of mounts and of superblocks, and who is in the way of making them read-only.
//!
//! Each mount counts, in stripes, the files that are open for writing through it. Who makes it read-only writes the flag
//! first and sums after; who opens counts first and looks after: one of the two sees the other.
//!
//! Linux: `do_reconfigure_mnt`, `do_remount`, `reconfigure_super`, `mnt_hold_writers`.

use super::{
    MntFlags, MountId, NsId,
    tree::{Mounts, TreeGuard},
};
use crate::{
    cred::Subject,
    idmap::{IdmapBlobs, NewIdmap},
    ops::mount_setattr::{Change, ChangeIdmap},
    security::{Hooks, PathRef},
    vfs::{SuperBlock, Vfs},
    walk::HeldPath,
};
use pathwalk_abi::{Errno, MountFlags, Result};
use pathwalk_sync::Spin;
use smallvec::smallvec;

/// What a superblock keeps of mount(2)'s flags.
const SB_FLAGS: MountFlags = MountFlags::RDONLY
    .union(MountFlags::SYNCHRONOUS)
    .union(MountFlags::MANDLOCK)
    .union(MountFlags::DIRSYNC)
    .union(MountFlags::LAZYTIME);

/// What remounting changes of it.
const REMOUNT: MountFlags = SB_FLAGS.difference(MountFlags::DIRSYNC);

/// The superblock's flags of a new mount.
pub(crate) fn sb_flags(flags: MountFlags) -> MountFlags {
    flags & SB_FLAGS
}

impl Vfs {
    /// Notes that something is written through a mount. Who tries to make it read-only at this moment is waited for.
    ///
    /// # Errors
    ///
    /// `EROFS`: the mount or its file system is read-only.
    ///
    /// Linux: `mnt_get_write_access`.
    pub(crate) fn mnt_get_write_access(&self, id: MountId) -> Result<()> {
        let mount = self.mount_slot(id);
        let writers = self.mount_writers.get(id.0);
        let refusing = MntFlags::RDONLY | MntFlags::SB_RDONLY | MntFlags::WRITE_HOLD;
        let mut spin = Spin::default();
        while !writers.get_if(|| !mount.flags().intersects(refusing)) {
            if mount.flags().read_only() {
                return Err(Errno::EROFS);
            }
            spin.turn();
        }
        Ok(())
    }

    /// Linux: `mnt_put_write_access`.
    pub(crate) fn mnt_put_write_access(&self, id: MountId) {
        self.mount_writers.get(id.0).put();
    }

    /// Changes the flags of the mount whose root the place is: `MS_REMOUNT` with `MS_BIND`.
    ///
    /// # Errors
    ///
    /// - `EPERM`: a locked flag would change.
    /// - `EBUSY`: it would become read-only, and files are open for writing through it.
    pub(crate) fn reconfigure_mnt(&self, at: &HeldPath<'_>, flags: MntFlags) -> Result<()> {
        let tree = self.mount_tree();
        at.mnt_flags().may_become(flags)?;
        let mut wait = WritersWait::none(self);
        if flags.contains(MntFlags::RDONLY) && !at.mnt_flags().read_only() {
            wait.hold(at.mnt())?;
        }
        tree.set_attributes(at.mnt(), flags);
        Ok(())
    }

    /// Changes the flags of a superblock, and then those of the mount whose root the place is: `MS_REMOUNT`.
    ///
    /// # Errors
    ///
    /// - `EPERM`: a locked flag of the mount would change.
    /// - what the security module answers.
    /// - `EBUSY`: the file system would become read-only, and files are open for writing in it, or are there without a name.
    pub(crate) fn remount(
        &self,
        at: &HeldPath<'_>,
        ms: MountFlags,
        flags: MntFlags,
        who: &Subject<'_>,
    ) -> Result<()> {
        // What is locked was so before anybody could come here, or comes from who moves the mount just now.
        at.mnt_flags().may_become(flags)?;
        // One hold for both: a mount never says that it is read-only while files are open for writing through it.
        let tree = self.reconfigure_super(at, ms & REMOUNT, REMOUNT, who)?;
        tree.set_attributes(at.mnt(), flags);
        Ok(())
    }

    /// Makes the file system of the root read-only: what umount(2) does to the caller's root.
    ///
    /// # Errors
    ///
    /// As [`Vfs::remount`].
    pub(super) fn umount_root(&self, at: &HeldPath<'_>, who: &Subject<'_>) -> Result<()> {
        self.reconfigure_super(at, MountFlags::RDONLY, MountFlags::RDONLY, who).map(drop)
    }

    /// Changes the flags of the mount whose root the place is, and perhaps of all below it; all or none.
    ///
    /// # Errors
    ///
    /// - those of [`TreeGuard::mount_setattr_prepare`].
    /// - `ENOMEM`: there is no room for the map.
    ///
    /// Linux: `do_mount_setattr`, `mount_setattr_commit`.
    pub(crate) fn do_mount_setattr(
        &self,
        at: &HeldPath<'_>,
        ns: NsId,
        change: &Change,
    ) -> Result<()> {
        let idmap = match &change.idmap {
            ChangeIdmap::Set(map) => {
                // What is refused evicts no names for its map. Room is made without the tree's lock, so it is asked twice.
                drop(self.mount_tree().mount_setattr_prepare(at, ns, change)?);
                Some(NewIdmap::store(self, map)?)
            }
            ChangeIdmap::Keep | ChangeIdmap::Clear => None,
        };
        let mut tree = self.mount_tree();
        let (changed, _wait) = tree.mount_setattr_prepare(at, ns, change)?;
        let blobs = idmap.map_or(IdmapBlobs::NONE, NewIdmap::keep);
        for id in changed {
            if change.maps() {
                let held = self.mount_slot(id).flags().contains(MntFlags::WRITE_HOLD);
                debug_assert!(held, "nobody writes while owners come to be seen otherwise");
                tree.set_idmap(id, blobs);
            }
            let flags = self.mount_slot(id).flags();
            tree.set_flags(id, flags.difference(change.clear) | change.set);
            if let Some(propagation) = change.propagation {
                tree.change_propagation(id, propagation);
            }
        }
        Ok(())
    }

    /// Changes the flags of a superblock; the tree's lock is the caller's then.
    ///
    /// # Errors
    ///
    /// As [`Vfs::remount`].
    fn reconfigure_super(
        &self,
        at: &HeldPath<'_>,
        flags: MountFlags,
        mask: MountFlags,
        who: &Subject<'_>,
    ) -> Result<TreeGuard<'_>> {
        self.ask(Hooks::SB_REMOUNT, |module| {
            module.sb_remount(who, &PathRef::of(self, at), flags)
        })?;
        let sb = at.sb();
        let tree = self.mount_tree();
        let mounts = tree.mounts_of(at.mount().sb.get());
        let read_only = flags.contains(MountFlags::RDONLY);
        if read_only && !sb.is_read_only() {
            tree.make_read_only_sb(&sb, &mounts)?;
        } else if !read_only {
            for &mount in &mounts {
                let flags = self.mount_slot(mount).flags();
                tree.set_flags(mount, flags.difference(MntFlags::SB_RDONLY));
            }
        }
        let kept = sb.flags().difference(mask);
        self.set_sb_flags(&sb, kept | flags);
        Ok(tree)
    }
}

impl<'v> TreeGuard<'v> {
    /// The mounts that a call changes, whose writers wait where they must.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: it lies in another namespace, and is not the root of a tree that hangs nowhere.
    /// - of one mount after the other, parents first: `EPERM`: a locked flag would change; those of [`TreeGuard::may_idmap`]; `EBUSY`: it would become read-only
    ///   or get a map, and files are open for writing through it.
    fn mount_setattr_prepare(
        &self,
        at: &HeldPath<'_>,
        ns: NsId,
        change: &Change,
    ) -> Result<(Mounts, WritersWait<'v>)> {
        if !self.is_anonymous_root(at.mnt()) && at.mount().ns() != ns {
            return Err(Errno::EINVAL);
        }
        let changed = if change.all { self.subtree(at.mnt()) } else { smallvec![at.mnt()] };
        let mut wait = WritersWait::none(self.vfs);
        for &id in &changed {
            let flags = self.vfs.mount_slot(id).flags();
            flags.may_become(flags.difference(change.clear) | change.set)?;
            if change.maps() {
                self.may_idmap(id, change.replaces_idmap)?;
            }
            let becomes_read_only =
                change.set.contains(MntFlags::RDONLY) && !flags.contains(MntFlags::RDONLY);
            // Nobody begins to write as one owner and goes on as another: not through one that can be written from now
            // on either.
            if becomes_read_only || change.maps() {
                wait.hold(id)?;
            }
        }
        Ok((changed, wait))
    }

    /// The mounts of a superblock.
    fn mounts_of(&self, sb: u32) -> Vec<MountId> {
        let of_sb = |id: &MountId| self.vfs.mount_slot(*id).sb.get() == sb;
        self.nodes.keys().copied().filter(of_sb).collect()
    }

    /// # Errors
    ///
    /// `EBUSY`: files are open for writing in the file system, or are there without a name.
    ///
    /// Linux: `sb_prepare_remount_readonly`.
    fn make_read_only_sb(&self, sb: &SuperBlock, mounts: &[MountId]) -> Result<()> {
        let mut wait = WritersWait::none(self.vfs);
        for &mount in mounts {
            // A mount that is read-only itself has no writers, or had them before: nobody asks.
            if !self.vfs.mount_slot(mount).flags().contains(MntFlags::RDONLY) {
                wait.hold(mount)?;
            }
        }
        // Those that lose their last name do so by writers, who are all counted off by now.
        if self.vfs.unlinked(sb.id()).sum_after() != 0 {
            return Err(Errno::EBUSY);
        }
        self.vfs.set_sb_flags(sb, sb.flags() | MountFlags::RDONLY);
        for &id in mounts {
            self.set_flags(id, self.vfs.mount_slot(id).flags() | MntFlags::SB_RDONLY);
        }
        Ok(())
    }

    /// Sets what remounting may change of a mount's flags.
    ///
    /// Linux: `set_mount_attributes`.
    pub(super) fn set_attributes(&self, id: MountId, flags: MntFlags) {
        let kept = self.vfs.mount_slot(id).flags().difference(MntFlags::USER_SETTABLE);
        self.set_flags(id, kept | flags & MntFlags::USER_SETTABLE);
    }
}

/// Writers of these mounts wait; made and dropped under the lock of the tree.
struct WritersWait<'v> {
    vfs: &'v Vfs,
    ids: Vec<MountId>,
}

impl<'v> WritersWait<'v> {
    fn none(vfs: &'v Vfs) -> Self {
        Self { vfs, ids: Vec::new() }
    }

    /// Has the writers of one more mount wait, unless there are some.
    ///
    /// # Errors
    ///
    /// `EBUSY`: there are some.
    ///
    /// Linux: `mnt_hold_writers`.
    fn hold(&mut self, id: MountId) -> Result<()> {
        debug_assert!(!self.ids.contains(&id), "the first to let go would let all go");
        self.ids.push(id);
        let flags = &self.vfs.mount_slot(id).flags;
        flags.set(flags.get() | MntFlags::WRITE_HOLD.bits());
        if self.vfs.mount_writers.get(id.0).sum_after() == 0 { Ok(()) } else { Err(Errno::EBUSY) }
    }
}

/// Linux: `mnt_unhold_writers`.
impl Drop for WritersWait<'_> {
    fn drop(&mut self) {
        for &id in &self.ids {
            let flags = &self.vfs.mount_slot(id).flags;
            flags.set(flags.get() & !MntFlags::WRITE_HOLD.bits());
        }
    }
}

/// A call changes something through a mount, which is not made read-only meanwhile. The mount is held for longer.
#[must_use = "the mount may be made read-only once it is dropped"]
pub(crate) struct Writing<'v> {
    vfs: &'v Vfs,
    mnt: MountId,
}

impl<'v> Writing<'v> {
    /// # Errors
    ///
    /// As [`Vfs::mnt_get_write_access`].
    pub(crate) fn new(vfs: &'v Vfs, mnt: MountId) -> Result<Self> {
        vfs.mnt_get_write_access(mnt)?;
        Ok(Self { vfs, mnt })
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.vfs.mnt_put_write_access(self.mnt);
    }
}
