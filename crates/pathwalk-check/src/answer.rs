//! What a call answers: as a subject says it, and as it is compared.

use crate::{
    field::{Field, write_bytes},
    value::Value,
};
use pathwalk::{Errno, Event, FileType, Stat, StatMount, Statfs, Statx};
use std::fmt;

/// What a subject says, file handles being its own.
#[derive(Debug)]
pub(crate) enum Raw<F> {
    /// Nothing but success.
    Done,
    /// A number: of bytes, a position, a mask.
    Number(i64),
    /// Bytes: read data, a link's body, a path.
    Bytes(Vec<u8>),
    /// The entries of a directory.
    Names(Vec<(Vec<u8>, u8)>),
    /// An open file.
    File(F),
    /// Events.
    Events(Vec<Event>),
    /// The value of an extended attribute.
    Value(Vec<u8>),
    /// mountinfo of each task.
    Mounts(Vec<(&'static str, Vec<u8>)>),
    /// What statmount tells of the mount of this number.
    Statmount(u64, Box<StatMount>),
    /// What statfs tells.
    Statfs(Box<Statfs>),
    /// What stat tells.
    Stat(Box<Stat>),
    /// What statx tells.
    Statx(Box<Statx>),
}

/// What a subject answered, or why it was not asked.
#[derive(Debug)]
pub(crate) enum Said<F> {
    /// Its answer.
    Answer(Result<Raw<F>, Errno>),
    /// Nobody is asked; the reason stands where it is decided.
    NotAsked,
}

/// An answer that two subjects must agree on.
#[derive(Clone, PartialEq)]
pub(crate) enum Answer {
    /// See [`Raw::Done`]; also an open file.
    Done,
    /// See [`Raw::Number`].
    Number(i64),
    /// See [`Raw::Bytes`].
    Bytes(Vec<u8>),
    /// See [`Raw::Value`].
    Value(Value),
    /// The entries, sorted where their order is the file system's own.
    Names(Vec<(Vec<u8>, u8)>),
    /// Events, with cookies numbered as they are first seen.
    Events(Vec<Event>),
    /// An answer, and the events that the first queue got meanwhile.
    Told(Box<Self>, Vec<Event>),
    /// See [`crate::normal::mounts`].
    Mounts(String),
    /// See [`Facts`].
    Facts(Box<Facts>),
    /// The call failed.
    Failed(Errno),
    /// Nobody was asked.
    NotAsked,
}

/// In the place of links or a size: something is counted, and how much of it there is is the machine's.
pub(crate) const COUNTED: u64 = u64::MAX;

/// What stat and statx tell, with numbers that do not depend on the machine.
#[derive(Clone, PartialEq)]
pub(crate) struct Facts {
    /// What statx alone tells.
    pub(crate) statx: Option<Told>,
    /// Type and permissions.
    pub(crate) mode: u32,
    /// Names.
    pub(crate) nlink: u64,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Of a device, its number.
    pub(crate) rdev: u64,
    /// Size.
    pub(crate) size: i64,
    /// Block size.
    pub(crate) blksize: i64,
    /// Blocks.
    pub(crate) blocks: i64,
    /// Device and inode, numbered as they are first seen.
    pub(crate) file: (u32, u32),
    /// Mount, numbered as it is first seen, where the answer has a number that is never used again.
    pub(crate) mount: Option<u32>,
    /// Times of last access, change of contents and change of attributes.
    pub(crate) times: [Time; 3],
}

/// What statx tells and stat does not.
#[derive(Clone, PartialEq)]
pub(crate) struct Told {
    /// The bits that say what is filled in.
    pub(crate) mask: u32,
    /// Attributes.
    pub(crate) attributes: u64,
    /// Which attributes there can be, where these are not those of a tmpfs.
    pub(crate) known: Option<u64>,
    /// When it was made.
    pub(crate) btime: Time,
    /// It was told otherwise before, or it changed before it was made.
    pub(crate) reborn: bool,
    /// Units of direct I/O, a subvolume, units of atomic writes.
    pub(crate) tail: [u64; 8],
}

/// A time, as far as two machines can agree on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Time {
    /// A call set it to this second and nanosecond.
    Set(i64, u32),
    /// The time of a call.
    Stamped,
    /// Not filled in.
    Absent,
}

impl Answer {
    /// The answer alone.
    pub(crate) fn without_events(&self) -> &Self {
        match self {
            Self::Told(answer, _) => answer,
            answer => answer,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("ok"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "\"{}\"", shorten(bytes)),
            Self::Value(value) => value.write(f),
            Self::Names(names) => {
                for (index, (name, kind)) in names.iter().enumerate() {
                    let letter = FileType::from_dt(*kind).map_or('?', FileType::letter);
                    let space = if index == 0 { "" } else { " " };
                    write!(f, "{space}{letter}{}", shorten(name))?;
                }
                Ok(())
            }
            Self::Events(events) => write_events(events, f),
            Self::Told(answer, events) => {
                write!(f, "{answer} | ")?;
                write_events(events, f)
            }
            Self::Mounts(text) => f.write_str(text),
            Self::Facts(facts) => write!(f, "{facts}"),
            Self::Failed(errno) => f.write_str(errno.name()),
            Self::NotAsked => f.write_str("(not asked)"),
        }
    }
}

/// Writes `1:MOVED_FROM#1:a 2:MOVE_SELF`: watch, what happened, cookie, name.
fn write_events(events: &[Event], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, event) in events.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(f, "{space}{}:", event.wd)?;
        event.mask.write(f)?;
        if event.cookie != 0 {
            write!(f, "#{}", event.cookie)?;
        }
        if !event.name.is_empty() {
            write!(f, ":{}", shorten(&event.name))?;
        }
    }
    Ok(())
}

fn shorten(bytes: &[u8]) -> String {
    struct Shown<'b>(&'b [u8]);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_bytes(self.0, b"", f)
        }
    }
    Shown(bytes).to_string().escape_debug().collect()
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = FileType::from_mode(self.mode).map_or('?', FileType::letter);
        write!(f, "{letter}{:04o} {}:{}", self.mode & 0o7777, self.uid, self.gid)?;
        for (name, count) in [("links", self.nlink), ("size", self.size as u64)] {
            match count {
                COUNTED => write!(f, " {name}=some")?,
                count => write!(f, " {name}={count}")?,
            }
        }
        write!(f, " blocks={}x{}", self.blocks, self.blksize)?;
        if self.rdev != 0 {
            write!(f, " rdev={:#x}", self.rdev)?;
        }
        write!(f, " file={}.{}", self.file.0, self.file.1)?;
        if let Some(mount) = self.mount {
            write!(f, " mount={mount}")?;
        }
        // Mostly it is not asked for; the mask tells.
        let btime = self.statx.as_ref().map(|told| told.btime).filter(|time| *time != Time::Absent);
        let names = ["atime", "mtime", "ctime", "btime"];
        for (name, time) in names.iter().zip(self.times.into_iter().chain(btime)) {
            match time {
                Time::Set(sec, 0) => write!(f, " {name}={sec}")?,
                Time::Set(sec, nsec) => write!(f, " {name}={sec}.{nsec}")?,
                Time::Stamped => {}
                Time::Absent => write!(f, " {name}=absent")?,
            }
        }
        if let Some(Told { mask, attributes, known, reborn, tail, .. }) = self.statx {
            write!(f, " mask={mask:#x} attributes={attributes:#x}")?;
            if let Some(known) = known {
                write!(f, " known={known:#x}")?;
            }
            if reborn {
                f.write_str(" reborn")?;
            }
            if tail != [0; 8] {
                write!(f, " tail={tail:?}")?;
            }
        }
        Ok(())
    }
}
