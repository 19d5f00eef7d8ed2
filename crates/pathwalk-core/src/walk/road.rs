//! For tests: which road a lookup takes, by force, and how often one was left or walked only to be remembered. Release builds have nothing of it.
//!
//! A lookup has many roads to one answer: remembered, express, in runs, step by step, holding from some place on, holding
//! from the start. What is cached and who runs beside it decides which one; so tests say it. A road is the thread's own.
//!
//! ```text
//!   Road { at: 3, how: Unlazy }    step by step; what cannot be decided is met at the fourth point: it holds from there on
//!   Road { at: 0, how: Echild }    at the first point, where the place has changed too: it holds from the start
//!   Road { at: NEVER, .. }         step by step, holding nothing
//! ```
//!
//! Points are wherever a walk that holds nothing may stop undecided, and others between the loads of a plain step, of which there are
//! none where a road is forced. A test may also have something happen at a point, as if another thread had done it just then: whatever the
//! walk read before is old, and it must notice.

use super::{Lookup, Stop};

#[cfg(debug_assertions)]
pub use forced::{
    How, NEVER, Road, before_it_is_kept, interrupt, interrupt_run, left, made, take, told,
};
#[cfg(debug_assertions)]
pub use pathwalk_sync::seq::end_era;

/// The flags of a lookup, with the one that says that its road is forced.
#[inline(always)]
pub(crate) fn flags(flags: Lookup) -> Lookup {
    #[cfg(debug_assertions)]
    if forced::is() && !flags.contains(Lookup::CACHED) {
        return flags | Lookup::FORCED;
    }
    flags
}

/// A point of a walk that holds nothing.
///
/// # Errors
///
/// [`Stop::Leave`] if it is the one.
#[inline(always)]
pub(crate) fn point(flags: Lookup) -> Result<(), Stop> {
    #[cfg(debug_assertions)]
    if flags.contains(Lookup::FORCED) {
        return forced::point();
    }
    let _ = flags;
    Ok(())
}

/// A point of plain steps.
#[inline(always)]
pub(crate) fn point_of_run() {
    #[cfg(debug_assertions)]
    forced::point_of_run();
}

/// Whether the walk makes no runs.
#[inline(always)]
pub(crate) fn is_forced(flags: Lookup) -> bool {
    cfg!(debug_assertions) && flags.contains(Lookup::FORCED)
}

/// Whether the place is to have changed where a walk wants to hold it.
#[inline(always)]
pub(crate) fn has_changed(flags: Lookup) -> bool {
    #[cfg(debug_assertions)]
    if flags.contains(Lookup::FORCED) {
        return forced::has_changed();
    }
    let _ = flags;
    false
}

/// A walk that holds nothing begins.
#[inline(always)]
pub(crate) fn begin() {
    #[cfg(debug_assertions)]
    forced::begin();
}

/// A walk that held nothing stopped undecided.
#[inline(always)]
pub(crate) fn note_left() {
    #[cfg(debug_assertions)]
    forced::note_left();
}

/// A path is walked only to be remembered.
#[inline(always)]
pub(crate) fn note_made() {
    #[cfg(debug_assertions)]
    forced::note_made();
}

/// The one path of a place was read, to be kept in a memo.
#[inline(always)]
pub(crate) fn path_is_read() {
    #[cfg(debug_assertions)]
    forced::path_is_read();
}

/// A memo had the one path of a place.
#[inline(always)]
pub(crate) fn note_told() {
    #[cfg(debug_assertions)]
    forced::note_told();
}

#[cfg(debug_assertions)]
mod forced {
    use super::Stop;
    use crate::observe::Left;
    use std::cell::{Cell, RefCell};

    /// A point that no walk has.
    pub const NEVER: u32 = u32::MAX;

    /// What happens at the point.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum How {
        /// The walk holds its place and goes on.
        Unlazy,
        /// The place has changed: the walk begins anew, holding.
        Echild,
    }

    /// A road.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Road {
        /// The point at which the walk cannot decide; 0 is the first.
        pub at: u32,
        /// What happens there.
        pub how: How,
    }

    thread_local! {
        static ROAD: Cell<Option<Road>> = const { Cell::new(None) };
        static POINTS: Cell<u32> = const { Cell::new(0) };
        static LEFT: Cell<u64> = const { Cell::new(0) };
        static MADE: Cell<u64> = const { Cell::new(0) };
        static TOLD: Cell<u64> = const { Cell::new(0) };
        static BEFORE_KEPT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
        static INTERRUPTION: RefCell<Option<Interruption>> = const { RefCell::new(None) };
        static OF_RUN: RefCell<Option<Interruption>> = const { RefCell::new(None) };
    }

    /// At which point, or how many points from here, and what happens there.
    type Interruption = (u32, Box<dyn FnOnce()>);

    /// Has the lookups of this thread take a road from now on; none lets them choose.
    pub fn take(road: Option<Road>) {
        ROAD.set(road);
    }

    /// Has `f` happen at a point of the next lookup of this thread that comes so far; answers what `look` does then, and
    /// whether it happened.
    pub fn interrupt<R>(
        at: u32,
        f: impl FnOnce() + 'static,
        look: impl FnOnce() -> R,
    ) -> (R, bool) {
        INTERRUPTION.set(Some((at, Box::new(f))));
        take(Some(Road { at: NEVER, how: How::Unlazy }));
        let answer = look();
        take(None);
        (answer, INTERRUPTION.take().is_none())
    }

    /// As [`interrupt`], at a point of a run: the lookup chooses its road.
    pub fn interrupt_run<R>(
        at: u32,
        f: impl FnOnce() + 'static,
        look: impl FnOnce() -> R,
    ) -> (R, bool) {
        OF_RUN.set(Some((at, Box::new(f))));
        let answer = look();
        (answer, OF_RUN.take().is_none())
    }

    pub(super) fn point_of_run() {
        // A thread that ends may still walk.
        match OF_RUN.try_with(RefCell::take).unwrap_or_default() {
            Some((0, happens)) => happens(),
            Some((left, happens)) => OF_RUN.set(Some((left - 1, happens))),
            None => {}
        }
    }

    /// Has `f` happen when this thread has read the one path of a place next, before it believes that.
    ///
    /// What `f` does it does in another thread: this one is in the middle of what it remembers.
    pub fn before_it_is_kept(f: impl FnOnce() + 'static) {
        BEFORE_KEPT.set(Some(Box::new(f)));
    }

    pub(super) fn path_is_read() {
        if let Some(happens) = BEFORE_KEPT.take() {
            happens();
        }
    }

    /// How often walks of this thread that held nothing stopped undecided.
    pub fn left() -> u64 {
        LEFT.get()
    }

    /// How often this thread walked a path only to remember it.
    pub fn made() -> u64 {
        MADE.get()
    }

    /// How often a memo of this thread told the one path of a place.
    pub fn told() -> u64 {
        TOLD.get()
    }

    pub(super) fn is() -> bool {
        ROAD.get().is_some()
    }

    pub(super) fn begin() {
        POINTS.set(0);
    }

    pub(super) fn point() -> Result<(), Stop> {
        let point = POINTS.get();
        POINTS.set(point + 1);
        let due = INTERRUPTION.with_borrow(|it| it.as_ref().is_some_and(|(at, _)| *at == point));
        if due && let Some((_, happens)) = INTERRUPTION.take() {
            // What happens is no lookup of this road.
            let road = ROAD.take();
            happens();
            ROAD.set(road);
            POINTS.set(point + 1);
        }
        match ROAD.get() {
            Some(road) if road.at == point => Err(Stop::Leave(Left::Changed)),
            _ => Ok(()),
        }
    }

    pub(super) fn has_changed() -> bool {
        ROAD.get().is_some_and(|road| road.how == How::Echild)
    }

    pub(super) fn note_left() {
        LEFT.set(LEFT.get() + 1);
    }

    pub(super) fn note_made() {
        MADE.set(MADE.get() + 1);
    }

    pub(super) fn note_told() {
        TOLD.set(TOLD.get() + 1);
    }
}
