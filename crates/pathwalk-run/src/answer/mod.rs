//! The calls, answered: from registers and memory to a call of the library and back. One file per kind.

pub(crate) mod open;

mod wait;

pub(crate) mod stat;

pub(crate) mod names;

pub(crate) mod dirs;

pub(crate) mod attr;

pub(crate) mod xattr;

pub(crate) mod exec;

pub(crate) mod handle;

pub(crate) mod watch;

pub(crate) mod socket;

pub(crate) mod message;

pub(crate) mod tasks;

pub(crate) mod ids;

pub(crate) mod users;

pub(crate) mod mounts;

pub(crate) mod layout;

use crate::{
    cookies::HostId,
    engine::{Base, Caller, Descriptor, Engine, Reply},
};
use pathwalk::{AtFlags, Errno, File, OpenFlags, Result};
use rustix::fs::{OFlags, fcntl_getfl};
use std::os::fd::OwnedFd;

/// What fstat(2) would write of a file of the host's.
pub(crate) fn as_bytes(host: &rustix::fs::Stat) -> Vec<u8> {
    layout::stat(&layout::of_host(host))
}

/// What a call that has only to succeed answers.
fn done(result: Result<()>) -> Result<Reply> {
    result.map(|()| Reply::Value(0))
}

/// The flags of a call with a directory.
fn at_flags(caller: &Caller, index: usize) -> AtFlags {
    AtFlags::from_bits_retain(caller.word(index))
}

/// Copies a path, and finds where it begins. What is wrong with either is the library's to say, when its turn comes: flags are mostly looked at
/// before, and of two paths the first is followed before.
fn place(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    index: usize,
    flags: AtFlags,
) -> (Base, Vec<u8>) {
    place_from(caller, index, flags, |path| engine.base(caller, dir, path))
}

/// The same of a path that begins where is said, unless it is empty and may not be.
fn place_from(
    caller: &Caller,
    index: usize,
    flags: AtFlags,
    begins: impl FnOnce(&[u8]) -> Result<Base>,
) -> (Base, Vec<u8>) {
    let path = match caller.path(index) {
        Ok(path) => path,
        Err(errno) => return (Base::Nowhere(errno), Vec::new()),
    };
    let refused = path.is_empty() && !flags.contains(AtFlags::EMPTY_PATH);
    let base = if refused { Ok(Base::Root) } else { begins(&path) };
    (base.unwrap_or_else(Base::Nowhere), path)
}

/// As [`place`], of a call that takes no pointer for an empty path.
fn place_or_none(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    index: usize,
    flags: AtFlags,
) -> (Base, Vec<u8>) {
    if caller.args[index] != 0 || !flags.contains(AtFlags::EMPTY_PATH) {
        return place(engine, caller, dir, index, flags);
    }
    (engine.base(caller, dir, b"").unwrap_or_else(Base::Nowhere), Vec::new())
}

/// Whether a call names a file by its descriptor alone: `AT_EMPTY_PATH` with no path, for which there may be no pointer.
fn by_descriptor(caller: &Caller, path: usize, flags: AtFlags) -> Result<bool> {
    if !flags.contains(AtFlags::EMPTY_PATH) {
        return Ok(false);
    }
    Ok(caller.args[path] == 0 || caller.path(path)?.is_empty())
}

/// What a path leads to by a link of `/proc` and has no place in the tree, held.
fn behind(engine: &Engine, base: &Base, path: &[u8], at_flags: AtFlags) -> Option<OwnedFd> {
    if !engine.asker.is_led_behind() {
        return None;
    }
    let mut flags = OpenFlags::PATH;
    flags.set(OpenFlags::NOFOLLOW, at_flags.contains(AtFlags::SYMLINK_NOFOLLOW));
    behind_link(engine, &engine.task.openat(base.at(), path, flags, 0).ok()?)
}

/// What a place is on the host that a link of `/proc` led to for the call and that has no place in the tree, held. What the link leads to
/// by now may be another file, which is not to be reached so if it is one of the tree.
fn behind_link(engine: &Engine, place: &File) -> Option<OwnedFd> {
    let asked = engine.task.fstat(place).ok()?;
    engine.asker.behind_link(|stat| {
        (stat.st_ino, stat.st_mode) == (asked.st_ino, asked.st_mode)
            && engine.cookies.get(HostId::of(stat)).is_none()
    })
}

/// A descriptor that something is to be done with that takes an open file.
///
/// # Errors
///
/// - `EBADF`: there is no such, or it was opened with `O_PATH`.
fn open_file(engine: &mut Engine, caller: &Caller, index: usize) -> Result<Descriptor> {
    let descriptor = engine.descriptor(caller, caller.fd(index))?;
    // What stands for one with `O_PATH` is open; one that comes from outside is not.
    let (path, fd) = match &descriptor {
        Descriptor::Ours(known, fd) => (known.path, fd),
        Descriptor::Foreign(fd) => (false, fd),
    };
    let path = path || crate::sys::answer(fcntl_getfl(fd))?.contains(OFlags::PATH);
    if path { Err(Errno::EBADF) } else { Ok(descriptor) }
}
