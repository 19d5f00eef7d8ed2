//! `writer-elsewhere`: whether a lookup feels that somebody changes other directories.
//!
//! One thread asks for a file; another one creates and unlinks, renames, or mounts in directories of its
//! own. The walk shares the root with it and nothing else.

use std::ffi::CStr;

use pathwalk_abi::OpenFlags;

use super::{create, mkdir, repeated};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::Figures;
use crate::workload::{Case, Workload};

const CASES: [&str; 5] =
    ["quiet", "create+unlink", "rename", "rename of a directory", "mount+umount"];
const CALLS: usize = 1000;
const READ: &CStr = c"/read/a/b/file";

pub(crate) struct WriterElsewhere;

impl Workload for WriterElsewhere {
    const NAME: &'static str = "writer-elsewhere";
    const ABOUT: &'static str = "access while another thread creates, renames or mounts elsewhere";
    const OP: &'static str = "access";

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self)
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = CASES.map(|name| Case::new(name, CALLS).disturbed()).to_vec();
        cases[0].disturbed = false;
        cases
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for dir in [c"/read", c"/read/a", c"/read/a/b", c"/write", c"/write/one", c"/write/two"] {
            mkdir(worker, dir)?;
        }
        for dir in [c"/write/one/dir", c"/write/mountpoint"] {
            mkdir(worker, dir)?;
        }
        create(worker, READ)?;
        create(worker, c"/write/one/old")
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        repeated(CALLS, || worker.access(READ).is_ok())
    }

    /// What fails is not done: who may not mount disturbs by trying.
    fn disturb<W: Worker>(&self, case: usize, worker: &mut W) {
        let _ = match CASES[case] {
            "create+unlink" => worker
                .open(c"/write/new", OpenFlags::CREAT | OpenFlags::WRONLY, 0o644)
                .map(drop)
                .and_then(|()| worker.unlink(c"/write/new")),
            "rename" => worker
                .rename(c"/write/one/old", c"/write/two/new")
                .and_then(|()| worker.rename(c"/write/two/new", c"/write/one/old")),
            "rename of a directory" => worker
                .rename(c"/write/one/dir", c"/write/two/dir")
                .and_then(|()| worker.rename(c"/write/two/dir", c"/write/one/dir")),
            "mount+umount" => worker
                .mount(Mounted::Memory, c"/write/mountpoint")
                .and_then(|()| worker.umount(c"/write/mountpoint")),
            _ => Ok(()),
        };
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for case in &CASES[1..] {
            for subject in ["pathwalk", "without-memo"] {
                findings.extend(figures.undisturbed(subject, [case, CASES[0]], 1.1));
            }
            if let Some(ratio) = figures.beside(case, CASES[0], "kernel") {
                findings.push(format!("kernel, {case} over quiet: {ratio:.2}."));
            }
        }
        findings
    }
}
