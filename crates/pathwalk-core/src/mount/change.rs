//! What the mount calls do to the tree: their checks, in order, and the change, under one lock.
//!
//! Linux: `do_add_mount`, `do_loopback`, `do_change_type`, `do_move_mount`, `do_set_group`, the second half of pivot_root.

use super::{
    MntFlags, MountId, NsId,
    graft::{Copy, LockedMount, Side},
    propagate::Propagation,
    tree::{Rights, TreeGuard},
};
use crate::{
    dcache::DentryId,
    task::Task,
    vfs::{NewSuperBlock, Vfs},
    walk::HeldPath,
};
use pathwalk_abi::{Errno, Result};
use smallvec::smallvec;

impl Vfs {
    /// Mounts a new superblock.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there are as many mounts as there may be.
    /// - those of [`Vfs::lock_mount`].
    /// - `EINVAL`: the place lies in another namespace.
    /// - those of [`LockedMount::graft`].
    pub(crate) fn do_add_mount(
        &self,
        mut new: NewSuperBlock<'_>,
        at: &HeldPath<'_>,
        ns: NsId,
    ) -> Result<()> {
        let mut locked = match self.lock_mount(at, Side::OnTop) {
            Ok(locked) => locked,
            Err(errno) => {
                // Linux makes the mount first: it has had a number.
                let mut tree = self.mount_tree();
                let id = new.mount(&mut tree)?;
                tree.discard(id);
                return Err(errno);
            }
        };
        let id = new.mount(&mut locked.tree)?;
        let hung_up = if locked.ns() == ns { locked.graft(id, ns) } else { Err(Errno::EINVAL) };
        hung_up.inspect_err(|_| locked.tree.discard(id))
    }

    /// Shows a place at another place too; `all` says that what is mounted below it is shown there as well.
    pub(crate) fn do_loopback<'v>(
        &'v self,
        source: &HeldPath<'v>,
        at: &HeldPath<'v>,
        ns: NsId,
        all: bool,
    ) -> Result<()> {
        let mut locked = self.lock_mount(at, Side::OnTop)?;
        if locked.ns() != ns {
            return Err(Errno::EINVAL);
        }
        let copy = locked.tree.copy_of(source, ns, all)?;
        locked.graft(copy, ns).inspect_err(|_| locked.tree.discard(copy))
    }

    /// Changes how a mount takes part in propagation; `all` says that those below it change too.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it is not mounted.
    pub(crate) fn do_change_type(
        &self,
        at: &HeldPath<'_>,
        propagation: Propagation,
        all: bool,
    ) -> Result<()> {
        let mut tree = self.mount_tree();
        if at.mount().ns() == NsId::NONE {
            return Err(Errno::EINVAL);
        }
        let ids = if all { tree.subtree(at.mnt()) } else { smallvec![at.mnt()] };
        for id in ids {
            tree.change_propagation(id, propagation);
        }
        Ok(())
    }

    /// Copies what a place shows into a namespace of its own, hung up nowhere; returns its root, counted.
    ///
    /// # Errors
    ///
    /// Those of [`TreeGuard::copy_of`].
    ///
    /// Linux: `open_detached_copy`.
    pub(crate) fn detached_copy<'v>(
        &'v self,
        source: &HeldPath<'v>,
        ns: NsId,
        all: bool,
    ) -> Result<HeldPath<'v>> {
        let mut tree = self.mount_tree();
        let copy = tree.copy_of(source, ns, all)?;
        let rights = tree.rights_in(ns);
        tree.new_namespace(copy, Some(ns), rights);
        let root = self.mount_slot(copy).root();
        self.hold_both((copy, root));
        Ok(HeldPath::new(self, copy, root))
    }

    /// Makes a mount of a whole file system that is in use, in a namespace of its own, hung up nowhere and in nobody's reach; returns
    /// its root, counted. It only holds: nothing is written by it, run or noted.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there are as many mounts as there may be.
    pub(crate) fn mount_apart(&self, sb: u32) -> Result<HeldPath<'_>> {
        let sb = self.superblock(sb).expect("the caller holds a mount of it");
        let root = sb.root();
        let flags = MntFlags::RDONLY
            | MntFlags::NOSUID
            | MntFlags::NODEV
            | MntFlags::NOEXEC
            | MntFlags::NOATIME;
        let mut tree = self.mount_tree();
        self.dget(root);
        let mount = tree.alloc(&sb, root, flags);
        let mount = mount.inspect_err(|_| tree.dentries.push(root))?;
        tree.new_namespace(mount, Some(NsId::NONE), Rights::default());
        self.hold_both((mount, root));
        Ok(HeldPath::new(self, mount, root))
    }

    /// How many mounts there are of the file system of one that the caller holds.
    pub(crate) fn mounts_of(&self, id: MountId) -> u32 {
        let _tree = self.mount_tree();
        self.count_mount(self.mount_slot(id).sb.get(), 0)
    }

    /// Whether a mount that the caller holds has a dentry of its file system, which the caller holds too, at or below its root.
    pub(crate) fn mount_shows(&self, id: MountId, dentry: DentryId) -> bool {
        let mount = self.mount_slot(id);
        mount.root.get() == mount.sb_root.get() || self.mount_tree().is_subdir(dentry, mount.root())
    }

    /// Makes a mount take part in propagation as another does.
    ///
    /// # Errors
    ///
    /// `EINVAL`: one of the two is not mounted, or no mount's root; they are of different file systems; the second shows
    /// something that the first does not, or that is covered in the first by a locked mount; the second takes part in
    /// propagation already, or the first does not.
    ///
    /// Linux: `do_set_group`.
    pub(crate) fn set_group(&self, from: &HeldPath<'_>, to: &HeldPath<'_>) -> Result<()> {
        let mut tree = self.mount_tree();
        let usable = |path: &HeldPath<'_>| path.mount().ns() != NsId::NONE && path.is_mount_root();
        let (source, target) = (tree.node(from.mnt()), tree.node(to.mnt()));
        let refused = !usable(from)
            || !usable(to)
            || from.mount().sb.get() != to.mount().sb.get()
            || !tree.is_subdir(to.dentry(), from.dentry())
            || tree.has_locked_children(from.mnt(), to.mount().root())
            || target.takes_part()
            || !source.takes_part();
        if refused {
            return Err(Errno::EINVAL);
        }
        tree.follow(to.mnt(), from.mnt());
        Ok(())
    }

    /// The part of pivot_root(2) that changes the tree.
    pub(crate) fn pivot_root<'v>(
        &'v self,
        root: &HeldPath<'v>,
        new: &HeldPath<'v>,
        old: &HeldPath<'v>,
        ns: NsId,
    ) -> Result<()> {
        let LockedMount { tree, parent: old_parent, mountpoint, .. } =
            &mut self.lock_mount(old, Side::OnTop)?;
        let old_parent = *old_parent;
        let (root_place, new_place) = (root.mount().place(), new.mount().place());
        if [old_parent, new_place.0, root_place.0].into_iter().any(|id| tree.is_shared(id)) {
            return Err(Errno::EINVAL);
        }
        if root.mount().ns() != ns || new.mount().ns() != ns || tree.is_locked(new.mnt()) {
            return Err(Errno::EINVAL);
        }
        if !tree.is_linked(new.dentry()) {
            return Err(Errno::ENOENT);
        }
        if new.mnt() == root.mnt() || old_parent == root.mnt() {
            return Err(Errno::EBUSY);
        }
        let movable =
            |path: &HeldPath<'_>| path.is_mount_root() && path.mount().place().0 != MountId::NONE;
        if !movable(root) || !movable(new) {
            return Err(Errno::EINVAL);
        }
        let (new_at, root_at) = ((new.mnt(), new.dentry()), (root.mnt(), root.dentry()));
        if !tree.is_reachable((old_parent, *mountpoint), new_at)
            || !tree.is_reachable(new_at, root_at)
        {
            return Err(Errno::EINVAL);
        }
        // Where the root was there must be something, and now it is the new one.
        tree.pass_lock(root.mnt(), new.mnt());
        // `old_parent` is the new root's mount or hangs in it, so this is no circle.
        tree.replace(root.mnt(), new.mnt(), Some((old_parent, *mountpoint)));
        Ok(())
    }
}

impl Task {
    /// Moves what is mounted at a place, or a tree that hangs nowhere.
    ///
    /// # Errors
    ///
    /// As `MS_MOVE` in [`Task::mount_tree`]; beneath something as [`Task::move_mount`] says.
    ///
    /// Linux: `do_move_mount`.
    pub(crate) fn do_move_mount<'v>(
        &'v self,
        from: &HeldPath<'v>,
        to: &HeldPath<'v>,
        side: Side,
    ) -> Result<()> {
        if !from.is_mount_root() || from.is_directory() != to.is_directory() {
            return Err(Errno::EINVAL);
        }
        let vfs = self.vfs();
        let ns = self.mount_namespace().ns();
        let LockedMount { tree, parent, mountpoint, .. } = &mut vfs.lock_mount(to, side)?;
        let (parent, mountpoint) = (*parent, *mountpoint);
        let target_ns = vfs.mount_slot(parent).ns();
        if from.mount().ns() == ns {
            let above = from.mount().place().0;
            if above == MountId::NONE
                || tree.is_locked(from.mnt())
                || tree.is_shared(above)
                || target_ns != ns
            {
                return Err(Errno::EINVAL);
            }
        } else if !tree.is_anonymous_root(from.mnt())
            || from.mount().ns() == target_ns
            || !tree.may_use(parent, ns)
        {
            return Err(Errno::EINVAL);
        }
        if side == Side::Beneath {
            let root = self.fs.sample_root(vfs).mnt;
            tree.can_move_beneath(from.mnt(), to.mnt(), (parent, mountpoint), root, ns)?;
        }
        if tree.is_shared(parent) {
            let unbindable = |&id: &MountId| tree.node(id).unbindable;
            if tree.subtree(from.mnt()).iter().any(unbindable) {
                return Err(Errno::EINVAL);
            }
        }
        if tree.mount_is_ancestor(from.mnt(), parent) {
            return Err(Errno::ELOOP);
        }
        tree.attach_recursive(from.mnt(), (parent, mountpoint), ns)
    }
}

impl TreeGuard<'_> {
    /// Copies what a place shows.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: it may not be bound, or lies in another namespace, or in none; or a copy of it alone would show what a
    ///   locked mount covers.
    /// - those of [`TreeGuard::copy_tree`].
    ///
    /// Linux: `__do_loopback`.
    pub(super) fn copy_of(
        &mut self,
        source: &HeldPath<'_>,
        ns: NsId,
        all: bool,
    ) -> Result<MountId> {
        if self.node(source.mnt()).unbindable || !self.may_use(source.mnt(), ns) {
            return Err(Errno::EINVAL);
        }
        if !all && self.has_locked_children(source.mnt(), source.dentry()) {
            return Err(Errno::EINVAL);
        }
        if all {
            let room = self.room_in(ns);
            self.copy_tree(source.mnt(), source.dentry(), Copy::Peer, room)
        } else {
            self.clone_mnt(source.mnt(), source.dentry(), Copy::Peer)
        }
    }

    /// Whether a mount lies in a namespace, or in a tree that was copied in it and hangs nowhere.
    ///
    /// Linux: `may_use_mount`, `check_anonymous_mnt`.
    pub(super) fn may_use(&self, id: MountId, ns: NsId) -> bool {
        let own = self.vfs.mount_slot(id).ns();
        own == ns || self.namespaces.get(&own).is_some_and(|own| own.anonymous == Some(ns))
    }

    /// Linux: `can_move_mount_beneath`.
    fn can_move_beneath(
        &self,
        from: MountId,
        to: MountId,
        (parent, mountpoint): (MountId, crate::dcache::DentryId),
        root: MountId,
        ns: NsId,
    ) -> Result<()> {
        let over = if self.vfs.mount_slot(to).place().0 == parent { to } else { self.topmost(to) };
        let bottom = self.namespaces.get(&ns).map(|namespace| namespace.root);
        let refused = self.is_locked(over)
            || self.overmount(from).is_some()
            || over == root
            || Some(parent) == bottom
            || self.mount_is_ancestor(over, from)
            || self.would_overmount(parent, over, mountpoint)
            || self.vfs.mount_slot(from).ns() == ns
                && self.would_overmount(parent, from, mountpoint);
        if refused { Err(Errno::EINVAL) } else { Ok(()) }
    }
}
