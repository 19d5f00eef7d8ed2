//! Taking trees down, and freeing mounts that nobody holds.
//!
//! An unmounted mount goes with its last holder. It hangs nowhere, but for what was taken down with the directory that it
//! stood on: such a tree stays in one piece until its root goes.
//!
//! Linux: `do_umount`, `shrink_submounts`, `umount_tree`, `__detach_mounts`, `cleanup_mnt`; umount(2).

use super::{
    MntFlags, MountId, NsId, patience, propagate::Propagation, task_work::TaskWork, tree::TreeGuard,
};
use crate::{
    cred::Subject,
    dcache::{DIRECTORY, DentryId, MOUNTED},
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::{Errno, Result, UmountFlags};
use pathwalk_sync::Change;
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// How often an unmount looks whether a mount is still in use: a late reader lets go at once.
const LOOKS: u32 = 8;

/// What goes with a tree that is taken down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Umount {
    /// Its copies in all who receive, too. It falls into single mounts, but for those that are locked: they stay where they hang.
    Propagated,
    /// Its copies in all who receive, too, and nobody uses it: it falls into single mounts.
    Sync,
    /// Nothing; it falls into single mounts, but for those that are locked.
    Alone,
    /// Nothing; it stays in one piece.
    Connected,
}

/// Mounts that were found unused: their counts stay odd, so that nobody holds one before it is taken down. Mostly it is one.
#[derive(Default)]
pub(super) struct Unused<'v> {
    first: Option<(MountId, Change<'v>)>,
    more: HashMap<MountId, Change<'v>>,
}

impl<'v> Unused<'v> {
    /// Whether a mount's count is odd.
    pub(super) fn contains(&self, id: MountId) -> bool {
        matches!(self.first, Some((first, _)) if first == id) || self.more.contains_key(&id)
    }

    fn insert(&mut self, id: MountId, change: Change<'v>) {
        if self.first.is_none() {
            self.first = Some((id, change));
        } else {
            self.more.insert(id, change);
        }
    }

    /// Makes the counts even.
    pub(super) fn clear(&mut self) {
        self.first = None;
        self.more.clear();
    }
}

impl Vfs {
    /// Takes a mount down that the caller held once until now, as umount(2) does, in a call of his.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: with `MNT_EXPIRE`: it is the mount of the caller's root, or `MNT_FORCE` or `MNT_DETACH` is given too.
    /// - `EBUSY`: with `MNT_EXPIRE`: somebody uses it, or something is mounted in it.
    /// - `EAGAIN`: with `MNT_EXPIRE`: it was used since it was last asked for.
    /// - those of [`Vfs::remount`]: it is the mount of the caller's root.
    /// - `EINVAL`: it hangs nowhere, or is locked.
    /// - `EBUSY`: somebody uses it, or one that goes with it, or something is mounted in it; unless `MNT_DETACH`. What walks had
    ///   mounted there is no hindrance if nobody uses it: it is taken down, also where this is the answer.
    pub(crate) fn do_umount(
        &self,
        at: HeldPath<'_>,
        root: MountId,
        flags: UmountFlags,
        who: &Subject<'_>,
        call: &TaskWork<'_>,
    ) -> Result<()> {
        let id = at.mnt();
        let answered = match self.may_expire(id, root, flags) {
            Err(errno) => Some(Err(errno)),
            // A relic of shutdown scripts: the root is not taken away but made read-only.
            Ok(()) if id == root && !flags.contains(UmountFlags::DETACH) => {
                Some(self.umount_root(&at, who))
            }
            Ok(()) => None,
        };
        if let Some(answer) = answered {
            self.put_no_expire(at);
            return answer;
        }
        // It goes behind the lock, also where that ends in a panic.
        let _freed;
        let (at, done) = {
            let mut tree = self.mount_tree();
            match tree.take_down(&at, flags.contains(UmountFlags::DETACH)) {
                Ok(()) if call.is_outermost() => match tree.free_now(at) {
                    Ok(freed) => {
                        _freed = freed;
                        return Ok(());
                    }
                    Err(at) => (at, Ok(())),
                },
                done => (at, done),
            }
        };
        self.put_no_expire(at);
        done
    }

    /// With `MNT_EXPIRE` marks a mount as expired; succeeds if it was marked, and nobody used it since.
    ///
    /// # Errors
    ///
    /// As [`Vfs::do_umount`] lists them for `MNT_EXPIRE`.
    fn may_expire(&self, id: MountId, root: MountId, flags: UmountFlags) -> Result<()> {
        if !flags.contains(UmountFlags::EXPIRE) {
            return Ok(());
        }
        if id == root || flags.intersects(UmountFlags::FORCE | UmountFlags::DETACH) {
            return Err(Errno::EINVAL);
        }
        let mut tree = self.mount_tree();
        if !tree.node(id).children.is_empty() || tree.in_use(id, 1, LOOKS) {
            return Err(Errno::EBUSY);
        }
        let flags = self.mount_slot(id).flags();
        if flags.contains(MntFlags::EXPIRY_MARK) {
            return Ok(());
        }
        tree.set_flags(id, flags | MntFlags::EXPIRY_MARK);
        Err(Errno::EAGAIN)
    }

    /// Takes down whatever is mounted on a dentry that no name leads to any more, in all namespaces.
    ///
    /// Linux: `detach_mounts`.
    pub(crate) fn detach_mounts(&self, dentry: DentryId) {
        if self.dentry(dentry).is(MOUNTED) {
            self.mount_tree().detach_all(dentry);
        }
    }

    /// As [`Vfs::detach_mounts`], and what is mounted on anything below the dentry.
    ///
    /// Linux: the second half of `d_invalidate`.
    pub(crate) fn detach_submounts(&self, top: DentryId) {
        if !self.dentry(top).is(DIRECTORY) {
            return self.detach_mounts(top);
        }
        let mut tree = self.mount_tree();
        for dentry in tree.mountpoints_below(top) {
            tree.detach_all(dentry);
        }
    }

    /// Takes down a tree that was copied and hung up nowhere, if it still is: its handle was closed.
    ///
    /// Linux: `dissolve_on_fput`.
    pub(crate) fn dissolve(&self, id: MountId) {
        let mut tree = self.mount_tree();
        if tree.is_anonymous_root(id) {
            tree.umount_tree(&[id], Umount::Connected);
        }
    }

    /// Drops a mount that was made and hung up nowhere.
    pub(crate) fn mount_abandon(&self, id: MountId) {
        self.mount_tree().discard(id);
    }

    /// Notes that somebody used a mount.
    #[cold]
    pub(super) fn unmark_expired(&self, id: MountId) {
        let tree = self.mount_tree();
        let flags = self.mount_slot(id).flags();
        if flags.contains(MntFlags::EXPIRY_MARK) {
            tree.set_flags(id, flags.difference(MntFlags::EXPIRY_MARK));
        }
    }

    /// Gives a place back without counting as a user of its mount.
    pub(crate) fn put_no_expire(&self, at: HeldPath<'_>) {
        let _work = self.task_work();
        let (id, dentry) = at.into_raw();
        self.dput(dentry);
        self.mntput(id);
    }

    /// Whether a mount is held by more than `counts` at each of so many looks.
    fn is_held(&self, id: MountId, counts: u64, looks: u32) -> bool {
        let counter = self.mount_counts.get(id.0);
        (0..looks).all(|look| {
            if look != 0 {
                patience::wait();
            }
            counter.sum_after() > counts
        })
    }

    /// Frees a detached mount if nobody holds it, and its file system if it was the last of that. What hung in it is detached.
    ///
    /// Linux: `cleanup_mnt`.
    pub(super) fn free_detached(&self, id: MountId) {
        let mount = self.mount_slot(id);
        // Who holds it looks when he gives it back, as it was detached before this sum.
        if !mount.flags().contains(MntFlags::DETACHED)
            || self.mount_counts.get(id.0).sum_after() != 0
        {
            return;
        }
        let (root, last_of) = {
            let mut tree = self.mount_tree();
            if !mount.flags().contains(MntFlags::DETACHED)
                // Nor does a walk that came here before it was detached: from here on it finds the count odd.
                || tree.in_use_now(id, 0, LOOKS)
            {
                return;
            }
            let children: Vec<_> = tree.node(id).children.values().collect();
            for child in children {
                tree.unhook(child);
                tree.let_free(child);
            }
            let forgotten = tree.forget(id);
            // Whoever else saw the sum zero finds the flag gone.
            tree.set_flags(id, MntFlags::empty());
            forgotten
        };
        self.mounts.free(id.0);
        self.dput(root);
        if let Some(sb) = last_of {
            self.kill_sb(sb);
        }
    }
}

/// A mount that nobody holds and that is forgotten: its slot, root and superblock are given back when this is dropped.
struct Freed<'v> {
    vfs: &'v Vfs,
    id: MountId,
    root: DentryId,
    /// What who took it down held of it: its root.
    held: DentryId,
    /// The superblock, if it was the last mount of it.
    last_of: Option<u32>,
}

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        self.vfs.mounts.free(self.id.0);
        // The panic of a file system that goes is the call's: see `TaskWork`.
        drop(self.vfs.outlast(|| {
            self.vfs.dput(self.held);
            self.vfs.dput(self.root);
            if let Some(sb) = self.last_of {
                self.vfs.kill_sb(sb);
            }
        }));
    }
}

impl<'v> TreeGuard<'v> {
    /// The part of [`Vfs::do_umount`] under the lock.
    fn take_down(&mut self, at: &HeldPath<'_>, lazy: bool) -> Result<()> {
        let id = at.mnt();
        if at.mount().ns() == NsId::NONE
            || self.is_locked(id)
            || at.mount().place().0 == MountId::NONE
        {
            return Err(Errno::EINVAL);
        }
        if !lazy {
            self.shrink_submounts(id);
            if self.is_busy(id, 1, LOOKS) {
                return Err(Errno::EBUSY);
            }
        }
        self.umount_tree(&[id], if lazy { Umount::Propagated } else { Umount::Sync });
        Ok(())
    }

    /// Frees a mount whose root this is and that was just taken down, if no other went with it, nothing hangs in it, and nobody else
    /// holds it: no second look at it is needed, nor the lock for that.
    fn free_now(&mut self, at: HeldPath<'v>) -> std::result::Result<Freed<'v>, HeldPath<'v>> {
        let (vfs, id) = (self.vfs, at.mnt());
        let alone = *self.detached == [id] && self.node(id).children.is_empty();
        if !alone || self.in_use_now(id, 1, 1) {
            return Err(at);
        }
        debug_assert!(at.is_mount_root(), "what is taken down is named by its root");
        self.detached.clear();
        let (_, held) = at.into_raw();
        vfs.mount_counts.get(id.0).put();
        let (root, last_of) = self.forget(id);
        // Whoever saw the sum zero finds the flag gone.
        self.set_flags(id, MntFlags::empty());
        Ok(Freed { vfs, id, root, held, last_of })
    }
}

impl TreeGuard<'_> {
    fn detach_all(&mut self, dentry: DentryId) {
        loop {
            let Some(id) = self.on(dentry).next() else { return };
            if self.vfs.mount_slot(id).ns() == NsId::NONE {
                // It was taken down before, in one piece with what it hangs in.
                self.unhook(id);
                self.let_free(id);
            } else {
                self.umount_tree(&[id], Umount::Connected);
            }
        }
    }

    /// Whether a mount is held by more than `counts`, looked at so often. If it is not, nobody comes to hold it until the
    /// tree's lock is given up.
    ///
    /// Linux: `do_refcount_check`.
    pub(super) fn in_use(&mut self, id: MountId, counts: u64, looks: u32) -> bool {
        // Looked at before anything is changed, so that a refusal costs no walk its sample.
        self.vfs.is_held(id, counts, looks) || self.in_use_now(id, counts, looks)
    }

    /// As [`TreeGuard::in_use`], but each look costs walks their samples.
    fn in_use_now(&mut self, id: MountId, counts: u64, looks: u32) -> bool {
        if self.unused.contains(id) {
            return false;
        }
        // From here on readers that come by see the count odd and hold nothing. It must not be even before the mount is
        // taken down: who waits for that would hold a mount that nobody was seen to use.
        let change = self.vfs.mount_slot(id).seq.change();
        let held = self.vfs.is_held(id, counts, looks);
        if !held {
            self.unused.insert(id, change);
        }
        held
    }

    /// Takes down the mounts below one that walks had mounted and nobody uses, the leaves first. However many there are, it
    /// waits for late readers as long as for those of one mount.
    ///
    /// Linux: `shrink_submounts`.
    fn shrink_submounts(&mut self, top: MountId) {
        for look in 0..LOOKS {
            if look != 0 {
                patience::wait();
            }
            if self.shrink_idle(top) == 0 {
                return;
            }
        }
    }

    /// Takes down those that are idle at one look each; says how many were busy. What hangs in other mounts than such ones
    /// stays, and so do they.
    ///
    /// Linux: `select_submounts`.
    fn shrink_idle(&mut self, top: MountId) -> u32 {
        let mut busy = 0;
        if self.node(top).children.is_empty() {
            return busy;
        }
        // Parents first, so from behind each is met when what hung in it was.
        let (mut todo, mut found) = (vec![top], Vec::new());
        while let Some(at) = todo.pop() {
            for child in self.node(at).children.values() {
                if self.vfs.mount_slot(child).flags().contains(MntFlags::SHRINKABLE) {
                    todo.push(child);
                    found.push(child);
                }
            }
        }
        for id in found.into_iter().rev() {
            // It may have gone with one before it; what has something mounted in it is in nobody's way by itself.
            if self.vfs.mount_slot(id).ns() == NsId::NONE || !self.node(id).children.is_empty() {
                continue;
            }
            if self.is_busy(id, 0, 1) {
                busy += 1;
            } else {
                self.umount_tree(&[id], Umount::Sync);
            }
            // What goes hangs nowhere now. What was seen unused and stays is to be walked in.
            self.unused.clear();
        }
        busy
    }

    /// Takes down trees.
    ///
    /// Linux: `umount_tree`.
    pub(super) fn umount_tree(&mut self, tops: &[MountId], how: Umount) {
        if let &[top] = tops
            && self.node(top).children.is_empty()
            && !self.is_shared(self.vfs.mount_slot(top).place().0)
        {
            return self.umount_lone(top);
        }
        let propagates = matches!(how, Umount::Propagated | Umount::Sync);
        if propagates {
            tops.iter().for_each(|&top| self.propagate_mount_unlock(top));
        }
        let mut order = match tops {
            [top] => self.subtree(*top),
            _ => tops.iter().flat_map(|&top| self.subtree(top)).collect(),
        };
        let mut set = HashSet::from_iter(order.iter().copied());
        if propagates {
            let candidates = self.propagate_umount(&order, &set);
            set.extend(&candidates);
            self.slide_survivors(&candidates, &set);
            order.extend(candidates);
        }
        self.leave_groups(&order, &set);
        let first = self.detached.len();
        for &id in order.iter().rev() {
            let (parent, _) = self.vfs.mount_slot(id).place();
            self.set_ns(&[id], NsId::NONE);
            let keeps = match how {
                Umount::Connected => true,
                Umount::Propagated | Umount::Alone => self.is_locked(id),
                Umount::Sync => false,
            };
            let stays = keeps && set.contains(&parent);
            if parent != MountId::NONE && !stays {
                self.unhook(id);
            }
            if !stays {
                self.let_free(id);
            }
        }
        // What was mounted in another goes after that; what was taken down before goes before.
        self.detached[first..].reverse();
    }

    /// Takes down a mount in which nothing hangs, in one that nobody receives from.
    fn umount_lone(&mut self, id: MountId) {
        self.set_ns(&[id], NsId::NONE);
        if self.node(id).takes_part() || self.node(id).unbindable {
            self.change_propagation(id, Propagation::Private);
        }
        if self.vfs.mount_slot(id).place().0 != MountId::NONE {
            self.unhook(id);
        }
        self.let_free(id);
    }

    /// What covers mounts that go, and does not go itself, takes the place of the lowest of them.
    ///
    /// Linux: `reparent`.
    fn slide_survivors(&mut self, candidates: &[MountId], set: &HashSet<MountId>) {
        for &id in candidates {
            let Some(over) = self.overmount(id).filter(|over| !set.contains(over)) else {
                continue;
            };
            let mut lowest = id;
            loop {
                let parent = self.vfs.mount_slot(lowest).place().0;
                if !set.contains(&parent) {
                    break;
                }
                lowest = parent;
            }
            self.replace(lowest, over, None);
        }
    }

    /// Lets a mount that hangs nowhere go with its last holder.
    fn let_free(&mut self, id: MountId) {
        self.set_flags(id, self.vfs.mount_slot(id).flags() | MntFlags::DETACHED);
        self.detached.push(id);
    }

    /// Whether a mount is in a tree that hangs nowhere.
    pub(super) fn is_anonymous(&self, id: MountId) -> bool {
        let namespace = self.namespaces.get(&self.vfs.mount_slot(id).ns());
        namespace.is_some_and(|namespace| namespace.anonymous.is_some())
    }

    /// Whether a mount is the root of a tree that hangs nowhere.
    pub(super) fn is_anonymous_root(&self, id: MountId) -> bool {
        let namespace = self.namespaces.get(&self.vfs.mount_slot(id).ns());
        namespace.is_some_and(|namespace| namespace.anonymous.is_some() && namespace.root == id)
    }
}
