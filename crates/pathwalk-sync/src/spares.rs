//! Spare counts: counts of slots that threads keep, instead of giving them back, for who asks for the same slot next.
//!
//! Two threads that take and give back counts of one slot meet at its [`Lockref`](crate::Lockref), though neither has
//! anything to tell the other. Here each keeps the count on a line of its own, as long as there are no more threads than lines:
//!
//! ```text
//!   line 0   line 1        a line has sixteen places, each for every 16th slot
//!   [ 7 ]    [ 7 ]         both keep a count of slot 7, which counts two
//! ```
//!
//! A spare count holds its slot as any other does. So whoever wants a slot to end makes that known first, and then calls its
//! spare counts in; and who keeps one looks behind that whether it may still be kept.
//!
//! Invariant: of [`Spares::keep`] and [`Spares::call_in`] at least one sees the other. So after the call that came behind a
//! slot's end was made known, no spare count of it stays: who kept one meanwhile takes it back himself.

use crate::{
    shim::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
        fence,
    },
    striped::{STRIPES, fence_after_rmw, stripe},
};

/// Places in a line: as many as a cache line has.
const PLACES: usize = 16;

/// Counts that threads keep, of slots of one arena.
#[derive(Debug, Default)]
pub struct Spares {
    lines: [Line; STRIPES],
}

/// The ids of slots; 0 where a place is empty.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU32; PLACES]);

impl Spares {
    /// Takes the count of `id` that this thread keeps, if it does.
    #[inline]
    #[must_use = "a count that was taken is given back"]
    pub fn take(&self, id: u32) -> bool {
        let place = self.place(id);
        // Acquire: sees what was done before the count was kept. Pairs with the Release in `keep`.
        id != 0
            && place.load(Relaxed) == id
            && place.compare_exchange(id, 0, Acquire, Relaxed).is_ok()
    }

    /// Keeps the caller's count of `id`, if `may_stay` says behind that that it may. Counts that are not kept are the caller's
    /// to give back: `give_back` gets the id of each.
    ///
    /// Pairs with [`Spares::call_in`]: either `may_stay` sees what the other side did before it called, or the other side
    /// finds the count.
    #[inline]
    pub fn keep(&self, id: u32, may_stay: impl FnOnce() -> bool, mut give_back: impl FnMut(u32)) {
        debug_assert_ne!(id, 0, "that is no slot");
        let place = self.place(id);
        if place.load(Relaxed) == id {
            return give_back(id);
        }
        // Release: what the holder did is seen by whoever has the count next. Pairs with the Acquire of each who gets one, which
        // this is, too, for the count that goes.
        let before = place.swap(id, AcqRel);
        // SeqCst fence, the store-load half of Dekker: the count is there before `may_stay` looks. Pairs with those in `call_in`
        // and `call_in_all`.
        fence_after_rmw();
        // Who comes second finds it gone: somebody called it in, or took it.
        let taken_back = !may_stay() && place.compare_exchange(id, 0, Acquire, Relaxed).is_ok();
        if taken_back {
            give_back(id);
        }
        if before != 0 {
            give_back(before);
        }
    }

    /// Hands all counts of `id` that threads keep to `give_back`; the caller has made known that none may be kept any more.
    #[cold]
    pub fn call_in(&self, id: u32, mut give_back: impl FnMut(u32)) {
        // SeqCst fence: pairs with the one in `keep`.
        fence(SeqCst);
        debug_assert_ne!(id, 0, "that is no slot");
        for line in &self.lines {
            let place = &line.0[id as usize % PLACES];
            if place.load(Relaxed) == id && place.compare_exchange(id, 0, Acquire, Relaxed).is_ok()
            {
                give_back(id);
            }
        }
    }

    /// Hands all counts that threads keep to `give_back`; others may be kept meanwhile, unless the caller has made known that none
    /// may.
    #[cold]
    pub fn call_in_all(&self, mut give_back: impl FnMut(u32)) {
        // SeqCst fence: as in `call_in`.
        fence(SeqCst);
        for place in self.lines.iter().flat_map(|line| &line.0) {
            if place.load(Relaxed) != 0 {
                // Acquire: as in `take`.
                let id = place.swap(0, Acquire);
                if id != 0 {
                    give_back(id);
                }
            }
        }
    }

    fn place(&self, id: u32) -> &AtomicU32 {
        &self.lines[stripe()].0[id as usize % PLACES]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_kept_once_and_taken_once() {
        let spares = Spares::default();
        let mut back = Vec::new();
        assert!(!spares.take(7) && !spares.take(0), "nobody keeps anything");
        spares.keep(7, || true, |id| back.push(id));
        spares.keep(7, || true, |id| back.push(id));
        assert_eq!(back, [7], "the second is not needed");
        assert!(!spares.take(7 + PLACES as u32), "another has the place");
        assert!(spares.take(7) && !spares.take(7));
        spares.keep(7, || false, |id| back.push(id));
        assert_eq!(back, [7, 7], "it may not stay");
        assert!(!spares.take(7));
    }

    #[test]
    fn a_place_goes_to_who_comes_last_and_all_can_be_called_in() {
        let spares = Spares::default();
        let other = 7 + PLACES as u32;
        let mut back = Vec::new();
        spares.keep(7, || true, |id| back.push(id));
        spares.keep(other, || true, |id| back.push(id));
        spares.keep(8, || true, |id| back.push(id));
        assert_eq!(back, [7]);
        spares.call_in(7, |id| back.push(id));
        spares.call_in(other, |id| back.push(id));
        assert_eq!(back, [7, other]);
        spares.call_in_all(|id| back.push(id));
        spares.call_in_all(|id| back.push(id));
        assert_eq!(back, [7, other, 8]);
    }
}
