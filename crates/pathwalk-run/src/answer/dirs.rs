//! Listing directories, and the current one.

use super::{layout, open_file};
use crate::{
    cookies::Known,
    engine::{Base, Caller, Descriptor, Engine, Reply},
    sys::answer,
};
use pathwalk::{
    AccessMode, At, AtFlags, Cred, Errno, File, OpenFlags, Result, Seek, Stat,
    abi::{AT_FDCWD, PATH_MAX},
};
use rustix::fs::{self, SeekFrom};
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

/// More than that nobody is told at once.
const LISTED_AT_ONCE: usize = 1 << 18;

pub(crate) fn getdents64(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    list(engine, caller, |_| ())
}

pub(crate) fn getdents(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    list(engine, caller, layout::as_old_dirents)
}

/// The cookie's position is the position of the listing.
fn list(engine: &mut Engine, caller: &Caller, shape: fn(&mut [u8])) -> Result<Reply> {
    let (known, fd) = match open_file(engine, caller, 0)? {
        // Its number may be that of another one by then, which the thread could list as well.
        Descriptor::Ours(known, _) if known.given => {
            engine.is_listed(&known);
            return Ok(Reply::Pass);
        }
        Descriptor::Ours(known, fd) => (known, fd),
        Descriptor::Foreign(fd) => return Err(not_ours(&fd)?),
    };
    let from = answer(fs::tell(&fd))?;
    // In a buffer of a negative size no entry has room.
    let room = i32::try_from(caller.word(2)).unwrap_or(0) as usize;
    let room = room.min(LISTED_AT_ONCE);
    let mut buf = std::mem::take(&mut engine.listing);
    if buf.len() < room {
        buf.resize(room, 0);
    }
    let listed = list_to(engine, caller, (&known, &fd), from, (&mut buf[..room], shape));
    engine.listing = buf;
    listed
}

/// Lists from a position on, and leaves the descriptor where it came to.
fn list_to(
    engine: &Engine,
    caller: &Caller,
    (known, fd): (&Known, &OwnedFd),
    from: u64,
    (buf, shape): (&mut [u8], fn(&mut [u8])),
) -> Result<Reply> {
    let at = i64::try_from(from).map_err(|_| Errno::EINVAL)?;
    if known.file.offset() != from {
        let kind = fs::FileType::from_raw_mode(answer(fs::fstat(fd))?.st_mode);
        if kind != fs::FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        engine.task.lseek(&known.file, Seek::Set(at))?;
    }
    let len = engine.task.getdents64(&known.file, buf)?;
    shape(&mut buf[..len]);
    caller.put(1, &buf[..len])?;
    let to = known.file.offset();
    if to != from {
        answer(fs::seek(fd, SeekFrom::Start(to)))?;
    }
    Ok(Reply::Value(len as i64))
}

/// What a listing of a descriptor that is not ours answers.
fn not_ours(fd: &OwnedFd) -> Result<Errno> {
    let stat = answer(fs::fstat(fd))?;
    let directory = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory;
    Ok(if directory { Errno::EACCES } else { Errno::ENOTDIR })
}

pub(crate) fn getcwd(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let cwd = engine.cwd(caller)?;
    caller.base.replace(Some((Base::Dir(Arc::clone(&cwd)), None)));
    let mut path = vec![0; PATH_MAX];
    let at = At::Dir(&cwd.file);
    match engine.task.realpathat(at, b"", AtFlags::EMPTY_PATH, &mut path, &mut Stat::default()) {
        Ok(len) => path.truncate(len),
        // It may lie outside the root, which is said in front of its path.
        Err(Errno::ENOENT) if engine.people.is_some() => {
            let mut there = engine.task.fork();
            // It is there already: whether it may be searched is not asked.
            there.set_cred(Cred::root());
            there.fchdir(&cwd.file)?;
            path = there.getcwd()?;
        }
        Err(errno) => return Err(errno),
    }
    path.push(0);
    if (caller.args[1] as usize) < path.len() {
        return Err(Errno::ERANGE);
    }
    caller.put(0, &path)?;
    Ok(Reply::Value(path.len() as i64))
}

pub(crate) fn chdir(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let path = caller.path(0)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let base = engine.base(caller, AT_FDCWD, &path)?;
    let flags = OpenFlags::PATH | OpenFlags::DIRECTORY;
    let file = engine.task.openat(base.at(), &path, flags, 0)?;
    enter(engine, caller, &file)
}

/// The descriptor itself may be another file's by the time the kernel gets to it.
pub(crate) fn fchdir(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    match engine.descriptor(caller, caller.fd(0))? {
        Descriptor::Ours(known, fd) => {
            let stat = answer(fs::fstat(fd))?;
            if fs::FileType::from_raw_mode(stat.st_mode) != fs::FileType::Directory {
                return Err(Errno::ENOTDIR);
            }
            enter(engine, caller, &known.file)
        }
        Descriptor::Foreign(fd) => Err(not_ours(&fd)?),
    }
}

fn enter(engine: &mut Engine, caller: &Caller, directory: &File) -> Result<Reply> {
    may_enter(engine, directory)?;
    let (cookie, id, known) = engine.cookies.directory(directory)?;
    engine.patch_chdir(caller, (cookie.as_fd(), id), known)
}

fn may_enter(engine: &Engine, directory: &File) -> Result<()> {
    let flags = AtFlags::EACCESS | AtFlags::EMPTY_PATH;
    engine.task.faccessat2(At::Dir(directory), b"", AccessMode::X_OK, flags)
}
