//! Numbers that are given out once, to many threads.
//!
//! ```text
//!   fresh = 192      stripe 0: 1 … 64 are its own     stripe 1: 67 … 128 are left     stripe 2: 129 … 192
//! ```
//!
//! Each stripe takes `BATCH` numbers at a time, so that two threads meet at `fresh` once in so many. A stripe keeps
//! the last number that it gave out: where that is a multiple of `BATCH` it has none left, as the next would be another's.
//!
//! Invariant: no number is given out twice. Those of a thread go up; of two threads' numbers the later may be the lower.
//!
//! Linux: `get_next_ino`.

use crate::{
    shim::{AtomicU64, Ordering::Relaxed},
    striped::{STRIPES, stripe},
};

/// So many numbers go to a stripe at once.
const BATCH: u64 = 64;

/// A word with the rest of a cache line behind it: the next one lies on another line, wherever the first begins.
#[derive(Debug, Default)]
#[repr(C)]
struct Line {
    word: AtomicU64,
    _rest: [u64; 7],
}

/// Gives out the numbers from 1 on.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Numbers {
    /// One less than the first that no stripe has taken.
    fresh: Line,
    /// By stripe: one less than the next number.
    next: [Line; STRIPES],
}

impl Numbers {
    /// A number that was never given out.
    ///
    /// It orders nothing, so all access is relaxed.
    pub fn next(&self) -> u64 {
        let mine = &self.next[stripe()].word;
        let mut next = mine.load(Relaxed);
        loop {
            let left = !next.is_multiple_of(BATCH);
            let number = if left { next } else { self.fresh.word.fetch_add(BATCH, Relaxed) };
            // Where another thread of this stripe was faster, what was taken for the stripe is lost.
            match mine.compare_exchange(next, number + 1, Relaxed, Relaxed) {
                Ok(_) => return number + 1,
                Err(now) => next = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{collections::HashSet, thread};

    #[test]
    fn each_is_given_out_once() {
        const EACH: usize = 10_000;
        let numbers = Numbers::default();
        assert_eq!([numbers.next(), numbers.next()], [1, 2]);
        let given: Vec<Vec<u64>> = thread::scope(|scope| {
            let give = || (0..EACH).map(|_| numbers.next()).collect();
            let threads: Vec<_> = (0..2 * STRIPES).map(|_| scope.spawn(give)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: HashSet<u64> = given.iter().flatten().copied().chain([1, 2]).collect();
        assert_eq!(all.len(), 2 * STRIPES * EACH + 2);
        assert!(given.iter().all(|mine| mine.is_sorted()), "those of a thread go up");
    }
}
