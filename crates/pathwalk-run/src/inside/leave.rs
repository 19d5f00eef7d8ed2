//! Waiting until no thread of a process is in the image any more.
//!
//! From when nobody enters it any more, the image makes no call of its own but that by which it comes to an end with its signals as they were.
//! Who is in front of that makes it after less than a millisecond of its own time. So who used as much made it, if he
//! ran; the kernel counts that by ticks, so it begins when another count is seen. And who sleeps in a call made it as well, if that is none of the
//! image's own. A program's own call, made there for it, comes back to the program: what it opens is given as before by then. Who tells the
//! supervisor that something was not there finds it when it is told, as it was given meanwhile.
//!
//! Manual: proc_pid_syscall(5), seccomp(2) (`SECCOMP_FILTER_FLAG_TSYNC`).

use crate::kin;
use pathwalk_inside::{BASE, CALLS, IMAGE_BYTES, MARK};
use std::{
    collections::HashMap,
    fs, thread,
    time::{Duration, Instant},
};

/// So long it takes to be out, in nanoseconds of a thread's own time.
const ENOUGH: u64 = 1_000_000;
/// So long it is waited for threads that others do not let run.
const PATIENCE: Duration = Duration::from_secs(1);
/// It is looked again after that.
const TURN: Duration = Duration::from_micros(200);

/// Waits until no other thread of a thread's process is in the image, which nobody enters any more. Whether it is so.
pub(super) fn have_all_left(tid: u32, process: u32) -> bool {
    let Ok(threads) = kin::threads_of(process) else { return false };
    let others = threads.into_iter().filter(|other| *other != tid);
    let mut left: HashMap<u32, Ran> =
        others.map(|other| (other, Ran { first: ran(other), next: None })).collect();
    let since = Instant::now();
    loop {
        left.retain(|&other, ran| !is_out(other, ran));
        if left.is_empty() || since.elapsed() > PATIENCE {
            return left.is_empty();
        }
        thread::sleep(TURN);
    }
}

/// How long a thread ran, in nanoseconds; none where it is gone, or nobody counts that.
fn ran(tid: u32) -> Option<u64> {
    let told = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    told.split(' ').next()?.parse().ok()
}

/// How long a thread had run when it was looked first, and when that was seen to be another number.
struct Ran {
    first: Option<u64>,
    next: Option<u64>,
}

impl Ran {
    /// Whether it ran long enough since then.
    fn enough(&mut self, now: Option<u64>) -> bool {
        let Some(now) = now else { return false };
        let is_new = *self.first.get_or_insert(now) != now;
        let next = if is_new { Some(*self.next.get_or_insert(now)) } else { None };
        next.is_some_and(|next| now.saturating_sub(next) > ENOUGH)
    }
}

fn is_out(tid: u32, before: &mut Ran) -> bool {
    match fs::read_to_string(format!("/proc/{tid}/syscall")) {
        Ok(told) => sleeps_outside(told.trim_end()).unwrap_or_else(|| before.enough(ran(tid))),
        // It is gone, or about to be.
        Err(_) => kin::is_ending(tid),
    }
}

/// Whether what a thread sleeps in is no call of the image's own; none where it runs.
fn sleeps_outside(told: &str) -> Option<bool> {
    let mut words = told.split(' ');
    let nr = words.next()?.parse::<i64>().ok()?;
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let all: Vec<u64> = words.filter_map(number).collect();
    // The arguments, the stack, and where it is: the last two alone where it sleeps in no call.
    let at = *all.last()?;
    if !(BASE..BASE + IMAGE_BYTES as u64).contains(&at) {
        return Some(true);
    }
    let of_program =
        |nr| CALLS.contains(&nr) && (!all.contains(&MARK) || nr == pathwalk_inside::OPENAT);
    Some(u32::try_from(nr).is_ok_and(of_program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn who_sleeps_in_the_image_sleeps_in_a_call_of_the_program() {
        let told = |nr: &str, fifth: u64, at: u64| {
            sleeps_outside(&format!("{nr} 0x1 0x2 0x3 0x4 {fifth:#x} 0x0 0x7ffc00000000 {at:#x}"))
        };
        assert_eq!(sleeps_outside("running"), None);
        assert_eq!(told("202", 0, 0x7f00_1234_5678), Some(true));
        assert_eq!(told("257", 0, BASE + 40), Some(true));
        assert_eq!(told("257", MARK, BASE + 40), Some(true));
        assert_eq!(told("262", MARK, BASE + 40), Some(false));
        assert_eq!(told("232", 0, BASE + 40), Some(false));
        assert_eq!(sleeps_outside(&format!("-1 0x7ffc00000000 {:#x}", BASE + 8)), Some(false));
        assert_eq!(sleeps_outside("-1 0x7ffc00000000 0x400000"), Some(true));
    }

    #[test]
    fn it_counts_from_when_another_count_is_seen() {
        let mut ran = Ran { first: Some(5), next: None };
        let enough = [None, Some(5), Some(4_000_005), Some(4_000_005), Some(5_000_005)];
        assert!(enough.into_iter().all(|now| !ran.enough(now)));
        assert!(ran.enough(Some(8_000_005)));
        let mut unknown = Ran { first: None, next: None };
        assert!(![7_000_000, 9_000_000].into_iter().any(|now| unknown.enough(Some(now))));
    }

    /// One that sleeps, one that runs and one that ends are out.
    #[test]
    fn threads_are_out() {
        let (stop, stopped) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel::<()>();
        let sleeps = thread::spawn(move || stopped.recv());
        let runs =
            thread::spawn(
                move || while ended.try_recv() != Err(mpsc::TryRecvError::Disconnected) {},
            );
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert!(have_all_left(own, std::process::id()));
        drop((stop, end));
        assert!(sleeps.join().is_ok() && runs.join().is_ok());
    }
}
