//! The table of what is drawn.

use super::Generator;
use crate::{
    call::Call,
    field::{Len, Octal},
};
use pathwalk::AtFlags;

/// In which runs a call is drawn.
#[derive(Clone, Copy)]
pub(super) enum Wants {
    /// In every run.
    Nothing,
    /// In those that mount.
    Mounts,
    /// In those where tasks move their roots.
    Roots,
    /// In those where files become immutable.
    Fixed,
    /// In those where something is watched.
    Watches,
    /// In those that are about extended attributes.
    Xattrs,
    /// In those where tasks change their credentials.
    Creds,
}

use Wants::{Creds, Fixed, Mounts, Nothing, Roots, Watches, Xattrs};

pub(super) type Draw = fn(&mut Generator) -> Call;

/// What is drawn: how often, in which runs, and how.
#[rustfmt::skip]
pub(super) const DRAWN: &[(u32, Wants, Draw)] = &[
    (12, Nothing, Generator::open),
    (1, Nothing, |g| Call::Close { slot: g.slot() }),
    (1, Nothing, |g| Call::Read { slot: g.slot(), len: g.length() }),
    (2, Nothing, |g| Call::Write { slot: g.slot(), data: g.data() }),
    (1, Nothing, |g| Call::Pread { slot: g.slot(), len: g.length(), offset: g.offset() }),
    (1, Nothing, |g| Call::Pwrite { slot: g.slot(), data: g.data(), offset: g.offset() }),
    (1, Nothing, Generator::seek),
    (3, Nothing, |g| Call::Stat { path: g.path() }),
    (3, Nothing, |g| Call::Lstat { path: g.path() }),
    (1, Nothing, |g| Call::Fstatat { path: g.place(), flags: g.at_flags() }),
    (3, Nothing, Generator::statx),
    (2, Nothing, |g| Call::Access { path: g.path(), mode: g.access() }),
    (2, Nothing, |g| Call::Faccessat2 { path: g.place(), mode: g.access(), flags: g.at_flags() }),
    (9, Nothing, |g| Call::Mkdirat { path: g.new_place(), mode: g.mode() }),
    (3, Nothing, Generator::mknod),
    (5, Nothing, |g| Call::Symlinkat { target: g.target(), path: g.new_place() }),
    (4, Nothing, Generator::link),
    (4, Nothing, |g| Call::Unlinkat { path: g.place(), flags: g.at_flags_of(AtFlags::REMOVEDIR) }),
    (3, Nothing, |g| Call::Rmdir { path: g.path() }),
    (12, Nothing, Generator::rename),
    (2, Nothing, |g| Call::Readlinkat { path: g.place(), size: Len(g.pick(&[0, 1, 100, 4096])) }),
    (3, Nothing, |g| Call::Fchmodat2 { path: g.place(), mode: g.mode(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Fchmod { slot: g.slot(), mode: g.mode() }),
    (2, Nothing, |g| Call::Fchownat { path: g.place(), uid: g.id(), gid: g.id(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Fchown { slot: g.slot(), uid: g.id(), gid: g.id() }),
    (8, Nothing, Generator::within),
    (2, Mounts, Generator::mounts_within),
    (1, Watches, Generator::watch_within),
    (1, Roots, Generator::chroot_within),
    (1, Nothing, |g| Call::Statfs { path: g.path() }),
    (1, Nothing, |g| Call::Fstatfs { slot: g.slot() }),
    (1, Nothing, Generator::statx_null),
    (1, Nothing, |g| Call::Fstat { slot: g.slot() }),
    (2, Nothing, |g| Call::OpenExec { path: g.place(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Getflags { slot: g.slot() }),
    (5, Fixed, Generator::setflags),
    (1, Nothing, |g| Call::Utimensat { path: g.place(), atime: g.when(), mtime: g.when(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Futimens { slot: g.slot(), atime: g.when(), mtime: g.when() }),
    (1, Nothing, |g| Call::Truncate { path: g.path(), size: g.offset() }),
    (1, Nothing, |g| Call::Ftruncate { slot: g.slot(), size: g.offset() }),
    (2, Nothing, |g| Call::Getdents64 { slot: g.slot() }),
    (1, Nothing, Generator::getdents64_by),
    (2, Nothing, |g| Call::Chdir { path: g.path() }),
    (1, Nothing, |g| Call::Fchdir { slot: g.slot() }),
    (1, Nothing, |_| Call::Getcwd {}),
    (1, Nothing, |g| Call::Umask { mask: Octal(g.pick(&[0, 0o022, 0o077, 0o007])) }),
    (4, Creds, Generator::setcred),
    (1, Creds, Generator::setcaps),
    (1, Roots, |g| Call::Chroot { path: g.path() }),
    (2, Mounts, |g| Call::Mount { path: g.mountpoint(), flags: g.mount_flags() }),
    (2, Mounts, |g| Call::Bind { source: g.path(), path: g.mountpoint() }),
    (3, Mounts, Generator::umount),
    (1, Mounts, Generator::idmap),
    (1, Mounts, Generator::expire),
    (8, Watches, Generator::inotify),
    (4, Nothing, Generator::xattr_call),
    (50, Xattrs, Generator::xattr_call),
];

/// The weights of all that is drawn.
pub(super) const WEIGHTS: u32 = {
    let (mut sum, mut index) = (0, 0);
    while index < DRAWN.len() {
        sum += DRAWN[index].0;
        index += 1;
    }
    sum
};
