//! The lock order, checked in debug builds: a thread takes locks in the order of their ranks.
//!
//! The order itself stands in `docs/locking.md`; whoever declares a lock gives it its [`Rank`].

#[cfg(debug_assertions)]
use crate::shim::thread_local;
#[cfg(debug_assertions)]
use std::cell::Cell;

/// The place of a lock in the order: a thread that holds a rank may only take higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u8);

/// One held lock, for the check; empty in release builds.
#[derive(Debug)]
pub struct Held {
    #[cfg(debug_assertions)]
    rank: Rank,
}

// How many locks of each rank this thread holds. Without a destructor: what another thread-local drops may take locks.
#[cfg(debug_assertions)]
thread_local! {
    static HELD: Cell<[u8; RANKS]> = const { Cell::new([0; RANKS]) };
}

/// Ranks are smaller.
#[cfg(debug_assertions)]
const RANKS: usize = 16;

/// Notes that this thread is about to take a lock of `rank`.
///
/// Two locks of one rank are taken together only where `same_rank_ordered` says that the caller ordered
/// them otherwise (an ancestor before its descendant, else by id).
///
/// # Panics
///
/// Panics in debug builds where the order is broken: that is a bug of this project, never of its user.
#[inline]
pub fn acquire(rank: Rank, same_rank_ordered: bool) -> Held {
    #[cfg(debug_assertions)]
    {
        HELD.with(|held| {
            let mut counts = held.get();
            if let Some(top) = counts.iter().rposition(|&count| count != 0) {
                let at = usize::from(rank.0);
                assert!(
                    top < at || (top == at && same_rank_ordered),
                    "lock order: {rank:?} is taken while one of {top} is held"
                );
            }
            counts[usize::from(rank.0)] += 1;
            held.set(counts);
        });
        Held { rank }
    }
    #[cfg(not(debug_assertions))]
    {
        let _ = (rank, same_rank_ordered);
        Held {}
    }
}

/// Asserts in debug builds that this thread holds no lock: for calls that may block on the outside world.
///
/// # Panics
///
/// Panics in debug builds where a lock is held.
#[inline]
pub fn assert_none_held() {
    #[cfg(debug_assertions)]
    HELD.with(|held| {
        let counts = held.get();
        assert!(
            counts == [0; RANKS],
            "a file system is asked, or memory given back, while locks are held: {counts:?} of each rank"
        );
    });
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| {
            let mut counts = held.get();
            counts[usize::from(self.rank.0)] -= 1;
            held.set(counts);
        });
    }
}

#[cfg(all(test, debug_assertions, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranks_rise() {
        let _low = acquire(Rank(1), false);
        let _high = acquire(Rank(2), false);
    }

    #[test]
    #[should_panic(expected = "lock order")]
    fn a_lower_rank_after_a_higher_one_is_caught() {
        let _high = acquire(Rank(2), false);
        let _low = acquire(Rank(1), false);
    }

    #[test]
    #[should_panic(expected = "lock order")]
    fn two_of_a_rank_are_caught_unless_ordered() {
        let _one = acquire(Rank(1), false);
        let _two = acquire(Rank(1), false);
    }

    #[test]
    #[should_panic(expected = "a file system is asked")]
    fn a_held_lock_is_seen() {
        let _one = acquire(Rank(1), false);
        assert_none_held();
    }
}
