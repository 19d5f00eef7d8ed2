//! Times: a point in time, and what utimensat(2) is told to do with one.
//!
//! Manual: timespec(3type), utimensat(2).

use crate::errno::{Errno, Result};

/// The nanoseconds that stand for the current time in utimensat(2).
pub const UTIME_NOW: i64 = 0x3fff_ffff; // missing in linux-raw-sys; include/linux/stat.h
/// The nanoseconds that leave a time as it is in utimensat(2).
pub const UTIME_OMIT: i64 = 0x3fff_fffe; // missing in linux-raw-sys; include/linux/stat.h

/// A point in time, counted from 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timespec {
    /// The seconds; negative before 1970.
    pub sec: i64,
    /// The nanoseconds after `sec`, below 1 000 000 000.
    pub nsec: u32,
}

/// What to do with one time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Leave it.
    Omit,
    /// Set it to the current time.
    Now,
    /// Set it to this time.
    At(Timespec),
}

impl SetTime {
    /// Reads one `struct timespec` of utimensat(2); the seconds count only beside real nanoseconds.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the nanoseconds are neither special nor in `0..1_000_000_000`.
    pub const fn from_raw(sec: i64, nsec: i64) -> Result<SetTime> {
        match nsec {
            UTIME_NOW => Ok(SetTime::Now),
            UTIME_OMIT => Ok(SetTime::Omit),
            0..1_000_000_000 => Ok(SetTime::At(Timespec { sec, nsec: nsec as u32 })),
            _ => Err(Errno::EINVAL),
        }
    }
}
