//! A program stays until its interpreter has loaded what it needs: for as many calls from there as it made when it was run before.
//!
//! Who makes fewer, as he finds less to load, is let go by another call, or after a moment. He may have made somebody meanwhile.

use super::{MOMENT, Stayed};
use crate::{cpu::Kept, engine::Engine, inside::Inside, sys::seccomp::Notification};
use std::{ops::Range, time::Instant};

/// A program that begins.
pub(super) struct Startup {
    /// Who runs it, and by which path.
    process: u32,
    path: Vec<u8>,
    since: Instant,
    /// The code in which it begins; empty where it does not run yet.
    interpreter: Range<u64>,
    /// The calls from there until now, and when it was run before.
    calls: u32,
    before: u32,
    /// It stays, if it can be kept.
    stays: bool,
    program: Option<Kept>,
    supervisor: Option<Kept>,
    /// The number of the process that was made last before it ran.
    after: u32,
}

impl Startup {
    pub(super) fn stays(&self) -> bool {
        self.stays
    }

    pub(super) fn is_of(&self, tid: u32) -> bool {
        self.process == tid && self.stays()
    }

    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() >= MOMENT
    }

    /// It does not stay any more; on which CPU it stayed, and since when.
    fn goes(&mut self) -> Option<Stayed> {
        self.stays = false;
        self.supervisor = None;
        let program = self.program.take()?;
        Some(Stayed { cpus: program.cpus(), after: self.after })
    }

    /// Whether a call is made by the interpreter, and soon.
    fn is_its(&self, call: &Notification) -> bool {
        call.tid == self.process && self.interpreter.contains(&call.behind) && !self.is_over()
    }
}

impl Engine {
    /// A thread is about to run what was run by this path before, and is kept, or not.
    pub(super) fn is_to_begin(&mut self, tid: u32, path: &[u8], kept: bool) {
        let before = self.run_before.calls(path);
        let stays = kept && before > 0;
        self.stays.startup = Some(Startup {
            process: tid,
            path: path.to_vec(),
            since: Instant::now(),
            interpreter: 0..0,
            calls: 0,
            before,
            stays,
            program: None,
            supervisor: if stays { Kept::supervisor() } else { None },
            after: u32::MAX,
        });
    }

    /// A process runs what it is to run, begins in this code, and stays if it is kept.
    pub(crate) fn has_begun(&mut self, process: u32, code: Range<u64>, kept: Option<Kept>) {
        if let Some(startup) = &mut self.stays.startup
            && startup.process == process
            && let Some(after) = self.inside.as_ref().and_then(Inside::last)
        {
            startup.stays &= kept.is_some();
            (startup.interpreter, startup.program, startup.after) = (code, kept, after);
        }
    }

    pub(super) fn hears_who_begins(&mut self, call: &Notification) {
        let Some(startup) = &mut self.stays.startup else { return };
        if !startup.is_its(call) {
            self.nobody_begins();
            self.stays.startup = None;
            return;
        }
        startup.calls += 1;
        self.run_before.made(&startup.path, startup.calls);
        if startup.calls < startup.before {
            return;
        }
        // Who waits for an answer is not about to make anybody.
        if let Some(program) = startup.goes()
            && !self.inside.as_mut().is_some_and(|inside| inside.was_last(call.tid))
        {
            self.lets_go_of_made(program);
        }
    }

    /// Who begins does not stay any more.
    pub(super) fn nobody_begins(&mut self) {
        if let Some(program) = self.stays.startup.as_mut().and_then(Startup::goes) {
            self.lets_go_of_made(program);
        }
    }
}
