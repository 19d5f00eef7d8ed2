//! Clocks: of a time it is told whether a call set it, of a stamp whether it was made.

use crate::answer::Time;
use pathwalk::Stat;

/// Seconds before this were set by utimensat; later ones come from a clock. Generated times stay far below, or far above
/// [`LATE`].
const EARLY: i64 = 1_000_000_000;
/// Seconds from this on were set by utimensat.
const LATE: i64 = 4_000_000_000;

/// Two clocks never agree on a stamp; on a time that a call was told they must.
pub(super) fn time(sec: i64, nsec: u64) -> Time {
    if (EARLY..LATE).contains(&sec) { Time::Stamped } else { Time::Set(sec, nsec as u32) }
}

/// Which times of an open file a call stamped: last access, contents, attributes.
pub(super) fn stamps(before: Option<&Stat>, after: &Stat) -> [bool; 3] {
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

    /// At which pace stamps are compared: where the kernel stamps both, each when its clock has gone on, only slowly.
    pub(crate) fn of_stamps(self, both_stamped: bool) -> Option<Self> {
        (!both_stamped || self == Self::Slow).then_some(self)
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
