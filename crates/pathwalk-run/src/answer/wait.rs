//! Calls that wait for somebody else, as who opens a fifo does, for ever if need be.
//!
//! ```text
//!   the program's thread    waits for its answer; nothing but what kills it ends that
//!   one for each such call  looks whether it still does, and whether it has a signal to take
//!   the worker              does what waits, and is interrupted then
//! ```
//!
//! A call that was interrupted answers as in the kernel, which makes of it what the signal's handler says: the call once more, or
//! `EINTR`. What was begun is undone, as the kernel does it for the worker.
//!
//! The kernel does that for a thread alone that is marked as having something to take before it returns: by a signal of its own it is, and
//! by one of its process where it is the only thread. Of several one is, which nobody is told; so the thread is marked here then.
//!
//! Linux: `recalc_sigpending`, `complete_signal` and `do_signal_stop` in `kernel/signal.c`.

use crate::{
    cpu,
    engine::{Caller, Engine, Reply},
    kin,
    sys::{answer, process, ptrace, seccomp::Listener},
};
use pathwalk::{Errno, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::pread,
    pipe::{PipeFlags, pipe_with},
    thread::gettid,
};
use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

/// How often it is looked whether a call is waited for, and whether a worker that is to end did.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const LOOK_SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Each so manieth time it is looked whether the process stops, and of so many of its threads.
const TURNS: u32 = 5;
const THREADS: usize = 16;
/// More than the kernel says of most threads; and of one in as many groups as there can be.
const STATUS: usize = 8 << 10;
const STATUS_OF_MANY_GROUPS: usize = 1 << 20;

/// Has a call answered by a thread of its own, as it may take long.
///
/// # Errors
///
/// - `EAGAIN`: no thread can be made.
pub(super) fn later(answer: impl FnOnce() + Send + 'static) -> Result<Reply> {
    cpu::is_to_make_a_thread();
    match std::thread::Builder::new().spawn(answer) {
        Ok(_) => Ok(Reply::Later),
        Err(_) => Err(Errno::EAGAIN),
    }
}

/// Who waits for an answer.
pub(super) struct Waiting {
    pub(super) listener: Arc<Listener>,
    pub(super) id: u64,
    /// Tells that the thread is gone.
    thread: Option<Arc<OwnedFd>>,
    signals: Option<Signals>,
}

impl Waiting {
    pub(super) fn new(engine: &mut Engine, caller: &Caller) -> Self {
        Self {
            listener: Arc::clone(&engine.listener),
            id: caller.id,
            thread: engine.thread(caller.tid).ok(),
            signals: Signals::of(caller.tid),
        }
    }

    /// Does what waits for somebody else, until that is done or who asked for it has a signal to take, or does not wait any more.
    ///
    /// # Errors
    ///
    /// - those of what is done; `EINTR` where it was interrupted, and then alone.
    /// - `EAGAIN`, `EMFILE`: no thread can be made.
    pub(super) fn have<T: Send>(&mut self, work: impl Fn() -> Result<T> + Send) -> Result<T> {
        let Self { listener, id, thread, signals } = self;
        let (done, works) = answer(pipe_with(PipeFlags::CLOEXEC))?;
        let (worker, ends) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (by, ends) = (&worker, &ends);
            let does = move || {
                let _works = works;
                process::be_interruptible();
                by.store(gettid().as_raw_nonzero().get().cast_unsigned(), Relaxed);
                loop {
                    match work() {
                        Err(Errno::EINTR) if !ends.load(Relaxed) => {}
                        done => return done,
                    }
                }
            };
            let spawned = std::thread::Builder::new().spawn_scoped(scope, does);
            let working = spawned.map_err(|_| Errno::EAGAIN)?;
            let mut fds = vec![PollFd::new(&done, PollFlags::empty())];
            fds.extend(thread.as_ref().map(|thread| PollFd::new(thread, PollFlags::IN)));
            loop {
                let time = if ends.load(Relaxed) { LOOK_SOON } else { LOOK };
                // What is done at once is done, whichever signal came meanwhile.
                let _ = poll(&mut fds, Some(&time));
                if !fds[0].revents().is_empty() {
                    break;
                }
                if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
                    fds.truncate(1);
                }
                if !ends.load(Relaxed) {
                    let gone = !listener.is_valid(*id);
                    let mut taken = || signals.as_mut().is_some_and(Signals::are_to_be_taken);
                    ends.store(gone || taken(), Relaxed);
                }
                if ends.load(Relaxed) && worker.load(Relaxed) != 0 {
                    // It may not have begun to wait.
                    process::interrupt(worker.load(Relaxed));
                }
            }
            working.join().unwrap_or(Err(Errno::EIO))
        })
    }

    /// Answers a call that failed; one that was interrupted is made again, if the signal's handler does not say otherwise. Who does not
    /// wait any more needs no answer.
    pub(super) fn fails(&self, errno: Errno) {
        let _ = match errno {
            Errno::EINTR => self.listener.restart(self.id),
            errno => self.listener.send(self.id, Err(errno)),
        };
    }
}

/// The signals of a thread that waits, as the kernel tells of them.
struct Signals {
    tid: u32,
    status: File,
    /// Those of its process that it might take, when it was looked last.
    seen: u64,
    looks: u32,
}

impl Signals {
    fn of(tid: u32) -> Option<Self> {
        let status = File::open(format!("/proc/{tid}/status")).ok()?;
        Some(Self { tid, status, seen: 0, looks: 0 })
    }

    /// Whether the thread has something to take, and is marked as one that has.
    fn are_to_be_taken(&mut self) -> bool {
        let mut text = [0; STATUS];
        let Ok(len) = pread(&self.status, &mut text, 0) else { return false };
        let of_many_groups = || {
            let mut text = vec![0; STATUS_OF_MANY_GROUPS];
            let len = pread(&self.status, &mut text, 0).ok()?;
            pending(&text[..len])
        };
        let Some(Pending { threads, own, process }) = pending(&text[..len]).or_else(of_many_groups)
        else {
            return false;
        };
        if own != 0 || threads == 1 {
            return own | process != 0;
        }
        // Another thread is mostly about to take it.
        let stays = process & self.seen != 0;
        self.seen = process;
        self.looks = self.looks.wrapping_add(1);
        (stays || self.looks.is_multiple_of(TURNS) && is_stopping(self.tid))
            && ptrace::mark(self.tid).is_ok()
    }
}

/// What a thread might take: its process's threads, and the signals of its own and of its process that it has not blocked. What is ignored
/// is not there.
#[derive(Debug, PartialEq, Eq)]
struct Pending {
    threads: u64,
    own: u64,
    process: u64,
}

fn pending(status: &[u8]) -> Option<Pending> {
    let number = |name: &[u8], radix| {
        let mut lines = status.split(|&byte| byte == b'\n');
        let text = lines.find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(std::str::from_utf8(text).ok()?.trim(), radix).ok()
    };
    let blocked = number(b"SigBlk:", 16)?;
    Some(Pending {
        threads: number(b"Threads:", 10)?,
        own: number(b"SigPnd:", 16)? & !blocked,
        process: number(b"ShdPnd:", 16)? & !blocked,
    })
}

/// Whether another thread of the process is stopped: then all of them are to stop.
fn is_stopping(tid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{tid}/task")) else { return false };
    let stopped = |path: std::path::PathBuf| {
        let stat = kin::read(path.join("stat")).ok().flatten().unwrap_or_default();
        let name_ends = stat.iter().rposition(|&byte| byte == b')');
        name_ends.is_some_and(|at| stat[at..].starts_with(b") T "))
    };
    threads.flatten().take(THREADS).any(|thread| stopped(thread.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_blocked_is_not_taken() {
        let status = b"Name:\tx\nThreads:\t12\nSigQ:\t0/1\nSigPnd:\t0000000000000200\n\
            ShdPnd:\t0000000000004002\nSigBlk:\t0000000000000202\nSigIgn:\t0000000000000000\n";
        assert_eq!(pending(status), Some(Pending { threads: 12, own: 0, process: 0x4000 }));
        assert_eq!(pending(b"Threads:\t1\n"), None);
    }
}
