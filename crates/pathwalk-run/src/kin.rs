//! What the kernel tells of threads: when they began, and what they made.
//!
//! That nobody is there, and that it cannot be asked, are two answers: who takes the one for the other forgets what is in use, or lets
//! somebody have what he shares. So there is a descriptor that is given up for a look where no other is left.
//!
//! Manual: proc_pid_stat(5), proc_tid_children(5).

use crate::sys::{
    errno_of,
    process::{Shares, files_in_order, shares_memory, shares_place},
    read_record, read_told,
};
use parking_lot::Mutex;
use pathwalk::{Errno, Result};
use rustix::time::{ClockId, clock_gettime};
use std::{
    cmp::Ordering, collections::HashMap, fs, hash::Hash, io, os::unix::fs::MetadataExt, path::Path,
};

/// `PF_EXITING`: set before a thread's children get another parent.
const EXITING: u64 = 4;

/// What the kernel tells of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whose child its process is.
    pub(crate) parent: u32,
    /// When it began.
    pub(crate) begun: u64,
    /// Where the stack of its program began.
    pub(crate) stack: u64,
    /// It sleeps, and no signal wakes it but one that kills: as who waits for a child that has its memory.
    pub(crate) suspended: bool,
}

/// The descriptor that is kept for looking.
static SPARE: Mutex<Option<fs::File>> = Mutex::new(None);

/// Keeps a descriptor for looking where no other is left, if there is one now.
pub(crate) fn keep_spare() {
    let mut spare = SPARE.lock();
    if spare.is_none() {
        *spare = fs::File::open("/").ok();
    }
}

/// Looks at what the kernel tells, with one descriptor at a time; nothing where it is not there, or is not to be seen.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
fn look<T>(at: impl Fn() -> io::Result<T>) -> Result<Option<T>> {
    let mut seen = at();
    if let Err(error) = &seen
        && errno_of(error) == Errno::EMFILE
    {
        let mut spare = SPARE.lock();
        if spare.take().is_some() {
            seen = at();
            *spare = fs::File::open("/").ok();
        }
    }
    match seen {
        Ok(seen) => Ok(Some(seen)),
        Err(error) => match errno_of(&error) {
            errno @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => Err(errno),
            _ => Ok(None),
        },
    }
}

/// What is in a file.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
pub(crate) fn read(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
    look(|| read_told(&path))
}

/// The same of a file that is one record.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn record(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>> {
    look(|| read_record(&path))
}

/// The names in a directory; none where it is not there.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn names(dir: impl AsRef<Path>) -> Result<Vec<String>> {
    let list = look(|| {
        let names = fs::read_dir(&dir)?.map(|entry| entry.map(|entry| entry.file_name()));
        names.collect::<io::Result<Vec<_>>>()
    })?;
    let names = list.unwrap_or_default().into_iter();
    Ok(names.filter_map(|name| name.into_string().ok()).collect())
}

/// What there is to tell; nothing where there is no such thread, or it is ending, or was not waited for.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn facts(tid: u32) -> Result<Option<Facts>> {
    Ok(record(format!("/proc/{tid}/stat"))?.and_then(|text| facts_in(&text)))
}

fn facts_in(text: &[u8]) -> Option<Facts> {
    // The name before it may have blanks and parentheses in it.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let parent = words.next()?.parse().ok()?;
    let flags: u64 = words.nth(4)?.parse().ok()?;
    if flags & EXITING != 0 {
        return None;
    }
    let (begun, stack) = (words.nth(12)?.parse().ok()?, words.nth(5)?.parse().ok()?);
    Some(Facts { parent, begun, stack, suspended: state == "D" })
}

/// Whether another process has the memory of this one, as after vfork(2), or its descriptors; also where that cannot be told.
pub(crate) fn shares_memory_with_others(process: u32) -> bool {
    let shares = |other| {
        shares_memory(process, other) != Shares::No
            || files_in_order(process, other).is_none_or(Ordering::is_eq)
    };
    descendants().map_or(true, |all| {
        all.into_iter().any(|other| other != process && shares(other) && !is_ending(other))
    })
}

/// How many filters look at a thread's calls, where the kernel says so.
pub(crate) fn filters(tid: u32) -> Option<u32> {
    let status = record(format!("/proc/{tid}/status")).ok()??;
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"Seccomp_filters:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Whether there is no such thread, or it is ending; not where that cannot be asked.
pub(crate) fn is_ending(tid: u32) -> bool {
    facts(tid).is_ok_and(|facts| facts.is_none())
}

/// Whether a thread waits for a child that has its memory, or sleeps as deep for something else.
pub(crate) fn is_suspended(tid: u32) -> bool {
    facts(tid).is_ok_and(|facts| facts.is_some_and(|facts| facts.suspended))
}

/// When a thread began, if it is there and not ending.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn begun(tid: u32) -> Result<Option<u64>> {
    Ok(facts(tid)?.map(|facts| facts.begun))
}

/// Whether the thread that had this number, and began then, is gone or ending; not where that cannot be asked.
pub(crate) fn has_ended(tid: u32, since: u64) -> bool {
    begun(tid).is_ok_and(|begun| begun != Some(since))
}

/// The time in the kernel's ticks, as it counts when threads begin.
pub(crate) fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second();
    now.tv_sec as u64 * per_second + now.tv_nsec as u64 * per_second / 1_000_000_000
}

/// The processes that a thread made and that are its children. Where one is waited for meanwhile the kernel may leave another
/// out, and the first is not in the next list.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn children(process: u32, tid: u32) -> Result<Vec<u32>> {
    let list = || {
        let text = read(format!("/proc/{process}/task/{tid}/children"))?.unwrap_or_default();
        let text = String::from_utf8(text).unwrap_or_default();
        Ok(numbers(text.split_ascii_whitespace()))
    };
    let mut before = list()?;
    while !before.is_empty() {
        let now = list()?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before)
}

/// The processes that come of this one. One that was made by another while they were listed may be missing.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn descendants() -> Result<Vec<u32>> {
    below(std::process::id())
}

/// The same of a process's.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn below(process: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    let mut todo = vec![process];
    while let Some(process) = todo.pop() {
        for thread in threads_of(process)? {
            let below = children(process, thread)?;
            found.extend_from_slice(&below);
            todo.extend(below);
        }
    }
    Ok(found)
}

/// Whether the process of a thread has others, be they about to go: each is a link of the directory.
pub(crate) fn has_others(tid: u32) -> bool {
    rustix::fs::stat(format!("/proc/{tid}/task")).is_ok_and(|stat| stat.st_nlink > 3)
}

/// The threads of a process.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn threads_of(process: u32) -> Result<Vec<u32>> {
    let names = names(format!("/proc/{process}/task"))?;
    Ok(numbers(names.iter().map(String::as_str)))
}

/// Threads of a process by which all is found that it has open: one of those that share their descriptors. The first may have ended,
/// and have none.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn threads_with_files(process: u32) -> Result<Vec<u32>> {
    let have = |thread| what_is_open(process, thread);
    one_of_each(threads_of(process)?, files_in_order, have)
}

/// One thread of those that share something, by the order of what they have. Where that cannot be told, those share it that have the
/// same by `has`, and who has nothing there is left out.
///
/// # Errors
///
/// Those of `has`.
fn one_of_each<T: Eq + Hash>(
    threads: Vec<u32>,
    mut order: impl FnMut(u32, u32) -> Option<Ordering>,
    has: impl Fn(u32) -> Result<Vec<T>>,
) -> Result<Vec<u32>> {
    // In that order, so that of many threads each is held against few.
    let mut found: Vec<u32> = Vec::new();
    let mut untold = HashMap::new();
    'each: for thread in threads {
        let (mut from, mut to) = (0, found.len());
        while from < to {
            let middle = from.midpoint(to);
            match order(found[middle], thread) {
                Some(Ordering::Less) => from = middle + 1,
                Some(Ordering::Greater) => to = middle,
                Some(Ordering::Equal) => continue 'each,
                None => {
                    let has = has(thread)?;
                    if !has.is_empty() {
                        untold.entry(has).or_insert(thread);
                    }
                    continue 'each;
                }
            }
        }
        found.insert(from, thread);
    }
    if let Some(&first) = found.first()
        && !untold.is_empty()
    {
        untold.remove(&has(first)?);
    }
    found.extend(untold.into_values());
    Ok(found)
}

/// The descriptors of a thread, and which files they are of.
///
/// # Errors
///
/// As [`read`].
fn what_is_open(process: u32, thread: u32) -> Result<Vec<(String, u64, u64)>> {
    let dir = format!("/proc/{process}/task/{thread}/fd");
    let mut open: Vec<_> = names(&dir)?
        .into_iter()
        .filter_map(|number| {
            let file = fs::metadata(format!("{dir}/{number}")).ok()?;
            Some((number, file.dev(), file.ino()))
        })
        .collect();
    open.sort_unstable();
    Ok(open)
}

/// Whether a thread of another process has the root and current directory of this one: what one of them changes, both have. Where that
/// cannot be told one may have.
pub(crate) fn shares_place_with_others(tid: u32, process: u32) -> bool {
    let shares = |other| match shares_place(tid, other) {
        Shares::Yes => true,
        Shares::No => false,
        Shares::Unknown => !is_ending(other),
    };
    descendants().map_or(true, |all| {
        let mut others = all.into_iter().filter(|&other| other != process);
        others.any(|other| threads_of(other).map_or(true, |all| all.into_iter().any(shares)))
    })
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u32> {
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_threads_that_share_one_is_looked_at() {
        // Each third has files of its own, and the others share two sets.
        let files = |thread: u32| if thread.is_multiple_of(3) { thread } else { thread % 3 };
        let all: Vec<u32> = (3..3003).collect();
        let mut asked = 0;
        let order = |one: u32, other: u32| {
            asked += 1;
            // By an order that is not that of their numbers.
            let place = |thread| files(thread).wrapping_mul(0x9e37_79b1);
            Some(place(one).cmp(&place(other)))
        };
        let none = |_| -> Result<Vec<u32>> { unreachable!("it is told") };
        let found = one_of_each(all.clone(), order, none).expect("it can be told");
        let is_one_of_each = |found: &[u32]| {
            let different: std::collections::HashSet<_> =
                found.iter().map(|&thread| files(thread)).collect();
            assert_eq!((found.len(), different.len()), (1002, 1002));
        };
        is_one_of_each(&found);
        assert!(asked < 3000 * 11, "{asked}");
        // Where the kernel does not tell, by what they have open.
        let list = |thread| Ok(vec![files(thread)]);
        is_one_of_each(&one_of_each(all.clone(), |_, _| None, list).expect("it can be told"));
        // So the kernel tells.
        let own = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        assert_eq!(files_in_order(own, tid), Some(Ordering::Equal));
        let order = files_in_order(own, child.id()).expect("it is told");
        assert!(order.is_ne() && files_in_order(child.id(), tid) == Some(order.reverse()));
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        assert_eq!(files_in_order(own, child.id()), None);
    }
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// In a process of its own: the limit is all threads'.
    #[test]
    fn without_a_descriptor_left_it_is_looked_all_the_same_or_said_that_it_cannot_be() {
        if std::env::var_os("WITHOUT_DESCRIPTORS").is_none() {
            let own = std::env::current_exe().expect("it runs");
            let name = "kin::tests::without_a_descriptor_left_it_is_looked_all_the_same_or_said_that_it_cannot_be";
            let mut again = std::process::Command::new(own);
            again.args(["--exact", name]).env("WITHOUT_DESCRIPTORS", "1");
            let output = again.output().expect("it starts");
            assert!(output.status.success(), "{output:?}");
            return;
        }
        let own = std::process::id();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let begun = begun(child.id()).expect("it can be asked").expect("it runs");
        let was = getrlimit(Resource::Nofile);
        let mut open = Vec::new();
        let fill = |open: &mut Vec<fs::File>| {
            while let Ok(file) = fs::File::open("/") {
                open.push(file);
            }
        };
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..was }).expect("less");
        fill(&mut open);
        assert_eq!(children(own, tid), Err(Errno::EMFILE));
        assert_eq!(threads_of(own), Err(Errno::EMFILE));
        assert!(shares_place_with_others(tid, own) && !has_ended(child.id(), begun));
        open.clear();
        keep_spare();
        fill(&mut open);
        assert_eq!(children(own, tid), Ok(vec![child.id()]));
        assert!(threads_of(own).is_ok_and(|threads| threads.contains(&tid)));
        assert!(!shares_place_with_others(tid, own));
        open.clear();
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        assert!(has_ended(child.id(), begun));
    }
}
