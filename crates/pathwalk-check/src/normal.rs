//! The one place where answers are made comparable: each thing that is dropped or renamed, and why.

pub(crate) mod mounts;

use crate::answer::{Answer, COUNTED, Facts, Raw, Said, Time, Told};
use crate::call::Call;
use crate::kernel::Ground;
use crate::value::Value;
use pathwalk::{
    Dev, Errno, Event, MountFlags, RenameFlags, Stat, Statfs, Statx, StatxMask,
    abi::mode::{S_IFDIR, S_IFMT},
};
use std::collections::{HashMap, HashSet};

/// The numbers that a subject has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Normal {
    devs: HashMap<u64, u32>,
    inos: HashMap<(u32, u64), u32>,
    mounts: HashMap<u64, u32>,
    /// The devices that are procfs's.
    procs: HashSet<u64>,
    cookies: HashMap<u32, u32>,
    next_dev: u32,
    /// Mounts may be copied into others that receive them.
    copies_spread: bool,
    ground: Ground,
    /// Whether what is known to differ shows.
    pub(crate) known: Known,
}

/// The attributes that there can be on a tmpfs.
const OF_TMPFS: u64 = 0x20_3070;

/// ioctl_iflags(2): the file's blocks are kept as extents.
const FS_EXTENT_FL: i64 = 0x8_0000;

/// Seconds before this were set by utimensat; later ones come from a clock. Generated times stay far below, or far above
/// [`LATE`].
const EARLY: i64 = 1_000_000_000;
/// Seconds from this on were set by utimensat.
const LATE: i64 = 4_000_000_000;

impl Normal {
    /// With this below the kernel's root.
    pub(crate) fn on(ground: Ground) -> Self {
        Self { ground, ..Self::default() }
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
            Raw::Mounts(texts) => Answer::Mounts(mounts::normal(texts, self.hides_order())),
            Raw::Statmount(id, told) => Answer::Bytes(mounts::statmount(*id, told, self.known)),
            Raw::Statfs(stat) => Answer::Bytes(Self::statfs(stat)),
            Raw::Stat(stat) => Answer::Facts(Box::new(self.stat(stat, self.known))),
            Raw::Statx(statx) => Answer::Facts(Box::new(self.statx(statx))),
        }
    }

    /// The names of a directory, without what is each file system's own: positions and inode numbers.
    fn names(&self, mut names: Vec<(Vec<u8>, u8)>) -> Vec<(Vec<u8>, u8)> {
        // Numbers of tasks and descriptors are the machine's.
        names.retain(|(name, _)| !is_number(name));
        let of_procfs = names.iter().any(|(name, _)| SHOWS_TASKS.contains(&&**name));
        if of_procfs {
            let all = names.len();
            names.retain(|(name, _)| SHOWN.contains(&&**name));
            // Which there are follows from how the kernel was configured.
            if self.known == Known::Shown && names.len() < all {
                names.push((b"others".into(), 0));
            }
        }
        // The order is that of a tmpfs, newest first; a procfs and an ext4 have each one of their own.
        if of_procfs || self.ground == Ground::Ext4 {
            names.sort();
        }
        names
    }

    /// Hears what was called: from the first mount on that is to be shared, the order of mounts is not compared.
    ///
    /// It is that in which they were made. Of the copies that one mount makes in all who receive it, Linux makes those of a
    /// master's slaves in the order in which each became one, of that master and not of another of its group: which one that
    /// is, cannot be told from the manual, nor be seen in another way.
    pub(crate) fn hear(&mut self, call: &Call) {
        let call = if let Call::Within { call, .. } = call { call } else { call };
        self.copies_spread |= match call {
            Call::Mount { flags, .. } | Call::MountTree { flags, .. } => {
                flags.contains(MountFlags::SHARED)
            }
            Call::Mountproc { flags, .. } => flags.contains(MountFlags::SHARED),
            Call::MountSetattr { propagation, .. } | Call::OpenTreeAttr { propagation, .. } => {
                propagation.contains(MountFlags::SHARED)
            }
            _ => false,
        };
    }

    /// Whether the order of mounts is not compared.
    fn hides_order(&self) -> bool {
        self.copies_spread && self.known != Known::Shown
    }

    /// The places of the mounts that were listed.
    pub(crate) fn listed(&self, places: &mut Vec<u8>) {
        let mut each: Vec<&[u8]> = places.split(|&byte| byte == 0).collect();
        if self.hides_order() {
            each.sort();
        }
        *places = each.join(&b","[..]);
    }

    /// Cookies are numbers of the machine's.
    pub(crate) fn events(&mut self, mut events: Vec<Event>) -> Vec<Event> {
        for event in events.iter_mut().filter(|event| event.cookie != 0) {
            event.cookie = number(&mut self.cookies, event.cookie);
        }
        // A file without a name goes by the number of its inode.
        for event in events.iter_mut().filter(|event| event.name.starts_with(b"#")) {
            event.name = (*b"#").into();
        }
        events
    }

    /// Hears that a new file system has this device number, which another may have had before.
    pub(crate) fn renew_device(&mut self, dev: Dev, procfs: bool) {
        self.devs.remove(&dev.to_stat());
        self.procs.remove(&dev.to_stat());
        if procfs {
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
            blocks: self.blocks(stat.st_blocks),
            file: self.file(stat.st_dev, stat.st_ino),
            mount: None,
            times: [
                time(stat.st_atime, stat.st_atime_nsec),
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
        Facts {
            statx: Some(Told {
                mask: self.mask(mask),
                attributes: statx.stx_attributes,
                // Which there can be differs between kinds of file systems.
                known: (self.ground == Ground::Tmpfs)
                    .then_some(statx.stx_attributes_mask)
                    .filter(|known| *known != OF_TMPFS),
                btime: filled(StatxMask::BTIME, statx.stx_btime),
            }),
            mode,
            nlink: counts.links(statx.stx_nlink.into()),
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            rdev: Dev::new(statx.stx_rdev_major, statx.stx_rdev_minor).to_stat(),
            size: counts.size(statx.stx_size as i64, self.ground),
            blksize: i64::from(statx.stx_blksize),
            blocks: self.blocks(statx.stx_blocks as i64),
            file: self.file(dev, statx.stx_ino),
            // The small number of a mount is used again as soon as it is free.
            mount: mask
                .contains(StatxMask::MNT_ID_UNIQUE)
                .then(|| number(&mut self.mounts, statx.stx_mnt_id)),
            times: [
                filled(StatxMask::ATIME, statx.stx_atime),
                filled(StatxMask::MTIME, statx.stx_mtime),
                filled(StatxMask::CTIME, statx.stx_ctime),
            ],
        }
    }

    /// An ext4 gives out blocks when it writes back, and keeps short symlinks in the inode.
    fn blocks(&self, blocks: i64) -> i64 {
        if self.ground == Ground::Ext4 { 0 } else { blocks }
    }

    /// How to go past the cache, and in which units, ext4 says and tmpfs does not.
    fn mask(&self, mask: StatxMask) -> u32 {
        let own = match self.ground {
            Ground::Tmpfs => StatxMask::empty(),
            Ground::Ext4 => {
                StatxMask::DIOALIGN | StatxMask::WRITE_ATOMIC | StatxMask::DIO_READ_ALIGN
            }
        };
        mask.difference(own).bits()
    }

    /// Drops of an answer what only an ext4 says: which file system it is, how a file's blocks are found,
    /// the order of extended attributes, of which some lie in the inode and some in a block. Of a directory, the
    /// position, which is a hash, and what it can be added to.
    pub(crate) fn drop_own(&self, call: &Call, directory: bool, answer: &mut Answer) {
        if self.ground == Ground::Tmpfs {
            return;
        }
        match (call, answer) {
            (Call::Statfs { .. } | Call::Fstatfs { .. }, answer @ Answer::Bytes(_)) => {
                *answer = Answer::Done;
            }
            (
                Call::Listxattr { .. }
                | Call::Llistxattr { .. }
                | Call::Flistxattr { .. }
                | Call::Listxattrat { .. },
                Answer::Value(Value(names)) | Answer::Bytes(names),
            ) => {
                let mut sorted: Vec<_> = names.split_inclusive(|&byte| byte == 0).collect();
                sorted.sort();
                *names = sorted.concat();
            }
            // They tell the type and the source, and which directory of the ext4 the root is.
            (Call::Mounts {} | Call::Statmount { .. }, answer) => *answer = Answer::Done,
            (Call::Getflags { .. }, Answer::Number(flags)) => *flags &= !FS_EXTENT_FL,
            (
                Call::Read { .. }
                | Call::LseekSet { .. }
                | Call::LseekCur { .. }
                | Call::LseekEnd { .. },
                answer,
            ) if directory => *answer = Answer::Done,
            _ => {}
        }
    }

    /// Whether which times a call stamps is the file system's own: of a file that gets the size or the attribute that it has,
    /// loses an ACL that it has not, or is empty and read; of a directory in which an ext4 had made a whiteout when it found that
    /// the rename cannot be: it takes that back, and the directory has changed.
    pub(crate) fn stamps_its_own_way(&self, call: &Call, answer: &Answer) -> bool {
        let own = match call {
            Call::Renameat2 { flags, .. } => {
                flags.contains(RenameFlags::WHITEOUT)
                    && matches!(answer.without_events(), Answer::Failed(_))
            }
            Call::Read { .. }
            | Call::Pread { .. }
            | Call::Truncate { .. }
            | Call::Ftruncate { .. }
            | Call::Removexattr { .. }
            | Call::Lremovexattr { .. }
            | Call::Fremovexattr { .. }
            | Call::Removexattrat { .. }
            | Call::Setxattr { .. }
            | Call::Lsetxattr { .. }
            | Call::Fsetxattr { .. }
            | Call::Setxattrat { .. } => true,
            _ => false,
        };
        own && self.ground == Ground::Ext4
    }

    /// Whether the file is a procfs's: it has the times of when its inode was made, which may be the moment when it is
    /// followed first, to a tick of the kernel's clock.
    pub(crate) fn is_of_procfs(&self, stat: &Stat) -> bool {
        self.procs.contains(&stat.st_dev)
    }

    /// Whether the kernel has no room where tmpfs has: an ext4 keeps all extended attributes of a file in a block.
    pub(crate) fn lacks_room(&self, answer: &Answer) -> bool {
        self.ground == Ground::Ext4 && *answer == Answer::Failed(Errno::ENOSPC)
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

/// Links and size of a file that counts what is in it as the machine has it.
#[derive(Clone, Copy)]
struct Counts {
    of_procfs: bool,
    directory: bool,
    known: Known,
}

impl Counts {
    /// Those of a directory of a procfs count processes and threads, which are the machine's: whether it does is told.
    fn links(self, links: u64) -> u64 {
        match self.known {
            _ if !self.of_procfs || !self.directory => links,
            Known::Hidden => 0,
            Known::Shown if links > 2 => COUNTED,
            Known::Shown => links,
        }
    }

    /// As well, with descriptors; and each file system sizes directories in its own way.
    fn size(self, size: i64, ground: Ground) -> i64 {
        match self.known {
            _ if !self.directory => size,
            _ if ground == Ground::Ext4 => 0,
            _ if !self.of_procfs => size,
            Known::Hidden => 0,
            Known::Shown if size > 0 => COUNTED as i64,
            Known::Shown => size,
        }
    }
}

/// A directory that has one of these names is a procfs's, of the top or of a task.
const SHOWS_TASKS: [&[u8]; 2] = [b"thread-self", b"fdinfo"];

/// What the library's procfs shows.
const SHOWN: [&[u8]; 14] = [
    b".",
    b"..",
    b"self",
    b"thread-self",
    b"task",
    b"fd",
    b"fdinfo",
    b"cwd",
    b"root",
    b"exe",
    b"comm",
    b"status",
    b"mounts",
    b"mountinfo",
];

fn is_directory(mode: u32) -> bool {
    mode & S_IFMT == S_IFDIR
}

/// Numbers of tasks and descriptors are the machine's, and so is an inode's, which is the name of a file that has none: as
/// components of a path they are written as `N`.
pub(crate) fn without_numbers(bytes: &[u8]) -> Vec<u8> {
    let named = |name: &[u8]| match name.strip_prefix(b"#") {
        _ if is_number(name) => b"N".to_vec(),
        Some(rest) if is_number(rest.strip_suffix(b" (deleted)").unwrap_or(rest)) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            [b"#N", &rest[digits..]].concat()
        }
        _ => name.to_vec(),
    };
    bytes.split(|&byte| byte == b'/').map(named).collect::<Vec<_>>().join(&b'/')
}

fn is_number(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

fn number<K: std::hash::Hash + Eq>(seen: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = seen.len() as u32 + 1;
    *seen.entry(key).or_insert(next)
}

/// Two clocks never agree on a stamp; on a time that a call was told they must.
fn time(sec: i64, nsec: u64) -> Time {
    if (EARLY..LATE).contains(&sec) { Time::Stamped } else { Time::Set(sec, nsec as u32) }
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

/// What becomes of that in which the two are known to differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Known {
    /// Something that is the same stands in for it, or nothing.
    #[default]
    Hidden,
    /// Each answers as it does: a table tells both answers.
    Shown,
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
