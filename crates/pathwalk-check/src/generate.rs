//! Draws calls: a handful of names, slashes and dots in odd places, and whatever flags there are.
//!
//! The alphabet is so small that most names were made, moved and removed several times in a run. Half of the paths are such
//! as were made before, and slots are mostly those that something was opened into: what is asked is seldom just missing.

use crate::{
    call::{Call, SLOTS, Step, Who},
    field::{Int, Octal, Slot, Text, When, Where},
};
use pathwalk::{
    AccessMode, AtFlags, MountFlags, OpenFlags, RenameFlags, ResolveFlags, SetTime, StatxMask,
    Timespec, UmountFlags,
    abi::mode::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFREG, S_IFSOCK},
};

/// Draws runs of calls from a seed.
pub(crate) struct Generator {
    rng: fastrand::Rng,
    /// Paths that something was to be made at.
    made: Vec<Vec<u8>>,
    /// Paths that something was to be mounted on.
    mounted: Vec<Vec<u8>>,
    /// Slots that something was to be opened into.
    opened: Vec<Slot>,
}

/// So many paths are remembered.
const MADE: usize = 16;

impl Generator {
    /// Begins with a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let (made, mounted, opened) = (Vec::new(), Vec::new(), Vec::new());
        Self { rng: fastrand::Rng::with_seed(seed), made, mounted, opened }
    }

    /// Draws a run of so many calls.
    pub(crate) fn run(&mut self, calls: usize) -> Vec<Step> {
        self.made.clear();
        self.mounted.clear();
        self.opened.clear();
        let mut steps = Vec::with_capacity(calls);
        // Moving the tasks' roots shrinks their world, mounts hide names: not in every run.
        let flavour = Flavour { mounts: self.rng.u8(..3) != 0, roots: self.rng.u8(..8) == 0 };
        let mut who = Who::Root;
        for index in 0..calls {
            if index < 16 {
                steps.push(Step { who: Who::Root, call: self.something_to_begin_with() });
                continue;
            }
            if self.rng.u8(..3) == 0 {
                who = self.pick(&[Who::Root, Who::Root, Who::U, Who::U, Who::V, Who::S]);
            }
            let call = self.call(flavour);
            steps.push(Step { who, call });
        }
        steps
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(..from.len())]
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.rng.u32(..times) == 0
    }

    fn something_to_begin_with(&mut self) -> Call {
        let name = self.pick(&["a", "b", "c", "d", "a/b", "a/c", "b/c", "a/a", "a/a/a", "b/d"]);
        self.remember(name.as_bytes());
        let path = Where { dir: None, path: name.into() };
        let mode = Octal(self.pick(&[0o777, 0o777, 0o755, 0o1777, 0o2777, 0o700, 0o750]));
        match self.rng.u8(..9) {
            0 => Call::Symlinkat { target: self.target(), path },
            1 => Call::Mknodat { path, mode: Octal(S_IFREG | self.mode().0), dev: Int(0) },
            2 => Call::Fchmodat2 { path, mode, flags: AtFlags::empty() },
            3 => self.open_into(path, OpenFlags::CREAT | OpenFlags::RDWR),
            4 => self.open_into(path, OpenFlags::DIRECTORY),
            _ => Call::Mkdirat { path, mode },
        }
    }

    fn open_into(&mut self, path: Where, flags: OpenFlags) -> Call {
        let slot = self.slot_to_fill();
        Call::Openat { slot, path, flags, mode: Octal(0o666) }
    }

    fn remember(&mut self, path: &[u8]) {
        if self.made.len() == MADE {
            let oldest = self.rng.usize(..MADE);
            self.made.swap_remove(oldest);
        }
        if path.len() < 100 {
            self.made.push(path.to_vec());
        }
    }

    fn call(&mut self, flavour: Flavour) -> Call {
        let slot = self.slot();
        match self.rng.u8(..100) {
            0..12 => self.open(),
            12 => Call::Close { slot },
            13 => Call::Read { slot, len: self.length() },
            14..16 => Call::Write { slot, data: self.data() },
            16 => Call::Pread { slot, len: self.length(), offset: self.offset() },
            17 => Call::Pwrite { slot, data: self.data(), offset: self.offset() },
            18 => match self.rng.u8(..3) {
                0 => Call::LseekSet { slot, to: self.offset() },
                1 => Call::LseekCur { slot, by: self.offset() },
                _ => Call::LseekEnd { slot, by: self.offset() },
            },
            19..22 => Call::Stat { path: self.path() },
            22..25 => Call::Lstat { path: self.path() },
            25 => Call::Fstatat { path: self.place(), flags: self.at_flags() },
            26..29 => {
                let mask = StatxMask::BASIC_STATS | StatxMask::MNT_ID_UNIQUE;
                let mask = self.pick(&[
                    mask,
                    mask,
                    mask,
                    StatxMask::empty(),
                    mask | StatxMask::BTIME,
                    StatxMask::BASIC_STATS,
                    StatxMask::MTIME,
                    StatxMask::all(),
                    StatxMask::RESERVED,
                ]);
                Call::Statx { path: self.place(), flags: self.at_flags(), mask }
            }
            29..31 => Call::Access { path: self.path(), mode: self.access() },
            31..33 => {
                Call::Faccessat2 { path: self.place(), mode: self.access(), flags: self.at_flags() }
            }
            33..42 => Call::Mkdirat { path: self.new_place(), mode: self.mode() },
            42..45 => {
                let kind = self.pick(&[
                    S_IFREG, S_IFREG, 0, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, S_IFDIR, 0o150_000,
                ]);
                // Without a driver, and the one that takes everything.
                let dev = Int(self.pick(&[0, 0x103]));
                Call::Mknodat { path: self.new_place(), mode: Octal(kind | self.mode().0), dev }
            }
            45..50 => Call::Symlinkat { target: self.target(), path: self.new_place() },
            50..54 => {
                let (old, new) = (self.place(), self.new_place());
                Call::Linkat { old, new, flags: self.at_flags_of(AtFlags::SYMLINK_FOLLOW) }
            }
            54..58 => {
                let flags = self.at_flags_of(AtFlags::REMOVEDIR);
                Call::Unlinkat { path: self.place(), flags }
            }
            58..61 => Call::Rmdir { path: self.path() },
            61..72 => {
                let none = RenameFlags::empty();
                let flags = self.pick(&[
                    none,
                    none,
                    none,
                    none,
                    RenameFlags::NOREPLACE,
                    RenameFlags::from_bits_retain(8),
                ]);
                Call::Renameat2 { old: self.place(), new: self.new_place(), flags }
            }
            72..74 => {
                Call::Readlinkat { path: self.place(), size: Int(self.pick(&[0, 1, 100, 4096])) }
            }
            74..77 => {
                let flags = self.at_flags();
                Call::Fchmodat2 { path: self.place(), mode: self.mode(), flags }
            }
            77 => Call::Fchmod { slot, mode: self.mode() },
            78..80 => {
                let (uid, gid, flags) = (self.id(), self.id(), self.at_flags());
                Call::Fchownat { path: self.place(), uid, gid, flags }
            }
            80 => Call::Fchown { slot, uid: self.id(), gid: self.id() },
            81 => {
                let (atime, mtime, flags) = (self.when(), self.when(), self.at_flags());
                Call::Utimensat { path: self.place(), atime, mtime, flags }
            }
            82 => Call::Futimens { slot, atime: self.when(), mtime: self.when() },
            83 => Call::Truncate { path: self.path(), size: self.offset() },
            84 => Call::Ftruncate { slot, size: self.offset() },
            85..87 => Call::Getdents64 { slot },
            87..89 => Call::Chdir { path: self.path() },
            89 => Call::Fchdir { slot },
            90 => Call::Getcwd {},
            91 => Call::Umask { mask: Octal(self.pick(&[0, 0o022, 0o077, 0o007])) },
            92 if flavour.roots => Call::Chroot { path: self.path() },
            93..95 if flavour.mounts => {
                Call::Mount { path: self.mountpoint(), flags: self.mount_flags() }
            }
            95..97 if flavour.mounts => Call::Bind { source: self.path(), path: self.mountpoint() },
            97.. if flavour.mounts => {
                let none = UmountFlags::empty();
                let flags = self.pick(&[none, none, UmountFlags::DETACH, UmountFlags::NOFOLLOW]);
                let path = match self.mounted.len() {
                    mounted @ 1.. if !self.one_in(4) => {
                        Text(self.mounted[self.rng.usize(..mounted)].clone())
                    }
                    _ => self.path(),
                };
                Call::Umount2 { path, flags }
            }
            _ => Call::Renameat2 {
                old: self.place(),
                new: self.place(),
                flags: RenameFlags::empty(),
            },
        }
    }

    fn open(&mut self) -> Call {
        let access =
            self.pick(&[OpenFlags::RDONLY, OpenFlags::RDWR, OpenFlags::WRONLY, OpenFlags::ACCMODE]);
        let mut flags = access;
        for (flag, times) in [
            (OpenFlags::CREAT, 3),
            (OpenFlags::EXCL, 6),
            (OpenFlags::TRUNC, 6),
            (OpenFlags::APPEND, 8),
            (OpenFlags::DIRECTORY, 6),
            (OpenFlags::NOFOLLOW, 6),
            (OpenFlags::NOATIME, 20),
            (OpenFlags::PATH, 5),
        ] {
            if self.one_in(times) {
                flags |= flag;
            }
        }
        if self.one_in(3) {
            let make = OpenFlags::CREAT | OpenFlags::RDWR;
            flags = self.pick(&[OpenFlags::PATH, OpenFlags::DIRECTORY, make, make]);
        }
        let (slot, path, mut mode) = (self.slot_to_fill(), self.new_place(), self.mode());
        if self.one_in(5) {
            let mut resolve = ResolveFlags::empty();
            for flag in [
                ResolveFlags::NO_XDEV,
                ResolveFlags::NO_MAGICLINKS,
                ResolveFlags::NO_SYMLINKS,
                ResolveFlags::BENEATH,
                ResolveFlags::IN_ROOT,
            ] {
                if self.one_in(4) {
                    resolve |= flag;
                }
            }
            if !flags.contains(OpenFlags::CREAT) && !self.one_in(10) {
                mode = Octal(0);
            }
            return Call::Openat2 { slot, path, flags, mode, resolve };
        }
        Call::Openat { slot, path, flags, mode }
    }

    fn slot(&mut self) -> Slot {
        match self.opened.len() {
            opened @ 1.. if !self.one_in(10) => self.opened[self.rng.usize(..opened)],
            _ => Slot(self.rng.usize(..SLOTS)),
        }
    }

    fn slot_to_fill(&mut self) -> Slot {
        let slot = Slot(self.rng.usize(..SLOTS));
        self.opened.push(slot);
        slot
    }

    fn place(&mut self) -> Where {
        let dir = if self.one_in(4) { Some(self.slot()) } else { None };
        let empty = dir.is_some() && self.one_in(8);
        Where { dir, path: if empty { Vec::new() } else { self.path().0 } }
    }

    /// A place where something is to be made.
    fn new_place(&mut self) -> Where {
        let place = self.place();
        if place.dir.is_none() {
            self.remember(&place.path);
        }
        place
    }

    fn mountpoint(&mut self) -> Text {
        let path = self.path();
        self.mounted.push(path.0.clone());
        path
    }

    /// What was made before, or any path.
    fn path(&mut self) -> Text {
        let made = self.made.len();
        if made == 0 || self.rng.bool() {
            return self.any_path();
        }
        let mut path = self.made[self.rng.usize(..made)].clone();
        match self.rng.u8(..12) {
            0 => path.push(b'/'),
            1..4 => {
                path.push(b'/');
                self.component(&mut path);
            }
            4 if !path.starts_with(b"/") => path.insert(0, b'/'),
            _ => {}
        }
        Text(path)
    }

    fn any_path(&mut self) -> Text {
        let mut path = Vec::new();
        if self.one_in(4) {
            path.extend_from_slice(self.pick(&["/", "/", "//"]).as_bytes());
        }
        for index in 0..self.pick(&[1, 1, 1, 1, 2, 2, 2, 3, 3, 4]) {
            if index != 0 {
                path.extend_from_slice(self.pick(&["/", "/", "/", "/", "//"]).as_bytes());
            }
            self.component(&mut path);
        }
        match self.rng.u8(..24) {
            0..2 => path.push(b'/'),
            2 => path.extend_from_slice(b"//"),
            3 => path.extend_from_slice(b"/."),
            4 => path.extend_from_slice(b"/.."),
            5 if self.one_in(4) => path.clear(),
            6 if self.one_in(8) => {
                path.splice(..0, b"./".repeat(self.pick(&[2046, 2047, 2048])));
            }
            7 if self.one_in(4) => path = self.pick(&["/", "."]).into(),
            _ => {}
        }
        Text(path)
    }

    fn component(&mut self, path: &mut Vec<u8>) {
        match self.rng.u8(..40) {
            0..12 => path.push(b'a'),
            12..22 => path.push(b'b'),
            22..29 => path.push(b'c'),
            29..33 => path.push(b'd'),
            33 => path.extend_from_slice(b"a_name_too_long_for_a_slot_of_the_cache"),
            34 if self.one_in(3) => path.extend([b'x'; 255]),
            35 if self.one_in(3) => path.extend([b'y'; 256]),
            36..38 => path.push(b'.'),
            _ => path.extend_from_slice(b".."),
        }
    }

    fn target(&mut self) -> Text {
        match self.rng.u8(..40) {
            0 => Text(Vec::new()),
            1 => Text(b"/".to_vec()),
            2 => Text([&b"./".repeat(70), &self.path().0[..]].concat()),
            3 => Text(b"./".repeat(self.pick(&[2047, 2048]))),
            _ => self.path(),
        }
    }

    fn mode(&mut self) -> Octal {
        Octal(self.pick(&[
            0o777, 0o777, 0o755, 0o755, 0o700, 0o070, 0o007, 0o644, 0o666, 0o600, 0o640, 0, 0o111,
            0o1777, 0o1777, 0o2777, 0o2775, 0o4755, 0o6755, 0o2644, 0o7777,
        ]))
    }

    fn at_flags(&mut self) -> AtFlags {
        self.at_flags_of(AtFlags::SYMLINK_NOFOLLOW)
    }

    fn at_flags_of(&mut self, usual: AtFlags) -> AtFlags {
        match self.rng.u8(..16) {
            0..6 => AtFlags::empty(),
            6..12 => usual,
            12 => AtFlags::EMPTY_PATH,
            13 => AtFlags::EMPTY_PATH | usual,
            14 => AtFlags::EACCESS,
            _ if self.one_in(4) => AtFlags::from_bits_retain(1),
            _ => AtFlags::NO_AUTOMOUNT,
        }
    }

    fn access(&mut self) -> AccessMode {
        AccessMode::from_bits_retain(self.pick(&[0, 1, 2, 4, 6, 7, 8]))
    }

    fn id(&mut self) -> Int {
        Int(self.pick(&[-1, -1, 0, 1000, 1000, 1001]))
    }

    fn when(&mut self) -> When {
        When(match self.rng.u8(..5) {
            0 => SetTime::Omit,
            1..3 => SetTime::Now,
            3 => SetTime::At(Timespec { sec: self.pick(&[0, 5, -5]), nsec: 0 }),
            _ => SetTime::At(Timespec { sec: 5_000_000_000, nsec: 0 }),
        })
    }

    fn offset(&mut self) -> Int {
        Int(self.pick(&[0, 0, 1, 5, 4095, 4096, 4097, 9000, -1, 1 << 40]))
    }

    fn length(&mut self) -> Int {
        Int(self.pick(&[0, 1, 10, 4096, 5000]))
    }

    fn data(&mut self) -> Text {
        let (byte, len) = (self.pick(b"pqr"), self.pick(&[0, 1, 1, 5, 4096, 4097]));
        Text(vec![byte; len])
    }

    fn mount_flags(&mut self) -> MountFlags {
        let none = MountFlags::empty();
        self.pick(&[
            none,
            none,
            none,
            MountFlags::RDONLY,
            MountFlags::NODEV,
            MountFlags::NOEXEC,
            MountFlags::NOSYMFOLLOW,
            MountFlags::NOATIME,
        ])
    }
}

/// What a run has, beside the ordinary calls.
#[derive(Clone, Copy)]
struct Flavour {
    mounts: bool,
    roots: bool,
}
