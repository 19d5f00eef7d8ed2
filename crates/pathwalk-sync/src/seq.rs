//! Sequence counts: how a reader that holds nothing knows that what it read belonged together.
//!
//! ```text
//!   writer (holds the slot's lock)          reader (holds nothing)
//!     seq: 4 → 5      relaxed                 s = sample()          acquire
//!     fence           release  ─────────┐     read the cells        relaxed
//!     write the cells relaxed           └───► fence                 acquire
//!     seq: 5 → 6      release                 seq == s ?            relaxed
//! ```
//!
//! Invariant: between a [`Seq::sample`] and an [`Seq::unchanged`] that says true no [`Change`] of this slot
//! began or ended. The count is never reset, not even when the slot is freed and used again, so the pair
//! (slot, sample) names one state of one thing; where a slot's memory was given back to the system meanwhile, it goes on beyond what any
//! count was there, see [`vacant`](crate::vacant). It has 32 bits: a multiple of 2³¹ changes deceives a reader. No walk takes
//! so long. Who keeps a sample for longer looks at the [`era`] too, which ends many times before that.
//!
//! Linux: `seqcount_t`, `raw_seqcount_begin`, `read_seqcount_retry`, `write_seqcount_invalidate`.

use crate::{
    shim::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
    spin::Spin,
};

/// The sequence count of a slot: even when the slot is stable, odd while it is being changed.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Seq(AtomicU32);

/// So many steps of a count, two for each change, and an era ends.
const ERA: u32 = 1 << 24;

/// How often a count came to a multiple of [`ERA`].
#[cfg(not(loom))]
static ERAS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// The era of all counts of the process: while it is the same, no count came to a sample that it had before.
///
/// It is asked after the count: who sees a count sees the era to which it led.
#[cfg(not(loom))]
#[inline(always)]
pub fn era() -> u32 {
    ERAS.load(Relaxed)
}

/// Ends the era: a count is about to come to a multiple of [`ERA`]. For tests, too.
#[doc(hidden)]
#[cold]
#[inline(never)]
pub fn end_era() {
    #[cfg(not(loom))]
    ERAS.fetch_add(1, Relaxed);
}

/// The next count that is even, but for that of [`Sample::NONE`]. The caller stores it after this, so that who sees it sees the era to which it led.
#[inline(always)]
fn behind(count: u32) -> u32 {
    let next = count.wrapping_add(2);
    if next.is_multiple_of(ERA) {
        end_era();
        return next.max(2);
    }
    next
}

/// A sequence count as a reader saw it; always even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(u32);

impl Sample {
    /// A sample that no slot in use gives: of one that was never in use, or has no memory. It comes again where the memory goes again: who was
    /// led to a slot by a link believes nothing that it held meanwhile.
    pub const NONE: Self = Self(0);

    /// The count that was seen.
    #[inline(always)]
    pub fn count(self) -> u32 {
        self.0
    }

    /// The first sample after the one that is so far beyond this.
    pub(crate) fn behind(self, beyond: u32) -> Self {
        Self(behind(self.0.wrapping_add(beyond)))
    }

    /// The sample of a count that was seen.
    #[inline(always)]
    pub fn of(count: u32) -> Self {
        debug_assert!(count & 1 == 0, "a sample is of no change");
        Self(count)
    }
}

impl Seq {
    /// Samples the count without waiting.
    ///
    /// A slot that is being changed gives the sample of *before* the change, so that the later check fails.
    #[inline(always)]
    pub fn sample(&self) -> Sample {
        // Acquire: the cells that the caller reads next are read no earlier than this. Pairs with the
        // Release store at the end of a `Change`.
        Sample(self.0.load(Acquire) & !1)
    }

    /// Samples the count, waiting for the end of a change under way: for readers that cannot do without an answer.
    ///
    /// The caller holds nothing that the writer may be waiting for.
    #[inline]
    pub fn sample_stable(&self) -> Sample {
        let mut spin = Spin::default();
        loop {
            let sample = self.sample();
            if self.unchanged(sample) {
                return sample;
            }
            spin.turn();
        }
    }

    /// Says whether nothing changed since `sample`; only then may what was read in between be believed.
    #[inline(always)]
    #[must_use = "what was read under a sample is a guess until it is checked"]
    pub fn unchanged(&self, sample: Sample) -> bool {
        // Acquire fence: the reads before it are not moved behind the load below. Pairs with the Release
        // fence in `change`: who saw any store of a change also sees its odd count.
        fence(Acquire);
        self.0.load(Relaxed) == sample.0
    }

    /// What was written before a change began is seen by who saw a store of that change, and calls this after.
    #[inline(always)]
    pub fn acquire() {
        // Pairs with the Release fence in `change`.
        fence(Acquire);
    }

    /// Says whether the count is still `sample`, of before: for who begins to read only then.
    #[inline(always)]
    pub fn is(&self, sample: Sample) -> bool {
        // Acquire: as in `sample`.
        self.0.load(Acquire) == sample.0
    }

    /// Begins a change; the slot is stable again when the returned value is dropped.
    ///
    /// The caller holds the lock under which the slot is written: two changes at a time are a bug.
    #[inline]
    pub fn change(&self) -> Change<'_> {
        let before = self.0.load(Relaxed);
        debug_assert!(before & 1 == 0, "a slot is changed by one writer at a time");
        self.0.store(before.wrapping_add(1), Relaxed);
        // Release fence: a reader that sees any store made by this change also sees the odd count.
        // Pairs with the Acquire fence in `unchanged`.
        fence(Release);
        Change {
            seq: self,
            before,
            #[cfg(loom)]
            end: None,
        }
    }

    /// How far the count is beyond `before`, of a slot that nobody changes.
    pub(crate) fn beyond(&self, before: Sample) -> u32 {
        let count = self.0.load(Relaxed);
        debug_assert!(count & 1 == 0, "nobody changes a free slot");
        count.wrapping_sub(before.0)
    }

    /// Begins to count behind `first`, in memory that has just come: no count of it was as high before.
    pub(crate) fn begin(&self, first: Sample) {
        debug_assert!(self.0.load(Relaxed) == 0, "memory that has just come is zero");
        self.0.store(first.0, Relaxed);
        self.invalidate();
    }

    /// Makes every earlier sample fail without changing anything else.
    ///
    /// The caller holds the lock under which the slot is written.
    #[inline]
    pub fn invalidate(&self) {
        drop(self.change());
    }
}

#[cfg(loom)]
impl Seq {
    /// What becomes of it where its memory is taken away is the end of a change: see [`Change::that_ends_with`].
    pub(crate) fn zero(&self) {}
}

/// A change in progress.
#[derive(Debug)]
#[must_use = "the change ends when this is dropped"]
pub struct Change<'a> {
    seq: &'a Seq,
    before: u32,
    #[cfg(loom)]
    end: Option<Sample>,
}

#[cfg(loom)]
impl Change<'_> {
    /// A change after which the count is this one.
    pub(crate) fn that_ends_with(mut self, end: Sample) -> Self {
        self.end = Some(end);
        self
    }
}

impl Drop for Change<'_> {
    #[inline]
    fn drop(&mut self) {
        let after = behind(self.before);
        #[cfg(loom)]
        let after = self.end.map_or(after, Sample::count);
        // Release: who samples the new count sees all of the change, and the era. Pairs with the Acquire in `sample` and
        // `is`.
        self.seq.0.store(after, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sample_taken_during_a_change_fails_afterwards() {
        let seq = Seq::default();
        let change = seq.change();
        let sample = seq.sample();
        assert!(!seq.unchanged(sample));
        drop(change);
        assert!(!seq.unchanged(sample));
        assert!(seq.unchanged(seq.sample()));
    }

    #[test]
    fn an_era_ends_many_times_before_a_count_comes_again() {
        let seq = Seq(AtomicU32::new(u32::MAX - 3));
        let before = era();
        seq.invalidate();
        assert_eq!(era(), before);
        seq.invalidate();
        assert_eq!((seq.sample(), era()), (Sample(2), before + 1));
        let last = Seq(AtomicU32::new(ERA - 2));
        last.invalidate();
        assert_eq!(era(), before + 2);
    }

    #[test]
    fn invalidate_fails_every_earlier_sample() {
        let seq = Seq::default();
        let sample = seq.sample();
        assert!(seq.unchanged(sample));
        seq.invalidate();
        assert!(!seq.unchanged(sample));
    }
}
