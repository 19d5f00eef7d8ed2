//! Making, removing and moving names.

use super::{at_flags, attr::foreign, done, place};
use crate::engine::{Base, Caller, Engine, Reply};
use pathwalk::{At, AtFlags, Dev, Errno, OpenFlags, RenameFlags, Result, abi::AT_FDCWD};

/// Of a path of which no flags say anything.
const NONE: AtFlags = AtFlags::empty();

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
    let (base, path) = place(engine, caller, dir, path, NONE);
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
    let (base, path) = place(engine, caller, dir, path, NONE);
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
    let target = caller.path(0)?;
    let (base, path) = place(engine, caller, dir, path, NONE);
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
    // Who opened the directory that a path begins in is asked of a descriptor only, and the library is given one. No directory
    // gets a second name, so it does not matter that the current one must be searched to come to its dot.
    let cwd = old_dir == AT_FDCWD;
    let (old_base, mut old) = place(engine, caller, old_dir, old, flags);
    if cwd && old.is_empty() && flags.contains(AtFlags::EMPTY_PATH) {
        old = b".".to_vec();
    }
    let flags = if cwd { flags - AtFlags::EMPTY_PATH } else { flags };
    let (new_base, new) = place(engine, caller, new_dir, new, NONE);
    let linked = engine.task.linkat(old_base.at(), &old, new_base.at(), &new, flags);
    if foreign(engine, caller, old_dir, (&old, flags), linked).is_some() {
        return Err(never_linked(engine, &new_base, &new));
    }
    linked?;
    let linked = engine.number_if_watched(&new_base, &new);
    engine.came_by_name(linked);
    done(Ok(()))
}

/// Why what has no place in the tree gets no such name there: what is wrong with the name is said before.
fn never_linked(engine: &Engine, base: &Base, path: &[u8]) -> Errno {
    // A directory gets none either, which is said later.
    match engine.task.linkat(At::Cwd, "/", base.at(), path, NONE) {
        Err(Errno::EPERM) | Ok(()) => Errno::EXDEV,
        Err(Errno::EACCES) => {
            // Whether one may go there is said before, and whether one may write there after.
            let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
            match engine.task.openat(base.at(), path, flags, 0) {
                Err(Errno::EACCES) => Errno::EACCES,
                _ => Errno::EXDEV,
            }
        }
        Err(errno) => errno,
    }
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
    let (base, path) = place(engine, caller, dir, path, NONE);
    let known = (flags - AtFlags::REMOVEDIR).is_empty();
    let file = if known { number(engine, &base, &path) } else { None };
    let watched = engine.about_to_go(&base, &path, None);
    engine.task.unlinkat(base.at(), &path, flags)?;
    engine.is_gone(watched);
    if flags.is_empty() {
        engine.lost_name(file);
    } else if let Some(directory) = file {
        engine.lost_directory(directory);
    }
    done(Ok(()))
}

/// The number of the file that is about to lose this name.
fn number(engine: &Engine, base: &Base, path: &[u8]) -> Option<u64> {
    let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
    engine.task.openat(base.at(), path, flags, 0).ok().map(|file| file.ino())
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
    let (old_base, old) = place(engine, caller, old_dir, old, NONE);
    let (new_base, new) = place(engine, caller, new_dir, new, NONE);
    let flags = RenameFlags::from_bits_retain(flags);
    let replaces = !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
    let file = if replaces { number(engine, &new_base, &new) } else { None };
    let moved = engine.number_if_watched(&old_base, &old);
    let watched = if replaces { engine.about_to_go(&new_base, &new, moved) } else { None };
    let exchanges = flags.contains(RenameFlags::EXCHANGE);
    let back = if exchanges { engine.number_if_watched(&new_base, &new) } else { None };
    engine.task.renameat2(old_base.at(), &old, new_base.at(), &new, flags)?;
    engine.is_gone(watched);
    if flags.contains(RenameFlags::WHITEOUT) {
        engine.left_whiteout();
    }
    engine.came_by_name(moved);
    engine.came_back(back);
    engine.lost_name(file);
    done(Ok(()))
}
