//! Waiting for a writer that is about to be done: spinning, then giving the processor away, then sleeping.
//!
//! Sections between two increments are a few instructions long, but nobody keeps the system from taking a writer off its
//! processor in the middle of one. Whoever only spins then burns a time slice; with a real-time priority above that of the
//! writer it would spin for ever, for such a thread yields to nobody below it. So the wait ends in a sleep.
//!
//! Linux: writers of a `seqcount_t` are not preempted.

use crate::shim::{spin_loop, yield_now};

/// How often a waiter looks again before it gives its processor away: about the length of the longest section.
const SPINS: u32 = 64;
/// How often it gives its processor away before it sleeps.
const YIELDS: u32 = 16;

/// A wait; each turn is at least as long as the one before.
#[derive(Debug, Default)]
pub struct Spin(u32);

impl Spin {
    /// Waits for one turn.
    #[cold]
    #[inline(never)]
    pub fn turn(&mut self) {
        self.0 = self.0.saturating_add(1);
        if cfg!(not(loom)) && self.0 <= SPINS {
            spin_loop();
        } else if cfg!(loom) || self.0 <= SPINS + YIELDS {
            yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_sleeps() {
        let mut spin = Spin::default();
        (0..SPINS + YIELDS).for_each(|_| spin.turn());
        let before = std::time::Instant::now();
        (0..10).for_each(|_| spin.turn());
        assert!(before.elapsed() >= std::time::Duration::from_micros(500));
    }
}
