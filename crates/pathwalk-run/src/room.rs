//! Whether this process has what it needs: memory, a stack, and descriptors, of which each file in memory takes one, and so does what is
//! remembered.
//!
//! Before it begins it is looked whether there are enough at all, so that no program runs half.
//!
//! It is looked before a call is answered. One that fails for want of a descriptor is half done, and cannot be answered again: what its
//! arguments point to may be something else by then.

use crate::spec::{Spec, What};
use pathwalk::Coherence;
use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::OnceLock,
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

/// With so much memory the tables are as large as they are by default.
const WHOLE: u64 = 16 << 30;

/// How often the tables' budgets are to be halved for them to take half of the memory that this process may have, at most.
pub(crate) fn halvings() -> u32 {
    let most = [Resource::As, Resource::Data].map(|which| getrlimit(which).current);
    let most = most.into_iter().flatten().min().unwrap_or(WHOLE);
    WHOLE.div_ceil(most.max(1)).next_power_of_two().ilog2()
}

/// So much of a stack is enough, also beside arguments and an environment of [`STRINGS`].
const STACK: u64 = 128 << 10;
/// What the kernel lets a program have of these in any case.
const STRINGS: u64 = 128 << 10;

/// The limit of the stack that this process was started with, where it has another one since.
static STACK_BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process have a stack that is large enough. It is to be called before anything else, and takes little of it.
///
/// # Errors
///
/// A sentence: it may have none.
pub fn take_stack() -> Result<(), String> {
    let before = getrlimit(Resource::Stack);
    let enough = STACK + STRINGS;
    let least = |limit: Option<u64>| limit.is_none_or(|limit| limit >= enough);
    if least(before.current) {
        return Ok(());
    }
    let with_enough = Rlimit { current: Some(enough), ..before };
    if !least(before.maximum) || setrlimit(Resource::Stack, with_enough).is_err() {
        let has = before.maximum.unwrap_or(enough) >> 10;
        let needs = enough >> 10;
        return Err(format!("this needs a stack of {needs} KiB, and `ulimit -Hs` is {has}"));
    }
    let _ = STACK_BEFORE.set(before);
    Ok(())
}

/// The limit of the stack that is the program's.
pub(crate) fn stack_of_program() -> Rlimit {
    STACK_BEFORE.get().copied().unwrap_or_else(|| getrlimit(Resource::Stack))
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
