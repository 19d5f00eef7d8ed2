//! `hostfs-hit`: the calls of `gcc-205` on a directory of the host, all of whose names are cached.

use super::gcc_205::Gcc205;
use crate::Error;
use crate::contender::Worker;
use crate::recorder::Said;
use crate::report::{Figures, at_most};
use crate::workload::{Case, Guests, Workload};

/// The calls, in the order in which they were made.
pub(crate) struct HostFsHit(Gcc205);

impl Workload for HostFsHit {
    const NAME: &'static str = "hostfs-hit";
    const ABOUT: &'static str = "the calls of gcc-205 on a directory of the host, cached";
    const OP: &'static str = "access";
    const GUESTS: Guests = Guests::HostFs;

    fn new(quick: bool) -> Result<Self, Error> {
        Gcc205::new(quick).map(Self)
    }

    fn cases(&self) -> Vec<Case> {
        self.0.cases()
    }

    fn setup<W: Worker>(&self, worker: &mut W, threads: usize) -> Result<(), Error> {
        self.0.setup(worker, threads)
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        self.0.round(case, thread, worker)
    }

    fn recorded(&self, case: usize) -> Option<Vec<Said>> {
        self.0.recorded(case)
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let beside = |of, to| figures.ratio("", of, to, 1);
        let exclusive = beside("hostfs-exclusive", "pathwalk");
        let strict = beside("hostfs-strict", "kernel");
        let watched = beside("hostfs-watched", "kernel").map(|ratio| {
            format!("time of a watched hostfs over that of the kernel, 1 thread: {ratio:.2}.")
        });
        [
            at_most("time of an exclusive hostfs over that of a memfs, 1 thread", exclusive, 1.15),
            at_most("time of a strict hostfs over that of the kernel, 1 thread", strict, 1.5),
            watched,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
