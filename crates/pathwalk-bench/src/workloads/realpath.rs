//! `realpath`: the canonical paths of what a compile uses.
//!
//! pathwalk does it in one walk. For the kernel it is what gcc has its C library do: a readlink for each
//! prefix of each path.

use std::ffi::CString;

use super::compile_replay::Recorded;
use crate::Error;
use crate::args::Args;
use crate::contender::Worker;
use crate::report::{Figures, at_least};
use crate::workload::{Case, Workload};

pub(crate) struct RealPath {
    recorded: Recorded,
    paths: Vec<CString>,
}

impl RealPath {
    fn from(recorded: Recorded) -> Self {
        let mut paths: Vec<CString> = recorded.found().cloned().collect();
        paths.sort();
        paths.dedup();
        Self { recorded, paths }
    }
}

impl Workload for RealPath {
    const NAME: &'static str = "realpath";
    const ABOUT: &'static str = "the canonical path of each file that a compile uses";
    const OP: &'static str = "realpath";
    const REPLAYS: bool = true;

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self::from(Recorded::own()?))
    }

    fn of(args: &Args) -> Result<Self, Error> {
        Ok(Self::from(Recorded::of(args)?))
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("", self.paths.len())]
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        self.recorded.load(worker)
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        let mut buf = [0; 4096];
        self.paths.iter().map(|path| u64::from(worker.realpath(path, &mut buf).is_ok())).sum()
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let ratio = figures.ratio("", "kernel", "pathwalk", 1);
        at_least("pathwalk's rate over the kernel's, 1 thread", ratio, 50.0).into_iter().collect()
    }
}
