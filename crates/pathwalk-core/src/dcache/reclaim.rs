//! Dropping all names of a file system that goes.
//!
//! Linux: `shrink_dcache_for_umount`.

use super::{DIRECTORY, DentryId};
use crate::{
    lock,
    vfs::{SuperBlock, Vfs},
};
use pathwalk_sync::Spin;

/// A first child, counted.
enum First {
    /// One that may have children itself.
    Directory(DentryId),
    /// One that has none; its name leads nowhere any more.
    Leaf(DentryId),
}

impl Vfs {
    /// Drops every name of a file system that is going away, from the leaves up; no mount of it is left, so nobody
    /// holds a name for longer than it takes a reader to find out that it is late.
    ///
    /// Others may evict names of it meanwhile. So each name is counted from before its children are looked at, which
    /// keeps it; and since it is not freed before it is the last to count it, an eviction below it, which counts it too,
    /// is over by then. When the root is freed the file system has heard of every inode.
    pub(crate) fn drop_tree(&self, root: DentryId, sb: &SuperBlock) {
        let mut at = root;
        loop {
            match self.hold_first_child(at) {
                Some(First::Directory(child)) => {
                    at = child;
                    continue;
                }
                Some(First::Leaf(child)) => {
                    self.free_when_alone(child, sb);
                    self.dput(at);
                    continue;
                }
                None => {}
            }
            if at == root {
                break;
            }
            let parent = DentryId(self.dentry(at).parent.get());
            {
                let _parent = self.dentry(parent).lockref.lock(lock::DENTRY);
                self.unhash_locked(parent, at);
            }
            self.free_when_alone(at, sb);
            self.dput(parent);
            at = parent;
        }
        {
            let dentry = self.dentry(root);
            let _guard = dentry.lockref.lock(lock::DENTRY);
            dentry.seq.invalidate();
        }
        self.free_when_alone(root, sb);
    }

    /// The first child of a dentry that the caller holds, counted. One that has no children is taken out at once.
    fn hold_first_child(&self, parent: DentryId) -> Option<First> {
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
        if dentry.is(DIRECTORY) {
            return Some(First::Directory(child));
        }
        self.unhash_locked(parent, child);
        Some(First::Leaf(child))
    }

    /// Frees a dentry that the caller holds, as soon as late readers have let go of it, and removed directories below it
    /// that are there only for what is cached in them.
    fn free_when_alone(&self, id: DentryId, sb: &SuperBlock) {
        let dentry = self.dentry(id);
        let mut spin = Spin::default();
        while !dentry.lockref.lock(lock::DENTRY).put_and_mark_dead() {
            let before = self.dentries.in_use();
            if self.call_in(id) {
                continue;
            }
            self.drop_strays(dentry.sb.get());
            // Where the machine goes nobody is left who could let go of it, nor who could find it: it goes with the tables.
            let lost = self.goes && self.dentries.in_use() == before;
            debug_assert!(!lost, "a count was never given back");
            if lost {
                return;
            }
            spin.turn();
        }
        self.dentry_free(id, Some(sb));
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        mount::{NsId, rootfs::RootFs},
        vfs::{Config, Vfs},
    };
    use std::{panic, sync::Arc};

    /// Debug builds say so, and none waits.
    #[test]
    fn what_is_never_let_go_of_is_not_waited_for_at_the_end() {
        let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
        let (mnt, _lost) = vfs.hold_ns_root(NsId::INIT);
        vfs.mntput(mnt);
        let end = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(vfs)));
        assert_eq!(end.is_err(), cfg!(debug_assertions));
    }
}
