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
//! the thread sees no error of exec by which the host would tell what it has by a path that was put there. A script of the host's could
//! be put there whose interpreter is the program that was found, which the kernel would give its first line: so the name is looked at
//! too by which the kernel knows what it runs. Nobody traces the thread before and after.
//!
//! How long it takes from one step to the next is the program's to say: it may change the instruction under the thread, and exec waits
//! until the process's other threads are gone, for which their tracer has to wait. So nobody waits for it here, but for what the
//! kernel does without anybody's help:
//!
//! 1. The stop after the answer `EINTR`.
//! 2. What came of `fchdir`. A directory that is none of the tree's is nobody's for longer than it takes to look: who stands there,
//!    whether it made the call or shares its current directory with who did, is killed before another call is answered.
//!
//! While a thread is in exec, other calls are answered, but:
//!
//! 1. The kernel attaches to no thread of its process then: a call of another of its threads that is made in this way is answered when that
//!    is over.
//! 2. So is any of the process's first thread, whose number the new program has.
//! 3. Who writes into its memory, or opens it for that, waits from when the process has no other threads: what is looked at in the new
//!    program's memory is as the kernel made it. Before, it is the old one.
//!
//! Who looks into the process must be one to whom it is open before and after (`people`).
//!
//! Nothing is written into its memory. The empty string is the end of the path that it gave; a script's further arguments are put into
//! the stack of the new program, which nobody else has (`auxv`).

use crate::{
    auxv::{self, Told},
    cookies::{HostId, Known, of_thread},
    cpu::Kept,
    credentials::Ran,
    engine::{Caller, Engine, Reply},
    kin, mapped,
    passed::Passed,
    procfs,
    program::Program,
    sys::{
        process,
        ptrace::{self, Report},
    },
};
use libc::user_regs_struct;
use pathwalk::{AccessMode, At, AtFlags, Errno, Executable, File, Result, abi::StatfsFlags};
use rustc_hash::FxHashMap;
use std::{
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// After so long it is looked whether who is waited for is still there: that it ended is told late where others have to be waited for
/// first.
const LOOK: Duration = Duration::from_millis(20);
/// What the kernel answers itself where a call is to be made again: `ERESTARTSYS` and on.
pub(crate) const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// What is to come of the call.
pub(crate) enum Goal {
    /// The process runs this file of the host, and has none in its memory but that and its interpreter.
    Exec(HostId, Arc<Program>, Option<(Executable, HostId)>),
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

    /// The file of the tree whose mode and owner say who runs it; none where none does.
    fn decides(&self) -> Option<&File> {
        match self {
            Self::Exec(_, program, _) => program.file(),
            Self::Load(_, loaded) => Some(loaded.program.file()),
            Self::Chdir => None,
        }
    }
}

/// With what an exec may fail that was put into registers, so that the thread sees it. What the file or the arguments that were given
/// are the cause of was answered before; with another path, in another thread's hands, it would tell that the host has a file there.
/// `EBADF` tells that another thread closed the descriptor, again and again.
const EXEC_FAILS: [Errno; 5] =
    [Errno::ENOMEM, Errno::EAGAIN, Errno::ETXTBSY, Errno::EMFILE, Errno::EBADF];

/// Calls of which a thread is seized, and one that makes others have a filter.
const WAITING: [i64; 6] = [
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_seccomp,
];

/// A call for which the thread got a descriptor that another thread closed is made again, so often.
const MOST_TRIES: u32 = 10_000;

/// So many threads that make one again are kept without a look at whether they are there.
const MOST_AGAIN: usize = 256;

/// How far a thread is whose registers were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is about to make the call.
    Before,
    /// The kernel does the call; as this process a thread reports that has ended the others.
    Called(u32),
    /// The call answered this, and the thread closes the descriptor that it got: is about to, or does.
    Closes(i64, Close),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    Before,
    Called,
}

/// A thread whose registers were changed.
struct Patch {
    goal: Goal,
    stage: Stage,
    /// How often the descriptor was closed before.
    tries: u32,
    /// The call's arguments.
    args: [u64; 6],
    /// The descriptor that it got for the call, which it is not to keep, and of which file that is.
    got: (i32, HostId),
    /// What the new program is told beside what the thread gave.
    told: Told,
    /// Who it is, where it has virtual credentials, when the kernel has run the program; known when it is about to.
    becomes: Option<Ran>,
    /// Why it was not let run the program after all.
    refused: Option<Errno>,
    before: user_regs_struct,
    mask: u64,
    /// Until the call is done.
    kept: Option<Kept>,
    /// So that it is not forgotten before the thread has it.
    _known: Option<Arc<Known>>,
}

/// All such threads.
#[derive(Default)]
pub(crate) struct Patches {
    threads: FxHashMap<u32, Patch>,
    /// Those that make their call again, and for the how manieth time.
    again: FxHashMap<u32, u32>,
    /// Those whose own call the kernel does.
    pub(crate) passed: FxHashMap<u32, Passed>,
}

impl Patches {
    /// Nobody is kept on a CPU any more.
    pub(crate) fn nobody_is_kept(&mut self) {
        for patch in self.threads.values_mut() {
            match (patch.kept.take(), patch.stage) {
                (Some(kept), Stage::Called(process)) => kept.lets_go(process),
                (kept, _) => drop(kept),
            }
        }
        self.passed.values_mut().for_each(Passed::is_kept_no_more);
    }

    fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
        self.again.remove(&tid);
        self.passed.remove(&tid);
    }

    /// A thread makes its call again, for the how manieth time.
    pub(crate) fn has_again(&mut self, tid: u32, tries: u32) {
        if self.again.len() >= MOST_AGAIN {
            // Who ended makes it no more.
            self.again.retain(|&tid, _| !kin::is_ending(tid));
        }
        self.again.insert(tid, tries);
    }

    /// Whether a thread makes a call again.
    pub(crate) fn is_again(&self, tid: u32) -> bool {
        self.again.contains_key(&tid)
    }

    fn stage(&self, tid: u32) -> Option<Stage> {
        self.threads.get(&tid).map(|patch| patch.stage)
    }

    /// Who is in the middle of exec: the threads, and as which process each reports.
    fn in_exec(&self) -> impl Iterator<Item = (u32, u32)> {
        let execs = |(tid, patch): (&u32, &Patch)| match (patch.stage, &patch.goal) {
            (Stage::Called(process), Goal::Exec(..) | Goal::Load(..)) => Some((*tid, process)),
            _ => None,
        };
        let passed = self.passed.iter().map(|(tid, passed)| (*tid, passed.process));
        self.threads.iter().filter_map(execs).chain(passed)
    }

    /// Whether a process is in the middle of exec.
    pub(crate) fn is_in_exec(&self, process: u32) -> bool {
        self.in_exec().any(|(_, other)| other == process)
    }

    /// Whether a call has to wait until an exec is over:
    ///
    /// - one of which a thread is seized, or by which the one in exec would have a filter, by another thread of its process;
    /// - any of the process's first thread, whose number is the new program's by the time of an answer: what is written into its memory
    ///   by that number would be there before that was looked at.
    pub(crate) fn has_to_wait(&self, tid: u32, nr: u32) -> bool {
        let mut others = self.in_exec().filter(|(other, _)| *other != tid).peekable();
        if others.peek().is_none() {
            return false;
        }
        let waiting = WAITING.contains(&nr.into());
        let process = waiting.then(|| procfs::process_of_thread(tid)).flatten();
        others.any(|(_, other)| other == tid || Some(other) == process)
    }

    /// The process of a thread whose memory was opened just now, where that may be the memory of a program which it begins to
    /// run, and nobody looked at what is in it yet. While the process has other threads it is the old one: the kernel waits
    /// until they are gone, and whoever traces them knows. (But for workers of vhost, which some kernels leave.)
    pub(crate) fn with_new_memory(&self, tid: u32) -> Option<u32> {
        self.in_exec().next()?;
        let process = procfs::process_of_thread(tid)?;
        (self.is_in_exec(process) && !kin::has_others(process)).then_some(process)
    }

    /// The threads for which the kernel does a call, that would report as this process.
    fn called_in(&self, process: u32) -> Vec<u32> {
        let called = |patch: &Patch| patch.stage == Stage::Called(process);
        let called = self.threads.iter().filter(|(_, patch)| called(patch)).map(|(tid, _)| *tid);
        let passed = self.passed.iter().filter(|(_, passed)| passed.process == process);
        called.chain(passed.map(|(tid, _)| *tid)).collect()
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
pub(crate) struct Loads(FxHashMap<u32, (OwnedFd, HostId, Loaded)>);

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

    /// Forgets the programs of those who ended, which may be written again; whether there were any.
    pub(crate) fn forget_ended(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|_, (process, ..)| process::is_there(process));
        self.0.len() < before
    }

    /// A process runs another program, of which no interpreter of the tree is.
    pub(crate) fn runs_another(&mut self, process: u32) {
        self.0.remove(&process);
    }

    /// A process runs another program, the right one or one that it is killed for.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left.
    fn runs(&mut self, tid: u32, goal: Goal, right: bool) -> Result<()> {
        self.runs_another(tid);
        if let (Goal::Load(interpreter, loaded), true) = (goal, right) {
            if self.0.len() >= MOST_LOADS {
                self.forget_ended();
            }
            self.0.insert(tid, (process::thread(tid)?, interpreter, loaded));
        }
        Ok(())
    }
}

/// What the kernel finds by itself beside a file that is run, or the file finds.
pub(crate) enum Beside {
    /// Its interpreter, if it has one.
    Interpreter(Option<(Executable, HostId)>),
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
    /// Lets the thread run an open file, which is told this.
    ///
    /// # Errors
    ///
    /// - `EACCES`: the host runs no such file, or none from there.
    /// - `EPERM`: the thread is traced by somebody.
    /// - `EMFILE`: it can have no further descriptor.
    pub(crate) fn patch_exec(
        &mut self,
        caller: &Caller,
        (program, beside): (Program, Beside),
        known: Option<Arc<Known>>,
        told: Told,
        vectors: Vectors,
    ) -> Result<Reply> {
        let program = Arc::new(program);
        program.may_run_on_host()?;
        let file = program.host()?;
        let id = program.id();
        let given = AtFlags::EMPTY_PATH.bits();
        let goal = match beside {
            Beside::Interpreter(interpreter) => Goal::Exec(id, Arc::clone(&program), interpreter),
            Beside::Program(loaded) => Goal::Load(id, loaded),
        };
        self.patch(caller, (file, id), goal, (known, told), |regs| {
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
        cookie: (BorrowedFd<'_>, HostId),
        known: Arc<Known>,
    ) -> Result<Reply> {
        self.patch(caller, cookie, Goal::Chdir, (Some(known), Told::default()), |_| ())
    }

    /// Gives the thread a descriptor, and has it make a call of which that is the first argument.
    fn patch(
        &mut self,
        caller: &Caller,
        (file, id): (BorrowedFd<'_>, HostId),
        goal: Goal,
        (known, told): (Option<Arc<Known>>, Told),
        change: impl FnOnce(&mut user_regs_struct),
    ) -> Result<Reply> {
        let tid = caller.tid;
        self.still_waits(caller)?;
        ptrace::seize(tid)?;
        let kept = Kept::here(tid);
        let number = self.listener.add_fd(caller.id, file, true, false);
        let _ = ptrace::interrupt(tid);
        let errno = number.as_ref().err().copied().unwrap_or(Errno::EINTR);
        let sent = self.listener.send(caller.id, Err(errno));
        if !self.wait_for_stop(tid) {
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
            regs.rip -= ptrace::SYSCALL;
            ptrace::set_signal_mask(tid, u64::MAX)?;
            ptrace::set_registers(tid, regs)?;
            let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
            let got = (number as i32, id);
            let stage = Stage::Before;
            let tries = self.patches.again.remove(&tid).unwrap_or(0);
            let (becomes, refused, _known) = (None, None, known);
            Ok(Patch {
                goal,
                stage,
                tries,
                args,
                got,
                told,
                becomes,
                refused,
                before,
                mask,
                kept,
                _known,
            })
        });
        match changed {
            Ok(patch) => {
                self.patches.threads.insert(tid, patch);
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
        self.still_waits(caller)?;
        ptrace::seize(tid)?;
        let _ = ptrace::interrupt(tid);
        let passed = self.listener.pass(caller.id);
        if self.wait_for_stop(tid) {
            let done = ptrace::registers(tid).is_ok_and(|regs| regs.rax == 0);
            if passed.is_ok() && done && !process::is_there(target) {
                process::kill(tid, libc::SIGKILL);
            }
            let _ = ptrace::detach(tid);
        }
        Ok(Reply::Later)
    }

    /// Waits until a thread stops that is about to; whether it does. It may end, or another thread that runs a program get its number.
    pub(crate) fn wait_for_stop(&mut self, tid: u32) -> bool {
        loop {
            match self.next_report(Some(LOOK)) {
                Ok(Some((now, Report::Stopped))) if now == tid => return true,
                Ok(Some((now, report))) => {
                    self.on_report(now, report);
                    if now == tid && matches!(report, Report::Gone(_) | Report::Execed) {
                        return false;
                    }
                }
                Ok(None) if !kin::is_ending(tid) => {}
                Ok(None) | Err(_) => return false,
            }
        }
    }

    /// Goes on with a call that was put into a thread's registers; whether this was one.
    pub(crate) fn continue_patch(&mut self, caller: &Caller, nr: u32) -> bool {
        let tid = caller.tid;
        let Some(patch) = self.patches.threads.get(&tid) else { return false };
        if patch.stage != Stage::Before || nr != patch.goal.nr() || caller.args != patch.args {
            // Somebody changed the instruction under it.
            process::kill(tid, libc::SIGKILL);
            return true;
        }
        let moves = matches!(patch.goal, Goal::Chdir);
        let process = procfs::process_of_thread(tid).unwrap_or(tid);
        let becomes = self.becomes(tid, process);
        if ptrace::interrupt(tid).is_err() {
            // It is about to end.
            return true;
        }
        let Some(patch) = self.patches.threads.get_mut(&tid) else { return true };
        patch.stage = Stage::Called(process);
        patch.refused = becomes.as_ref().err().copied();
        patch.becomes = becomes.unwrap_or_default();
        if let (Some(people), Some(becomes)) = (&mut self.people, &patch.becomes) {
            people.runs(tid, process, &becomes.who);
        }
        let sent = match patch.refused {
            None => self.listener.pass(caller.id),
            Some(errno) => self.listener.send(caller.id, Err(errno)),
        };
        if sent.is_err() {
            // It makes the call again, or is about to end.
            patch.stage = Stage::Before;
            self.runs_no_more(tid, process);
        } else if moves {
            if self.wait_for_stop(tid) {
                self.returned(tid, process);
            } else {
                self.patches.forget(tid);
                self.cwds.moved();
                self.end_strangers();
            }
        }
        true
    }

    /// Who a thread is when it runs a program, where it has virtual credentials: a set-id bit gives those, and nothing of the host's.
    ///
    /// It is asked when the kernel is to run it. How long that takes is the program's to say, and meanwhile another thread may have said
    /// that it is to get nothing new (`PR_SET_NO_NEW_PRIVS`), and the file's owner that it gives nothing.
    ///
    /// # Errors
    ///
    /// - `EACCES`: the file may not be run any more.
    /// - `EPERM`: the thread is nobody.
    fn becomes(&mut self, tid: u32, process: u32) -> Result<Option<Ran>> {
        let Self { people, patches, given, task: own, .. } = self;
        let Some(patch) = patches.threads.get(&tid) else { return Ok(None) };
        if matches!(patch.goal, Goal::Chdir) {
            return Ok(None);
        }
        let person = people.as_mut().map(|people| people.who(tid)).transpose()?;
        let task = person.as_ref().map_or(&*own, |person| &person.task);
        let (mut mode, mut uid, mut gid, mut suid) = (0, 0, 0, false);
        if let Some(file) = patch.goal.decides() {
            let flags = AtFlags::EACCESS | AtFlags::EMPTY_PATH;
            task.faccessat2(At::Dir(file), b"", AccessMode::X_OK, flags)?;
            if person.is_none() {
                return Ok(None);
            }
            let stat = task.fstat(file)?;
            let flags = StatfsFlags::from_bits_retain(task.fstatfs(file)?.f_flags as u64);
            (mode, uid, gid) = (stat.st_mode, stat.st_uid, stat.st_gid);
            suid = !flags.contains(StatfsFlags::NOSUID)
                && given.as_ref().is_none_or(|given| given.is_mounted(file));
        }
        let shared = || kin::shares_place_with_others(tid, process);
        Ok(person.map(|person| person.credentials.after_exec(mode, uid, gid, suid, shared)))
    }

    fn runs_no_more(&mut self, tid: u32, process: u32) {
        if let Some(people) = &mut self.people {
            people.runs_no_more(tid, process);
        }
    }

    /// Hears of a thread; whether it is one whose registers were changed, or was.
    pub(crate) fn hear_of_patch(&mut self, tid: u32, report: Report) -> bool {
        if report == Report::Stopped
            && let Some(passed) = self.patches.passed.remove(&tid)
        {
            self.failed_to_pass(tid, passed);
            return true;
        }
        match (self.patches.stage(tid), report) {
            (_, Report::Execed) => self.execed(tid),
            (stage, Report::Gone(_)) => {
                if let Some(Stage::Called(process)) = stage {
                    self.runs_no_more(tid, process);
                }
                self.patches.forget(tid);
                // A thread whose exec failed when it had ended the others has the process's number.
                self.forget_called_in(tid);
                return false;
            }
            (Some(Stage::Called(process)), Report::Stopped) => self.returned(tid, process),
            (Some(Stage::Closes(answer, close)), report) => match (report, close) {
                (Report::Call, Close::Before) => self.about_to_close(tid, answer),
                (Report::Call, Close::Called) => self.closed(tid, answer),
                (Report::Signal(signal), _) => drop(ptrace::cont_to_call(tid, signal)),
                _ => drop(ptrace::cont_to_call(tid, 0)),
            },
            _ => return false,
        }
        true
    }

    /// No thread of a process is in the middle of a call any more.
    fn forget_called_in(&mut self, process: u32) {
        for tid in self.patches.called_in(process) {
            self.runs_no_more(tid, process);
            self.patches.forget(tid);
        }
    }

    /// The process of this number runs another program, of which no instruction ran yet, and has no other thread.
    fn execed(&mut self, process: u32) {
        let former = ptrace::former_number(process);
        let patch = former.ok().and_then(|tid| Some((tid, self.patches.threads.remove(&tid)?)));
        let passed = former.ok().and_then(|tid| self.patches.passed.remove(&tid));
        // Whatever the thread was about that had the number is over.
        self.patches.forget(process);
        self.forget_called_in(process);
        self.counts_anew(process);
        self.cwds.moved();
        if let Some(passed) = passed {
            self.passed(process, passed);
            return;
        }
        let Some((tid, mut patch)) = patch else {
            // Nobody found that program; or it is somebody else's, who was given the number of a thread that is gone.
            if procfs::is_of_the_program(process) {
                process::kill(process, libc::SIGKILL);
            }
            let _ = ptrace::detach(process);
            return;
        };
        if let Some(mut kept) = patch.kept.take() {
            kept.renumbered(process);
        }
        self.runs_no_more(tid, process);
        let right = match &patch.goal {
            Goal::Exec(id, _, interpreter) => mapped::is_run(process, *id, interpreter.as_ref()),
            Goal::Load(id, _) => mapped::is_run(process, *id, None),
            Goal::Chdir => false,
        };
        let put = auxv::arguments(process, &patch.told);
        let told = patch.becomes.map_or(Ok(()), |who| self.ran(tid, process, who));
        let right = right && told.is_ok();
        if let (Goal::Load(_, loaded), true) = (&patch.goal, right) {
            self.asker.images().runs(process, loaded.program.file());
        }
        let right = self.loads.runs(process, patch.goal, right).is_ok() && right;
        match put {
            Ok(put) if right => {
                if !self.take_name(process, &patch.told.comm, put, patch.mask) {
                    settle(process, true, patch.mask);
                }
            }
            _ => settle(process, false, patch.mask),
        }
    }

    /// The thread runs another program, as somebody.
    ///
    /// # Errors
    ///
    /// - `EPERM`: it gets what it had not, and somebody moves its current directory who began to share it meanwhile. Linux lets nobody
    ///   begin in the middle of exec.
    /// - `EMFILE`: no descriptor is left to look with.
    fn ran(&mut self, tid: u32, process: u32, ran: Ran) -> Result<()> {
        if ran.gains && kin::shares_place_with_others(process, process) {
            return Err(Errno::EPERM);
        }
        auxv::tell(process, &ran)?;
        if let Some(people) = &mut self.people {
            people.ran(tid, process, ran.who)?;
        }
        Ok(())
    }

    /// The call returned: the thread sees its answer, and nothing else of it.
    fn returned(&mut self, tid: u32, process: u32) {
        let Some(mut patch) = self.patches.threads.remove(&tid) else { return };
        patch.kept = None;
        self.runs_no_more(tid, process);
        self.cwds.moved();
        let Ok(regs) = ptrace::registers(tid) else {
            // It is killed, wherever it stands.
            if matches!(patch.goal, Goal::Chdir) {
                self.end_strangers();
            }
            return;
        };
        let answer = regs.rax.cast_signed();
        if RESTARTS.contains(&answer) {
            let mut again = regs;
            again.rax = patch.goal.nr().into();
            again.rip -= ptrace::SYSCALL;
            again.orig_rax = u64::MAX;
            patch.stage = Stage::Before;
            self.patches.threads.insert(tid, patch);
            let _ = ptrace::set_registers(tid, again).and_then(|()| ptrace::cont(tid, 0));
            return;
        }
        if answer == -i64::from(libc::EBADF) && patch.tries < MOST_TRIES {
            self.patches.has_again(tid, patch.tries + 1);
            let _ = ptrace::set_registers(tid, ptrace::again(patch.before));
            settle(tid, true, patch.mask);
            return;
        }
        let right = match patch.goal {
            Goal::Chdir => answer != 0 || self.stands_in_the_tree(tid) == Ok(true),
            Goal::Exec(..) | Goal::Load(..) => {
                let errno = ptrace::errno_in(answer);
                errno.is_some_and(|errno| {
                    EXEC_FAILS.contains(&errno) || patch.refused == Some(errno)
                })
            }
        };
        if !right {
            settle(tid, false, patch.mask);
            if matches!(patch.goal, Goal::Chdir) {
                self.end_strangers();
            }
            return;
        }
        let (number, id) = patch.got;
        if of_thread(tid, &format!("fd/{number}")) != Ok(id) {
            show(tid, &patch, answer);
            return;
        }
        let mut regs = patch.before;
        (regs.rax, regs.rdi) = (libc::SYS_close as u64, number as u64);
        regs.orig_rax = u64::MAX;
        regs.rip -= ptrace::SYSCALL;
        patch.stage = Stage::Closes(answer, Close::Before);
        self.patches.threads.insert(tid, patch);
        let _ = ptrace::set_registers(tid, regs).and_then(|()| ptrace::cont_to_call(tid, 0));
    }

    /// A thread that is to close a descriptor is about to make a call.
    fn about_to_close(&mut self, tid: u32, answer: i64) {
        let Some(patch) = self.patches.threads.get_mut(&tid) else { return };
        let Ok(regs) = ptrace::registers(tid) else { return };
        if (regs.orig_rax, regs.rdi) == (libc::SYS_close as u64, patch.got.0 as u64) {
            patch.stage = Stage::Closes(answer, Close::Called);
            let _ = ptrace::cont_to_call(tid, 0);
            return;
        }
        // Somebody changed the instruction under it.
        let mask = patch.mask;
        self.patches.forget(tid);
        settle(tid, false, mask);
    }

    /// The descriptor is closed, by this thread, or by another one before.
    fn closed(&mut self, tid: u32, answer: i64) {
        if let Some(patch) = self.patches.threads.remove(&tid) {
            show(tid, &patch, answer);
        }
    }

    /// Kills all who stand in a directory that is none of the tree's, until none does.
    fn end_strangers(&self) {
        // Where it cannot be looked who they are, it is looked again.
        while self.end_who_stand_elsewhere() != Ok(false) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills those that are found; whether there were any.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: not all were looked at.
    fn end_who_stand_elsewhere(&self) -> Result<bool> {
        let mut found = false;
        for process in kin::descendants()? {
            for thread in kin::threads_of(process)? {
                // Who has ended stands nowhere.
                if self.stands_in_the_tree(thread) == Ok(false) {
                    process::kill(process, libc::SIGKILL);
                    found = true;
                }
            }
        }
        Ok(found)
    }

    /// # Errors
    ///
    /// - `ENOENT`: the thread is gone.
    fn stands_in_the_tree(&self, tid: u32) -> Result<bool> {
        of_thread(tid, "cwd").map(|id| self.cookies.stands_for(id).is_some())
    }
}

/// Lets a stopped thread see an answer, as if nothing else had been.
fn show(tid: u32, patch: &Patch, answer: i64) {
    let mut regs = patch.before;
    regs.rax = answer.cast_unsigned();
    regs.orig_rax = u64::MAX;
    let _ = ptrace::set_registers(tid, regs);
    settle(tid, true, patch.mask);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{mapped::Image, passed::Looked};
    use std::sync::mpsc;

    /// This process, as if a thread of it with the other number had been let run a program.
    fn with_exec_of(tid: u32) -> Patches {
        let mut patches = Patches::default();
        let image = Image { program: HostId::new(1, 1), interpreter: None };
        let passed = Passed::new(std::process::id(), b"/p".to_vec(), Looked::Before(image), None);
        patches.passed.insert(tid, passed);
        patches
    }

    /// While this is done there is another thread, of this number.
    fn beside_a_thread(does: impl FnOnce(u32)) {
        let ((says, said), (ends, end)) = (mpsc::channel(), mpsc::channel::<()>());
        let thread = std::thread::spawn(move || {
            let _ = says.send(rustix::thread::gettid().as_raw_pid() as u32);
            let _ = end.recv();
        });
        does(said.recv().unwrap());
        drop(ends);
        thread.join().unwrap();
    }

    #[test]
    fn the_memory_of_a_process_with_other_threads_is_the_old_one() {
        let own = std::process::id();
        let patches = with_exec_of(own);
        assert!(patches.is_in_exec(own) && !patches.is_in_exec(own + 1));
        beside_a_thread(|tid| {
            assert_eq!([own, tid].map(|tid| patches.with_new_memory(tid)), [None, None]);
        });
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut patches = with_exec_of(own);
        let alone = child.id();
        assert_eq!(patches.with_new_memory(alone), None);
        patches.passed.get_mut(&own).unwrap().process = alone;
        assert_eq!(patches.with_new_memory(alone), Some(alone));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_first_thread_waits_whose_number_is_the_new_programs() {
        let own = std::process::id();
        let [stat, exec] = [libc::SYS_stat, libc::SYS_execve].map(|nr| nr as u32);
        let other = u32::MAX >> 1;
        assert!(with_exec_of(other).has_to_wait(own, stat));
        // It is the one that is in exec.
        assert!(!with_exec_of(own).has_to_wait(own, stat));
        beside_a_thread(|tid| {
            assert!(!with_exec_of(other).has_to_wait(tid, stat));
            assert!(with_exec_of(other).has_to_wait(tid, exec));
        });
    }
}
