//! `statx`: what it costs to be told about a file, by the way of asking.

use std::ffi::CString;

use pathwalk_abi::OpenFlags;

use super::{create, path, repeated};
use crate::Error;
use crate::contender::Worker;
use crate::report::{Figures, at_most};
use crate::workload::{Case, Workload};

const CALLS: usize = 10_000;
const CASES: [&str; 5] =
    ["fstat", "fstatat \"\"", "statx \"\"", "statx null path", "statx by path"];

pub(crate) struct StatxOf {
    file: CString,
}

impl Workload for StatxOf {
    const NAME: &'static str = "statx";
    const ABOUT: &'static str = "fstat, fstatat and statx of an open file, and statx by path";

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self { file: path("/file") })
    }

    fn cases(&self) -> Vec<Case> {
        CASES.map(|name| Case::new(name, CALLS)).to_vec()
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        create(worker, &self.file)
    }

    fn round<W: Worker>(&self, case: usize, _thread: usize, worker: &mut W) -> u64 {
        // Opened once for thousands of calls, so that opening does not count.
        let Ok(file) = worker.open(&self.file, OpenFlags::RDONLY, 0) else { return 0 };
        match case {
            0 => repeated(CALLS, || worker.fstat(&file).is_ok()),
            1 => repeated(CALLS, || worker.fstatat_empty(&file).is_ok()),
            2 => repeated(CALLS, || worker.statx_empty(&file).is_ok()),
            3 => repeated(CALLS, || worker.statx_null(&file).is_ok()),
            _ => repeated(CALLS, || worker.statx(&self.file).is_ok()),
        }
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for case in &CASES[2..4] {
            let ratio = figures.beside(case, CASES[0], "pathwalk");
            findings.extend(at_most(&format!("pathwalk's {case} over its fstat"), ratio, 1.05));
        }
        let case = "statx \"\"";
        if let Some(loss) = figures.ratio(case, "without-statx", "pathwalk", 1) {
            findings
                .push(format!("Filled field by field, statx \"\" takes {loss:.2} times as long."));
        }
        findings
    }
}
