//! Draws calls within bounds.

use super::{Generator, tasks::all_powers};
use crate::{
    call::Call,
    field::{Int, Len, Octal, Queue, Text, When, Where},
    idmaps::{IDMAPS, Idmap},
};
use pathwalk::{
    AccessMode, AtFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, RenameFlags,
    ResolveFlags, SetTime, StatxMask, UmountFlags, XattrFlags,
    abi::{
        XATTR_SIZE_MAX,
        mode::{S_IFIFO, S_IFREG},
        xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
    },
};

impl Generator {
    /// A call within bounds, with arguments that are not refused before the path is looked at.
    pub(super) fn within(&mut self) -> Call {
        let mut flags = self.pick(&[AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW]);
        flags.set(AtFlags::EMPTY_PATH, self.one_in(4));
        let mask = StatxMask::BASIC_STATS | StatxMask::MNT_ID_UNIQUE;
        let call = match self.rng.u8(..23) {
            0 => Call::Fstatat { path: self.place(), flags },
            1 => Call::Statx { path: self.place(), flags, mask },
            2 => {
                let mode = AccessMode::from_bits_retain(self.pick(&[0, 1, 2, 4, 7]));
                let flags = flags | AtFlags::EACCESS;
                Call::Faccessat2 { path: self.place(), mode, flags }
            }
            3 => Call::Fchmodat2 { path: self.place(), mode: self.mode(), flags },
            4 => {
                let (uid, gid) = (self.id(), self.id());
                Call::Fchownat { path: self.place(), uid, gid, flags }
            }
            5 => {
                let (atime, mtime) = (When(SetTime::Now), self.when());
                Call::Utimensat { path: self.place(), atime, mtime, flags }
            }
            6 => Call::Readlinkat { path: self.place(), size: Len(100) },
            7 => Call::Statfs { path: self.path() },
            8 => Call::Chdir { path: self.path() },
            9 => Call::Mkdirat { path: self.place(), mode: self.mode() },
            10 => {
                let kind = if self.plain { S_IFREG } else { S_IFIFO };
                let mode = Octal(kind | self.mode().0);
                Call::Mknodat { path: self.place(), mode, dev: Int(0) }
            }
            11 => {
                let target = Text(b"../a/b".to_vec());
                Call::Symlinkat { target, path: self.place() }
            }
            12 => {
                let flags = self.pick(&[AtFlags::empty(), AtFlags::REMOVEDIR]);
                Call::Unlinkat { path: self.place(), flags }
            }
            13 => {
                let mut flags = self.pick(&[AtFlags::empty(), AtFlags::SYMLINK_FOLLOW]);
                let (old, new) = (self.place(), self.place());
                // With it Linux looks at the descriptor's credentials before the path, too.
                flags.set(AtFlags::EMPTY_PATH, old.path.is_empty() && old.dir.is_some());
                Call::Linkat { old, new, flags }
            }
            14 | 15 => self.xattr_within(),
            16 => Call::Truncate { path: self.path(), size: Int(self.pick(&[0, 1, 5000])) },
            17 => Call::OpenExec { path: self.place(), flags },
            18 | 19 => self.open(),
            _ => {
                let flags = self.pick(&[
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                    RenameFlags::WHITEOUT,
                ]);
                Call::Renameat2 { old: self.place(), new: self.place(), flags }
            }
        };
        self.bounded(call)
    }

    /// A call about mounts within bounds, by root with all capabilities: others are refused before the path is looked at.
    pub(super) fn mounts_within(&mut self) -> Call {
        if self.shrinks {
            return Call::Getcwd {};
        }
        let call = match self.rng.u8(..12) {
            0 => {
                let flags = self.pick(&[
                    OpenTreeFlags::CLONE,
                    OpenTreeFlags::CLONE | OpenTreeFlags::RECURSIVE,
                    OpenTreeFlags::SYMLINK_NOFOLLOW,
                    OpenTreeFlags::empty(),
                ]);
                Call::OpenTree { slot: self.slot_to_fill(), path: self.place(), flags }
            }
            1 => {
                let set = self.pick(&[MountAttrFlags::RDONLY, MountAttrFlags::NOSYMFOLLOW]);
                let clear = self.pick(&[MountAttrFlags::empty(), MountAttrFlags::NODEV]);
                let propagation = self.pick(&[MountFlags::empty(), MountFlags::SHARED]);
                let flags = self.pick(&[OpenTreeFlags::empty(), OpenTreeFlags::RECURSIVE]);
                let path = Where { dir: None, path: self.mounted_path().0 };
                Call::MountSetattr { path, flags, set, clear, propagation }
            }
            2 => {
                let map = Idmap(self.rng.usize(..IDMAPS.len()));
                let flags = OpenTreeFlags::CLONE;
                let (set, clear) = (MountAttrFlags::IDMAP, MountAttrFlags::empty());
                let (slot, path) = (self.slot_to_fill(), self.place());
                let propagation = MountFlags::empty();
                Call::OpenTreeAttr { slot, path, flags, set, clear, propagation, map }
            }
            3 => Call::Mount { path: self.mountpoint(), flags: self.mount_flags() },
            4 => Call::Bind { source: self.path(), path: self.mountpoint() },
            5 | 6 => {
                let flags = self.pick(&[
                    MountFlags::BIND,
                    MountFlags::BIND | MountFlags::REC,
                    MountFlags::MOVE,
                    MountFlags::SHARED,
                    MountFlags::REMOUNT | MountFlags::BIND | MountFlags::NODEV,
                ]);
                Call::MountTree { source: self.mounted_path(), path: self.mounted_path(), flags }
            }
            7 | 8 => {
                let flags = self.pick(&[
                    UmountFlags::empty(),
                    UmountFlags::DETACH,
                    UmountFlags::NOFOLLOW,
                    UmountFlags::from_bits_retain(16),
                ]);
                Call::Umount2 { path: self.mounted_path(), flags }
            }
            9 => Call::PivotRoot { new_root: self.mounted_path(), put_old: self.path() },
            _ => {
                let flags = self.pick(&[
                    MoveMountFlags::empty(),
                    MoveMountFlags::F_SYMLINKS,
                    MoveMountFlags::T_SYMLINKS,
                    MoveMountFlags::BENEATH,
                ]);
                let from = Where { dir: None, path: self.mounted_path().0 };
                Call::MoveMount { from, to: self.place(), flags }
            }
        };
        let call = self.bounded(call);
        self.pending.push(call);
        if self.creds {
            self.pending.push(all_powers());
        }
        Call::Getcwd {}
    }

    /// chroot(2) within bounds.
    pub(super) fn chroot_within(&mut self) -> Call {
        let call = Call::Chroot { path: self.path() };
        self.bounded(call)
    }

    /// inotify_add_watch(2) within bounds.
    pub(super) fn watch_within(&mut self) -> Call {
        let (path, mask) = (self.path(), self.inotify_mask());
        self.bounded(Call::InotifyAddWatch { queue: Queue(0), path, mask })
    }

    fn bounded(&mut self, call: Call) -> Call {
        let all = [
            ResolveFlags::NO_XDEV,
            ResolveFlags::NO_MAGICLINKS,
            ResolveFlags::NO_SYMLINKS,
            ResolveFlags::BENEATH,
            ResolveFlags::IN_ROOT,
        ];
        let mut resolve = self.pick(&all);
        if self.one_in(4) {
            resolve |= self.pick(&all);
        }
        Call::Within { resolve, call: Box::new(call) }
    }

    fn xattr_within(&mut self) -> Call {
        let path = self.place();
        let mut at = self.pick(&[AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW]);
        at.set(AtFlags::EMPTY_PATH, self.one_in(4));
        let name = self.pick(&[
            b"user.a".as_slice(),
            b"trusted.a",
            XATTR_NAME_POSIX_ACL_ACCESS,
            XATTR_NAME_POSIX_ACL_DEFAULT,
        ]);
        let (name, size) = (Text(name.to_vec()), Len(1000));
        match self.rng.u8(..4) {
            0 => {
                let value = self.xattr_value(&name);
                if value.0.len() > XATTR_SIZE_MAX {
                    return Call::Listxattrat { path, at, size };
                }
                Call::Setxattrat { path, at, name, value, flags: XattrFlags::empty() }
            }
            1 => Call::Getxattrat { path, at, name, size },
            2 => Call::Listxattrat { path, at, size },
            _ => Call::Removexattrat { path, at, name },
        }
    }
}
