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

use super::Place;
use crate::{
    cred::Asker,
    dcache::{
        DIRECTORY, DentryId, HASHED, MANAGED, SEARCH_ALL, UNNAMED,
        lookup::{Seen, Tables},
    },
    inode::InodeId,
    mount::{Mount, MountId},
    name::{Component, Kind, scan_rest},
    vfs::Vfs,
};

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
    pub(crate) vfs: &'a Vfs,
    pub(crate) tables: Tables<'a>,
    pub(crate) asker: Asker<'a>,
    /// The place that `..` does not go above, where it is known.
    pub(crate) root: Option<DentryId>,
}

impl Runner<'_> {
    /// Walks plain steps from `at`, and from `pos` in the text, which is a component's beginning or the end. Answers why it stopped, and
    /// how far it came in both.
    #[inline(always)]
    pub(crate) fn run(
        self,
        text: &[u8],
        at: Place,
        pos: usize,
        until: Until,
    ) -> (Stopped, Place, usize) {
        // Locals, one by one: nothing is stored before the run ends.
        let (mut dentry, mut seq, mut flags) = (at.dentry, at.seq, at.flags);
        let mut rest = text.get(pos..).unwrap_or_default();
        let stopped = loop {
            if rest.is_empty() {
                break Stopped::Done;
            }
            if !self.may_lookup(at.mnt, dentry, flags) {
                break Stopped::Odd;
            }
            let mut name = scan_rest(text, rest, self.tables.secret);
            let behind = rest.get(name.len..).unwrap_or_default();
            let next = super::behind_slashes(behind);
            if next.is_empty() && until == Until::Last {
                name.trailing_slash = !behind.is_empty();
                break Stopped::Last(name);
            }
            if name.starts_with_dot() && name.kind() != Kind::Norm {
                match self.dots(Place { dentry, seq, flags, ..at }, name.kind()) {
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
            let Some(child) = self.vfs.d_lookup_rcu(self.tables, dentry, text, &name) else {
                break Stopped::Miss(name);
            };
            // Hand over hand: the child was sampled before the parent is checked again.
            if !self.tables.dentries.get(dentry.0).seq.unchanged(seq) {
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
    fn may_lookup(self, mnt: MountId, dentry: DentryId, flags: u32) -> bool {
        !cfg!(pathwalk_ablate = "may_exec") && flags & SEARCH_ALL != 0
            || flags & DIRECTORY != 0 && Self::may_search(self.vfs, self.asker, (mnt, dentry))
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
    fn step_into(self, child: Seen) -> bool {
        use crate::dcache::NOT_PLAIN;
        // Its sequence count is checked when the next child was sampled, or by whoever goes on from here.
        child.flags & (NOT_PLAIN | HASHED) == HASHED
    }

    /// Whether a child is stepped onto, as it was done before: out of line, by way of what lies in memory, mounts and type asked for one
    /// by one.
    #[cfg(pathwalk_ablate = "step_into")]
    #[inline(never)]
    fn step_into(self, child: Seen) -> bool {
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
    fn dots(self, at: Place, kind: Kind) -> Option<Place> {
        if at.flags & UNNAMED != 0 {
            return None;
        }
        if kind == Kind::Dot {
            return Some(at);
        }
        let mount: &Mount = self.vfs.mount_slot(at.mnt);
        let crosses = mount.root.get() == at.dentry.0 || mount.is_partial();
        if crosses || self.root.is_none_or(|root| root == at.dentry) {
            return None;
        }
        let dentry = self.tables.dentries.get(at.dentry.0);
        let parent = dentry.parent.get();
        let slot = self.tables.dentries.get(parent);
        let seq = slot.seq.sample();
        let flags = slot.flags.get();
        // The mount last: what was read of it was read of this one, not of one that has its slot since.
        let unchanged = dentry.seq.unchanged(at.seq) && mount.seq.unchanged(at.mnt_seq);
        let plain = unchanged && flags & MANAGED == 0;
        plain.then_some(Place { dentry: DentryId(parent), seq, flags, ..at })
    }
}
