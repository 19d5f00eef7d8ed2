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
//! Invariant: all members of a group receive from the same mount, its *master*, and stand side by side among its slaves, as
//! they do in the group. So whoever receives gets its copy in the order in which Linux makes them, which listmount(2) shows.
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

/// The peer groups of a machine: each the ring of its members.
#[derive(Debug, Default)]
pub(super) struct Groups {
    map: HashMap<u32, Vec<MountId>>,
    ids: Ids,
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
        self.groups.map.get(&group).map_or(&[], Vec::as_slice)
    }

    /// The group that a mount receives from; 0 is none.
    pub(super) fn master_group(&self, id: MountId) -> u32 {
        self.nodes.get(&self.node(id).master).map_or(0, |master| master.shared)
    }

    /// A mount and its peers, round from it.
    fn ring_from(&self, id: MountId) -> Vec<MountId> {
        let mut ring = self.members(self.node(id).shared).to_vec();
        match ring.iter().position(|&member| member == id) {
            Some(at) => ring.rotate_left(at),
            None => ring.push(id),
        }
        ring
    }

    /// Puts a mount that is in no group into a new one.
    pub(super) fn found_group(&mut self, id: MountId) {
        let group = self.groups.ids.take();
        self.groups.map.insert(group, vec![id]);
        self.enter_group(id, group);
    }

    /// Puts a mount that is in no group and receives from nobody right behind another, in its group and among the slaves of
    /// its master.
    pub(super) fn follow(&mut self, id: MountId, other: MountId) {
        let behind = |mounts: &mut Vec<MountId>| {
            let at = mounts.iter().position(|&mount| mount == other).expect("it is one of them");
            mounts.insert(at + 1, id);
        };
        let (group, master) = (self.node(other).shared, self.node(other).master);
        if group != 0 {
            behind(self.groups.map.get_mut(&group).expect("a shared mount's group is there"));
            self.enter_group(id, group);
        }
        if master != MountId::NONE {
            behind(&mut self.node_mut(master).slaves);
            self.node_mut(id).master = master;
        }
    }

    fn enter_group(&mut self, id: MountId, group: u32) {
        let node = self.node_mut(id);
        node.shared = group;
        node.unbindable = false;
    }

    /// Makes a mount that receives from nobody receive from another: it is the first to.
    pub(super) fn enslave(&mut self, id: MountId, master: MountId) {
        self.node_mut(master).slaves.insert(0, id);
        self.node_mut(id).master = master;
    }

    /// Changes how a mount takes part in propagation.
    ///
    /// What received from it goes on to receive from its next peer or, if it has none, from whom it received itself.
    ///
    /// Linux: `change_mnt_propagation`.
    pub(super) fn change_propagation(&mut self, id: MountId, to: Propagation) {
        let group = self.node(id).shared;
        if to == Propagation::Shared {
            if group == 0 {
                self.found_group(id);
            }
            return;
        }
        let master = self.node(id).master;
        let heir = if group == 0 { master } else { self.leave_group(id) };
        if master != MountId::NONE {
            self.node_mut(master).slaves.retain(|&slave| slave != id);
            self.node_mut(id).master = MountId::NONE;
        }
        if to != Propagation::Slave {
            self.node_mut(id).unbindable = to == Propagation::Unbindable;
        } else if heir != MountId::NONE {
            self.enslave(id, heir);
        }
    }

    /// Takes a mount out of its group; who received from it receives from its heir, which is returned.
    pub(super) fn leave_group(&mut self, id: MountId) -> MountId {
        let ring = self.ring_from(id);
        let group = std::mem::take(&mut self.node_mut(id).shared);
        self.keep_members(group, |member| member != id);
        let heir = ring.get(1).copied().unwrap_or(self.node(id).master);
        self.bequeath(id, heir);
        heir
    }

    /// Has those that receive from a mount receive from another, or from nobody: they are the first to, in their order.
    fn bequeath(&mut self, id: MountId, heir: MountId) {
        let slaves = std::mem::take(&mut self.node_mut(id).slaves);
        for &slave in &slaves {
            self.node_mut(slave).master = heir;
        }
        if heir != MountId::NONE {
            self.node_mut(heir).slaves.splice(..0, slaves);
        }
    }

    /// Drops members of a group, and the group with the last of them.
    fn keep_members(&mut self, group: u32, keep: impl Fn(MountId) -> bool) {
        let Some(ring) = self.groups.map.get_mut(&group) else { return };
        ring.retain(|&member| keep(member));
        if ring.is_empty() {
            self.groups.map.remove(&group);
            self.groups.ids.give(group);
        }
    }

    /// Makes mounts that go private, all at once. Who received from one receives from the next peer that stays or, if none
    /// does, from whom the group received, or who stays there.
    ///
    /// Linux: `bulk_make_private`.
    pub(super) fn leave_groups(&mut self, order: &[MountId], going: &HashSet<MountId>) {
        let mut heirs = HashMap::default();
        for &id in order {
            if self.node(id).shared != 0 && !heirs.contains_key(&id) {
                self.find_heirs(id, going, &mut heirs);
            }
        }
        for &id in order {
            if let Some(&heir) = heirs.get(&id) {
                self.bequeath(id, heir);
            }
        }
        let (mut groups, mut masters) = (HashSet::default(), HashSet::default());
        for &id in order {
            let node = self.node_mut(id);
            groups.insert(std::mem::take(&mut node.shared));
            masters.insert(std::mem::replace(&mut node.master, MountId::NONE));
            node.unbindable = false;
        }
        for master in masters {
            if let Some(master) = self.nodes.get_mut(&master) {
                master.slaves.retain(|slave| !going.contains(slave));
            }
        }
        for group in groups {
            self.keep_members(group, |member| !going.contains(&member));
        }
    }

    /// Who is to send to those that a shared mount that goes sends to, and the same of its peers that go.
    fn find_heirs(
        &self,
        id: MountId,
        going: &HashSet<MountId>,
        heirs: &mut HashMap<MountId, MountId>,
    ) {
        let ring = self.ring_from(id);
        let mut heir = ring.iter().copied().find(|peer| !going.contains(peer));
        let mut master = self.node(id).master;
        while heir.is_none() && master != MountId::NONE {
            heir = self.ring_from(master).into_iter().find(|peer| !going.contains(peer));
            master = self.node(master).master;
        }
        let mut heir = heir.unwrap_or(MountId::NONE);
        for &peer in ring.iter().rev() {
            if going.contains(&peer) {
                heirs.insert(peer, heir);
            } else {
                heir = peer;
            }
        }
    }

    /// All that receive what is mounted in a mount, each once: its peers, then each group and single mount below them, in
    /// the order in which Linux comes to them. Whoever is in a group comes with it.
    ///
    /// Linux: `next_group`.
    fn receiving(&self, from: MountId) -> Vec<Vec<MountId>> {
        let mut seen = HashSet::from_iter([self.node(from).shared]);
        let (mut todo, mut found) = (vec![self.ring_from(from)], Vec::new());
        while let Some(ring) = todo.pop() {
            let mut below = Vec::new();
            for &slave in ring.iter().flat_map(|&member| &self.node(member).slaves) {
                let group = self.node(slave).shared;
                if group == 0 || seen.insert(group) {
                    below.push(self.ring_from(slave));
                }
            }
            todo.extend(below.into_iter().rev());
            found.push(ring);
        }
        found[0].remove(0);
        found
    }

    /// All that receive what is mounted in a mount, each once and without itself.
    pub(super) fn receivers(&self, from: MountId) -> Vec<MountId> {
        if !self.is_shared(from) {
            return Vec::new();
        }
        self.receiving(from).concat()
    }
}

/// Copies of a tree that is being mounted, not in their namespaces yet.
#[derive(Default)]
pub(super) struct Copies {
    /// Each copy, and the mount that receives it.
    pub(super) made: Vec<(MountId, MountId)>,
    /// How many mounts a namespace is to get.
    pub(super) pending: HashMap<NsId, u32>,
    /// Mounts of the tree that got a group for this, and count as shared only behind it: they may be receivers.
    pub(super) founded: HashSet<MountId>,
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
        // The last copy in each group.
        let mut last = HashMap::from_iter([(self.node(parent).shared, source)]);
        for (number, ring) in self.receiving(parent).into_iter().enumerate() {
            // The first copy in a group is a slave of the last one above, the others are its peers.
            let mut peer = (number == 0).then_some(source);
            for receiver in ring {
                if !self.gets_a_copy(receiver, mountpoint) {
                    continue;
                }
                let founded = copies.founded.contains(&receiver);
                let group = if founded { 0 } else { self.node(receiver).shared };
                let (from, how) = match peer {
                    Some(peer) => (peer, Copy::Peer),
                    None if group != 0 => (self.last_above(receiver, &last), Copy::SharedSlave),
                    None => (self.last_above(receiver, &last), Copy::Slave),
                };
                let copy = self.copy_for(receiver, from, how, copies)?;
                last.insert(group, copy);
                peer = Some(copy);
            }
        }
        Ok(())
    }

    /// The last of the copies in the group that a receiver receives from, or in the next above it that has one.
    ///
    /// Linux: `find_master`.
    fn last_above(&self, receiver: MountId, last: &HashMap<u32, MountId>) -> MountId {
        let mut at = receiver;
        loop {
            at = self.node(at).master;
            if let Some(&copy) = last.get(&self.node(at).shared) {
                return copy;
            }
        }
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
                && (children.len() > 1 || self.overmount(child) != children.values().next());
            !stays && self.in_use(child, 0, looks)
        })
    }

    /// The mounts that are unmounted beside those of `set`, which are whole subtrees: at the same mountpoint in all who
    /// receive, but for those that would take something else with them, or would show what they cover to somebody else, or
    /// are locked where they hang while that stays.
    ///
    /// Linux: `propagate_umount`.
    pub(super) fn propagate_umount(
        &self,
        order: &[MountId],
        set: &HashSet<MountId>,
    ) -> Vec<MountId> {
        // Who was met receives what those receive that it was met by, and so needs no look of its own.
        let mut met = HashSet::default();
        let mut found = Vec::new();
        for &id in order {
            let (parent, mountpoint) = self.vfs.mount_slot(id).place();
            if parent == MountId::NONE || met.contains(&id) {
                continue;
            }
            for receiver in self.receivers(parent) {
                if let Some(child) = self.child_at(receiver, mountpoint)
                    && met.insert(child)
                    && !set.contains(&child)
                {
                    found.push(child);
                }
            }
        }
        let mut candidates: HashSet<_> = found.iter().copied().collect();
        loop {
            let before = candidates.len();
            for &id in &found {
                if candidates.contains(&id) {
                    self.trim(id, set, &mut candidates);
                }
            }
            found.retain(|id| candidates.contains(id));
            if candidates.len() == before {
                return self.in_order(found, set);
            }
        }
    }

    /// Puts what is unmounted beside `set` in the order in which it leaves its groups: first what has nothing mounted in it and is
    /// not locked, then the rest, each followed by what it is mounted in; of both what was found last before what was found
    /// first. What is locked goes only with what it hangs in: else it is left out, and what hangs in it goes.
    ///
    /// Linux: `trim_one`, `handle_locked`.
    fn in_order(&self, found: Vec<MountId>, set: &HashSet<MountId>) -> Vec<MountId> {
        let (mut order, mut others, mut gone) = (Vec::new(), Vec::new(), set.clone());
        for id in found.into_iter().rev() {
            // Those before it have gone.
            let alone = self.node(id).children.values().all(|child| gone.contains(&child));
            if alone && !self.is_locked(id) {
                gone.insert(id);
                order.push(id);
            } else {
                others.push(id);
            }
        }
        let mut undecided: HashSet<_> = others.iter().copied().collect();
        for mut at in others {
            let (mut chain, mut go) = (Vec::new(), 0);
            while undecided.remove(&at) {
                chain.push(at);
                if !self.is_locked(at) {
                    go = chain.len();
                }
                at = self.vfs.mount_slot(at).place().0;
            }
            if !gone.contains(&at) {
                chain.truncate(go);
            }
            gone.extend(&chain);
            order.extend(chain);
        }
        order
    }

    /// Linux: `trim_one`, `trim_ancestors`.
    fn trim(&self, id: MountId, set: &HashSet<MountId>, candidates: &mut HashSet<MountId>) {
        let over = self.overmount(id);
        let mut survives = false;
        let mut stays = false;
        for child in self.node(id).children.values() {
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
