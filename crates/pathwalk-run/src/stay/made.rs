//! Who was made meanwhile by who stayed: it has his one CPU of him.
//!
//! Numbers are given in order, up to the largest: so those who were made since are looked at, whoever their parents are by now. A process is there when it is whole:
//! that takes a while where its maker has much memory, and it has its CPUs of him from the beginning. So it is looked again, some times.

use super::{MOMENT, Stayed};
use crate::{cpu, kin, procfs};
use pathwalk::Result;
use std::{ops::RangeInclusive, time::Instant};

/// After how many moments it is looked, and looked again.
const LOOKS: [u32; 3] = [1, 8, 64];

/// So many numbers are looked at; where there may be more, those of this process's descendants.
const MOST_NUMBERS: u32 = 1 << 13;

/// Who has one CPU of who stayed, if anybody.
pub(super) struct Made {
    by: Stayed,
    /// So often it was looked, and when it is to be again.
    pub(super) looks: usize,
    next: Instant,
}

impl Made {
    pub(super) fn new(by: Stayed) -> Self {
        Self { by, looks: 0, next: Instant::now() + MOMENT }
    }

    /// When it is to be looked.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// When it is looked again, after it was or could not be; whether it is not any more.
    fn was_looked(&mut self, now: Instant, done: bool) -> bool {
        // What cannot be looked at now is looked at later.
        self.looks += usize::from(done);
        let wait = LOOKS.get(self.looks).map(|moments| MOMENT * *moments);
        self.next = now + wait.unwrap_or(MOMENT);
        wait.is_none()
    }
}

/// Looks where it is time, and keeps those that are not over; `last` was made last, if that is known.
pub(super) fn look(all: &mut Vec<Made>, last: Option<u32>) {
    let now = Instant::now();
    let due = |made: &Made| made.next <= now;
    let looked = last
        .is_some_and(|last| let_go_since(all.iter().filter(|made| due(made)), all, last).is_ok());
    all.retain_mut(|made| !due(made) || !made.was_looked(now, looked));
}

/// Lets those go who were made since these stayed and are there now, where `last` was made last. Each number is looked at once, however many
/// stayed since.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked. Not all were let go.
pub(super) fn let_go(all: &[Made], last: u32) -> Result<()> {
    let_go_since(all.iter(), all, last)
}

/// The same of those who were made since some of these stayed: but whoever of all stayed later has made those who were made later.
fn let_go_since<'m>(since: impl Iterator<Item = &'m Made>, all: &[Made], last: u32) -> Result<()> {
    let all = all.iter().map(|made| &made.by);
    let one = |tid| {
        let Some(now) = cpu::of(tid) else { return };
        let his = all.clone().filter(|by| by.cpus.are(&now));
        // Somebody outside the program may be bound there.
        if let Some(after) = latest(his.clone().map(|by| by.after), tid, last)
            && let Some(by) = his.clone().find(|by| by.after == after)
            && procfs::is_of_the_program(tid)
        {
            by.cpus.let_go(tid);
        }
    };
    match numbers(since.map(|made| made.by.after), last) {
        Some(numbers) => numbers.for_each(one),
        None => {
            for process in kin::descendants()? {
                kin::threads_of(process)?.into_iter().for_each(one);
            }
        }
    }
    Ok(())
}

/// The numbers that were given since these were, up to `last`; none where they are many, or begin again from the smallest.
fn numbers(all: impl Iterator<Item = u32>, last: u32) -> Option<RangeInclusive<u32>> {
    let counts: Option<Vec<u32>> = all.map(|after| last.checked_sub(after)).collect();
    let count = counts?.into_iter().max().unwrap_or(0);
    (count <= MOST_NUMBERS).then(|| last - count + 1..=last)
}

/// The last of these after which a number was given, where `last` was given last. They begin again from the smallest.
fn latest(all: impl Iterator<Item = u32>, tid: u32, last: u32) -> Option<u32> {
    let before = |after: &u32| match *after <= last {
        true => (*after..last).contains(&tid.wrapping_sub(1)),
        false => tid > *after || tid <= last,
    };
    // What was given before they began again is further away.
    all.filter(before).min_by_key(|after| last.wrapping_sub(*after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_since_the_first_where_they_are_few() {
        let of = |all: &[u32], last| numbers(all.iter().copied(), last);
        assert_eq!(of(&[10], 20), Some(11..=20));
        assert_eq!(of(&[15, 10, 12], 20), Some(11..=20));
        assert!(of(&[10], 10).unwrap().is_empty());
        for (all, last) in [(&[32760][..], 305), (&[10], 1 << 20), (&[15, 32760], 20)] {
            assert_eq!(of(all, last), None, "{all:?} {last}");
        }
    }

    #[test]
    fn who_was_made_is_the_latest_ones_before_him() {
        let of = |all: &[u32], tid, last| latest(all.iter().copied(), tid, last);
        let table = [
            (10, None),
            (11, Some(10)),
            (15, Some(10)),
            (16, Some(15)),
            (20, Some(15)),
            (21, None),
        ];
        for (tid, want) in table {
            assert_eq!(of(&[15, 10], tid, 20), want, "{tid}");
        }
        for (tid, want) in
            [(32760, None), (32761, Some(32760)), (299, Some(32760)), (303, Some(302)), (306, None)]
        {
            assert_eq!(of(&[32760, 302], tid, 305), want, "{tid}");
        }
    }
}
