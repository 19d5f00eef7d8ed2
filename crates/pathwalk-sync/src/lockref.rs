//! Lockrefs: a lock, a count and "dead" in eight bytes.
//!
//! | word | bits | meaning | written by |
//! |---|---|---|---|
//! | count | 0–30 | how many hold the slot | anyone, lock-free |
//! | | 31 | ALIVE: set while the slot is in use; without it nobody may take a count | set by who made the slot; cleared by the holder of the lock, once, at count 0 |
//! | lock | | see the module `lock` | whoever takes the lock |
//!
//! Rules:
//! 1. Counts go up and down whether or not the slot is locked; the lock protects the slot's cells.
//! 2. [`Lockref::get_not_dead`] is refused only where ALIVE is not set: a slot with count 0 may be revived. Of a slot that has no memory it is
//!    not, as that reads as zero.
//! 3. [`LockGuard::mark_dead`] succeeds only at count 0, so of any number of threads that saw the count
//!    reach zero one frees the slot.
//! 4. A dead slot becomes alive again only by [`Lockref::revive`], by the one thread that took it from the
//!    arena's free list.
//! 5. Who gave the last count back by [`Lockref::put`] has none any more: before he takes the lock the slot may have been
//!    freed, and be another's. Where nothing stays at count 0, [`Lockref::put_unless_last`] and
//!    [`LockGuard::put_and_mark_dead`] keep the last count until the slot is dead.
//!
//! Linux: `struct lockref`, `lockref_get_not_dead`, `lockref_mark_dead`. The two are words of their own here, so that the
//! lock can be given up by a plain store.

use crate::{
    lock::LockWord,
    lock_order::{self, Held, Rank},
    shim::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
        put,
    },
};

const COUNT: u32 = (1 << 31) - 1;
const ALIVE: u32 = 1 << 31;

/// A lock, a count and "dead" in eight bytes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Lockref {
    count: AtomicU32,
    lock: LockWord,
}

impl Lockref {
    /// Takes a count unless the slot is dead.
    #[inline]
    #[must_use = "a refused count must not be used"]
    pub fn get_not_dead(&self) -> bool {
        let mut word = self.count.load(Relaxed);
        while word & ALIVE != 0 {
            // Acquire: what was written to the slot before it was revived is seen by the new holder. Pairs with
            // the Release in `revive`.
            match self.count.compare_exchange_weak(word, word + 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes one more count; the caller holds one.
    #[inline]
    pub fn get(&self) {
        let before = self.count.fetch_add(1, Relaxed);
        debug_assert!(before & ALIVE != 0 && before & COUNT != 0, "get needs a holder");
    }

    /// Takes a count for a slot that the caller's lock keeps alive, even at count 0.
    #[inline]
    pub fn get_locked(&self) {
        let before = self.count.fetch_add(1, Relaxed);
        debug_assert!(before & ALIVE != 0, "a dead slot is not held");
    }

    /// Gives a count back and returns how many are left.
    #[inline]
    #[must_use = "whoever gives back the last count decides what becomes of the slot"]
    pub fn put(&self) -> u32 {
        // Release: what this holder did is seen by the one that frees the slot. Pairs with the Acquire in
        // `mark_dead` and here.
        // Acquire: the last holder sees what those before it did to the slot, above all that one of them took
        // its name away. Pairs with the Release here.
        let before = self.count.fetch_sub(1, AcqRel);
        debug_assert!(before & COUNT != 0, "put without get");
        (before & COUNT) - 1
    }

    /// Gives a count back unless it is the only one; says whether it did.
    #[inline]
    #[must_use = "a count that was not given back is still held"]
    pub fn put_unless_last(&self) -> bool {
        let mut word = self.count.load(Relaxed);
        while word & COUNT > 1 {
            // Release: what this holder did is seen by the one that frees the slot. Pairs with the Acquire in
            // `put_and_mark_dead`.
            match self.count.compare_exchange_weak(word, word - 1, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        debug_assert!(word & COUNT != 0, "put without get");
        false
    }

    /// The count at some moment; exact only for whoever can keep others from changing it.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed) & COUNT
    }

    /// Says whether the slot is dead: free, or about to be.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.count.load(Relaxed) & ALIVE == 0
    }

    /// Makes a free slot alive with one count, held by the caller, who took it from the free list.
    #[inline]
    pub fn revive(&self) {
        debug_assert!(self.count() == 0, "a free slot is not held");
        // Nobody else changes the count of a free slot: whoever comes by an old id finds it dead.
        // Release: the free slot's contents are seen by whoever takes a count by an old id.
        put(&self.count, ALIVE | 1, Release);
    }

    /// Takes the lock of a free slot, which nobody holds, if no late reader has it; says whether it did. It lasts until
    /// [`Lockref::release`], or until the slot's memory is taken away.
    pub(crate) fn claim(&self) -> bool {
        debug_assert!(self.count.load(Relaxed) == 0, "a free slot is dead");
        self.lock.try_lock()
    }

    /// Gives up what [`Lockref::claim`] took.
    pub(crate) fn release(&self) {
        self.lock.unlock();
    }

    /// Takes the lock, for a short time: no file system is asked while it is held.
    #[inline]
    pub fn lock(&self, rank: Rank) -> LockGuard<'_> {
        self.lock_with(rank, false)
    }

    /// Takes the lock while another of the same rank is held; the caller ordered the two.
    #[inline]
    pub fn lock_nested(&self, rank: Rank) -> LockGuard<'_> {
        self.lock_with(rank, true)
    }

    #[inline]
    fn lock_with(&self, rank: Rank, nested: bool) -> LockGuard<'_> {
        let held = lock_order::acquire(rank, nested);
        self.lock.lock();
        LockGuard { lockref: self, _held: held }
    }
}

/// The lock of a [`Lockref`], held.
#[derive(Debug)]
#[must_use = "the lock is given up when this is dropped"]
pub struct LockGuard<'a> {
    lockref: &'a Lockref,
    _held: Held,
}

impl LockGuard<'_> {
    /// Marks the slot dead if nobody holds it; only then may the caller free it.
    #[must_use = "a slot that is still held must not be freed"]
    pub fn mark_dead(&self) -> bool {
        self.mark_dead_at(0)
    }

    /// Gives the caller's count back and marks the slot dead if that was the only one.
    #[must_use = "a slot that is still held must not be freed"]
    pub fn put_and_mark_dead(&self) -> bool {
        self.mark_dead_at(1)
    }

    fn mark_dead_at(&self, count: u32) -> bool {
        let mut word = self.lockref.count.load(Relaxed);
        while word == ALIVE | count {
            // Acquire: sees what the last holders did before their `put`.
            match self.lockref.count.compare_exchange_weak(word, 0, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

impl Drop for LockGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lockref.lock.unlock();
    }
}

#[cfg(loom)]
impl Lockref {
    /// What becomes of it where its memory is taken away; the lock is given up after that.
    pub(crate) fn zero(&self) {
        self.count.store(0, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicUsize, thread};

    const RANK: Rank = Rank(1);

    #[test]
    fn a_dead_slot_refuses_counts_until_it_is_revived() {
        let slot = Lockref::default();
        assert!(!slot.get_not_dead(), "nobody made it");
        slot.revive();
        assert!(slot.get_not_dead());
        assert_eq!(slot.put(), 1);
        assert!(!slot.lock(RANK).mark_dead(), "somebody holds it");
        assert_eq!(slot.put(), 0);
        assert!(slot.lock(RANK).mark_dead());
        assert!(!slot.lock(RANK).mark_dead(), "only one may free it");
        assert!(!slot.get_not_dead());
        slot.revive();
        assert_eq!(slot.count(), 1);
    }

    #[test]
    fn the_only_count_is_kept() {
        let slot = Lockref::default();
        slot.revive();
        slot.get();
        assert!(slot.put_unless_last());
        assert!(!slot.put_unless_last());
        assert_eq!(slot.count(), 1);
        assert!(slot.lock(RANK).put_and_mark_dead());
        assert!(slot.is_dead() && slot.count() == 0);
    }

    #[test]
    fn the_lock_excludes() {
        let slot = Lockref::default();
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let _guard = slot.lock(RANK);
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::Relaxed), 0);
                        if round % 1000 == 0 {
                            thread::yield_now();
                        }
                        inside.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
    }
}
