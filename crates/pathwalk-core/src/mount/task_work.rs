//! What is left to do when a call ends: mounts that nobody holds any more go, and file systems with them.
//!
//! A mount may lose its last holder in the middle of a call, which has a name reserved, or more to tell those who watch. It is
//! noted then, and goes when this thread has come out of the last [`TaskWork`] of the machine; each reserved name is one.
//!
//! ```text
//!   batch   the mounts that were noted, the last first     each is freed; what hung in it is noted
//!   batch   the mounts that were noted meanwhile           …
//! ```
//!
//! Linux: `task_work_add` in `mntput_no_expire`, `task_work_run`.

use super::MountId;
use crate::vfs::Vfs;
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{self, AssertUnwindSafe},
    thread,
};

/// By machine; mostly it is one.
type Works = SmallVec<[Work; 1]>;

thread_local! {
    /// Without a destructor: another thread-local that goes may be an open file's last place. Between calls it holds no memory.
    static WORKS: ManuallyDrop<RefCell<Works>> = ManuallyDrop::new(RefCell::new(SmallVec::new()));
}

/// What a thread has to do for a machine that it is in a call of.
struct Work {
    /// The machine's number.
    vfs: u32,
    /// How many of its calls the thread is in.
    depth: u32,
    noted: Vec<MountId>,
    /// The mounts that go now, from behind.
    batch: Vec<MountId>,
}

/// A call, or a part of one, in which nothing goes.
#[derive(Debug)]
#[must_use = "what is noted is done when this is dropped"]
pub(crate) struct TaskWork<'v> {
    vfs: &'v Vfs,
    /// It is the thread's.
    _here: PhantomData<*const ()>,
}

/// What this thread has to do.
fn works<T>(f: impl FnOnce(&mut Works) -> T) -> T {
    WORKS.with(|works| f(&mut works.borrow_mut()))
}

impl Vfs {
    /// Begins a call in which nothing goes.
    pub(crate) fn task_work(&self) -> TaskWork<'_> {
        works(|works| match works.iter_mut().find(|work| work.vfs == self.number) {
            Some(work) => work.depth += 1,
            None => {
                let (noted, batch) = (Vec::new(), Vec::new());
                works.push(Work { vfs: self.number, depth: 1, noted, batch });
            }
        });
        TaskWork { vfs: self, _here: PhantomData }
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

    /// The next mount that goes. None where all is done, or another call goes on: that one ends it.
    fn next(&self) -> Option<MountId> {
        works(|works| {
            let at = works.iter().position(|work| work.vfs == self.vfs.number);
            let at = at.expect("it is there until the last call ends");
            let work = &mut works[at];
            if work.depth == 1 {
                if work.batch.is_empty() {
                    std::mem::swap(&mut work.batch, &mut work.noted);
                }
                if let Some(id) = work.batch.pop() {
                    return Some(id);
                }
            }
            work.depth -= 1;
            if work.depth == 0 {
                works.swap_remove(at);
                works.shrink_to_fit();
            }
            None
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Work) -> T) -> T {
        works(|works| {
            let work = works.iter_mut().find(|work| work.vfs == self.vfs.number);
            f(work.expect("it is there until the last call ends"))
        })
    }
}

impl Drop for TaskWork<'_> {
    fn drop(&mut self) {
        let mut panicked = None;
        while let Some(id) = self.next() {
            // File systems that panic while they go keep nobody else.
            let freed = panic::catch_unwind(AssertUnwindSafe(|| self.vfs.free_detached(id)));
            panicked = panicked.or(freed.err());
        }
        if let Some(panic) = panicked
            && !thread::panicking()
        {
            panic::resume_unwind(panic);
        }
    }
}
