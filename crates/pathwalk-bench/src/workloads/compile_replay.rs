//! `compile-replay`: all path calls of a real compile, in their order.
//!
//! `data/compile.calls` was written by `pathwalk bench record -- gcc …`, with the tree that the calls
//! depend on. Files that the compile makes and leaves are removed at the end of each round, uncounted.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::path::Path;

use crate::Error;
use crate::args::Args;
use crate::calls::{PathCall, Recording, parse_recording};
use crate::contender::Worker;
use crate::report::{Figures, at_least};
use crate::tree::Tree;
use crate::workload::{Case, Workload};

/// Recorded calls and the files that they depend on.
pub(crate) struct Recorded {
    tree: Tree,
    calls: Vec<Recording>,
}

impl Recorded {
    /// What comes with the program.
    pub(super) fn own() -> Result<Self, Error> {
        let tree = include_bytes!("../../data/compile.tree");
        Self::parse(tree, include_bytes!("../../data/compile.calls"))
    }

    /// What the command line says.
    pub(super) fn of(args: &Args) -> Result<Self, Error> {
        let Some(dir) = &args.data else { return Self::own() };
        let read =
            |path: &Path| fs::read(path).map_err(|cause| Error::doing(path.display(), cause));
        Self::parse(&read(&dir.join("recorded.tree"))?, &read(&dir.join("recorded.calls"))?)
    }

    fn parse(tree: &[u8], calls: &[u8]) -> Result<Self, Error> {
        let tree = Tree::parse(tree).map_err(|cause| Error::doing("the recorded tree", cause))?;
        let calls =
            parse_recording(calls).map_err(|cause| Error::doing("the recorded calls", cause))?;
        Ok(Self { tree, calls })
    }

    pub(super) fn load<W: Worker>(&self, worker: &mut W) -> Result<(), Error> {
        self.tree.load(worker)
    }

    /// The paths of the tree's files that were asked for.
    pub(super) fn found(&self) -> impl Iterator<Item = &CString> {
        self.calls.iter().filter(|call| call.found).map(|call| &call.path)
    }

    /// What is there after the calls, and was not before.
    fn left(&self) -> Vec<CString> {
        let before: BTreeSet<&[u8]> = self.tree.entries.iter().map(|entry| &*entry.path).collect();
        let mut left = BTreeSet::new();
        for call in self.calls.iter().filter(|call| call.found) {
            match call.call {
                PathCall::Open(flags) if flags.contains(pathwalk_abi::OpenFlags::CREAT) => {
                    left.insert(&call.path);
                }
                PathCall::Unlink => drop(left.remove(&call.path)),
                _ => {}
            }
        }
        left.into_iter().filter(|path| !before.contains(path.to_bytes())).cloned().collect()
    }
}

pub(crate) struct CompileReplay {
    recorded: Recorded,
    left: Vec<CString>,
}

impl CompileReplay {
    fn from(recorded: Recorded) -> Self {
        let left = recorded.left();
        Self { recorded, left }
    }
}

impl Workload for CompileReplay {
    const NAME: &'static str = "compile-replay";
    const ABOUT: &'static str = "all path calls of a real compile, in their order";
    const REPLAYS: bool = true;

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self::from(Recorded::own()?))
    }

    fn of(args: &Args) -> Result<Self, Error> {
        Ok(Self::from(Recorded::of(args)?))
    }

    fn cases(&self) -> Vec<Case> {
        // It creates and removes: two threads would be in each other's way.
        vec![Case::new("", self.recorded.calls.len()).alone()]
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        self.recorded.load(worker)
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        let mut buf = [0; 4096];
        let mut done = 0;
        for Recording { call, path, .. } in &self.recorded.calls {
            done += u64::from(match call {
                PathCall::Access => worker.access(path).is_ok(),
                PathCall::Stat => worker.stat(path).is_ok(),
                PathCall::Lstat => worker.lstat(path).is_ok(),
                PathCall::Readlink => worker.readlink(path, &mut buf).is_ok(),
                PathCall::Open(flags) => worker.open(path, *flags, 0o644).is_ok(),
                PathCall::Unlink => worker.unlink(path).is_ok(),
            });
        }
        for path in &self.left {
            done += u64::from(worker.unlink(path).is_ok());
        }
        done
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let ratio = figures.ratio("", "kernel", "pathwalk", 1);
        let walked = figures.ratio("", "kernel", "without-memo", 1);
        let mut findings: Vec<String> =
            at_least("pathwalk's rate over the kernel's, 1 thread", ratio, 12.0)
                .into_iter()
                .collect();
        findings.extend(walked.map(|ratio| format!("With every path walked: {ratio:.2}.")));
        findings
    }
}
