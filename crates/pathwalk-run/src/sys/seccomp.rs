//! seccomp user notification: installing the filter, receiving calls, answering them.
//!
//! Manual: seccomp(2), seccomp_unotify(2).

#![expect(unsafe_code, reason = "rustix has no seccomp")]

use super::{answer, checked};
use libc::{
    SECCOMP_ADDFD_FLAG_SEND, SECCOMP_ADDFD_FLAG_SETFD, SECCOMP_FILTER_FLAG_NEW_LISTENER,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_IOCTL_NOTIF_ADDFD,
    SECCOMP_IOCTL_NOTIF_ID_VALID, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
    SECCOMP_SET_MODE_FILTER, SECCOMP_USER_NOTIF_FLAG_CONTINUE, seccomp_notif, seccomp_notif_addfd,
    seccomp_notif_resp, sock_filter, sock_fprog,
};
use pathwalk::{Errno, Result};
use rustix::event::PollFlags;
use std::{
    mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
const SYNC_WAKE_UP: u64 = 1;

/// What a call answers inside the kernel that a signal interrupted: it is made again, or answers `EINTR`, as the signal's handler says.
const ERESTARTSYS: i32 = 512;

/// A call that waits to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    /// The number that the answer names it by.
    pub(crate) id: u64,
    /// The thread.
    pub(crate) tid: u32,
    /// The call's number.
    pub(crate) nr: u32,
    /// Its arguments.
    pub(crate) args: [u64; 6],
    /// The address behind the instruction that made it.
    pub(crate) behind: u64,
}

/// Installs a filter for this thread and all that come of it, for good; returns the descriptor where its calls arrive.
///
/// # Errors
///
/// - `EBUSY`: there is such a descriptor already, of a filter that was installed before.
/// - `EINVAL`: the kernel knows no notification, or the filter is wrong.
/// - `EACCES`: without `PR_SET_NO_NEW_PRIVS`.
pub(crate) fn install(program: &[sock_filter]) -> Result<RawFd> {
    let prog = sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_ptr().cast_mut(),
    };
    let install = |flags: u64| {
        // SAFETY: the kernel reads `prog` and as many instructions as it says, and writes nothing.
        checked(unsafe {
            libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &raw const prog)
        })
    };
    let killable = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let fd = match install(killable) {
        // A kernel before 5.19.
        Err(Errno::EINVAL) => install(SECCOMP_FILTER_FLAG_NEW_LISTENER),
        answer => answer,
    }?;
    Ok(fd as RawFd)
}

/// Where the calls arrive.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: OwnedFd,
    wakes_here: bool,
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, wakes_here: false }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.fd.as_fd()
    }

    /// It for another thread, which hears from it that nobody is left.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: no descriptor is left.
    pub(crate) fn watched(&self) -> Result<(OwnedFd, PollFlags)> {
        let fd = answer(rustix::io::fcntl_dupfd_cloexec(&self.fd, 0))?;
        Ok((fd, PollFlags::empty()))
    }

    /// Wakes whoever waits on the CPU of the waker. A kernel before 6.6 does not know how, and it is no loss.
    pub(crate) fn wake_synchronously(&mut self) {
        // SAFETY: the argument is a number.
        let set = unsafe {
            libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP)
        };
        self.wakes_here = set == 0;
    }

    /// Whether an answer wakes a thread on the CPU of who answers. Then no signal but one that kills ends its wait, either.
    pub(crate) fn wakes_here(&self) -> bool {
        self.wakes_here
    }

    /// Receives the next call; waits for one.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: its thread was killed meanwhile; or nobody is left, since Linux 6.11.
    /// - `EINTR`: a signal came.
    pub(crate) fn receive(&self) -> Result<Notification> {
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut notif: seccomp_notif = unsafe { mem::zeroed() };
        let notif_ptr = &raw mut notif;
        // SAFETY: the kernel writes one `seccomp_notif` there; none was ever larger than this one.
        checked(i64::from(unsafe {
            libc::ioctl(self.fd.as_raw_fd(), SECCOMP_IOCTL_NOTIF_RECV, notif_ptr)
        }))?;
        let data = notif.data;
        let (nr, behind) = (data.nr as u32, data.instruction_pointer);
        Ok(Notification { id: notif.id, tid: notif.pid, nr, args: data.args, behind })
    }

    /// Whether the thread still waits for the answer: what was read of it by its number was its own.
    pub(crate) fn is_valid(&self, id: u64) -> bool {
        uninterrupted(|| {
            // SAFETY: the kernel reads one number there.
            unsafe { libc::ioctl(self.fd.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) }
        })
        .is_ok()
    }

    /// Answers a call with a value or an error.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: its thread does not wait any more.
    pub(crate) fn send(&self, id: u64, answer: Result<i64>) -> Result<()> {
        let (val, error) = match answer {
            Ok(value) => (value, 0),
            Err(errno) => (0, -errno.raw()),
        };
        self.respond(&seccomp_notif_resp { id, val, error, flags: 0 })
    }

    /// Answers a call that a signal interrupted: it is made again, or answers `EINTR`, as the signal's handler says. The thread must be
    /// marked as one that has a signal to take, or is to stop: else it would see a number that is nobody's.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: its thread does not wait any more.
    pub(crate) fn restart(&self, id: u64) -> Result<()> {
        self.respond(&seccomp_notif_resp { id, val: 0, error: -ERESTARTSYS, flags: 0 })
    }

    /// Lets the kernel do the call. Its memory may have changed since it was looked at.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: its thread does not wait any more.
    pub(crate) fn pass(&self, id: u64) -> Result<()> {
        let flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.respond(&seccomp_notif_resp { id, val: 0, error: 0, flags })
    }

    fn respond(&self, resp: &seccomp_notif_resp) -> Result<()> {
        let resp = std::ptr::from_ref(resp);
        uninterrupted(|| {
            // SAFETY: the kernel reads one `seccomp_notif_resp` there.
            unsafe { libc::ioctl(self.fd.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SEND, resp) }
        })
        .map(drop)
    }

    /// Gives the thread a descriptor and answers its call with the number, in one step; or only gives it one.
    ///
    /// # Errors
    ///
    /// - `EMFILE`: it has as many as it may have; the call waits on.
    /// - `ENOENT`: it does not wait any more.
    pub(crate) fn add_fd(
        &self,
        id: u64,
        fd: BorrowedFd<'_>,
        cloexec: bool,
        send: bool,
    ) -> Result<i64> {
        let flags = if send { SECCOMP_ADDFD_FLAG_SEND as u32 } else { 0 };
        self.add(id, fd, (flags, 0), cloexec)
    }

    /// Gives the thread a descriptor of this number, which goes at exec; what had the number is closed.
    ///
    /// # Errors
    ///
    /// - `EBADF`: it may have none of that number.
    /// - `ENOENT`: it does not wait any more.
    pub(crate) fn add_fd_at(&self, id: u64, fd: BorrowedFd<'_>, number: u32) -> Result<i64> {
        self.add(id, fd, (SECCOMP_ADDFD_FLAG_SETFD as u32, number), true)
    }

    fn add(
        &self,
        id: u64,
        fd: BorrowedFd<'_>,
        (flags, newfd): (u32, u32),
        cloexec: bool,
    ) -> Result<i64> {
        let newfd_flags = if cloexec { libc::O_CLOEXEC as u32 } else { 0 };
        let srcfd = fd.as_raw_fd() as u32;
        let addfd = seccomp_notif_addfd { id, flags, srcfd, newfd, newfd_flags };
        uninterrupted(|| {
            // SAFETY: the kernel reads one `seccomp_notif_addfd` there.
            unsafe { libc::ioctl(self.fd.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ADDFD, &raw const addfd) }
        })
    }
}

/// The answer of a call of the listener that nobody makes again if it is not done: this process was stopped while it waited for the lock.
fn uninterrupted(call: impl Fn() -> i32) -> Result<i64> {
    loop {
        let answer = checked(call().into());
        if answer != Err(Errno::EINTR) {
            return answer;
        }
    }
}

/// Takes a number for a descriptor that this process owns.
///
/// # Safety
///
/// Nobody else closes it.
pub(crate) unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: as the caller says.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
