//! The budget of 40: symlinks and automounts, of a walk and of the walks that file systems make while they are asked by it.
//!
//! ```text
//!   a walk            links    1  2        14  15
//!                                 │        ▲
//!     automount()           taken 2 ──► 14 │      what the thread's walks in there follow counts on
//!       a walk                     3 … 13  │
//! ```
//!
//! It is shared by what is asked about a symlink (`readlink`, `get_link`, `update_time`, `INODE_FOLLOW_LINK`), `automount` and
//! `manage`. A symlink and an automount are counted before that, so a file system that walks through the same one gets
//! `ELOOP` at last, and not to the end of its stack. Crossing a gate counts nothing, as in Linux, nor does a lookup: a file
//! system that walks through its own gate, or to the name that it is asked for, must know those walks.
//!
//! A walk in another machine counts on as well: the stack that both use is the thread's.
//!
//! Invariant: a file system returns on the thread that it was asked on.
//!
//! Linux: `total_link_count`, which `set_nameidata` takes over from the walk outside.

use super::{Walk, hold::Hold, memo, observe::Observer};
use crate::cred::Subject;
use pathwalk_abi::{Errno, MAXSYMLINKS, Result};
use std::cell::Cell;

thread_local! {
    /// What was taken of the budget by the walks that this thread is inside of, in a file system that they ask.
    static TAKEN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The outermost walk of the thread waits for a file system.
struct Asking;

impl Drop for Asking {
    fn drop(&mut self) {
        TAKEN.set(None);
    }
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Refuses the 41st.
    ///
    /// # Errors
    ///
    /// - `ELOOP`: it would be that.
    #[inline]
    pub(super) fn may_follow_one_more(&self) -> Result<()> {
        let taken = TAKEN.get().unwrap_or(self.links);
        if taken >= MAXSYMLINKS { Err(Errno::ELOOP) } else { Ok(()) }
    }

    /// Counts one more.
    #[inline]
    pub(super) fn count_link(&mut self) {
        self.links += 1;
        if let Some(taken) = TAKEN.get() {
            TAKEN.set(Some(taken + 1));
        }
    }

    /// Asks a file system something that may make it walk itself.
    pub(super) fn in_hook<R>(&mut self, ask: impl FnOnce(&Subject<'a>) -> R) -> R {
        if TAKEN.get().is_some() {
            return ask(&self.who);
        }
        TAKEN.set(Some(self.links));
        let asking = Asking;
        // What is remembered follows no links.
        let said = memo::without(|| ask(&self.who));
        self.links = TAKEN.get().unwrap_or(self.links);
        drop(asking);
        said
    }
}
