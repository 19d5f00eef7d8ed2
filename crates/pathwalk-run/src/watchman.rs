//! Waiting for the next call without asking first whether there is one.
//!
//! To poll and then to receive takes two calls of the kernel for each that is answered here; to receive takes one. But nothing ends
//! that wait beside a call: neither a child that reports nor an order, and before Linux 6.11 not even that nobody is left. So a second
//! thread, the watchman, looks at those, and ends the wait by a signal.
//!
//! ```text
//!   supervisor   Away ──► Receives ── a call came ─────────────────────────────────────► Away
//!                             │                                                           ▲
//!   watchman                  └─ news ─► Woken ── signals, until ──► Seen ── no more ─────┘
//! ```
//!
//! 1. A signal is sent to who receives alone: many other calls would be cut short by it, and one that gives a descriptor as an answer
//!    would be answered wrongly. Who comes back and is `Woken` says so, and waits until no more is sent.
//! 2. A signal may come before the wait has begun. So it is sent again each millisecond.
//! 3. The watchman tells once, and rests. It is set again when all was looked at, and what was ready stays ready until then.
//! 4. Where programs are run there are many news. So who had some, or has just begun, asks first for a while.
//!
//! Manual: seccomp_unotify(2), poll(2).

use crate::{cpu, sys::process};
use parking_lot::{Condvar, Mutex};
use pathwalk::{Errno, Result};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io,
    process::getppid,
    thread::gettid,
};
use std::{os::fd::OwnedFd, sync::Arc, thread, time::Duration};

/// After so long a signal is sent again.
const AGAIN: Duration = Duration::from_millis(1);
/// For so many calls it is asked first, at the beginning and after news.
const AT_FIRST: u32 = 64;
const AFTER_NEWS: u32 = 16;

/// What is waited for beside calls, and which events of it.
pub(crate) type Watched = Vec<(OwnedFd, PollFlags)>;

/// The watchman, as the supervisor knows it.
pub(crate) struct Watchman {
    /// For so many calls it is asked first.
    asks: u32,
    /// It was set, and is not known to have told anything since.
    is_set: bool,
    known: Known,
}

enum Known {
    /// It was not needed yet.
    Not,
    Hired(Arc<Shared>),
    /// There can be none: it is asked first for ever.
    None,
}

struct Shared {
    state: Mutex<State>,
    /// The state is another one.
    changed: Condvar,
}

struct State {
    supervisor: Supervisor,
    /// The watchman is set, and has told nothing since.
    watches: bool,
}

/// What the supervisor does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Supervisor {
    Away,
    Receives,
    Woken,
    Seen,
}

impl Default for Watchman {
    fn default() -> Self {
        Self { asks: AT_FIRST, is_set: false, known: Known::Not }
    }
}

impl Watchman {
    /// Whether it is to be asked first whether there is a call.
    pub(crate) fn is_asked_first(&mut self) -> bool {
        if matches!(self.known, Known::None) {
            return true;
        }
        self.look();
        let asks = self.asks > 0;
        self.asks = self.asks.saturating_sub(1);
        asks
    }

    /// There were news, or may have been.
    pub(crate) fn had_news(&mut self) {
        self.asks = self.asks.max(AFTER_NEWS);
    }

    fn look(&mut self) {
        if let Known::Hired(shared) = &self.known
            && self.is_set
            && !shared.state.lock().watches
        {
            self.is_set = false;
            self.had_news();
        }
    }

    /// Does what waits for a call, always by the same thread; `watched` says what ends the wait, when that is asked the first time.
    ///
    /// # Errors
    ///
    /// - `EINTR`: there may be something else to be looked at.
    /// - Those of what waits.
    pub(crate) fn receive<T>(
        &mut self,
        watched: impl FnOnce() -> Result<Watched>,
        wait: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if matches!(self.known, Known::Not) {
            self.known = watched().and_then(hire).map_or(Known::None, Known::Hired);
        }
        let Known::Hired(shared) = &self.known else { return Err(Errno::EINTR) };
        let begun = shared.begin(!std::mem::replace(&mut self.is_set, true));
        let received = if begun { wait() } else { Err(Errno::EINTR) };
        if begun {
            shared.end();
        }
        self.look();
        if received.is_err() {
            self.had_news();
        }
        received
    }
}

impl Shared {
    /// The supervisor is about to receive, and may set the watchman before; whether there is nothing to be looked at.
    fn begin(&self, sets: bool) -> bool {
        let mut state = self.state.lock();
        if sets {
            state.watches = true;
            self.changed.notify_all();
        }
        if state.watches {
            state.supervisor = Supervisor::Receives;
        }
        state.watches
    }

    /// It is back, and no signal comes any more.
    fn end(&self) {
        let mut state = self.state.lock();
        if state.supervisor == Supervisor::Receives {
            state.supervisor = Supervisor::Away;
            return;
        }
        state.supervisor = Supervisor::Seen;
        self.changed.notify_all();
        while state.supervisor != Supervisor::Away {
            self.changed.wait(&mut state);
        }
        drop(state);
        // One that was sent by now is handled when any call returns.
        let _ = getppid();
    }

    /// What the watchman does.
    fn watch(&self, watched: &Watched, tid: u32) {
        let mut state = self.state.lock();
        loop {
            while !state.watches {
                self.changed.wait(&mut state);
            }
            drop(state);
            let mut fds: Vec<_> =
                watched.iter().map(|(fd, events)| PollFd::new(fd, *events)).collect();
            // With another error the supervisor sees it too.
            while poll(&mut fds, None) == Err(io::Errno::INTR) {}
            state = self.state.lock();
            state.watches = false;
            if state.supervisor != Supervisor::Receives {
                continue;
            }
            state.supervisor = Supervisor::Woken;
            while state.supervisor == Supervisor::Woken {
                process::interrupt(tid);
                self.changed.wait_for(&mut state, AGAIN);
            }
            state.supervisor = Supervisor::Away;
            self.changed.notify_all();
        }
    }
}

/// # Errors
///
/// - `EAGAIN`: there can be no further thread.
fn hire(watched: Watched) -> Result<Arc<Shared>> {
    process::be_interruptible();
    let state = State { supervisor: Supervisor::Away, watches: false };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    let (its, tid) = (Arc::clone(&shared), gettid().as_raw_nonzero().get().cast_unsigned());
    let watches = move || its.watch(&watched, tid);
    cpu::is_to_make_a_thread();
    thread::Builder::new().spawn(watches).map_err(|_| Errno::EAGAIN)?;
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::answer;
    use rustix::pipe::pipe;

    /// Each of two pipes is written to again and again, at any moment: that of the news and that of the calls.
    #[test]
    fn who_waits_for_calls_hears_all_news_and_loses_no_call() {
        const EACH: usize = 3000;
        let (news, to_news) = pipe().expect("it can be made");
        let (calls, to_calls) = pipe().expect("it can be made");
        let own = news.try_clone().expect("it is open");
        let write = |to: OwnedFd, pause: u64| {
            thread::spawn(move || {
                for turn in 0..EACH {
                    assert_eq!(io::write(&to, &[1]), Ok(1));
                    if turn % 64 == 0 {
                        thread::sleep(Duration::from_micros(pause));
                    }
                }
                // Its end is the reader's.
                to
            })
        };
        let writers = [write(to_news, 70), write(to_calls, 50)];
        let mut watchman = Watchman::default();
        let (mut heard, mut received) = (0, 0);
        while heard < EACH || received < EACH {
            let watched = || Ok(vec![(own.try_clone().expect("it is open"), PollFlags::IN)]);
            let mut byte = [0; 1];
            match watchman.receive(watched, || answer(io::read(&calls, &mut byte))) {
                Ok(read) => received += read,
                Err(errno) => {
                    assert_eq!(errno, Errno::EINTR);
                    let mut bytes = [0; 64];
                    // There need be none: who looked last may have read what this was about.
                    let mut fds = [PollFd::new(&news, PollFlags::IN)];
                    let none = rustix::event::Timespec::default();
                    if poll(&mut fds, Some(&none)) == Ok(1) {
                        heard += io::read(&news, &mut bytes).expect("there is something");
                    }
                }
            }
        }
        assert_eq!((heard, received), (EACH, EACH));
        drop(writers.map(|writer| writer.join().expect("it writes")));
    }

    #[test]
    fn who_had_news_asks_first_for_a_while() {
        let mut watchman = Watchman::default();
        assert!((0..AT_FIRST).all(|_| watchman.is_asked_first()));
        assert!(!watchman.is_asked_first());
        watchman.had_news();
        assert!((0..AFTER_NEWS).all(|_| watchman.is_asked_first()));
        assert!(!watchman.is_asked_first());
        let none = || Err::<Watched, _>(Errno::EMFILE);
        assert_eq!(watchman.receive(none, || Ok(())), Err(Errno::EINTR));
        assert!(watchman.is_asked_first() && watchman.is_asked_first());
    }
}
