//! What bounds mean for calls that have none in Linux: openat2 within the bounds, and the call at what that opened.
//!
//! ```text
//!   within BENEATH fchmodat2 h0:a/b …     openat2(h0, "a/b", O_PATH, BENEATH)      fchmodat2(fd, "", …, AT_EMPTY_PATH)
//!   within BENEATH unlinkat h0:a/b …      openat2(h0, "a/.", O_PATH, BENEATH)      unlinkat(fd, "b", …)
//!   within BENEATH mount a/b …            openat2(., "a/b", O_PATH, BENEATH)       mount("thread-self/fd/…", …) in a procfs
//! ```
//!
//! Where a call means a descriptor itself, it is only seen that the bounds are some. Arguments are such as are not refused before
//! the path is looked at: here the path comes first.

use super::{
    bounds::{Bounds, FIRST, SECOND, chroot},
    calls::Caller,
};
use crate::{
    answer::Raw,
    call::Call,
    field::{Octal, Text, Where},
};
use pathwalk::{
    AtFlags, Errno, InotifyMask, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags,
    ResolveFlags, Result,
};
use std::os::fd::OwnedFd;

impl Caller<'_> {
    /// Makes a call within bounds.
    pub(super) fn within(&self, resolve: ResolveFlags, call: &Call) -> Result<Raw<OwnedFd>> {
        let bounds = Bounds { caller: self, resolve };
        if means_a_descriptor(call) {
            bounds.are_some()?;
            return self.call(call);
        }
        if let Some(open) = as_openat2(resolve, call) {
            return self.call(&open);
        }
        let nofollow = |flags: &AtFlags| flags.contains(AtFlags::SYMLINK_NOFOLLOW);
        let itself = || Where { dir: Some(FIRST), path: Vec::new() };
        let empty = AtFlags::EMPTY_PATH;
        let (fds, call) = match call.clone() {
            Call::Fstatat { path, flags } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                (vec![fd], Call::Fstatat { path: itself(), flags: empty })
            }
            Call::Statx { path, flags, mask } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                (vec![fd], Call::Statx { path: itself(), flags: empty, mask })
            }
            Call::Faccessat2 { path, mode, flags } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                let flags = flags & AtFlags::EACCESS | empty;
                (vec![fd], Call::Faccessat2 { path: itself(), mode, flags })
            }
            Call::Fchmodat2 { path, mode, flags } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                (vec![fd], Call::Fchmodat2 { path: itself(), mode, flags: empty })
            }
            Call::Fchownat { path, uid, gid, flags } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                (vec![fd], Call::Fchownat { path: itself(), uid, gid, flags: empty })
            }
            Call::Utimensat { path, atime, mtime, flags } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                (vec![fd], Call::Utimensat { path: itself(), atime, mtime, flags: empty })
            }
            Call::Readlinkat { path, size } => {
                let fd = bounds.whole(&path, true)?;
                let fds = [fd];
                let answer = bounds.beside(&fds).call(&Call::Readlinkat { path: itself(), size });
                // Of a path that is not empty the kernel says it so.
                return answer.map_err(|errno| match errno {
                    Errno::ENOENT => Errno::EINVAL,
                    errno => errno,
                });
            }
            Call::Setxattrat { path, at, name, value, flags } => {
                return bounds.xattr(&path, at, |path, at| Call::Setxattrat {
                    path,
                    at,
                    name,
                    value,
                    flags,
                });
            }
            Call::Getxattrat { path, at, name, size } => {
                return bounds.xattr(&path, at, |path, at| Call::Getxattrat {
                    path,
                    at,
                    name,
                    size,
                });
            }
            Call::Listxattrat { path, at, size } => {
                return bounds.xattr(&path, at, |path, at| Call::Listxattrat { path, at, size });
            }
            Call::Removexattrat { path, at, name } => {
                return bounds.xattr(&path, at, |path, at| Call::Removexattrat { path, at, name });
            }
            Call::Truncate { path, size } => {
                let fd = bounds.named(&path)?;
                return bounds.by_number([fd], |[path]| Call::Truncate { path, size });
            }
            Call::Statfs { path: Text(path) } => {
                let fd = bounds.whole(&Where { dir: None, path }, false)?;
                (vec![fd], Call::Fstatfs { slot: FIRST })
            }
            Call::Chdir { path: Text(path) } => {
                let fd = bounds.open(&Where { dir: None, path }, OpenFlags::DIRECTORY)?;
                (vec![fd], Call::Fchdir { slot: FIRST })
            }
            Call::Mkdirat { path, mode } => {
                let (fd, path) = bounds.parent(&path, FIRST, b"/")?;
                (vec![fd], Call::Mkdirat { path, mode })
            }
            Call::Mknodat { path, mode, dev } => {
                let (fd, path) = bounds.parent(&path, FIRST, b"/")?;
                (vec![fd], Call::Mknodat { path, mode, dev })
            }
            Call::Symlinkat { target, path } => {
                let (fd, path) = bounds.parent(&path, FIRST, b"/")?;
                (vec![fd], Call::Symlinkat { target, path })
            }
            Call::Unlinkat { path, flags } => {
                let (fd, path) = bounds.parent(&path, FIRST, b"/")?;
                (vec![fd], Call::Unlinkat { path, flags })
            }
            Call::Linkat { old, new, flags } => {
                if flags.contains(empty) && old.path.is_empty() {
                    // Whether the descriptor may be linked is looked at first.
                    let new = Where { dir: None, path: b"/".to_vec() };
                    let asked = Call::Linkat { old: old.clone(), new, flags };
                    if let Err(Errno::ENOENT) = self.call(&asked) {
                        return Err(Errno::ENOENT);
                    }
                }
                let nofollow = !flags.contains(AtFlags::SYMLINK_FOLLOW);
                let fd = bounds.whole_or_itself(&old, nofollow, flags.contains(empty))?;
                let (other, new) = bounds.parent(&new, SECOND, b".")?;
                (vec![fd, other], Call::Linkat { old: itself(), new, flags: empty })
            }
            Call::Renameat2 { old, new, flags } => {
                let (fd, old) = bounds.parent(&old, FIRST, b".")?;
                let (other, new) = bounds.parent(&new, SECOND, b".")?;
                (vec![fd, other], Call::Renameat2 { old, new, flags })
            }
            Call::OpenExec { path, flags } => {
                let fd = bounds.whole(&path, nofollow(&flags))?;
                (vec![fd], Call::OpenExec { path: itself(), flags: empty })
            }
            Call::Chroot { path: Text(path) } => {
                let fd = bounds.open(&Where { dir: None, path }, OpenFlags::DIRECTORY)?;
                return chroot(&bounds.beside(&[fd]));
            }
            Call::InotifyAddWatch { queue, path: Text(path), mask } => {
                // What is refused before the path is looked at.
                let nothing = Text(Vec::new());
                match self.call(&Call::InotifyAddWatch { queue, path: nothing, mask }) {
                    Err(Errno::ENOENT) => {}
                    refused => return refused,
                }
                let mut flags = OpenFlags::empty();
                flags.set(OpenFlags::NOFOLLOW, mask.contains(InotifyMask::DONT_FOLLOW));
                flags.set(OpenFlags::DIRECTORY, mask.contains(InotifyMask::ONLYDIR));
                let fd = bounds.open(&Where { dir: None, path }, flags)?;
                let mut mask = mask;
                if mask.contains(InotifyMask::DONT_FOLLOW) {
                    // There must be a bit: nothing is made of this one.
                    mask = (mask - InotifyMask::DONT_FOLLOW) | InotifyMask::ISDIR;
                }
                let watch = |[path]: [Text; 1]| Call::InotifyAddWatch { queue, path, mask };
                return bounds.by_number([fd], watch);
            }
            Call::Mount { path, flags } => {
                let fd = bounds.named(&path)?;
                return bounds.by_number([fd], |[path]| Call::Mount { path, flags });
            }
            Call::Bind { source, path } => {
                return bounds.mount_tree(&source, &path, MountFlags::BIND);
            }
            Call::MountTree { source, path, flags } => {
                return bounds.mount_tree(&source, &path, flags);
            }
            Call::Umount2 { path, flags } => return bounds.umount2(&path, flags),
            Call::PivotRoot { new_root, put_old } => {
                let nothing = || Text(Vec::new());
                let refused = Call::PivotRoot { new_root: nothing(), put_old: nothing() };
                if let Err(Errno::EPERM) = self.call(&refused) {
                    return Err(Errno::EPERM);
                }
                let directory = |Text(path): Text| {
                    bounds.open(&Where { dir: None, path }, OpenFlags::DIRECTORY)
                };
                let fds = [directory(new_root)?, directory(put_old)?];
                return bounds
                    .by_number(fds, |[new_root, put_old]| Call::PivotRoot { new_root, put_old });
            }
            call => bounds.about_mounts(call)?,
        };
        bounds.beside(&fds).call(&call)
    }
}

/// Whether a call means what a descriptor stands for, or where the caller is, and looks nothing up.
fn means_a_descriptor(call: &Call) -> bool {
    let empty =
        |path: &Where, flags: AtFlags| path.path.is_empty() && flags.contains(AtFlags::EMPTY_PATH);
    match call {
        Call::Fstatat { path, flags }
        | Call::Statx { path, flags, .. }
        | Call::Faccessat2 { path, flags, .. }
        | Call::Fchmodat2 { path, flags, .. }
        | Call::Fchownat { path, flags, .. }
        | Call::Utimensat { path, flags, .. }
        | Call::OpenExec { path, flags }
        | Call::Setxattrat { path, at: flags, .. }
        | Call::Getxattrat { path, at: flags, .. }
        | Call::Listxattrat { path, at: flags, .. }
        | Call::Removexattrat { path, at: flags, .. } => empty(path, *flags),
        Call::Readlinkat { path, .. } => path.dir.is_some() && path.path.is_empty(),
        Call::OpenTree { path, flags, .. }
        | Call::OpenTreeAttr { path, flags, .. }
        | Call::MountSetattr { path, flags, .. } => {
            path.path.is_empty() && flags.contains(OpenTreeFlags::EMPTY_PATH)
        }
        _ => false,
    }
}

/// The openat2(2) that opens within bounds. What that one refuses of flags and a mode openat(2) does not look at.
pub(crate) fn as_openat2(resolve: ResolveFlags, call: &Call) -> Option<Call> {
    match call.clone() {
        Call::Openat { slot, path, flags, mode: Octal(mode) } => {
            let mut flags = OpenFlags::from_bits_truncate(flags.bits());
            if flags.contains(OpenFlags::PATH) {
                let known = OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW | OpenFlags::CLOEXEC;
                flags &= known | OpenFlags::PATH;
            }
            let makes = flags.contains(OpenFlags::CREAT) || flags.contains(OpenFlags::TMPFILE);
            let mode = Octal(if makes { mode & 0o7777 } else { 0 });
            Some(Call::Openat2 { slot, path, flags, mode, resolve })
        }
        Call::Openat2 { slot, path, flags, mode, resolve: own } => {
            Some(Call::Openat2 { slot, path, flags, mode, resolve: resolve | own })
        }
        _ => None,
    }
}

impl Bounds<'_> {
    /// The calls about mounts.
    fn about_mounts(&self, call: Call) -> Result<(Vec<OwnedFd>, Call)> {
        let itself = |slot| Where { dir: Some(slot), path: Vec::new() };
        let whole = |path: &Where, flags: OpenTreeFlags| {
            self.whole(path, flags.contains(OpenTreeFlags::SYMLINK_NOFOLLOW))
        };
        let empty = |flags| (flags - OpenTreeFlags::SYMLINK_NOFOLLOW) | OpenTreeFlags::EMPTY_PATH;
        Ok(match call {
            Call::OpenTree { slot, path, flags } => {
                let fd = whole(&path, flags)?;
                (vec![fd], Call::OpenTree { slot, path: itself(FIRST), flags: empty(flags) })
            }
            Call::OpenTreeAttr { slot, path, flags, set, clear, propagation, map } => {
                let fd = whole(&path, flags)?;
                let (path, flags) = (itself(FIRST), empty(flags));
                let call = Call::OpenTreeAttr { slot, path, flags, set, clear, propagation, map };
                (vec![fd], call)
            }
            Call::MountSetattr { path, flags, set, clear, propagation } => {
                let fd = whole(&path, flags)?;
                let (path, flags) = (itself(FIRST), empty(flags));
                (vec![fd], Call::MountSetattr { path, flags, set, clear, propagation })
            }
            // Where it is to come is looked up first.
            Call::MoveMount { from, to, flags } => {
                let other = self.whole(&to, !flags.contains(MoveMountFlags::T_SYMLINKS))?;
                let nofollow = !flags.contains(MoveMountFlags::F_SYMLINKS);
                let may_be_empty = flags.contains(MoveMountFlags::F_EMPTY_PATH);
                let fd = self.whole_or_itself(&from, nofollow, may_be_empty)?;
                let (from, to) = (itself(FIRST), itself(SECOND));
                let flags = flags | MoveMountFlags::F_EMPTY_PATH | MoveMountFlags::T_EMPTY_PATH;
                (vec![fd, other], Call::MoveMount { from, to, flags })
            }
            call => panic!("no bounds are known for {call}"),
        })
    }
}
