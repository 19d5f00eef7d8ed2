//! Changing the tree of mounts.
//!
//! Linux: `do_add_mount`, `do_loopback`, `do_umount`, `umount_tree`; mount(2), umount(2).

use super::{MntFlags, MountId};
use crate::{
    dcache::{DIRECTORY, DentryId, MOUNTED},
    lock,
    vfs::Vfs,
    walk::HeldPath,
};
use parking_lot::{Mutex, MutexGuard};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::lock_order::{self, Held};
use std::collections::HashMap;

/// As many mounts as `fs.mount-max` allows.
pub(crate) const MOUNT_MAX: u32 = 100_000;

/// What only writers of the tree look at.
#[derive(Debug, Default)]
pub(crate) struct MountTree {
    /// The mounts that hang in a mount.
    children: HashMap<MountId, Vec<MountId>>,
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
        TreeGuard { tree: lock_tree(&self.tree), _held: held }
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
        let blksize = superblock.fs.blksize();
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
        while let Some(top) = guard.tree.on(self, parent, mountpoint) {
            (parent, mountpoint) = (top, DentryId(self.mount_slot(top).root.get()));
        }
        self.dget(mountpoint);
        (parent, mountpoint)
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
        guard.tree.children.entry(parent).or_default().push(id);
        self.topology_changed();
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
            // From here on readers that come by see the count odd and hold nothing.
            let change = self.mount_slot(id).seq.change();
            let unused = (0..LOOKS).any(|look| {
                if look != 0 {
                    std::thread::yield_now();
                }
                self.mount_counts.get(id.0).sum_after() <= 1
            });
            drop(change);
            if !unused {
                return Err(Errno::EBUSY);
            }
        }
        // Leaves first; each becomes a tree of its own and goes with its last holder.
        let mut subtree = vec![id];
        let mut next = 0;
        while let Some(&at) = subtree.get(next) {
            subtree.extend(guard.tree.children.get(&at).into_iter().flatten());
            next += 1;
        }
        let mut uncovered = Vec::new();
        for &at in subtree.iter().rev() {
            uncovered.push(self.detach_one(&mut guard.tree, at));
        }
        self.topology_changed();
        drop(guard);
        for (mount, mountpoint) in uncovered {
            self.dput(mountpoint);
            self.mount_free_if_unused(mount);
        }
        Ok(())
    }

    fn detach_one(&self, tree: &mut MountTree, id: MountId) -> (MountId, DentryId) {
        let mount = self.mount_slot(id);
        let (parent, mountpoint) = (MountId(mount.parent.get()), DentryId(mount.mountpoint.get()));
        let children =
            tree.children.get_mut(&parent).expect("an attached mount is its parent's child");
        children.retain(|&child| child != id);
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
        {
            let _change = mount.seq.change();
            mount.parent.set(0);
            mount.mountpoint.set(0);
            mount.flags.set((mount.flags() | MntFlags::DETACHED).bits());
        }
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

impl MountTree {
    /// What is mounted there; the caller holds the tree's lock.
    fn on(&self, vfs: &Vfs, parent: MountId, mountpoint: DentryId) -> Option<MountId> {
        self.children
            .get(&parent)?
            .iter()
            .copied()
            .find(|&child| vfs.mount_slot(child).mountpoint.get() == mountpoint.0)
    }
}

fn lock_tree(tree: &Mutex<MountTree>) -> MutexGuard<'_, MountTree> {
    tree.lock()
}
