//! A directory's one dentry.
//!
//! A directory has one name, so one dentry: its alias. A file system that must be asked may show the directory under
//! another name, because somebody else moved it there. Then the old name leads nowhere from now on.
//!
//! Rules:
//! 1. A directory's inode knows its alias: `special`, written under the inode's lock; 0 if there is none. A dentry that is
//!    freed gives it up, so it never names a slot that is used again.
//! 2. Who was told that a name stands for a directory claims it for the name's dentry first, by compare. Where there is
//!    another alias, the name of that one is reserved and taken out, so of two who were told at a time one sees the other.
//!    It is not waited for: its holder may be waiting for us.
//! 3. Only the alias has `SEARCH_ALL`, for chmod updates only that. Who takes the alias from a dentry takes the flag from it
//!    after that, under the dentry's lock; who gives a dentry its flags looks under that lock whether it is the alias.
//!
//! Linux: `d_splice_alias`, `__d_unalias`.

use super::{
    AUTOMOUNT, DentryId, SEARCH_ALL, TRANSIT, managed,
    reserve::{Busy, Tried},
};
use crate::{
    inode::{I_HASHED, InodeId},
    lock,
    vfs::Vfs,
};
use pathwalk_abi::FileType;

impl Vfs {
    /// Makes a dentry the alias of the directory that its name was said to stand for; the caller has the name reserved.
    /// Where another name that leads to the directory is reserved, it gives that one.
    pub(crate) fn claim_alias(&self, inode: InodeId, id: DentryId) -> Option<Busy<'_>> {
        if inode == InodeId::NONE || !self.is_directory_inode(inode) {
            return None;
        }
        loop {
            let slot = self.inode(inode);
            let old = {
                let _inode = slot.lockref.lock(lock::INODE);
                let old = DentryId(slot.alias());
                // One that is dead is about to give it up.
                if old == DentryId::NONE || old == id || !self.dget_not_dead(old) {
                    slot.set_alias(id.0);
                    return None;
                }
                old
            };
            let tried = self.try_reserve_held(old);
            if let Tried::Busy(busy) = tried {
                self.dput(old);
                return Some(busy);
            }
            if let Tried::Free(name) = &tried {
                self.d_invalidate(name);
            }
            let still = {
                let _inode = slot.lockref.lock(lock::INODE);
                let still = slot.alias() == old.0;
                if still {
                    slot.set_alias(id.0);
                    self.clear_search_all(old);
                }
                still
            };
            drop(tried);
            self.dput(old);
            if still {
                return None;
            }
        }
    }

    /// Makes a dentry the alias of a directory, whatever was.
    pub(super) fn set_alias(&self, inode: InodeId, id: DentryId) {
        if inode == InodeId::NONE || !self.is_directory_inode(inode) {
            return;
        }
        let slot = self.inode(inode);
        // It claimed it before. Whoever takes it from the dentry by now takes what the dentry gets of it, too (rule 3).
        if slot.alias() == id.0 {
            return;
        }
        let _inode = slot.lockref.lock(lock::INODE);
        let old = DentryId(slot.alias());
        if old != id {
            slot.set_alias(id.0);
            // It may be dead, but not freed before it has given up what it was: that takes this lock.
            if old != DentryId::NONE {
                self.clear_search_all(old);
            }
        }
    }

    /// Makes a dentry the alias of a directory that was just made. Nobody else knows that, unless he finds it in a table, so it
    /// needs no lock.
    pub(crate) fn set_first_alias(&self, inode: InodeId, id: DentryId) {
        let slot = self.inode(inode);
        if self.is_directory_inode(inode) && slot.flags.get() & I_HASHED == 0 {
            slot.set_alias(id.0);
        }
    }

    /// Says that a dentry that is about to be freed is no alias any more.
    pub(super) fn give_up_alias(&self, inode: InodeId, id: DentryId) {
        if !self.is_directory_inode(inode) {
            return;
        }
        let slot = self.inode(inode);
        // It goes with the dentry: nobody else has it, nor finds it in a table, so it never had another one.
        if slot.lockref.count() == 1 && slot.flags.get() & I_HASHED == 0 {
            debug_assert!(slot.alias() == id.0, "its one dentry");
            return;
        }
        let _inode = slot.lockref.lock(lock::INODE);
        if slot.alias() == id.0 {
            slot.set_alias(0);
        }
    }

    /// The flags of what a dentry stands for, for a holder of its lock; none while that is being changed.
    pub(super) fn try_type_flags_locked(&self, id: DentryId, inode: InodeId) -> Option<u32> {
        let flags = self.try_type_flags(inode)?;
        let is_alias = inode == InodeId::NONE
            || !self.is_directory_inode(inode)
            || self.inode(inode).alias() == id.0;
        Some(if is_alias { flags } else { flags & !SEARCH_ALL })
    }

    /// Keeps SEARCH_ALL, and what else comes from the inode, true where that changes; the caller holds the inode's lock, and ends the inode's change
    /// afterwards: so nobody sees the new mode and walks by the old one.
    pub(crate) fn update_search_all(&self, inode: InodeId) {
        let slot = self.inode(inode);
        if !self.is_directory_inode(inode) || slot.alias() == 0 {
            return;
        }
        let dentry = self.dentry(DentryId(slot.alias()));
        let _guard = dentry.lockref.lock(lock::DENTRY);
        if dentry.inode.get() != inode.0 {
            return;
        }
        let owner = slot.owner_cells();
        let of_inode = self.search_all(owner, slot.flags.get()) | managed(slot.flags.get());
        let flags = dentry.flags.get() & !(SEARCH_ALL | AUTOMOUNT | TRANSIT) | of_inode;
        let _change = dentry.seq.change();
        dentry.flags.set(flags);
    }

    fn clear_search_all(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let _dentry = dentry.lockref.lock(lock::DENTRY);
        if dentry.is(SEARCH_ALL) {
            let _change = dentry.seq.change();
            dentry.flags.set(dentry.flags.get() & !SEARCH_ALL);
        }
    }

    /// Whether it is a directory's inode; the type never changes.
    pub(crate) fn is_directory_inode(&self, inode: InodeId) -> bool {
        self.inode(inode).file_type() == Some(FileType::Directory)
    }
}
