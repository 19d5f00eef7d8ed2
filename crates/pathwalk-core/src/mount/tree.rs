//! Changing the tree of mounts.
//!
//! Linux: `do_add_mount`, `do_loopback`, `do_umount`, `umount_tree`; mount(2), umount(2).

use super::{COARSE_TIMES, MntFlags, MountId, mount_hash};
use crate::{
    dcache::{DIRECTORY, DentryId, MOUNTED},
    fs::Features,
    lock,
    vfs::Vfs,
    walk::HeldPath,
};
use parking_lot::MutexGuard;
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::{
    Change,
    lock_order::{self, Held},
};
use std::collections::{BTreeSet, HashMap};

/// As many mounts as `fs.mount-max` allows.
pub(crate) const MOUNT_MAX: u32 = 100_000;

/// What only writers of the tree look at.
#[derive(Debug, Default)]
pub(crate) struct MountTree {
    /// The mounts that hang in a mount.
    children: HashMap<MountId, BTreeSet<MountId>>,
    /// How many mounts cover a dentry, in all parents.
    covers: HashMap<DentryId, u32>,
    /// How many mounts a superblock has.
    of_sb: HashMap<u32, u32>,
}

/// The tree's lock, held.
pub(crate) struct TreeGuard<'a> {
    tree: MutexGuard<'a, MountTree>,
    _held: Held,
}

/// How often an unmount looks whether a mount is still in use: a late reader lets go at once.
const LOOKS: u32 = 8;

impl Vfs {
    fn mount_tree(&self) -> TreeGuard<'_> {
        let held = lock_order::acquire(lock::MOUNTS, false);
        TreeGuard { tree: self.tree.lock(), _held: held }
    }

    /// Makes a mount of `root` that hangs nowhere yet, with one count. It takes over the caller's count of `root`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there are as many mounts as there may be.
    pub(crate) fn mount_alloc(&self, sb: u32, root: DentryId, flags: MntFlags) -> Result<MountId> {
        let superblock = self.superblock(sb).ok_or(Errno::ENODEV)?;
        let id = self.mounts.alloc().ok_or(Errno::ENOSPC)?;
        self.mhash.grow(&self.mounts, self.mounts.high_water());
        let mount = self.mounts.get(id);
        let coarse = superblock.fs.features().contains(Features::COARSE_TIMES);
        let blksize = superblock.fs.blksize() | if coarse { COARSE_TIMES } else { 0 };
        let mut guard = self.mount_tree();
        *guard.tree.of_sb.entry(sb).or_default() += 1;
        let _change = mount.seq.change();
        let sb_flags = if superblock.read_only { MntFlags::SB_RDONLY } else { MntFlags::empty() };
        mount.flags.set((flags | sb_flags).bits());
        mount.parent.set(0);
        mount.mountpoint.set(0);
        mount.root.set(root.0);
        mount.sb.set(sb);
        mount.sb_root.set(superblock.root.get().map_or(root.0, |sb_root| sb_root.0));
        mount.id.set(self.next_mount_id.add(1));
        mount.dev.set(superblock.dev.to_u32());
        mount.blksize.set(blksize);
        self.mount_counts.get(id).get();
        Ok(MountId(id))
    }

    /// Hangs a mount over a place; the caller holds both.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the place was removed, or lies in a mount that hangs nowhere any more.
    /// - `ENOTDIR`: one is a directory and the other is not.
    pub(crate) fn attach(&self, id: MountId, at: &HeldPath<'_>) -> Result<()> {
        loop {
            let (parent, mountpoint) = self.hold_top(&self.mount_tree(), at);
            let attached = self.attach_at(id, at, parent, mountpoint);
            self.dput(mountpoint);
            if let Some(attached) = attached {
                return attached;
            }
        }
    }

    /// What the place shows: the root of what is mounted on top of it, counted, as seen in that mount.
    fn hold_top(&self, guard: &TreeGuard<'_>, at: &HeldPath<'_>) -> (MountId, DentryId) {
        let (mut parent, mut mountpoint) = (at.mnt(), at.dentry());
        while let Some(top) = self.mounted_on_locked(guard, parent, mountpoint) {
            (parent, mountpoint) = (top, DentryId(self.mount_slot(top).root.get()));
        }
        self.dget(mountpoint);
        (parent, mountpoint)
    }

    /// What is mounted on a dentry as seen in a mount; the tree's lock makes it exact.
    fn mounted_on_locked(
        &self,
        _guard: &TreeGuard<'_>,
        parent: MountId,
        mountpoint: DentryId,
    ) -> Option<MountId> {
        self.mhash.find_locked(&self.mounts, mount_hash(parent, mountpoint), |id, mount| {
            let it = mount.parent.get() == parent.0 && mount.mountpoint.get() == mountpoint.0;
            it.then_some(MountId(id))
        })
    }

    /// Hangs a mount over a dentry; none where something else was mounted there meanwhile.
    fn attach_at(
        &self,
        id: MountId,
        at: &HeldPath<'_>,
        parent: MountId,
        mountpoint: DentryId,
    ) -> Option<Result<()>> {
        let mount = self.mount_slot(id);
        // Nobody removes or moves it from here on: whoever does reserves its name and then looks whether it is a
        // mountpoint.
        let _name = match self.reserve_held(mountpoint) {
            Ok(name) => name,
            Err(errno) => return Some(Err(errno)),
        };
        let mut guard = self.mount_tree();
        // What was mounted there since is covered too.
        let top = self.hold_top(&guard, at);
        self.dput(top.1);
        if top != (parent, mountpoint) {
            return None;
        }
        if self.mount_slot(parent).flags().contains(MntFlags::DETACHED) {
            return Some(Err(Errno::ENOENT));
        }
        let is_directory = |dentry: u32| self.dentries.get(dentry).is(DIRECTORY);
        if is_directory(mount.root.get()) != is_directory(mountpoint.0) {
            return Some(Err(Errno::ENOTDIR));
        }
        let covered = self.dentry(mountpoint);
        {
            let _moving = self.moving();
            let _dentry = covered.lockref.lock(lock::DENTRY);
            covered.lockref.get_locked();
            {
                let _mount = mount.seq.change();
                mount.parent.set(parent.0);
                mount.mountpoint.set(mountpoint.0);
            }
            self.mhash.insert(id.0, mount);
            let _change = covered.seq.change();
            covered.flags.set(covered.flags.get() | MOUNTED);
        }
        *guard.tree.covers.entry(mountpoint).or_default() += 1;
        guard.tree.children.entry(parent).or_default().insert(id);
        Some(Ok(()))
    }

    /// Takes a mount out of the tree. The caller holds one count of it.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: it hangs nowhere: it is the root, or was unmounted meanwhile.
    /// - `EBUSY`: something is mounted in it, or somebody else holds it; unless `lazy`.
    pub(crate) fn detach(&self, id: MountId, lazy: bool) -> Result<()> {
        let mut guard = self.mount_tree();
        if self.mount_slot(id).parent.get() == 0 {
            return Err(Errno::EINVAL);
        }
        if !lazy {
            if guard.tree.children.get(&id).is_some_and(|children| !children.is_empty()) {
                return Err(Errno::EBUSY);
            }
            // Looked at before anything is changed, so that a refusal costs no walk its sample.
            if !self.is_unused(id) {
                return Err(Errno::EBUSY);
            }
        }
        // From here on readers that come by see the count odd and hold nothing, until the mount is detached. It must not be
        // even in between: who waits for that would hold a mount that nobody was seen to use.
        let change = self.mount_slot(id).seq.change();
        if !lazy && !self.is_unused(id) {
            return Err(Errno::EBUSY);
        }
        // Leaves first; each becomes a tree of its own and goes with its last holder.
        let mut subtree = vec![id];
        let mut next = 0;
        while let Some(&at) = subtree.get(next) {
            subtree.extend(guard.tree.children.get(&at).into_iter().flatten());
            next += 1;
        }
        let mut uncovered = Vec::new();
        {
            let _moving = self.moving();
            for &at in subtree[1..].iter().rev() {
                let change = self.mount_slot(at).seq.change();
                uncovered.push(self.detach_one(&mut guard.tree, at, change));
            }
            uncovered.push(self.detach_one(&mut guard.tree, id, change));
        }
        drop(guard);
        for (mount, mountpoint) in uncovered {
            self.dput(mountpoint);
            self.mount_free_if_unused(mount);
        }
        Ok(())
    }

    /// Whether nobody but the caller, who has one count, holds a mount.
    fn is_unused(&self, id: MountId) -> bool {
        (0..LOOKS).any(|look| {
            if look != 0 {
                std::thread::yield_now();
            }
            self.mount_counts.get(id.0).sum_after() <= 1
        })
    }

    /// Takes one mount out of the tree. It takes over the change of the mount's slot.
    fn detach_one(
        &self,
        tree: &mut MountTree,
        id: MountId,
        change: Change<'_>,
    ) -> (MountId, DentryId) {
        let mount = self.mount_slot(id);
        let (parent, mountpoint) = (MountId(mount.parent.get()), DentryId(mount.mountpoint.get()));
        let children =
            tree.children.get_mut(&parent).expect("an attached mount is its parent's child");
        children.remove(&id);
        if children.is_empty() {
            tree.children.remove(&parent);
        }
        let covers = tree.covers.get_mut(&mountpoint).expect("an attached mount covers a dentry");
        *covers -= 1;
        let last = *covers == 0;
        if last {
            tree.covers.remove(&mountpoint);
        }
        self.mhash.remove(&self.mounts, id.0, mount);
        mount.parent.set(0);
        mount.mountpoint.set(0);
        mount.flags.set((mount.flags() | MntFlags::DETACHED).bits());
        drop(change);
        let covered = self.dentry(mountpoint);
        let _dentry = covered.lockref.lock(lock::DENTRY);
        let _change = covered.seq.change();
        if last {
            covered.flags.set(covered.flags.get() & !MOUNTED);
        }
        (id, mountpoint)
    }

    /// Frees a detached mount that nobody holds, and its file system if it was the last one of it.
    #[cold]
    pub(crate) fn mount_free_if_unused(&self, id: MountId) {
        let mount = self.mount_slot(id);
        let (sb, root, last) = {
            let mut guard = self.mount_tree();
            if !mount.flags().contains(MntFlags::DETACHED)
                || self.mount_counts.get(id.0).sum_after() != 0
            {
                return;
            }
            let _change = mount.seq.change();
            // Whoever else saw the sum zero finds the flag gone.
            mount.flags.set(0);
            let sb = mount.sb.get();
            let count = guard.tree.of_sb.get_mut(&sb).expect("a mount's superblock counts it");
            *count -= 1;
            let last = *count == 0;
            if last {
                guard.tree.of_sb.remove(&sb);
            }
            (sb, DentryId(mount.root.get()), last)
        };
        self.mounts.free(id.0);
        self.dput(root);
        if last {
            self.kill_sb(sb);
        }
    }

    /// Marks a mount that hangs nowhere as detached, so that its last holder frees it.
    pub(crate) fn mount_abandon(&self, id: MountId) {
        {
            let _guard = self.mount_tree();
            let mount = self.mount_slot(id);
            let _change = mount.seq.change();
            mount.flags.set((mount.flags() | MntFlags::DETACHED).bits());
        }
        self.mntput(id);
    }

    /// Whether something is mounted on the dentry.
    pub(crate) fn is_mountpoint(&self, dentry: DentryId) -> bool {
        self.dentry(dentry).is(MOUNTED)
    }
}
