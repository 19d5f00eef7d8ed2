//! stat and its kin, access, readlink, statfs.

use super::{
    at_flags,
    attr::{Foreign, foreign, no_directory},
    behind, by_descriptor, done, layout, place, place_or_none,
};
use crate::{
    engine::{Caller, Descriptor, Engine, Reply},
    hidden::is_nameless,
    sys::{answer, process::by_number},
};
use pathwalk::{
    AccessMode, At, AtFlags, Errno, Result, Statfs, StatxMask, abi::AT_FDCWD, fs::Access,
};
use rustix::{fs, process::geteuid};
use std::os::fd::OwnedFd;

pub(crate) fn stat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    stat_at(engine, caller, AT_FDCWD, [0, 1], AtFlags::empty())
}

pub(crate) fn lstat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    stat_at(engine, caller, AT_FDCWD, [0, 1], AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn newfstatat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = at_flags(caller, 3);
    if caller.fd(0) >= 0 && by_descriptor(caller, 1, flags) == Ok(true) {
        return stat_of(engine, caller, 2);
    }
    stat_at(engine, caller, caller.fd(0), [1, 2], flags)
}

pub(crate) fn fstat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    stat_of(engine, caller, 1)
}

fn stat_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, to]: [usize; 2],
    flags: AtFlags,
) -> Result<Reply> {
    caller.only_looks();
    let (base, path) = place_or_none(engine, caller, dir, path, flags);
    said_of_path(dir, &path, flags)?;
    let stat = engine.task.fstatat(base.at(), &path, flags)?;
    done(caller.put(to, &layout::stat(&stat)))
}

fn stat_of(engine: &mut Engine, caller: &Caller, to: usize) -> Result<Reply> {
    let stat = match engine.descriptor(caller, caller.fd(0))? {
        Descriptor::Ours(known, _) => engine.task.fstat(&known.file)?,
        Descriptor::Foreign(fd) => {
            let mut stat = layout::of_host(&answer(fs::fstat(fd))?);
            let owners = (stat.st_uid, stat.st_gid);
            (stat.st_uid, stat.st_gid) = owners_of(engine, owners, (stat.st_mode, stat.st_nlink));
            stat
        }
    };
    done(caller.put(to, &layout::stat(&stat)))
}

/// Whose a file is that is not of the tree, as `/proc/PID/fd` tells it: what has no name belongs to who has it.
fn owners_of(engine: &Engine, of_host: (u32, u32), (mode, nlink): (u32, u64)) -> (u32, u32) {
    let cred = engine.task.cred();
    let own = of_host.0 == geteuid().as_raw() && is_nameless(mode, nlink);
    if engine.people.is_some() && own { (cred.fsuid, cred.fsgid) } else { of_host }
}

pub(crate) fn statx(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = at_flags(caller, 2);
    let mask = StatxMask::from_bits_retain(caller.word(3));
    let stat = if caller.fd(0) >= 0 && by_descriptor(caller, 1, flags) == Ok(true) {
        match engine.descriptor(caller, caller.fd(0)) {
            Ok(Descriptor::Ours(known, _)) => {
                engine.task.statx(At::Dir(&known.file), b"", flags, mask)?
            }
            // Flags that there are not are nothing to a descriptor; how to ask is looked at first.
            Err(errno) => {
                let asks = AtFlags::STATX_FORCE_SYNC | AtFlags::STATX_DONT_SYNC;
                engine.task.statx(At::Nowhere(errno), b"", flags & asks, mask)?
            }
            Ok(Descriptor::Foreign(fd)) => {
                let (flags, mask) = (
                    fs::AtFlags::from_bits_retain(flags.bits()),
                    fs::StatxFlags::from_bits_retain(mask.bits()),
                );
                let mut stat = layout::statx_of_host(&answer(fs::statx(fd, c"", flags, mask))?);
                let (owners, nlink) = ((stat.stx_uid, stat.stx_gid), stat.stx_nlink.into());
                let kind = (stat.stx_mode.into(), nlink);
                (stat.stx_uid, stat.stx_gid) = owners_of(engine, owners, kind);
                stat
            }
        }
    } else {
        caller.only_looks();
        let (base, path) = place_or_none(engine, caller, caller.fd(0), 1, flags);
        said_of_path(caller.fd(0), &path, flags)?;
        engine.task.statx(base.at(), &path, flags, mask)?
    };
    done(caller.put(4, &layout::statx(&stat)))
}

/// The flags of the current directory, named by no path, are looked at as those of a path: the library is given it as the
/// descriptor that it is for it, of which any flags are taken.
///
/// # Errors
///
/// - `EINVAL`: there are no such flags.
fn said_of_path(dir: i32, path: &[u8], flags: AtFlags) -> Result<()> {
    let known = AtFlags::SYMLINK_NOFOLLOW
        | AtFlags::NO_AUTOMOUNT
        | AtFlags::EMPTY_PATH
        | AtFlags::STATX_FORCE_SYNC
        | AtFlags::STATX_DONT_SYNC;
    let cwd = dir == AT_FDCWD && path.is_empty();
    if cwd && !known.contains(flags) { Err(Errno::EINVAL) } else { Ok(()) }
}

pub(crate) fn access(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    access_at(engine, caller, AT_FDCWD, [0, 1], AtFlags::empty())
}

pub(crate) fn faccessat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    access_at(engine, caller, caller.fd(0), [1, 2], AtFlags::empty())
}

pub(crate) fn faccessat2(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    access_at(engine, caller, caller.fd(0), [1, 2], at_flags(caller, 3))
}

fn access_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, mode]: [usize; 2],
    flags: AtFlags,
) -> Result<Reply> {
    caller.only_looks();
    let mode = AccessMode::from_bits_retain(caller.word(mode));
    let (base, path) = place(engine, caller, dir, path, flags);
    let may = engine.task.faccessat2(base.at(), &path, mode, flags);
    done(match foreign(engine, caller, dir, (&path, flags), may) {
        Some(fd) => access_foreign(engine, fd, mode, flags),
        None => may,
    })
}

fn access_foreign(engine: &Engine, fd: OwnedFd, mode: AccessMode, flags: AtFlags) -> Result<()> {
    let fd = no_directory(fd)?;
    let effective = flags.contains(AtFlags::EACCESS);
    let foreign = Foreign::of(engine, &fd)?;
    if let Some(cred) = foreign.cred {
        let who = if effective { cred.subject() } else { cred.real_subject() };
        return foreign.permission(Access::from_bits_truncate(mode.bits()), &who);
    }
    let mode = fs::Access::from_bits_retain(mode.bits());
    let flags = if effective { fs::AtFlags::EACCESS } else { fs::AtFlags::empty() };
    answer(fs::accessat(fs::CWD, by_number(&fd), mode, flags))
}

pub(crate) fn readlink(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    readlink_at(engine, caller, AT_FDCWD, [0, 1, 2])
}

pub(crate) fn readlinkat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    readlink_at(engine, caller, caller.fd(0), [1, 2, 3])
}

fn readlink_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, to, len]: [usize; 3],
) -> Result<Reply> {
    let len = caller.word(len).cast_signed();
    if len <= 0 {
        return Err(Errno::EINVAL);
    }
    caller.only_looks();
    let path = caller.path(path)?;
    let empty = AtFlags::EMPTY_PATH;
    let body = match engine.base(caller, dir, &path) {
        Ok(base) => {
            let mut body = vec![0; pathwalk::abi::PATH_MAX];
            let read = engine.task.readlinkat(base.at(), &path, &mut body)?;
            body.truncate(read);
            engine.asker.shown(body)
        }
        // By an empty path one reads what was handed in, if it is a link.
        Err(errno) => match foreign(engine, caller, dir, (&path, empty), Err(errno)) {
            Some(fd) => answer(fs::readlinkat(fd, c"", Vec::new()))?.into_bytes(),
            None => return Err(errno),
        },
    };
    let shown = &body[..body.len().min(len as usize)];
    caller.put(to, shown)?;
    Ok(Reply::Value(shown.len() as i64))
}

pub(crate) fn statfs(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let path = caller.path(0)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    caller.only_looks();
    engine.let_all_go();
    let base = engine.base(caller, AT_FDCWD, &path)?;
    let mut stat = engine.task.statfsat(base.at(), &path)?;
    if let Some(fd) = behind(engine, &base, &path, AtFlags::empty()) {
        stat = statfs_foreign(&fd)?;
    }
    done(caller.put(1, &layout::statfs(&stat)))
}

pub(crate) fn fstatfs(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    engine.let_all_go();
    let stat = match engine.descriptor(caller, caller.fd(0))? {
        Descriptor::Ours(known, _) => engine.task.fstatfs(&known.file)?,
        Descriptor::Foreign(fd) => statfs_foreign(&fd)?,
    };
    done(caller.put(1, &layout::statfs(&stat)))
}

fn statfs_foreign(fd: &OwnedFd) -> Result<Statfs> {
    let host = answer(fs::fstatfs(fd))?;
    Ok(Statfs {
        f_type: host.f_type,
        f_bsize: host.f_bsize,
        f_blocks: host.f_blocks,
        f_bfree: host.f_bfree,
        f_bavail: host.f_bavail,
        f_files: host.f_files,
        f_ffree: host.f_ffree,
        f_namelen: host.f_namelen,
        f_frsize: host.f_frsize,
        f_flags: host.f_flags,
        ..Statfs::default()
    })
}
