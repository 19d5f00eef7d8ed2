//! Memory of free slots that goes back to the system while late readers are there.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Arena, Cell32, Lockref, Rank, Returned, Sample, Seq, slot};
use std::{collections::BTreeSet, sync::Arc};

const RANK: Rank = Rank(1);

slot! {
    /// What a late reader may come to.
    struct Slot: Words {
        seq: Seq,
        lockref: Lockref,
        /// 1 while somebody has the lock.
        inside: Cell32,
        life: Cell32,
        /// The same again.
        again: Cell32,
        left_behind: Cell32,
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

impl Slot {
    /// Does something while nobody else has the lock.
    fn locked<R>(&self, does: impl FnOnce() -> R) -> R {
        let _guard = self.lockref.lock(RANK);
        assert_eq!(self.inside.get(), 0, "two have the lock");
        self.inside.set(1);
        let done = does();
        self.inside.set(0);
        done
    }

    /// Makes it another thing.
    fn lives(&self, life: u32) {
        {
            let _change = self.seq.change();
            self.life.set(life);
            self.again.set(life);
        }
        self.lockref.revive();
    }

    /// Ends what it is, but for giving the slot back.
    fn ends(&self) {
        self.locked(|| drop(self.seq.change()));
        assert!(self.lockref.lock(RANK).put_and_mark_dead());
    }
}

/// An arena of one slot, which was in use, is free, and has such a sample since.
fn freed() -> (Arc<Arena<Slot>>, u32, Sample) {
    let arena: Arc<Arena<Slot>> = Arc::new(Arena::returning(1).unwrap());
    let id = arena.alloc().unwrap();
    let slot = arena.get(id);
    slot.lives(1);
    slot.ends();
    arena.free(id);
    let sample = slot.seq.sample();
    (arena, id, sample)
}

/// Who locks it by an old id finds it dead or another thing, and nobody has the lock beside him.
#[test]
fn a_lock_that_is_taken_by_an_old_id_excludes_while_memory_goes() {
    let seen = explore(|| {
        let (arena, id, sample) = freed();
        let late = spawn(&arena, move |arena| {
            let slot = arena.get(id);
            slot.locked(|| {
                assert!(!slot.seq.unchanged(sample) || slot.lockref.is_dead());
                slot.left_behind.set(1);
                (slot.lockref.is_dead(), slot.life.get())
            })
        });
        arena.trim();
        let slot = arena.get(id);
        let went = slot.seq.is(Sample::NONE);
        assert_eq!(arena.alloc(), Some(id));
        slot.locked(|| slot.lives(2));
        let (was_dead, life) = late.join().unwrap();
        // What he did before the memory went, went with it.
        assert!(life != 1 || !went || slot.left_behind.get() == 0);
        assert_eq!(slot.locked(|| (slot.lockref.count(), slot.life.get())), (1, 2));
        (was_dead, life)
    });
    // Free, without memory, or in use again.
    assert_eq!(seen, BTreeSet::from([(true, 1), (true, 0), (false, 2)]));
}

/// Nobody gets a count of a slot without memory, and a sample from before it went is never believed again.
#[test]
fn no_count_and_no_sample_of_before_is_good_for_what_has_no_memory() {
    let seen = explore(|| {
        let (arena, id, sample) = freed();
        let late = spawn(&arena, move |arena| {
            let slot = arena.get(id);
            let life = slot.life.get();
            let is_as_before = slot.seq.unchanged(sample);
            assert!(!is_as_before || life == 1, "a sample of one life is good for another");
            (is_as_before, slot.lockref.get_not_dead())
        });
        arena.trim();
        assert_eq!(arena.alloc(), Some(id));
        arena.get(id).lives(2);
        late.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([(true, false), (true, true), (false, false), (false, true)]));
}

/// What is there between two times without memory is not believed by who came the first time.
#[test]
fn what_has_no_memory_gives_no_sample() {
    let seen = explore(|| {
        let (arena, id, _) = freed();
        arena.trim();
        let late = spawn(&arena, move |arena| {
            let slot = arena.get(id);
            let sample = slot.seq.sample();
            let lives = (slot.life.get(), slot.again.get());
            (sample != Sample::NONE && slot.seq.unchanged(sample)).then_some(lives)
        });
        assert_eq!(arena.alloc(), Some(id));
        let slot = arena.get(id);
        slot.lives(2);
        slot.ends();
        arena.free(id);
        arena.trim();
        late.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([None, Some((0, 0)), Some((2, 2))]));
}

/// Who finds all slots in the hands of who looks for memory to give back waits for him.
#[test]
fn a_slot_that_is_looked_at_is_not_missed() {
    explore(|| {
        let (arena, id, _) = freed();
        let taker = spawn(&arena, |arena| arena.alloc());
        arena.trim();
        assert_eq!(taker.join().unwrap(), Some(id));
        assert_eq!(arena.in_use(), 1);
    });
}
