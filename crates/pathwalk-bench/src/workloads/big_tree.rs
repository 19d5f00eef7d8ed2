//! `big-tree`: random lookups in trees that no cache of the processor holds.
//!
//! Files in directories of a thousand, asked for in random order: no two calls are about neighbours, and
//! few about the same file.

use std::ffi::CString;
use std::fs;

use super::{create, mkdir, path};
use crate::Error;
use crate::contender::Worker;
use crate::report::{Figure, Figures, at_most};
use crate::workload::{Case, Workload};

/// Files in a directory.
const FILES: usize = 1000;
/// Lookups of a round.
const LOOKUPS: usize = 50_000;
/// The largest tree, which is asked about where there is memory for it: each contender has one.
const LARGEST: usize = 10_000_000;
/// What the largest tree wants, in all contenders together: a tmpfs takes a kilobyte for a file, pathwalk a third of that, twice.
const LARGEST_WANTS: u64 = 19 << 30;

pub(crate) struct BigTree {
    sizes: Vec<usize>,
    /// By size, in random order.
    paths: Vec<Vec<CString>>,
}

/// The path of a file of a tree of that size.
fn file(size: usize, number: usize) -> CString {
    path(format!("/t{size}/d{}/file{}", number / FILES, number % FILES))
}

/// The memory that nobody uses, in bytes.
fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// How much of this process's memory is in large pages.
fn in_large_pages() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let kilobytes = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    };
    Some(kilobytes("AnonHugePages:")? / kilobytes("Rss:")?)
}

impl BigTree {
    fn of(sizes: &[usize]) -> Self {
        // Always the same order: what is compared in one run must be.
        let mut random = fastrand::Rng::with_seed(205);
        let lookups =
            |size: usize| (0..LOOKUPS).map(|_| file(size, random.usize(..size))).collect();
        let paths = sizes.iter().copied().map(lookups).collect();
        Self { sizes: sizes.to_vec(), paths }
    }
}

impl Workload for BigTree {
    const NAME: &'static str = "big-tree";
    const ABOUT: &'static str =
        "access to random files of trees of 10^3 to 10^7, and what they weigh";
    const OP: &'static str = "access";
    const DROPS: bool = false;

    fn new(quick: bool) -> Result<Self, Error> {
        let sizes = [1_000, 10_000, 100_000, 1_000_000, LARGEST];
        Ok(Self::of(match quick {
            true => &sizes[..2],
            false if available() < LARGEST_WANTS => &sizes[..4],
            false => &sizes,
        }))
    }

    fn cases(&self) -> Vec<Case> {
        self.sizes.iter().map(|size| Case::new(format!("{size} files"), LOOKUPS)).collect()
    }

    fn files(&self) -> u64 {
        self.sizes.iter().sum::<usize>() as u64 * 5 / 4
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for &size in &self.sizes {
            mkdir(worker, &path(format!("/t{size}")))?;
            for number in 0..size {
                if number % FILES == 0 {
                    mkdir(worker, &path(format!("/t{size}/d{}", number / FILES)))?;
                }
                create(worker, &file(size, number))?;
            }
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, thread: usize, worker: &mut W) -> u64 {
        let (after, before) = self.paths[case].split_at(thread * 7919 % LOOKUPS);
        before.iter().chain(after).map(|path| u64::from(worker.access(path).is_ok())).sum()
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for case in self.cases() {
            let ratio = figures.ratio(&case.name, "pathwalk", "kernel", 1);
            let what = format!("{}: pathwalk's time over the kernel's", case.name);
            findings.extend(at_most(&what, ratio, 0.5));
        }
        if !self.sizes.contains(&LARGEST) {
            let wants = LARGEST_WANTS >> 30;
            findings
                .push(format!("{LARGEST} files: not asked, they want {wants} GiB of free memory."));
        }
        if let Some(share) = in_large_pages() {
            findings
                .push(format!("{:.0} % of pathwalk's memory was in large pages.", share * 100.0));
        }
        let all = self.sizes.iter().sum::<usize>() as f64;
        for subject in figures.names {
            let Some(loading) = figures.loading(subject) else { continue };
            let rate = all / loading.time.as_secs_f64() / 1e6;
            findings.push(format!("{subject} made the files at {rate:.2} million per second."));
            let bytes = loading.bytes.map(|bytes| bytes as f64 / all);
            findings.extend(at_most(
                &format!("{subject}, bytes per file"),
                bytes.map(Figure::exact),
                320.0,
            ));
        }
        findings
    }
}
