//! The one place where answers are made comparable: each thing that is dropped or renamed, and why.

use crate::answer::{Answer, Facts, Raw, Said, Time};
use pathwalk::{Dev, Errno, Stat, Statx, StatxMask};
use std::collections::HashMap;

/// The numbers that a subject has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Normal {
    devs: HashMap<u64, u32>,
    inos: HashMap<(u32, u64), u32>,
    mounts: HashMap<u64, u32>,
    next_dev: u32,
}

/// Seconds before this were set by utimensat; later ones come from a clock. Generated times stay far below, or far above
/// [`LATE`].
const EARLY: i64 = 1_000_000_000;
/// Seconds from this on were set by utimensat.
const LATE: i64 = 4_000_000_000;

impl Normal {
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
            // The order of a listing, its positions and its inode numbers are each file system's own.
            Raw::Names(names) => {
                let mut names = names.clone();
                names.sort();
                Answer::Names(names)
            }
            Raw::Stat(stat) => Answer::Facts(Box::new(self.stat(stat))),
            Raw::Statx(statx) => Answer::Facts(Box::new(self.statx(statx))),
        }
    }

    /// Hears that a new file system has this device number, which another had before.
    pub(crate) fn renew_device(&mut self, dev: Dev) {
        self.devs.remove(&dev.to_stat());
    }

    /// What stat tells, made comparable.
    pub(crate) fn stat(&mut self, stat: &Stat) -> Facts {
        Facts {
            statx: None,
            mode: stat.st_mode,
            nlink: stat.st_nlink,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev,
            size: stat.st_size,
            blksize: stat.st_blksize,
            blocks: stat.st_blocks,
            file: self.file(stat.st_dev, stat.st_ino),
            mount: None,
            times: [time(stat.st_atime), time(stat.st_mtime), time(stat.st_ctime)],
        }
    }

    fn statx(&mut self, statx: &Statx) -> Facts {
        let mask = StatxMask::from_bits_retain(statx.stx_mask);
        let dev = Dev::new(statx.stx_dev_major, statx.stx_dev_minor);
        let filled = |bit, sec| if mask.contains(bit) { time(sec) } else { Time::Absent };
        Facts {
            // Which attributes a file system knows, `stx_attributes_mask`, differs between file systems.
            statx: Some((statx.stx_mask, statx.stx_attributes)),
            mode: u32::from(statx.stx_mode),
            nlink: u64::from(statx.stx_nlink),
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            rdev: Dev::new(statx.stx_rdev_major, statx.stx_rdev_minor).to_stat(),
            size: statx.stx_size as i64,
            blksize: i64::from(statx.stx_blksize),
            blocks: statx.stx_blocks as i64,
            file: self.file(dev.to_stat(), statx.stx_ino),
            // The small number of a mount is used again as soon as it is free.
            mount: mask
                .contains(StatxMask::MNT_ID_UNIQUE)
                .then(|| number(&mut self.mounts, statx.stx_mnt_id)),
            times: [
                filled(StatxMask::ATIME, statx.stx_atime.tv_sec),
                filled(StatxMask::MTIME, statx.stx_mtime.tv_sec),
                filled(StatxMask::CTIME, statx.stx_ctime.tv_sec),
            ],
        }
    }

    /// Device and inode numbers are the machine's: they are counted as they come.
    fn file(&mut self, dev: u64, ino: u64) -> (u32, u32) {
        let dev = *self.devs.entry(dev).or_insert_with(|| {
            self.next_dev += 1;
            self.next_dev
        });
        (dev, number(&mut self.inos, (dev, ino)))
    }
}

fn number<K: std::hash::Hash + Eq>(seen: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = seen.len() as u32 + 1;
    *seen.entry(key).or_insert(next)
}

/// Two clocks never agree on a stamp; on a time that a call was told they must.
fn time(sec: i64) -> Time {
    if (EARLY..LATE).contains(&sec) { Time::Stamped } else { Time::Set(sec) }
}

/// Which times of an open file a call stamped: last access, contents, attributes.
pub(crate) fn stamps(before: Option<&Stat>, after: &Stat) -> [bool; 3] {
    let times = |stat: &Stat| {
        [
            (stat.st_atime, stat.st_atime_nsec),
            (stat.st_mtime, stat.st_mtime_nsec),
            (stat.st_ctime, stat.st_ctime_nsec),
        ]
    };
    let (before, after) = (before.map(times), times(after));
    std::array::from_fn(|which| before.is_none_or(|before| before[which] != after[which]))
}

/// How fast calls follow each other.
///
/// The kernel stamps by a clock of some milliseconds, finer only where somebody looked at the times just before. So a stamp
/// may be equal to the one before it, and then cannot be seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// At once: what the kernel stamps visibly pathwalk must stamp too, last access apart; what it does not is not compared.
    Fast,
    /// After a tick of the clock: all stamps are compared.
    Slow,
}

impl Pace {
    /// Whether the stamps agree.
    pub(crate) fn agree(self, kernel: [bool; 3], ours: [bool; 3]) -> bool {
        match self {
            Self::Slow => kernel == ours,
            Self::Fast => (1..3).all(|which| ours[which] || !kernel[which]),
        }
    }

    /// Waits until the next stamp can be seen.
    pub(crate) fn wait(self) {
        if self == Self::Slow {
            std::thread::sleep(TICK);
        }
    }
}

/// More than a tick of the kernel's clock at any configuration: at least a hundred a second.
const TICK: std::time::Duration = std::time::Duration::from_millis(11);

/// Behind a fifo, a socket or a device there is nothing here: where the kernel opens one, the answer is that of a device
/// without a driver.
pub(crate) const NOTHING_BEHIND: Errno = Errno::ENXIO;
