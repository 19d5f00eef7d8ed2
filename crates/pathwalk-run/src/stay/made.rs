//! Who was made meanwhile by who stayed: it has his one CPU of him.
//!
//! A process is seen when it is whole: that takes a while where its maker has much memory, and it has its CPUs of him from the beginning. So it is
//! looked again, some times.

use super::MOMENT;
use crate::{cpu::Cpus, kin};
use pathwalk::{Errno, Result};
use std::{collections::HashSet, process::id, time::Instant};

/// So often it is looked at once whether somebody was made meanwhile.
const MOST_LOOKS: usize = 8;
/// After how many moments it is looked, and looked again.
const LOOKS: [u32; 3] = [1, 8, 64];

/// Who stayed, and may have made somebody meanwhile.
pub(super) struct Made {
    cpus: Cpus,
    process: u32,
    /// The number of the process that was made last before.
    after: u64,
    /// So often it was looked, and when it is to be again.
    looks: usize,
    next: Instant,
}

impl Made {
    pub(super) fn new(cpus: Cpus, process: u32, after: u64) -> Self {
        Self { cpus, process, after, looks: 0, next: Instant::now() + MOMENT }
    }

    /// When it is to be looked.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Whether it was not looked yet.
    pub(super) fn is_new(&self) -> bool {
        self.looks == 0
    }

    /// Looks, if it is time; whether it is over.
    pub(super) fn is_over(&mut self, made_last: impl Fn() -> Option<u64>) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        // What cannot be looked at now is looked at later.
        self.looks += usize::from(self.let_go(made_last).is_ok());
        let wait = LOOKS.get(self.looks).map(|moments| MOMENT * *moments);
        self.next = now + wait.unwrap_or(MOMENT);
        wait.is_none()
    }

    /// Whether a thread of this number was made since then, where this one was made last. Numbers come again.
    fn made(&self, tid: u32, last: u64) -> bool {
        let tid = u64::from(tid);
        let (above, below) = (tid > self.after, tid <= last);
        if self.after <= last { above && below } else { above || below }
    }

    /// Lets all go; who is made while it is looked may have one CPU of another one. Who made them may have ended: then they are mostly this
    /// process's children. `made_last` tells who was made last.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked. Not all were let go.
    pub(super) fn let_go(&self, made_last: impl Fn() -> Option<u64>) -> Result<()> {
        let (mut seen, now) = (HashSet::new(), || made_last().ok_or(Errno::EMFILE));
        for _ in 0..MOST_LOOKS {
            let mut processes = vec![self.process];
            processes.extend(kin::below(self.process)?);
            let orphans = kin::children(id(), id())?;
            let last = now()?;
            for orphan in orphans.into_iter().filter(|&tid| self.made(tid, last)) {
                processes.push(orphan);
                processes.extend(kin::below(orphan)?);
            }
            let mut threads = Vec::new();
            for process in processes {
                threads.extend(kin::threads_of(process)?);
            }
            let last = now()?;
            threads.retain(|&tid| self.made(tid, last) && seen.insert(tid));
            if threads.is_empty() {
                break;
            }
            for tid in threads {
                self.cpus.let_go(tid);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Kept;

    #[test]
    fn numbers_come_again() {
        let Some(kept) = Kept::here(id()) else { return };
        let new = |after, last, numbers: [u32; 3]| {
            let made = Made::new(kept.cpus(), 1, after);
            numbers.map(|tid| made.made(tid, last))
        };
        assert_eq!(new(10, 20, [10, 11, 21]), [false, true, false]);
        assert_eq!(new(32760, 305, [32761, 300, 306]), [true, true, false]);
    }
}
