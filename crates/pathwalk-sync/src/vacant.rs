//! Memory of slots that nobody has, on its way back to the system.
//!
//! ```text
//!   a block of slots, all free ── their locks taken, their highest count noted ──► no memory: it reads as zeroes
//!                                                                                          │
//!      free slots again, of counts beyond the one that was noted  ◄── wanted ──────────────┘
//! ```
//!
//! Invariant: the pair (slot, sample) names one state of one thing all the same. A slot without memory gives [`Sample::NONE`], which no
//! slot in use gives: those of memory that has just come begin beyond it. And one whose memory came back begins beyond what any slot of
//! its block had before.
//!
//! A block is of 64 KiB in the first two to four MiB of an arena. Beyond that it is what the system may have put one large page behind: to take
//! a part of that would break it up.
//!
//! What late readers may do to a slot that went:
//!
//! | they | and so |
//! |---|---|
//! | read it | it is as one that is free: dead, of no name, led to by nothing; its link leads to slot 0 |
//! | sample it | they get [`Sample::NONE`], by which they believe nothing: it comes again where the memory goes again |
//! | take a count | it is refused: a zeroed [`Lockref`] is dead |
//! | have its lock | its block stays |
//! | wait for its lock | they get it when the memory has gone, and see a dead slot; where they sleep they wake by themselves |
//!
//! Linux: the pages of a slab without objects; `SLAB_TYPESAFE_BY_RCU` keeps those for a grace period, which the counts replace.

use crate::{
    Cell32, Lockref, Sample, Seq,
    mapping::{HUGE, Mapping, Words, Zeroed},
    shim::Mutex,
};
use std::{io, ops::Range};

/// So much memory goes at once in the first pages of an arena, in bytes.
const SMALL: usize = 64 << 10;

/// A slot whose memory may go back to the system while it is free.
pub trait Returned: Words {
    /// Its lock, under which alone it is written while it is free.
    fn lockref(&self) -> &Lockref;

    /// All its counts.
    fn seqs(&self) -> impl Iterator<Item = &Seq>;
}

/// Slots without memory, which follow each other.
#[derive(Debug)]
pub(crate) struct Vacant {
    pub(crate) slots: Range<u32>,
    /// Where their counts begin when they are used again.
    first: Sample,
}

impl Vacant {
    /// Slots that never had any.
    pub(crate) fn fresh(slots: Range<u32>) -> Self {
        Self { slots, first: Sample::NONE.behind(0) }
    }
}

/// Which slots go together.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    /// The slots of a small block and those of a large one.
    small: u32,
    large: u32,
    /// The first slot that is in a large one, and how many small ones there are.
    first_large: u32,
    smalls: u32,
    /// The slots of the arena, slot 0 among them.
    end: u32,
}

impl Blocks {
    fn new<T: Zeroed>(slots: &Mapping<T>, end: u32) -> Self {
        // The models have few slots.
        let small = if cfg!(loom) { 1 } else { (SMALL / size_of::<T>()) as u32 };
        let first_large = (slots.first_large() as u32).min(end);
        let large = (HUGE / size_of::<T>()) as u32;
        Self { small, large, first_large, smalls: first_large.div_ceil(small), end }
    }

    fn of(self, id: u32) -> u32 {
        match id.checked_sub(self.first_large) {
            None => id / self.small,
            Some(beyond) => self.smalls + beyond / self.large,
        }
    }

    fn slots(self, block: u32) -> Range<u32> {
        match block.checked_sub(self.smalls) {
            None => block * self.small..((block + 1) * self.small).min(self.first_large),
            Some(number) => {
                let first = self.first_large + number * self.large;
                first..first.saturating_add(self.large).min(self.end)
            }
        }
    }
}

/// How an arena gives memory back. One for each kind of slot: arenas of other kinds have none.
pub(crate) struct Returns<T> {
    blocks: Blocks,
    /// By block, the count beyond which no slot of it had one when its memory went.
    highest: Mapping<Cell32>,
    /// Held while somebody looks for what can go: slots are in his hands then, and in no list. How often that was.
    pub(crate) looking: Mutex<u32>,
    vacate: fn(&Mapping<T>, Range<u32>, Sample) -> Option<Sample>,
    begin: fn(&T, Sample),
}

impl<T: Returned> Returns<T> {
    /// For the first so many of these slots.
    ///
    /// # Errors
    ///
    /// What mmap(2) answers if the range for the counts cannot be reserved.
    pub(crate) fn new(slots: &Mapping<T>, end: u32) -> io::Result<Self> {
        const {
            assert!(cfg!(loom) || SMALL.is_multiple_of(size_of::<T>()), "a block is of whole slots")
        };
        let blocks = Blocks::new(slots, end);
        Ok(Self {
            blocks,
            highest: Mapping::new(blocks.of(end - 1) as usize + 1)?,
            looking: Mutex::new(0),
            vacate: vacate::<T>,
            begin: |slot, first| slot.seqs().for_each(|seq| seq.begin(first)),
        })
    }
}

impl<T: Zeroed> Returns<T> {
    /// Takes the memory of blocks all of whose slots are in the given lists of free ones, and those from the lists. The slots belong to the
    /// caller.
    pub(crate) fn vacate(&self, slots: &Mapping<T>, lists: &mut [Vec<u32>]) -> Vec<Vacant> {
        let block_of = |id| self.blocks.of(id) as usize;
        let Some(&last) = lists.iter().flatten().max() else { return Vec::new() };
        let mut left: Vec<u32> =
            (0..=self.blocks.of(last)).map(|block| self.blocks.slots(block).len() as u32).collect();
        lists.iter().flatten().for_each(|&id| left[block_of(id)] -= 1);
        // Slot 0 is never free, nor is what was never given out.
        let free = (0..left.len() as u32).filter(|&block| left[block as usize] == 0);
        let vacant: Vec<_> = free.filter_map(|block| self.vacate_block(slots, block)).collect();
        left.fill(0);
        vacant.iter().for_each(|vacant| left[block_of(vacant.slots.start)] = 1);
        lists.iter_mut().for_each(|list| list.retain(|&id| left[block_of(id)] == 0));
        vacant
    }

    /// None where a late reader is there, or memory is locked.
    fn vacate_block(&self, slots: &Mapping<T>, block: u32) -> Option<Vacant> {
        let range = self.blocks.slots(block);
        let highest = self.highest.slots().get(block);
        let first = (self.vacate)(slots, range.clone(), Sample::of(highest.get()))?;
        highest.set(first.count());
        Some(Vacant { slots: range, first })
    }

    /// Has up to so many slots begin anew; they are the caller's then.
    pub(crate) fn take(&self, slots: &Mapping<T>, vacant: &mut Vacant, most: u32) -> Range<u32> {
        let Range { start, end } = vacant.slots;
        let taken = start..end.min(start + most);
        taken.clone().for_each(|id| (self.begin)(slots.slots().get(id), vacant.first));
        vacant.slots.start = taken.end;
        taken
    }
}

/// Takes the memory of free slots, none of whose counts is before `least`; where they are to begin when they are used again.
fn vacate<T: Returned>(slots: &Mapping<T>, range: Range<u32>, least: Sample) -> Option<Sample> {
    vacate_by(slots, range.clone(), least, || take_memory(slots, range))
}

/// The same; `take` says whether the memory went.
fn vacate_by<T: Returned>(
    slots: &Mapping<T>,
    range: Range<u32>,
    least: Sample,
    take: impl FnOnce() -> bool,
) -> Option<Sample> {
    let slot = |id| slots.slots().get(id);
    let claimed = range.clone().take_while(|&id| slot(id).lockref().claim()).count() as u32;
    let is_whole = claimed == range.len() as u32;
    let seqs = range.clone().flat_map(|id| slot(id).seqs());
    // Nobody changes them: the slots are free, and their locks are taken.
    let highest = seqs.map(|seq| seq.beyond(least)).max().unwrap_or_default();
    let first = least.behind(highest);
    let went = is_whole && take();
    if went && !cfg!(loom) {
        return Some(first);
    }
    for id in range.start..range.start + claimed {
        let (seqs, lockref) = (|| slot(id).seqs(), slot(id).lockref());
        // Of memory of which a part is locked another part may have gone, and the slots' locks with it: a late reader may have one by now.
        if !went && seqs().all(|seq| seq.is(Sample::NONE)) {
            seqs().for_each(|seq| seq.begin(first));
        } else {
            // In the model the locks do not go with the memory.
            lockref.release();
        }
    }
    went.then_some(first)
}

/// A thread finds all of a slot as it was or all zeroes; where the model zeroes one word after the other, that is a change.
fn take_memory<T: Returned>(slots: &Mapping<T>, range: Range<u32>) -> bool {
    #[cfg(loom)]
    let _changes: Vec<_> = range
        .clone()
        .flat_map(|id| slots.slots().get(id).seqs())
        .map(|seq| seq.change().that_ends_with(Sample::NONE))
        .collect();
    slots.take_memory(range.start as usize..range.end as usize)
}

#[cfg(all(test, not(loom)))]
#[expect(unsafe_code, reason = "the macro's, for a slot of two words")]
mod tests {
    use super::*;
    use crate::{Rank, slot};

    slot! {
        #[repr(align(16))]
        struct Slot: Words {
            seq: Seq,
            lockref: Lockref,
        }
    }

    impl Returned for Slot {
        fn lockref(&self) -> &Lockref {
            &self.lockref
        }

        fn seqs(&self) -> impl Iterator<Item = &Seq> {
            std::iter::once(&self.seq)
        }
    }

    /// A lock goes with its page, also where other pages of the block stay.
    #[test]
    fn who_locks_a_slot_that_lost_its_memory_keeps_that_lock() {
        let slots = Mapping::<Slot>::new(SMALL).unwrap();
        let page = SMALL / size_of::<Slot>();
        let slot = |id| slots.slots().get(id);
        let range = 0..2 * page as u32;
        range.clone().for_each(|id| slot(id).seq.begin(Sample::NONE.behind(0)));
        let mut late = None;
        let went = vacate_by(&slots, range.clone(), Sample::NONE, || {
            assert!(slots.take_memory(0..page));
            late = Some(slot(7).lockref.lock(Rank(1)));
            false
        });
        assert!(went.is_none());
        assert!(!slot(7).lockref.claim(), "the late reader has it");
        drop(late);
        assert!(range.clone().all(|id| slot(id).lockref.claim()), "nobody has any");
        assert!(range.clone().all(|id| !slot(id).seq.is(Sample::NONE)));
    }
}
