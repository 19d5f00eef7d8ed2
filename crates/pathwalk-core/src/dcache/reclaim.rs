//! Making room: dropping names that nobody uses, and all names of a file system that goes.
//!
//! Linux: `shrink_dcache_sb`, `shrink_dcache_for_umount`; the order is a clock's, over the arena.

use super::{DentryId, HASHED, IS_ROOT, PERSISTENT};
use crate::{lock, vfs::Vfs};
use pathwalk_sync::Spin;

/// How many names one call that finds the cache full drops.
const BATCH: u32 = 64;

impl Vfs {
    /// Does what needs a slot; where there is none, makes room once and does it again.
    pub(crate) fn with_room<R>(&self, f: impl Fn() -> Option<R>) -> Option<R> {
        f().or_else(|| {
            self.shrink(BATCH);
            f()
        })
    }

    /// Drops up to `count` names that nobody uses and that the file system can tell again; returns how many.
    pub fn shrink(&self, count: u32) -> u32 {
        let slots = self.dentries.high_water();
        if slots == 0 {
            return 0;
        }
        let mut dropped = 0;
        for _ in 0..slots {
            let id = DentryId(self.clock_hand.add(1) % slots + 1);
            if self.evict(id) {
                dropped += 1;
                if dropped == count {
                    break;
                }
            }
        }
        dropped
    }

    /// Drops one name if nobody uses it.
    fn evict(&self, id: DentryId) -> bool {
        let dentry = self.dentry(id);
        let idle = || {
            dentry.flags.get() & (HASHED | PERSISTENT | IS_ROOT) == HASHED
                && dentry.lockref.count() == 0
                && !dentry.lockref.is_dead()
        };
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
        if freed {
            self.dentry_free(id);
            self.dput(parent);
        }
        self.dput(parent);
        freed
    }

    /// Drops every name of a file system that is going away, from the leaves up; no mount of it is left, so nobody
    /// holds a name for longer than it takes a reader to find out that it is late.
    ///
    /// Others may evict names of it meanwhile. So each name is counted from before its children are looked at, which
    /// keeps it; and since it is not freed before it is the last to count it, an eviction below it, which counts it too,
    /// is over by then. When the root is freed the file system has heard of every inode.
    pub(crate) fn drop_tree(&self, root: DentryId) {
        let mut at = root;
        loop {
            if let Some(child) = self.hold_first_child(at) {
                at = child;
                continue;
            }
            if at == root {
                break;
            }
            let parent = DentryId(self.dentry(at).parent.get());
            {
                let _parent = self.dentry(parent).lockref.lock(lock::DENTRY);
                self.unhash_locked(parent, at);
            }
            self.free_when_alone(at);
            self.dput(parent);
            at = parent;
        }
        {
            let dentry = self.dentry(root);
            let _guard = dentry.lockref.lock(lock::DENTRY);
            dentry.seq.invalidate();
        }
        self.free_when_alone(root);
    }

    /// The first child of a dentry that the caller holds, counted.
    fn hold_first_child(&self, parent: DentryId) -> Option<DentryId> {
        let directory = self.dentry(parent);
        let _guard = directory.lockref.lock(lock::DENTRY);
        let child = DentryId(directory.first_child.get());
        if child == DentryId::NONE {
            return None;
        }
        let dentry = self.dentry(child);
        debug_assert_eq!(dentry.sb.get(), directory.sb.get(), "a tree is of one file system");
        // Under its parent's lock a name in the list is alive, even at count 0: it is marked dead and taken out under one
        // lock.
        dentry.lockref.get_locked();
        Some(child)
    }

    /// Frees a dentry that the caller holds, as soon as late readers have let go of it.
    fn free_when_alone(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let mut spin = Spin::default();
        while !dentry.lockref.lock(lock::DENTRY).put_and_mark_dead() {
            spin.turn();
        }
        self.dentry_free(id);
    }
}
