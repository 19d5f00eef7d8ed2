//! Who runs short programs one after the other, and waits for each, stays where they run.
//!
//! ```text
//!   sh ── vfork ──► exec …, ends ── sh ── vfork ──► exec …, ends ── sh
//! ```
//!
//! When a program is run the one before must have ended, soon after it was run, and be of the same process, which has one thread, no other
//! child, and waits: who is made by vfork(2) has its memory. The program has one CPU of it, and stays for as long as one that begins.

use super::{MOMENT, startup::threads_of};
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
    stays: Option<Stays>,
}

struct Stays {
    maker: Kept,
    _supervisor: Option<Kept>,
    /// The number of the process that was made last before.
    after: u64,
}

impl Maker {
    pub(super) fn stays(&self) -> bool {
        self.stays.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.last.is_none_or(|(_, since)| since.elapsed() >= MOMENT)
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
        let is_soon = !self.stays.maker.is_over();
        let before = self.stays.maker.last.replace((tid, Instant::now()));
        let was_last = before.filter(|(program, _)| is_soon && !process::is_first(*program));
        let maker = self.stays.maker.maker.filter(|&maker| maker != tid && waits_for(maker, tid));
        let (Some(_), Some(maker)) = (was_last, maker) else {
            self.no_maker_stays();
            self.stays.maker.maker = was_last.and_then(|_| maker_of(tid));
            return Kept::here(tid);
        };
        if let Some(stays) = &self.stays.maker.stays
            && stays.maker.is_here()
        {
            return stays.maker.made(tid);
        }
        self.no_maker_stays();
        let has_no_other = || kin::children(maker, maker).is_ok_and(|all| all == [tid]);
        self.stays.maker.stays = self.made_last().filter(|_| has_no_other()).and_then(|after| {
            Some(Stays { maker: Kept::here(maker)?, _supervisor: Kept::supervisor(), after })
        });
        Kept::here(tid)
    }

    pub(super) fn hears_maker(&mut self, call: &Notification) {
        let maker = &self.stays.maker;
        if maker.stays() && !maker.is_known(call.tid) {
            self.no_maker_stays();
        }
    }

    /// Nobody stays any more who runs programs.
    pub(super) fn no_maker_stays(&mut self) {
        let Maker { last, maker, stays } = &mut self.stays.maker;
        let (Some(stays), Some(maker)) = (stays.take(), *maker) else { return };
        let Stays { maker: kept, after, .. } = stays;
        let begins = last.map(|(program, _)| program);
        let cpus = kept.ends();
        // Those whom it made are somebody else's where it has ended.
        let made = match kin::children(maker, maker) {
            Ok(made) if process::is_first(maker) => made,
            _ => kin::descendants().unwrap_or_default(),
        };
        let is_new = |tid: &u32| u64::from(*tid) > after && Some(*tid) != begins;
        let below = |tid| kin::below(tid).unwrap_or_default().into_iter().chain([tid]);
        let made = made.into_iter().filter(is_new).flat_map(below).flat_map(threads_of);
        let threads = threads_of(maker).into_iter().filter(|&tid| tid != maker);
        made.chain(threads).for_each(|tid| {
            cpus.let_go(tid);
        });
    }

    /// The number of the process or thread that was made last.
    fn made_last(&self) -> Option<u64> {
        self.inside.as_ref()?.made_last()
    }
}

/// The process that runs a program and waits for that, if it has one thread.
fn maker_of(tid: u32) -> Option<u32> {
    let maker = kin::facts(tid).ok()??.parent;
    (waits_for(maker, tid) && threads_of(maker) == [maker]).then_some(maker)
}
