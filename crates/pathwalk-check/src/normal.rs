//! The one place where answers are made comparable: each thing that is dropped, renamed, replaced or not asked, and why.
//!
//! ```text
//!   file      what is not compared as it is                                why                        who asks
//!   numbers   devices, inodes, mounts, groups, cookies; tasks and          the machine's              Normal, mounts
//!             descriptors in names
//!   clock     the time of a stamp; at full pace a stamp that the kernel    two clocks never agree     Normal, Pair
//!             does not show
//!   mounts    numbers                                                      see there                  Normal
//!   procfs    what it shows besides, counts of what is in a directory      tasks are the machine's    Normal, look
//!   ground    what an ext4 or a directory of the host has of its own       each file system's own     Normal, Plan, Ours
//!   known     what a row of a table shows to differ, of drawn calls        LINUX.md says of each      serve, Ours
//!   spared    calls that would lead out of a world, or cannot be made;     it would not be the call   serve, Caller
//!             answers that hang on what else the machine does
//!   undrawn   flags that no drawn call has, calls that not every user      see there                  tests of generate,
//!             may make                                                                                Powers
//!   notify    what a process under `pathwalk run` is not asked            see there                  Pair, Plan, Held,
//!                                                                                                  Normal
//!   within    (in kernel/within.rs) calls within bounds, which are         Linux has none             Caller
//!             put together of others
//!   races     (in races/script.rs) outcomes of races                       see there                  races
//!   worlds    (in worlds/hands.rs) of stat in small worlds times, blocks   an answer is one number;   worlds
//!             and device numbers; a group stands for the inode's number    tables and drawn calls
//!                                                                          have the rest
//! ```
//!
//! Of a call it is also not compared: the number of a descriptor, which is no part of the library; how much room there is,
//! which is the machine's; where in a directory a file is open, which is a cookie of the file system's own.

pub(crate) mod clock;
pub(crate) mod ground;
pub(crate) mod known;
pub(crate) mod mounts;
pub(crate) mod notify;
mod numbers;
pub(crate) mod procfs;
pub(crate) mod spared;
pub(crate) mod undrawn;

pub(crate) use clock::Pace;
pub(crate) use known::Known;

use crate::answer::{Answer, Facts, Raw, Said, Time, Told};
use crate::call::Call;
use crate::kernel::Ground;
use crate::subject::Engine;
use crate::value::Value;
use clock::time;
use notify::has_atime;
use numbers::{number, without_numbers};
use pathwalk::{
    Dev, Event, Stat, Statfs, Statx, StatxMask,
    abi::mode::{S_IFDIR, S_IFMT},
};
use procfs::Counts;
use std::collections::{HashMap, HashSet};

/// The numbers that a subject has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Normal {
    devs: HashMap<u64, u32>,
    inos: HashMap<(u32, u64), u32>,
    mounts: HashMap<u64, u32>,
    /// The devices that are procfs's.
    procs: HashSet<u64>,
    /// There was a procfs: names that are numbers may be its.
    shows_tasks: bool,
    cookies: HashMap<u32, u32>,
    births: HashMap<(u32, u32), (i64, u32)>,
    next_dev: u32,
    ground: Ground,
    /// Who stands for pathwalk.
    engine: Engine,
    /// Whether what is known to differ shows.
    pub(crate) known: Known,
}

/// The attributes that there can be on a tmpfs.
const OF_TMPFS: u64 = 0x20_3070;

impl Normal {
    /// With this below the kernel's root.
    pub(crate) fn on(ground: Ground, engine: Engine) -> Self {
        Self { ground, engine, ..Self::default() }
    }

    /// Makes an answer comparable.
    pub(crate) fn answer<F>(&mut self, said: &Said<F>) -> Answer {
        let raw = match said {
            Said::NotAsked => return Answer::NotAsked,
            Said::Answer(Err(errno)) => return Answer::Failed(*errno),
            Said::Answer(Ok(raw)) => raw,
        };
        match raw {
            // The number of a descriptor is no part of the library.
            Raw::Done | Raw::File(_) => Answer::Done,
            Raw::Number(number) => Answer::Number(*number),
            Raw::Bytes(bytes) => Answer::Bytes(bytes.clone()),
            Raw::Value(value) => Answer::Value(Value(value.clone())),
            // The positions of a listing and its inode numbers are each file system's own.
            Raw::Names(names) => Answer::Names(self.names(names.clone())),
            Raw::Events(events) => Answer::Events(self.events(events.clone())),
            Raw::Mounts(texts) => {
                Answer::Mounts(mounts::normal(texts, self.known, self.shows_tasks))
            }
            Raw::Statmount(id, told) => {
                Answer::Bytes(mounts::statmount(*id, told, self.known, self.shows_tasks))
            }
            Raw::Statfs(stat) => Answer::Bytes(Self::statfs(stat)),
            Raw::Stat(stat) => Answer::Facts(Box::new(self.stat(stat, self.known))),
            Raw::Statx(statx) => Answer::Facts(Box::new(self.statx(statx))),
        }
    }

    /// The names of a directory, without what is each file system's own: positions and inode numbers.
    fn names(&self, mut names: Vec<(Vec<u8>, u8)>) -> Vec<(Vec<u8>, u8)> {
        // Those of tasks and descriptors are the machine's.
        names.retain(|(name, _)| !(self.shows_tasks && numbers::is_number(name)));
        let of_procfs = self.shows_tasks && procfs::without_others(&mut names, self.known);
        // The order is that of a tmpfs, newest first; a procfs and an ext4 have each one of their own.
        if of_procfs || self.ground == Ground::Ext4 {
            names.sort();
        }
        names
    }

    /// Cookies are numbers of the machine's.
    pub(crate) fn events(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        for event in events.iter_mut().filter(|event| event.cookie != 0) {
            event.cookie = number(&mut self.cookies, event.cookie);
        }
        for event in &mut events {
            event.name = without_numbers(&event.name, false).into();
        }
        events
    }

    /// Hears that a new file system has this device number, which another may have had before.
    pub(crate) fn renew_device(&mut self, dev: Dev, procfs: bool) {
        self.devs.remove(&dev.to_stat());
        self.procs.remove(&dev.to_stat());
        if procfs {
            self.shows_tasks = true;
            self.procs.insert(dev.to_stat());
        }
    }

    /// What statfs tells, without how much room there is, which is the machine's; of the file system's number, which is the
    /// machine's too, whether there is one.
    fn statfs(stat: &Statfs) -> Vec<u8> {
        let Statfs { f_type, f_bsize, f_frsize, f_namelen, f_flags, .. } = stat;
        let fsid = if stat.f_fsid == [0, 0] { "none" } else { "some" };
        format!(
            "type={f_type:#x},bsize={f_bsize},frsize={f_frsize},namelen={f_namelen},flags={f_flags:#x},fsid={fsid}"
        )
        .into_bytes()
    }

    /// What an open file shows beside an answer: what is known to differ is for answers to show.
    pub(crate) fn beside(&mut self, stat: &Stat) -> Facts {
        self.stat(stat, Known::Hidden)
    }

    /// What stat tells, made comparable.
    fn stat(&mut self, stat: &Stat, known: Known) -> Facts {
        let of_procfs = self.procs.contains(&stat.st_dev);
        let counts = Counts { of_procfs, directory: is_directory(stat.st_mode), known };
        Facts {
            statx: None,
            mode: stat.st_mode,
            nlink: counts.links(stat.st_nlink),
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev,
            size: counts.size(stat.st_size, self.ground),
            blksize: stat.st_blksize,
            blocks: self.ground.blocks(stat.st_blocks),
            file: self.file(stat.st_dev, stat.st_ino),
            mount: None,
            times: [
                self.atime(stat.st_mode, || time(stat.st_atime, stat.st_atime_nsec)),
                time(stat.st_mtime, stat.st_mtime_nsec),
                time(stat.st_ctime, stat.st_ctime_nsec),
            ],
        }
    }

    fn statx(&mut self, statx: &Statx) -> Facts {
        let mask = StatxMask::from_bits_retain(statx.stx_mask);
        let dev = Dev::new(statx.stx_dev_major, statx.stx_dev_minor).to_stat();
        let (of_procfs, mode) = (self.procs.contains(&dev), u32::from(statx.stx_mode));
        let counts = Counts { of_procfs, directory: is_directory(mode), known: self.known };
        // What is not told is zero, too.
        let filled = |bit, at: pathwalk::abi::StatxTimestamp| {
            if mask.contains(bit) || (at.tv_sec, at.tv_nsec) != (0, 0) {
                time(at.tv_sec, u64::from(at.tv_nsec))
            } else {
                Time::Absent
            }
        };
        let file = self.file(dev, statx.stx_ino);
        Facts {
            statx: Some(Told {
                mask: self.ground.mask(mask),
                attributes: statx.stx_attributes,
                // Which there can be differs between kinds of file systems.
                known: (self.ground == Ground::Tmpfs)
                    .then_some(statx.stx_attributes_mask)
                    .filter(|known| *known != OF_TMPFS),
                btime: filled(StatxMask::BTIME, statx.stx_btime),
                reborn: self.is_reborn(file, statx),
                tail: self.ground.tail(statx),
            }),
            mode,
            nlink: counts.links(statx.stx_nlink.into()),
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            rdev: Dev::new(statx.stx_rdev_major, statx.stx_rdev_minor).to_stat(),
            size: counts.size(statx.stx_size as i64, self.ground),
            blksize: i64::from(statx.stx_blksize),
            blocks: self.ground.blocks(statx.stx_blocks as i64),
            file,
            // The small number of a mount is used again as soon as it is free.
            mount: mask
                .contains(StatxMask::MNT_ID_UNIQUE)
                .then(|| number(&mut self.mounts, statx.stx_mnt_id)),
            times: [
                self.atime(mode, || filled(StatxMask::ATIME, statx.stx_atime)),
                filled(StatxMask::MTIME, statx.stx_mtime),
                filled(StatxMask::CTIME, statx.stx_ctime),
            ],
        }
    }

    /// An answer without what of this call is not compared; `directory` says whether it is about an open one.
    pub(crate) fn of_call(&self, call: &Call, directory: bool, mut answer: Answer) -> Answer {
        let bare = call.bare();
        self.ground.drop_own(bare, directory, &mut answer);
        match (bare, answer) {
            (_, answer) if self.ground.lacks_room(&answer) => Answer::NotAsked,
            (Call::Readlinkat { .. } | Call::Getcwd {}, Answer::Bytes(path)) => {
                Answer::Bytes(without_numbers(&path, self.shows_tasks))
            }
            (_, Answer::Bytes(places)) if bare.name().starts_with("listmount") => {
                Answer::Bytes(mounts::places(&places, self.shows_tasks))
            }
            // Positions in a directory are the file system's own.
            (Call::LseekSet { .. } | Call::LseekCur { .. }, Answer::Number(_)) if directory => {
                Answer::Done
            }
            (_, answer) => answer,
        }
    }

    /// Which times of an open file a call stamped.
    ///
    /// A procfs's has those of when its inode was made, which may be the moment when it is followed first, to a tick of the
    /// kernel's clock.
    pub(crate) fn stamps(
        &self,
        call: &Call,
        answer: &Answer,
        before: Option<&Stat>,
        after: &Stat,
    ) -> [bool; 3] {
        let bare = call.bare();
        let own =
            self.ground.stamps_its_own_way(bare, answer) || self.procs.contains(&after.st_dev);
        let [atime, mtime, ctime] = clock::stamps(if own { Some(after) } else { before }, after);
        [atime && has_atime(self.engine, after.st_mode), mtime, ctime]
    }

    /// The time of last access of a file of this type, if it is compared.
    fn atime(&self, mode: u32, time: impl Fn() -> Time) -> Time {
        if has_atime(self.engine, mode) { time() } else { Time::Absent }
    }

    /// Whether the time of birth, which is a clock's, is another than before, or later than a change. An ext4 gives the
    /// number of a file that is gone to the next one.
    fn is_reborn(&mut self, file: (u32, u32), statx: &Statx) -> bool {
        if statx.stx_mask & StatxMask::BTIME.bits() == 0 || self.ground == Ground::Ext4 {
            return false;
        }
        let of = |time: pathwalk::abi::StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let (birth, change) = (of(statx.stx_btime), of(statx.stx_ctime));
        let told = statx.stx_mask & StatxMask::CTIME.bits() != 0;
        *self.births.entry(file).or_insert(birth) != birth || told && change < birth
    }

    /// Device and inode numbers are the machine's: they are counted as they come.
    ///
    /// An ext4 gives the number of a file that is gone to the next one, a procfs gives one anew to what it had forgotten.
    fn file(&mut self, dev: u64, ino: u64) -> (u32, u32) {
        let ino = if self.ground == Ground::Ext4 || self.procs.contains(&dev) { 0 } else { ino };
        let dev = *self.devs.entry(dev).or_insert_with(|| {
            self.next_dev += 1;
            self.next_dev
        });
        (dev, number(&mut self.inos, (dev, ino)))
    }
}

fn is_directory(mode: u32) -> bool {
    mode & S_IFMT == S_IFDIR
}
