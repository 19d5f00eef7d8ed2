//! What the host tells of a file, in the cache's words.

use pathwalk_abi::{Dev, InodeFlags, Timespec};
use pathwalk_core::Attr;
use rustix::fs::{Statx, StatxAttributes, StatxTimestamp};

/// The attributes as the host has them.
pub(crate) fn attr_of(stat: &Statx) -> Attr {
    Attr {
        mode: stat.stx_mode.into(),
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        nlink: stat.stx_nlink,
        ino: stat.stx_ino,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        rdev: Dev::new(stat.stx_rdev_major, stat.stx_rdev_minor),
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: time(&stat.stx_ctime),
        btime: time(&stat.stx_btime),
        flags: flags(stat.stx_attributes),
    }
}

fn time(time: &StatxTimestamp) -> Timespec {
    Timespec { sec: time.tv_sec, nsec: time.tv_nsec }
}

fn flags(attributes: StatxAttributes) -> InodeFlags {
    let mut flags = InodeFlags::empty();
    for (attribute, flag) in [
        (StatxAttributes::IMMUTABLE, InodeFlags::IMMUTABLE),
        (StatxAttributes::APPEND, InodeFlags::APPEND),
        (StatxAttributes::NODUMP, InodeFlags::NODUMP),
    ] {
        flags.set(flag, attributes.contains(attribute));
    }
    flags
}
