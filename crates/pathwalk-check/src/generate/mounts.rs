//! Draws calls about mounts.

use super::Generator;
use crate::{
    call::{Call, Who},
    field::{Int, Len, Octal, Queue, Text, Where},
    idmaps::{IDMAPS, Idmap},
    normal::undrawn::BesideProcfs,
};
use pathwalk::{
    InotifyMask, ListmountFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenFlags,
    OpenTreeFlags, RenameFlags, StatmountMask, UmountFlags,
};

/// What mount(2) can be told beside what it is to do.
const MODIFIERS: [MountFlags; 16] = [
    MountFlags::RDONLY,
    MountFlags::RDONLY,
    MountFlags::NOSUID,
    MountFlags::NODEV,
    MountFlags::NOEXEC,
    MountFlags::NOATIME,
    MountFlags::NODIRATIME,
    MountFlags::RELATIME,
    MountFlags::STRICTATIME,
    MountFlags::NOSYMFOLLOW,
    MountFlags::SYNCHRONOUS,
    MountFlags::DIRSYNC,
    MountFlags::LAZYTIME,
    MountFlags::SILENT,
    MountFlags::MANDLOCK,
    MountFlags::POSIXACL,
];

impl Generator {
    /// A call that changes what is mounted.
    pub(super) fn mount_call(&mut self) -> Call {
        match self.rng.u8(..43) {
            0..6 => {
                let flags = self.mount_modifiers();
                if self.one_in(15) {
                    // Then it is another call, and the source a path.
                    let flags = flags | MountFlags::from_bits_retain(1 << self.rng.u8(..32));
                    return Call::Mount { path: self.mounted_path(), flags };
                }
                Call::Mount { path: self.mountpoint(), flags }
            }
            6..11 => self.bind(),
            11..13 => {
                let flags = self.pick(&[MountFlags::BIND, MountFlags::empty()]);
                let flags = MountFlags::REMOUNT | flags | self.mount_modifiers();
                self.mount_tree(flags)
            }
            13..19 => {
                let flags = self.pick(&[
                    MountFlags::SHARED,
                    MountFlags::SHARED,
                    MountFlags::SHARED,
                    MountFlags::SLAVE,
                    MountFlags::SLAVE,
                    MountFlags::PRIVATE,
                    MountFlags::UNBINDABLE,
                ]);
                let all = if self.one_in(3) { MountFlags::REC } else { MountFlags::empty() };
                self.mount_tree(flags | all)
            }
            19..21 => {
                let source = self.mounted_path();
                let path = self.mountpoint();
                Call::MountTree { source, path, flags: MountFlags::MOVE }
            }
            21 => {
                // Whatever: mount(2) looks at some bits before others.
                let bits = self.rng.u64(..) & self.rng.u64(..) & self.rng.u64(..) & 0xffff_ffff;
                let bits = if self.one_in(3) { bits & 0xffff | 0xc0ed_0000 } else { bits };
                self.mount_tree(MountFlags::from_bits_retain(bits))
            }
            22..26 => {
                let none = UmountFlags::empty();
                let flags = self.pick(&[
                    none,
                    none,
                    none,
                    UmountFlags::DETACH,
                    UmountFlags::DETACH,
                    UmountFlags::NOFOLLOW,
                    UmountFlags::FORCE,
                    UmountFlags::from_bits_retain(16),
                ]);
                Call::Umount2 { path: self.mounted_path(), flags }
            }
            26 => Call::PivotRoot { new_root: self.mounted_path(), put_old: self.path() },
            27 if self.one_in(3) => self.unshare(),
            27..29 => Call::Setns { of: self.pick(&Who::ALL) },
            29..32 => Call::Mounts {},
            32..34 => self.open_tree(),
            34..37 => self.move_mount(),
            37 => self.statmount(),
            38 => self.open_tree_attr(),
            39 if self.rng.bool() => self.idmap(),
            39 if self.rng.bool() => self.expire(),
            39 => self.listmount(),
            _ => self.mount_setattr(),
        }
    }

    /// A call that changes which mounts there are and who receives them. Where there are watches, what goes in one call is heard
    /// of in its order.
    pub(super) fn tree_call(&mut self, watches: bool) -> Call {
        match self.rng.u8(..if watches { 60 } else { 50 }) {
            0..6 => {
                let kinds = [MountFlags::SHARED, MountFlags::SLAVE, MountFlags::PRIVATE];
                let kind = self.pick(&[kinds[0], kinds[0], kinds[1], kinds[1], kinds[2]]);
                let all = if self.one_in(3) { MountFlags::REC } else { MountFlags::empty() };
                self.mount_tree(kind | all)
            }
            6..19 => self.bind(),
            19..22 => Call::Mount { path: self.mountpoint(), flags: MountFlags::empty() },
            22..26 => {
                let (source, path) = (self.mounted_path(), self.mountpoint());
                Call::MountTree { source, path, flags: MountFlags::MOVE }
            }
            26..36 => {
                let flags = if self.one_in(5) { UmountFlags::empty() } else { UmountFlags::DETACH };
                Call::Umount2 { path: self.mounted_path(), flags }
            }
            36..38 => self.unshare(),
            38..40 => Call::Setns { of: self.pick(&Who::ALL) },
            40..43 => self.move_mount(),
            43..45 => self.open_tree(),
            45 => Call::Mkdirat { path: self.place(), mode: Octal(0o777) },
            46 => Call::Chdir { path: self.path() },
            50..55 => {
                let path = self.mounted_path();
                Call::InotifyAddWatch { queue: Queue(0), path, mask: InotifyMask::ATTRIB }
            }
            55 => Call::Close { slot: self.slot() },
            56 => Call::Rmdir { path: self.mountpoint() },
            57 => {
                let (old, new) = (self.place(), self.new_place());
                Call::Renameat2 { old, new, flags: RenameFlags::empty() }
            }
            58 => Call::Mkdirat { path: self.place(), mode: Octal(0o777) },
            _ => Call::Mounts {},
        }
    }

    /// A task goes into a copy of its namespace, which may have fewer rights.
    fn unshare(&mut self) -> Call {
        let less = BesideProcfs::LessRights.is_drawn(self.procfs) && self.one_in(3);
        if less { Call::UnshareLess {} } else { Call::UnshareMounts {} }
    }

    fn statmount(&mut self) -> Call {
        let bits = self.rng.u64(..) & self.rng.u64(..);
        let some = StatmountMask::from_bits_truncate(bits);
        let mask = if self.rng.bool() { StatmountMask::all() } else { some };
        if self.one_in(6) {
            return match self.rng.u8(..3) {
                0 => Call::StatmountNs { ns: self.no_namespace(), id: self.no_mount(), mask },
                _ => Call::StatmountId { id: self.no_mount(), mask },
            };
        }
        if self.one_in(4) {
            let (of, path) = (self.pick(&Who::ALL), self.mounted_place());
            return Call::StatmountOf { of, path, mask };
        }
        Call::Statmount { path: self.mounted_path(), mask }
    }

    fn listmount(&mut self) -> Call {
        let none = ListmountFlags::empty();
        let flags = self.pick(&[none, ListmountFlags::REVERSE]);
        if self.one_in(4) {
            let (id, last) = (self.no_mount(), self.pick(&[0, 0, 1, 1 << 31, 1 << 40]));
            let max = Len(self.pick(&[0, 1000, 1000, 1_000_001]));
            if self.one_in(3) {
                let ns = self.no_namespace();
                return Call::ListmountNs { ns, id, last: Int(last), max, flags };
            }
            return Call::ListmountId { id, last: Int(last), max, flags };
        }
        if self.one_in(4) {
            return Call::ListmountRootOf { of: self.pick(&Who::ALL), flags };
        }
        if self.one_in(4) {
            let (of, path) = (self.pick(&Who::ALL), self.mounted_place());
            return Call::ListmountOf { of, path, flags };
        }
        if self.one_in(3) {
            return Call::ListmountRoot { flags };
        }
        Call::Listmount { path: self.mounted_path(), flags }
    }

    /// A number that is no mount namespace's, or means the caller's.
    fn no_namespace(&mut self) -> Int {
        Int(self.pick(&[0, 1 << 40, i64::MAX, -1]))
    }

    /// A number that is no mount's, as none has come so far or none can be so small; and the root's.
    fn no_mount(&mut self) -> Int {
        Int(self.pick(&[0, 1, 1 << 31, 1 << 40, i64::MAX, -1]))
    }

    fn open_tree(&mut self) -> Call {
        let mut flags =
            self.pick(&[OpenTreeFlags::CLONE, OpenTreeFlags::CLONE, OpenTreeFlags::empty()]);
        for (flag, times) in [
            (OpenTreeFlags::RECURSIVE, 2),
            (OpenTreeFlags::SYMLINK_NOFOLLOW, 5),
            (OpenTreeFlags::EMPTY_PATH, 4),
            (OpenTreeFlags::NO_AUTOMOUNT, 8),
            (OpenTreeFlags::CLOEXEC, 20),
            (OpenTreeFlags::from_bits_retain(2), 20),
        ] {
            if self.one_in(times) {
                flags |= flag;
            }
        }
        let path = self.mounted_place();
        Call::OpenTree { slot: self.slot_to_fill(), path, flags }
    }

    fn open_tree_attr(&mut self) -> Call {
        let Call::OpenTree { slot, path, flags } = self.open_tree() else {
            unreachable!("it draws these alone")
        };
        let Call::MountSetattr { mut set, mut clear, mut propagation, .. } = self.mount_setattr()
        else {
            unreachable!("it draws these alone")
        };
        if self.one_in(6) {
            propagation = MountFlags::from_bits_retain(1 << self.rng.u8(..26));
        }
        if self.rng.bool() {
            set |= MountAttrFlags::IDMAP;
        }
        if self.one_in(3) {
            clear |= MountAttrFlags::IDMAP;
        }
        let map = Idmap(self.rng.usize(..IDMAPS.len()));
        let path =
            if self.one_in(3) { Where { dir: Some(self.slot()), path: Vec::new() } } else { path };
        Call::OpenTreeAttr { slot, path, flags, set, clear, propagation, map }
    }

    /// A tree gets a map of owners, mostly before it is hung up.
    pub(super) fn idmap(&mut self) -> Call {
        let map = Idmap(self.rng.usize(..IDMAPS.len()));
        if self.one_in(6) {
            return Call::IdmapMount { path: self.mounted_place(), flags: self.tree_flags(), map };
        }
        let slot = self.slot_to_fill();
        let itself = || Where { dir: Some(slot.0), path: Vec::new() };
        let to = if self.one_in(3) { self.mounted_place() } else { self.place() };
        self.mounted.push(to.path.clone());
        self.remember(&to.path);
        let hung_up = MoveMountFlags::F_EMPTY_PATH;
        self.pending.push(Call::MoveMount { from: itself(), to, flags: hung_up });
        let all = if self.one_in(3) { OpenTreeFlags::RECURSIVE } else { OpenTreeFlags::empty() };
        let flags = OpenTreeFlags::EMPTY_PATH | all;
        for _ in 0..self.pick(&[1, 1, 1, 2]) {
            self.pending.push(Call::IdmapMount { path: itself(), flags, map });
        }
        // Somebody writes there, or nobody can.
        if self.one_in(3) {
            let make = OpenFlags::CREAT | OpenFlags::RDWR;
            let flags = self.pick(&[make, make, OpenFlags::WRONLY, OpenFlags::empty()]);
            let (within, mode) = (self.new_place().path, Octal(0o666));
            let (to_fill, path) = (self.slot_to_fill(), Where { dir: Some(slot.0), path: within });
            self.pending.push(Call::Openat { slot: to_fill, path, flags, mode });
        }
        if self.one_in(4) {
            let set = MountAttrFlags::RDONLY;
            let (clear, propagation) = (MountAttrFlags::empty(), MountFlags::empty());
            let path = itself();
            self.pending.push(Call::MountSetattr { path, flags, set, clear, propagation });
        }
        let path = self.mounted_place();
        Call::OpenTree { slot, path, flags: OpenTreeFlags::CLONE | all }
    }

    /// A mount is to go if nobody used it since it was last to go: one task says so twice, at once, as it is not the same what
    /// both take for use.
    pub(super) fn expire(&mut self) -> Call {
        let flags = UmountFlags::EXPIRE;
        let call = Call::Umount2 { path: self.mounted_path(), flags };
        self.pending.extend([call.clone(), call]);
        Call::Getcwd {}
    }

    fn move_mount(&mut self) -> Call {
        let mut flags = MoveMountFlags::empty();
        for (flag, times) in [
            (MoveMountFlags::F_EMPTY_PATH, 2),
            (MoveMountFlags::T_EMPTY_PATH, 6),
            (MoveMountFlags::F_SYMLINKS, 4),
            (MoveMountFlags::T_SYMLINKS, 4),
            (MoveMountFlags::BENEATH, 4),
            (MoveMountFlags::SET_GROUP, 6),
            (MoveMountFlags::F_AUTOMOUNTS, 12),
            (MoveMountFlags::T_AUTOMOUNTS, 12),
            (MoveMountFlags::from_bits_retain(8), 20),
        ] {
            if self.one_in(times) {
                flags |= flag;
            }
        }
        let from = if self.rng.bool() {
            Where { dir: Some(self.slot()), path: Vec::new() }
        } else {
            self.mounted_place()
        };
        let to = if self.one_in(3) { self.mounted_place() } else { self.place() };
        self.mounted.push(to.path.clone());
        Call::MoveMount { from, to, flags }
    }

    fn mount_setattr(&mut self) -> Call {
        let flags = self.tree_flags();
        let attrs = [
            MountAttrFlags::RDONLY,
            MountAttrFlags::RDONLY,
            MountAttrFlags::NOSUID,
            MountAttrFlags::NODEV,
            MountAttrFlags::NOEXEC,
            MountAttrFlags::NODIRATIME,
            MountAttrFlags::NOSYMFOLLOW,
            MountAttrFlags::from_bits_retain(0x40),
        ];
        let (mut set, mut clear) = (MountAttrFlags::empty(), MountAttrFlags::empty());
        for _ in 0..self.rng.u8(..3) {
            set |= self.pick(&attrs);
        }
        for _ in 0..self.rng.u8(..3) {
            clear |= self.pick(&attrs);
        }
        if self.one_in(30) {
            clear |= MountAttrFlags::IDMAP;
        }
        if self.one_in(3) {
            clear |= MountAttrFlags::_ATIME;
            set |= self.pick(&[
                MountAttrFlags::empty(),
                MountAttrFlags::NOATIME,
                MountAttrFlags::STRICTATIME,
                MountAttrFlags::_ATIME,
            ]);
        }
        let none = MountFlags::empty();
        let odd = MountFlags::from_bits_retain(1 << self.rng.u8(..26));
        let odd = if self.one_in(2) { odd } else { none };
        let propagation = self.pick(&[
            none,
            none,
            none,
            none,
            odd,
            MountFlags::SHARED,
            MountFlags::SLAVE,
            MountFlags::PRIVATE,
            MountFlags::UNBINDABLE,
            MountFlags::SHARED | MountFlags::SLAVE,
            MountFlags::REC,
        ]);
        Call::MountSetattr { path: self.mounted_place(), flags, set, clear, propagation }
    }

    /// Flags of the calls about trees of mounts that open nothing.
    fn tree_flags(&mut self) -> OpenTreeFlags {
        self.pick(&[
            OpenTreeFlags::empty(),
            OpenTreeFlags::empty(),
            OpenTreeFlags::empty(),
            OpenTreeFlags::RECURSIVE,
            OpenTreeFlags::RECURSIVE,
            OpenTreeFlags::RECURSIVE,
            OpenTreeFlags::EMPTY_PATH,
            OpenTreeFlags::EMPTY_PATH,
            OpenTreeFlags::SYMLINK_NOFOLLOW,
            OpenTreeFlags::NO_AUTOMOUNT | OpenTreeFlags::RECURSIVE,
            OpenTreeFlags::CLONE,
            OpenTreeFlags::CLOEXEC,
        ])
    }

    /// A place where something was mounted, mostly.
    fn mounted_place(&mut self) -> Where {
        if self.one_in(3) { self.place() } else { Where { dir: None, path: self.mounted_path().0 } }
    }

    fn bind(&mut self) -> Call {
        let all = if self.rng.bool() { MountFlags::REC } else { MountFlags::empty() };
        let source = if self.rng.bool() { self.mounted_path() } else { self.path() };
        Call::MountTree { source, path: self.mountpoint(), flags: MountFlags::BIND | all }
    }

    fn mount_tree(&mut self, flags: MountFlags) -> Call {
        let source = if self.one_in(8) { self.path() } else { Text(b"none".to_vec()) };
        Call::MountTree { source, path: self.mounted_path(), flags }
    }

    pub(super) fn mount_modifiers(&mut self) -> MountFlags {
        let mut flags = MountFlags::empty();
        for _ in 0..self.pick(&[0, 0, 0, 1, 1, 2, 3]) {
            flags |= self.pick(&MODIFIERS);
        }
        flags
    }

    /// A path that something was mounted on, mostly.
    pub(super) fn mounted_path(&mut self) -> Text {
        match self.mounted.len() {
            mounted @ 1.. if !self.one_in(4) => {
                Text(self.mounted[self.rng.usize(..mounted)].clone())
            }
            _ => self.path(),
        }
    }
}
