//! Who was made meanwhile by who stayed: it has his one CPU of him.
//!
//! Numbers are given in order, up to the largest: so those who were made since are looked at, whoever their parents are by now. A process is there when it is whole:
//! that takes a while where its maker has much memory, and it has its CPUs of him from the beginning. So it is looked again, some times.

use super::{MOMENT, Stayed};
use crate::{kin, procfs};
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

    /// Looks, if it is time; whether it is over.
    pub(super) fn is_over(&mut self, last: Option<u32>) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        // What cannot be looked at now is looked at later.
        let looked = last.is_some_and(|last| self.let_go(last).is_ok());
        self.looks += usize::from(looked);
        let wait = LOOKS.get(self.looks).map(|moments| MOMENT * *moments);
        self.next = now + wait.unwrap_or(MOMENT);
        wait.is_none()
    }

    /// Lets those go who were made since then and are there now, where this one was made last.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked. Not all were let go.
    pub(super) fn let_go(&self, last: u32) -> Result<()> {
        match numbers(self.by.after, last) {
            Some(numbers) => numbers.for_each(|tid| self.let_one_go(tid)),
            None => {
                for process in kin::descendants()? {
                    kin::threads_of(process)?.into_iter().for_each(|tid| self.let_one_go(tid));
                }
            }
        }
        Ok(())
    }

    fn let_one_go(&self, tid: u32) {
        // Others may be bound there.
        if self.by.cpus.has(tid) && procfs::is_of_the_program(tid) {
            self.by.cpus.let_go(tid);
        }
    }
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
