//! `load`: a tree from a manifest, into a file system that was just mounted; unmounting it counts too.

use pathwalk_abi::FileType;

use super::{mkdir, path};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::{Figures, at_least};
use crate::tree::{Entry, Tree};
use crate::workload::{Case, Workload};

/// Files in a directory.
const FILES: usize = 100;

pub(crate) struct Load {
    tree: Tree,
}

impl Workload for Load {
    const NAME: &'static str = "load";
    const ABOUT: &'static str = "mount, make a tree of 10^4 entries from a manifest, unmount";
    const OP: &'static str = "entry";
    const MOUNTS: bool = true;

    fn new(quick: bool) -> Result<Self, Error> {
        let entry = |kind, mode, text: String| Entry {
            kind,
            mode,
            path: path(text).into_bytes(),
            target: if kind == FileType::Symlink { b"../d0/file0".to_vec() } else { Vec::new() },
        };
        let mut entries = Vec::new();
        for dir in 0..if quick { 10 } else { 100 } {
            entries.push(entry(FileType::Directory, 0o755, format!("/new/d{dir}")));
            for file in 0..FILES - 10 {
                entries.push(entry(FileType::Regular, 0o644, format!("/new/d{dir}/file{file}")));
            }
            for link in 0..9 {
                entries.push(entry(FileType::Symlink, 0o777, format!("/new/d{dir}/link{link}")));
            }
        }
        Ok(Self { tree: Tree { entries } })
    }

    fn cases(&self) -> Vec<Case> {
        vec![Case::new("", self.tree.entries.len()).alone()]
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        mkdir(worker, c"/new")
    }

    fn round<W: Worker>(&self, _case: usize, _thread: usize, worker: &mut W) -> u64 {
        let mut done = u64::from(worker.mount(Mounted::Memory, c"/new").is_ok());
        done += u64::from(self.tree.load(worker).is_ok());
        done + u64::from(worker.umount(c"/new").is_ok())
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let rate = figures.ns("", "pathwalk", 1).map(|ns| ns.map(|ns| 1e3 / ns));
        at_least("pathwalk, million entries per second", rate, 1.0).into_iter().collect()
    }
}
