//! What some threads have to themselves, so that they meet no others where nothing happened.

use crate::host::Ear;
use pathwalk_sync::{Sample, Seq, seq::era};
use std::hash::{BuildHasher, RandomState};

/// Locked before the table, and until what the ear told has been noted: of what is mounted it tells once.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// None where nobody has asked, or there were no descriptors for it, or it told of what was not noted.
    pub(super) ear: Option<Ear>,
    pub(super) is_deaf: bool,
    pub(super) ways: Ways,
}

/// When nothing had been heard of that was heard of later. Of a count that comes round the era ends before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(Sample, u32);

impl Moment {
    pub(super) fn of(seq: &Seq) -> Self {
        Self(seq.sample(), era())
    }

    /// Whether it still is, and was when the caller looked at the queue.
    pub(super) fn is_now(self, seq: &Seq) -> bool {
        seq.unchanged(self.0) && self.1 == era()
    }
}

/// Ways that were looked up name by name, and where they led at some moment.
#[derive(Debug)]
pub(super) struct Ways {
    hasher: RandomState,
    /// By a hash of where it begins and of its names: of two that share one the later. There are few while few are taken.
    slots: Vec<Option<Way>>,
}

#[derive(Debug)]
pub(super) struct Way {
    pub(super) dir: u64,
    pub(super) path: Box<[u8]>,
    pub(super) at: Moment,
    pub(super) led: Led,
}

/// Where a way leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Led {
    /// The node; none if one of the names is not there.
    pub(crate) node: Option<u64>,
    /// See [`Watches::permits`](super::Watches::permits).
    pub(crate) permits: bool,
    /// See [`Watches::tells_about`](super::Watches::tells_about).
    pub(crate) tells: bool,
    /// The same as `permits` of where it begins.
    pub(super) begins: bool,
}

/// So many ways are kept at first, and in the end; of longer paths none.
const FIRST_WAYS: usize = 1 << 8;
const WAYS: usize = 1 << 12;
const LONGEST: usize = 256;

impl Ways {
    fn slot(&mut self, dir: u64, path: &[u8]) -> Option<&mut Option<Way>> {
        let at = (self.hasher.hash_one((dir, path)) as usize).checked_rem(self.slots.len())?;
        self.slots.get_mut(at)
    }

    /// Where a way leads by now, if it is kept.
    pub(super) fn get(&mut self, dir: u64, path: &[u8], at: Moment) -> Option<Led> {
        let way = self.slot(dir, path)?.as_ref()?;
        ((way.dir, way.at, &*way.path) == (dir, at, path)).then_some(way.led)
    }

    /// Keeps a way. Where that has the place of another one that is still good, there are more places from then on, and the others are forgotten.
    pub(super) fn put(&mut self, way: Way) {
        if way.path.len() > LONGEST {
            return;
        }
        let taken = self.slot(way.dir, &way.path).and_then(|slot| slot.as_ref());
        let crowded = taken.is_some_and(|taken| taken.at == way.at && taken.path != way.path);
        let len = self.slots.len();
        if len == 0 || crowded && len < WAYS {
            self.slots = (0..(4 * len).max(FIRST_WAYS)).map(|_| None).collect();
        }
        if let Some(slot) = self.slot(way.dir, &way.path) {
            *slot = Some(way);
        }
    }
}

impl Default for Ways {
    fn default() -> Self {
        Self { hasher: RandomState::new(), slots: Vec::new() }
    }
}
