//! `mount-storm`: many mounts, and more that come and go beside lookups.

use std::ffi::{CStr, CString};

use super::{create, mkdir, must, path, repeated};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::{Figures, at_least};
use crate::threads;
use crate::workload::{Case, Workload};

const QUIET: &str = "access, quiet";
const BESIDE: &str = "access beside mount+umount";
const THROUGH_QUIET: &str = "access in one of the mounts, quiet";
const THROUGH: &str = "access in one of the mounts, beside mount+umount";
const MOUNT: &str = "mount+umount";
const CALLS: usize = 1000;
/// Mounts made and taken away in a round.
const PAIRS: usize = 10;
const FILE: &CStr = c"/a/b/c/file";
const INSIDE: &CStr = c"/many/m0/file";

pub(crate) struct MountStorm {
    present: usize,
    /// Each thread mounts in a directory of its own.
    own: Vec<CString>,
}

impl Workload for MountStorm {
    const NAME: &'static str = "mount-storm";
    const ABOUT: &'static str = "mount+umount and lookups, with 10^4 mounts present";
    const MOUNTS: bool = true;

    fn new(quick: bool) -> Result<Self, Error> {
        let own = (0..threads::most()).map(|thread| path(format!("/own{thread}"))).collect();
        Ok(Self { present: if quick { 100 } else { 10_000 }, own })
    }

    fn cases(&self) -> Vec<Case> {
        let beside = |name| Case::new(name, CALLS).disturbed();
        let quiet = |name| Case { disturbed: false, ..beside(name) };
        vec![
            quiet(QUIET),
            beside(BESIDE),
            quiet(THROUGH_QUIET),
            beside(THROUGH),
            Case::new(MOUNT, PAIRS),
        ]
    }

    fn files(&self) -> u64 {
        // A directory takes a block of its own.
        20 * self.present as u64
    }

    fn setup<W: Worker>(&self, worker: &mut W, threads: usize) -> Result<(), Error> {
        for dir in [c"/a", c"/a/b", c"/a/b/c", c"/spare", c"/many"] {
            mkdir(worker, dir)?;
        }
        create(worker, FILE)?;
        for dir in self.own.iter().take(threads) {
            mkdir(worker, dir)?;
        }
        for number in 0..self.present {
            let dir = path(format!("/many/m{number}"));
            mkdir(worker, &dir)?;
            must("mount", worker.mount(Mounted::Memory, &dir))?;
        }
        create(worker, INSIDE)
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        match case {
            0 | 1 => repeated(CALLS, || worker.access(FILE).is_ok()),
            2 | 3 => repeated(CALLS, || worker.access(INSIDE).is_ok()),
            _ => {
                let Some(dir) = self.own.get(thread) else { return 0 };
                repeated(PAIRS, || {
                    worker.mount(Mounted::Memory, dir).and_then(|()| worker.umount(dir)).is_ok()
                })
            }
        }
    }

    fn disturb<W: Worker>(&self, _case: usize, worker: &mut W) {
        // Setup has mounted before: it can be done.
        let _ = worker.mount(Mounted::Memory, c"/spare").and_then(|()| worker.umount(c"/spare"));
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for subject in ["pathwalk", "without-memo"] {
            findings.extend(figures.undisturbed(subject, [BESIDE, QUIET], 1.1));
            findings.extend(figures.undisturbed(subject, [THROUGH, THROUGH_QUIET], 1.1));
        }
        let ratio = figures.ratio(MOUNT, "kernel", "pathwalk", 1);
        findings.extend(at_least("pathwalk's rate of mount+umount over the kernel's", ratio, 10.0));
        findings
    }
}
