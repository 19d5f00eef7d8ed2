//! Striped counters: counts that many threads change and almost nobody reads.
//!
//! Each thread counts on a line of its own, so that two threads that hold the same mount do not meet. A line
//! counts apart what was taken and what was given back, because a sum reads one line after the other:
//!
//! ```text
//!   line 0        line 1
//!   took  gave    took  gave     line 0 has been read, line 1 not yet:
//!    +1                  +1      a count is taken here and another given back there
//! ```
//!
//! With one number per line the sum would miss the count that was taken. So all that was given back is read
//! first: whoever gives a count back has taken it before, or was handed it by the one who did.
//!
//! Invariant: a sum is never below what was held at some moment during it, so a zero is true.
//!
//! Linux: per-CPU counters, as in `struct mount`.

use crate::shim::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence, next_thread, thread_local,
};
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// The number of lines; threads share them in turn.
#[cfg(not(loom))]
pub const STRIPES: usize = 8;
/// The number of lines; threads share them in turn.
#[cfg(loom)]
pub const STRIPES: usize = 2;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The stripe of this thread.
#[inline]
pub(crate) fn stripe() -> usize {
    STRIPE.with(|mine| match mine.get() {
        usize::MAX => {
            let stripe = next_thread() % STRIPES;
            mine.set(stripe);
            stripe
        }
        stripe => stripe,
    })
}

/// A SeqCst fence behind a read-modify-write. On x86-64 that is a locked instruction, and with it a fence: only the compiler
/// is kept from moving anything there. Linux: `smp_mb__after_atomic`.
#[inline(always)]
pub(crate) fn fence_after_rmw() {
    if cfg!(all(target_arch = "x86_64", not(loom), not(miri))) {
        std::sync::atomic::compiler_fence(crate::shim::Ordering::SeqCst);
    } else {
        fence(SeqCst);
    }
}

/// One line of a [`Striped`], as long as a cache line: what the next one counts lies 64 bytes on, so never on the same one.
/// It begins where an allocator has room, as being aligned to a cache line makes an allocation several times as dear.
#[derive(Debug, Default)]
#[repr(C, align(16))]
struct Line {
    took: AtomicU64,
    gave: AtomicU64,
    _rest: [u64; 6],
}

/// A counter in as many lines as there are stripes.
#[derive(Debug, Default)]
pub struct Striped {
    lines: [Line; STRIPES],
}

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: made of atomics, and of words that nobody writes; zero is a value; no drop.
unsafe impl crate::mapping::Zeroed for Striped {}

impl Striped {
    /// Adds one, then lets `valid` say whether that came in time; if not, takes it back as
    /// [`Striped::put_then_look`] does, and the caller looks.
    ///
    /// Pairs with [`Striped::sum_after`]: either `valid` sees what the other side did before it summed, or the
    /// other side's sum sees the one added here.
    #[inline]
    #[must_use = "a refused count must not be used"]
    pub fn get_if(&self, valid: impl FnOnce() -> bool) -> bool {
        let valid = self.get_then(valid);
        if !valid {
            self.put_then_look();
        }
        valid
    }

    /// Adds one, then looks: as [`Striped::get_if`], but the count is the caller's however that ends.
    #[inline]
    pub fn get_then<R>(&self, look: impl FnOnce() -> R) -> R {
        self.get();
        // SeqCst fence, the store-load half of Dekker: the count is up before `look` does. Pairs with the
        // fence in `sum_after`.
        fence_after_rmw();
        look()
    }

    /// Adds one; the caller knows that the count is not zero.
    #[inline]
    pub fn get(&self) {
        self.add(1);
    }

    /// Adds so many.
    #[inline]
    pub fn add(&self, count: u64) {
        self.lines[stripe()].took.fetch_add(count, Relaxed);
    }

    /// Takes one off, perhaps on another line than it was added on.
    #[inline]
    pub fn put(&self) {
        self.sub(1);
    }

    /// Takes so many off, which were added before.
    #[inline]
    pub fn sub(&self, count: u64) {
        // Release: what the holder did, and that the count was taken before, is seen by whoever sees it given
        // back. Pairs with the Acquire in `sum`.
        self.lines[stripe()].gave.fetch_add(count, Release);
    }

    /// Takes one off, then fences, so that the caller may look whether it must sum.
    #[inline]
    pub fn put_then_look(&self) {
        self.put();
        // SeqCst fence: pairs with the fence in `sum_after`; one of the two sides sees the other.
        fence_after_rmw();
    }

    /// The sum of all lines, after a fence behind which everybody who did not see what the caller wrote
    /// before has been counted.
    pub fn sum_after(&self) -> u64 {
        fence(SeqCst);
        self.sum()
    }

    /// The sum of all lines at no particular moment.
    pub fn sum(&self) -> u64 {
        let add = |sum: u64, count| sum.wrapping_add(count);
        // Acquire: sees what those did who gave back, and that each count was taken. Pairs with `put`.
        let gave = self.lines.iter().map(|line| line.gave.load(Acquire)).fold(0, add);
        let took = self.lines.iter().map(|line| line.took.load(Relaxed)).fold(0, add);
        took.wrapping_sub(gave)
    }
}

/// Of something each stripe of threads has one, on cache lines of its own.
#[derive(Debug, Default)]
pub struct Stripes<T>([CachePadded<T>; STRIPES]);

impl<T> Stripes<T> {
    /// That of this thread, and of those that share its stripe.
    #[inline]
    pub fn mine(&self) -> &T {
        &self.0[stripe()]
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
