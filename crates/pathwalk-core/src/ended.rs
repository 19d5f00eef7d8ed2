//! Which answers of a file system are too old to become an inode.
//!
//! Between an answer and the inode that comes of it, another thread may have found the same node by another name, changed it,
//! and its inode may have ended: then the answer says what was before. So who asks takes the [`Moment`] first, and asks again
//! where an inode of that node ended later whose attributes had changed.
//!
//! ```text
//!   who asks         now() ── lookup ───────────────────── nobody has the inode ── since()? ── published
//!   somebody else                 └ change ── note() ── the inode is dead ┘
//! ```
//!
//! Relaxed words do: an answer of before a change is ordered before it by the file system, and who finds an inode dead sees what
//! was written before it died.
//!
//! Linux has no such question: there an inode is in the table of nodes before its attributes are read (`I_NEW`).

use pathwalk_sync::Cell64;

/// Of how many groups of nodes it is known when one ended last. Two nodes of a group only cost a question more.
const GROUPS: usize = 1024;

/// The inodes that ended with other attributes than those with which they came.
#[derive(Debug)]
pub(crate) struct Ended {
    count: Cell64,
    /// By group: the count when one ended last.
    last: Box<[Cell64]>,
}

/// A moment, counted in such ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Of what cannot be old: it was made just now, or it is a root.
    pub(crate) const FRESH: Self = Self(u64::MAX);
}

impl Default for Ended {
    fn default() -> Self {
        Self { count: Cell64::default(), last: (0..GROUPS).map(|_| Cell64::default()).collect() }
    }
}

impl Ended {
    /// The moment, taken before the file system is asked.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.count.get())
    }

    /// Notes that the inode of the node with this hash ends, before nobody finds it any more.
    pub(crate) fn note(&self, hash: u64) {
        let nth = self.count.add(1) + 1;
        self.group(hash).raise(nth);
    }

    /// Whether one of the group of this hash ended later than `moment`; asked by who has found that nobody has the inode.
    pub(crate) fn since(&self, moment: Moment, hash: u64) -> bool {
        self.group(hash).get() > moment.0
    }

    fn group(&self, hash: u64) -> &Cell64 {
        &self.last[hash as usize % GROUPS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_old_where_an_inode_of_its_group_ended_later() {
        let ended = Ended::default();
        let before = ended.now();
        ended.note(7);
        let after = ended.now();
        assert!(ended.since(before, 7) && ended.since(before, 7 + GROUPS as u64));
        assert!(!ended.since(before, 8), "another node's end says nothing");
        assert!(!ended.since(after, 7) && !ended.since(Moment::FRESH, 7));
        ended.note(8);
        assert!(!ended.since(after, 7) && ended.since(after, 8));
    }
}
