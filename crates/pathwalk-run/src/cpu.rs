//! On which CPU a thread of the program is woken.
//!
//! An answer wakes it on the CPU where the supervisor runs (`Listener::wake_synchronously`). What gives it a descriptor, stops it or lets
//! it go on wakes it on one that is idle, if there is one: that has to be got out of its sleep, and the next call comes from there. Each of
//! these takes several times what the call does. So until that is done the thread may run on no other CPU than this. It never sees that
//! itself: it runs no instruction meanwhile. Another one that asks about it just then does (`sched_getaffinity`).

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A thread that waits for the supervisor, and is kept on its CPU meanwhile.
pub(crate) struct Kept {
    thread: Pid,
    here: CpuSet,
    /// Where it may run.
    before: CpuSet,
}

impl Kept {
    /// Keeps a thread here; none where it may run on one CPU alone, or not on this.
    pub(crate) fn here(tid: u32) -> Option<Self> {
        let thread = pid(tid)?;
        let before = sched_getaffinity(Some(thread)).ok()?;
        let cpu = sched_getcpu();
        if cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) || before.count() < 2 {
            return None;
        }
        let mut here = CpuSet::new();
        here.set(cpu);
        sched_setaffinity(Some(thread), &here).ok()?;
        Some(Self { thread, here, before })
    }

    /// The thread has another number: it ran a program, and was not its process's first.
    pub(crate) fn renumbered(&mut self, tid: u32) {
        self.thread = pid(tid).unwrap_or(self.thread);
    }
}

impl Drop for Kept {
    /// Lets it run where it might before, unless somebody said otherwise meanwhile.
    fn drop(&mut self) {
        if sched_getaffinity(Some(self.thread)).is_ok_and(|now| now == self.here) {
            let _ = sched_setaffinity(Some(self.thread), &self.before);
        }
    }
}

fn pid(tid: u32) -> Option<Pid> {
    Pid::from_raw(tid.cast_signed())
}
