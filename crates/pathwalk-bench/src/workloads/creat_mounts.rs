//! `creat-mounts`: open with O_CREAT by absolute path, in many mounts under one root.
//!
//! As a server does that serves many trees: 64 mounts, 100 tasks each, every task opens a file of its
//! own. The tasks are multiplexed over the threads. All paths begin at the root, so a count of the root
//! would be taken by everyone.

use std::ffi::CString;

use pathwalk_abi::{Errno, OpenFlags};

use super::{create, mkdir, must, path};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::{Figures, at_least};
use crate::workload::{Case, Workload};

const MOUNTS: usize = 64;
const TASKS: usize = 100;
const CASES: [&str; 3] = ["existing", "new", "new, O_EXCL"];
/// Files that are made, and removed, in a round.
const NEW: usize = MOUNTS * 4;

pub(crate) struct CreatMounts {
    existing: Vec<CString>,
    /// By thread.
    new: Vec<Vec<CString>>,
}

impl Workload for CreatMounts {
    const NAME: &'static str = "creat-mounts";
    const ABOUT: &'static str =
        "open(O_CREAT)+close by absolute path, in 64 mounts, by 100 tasks each";
    const OP: &'static str = "open+close";

    fn new(_quick: bool) -> Result<Self, Error> {
        // The tasks take turns: no two calls one after the other are in the same mount.
        let file = |at: usize| path(format!("/m{}/t{}", at % MOUNTS, at / MOUNTS));
        let new = |thread: usize, at: usize| path(format!("/m{}/n{thread}-{at}", at % MOUNTS));
        Ok(Self {
            existing: (0..MOUNTS * TASKS).map(file).collect(),
            new: (0..256).map(|thread| (0..NEW).map(|at| new(thread, at)).collect()).collect(),
        })
    }

    fn cases(&self) -> Vec<Case> {
        let ops = [self.existing.len(), NEW, NEW];
        CASES.iter().zip(ops).map(|(name, ops)| Case::new(*name, ops)).collect()
    }

    fn files(&self) -> u64 {
        10_000
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for mount in 0..MOUNTS {
            let dir = path(format!("/m{mount}"));
            mkdir(worker, &dir)?;
            match worker.mount(Mounted::Memory, &dir) {
                // Who may not mount has plain directories.
                Ok(()) | Err(Errno::EPERM) => {}
                Err(errno) => return must("mount", Err(errno)),
            }
        }
        self.existing.iter().try_for_each(|file| create(worker, file))
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        let flags = OpenFlags::CREAT | OpenFlags::RDWR;
        if case == 0 {
            // Each thread begins elsewhere, so that they are busy with different tasks.
            let (after, before) = self.existing.split_at(thread * 1601 % self.existing.len());
            let opened = before.iter().chain(after).map(|file| worker.open(file, flags, 0o644));
            return opened.map(|opened| u64::from(opened.is_ok())).sum();
        }
        let Some(files) = self.new.get(thread) else { return 0 };
        let flags = if case == 2 { flags | OpenFlags::EXCL } else { flags };
        let made = files.iter().map(|file| u64::from(worker.open(file, flags, 0o644).is_ok()));
        let made: u64 = made.sum();
        made + files.iter().map(|file| u64::from(worker.unlink(file).is_ok())).sum::<u64>()
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for case in CASES {
            let scaling = figures.scaling(case, "pathwalk", 2);
            let what = format!("{case}: pathwalk's rate at 2 threads over that at 1");
            findings.extend(at_least(&what, scaling, 1.9));
        }
        if let Some(loss) = figures.ratio("existing", "without-forget_root", "pathwalk", 2) {
            findings.push(format!(
                "With the root counted by everyone, existing takes {loss:.2} times as long at 2 threads."
            ));
        }
        findings.push("New files are counted with their unlink.".to_owned());
        findings
    }
}
