//! Making room: which names go, when a table is full.
//!
//! ```text
//!          back hand            front hand
//!   ───────────▼────────────────────▼──────────────►  slots, round and round
//!     drops what is     AGED: a walk       marks what
//!     still AGED        may take it off    nobody holds
//! ```
//!
//! Rules:
//! 1. Only a full table and [`Vfs::shrink`] move the hands. Until then nothing is marked, and a hit stores nothing.
//! 2. `AGED` is no plain case: a walk that meets it goes the slow way once and takes it off. So a name that is used is
//!    stored to once while the hands go by, and not again.
//! 3. Setting it moves the dentry's count, so that what threads remember of paths is walked again, and seen to be used.
//!    Taking it off does not: it says nothing about what the name stands for.
//! 4. A full table is refused only after a turn in which nothing could go. That is then remembered, and each further
//!    refusal looks at few names, until somebody lets go of one.
//! 5. Names that stand for nothing have a share of the table. Beyond it the oldest goes, so no search for what is not there
//!    drives out what is; nothing is marked for that.
//!
//! Linux: `prune_dcache_sb`, `DCACHE_REFERENCED`; here the order is a clock's with two hands, over the arena.

use super::{ABSENT, AGED, DIRECTORY, Dentry, DentryId, HASHED, IS_ROOT, PERSISTENT};
use crate::{lock, vfs::Vfs};
use parking_lot::Mutex;
use pathwalk_sync::{Cell32, Striped};
use std::collections::VecDeque;

/// How many names one call that finds the cache full drops.
const BATCH: u32 = 64;
/// The front hand is ahead by one in so many of the slots.
const AHEAD: u32 = 8;

/// Where the clock's hands are.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Clock {
    /// Steps of the back hand, and how far the front hand is ahead.
    back: Cell32,
    ahead: Cell32,
    /// A turn is under way that has dropped nothing, or has ended so; 0 since somebody let go of a name.
    futile: Cell32,
}

/// Names that are in the table though they stand for nothing.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    count: Striped,
    /// The oldest first; some may stand for something since, or have gone.
    queue: Mutex<VecDeque<u32>>,
}

/// So many of them are looked at where one is added: more go than come, whatever became of some.
const LOOKS: u32 = 4;

impl Absent {
    pub(crate) fn count(&self) -> u64 {
        self.count.sum()
    }

    /// The bytes of the queue.
    pub(crate) fn bytes(&self) -> u64 {
        (self.queue.lock().capacity() * size_of::<u32>()) as u64
    }

    /// Notes what became of a name's flags.
    pub(super) fn note(&self, id: DentryId, before: u32, after: u32) {
        match (before & ABSENT, after & ABSENT) {
            (0, ABSENT) => {
                self.count.get();
                self.queue.lock().push_back(id.0);
            }
            (ABSENT, 0) => self.count.put(),
            _ => {}
        }
    }
}

const TURNING: u32 = 1;
const FUTILE: u32 = 2;

impl Vfs {
    /// Does what needs a slot; where there is none, makes room until it can be done or nothing is left to drop.
    pub(crate) fn with_room<R>(&self, f: impl Fn() -> Option<R>) -> Option<R> {
        f().or_else(|| self.make_room(f))
    }

    #[cold]
    fn make_room<R>(&self, f: impl Fn() -> Option<R>) -> Option<R> {
        let clock = &self.clock;
        let turn = self.dentries.high_water() + self.dentries.high_water() / AHEAD + 1;
        let mut left = if clock.futile.get() == FUTILE { BATCH.min(turn) } else { turn };
        clock.futile.set(if left == turn { TURNING } else { FUTILE });
        // From here on none is kept, mostly: see `dput_keeping`.
        self.call_in_all();
        while left != 0 {
            let (steps, dropped) = self.turn(BATCH, left);
            left -= steps;
            if dropped != 0 {
                // A directory whose last child went can go as well: a turn begins anew.
                left = turn;
                clock.futile.set(TURNING);
                if let Some(done) = f() {
                    clock.futile.set(0);
                    return Some(done);
                }
            }
        }
        if clock.futile.get() == TURNING {
            clock.futile.set(FUTILE);
        }
        // Somebody who had found room meanwhile let counts be kept again.
        self.call_in_all();
        f()
    }

    /// Drops up to `count` names that nobody uses and that the file system can tell again; returns how many. What memory nothing is left
    /// in goes back to the system.
    pub fn shrink(&self, count: u32) -> u32 {
        self.call_in_all();
        let slots = self.dentries.high_water();
        let dropped = self.turn(count, slots + slots / AHEAD + 1).1;
        self.dentries.trim();
        self.inodes.trim();
        dropped
    }

    /// Drops names that stand for nothing, if they have more than their share.
    #[cold]
    pub(super) fn trim_absent(&self) {
        let bytes = self.config.negative_bytes.min(self.config.dentry_bytes);
        let share = bytes / size_of::<Dentry>() as u64;
        for _ in 0..LOOKS {
            let oldest = {
                let mut queue = self.absent.queue.lock();
                let full = self.absent.count() > share || queue.len() as u64 > 2 * share;
                full.then(|| queue.pop_front()).flatten()
            };
            let Some(oldest) = oldest.map(DentryId) else { return };
            if !self.evict(oldest, ABSENT) && self.dentry(oldest).is(ABSENT) {
                // Somebody uses it now.
                self.absent.queue.lock().push_back(oldest.0);
            }
        }
    }

    /// Whether a table was found full, and nobody has let go of anything since.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.clock.futile.get() != 0
    }

    /// Notes that somebody let go of a name that can be dropped.
    #[inline]
    pub(super) fn let_go(&self, dentry: &Dentry) {
        // Stored only where a full table waits for it.
        if self.is_full() && !dentry.is(PERSISTENT) {
            self.clock.futile.set(0);
        }
    }

    /// How many steps the back hand took, modulo 2³²: for tests.
    #[doc(hidden)]
    pub fn hand_steps(&self) -> u32 {
        self.clock.back.get()
    }

    /// Moves the hands by up to `steps`, or until `count` names were dropped; how many steps and names it were.
    fn turn(&self, count: u32, steps: u32) -> (u32, u32) {
        let clock = &self.clock;
        let slots = self.dentries.high_water();
        let (mut dropped, mut taken) = (0, 0);
        while slots != 0 && dropped < count && taken < steps {
            taken += 1;
            let back = clock.back.get();
            let ahead = clock.ahead.get();
            // Two threads may take one step: a name more or less is marked.
            self.mark(DentryId(back.wrapping_add(ahead) % slots + 1));
            if ahead <= slots / AHEAD {
                clock.ahead.set(ahead + 1);
            } else {
                clock.back.set(back.wrapping_add(1));
                dropped += u32::from(self.evict(DentryId(back % slots + 1), AGED));
            }
        }
        (taken, dropped)
    }

    /// Marks a name that nobody holds: if it is still marked when the back hand comes, it goes.
    fn mark(&self, id: DentryId) {
        let dentry = self.dentry(id);
        if !is_idle(dentry) || dentry.is(AGED) {
            return;
        }
        let _dentry = dentry.lockref.lock(lock::DENTRY);
        if is_idle(dentry) {
            let _change = dentry.seq.change();
            dentry.flags.set(dentry.flags.get() | AGED);
        }
    }

    /// Notes that a walk came by.
    #[cold]
    pub(crate) fn d_used(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let _dentry = dentry.lockref.lock(lock::DENTRY);
        // A slot that is free, or has just been taken, is its owner's alone.
        if dentry.flags.get() & (HASHED | AGED) == HASHED | AGED && !dentry.lockref.is_dead() {
            dentry.flags.set(dentry.flags.get() & !AGED);
        }
    }

    /// Drops the names of a file system that hang below a directory which no name leads to any more: it was removed, or
    /// found stale. Nothing is found there from its root, which they count all the same.
    pub(super) fn drop_strays(&self, sb: u32) {
        for id in (1..=self.dentries.high_water()).map(DentryId) {
            if self.dentry(id).sb.get() == sb {
                self.evict_for_good(id);
            }
        }
    }

    /// Drops the names below a directory that was removed, whatever they stood for: they alone may keep it, and its end is
    /// to be heard of. The caller has marked it as dead, so none comes any more.
    ///
    /// Linux: `shrink_dcache_parent`, by `vfs_rmdir`.
    pub(crate) fn shrink_dcache_parent(&self, id: DentryId) {
        let dentry = self.dentry(id);
        // It was marked under its lock: what had come until then is seen without.
        if dentry.first_child.get() == 0 {
            return;
        }
        let mut children = Vec::new();
        {
            let _guard = dentry.lockref.lock(lock::DENTRY);
            let mut child = DentryId(dentry.first_child.get());
            while child != DentryId::NONE {
                children.push(child);
                child = DentryId(self.dentry(child).next_sibling.get());
            }
        }
        for child in children {
            // It may have been used for another name since, which is none the worse for being dropped.
            self.evict_for_good(child);
        }
    }

    /// Drops one name below a directory that is gone, if nobody holds it but threads that only keep a count of it. Who has it open
    /// may keep a count after this, and the directory by it, until room is made.
    fn evict_for_good(&self, id: DentryId) {
        if self.dentry(id).lockref.count() != 0 && !self.dentry(id).is(DIRECTORY) {
            self.call_in(id);
        }
        self.evict(id, 0);
    }

    /// Drops one name if nobody holds it and it has those flags.
    fn evict(&self, id: DentryId, kind: u32) -> bool {
        let dentry = self.dentry(id);
        let idle = || is_idle(dentry) && dentry.flags.get() & kind == kind;
        let parent = DentryId(dentry.parent.get());
        if !idle() || parent == DentryId::NONE || !self.dget_not_dead(parent) {
            return false;
        }
        let freed = {
            let _parent = self.dentry(parent).lockref.lock(lock::DENTRY);
            let still_there = dentry.parent.get() == parent.0 && idle() && dentry.busy.get() == 0;
            let dead = still_there && dentry.lockref.lock_nested(lock::DENTRY).mark_dead();
            if dead {
                self.unhash_locked(parent, id);
            }
            dead
        };
        // As in `dput_of`.
        let _work = freed.then(|| self.task_work());
        if freed {
            self.dentry_free(id, None);
            self.dput(parent);
        }
        self.dput(parent);
        freed
    }
}

/// Whether nobody holds the dentry, and its file system can tell the name again.
fn is_idle(dentry: &Dentry) -> bool {
    dentry.flags.get() & (HASHED | PERSISTENT | IS_ROOT) == HASHED
        && dentry.lockref.count() == 0
        && !dentry.lockref.is_dead()
}
