//! Modes, owners, times and sizes.

pub(crate) use super::open::truncate;
use super::{at_flags, done, open_file, place};
use crate::{
    engine::{Base, Caller, Descriptor, Engine, Reply},
    hidden::is_nameless,
    setid::SET_ID,
    sys::{answer, memory},
};
use pathwalk::{
    At, AtFlags, Attr, CapSet, Cred, Errno, FileType, Result, SetTime, Subject, Timespec,
    abi::{AT_FDCWD, UTIME_NOW, UTIME_OMIT},
    fs::Access,
    generic_permission,
};
use rustix::{
    fs,
    process::{Gid, Uid, geteuid},
};
use std::os::fd::OwnedFd;

pub(crate) fn chmod(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    chmod_at(engine, caller, AT_FDCWD, [0, 1], AtFlags::empty())
}

pub(crate) fn fchmodat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    chmod_at(engine, caller, caller.fd(0), [1, 2], AtFlags::empty())
}

pub(crate) fn fchmodat2(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    chmod_at(engine, caller, caller.fd(0), [1, 2], at_flags(caller, 3))
}

fn chmod_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, mode]: [usize; 2],
    flags: AtFlags,
) -> Result<Reply> {
    let (base, path) = place(engine, caller, dir, path, flags);
    let mode = caller.word(mode);
    let changed = engine.task.fchmodat2(base.at(), &path, mode, flags);
    if let Some(fd) = foreign(engine, caller, dir, (&path, flags), changed) {
        return done(chmod_foreign(engine, fd, mode));
    }
    of_no_kind(engine, &base, (&path, flags), changed)?;
    if mode & SET_ID != 0 {
        engine.has_set_ids(engine.task.fstatat(base.at(), &path, flags));
    }
    done(Ok(()))
}

pub(crate) fn fchmod(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let mode = caller.word(1);
    done(match open_file(engine, caller, 0)? {
        Descriptor::Ours(known, _) => {
            let at = At::Dir(&known.file);
            engine.task.fchmodat2(at, b"", mode, AtFlags::EMPTY_PATH)?;
            if mode & SET_ID != 0 {
                engine.has_set_ids(engine.task.fstat(&known.file));
            }
            Ok(())
        }
        Descriptor::Foreign(fd) => chmod_foreign(engine, fd, mode),
    })
}

fn chmod_foreign(engine: &Engine, fd: OwnedFd, mode: u32) -> Result<()> {
    let fd = no_directory(fd)?;
    Foreign::of(engine, &fd)?.may(CapSet::FOWNER)?;
    answer(fs::fchmod(fd, fs::Mode::from_raw_mode(mode)))
}

pub(crate) fn chown(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    chown_at(engine, caller, AT_FDCWD, [0, 1, 2], AtFlags::empty())
}

pub(crate) fn lchown(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    chown_at(engine, caller, AT_FDCWD, [0, 1, 2], AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn fchownat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    chown_at(engine, caller, caller.fd(0), [1, 2, 3], at_flags(caller, 4))
}

fn chown_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, uid, gid]: [usize; 3],
    flags: AtFlags,
) -> Result<Reply> {
    let (base, path) = place(engine, caller, dir, path, flags);
    let (uid, gid) = (id(caller.word(uid)), id(caller.word(gid)));
    let changed = engine.task.fchownat(base.at(), &path, uid, gid, flags);
    done(match foreign(engine, caller, dir, (&path, flags), changed) {
        Some(fd) => chown_foreign(engine, fd, uid, gid),
        None => of_no_kind(engine, &base, (&path, flags), changed),
    })
}

pub(crate) fn fchown(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let (uid, gid) = (id(caller.word(1)), id(caller.word(2)));
    done(match open_file(engine, caller, 0)? {
        Descriptor::Ours(known, _) => {
            engine.task.fchownat(At::Dir(&known.file), b"", uid, gid, AtFlags::EMPTY_PATH)
        }
        Descriptor::Foreign(fd) => chown_foreign(engine, fd, uid, gid),
    })
}

fn chown_foreign(engine: &Engine, fd: OwnedFd, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    let fd = no_directory(fd)?;
    let (uid, gid) = Foreign::of(engine, &fd)?.new_owners(uid, gid)?;
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    answer(fs::fchown(fd, uid, gid))
}

/// What is not of the tree, where a call names it by its descriptor alone (`AT_EMPTY_PATH`), of which the library has said that it is no
/// directory where a path could begin.
pub(super) fn foreign(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    (path, flags): (&[u8], AtFlags),
    said: Result<()>,
) -> Option<OwnedFd> {
    let alone = dir >= 0 && path.is_empty() && flags.contains(AtFlags::EMPTY_PATH);
    if !alone || said != Err(Errno::ENOTDIR) {
        return None;
    }
    match engine.descriptor(caller, dir) {
        Ok(Descriptor::Foreign(fd)) => Some(fd),
        _ => None,
    }
}

/// What is changed of an inode of no kind, as an epoll's: there is nothing to change, whoever asks, where the library asks first who does.
pub(super) fn of_no_kind(
    engine: &Engine,
    base: &Base,
    (path, flags): (&[u8], AtFlags),
    changed: Result<()>,
) -> Result<()> {
    if changed != Err(Errno::EPERM) {
        return changed;
    }
    match engine.task.fstatat(base.at(), path, flags) {
        Ok(stat) if FileType::from_mode(stat.st_mode).is_none() => Err(Errno::EOPNOTSUPP),
        _ => changed,
    }
}

/// What has no place in the tree, and who asks for it to be changed. For the host that is who started this; somebody who is another one
/// in the tree may do no more than that one may.
pub(super) struct Foreign<'e> {
    stat: fs::Stat,
    /// Who asks, where it is another one.
    pub(super) cred: Option<&'e Cred>,
}

impl<'e> Foreign<'e> {
    pub(super) fn of(engine: &'e Engine, fd: &OwnedFd) -> Result<Self> {
        let cred = engine.people.is_some().then(|| engine.task.cred());
        Ok(Self { stat: answer(fs::fstat(fd))?, cred })
    }

    /// Whether it belongs to this user.
    fn is_own(&self, fsuid: u32) -> bool {
        let nameless = is_nameless(self.stat.st_mode, self.stat.st_nlink);
        self.stat.st_uid == fsuid || nameless && self.stat.st_uid == geteuid().as_raw()
    }

    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it is of no kind.
    /// - `EPERM`: who asks neither owns it nor has the capability.
    pub(super) fn may(&self, cap: CapSet) -> Result<()> {
        let Some(cred) = self.cred else { return Ok(()) };
        if self.kind().is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        let may = cred.caps.contains(cap) || self.is_own(cred.fsuid);
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// None of an inode that is nobody's in particular, as an epoll's.
    pub(super) fn kind(&self) -> Option<FileType> {
        FileType::from_mode(self.stat.st_mode)
    }

    /// # Errors
    ///
    /// - `EACCES`: its mode does not give this one this access.
    pub(super) fn permission(&self, access: Access, who: &Subject<'_>) -> Result<()> {
        let uid = if self.is_own(who.fsuid) { who.fsuid } else { self.stat.st_uid };
        let attr = Attr { mode: self.stat.st_mode, uid, gid: self.stat.st_gid, ..Attr::default() };
        generic_permission(&attr, access, who)
    }

    /// The owners that it is to have for the host.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it is of no kind.
    /// - `EPERM`: who asks may not give it away, or not to that group.
    ///
    /// Linux: `chown_ok`, `chgrp_ok`.
    fn new_owners(&self, uid: Option<u32>, gid: Option<u32>) -> Result<(Option<u32>, Option<u32>)> {
        let Some(cred) = self.cred.filter(|cred| !cred.caps.contains(CapSet::CHOWN)) else {
            return Ok((uid, gid));
        };
        if self.kind().is_none() {
            return Err(Errno::EOPNOTSUPP);
        }
        let own = self.is_own(cred.fsuid);
        let in_group =
            |gid| [self.stat.st_gid, cred.fsgid].contains(&gid) || cred.groups.contains(&gid);
        let may = uid.is_none_or(|uid| own && uid == cred.fsuid)
            && gid.is_none_or(|gid| own && in_group(gid));
        // That it is its own already is known here alone.
        if may { Ok((None, gid)) } else { Err(Errno::EPERM) }
    }
}

/// What was handed in from outside may be changed as far as its descriptor reaches; but directories are closed.
///
/// # Errors
///
/// - `EACCES`: it is a directory of the host.
pub(super) fn no_directory(fd: OwnedFd) -> Result<OwnedFd> {
    let stat = answer(fs::fstat(&fd))?;
    let directory = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory;
    if directory { Err(Errno::EACCES) } else { Ok(fd) }
}

/// An owner that is to be set; all ones is none.
fn id(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

pub(crate) fn utime(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let times = match caller.args[1] {
        0 => [SetTime::Now; 2],
        at => words::<2>(caller, at)?.map(|sec| SetTime::At(Timespec { sec, nsec: 0 })),
    };
    utimes_at(engine, caller, AT_FDCWD, 0, times, AtFlags::empty())
}

pub(crate) fn utimes(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let times = timevals(caller, caller.args[1])?;
    utimes_at(engine, caller, AT_FDCWD, 0, times, AtFlags::empty())
}

pub(crate) fn futimesat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let times = timevals(caller, caller.args[2])?;
    if caller.args[1] == 0 && caller.fd(0) != AT_FDCWD {
        return utimes_of(engine, caller, times);
    }
    utimes_at(engine, caller, caller.fd(0), 1, times, AtFlags::empty())
}

pub(crate) fn utimensat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = at_flags(caller, 3);
    let times = match caller.args[2] {
        0 => [SetTime::Now; 2],
        at => {
            let [asec, ansec, msec, mnsec] = words::<4>(caller, at)?;
            [time(asec, ansec), time(msec, mnsec)]
        }
    };
    if times == [SetTime::Omit; 2] {
        return Ok(Reply::Value(0));
    }
    if caller.args[1] == 0 && caller.fd(0) != AT_FDCWD {
        if !flags.is_empty() {
            return Err(Errno::EINVAL);
        }
        return utimes_of(engine, caller, times);
    }
    utimes_at(engine, caller, caller.fd(0), 1, times, flags)
}

/// A time of nanoseconds. That there are too many of them is said when the file was found.
fn time(sec: i64, nsec: i64) -> SetTime {
    let too_many = SetTime::At(Timespec { sec, nsec: u32::MAX });
    SetTime::from_raw(sec, nsec).unwrap_or(too_many)
}

fn utimes_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    path: usize,
    [atime, mtime]: [SetTime; 2],
    flags: AtFlags,
) -> Result<Reply> {
    let (base, path) = place(engine, caller, dir, path, flags);
    let changed = engine.task.utimensat(base.at(), &path, atime, mtime, flags);
    done(match foreign(engine, caller, dir, (&path, flags), changed) {
        Some(fd) => utimes_foreign(engine, fd, [atime, mtime]),
        None => of_no_kind(engine, &base, (&path, flags), changed),
    })
}

fn utimes_of(engine: &mut Engine, caller: &Caller, [atime, mtime]: [SetTime; 2]) -> Result<Reply> {
    done(match open_file(engine, caller, 0)? {
        Descriptor::Ours(known, _) => {
            let at = At::Dir(&known.file);
            engine.task.utimensat(at, b"", atime, mtime, AtFlags::EMPTY_PATH)
        }
        Descriptor::Foreign(fd) => utimes_foreign(engine, fd, [atime, mtime]),
    })
}

fn utimes_foreign(engine: &Engine, fd: OwnedFd, [atime, mtime]: [SetTime; 2]) -> Result<()> {
    let host = |time| match time {
        SetTime::Omit => fs::Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::At(time) => fs::Timespec { tv_sec: time.sec, tv_nsec: time.nsec.into() },
    };
    let fd = no_directory(fd)?;
    let foreign = Foreign::of(engine, &fd)?;
    let touches = [atime, mtime] == [SetTime::Now; 2];
    match (foreign.may(CapSet::FOWNER), foreign.cred) {
        // Who may write it may touch it.
        (Err(_), Some(cred)) if touches => foreign.permission(Access::WRITE, &cred.subject())?,
        (may, _) => may?,
    }
    let times = fs::Timestamps { last_access: host(atime), last_modification: host(mtime) };
    answer(fs::futimens(fd, &times))
}

/// Two times of microseconds; none are the current time.
fn timevals(caller: &Caller, at: u64) -> Result<[SetTime; 2]> {
    if at == 0 {
        return Ok([SetTime::Now; 2]);
    }
    let [asec, ausec, msec, musec] = words::<4>(caller, at)?;
    let time = |sec, usec: i64| match usec {
        0..1_000_000 => Ok(SetTime::At(Timespec { sec, nsec: usec as u32 * 1000 })),
        _ => Err(Errno::EINVAL),
    };
    Ok([time(asec, ausec)?, time(msec, musec)?])
}

fn words<const N: usize>(caller: &Caller, at: u64) -> Result<[i64; N]> {
    let mut bytes = vec![0; 8 * N];
    if memory::read(caller.tid, at, &mut bytes)? != bytes.len() {
        return Err(Errno::EFAULT);
    }
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        *word = i64::from_ne_bytes(eight);
    }
    Ok(words)
}
