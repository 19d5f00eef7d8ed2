//! What a workload is, and all of them by name.
//!
//! A workload makes files, once, and then has *cases*: a number of calls that are made again and again.
//! It is written once, generic over who answers; so the check of the answers and the timed rounds of
//! every contender are the same code.

use crate::Error;
use crate::args::Args;
use crate::contender::Worker;
use crate::recorder::Said;
use crate::report::Figures;
use crate::run;
use crate::workloads::{
    depth::Depth, gcc_205::Gcc205, may_exec::MayExec, misses::Misses, scale::Scale, statx::StatxOf,
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

    /// Makes it, small where only the answers are wanted.
    fn new(quick: bool) -> Result<Self, Error>;

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

    /// The recorded answers of a case, where they do not come from the running kernel.
    fn recorded(&self, _case: usize) -> Option<Vec<Said>> {
        None
    }

    /// What follows from the figures, a sentence each, beside the target where there is one.
    fn findings(&self, _figures: &Figures<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// One part of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Its name in the report; empty if there is only one.
    pub(crate) name: String,
    /// How many operations a round has.
    pub(crate) ops: u64,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, ops: usize) -> Case {
        Case { name: name.into(), ops: ops as u64 }
    }
}

/// A workload as the command line knows it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Measures it.
    pub(crate) run: fn(&Args, threads: usize) -> Result<run::Outcome, Error>,
    /// Is a contender of another process's run.
    pub(crate) work: fn(&Args, threads: usize) -> Result<(), Error>,
}

impl Entry {
    const fn of<W: Workload>() -> Entry {
        Entry { name: W::NAME, about: W::ABOUT, run: run::run::<W>, work: run::work::<W> }
    }
}

/// All workloads, in the order of `pathwalk bench all`.
pub(crate) const ALL: &[Entry] = &[
    Entry::of::<Gcc205>(),
    Entry::of::<MayExec>(),
    Entry::of::<StatxOf>(),
    Entry::of::<Scale>(),
    Entry::of::<Depth>(),
    Entry::of::<Misses>(),
];
