//! Changing attributes: chmod, chown, utimensat, truncate.
//!
//! The rules are applied to the attributes as they are when the change is made: rule and change are one step under the
//! inode's lock.
//!
//! Linux: `notify_change`, `setattr_prepare`, `chown_common`, `vfs_truncate`.

use super::{create::may_keep_sgid, lookup_flags, only};
use crate::{
    cred::Subject,
    file::File,
    fs::Access,
    inode::Attr,
    task::{At, Task},
    vfs::Vfs,
    walk::{HeldPath, Lookup, ladder::keep},
};
use pathwalk_abi::{
    AtFlags, CapSet, Errno, FileType, OpenFlags, Result, SetTime, Timespec,
    mode::{S_IALLUGO, S_ISGID, S_ISUID, S_IXGRP},
};
use pathwalk_sync::lock_order;

impl Task {
    /// `chmod(path, mode)`: changes a file's permission bits. chmod(2)
    ///
    /// # Errors
    ///
    /// As [`Task::fchmodat2`].
    pub fn chmod(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        self.fchmodat2(At::Cwd, path, mode, AtFlags::empty())
    }

    /// `fchmodat2(dir, path, mode, flags)`: changes a file's permission bits. fchmodat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - those of the lookup.
    /// - `EROFS`: the mount is read-only.
    /// - `EOPNOTSUPP`: it is a symlink.
    /// - `EPERM`: it is another's file.
    pub fn fchmodat2<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        mode: u32,
        flags: AtFlags,
    ) -> Result<()> {
        only(flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let held = keep(&self.request(dir.into(), path.as_ref(), lookup_flags(flags))?)?;
        self.chmod_common(&held, mode)
    }

    /// `fchmod(file, mode)`: changes an open file's permission bits. fchmod(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - then as [`Task::fchmodat2`].
    pub fn fchmod(&self, file: &File, mode: u32) -> Result<()> {
        self.chmod_common(&self.held_file(file)?, mode)
    }

    /// `chown(path, uid, gid)`: changes a file's owner and group; `None` leaves one as it is. chown(2)
    ///
    /// # Errors
    ///
    /// As [`Task::fchownat`].
    pub fn chown(&self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.fchownat(At::Cwd, path, uid, gid, AtFlags::empty())
    }

    /// `lchown(path, uid, gid)`: as [`Task::chown`], of a symlink itself. lchown(2)
    ///
    /// # Errors
    ///
    /// As [`Task::fchownat`].
    pub fn lchown(&self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.fchownat(At::Cwd, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// `fchownat(dir, path, uid, gid, flags)`: changes a file's owner and group; `None` leaves one as it is. What is no
    /// directory loses its set-user-id bit, and the set-group-id bit if its group may execute it. fchownat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - those of the lookup.
    /// - `EROFS`: the mount is read-only.
    /// - `EINVAL`: the owner or group is -1 as a number.
    /// - `EPERM`: the owner is changed without `CAP_CHOWN`, or the group by another than the owner, or to one that the
    ///   owner is not in; or there are bits to lose, and it is another's file.
    pub fn fchownat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        uid: Option<u32>,
        gid: Option<u32>,
        flags: AtFlags,
    ) -> Result<()> {
        only(flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let held = keep(&self.request(dir.into(), path.as_ref(), lookup_flags(flags))?)?;
        self.chown_common(&held, uid, gid)
    }

    /// `fchown(file, uid, gid)`: changes an open file's owner and group. fchown(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - then as [`Task::fchownat`].
    pub fn fchown(&self, file: &File, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.chown_common(&self.held_file(file)?, uid, gid)
    }

    /// `utimensat(dir, path, atime, mtime, flags)`: changes a file's times. utimensat(2)
    ///
    /// If both are left as they are the path is not even looked at.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - those of the lookup.
    /// - `EROFS`: the mount is read-only.
    /// - `EACCES`: both are set to now, and the file is another's and may not be written.
    /// - `EPERM`: else, and it is another's file.
    pub fn utimensat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        atime: SetTime,
        mtime: SetTime,
        flags: AtFlags,
    ) -> Result<()> {
        if (atime, mtime) == (SetTime::Omit, SetTime::Omit) {
            return Ok(());
        }
        only(flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let held = keep(&self.request(dir.into(), path.as_ref(), lookup_flags(flags))?)?;
        self.utimes_common(&held, atime, mtime)
    }

    /// `futimens(file, atime, mtime)`: changes an open file's times. futimens(3)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - then as [`Task::utimensat`].
    pub fn futimens(&self, file: &File, atime: SetTime, mtime: SetTime) -> Result<()> {
        if (atime, mtime) == (SetTime::Omit, SetTime::Omit) {
            return Ok(());
        }
        self.utimes_common(&self.held_file(file)?, atime, mtime)
    }

    /// `truncate(path, size)`: sets a file's size; what is new reads as zero. truncate(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the size is negative.
    /// - those of the lookup.
    /// - `EISDIR`: it is a directory. `EINVAL`: it is no regular file.
    /// - `EACCES`: it may not be written.
    /// - `EROFS`: the mount is read-only.
    /// - `EFBIG`: no file can be so large.
    pub fn truncate(&self, path: impl AsRef<[u8]>, size: i64) -> Result<()> {
        let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
        let held = keep(&self.request(At::Cwd, path.as_ref(), Lookup::FOLLOW)?)?;
        let vfs = self.vfs();
        match vfs.inode(held.inode()).attr().file_type() {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let who = self.cred.subject();
        vfs.inode_permission(held.inode(), Access::WRITE, &who)?;
        held.want_write()?;
        vfs.do_truncate(&held, size, &who, Stamp::Changes)
    }

    /// `ftruncate(file, size)`: sets an open file's size. ftruncate(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the size is negative.
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - `EINVAL`: it is no regular file, or not open for writing.
    /// - `EFBIG`: no file can be so large.
    pub fn ftruncate(&self, file: &File, size: i64) -> Result<()> {
        let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
        let held = self.held_file(file)?;
        let regular = self.vfs().inode(held.inode()).attr().file_type() == FileType::Regular;
        if !regular || !file.is_open_for(OpenFlags::WRONLY) {
            return Err(Errno::EINVAL);
        }
        self.vfs().do_truncate(&held, size, &self.cred.subject(), Stamp::Always)
    }

    /// The place of an open file that was not opened with `O_PATH`.
    fn held_file<'f>(&self, file: &'f File) -> Result<HeldPath<'f>> {
        self.place_of(file)?;
        if file.is_path() { Err(Errno::EBADF) } else { Ok(file.hold()) }
    }

    fn chmod_common(&self, held: &HeldPath<'_>, mode: u32) -> Result<()> {
        held.want_write()?;
        let who = self.cred.subject();
        self.notify_change(held, |attr| {
            if attr.file_type() == FileType::Symlink {
                return Err(Errno::EOPNOTSUPP);
            }
            if !who.owner_or_capable(attr.uid) {
                return Err(Errno::EPERM);
            }
            let mut bits = mode & S_IALLUGO;
            if bits & S_ISGID != 0 && !may_keep_sgid(attr.gid, &who) {
                bits &= !S_ISGID;
            }
            attr.mode = attr.mode & !S_IALLUGO | bits;
            Ok(())
        })
    }

    fn chown_common(&self, held: &HeldPath<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        held.want_write()?;
        if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
            return Err(Errno::EINVAL);
        }
        let who = self.cred.subject();
        self.notify_change(held, |attr| {
            if let Some(uid) = uid {
                let own = who.fsuid == attr.uid && uid == attr.uid;
                if !own && !who.capable(CapSet::CHOWN) {
                    return Err(Errno::EPERM);
                }
            }
            if let Some(gid) = gid {
                let own = who.fsuid == attr.uid && (who.in_group(gid) || gid == attr.gid);
                if !own && !who.capable(CapSet::CHOWN) {
                    return Err(Errno::EPERM);
                }
            }
            if attr.file_type() != FileType::Directory {
                let dropped = attr.mode & (S_ISUID | sgid_to_drop(attr, &who));
                // To take the bits is to change the mode, also where owner and group are left as they are.
                if dropped != 0 && !who.owner_or_capable(attr.uid) {
                    return Err(Errno::EPERM);
                }
                attr.mode &= !dropped;
            }
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            Ok(())
        })
    }

    fn utimes_common(&self, held: &HeldPath<'_>, atime: SetTime, mtime: SetTime) -> Result<()> {
        held.want_write()?;
        let vfs = self.vfs();
        let who = self.cred.subject();
        // Setting both to now is what a write does too: who may write may touch.
        if (atime, mtime) == (SetTime::Now, SetTime::Now) {
            let owner = vfs.inode(held.inode()).attr().uid;
            if !who.owner_or_capable(owner) {
                vfs.inode_permission(held.inode(), Access::WRITE, &who)?;
            }
        } else if !who.owner_or_capable(vfs.inode(held.inode()).attr().uid) {
            return Err(Errno::EPERM);
        }
        let now = vfs.now();
        self.notify_change(held, |attr| {
            set_time(&mut attr.atime, atime, now);
            set_time(&mut attr.mtime, mtime, now);
            Ok(())
        })
    }

    /// Changes attributes: asks the file system for what the rules make of them, and notes it, if they are then still
    /// those that the rules were applied to.
    fn notify_change(
        &self,
        held: &HeldPath<'_>,
        rules: impl Fn(&mut Attr) -> Result<()>,
    ) -> Result<()> {
        let vfs = self.vfs();
        let sb = held.sb();
        loop {
            let before = vfs.inode(held.inode()).attr();
            let mut after = before;
            rules(&mut after)?;
            after.ctime = vfs.now();
            lock_order::assert_none_held();
            sb.fs.setattr(held.inode_ref(), &after)?;
            let done = held.inode_ref().update(|attr| {
                if *attr != before {
                    return Err(());
                }
                *attr = after;
                Ok(())
            });
            if done.is_ok() {
                return Ok(());
            }
        }
    }
}

fn set_time(time: &mut Timespec, to: SetTime, now: Timespec) {
    match to {
        SetTime::Omit => {}
        SetTime::Now => *time = now,
        SetTime::At(at) => *time = at,
    }
}

/// S_ISGID where a change of contents or owner takes it away.
///
/// Linux: `setattr_should_drop_sgid`.
fn sgid_to_drop(attr: &Attr, who: &Subject<'_>) -> u32 {
    let executable = attr.mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP;
    if executable || !may_keep_sgid(attr.gid, who) { S_ISGID } else { 0 }
}

/// When a change of size stamps the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// As the file system sees it: truncate(2).
    Changes,
    /// Also where the size stays as it is: ftruncate(2) and `O_TRUNC`.
    Always,
}

impl Vfs {
    /// Sets the size of a regular file, which loses what it runs as.
    pub(crate) fn do_truncate(
        &self,
        held: &HeldPath<'_>,
        size: u64,
        who: &Subject<'_>,
        stamp: Stamp,
    ) -> Result<()> {
        if i64::try_from(size).is_err() {
            return Err(Errno::EFBIG);
        }
        let now = self.now();
        lock_order::assert_none_held();
        held.sb().fs.truncate(held.inode_ref(), size, now)?;
        if stamp == Stamp::Always {
            held.inode_ref().update(|attr| {
                (attr.mtime, attr.ctime) = (now, now);
                Ok(())
            })?;
        }
        self.drop_privileges(held, who)
    }

    /// Takes set-user-id and set-group-id from a file whose contents somebody changed.
    ///
    /// Linux: `file_remove_privs`; who has `CAP_FSETID` may keep them.
    pub(crate) fn drop_privileges(&self, held: &HeldPath<'_>, who: &Subject<'_>) -> Result<()> {
        let attr = self.inode(held.inode()).attr();
        if attr.mode & (S_ISUID | S_ISGID) == 0 || who.capable(CapSet::FSETID) {
            return Ok(());
        }
        held.inode_ref().update(|attr| {
            attr.mode &= !(S_ISUID | sgid_to_drop(attr, who));
            Ok(())
        })
    }
}
