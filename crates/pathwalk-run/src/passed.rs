//! exec that the kernel does as it was called.
//!
//! ```text
//!   execve("/a", …) ──► the library finds the file; by that path the host has the same
//!      ──► passed on ──► a stop before the new program's first instruction
//!      what runs is that file, by that name, and its interpreter the one that was found, or the process is killed
//!      it fails ──► a stop ──► the thread sees the error, if that tells nothing of the path; or makes the call again, by a descriptor
//!   execve("/a", …) again, and nothing happened on the way ──► passed on, and looked at in front of its first instruction all the same
//! ```
//!
//! The thread gets no descriptor and no other registers, and makes no second call: one stop takes the place of three. The kernel reads
//! the path once more, which another thread may have changed, as it may change what a call by a descriptor is given (`patch`). So
//! it is not what the call was given that is believed, but what came of it: which file runs, which interpreter, by which name the
//! kernel knows it, and what a script's interpreter is given. Else a script of the host's could be put in the place of its interpreter, or
//! of another script, and tell what its first line is.
//!
//! Programs in a directory that the program itself may change are run by a descriptor, so that nobody is killed who exchanges what it runs.
//! What somebody outside exchanged meanwhile is looked up once more.

use crate::{
    answer::exec,
    auxv,
    cookies::HostId,
    cpu::Kept,
    engine::{Caller, Engine, Reply},
    inside::Before,
    mapped::{self, Image},
    patch::RESTARTS,
    procfs,
    program::Program,
    sys::{process, ptrace},
};
use pathwalk::{Errno, Executable, File, Result};
use rustix::fs;
use std::{collections::HashMap, ops::Range};

/// So often a path is looked up that led elsewhere when the kernel looked it up.
const MOST_LOOKS: u32 = 16;

/// A thread whose call the kernel does.
pub(crate) struct Passed {
    /// As which process it reports when it has ended the others.
    pub(crate) process: u32,
    path: Vec<u8>,
    /// What runs.
    runs: Looked,
    kept: Option<Kept>,
}

impl Passed {
    pub(crate) fn new(process: u32, path: Vec<u8>, runs: Looked, kept: Option<Kept>) -> Self {
        Self { process, path, runs, kept }
    }

    /// The thread may run where it might before, also where it is its process's first one by now.
    pub(crate) fn is_kept_no_more(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.lets_go(self.process);
        }
    }
}

/// What a path leads to.
pub(crate) enum Looked {
    /// It was looked for.
    Up(Runs),
    /// It is what it was.
    Before(Image),
}

/// A program of the tree that the kernel finds as the library does: by its path, and its interpreter by its own.
pub(crate) struct Runs {
    pub(crate) program: Program,
    pub(crate) interpreter: Option<(Executable, HostId)>,
    /// What it is given instead of the first argument where it is the interpreter of a script, by what the script says.
    pub(crate) before: Vec<Vec<u8>>,
}

/// With what a call may fail that was passed on: what says nothing of a file that the host has by that path. After any other failure the call
/// is made again: then it is answered by the library, or the file that it finds is run by a descriptor.
const SHOWN: [Errno; 2] = [Errno::ENOMEM, Errno::EAGAIN];

/// So many programs are kept.
const MOST: usize = 1 << 8;

/// Programs that were run by such a call, by their paths. As long as nothing happens on the ways to them they are not looked for again; what
/// runs is looked at each time: the tree's way is not all of the host's, and the stack is written to by others who ask for it.
#[derive(Default)]
pub(crate) struct RunBefore(HashMap<Vec<u8>, Known>);

struct Known {
    image: Image,
    /// The program and its interpreter, as places.
    places: Vec<(HostId, File)>,
    parts: Vec<(usize, u64)>,
    /// So many calls its interpreter made of which it was heard when it began.
    calls: u32,
}

impl RunBefore {
    /// How many calls the interpreter makes when what was run by this path begins; none where that is not known.
    pub(crate) fn calls(&self, path: &[u8]) -> u32 {
        self.0.get(path).map_or(0, |known| known.calls)
    }

    /// It made so many.
    pub(crate) fn made(&mut self, path: &[u8], calls: u32) {
        if let Some(known) = self.0.get_mut(path) {
            known.calls = known.calls.max(calls);
        }
    }
}

impl Runs {
    fn image(&self) -> Image {
        let interpreter = self.interpreter.as_ref().map(|(_, id)| *id);
        Image { program: self.program.id(), interpreter }
    }

    /// The code in which a process begins at this address, of which no instruction ran yet, if it runs this; empty where the kernel does not
    /// say which that is.
    fn is_run_by(&self, process: u32, at: u64) -> Option<Range<u64>> {
        let image = self.image();
        let is_it = || mapped::is_run(process, image.program, self.interpreter.as_ref());
        image.is_run_by(process, at).or_else(|| is_it().then_some(0..0))
    }

    /// What is kept of it, with what it hangs on; none of a script, and of what has no place.
    fn known(&self, parts: Vec<(usize, u64)>) -> Option<Known> {
        let Self { program, interpreter, before } = self;
        let program = (program.id(), program.file().filter(|_| before.is_empty())?);
        let interpreter = interpreter.as_ref().map(|(file, id)| (*id, file.file()));
        let image = self.image();
        let places = [program].into_iter().chain(interpreter);
        let places = places.map(|(id, file)| (id, file.place_alone())).collect();
        Some(Known { image, places, parts, calls: 0 })
    }
}

impl Looked {
    /// The same.
    fn is_run_by(&self, process: u32, at: u64) -> Option<Range<u64>> {
        match self {
            Self::Up(runs) => runs.is_run_by(process, at),
            Self::Before(image) => image.is_run_by(process, at),
        }
    }

    /// What it is given instead of the first argument.
    fn before(&self) -> &[Vec<u8>] {
        match self {
            Self::Up(runs) => &runs.before,
            Self::Before(_) => &[],
        }
    }

    fn program(&self) -> HostId {
        match self {
            Self::Up(runs) => runs.program.id(),
            Self::Before(image) => image.program,
        }
    }
}

impl Engine {
    /// What a path led to when it was run before, if it still leads there.
    pub(crate) fn runs_as_before(&mut self, path: &[u8]) -> Option<Looked> {
        let known = self.run_before.0.get(path)?;
        if !self.inside.as_ref()?.are_of_now(&known.parts) {
            self.run_before.0.remove(path);
            return None;
        }
        let (image, places) = (known.image, known.places.iter());
        places.for_each(|(id, file)| drop(self.cookies.know(*id, file)));
        Some(Looked::Before(image))
    }

    /// Keeps what a path leads to that is run by it, and the path of its interpreter; `before` it was looked for this was so.
    pub(crate) fn keeps(
        &mut self,
        before: Option<&Before>,
        (path, interpreter): (&[u8], Option<&[u8]>),
        runs: &Runs,
    ) {
        let parts = |path: &[u8]| self.stays_by(before?, path);
        let Some(mut all) = parts(path) else { return };
        if let Some(path) = interpreter {
            let Some(more) = parts(path) else { return };
            all.extend(more);
        }
        let Some(known) = runs.known(all) else { return };
        if self.run_before.0.len() >= MOST {
            self.run_before.0.clear();
        }
        self.run_before.0.insert(path.to_vec(), known);
    }

    /// Lets the kernel do the call, which runs this by that path.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the thread is traced by somebody.
    pub(crate) fn pass_exec(
        &mut self,
        caller: &Caller,
        runs: Looked,
        path: Vec<u8>,
    ) -> Result<Reply> {
        let tid = caller.tid;
        let process = procfs::process_of_thread(tid).unwrap_or(tid);
        self.still_waits(caller)?;
        ptrace::seize(tid)?;
        let kept = match runs {
            Looked::Before(_) => self.stays_to_run(tid, &path),
            Looked::Up(_) => Kept::here(tid),
        };
        let _ = ptrace::interrupt(tid);
        if self.listener.pass(caller.id).is_ok() {
            self.patches.passed.insert(tid, Passed::new(process, path, runs, kept));
        } else if self.wait_for_stop(tid) {
            // It makes the call again, or is about to end.
            let _ = ptrace::detach(tid);
        }
        Ok(Reply::Later)
    }

    /// The thread runs another program, of which no instruction ran yet, as this process.
    pub(crate) fn passed(&mut self, process: u32, passed: Passed) {
        let Passed { path, runs, mut kept, .. } = passed;
        if let Some(kept) = &mut kept {
            kept.renumbered(process);
        }
        // Where it does not begin at once it goes on where there is room.
        let kept = kept.filter(|_| self.stays.begins(process));
        self.loads.runs_another(process);
        let script = !runs.before().is_empty();
        // Another call may be under way; what was asked for that is not what is asked here.
        self.after();
        let right = ptrace::registers(process).is_ok_and(|regs| {
            let named = auxv::is_run_as(process, regs.rsp, &path, runs.before()) == Ok(true);
            if !named {
                return false;
            }
            let code = runs.is_run_by(process, regs.rip);
            let is_it = code.is_some();
            if let Some(code) = code {
                self.inside.iter_mut().for_each(|inside| inside.runs(process, runs.program()));
                self.has_begun(process, code, kept);
            }
            is_it || !script && self.runs_by_now(process, &path, regs.rip)
        });
        if !right {
            process::kill(process, libc::SIGKILL);
        }
        let _ = ptrace::detach(process);
    }

    /// Whether a process runs what that path leads to by now; or what the tree has by the name that the host has for it, where it was
    /// exchanged once more. Either of them the program may run.
    fn runs_by_now(&mut self, process: u32, path: &[u8], at: u64) -> bool {
        self.asker.set(process);
        (0..MOST_LOOKS).any(|look| {
            let by_host = fs::readlink(format!("/proc/{process}/exe"), Vec::new());
            let path = match &by_host {
                Ok(path) if look % 2 == 1 => path.as_bytes(),
                _ => path,
            };
            let Ok(Some(runs)) = exec::found_again(self, path) else { return false };
            let right = runs.is_run_by(process, at).is_some();
            if let (true, Some(file)) = (right, runs.program.file()) {
                self.know(runs.program.id(), file);
            }
            right
        })
    }

    /// The call failed, and the thread did not see it yet.
    pub(crate) fn failed_to_pass(&mut self, tid: u32, passed: Passed) {
        drop(passed.kept);
        self.cwds.moved();
        // Who is killed has none.
        if let Ok(regs) = ptrace::registers(tid) {
            let answer = regs.rax.cast_signed();
            let errno = ptrace::errno_in(answer);
            let shown = errno.is_some_and(|errno| SHOWN.contains(&errno));
            if !shown && !RESTARTS.contains(&answer) {
                self.patches.has_again(tid, 1);
                let _ = ptrace::set_registers(tid, ptrace::again(regs));
            }
        }
        let _ = ptrace::detach(tid);
    }
}
