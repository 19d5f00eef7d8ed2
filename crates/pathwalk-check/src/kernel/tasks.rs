//! The threads that stand for tasks, as procfs shows them.

use super::sys::{open_proc, read_all};
use crate::call::{Call, Who};
use std::{
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
};

/// The numbers of the threads, and whether they can see themselves.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tids: [AtomicI64; Who::ALL.len()],
    procfs: AtomicBool,
}

impl Tasks {
    /// Notes a thread.
    pub(crate) fn set(&self, who: Who, tid: i64) {
        self.tids[who as usize].store(tid, Relaxed);
    }

    /// Whether a procfs was mounted in their world, by this call or before.
    pub(crate) fn have_procfs(&self, call: &Call) -> bool {
        if matches!(call, Call::Mountproc { .. }) {
            self.procfs.store(true, Relaxed);
        }
        self.procfs.load(Relaxed)
    }

    /// mountinfo of each task.
    pub(crate) fn mounts(&self) -> Vec<(&'static str, Vec<u8>)> {
        Who::ALL.map(|who| (who.name(), read_all(&self.open_proc(who, "mountinfo")))).into()
    }

    /// The mount namespace of a task.
    pub(crate) fn namespace_of(&self, who: Who) -> OwnedFd {
        self.open_proc(who, "ns/mnt")
    }

    fn open_proc(&self, who: Who, name: &str) -> OwnedFd {
        open_proc(&format!("self/task/{}/{name}", self.tids[who as usize].load(Relaxed)))
    }
}
