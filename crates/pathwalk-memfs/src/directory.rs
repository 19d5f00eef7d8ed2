//! What names do to the attributes of their directory.
//!
//! A directory's size counts its names, so its size says whether it is empty. A removed one has no links left, not even
//! its own: whoever enters a name asks that in the same step.
//!
//! Linux: `BOGO_DIRENT_SIZE`, `simple_rename` and their neighbours.

use pathwalk_abi::{Errno, Result, Timespec};
use pathwalk_core::{Attr, InodeRef};

/// What a name adds to its directory's size.
pub(crate) const ENTRY_SIZE: u64 = 20;
/// The size of a directory without names: `.` and `..` count.
pub(crate) const EMPTY_SIZE: u64 = 2 * ENTRY_SIZE;
/// The links of a directory without subdirectories: its own name and its `.`.
pub(crate) const EMPTY_NLINK: u32 = 2;

/// Whether what a name stands for links back to the directory by its `..`.
pub(crate) type IsDirectory = bool;

/// Sees whether the directory is still there.
///
/// # Errors
///
/// - `ENOENT`: it was removed.
pub(crate) fn must_live(dir: &Attr) -> Result<()> {
    if dir.nlink == 0 { Err(Errno::ENOENT) } else { Ok(()) }
}

/// Counts a new name.
///
/// # Errors
///
/// - `ENOENT`: the directory was removed.
/// - `EMLINK`: it has as many subdirectories as can be counted.
pub(crate) fn enter(dir: &mut Attr, child: IsDirectory, now: Timespec) -> Result<()> {
    must_live(dir)?;
    dir.nlink = dir.nlink.checked_add(child.into()).ok_or(Errno::EMLINK)?;
    dir.size += ENTRY_SIZE;
    touch(dir, now);
    Ok(())
}

/// Counts a name that went.
pub(crate) fn leave(dir: &mut Attr, child: IsDirectory, now: Timespec) {
    assert!(dir.size > EMPTY_SIZE && dir.nlink >= EMPTY_NLINK, "a name had been entered: {dir:?}");
    dir.nlink -= u32::from(child);
    dir.size -= ENTRY_SIZE;
    touch(dir, now);
}

/// Counts a subdirectory that went from one directory to another, in exchange for what is none.
///
/// # Errors
///
/// - `EMLINK`: the other one has as many subdirectories as can be counted.
pub(crate) fn pass_on(from: InodeRef<'_>, to: InodeRef<'_>, now: Timespec) -> Result<()> {
    to.update(|dir| {
        dir.nlink = dir.nlink.checked_add(1).ok_or(Errno::EMLINK)?;
        touch(dir, now);
        Ok(())
    })?;
    from.update(|dir| {
        dir.nlink -= 1;
        touch(dir, now);
        Ok(())
    })
}

/// Notes that names changed, and nothing else.
pub(crate) fn note(dir: InodeRef<'_>, now: Timespec) {
    dir.set_changed(Some(now), now);
}

/// Notes that names changed, beside what else did.
pub(crate) fn touch(dir: &mut Attr, now: Timespec) {
    dir.mtime = now;
    dir.ctime = now;
}

/// Takes the directory's links, so that nothing is entered any more.
///
/// # Errors
///
/// - `ENOTEMPTY`: it has names.
pub(crate) fn remove(dir: &mut Attr, now: Timespec) -> Result<()> {
    if dir.size != EMPTY_SIZE {
        return Err(Errno::ENOTEMPTY);
    }
    dir.nlink = 0;
    dir.ctime = now;
    Ok(())
}
