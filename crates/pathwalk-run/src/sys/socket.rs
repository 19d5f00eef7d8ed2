//! Calls on sockets with an address as it was copied, of whatever family.

#![expect(unsafe_code, reason = "addresses are of any family here, as bytes")]

use super::checked;
use pathwalk::Result;
use std::os::fd::{AsRawFd, OwnedFd};

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

/// sendto(2)
///
/// # Errors
///
/// Those of the call.
pub(crate) fn send_to(fd: &OwnedFd, data: &[u8], flags: i32, address: &[u8]) -> Result<i64> {
    let (to, len) = (address.as_ptr().cast(), address.len() as u32);
    // SAFETY: the kernel reads as many bytes as data and address have.
    let sent = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            data.as_ptr().cast(),
            data.len(),
            flags | libc::MSG_NOSIGNAL,
            to,
            len,
        )
    };
    checked(sent as i64)
}
