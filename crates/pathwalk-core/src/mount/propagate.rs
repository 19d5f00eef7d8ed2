//! Who else gets a mount, and who else loses one: peer groups and what they send.
//!
//! ```text
//!   peer group 1   A ═ B ═ C      shared: what is mounted in one is mounted in all
//!                      │
//!                      ▼ sends
//!   peer group 2   D ═ E          shared and slave: receives from group 1
//!                  │
//!                  ▼
//!                  F              slave: receives, sends to nobody
//! ```
//!
//! Invariant: all members of a group receive from the same group. So a slave is a slave of a *group*: which member of it
//! Linux has noted as the master cannot be seen.
//!
//! Linux: `fs/pnode.c`; mount_namespaces(7).

use super::{
    MountId, NsId,
    graft::Copy,
    ids::Ids,
    tree::{MountTree, TreeGuard},
};
use crate::dcache::DentryId;
use pathwalk_abi::{MountFlags, Result};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

/// The peer groups of a machine.
#[derive(Debug, Default)]
pub(super) struct Groups {
    map: HashMap<u32, Group>,
    ids: Ids,
}

/// A peer group.
#[derive(Debug, Default)]
struct Group {
    members: Vec<MountId>,
    /// Those that receive from it.
    slaves: Vec<MountId>,
}

/// How a mount takes part in propagation: one of `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Shared,
    Slave,
    Private,
    Unbindable,
}

impl Propagation {
    /// The types that there are.
    pub(crate) const FLAGS: MountFlags = MountFlags::SHARED
        .union(MountFlags::PRIVATE)
        .union(MountFlags::SLAVE)
        .union(MountFlags::UNBINDABLE);

    /// The type that the flags name; none if they name none, several, or something else beside it.
    pub(crate) fn from_ms(flags: MountFlags) -> Option<Self> {
        let flags = flags.difference(MountFlags::REC | MountFlags::SILENT);
        [
            (MountFlags::SHARED, Self::Shared),
            (MountFlags::SLAVE, Self::Slave),
            (MountFlags::PRIVATE, Self::Private),
            (MountFlags::UNBINDABLE, Self::Unbindable),
        ]
        .into_iter()
        .find_map(|(flag, propagation)| (flags.bits() == flag.bits()).then_some(propagation))
    }
}

impl MountTree {
    pub(super) fn is_shared(&self, id: MountId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.shared != 0)
    }

    pub(super) fn members(&self, group: u32) -> &[MountId] {
        self.groups.map.get(&group).map_or(&[], |group| &group.members)
    }

    fn slaves(&self, group: u32) -> &[MountId] {
        self.groups.map.get(&group).map_or(&[], |group| &group.slaves)
    }

    /// Puts a mount that is in no group into one, or into a new one.
    pub(super) fn join(&mut self, id: MountId, group: Option<u32>) {
        let group = group.unwrap_or_else(|| self.groups.ids.take());
        self.groups.map.entry(group).or_default().members.push(id);
        let node = self.node_mut(id);
        node.shared = group;
        node.unbindable = false;
    }

    /// Makes a mount that receives from nobody receive from a group.
    pub(super) fn enslave(&mut self, id: MountId, master: u32) {
        if master != 0 {
            self.groups.map.get_mut(&master).expect("a master is a group").slaves.push(id);
        }
        self.node_mut(id).master = master;
    }

    fn free_slave(&mut self, id: MountId) {
        let master = std::mem::take(&mut self.node_mut(id).master);
        if let Some(group) = self.groups.map.get_mut(&master) {
            group.slaves.retain(|&slave| slave != id);
        }
    }

    /// Changes how a mount takes part in propagation.
    ///
    /// What received from it goes on to receive from its peers or, if it has none, from whom it received itself.
    ///
    /// Linux: `change_mnt_propagation`.
    pub(super) fn change_propagation(&mut self, id: MountId, to: Propagation) {
        let (group, mut master) = (self.node(id).shared, self.node(id).master);
        if to == Propagation::Shared {
            if group == 0 {
                self.join(id, None);
            }
            return;
        }
        if group != 0 {
            self.node_mut(id).shared = 0;
            let left = self.groups.map.get_mut(&group).expect("a shared mount's group is there");
            left.members.retain(|&member| member != id);
            if left.members.is_empty() {
                let left = self.groups.map.remove(&group).expect("it was there");
                self.groups.ids.give(group);
                for slave in left.slaves {
                    self.enslave(slave, master);
                }
            } else {
                master = group;
            }
        }
        self.free_slave(id);
        if to == Propagation::Slave {
            self.enslave(id, master);
        } else {
            self.node_mut(id).unbindable = to == Propagation::Unbindable;
        }
    }

    /// All that receive what is mounted in a mount, each once and without itself.
    ///
    /// Linux: `propagation_next`.
    pub(super) fn receivers(&self, from: MountId) -> Vec<MountId> {
        let group = self.node(from).shared;
        if group == 0 {
            return Vec::new();
        }
        let (mut todo, mut seen) = (vec![group], HashSet::from_iter([0, group]));
        let mut found = Vec::new();
        while let Some(group) = todo.pop() {
            found.extend(self.members(group).iter().filter(|&&member| member != from));
            for &slave in self.slaves(group) {
                match self.node(slave).shared {
                    0 => found.push(slave),
                    group if seen.insert(group) => todo.push(group),
                    _ => {}
                }
            }
        }
        found
    }
}

/// Copies of a tree that is being mounted, not in their namespaces yet.
#[derive(Default)]
pub(super) struct Copies {
    /// Each copy, and the mount that receives it.
    pub(super) made: Vec<(MountId, MountId)>,
    /// How many mounts a namespace is to get.
    pub(super) pending: HashMap<NsId, u32>,
}

/// A group, and the copy of the tree that its slaves' copies are slaves of.
struct Wave {
    group: u32,
    source: MountId,
}

impl TreeGuard<'_> {
    /// Copies a shared tree for all who receive what is mounted in `parent`; returns the copies and where they belong.
    ///
    /// # Errors
    ///
    /// `ENOSPC`: there is no room; what was copied is in `copies` all the same.
    ///
    /// Linux: `propagate_mnt`.
    pub(super) fn propagate_mnt(
        &mut self,
        (parent, mountpoint): (MountId, DentryId),
        source: MountId,
        copies: &mut Copies,
    ) -> Result<()> {
        let group = self.node(parent).shared;
        let mut todo = vec![Wave { group, source }];
        let mut seen = HashSet::from_iter([0, group]);
        for &peer in &self.members(group).to_vec() {
            if peer != parent && self.gets_a_copy(peer, mountpoint) {
                self.copy_for(peer, source, Copy::Peer, copies)?;
            }
        }
        while let Some(Wave { group, source }) = todo.pop() {
            for &slave in &self.slaves(group).to_vec() {
                let peers = self.node(slave).shared;
                if peers == 0 {
                    if self.gets_a_copy(slave, mountpoint) {
                        self.copy_for(slave, source, Copy::Slave, copies)?;
                    }
                    continue;
                }
                if !seen.insert(peers) {
                    continue;
                }
                // The first member's copy is a slave of the copy above, the others' are its peers.
                let mut below = source;
                for &member in &self.members(peers).to_vec() {
                    if !self.gets_a_copy(member, mountpoint) {
                        continue;
                    }
                    let how = if below == source { Copy::SharedSlave } else { Copy::Peer };
                    below = self.copy_for(member, below, how, copies)?;
                }
                todo.push(Wave { group: peers, source: below });
            }
        }
        Ok(())
    }

    /// Whether a mount that receives shows the mountpoint, and is not itself just being mounted.
    ///
    /// Linux: `need_secondary`.
    fn gets_a_copy(&self, receiver: MountId, mountpoint: DentryId) -> bool {
        let mount = self.vfs.mount_slot(receiver);
        let anonymous =
            self.namespaces.get(&mount.ns()).is_none_or(|namespace| namespace.anonymous.is_some());
        mount.ns() != NsId::NONE && !anonymous && self.is_subdir(mountpoint, mount.root())
    }

    fn copy_for(
        &mut self,
        receiver: MountId,
        source: MountId,
        how: Copy,
        copies: &mut Copies,
    ) -> Result<MountId> {
        let ns = self.vfs.mount_slot(receiver).ns();
        let pending = copies.pending.entry(ns).or_default();
        let room = self.room_in(ns).saturating_sub(*pending);
        let root = self.vfs.mount_slot(source).root();
        let copy = self.copy_tree(source, root, how, room)?;
        *pending += self.subtree(copy).len() as u32;
        copies.made.push((copy, receiver));
        Ok(copy)
    }

    /// Whether what is mounted in `from` would also be mounted over `to`'s root.
    ///
    /// Linux: `propagation_would_overmount`.
    pub(super) fn would_overmount(&self, from: MountId, to: MountId, mountpoint: DentryId) -> bool {
        self.is_shared(from)
            && self.vfs.mount_slot(to).root() == mountpoint
            && (from == to || self.receivers(from).contains(&to))
    }

    /// Whether a mount, or one that would go with it, is in use by more than `counts`, looked at so often.
    ///
    /// Linux: `propagate_mount_busy`.
    pub(super) fn is_busy(&mut self, id: MountId, counts: u64, looks: u32) -> bool {
        if !self.node(id).children.is_empty() || self.in_use(id, counts, looks) {
            return true;
        }
        let (parent, mountpoint) = self.vfs.mount_slot(id).place();
        self.receivers(parent).into_iter().any(|receiver| {
            let Some(child) = self.child_at(receiver, mountpoint) else { return false };
            // One that has mounts of its own stays; what covers it whole is no hindrance.
            let children = &self.node(child).children;
            let stays = !children.is_empty()
                && (children.len() > 1 || self.overmount(child) != children.first().copied());
            !stays && self.in_use(child, 0, looks)
        })
    }

    /// The mounts that are unmounted beside those of `set`, which are whole subtrees: at the same mountpoint in all who
    /// receive, but for those that would take something else with them, or would show what they cover to somebody else.
    ///
    /// Linux: `propagate_umount`.
    pub(super) fn propagate_umount(&self, set: &HashSet<MountId>) -> HashSet<MountId> {
        let mut candidates = HashSet::default();
        for &id in set {
            let (parent, mountpoint) = self.vfs.mount_slot(id).place();
            if parent == MountId::NONE {
                continue;
            }
            let children = self.receivers(parent).into_iter();
            let children = children.filter_map(|receiver| self.child_at(receiver, mountpoint));
            candidates.extend(children.filter(|child| !set.contains(child)));
        }
        loop {
            let before = candidates.len();
            for id in candidates.clone() {
                if candidates.contains(&id) {
                    self.trim(id, set, &mut candidates);
                }
            }
            if candidates.len() == before {
                return candidates;
            }
        }
    }

    /// Linux: `trim_one`, `trim_ancestors`.
    fn trim(&self, id: MountId, set: &HashSet<MountId>, candidates: &mut HashSet<MountId>) {
        let over = self.overmount(id);
        let mut survives = false;
        let mut stays = false;
        for &child in &self.node(id).children {
            if !candidates.contains(&child) && !set.contains(&child) {
                survives = true;
                stays |= Some(child) != over;
            }
        }
        if survives {
            // What survives slides down to where the lowest of the stack was, so all below must be covered whole.
            let (mut below, mut at) = (id, self.vfs.mount_slot(id).place().0);
            while candidates.contains(&at) {
                if self.overmount(at) != Some(below) {
                    candidates.remove(&at);
                }
                (below, at) = (at, self.vfs.mount_slot(at).place().0);
            }
        }
        if stays {
            candidates.remove(&id);
        }
    }
}
