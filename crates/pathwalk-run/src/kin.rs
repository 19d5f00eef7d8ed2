//! What the kernel tells of threads: when they began, and what they made.
//!
//! Manual: proc_pid_stat(5), proc_tid_children(5).

use crate::sys::{
    errno_of,
    process::{Shares, shares_place},
};
use pathwalk::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// `PF_EXITING`: set before a thread's children get another parent.
const EXITING: u64 = 4;

/// What the kernel tells of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// When it began.
    pub(crate) begun: u64,
    /// Where the stack of its program began.
    pub(crate) stack: u64,
}

/// What there is to tell; nothing where there is no such thread, or it is ending, or was not waited for.
pub(crate) fn facts(tid: u32) -> Option<Facts> {
    facts_in(&fs::read(format!("/proc/{tid}/stat")).ok()?)
}

fn facts_in(text: &[u8]) -> Option<Facts> {
    // The name before it may have blanks and parentheses in it.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    if matches!(words.next()?, "Z" | "X") {
        return None;
    }
    let flags: u64 = words.nth(5)?.parse().ok()?;
    if flags & EXITING != 0 {
        return None;
    }
    let (begun, stack) = (words.nth(12)?.parse().ok()?, words.nth(5)?.parse().ok()?);
    Some(Facts { begun, stack })
}

/// Whether there is no such thread, or it is ending; not where that cannot be asked.
pub(crate) fn is_ending(tid: u32) -> bool {
    match fs::read(format!("/proc/{tid}/stat")) {
        Ok(text) => facts_in(&text).is_none(),
        Err(error) => [Errno::ENOENT, Errno::ESRCH].contains(&errno_of(&error)),
    }
}

/// When a thread began, if it is there and not ending.
pub(crate) fn begun(tid: u32) -> Option<u64> {
    facts(tid).map(|facts| facts.begun)
}

/// The time in the kernel's ticks, as it counts when threads begin.
pub(crate) fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    now.tv_sec as u64 * per_second + now.tv_nsec as u64 * per_second / 1_000_000_000
}

/// The processes that a thread made and that are its children. Where one is waited for meanwhile the kernel may leave another
/// out, and the first is not in the next list.
pub(crate) fn children(process: u32, tid: u32) -> Vec<u32> {
    let list = || {
        let text = fs::read_to_string(format!("/proc/{process}/task/{tid}/children"));
        numbers(text.unwrap_or_default().split_ascii_whitespace())
    };
    let mut before = list();
    while !before.is_empty() {
        let now = list();
        if now == before {
            break;
        }
        before = now;
    }
    before
}

/// The processes that come of this one. One that was made by another while they were listed may be missing.
pub(crate) fn descendants() -> Vec<u32> {
    let mut found = Vec::new();
    let mut todo = vec![std::process::id()];
    while let Some(process) = todo.pop() {
        for thread in threads_of(process) {
            let below = children(process, thread);
            found.extend_from_slice(&below);
            todo.extend(below);
        }
    }
    found
}

/// The threads of a process.
pub(crate) fn threads_of(process: u32) -> Vec<u32> {
    let list = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names: Vec<_> = list.map(|entry| entry.file_name()).collect();
    numbers(names.iter().filter_map(|name| name.to_str()))
}

/// Whether a thread of another process has the root and current directory of this one: what one of them changes, both have.
pub(crate) fn shares_place_with_others(tid: u32, process: u32) -> bool {
    let shares = |other| match shares_place(tid, other) {
        Shares::Yes => true,
        Shares::No => false,
        Shares::Unknown => !is_ending(other),
    };
    let others = descendants().into_iter().filter(|&other| other != process);
    others.flat_map(threads_of).any(shares)
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u32> {
    words.filter_map(|word| word.parse().ok()).collect()
}
