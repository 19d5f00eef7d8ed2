//! Whether descriptors of this process are left: each file in memory takes one, and so does what is remembered.
//!
//! It is looked before a call is answered. One that fails for want of a descriptor is half done, and cannot be answered again: what its
//! arguments point to may be something else by then.

use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, getrlimit},
};
use std::{
    os::fd::{AsRawFd, BorrowedFd},
    time::{Duration, Instant},
};

/// After so many calls it is looked again; each takes few.
const CALLS: u32 = 32;
/// Where fewer are left they are scarce: it is looked before each call.
const ENOUGH: i32 = 256;
/// Where fewer are left the next call may fail.
const FEW: i32 = 16;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Room {
    calls: u32,
    scarce: bool,
    /// When what nobody needs was closed the last time, and how long that took.
    swept: Option<(Instant, Duration)>,
}

impl Room {
    /// Whether what nobody needs is to be closed before the next call; `any` is a descriptor that is open. No more than half of the time
    /// goes by with that.
    pub(crate) fn is_needed(&mut self, any: BorrowedFd<'_>) -> bool {
        self.calls += 1;
        if !self.scarce && self.calls < CALLS {
            return false;
        }
        self.calls = 0;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        // The lowest one that is free.
        let left = fcntl_dupfd_cloexec(any, 0).map_or(0, |next| limit - next.as_raw_fd());
        let was_scarce = std::mem::replace(&mut self.scarce, left < ENOUGH.min(limit / 4));
        let again = self.swept.is_none_or(|(at, took)| at.elapsed() > took);
        left < FEW && again || self.scarce && !was_scarce
    }

    /// What nobody needs was closed, from then on.
    pub(crate) fn swept(&mut self, since: Instant) {
        self.swept = Some((Instant::now(), since.elapsed()));
    }

    /// A call failed for want of a descriptor.
    pub(crate) fn missed(&mut self) {
        self.scarce = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn where_enough_are_left_it_is_looked_seldom_and_nothing_is_closed() {
        let file = std::fs::File::open("/").expect("it is there");
        let mut room = Room::default();
        assert!((0..3 * CALLS).all(|_| !room.is_needed(file.as_fd())));
        room.missed();
        assert!(!room.is_needed(file.as_fd()) && !room.scarce);
    }
}
