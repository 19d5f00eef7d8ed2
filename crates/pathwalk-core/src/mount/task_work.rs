//! What is left to do when a call ends: mounts that nobody holds any more go, and file systems with them; and a panic goes on that
//! was outlasted.
//!
//! A mount may lose its last holder in the middle of a call, which has a name reserved, or more to tell those who watch. It is
//! noted then, and goes when this thread has come out of the last [`TaskWork`] of the machine; each reserved name is one.
//!
//! ```text
//!   batch   the mounts that were noted, the last first     each is freed; what hung in it is noted
//!   batch   the mounts that were noted meanwhile           …
//! ```
//!
//! A file system that panics when it hears that an inode goes keeps nothing else from going: [`Vfs::outlast`].
//!
//! Linux: `task_work_add` in `mntput_no_expire`, `task_work_run`.

use super::MountId;
use crate::vfs::Vfs;
use smallvec::SmallVec;
use std::{
    any::Any,
    cell::{Cell, RefCell},
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{self, AssertUnwindSafe},
    thread,
};

thread_local! {
    static CALL: Cell<Call> = const { Cell::new(Call { vfs: 0, depth: 0, pending: false }) };
    /// Without a destructor: another thread-local that goes may be an open file's last place. Between calls it holds no memory.
    static PENDING: ManuallyDrop<RefCell<Pending>> = const { ManuallyDrop::new(RefCell::new(Pending::NONE)) };
}

/// The calls that this thread is in, of one machine: all there is to know, mostly.
#[derive(Clone, Copy)]
struct Call {
    /// The machine's number.
    vfs: u32,
    depth: u32,
    /// Whether there is something pending.
    pending: bool,
}

impl Call {
    /// Whether a call of that machine goes on. Then it is not one of the others, whatever is pending.
    fn is_of(self, vfs: u32) -> bool {
        self.depth > 0 && self.vfs == vfs
    }
}

/// What is seldom there.
struct Pending {
    /// Other machines that the thread is in a call of, and how deep: their file systems ask one another.
    others: Vec<(u32, u32)>,
    noted: Noted,
    /// The mounts that go now, from behind.
    batch: Noted,
    /// The first panic that was outlasted.
    panic: Option<Panic>,
}

/// Mounts and their machines; mostly no more than these.
type Noted = SmallVec<[(u32, MountId); 2]>;

/// What a panic says.
type Panic = Box<dyn Any + Send>;

impl Pending {
    const NONE: Self = Self {
        others: Vec::new(),
        noted: SmallVec::new_const(),
        batch: SmallVec::new_const(),
        panic: None,
    };

    fn is_none(&self) -> bool {
        let mounts = !self.noted.is_empty() || !self.batch.is_empty();
        self.others.is_empty() && !mounts && self.panic.is_none()
    }

    /// The next mount of a machine that goes.
    fn next(&mut self, vfs: u32) -> Option<MountId> {
        let of_it = |noted: &(u32, MountId)| noted.0 == vfs;
        if !self.batch.iter().any(of_it) {
            self.noted.retain(|noted| {
                let goes = of_it(noted);
                self.batch.extend(goes.then_some(*noted));
                !goes
            });
        }
        let last = self.batch.iter().rposition(of_it)?;
        Some(self.batch.remove(last).1)
    }
}

/// Looks at both, the slow way.
fn slowly<T>(f: impl FnOnce(&mut Call, &mut Pending) -> T) -> T {
    PENDING.with(|pending| {
        let (mut call, mut pending) = (CALL.get(), pending.borrow_mut());
        let done = f(&mut call, &mut pending);
        call.pending = !pending.is_none();
        if !call.pending {
            *pending = Pending::NONE;
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
        if call.is_of(self.number) || !call.pending && call.depth == 0 {
            CALL.set(Call { vfs: self.number, depth: call.depth + 1, ..call });
        } else {
            self.begin_slowly();
        }
        TaskWork { vfs: self, _here: PhantomData }
    }

    #[cold]
    fn begin_slowly(&self) {
        slowly(|call, pending| {
            let other = pending.others.iter_mut().find(|(vfs, _)| *vfs == self.number);
            match other {
                Some((_, depth)) => *depth += 1,
                None if call.depth == 0 || call.vfs == self.number => {
                    (call.vfs, call.depth) = (self.number, call.depth + 1);
                }
                None => pending.others.push((self.number, 1)),
            }
        });
    }

    /// Does what a file system may panic in. What the caller still has to do is done before the panic goes on, at the end of the
    /// call, at the earliest when what is returned is dropped; of several the first goes on.
    pub(crate) fn outlast(&self, f: impl FnOnce()) -> Option<TaskWork<'_>> {
        let panic = panic::catch_unwind(AssertUnwindSafe(f)).err()?;
        let work = self.task_work();
        let later = slowly(|_, pending| match pending.panic {
            Some(_) => Some(panic),
            None => {
                pending.panic = Some(panic);
                None
            }
        });
        // What it says may be something that calls us when it is dropped.
        drop(later);
        Some(work)
    }

    /// Frees a detached mount when the call ends, if nobody holds it then; at once if this is no call.
    #[cold]
    pub(super) fn free_later(&self, id: MountId) {
        self.task_work().note(id);
    }
}

impl TaskWork<'_> {
    /// Whether its end is that of all of the thread's calls, and nothing waits for that.
    pub(super) fn is_outermost(&self) -> bool {
        let call = CALL.get();
        call.depth == 1 && call.vfs == self.vfs.number && !call.pending
    }

    /// Notes a detached mount.
    pub(super) fn note(&self, id: MountId) {
        slowly(|_, pending| {
            let noted = (self.vfs.number, id);
            // Often by its tree, then by its last holder.
            if pending.noted.last() != Some(&noted) {
                pending.noted.push(noted);
            }
        });
    }

    /// The next mount that goes. None where all is done, or another call goes on, which ends it: then this one is over.
    #[cold]
    fn next(&self) -> Option<MountId> {
        let number = self.vfs.number;
        slowly(|call, pending| {
            let other = pending.others.iter().position(|(vfs, _)| *vfs == number);
            let depth = other.map_or(call.depth, |at| pending.others[at].1);
            if depth == 1
                && let Some(id) = pending.next(number)
            {
                return Some(id);
            }
            match other {
                Some(at) if depth == 1 => _ = pending.others.swap_remove(at),
                Some(at) => pending.others[at].1 -= 1,
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
        // What is pending waits for the end of the outermost.
        if call.pending && !(call.depth > 1 && call.is_of(self.vfs.number)) {
            self.end_slowly();
        } else {
            CALL.set(Call { depth: call.depth - 1, ..call });
        }
    }
}

impl TaskWork<'_> {
    #[cold]
    fn end_slowly(&self) {
        while let Some(id) = self.next() {
            // File systems that panic while they go keep nobody else. This call still goes on, so it is not the last.
            drop(self.vfs.outlast(|| self.vfs.free_detached(id)));
        }
        let panic = slowly(|call, pending| {
            let ends = call.depth == 0 && pending.others.is_empty();
            pending.panic.take_if(|_| ends)
        });
        if let Some(panic) = panic
            && !thread::panicking()
        {
            panic::resume_unwind(panic);
        }
    }
}
