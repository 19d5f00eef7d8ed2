//! `tree-walk`: every entry of a tree of 10^6, as find does it.
//!
//! Each directory is opened from the one above it and listed; of each entry the attributes are asked for
//! by its name in that directory.

use std::ffi::CStr;

use pathwalk_abi::OpenFlags;

use super::{create, mkdir, path};
use crate::Error;
use crate::contender::Worker;
use crate::dirents::Dirents;
use crate::report::{Figures, at_least};
use crate::workload::{Case, Workload};

const BUFFER: usize = 32 << 10;
/// Levels with entries.
const LEVELS: usize = 3;

pub(crate) struct TreeWalk {
    /// Entries of a directory: directories on the first two levels, files on the third.
    entries: usize,
}

impl TreeWalk {
    fn all(&self) -> usize {
        self.entries + self.entries.pow(2) + self.entries.pow(3)
    }

    /// Lists a directory and all below it; a buffer for each level.
    fn walk<W: Worker>(worker: &mut W, dir: &W::File, bufs: &mut [Vec<u8>]) -> u64 {
        let Some((buf, below)) = bufs.split_first_mut() else { return 0 };
        let mut seen = 0;
        while let Ok(len @ 1..) = worker.getdents(dir, buf) {
            for (name, directory) in Dirents::of(&buf[..len]) {
                if [c".", c".."].contains(&name) {
                    continue;
                }
                seen += u64::from(worker.statx_at(dir, name).is_ok());
                if directory {
                    seen += Self::enter(worker, dir, name, below);
                }
            }
        }
        seen
    }

    fn enter<W: Worker>(worker: &mut W, dir: &W::File, name: &CStr, bufs: &mut [Vec<u8>]) -> u64 {
        match worker.openat(dir, name, OpenFlags::DIRECTORY) {
            Ok(dir) => Self::walk(worker, &dir, bufs),
            Err(_) => 0,
        }
    }
}

impl Workload for TreeWalk {
    const NAME: &'static str = "tree-walk";
    const ABOUT: &'static str = "getdents and statx of every entry of a tree of 10^6";
    const OP: &'static str = "entry";

    fn new(quick: bool) -> Result<Self, Error> {
        Ok(Self { entries: if quick { 15 } else { 100 } })
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("", self.all())]
    }

    fn files(&self) -> u64 {
        // A directory takes a block of its own.
        (self.all() + 20 * self.entries.pow(2)) as u64
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        mkdir(worker, c"/tree")?;
        for one in 0..self.entries {
            mkdir(worker, &path(format!("/tree/d{one}")))?;
            for two in 0..self.entries {
                mkdir(worker, &path(format!("/tree/d{one}/d{two}")))?;
                for three in 0..self.entries {
                    create(worker, &path(format!("/tree/d{one}/d{two}/file{three}")))?;
                }
            }
        }
        Ok(())
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        let Ok(top) = worker.open(c"/tree", OpenFlags::DIRECTORY, 0) else { return 0 };
        let mut bufs = vec![vec![0; BUFFER]; LEVELS];
        Self::walk(worker, &top, &mut bufs)
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let ratio = figures.ratio("", "kernel", "pathwalk", 1);
        at_least("pathwalk's rate over the kernel's, 1 thread", ratio, 5.0).into_iter().collect()
    }
}
