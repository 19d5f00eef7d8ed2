//! Where directories and mounts hang: one count for all of them, odd while one is being moved.
//!
//! A climb (from a place to its parent, to that one's parent, out of mounts) reads many slots. Each may be right at a
//! moment of its own, while the climb as a whole never was: *A* is read to be above *X*, *X* moves away, *A* moves below the
//! root, the root is read to be above *A*. So climbs look at this count.
//!
//! Rules:
//! 1. Whoever gives a directory another parent or name, or a mount another place, holds [`Moving`] from before its first
//!    store until after its last. So the count is odd for as long as the move can be seen in part.
//! 2. An answer of a climb is believed if the count was even before it and has not moved after it: [`Vfs::while_still`].
//! 3. A climb that moves have spoilt twice takes their lock, so that they cannot keep it from its end.
//! 4. Who cannot repeat (a scoped walk at `..`) samples at its beginning and asks afterwards. A move that was under way
//!    when it asked counts as one that happened.
//! 5. The rename lock of a superblock keeps its directories' parents where they are without this: [`RenameGuard`].
//!
//! Linux: `rename_lock`, `mount_lock`; `read_seqbegin_or_lock`, `is_subdir`, `path_is_under`.

use crate::{
    dcache::{DentryId, IS_ROOT},
    lock,
    mount::MountId,
    vfs::{SuperBlock, Vfs},
};
use parking_lot::{Mutex, MutexGuard};
use pathwalk_sync::{
    Change, Sample, Seq, Spin,
    lock_order::{self, Held},
};

/// How often a climb is made before it takes the lock.
const TRIES: u32 = 2;

/// The count, and who may change it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Topology {
    seq: Seq,
    lock: Mutex<()>,
}

/// A move under way: the count is odd until this is dropped.
#[must_use = "the move ends when this is dropped"]
pub(crate) struct Moving<'v> {
    // In this order: even before the next writer may begin.
    _change: Change<'v>,
    _lock: MutexGuard<'v, ()>,
    _held: Held,
}

/// The rename lock of a superblock, held: its directories keep their parents.
pub(crate) struct RenameGuard<'s> {
    still: Still,
    _lock: MutexGuard<'s, ()>,
    _held: Held,
}

/// Who has this may climb: directories, and mounts where it climbs out of them, keep their places, or what it finds is
/// thrown away.
pub(crate) struct Still(());

impl RenameGuard<'_> {
    pub(crate) fn still(&self) -> &Still {
        &self.still
    }
}

impl SuperBlock {
    /// Keeps the file system's directories where they are.
    pub(crate) fn lock_rename(&self) -> RenameGuard<'_> {
        let held = lock_order::acquire(lock::RENAME, false);
        RenameGuard { still: Still(()), _lock: self.rename.lock(), _held: held }
    }
}

impl Vfs {
    /// Begins to move a directory or a mount.
    pub(crate) fn moving(&self) -> Moving<'_> {
        let held = lock_order::acquire(lock::TOPOLOGY, false);
        let lock = self.topology.lock.lock();
        Moving { _change: self.topology.seq.change(), _lock: lock, _held: held }
    }

    /// The places of directories and mounts, to be asked later whether they moved. Waits for the end of a move under way.
    pub(crate) fn topology_sample(&self) -> Sample {
        self.topology.seq.sample_stable()
    }

    /// Whether no directory and no mount moved since, nor is being moved.
    #[inline]
    pub(crate) fn topology_unchanged(&self, sample: Sample) -> bool {
        self.topology.seq.unchanged(sample)
    }

    /// Climbs until nothing moved meanwhile. `climb` answers nothing where it met something else that changed.
    ///
    /// The caller holds no lock of this rank or a higher one, and where `climb` begins.
    pub(crate) fn while_still<R>(&self, mut climb: impl FnMut(&Still) -> Option<R>) -> R {
        let still = Still(());
        // Also for those who only read: who moves something must not wait for itself.
        let _held = lock_order::acquire(lock::TOPOLOGY, false);
        for _ in 0..TRIES {
            let sample = self.topology_sample();
            if let Some(answer) = climb(&still)
                && self.topology_unchanged(sample)
            {
                return answer;
            }
        }
        let _lock = self.topology.lock.lock();
        let mut spin = Spin::default();
        loop {
            if let Some(answer) = climb(&still) {
                return answer;
            }
            spin.turn();
        }
    }

    /// As [`Vfs::while_still`] for who may not take a lock: none where something moved each time.
    pub(crate) fn while_still_rcu<R>(&self, mut climb: impl FnMut(&Still) -> R) -> Option<R> {
        (0..TRIES).find_map(|_| {
            let sample = self.topology.seq.sample();
            let answer = climb(&Still(()));
            self.topology_unchanged(sample).then_some(answer)
        })
    }

    /// Whether `ancestor` is `of` or lies above it.
    ///
    /// Linux: `is_subdir`.
    pub(crate) fn is_ancestor(&self, ancestor: DentryId, of: DentryId, _still: &Still) -> bool {
        let mut at = of;
        loop {
            if at == ancestor {
                return true;
            }
            let dentry = self.dentry(at);
            let parent = DentryId(dentry.parent.get());
            if dentry.is(IS_ROOT) || parent == at || parent == DentryId::NONE {
                return false;
            }
            at = parent;
        }
    }

    /// Whether a place is `root` or lies below it, across mounts.
    ///
    /// Linux: `path_is_under`.
    pub(crate) fn is_under(
        &self,
        (mut mnt, mut dentry): (MountId, DentryId),
        root: (MountId, DentryId),
        still: &Still,
    ) -> bool {
        while mnt != root.0 {
            let mount = self.mount_slot(mnt);
            let parent = MountId(mount.parent.get());
            if parent == MountId::NONE {
                return false;
            }
            (mnt, dentry) = (parent, DentryId(mount.mountpoint.get()));
        }
        self.is_ancestor(root.1, dentry, still)
    }
}
