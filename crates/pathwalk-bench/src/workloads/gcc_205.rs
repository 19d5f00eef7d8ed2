//! `gcc-205`: the access calls of a real compiler.
//!
//! One run of gcc and ld asks the kernel 205 times whether a file is there; 118 times it is not.
//! `data/gcc-205.tsv` has the calls with their answers, `data/gcc-205.tree` the files they depend
//! on.

use std::ffi::CString;

use crate::Error;
use crate::calls::{self, Call};
use crate::contender::Worker;
use crate::recorder::{Said, sort};
use crate::report::{Figures, at_least};
use crate::tree::Tree;
use crate::workload::{Case, Workload};

/// Returns the files that the calls of [`gcc_205_calls`] depend on.
///
/// # Errors
///
/// None: the file is part of the program, and a test reads it.
pub fn gcc_205_tree() -> Result<Tree, Error> {
    Tree::parse(include_bytes!("../../data/gcc-205.tree"))
        .map_err(|cause| Error::doing("gcc-205.tree", cause))
}

/// Returns the 205 calls in the order in which they were made, with the recorded answers.
///
/// # Errors
///
/// None: the file is part of the program, and a test reads it.
pub fn gcc_205_calls() -> Result<Vec<Call>, Error> {
    calls::parse(include_bytes!("../../data/gcc-205.tsv"))
        .map_err(|cause| Error::doing("gcc-205.tsv", cause))
}

/// The calls, in the order in which they were made.
pub(crate) struct Gcc205 {
    tree: Tree,
    calls: Vec<Call>,
    paths: Vec<CString>,
}

impl Workload for Gcc205 {
    const NAME: &'static str = "gcc-205";
    const ABOUT: &'static str = "the 205 access calls of a real gcc and ld run, 118 of them absent";
    const OP: &'static str = "access";
    const FLOOR: bool = true;

    fn new(_quick: bool) -> Result<Self, Error> {
        let (tree, calls) = (gcc_205_tree()?, gcc_205_calls()?);
        let paths = calls.iter().map(|call| CString::new(&*call.path));
        let paths = paths.collect::<Result<_, _>>().map_err(|nul| Error::doing("gcc-205", nul))?;
        Ok(Self { tree, calls, paths })
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("", self.paths.len())]
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        self.tree.load(worker)
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        self.paths.iter().map(|path| u64::from(worker.access(path).is_ok())).sum()
    }

    fn recorded(&self, _case: usize) -> Option<Vec<Said>> {
        let said =
            |call: &Call| Said { path: (*call.path).into(), call: "access", answer: call.answer };
        let mut recorded: Vec<Said> = self.calls.iter().map(said).collect();
        sort(&mut recorded);
        Some(recorded)
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let rate = figures.ratio("", "kernel", "pathwalk", 1);
        let own = figures.scaling("", "pathwalk", 2);
        [
            at_least("pathwalk's rate over the kernel's, 1 thread", rate, 15.0),
            at_least("pathwalk's rate at 2 threads over that at 1", own, 1.9),
            at_least(
                "Percent that the switch of step_into costs where paths are walked",
                figures.loss("", "without-memo+step_into", "without-memo"),
                4.0,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use pathwalk_abi::FileType;

    use super::*;

    #[test]
    fn the_data_is_what_it_is_said_to_be() {
        let calls = gcc_205_calls().expect("the calls");
        assert_eq!(calls.len(), 205);
        assert_eq!(calls.iter().filter(|call| call.answer.0.is_err()).count(), 118);
        let dotdot = |call: &&Call| call.path.split(|&b| b == b'/').any(|name| name == b"..");
        assert_eq!(calls.iter().filter(dotdot).count(), 42);

        let tree = gcc_205_tree().expect("the tree");
        let count = |kind| tree.entries.iter().filter(|entry| entry.kind == kind).count();
        assert_eq!(tree.entries.len(), 124);
        assert_eq!(count(FileType::Directory), 31);
        assert_eq!(count(FileType::Regular), 69);
        assert_eq!(count(FileType::Symlink), 24);
    }
}
