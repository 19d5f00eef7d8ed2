//! Lockrefs: a lock, a count and "dead" in one word.
//!
//! | bits | meaning | written by |
//! |---|---|---|
//! | 0–30 | count: how many hold the slot | anyone, lock-free |
//! | 31 | DEAD: the slot is free or about to be; nobody may take a count | the holder of the lock, once, at count 0 |
//! | 32 | LOCKED | whoever takes the lock |
//! | 33 | PARKED: somebody sleeps on the lock | a waiter; cleared by the last wake-up |
//!
//! Rules:
//! 1. Counts go up and down whether or not the word is locked; the lock protects the slot's cells.
//! 2. [`Lockref::get_not_dead`] is refused only by DEAD: a slot with count 0 may be revived.
//! 3. [`LockGuard::mark_dead`] succeeds only at count 0, so of any number of threads that saw the count
//!    reach zero one frees the slot.
//! 4. A dead slot becomes alive again only by [`Lockref::revive`], by the one thread that took it from the
//!    arena's free list.
//!
//! Linux: `struct lockref`, `lockref_get_not_dead`, `lockref_mark_dead`.

use crate::{
    lock_order::{self, Held, Rank},
    shim::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
        spin_loop,
    },
};

const COUNT: u64 = (1 << 31) - 1;
const DEAD: u64 = 1 << 31;
const LOCKED: u64 = 1 << 32;
const PARKED: u64 = 1 << 33;

/// How often a waiter looks again before it sleeps: about the length of the longest section under the lock.
#[cfg(not(loom))]
const SPINS: u32 = 40;
#[cfg(loom)]
const SPINS: u32 = 1;

/// A lock, a count and "dead" in one word.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Lockref(AtomicU64);

impl Lockref {
    /// Takes a count unless the slot is dead.
    #[inline]
    #[must_use = "a refused count must not be used"]
    pub fn get_not_dead(&self) -> bool {
        let mut word = self.0.load(Relaxed);
        while word & DEAD == 0 {
            // Acquire: what was written to the slot before it was revived is seen by the new holder. Pairs with
            // the Release in `revive`.
            match self.0.compare_exchange_weak(word, word + 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes one more count; the caller holds one.
    #[inline]
    pub fn get(&self) {
        let before = self.0.fetch_add(1, Relaxed);
        debug_assert!(before & (DEAD | COUNT) != 0 && before & DEAD == 0, "get needs a holder");
    }

    /// Takes a count for a slot that the caller's lock keeps alive, even at count 0.
    #[inline]
    pub fn get_locked(&self) {
        let before = self.0.fetch_add(1, Relaxed);
        debug_assert!(before & DEAD == 0, "a dead slot is not held");
    }

    /// Gives a count back and returns how many are left.
    #[inline]
    #[must_use = "whoever gives back the last count decides what becomes of the slot"]
    pub fn put(&self) -> u32 {
        // Release: what this holder did is seen by the one that frees the slot. Pairs with the Acquire in
        // `mark_dead` and here.
        // Acquire: the last holder sees what those before it did to the slot, above all that one of them took
        // its name away. Pairs with the Release here.
        let before = self.0.fetch_sub(1, AcqRel);
        debug_assert!(before & COUNT != 0, "put without get");
        (before & COUNT) as u32 - 1
    }

    /// The count at some moment; exact only for whoever can keep others from changing it.
    #[inline]
    pub fn count(&self) -> u32 {
        (self.0.load(Relaxed) & COUNT) as u32
    }

    /// Says whether the slot is dead: free, or about to be.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.0.load(Relaxed) & DEAD != 0
    }

    /// Makes a free slot alive with one count, held by the caller, who took it from the free list.
    #[inline]
    pub fn revive(&self) {
        // Nobody else changes DEAD and the count of a free slot. It may be locked: by one who saw the count
        // reach zero, lost to the one that freed the slot, and is about to find out in `mark_dead`.
        let free = self.0.load(Relaxed);
        debug_assert!(free & COUNT == 0, "a free slot is not held");
        // Release: the free slot's contents are seen by whoever takes a count by an old id.
        self.0.fetch_xor(free & DEAD | 1, Release);
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
        // Acquire: sees all that the last holder wrote. Pairs with the Release in the guard's drop.
        if self.0.fetch_or(LOCKED, Acquire) & LOCKED != 0 {
            self.lock_slow();
        }
        LockGuard { lockref: self, _held: held }
    }

    #[cold]
    fn lock_slow(&self) {
        loop {
            for _ in 0..SPINS {
                if self.0.load(Relaxed) & LOCKED == 0
                    && self.0.fetch_or(LOCKED, Acquire) & LOCKED == 0
                {
                    return;
                }
                spin_loop();
            }
            if self.park() {
                return;
            }
        }
    }

    /// Sleeps until the lock is given up. Returns true if the lock was taken on the way.
    fn park(&self) -> bool {
        let before = self.0.fetch_or(PARKED | LOCKED, Acquire);
        if before & LOCKED == 0 {
            // Nobody held it: now we do. PARKED may be false alarm; the unlock sorts it out.
            return true;
        }
        crate::gate::wait_once(self, || {
            self.0.load(Relaxed) & (LOCKED | PARKED) == LOCKED | PARKED
        });
        false
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

    fn mark_dead_at(&self, count: u64) -> bool {
        let mut word = self.lockref.0.load(Relaxed);
        while word & (COUNT | DEAD) == count {
            // Acquire: sees what the last holders did before their `put`.
            let dead = word & !COUNT | DEAD;
            match self.lockref.0.compare_exchange_weak(word, dead, Acquire, Relaxed) {
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
        // Release: the next holder sees what was written under the lock. Pairs with the Acquire in `lock`.
        let before = self.lockref.0.fetch_and(!LOCKED & !PARKED, Release);
        if before & PARKED != 0 {
            crate::gate::wake_all(self.lockref);
        }
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
        assert!(slot.get_not_dead());
        assert!(!slot.lock(RANK).mark_dead(), "somebody holds it");
        assert_eq!(slot.put(), 0);
        assert!(slot.lock(RANK).mark_dead());
        assert!(!slot.lock(RANK).mark_dead(), "only one may free it");
        assert!(!slot.get_not_dead());
        slot.revive();
        assert_eq!(slot.count(), 1);
    }

    #[test]
    fn the_lock_excludes_and_loses_no_sleeper() {
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
