//! Whether descriptors of this process are left: each file in memory takes one, and so does what is remembered.
//!
//! Before it begins it is looked whether there are enough at all, so that no program runs half.
//!
//! It is looked before a call is answered. One that fails for want of a descriptor is half done, and cannot be answered again: what its
//! arguments point to may be something else by then.

use crate::spec::{Spec, What};
use pathwalk::Coherence;
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

/// So many there are mostly: who has as many shares nothing out.
const MANY: u64 = 1024;
/// So many are open, beside those of mounts and those that were handed in, while a program runs some others: what is never closed, what a
/// call takes, directories and files in memory that are open, and as many as are left when what nobody needs is closed. With half of it a
/// compiler's calls fail.
const OWN: u64 = 48;
/// A directory of the host that is watched takes itself, a queue, a list of mounts, what tells of both, and one that is held for now.
const WATCHED: u64 = 5;
/// One that is not takes itself, and one that is held for now.
const ASKED: u64 = 2;

/// How many descriptors each mount may hold for files that were asked about, where so many may be open.
///
/// # Errors
///
/// A sentence: there are fewer than a program in this tree needs.
pub(crate) fn held_by_each(specs: &[Spec], most: u64) -> Result<usize, String> {
    let of = |spec: &Spec| match &spec.what {
        What::Host { coherence: None | Some(Coherence::Watched), .. } => WATCHED,
        What::Host { .. } => ASKED,
        What::Mem { .. } | What::Proc => 0,
    };
    let (hosts, taken) = specs
        .iter()
        .map(of)
        .filter(|&takes| takes > 0)
        .fold((0, 0), |sum, takes| (sum.0 + 1, sum.1 + takes));
    let open = std::fs::read_dir("/proc/self/fd").map_or(3, |list| list.count() as u64);
    let needs = OWN + open + taken;
    match most.checked_sub(needs) {
        None => Err(format!("this tree needs {needs} descriptors, and `ulimit -Hn` is {most}")),
        Some(more) => Ok(1 + (more / 4 / hosts.max(1)) as usize),
    }
}

/// Whether they have to be shared out.
pub(crate) fn are_few(most: Option<u64>) -> Option<u64> {
    most.filter(|&most| most < MANY)
}

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
