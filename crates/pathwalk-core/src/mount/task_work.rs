//! What is left to do when a call ends: mounts that nobody holds any more go, and file systems with them.
//!
//! A mount may lose its last holder in the middle of a call, which has a name reserved, or more to tell those who watch. It is
//! noted then, and goes when the outermost call of this thread to the machine ends:
//!
//! ```text
//!   batch   the mounts that were noted, the last first     each is freed; what hung in it is noted
//!   batch   the mounts that were noted meanwhile           …
//! ```
//!
//! Linux: `task_work_add` in `mntput_no_expire`, `task_work_run`.

use super::MountId;
use crate::vfs::Vfs;
use std::{cell::RefCell, mem::ManuallyDrop};

thread_local! {
    /// Without a destructor: another thread-local that goes may be an open file's last place. Between calls it holds no memory.
    static WORKS: ManuallyDrop<RefCell<Vec<Work>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// What a thread has to do for a machine that it is in a call of.
struct Work {
    /// The machine's number.
    vfs: u32,
    noted: Vec<MountId>,
    /// The mounts that go now, from behind.
    batch: Vec<MountId>,
}

/// A call that may let go of mounts. It is the first thing that the call makes, so that it is the last that goes.
#[must_use = "what is noted is done when this is dropped"]
pub(crate) struct TaskWork<'v> {
    vfs: &'v Vfs,
    outermost: bool,
}

/// What this thread has to do, by machine.
fn works<T>(f: impl FnOnce(&mut Vec<Work>) -> T) -> T {
    WORKS.with(|works| f(&mut works.borrow_mut()))
}

impl Vfs {
    /// Begins a call that may let go of mounts.
    pub(crate) fn task_work(&self) -> TaskWork<'_> {
        let outermost = works(|works| {
            let outermost = works.iter().all(|work| work.vfs != self.number);
            if outermost {
                works.push(Work { vfs: self.number, noted: Vec::new(), batch: Vec::new() });
            }
            outermost
        });
        TaskWork { vfs: self, outermost }
    }

    /// Frees a detached mount when the call ends, if nobody holds it then; at once if this is no call.
    #[cold]
    pub(super) fn free_later(&self, id: MountId) {
        self.task_work().note(id);
    }
}

impl TaskWork<'_> {
    /// Notes a detached mount.
    pub(super) fn note(&self, id: MountId) {
        self.with(|work| work.noted.push(id));
    }

    /// The next mount that goes; none where all is done.
    fn next(&self) -> Option<MountId> {
        self.with(|work| {
            if work.batch.is_empty() {
                std::mem::swap(&mut work.batch, &mut work.noted);
            }
            work.batch.pop()
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Work) -> T) -> T {
        works(|works| {
            let work = works.iter_mut().find(|work| work.vfs == self.vfs.number);
            f(work.expect("it is there until the outermost call ends"))
        })
    }
}

impl Drop for TaskWork<'_> {
    fn drop(&mut self) {
        if !self.outermost {
            return;
        }
        while let Some(id) = self.next() {
            // A file system that panics while it goes keeps nobody else.
            let rest = TaskWork { ..*self };
            self.vfs.free_detached(id);
            std::mem::forget(rest);
        }
        works(|works| {
            works.retain(|work| work.vfs != self.vfs.number);
            works.shrink_to_fit();
        });
    }
}
