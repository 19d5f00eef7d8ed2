//! The retry ladder: first holding nothing, then holding, then asking file systems anew.
//!
//! ```text
//!   Rcu ── decided ─────────────────────────────► answer
//!    │ Leave
//!    ├─ try_to_unlazy ── Ref, from there on ────► answer
//!    │ ECHILD
//!    └─ Ref, from the start ── ESTALE ── Reval ─► answer
//! ```
//!
//! Linux: `filename_lookup`, `path_lookupat`.

use super::{
    Lookup, Place, Request, Stop, Walk,
    hold::{Rcu, Ref},
    job::Job,
    observe::{Left, Observer},
    road, tally,
    text::Text,
};
use pathwalk_abi::{Errno, Result};

/// Climbs the ladder until there is an answer.
#[inline]
pub(crate) fn climb<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    observer: O,
    job: &mut J,
) -> Result<J::Out> {
    climb_from(request, observer, job, None)
}

/// Climbs the ladder from a place that was reached already: the walk begins there, at that position in the path.
pub(crate) fn climb_from<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    observer: O,
    job: &mut J,
    begun: Option<Begun>,
) -> Result<J::Out> {
    if request.vfs.security.asks_in_walks() {
        return climb_holding(request, observer, job);
    }
    let mut text = Text::new(request.path);
    let mut walk = match Walk::<Rcu, O>::path_init(request, observer) {
        Ok(walk) => walk,
        Err((errno, _)) => return Err(errno),
    };
    if let Some(begun) = begun {
        (walk.at, walk.root, walk.links) = (begun.at, begun.root, begun.links);
        text.set_pos(begun.pos);
    }
    road::begin();
    match job.run(&mut walk, &mut text) {
        Ok(out) => Ok(out),
        Err(Stop::Errno(errno)) if errno != Errno::ESTALE => Err(errno),
        Err(stop) => climb_on(request, walk, text, stop, job),
    }
}

/// How far an express walk came.
pub(crate) struct Begun {
    pub(super) at: Place,
    pub(super) root: Option<Place>,
    pub(super) pos: usize,
    /// How many symlinks were followed.
    pub(super) links: u32,
}

/// Climbs without the first rung: a security module wants to be asked on the way, and where the walk ends.
#[cold]
#[inline(never)]
fn climb_holding<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    mut observer: O,
    job: &mut J,
) -> Result<J::Out> {
    tally::note(Left::Permission);
    observer.left_rcu(Left::Permission);
    if request.flags.contains(Lookup::CACHED) {
        return Err(Errno::EAGAIN);
    }
    match rung(request, request.flags, Errno::ECHILD, observer, job)? {
        (Err(Errno::ESTALE), observer) => {
            rung(request, request.flags | Lookup::REVAL, Errno::ESTALE, observer, job)?.0
        }
        (answer, _) => answer,
    }
}

/// The other rungs.
#[cold]
#[inline(never)]
fn climb_on<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    mut walk: Walk<'a, Rcu, O>,
    mut text: Text<'a>,
    stop: Stop,
    job: &mut J,
) -> Result<J::Out> {
    let (errno, observer) = match stop {
        Stop::Errno(errno) => (errno, walk.observer),
        Stop::Leave(why) => {
            road::note_left();
            tally::note(why);
            walk.observer.left_rcu(why);
            match walk.try_to_unlazy() {
                Ok(mut walk) => {
                    let answer = decided(job.run(&mut walk, &mut text));
                    let observer = walk.end();
                    match answer {
                        Ok(out) => return Ok(out),
                        Err(errno) => (errno, observer),
                    }
                }
                Err(failed) => failed,
            }
        }
    };
    let (errno, observer) = match errno {
        Errno::ECHILD => rung(request, request.flags, Errno::ECHILD, observer, job)?,
        errno => (Err(errno), observer),
    };
    match errno {
        Err(Errno::ESTALE) => {
            rung(request, request.flags | Lookup::REVAL, Errno::ESTALE, observer, job)?.0
        }
        answer => answer,
    }
}

/// One whole walk that holds.
fn rung<'a, J: Job<'a>, O: Observer>(
    request: &Request<'a>,
    flags: Lookup,
    after: Errno,
    mut observer: O,
    job: &mut J,
) -> Result<(Result<J::Out>, O)> {
    observer.restarted(after);
    let request = Request { flags, ..*request };
    let mut text = Text::new(request.path);
    let mut walk = Walk::<Ref<'a>, O>::path_init(&request, observer).map_err(|(errno, _)| errno)?;
    let answer = decided(job.run(&mut walk, &mut text));
    let observer = walk.end();
    Ok((answer, observer))
}

impl<'a, O: Observer> Walk<'a, Ref<'a>, O> {
    /// Gives back what the walk holds. A panic of what goes then goes on while the caller still has the answer in a variable, and
    /// drops it: what is being returned is dropped by nobody.
    fn end(self) -> O {
        let Self { observer, hold, .. } = self;
        drop(hold);
        observer
    }
}

/// A walk that holds decides everything.
fn decided<T>(answer: Result<T, Stop>) -> Result<T> {
    answer.map_err(|stop| match stop {
        Stop::Errno(errno) => errno,
        Stop::Leave(why) => {
            debug_assert!(false, "a walk that holds cannot leave: {why:?}");
            Errno::ECHILD
        }
    })
}
