//! realpath(3) by system calls: for each prefix of the path it is asked whether it is a symlink.
//!
//! Linux has no call for it. This is what the C library does for gcc, without its allocations.

use std::ffi::CStr;

use pathwalk_abi::Errno;

use crate::contender::Worker;

/// As many symlinks as Linux follows.
const MOST_LINKS: u32 = 40;
const PATH_MAX: usize = 4096;

/// Memory that is kept between calls.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// What is known to be canonical, with a NUL.
    real: Vec<u8>,
    /// What is still to be looked at, and the same with a symlink's body before it.
    rest: Vec<u8>,
    next: Vec<u8>,
}

/// Writes the canonical path of `path` into `buf`.
pub(super) fn realpath<W: Worker>(
    worker: &mut W,
    path: &CStr,
    scratch: &mut Scratch,
    buf: &mut [u8],
) -> Result<usize, Errno> {
    let Scratch { real, rest, next } = scratch;
    let mut body = [0; PATH_MAX];
    let mut links = 0;
    real.clear();
    rest.clear();
    rest.extend_from_slice(path.to_bytes());
    let mut at = 0;
    while at < rest.len() {
        let end =
            rest[at..].iter().position(|&byte| byte == b'/').map_or(rest.len(), |len| at + len);
        let name = &rest[at..end];
        at = (end + 1).min(rest.len());
        let before = real.len();
        match name {
            b"" | b"." => continue,
            b".." => {
                real.truncate(real.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                continue;
            }
            _ => {
                real.push(b'/');
                real.extend_from_slice(name);
            }
        }
        real.push(0);
        let prefix = CStr::from_bytes_with_nul(real).map_err(|_| Errno::ENOENT)?;
        let link = worker.readlink(prefix, &mut body);
        real.pop();
        match link {
            // No symlink, but there.
            Err(Errno::EINVAL) => {}
            Err(errno) => return Err(errno),
            Ok(_) if links == MOST_LINKS => return Err(Errno::ELOOP),
            Ok(len) => {
                links += 1;
                let body = &body[..len];
                real.truncate(if body.starts_with(b"/") { 0 } else { before });
                next.clear();
                next.extend_from_slice(body);
                next.push(b'/');
                next.extend_from_slice(&rest[at..]);
                std::mem::swap(rest, next);
                at = 0;
            }
        }
    }
    if real.is_empty() {
        real.push(b'/');
    }
    buf.get_mut(..real.len()).ok_or(Errno::ERANGE)?.copy_from_slice(real);
    Ok(real.len())
}
