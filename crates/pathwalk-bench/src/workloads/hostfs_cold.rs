//! `hostfs-cold`: names of a directory of the host that are not cached: what the first use of each costs.

use std::ffi::CString;

use super::{create, mkdir, path};
use crate::Error;
use crate::contender::Worker;
use crate::report::Figures;
use crate::workload::{Case, Guests, Workload};

const DIRS: usize = 100;

/// Files in directories, and names that are not there; many more than there is room for.
pub(crate) struct HostFsCold {
    files: usize,
    lookups: [Vec<CString>; 2],
}

fn file(number: usize) -> CString {
    path(format!("/dir{:02}/file{number:06}", number % DIRS))
}

impl Workload for HostFsCold {
    const NAME: &'static str = "hostfs-cold";
    const ABOUT: &'static str = "names of a directory of the host that are asked for anew";
    const OP: &'static str = "access";
    const GUESTS: Guests = Guests::HostFsWithoutRoom;

    fn new(quick: bool) -> Result<Self, Error> {
        let files = if quick { 4_000 } else { 20_000 };
        let there = (0..files).map(file).collect();
        let absent = (0..files).map(|number| path(format!("/dir{:02}/{number}", number % DIRS)));
        Ok(Self { files, lookups: [there, absent.collect()] })
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("there", self.files), Case::new("not there", self.files)]
    }

    fn files(&self) -> u64 {
        self.files as u64 + 1000
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        (0..DIRS).try_for_each(|dir| mkdir(worker, &path(format!("/dir{dir:02}"))))?;
        (0..self.files).try_for_each(|number| create(worker, &file(number)))
    }

    fn round<W: Worker>(&self, case: usize, _thread: usize, worker: &mut W) -> u64 {
        self.lookups[case].iter().map(|path| u64::from(worker.access(path).is_ok())).sum()
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let finding = |case: &str| {
            let ratio = figures.ratio(case, "hostfs-without-room", "kernel", 1)?;
            Some(format!(
                "{case}: time of a hostfs that asks over that of the kernel, which need not: {ratio:.2}."
            ))
        };
        ["there", "not there"].into_iter().filter_map(finding).collect()
    }
}
