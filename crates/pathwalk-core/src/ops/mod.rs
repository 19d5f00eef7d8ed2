//! The calls, a family a file. Each method of [`Task`](crate::Task) is one system call, named and ordered like it.

pub(crate) mod stat;

pub(crate) mod peek;

pub(crate) mod realpath;

pub(crate) mod access;

pub(crate) mod open;

pub(crate) mod create;

pub(crate) mod making;

pub(crate) mod remove;

pub(crate) mod rename;

pub(crate) mod readlink;

pub(crate) mod attr;

pub(crate) mod xattr;

pub(crate) mod acl;

pub(crate) mod caps;

pub(crate) mod rw;

pub(crate) mod exec;

pub(crate) mod dir;

pub(crate) mod mounts;

pub(crate) mod move_mount;

pub(crate) mod mount_setattr;

pub mod explain;

mod addresses;

use crate::walk::Lookup;
use pathwalk_abi::{AtFlags, Errno, ResolveFlags, Result};
use std::time::Duration;

/// The walk's flags for a call's `AT_*` flags: `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
pub(crate) fn lookup_flags(at: AtFlags) -> Lookup {
    let mut lookup = Lookup::empty();
    lookup.set(Lookup::FOLLOW, !at.contains(AtFlags::SYMLINK_NOFOLLOW));
    lookup.set(Lookup::EMPTY, at.contains(AtFlags::EMPTY_PATH));
    lookup
}

/// The walk's flags for `RESOLVE_*`.
///
/// # Errors
///
/// - `EINVAL`: one is unknown, or `RESOLVE_BENEATH` is given with `RESOLVE_IN_ROOT`.
#[cold]
pub(crate) fn within(resolve: ResolveFlags) -> Result<Lookup> {
    let unknown = resolve.bits() & !ResolveFlags::all().bits() != 0;
    if unknown || resolve.contains(ResolveFlags::BENEATH | ResolveFlags::IN_ROOT) {
        return Err(Errno::EINVAL);
    }
    let mut lookup = Lookup::empty();
    for (bit, flag) in [
        (ResolveFlags::NO_XDEV, Lookup::NO_XDEV),
        (ResolveFlags::NO_SYMLINKS, Lookup::NO_SYMLINKS),
        (ResolveFlags::NO_MAGICLINKS, Lookup::NO_MAGICLINKS),
        (ResolveFlags::BENEATH, Lookup::BENEATH),
        (ResolveFlags::IN_ROOT, Lookup::IN_ROOT),
        (ResolveFlags::CACHED, Lookup::CACHED),
    ] {
        lookup.set(flag, resolve.contains(bit));
    }
    Ok(lookup)
}

/// So many times it is not waited.
const AT_ONCE: u32 = 4;
const A_LITTLE: Duration = Duration::from_micros(20);

/// Makes a call once more if a file system says that what the cache knew was stale; then file systems are asked anew, by
/// the flag that the call gets for its lookups.
///
/// Lookups do so themselves; this is for what comes after one.
///
/// # Errors
///
/// Those of the call.
///
/// Linux: `retry_estale`.
pub(crate) fn retry_estale<R>(call: impl Fn(Lookup) -> Result<R>) -> Result<R> {
    retry_estale_often(1, call)
}

/// As [`retry_estale`], so many times, which are more than none.
///
/// # Errors
///
/// Those of the call.
#[inline(always)]
pub(crate) fn retry_estale_often<R>(times: u32, call: impl Fn(Lookup) -> Result<R>) -> Result<R> {
    // Apart, as an answer that is handed on as a whole is copied in pieces in which it was not written.
    let errno = match call(Lookup::empty()) {
        Ok(answer) => return Ok(answer),
        Err(errno) => errno,
    };
    if errno != Errno::ESTALE {
        return Err(errno);
    }
    let mut left = times;
    loop {
        left -= 1;
        match call(Lookup::REVAL) {
            Err(Errno::ESTALE) if left > 0 => get_out_of_step(times - left),
            answer => return answer,
        }
    }
}

/// Waits a little where others were faster so many times: who makes a name and takes it away all the time goes in step with who waits for the
/// directory's lock, and would be so each time.
#[cold]
pub(crate) fn get_out_of_step(times: u32) {
    if times > AT_ONCE {
        std::thread::sleep(A_LITTLE);
    }
}

/// Refuses flags that a call does not know.
///
/// # Errors
///
/// `EINVAL`: there are such.
pub(crate) fn only(flags: AtFlags, known: AtFlags) -> Result<()> {
    if flags.bits() & !known.bits() != 0 { Err(Errno::EINVAL) } else { Ok(()) }
}
