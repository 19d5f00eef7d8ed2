//! `wide`: one directory with 10^6 entries, beside one with 10^3.

use std::ffi::CString;

use pathwalk_abi::OpenFlags;

use super::{create, mkdir, path};
use crate::Error;
use crate::contender::Worker;
use crate::dirents::Dirents;
use crate::report::Figures;
use crate::workload::{Case, Workload};

const NARROW: usize = 1000;
/// Lookups of a round.
const LOOKUPS: usize = 20_000;
/// Files that are made, and removed, in a round.
const NEW: usize = 200;
const BUFFER: usize = 32 << 10;

pub(crate) struct Wide {
    wide: usize,
    /// In the narrow directory, and in the wide one: random files.
    lookups: [Vec<CString>; 2],
}

fn file(dir: &str, number: usize) -> CString {
    path(format!("/{dir}/file{number:07}"))
}

const DIRS: [&str; 2] = ["narrow", "wide"];

impl Workload for Wide {
    const NAME: &'static str = "wide";
    const ABOUT: &'static str =
        "lookup, create+unlink and getdents in directories of 10^3 and 10^6 entries";

    fn new(quick: bool) -> Result<Self, Error> {
        let wide = if quick { 20_000 } else { 1_000_000 };
        let mut random = fastrand::Rng::with_seed(205);
        let mut lookups = |dir: &str, size: usize| {
            (0..LOOKUPS).map(|_| file(dir, random.usize(..size))).collect::<Vec<_>>()
        };
        Ok(Self { wide, lookups: [lookups(DIRS[0], NARROW), lookups(DIRS[1], wide)] })
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (dir, size) in DIRS.into_iter().zip([NARROW, self.wide]) {
            cases.push(Case::new(format!("access, {dir}"), LOOKUPS));
            cases.push(Case::new(format!("create+unlink, {dir}"), NEW));
            cases.push(Case::new(format!("getdents per entry, {dir}"), size).alone());
        }
        cases
    }

    fn files(&self) -> u64 {
        self.wide as u64 + 10_000
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for (dir, size) in DIRS.into_iter().zip([NARROW, self.wide]) {
            mkdir(worker, &path(format!("/{dir}")))?;
            (0..size).try_for_each(|number| create(worker, &file(dir, number)))?;
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        let dir = DIRS[case / 3];
        match case % 3 {
            0 => {
                let (after, before) = self.lookups[case / 3].split_at(thread * 7919 % LOOKUPS);
                before.iter().chain(after).map(|path| u64::from(worker.access(path).is_ok())).sum()
            }
            1 => {
                let mut done = 0;
                for number in 0..NEW {
                    let file = path(format!("/{dir}/new{thread}-{number}"));
                    let flags = OpenFlags::CREAT | OpenFlags::WRONLY;
                    done += u64::from(worker.open(&file, flags, 0o644).is_ok());
                    done += u64::from(worker.unlink(&file).is_ok());
                }
                done
            }
            _ => {
                let flags = OpenFlags::DIRECTORY;
                let Ok(dir) = worker.open(&path(format!("/{dir}")), flags, 0) else { return 0 };
                let mut buf = vec![0; BUFFER];
                let mut entries = 0;
                while let Ok(len @ 1..) = worker.getdents(&dir, &mut buf) {
                    entries += Dirents::of(&buf[..len]).count() as u64;
                }
                entries
            }
        }
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for call in ["access", "create+unlink", "getdents per entry"] {
            for subject in ["pathwalk", "kernel"] {
                let [narrow, wide] = DIRS.map(|dir| format!("{call}, {dir}"));
                if let Some(ratio) = figures.beside(&wide, &narrow, subject) {
                    findings.push(format!("{subject}, {call}, wide over narrow: {ratio:.2}."));
                }
            }
        }
        findings
    }
}
