//! Who stays on the supervisor's CPU for a moment: what happens one after the other happens on one CPU.
//!
//! ```text
//!   exec ──► startup: a program, until its interpreter has loaded what it needs; and the supervisor
//!   exec, end, exec, end, … ──► maker: who runs these, and waits for each
//! ```
//!
//! What stops or ends, goes on or gets a descriptor wakes somebody where nobody runs, if there is such a CPU. That one has to be got out of its
//! sleep, has nothing in its caches of what is needed there, and the next call comes from there. Between the calls of a program that begins
//! little happens, so that this is most of the time.
//!
//! Rules:
//!
//! 1. Only while nobody else calls: where several run, each CPU has something to do.
//! 2. They see nothing of it: before somebody is told about the CPUs of anybody, or opens a file of `/proc`, nobody stays any more, and those
//!    are let go who were made meanwhile. From when somebody says where anybody may run, or by which policy, or tries to, nobody stays again.
//! 3. Nobody stays for longer than two moments after the last program was run.
//! 4. Who is made meanwhile by who stays has its one CPU of it: mostly nobody, as what runs of a program is its interpreter's code, unless it
//!    makes fewer calls than before. Who was made meanwhile is let go soon after (`made`).

mod made;
mod maker;
mod startup;

use crate::{
    cpu::{self, Cpus, Kept},
    engine::Engine,
    inside::Inside,
    sys::{answer, process, seccomp::Notification},
};
use made::Made;
use maker::Maker;
use pathwalk::Result;
use rustix::{
    io,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use startup::Startup;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// A moment. To run `/bin/true` takes half of it.
const MOMENT: Duration = Duration::from_millis(2);

/// So many are kept in mind who may have made somebody.
const MOST_MADE: usize = 256;

/// Who stays.
#[derive(Default)]
pub(crate) struct Stays {
    startup: Option<Startup>,
    maker: Maker,
    /// Who was made meanwhile is let go as soon as it can be looked.
    made: Vec<Made>,
    alarm: Option<Alarm>,
}

/// On which CPU somebody stayed.
struct Stayed {
    cpus: Cpus,
    /// The number of the process that was made last before.
    after: u32,
}

impl Stays {
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left. Nobody stays then.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { alarm: Some(Alarm::new()?), ..Self::default() })
    }

    /// Whether somebody stays, or may have made somebody who does.
    pub(crate) fn some(&self) -> bool {
        self.now() || !self.made.is_empty()
    }

    /// Whether somebody stays.
    fn now(&self) -> bool {
        self.maker.stays() || self.startup.as_ref().is_some_and(Startup::stays)
    }

    /// Whether this thread does, as a program that begins.
    pub(crate) fn begins(&self, tid: u32) -> bool {
        self.startup.as_ref().is_some_and(|startup| startup.is_of(tid))
    }

    /// What is ready when a moment is over, if somebody stays.
    pub(crate) fn alarm(&mut self) -> Option<BorrowedFd<'_>> {
        let stays = self.now().then(|| Instant::now() + MOMENT);
        let next = self.made.iter().map(Made::next).chain(stays).min()?;
        let alarm = self.alarm.as_mut()?;
        alarm.set(next);
        Some(alarm.fd.as_fd())
    }
}

impl Engine {
    /// Keeps a thread here that is about to run what was run by this path before; and who else is to stay.
    pub(crate) fn stays_to_run(&mut self, tid: u32, path: &[u8]) -> Option<Kept> {
        self.nobody_begins();
        // A real-time one would not let the supervisor run, which is to let it go.
        if self.stays.alarm.is_none() || self.inside.is_none() || !process::shares_its_time(tid) {
            return Kept::here(tid);
        }
        let kept = self.stays_with_maker(tid);
        self.is_to_begin(tid, path, kept.is_some());
        kept
    }

    /// A call came.
    pub(crate) fn hears_who_stays(&mut self, call: &Notification) {
        self.hears_who_begins(call);
        self.hears_maker(call);
    }

    /// A moment is over.
    pub(crate) fn moment_is_over(&mut self) {
        let Stays { startup, maker, alarm, .. } = &mut self.stays;
        alarm.iter_mut().for_each(Alarm::rang);
        let startup = startup.as_ref().is_some_and(Startup::is_over);
        let maker = maker.is_over();
        if startup {
            self.nobody_begins();
        }
        if maker {
            self.no_maker_stays();
        }
        if !self.stays.made.is_empty() {
            let last = self.made_last();
            made::look(&mut self.stays.made, last);
        }
    }

    /// Who stays does no more, and those are let go who were made meanwhile and are there now.
    pub(crate) fn nobody_stays(&mut self) {
        self.nobody_begins();
        self.no_maker_stays();
        self.patches.nobody_is_kept();
        if self.stays.made.is_empty() {
            return;
        }
        // Where it cannot be looked it is looked later.
        if let Some(last) = self.made_last() {
            let _ = made::let_go(&self.stays.made, last);
        }
    }

    /// The same before somebody says where anybody may run, or how: nobody is kept from here on, nor let go.
    pub(crate) fn nobody_stays_again(&mut self) {
        self.nobody_stays();
        self.stays.made.clear();
        cpu::is_said();
    }

    /// Who was made since then may have that one CPU.
    fn lets_go_of_made(&mut self, by: Stayed) {
        let made = &mut self.stays.made;
        if made.len() >= MOST_MADE {
            // Where it was looked already there is the least left to be found.
            let most = (0..made.len()).max_by_key(|&at| (made[at].looks, made.len() - at));
            most.map(|at| made.remove(at));
        }
        made.push(Made::new(by));
    }

    /// The number of the process or thread that was made last.
    fn made_last(&self) -> Option<u32> {
        self.inside.as_ref().and_then(Inside::made_last)
    }
}

/// A timer, which is set once for many waits: to set one takes as long as a call, and longer where a machine is virtual.
struct Alarm {
    fd: OwnedFd,
    /// When it rings.
    at: Option<Instant>,
}

impl Alarm {
    fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = answer(timerfd_create(TimerfdClockId::Monotonic, flags))?;
        Ok(Self { fd, at: None })
    }

    /// It rings by then, or before.
    fn set(&mut self, by: Instant) {
        if self.at.is_some_and(|at| at <= by) {
            return;
        }
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let wait = by.saturating_duration_since(Instant::now());
        // Nothing would be none.
        let (secs, nanos) = (wait.as_secs() as i64, wait.subsec_nanos().max(1));
        let wait = Timespec { tv_sec: secs, tv_nsec: nanos.into() };
        let time = Itimerspec { it_interval: once, it_value: wait };
        let set = timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &time);
        self.at = set.is_ok().then_some(by);
    }

    fn rang(&mut self) {
        let _ = io::read(&self.fd, &mut [0; 8]);
        self.at = None;
    }
}
