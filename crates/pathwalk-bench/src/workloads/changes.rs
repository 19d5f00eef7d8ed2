//! `create-unlink`, `mkdir-rmdir`, `rename`: changing directories, one's own or one that all share.

use std::ffi::CString;

use pathwalk_abi::OpenFlags;

use super::{create, mkdir, path};
use crate::Error;
use crate::contender::Worker;
use crate::report::{Figures, at_least};
use crate::threads;
use crate::workload::{Case, Workload};

const WHERE: [&str; 2] = ["own directory", "shared directory"];
/// Names of a thread.
const NAMES: usize = 200;

/// The workload of one kind: 0 makes files, 1 makes directories, 2 renames.
pub(crate) struct Changes<const KIND: usize> {
    /// By place and thread: old names and new ones.
    names: [Vec<Vec<(CString, CString)>>; 2],
}

impl<const KIND: usize> Workload for Changes<KIND> {
    const NAME: &'static str = ["create-unlink", "mkdir-rmdir", "rename"][KIND];
    const ABOUT: &'static str = [
        "creating and unlinking files, in own directories and in a shared one",
        "making and removing directories, in own directories and in a shared one",
        "renaming files, in own directories and in a shared one",
    ][KIND];
    const OP: &'static str = ["create+unlink", "mkdir+rmdir", "rename"][KIND];

    fn new(_quick: bool) -> Result<Self, Error> {
        let names = |dir: fn(usize) -> String| {
            let name = |thread, at: usize| {
                let name = |kind| path(format!("{}/{kind}{thread}-{at}", dir(thread)));
                (name("old"), name("new"))
            };
            let of = |thread| (0..NAMES).map(|at| name(thread, at)).collect();
            (0..threads::most()).map(of).collect()
        };
        Ok(Self { names: [names(|thread| format!("/own{thread}")), names(|_| "/shared".into())] })
    }

    fn cases(&self) -> Vec<Case> {
        let ops = if KIND == 2 { 2 * NAMES } else { NAMES };
        WHERE.map(|place| Case::new(place, ops)).to_vec()
    }

    fn files(&self) -> u64 {
        (2 * threads::most() * NAMES) as u64 + 100
    }

    fn setup<W: Worker>(&self, worker: &mut W, threads: usize) -> Result<(), Error> {
        mkdir(worker, c"/shared")?;
        for thread in 0..threads {
            mkdir(worker, &path(format!("/own{thread}")))?;
            if KIND == 2 {
                for (old, _) in self.names.iter().flat_map(|place| &place[thread]) {
                    create(worker, old)?;
                }
            }
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        let Some(names) = self.names[case].get(thread) else { return 0 };
        let mut done = 0;
        for (old, new) in names {
            done += u64::from(match KIND {
                0 => worker.open(old, OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).is_ok(),
                1 => worker.mkdir(old, 0o755).is_ok(),
                _ => worker.rename(old, new).is_ok(),
            });
        }
        for (old, new) in names {
            done += u64::from(match KIND {
                0 => worker.unlink(old).is_ok(),
                1 => worker.rmdir(old).is_ok(),
                _ => worker.rename(new, old).is_ok(),
            });
        }
        done
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for case in WHERE {
            let ratio = figures.ratio(case, "kernel-tmpfs", "pathwalk", 1);
            let what = format!("{case}: pathwalk's rate over tmpfs's, 1 thread");
            findings.extend(at_least(&what, ratio, 3.0));
        }
        let scaling = figures.scaling(WHERE[0], "pathwalk", 2);
        findings.extend(at_least(
            "own directory: pathwalk's rate at 2 threads over that at 1",
            scaling,
            1.8,
        ));
        findings
    }
}
