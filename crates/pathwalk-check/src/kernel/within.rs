//! What bounds mean for calls that have none in Linux: openat2 within the bounds, and the call at what that opened.
//!
//! ```text
//!   within BENEATH fchmodat2 h0:a/b …     openat2(h0, "a/b", O_PATH, BENEATH)      fchmodat2(fd, "", …, AT_EMPTY_PATH)
//!   within BENEATH unlinkat h0:a/b …      openat2(h0, "a/.", O_PATH, BENEATH)      unlinkat(fd, "b", …)
//! ```
//!
//! Arguments are such as are not refused before the path is looked at: here the path comes first.

use super::{calls::Caller, sys};
use crate::{
    answer::Raw,
    call::{Call, QUEUES, SLOTS},
    field::{Fills, Int, Octal, Slot, Text, Where},
};
use pathwalk::{
    AtFlags, Errno, FileType, MoveMountFlags, OpenFlags, OpenTreeFlags, ResolveFlags, Result,
};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    thread,
};

/// The slots of the descriptors that openat2 made.
const FIRST: Slot = Slot(0);
const SECOND: Slot = Slot(1);

impl Caller<'_> {
    /// Makes a call within bounds.
    pub(super) fn within(&self, resolve: ResolveFlags, call: &Call) -> Result<Raw<OwnedFd>> {
        let bounds = Bounds { caller: self, resolve };
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
            // Those of an open file want one that was not opened with O_PATH: its directory has to do, after all that the
            // bounds forbid.
            Call::Setxattrat { path, at, name, value, flags } => {
                let (fd, path) = bounds.itself_from_parent(&path)?;
                (vec![fd], Call::Setxattrat { path, at, name, value, flags })
            }
            Call::Getxattrat { path, at, name, size } => {
                let (fd, path) = bounds.itself_from_parent(&path)?;
                (vec![fd], Call::Getxattrat { path, at, name, size })
            }
            Call::Listxattrat { path, at, size } => {
                let (fd, path) = bounds.itself_from_parent(&path)?;
                (vec![fd], Call::Listxattrat { path, at, size })
            }
            Call::Removexattrat { path, at, name } => {
                let (fd, path) = bounds.itself_from_parent(&path)?;
                (vec![fd], Call::Removexattrat { path, at, name })
            }
            Call::Truncate { path, size } => return bounds.truncate(&path.0, size),
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
                let fd = bounds.whole(&old, !flags.contains(AtFlags::SYMLINK_FOLLOW))?;
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
            call => bounds.about_mounts(call)?,
        };
        bounds.beside(&fds).call(&call)
    }
}

impl Caller<'_> {
    /// The size of the file to which a symlink leads within bounds, if the path ends in one.
    pub(crate) fn size_by_symlink(
        &self,
        resolve: ResolveFlags,
        path: &[u8],
    ) -> Option<Result<i64>> {
        let place = Where { dir: None, path: path.to_vec() };
        let bounds = Bounds { caller: self, resolve };
        let size_of = |fd: OwnedFd| sys::fstat(fd.as_raw_fd()).map(|stat| stat.st_size);
        bounds.ends_in_symlink(&place).then(|| bounds.whole(&place, false).and_then(size_of))
    }
}

/// chroot(2) to the directory in the first slot.
///
/// It takes a path, which `.` is for who is there. Whoever may do it comes back; whoever may not goes there in a thread
/// that ends.
fn chroot(caller: &Caller<'_>) -> Result<Raw<OwnedFd>> {
    let go = || {
        caller.call(&Call::Fchdir { slot: FIRST })?;
        caller.call(&Call::Chroot { path: Text(b".".to_vec()) })
    };
    alone(go)?;
    let here = Where { dir: None, path: b".".to_vec() };
    let open =
        Call::Openat { slot: Fills(FIRST), path: here, flags: OpenFlags::PATH, mode: Octal(0) };
    let Raw::File(cwd) = caller.call(&open)? else { unreachable!("it opens") };
    let answer = go()?;
    sys::syscall(libc::SYS_fchdir, [sys::Arg::Int(cwd.as_raw_fd().into())])?;
    Ok(answer)
}

/// Makes calls in a thread that has root and current directory for itself.
///
/// The kernel has taken it apart too when this returns: until then it is a task in the caller's namespace, which goes with
/// its last one.
fn alone<T: Send>(calls: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let there = || {
        let tid = sys::syscall(libc::SYS_gettid, []).expect("every thread has a number");
        let unshared = sys::syscall(libc::SYS_unshare, [sys::Arg::Int(libc::CLONE_FS.into())]);
        (tid, unshared.and_then(|_| calls()))
    };
    let (tid, answer) =
        thread::scope(|scope| scope.spawn(there).join().expect("calls do not panic"));
    let signal_0 = [i64::from(std::process::id()), tid, 0];
    while sys::syscall(libc::SYS_tgkill, signal_0.map(sys::Arg::Int)) != Err(Errno::ESRCH) {
        thread::yield_now();
    }
    answer
}

/// Bounds, and from where.
struct Bounds<'c> {
    caller: &'c Caller<'c>,
    resolve: ResolveFlags,
}

impl Bounds<'_> {
    /// A caller that has these descriptors in the first slots.
    fn beside(&self, fds: &[OwnedFd]) -> Caller<'_> {
        let mut slots = [-1; SLOTS + QUEUES];
        for (slot, fd) in slots.iter_mut().zip(fds) {
            *slot = fd.as_raw_fd();
        }
        Caller { fds: slots, tasks: self.caller.tasks }
    }

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
                let fd = self.whole(&from, !flags.contains(MoveMountFlags::F_SYMLINKS))?;
                let (from, to) = (itself(FIRST), itself(SECOND));
                let flags = flags | MoveMountFlags::F_EMPTY_PATH | MoveMountFlags::T_EMPTY_PATH;
                (vec![fd, other], Call::MoveMount { from, to, flags })
            }
            call => panic!("no bounds are known for {call}"),
        })
    }

    fn open(&self, place: &Where, flags: OpenFlags) -> Result<OwnedFd> {
        self.openat2(place, flags | OpenFlags::PATH)
    }

    fn openat2(&self, place: &Where, flags: OpenFlags) -> Result<OwnedFd> {
        let call = Call::Openat2 {
            slot: Fills(FIRST),
            path: place.clone(),
            flags,
            mode: Octal(0),
            resolve: self.resolve,
        };
        match self.caller.call(&call)? {
            Raw::File(fd) => Ok(fd),
            _ => unreachable!("openat2 answers with a descriptor"),
        }
    }

    /// What the path leads to.
    fn whole(&self, place: &Where, nofollow: bool) -> Result<OwnedFd> {
        let flags = if nofollow { OpenFlags::NOFOLLOW } else { OpenFlags::empty() };
        self.open(place, flags)
    }

    /// The directory of the path's last name, and that name as seen from there; of `/` what the call takes for the same.
    fn parent(&self, place: &Where, slot: Slot, root: &[u8]) -> Result<(OwnedFd, Where)> {
        let path = &place.path;
        if path.is_empty() || path.len() >= pathwalk::abi::PATH_MAX {
            // To be refused as it is.
            self.open(place, OpenFlags::empty())?;
        }
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        // With the dot a symlink there is one in the middle, as it is in the whole path.
        let directory = match end {
            0 => path.clone(),
            _ => [&path[..start], b"."].concat(),
        };
        let last = if end == 0 { root.to_vec() } else { path[start..].to_vec() };
        let directory = Where { dir: place.dir, path: directory };
        let fd = self.open(&directory, OpenFlags::DIRECTORY)?;
        Ok((fd, Where { dir: Some(slot), path: last }))
    }

    /// What the path's last name stands for, not followed, from its directory.
    fn itself_from_parent(&self, place: &Where) -> Result<(OwnedFd, Where)> {
        self.whole(place, true)?;
        self.parent(place, FIRST, b".")
    }

    /// truncate(2) knows no descriptor. The type of the file is looked at first, as it does; then it is made from the directory
    /// of the last name, by a thread that goes there. Where that name is a symlink's, the file is opened for writing.
    fn truncate(&self, path: &[u8], size: Int) -> Result<Raw<OwnedFd>> {
        let place = Where { dir: None, path: path.to_vec() };
        let found = sys::fstat(self.whole(&place, false)?.as_raw_fd())?;
        match FileType::from_mode(found.st_mode) {
            Some(FileType::Regular) => {}
            Some(FileType::Directory) => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        if self.ends_in_symlink(&place) {
            let fds = [self.openat2(&place, OpenFlags::WRONLY)?];
            return self.beside(&fds).call(&Call::Ftruncate { slot: FIRST, size });
        }
        let (dir, last) = self.parent(&place, FIRST, b".")?;
        alone(|| {
            sys::syscall(libc::SYS_fchdir, [sys::Arg::Int(dir.as_raw_fd().into())])?;
            self.caller.call(&Call::Truncate { path: Text(last.path.clone()), size })
        })
    }

    fn ends_in_symlink(&self, place: &Where) -> bool {
        let itself = self.whole(place, true).and_then(|fd| sys::fstat(fd.as_raw_fd()));
        itself.is_ok_and(|stat| FileType::from_mode(stat.st_mode) == Some(FileType::Symlink))
    }
}
