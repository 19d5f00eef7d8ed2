//! The word of a lock that is held for a few lines.
//!
//! | bit | meaning |
//! |---|---|
//! | 0 | LOCKED |
//! | 1 | PARKED: somebody sleeps |
//!
//! Giving the lock up is a plain store, as with the kernel's spinlocks: a locked instruction would cost as much as taking it.
//! The price is that who goes to sleep at that very moment is overlooked, and so no sleep is longer than [`NAP`].
//!
//! Linux: `raw_spinlock_t`.

use crate::shim::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    put, spin_loop,
};
#[cfg(not(loom))]
use parking_lot::lock_api::{self, GuardSend, RawMutex};

const LOCKED: u32 = 1;
const PARKED: u32 = 1 << 1;

/// How often a waiter looks again before it sleeps: about the length of the longest section under the lock.
#[cfg(not(loom))]
const SPINS: u32 = 40;
#[cfg(loom)]
const SPINS: u32 = 1;

/// The longest sleep; whoever sleeps is mostly woken before.
#[cfg(not(loom))]
pub(crate) const NAP: std::time::Duration = std::time::Duration::from_millis(1);

/// The word of a lock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct LockWord(AtomicU32);

impl LockWord {
    /// Takes the lock.
    #[inline]
    pub(crate) fn lock(&self) {
        // Acquire: sees all that the last holder wrote. Pairs with the Release in `unlock`.
        if self.0.fetch_or(LOCKED, Acquire) & LOCKED != 0 {
            self.lock_slow();
        }
    }

    /// Takes the lock if nobody has it; says whether it did.
    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        // Acquire: as in `lock`.
        self.0.fetch_or(LOCKED, Acquire) & LOCKED == 0
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
            if self.0.fetch_or(PARKED | LOCKED, Acquire) & LOCKED == 0 {
                // Nobody held it: now we do. That somebody sleeps may be a false alarm.
                return;
            }
            crate::gate::nap(self, || self.0.load(Relaxed) == LOCKED | PARKED);
        }
    }

    /// Gives the lock up; the caller holds it.
    #[inline]
    pub(crate) fn unlock(&self) {
        // Release: the next holder sees what was written under the lock. Pairs with the Acquire in `lock`.
        let before = put(&self.0, 0, Release);
        if before & PARKED != 0 {
            crate::gate::wake_all(self);
        }
    }
}

/// A mutex of one such word, for what is looked at in a few lines.
#[cfg(not(loom))]
pub(crate) type Mutex<T> = lock_api::Mutex<LockWord, T>;

#[cfg(not(loom))]
#[expect(
    unsafe_code,
    reason = "whoever makes a mutex of it promises that it lets in one at a time"
)]
// SAFETY: `lock` returns, and `try_lock` succeeds, only where this one set LOCKED, which was clear; only the holder clears it.
unsafe impl RawMutex for LockWord {
    const INIT: Self = Self(AtomicU32::new(0));

    type Guard = GuardSend;

    #[inline]
    fn lock(&self) -> GuardSend {
        LockWord::lock(self);
        GuardSend::default()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardSend> {
        LockWord::try_lock(self).then(GuardSend::default)
    }

    #[inline]
    unsafe fn unlock(&self, _guard: GuardSend) {
        LockWord::unlock(self);
    }

    fn is_locked(&self) -> bool {
        self.0.load(Relaxed) & LOCKED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{thread, time::Duration};

    /// The one thing that makes an overlooked sleeper harmless.
    #[test]
    fn who_sleeps_and_is_overlooked_wakes_by_itself() {
        let word = LockWord::default();
        word.lock();
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| word.lock());
            while word.0.load(Relaxed) & PARKED == 0 {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            // As `unlock`, where the sleeper came between its load and its store.
            word.0.store(0, Release);
            sleeper.join().unwrap();
        });
        assert_eq!(word.0.load(Relaxed) & LOCKED, LOCKED, "the sleeper has it");
    }
}
