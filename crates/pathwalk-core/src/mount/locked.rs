//! What a namespace of fewer rights may not undo: mounts that stay where they hang, and flags that stay as they are.
//!
//! Who copies a namespace for others who may less there, or sends them a tree, locks it: all but its topmost mount hide what
//! they cover, and what a mount refuses it goes on to refuse. Copies keep that.
//!
//! Invariant: a locked mount goes from where it hangs only with what it hangs in, or when who sends it takes it back. A root
//! that pivot_root(2) puts elsewhere leaves its lock to the new one.
//!
//! Linux: `lock_mnt_tree`, `can_change_locked_flags`, `has_locked_children`, `propagate_mount_unlock`; mount_namespaces(7),
//! "Restrictions on mount namespaces".

use super::{MntFlags, MountId, tree::TreeGuard};
use crate::dcache::DentryId;
use pathwalk_abi::{Errno, Result};

/// The flags that are locked where they are set, and what says so.
const LOCKED_IF_SET: [(MntFlags, MntFlags); 4] = [
    (MntFlags::RDONLY, MntFlags::LOCK_RDONLY),
    (MntFlags::NODEV, MntFlags::LOCK_NODEV),
    (MntFlags::NOSUID, MntFlags::LOCK_NOSUID),
    (MntFlags::NOEXEC, MntFlags::LOCK_NOEXEC),
];

impl MntFlags {
    /// The flags, with those locked that are set.
    fn locked(self) -> Self {
        let set = LOCKED_IF_SET.iter().filter(|(flag, _)| self.contains(*flag));
        set.fold(self | Self::LOCK_ATIME, |flags, (_, lock)| flags | *lock)
    }

    /// Asks whether a mount's flags may be changed to others.
    ///
    /// # Errors
    ///
    /// `EPERM`: one that is locked would not be set any more, or the times of last access are locked and would be others.
    ///
    /// Linux: `can_change_locked_flags`.
    pub(super) fn may_become(self, new: Self) -> Result<()> {
        let lost = |(flag, lock): &(Self, Self)| self.contains(*lock) && !new.contains(*flag);
        let atime = self.contains(Self::LOCK_ATIME) && (self ^ new).intersects(Self::ATIME);
        if atime || LOCKED_IF_SET.iter().any(lost) { Err(Errno::EPERM) } else { Ok(()) }
    }
}

impl TreeGuard<'_> {
    /// Locks a tree in one piece, and the flags of all its mounts.
    ///
    /// Linux: `lock_mnt_tree`.
    pub(super) fn lock_mnt_tree(&self, top: MountId) {
        for id in self.subtree(top) {
            self.set_flags(id, self.vfs.mount_slot(id).flags().locked());
            if id != top {
                self.lock_in_place(id);
            }
        }
    }

    /// Locks a mount where it hangs, or is about to.
    pub(super) fn lock_in_place(&self, id: MountId) {
        self.set_flags(id, self.vfs.mount_slot(id).flags() | MntFlags::LOCKED);
    }

    pub(super) fn is_locked(&self, id: MountId) -> bool {
        self.vfs.mount_slot(id).flags().contains(MntFlags::LOCKED)
    }

    /// Whether a locked mount hangs in another at or below a dentry.
    ///
    /// Linux: `__has_locked_children`.
    pub(super) fn has_locked_children(&self, id: MountId, below: DentryId) -> bool {
        self.node(id).children.values().any(|child| {
            let (_, mountpoint) = self.vfs.mount_slot(child).place();
            self.is_locked(child) && self.is_subdir(mountpoint, below)
        })
    }

    /// Takes the lock from a mount, if it is locked, and gives it to the one that comes into its place.
    pub(super) fn pass_lock(&self, from: MountId, to: MountId) {
        if self.is_locked(from) {
            self.unlock(from);
            self.lock_in_place(to);
        }
    }

    /// Unlocks what hangs where a mount does in those who receive what is mounted there: who sent it takes it back.
    ///
    /// Linux: `propagate_mount_unlock`.
    pub(super) fn propagate_mount_unlock(&self, id: MountId) {
        let (parent, mountpoint) = self.vfs.mount_slot(id).place();
        for receiver in self.receivers(parent) {
            if let Some(child) = self.child_at(receiver, mountpoint)
                && self.is_locked(child)
            {
                self.unlock(child);
            }
        }
    }

    fn unlock(&self, id: MountId) {
        self.set_flags(id, self.vfs.mount_slot(id).flags().difference(MntFlags::LOCKED));
    }
}
