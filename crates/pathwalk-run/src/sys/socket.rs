//! Calls on sockets with an address as it was copied, of whatever family.

#![expect(unsafe_code, reason = "addresses are of any family here, as bytes")]

use super::{answer, checked};
use pathwalk::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    ptr::null_mut,
};

/// connect(2)
///
/// # Errors
///
/// Those of the call.
pub(crate) fn connect(fd: &OwnedFd, address: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads as many bytes as the address has.
    let answer =
        unsafe { libc::connect(fd.as_raw_fd(), address.as_ptr().cast(), address.len() as u32) };
    checked(answer.into()).map(drop)
}

/// bind(2)
///
/// # Errors
///
/// Those of the call.
pub(crate) fn bind(fd: &OwnedFd, address: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads as many bytes as the address has.
    let answer =
        unsafe { libc::bind(fd.as_raw_fd(), address.as_ptr().cast(), address.len() as u32) };
    checked(answer.into()).map(drop)
}

/// What is sent: bytes that the kernel is given as they are.
pub(crate) struct Message {
    /// The address; empty where there is none.
    pub(crate) name: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Control data, whose descriptors are this process's.
    pub(crate) control: Vec<u8>,
}

/// sendmsg(2), without a signal.
///
/// # Errors
///
/// Those of the call.
pub(crate) fn send(fd: &OwnedFd, message: &Message, flags: i32) -> Result<i64> {
    let at = |bytes: &[u8]| if bytes.is_empty() { null_mut() } else { bytes.as_ptr().cast_mut() };
    let mut piece = libc::iovec { iov_base: at(&message.data).cast(), iov_len: message.data.len() };
    // SAFETY: all fields are numbers or pointers, for which zero is a value.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    (head.msg_name, head.msg_namelen) =
        (at(&message.name).cast(), message.name.len() as libc::socklen_t);
    (head.msg_iov, head.msg_iovlen) = (&raw mut piece, 1);
    (head.msg_control, head.msg_controllen) = (at(&message.control).cast(), message.control.len());
    // SAFETY: the kernel reads what is pointed to, as much as is said, and writes nothing.
    let sent =
        unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const head, flags | libc::MSG_NOSIGNAL) };
    checked(sent as i64)
}

/// An option of a socket, by getsockopt(2), that is a number.
///
/// # Errors
///
/// - `ENOTSOCK`: it is none.
pub(crate) fn option(fd: &OwnedFd, option: i32) -> Result<i32> {
    let mut value = 0_i32;
    let mut len = size_of::<i32>() as u32;
    let to = (&raw mut value).cast();
    let level = libc::SOL_SOCKET;
    // SAFETY: the kernel writes no more than the number that is there, and its length.
    let answer = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, to, &raw mut len) };
    checked(answer.into()).map(|_| value)
}

/// Whether who waits to send by a socket, or to connect it, gives up after a time (`SO_SNDTIMEO`).
pub(crate) fn gives_up_sending(fd: &OwnedFd) -> bool {
    rustix::net::sockopt::socket_timeout(fd, rustix::net::sockopt::Timeout::Send)
        .is_ok_and(|time| time.is_some())
}

/// How much of what was sent by a local socket was not received, in bytes of the kernel's memory: messages that are made in the same way
/// take the same.
pub(crate) fn unread(fd: &OwnedFd) -> u32 {
    let mut left = 0_i32;
    // SAFETY: the kernel writes one number there. It has no error for a socket.
    unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut left) };
    left.cast_unsigned()
}

/// Whether nobody has the other end of a local socket.
pub(crate) fn is_left(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Whether nobody is to wait for a socket.
///
/// # Errors
///
/// None that fcntl(2) has for an open file.
pub(crate) fn is_nonblocking(fd: &OwnedFd) -> Result<bool> {
    answer(rustix::fs::fcntl_getfl(fd)).map(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK))
}

/// Whose address is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Own,
    Peer,
}

/// getsockname(2), getpeername(2)
///
/// # Errors
///
/// Those of the call.
pub(crate) fn name(fd: &OwnedFd, side: Side) -> Result<Vec<u8>> {
    let mut address = vec![0_u8; size_of::<libc::sockaddr_storage>()];
    let mut len = address.len() as u32;
    let (to, len_ptr) = (address.as_mut_ptr().cast(), &raw mut len);
    let answer = match side {
        // SAFETY: the kernel writes no more than `len` bytes, and `len`.
        Side::Own => unsafe { libc::getsockname(fd.as_raw_fd(), to, len_ptr) },
        // SAFETY: as above.
        Side::Peer => unsafe { libc::getpeername(fd.as_raw_fd(), to, len_ptr) },
    };
    checked(answer.into())?;
    address.truncate(len as usize);
    Ok(address)
}
