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
use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{self, AssertUnwindSafe},
    thread,
};

thread_local! {
    static CALL: Cell<Call> = const { Cell::new(Call { vfs: 0, depth: 0, busy: false }) };
    /// Without a destructor: another thread-local that goes may be an open file's last place. Between calls it holds no memory.
    static REST: ManuallyDrop<RefCell<Rest>> = const { ManuallyDrop::new(RefCell::new(Rest::NONE)) };
}

/// The calls that this thread is in, of one machine: all there is to know, mostly.
#[derive(Clone, Copy)]
struct Call {
    /// The machine's number.
    vfs: u32,
    depth: u32,
    /// Whether there is a rest.
    busy: bool,
}

/// What is seldom there.
struct Rest {
    /// Other machines that the thread is in a call of, and how deep: their file systems ask one another.
    others: Vec<(u32, u32)>,
    noted: Vec<(u32, MountId)>,
    /// The mounts that go now, from behind.
    batch: Vec<(u32, MountId)>,
}

impl Rest {
    const NONE: Self = Self { others: Vec::new(), noted: Vec::new(), batch: Vec::new() };

    fn is_none(&self) -> bool {
        self.others.is_empty() && self.noted.is_empty() && self.batch.is_empty()
    }

    /// The next mount of a machine that goes.
    fn next(&mut self, vfs: u32) -> Option<MountId> {
        let of_it = |noted: &(u32, MountId)| noted.0 == vfs;
        if !self.batch.iter().any(of_it) {
            self.batch.extend(self.noted.extract_if(.., |noted| of_it(noted)));
        }
        let last = self.batch.iter().rposition(of_it)?;
        Some(self.batch.remove(last).1)
    }
}

/// Looks at both, the slow way.
fn slowly<T>(f: impl FnOnce(&mut Call, &mut Rest) -> T) -> T {
    REST.with(|rest| {
        let (mut call, mut rest) = (CALL.get(), rest.borrow_mut());
        let done = f(&mut call, &mut rest);
        call.busy = !rest.is_none();
        if !call.busy {
            *rest = Rest::NONE;
        }
        CALL.set(call);
        done
    })
}

/// A call, or a part of one, in which nothing goes.
#[derive(Debug)]
#[must_use = "what is noted is done when this is dropped"]
pub(crate) struct TaskWork<'v> {
    vfs: &'v Vfs,
    /// It is the thread's.
    _here: PhantomData<*const ()>,
}

impl Vfs {
    /// Begins a call in which nothing goes.
    #[inline]
    pub(crate) fn task_work(&self) -> TaskWork<'_> {
        let call = CALL.get();
        if !call.busy && (call.depth == 0 || call.vfs == self.number) {
            CALL.set(Call { vfs: self.number, depth: call.depth + 1, busy: false });
        } else {
            self.begin_slowly();
        }
        TaskWork { vfs: self, _here: PhantomData }
    }

    #[cold]
    fn begin_slowly(&self) {
        slowly(|call, rest| {
            let other = rest.others.iter_mut().find(|(vfs, _)| *vfs == self.number);
            match other {
                Some((_, depth)) => *depth += 1,
                None if call.depth == 0 || call.vfs == self.number => {
                    (call.vfs, call.depth) = (self.number, call.depth + 1);
                }
                None => rest.others.push((self.number, 1)),
            }
        });
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
        slowly(|_, rest| {
            let noted = (self.vfs.number, id);
            // Often by its tree, then by its last holder.
            if rest.noted.last() != Some(&noted) {
                rest.noted.push(noted);
            }
        });
    }

    /// The next mount that goes. None where all is done, or another call goes on, which ends it: then this one is over.
    #[cold]
    fn next(&self) -> Option<MountId> {
        let number = self.vfs.number;
        slowly(|call, rest| {
            let other = rest.others.iter().position(|(vfs, _)| *vfs == number);
            let depth = other.map_or(call.depth, |at| rest.others[at].1);
            if depth == 1
                && let Some(id) = rest.next(number)
            {
                return Some(id);
            }
            match other {
                Some(at) if depth == 1 => _ = rest.others.swap_remove(at),
                Some(at) => rest.others[at].1 -= 1,
                None => call.depth -= 1,
            }
            None
        })
    }
}

impl Drop for TaskWork<'_> {
    #[inline]
    fn drop(&mut self) {
        let call = CALL.get();
        if call.busy {
            self.end_slowly();
        } else {
            CALL.set(Call { depth: call.depth - 1, ..call });
        }
    }
}

impl TaskWork<'_> {
    #[cold]
    fn end_slowly(&self) {
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
