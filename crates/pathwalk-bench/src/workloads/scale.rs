//! `scale`: whether threads that look up and open files hinder each other.
//!
//! They all use one file, each a file of its own in one directory, or each a tree of its own.

use std::ffi::CString;

use pathwalk_abi::OpenFlags;

use super::{create, mkdir, path, repeated};
use crate::Error;
use crate::contender::Worker;
use crate::report::{Figures, at_least};
use crate::threads;
use crate::workload::{Case, Workload};

const WHERE: [&str; 3] = ["same file", "same directory", "private trees"];
const CALLS: usize = 1000;

pub(crate) struct Scale {
    /// By place and thread.
    files: [Vec<CString>; 3],
}

impl Workload for Scale {
    const NAME: &'static str = "scale";
    const ABOUT: &'static str =
        "stat, and open with close, of the same file, in the same directory, in private trees";
    const TWICE: bool = true;

    fn new(_quick: bool) -> Result<Self, Error> {
        let most = threads::most();
        let files = |of: fn(usize) -> String| (0..most).map(|thread| path(of(thread))).collect();
        Ok(Self {
            files: [
                files(|_| "/same/a/file".to_owned()),
                files(|thread| format!("/same/a/f{thread}")),
                files(|thread| format!("/t{thread}/a/file")),
            ],
        })
    }

    fn cases(&self) -> Vec<Case> {
        ["stat", "open"]
            .iter()
            .flat_map(|call| WHERE.map(|place| Case::new(format!("{call}, {place}"), CALLS)))
            .collect()
    }

    fn files(&self) -> u64 {
        4 * self.files[0].len() as u64 + 100
    }

    fn setup<W: Worker>(&self, worker: &mut W, threads: usize) -> Result<(), Error> {
        mkdir(worker, c"/same")?;
        mkdir(worker, c"/same/a")?;
        create(worker, c"/same/a/file")?;
        for thread in 0..threads {
            mkdir(worker, &path(format!("/t{thread}")))?;
            mkdir(worker, &path(format!("/t{thread}/a")))?;
            create(worker, &self.files[1][thread])?;
            create(worker, &self.files[2][thread])?;
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        let Some(file) = self.files[case % WHERE.len()].get(thread) else { return 0 };
        if case < WHERE.len() {
            repeated(CALLS, || worker.stat(file).is_ok())
        } else {
            repeated(CALLS, || worker.open(file, OpenFlags::RDONLY, 0).is_ok())
        }
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for case in self.cases() {
            for subject in ["pathwalk", "kernel"] {
                let scaling = figures.scaling(&case.name, subject, 2);
                let what = format!("{}: {subject}'s rate at 2 threads over that at 1", case.name);
                match subject {
                    "pathwalk" => findings.extend(at_least(&what, scaling, 1.9)),
                    _ => findings.extend(scaling.map(|scaling| format!("{what}: {scaling:.2}."))),
                }
            }
        }
        findings
    }
}
