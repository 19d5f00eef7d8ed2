//! A call that a thread makes for the supervisor, behind one of its own, and sees nothing of.
//!
//! ```text
//!   it stops behind its call ──► registers of another one ──► into it ──► out of it ──► as they were, and it goes on
//! ```
//!
//! Nobody waits for it here: how long it takes is the program's to say, which may change the instruction under the thread. What it
//! calls then is something else, and its process is killed. Meanwhile all its signals are blocked.

use crate::{
    engine::Engine,
    sys::{
        process,
        ptrace::{self, Report},
    },
};
use libc::user_regs_struct;
use pathwalk::Result;
use rustc_hash::FxHashMap;

/// A call: its number, and its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) nr: i64,
    pub(crate) args: [u64; 3],
}

/// How far a thread is.
#[derive(Clone, Copy)]
enum Stage {
    /// It is about to stop behind its own call.
    Stops,
    /// Its own call was exec, which is about to return: the instruction that it makes the call by, and the signals that it goes on with.
    Execs(u64, u64),
    /// It is about to make the call.
    Before(Own),
    /// The kernel does the call.
    Called(Own),
}

/// What a thread has when it goes on.
#[derive(Clone, Copy)]
struct Own {
    regs: user_regs_struct,
    mask: u64,
}

/// Threads that make a call, or are only stopped and let go again.
#[derive(Default)]
pub(crate) struct Errands(FxHashMap<u32, (Option<Call>, Stage)>);

impl Engine {
    /// Has a thread make a call that is seized and about to stop behind its own; without a call it goes on.
    pub(crate) fn send_on_errand(&mut self, tid: u32, call: Option<Call>) {
        self.errands.0.insert(tid, (call, Stage::Stops));
    }

    /// The same of one that stopped in exec, in front of a program's first instruction, and has these signals blocked when it goes on;
    /// whether it makes the call.
    pub(crate) fn send_on_first_errand(
        &mut self,
        tid: u32,
        call: Call,
        at: u64,
        mask: u64,
    ) -> bool {
        let goes = ptrace::cont_to_call(tid, 0).is_ok();
        if goes {
            self.errands.0.insert(tid, (Some(call), Stage::Execs(at, mask)));
        }
        goes
    }

    /// Hears of a thread; whether it is on an errand.
    pub(crate) fn hear_of_errand(&mut self, tid: u32, report: Report) -> bool {
        let Some(&(call, stage)) = self.errands.0.get(&tid) else { return false };
        let next = match (stage, report) {
            (_, Report::Gone(_) | Report::Execed) => {
                self.errands.0.remove(&tid);
                return false;
            }
            (Stage::Stops, Report::Stopped) => call.and_then(|call| behind(tid, call).ok()),
            (Stage::Execs(at, mask), Report::Call) => {
                let begun = call.and_then(|call| begin(tid, call, at, mask).ok());
                if begun.is_none() {
                    let _ = ptrace::set_signal_mask(tid, mask);
                }
                begun
            }
            (Stage::Before(own), Report::Call) => {
                if call.is_some_and(|call| is_making(tid, call)) {
                    Some(Stage::Called(own))
                } else {
                    process::kill(tid, libc::SIGKILL);
                    None
                }
            }
            (Stage::Called(Own { mut regs, mask }), Report::Call) => {
                // It returns from no call that could be made again.
                regs.orig_rax = u64::MAX;
                let _ = ptrace::set_registers(tid, regs);
                let _ = ptrace::set_signal_mask(tid, mask);
                None
            }
            (Stage::Stops, _) => return false,
            (stage, Report::Signal(signal)) => {
                let _ = ptrace::cont_to_call(tid, signal);
                self.errands.0.insert(tid, (call, stage));
                return true;
            }
            (stage, _) => Some(stage),
        };
        match next {
            Some(stage) => {
                self.errands.0.insert(tid, (call, stage));
                let _ = ptrace::cont_to_call(tid, 0);
            }
            None => {
                self.errands.0.remove(&tid);
                let _ = ptrace::detach(tid);
            }
        }
        true
    }
}

/// Has a thread that stopped behind a call make another one by the same instruction.
fn behind(tid: u32, call: Call) -> Result<Stage> {
    begin(tid, call, ptrace::registers(tid)?.rip - ptrace::SYSCALL, ptrace::signal_mask(tid)?)
}

/// Puts a call into the registers of a stopped thread, which makes it by the instruction there.
fn begin(tid: u32, Call { nr, args }: Call, at: u64, mask: u64) -> Result<Stage> {
    let before = ptrace::registers(tid)?;
    let mut regs = before;
    (regs.rax, [regs.rdi, regs.rsi, regs.rdx]) = (nr.cast_unsigned(), args);
    regs.orig_rax = u64::MAX;
    regs.rip = at;
    ptrace::set_signal_mask(tid, u64::MAX)?;
    ptrace::set_registers(tid, regs)?;
    Ok(Stage::Before(Own { regs: before, mask }))
}

/// Whether this is the call that a thread is about to make.
fn is_making(tid: u32, Call { nr, args }: Call) -> bool {
    ptrace::registers(tid).is_ok_and(|regs| {
        regs.orig_rax == nr.cast_unsigned() && [regs.rdi, regs.rsi, regs.rdx] == args
    })
}
