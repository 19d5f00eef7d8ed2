//! Who runs short programs one after the other, and waits for each, stays where they run.
//!
//! ```text
//!   sh ── vfork ──► exec …, ends ── sh ── vfork ──► exec …, ends ── sh
//! ```
//!
//! When a program is run the one before must have ended, soon after it was run, and be of the same process, which has one thread, no other
//! child, and waits: who is made by vfork(2) has its memory, and it sleeps until that one has another. The program has one CPU of it, and
//! stays for as long as one that begins.

use super::{MOMENT, Stayed};
use crate::{
    cpu::Kept,
    engine::Engine,
    kin,
    sys::{
        process::{self, Shares},
        seccomp::Notification,
    },
};
use std::time::Instant;

/// Who runs programs.
#[derive(Default)]
pub(super) struct Maker {
    /// The program that was run last, and when.
    last: Option<(u32, Instant)>,
    /// Who ran it, if it was run soon after another one.
    maker: Option<u32>,
    stays: Option<Staying>,
}

struct Staying {
    maker: Kept,
    _supervisor: Option<Kept>,
    /// The number of the process that was made last before.
    after: u32,
}

impl Maker {
    pub(super) fn stays(&self) -> bool {
        self.stays.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.last.is_none_or(|(_, since)| since.elapsed() >= MOMENT)
    }

    /// Whether the program that was run last has ended, and soon.
    fn has_ended(&self) -> bool {
        self.last.is_some_and(|(program, _)| !self.is_over() && !process::is_first(program))
    }

    /// Whether a thread is about to run a program, for which its maker waits.
    fn is_next(&self, tid: u32) -> bool {
        self.maker.is_some_and(|maker| maker != tid && waits_for(maker, tid))
    }

    /// Whether a call is made by who stays, by the program that was run last, or by who is about to run the next.
    fn is_known(&self, tid: u32) -> bool {
        let is_last = self.last.is_some_and(|(program, _)| program == tid);
        is_last || self.maker.is_some_and(|maker| maker == tid || waits_for(maker, tid))
    }
}

/// Whether one process waits for another one to run a program, or is the same.
fn waits_for(maker: u32, tid: u32) -> bool {
    process::shares_memory(maker, tid) == Shares::Yes
}

impl Engine {
    /// Keeps a thread here that is about to run a program, and who made it, if that one runs one after the other.
    pub(super) fn stays_with_maker(&mut self, tid: u32) -> Option<Kept> {
        let made = self.made_by_who_stays(tid);
        if made.is_none() {
            self.no_maker_stays();
            self.may_stay(tid);
        }
        self.stays.maker.last = Some((tid, Instant::now()));
        made.or_else(|| Kept::here(tid))
    }

    /// The thread, as it is kept since it was made by who stays.
    fn made_by_who_stays(&self, tid: u32) -> Option<Kept> {
        let maker = &self.stays.maker;
        let stays = maker.stays.as_ref().filter(|stays| stays.maker.is_here())?;
        (maker.is_next(tid) && maker.has_ended()).then(|| stays.maker.made(tid)).flatten()
    }

    /// Who made a thread stays, if he ran another program before that, and a shorter one.
    fn may_stay(&mut self, tid: u32) {
        let maker = &mut self.stays.maker;
        if !maker.has_ended() {
            maker.maker = None;
            return;
        }
        let Some(made_it) = maker.maker.filter(|_| maker.is_next(tid)) else {
            maker.maker = maker_of(tid);
            return;
        };
        let has_no_other = || {
            kin::children(made_it, made_it).is_ok_and(|all| all == [tid])
                && has_one_thread(made_it)
                && kin::is_suspended(made_it)
                && process::shares_its_time(made_it)
        };
        let after = if has_no_other() { self.made_last() } else { None };
        self.stays.maker.stays = after.and_then(|after| {
            Some(Staying { maker: Kept::here(made_it)?, _supervisor: Kept::supervisor(), after })
        });
    }

    pub(super) fn hears_maker(&mut self, call: &Notification) {
        let maker = &self.stays.maker;
        if maker.stays() && !maker.is_known(call.tid) {
            self.no_maker_stays();
        }
    }

    /// Nobody stays any more who runs programs.
    pub(super) fn no_maker_stays(&mut self) {
        let Some(staying) = self.stays.maker.stays.take() else { return };
        let stayed = Stayed { cpus: staying.maker.cpus(), after: staying.after };
        drop(staying);
        self.lets_go_of_made(stayed);
    }
}

/// The process that runs a program and waits for that, if it has one thread.
fn maker_of(tid: u32) -> Option<u32> {
    let maker = kin::facts(tid).ok()??.parent;
    (waits_for(maker, tid) && has_one_thread(maker)).then_some(maker)
}

fn has_one_thread(process: u32) -> bool {
    kin::threads_of(process).is_ok_and(|all| all == [process])
}
