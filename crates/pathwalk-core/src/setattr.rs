//! Changing attributes: the one place by which what is not a file system's own doing reaches it.
//!
//! Rules:
//! 1. Whoever changes attributes reserves the inode for it: the rules are applied and the file system is asked while
//!    nobody else does so. A reservation is no lock: readers go on, and so do names and contents.
//! 2. The file system hears only of what is to be changed, so it never writes back what it did not mean.
//! 3. The file system changes the cache as well, in the step in which it changes its own: they do not differ after.
//! 4. Times of reading are not worth a reservation: [`FileSystem::update_time`](crate::fs::FileSystem::update_time).
//!
//! Linux: `notify_change`, `setattr_copy`, `file_remove_privs`, `touch_atime`; the inode's `i_rwsem`.

use crate::{
    cred::Subject,
    inode::{Attr, I_ACL, I_CHANGE_AWAITED, I_CHANGING, Inode, InodeId},
    lock,
    mount::{MntFlags, MountId, remount::Writing, task_work::TaskWork},
    ops::making::may_keep_sgid,
    security::SetAttr,
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::{
    CapSet, Errno, InodeFlags, Result, Timespec,
    mode::{S_IALLUGO, S_ISGID, S_ISUID, S_IXGRP},
};
use pathwalk_sync::{gate, lock_order};

/// What is to be changed of an inode; what is `None` stays as it is.
///
/// Linux: `struct iattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iattr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size of a regular file.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<Timespec>,
    /// Last change of the contents.
    pub mtime: Option<Timespec>,
    /// Last change of the contents or the attributes.
    pub ctime: Option<Timespec>,
    /// The flags: immutable, append-only ….
    pub flags: Option<InodeFlags>,
    /// The time of the call, for what a new size stamps.
    pub now: Timespec,
}

impl Iattr {
    /// Notes the change: all but the size, which comes with the contents.
    ///
    /// Linux: `setattr_copy`.
    pub fn copy_to(&self, attr: &mut Attr) {
        if let Some(mode) = self.mode {
            attr.mode = attr.mode & !S_IALLUGO | mode & S_IALLUGO;
        }
        attr.uid = self.uid.unwrap_or(attr.uid);
        attr.gid = self.gid.unwrap_or(attr.gid);
        attr.atime = self.atime.unwrap_or(attr.atime);
        attr.mtime = self.mtime.unwrap_or(attr.mtime);
        attr.ctime = self.ctime.unwrap_or(attr.ctime);
        attr.flags = self.flags.unwrap_or(attr.flags);
    }
}

/// When a change of size stamps the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// As the file system sees it: truncate(2).
    Changes,
    /// Also where the size stays as it is: ftruncate(2) and `O_TRUNC`.
    Always,
}

/// An inode reserved for a change of its attributes. Meanwhile nothing goes by this thread: a file system that did could wait for
/// who waits for the inode.
#[must_use = "a reservation that is forgotten blocks its inode"]
pub(crate) struct Changing<'v> {
    slot: &'v Inode,
    // Behind the reservation.
    _work: TaskWork<'v>,
}

impl<'v> Changing<'v> {
    /// Waits until nobody else changes the inode, which the caller holds.
    pub(crate) fn new(vfs: &'v Vfs, inode: InodeId) -> Self {
        let (slot, work) = (vfs.inode(inode), vfs.task_work());
        loop {
            {
                let _guard = slot.lockref.lock(lock::INODE);
                let flags = slot.flags.get();
                if flags & I_CHANGING == 0 {
                    slot.flags.set(flags | I_CHANGING);
                    return Self { slot, _work: work };
                }
                slot.flags.set(flags | I_CHANGE_AWAITED);
            }
            // Who changes it next, and is waited for by nobody yet, does not wake us.
            gate::wait(slot, || {
                const BOTH: u32 = I_CHANGING | I_CHANGE_AWAITED;
                slot.flags.get() & BOTH == BOTH
            });
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let before = {
            let _guard = self.slot.lockref.lock(lock::INODE);
            let before = self.slot.flags.get();
            self.slot.flags.set(before & !(I_CHANGING | I_CHANGE_AWAITED));
            before
        };
        if before & I_CHANGE_AWAITED != 0 {
            gate::wake_all(self.slot);
        }
    }
}

impl Vfs {
    /// Changes attributes: asks `rules` what is to be changed of what is there, and the file system to do it. The
    /// change that `rules` gets is one of nothing but ctime.
    ///
    /// What is there is what the file system says now: no lookup may have asked about a file that was open.
    ///
    /// # Errors
    ///
    /// - what a file system answers that is asked for attributes.
    /// - those of `rules`.
    /// - whatever the file system answers.
    pub(crate) fn notify_change(
        &self,
        held: &HeldPath<'_>,
        rules: impl FnOnce(&Attr, &mut Iattr) -> Result<()>,
    ) -> Result<()> {
        let slot = self.inode(held.inode());
        let _changing = Changing::new(self, held.inode());
        // Not before: who changed it meanwhile would be forgotten. A file system that is asked changes nothing of it: it would wait for this.
        self.getattr_if_wanted(held.inode())?;
        let now = self.now();
        let mut change = Iattr { now, ctime: Some(now), ..Iattr::default() };
        rules(&slot.attr(), &mut change)?;
        lock_order::assert_none_held();
        held.sb().fs.setattr(held.inode_ref(), &change)?;
        self.fsnotify_change(held.dentry(), &change);
        Ok(())
    }

    /// Sets the size of a regular file, which loses what it runs as. It grows to no more than `most`.
    ///
    /// # Errors
    ///
    /// - `EFBIG`: no file can be so large, or may be.
    /// - whatever the file system answers.
    pub(crate) fn do_truncate(
        &self,
        held: &HeldPath<'_>,
        (size, most): (u64, u64),
        who: &Subject<'_>,
        stamp: Stamp,
    ) -> Result<()> {
        if i64::try_from(size).is_err() {
            return Err(Errno::EFBIG);
        }
        let has_acl = || self.inode(held.inode()).flags.get() & I_ACL != 0;
        self.notify_change(held, |attr, change| {
            self.security_inode_setattr(held, who, SetAttr::Size(size))?;
            if size > most && size > attr.size {
                return Err(Errno::EFBIG);
            }
            self.kill_caps(held)?;
            change.size = Some(size);
            change.mode = without_privileges(attr, who);
            match stamp {
                Stamp::Always => change.mtime = Some(change.now),
                // With an ACL, the mode is written in both, and the time that the ACL changed.
                Stamp::Changes if change.mode.is_some() && has_acl() => {}
                Stamp::Changes => change.ctime = None,
            }
            Ok(())
        })
    }

    /// Takes capabilities, set-user-id and set-group-id from a file whose contents somebody is about to change.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    ///
    /// Linux: `file_remove_privs`.
    pub(crate) fn file_remove_privs(&self, held: &HeldPath<'_>, who: &Subject<'_>) -> Result<()> {
        if !keeps_privileges(who) {
            self.getattr_if_wanted(held.inode())?;
        }
        self.kill_caps(held)?;
        if without_privileges(&self.inode(held.inode()).attr(), who).is_none() {
            return Ok(());
        }
        self.notify_change(held, |attr, change| {
            change.ctime = None;
            change.mode = without_privileges(attr, who);
            Ok(())
        })
    }

    /// Notes that an inode was read, if that is to be noted.
    ///
    /// Linux: `touch_atime`.
    pub(crate) fn touch_atime(&self, inode: InodeId, mnt: MountId, flags: MntFlags) {
        let slot = self.inode(inode);
        if !self.atime_needs_update(&slot.attr(), mnt, flags) {
            return;
        }
        // Whoever makes the mount read-only meanwhile is told that it is in use, or this is not noted.
        let Ok(_writing) = Writing::new(self, mnt) else { return };
        if let Some(sb) = self.superblock(slot.sb.get()) {
            lock_order::assert_none_held();
            sb.fs.update_time(self.inode_ref(inode), self.now());
        }
    }
}

/// Whether a change of contents takes nothing from the mode, whatever that is.
fn keeps_privileges(who: &Subject<'_>) -> bool {
    who.capable(CapSet::FSETID)
}

/// The mode without what a change of contents takes away; none where it takes nothing.
///
/// Linux: `dentry_needs_remove_privs`.
fn without_privileges(attr: &Attr, who: &Subject<'_>) -> Option<u32> {
    let dropped = privileges_to_drop(attr, who);
    (dropped != 0 && !keeps_privileges(who)).then_some(attr.mode & S_IALLUGO & !dropped)
}

/// The set-id bits that a change of contents or owner takes away.
///
/// Linux: `setattr_should_drop_suidgid`.
pub(crate) fn privileges_to_drop(attr: &Attr, who: &Subject<'_>) -> u32 {
    let executable = attr.mode & S_IXGRP != 0;
    let sgid = if executable || !may_keep_sgid(attr.gid, who) { S_ISGID } else { 0 };
    attr.mode & (S_ISUID | sgid)
}
