//! Calls that only the thread itself can make: chdir to a cookie, exec of an open file.
//!
//! ```text
//!   execve("/a", …) ──► the library finds the file ──► the thread gets a descriptor of it, N
//!      ◄── EINTR, and a stop before the thread sees it: its registers become
//!   execveat(N, "", …, AT_EMPTY_PATH) ──► passed on ──► a stop before the new program's first instruction
//!      what runs is that very file, and its interpreter the one that was found, or the process is killed
//!      it fails ──► close(N) ──► the thread sees the error
//!   chdir("/b") ──► … ──► fchdir(N) ──► it stands in a cookie, or is killed ──► close(N) ──► the thread sees the answer
//! ```
//!
//! Between the calls all its signals are blocked; that its process is stopped meanwhile holds again when it is let go. Its memory and
//! its descriptors are another thread's to change: so it is not what the call was given that is believed, but what came of it; and
//! the thread sees no error of exec by which the host would tell what it has by a path that was put there. Nobody traces it before
//! and after.
//!
//! Nothing is written into its memory. The empty string is the end of the path that it gave; a script's further arguments are put into
//! the stack of the new program, which nobody else has (`auxv`).

use crate::{
    auxv,
    cookies::{HostId, Known, of_thread},
    credentials::Ran,
    engine::{Caller, Engine, Reply},
    mapped, procfs,
    sys::{
        answer, process,
        ptrace::{self, Report},
    },
};
use libc::user_regs_struct;
use pathwalk::{AtFlags, Errno, Executable, Result};
use rustix::fs;
use std::{
    collections::HashMap,
    ffi::CString,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

/// The length of the instruction that makes a call.
const SYSCALL: u64 = 2;
/// What the kernel answers itself where a call is to be made again: `ERESTARTSYS` and on.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// What is to come of the call.
pub(crate) enum Goal {
    /// The process runs this file of the host, and has none in its memory but that and its interpreter.
    Exec(HostId, Option<Executable>),
    /// The same of an interpreter that was run by itself: it opens this program, by this name.
    Load(HostId, Loaded),
    /// The thread stands in a cookie.
    Chdir,
}

impl Goal {
    fn nr(&self) -> u32 {
        let nr = match self {
            Self::Exec(..) | Self::Load(..) => libc::SYS_execveat,
            Self::Chdir => libc::SYS_fchdir,
        };
        nr as u32
    }
}

/// With what an exec may fail that was put into registers, so that the thread sees it. What the file or the arguments that were given
/// are the cause of was answered before; with another path, in another thread's hands, it would tell that the host has a file there.
const EXEC_FAILS: [Errno; 4] = [Errno::ENOMEM, Errno::EAGAIN, Errno::ETXTBSY, Errno::EMFILE];

/// A thread whose registers were changed.
struct Patch {
    goal: Goal,
    /// The call's arguments.
    args: [u64; 6],
    /// The descriptor that it got for the call, which it is not to keep, and of which file that is.
    got: (i32, HostId),
    /// The new program's arguments in front of those that the thread gave from the second on.
    before_argv: Vec<CString>,
    /// Who it is, where it has virtual credentials, when it runs the program.
    becomes: Option<Ran>,
    before: user_regs_struct,
    mask: u64,
    /// So that it is not forgotten before the thread has it.
    _known: Option<Arc<Known>>,
}

/// All such threads.
#[derive(Default)]
pub(crate) struct Patches(HashMap<u32, Patch>);

impl Patches {
    pub(crate) fn forget(&mut self, tid: u32) {
        self.0.remove(&tid);
    }
}

/// A program that an interpreter opens, and by which name.
///
/// It is given the file that was found when it was run. What the name leads to by then may be another one, and not have the
/// set-id bits of the first.
pub(crate) struct Loaded {
    pub(crate) program: Executable,
    pub(crate) name: Vec<u8>,
}

/// What the interpreters that run have not opened yet, by process; and which file each interpreter is.
#[derive(Default)]
pub(crate) struct Loads(HashMap<u32, (OwnedFd, HostId, Loaded)>);

/// So many are kept.
const MOST_LOADS: usize = 256;

impl Loads {
    /// The program that a process opens by this name, if it runs an interpreter that has not opened it yet.
    pub(crate) fn take(&mut self, tid: u32, name: &[u8]) -> Option<Executable> {
        let (process, interpreter, loaded) = self.0.get(&tid)?;
        // The number may be another process's meanwhile.
        let its_own = process::is_there(process) && of_thread(tid, "exe") == Ok(*interpreter);
        if loaded.name != name || !its_own {
            return None;
        }
        self.0.remove(&tid).map(|(.., loaded)| loaded.program)
    }

    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left.
    fn runs(&mut self, tid: u32, goal: Goal) -> Result<()> {
        self.0.remove(&tid);
        if let Goal::Load(interpreter, loaded) = goal {
            if self.0.len() >= MOST_LOADS {
                self.0.retain(|_, (process, ..)| process::is_there(process));
            }
            self.0.insert(tid, (process::thread(tid)?, interpreter, loaded));
        }
        Ok(())
    }
}

/// What the kernel finds by itself beside a file that is run, or the file finds.
pub(crate) enum Beside {
    /// Its interpreter, if it has one.
    Interpreter(Option<Executable>),
    /// The program, of which it is the interpreter.
    Program(Loaded),
}

/// What a program is given: addresses in the memory of the thread that runs it.
#[derive(Clone, Copy)]
pub(crate) struct Vectors {
    /// The end of a string, which is an empty one.
    pub(crate) empty: u64,
    pub(crate) argv: u64,
    pub(crate) envp: u64,
}

impl Engine {
    /// Lets the thread run an open file, with these arguments instead of the first that it gave, if there are any.
    ///
    /// # Errors
    ///
    /// - `EACCES`: the host runs no such file, or none from there.
    /// - `EPERM`: the thread is traced by somebody.
    /// - `EMFILE`: it can have no further descriptor.
    pub(crate) fn patch_exec(
        &mut self,
        caller: &Caller,
        (file, beside): (BorrowedFd<'_>, Beside),
        known: Option<Arc<Known>>,
        becomes: Option<Ran>,
        before_argv: Vec<CString>,
        vectors: Vectors,
    ) -> Result<Reply> {
        let (path, flags) = (process::by_number(&file), fs::AtFlags::EACCESS);
        answer(fs::accessat(fs::CWD, path, fs::Access::EXEC_OK, flags))?;
        let id = HostId::of_fd(file)?;
        let given = AtFlags::EMPTY_PATH.bits();
        let goal = match beside {
            Beside::Interpreter(interpreter) => Goal::Exec(id, interpreter),
            Beside::Program(loaded) => Goal::Load(id, loaded),
        };
        self.patch(caller, file, goal, (known, becomes, before_argv), |regs| {
            (regs.rsi, regs.rdx, regs.r10) = (vectors.empty, vectors.argv, vectors.envp);
            regs.r8 = given.into();
        })
    }

    /// Makes a directory's cookie the thread's current directory.
    ///
    /// # Errors
    ///
    /// As [`Engine::patch_exec`].
    pub(crate) fn patch_chdir(
        &mut self,
        caller: &Caller,
        cookie: BorrowedFd<'_>,
        known: Arc<Known>,
    ) -> Result<Reply> {
        self.patch(caller, cookie, Goal::Chdir, (Some(known), None, Vec::new()), |_| ())
    }

    /// Gives the thread a descriptor, and has it make a call of which that is the first argument.
    fn patch(
        &mut self,
        caller: &Caller,
        file: BorrowedFd<'_>,
        goal: Goal,
        (known, becomes, before_argv): (Option<Arc<Known>>, Option<Ran>, Vec<CString>),
        change: impl FnOnce(&mut user_regs_struct),
    ) -> Result<Reply> {
        let tid = caller.tid;
        let id = HostId::of_fd(file)?;
        ptrace::seize(tid)?;
        let number = self.listener.add_fd(caller.id, file, true, false);
        let _ = ptrace::interrupt(tid);
        let errno = number.as_ref().err().copied().unwrap_or(Errno::EINTR);
        let sent = self.listener.send(caller.id, Err(errno));
        if !self.wait_for(tid, Report::Stopped) {
            return Ok(Reply::Later);
        }
        // Who did not wait any more makes the call again, or is about to end.
        let changed = sent.and(number).and_then(|number| {
            let before = ptrace::registers(tid)?;
            let mask = ptrace::signal_mask(tid)?;
            let mut regs = before;
            (regs.rax, regs.rdi) = (goal.nr().into(), number as u64);
            change(&mut regs);
            // It returns from no call that could be made again.
            regs.orig_rax = u64::MAX;
            regs.rip -= SYSCALL;
            ptrace::set_signal_mask(tid, u64::MAX)?;
            ptrace::set_registers(tid, regs)?;
            let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
            let got = (number as i32, id);
            Ok(Patch { goal, args, got, before_argv, becomes, before, mask, _known: known })
        });
        match changed {
            Ok(patch) => {
                self.patches.0.insert(tid, patch);
                let _ = ptrace::cont(tid, 0);
            }
            Err(_) => {
                let _ = ptrace::detach(tid);
            }
        }
        Ok(Reply::Later)
    }

    /// Has the kernel do a call that names a thread by its number, and waits until it is done. Where that thread is gone by then,
    /// and the call answers 0, the number was another's, and the caller is killed.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the caller is traced itself.
    pub(crate) fn pass_about(&mut self, caller: &Caller, target: &OwnedFd) -> Result<Reply> {
        let tid = caller.tid;
        ptrace::seize(tid)?;
        let _ = ptrace::interrupt(tid);
        let passed = self.listener.pass(caller.id);
        if self.wait_for(tid, Report::Stopped) {
            let done = ptrace::registers(tid).is_ok_and(|regs| regs.rax == 0);
            if passed.is_ok() && done && !process::is_there(target) {
                process::kill(tid, libc::SIGKILL);
            }
            let _ = ptrace::detach(tid);
        }
        Ok(Reply::Later)
    }

    /// Waits until a thread that is to report this does; whether it lives.
    fn wait_for(&mut self, tid: u32, awaited: Report) -> bool {
        while let Some((now, report)) = self.next_report() {
            match report {
                _ if now != tid => self.on_report(now, report),
                _ if report == awaited => return true,
                // To the call, whatever it stops for on the way.
                Report::Stopped if awaited == Report::Call => drop(ptrace::cont_to_call(tid, 0)),
                Report::Signal(signal) if awaited == Report::Call => {
                    let _ = ptrace::cont_to_call(tid, signal);
                }
                Report::Gone(_) => {
                    self.on_report(tid, report);
                    return false;
                }
                _ => self.on_report(tid, report),
            }
        }
        false
    }

    /// Goes on with a call that was put into a thread's registers; whether this was one.
    pub(crate) fn continue_patch(&mut self, caller: &Caller, nr: u32) -> bool {
        let tid = caller.tid;
        let Some(patch) = self.patches.0.remove(&tid) else { return false };
        if nr != patch.goal.nr() || caller.args != patch.args {
            // Somebody changed the instruction under it.
            process::kill(tid, libc::SIGKILL);
            return true;
        }
        // As which a thread reports that has ended the others.
        let process = procfs::process_of_thread(tid).unwrap_or(tid);
        if ptrace::interrupt(tid).is_err() || self.listener.pass(caller.id).is_err() {
            // It makes the call again, or is about to end.
            self.patches.0.insert(tid, patch);
            return true;
        }
        while let Some((now, report)) = self.next_report() {
            match report {
                Report::Execed if now == process => {
                    self.cwds.moved();
                    let right = match &patch.goal {
                        Goal::Exec(id, interpreter) => {
                            of_thread(now, "exe") == Ok(*id)
                                && mapped::is_alone(now, interpreter.as_ref()) == Ok(true)
                        }
                        Goal::Load(id, _) => {
                            of_thread(now, "exe") == Ok(*id)
                                && mapped::is_alone(now, None) == Ok(true)
                        }
                        Goal::Chdir => false,
                    };
                    let put = auxv::arguments(now, &patch.before_argv);
                    let told = patch.becomes.map_or(Ok(()), |who| self.ran(tid, now, who));
                    let loads = self.loads.runs(now, patch.goal);
                    let right = right && put.and(told).and(loads).is_ok();
                    settle(now, right, patch.mask);
                    return true;
                }
                Report::Stopped if now == tid => {
                    self.returned(tid, patch);
                    return true;
                }
                _ => {
                    self.on_report(now, report);
                    if matches!(report, Report::Gone(_)) && [tid, process].contains(&now) {
                        return true;
                    }
                }
            }
        }
        true
    }

    /// The thread runs another program, as somebody.
    fn ran(&mut self, tid: u32, process: u32, ran: Ran) -> Result<()> {
        auxv::tell(process, &ran)?;
        if let Some(people) = &mut self.people {
            people.ran(tid, process, ran.who);
        }
        Ok(())
    }

    /// The call returned: the thread sees its answer, and nothing else of it.
    fn returned(&mut self, tid: u32, patch: Patch) {
        let Ok(regs) = ptrace::registers(tid) else { return };
        let answer = regs.rax.cast_signed();
        if RESTARTS.contains(&answer) {
            let mut again = regs;
            again.rax = patch.goal.nr().into();
            again.rip -= SYSCALL;
            again.orig_rax = u64::MAX;
            let set = ptrace::set_registers(tid, again);
            self.patches.0.insert(tid, patch);
            let _ = set.and_then(|()| ptrace::cont(tid, 0));
            return;
        }
        self.cwds.moved();
        let mut right = match patch.goal {
            Goal::Chdir => {
                answer != 0 || of_thread(tid, "cwd").is_ok_and(|id| self.cookies.get(id).is_some())
            }
            Goal::Exec(..) | Goal::Load(..) => {
                let errno = i32::try_from(-answer).ok().and_then(Errno::from_raw);
                errno.is_some_and(|errno| EXEC_FAILS.contains(&errno))
            }
        };
        let (number, id) = patch.got;
        if right && of_thread(tid, &format!("fd/{number}")) == Ok(id) {
            right = self.close(tid, &patch.before, number);
        }
        let mut regs = patch.before;
        regs.rax = answer.cast_unsigned();
        regs.orig_rax = u64::MAX;
        let _ = ptrace::set_registers(tid, regs);
        settle(tid, right, patch.mask);
    }

    /// Has a stopped thread close a descriptor; whether it did.
    fn close(&mut self, tid: u32, before: &user_regs_struct, number: i32) -> bool {
        let mut regs = *before;
        (regs.rax, regs.rdi) = (libc::SYS_close as u64, number as u64);
        regs.orig_rax = u64::MAX;
        regs.rip -= SYSCALL;
        // Into the call and out of it.
        ptrace::set_registers(tid, regs).is_ok()
            && (0..2)
                .all(|_| ptrace::cont_to_call(tid, 0).is_ok() && self.wait_for(tid, Report::Call))
            && ptrace::registers(tid).is_ok_and(|regs| regs.rax == 0)
    }
}

/// Lets a stopped thread go, or kills it where something else came of its call than was to. Of who is gone the number may be
/// another's.
fn settle(tid: u32, right: bool, mask: u64) {
    let there = ptrace::set_signal_mask(tid, mask).is_ok();
    if there && !right {
        process::kill(tid, libc::SIGKILL);
    }
    let _ = ptrace::detach(tid);
}
