//! `misses`: what it costs to be told that a name is not there.
//!
//! Beside each miss stands the hit of the same length. A file system in memory has all its names in the
//! cache; one that is asked for names has what was asked for before.

use std::ffi::CString;

use pathwalk_abi::Errno;

use super::{create, mkdir, must, path};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::{Figures, at_most};
use crate::workload::{Case, Workload};

/// The cases: name, path of the misses or hits, with a number instead of `#`.
const CASES: [(&str, &str); 10] = [
    ("hit", "/memory/a/b/c/here#"),
    ("absent last", "/memory/a/b/c/gone#"),
    ("absent first", "/gone#/a/b/c/here"),
    ("hit in 10^5", "/memory/many/f#"),
    ("absent in 10^5", "/memory/many/g#"),
    ("asked: hit", "/asked/a/b/c/here#"),
    ("asked: absent last", "/asked/a/b/c/gone#"),
    ("asked: absent first", "/asked/gone#/b/c/here"),
    ("asked: hit in 10^5", "/asked/many/f#"),
    ("asked: absent in 10^5", "/asked/many/g#"),
];
/// So many paths of a case are asked for in turns, …
const TURN: usize = 10;
/// … so often, before it is the next ones' turn.
const ROUNDS: usize = 100;

/// The numbers of a case. There are many: whether another name lies in the way of one is by chance.
fn numbers() -> impl ExactSizeIterator<Item = usize> {
    (4_321..54_321).step_by(500)
}

pub(crate) struct Misses {
    paths: Vec<Vec<CString>>,
    many: usize,
}

impl Workload for Misses {
    const NAME: &'static str = "misses";
    const ABOUT: &'static str = "access to names that are not there, beside names that are";
    const OP: &'static str = "access";
    const FLOOR: bool = true;

    fn new(quick: bool) -> Result<Self, Error> {
        let numbered = |text: &str| {
            numbers().map(|number| path(text.replace('#', &format!("{number:07}")))).collect()
        };
        let paths = CASES.iter().map(|(_, text)| numbered(text)).collect();
        Ok(Self { paths, many: if quick { 60_000 } else { 100_000 } })
    }

    fn cases(&self) -> Vec<Case> {
        CASES.iter().map(|(name, _)| Case::new(*name, ROUNDS * numbers().len())).collect()
    }

    fn files(&self) -> u64 {
        2 * self.many as u64
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for (top, what) in [("/memory", None), ("/asked", Some(Mounted::Incomplete))] {
            mkdir(worker, &path(top))?;
            match what.map(|what| worker.mount(what, &path(top))) {
                // Who may not mount has no such file system.
                None | Some(Ok(()) | Err(Errno::EPERM)) => {}
                Some(Err(errno)) => return must("mount", Err(errno)),
            }
            for dir in ["a", "a/b", "a/b/c", "many"] {
                mkdir(worker, &path(format!("{top}/{dir}")))?;
            }
            for number in numbers() {
                create(worker, &path(format!("{top}/a/b/c/here{number:07}")))?;
            }
            for number in 0..self.many {
                create(worker, &path(format!("{top}/many/f{number:07}")))?;
            }
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, _thread: usize, worker: &mut W) -> u64 {
        let mut found = 0;
        for turn in self.paths[case].chunks(TURN) {
            for path in (0..ROUNDS).flat_map(|_| turn) {
                found += u64::from(worker.access(path).is_ok());
            }
        }
        found
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for (miss, hit) in [
            ("absent last", "hit"),
            ("absent first", "hit"),
            ("absent in 10^5", "hit in 10^5"),
            ("asked: absent last", "asked: hit"),
            ("asked: absent first", "asked: hit"),
            ("asked: absent in 10^5", "asked: hit in 10^5"),
        ] {
            for subject in ["pathwalk", "without-memo"] {
                let ratio = figures.beside(miss, hit, subject);
                findings.extend(at_most(&format!("{subject}, {miss} over {hit}"), ratio, 1.0));
            }
        }
        findings
    }
}
