//! Calls that only the thread itself can make: chdir to a cookie, exec of an open file.
//!
//! ```text
//!   execve("/a", …) ──► the library finds the file ──► the thread gets a descriptor of it, N
//!      ◄── EINTR, and a stop before the thread sees it: its registers become
//!   execveat(N, "", …, AT_EMPTY_PATH) ──► passed on ──► a stop before the new program's first instruction
//!      what runs is that very file, and its interpreter the one that was found, or the process is killed
//!      it fails ──► close(N) ──► the thread sees the error
//! ```
//!
//! Between the calls all its signals are blocked. The strings lie in its memory, where another thread could change them: so it
//! is not what the call was given that is believed, but what came of it; and the thread sees no error by which the host would tell
//! what it has by a path that was put there. Nobody traces it before and after.
//!
//! Nothing is written where the thread may have something. The empty string is the end of the path that it gave; a script's further
//! arguments are put into the stack of the new program, which nobody else has (`auxv`).

use crate::{
    auxv,
    cookies::{HostId, Known, of_thread},
    credentials::Ran,
    engine::{Caller, Engine, Reply},
    mapped,
    sys::{
        answer, memory, process,
        ptrace::{self, Report},
    },
};
use libc::user_regs_struct;
use pathwalk::{AtFlags, Errno, Executable, Result};
use rustix::fs;
use std::{collections::HashMap, ffi::CString, os::fd::BorrowedFd, sync::Arc};

/// What the x86-64 ABI lets a function use below its stack pointer.
const RED_ZONE: u64 = 128;
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
    /// The thread stands in this directory of the host.
    Chdir(HostId),
}

impl Goal {
    fn nr(&self) -> u32 {
        let nr = match self {
            Self::Exec(..) | Self::Load(..) => libc::SYS_execveat,
            Self::Chdir(_) => libc::SYS_chdir,
        };
        nr as u32
    }
}

/// With what a call may fail that was put into registers, so that the thread sees it: with what the file or directory that was
/// found is no cause of, and no other would be. Whether it is one that can be run was seen before.
const EXEC_FAILS: [Errno; 6] =
    [Errno::E2BIG, Errno::ENOMEM, Errno::EAGAIN, Errno::EFAULT, Errno::ETXTBSY, Errno::EMFILE];
const CHDIR_FAILS: [Errno; 1] = [Errno::ENOMEM];

/// A thread whose registers were changed.
struct Patch {
    goal: Goal,
    /// What it got that it is not to keep where the call fails: the descriptor of the file, and which that is.
    got: Option<(i32, HostId)>,
    /// The new program's arguments in front of those that the thread gave from the second on.
    before_argv: Vec<CString>,
    /// What was below its stack, where something is now.
    below: Option<Below>,
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
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tids(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

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
pub(crate) struct Loads(HashMap<u32, (HostId, Loaded)>);

/// So many are kept.
const MOST_LOADS: usize = 256;

impl Loads {
    /// The program that a process opens by this name, if it runs an interpreter that has not opened it yet.
    pub(crate) fn take(&mut self, tid: u32, name: &[u8]) -> Option<Executable> {
        let (interpreter, loaded) = self.0.get(&tid)?;
        // The number may be another process's meanwhile.
        if loaded.name != name || of_thread(tid, "exe") != Ok(*interpreter) {
            return None;
        }
        self.0.remove(&tid).map(|(_, loaded)| loaded.program)
    }

    fn runs(&mut self, process: u32, goal: Goal) {
        match goal {
            Goal::Load(interpreter, loaded) => {
                if self.0.len() >= MOST_LOADS {
                    self.0.retain(|tid, (id, _)| of_thread(*tid, "exe") == Ok(*id));
                }
                self.0.insert(process, (interpreter, loaded));
            }
            _ => drop(self.0.remove(&process)),
        }
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
        let listener = Arc::clone(&self.listener);
        let number = || listener.add_fd(caller.id, file, true, false);
        let given = AtFlags::EMPTY_PATH.bits();
        let goal = match beside {
            Beside::Interpreter(interpreter) => Goal::Exec(id, interpreter),
            Beside::Program(loaded) => Goal::Load(id, loaded),
        };
        self.patch(caller, goal, (known, becomes), number, |regs, number| {
            (regs.rdi, regs.rsi, regs.rdx) = (number as u64, vectors.empty, vectors.argv);
            (regs.r10, regs.r8) = (vectors.envp, given.into());
            Ok(Put { got: Some((number as i32, id)), before_argv, below: None })
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
        (path, id, known): (CString, HostId, Arc<Known>),
    ) -> Result<Reply> {
        self.patch(
            caller,
            Goal::Chdir(id),
            (Some(known), None),
            || Ok(0),
            |regs, _| {
                let below = Below::write(caller.tid, regs.rsp, path.as_bytes_with_nul())?;
                regs.rdi = below.at;
                Ok(Put { got: None, before_argv: Vec::new(), below: Some(below) })
            },
        )
    }

    fn patch(
        &mut self,
        caller: &Caller,
        goal: Goal,
        (known, becomes): (Option<Arc<Known>>, Option<Ran>),
        number: impl FnOnce() -> Result<i64>,
        change: impl FnOnce(&mut user_regs_struct, i64) -> Result<Put>,
    ) -> Result<Reply> {
        let tid = caller.tid;
        ptrace::seize(tid)?;
        let number = number();
        ptrace::interrupt(tid)?;
        let errno = number.as_ref().err().copied().unwrap_or(Errno::EINTR);
        self.listener.send(caller.id, Err(errno))?;
        if !self.wait_for(tid, Report::Stopped) {
            return Ok(Reply::Later);
        }
        let changed = number.and_then(|number| {
            let before = ptrace::registers(tid)?;
            let mask = ptrace::signal_mask(tid)?;
            let mut regs = before;
            let Put { got, before_argv, below } = change(&mut regs, number)?;
            regs.rax = goal.nr().into();
            // It returns from no call that could be made again.
            regs.orig_rax = u64::MAX;
            regs.rip -= SYSCALL;
            ptrace::set_signal_mask(tid, u64::MAX)?;
            ptrace::set_registers(tid, regs)?;
            Ok(Patch { goal, got, before_argv, below, becomes, before, mask, _known: known })
        });
        match changed {
            Ok(patch) => {
                self.patches.0.insert(tid, patch);
                let _ = ptrace::cont(tid, 0);
            }
            Err(errno) => {
                // It sees what it was answered; now it is to be another errno.
                let _ = ptrace::registers(tid).and_then(|mut regs| {
                    regs.rax = i64::from(-errno.raw()).cast_unsigned();
                    ptrace::set_registers(tid, regs)
                });
                let _ = ptrace::detach(tid);
            }
        }
        Ok(Reply::Later)
    }

    /// Waits until a thread that is to report this does; whether it lives.
    fn wait_for(&mut self, tid: u32, awaited: Report) -> bool {
        loop {
            match ptrace::wait(Some(tid), true) {
                Ok(Some((_, report))) if report == awaited => return true,
                Ok(Some((_, Report::Gone(status)))) => {
                    self.on_report(tid, Report::Gone(status));
                    return false;
                }
                Ok(Some((_, report))) => self.on_report(tid, report),
                Ok(None) | Err(_) => return false,
            }
        }
    }

    /// Goes on with a call that was put into a thread's registers; whether this was one.
    pub(crate) fn continue_patch(&mut self, caller: &Caller, nr: u32) -> bool {
        let tid = caller.tid;
        let Some(patch) = self.patches.0.remove(&tid) else { return false };
        if nr != patch.goal.nr() {
            // Somebody changed the instruction under it.
            process::kill(tid, libc::SIGKILL);
            return true;
        }
        if ptrace::interrupt(tid).is_err() || self.listener.pass(caller.id).is_err() {
            return true;
        }
        loop {
            match ptrace::wait(None, true) {
                // Another thread than the first of a process becomes the first.
                Ok(Some((now, Report::Execed))) => {
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
                        Goal::Chdir(_) => false,
                    };
                    let put = auxv::arguments(now, &patch.before_argv);
                    let told = patch.becomes.map_or(Ok(()), |who| self.ran(tid, now, who));
                    self.loads.runs(now, patch.goal);
                    settle(now, right && put.is_ok() && told.is_ok(), patch.mask);
                    return true;
                }
                Ok(Some((now, Report::Stopped))) if now == tid => {
                    self.returned(tid, patch);
                    return true;
                }
                Ok(Some((now, report))) => {
                    self.on_report(now, report);
                    if now == tid && matches!(report, Report::Gone(_)) {
                        return true;
                    }
                }
                Ok(None) | Err(_) => return true,
            }
        }
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
        let errno = i32::try_from(-answer).ok().and_then(Errno::from_raw);
        let fails = |with: &[Errno]| errno.is_some_and(|errno| with.contains(&errno));
        let mut right = match patch.goal {
            Goal::Chdir(id) if answer == 0 => of_thread(tid, "cwd") == Ok(id),
            Goal::Chdir(_) => fails(&CHDIR_FAILS),
            Goal::Exec(..) | Goal::Load(..) => fails(&EXEC_FAILS),
        };
        if let Some(below) = patch.below {
            below.restore(tid);
        }
        if let Some((number, id)) = patch.got
            && right
        {
            right = of_thread(tid, &format!("fd/{number}")) != Ok(id)
                || self.close(tid, &patch.before, number);
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
            && (0..2).all(|_| ptrace::cont_to_call(tid).is_ok() && self.wait_for(tid, Report::Call))
            && ptrace::registers(tid).is_ok_and(|regs| regs.rax == 0)
    }
}

/// Lets a stopped thread go, or kills it where something else came of its call than was to.
fn settle(tid: u32, right: bool, mask: u64) {
    if !right {
        process::kill(tid, libc::SIGKILL);
    }
    let _ = ptrace::set_signal_mask(tid, mask);
    let _ = ptrace::detach(tid);
}

/// What was put into a thread beside its registers.
struct Put {
    got: Option<(i32, HostId)>,
    before_argv: Vec<CString>,
    below: Option<Below>,
}

/// What was below a thread's stack before something was written there.
struct Below {
    at: u64,
    before: Vec<u8>,
}

impl Below {
    /// Writes it out of the way of what a function may have there.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: the stack has no room.
    fn write(tid: u32, rsp: u64, bytes: &[u8]) -> Result<Self> {
        let at = rsp.checked_sub(RED_ZONE + bytes.len() as u64).ok_or(Errno::EFAULT)? & !15;
        let mut before = vec![0; bytes.len()];
        // Where the stack has to grow for it there was nothing.
        let _ = memory::read(tid, at, &mut before);
        memory::write_stack(tid, at, bytes)?;
        Ok(Self { at, before })
    }

    /// Who shares the memory may have something there that is not the thread's.
    fn restore(&self, tid: u32) {
        let _ = memory::write(tid, self.at, &self.before);
    }
}
