//! inotify: files of the host are watched by the host.

use super::done;
use crate::{
    engine::{Caller, Engine, Reply},
    sys::{answer, process::by_number},
};
use pathwalk::{AccessMode, At, AtFlags, Errno, OpenFlags, Result, abi::AT_FDCWD};
use rustix::fs::{
    self, Mode, OFlags,
    inotify::{self, WatchFlags},
};

/// The watch is added to the same open inotify, so its events are read from there, as ever. What is in memory alone cannot be
/// watched: then it is as if the user had no watch left.
pub(crate) fn inotify_add_watch(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let queue = engine.fetch(caller, caller.fd(0))?;
    let mask = WatchFlags::from_bits_retain(caller.word(2));
    let path = caller.path(1)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let base = engine.base(caller, AT_FDCWD, &path)?;
    let mut flags = OpenFlags::PATH;
    flags.set(OpenFlags::NOFOLLOW, mask.contains(WatchFlags::DONT_FOLLOW));
    flags.set(OpenFlags::DIRECTORY, mask.contains(WatchFlags::ONLYDIR));
    let place = engine.task.openat(base.at(), &path, flags, 0)?;
    let read = AtFlags::EACCESS | AtFlags::EMPTY_PATH;
    engine.task.faccessat2(At::Dir(&place), b"", AccessMode::R_OK, read)?;
    let host = match place.host_place()? {
        Some(host) => host,
        // Who opens it and closes it is seen by who watches it.
        None => {
            let file = engine.task.openat(base.at(), &path, flags - OpenFlags::PATH, 0)?;
            let host = file.host_fd().ok_or(Errno::ENOSPC)?;
            answer(fs::open(by_number(&host), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))?
        }
    };
    let watched = inotify::add_watch(&queue, by_number(&host), mask - WatchFlags::DONT_FOLLOW);
    match answer(watched) {
        Ok(number) => Ok(Reply::Value(number.into())),
        Err(errno) => done(Err(errno)),
    }
}
