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
