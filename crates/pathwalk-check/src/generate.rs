//! Draws calls: a handful of names, slashes and dots in odd places, and whatever flags there are.
//!
//! The alphabet is so small that most names were made, moved and removed several times in a run. Half of the paths are such
//! as were made before, and slots are mostly those that something was opened into: what is asked is seldom just missing.

mod mounts;
mod tasks;
mod xattr;

mod watch;

use crate::{
    call::{Call, SLOTS, Step, Who},
    field::{Fills, Int, Octal, Slot, Text, When, Where},
};
use pathwalk::{
    AccessMode, AtFlags, InodeFlags, MountFlags, OpenFlags, RenameFlags, ResolveFlags, SetTime,
    StatxMask, Timespec, UmountFlags,
    abi::mode::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFREG, S_IFSOCK},
};

mod within;

/// Draws a run of calls from a seed and a number.
pub(crate) struct Generator {
    rng: fastrand::Rng,
    /// Paths that something was to be made at.
    made: Vec<Vec<u8>>,
    /// Paths that something was to be mounted on.
    mounted: Vec<Vec<u8>>,
    /// Slots that something was to be opened into.
    opened: Vec<Slot>,
    /// The run has a procfs.
    procfs: bool,
    /// No fifos and their like, which only Linux opens: then watches may go after one event, and the second queue be read
    /// at any time.
    plain: bool,
    /// Root makes these next, the last one first.
    pending: Vec<Call>,
}

/// So many paths are remembered.
const MADE: usize = 16;

impl Generator {
    /// Begins with a seed and the number of the run.
    pub(crate) fn new(seed: u64, run: u64) -> Self {
        let (made, mounted, opened) = (Vec::new(), Vec::new(), Vec::new());
        // Neighbouring runs are to have nothing in common.
        let seed = fastrand::Rng::with_seed(seed).u64(..) ^ fastrand::Rng::with_seed(!run).u64(..);
        let rng = fastrand::Rng::with_seed(seed);
        Self { rng, made, mounted, opened, procfs: false, plain: false, pending: Vec::new() }
    }

    /// Draws a run of so many calls.
    pub(crate) fn run(mut self, calls: usize) -> Vec<Step> {
        let mut steps = Vec::with_capacity(calls);
        // Moving the tasks' roots shrinks their world, mounts hide names: not in every run.
        // What is immutable stops most of what follows.
        let mut flavour = Flavour {
            mounts: self.rng.u8(..3) != 0,
            mostly_mounts: self.rng.u8(..3) == 0,
            roots: self.rng.u8(..8) == 0,
            watches: self.rng.u8(..4) != 0,
            fixed: self.rng.u8(..5) == 0,
            xattrs: self.rng.u8(..3) == 0,
        };
        self.procfs = self.one_in(4);
        // Which inodes a procfs keeps, and so what it tells of them, is its own matter.
        flavour.watches &= !self.procfs;
        self.plain = flavour.watches && self.rng.bool();
        let mut who = Who::Root;
        for index in 0..calls {
            if self.procfs && index < 2 {
                steps.push(Step { who: Who::Root, call: tasks::a_procfs(index) });
                continue;
            }
            if flavour.watches && matches!(index, 0 | 1 | 8 | 12 | 15) {
                let call = if index < 2 { self.inotify_init(index) } else { self.inotify() };
                steps.push(Step { who: Who::Root, call });
                continue;
            }
            if index < 16 {
                steps.push(Step { who: Who::Root, call: self.something_to_begin_with() });
                continue;
            }
            if let Some(call) = self.pending.pop() {
                steps.push(Step { who: Who::Root, call });
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
        if flavour.mostly_mounts && self.rng.u8(..5) < 3 {
            return self.mount_call();
        }
        loop {
            let mut at = self.rng.u32(..WEIGHTS);
            let drawn = DRAWN.iter().find(|drawn| {
                let found = at < drawn.0;
                at = at.wrapping_sub(drawn.0);
                found
            });
            let (_, when, draw) = drawn.expect("the weights are the table's");
            match when {
                Wants::Mounts if !flavour.mounts => {}
                Wants::Roots if !flavour.roots => {}
                Wants::Fixed if !flavour.fixed => {}
                Wants::Watches if !flavour.watches => {}
                Wants::Xattrs if !flavour.xattrs => {}
                _ => return draw(self),
            }
        }
    }

    fn seek(&mut self) -> Call {
        let slot = self.slot();
        match self.rng.u8(..3) {
            0 => Call::LseekSet { slot, to: self.offset() },
            1 => Call::LseekCur { slot, by: self.offset() },
            _ => Call::LseekEnd { slot, by: self.offset() },
        }
    }

    fn statx(&mut self) -> Call {
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

    fn mknod(&mut self) -> Call {
        let kind = self
            .pick(&[S_IFREG, S_IFREG, 0, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK, S_IFDIR, 0o150_000]);
        let kind = if self.plain { S_IFREG } else { kind };
        // Without a driver, and the one that takes everything.
        let dev = Int(self.pick(&[0, 0x103]));
        Call::Mknodat { path: self.new_place(), mode: Octal(kind | self.mode().0), dev }
    }

    fn link(&mut self) -> Call {
        let new = self.new_place();
        if self.one_in(6) {
            // What a handle stands for: perhaps a file that has no name.
            let old = Where { dir: Some(self.slot()), path: Vec::new() };
            return Call::Linkat { old, new, flags: AtFlags::EMPTY_PATH };
        }
        Call::Linkat { old: self.place(), new, flags: self.at_flags_of(AtFlags::SYMLINK_FOLLOW) }
    }

    fn setflags(&mut self) -> Call {
        let none = InodeFlags::empty();
        let flags = self.pick(&[
            none,
            none,
            InodeFlags::IMMUTABLE,
            InodeFlags::APPEND,
            InodeFlags::APPEND,
            InodeFlags::NODUMP,
            InodeFlags::NOATIME,
            InodeFlags::all(),
            InodeFlags::from_bits_retain(8),
        ]);
        Call::Setflags { slot: self.slot(), flags }
    }

    fn rename(&mut self) -> Call {
        let none = RenameFlags::empty();
        let flags = self.pick(&[
            none,
            none,
            none,
            none,
            RenameFlags::NOREPLACE,
            RenameFlags::EXCHANGE,
            RenameFlags::EXCHANGE,
            RenameFlags::WHITEOUT,
            RenameFlags::NOREPLACE | RenameFlags::WHITEOUT,
            RenameFlags::EXCHANGE | RenameFlags::WHITEOUT,
            RenameFlags::from_bits_retain(8),
        ]);
        Call::Renameat2 { old: self.place(), new: self.new_place(), flags }
    }

    fn umount(&mut self) -> Call {
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
            let unnamed = OpenFlags::TMPFILE | OpenFlags::RDWR;
            flags = self.pick(&[OpenFlags::PATH, OpenFlags::DIRECTORY, make, make, unnamed]);
            if flags == unnamed && self.one_in(4) {
                flags |= self.pick(&[OpenFlags::EXCL, OpenFlags::CREAT, OpenFlags::TRUNC]);
            }
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

    fn slot_to_fill(&mut self) -> Fills {
        let slot = Slot(self.rng.usize(..SLOTS));
        self.opened.push(slot);
        Fills(slot)
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
        if self.procfs && self.one_in(4) {
            return self.path_by_task();
        }
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
        let nsec = if self.rng.u8(..8) == 0 {
            self.pick(&[1, 999_999_999, 1_000_000_000, u32::MAX >> 1])
        } else {
            0
        };
        When(match self.rng.u8(..5) {
            0 => SetTime::Omit,
            1..3 => SetTime::Now,
            3 => SetTime::At(Timespec { sec: self.pick(&[0, 5, -5]), nsec }),
            _ => SetTime::At(Timespec { sec: 5_000_000_000, nsec }),
        })
    }

    fn offset(&mut self) -> Int {
        Int(self.pick(&[0, 0, 1, 5, 4095, 4096, 4097, 9000, -1, 1 << 40, i64::MAX, i64::MAX - 1]))
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

/// In which runs a call is drawn.
#[derive(Clone, Copy)]
enum Wants {
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
}

use Wants::{Fixed, Mounts, Nothing, Roots, Watches, Xattrs};

type Draw = fn(&mut Generator) -> Call;

/// What is drawn: how often, in which runs, and how.
#[rustfmt::skip]
const DRAWN: &[(u32, Wants, Draw)] = &[
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
    (2, Nothing, |g| Call::Readlinkat { path: g.place(), size: Int(g.pick(&[0, 1, 100, 4096])) }),
    (3, Nothing, |g| Call::Fchmodat2 { path: g.place(), mode: g.mode(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Fchmod { slot: g.slot(), mode: g.mode() }),
    (2, Nothing, |g| Call::Fchownat { path: g.place(), uid: g.id(), gid: g.id(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Fchown { slot: g.slot(), uid: g.id(), gid: g.id() }),
    (8, Nothing, Generator::within),
    (1, Nothing, |g| Call::Statfs { path: g.path() }),
    (1, Nothing, |g| Call::Fstatfs { slot: g.slot() }),
    (1, Nothing, |g| Call::StatxNull { slot: g.slot(), flags: AtFlags::EMPTY_PATH | g.at_flags(), mask: StatxMask::BASIC_STATS }),
    (2, Nothing, |g| Call::OpenExec { path: g.place(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Getflags { slot: g.slot() }),
    (5, Fixed, Generator::setflags),
    (1, Nothing, |g| Call::Utimensat { path: g.place(), atime: g.when(), mtime: g.when(), flags: g.at_flags() }),
    (1, Nothing, |g| Call::Futimens { slot: g.slot(), atime: g.when(), mtime: g.when() }),
    (1, Nothing, |g| Call::Truncate { path: g.path(), size: g.offset() }),
    (1, Nothing, |g| Call::Ftruncate { slot: g.slot(), size: g.offset() }),
    (2, Nothing, |g| Call::Getdents64 { slot: g.slot() }),
    (2, Nothing, |g| Call::Chdir { path: g.path() }),
    (1, Nothing, |g| Call::Fchdir { slot: g.slot() }),
    (1, Nothing, |_| Call::Getcwd {}),
    (1, Nothing, |g| Call::Umask { mask: Octal(g.pick(&[0, 0o022, 0o077, 0o007])) }),
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
const WEIGHTS: u32 = {
    let (mut sum, mut index) = (0, 0);
    while index < DRAWN.len() {
        sum += DRAWN[index].0;
        index += 1;
    }
    sum
};

/// What a run has, beside the ordinary calls.
#[derive(Clone, Copy)]
struct Flavour {
    mounts: bool,
    mostly_mounts: bool,
    roots: bool,
    fixed: bool,
    watches: bool,
    /// A third of the calls is about extended attributes.
    xattrs: bool,
}
