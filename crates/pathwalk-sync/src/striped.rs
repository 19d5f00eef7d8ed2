//! Striped counters: counts that many threads change and almost nobody reads.
//!
//! Each thread adds to a line of its own, so that two threads that hold the same mount do not meet.
//!
//! Linux: per-CPU counters, as in `struct mount`.

use crate::shim::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::cell::Cell;

/// The number of lines; threads share them in turn.
#[cfg(not(loom))]
pub const STRIPES: usize = 8;
/// The number of lines; threads share them in turn.
#[cfg(loom)]
pub const STRIPES: usize = 1;

#[cfg(not(loom))]
thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The stripe of this thread.
#[inline]
pub(crate) fn stripe() -> usize {
    #[cfg(loom)]
    {
        let _ = Cell::new(0);
        0
    }
    #[cfg(not(loom))]
    STRIPE.with(|mine| match mine.get() {
        usize::MAX => {
            static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let stripe = NEXT.fetch_add(1, Relaxed) % STRIPES;
            mine.set(stripe);
            stripe
        }
        stripe => stripe,
    })
}

/// One line of a [`Striped`].
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// A counter in as many lines as there are stripes.
#[derive(Debug, Default)]
pub struct Striped {
    lines: [Line; STRIPES],
}

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: made of atomics; zero is a value; no drop.
unsafe impl crate::mapping::Zeroed for Striped {}

impl Striped {
    /// Adds one, then lets `valid` say whether that came in time; if not, takes it back.
    ///
    /// Pairs with [`Striped::sum_after`]: either `valid` sees what the other side did before it summed, or the
    /// other side's sum sees the one added here.
    #[inline]
    #[must_use = "a refused count must not be used"]
    pub fn get_if(&self, valid: impl FnOnce() -> bool) -> bool {
        self.get();
        // SeqCst fence, the store-load half of Dekker: the count is up before `valid` looks. Pairs with the
        // fence in `sum_after`.
        fence(SeqCst);
        let valid = valid();
        if !valid {
            self.put();
        }
        valid
    }

    /// Adds one; the caller knows that the count is not zero.
    #[inline]
    pub fn get(&self) {
        self.lines[stripe()].0.fetch_add(1, Relaxed);
    }

    /// Takes one off, perhaps on another line than it was added on.
    #[inline]
    pub fn put(&self) {
        // Release: what the holder did is seen by whoever finds the sum zero. Pairs with the loads in `sum`.
        self.lines[stripe()].0.fetch_sub(1, Release);
    }

    /// Takes one off, then fences, so that the caller may look whether it must sum.
    #[inline]
    pub fn put_then_look(&self) {
        self.put();
        // SeqCst fence: pairs with the fence in `sum_after`; one of the two sides sees the other.
        fence(SeqCst);
    }

    /// The sum of all lines, after a fence behind which everybody who did not see what the caller wrote
    /// before has been counted.
    pub fn sum_after(&self) -> u64 {
        fence(SeqCst);
        self.sum()
    }

    /// The sum of all lines at no particular moment.
    pub fn sum(&self) -> u64 {
        self.lines.iter().fold(0, |sum, line| sum.wrapping_add(line.0.load(Acquire)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn puts_on_other_lines_cancel_gets() {
        let counter = Striped::default();
        std::thread::scope(|scope| {
            for _ in 0..STRIPES * 2 {
                scope.spawn(|| (0..1000).for_each(|_| counter.get()));
            }
        });
        assert_eq!(counter.sum_after(), STRIPES as u64 * 2000);
        (0..STRIPES * 2000).for_each(|_| counter.put());
        assert_eq!(counter.sum_after(), 0);
        assert!(!counter.get_if(|| false));
        assert_eq!(counter.sum_after(), 0);
    }
}
