//! Making, removing and moving names.

use super::{at_flags, done};
use crate::engine::{Caller, Engine, Reply};
use pathwalk::{AtFlags, Dev, Errno, RenameFlags, Result, abi::AT_FDCWD};

pub(crate) fn mkdir(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    mkdir_at(engine, caller, AT_FDCWD, [0, 1])
}

pub(crate) fn mkdirat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    mkdir_at(engine, caller, caller.fd(0), [1, 2])
}

fn mkdir_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, mode]: [usize; 2],
) -> Result<Reply> {
    let path = not_empty(caller.path(path)?)?;
    let base = engine.base(caller, dir, &path)?;
    engine.take_umask(caller)?;
    done(engine.task.mkdirat(base.at(), &path, caller.word(mode)))
}

pub(crate) fn mknod(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    mknod_at(engine, caller, AT_FDCWD, [0, 1, 2])
}

pub(crate) fn mknodat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    mknod_at(engine, caller, caller.fd(0), [1, 2, 3])
}

fn mknod_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    [path, mode, dev]: [usize; 3],
) -> Result<Reply> {
    let path = not_empty(caller.path(path)?)?;
    let base = engine.base(caller, dir, &path)?;
    engine.take_umask(caller)?;
    let dev = Dev::from_stat(caller.word(dev).into());
    done(engine.task.mknodat(base.at(), &path, caller.word(mode), dev))
}

pub(crate) fn symlink(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    symlink_at(engine, caller, AT_FDCWD, 1)
}

pub(crate) fn symlinkat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    symlink_at(engine, caller, caller.fd(1), 2)
}

fn symlink_at(engine: &mut Engine, caller: &Caller, dir: i32, path: usize) -> Result<Reply> {
    let target = not_empty(caller.path(0)?)?;
    let path = not_empty(caller.path(path)?)?;
    let base = engine.base(caller, dir, &path)?;
    done(engine.task.symlinkat(&target, base.at(), &path))
}

pub(crate) fn link(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    link_at(engine, caller, [AT_FDCWD; 2], [0, 1], AtFlags::empty())
}

pub(crate) fn linkat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    link_at(engine, caller, [caller.fd(0), caller.fd(2)], [1, 3], at_flags(caller, 4))
}

fn link_at(
    engine: &mut Engine,
    caller: &Caller,
    [old_dir, new_dir]: [i32; 2],
    [old, new]: [usize; 2],
    flags: AtFlags,
) -> Result<Reply> {
    let old = caller.path(old)?;
    if !flags.contains(AtFlags::EMPTY_PATH) && old.is_empty() {
        return Err(Errno::ENOENT);
    }
    let new = not_empty(caller.path(new)?)?;
    let old_base = engine.base(caller, old_dir, &old)?;
    let new_base = engine.base(caller, new_dir, &new)?;
    done(engine.task.linkat(old_base.at(), &old, new_base.at(), &new, flags))
}

pub(crate) fn unlink(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    unlink_at(engine, caller, AT_FDCWD, 0, AtFlags::empty())
}

pub(crate) fn rmdir(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    unlink_at(engine, caller, AT_FDCWD, 0, AtFlags::REMOVEDIR)
}

pub(crate) fn unlinkat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    unlink_at(engine, caller, caller.fd(0), 1, at_flags(caller, 2))
}

fn unlink_at(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    path: usize,
    flags: AtFlags,
) -> Result<Reply> {
    let path = not_empty(caller.path(path)?)?;
    let base = engine.base(caller, dir, &path)?;
    done(engine.task.unlinkat(base.at(), &path, flags))
}

pub(crate) fn rename(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    rename_at(engine, caller, [AT_FDCWD; 2], [0, 1], 0)
}

pub(crate) fn renameat(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    rename_at(engine, caller, [caller.fd(0), caller.fd(2)], [1, 3], 0)
}

pub(crate) fn renameat2(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    rename_at(engine, caller, [caller.fd(0), caller.fd(2)], [1, 3], caller.word(4))
}

fn rename_at(
    engine: &mut Engine,
    caller: &Caller,
    [old_dir, new_dir]: [i32; 2],
    [old, new]: [usize; 2],
    flags: u32,
) -> Result<Reply> {
    let (old, new) = (not_empty(caller.path(old)?)?, not_empty(caller.path(new)?)?);
    let old_base = engine.base(caller, old_dir, &old)?;
    let new_base = engine.base(caller, new_dir, &new)?;
    let flags = RenameFlags::from_bits_retain(flags);
    done(engine.task.renameat2(old_base.at(), &old, new_base.at(), &new, flags))
}

/// A path that may not be empty.
fn not_empty(path: Vec<u8>) -> Result<Vec<u8>> {
    if path.is_empty() { Err(Errno::ENOENT) } else { Ok(path) }
}
