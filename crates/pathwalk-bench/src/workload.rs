//! What a workload is, and all of them by name.
//!
//! A workload makes files, once, and then has *cases*: a number of calls that are made again and again.
//! It is written once, generic over who answers; so the check of the answers and the timed rounds of
//! every contender are the same code.

use crate::Error;
use crate::args::Args;
use crate::contender::Worker;
use crate::instructions;
use crate::recorder::Said;
use crate::report::Figures;
use crate::run;
use crate::threads;
use crate::workloads::{
    big_tree::BigTree, changes::Changes, compile_replay::CompileReplay, creat_mounts::CreatMounts,
    depth::Depth, gcc_205::Gcc205, hostfs_cold::HostFsCold, hostfs_hit::HostFsHit, load::Load,
    may_exec::MayExec, misses::Misses, mount_storm::MountStorm, realpath::RealPath, scale::Scale,
    statx::StatxOf, tree_walk::TreeWalk, wide::Wide, writer_elsewhere::WriterElsewhere,
};

/// One benchmark.
pub(crate) trait Workload: Send + Sync + Sized + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// What it measures, in one line.
    const ABOUT: &'static str;
    /// What is counted, in the singular.
    const OP: &'static str = "call";
    /// Whether one pass over the bytes of its paths is worth a row.
    const FLOOR: bool = false;
    /// Whether it means nothing without mounts.
    const MOUNTS: bool = false;
    /// Whether it makes the calls of a recording, which may be another one.
    const REPLAYS: bool = false;
    /// Whether it is timed with twice as many threads as there are cores, too.
    const TWICE: bool = false;

    /// Whether the calls make the kernel drop something, which it frees later. Where they do not, nobody waits for that: who
    /// comes back from a rest finds his caches colder than who takes his turn at once.
    const DROPS: bool = true;

    /// Who takes part beside those who always do.
    const GUESTS: Guests = Guests::None;

    /// Makes it, small where only the answers are wanted.
    fn new(quick: bool) -> Result<Self, Error>;

    /// Makes it as the command line wants it.
    fn of(args: &Args) -> Result<Self, Error> {
        Self::new(args.quick)
    }

    /// Its cases, in the order of the report.
    fn cases(&self) -> Vec<Case>;

    /// How many files it has at most, for file systems that must be told before.
    fn files(&self) -> u64 {
        1000
    }

    /// Makes what its calls depend on; `threads` is the number of threads that there will be.
    fn setup<W: Worker>(&self, worker: &mut W, threads: usize) -> Result<(), Error>;

    /// Makes the calls of a case once, in one of the threads, and returns how many succeeded. It leaves
    /// behind what it found, so that the next round is the same.
    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64;

    /// What somebody else does, again and again, beside the threads of a case that is disturbed.
    fn disturb<W: Worker>(&self, _case: usize, _worker: &mut W) {}

    /// The recorded answers of a case, where they do not come from the running kernel.
    fn recorded(&self, _case: usize) -> Option<Vec<Said>> {
        None
    }

    /// What follows from the figures, a sentence each, beside the target where there is one.
    fn findings(&self, _figures: &Figures<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// Who takes part in a workload beside those who always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guests {
    None,
    /// pathwalk on a directory of the host, in each way of noticing what others do.
    HostFs,
    /// pathwalk on a directory of the host, with no room for what it is told.
    HostFsWithoutRoom,
}

/// One part of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Its name in the report; empty if there is only one.
    pub(crate) name: String,
    /// How many operations a round has.
    pub(crate) ops: u64,
    /// Whether there is one thread more, which disturbs.
    pub(crate) disturbed: bool,
    /// It means nothing with more threads.
    pub(crate) most_threads: usize,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, ops: usize) -> Case {
        let (disturbed, most_threads) = (false, usize::MAX);
        Case { name: name.into(), ops: ops as u64, disturbed, most_threads }
    }

    /// The same with somebody who disturbs; he wants a core of his own.
    pub(crate) fn disturbed(self) -> Case {
        let most_threads = threads::cores().saturating_sub(1).max(1);
        Case { disturbed: true, most_threads, ..self }
    }

    /// The same with one thread only.
    pub(crate) fn alone(self) -> Case {
        Case { most_threads: 1, ..self }
    }

    /// How many threads run at most, where there are so many.
    pub(crate) fn threads(&self, threads: usize) -> usize {
        self.most_threads.min(threads)
    }

    /// The numbers of threads it is timed with, of those that the workload is: in the place of those that are too many, as many
    /// as it can have.
    pub(crate) fn counts(&self, of: &[usize]) -> Vec<usize> {
        let mut counts: Vec<usize> = of.iter().map(|&threads| self.threads(threads)).collect();
        counts.dedup();
        counts
    }
}

/// A workload as the command line knows it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Whether it makes the calls of a recording.
    pub(crate) replays: bool,
    /// Measures it.
    pub(crate) run: fn(&Args) -> Result<run::Outcome, Error>,
    /// Is a contender of another process's run.
    pub(crate) work: fn(&Args) -> Result<(), Error>,
    /// Makes the calls of a case while somebody counts its instructions.
    pub(crate) be_counted: fn(subject: &str, case: &str) -> Result<(), Error>,
}

impl Entry {
    const fn of<W: Workload>() -> Entry {
        Entry {
            name: W::NAME,
            about: W::ABOUT,
            replays: W::REPLAYS,
            run: run::run::<W>,
            work: run::work::<W>,
            be_counted: instructions::be_counted::<W>,
        }
    }
}

/// All workloads, in the order of `pathwalk bench all`.
pub(crate) const ALL: &[Entry] = &[
    Entry::of::<Gcc205>(),
    Entry::of::<CompileReplay>(),
    Entry::of::<RealPath>(),
    Entry::of::<MayExec>(),
    Entry::of::<StatxOf>(),
    Entry::of::<CreatMounts>(),
    Entry::of::<Scale>(),
    Entry::of::<WriterElsewhere>(),
    Entry::of::<Depth>(),
    Entry::of::<Misses>(),
    Entry::of::<BigTree>(),
    Entry::of::<Wide>(),
    Entry::of::<Changes<0>>(),
    Entry::of::<Changes<1>>(),
    Entry::of::<Changes<2>>(),
    Entry::of::<MountStorm>(),
    Entry::of::<TreeWalk>(),
    Entry::of::<Load>(),
    Entry::of::<HostFsHit>(),
    Entry::of::<HostFsCold>(),
];
