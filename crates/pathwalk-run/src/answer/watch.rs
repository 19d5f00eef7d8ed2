//! inotify: files of the host are watched on the host, and what is in memory by what stands for it there.

use super::behind_link;
use crate::{
    engine::{Caller, Engine, Reply},
    procfs,
    sys::{answer, process::by_number},
    watches::numbers_watched,
};
use pathwalk::{
    AccessMode, At, AtFlags, Errno, File, FileType, InotifyMask, OpenFlags, Result, abi::AT_FDCWD,
};
use rustix::{
    fs::{
        self, Mode, OFlags,
        inotify::{self, WatchFlags},
    },
    io,
};
use std::os::fd::OwnedFd;

/// `PROC_SUPER_MAGIC`
const PROC: i64 = 0x9fa0;

/// The watch is added to the same open inotify, so its events are read from there, as ever.
pub(crate) fn inotify_add_watch(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let mask = InotifyMask::from_bits_retain(caller.word(2));
    if mask.is_empty() || !InotifyMask::all().contains(mask) {
        return Err(Errno::EINVAL);
    }
    let queue = engine.fetch(caller, caller.fd(0))?;
    if mask.contains(InotifyMask::MASK_ADD | InotifyMask::MASK_CREATE) {
        return Err(Errno::EINVAL);
    }
    must_be_inotify(&queue)?;
    let path = caller.path(1)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let base = engine.base(caller, AT_FDCWD, &path)?;
    let mut flags = OpenFlags::PATH;
    flags.set(OpenFlags::NOFOLLOW, mask.contains(InotifyMask::DONT_FOLLOW));
    flags.set(OpenFlags::DIRECTORY, mask.contains(InotifyMask::ONLYDIR));
    let place = engine.task.openat(base.at(), &path, flags, 0)?;
    let read = AtFlags::EACCESS | AtFlags::EMPTY_PATH;
    engine.task.faccessat2(At::Dir(&place), b"", AccessMode::R_OK, read)?;
    let open = |engine: &Engine| engine.task.openat(base.at(), &path, flags - OpenFlags::PATH, 0);
    let number = match on_host(engine, &place, open)? {
        Some(host) => {
            let number = answer(inotify::add_watch(&queue, by_number(&host), following(mask)))?;
            engine.nameless.is_watched(place.ino(), numbers_watched);
            number
        }
        None => engine.watch_in_memory(&queue, (&base, &path), &place, mask)?,
    };
    Ok(Reply::Value(number.into()))
}

/// The same of what was found already, and is named by a link here. One bit at least there must be: this one asks for nothing.
pub(crate) fn following(mask: InotifyMask) -> WatchFlags {
    let mask = mask.difference(InotifyMask::DONT_FOLLOW);
    let mask = if mask.is_empty() { InotifyMask::IGNORED } else { mask };
    WatchFlags::from_bits_retain(mask.bits())
}

/// Whether this is an inotify: the kernel looks at that before it looks at a path.
///
/// # Errors
///
/// - `EINVAL`: it is none.
fn must_be_inotify(fd: &OwnedFd) -> Result<()> {
    match inotify::add_watch(fd, c"", WatchFlags::ACCESS) {
        Err(io::Errno::NOENT) => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// The file of the host that a place is, if it is one.
fn on_host(
    engine: &Engine,
    place: &File,
    open: impl FnOnce(&Engine) -> Result<File>,
) -> Result<Option<OwnedFd>> {
    let host = place.host_place()?;
    if host.is_some() || engine.task.fstatfs(place)?.f_type != PROC {
        return Ok(host);
    }
    let stat = engine.task.fstat(place)?;
    if FileType::from_mode(stat.st_mode) == Some(FileType::Symlink) {
        return Ok(None);
    }
    // What it leads to may be nothing that can be opened.
    let behind = behind_link(engine, place);
    if behind.is_some() {
        return Ok(behind);
    }
    // Who opens it and closes it is seen by who watches it.
    let file = open(engine)?;
    let host = file.host_fd().ok_or(Errno::ENOSPC)?;
    // What it tells may have been written down for this opening.
    if !procfs::has(&answer(fs::fstat(host))?) {
        return Ok(None);
    }
    answer(fs::open(by_number(&host), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())).map(Some)
}
