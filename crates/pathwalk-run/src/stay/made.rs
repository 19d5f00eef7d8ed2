//! Who was made meanwhile by who stayed: it has his one CPU of him.
//!
//! Numbers are given in order, up to the largest: so those who were made since are looked at, whoever their parents are by now. A process is there when it is whole:
//! that takes a while where its maker has much memory, and it has its CPUs of him from the beginning. So it is looked again, some times.

use super::{MOMENT, Stayed};
use crate::{cpu::Cpus, kin, procfs};
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

    /// It was looked, or could not be; whether it is over.
    fn is_over(&mut self, now: Instant, looked: bool) -> bool {
        // What cannot be looked at now is looked at later.
        self.looks += usize::from(looked);
        let wait = LOOKS.get(self.looks).map(|moments| MOMENT * *moments);
        self.next = now + wait.unwrap_or(MOMENT);
        wait.is_none()
    }
}

/// Looks where it is time, and keeps those that are not over; `last` was made last, if that is known.
pub(super) fn look(all: &mut Vec<Made>, last: Option<u32>) {
    let now = Instant::now();
    let due = |made: &Made| made.next <= now;
    let looked = last.is_some_and(|last| let_go(all.iter().filter(|made| due(made)), last).is_ok());
    all.retain_mut(|made| !due(made) || !made.is_over(now, looked));
}

/// Lets those go who were made since these stayed and are there now, where this one was made last. Each number is looked at once, however many
/// stayed since.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked. Not all were let go.
pub(super) fn let_go<'m>(all: impl Iterator<Item = &'m Made>, last: u32) -> Result<()> {
    let (mut cpus, mut since): (Vec<Cpus>, _) = (Vec::new(), Some(last + 1..=last));
    for Made { by, .. } in all {
        if !cpus.contains(&by.cpus) {
            cpus.push(by.cpus);
        }
        let more = numbers(by.after, last);
        since = since.zip(more).map(|(one, other)| *one.start().min(other.start())..=last);
    }
    // Others may be bound there.
    let one = |tid| {
        if let Some(cpus) = cpus.iter().find(|cpus| cpus.has(tid))
            && procfs::is_of_the_program(tid)
        {
            cpus.let_go(tid);
        }
    };
    match since {
        Some(numbers) => numbers.for_each(one),
        None => {
            for process in kin::descendants()? {
                kin::threads_of(process)?.into_iter().for_each(one);
            }
        }
    }
    Ok(())
}

/// The numbers that were given since `after` was, up to `last`; none where they are many, or begin again from the smallest.
fn numbers(after: u32, last: u32) -> Option<RangeInclusive<u32>> {
    let count = last.checked_sub(after)?;
    (count <= MOST_NUMBERS).then(|| after + 1..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_since_where_they_are_few() {
        assert_eq!(numbers(10, 20), Some(11..=20));
        assert!(numbers(10, 10).unwrap().is_empty());
        assert_eq!([numbers(32760, 305), numbers(10, 1 << 20)], [None, None]);
    }
}
