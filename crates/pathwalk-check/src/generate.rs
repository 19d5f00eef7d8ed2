//! Draws calls: a handful of names, slashes and dots in odd places, and whatever flags there are.
//!
//! The alphabet is so small that most names were made, moved and removed several times in a run. Half of the paths are such
//! as were made before, and slots are mostly those that something was opened into: what is asked is seldom just missing.

mod drawn;
mod mounts;
mod paths;
mod tasks;
mod watch;
mod within;
mod xattr;

use crate::{
    call::{Call, JUDGES, Step, Who},
    field::{Fills, Int, Len, Octal, Slot, Text, When, Where},
    normal::undrawn::{self, BesideProcfs},
};
use drawn::{DRAWN, WEIGHTS, Wants};
use pathwalk::{
    AccessMode, AtFlags, InodeFlags, MountFlags, OpenFlags, RenameFlags, ResolveFlags, SetTime,
    StatxMask, Timespec, UmountFlags,
    abi::mode::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFREG, S_IFSOCK},
};

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
    /// Tasks change their credentials.
    creds: bool,
    /// Root loses powers for ever.
    shrinks: bool,
    /// Who makes the call that is drawn.
    who: Who,
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
        let (procfs, creds, shrinks, plain, pending) = (false, false, false, false, Vec::new());
        let who = Who::Root;
        Self { rng, made, mounted, opened, procfs, creds, shrinks, who, plain, pending }
    }

    /// Draws a run of so many calls.
    pub(crate) fn run(mut self, calls: usize) -> Vec<Step> {
        let mut steps = Vec::with_capacity(calls);
        // Moving the tasks' roots shrinks their world, mounts hide names: not in every run.
        // What is immutable stops most of what follows.
        let mut flavour = Flavour {
            mounts: self.rng.u8(..3) != 0,
            mostly_mounts: self.rng.u8(..3) == 0,
            trees: self.rng.u8(..4) == 0,
            roots: self.rng.u8(..8) == 0,
            watches: self.rng.u8(..4) != 0,
            fixed: self.rng.u8(..5) == 0,
            xattrs: self.rng.u8(..3) == 0,
        };
        self.procfs = self.one_in(4);
        self.creds = BesideProcfs::Credentials.is_drawn(self.procfs) && self.one_in(4);
        self.shrinks = self.creds && self.rng.bool();
        flavour.watches &= BesideProcfs::Watches.is_drawn(self.procfs);
        self.plain = flavour.watches && self.rng.bool();
        for index in 0..calls {
            if self.procfs && index < 2 {
                steps.push(Step { who: Who::Root, call: self.a_procfs(index) });
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
                self.who = self.pick(&[Who::Root, Who::Root, Who::U, Who::U, Who::V, Who::S]);
            }
            let call = self.call(flavour);
            steps.push(Step { who: self.who, call });
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
        if flavour.mostly_mounts && (flavour.trees || self.rng.u8(..5) < 3) {
            return if flavour.trees { self.tree_call(flavour.watches) } else { self.mount_call() };
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
                Wants::Creds if !self.creds => {}
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
        let mask = self.statx_mask();
        Call::Statx { path: self.place(), flags: self.at_flags(), mask }
    }

    fn statx_null(&mut self) -> Call {
        let (slot, mask) = (self.slot(), self.statx_mask());
        Call::StatxNull { slot, flags: AtFlags::EMPTY_PATH | self.at_flags(), mask }
    }

    fn statx_mask(&mut self) -> StatxMask {
        let mask = StatxMask::BASIC_STATS | StatxMask::MNT_ID_UNIQUE;
        self.pick(&[
            mask,
            mask,
            mask,
            StatxMask::empty(),
            mask | StatxMask::BTIME,
            StatxMask::BASIC_STATS,
            StatxMask::MTIME,
            StatxMask::all(),
            StatxMask::RESERVED,
        ])
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
            // These are about reading and writing, or nobody looks at them.
            (OpenFlags::NONBLOCK, 20),
            (OpenFlags::DIRECT, 40),
            (OpenFlags::DSYNC, 60),
            (OpenFlags::SYNC, 60),
            (OpenFlags::NOCTTY, 60),
            (OpenFlags::ASYNC, 60),
            (OpenFlags::LARGEFILE, 60),
            (OpenFlags::CLOEXEC, 60),
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
            if BesideProcfs::Cached.is_drawn(self.procfs) && self.one_in(12) {
                resolve |= ResolveFlags::CACHED;
                undrawn::beside_cached(&mut resolve, &mut flags);
            }
            return Call::Openat2 { slot, path, flags, mode, resolve };
        }
        Call::Openat { slot, path, flags, mode }
    }

    fn getdents64_by(&mut self) -> Call {
        let slot = self.slot();
        if !BesideProcfs::Room.is_drawn(self.procfs) {
            return Call::Getdents64 { slot };
        }
        Call::Getdents64By {
            slot,
            size: Len(self.pick(&[0, 23, 24, 25, 31, 32, 48, 56, 279, 280])),
        }
    }

    fn slot(&mut self) -> Slot {
        match self.opened.len() {
            opened @ 1.. if !self.one_in(10) => self.opened[self.rng.usize(..opened)],
            _ => Slot(self.rng.usize(..JUDGES.0)),
        }
    }

    fn slot_to_fill(&mut self) -> Fills {
        let slot = Slot(self.rng.usize(..JUDGES.0));
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
            // Of another call, of none, or such as ask nothing of a file system in memory.
            _ => self.pick(&[
                AtFlags::NO_AUTOMOUNT,
                AtFlags::NO_AUTOMOUNT,
                AtFlags::SYMLINK_FOLLOW,
                AtFlags::SYMLINK_NOFOLLOW,
                AtFlags::STATX_FORCE_SYNC,
                AtFlags::STATX_DONT_SYNC,
                AtFlags::STATX_FORCE_SYNC | AtFlags::STATX_DONT_SYNC,
                AtFlags::from_bits_retain(1),
            ]),
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

    fn length(&mut self) -> Len {
        Len(self.pick(&[0, 1, 10, 4096, 5000]))
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
    mostly_mounts: bool,
    /// What is mounted, by who, and who receives it: nothing else.
    trees: bool,
    roots: bool,
    fixed: bool,
    watches: bool,
    /// A third of the calls is about extended attributes.
    xattrs: bool,
}

#[cfg(test)]
mod tests;
