//! What calls within bounds are made of: what openat2 opens within them, and a call at that.

use super::{calls::Caller, sys};
use crate::{
    answer::Raw,
    call::{Call, QUEUES, SLOTS},
    field::{Fills, Octal, Slot, Text, Where},
};
use pathwalk::{
    AtFlags, Errno, FileType, MountFlags, OpenFlags, ResolveFlags, Result, StatxMask, UmountFlags,
};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    thread,
};

/// The slots of the descriptors that openat2 made.
pub(super) const FIRST: Slot = Slot(0);
pub(super) const SECOND: Slot = Slot(1);

/// Bounds, and from where.
pub(super) struct Bounds<'c> {
    pub(super) caller: &'c Caller<'c>,
    pub(super) resolve: ResolveFlags,
}

impl Bounds<'_> {
    /// A caller that has these descriptors in the first slots.
    pub(super) fn beside(&self, fds: &[OwnedFd]) -> Caller<'_> {
        let mut slots = [-1; SLOTS + QUEUES];
        for (slot, fd) in slots.iter_mut().zip(fds) {
            *slot = fd.as_raw_fd();
        }
        Caller { fds: slots, tasks: self.caller.tasks }
    }

    /// mount(2) of what is there: where is looked up first, then whether the caller may, then what.
    pub(super) fn mount_tree(
        &self,
        source: &Text,
        path: &Text,
        flags: MountFlags,
    ) -> Result<Raw<OwnedFd>> {
        // The source is text, whatever it is for.
        let nowhere = Text(Vec::new());
        let asked = Call::MountTree { source: source.clone(), path: nowhere, flags };
        if let Err(Errno::EINVAL) = self.caller.call(&asked) {
            return Err(Errno::EINVAL);
        }
        let fd = self.named(path)?;
        let kinds =
            MountFlags::SHARED | MountFlags::SLAVE | MountFlags::PRIVATE | MountFlags::UNBINDABLE;
        let moves = flags.contains(MountFlags::MOVE) && !flags.intersects(kinds);
        let wants_source = (flags.contains(MountFlags::BIND) || moves)
            && !flags.contains(MountFlags::REMOUNT)
            && !source.0.is_empty();
        let mount = |source, path| Call::MountTree { source, path, flags };
        if !wants_source {
            return self.by_number([fd], |[path]| mount(source.clone(), path));
        }
        match self.named(source) {
            Ok(source) => self.by_number([source, fd], |[source, path]| mount(source, path)),
            Err(errno) => match self.by_number([fd], |[path]| mount(Text(Vec::new()), path)) {
                Err(Errno::EPERM) => Err(Errno::EPERM),
                _ => Err(errno),
            },
        }
    }

    /// umount2(2). Who has opened what is mounted keeps it from going, unless it goes lazily: then its name does, from its
    /// directory.
    pub(super) fn umount2(&self, path: &Text, flags: UmountFlags) -> Result<Raw<OwnedFd>> {
        if let Err(Errno::EINVAL) =
            self.caller.call(&Call::Umount2 { path: Text(Vec::new()), flags })
        {
            return Err(Errno::EINVAL);
        }
        let place = Where { dir: None, path: path.0.clone() };
        let fd = self.whole(&place, flags.contains(UmountFlags::NOFOLLOW))?;
        if flags.contains(UmountFlags::DETACH) {
            let flags = flags - UmountFlags::NOFOLLOW;
            return self.by_number([fd], |[path]| Call::Umount2 { path, flags });
        }
        drop(fd);
        let (dir, last) = self.parent(&place, FIRST, b".")?;
        alone(|| {
            sys::syscall(libc::SYS_fchdir, [sys::Arg::Int(dir.as_raw_fd().into())])?;
            self.caller.call(&Call::Umount2 { path: Text(last.path.clone()), flags })
        })
    }

    /// A call that takes paths alone, at what was opened: by the names that this has in a procfs. It is made by a thread that is
    /// there.
    pub(super) fn by_number<const N: usize>(
        &self,
        fds: [OwnedFd; N],
        call: impl FnOnce([Text; N]) -> Call,
    ) -> Result<Raw<OwnedFd>> {
        let name = |fd: &OwnedFd| Text(format!("thread-self/fd/{}", fd.as_raw_fd()).into());
        let call = call(fds.each_ref().map(name));
        alone(|| {
            sys::chdir_to_proc()?;
            self.caller.call(&call)
        })
    }

    /// A call about extended attributes. Of an open file they want one that was not opened with `O_PATH`; so it is named.
    pub(super) fn xattr(
        &self,
        place: &Where,
        at: AtFlags,
        call: impl FnOnce(Where, AtFlags) -> Call,
    ) -> Result<Raw<OwnedFd>> {
        let fd = self.whole(place, at.contains(AtFlags::SYMLINK_NOFOLLOW))?;
        self.by_number([fd], |[Text(path)]| {
            call(Where { dir: None, path }, at - AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    /// What a path leads to.
    pub(super) fn named(&self, Text(path): &Text) -> Result<OwnedFd> {
        self.whole(&Where { dir: None, path: path.clone() }, false)
    }

    /// Refuses bounds that openat2 refuses, whatever the path is.
    pub(super) fn are_some(&self) -> Result<()> {
        match self.open(&Where { dir: None, path: b".".to_vec() }, OpenFlags::empty()) {
            Err(Errno::EINVAL) => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }

    pub(super) fn open(&self, place: &Where, flags: OpenFlags) -> Result<OwnedFd> {
        self.openat2(place, flags | OpenFlags::PATH)
    }

    pub(super) fn openat2(&self, place: &Where, flags: OpenFlags) -> Result<OwnedFd> {
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
    pub(super) fn whole(&self, place: &Where, nofollow: bool) -> Result<OwnedFd> {
        let flags = if nofollow { OpenFlags::NOFOLLOW } else { OpenFlags::empty() };
        self.open(place, flags)
    }

    /// The same, or what the descriptor itself stands for, if the path may be empty and is.
    pub(super) fn whole_or_itself(
        &self,
        place: &Where,
        nofollow: bool,
        may_be_empty: bool,
    ) -> Result<OwnedFd> {
        match place.dir {
            Some(slot) if may_be_empty && place.path.is_empty() => {
                self.are_some()?;
                sys::dup(self.caller.fds[slot.0])
            }
            _ => self.whole(place, nofollow),
        }
    }

    /// The directory of the path's last name, and that name as seen from there; of `/` what the call takes for the same.
    pub(super) fn parent(
        &self,
        place: &Where,
        slot: Slot,
        root: &[u8],
    ) -> Result<(OwnedFd, Where)> {
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

    pub(super) fn ends_in_symlink(&self, place: &Where) -> bool {
        let itself = self.whole(place, true).and_then(|fd| sys::fstat(fd.as_raw_fd()));
        itself.is_ok_and(|stat| FileType::from_mode(stat.st_mode) == Some(FileType::Symlink))
    }
}

impl Caller<'_> {
    /// Whether a path ends in a name of its own, which is not followed within bounds.
    pub(crate) fn ends_in_a_name(
        &self,
        resolve: ResolveFlags,
        path: &[u8],
        nofollow: bool,
    ) -> bool {
        let nofollow = nofollow && !path.ends_with(b"/");
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let path = &path[..end];
        let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or(b"");
        let place = Where { dir: None, path: path.to_vec() };
        let bounds = Bounds { caller: self, resolve };
        !matches!(last, b"" | b"." | b"..") && (nofollow || !bounds.ends_in_symlink(&place))
    }

    /// The number of the mount to which a path leads within bounds.
    pub(crate) fn mount_within(
        &self,
        resolve: ResolveFlags,
        path: &[u8],
        nofollow: bool,
    ) -> Result<u64> {
        let place = Where { dir: None, path: path.to_vec() };
        let bounds = Bounds { caller: self, resolve };
        let fds = [bounds.whole(&place, nofollow)?];
        let itself = Where { dir: Some(FIRST), path: Vec::new() };
        let mask = StatxMask::MNT_ID_UNIQUE;
        let statx = bounds.beside(&fds).statx(&itself, AtFlags::EMPTY_PATH, mask);
        statx.map(|statx| statx.stx_mnt_id)
    }
}

/// chroot(2) to the directory in the first slot.
///
/// It takes a path, which `.` is for who is there. Whoever may do it comes back; whoever may not goes there in a thread
/// that ends.
pub(super) fn chroot(caller: &Caller<'_>) -> Result<Raw<OwnedFd>> {
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
