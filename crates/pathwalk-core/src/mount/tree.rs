//! The tree of mounts under its lock: hanging one up, taking one down, finding what is where.
//!
//! ```text
//!   Vfs::mount_tree() ─► TreeGuard     lookups, attach, unhook                    here
//!                           ├ graft       copies, and hanging whole trees up
//!                           ├ propagate   who else gets it
//!                           ├ umount      taking whole trees down
//!                           └ remount     flags
//! ```
//!
//! What only writers look at is in maps here; what walks look at is in the slots. What the tree lets go of is given
//! back after the lock: file systems may hear of dentries and mounts, and with a map of owners a page may go.
//!
//! Linux: `namespace_sem` and `mount_lock`; `attach_mnt`, `umount_mnt`, `next_mnt`.

use super::{
    MntFlags, Mount, MountId, NsId, ids::Ids, mount_hash, ordered::Ordered, propagate::Groups,
    umount::Unused,
};
use crate::{
    dcache::{DIRECTORY, DentryId, HASHED, IS_ROOT, MOUNTED},
    idmap::IdmapBlobs,
    lock,
    topology::Moving,
    vfs::{SuperBlock, Vfs},
};
use parking_lot::MutexGuard;
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::{
    Absent, Change,
    lock_order::{self, Held},
};
use rustc_hash::FxHashMap as HashMap;
use smallvec::SmallVec;
use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
};

/// As many mounts as `fs.mount-max` allows in a namespace.
pub(crate) const MOUNT_MAX: u32 = 100_000;

/// The mounts of all namespaces together.
pub(crate) const MOUNT_SLOTS: u32 = 1 << 20;

/// The first unique number of a mount is the next.
const UNIQUE_IDS: u64 = 1 << 31;

/// Some mounts: mostly no more than these.
pub(super) type Mounts = SmallVec<[MountId; 4]>;

/// What only writers of the tree look at.
#[derive(Debug, Default)]
pub(crate) struct MountTree {
    pub(super) nodes: HashMap<MountId, Node>,
    /// The mounts that cover a dentry, in all parents.
    on: HashMap<DentryId, Covering>,
    /// How many mounts have a map of owners.
    pub(super) idmaps: HashMap<IdmapBlobs, u32>,
    pub(super) groups: Groups,
    pub(super) namespaces: HashMap<NsId, Namespace>,
    pub(super) last_ns: u32,
    pub(super) last_rights: u32,
    mnt_ids: Ids,
    last_hung: u64,
    last_unique_id: u64,
}

/// The mounts that cover a dentry, by when each was hung up. Mostly it is one, which takes no allocation.
#[derive(Debug, Default)]
struct Covering {
    /// None where there are none.
    oldest: Option<(u64, MountId)>,
    younger: BTreeMap<u64, MountId>,
}

impl Covering {
    /// Adds the one that was hung up last.
    fn add(&mut self, hung: u64, id: MountId) {
        if self.oldest.is_none() {
            self.oldest = Some((hung, id));
        } else {
            self.younger.insert(hung, id);
        }
    }

    /// Takes away the one that was hung up then; says whether it was the last.
    fn take(&mut self, hung: u64) -> bool {
        if self.oldest.is_some_and(|(oldest, _)| oldest == hung) {
            self.oldest = self.younger.pop_first();
        } else {
            self.younger.remove(&hung);
        }
        self.oldest.is_none()
    }

    /// The youngest first.
    fn iter(&self) -> impl Iterator<Item = MountId> {
        self.younger.values().rev().copied().chain(self.oldest.map(|(_, id)| id))
    }
}

/// What only writers of the tree know of a mount.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The mounts that hang in it, by when each was hung up: so they are copied.
    pub(super) children: Ordered,
    /// When it was hung up.
    hung: u64,
    /// The peer group it is in; 0 is none.
    pub(super) shared: u32,
    /// The mount that it receives from; [`MountId::NONE`] is none.
    pub(super) master: MountId,
    /// Those that receive from it.
    pub(super) slaves: Vec<MountId>,
    /// Whether it may not be bound.
    pub(super) unbindable: bool,
}

impl Node {
    /// Whether it sends or receives.
    pub(super) fn takes_part(&self) -> bool {
        self.shared != 0 || self.master != MountId::NONE
    }
}

/// Whose rights the tasks of a namespace have over it. Linux: its user namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights(pub(super) u32);

/// A mount namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    /// The mount at the bottom.
    pub(super) root: MountId,
    /// Its mounts by their unique numbers: the oldest first.
    pub(super) mounts: Ordered,
    /// Of the namespace of a tree that hangs nowhere: the one that it was copied in.
    pub(super) anonymous: Option<NsId>,
    /// Whose rights its tasks have; what comes from a namespace of other rights is locked.
    pub(super) rights: Rights,
}

/// The tree's lock, held.
pub(crate) struct TreeGuard<'v> {
    pub(super) vfs: &'v Vfs,
    locked: Option<(MutexGuard<'v, MountTree>, Held)>,
    /// From the first move of a mount on.
    moving: Option<Moving<'v>>,
    pub(super) unused: Unused<'v>,
    /// Counts to be given back after the lock.
    pub(super) dentries: SmallVec<[DentryId; 4]>,
    /// Maps of owners that no mount has any more, to be freed after the lock.
    pub(super) idmaps_left: Vec<IdmapBlobs>,
    /// Detached mounts to be freed after the lock if nobody holds them, in that order.
    pub(super) detached: Mounts,
}

impl Deref for TreeGuard<'_> {
    type Target = MountTree;

    fn deref(&self) -> &MountTree {
        &self.locked.as_ref().expect("locked until it is dropped").0
    }
}

impl DerefMut for TreeGuard<'_> {
    fn deref_mut(&mut self) -> &mut MountTree {
        &mut self.locked.as_mut().expect("locked until it is dropped").0
    }
}

impl Drop for TreeGuard<'_> {
    fn drop(&mut self) {
        self.moving = None;
        self.unused.clear();
        self.locked = None;
        let _work = (!self.dentries.is_empty()).then(|| self.vfs.task_work());
        for dentry in self.dentries.drain(..) {
            self.vfs.dput(dentry);
        }
        for blobs in self.idmaps_left.drain(..) {
            self.vfs.idmap_free(blobs);
        }
        if !self.detached.is_empty() {
            let work = self.vfs.task_work();
            // The one that is noted last goes first.
            self.detached.drain(..).rev().for_each(|id| work.note(id));
        }
    }
}

impl Vfs {
    /// Locks the tree.
    pub(crate) fn mount_tree(&self) -> TreeGuard<'_> {
        let held = lock_order::acquire(lock::MOUNTS, false);
        let locked = Some((self.tree.lock(), held));
        TreeGuard {
            vfs: self,
            locked,
            moving: None,
            unused: Unused::default(),
            dentries: SmallVec::new(),
            idmaps_left: Vec::new(),
            detached: Mounts::new(),
        }
    }

    /// Whether something is mounted on the dentry in a namespace.
    ///
    /// Linux: `is_local_mountpoint`.
    pub(crate) fn is_local_mountpoint(&self, dentry: DentryId, ns: NsId) -> bool {
        self.dentry(dentry).is(MOUNTED)
            && self.mount_tree().on(dentry).any(|id| self.mount_slot(id).ns() == ns)
    }
}

impl MountTree {
    pub(super) fn node(&self, id: MountId) -> &Node {
        self.nodes.get(&id).expect("a mount has a node until it is freed")
    }

    pub(super) fn node_mut(&mut self, id: MountId) -> &mut Node {
        self.nodes.get_mut(&id).expect("a mount has a node until it is freed")
    }

    /// The mounts that cover a dentry, in all parents, the newest first.
    pub(super) fn on(&self, dentry: DentryId) -> impl Iterator<Item = MountId> {
        self.on.get(&dentry).into_iter().flat_map(Covering::iter)
    }

    /// A mount and all below it, parents first.
    ///
    /// Linux: `next_mnt`.
    pub(super) fn subtree(&self, root: MountId) -> Mounts {
        if self.node(root).children.is_empty() {
            return Mounts::from_slice(&[root]);
        }
        let mut todo = vec![root];
        let mut found = Mounts::new();
        while let Some(at) = todo.pop() {
            found.push(at);
            todo.extend(self.node(at).children.values().rev());
        }
        found
    }
}

impl<'v> TreeGuard<'v> {
    /// Makes a mount that hangs nowhere yet. It takes over the caller's count of `root`.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there are as many mounts as there may be.
    pub(crate) fn alloc(
        &mut self,
        sb: &SuperBlock,
        root: DentryId,
        flags: MntFlags,
    ) -> Result<MountId> {
        let vfs = self.vfs;
        let id = vfs.mounts.alloc().ok_or(Errno::ENOSPC)?;
        vfs.mhash.grow(&vfs.mounts, vfs.mounts.high_water());
        vfs.count_mount(sb.id(), 1);
        self.last_unique_id += 1;
        let unique_id = UNIQUE_IDS + self.last_unique_id;
        let mnt_id = self.mnt_ids.take();
        let mount = vfs.mounts.get(id);
        let _change = mount.seq.change();
        let sb_flags = if sb.is_read_only() { MntFlags::SB_RDONLY } else { MntFlags::empty() };
        mount.flags.set((flags | sb_flags).bits());
        mount.parent.set(0);
        mount.mountpoint.set(0);
        mount.root.set(root.0);
        mount.sb.set(sb.id());
        mount.sb_root.set(sb.root().0);
        mount.unique_id.set(unique_id);
        mount.mnt_id.set(mnt_id);
        mount.dev.set(sb.dev.to_u32());
        mount.blksize.set(sb.blksize);
        mount.ns.set(0);
        mount.name_idmap(IdmapBlobs::NONE);
        self.nodes.insert(MountId(id), Node::default());
        Ok(MountId(id))
    }

    /// Forgets a mount that is in no tree, and whose count is odd; returns its root and, if it was the last one of it, its superblock.
    pub(super) fn forget(&mut self, id: MountId) -> (DentryId, Option<u32>) {
        let mount = self.vfs.mount_slot(id);
        self.put_idmap(mount.idmap_blobs());
        self.nodes.remove(&id);
        self.mnt_ids.give(mount.mnt_id.get());
        let sb = mount.sb.get();
        let last = self.vfs.count_mount(sb, -1) == 0;
        (mount.root(), last.then_some(sb))
    }

    /// What is mounted on a dentry as seen in a mount.
    ///
    /// Linux: `__lookup_mnt`.
    pub(super) fn child_at(&self, parent: MountId, mountpoint: DentryId) -> Option<MountId> {
        let vfs = self.vfs;
        let hash = mount_hash(parent, mountpoint);
        let it = |id, mount: &Mount| (mount.place() == (parent, mountpoint)).then_some(MountId(id));
        // Under the tree's lock the mark is there wherever something is mounted.
        if !vfs.dentry(mountpoint).is(MOUNTED) {
            debug_assert_eq!(vfs.mhash.find_locked(&vfs.mounts, hash, it), None);
            return None;
        }
        // Who writes has the tree's lock, so mostly it needs no other.
        match vfs.mhash.find_sure(&vfs.mounts, hash, it) {
            Absent::Found(id) => Some(id),
            Absent::Sure => None,
            Absent::Unsure => vfs.mhash.find_locked(&vfs.mounts, hash, it),
        }
    }

    /// What covers a mount's root.
    pub(super) fn overmount(&self, id: MountId) -> Option<MountId> {
        self.child_at(id, self.vfs.mount_slot(id).root())
    }

    /// The mount on top of the stack that stands on a mount's root.
    pub(super) fn topmost(&self, mut id: MountId) -> MountId {
        while let Some(over) = self.overmount(id) {
            id = over;
        }
        id
    }

    /// What a place shows: the root of what is mounted on top of it, in that mount; or the place itself.
    pub(super) fn top_of(&self, parent: MountId, dentry: DentryId) -> (MountId, DentryId) {
        match self.child_at(parent, dentry) {
            Some(child) => {
                let top = self.topmost(child);
                (top, self.vfs.mount_slot(top).root())
            }
            None => (parent, dentry),
        }
    }

    /// Whether `ancestor` is `of` or `of` hangs below it.
    pub(super) fn mount_is_ancestor(&self, ancestor: MountId, mut of: MountId) -> bool {
        loop {
            if of == ancestor {
                return true;
            }
            let (parent, _) = self.vfs.mount_slot(of).place();
            if parent == MountId::NONE {
                return false;
            }
            of = parent;
        }
    }

    /// Whether a place lies below another, across mounts.
    ///
    /// Linux: `is_path_reachable`.
    pub(super) fn is_reachable(&self, at: (MountId, DentryId), root: (MountId, DentryId)) -> bool {
        self.vfs.while_still(|still| Some(self.vfs.is_under(at, root, still)))
    }

    /// Whether a dentry is another or lies below it.
    ///
    /// Linux: `is_subdir`.
    pub(super) fn is_subdir(&self, of: DentryId, ancestor: DentryId) -> bool {
        self.vfs.while_still(|still| Some(self.vfs.is_ancestor(ancestor, of, still)))
    }

    pub(super) fn is_directory(&self, dentry: DentryId) -> bool {
        self.vfs.dentry(dentry).is(DIRECTORY)
    }

    /// Whether a name, or a root, leads to the dentry.
    pub(super) fn is_linked(&self, dentry: DentryId) -> bool {
        self.vfs.dentry(dentry).is(HASHED | IS_ROOT)
    }

    /// Whether names lead from the file system's root to the dentry.
    ///
    /// Linux: the climb of `d_set_mounted`.
    pub(super) fn is_linked_from_root(&self, dentry: DentryId) -> bool {
        self.vfs.while_still(|_| {
            let mut at = dentry;
            while self.is_linked(at) {
                let slot = self.vfs.dentry(at);
                if slot.is(IS_ROOT) {
                    return Some(true);
                }
                at = DentryId(slot.parent.get());
            }
            Some(false)
        })
    }

    /// The dentries at or below a directory that something is mounted on.
    pub(super) fn mountpoints_below(&self, top: DentryId) -> Vec<DentryId> {
        let sb = self.vfs.dentry(top).sb.get();
        let of_sb = |dentry: &DentryId| self.vfs.dentry(*dentry).sb.get() == sb;
        let on = self.on.keys().copied().filter(of_sb);
        on.filter(|&dentry| self.is_subdir(dentry, top)).collect()
    }

    /// Hangs a mount over a dentry, with all that hangs in it.
    ///
    /// Linux: `attach_mnt`.
    pub(super) fn attach(&mut self, id: MountId, parent: MountId, mountpoint: DentryId) {
        self.begin_to_move();
        self.attach_unseen(id, parent, mountpoint);
    }

    /// As [`TreeGuard::attach`], in a tree that nobody has seen yet.
    pub(super) fn attach_unseen(&mut self, id: MountId, parent: MountId, mountpoint: DentryId) {
        let _mount = self.change(id);
        self.hook(id, parent, mountpoint);
    }

    /// Mounts change their places from here on, until the lock is given up. Nobody climbs meanwhile.
    fn begin_to_move(&mut self) {
        if self.moving.is_none() {
            self.moving = Some(self.vfs.moving());
        }
    }

    /// Makes a mount's count odd, unless it is.
    pub(super) fn change(&self, id: MountId) -> Option<Change<'v>> {
        (!self.unused.contains(id)).then(|| self.vfs.mount_slot(id).seq.change())
    }

    /// As [`TreeGuard::attach`], while the mount's count is odd.
    fn hook(&mut self, id: MountId, parent: MountId, mountpoint: DentryId) {
        let covered = self.vfs.dentry(mountpoint);
        {
            let _dentry = covered.lockref.lock(lock::DENTRY);
            covered.lockref.get_locked();
            // It may be marked by now; walks that saw it so found nothing, and do not rely on that any more.
            let _change = covered.seq.change();
            covered.flags.set(covered.flags.get() | MOUNTED);
            self.hash(id, parent, mountpoint);
        }
        self.adopt(id, parent, mountpoint);
    }

    /// Notes that a mount was hung up, as the last so far.
    fn adopt(&mut self, id: MountId, parent: MountId, mountpoint: DentryId) {
        self.last_hung += 1;
        let hung = self.last_hung;
        self.node_mut(id).hung = hung;
        self.node_mut(parent).children.insert(hung, id);
        self.on.entry(mountpoint).or_default().add(hung, id);
    }

    /// Notes that a mount hangs there no more; says whether nothing else does.
    fn disown(&mut self, id: MountId, parent: MountId, mountpoint: DentryId) -> bool {
        let hung = self.node(id).hung;
        self.node_mut(parent).children.remove(hung);
        let on = self.on.get_mut(&mountpoint).expect("an attached mount covers a dentry");
        let last = on.take(hung);
        if last {
            self.on.remove(&mountpoint);
        }
        last
    }

    fn hash(&self, id: MountId, parent: MountId, mountpoint: DentryId) {
        let mount = self.vfs.mount_slot(id);
        mount.parent.set(parent.0);
        mount.mountpoint.set(mountpoint.0);
        self.vfs.mhash.insert(id.0, mount);
    }

    fn unhash(&self, id: MountId) {
        let mount = self.vfs.mount_slot(id);
        self.vfs.mhash.remove(&self.vfs.mounts, id.0, mount);
        mount.parent.set(0);
        mount.mountpoint.set(0);
    }

    /// Takes a mount down from what it covers, with all that hangs in it.
    ///
    /// Linux: `umount_mnt`.
    pub(super) fn unhook(&mut self, id: MountId) {
        self.begin_to_move();
        self.unhook_unseen(id);
    }

    /// As [`TreeGuard::unhook`], in a tree that nobody has seen yet.
    pub(super) fn unhook_unseen(&mut self, id: MountId) {
        let _mount = self.change(id);
        self.unhook_changing(id);
    }

    /// As [`TreeGuard::unhook`], while the mount's count is odd.
    fn unhook_changing(&mut self, id: MountId) {
        let (parent, mountpoint) = self.vfs.mount_slot(id).place();
        let last = self.disown(id, parent, mountpoint);
        let covered = self.vfs.dentry(mountpoint);
        {
            let _dentry = covered.lockref.lock(lock::DENTRY);
            let _change = covered.seq.change();
            self.unhash(id);
            if last {
                covered.flags.set(covered.flags.get() & !MOUNTED);
            }
        }
        self.dentries.push(mountpoint);
    }

    /// Puts a mount in the place of another, which goes elsewhere or nowhere. No walk sees what is in between, or what
    /// both cover: it finds one of them changing, or the count of what they cover moved.
    pub(super) fn replace(
        &mut self,
        old: MountId,
        new: MountId,
        old_to: Option<(MountId, DentryId)>,
    ) {
        self.begin_to_move();
        let (old_slot, new_slot) = (self.vfs.mount_slot(old), self.vfs.mount_slot(new));
        let (_old, _new) = (self.change(old), self.change(new));
        if new_slot.place().0 != MountId::NONE {
            self.unhook_changing(new);
        }
        let (parent, mountpoint) = old_slot.place();
        let covered = self.vfs.dentry(mountpoint);
        {
            let _dentry = covered.lockref.lock(lock::DENTRY);
            let _change = covered.seq.change();
            self.unhash(old);
            self.hash(new, parent, mountpoint);
        }
        self.disown(old, parent, mountpoint);
        self.adopt(new, parent, mountpoint);
        if let Some((parent, mountpoint)) = old_to {
            self.hook(old, parent, mountpoint);
        }
    }

    /// Changes the flags of a mount.
    pub(super) fn set_flags(&self, id: MountId, flags: MntFlags) {
        let _change = self.change(id);
        self.vfs.mount_slot(id).flags.set(flags.bits());
    }

    /// Puts mounts into a namespace, or out of those they are in. That of a tree that hangs nowhere goes with its last mount.
    pub(super) fn set_ns(&mut self, ids: &[MountId], ns: NsId) {
        if let &[id] = ids {
            if let Some(number) = self.leave_ns(id, ns)
                && let Some(new) = self.namespace_mut(ns)
            {
                new.mounts.insert(number, id);
            }
            return;
        }
        // What stays where it is keeps its place among the others, however many these are.
        let numbers: SmallVec<[_; 4]> =
            ids.iter().filter_map(|&id| Some((self.leave_ns(id, ns)?, id))).collect();
        if let Some(new) = self.namespace_mut(ns) {
            new.mounts.extend(&numbers);
        }
    }

    /// Takes a mount out of its namespace, and names the one that it goes to; answers its number, if that is another.
    fn leave_ns(&mut self, id: MountId, to: NsId) -> Option<u64> {
        let mount = self.vfs.mount_slot(id);
        let (from, number) = (mount.ns(), mount.unique_id.get());
        if from == to {
            return None;
        }
        if let Some(old) = self.namespace_mut(from) {
            old.mounts.remove(number);
            if old.anonymous.is_some() && old.mounts.is_empty() {
                self.namespaces.remove(&from);
            }
        }
        let _change = self.change(id);
        mount.ns.set(to.0);
        Some(number)
    }

    fn namespace_mut(&mut self, ns: NsId) -> Option<&mut Namespace> {
        if ns == NsId::NONE { None } else { self.namespaces.get_mut(&ns) }
    }
}
