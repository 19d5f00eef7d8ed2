//! Addresses that are paths: those of local sockets.
//!
//! The call is made here, with the address that was copied, on the same open socket: what the thread's memory says later does
//! not matter.

use super::{done, later};
use crate::{
    engine::{Caller, Engine, Reply},
    sys::{answer, memory, socket},
};
use pathwalk::{At, Errno, FileType, OpenFlags, Result, abi::AT_FDCWD};
use rustix::fs::{OFlags, fcntl_getfl};
use std::sync::Arc;

/// The largest address: `struct sockaddr_storage`.
const LARGEST: usize = 128;
/// `AF_UNIX`
const LOCAL: [u8; 2] = (libc::AF_UNIX as u16).to_ne_bytes();

/// The path of an address, if it is one.
fn path_of(address: &[u8]) -> Option<&[u8]> {
    let path = address.strip_prefix(&LOCAL)?;
    // One that begins with NUL is a name, and none has none.
    if path.first().is_none_or(|&byte| byte == 0) {
        return None;
    }
    Some(path.split(|&byte| byte == 0).next().unwrap_or(path))
}

fn address(caller: &Caller, at: usize, len: usize) -> Result<Vec<u8>> {
    let len = caller.word(len).cast_signed();
    if len < 0 || len as usize > LARGEST {
        return Err(Errno::EINVAL);
    }
    let mut address = vec![0; len as usize];
    if !address.is_empty()
        && memory::read(caller.tid, caller.args[at], &mut address)? != address.len()
    {
        return Err(Errno::EFAULT);
    }
    Ok(address)
}

/// Finds the socket that a path leads to in the tree. None is connected: see `docs/run.md`.
///
/// # Errors
///
/// - those of the lookup, and of a socket that nobody listens at.
fn find(engine: &mut Engine, caller: &Caller, path: &[u8]) -> Result<()> {
    let base = engine.base(caller, AT_FDCWD, path)?;
    let file = engine.task.openat(base.at(), path, OpenFlags::PATH, 0)?;
    let writable = pathwalk::AccessMode::W_OK;
    let flags = pathwalk::AtFlags::EACCESS | pathwalk::AtFlags::EMPTY_PATH;
    engine.task.faccessat2(At::Dir(&file), b"", writable, flags)?;
    let _is_one = FileType::from_mode(engine.task.fstat(&file)?.st_mode) == Some(FileType::Socket);
    Err(Errno::ECONNREFUSED)
}

pub(crate) fn connect(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let address = address(caller, 1, 2)?;
    let fd = engine.fetch(caller, caller.fd(0))?;
    engine.still_waits(caller)?;
    if let Some(path) = path_of(&address) {
        return done(find(engine, caller, path));
    }
    if answer(fcntl_getfl(&fd))?.contains(OFlags::NONBLOCK) {
        return done(socket::connect(&fd, &address));
    }
    // It may take as long as the other side does.
    let (listener, id) = (Arc::clone(&engine.listener), caller.id);
    later(move || {
        let _ = listener.send(id, socket::connect(&fd, &address).map(|()| 0));
    })
}

/// A local socket gets no name in the tree: see `docs/run.md`.
pub(crate) fn bind(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let address = address(caller, 1, 2)?;
    let fd = engine.fetch(caller, caller.fd(0))?;
    engine.still_waits(caller)?;
    if path_of(&address).is_some() {
        return Err(Errno::EPERM);
    }
    done(socket::bind(&fd, &address))
}

pub(crate) fn sendto(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let address = address(caller, 4, 5)?;
    let fd = engine.fetch(caller, caller.fd(0))?;
    engine.still_waits(caller)?;
    if let Some(path) = path_of(&address) {
        return done(find(engine, caller, path));
    }
    let mut data = vec![0; usize::try_from(caller.args[2]).unwrap_or(usize::MAX).min(1 << 20)];
    if !data.is_empty() && memory::read(caller.tid, caller.args[1], &mut data)? != data.len() {
        return Err(Errno::EFAULT);
    }
    let flags = caller.word(3).cast_signed();
    let (listener, id) = (Arc::clone(&engine.listener), caller.id);
    match socket::send_to(&fd, &data, flags | libc::MSG_DONTWAIT, &address) {
        Err(Errno::EAGAIN) if flags & libc::MSG_DONTWAIT == 0 => {}
        answer => return answer.map(Reply::Value),
    }
    later(move || {
        let _ = listener.send(id, socket::send_to(&fd, &data, flags, &address));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_are_paths() {
        let local = |rest: &[u8]| [&LOCAL[..], rest].concat();
        assert_eq!(path_of(&local(b"/run/a\0\0")), Some(&b"/run/a"[..]));
        assert_eq!(path_of(&local(b"a")), Some(&b"a"[..]));
        assert_eq!(path_of(&local(b"\0name")), None);
        assert_eq!(path_of(&local(b"")), None);
        assert_eq!(path_of(b""), None);
        assert_eq!(path_of(&[2, 0, b'/', b'a']), None);
    }
}
