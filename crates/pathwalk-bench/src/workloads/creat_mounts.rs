//! `creat-mounts`: open with O_CREAT by absolute path, in many mounts under one root.
//!
//! As a server does that serves many trees: 64 mounts, 100 tasks each, every task opens a file of its
//! own. The tasks are multiplexed over the threads: those of a mount run in one thread, so that threads
//! have nothing in common but the root, of which everyone would take a count. In the last case every thread
//! runs the tasks of all mounts.

use std::ffi::CString;

use pathwalk_abi::{Errno, OpenFlags};

use super::{create, mkdir, must, path};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::{Figures, at_least};
use crate::threads;
use crate::workload::{Case, Workload};

const MOUNTS: usize = 64;
const TASKS: usize = 100;
const CASES: [&str; 4] = ["existing", "new", "new, O_EXCL", "existing, all by all"];
/// So many cases have a target.
const AIMED: usize = 3;
/// Files that are made in a mount, and removed, in a round.
const NEW: usize = 8;

pub(crate) struct CreatMounts {
    existing: Vec<CString>,
    /// By thread: the mounts are dealt to so many; where there are more, they meet.
    own: Vec<Vec<CString>>,
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
        let file = |task: usize, mount: usize| path(format!("/m{mount}/t{task}"));
        let new = |thread, at, mount: usize| path(format!("/m{mount}/n{thread}-{at}"));
        let hands = threads::cores().next_power_of_two().min(MOUNTS);
        let own = |thread: usize| (0..MOUNTS).filter(move |mount| mount % hands == thread % hands);
        let each = |count: usize, thread: usize| {
            (0..count).flat_map(move |at| own(thread).map(move |mount| (at, mount)))
        };
        let of_all = (0..TASKS).flat_map(|task| (0..MOUNTS).map(move |mount| (task, mount)));
        Ok(Self {
            existing: of_all.map(|(task, mount)| file(task, mount)).collect(),
            own: (0..hands)
                .map(|hand| each(TASKS, hand).map(|(task, mount)| file(task, mount)).collect())
                .collect(),
            new: (0..threads::most())
                .map(|thread| each(NEW, thread).map(|(at, mount)| new(thread, at, mount)).collect())
                .collect(),
        })
    }

    fn cases(&self) -> Vec<Case> {
        let [own, new] = [&self.own, &self.new].map(|hands| hands[0].len());
        let ops = [own, new, new, self.existing.len()];
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
        let hand = thread % self.own.len();
        if case == 0 || case == AIMED {
            let files = if case == 0 { &self.own[hand] } else { &self.existing };
            // Each thread begins elsewhere, so that they are busy with different tasks.
            let (after, before) = files.split_at(thread * 1601 % files.len());
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
        for case in &CASES[..AIMED] {
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
