//! Changing attributes: chmod, chown, utimensat, truncate.
//!
//! Here are the rules: who may change what. The change itself is made by `notify_change`.
//!
//! Linux: `chmod_common`, `chown_common`, `vfs_utimes`, `vfs_truncate`, `setattr_prepare`.

use super::{lookup_flags, making::may_keep_sgid, only, retry_estale};
use crate::{
    cred::Subject,
    file::{Borrowed, File},
    fs::Access,
    inode::Attr,
    security::{Hooks, PathRef, SetAttr},
    setattr::{Stamp, privileges_to_drop},
    task::{At, Task},
    walk::{HeldPath, Lookup, lookup::keep},
};
use pathwalk_abi::{
    AtFlags, CapSet, Errno, FileType, InodeFlags, OpenFlags, Result, SetTime, Timespec,
    mode::{S_IALLUGO, S_ISGID},
};

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
    /// - `EPERM`: it is immutable or append-only.
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
        let (dir, path) = (dir.into(), path.as_ref());
        retry_estale(|reval| {
            let held = keep(&self.request(dir, path, lookup_flags(flags) | reval)?)?;
            self.chmod_common(&held, mode)
        })
    }

    /// `fchmod(file, mode)`: changes an open file's permission bits. fchmod(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - then as [`Task::fchmodat2`].
    pub fn fchmod(&self, file: &File, mode: u32) -> Result<()> {
        let held = self.held_file(file)?;
        self.chmod_common(&held, mode)
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

    /// `fchownat(dir, path, uid, gid, flags)`: changes a file's owner and group; `None` leaves one as it is, and so does
    /// `u32::MAX`, which is chown(2)'s -1. What is no
    /// directory loses its set-user-id bit, and the set-group-id bit if its group may execute it. fchownat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - those of the lookup.
    /// - `EROFS`: the mount is read-only.
    /// - `EPERM`: it is immutable or append-only.
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
        let (dir, path) = (dir.into(), path.as_ref());
        retry_estale(|reval| {
            let held = keep(&self.request(dir, path, lookup_flags(flags) | reval)?)?;
            self.chown_common(&held, uid, gid)
        })
    }

    /// `fchown(file, uid, gid)`: changes an open file's owner and group. fchown(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - then as [`Task::fchownat`].
    pub fn fchown(&self, file: &File, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let held = self.held_file(file)?;
        self.chown_common(&held, uid, gid)
    }

    /// `utimensat(dir, path, atime, mtime, flags)`: changes a file's times. utimensat(2)
    ///
    /// If both are left as they are the path is not even looked at.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - those of the lookup.
    /// - `EINVAL`: a time has a second's worth of nanoseconds, or more.
    /// - `EROFS`: the mount is read-only.
    /// - `EPERM`: it is immutable; or append-only, and not both are set to now.
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
        let (dir, path) = (dir.into(), path.as_ref());
        retry_estale(|reval| {
            let held = keep(&self.request(dir, path, lookup_flags(flags) | reval)?)?;
            self.utimes_common(&held, atime, mtime)
        })
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
        let held = self.held_file(file)?;
        self.utimes_common(&held, atime, mtime)
    }

    /// `truncate(path, size)`: sets a file's size; what is new reads as zero. truncate(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the size is negative.
    /// - those of the lookup.
    /// - `EISDIR`: it is a directory. `EINVAL`: it is no regular file.
    /// - `EPERM`: it is immutable. `EACCES`: it may not be written.
    /// - `EROFS`: the mount is read-only.
    /// - `EPERM`: it is append-only.
    /// - `ETXTBSY`: it runs.
    /// - `EFBIG`: no file can be so large.
    pub fn truncate(&self, path: impl AsRef<[u8]>, size: i64) -> Result<()> {
        self.truncateat(At::Cwd, path, size)
    }

    /// `truncateat(dir, path, size)`: sets a file's size. Linux has no such call: it is [`Task::truncate`] from a directory,
    /// or within bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::truncate`].
    pub fn truncateat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        size: i64,
    ) -> Result<()> {
        self.truncateat_up_to(dir, path, size, u64::MAX)
    }

    /// `truncateat_up_to(dir, path, size, most)`: sets a file's size, as far as it may grow. `most` is Linux's `RLIMIT_FSIZE`.
    ///
    /// # Errors
    ///
    /// As [`Task::truncate`].
    ///
    /// - `EFBIG`: it would grow beyond that. Then Linux sends `SIGXFSZ`, too.
    pub fn truncateat_up_to<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        size: i64,
        most: u64,
    ) -> Result<()> {
        let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
        let (dir, path) = (dir.into(), path.as_ref());
        retry_estale(|reval| self.do_truncateat(dir, path, (size, most), reval))
    }

    fn do_truncateat(
        &self,
        dir: At<'_>,
        path: &[u8],
        size: (u64, u64),
        reval: Lookup,
    ) -> Result<()> {
        let held = keep(&self.request(dir, path, Lookup::FOLLOW | reval)?)?;
        let vfs = self.vfs();
        match vfs.inode(held.inode()).file_type() {
            Some(FileType::Regular) => {}
            Some(FileType::Directory) => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let who = held.seen_by(self.cred.subject());
        vfs.inode_permission(held.inode(), Access::WRITE, &who)?;
        let _writing = held.want_write()?;
        must_not_only_grow(&held)?;
        let _access = vfs.get_write_access(held.inode())?;
        vfs.ask(Hooks::PATH_TRUNCATE, |module| {
            module.path_truncate(&who, &PathRef::of(vfs, &held))
        })?;
        vfs.do_truncate(&held, size, &who, Stamp::Changes)
    }

    /// `ftruncate(file, size)`: sets an open file's size. ftruncate(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the size is negative.
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - `EINVAL`: it is no regular file, or not open for writing.
    /// - `EPERM`: it is append-only.
    /// - `EFBIG`: no file can be so large.
    pub fn ftruncate(&self, file: &File, size: i64) -> Result<()> {
        let size = u64::try_from(size).map_err(|_| Errno::EINVAL)?;
        let held = self.held_file(file)?;
        let regular = self.vfs().inode(held.inode()).attr().file_type() == FileType::Regular;
        if !regular || !file.is_open_for(OpenFlags::WRONLY) {
            return Err(Errno::EINVAL);
        }
        must_not_only_grow(&held)?;
        let who = held.seen_by(self.cred.subject());
        file.may_truncate(&who)?;
        self.vfs().do_truncate(&held, (size, u64::MAX), &who, Stamp::Always)
    }

    /// `ioctl(file, FS_IOC_GETFLAGS)`: tells a file's flags, as lsattr(1) shows them. ioctl_iflags(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - `ENOTTY`: the file system has no such flags.
    pub fn getflags(&self, file: &File) -> Result<InodeFlags> {
        let held = self.held_file(file)?;
        held.sb().fs.inode_flags().ok_or(Errno::ENOTTY)?;
        Ok(held.inode_ref().attr().flags)
    }

    /// `ioctl(file, FS_IOC_SETFLAGS, flags)`: changes a file's flags, as chattr(1) does. ioctl_iflags(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - `EROFS`: the mount is read-only.
    /// - `ENOTTY`: the file system has no such flags.
    /// - `EPERM`: it is another's file; or `IMMUTABLE` or `APPEND` changes without `CAP_LINUX_IMMUTABLE`.
    /// - `EOPNOTSUPP`: the file system does not have this flag.
    pub fn setflags(&self, file: &File, flags: InodeFlags) -> Result<()> {
        let held = self.held_file(file)?;
        let _writing = held.want_write()?;
        let known = held.sb().fs.inode_flags().ok_or(Errno::ENOTTY)?;
        let who = held.seen_by(self.cred.subject());
        self.vfs().notify_change(&held, |attr, change| {
            if !who.owner_or_capable(attr.uid) {
                return Err(Errno::EPERM);
            }
            let fixing = InodeFlags::IMMUTABLE.bits() | InodeFlags::APPEND.bits();
            let changes = (attr.flags.bits() ^ flags.bits()) & fixing != 0;
            if changes && !who.capable(CapSet::LINUX_IMMUTABLE) {
                return Err(Errno::EPERM);
            }
            if flags.bits() & !known.bits() != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            change.flags = Some(flags);
            Ok(())
        })
    }

    /// The place of an open file that was not opened with `O_PATH`.
    pub(crate) fn held_file<'f>(&self, file: &'f File) -> Result<Borrowed<'f>> {
        self.place_of(file)?;
        if file.is_path() { Err(Errno::EBADF) } else { Ok(file.borrow()) }
    }

    fn chmod_common(&self, held: &HeldPath<'_>, mode: u32) -> Result<()> {
        let _writing = held.want_write()?;
        let (vfs, who) = (self.vfs(), held.seen_by(self.cred.subject()));
        let asked = mode & S_IALLUGO;
        vfs.ask(Hooks::PATH_CHMOD, |module| {
            module.path_chmod(&who, &PathRef::of(vfs, held), asked)
        })?;
        vfs.notify_change(held, |attr, change| {
            must_not_be_fixed(attr)?;
            if attr.file_type() == FileType::Symlink {
                return Err(Errno::EOPNOTSUPP);
            }
            who.must_be_mapped(attr.uid, attr.gid)?;
            vfs.security_inode_setattr(held, &who, SetAttr::Mode(asked))?;
            if !who.owner_or_capable(attr.uid) {
                return Err(Errno::EPERM);
            }
            let mut bits = mode & S_IALLUGO;
            if bits & S_ISGID != 0 && !may_keep_sgid(attr.gid, &who) {
                bits &= !S_ISGID;
            }
            change.mode = Some(bits);
            Ok(())
        })
    }

    fn chown_common(&self, held: &HeldPath<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let _writing = held.want_write()?;
        // -1 as a number is nobody's.
        let [uid, gid] = [uid, gid].map(|id| id.filter(|&id| id != u32::MAX));
        let (vfs, who) = (self.vfs(), held.seen_by(self.cred.subject()));
        vfs.ask(Hooks::PATH_CHOWN, |module| {
            module.path_chown(&who, &PathRef::of(vfs, held), uid, gid)
        })?;
        vfs.notify_change(held, |attr, change| {
            if uid.is_some() || gid.is_some() {
                must_not_be_fixed(attr)?;
            }
            // What is given must be somebody's there, and what stays too.
            let id = |given: Option<u32>, stored: Option<u32>, seen: Option<u32>| match given {
                Some(_) => stored.ok_or(Errno::EOVERFLOW).map(Some),
                None => seen.ok_or(Errno::EOVERFLOW).map(|_| None),
            };
            let (seen_uid, seen_gid) = (who.seen_uid(attr.uid), who.seen_gid(attr.gid));
            let new_uid = id(uid, uid.and_then(|uid| who.stored_uid(uid)), seen_uid);
            let new_gid = id(gid, gid.and_then(|gid| who.stored_gid(gid)), seen_gid);
            let (new_uid, new_gid) = (new_uid?, new_gid?);
            vfs.security_inode_setattr(held, &who, SetAttr::Owner(uid, gid))?;
            let may = |hidden: bool| {
                who.capable_over(CapSet::CHOWN, attr.uid, attr.gid)
                    || hidden && who.capable(CapSet::CHOWN)
            };
            if let Some(uid) = uid {
                let own = who.owns(attr.uid) && Some(uid) == seen_uid;
                if !own && !may(seen_uid.is_none()) {
                    return Err(Errno::EPERM);
                }
            }
            if let Some(gid) = gid {
                let own = who.owns(attr.uid) && (who.is_member(gid) || Some(gid) == seen_gid);
                if !own && !may(seen_gid.is_none()) {
                    return Err(Errno::EPERM);
                }
            }
            if attr.file_type() != FileType::Directory {
                let dropped = privileges_to_drop(attr, &who);
                // To take the bits is to change the mode, also where owner and group are left as they are.
                if dropped != 0 && !who.owner_or_capable(attr.uid) {
                    return Err(Errno::EPERM);
                }
                change.mode = (dropped != 0).then_some(attr.mode & S_IALLUGO & !dropped);
            }
            (change.uid, change.gid) = (new_uid, new_gid);
            // What may not be done takes no capabilities away.
            if attr.file_type() == FileType::Directory { Ok(()) } else { vfs.kill_caps(held) }
        })
    }

    fn utimes_common(&self, held: &HeldPath<'_>, atime: SetTime, mtime: SetTime) -> Result<()> {
        if [atime, mtime].iter().any(|time| matches!(time, SetTime::At(at) if at.nsec >= NSEC)) {
            return Err(Errno::EINVAL);
        }
        let _writing = held.want_write()?;
        let vfs = self.vfs();
        let who = held.seen_by(self.cred.subject());
        vfs.notify_change(held, |attr, change| {
            let own = who.owner_or_capable(attr.uid);
            // Setting both to now is what a write does too: who may write may touch.
            let touches = (atime, mtime) == (SetTime::Now, SetTime::Now);
            if !touches {
                must_not_be_fixed(attr)?;
            } else if attr.flags.contains(InodeFlags::IMMUTABLE) {
                return Err(Errno::EPERM);
            }
            if touches && !own {
                vfs.inode_permission(held.inode(), Access::WRITE, &who)?;
            }
            who.must_be_mapped(attr.uid, attr.gid)?;
            vfs.security_inode_setattr(held, &who, SetAttr::Times(atime, mtime))?;
            if !touches && !own {
                return Err(Errno::EPERM);
            }
            change.atime = time_to_set(atime, change.now);
            change.mtime = time_to_set(mtime, change.now);
            Ok(())
        })
    }
}

/// Refuses changes of mode, owner and given times where the inode is immutable or append-only.
///
/// # Errors
///
/// - `EPERM`: it is.
///
/// Linux: `may_setattr`.
pub(crate) fn must_not_be_fixed(attr: &Attr) -> Result<()> {
    let fixed = attr.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND);
    if fixed { Err(Errno::EPERM) } else { Ok(()) }
}

/// Refuses changes of extended attributes and ACLs where the inode is immutable or append-only, or has an owner or a group
/// that the mount does not show.
///
/// # Errors
///
/// - `EPERM`: it is, or has.
///
/// Linux: `may_write_xattr`.
pub(crate) fn may_write_xattr(attr: &Attr, who: &Subject<'_>) -> Result<()> {
    must_not_be_fixed(attr)?;
    if who.has_unmapped(attr.uid, attr.gid) { Err(Errno::EPERM) } else { Ok(()) }
}

/// Refuses to cut off what may only be appended to.
///
/// # Errors
///
/// - `EPERM`: it may.
fn must_not_only_grow(held: &HeldPath<'_>) -> Result<()> {
    let only_grows = held.inode_ref().attr().flags.contains(InodeFlags::APPEND);
    if only_grows { Err(Errno::EPERM) } else { Ok(()) }
}

/// Nanoseconds of a second.
const NSEC: u32 = 1_000_000_000;

fn time_to_set(to: SetTime, now: Timespec) -> Option<Timespec> {
    match to {
        SetTime::Omit => None,
        SetTime::Now => Some(now),
        SetTime::At(at) => Some(at),
    }
}
