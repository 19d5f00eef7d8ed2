//! Draws calls within bounds.

use super::{Generator, tasks::all_powers};
use crate::{
    call::Call,
    field::{Int, Octal, Text, When, Where},
    idmaps::{IDMAPS, Idmap},
};
use pathwalk::{
    AccessMode, AtFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, RenameFlags,
    ResolveFlags, SetTime, StatxMask, XattrFlags,
    abi::{
        XATTR_SIZE_MAX,
        mode::{S_IFIFO, S_IFREG},
        xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
    },
};

impl Generator {
    /// A call within bounds, with arguments that are not refused before the path is looked at.
    pub(super) fn within(&mut self) -> Call {
        let flags = self.pick(&[AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW]);
        let mask = StatxMask::BASIC_STATS | StatxMask::MNT_ID_UNIQUE;
        let call = match self.rng.u8(..21) {
            0 => Call::Fstatat { path: self.place_by_name(), flags },
            1 => Call::Statx { path: self.place_by_name(), flags, mask },
            2 => {
                let mode = AccessMode::from_bits_retain(self.pick(&[0, 1, 2, 4, 7]));
                let flags = flags | AtFlags::EACCESS;
                Call::Faccessat2 { path: self.place_by_name(), mode, flags }
            }
            3 => Call::Fchmodat2 { path: self.place_by_name(), mode: self.mode(), flags },
            4 => {
                let (uid, gid) = (self.id(), self.id());
                Call::Fchownat { path: self.place_by_name(), uid, gid, flags }
            }
            5 => {
                let (atime, mtime) = (When(SetTime::Now), self.when());
                Call::Utimensat { path: self.place_by_name(), atime, mtime, flags }
            }
            6 => Call::Readlinkat { path: self.place_by_name(), size: Int(100) },
            7 => Call::Statfs { path: self.path() },
            8 => Call::Chdir { path: self.path() },
            9 => Call::Mkdirat { path: self.place_by_name(), mode: self.mode() },
            10 => {
                let kind = if self.plain { S_IFREG } else { S_IFIFO };
                let mode = Octal(kind | self.mode().0);
                Call::Mknodat { path: self.place_by_name(), mode, dev: Int(0) }
            }
            11 => {
                let target = Text(b"../a/b".to_vec());
                Call::Symlinkat { target, path: self.place_by_name() }
            }
            12 => {
                let flags = self.pick(&[AtFlags::empty(), AtFlags::REMOVEDIR]);
                Call::Unlinkat { path: self.place_by_name(), flags }
            }
            13 => {
                let flags = self.pick(&[AtFlags::empty(), AtFlags::SYMLINK_FOLLOW]);
                Call::Linkat { old: self.place_by_name(), new: self.place_by_name(), flags }
            }
            14 | 15 => self.xattr_within(),
            16 => Call::Truncate { path: self.path(), size: Int(self.pick(&[0, 1, 5000])) },
            17 => Call::OpenExec { path: self.place_by_name(), flags },
            _ => {
                let flags = self.pick(&[
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                    RenameFlags::WHITEOUT,
                ]);
                Call::Renameat2 { old: self.place_by_name(), new: self.place_by_name(), flags }
            }
        };
        self.bounded(call)
    }

    /// A call about mounts within bounds, by root with all capabilities: others are refused before the path is looked at.
    pub(super) fn mounts_within(&mut self) -> Call {
        if self.shrinks {
            return Call::Getcwd {};
        }
        let call = match self.rng.u8(..4) {
            0 => {
                let flags = self.pick(&[
                    OpenTreeFlags::CLONE,
                    OpenTreeFlags::CLONE | OpenTreeFlags::RECURSIVE,
                    OpenTreeFlags::SYMLINK_NOFOLLOW,
                    OpenTreeFlags::empty(),
                ]);
                Call::OpenTree { slot: self.slot_to_fill(), path: self.place_by_name(), flags }
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
                let (slot, path) = (self.slot_to_fill(), self.place_by_name());
                let propagation = MountFlags::empty();
                Call::OpenTreeAttr { slot, path, flags, set, clear, propagation, map }
            }
            _ => {
                let flags = self.pick(&[
                    MoveMountFlags::empty(),
                    MoveMountFlags::F_SYMLINKS,
                    MoveMountFlags::T_SYMLINKS,
                    MoveMountFlags::BENEATH,
                ]);
                let from = Where { dir: None, path: self.mounted_path().0 };
                Call::MoveMount { from, to: self.place_by_name(), flags }
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

    /// Of what the last name stands for itself: Linux can be asked so from its directory.
    fn xattr_within(&mut self) -> Call {
        let path = loop {
            let place = self.place_by_name();
            let last = place.path.rsplit(|&byte| byte == b'/').next().unwrap_or(b"");
            if !matches!(last, b"" | b"." | b"..") {
                break place;
            }
        };
        let at = AtFlags::SYMLINK_NOFOLLOW;
        let name = self.pick(&[
            b"user.a".as_slice(),
            b"trusted.a",
            XATTR_NAME_POSIX_ACL_ACCESS,
            XATTR_NAME_POSIX_ACL_DEFAULT,
        ]);
        let (name, size) = (Text(name.to_vec()), Int(1000));
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

    fn place_by_name(&mut self) -> Where {
        loop {
            let place = self.place();
            if !place.path.is_empty() {
                return place;
            }
        }
    }
}
