//! The calls, a family a file. Each method of [`Task`](crate::Task) is one system call, named and ordered like it.

pub(crate) mod stat;

pub(crate) mod access;

pub(crate) mod open;

pub(crate) mod create;

pub(crate) mod remove;

pub(crate) mod rename;

pub(crate) mod readlink;

pub(crate) mod attr;

pub(crate) mod rw;

pub(crate) mod dir;

pub(crate) mod mounts;

pub mod explain;

use crate::walk::Lookup;
use pathwalk_abi::{AtFlags, Errno, ResolveFlags, Result};

/// The walk's flags for a call's `AT_*` flags: `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
pub(crate) fn lookup_flags(at: AtFlags) -> Lookup {
    let mut lookup = Lookup::empty();
    lookup.set(Lookup::FOLLOW, !at.contains(AtFlags::SYMLINK_NOFOLLOW));
    lookup.set(Lookup::EMPTY, at.contains(AtFlags::EMPTY_PATH));
    lookup
}

/// The walk's flags for `RESOLVE_*`.
pub(crate) fn resolve_flags(resolve: ResolveFlags) -> Lookup {
    let mut lookup = Lookup::empty();
    for (bit, flag) in [
        (ResolveFlags::NO_XDEV, Lookup::NO_XDEV),
        (ResolveFlags::NO_SYMLINKS, Lookup::NO_SYMLINKS),
        (ResolveFlags::BENEATH, Lookup::BENEATH),
        (ResolveFlags::IN_ROOT, Lookup::IN_ROOT),
        (ResolveFlags::CACHED, Lookup::CACHED),
    ] {
        lookup.set(flag, resolve.contains(bit));
    }
    lookup
}

/// Refuses flags that a call does not know.
///
/// # Errors
///
/// `EINVAL`: there are such.
pub(crate) fn only(flags: AtFlags, known: AtFlags) -> Result<()> {
    if flags.bits() & !known.bits() != 0 { Err(Errno::EINVAL) } else { Ok(()) }
}
