//! Hanging trees up: copies of mounts, and a whole tree over a place and over all places that receive it.
//!
//! Linux: `lock_mount`, `clone_mnt`, `copy_tree`, `attach_recursive_mnt`, `graft_tree`.

use super::{
    MntFlags, MountId, NsId,
    propagate::{Copies, Propagation},
    tree::{MOUNT_MAX, Rights, TreeGuard},
};
use crate::{
    dcache::{
        DentryId, MOUNTED,
        reserve::{Busy, Tried},
    },
    inode::InodeId,
    lock,
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::{Errno, Result};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// How a copy of a mount takes part in propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// As the original: in its group, with its master.
    Peer,
    /// It receives from the original.
    Slave,
    /// It receives from the original and sends on.
    SharedSlave,
    /// As the original, and unbindable mounts are copied too, which then may be bound: a namespace.
    All,
    /// The same of a namespace of fewer rights: who sends does not hear of its copy, which only receives.
    AllSlaves,
}

/// A count of a dentry.
struct HeldDentry<'v>(&'v Vfs, DentryId);

impl Drop for HeldDentry<'_> {
    fn drop(&mut self) {
        self.0.dput(self.1);
    }
}

/// The tree's lock, and a place in it where something is to be mounted: what is on top there, which nobody removes or
/// renames meanwhile, as it is marked as a mountpoint: whoever does reserves its name, looks at the mark, and then asks the tree.
pub(crate) struct LockedMount<'v> {
    pub(crate) tree: TreeGuard<'v>,
    pub(crate) parent: MountId,
    pub(crate) mountpoint: DentryId,
    /// None where the caller holds the place.
    _held: Option<HeldDentry<'v>>,
}

impl Drop for LockedMount<'_> {
    fn drop(&mut self) {
        // Linux: `put_mountpoint`.
        self.tree.unmark(self.mountpoint);
    }
}

/// Where something is to be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// On top of all that is there.
    OnTop,
    /// Below the topmost mount that is there.
    Beneath,
}

impl Vfs {
    /// Locks the tree and a place in it.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: beneath what is no mount's root.
    /// - `ENOENT`: the file system lets nothing be mounted there.
    /// - `ENOENT`: the place was removed, or a directory above it was dropped as stale; or it lies in a mount that was
    ///   unmounted.
    /// - `EINVAL`: beneath the mount at the bottom, or what hangs nowhere; of that the root is the place.
    ///
    /// Linux: `do_lock_mount`, `d_set_mounted`.
    pub(crate) fn lock_mount<'v>(
        &'v self,
        at: &'v HeldPath<'_>,
        side: Side,
    ) -> Result<LockedMount<'v>> {
        if side == Side::Beneath && at.mount().root() != at.dentry() {
            return Err(Errno::EINVAL);
        }
        // Mostly nothing is mounted there. That is seen without the lock, and looked at again under it.
        let bare = side == Side::OnTop && !self.dentry(at.dentry()).is(MOUNTED);
        let mut guess = bare.then_some((at.mnt(), at.dentry()));
        loop {
            let (place, held) = if let Some(place) = guess.take() {
                (place, None)
            } else {
                let tree = self.mount_tree();
                let place = tree.place_for(at, side)?;
                self.dget(place.1);
                (place, Some(HeldDentry(self, place.1)))
            };
            let sb = self.superblock(self.dentry(place.1).sb.get()).ok_or(Errno::ENOENT)?;
            let inode = InodeId(self.dentry(place.1).inode.get());
            if !sb.fs.may_be_covered(self.inode_ref(inode)) {
                return Err(Errno::ENOENT);
            }
            drop(sb);
            let tree = self.mount_tree();
            // What was mounted there since is covered too.
            if tree.place_for(at, side)? != place {
                continue;
            }
            let (parent, mountpoint) = place;
            if let Some(busy) = tree.mark(mountpoint)? {
                drop(tree);
                busy.wait();
                continue;
            }
            let locked = LockedMount { tree, parent, mountpoint, _held: held };
            let tree = &locked.tree;
            // Who drops a stale name takes down what is mounted below it after.
            if !tree.is_linked_from_root(mountpoint) {
                return Err(Errno::ENOENT);
            }
            if side == Side::Beneath && parent == tree.topmost(at.mnt()) {
                return Err(Errno::EINVAL);
            }
            return Ok(locked);
        }
    }

    /// Locks the tree and just that place; none where something is mounted on it.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: no name leads to the place any more, or the file system lets nothing be mounted there.
    /// - `ENOENT`: a directory above it was dropped as stale.
    ///
    /// Linux: `lock_mount_exact`.
    pub(crate) fn lock_mount_exact<'v>(
        &'v self,
        at: &'v HeldPath<'_>,
    ) -> Result<Option<LockedMount<'v>>> {
        let (parent, mountpoint) = (at.mnt(), at.dentry());
        if !at.sb().fs.may_be_covered(at.inode_ref()) {
            return Err(Errno::ENOENT);
        }
        let tree = loop {
            let tree = self.mount_tree();
            let Some(busy) = tree.mark(mountpoint)? else { break tree };
            drop(tree);
            busy.wait();
        };
        let locked = LockedMount { tree, parent, mountpoint, _held: None };
        if locked.tree.child_at(parent, mountpoint).is_some() {
            return Ok(None);
        }
        if !locked.tree.is_linked_from_root(mountpoint) {
            return Err(Errno::ENOENT);
        }
        Ok(Some(locked))
    }
}

impl LockedMount<'_> {
    /// Mounts a tree there.
    ///
    /// # Errors
    ///
    /// - `ENOTDIR`: one is a directory and the other is not.
    /// - those of [`TreeGuard::attach_recursive`].
    ///
    /// Linux: `graft_tree`.
    pub(crate) fn graft(&mut self, source: MountId, caller: NsId) -> Result<()> {
        let root = self.tree.vfs.mount_slot(source).root();
        if self.tree.is_directory(root) != self.tree.is_directory(self.mountpoint) {
            return Err(Errno::ENOTDIR);
        }
        self.tree.attach_recursive(source, (self.parent, self.mountpoint), caller)
    }

    /// Gives a mount that is to hang there the flags of the one that it will hang in, locked as they are there, and keeps what
    /// it refuses itself. It goes when it is in the way of one below it and nobody uses it.
    ///
    /// Linux: the flags that `finish_automount` gives to `do_add_mount`.
    pub(crate) fn lend_flags(&self, id: MountId) {
        let slot = |id| self.tree.vfs.mount_slot(id);
        let lent = MntFlags::USER_SETTABLE | MntFlags::LOCKS;
        let below = slot(self.parent).flags() & lent;
        let own = slot(id).flags().difference(MntFlags::ATIME);
        self.tree.set_flags(id, own | below | MntFlags::SHRINKABLE);
    }

    /// The namespace of the place.
    pub(crate) fn ns(&self) -> NsId {
        self.tree.vfs.mount_slot(self.parent).ns()
    }
}

impl<'v> TreeGuard<'v> {
    /// Marks a dentry that is held as a mountpoint. Where somebody has reserved its name, that is returned, to be waited for
    /// without the lock.
    ///
    /// # Errors
    ///
    /// `ENOENT`: no name leads to it any more.
    ///
    /// Linux: `d_set_mounted`.
    fn mark(&self, mountpoint: DentryId) -> Result<Option<Busy<'v>>> {
        let dentry = self.vfs.dentry(mountpoint);
        let set = || {
            let _dentry = dentry.lockref.lock_nested(lock::DENTRY);
            dentry.flags.set(dentry.flags.get() | MOUNTED);
        };
        match self.vfs.while_not_reserved(mountpoint, set) {
            Tried::Free(()) | Tried::Root => Ok(None),
            Tried::Nameless => Err(Errno::ENOENT),
            Tried::Busy(busy) => Ok(Some(busy)),
        }
    }

    /// Takes the mark off where nothing is mounted.
    fn unmark(&self, mountpoint: DentryId) {
        if self.on(mountpoint).next().is_none() {
            let dentry = self.vfs.dentry(mountpoint);
            let _dentry = dentry.lockref.lock(lock::DENTRY);
            dentry.flags.set(dentry.flags.get() & !MOUNTED);
        }
    }
}

impl TreeGuard<'_> {
    fn place_for(&self, at: &HeldPath<'_>, side: Side) -> Result<(MountId, DentryId)> {
        if at.mount().ns() == NsId::NONE {
            return Err(Errno::ENOENT);
        }
        if side == Side::OnTop {
            return Ok(self.top_of(at.mnt(), at.dentry()));
        }
        let top = self.topmost(at.mnt());
        let place = self.vfs.mount_slot(top).place();
        // What hangs nowhere hangs in its own root: see `lock_mount`.
        Ok(if place.0 == MountId::NONE { (top, self.vfs.mount_slot(top).root()) } else { place })
    }

    /// How many more mounts a namespace can have.
    pub(super) fn room_in(&self, ns: NsId) -> u32 {
        self.namespaces
            .get(&ns)
            .map_or(MOUNT_MAX, |ns| MOUNT_MAX.saturating_sub(ns.mounts.len() as u32))
    }

    /// Copies one mount, which may show only what is below `root`; the copy hangs nowhere.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there are as many mounts as there may be.
    ///
    /// Linux: `clone_mnt`.
    pub(super) fn clone_mnt(&mut self, old: MountId, root: DentryId, how: Copy) -> Result<MountId> {
        let vfs = self.vfs;
        let kept = MntFlags::USER_SETTABLE | MntFlags::SHRINKABLE | MntFlags::LOCKS;
        let flags = vfs.mount_slot(old).flags() & kept;
        let sb = vfs.superblock(vfs.mount_slot(old).sb.get()).ok_or(Errno::ENODEV)?;
        vfs.dget(root);
        let id = self.alloc(&sb, root, flags).inspect_err(|_| self.dentries.push(root))?;
        self.set_idmap(id, vfs.mount_slot(old).idmap_blobs());
        match how {
            Copy::AllSlaves if self.is_shared(old) => self.enslave(id, old),
            Copy::Peer | Copy::All | Copy::AllSlaves => self.follow(id, old),
            Copy::Slave => self.enslave(id, old),
            Copy::SharedSlave => {
                self.enslave(id, old);
                self.found_group(id);
            }
        }
        Ok(id)
    }

    /// Copies a mount, as far as it lies below `root`, and all that is mounted there; the copy hangs nowhere. Mounts that may
    /// not be bound are left out, with all below them. What is locked below the first is so in the copy.
    ///
    /// # Errors
    ///
    /// Of one mount after the other, parents first:
    ///
    /// - `EPERM`: it may not be bound, nor be left out as it is locked.
    /// - `ENOSPC`: it would be more mounts than `room`.
    ///
    /// Linux: `copy_tree`.
    pub(super) fn copy_tree(
        &mut self,
        source: MountId,
        root: DentryId,
        how: Copy,
        room: u32,
    ) -> Result<MountId> {
        self.copy_tree_noting(source, root, how, room).map(|(top, _)| top)
    }

    /// As [`TreeGuard::copy_tree`]; says which mount is copied by which.
    pub(super) fn copy_tree_noting(
        &mut self,
        source: MountId,
        root: DentryId,
        how: Copy,
        room: u32,
    ) -> Result<(MountId, HashMap<MountId, MountId>)> {
        if room == 0 {
            return Err(Errno::ENOSPC);
        }
        let top = self.clone_mnt(source, root, how)?;
        let mut copies = HashMap::from_iter([(source, top)]);
        let mut skipped = HashSet::default();
        let mut made = 1;
        for id in self.subtree(source).into_iter().skip(1) {
            let (parent, mountpoint) = self.vfs.mount_slot(id).place();
            let outside = parent == source && !self.is_subdir(mountpoint, root);
            let whole = matches!(how, Copy::All | Copy::AllSlaves);
            let unbindable = self.node(id).unbindable && !whole;
            let left_out = skipped.contains(&parent) || outside;
            let locked = self.is_locked(id);
            if left_out || unbindable && !locked {
                skipped.insert(id);
                continue;
            }
            made += 1;
            let copy = if unbindable {
                Err(Errno::EPERM)
            } else if made > room {
                Err(Errno::ENOSPC)
            } else {
                self.clone_mnt(id, self.vfs.mount_slot(id).root(), how)
            };
            let copy = copy.inspect_err(|_| self.discard(top))?;
            copies.insert(id, copy);
            if locked {
                self.lock_in_place(copy);
            }
            self.attach_unseen(copy, copies[&parent], mountpoint);
        }
        Ok((top, copies))
    }

    /// Drops a tree that was never mounted.
    pub(super) fn discard(&mut self, top: MountId) {
        for id in self.subtree(top).into_iter().rev() {
            self.change_propagation(id, Propagation::Private);
            if self.vfs.mount_slot(id).place().0 != MountId::NONE {
                self.unhook_unseen(id);
            }
            self.set_flags(id, self.vfs.mount_slot(id).flags() | MntFlags::DETACHED);
            self.detached.push(id);
        }
    }

    /// Mounts a tree on a place and, if that is shared, on all that receive it. What was mounted there before, as seen in
    /// one of them, covers it. A tree that hangs elsewhere is moved. What comes to a namespace of other rights than the caller's
    /// is locked in one piece.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the tree's root was removed.
    /// - `ENOSPC`: one of the namespaces would have more mounts than it may.
    ///
    /// Linux: `attach_recursive_mnt`.
    pub(super) fn attach_recursive(
        &mut self,
        source: MountId,
        dest: (MountId, DentryId),
        caller: NsId,
    ) -> Result<()> {
        let vfs = self.vfs;
        if !self.is_linked(vfs.mount_slot(source).root()) {
            return Err(Errno::ENOENT);
        }
        let lone = self.node(source).children.is_empty() && !self.is_shared(dest.0);
        if lone && vfs.mount_slot(source).ns() == NsId::NONE {
            // A new one, in one that sends to nobody.
            if self.room_in(vfs.mount_slot(dest.0).ns()) == 0 {
                return Err(Errno::ENOSPC);
            }
            self.commit(source, dest, self.rights_in(caller));
            return Ok(());
        }
        let tree = self.subtree(source);
        let from = vfs.mount_slot(source).ns();
        let moves_within = from == vfs.mount_slot(dest.0).ns();
        let mut copies = Copies::default();
        let shared = self.is_shared(dest.0);
        if !moves_within {
            let ns = vfs.mount_slot(dest.0).ns();
            let coming = tree.len() as u32;
            if coming > self.room_in(ns) {
                return Err(Errno::ENOSPC);
            }
            if shared {
                copies.pending.insert(ns, coming);
            }
        }
        if shared {
            let founded: Vec<_> = tree.iter().copied().filter(|&id| !self.is_shared(id)).collect();
            let was_unbindable: Vec<_> =
                founded.iter().copied().filter(|&id| self.node(id).unbindable).collect();
            for &id in &founded {
                self.found_group(id);
            }
            copies.founded.extend(&founded);
            if let Err(errno) = self.propagate_mnt(dest, source, &mut copies) {
                for (copy, _) in copies.made {
                    self.discard(copy);
                }
                for id in founded {
                    self.leave_group(id);
                }
                for id in was_unbindable {
                    self.node_mut(id).unbindable = true;
                }
                return Err(errno);
            }
        }
        if vfs.mount_slot(source).place().0 != MountId::NONE {
            self.unhook(source);
        }
        let rights = self.rights_in(caller);
        self.commit(source, dest, rights);
        for (copy, receiver) in copies.made {
            self.commit(copy, (receiver, dest.1), rights);
        }
        Ok(())
    }

    /// Hangs a tree up where nobody has seen it yet, below what is mounted there.
    ///
    /// Linux: `commit_tree`.
    fn commit(&mut self, top: MountId, dest: (MountId, DentryId), rights: Rights) {
        let covering = self.child_at(dest.0, dest.1);
        let ns = self.vfs.mount_slot(dest.0).ns();
        self.set_ns(&self.subtree(top), ns);
        if self.rights_in(ns) != rights {
            self.lock_mnt_tree(top);
        }
        match covering {
            Some(covering) => {
                let on = self.topmost(top);
                let root = self.vfs.mount_slot(on).root();
                self.replace(covering, top, Some((on, root)));
            }
            None => self.attach(top, dest.0, dest.1),
        }
    }
}
