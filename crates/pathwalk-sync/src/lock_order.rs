//! The lock order, checked in debug builds: a thread takes locks in the order of their ranks.
//!
//! The order itself stands in `docs/locking.md`; whoever declares a lock gives it its [`Rank`].

#[cfg(debug_assertions)]
use crate::shim::thread_local;
#[cfg(debug_assertions)]
use std::cell::RefCell;

/// The place of a lock in the order: a thread that holds a rank may only take higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub u8);

/// One held lock, for the check; empty in release builds.
#[derive(Debug)]
pub struct Held {
    #[cfg(debug_assertions)]
    rank: Rank,
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
}

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
            let mut held = held.borrow_mut();
            if let Some(&top) = held.iter().max() {
                assert!(
                    top < rank || (top == rank && same_rank_ordered),
                    "lock order: {rank:?} is taken while {top:?} is held"
                );
            }
            held.push(rank);
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
        let held = held.borrow();
        assert!(
            held.is_empty(),
            "a file system is asked, or memory given back, while {held:?} is held"
        );
    });
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| {
            let mut held = held.borrow_mut();
            let at = held.iter().rposition(|&rank| rank == self.rank);
            held.remove(at.expect("a held lock was noted when it was taken"));
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
