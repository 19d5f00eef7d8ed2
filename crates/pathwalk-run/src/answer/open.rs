//! open, openat, openat2, creat.

use super::{
    done, place_from,
    wait::{Waiting, later},
};
use crate::{
    cookies::{HostId, Kind},
    engine::{Base, Caller, Cloexec, Engine, Reply, install},
    procfs,
    setid::is_in_memory,
    sys::{
        answer, memory,
        process::{self, by_number},
    },
    tty, watches,
};
use pathwalk::{
    AtFlags, Errno, Executable, File, FileType, OpenFlags, OpenHow, ResolveFlags, Result,
    abi::AT_FDCWD,
};
use rustix::fs::{self, Mode, OFlags};
use std::{
    io::IsTerminal,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// The flags of an opening that are the open file's, beside those that the file system is told.
const STATUS: OpenFlags = OpenFlags::NONBLOCK.union(OpenFlags::DIRECT);
/// Those that a directory shows, and that matter nowhere in it.
const SHOWN: OpenFlags = OpenFlags::NONBLOCK
    .union(OpenFlags::APPEND)
    .union(OpenFlags::ASYNC)
    .union(OpenFlags::DSYNC)
    .union(OpenFlags::SYNC)
    .union(OpenFlags::NOATIME);
/// What a fifo and a device are told beside how they are opened; and a device alone.
const SLOW: OpenFlags =
    OpenFlags::DIRECT.union(OpenFlags::ASYNC).union(OpenFlags::DSYNC).union(OpenFlags::SYNC);
const DEVICE: OpenFlags = OpenFlags::NOATIME;
/// Of a path of which no flags say anything.
const NONE: AtFlags = AtFlags::empty();
/// `struct open_how` as it is.
const HOW: u64 = size_of::<OpenHow>() as u64;

pub(crate) fn open(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let how = how_of(caller.word(1), caller.word(2));
    do_open(engine, caller, AT_FDCWD, 0, &how, false)
}

pub(crate) fn creat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC;
    let how = OpenHow { flags: flags.bits(), mode: caller.word(1).into(), resolve: 0 };
    do_open(engine, caller, AT_FDCWD, 0, &how, false)
}

pub(crate) fn openat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let how = how_of(caller.word(2), caller.word(3));
    do_open(engine, caller, caller.fd(0), 1, &how, false)
}

/// The size of the struct comes first, then what it says, then the path.
pub(crate) fn openat2(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let (at, size) = (caller.args[2], caller.args[3]);
    if size < HOW {
        return Err(Errno::EINVAL);
    }
    if size > 4096 {
        return Err(Errno::E2BIG);
    }
    let mut bytes = vec![0; size as usize];
    if memory::read(caller.tid, at, &mut bytes)? != bytes.len() {
        return Err(Errno::EFAULT);
    }
    if bytes[HOW as usize..].iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
        u64::from_ne_bytes(word)
    };
    let how = OpenHow { flags: word(0), mode: word(1), resolve: word(2) };
    caller.resolve.set(ResolveFlags::from_bits_truncate(how.resolve));
    do_open(engine, caller, caller.fd(0), 1, &how, true)
}

fn how_of(flags: u32, mode: u32) -> OpenHow {
    OpenHow { flags: flags.into(), mode: mode.into(), resolve: 0 }
}

fn do_open(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    path: usize,
    how: &OpenHow,
    exact: bool,
) -> Result<Reply> {
    if dir == AT_FDCWD
        && let Ok(path) = caller.path(path)
        && let Some(program) = engine.loads.take(caller.tid, &path)
    {
        return loaded(engine, &program, Cloexec::of(how.flags));
    }
    // Where the directory is the root, an absolute path begins there too.
    let in_root = exact && how.resolve & ResolveFlags::IN_ROOT.bits() != 0;
    let (base, path) = place_from(caller, path, NONE, |path| match in_root {
        true => engine.directory(caller, dir, path),
        false => engine.base(caller, dir, path),
    });
    let path = &path;
    let flags = OpenFlags::from_bits_retain(how.flags);
    if flags.contains(OpenFlags::CREAT) || flags.contains(OpenFlags::TMPFILE) {
        engine.take_umask(caller)?;
    }
    let open = |engine: &Engine| match exact {
        true => engine.task.openat2(base.at(), path, how),
        false => engine.task.openat(base.at(), path, flags, how.mode as u32),
    };
    let file = match open(engine) {
        // It may be a program that its interpreter never opened.
        Err(Errno::ETXTBSY) if engine.loads.forget_ended() => open(engine),
        file => file,
    };
    match file {
        // This process may have no terminal, and the caller one.
        Err(Errno::ENXIO) if leads_to_terminal(engine, &base, path, how) => {
            let fd = tty::open_current(engine, caller, flags)?.ok_or(Errno::ENXIO)?;
            Ok(Reply::Install(fd, Cloexec::of(how.flags)))
        }
        file => opened(engine, caller, file?, flags),
    }
}

/// Whether a path leads to the host's `/dev/tty`.
fn leads_to_terminal(engine: &Engine, base: &Base, path: &[u8], how: &OpenHow) -> bool {
    let flags = OpenFlags::PATH | (OpenFlags::from_bits_retain(how.flags) & OpenFlags::NOFOLLOW);
    let how = OpenHow { flags: flags.bits(), mode: 0, ..*how };
    let place = engine.task.openat2(base.at(), path, &how);
    place.is_ok_and(|place| {
        let stat = engine.task.fstat(&place);
        stat.is_ok_and(|stat| tty::is_current(stat.st_rdev))
            && place.host_place().is_ok_and(|host| host.is_some())
    })
}

/// Gives an interpreter the program that it was run for.
fn loaded(engine: &mut Engine, program: &Executable, cloexec: Cloexec) -> Result<Reply> {
    let host = program.file().host_fd().ok_or(Errno::EACCES)?;
    engine.know(HostId::of_fd(host)?, program.file());
    let fd = answer(host.try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE))?;
    Ok(Reply::Install(fd, cloexec))
}

/// Gives the thread what was opened.
pub(super) fn opened(
    engine: &mut Engine,
    caller: &Caller,
    file: File,
    flags: OpenFlags,
) -> Result<Reply> {
    let cloexec = Cloexec::of(flags.bits());
    if flags.contains(OpenFlags::PATH) {
        let directory = kind(engine, &file)? == Some(FileType::Directory);
        let kind = if directory { Kind::DirectoryPath } else { Kind::Path };
        let fd = engine.cookies.open(&file, kind, OFlags::empty())?;
        return Ok(Reply::Install(fd, cloexec));
    }
    let Some(host) = file.host_fd() else {
        return match kind(engine, &file)? {
            Some(FileType::Directory) => opened_directory(engine, caller, file, flags),
            Some(FileType::Fifo) => {
                let stat = engine.task.fstat(&file)?;
                let fifo = engine.cookies.fifo(stat.st_dev, stat.st_ino)?;
                opened_slowly(engine, caller, &file, fifo, flags)
            }
            // There is nothing behind it.
            _ => Err(Errno::ENXIO),
        };
    };
    if flags.contains(OpenFlags::DIRECTORY) && !flags.contains(OpenFlags::TMPFILE) {
        return opened_directory(engine, caller, file, flags);
    }
    let stat = answer(fs::fstat(host))?;
    let kind = fs::FileType::from_raw_mode(stat.st_mode);
    if kind == fs::FileType::Directory {
        return opened_directory(engine, caller, file, flags);
    }
    if kind == fs::FileType::CharacterDevice
        && tty::is_current(stat.st_rdev)
        && let Some(fd) = tty::open_current(engine, caller, flags)?
    {
        return Ok(Reply::Install(fd, cloexec));
    }
    if kind != fs::FileType::RegularFile && answer(fs::fcntl_getfl(host))?.contains(OFlags::PATH) {
        let place = answer(host.try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE))?;
        return opened_slowly(engine, caller, &file, place, flags);
    }
    if procfs::has(&stat) {
        engine.nobody_stays();
    }
    let id = HostId::of(&stat);
    engine.know(id, &file);
    engine.touched(id);
    let _ = engine.watches.opened(host, writes(flags), watches::CONTENTS);
    if writes(flags) && kind == fs::FileType::RegularFile && is_in_memory(&stat) {
        engine.set_ids.opened(host, id, &file);
    }
    if flags.contains(OpenFlags::TMPFILE) {
        engine.nameless.add(id);
    }
    set_status(host, flags)?;
    if kind == fs::FileType::CharacterDevice
        && tty::becomes_current(caller, stat.st_rdev, flags)
        && host.is_terminal()
    {
        let fd = answer(host.try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE))?;
        return engine.install_terminal(caller, &fd, cloexec);
    }
    Ok(Reply::InstallFile(file, cloexec))
}

/// Whether an opening is for writing.
fn writes(flags: OpenFlags) -> bool {
    let access = flags & OpenFlags::ACCMODE;
    access == OpenFlags::WRONLY || access == OpenFlags::RDWR
}

/// Gives an open file those of its flags that the file system was not told.
fn set_status(host: BorrowedFd<'_>, flags: OpenFlags) -> Result<()> {
    if !flags.intersects(STATUS) {
        return Ok(());
    }
    let status = answer(fs::fcntl_getfl(host))?;
    let told = OFlags::from_bits_retain((flags & STATUS).bits() as u32);
    answer(fs::fcntl_setfl(host, status | told))
}

fn opened_directory(
    engine: &mut Engine,
    caller: &Caller,
    file: File,
    flags: OpenFlags,
) -> Result<Reply> {
    let cloexec = Cloexec::of(flags.bits());
    if let Some(host) = file.host_fd()
        && engine.gives(caller, &file)
    {
        // The rest was told to the file system.
        set_status(host, flags & OpenFlags::DIRECT)?;
        return Ok(Reply::InstallFile(file, cloexec));
    }
    let shown = OFlags::from_bits_retain((flags & SHOWN).bits() as u32);
    let fd = engine.cookies.open(&file, Kind::Directory, shown)?;
    let _ = engine.watches.opened(&fd, false, watches::CLOSING);
    Ok(Reply::Install(fd, cloexec))
}

/// Opens a fifo, which takes until the other end is opened, or a device that may wait as well: then the thread waits, and nobody else.
fn opened_slowly(
    engine: &mut Engine,
    caller: &Caller,
    file: &File,
    place: OwnedFd,
    flags: OpenFlags,
) -> Result<Reply> {
    let stat = answer(fs::fstat(&place))?;
    let known = engine.know(HostId::of(&stat), file);
    let fifo = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Fifo;
    let opening = engine.watches.opened(&place, writes(flags), watches::OPENING);
    let cloexec = Cloexec::of(flags.bits());
    let told = OpenFlags::ACCMODE
        | OpenFlags::NONBLOCK
        | OpenFlags::APPEND
        | SLOW
        | if fifo { OpenFlags::empty() } else { DEVICE };
    let told = OFlags::from_bits_retain((flags & told).bits() as u32);
    let told = told | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = move || answer(fs::open(by_number(&place), told, Mode::empty()));
    if flags.contains(OpenFlags::NONBLOCK) || fifo && flags.contains(OpenFlags::RDWR) {
        return match open() {
            Ok(fd) => Ok(Reply::Install(fd, cloexec)),
            Err(errno) => {
                opening.fails();
                Err(errno)
            }
        };
    }
    let mut waiting = Waiting::new(engine, caller);
    later(move || {
        match waiting.have(open) {
            // Who does not wait any more needs no answer.
            Ok(fd) => drop(install(&waiting.listener, waiting.id, fd.as_fd(), cloexec)),
            Err(errno) => {
                opening.fails();
                waiting.fails(errno);
            }
        }
        drop(known);
    })
}

/// The type; none of what has none, as an epoll.
fn kind(engine: &Engine, file: &File) -> Result<Option<FileType>> {
    engine.task.fstat(file).map(|stat| FileType::from_mode(stat.st_mode))
}

/// Sets the size of what a path leads to, as far as the caller may have a file grow.
pub(crate) fn truncate(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    // Before it is looked whether there is a path.
    if caller.args[1].cast_signed() < 0 {
        return Err(Errno::EINVAL);
    }
    let path = caller.path(0)?;
    let base = engine.base(caller, AT_FDCWD, &path)?;
    let most = process::soft_limit(caller.tid, libc::RLIMIT_FSIZE)?;
    let truncate = |engine: &Engine| {
        engine.task.truncateat_up_to(base.at(), &path, caller.args[1].cast_signed(), most)
    };
    let answer = match truncate(engine) {
        Err(Errno::ETXTBSY) if engine.loads.forget_ended() => truncate(engine),
        answer => answer,
    };
    if answer == Err(Errno::EFBIG) && caller.args[1] > most {
        process::kill_thread(caller.tid, libc::SIGXFSZ);
    }
    done(answer)
}
