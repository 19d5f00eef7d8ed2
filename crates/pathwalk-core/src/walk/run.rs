//! The hot loop: runs of plain steps.
//!
//! A step is plain where nothing has to be decided: a directory that may be searched, a name, a cached child that is
//! neither a mountpoint nor a symlink, and nobody who wants to be asked. Such steps follow each other here, in
//! registers; whatever else a component is, the run stops in front of it and [`Walk::link_path_walk`](super::Walk) walks
//! that one component, with the child if one was found, and calls again.
//!
//! Invariant: what the run returns as its place was reached hand over hand: each child was sampled before its parent was
//! checked again. The place itself is checked by whoever goes on from it.
//!
//! Linux: the inlined part of `link_path_walk`, `may_lookup`, `walk_component` and `step_into`.

use super::{Place, road};
use crate::{
    cred::Asker,
    dcache::{DIRECTORY, Dentry, DentryId, HASHED, MANAGED, SEARCH_ALL, UNNAMED, lookup::Seen},
    inode::InodeId,
    mount::{Mount, MountId},
    name::{Component, Kind, last_word, scan_rest, scan_short},
    vfs::Vfs,
};
use pathwalk_sync::Sample;

/// How far a run may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Through the last component.
    End,
    /// Up to the last component, which is not looked up.
    Last,
    /// As [`Until::Last`], but the text is a symlink's body with more below it: its last component is one like any other.
    Body,
}

/// Why a run stopped.
pub(crate) enum Stopped {
    /// All was walked.
    Done,
    /// In front of the last component.
    Last(Component),
    /// In front of a name that is not in the cache.
    Miss(Component),
    /// In front of a child that is not plain, sampled before its directory was checked again.
    Child(Component, Seen),
    /// In front of a component that is not plain, whatever it is.
    Odd,
}

/// What a run looks at.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    vfs: &'a Vfs,
    asker: &'a Asker<'a>,
    /// The mount in which it is made, and its slot.
    mnt: MountId,
    pub(crate) mount: &'a Mount,
}

/// A dentry that plain steps led to, and the sample under which it was reached.
#[derive(Clone, Copy)]
pub(crate) struct Reached<'a> {
    id: DentryId,
    seq: Sample,
    dentry: &'a Dentry,
}

impl Reached<'_> {
    /// The place, in the mount of where the steps began.
    #[inline(always)]
    pub(crate) fn place(self, from: Place) -> Place {
        Place { dentry: self.id, seq: self.seq, flags: self.dentry.flags.get(), ..from }
    }

    /// Whether the dentry is what it was when it was reached.
    #[inline(always)]
    pub(crate) fn stays(self) -> bool {
        self.dentry.seq.unchanged(self.seq)
    }
}

impl<'a> Runner<'a> {
    /// Who makes runs from a place, in its mount.
    #[inline(always)]
    pub(crate) fn of(vfs: &'a Vfs, asker: &'a Asker<'a>, at: Place) -> Self {
        Self { vfs, asker, mnt: at.mnt, mount: vfs.mount_slot(at.mnt) }
    }

    /// Whether the mount is what it was where the steps began.
    #[inline(always)]
    pub(crate) fn mount_stays(&self, from: Place) -> bool {
        self.mount.seq.unchanged(from.mnt_seq)
    }

    /// Walks plain steps, as many as there are, from a place; `LEAVES` says that the last component is not walked. Answers how many bytes
    /// of the text are left, or nothing if the next name is surely absent, in a mount that [stays](Self::mount_stays); and where it is.
    ///
    /// In line where a walk begins, and what lies in the machine is read where it is used: so what is used again and again stands in
    /// registers, and few are written. A processor that waits for a dentry from memory goes on with the next walk as far as it has
    /// registers for what that computes; if the next load from memory is as near as that, it waits for both at once.
    #[inline(always)]
    pub(crate) fn plain_steps<const LEAVES: bool>(
        &self,
        text: &[u8],
        from: Place,
    ) -> (Option<usize>, Reached<'a>) {
        let vfs = self.vfs;
        let (mut id, mut seq, mut dentry) = (from.dentry, from.seq, vfs.dentry(from.dentry));
        let mut rest = text;
        let last = last_word(text);
        while !rest.is_empty() && self.may_lookup(id, dentry.flags.get()) {
            let Ok(name) = scan_short(rest, last, &vfs.secret) else { break };
            // Behind a name is a slash, if anything: so what is behind that is looked for at once.
            let next = match rest.get(name.len + 1..) {
                Some(next) if next.first().is_some_and(|&first| first != b'/') => next,
                None if !LEAVES => &[],
                _ => break,
            };
            if name.starts_with_dot() && name.kind() != Kind::Norm {
                break;
            }
            let key = name.key(id.0, vfs.secret);
            road::point_of_run();
            let Some((first_id, first)) = vfs.dhash.first(&vfs.dentries, key) else {
                let [first, second] = name.words();
                // Most chains of what is absent are empty.
                if seq != Sample::NONE && vfs.is_absent(dentry, seq, key, first, second) {
                    return (None, Reached { id, seq, dentry });
                }
                break;
            };
            let mut child_seq = first.seq.sample();
            let (mut child_id, mut child) = (DentryId(first_id), first);
            if !first.is_called(id, key, &name) {
                // Few chains have others, and who looks along them has registers of its own.
                let [word, second] = name.words();
                let Some((other, sample)) = vfs.search_behind(first, id, key, word, second) else {
                    let has_memory = seq != Sample::NONE;
                    if has_memory && vfs.is_absent_beside_others(dentry, seq, key, word, second) {
                        return (None, Reached { id, seq, dentry });
                    }
                    break;
                };
                (child_id, child_seq) = (DentryId(other.get()), sample);
                child = vfs.dentry(child_id);
            }
            road::point_of_run();
            // Hand over hand: the child was sampled before the parent is checked again.
            if !dentry.seq.unchanged(seq) {
                break;
            }
            if !self.step_into(Seen { id: child_id, seq: child_seq, flags: child.flags.get() }) {
                break;
            }
            (id, dentry, seq) = (child_id, child, child_seq);
            rest = next;
        }
        road::point_of_run();
        // One of no memory where it was sampled, and of none again where it was checked, was nobody's parent then: the last one alone can be.
        if seq == Sample::NONE {
            let (id, seq) = (from.dentry, from.seq);
            return (Some(text.len()), Reached { id, seq, dentry: vfs.dentry(id) });
        }
        (Some(rest.len()), Reached { id, seq, dentry })
    }

    /// Walks what has to be decided too, as far as it is decided here, and plain steps between. `root` is the place that `..` does not go
    /// above, where it is known. Answers why it stopped, and how far it came.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        text: &[u8],
        at: Place,
        pos: usize,
        until: Until,
        root: Option<DentryId>,
    ) -> (Stopped, Place, usize) {
        let tables = self.vfs.tables();
        // Locals, one by one: nothing is stored before the run ends.
        let (mut dentry, mut seq, mut flags) = (at.dentry, at.seq, at.flags);
        let mut rest = text.get(pos..).unwrap_or_default();
        let stopped = loop {
            if rest.is_empty() {
                break Stopped::Done;
            }
            if !self.may_lookup(dentry, flags) {
                break Stopped::Odd;
            }
            let mut name = scan_rest(text, rest, tables.secret);
            let behind = rest.get(name.len..).unwrap_or_default();
            let next = super::behind_slashes(behind);
            if next.is_empty() && until == Until::Last {
                name.trailing_slash = !behind.is_empty();
                break Stopped::Last(name);
            }
            if name.starts_with_dot() && name.kind() != Kind::Norm {
                match self.dots(Place { dentry, seq, flags, ..at }, name.kind(), root) {
                    Some(to) => (dentry, seq, flags) = (to.dentry, to.seq, to.flags),
                    None => break Stopped::Odd,
                }
                rest = next;
                continue;
            }
            if next.is_empty() && !behind.is_empty() {
                // A slash behind the last component asks for a directory, and follows.
                break Stopped::Odd;
            }
            let Some(child) = self.vfs.d_lookup_rcu(tables, dentry, text, &name) else {
                break Stopped::Miss(name);
            };
            // Hand over hand, as above.
            if !tables.dentries.get(dentry.0).seq.unchanged(seq) {
                break Stopped::Odd;
            }
            if !self.step_into(child) {
                break Stopped::Child(name, child);
            }
            (dentry, seq, flags) = (child.id, child.seq, child.flags);
            rest = next;
        };
        (stopped, Place { dentry, seq, flags, ..at }, text.len() - rest.len())
    }

    /// Whether the place is a directory that may be searched. One bit says that it is one, and that everyone may; the way of
    /// before was to ask the inode in any case.
    #[inline(always)]
    fn may_lookup(&self, dentry: DentryId, flags: u32) -> bool {
        !cfg!(pathwalk_ablate = "may_exec") && flags & SEARCH_ALL != 0
            || flags & DIRECTORY != 0 && self.may_search_here(dentry)
    }

    /// The same of a directory that not everyone may search, in the mount of the run.
    #[cold]
    #[inline(never)]
    fn may_search_here(&self, dentry: DentryId) -> bool {
        Self::may_search(self.vfs, *self.asker, (self.mnt, dentry))
    }

    /// Whether who asks may search a directory, as its inode says: class by class. The place comes in registers: so the run keeps its own
    /// there.
    #[cold]
    #[inline(never)]
    pub(crate) fn may_search(
        vfs: &Vfs,
        asker: Asker<'_>,
        (mnt, dentry): (MountId, DentryId),
    ) -> bool {
        let inode = InodeId(vfs.dentry(dentry).inode.get());
        let who = asker.subject();
        matches!(vfs.try_may_search(inode, &vfs.through(mnt, &who)), Ok(Ok(_)))
    }

    /// Whether a child is stepped onto. One test tells the plain case.
    ///
    /// Linux: `step_into`.
    #[cfg(not(pathwalk_ablate = "step_into"))]
    #[inline(always)]
    fn step_into(&self, child: Seen) -> bool {
        use crate::dcache::NOT_PLAIN;
        // Its sequence count is checked when the next child was sampled, or by whoever goes on from here.
        child.flags & (NOT_PLAIN | HASHED) == HASHED
    }

    /// Whether a child is stepped onto, as it was done before: out of line, by way of what lies in memory, mounts and type asked for one
    /// by one.
    #[cfg(pathwalk_ablate = "step_into")]
    #[inline(never)]
    fn step_into(&self, child: Seen) -> bool {
        use crate::dcache::{IN_LOOKUP, NEGATIVE, REVALIDATE, SYMLINK};
        let mut child = child;
        let child = std::hint::black_box(&mut child);
        let slot = self.vfs.dentry(child.id);
        let managed = child.flags & MANAGED != 0 || child.flags & (REVALIDATE | IN_LOOKUP) != 0;
        if managed || child.flags & HASHED == 0 || !slot.seq.unchanged(child.seq) {
            return false;
        }
        if child.flags & SYMLINK != 0 || child.flags & NEGATIVE != 0 {
            return false;
        }
        slot.seq.unchanged(child.seq)
    }

    /// `.`, and a `..` that stays in its mount and below the root.
    fn dots(&self, at: Place, kind: Kind, root: Option<DentryId>) -> Option<Place> {
        if at.flags & UNNAMED != 0 {
            return None;
        }
        if kind == Kind::Dot {
            return Some(at);
        }
        let mount = self.mount;
        let crosses = mount.root.get() == at.dentry.0 || mount.is_partial();
        if crosses || root.is_none_or(|root| root == at.dentry) {
            return None;
        }
        let dentry = self.vfs.dentry(at.dentry);
        let parent = dentry.parent.get();
        let slot = self.vfs.dentry(DentryId(parent));
        let seq = slot.seq.sample();
        let flags = slot.flags.get();
        // The mount last: what was read of it was read of this one, not of one that has its slot since.
        let unchanged = dentry.seq.unchanged(at.seq) && mount.seq.unchanged(at.mnt_seq);
        let plain = unchanged && flags & MANAGED == 0;
        plain.then_some(Place { dentry: DentryId(parent), seq, flags, ..at })
    }
}
