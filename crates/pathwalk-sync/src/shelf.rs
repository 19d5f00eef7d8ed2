//! Shelves: a value that many threads use, each for a moment, until somebody takes it away.
//!
//! Who uses the value is counted, each thread on a line of its own, and it is dropped where it lies by the last who leaves:
//!
//! ```text
//!   FREE ──put──► BUSY ──► FILLED ──clear──► LEAVING ──who finds no user──► BUSY ──► FREE of the next turn
//!                            │                  │
//!                           get: lent          get: refused
//! ```
//!
//! Invariant: where the users are summed to nothing behind LEAVING, nobody has the value and nobody gets it: who was refused
//! counts for a moment, and looks again when it has gone. The turn keeps who found that out, and was slow, from ending what was
//! put there since.
//!
//! Linux: `percpu_ref`, with its kill.

use crate::{
    shim::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        UnsafeCell,
    },
    striped::Striped,
};
use std::{mem::MaybeUninit, ops::Deref};

/// What a shelf's state is, in its lower bits; above it, how often it was emptied.
const FREE: u64 = 0;
const BUSY: u64 = 1;
const FILLED: u64 = 2;
const LEAVING: u64 = 3;
const STATE: u64 = 3;

/// Room for a value that is used by many and taken away by one. A value that is not taken away is never dropped. Where its drop panics, the
/// room is never free again.
#[repr(C)]
pub struct Shelf<T> {
    users: Striped,
    state: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A value of a [`Shelf`], in use: it stays until this is dropped.
#[must_use = "nobody uses it any more when this is dropped"]
pub struct Lent<'a, T>(&'a Shelf<T>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            users: Striped::default(),
            state: AtomicU64::new(FREE),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }
}

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: atomics, of which zero is FREE and no user, and room in which nothing need be then. The room is written and dropped by
// one thread while it is BUSY, and only read while it is lent; a shelf has no drop of its own.
unsafe impl<T: Send + Sync> crate::mapping::Zeroed for Shelf<T> {}

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: threads share the value (`T: Sync`), and it is dropped by another than put it there (`T: Send`).
unsafe impl<T: Send + Sync> Sync for Shelf<T> {}

impl<T> Shelf<T> {
    /// Puts a value there, or gives it back if another is there, or has not gone yet.
    ///
    /// # Errors
    ///
    /// The value.
    pub fn put(&self, value: T) -> Result<(), T> {
        let free = self.state.load(Relaxed);
        // Acquire: what was there is dropped. Pairs with the Release in `end`.
        if free & STATE != FREE
            || self.state.compare_exchange(free, free | BUSY, Acquire, Relaxed).is_err()
        {
            return Err(value);
        }
        #[expect(unsafe_code, reason = "see the argument")]
        // SAFETY: only who made it BUSY goes there until it is something else.
        self.value.with_mut(|room| unsafe { room.cast::<T>().write(value) });
        // Release: who gets it sees it whole, and who drops it. Pairs with the Acquire in `get`, and the fence in `end`.
        self.state.store(free | FILLED, Release);
        Ok(())
    }

    /// Whether a value could be put there now.
    pub fn is_free(&self) -> bool {
        self.state.load(Relaxed) & STATE == FREE
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<Lent<'_, T>> {
        // Acquire: pairs with the Release in `put`.
        let filled = self.users.get_then(|| self.state.load(Acquire) & STATE == FILLED);
        let lent = Lent(self);
        // Dropped else, as one in use is.
        filled.then_some(lent)
    }

    /// Takes the value away: nobody gets it any more, and it is dropped as soon as nobody has it. Does nothing where there is none.
    pub fn clear(&self) {
        let filled = self.state.load(Relaxed);
        if filled & STATE == FILLED
            && self.state.compare_exchange(filled, filled | LEAVING, Relaxed, Relaxed).is_ok()
        {
            self.end(filled | LEAVING);
        }
    }

    /// Drops the value if nobody has it; it was seen leaving.
    #[cold]
    fn end(&self, leaving: u64) {
        if self.users.sum_after() != 0 {
            return;
        }
        let turn = leaving & !STATE;
        // The fence in `sum_after` came behind the load of LEAVING, or of FILLED before it was replaced: so this one, who may never have
        // had the value, sees all of it. What its users did is seen by the sum.
        if self.state.compare_exchange(leaving, turn | BUSY, Relaxed, Relaxed).is_err() {
            return;
        }
        #[expect(unsafe_code, reason = "see the argument")]
        // SAFETY: a value is there, as it was LEAVING, and was not BUSY since; nobody has it or gets it (the invariant above).
        self.value.with_mut(|room| unsafe { room.cast::<T>().drop_in_place() });
        // Release: who puts the next one there finds it gone. Pairs with the Acquire in `put`.
        self.state.store(turn + STATE + 1, Release);
    }
}

impl<T> std::fmt::Debug for Shelf<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        #[expect(unsafe_code, reason = "see the argument")]
        // SAFETY: it was FILLED when this one was counted, and is not dropped before it has left.
        self.0.value.with(|room| unsafe { &*room.cast::<T>() })
    }
}

impl<T> Drop for Lent<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let shelf = self.0;
        shelf.users.put_then_look();
        let state = shelf.state.load(Relaxed);
        if state & STATE == LEAVING {
            shelf.end(state);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Weak};

    fn shelf_of(value: &Arc<u32>) -> Shelf<Arc<u32>> {
        let shelf = Shelf::default();
        shelf.put(Arc::clone(value)).unwrap();
        shelf
    }

    #[test]
    fn a_value_goes_with_the_last_who_uses_it() {
        let value = Arc::new(7);
        let shelf = shelf_of(&value);
        let (one, other) = (shelf.get().unwrap(), shelf.get().unwrap());
        assert_eq!((**one, **other), (7, 7));
        shelf.clear();
        assert!(shelf.get().is_none(), "nobody gets it");
        drop(one);
        assert_eq!(Arc::strong_count(&value), 2, "one has it");
        assert_eq!(shelf.put(Arc::new(8)).map_err(|refused| *refused), Err(8), "it is in the way");
        drop(other);
        assert_eq!(Arc::strong_count(&value), 1);
        shelf.put(Arc::new(8)).unwrap();
        assert_eq!(**shelf.get().unwrap(), 8);
    }

    #[test]
    fn what_nobody_uses_goes_at_once() {
        let value = Arc::new(7);
        let gone = Arc::downgrade(&value);
        let shelf = shelf_of(&value);
        drop(value);
        shelf.clear();
        assert!(Weak::upgrade(&gone).is_none());
        shelf.clear();
        assert!(shelf.get().is_none());
    }

    #[test]
    fn a_place_is_filled_and_emptied_while_others_use_what_is_there() {
        let shelf: Shelf<Arc<u32>> = Shelf::default();
        let dropped = Arc::new(0_u32);
        std::thread::scope(|scope| {
            let users = [(); 3].map(|()| {
                scope.spawn(|| {
                    (0..20_000).filter(|_| shelf.get().is_some_and(|it| **it == 0)).count()
                })
            });
            for _ in 0..20_000 {
                // The one before may still be in use.
                let mut value = Arc::clone(&dropped);
                while let Err(refused) = shelf.put(value) {
                    value = refused;
                    std::thread::yield_now();
                }
                shelf.clear();
            }
            users.map(|user| user.join().unwrap())
        });
        assert!(shelf.get().is_none());
        assert_eq!(Arc::strong_count(&dropped), 1, "each was dropped once");
    }
}
