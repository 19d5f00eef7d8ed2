//! On which CPU a thread of the program is woken.
//!
//! An answer wakes it on the CPU where the supervisor runs (`Listener::wake_synchronously`). What gives it a descriptor, stops it or lets
//! it go on wakes it on one that is idle, if there is one: that has to be got out of its sleep, and the next call comes from there. Each of
//! these takes several times what the call does. So until that is done the thread may run on no other CPU than this. It never sees that
//! itself: it runs no instruction meanwhile. Before another one is told about it nobody is kept (`Engine::nobody_stays`).
//!
//! From when somebody says where, or by which policy, anybody runs, or tries to, nobody is kept any more ([`is_said`]): what is said then holds, also where the kernel
//! does it while this process has something else to do.

use parking_lot::Mutex;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A thread that waits for the supervisor, and is kept on its CPU meanwhile.
pub(crate) struct Kept {
    thread: Pid,
    cpus: Cpus,
}

/// Somebody said where anybody runs.
static SAID: AtomicBool = AtomicBool::new(false);

/// Somebody is about to say where anybody runs, or how: nobody is kept from here on.
pub(crate) fn is_said() {
    SAID.store(true, Relaxed);
}

/// The supervisor's thread, while it is kept.
static SUPERVISOR: Mutex<Option<(Pid, Cpus)>> = Mutex::new(None);

/// This thread is about to make another one, or asks how many CPUs there are: if it is kept it is not from here on, lest the other one be.
pub(crate) fn is_to_make_a_thread() {
    if let Some((_, cpus)) = SUPERVISOR.lock().take_if(|(thread, _)| *thread == gettid()) {
        cpus.let_thread_go(gettid());
    }
}

/// Where a thread may run, if it is there.
pub(crate) fn of(tid: u32) -> Option<CpuSet> {
    sched_getaffinity(Some(pid(tid)?)).ok()
}

/// Where somebody may run who is kept, and who is not.
#[derive(Clone, Copy)]
pub(crate) struct Cpus {
    here: CpuSet,
    before: CpuSet,
}

impl Cpus {
    /// Whether who is kept so may run there.
    pub(crate) fn are(&self, now: &CpuSet) -> bool {
        *now == self.here
    }

    /// Lets a thread go that may run here alone.
    pub(crate) fn let_go(&self, tid: u32) {
        if let Some(thread) = pid(tid) {
            self.let_thread_go(thread);
        }
    }

    fn let_thread_go(&self, thread: Pid) {
        if sched_getaffinity(Some(thread)).is_ok_and(|now| self.are(&now)) {
            let _ = sched_setaffinity(Some(thread), &self.before);
        }
    }
}

impl Kept {
    /// Keeps a thread here; none where it may run on one CPU alone, or not on this, or somebody said where anybody runs.
    pub(crate) fn here(tid: u32) -> Option<Self> {
        Self::thread_here(pid(tid)?)
    }

    /// The same of the thread that asks; none where it is kept.
    pub(crate) fn supervisor() -> Option<Self> {
        if SUPERVISOR.lock().is_some() {
            return None;
        }
        let kept = Self::thread_here(gettid())?;
        *SUPERVISOR.lock() = Some((kept.thread, kept.cpus));
        Some(kept)
    }

    fn thread_here(thread: Pid) -> Option<Self> {
        if SAID.load(Relaxed) {
            return None;
        }
        let before = sched_getaffinity(Some(thread)).ok()?;
        let cpu = sched_getcpu();
        if cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) || before.count() < 2 {
            return None;
        }
        let mut here = CpuSet::new();
        here.set(cpu);
        sched_setaffinity(Some(thread), &here).ok()?;
        Some(Self { thread, cpus: Cpus { here, before } })
    }

    /// Another thread, which is kept since it was made, as this one was.
    pub(crate) fn made(&self, tid: u32) -> Option<Self> {
        Some(Self { thread: pid(tid)?, cpus: self.cpus })
    }

    /// Whether the supervisor is there, too.
    pub(crate) fn is_here(&self) -> bool {
        let cpu = sched_getcpu();
        cpu < CpuSet::MAX_CPU && self.cpus.here.is_set(cpu)
    }

    /// Where those may run who have their CPU of it, while it is kept and when it is not.
    pub(crate) fn cpus(&self) -> Cpus {
        self.cpus
    }

    /// Lets it go in the middle of running a program, by which it gets its process's number where it was not its first.
    pub(crate) fn lets_go(self, process: u32) {
        let cpus = self.cpus;
        // Whichever it has by then. The other is another thread's, who has this one CPU only if somebody outside bound him there.
        drop(self);
        cpus.let_go(process);
    }

    /// The thread has another number: it ran a program, and was not its process's first.
    pub(crate) fn renumbered(&mut self, tid: u32) {
        self.thread = pid(tid).unwrap_or(self.thread);
    }
}

impl Drop for Kept {
    /// Lets it run where it might before.
    fn drop(&mut self) {
        self.cpus.let_thread_go(self.thread);
        SUPERVISOR.lock().take_if(|(thread, _)| *thread == self.thread);
    }
}

fn pid(tid: u32) -> Option<Pid> {
    Pid::from_raw(tid.cast_signed())
}
