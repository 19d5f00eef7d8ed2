//! Mount namespaces of fewer rights: Linux makes one with a user namespace, by a process of one thread.
//!
//! ```text
//!   worker ── clone ──► child      its own root and current directory, the worker's descriptors
//!                         │ unshare(CLONE_NEWUSER | CLONE_NEWNS), or setns to a user namespace and unshare(CLONE_NEWNS)
//!                         │ opens its mount namespace, root and current directory, writes their numbers into a pipe, ends
//!   setns, chroot, ◄──────┘
//!   fchdir
//! ```
//!
//! The worker keeps the rights that it has: what is locked is so for everybody.
//!
//! Manual: user_namespaces(7), mount_namespaces(7), ioctl_nsfs(2), pidfd_open(2).

use super::sys::{Arg, fstat, open_proc, own, read, syscall};
use crate::ours::RIGHTS_TO_MOVE;
use pathwalk::{AccessMode, AtFlags, Errno, OpenTreeFlags, Result, abi::AT_FDCWD};
use std::{
    ffi::c_long,
    os::fd::{AsRawFd, OwnedFd},
};

/// ioctl_nsfs(2): the user namespace that a namespace belongs to.
const NS_GET_USERNS: i64 = 0xb701;

/// Of a process's descriptor, the mount namespace that it is in.
const PIDFD_GET_MNT_NAMESPACE: i64 = 0xff03;

/// Not in the C library's list for all machines.
const SYS_FACCESSAT2: c_long = 439;

/// Who makes the user namespace is as good as root there: none of the tasks.
const OWNER: i64 = 61_234;

/// Goes into a copy of the calling thread's mount namespace that has fewer rights.
pub(super) fn unshare_less() -> Result<()> {
    enter(&|| {
        // What a user may who is nobody else.
        let keep = || Arg::Int(-1);
        syscall(libc::SYS_setresuid, [keep(), Arg::Int(OWNER), keep()])?;
        let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
        syscall(libc::SYS_unshare, [Arg::Int(flags.into())]).map(drop)
    })
}

/// Goes into a copy of the calling thread's mount namespace that has the same rights.
pub(super) fn unshare() -> Result<()> {
    let copy = || syscall(libc::SYS_unshare, [Arg::Int(libc::CLONE_NEWNS.into())]).map(drop);
    let mounts = open_proc("thread-self/ns/mnt");
    let number = |fd: &OwnedFd| fstat(fd.as_raw_fd()).map(|stat| stat.st_ino);
    let rights = ioctl(&mounts, NS_GET_USERNS)?;
    if number(&rights)? == number(&open_proc("thread-self/ns/user"))? {
        return copy();
    }
    drop(mounts);
    enter(&|| {
        let fd = Arg::Int(rights.as_raw_fd().into());
        syscall(libc::SYS_setns, [fd, Arg::Int(libc::CLONE_NEWUSER.into())])?;
        copy()
    })
}

fn ioctl(fd: &OwnedFd, what: i64) -> Result<OwnedFd> {
    let fd = Arg::Int(fd.as_raw_fd().into());
    syscall(libc::SYS_ioctl, [fd, Arg::Int(what), Arg::Int(0)]).map(own)
}

/// Goes where a child does, to a copy of the calling thread's mount namespace.
///
/// # Errors
///
/// - `EPERM`: the thread lacks one of [`RIGHTS_TO_MOVE`].
/// - `EACCES`: it could not come back to its root or its current directory.
/// - what keeps the child from going there.
fn enter(go: &dyn Fn() -> Result<()>) -> Result<()> {
    if !super::world::effective()?.contains(RIGHTS_TO_MOVE) {
        return Err(Errno::EPERM);
    }
    for path in [c"/", c"."] {
        let (mode, flags) = (AccessMode::X_OK.bits().into(), AtFlags::EACCESS.bits().into());
        let args = [Arg::Int(AT_FDCWD.into()), Arg::Str(path), Arg::Int(mode), Arg::Int(flags)];
        syscall(SYS_FACCESSAT2, args)?;
    }
    let [mounts, root, cwd] = in_child(go)?;
    let at = |fd: &OwnedFd| Arg::Int(fd.as_raw_fd().into());
    syscall(libc::SYS_setns, [at(&mounts), Arg::Int(libc::CLONE_NEWNS.into())])?;
    syscall(libc::SYS_fchdir, [at(&root)])?;
    syscall(libc::SYS_chroot, [Arg::Str(c".")])?;
    syscall(libc::SYS_fchdir, [at(&cwd)]).map(drop)
}

/// The mount namespace, the root and the current directory of a child that went somewhere.
fn in_child(go: &dyn Fn() -> Result<()>) -> Result<[OwnedFd; 3]> {
    let mut ends = [0];
    syscall(libc::SYS_pipe2, [Arg::Words(&mut ends), Arg::Int(libc::O_CLOEXEC.into())])?;
    let [tells, hears] = [ends[0] >> 32, ends[0] & u64::from(u32::MAX)].map(|fd| own(fd as i64));
    let flags = Arg::Int((libc::CLONE_FILES | libc::SIGCHLD).into());
    let nothing = || Arg::Int(0);
    let pid = syscall(libc::SYS_clone, [flags, nothing(), nothing(), nothing(), nothing()])?;
    if pid == 0 {
        // One thread of many goes on here: whatever takes a lock may wait for ever.
        let said = match go().and_then(|()| numbers()) {
            Ok(numbers) => numbers,
            Err(errno) => [-i64::from(errno.raw()), 0, 0],
        };
        let mut bytes = [0; 24];
        for (to, number) in bytes.chunks_exact_mut(8).zip(said) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        let args = [Arg::Int(tells.as_raw_fd().into()), Arg::In(&bytes), Arg::Int(24)];
        let _told = syscall(libc::SYS_write, args);
        loop {
            let _ended = syscall(libc::SYS_exit_group, [Arg::Int(0)]);
        }
    }
    syscall(libc::SYS_wait4, [Arg::Int(pid), nothing(), nothing(), nothing()])?;
    drop(tells);
    let mut bytes = [0; 24];
    let told = read(hears.as_raw_fd(), &mut bytes)?;
    assert_eq!(told, bytes.len(), "a child says how it went");
    let number = |at: usize| i64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * at + byte]));
    match number(0) {
        errno @ ..0 => Err(Errno::from_raw(-errno as i32).expect("it was an error")),
        mounts => Ok([mounts, number(1), number(2)].map(own)),
    }
}

/// Opens the calling process's mount namespace, root and current directory.
fn numbers() -> Result<[i64; 3]> {
    let pid = syscall(libc::SYS_getpid, [])?;
    let process = syscall(libc::SYS_pidfd_open, [Arg::Int(pid), Arg::Int(0)])?;
    let namespace = Arg::Int(PIDFD_GET_MNT_NAMESPACE);
    let mounts = syscall(libc::SYS_ioctl, [Arg::Int(process), namespace, Arg::Int(0)])?;
    syscall(libc::SYS_close, [Arg::Int(process)])?;
    // Who is nobody else may not look up so much as `.` where others may not come: the place itself is opened.
    let open = |path| {
        let flags = OpenTreeFlags::EMPTY_PATH | OpenTreeFlags::CLOEXEC;
        let args = [Arg::Int(AT_FDCWD.into()), Arg::Str(path), Arg::Int(flags.bits().into())];
        syscall(libc::SYS_open_tree, args)
    };
    Ok([mounts, open(c"/")?, open(c"")?])
}
