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
    engine::{Caller, Engine, Reply, timespec},
    kin,
    sys::{answer, process, ptrace, seccomp::Listener},
};
use pathwalk::{Errno, Result};
use rustix::{
    event::{PollFd, PollFlags, poll},
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
    time::{Duration, Instant},
};

/// How long it is waited before it is looked again whether a call is waited for: this part of how long it was waited, within these bounds.
const PART: u32 = 10;
const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_millis(100);
/// How long a worker that is to end is waited for before it is interrupted once more: twice as long each time. One that cannot be interrupted,
/// as the disk does not answer, has nothing of it.
const FIRST: Duration = Duration::from_millis(1);
const LAST: Duration = Duration::from_millis(50);
/// How often it is looked whether the process stops, and of how many of its threads.
const STOPS: Duration = Duration::from_millis(90);
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
            let (since, mut pace) = (Instant::now(), SOON);
            loop {
                // What is done at once is done, whichever signal came meanwhile.
                let _ = poll(&mut fds, Some(&timespec(pace)));
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
                    let sees = signals.as_ref().is_some_and(|signals| signals.seen != 0);
                    pace =
                        if ends.load(Relaxed) { FIRST } else { next_look(since.elapsed(), sees) };
                } else {
                    pace = next_interruption(pace);
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

/// How long it is waited before it is looked again, of a call that was waited for so long; `sees` says that another thread may take a signal
/// that this one is to take if it does not.
fn next_look(waited: Duration, sees: bool) -> Duration {
    if sees { SOON } else { (waited / PART).clamp(SOON, LATE) }
}

/// How long it is waited before a worker is interrupted once more, the last time it was so long.
fn next_interruption(waited: Duration) -> Duration {
    (2 * waited).min(LAST)
}

/// The signals of a thread that waits, as the kernel tells of them.
struct Signals {
    tid: u32,
    status: File,
    /// Those of its process that it might take, when it was looked last.
    seen: u64,
    /// When it was looked whether the process stops.
    looked: Instant,
}

impl Signals {
    fn of(tid: u32) -> Option<Self> {
        let status = File::open(format!("/proc/{tid}/status")).ok()?;
        Some(Self { tid, status, seen: 0, looked: Instant::now() })
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
            self.seen = 0;
            return own | process != 0;
        }
        // Another thread is mostly about to take it.
        let stays = process & self.seen != 0;
        self.seen = process;
        (stays || self.is_stopping()) && ptrace::mark(self.tid).is_ok()
    }

    fn is_stopping(&mut self) -> bool {
        if self.looked.elapsed() < STOPS {
            return false;
        }
        self.looked = Instant::now();
        is_stopping(self.tid)
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
    // Of a line that was cut the number may be.
    let whole = status.iter().rposition(|&byte| byte == b'\n')?;
    let status = &status[..whole];
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
    fn who_waits_long_is_looked_at_seldom() {
        let looks_in = |time| {
            let mut waited = Duration::ZERO;
            std::iter::from_fn(|| {
                waited += next_look(waited, false);
                (waited <= Duration::from_secs(time)).then_some(())
            })
            .count()
        };
        assert!((20..=50).contains(&looks_in(1)), "{}", looks_in(1));
        assert!(looks_in(61) - looks_in(1) <= 600, "{}", looks_in(61));
        assert_eq!(next_look(Duration::from_secs(60), true), SOON);
        let pace = |last: &Duration| Some(next_interruption(*last));
        let first: Vec<_> = std::iter::successors(Some(FIRST), pace).take(9).collect();
        assert_eq!(
            first.iter().map(Duration::as_millis).collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 32, 50, 50, 50]
        );
    }

    #[test]
    fn what_is_blocked_is_not_taken() {
        let status = b"Name:\tx\nThreads:\t12\nSigQ:\t0/1\nSigPnd:\t0000000000000200\n\
            ShdPnd:\t0000000000004002\nSigBlk:\t0000000000000202\nSigIgn:\t0000000000000000\n";
        assert_eq!(pending(status), Some(Pending { threads: 12, own: 0, process: 0x4000 }));
        assert_eq!(pending(b"Threads:\t1\n"), None);
        let ends = status.iter().rposition(|&byte| byte == b'2').unwrap();
        assert_eq!(pending(&status[..=ends]), None, "cut in the last number that is wanted");
    }
}
