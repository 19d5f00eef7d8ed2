//! `depth`: how the time of a lookup grows with the number of components.
//!
//! ```text
//!   plain      /p/d1/d2/…
//!   symlinks   /s/l1/l2/…    each lN leads to dN beside it: two components each
//!   dots       /p/d1/../d1/d2/../d2 …
//!   mounts     /m/d1/d2/…    with a file system mounted on each
//! ```

use std::ffi::CString;

use pathwalk_abi::Errno;

use super::{chain, mkdir, must, path, repeated};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::Figures;
use crate::workload::{Case, Workload};

const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const KINDS: [&str; 4] = ["plain", "symlinks", "dots", "mounts"];
/// More symlinks in a path are `ELOOP`, for everyone.
const MOST_LINKS: usize = 32;
const CALLS: usize = 200;

pub(crate) struct Depth {
    cases: Vec<(Case, CString)>,
}

impl Workload for Depth {
    const NAME: &'static str = "depth";
    const ABOUT: &'static str = "access on 1 to 64 components: plain, symlinks, dot-dots, mounts";
    const OP: &'static str = "access";
    const FLOOR: bool = true;

    fn new(_quick: bool) -> Result<Self, Error> {
        let mut cases = Vec::new();
        for kind in KINDS {
            for depth in DEPTHS {
                if kind == "symlinks" && depth > MOST_LINKS {
                    continue;
                }
                let mut text = match kind {
                    "symlinks" => String::from("/s"),
                    "mounts" => String::from("/m"),
                    _ => String::from("/p"),
                };
                for at in 1..depth {
                    text += &match kind {
                        "symlinks" => format!("/l{at}"),
                        "dots" => format!("/d{at}/../d{at}"),
                        _ => format!("/d{at}"),
                    };
                }
                cases.push((Case::new(format!("{kind} {depth}"), CALLS), path(text)));
            }
        }
        Ok(Self { cases })
    }

    fn cases(&self) -> Vec<Case> {
        self.cases.iter().map(|(case, _)| case.clone()).collect()
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        let deepest = DEPTHS[DEPTHS.len() - 1];
        chain(worker, "/p", deepest)?;
        for (at, dir) in chain(worker, "/s", deepest)?.iter().enumerate().take(MOST_LINKS) {
            let link = [dir.to_bytes(), format!("/l{}", at + 1).as_bytes()].concat();
            let target = path(format!("d{}", at + 1));
            must("symlink", worker.symlink(&target, &path(link)))?;
        }
        let mut text = String::from("/m");
        for at in 1..=deepest {
            let dir = path(text.as_str());
            mkdir(worker, &dir)?;
            match worker.mount(Mounted::Memory, &dir) {
                // Who may not mount has plain directories.
                Ok(()) | Err(Errno::EPERM) => {}
                Err(errno) => return must("mount", Err(errno)),
            }
            text += &format!("/d{at}");
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, _thread: usize, worker: &mut W) -> u64 {
        let path = &self.cases[case].1;
        repeated(CALLS, || worker.access(path).is_ok())
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        for kind in KINDS {
            let mut parts = Vec::new();
            for subject in ["pathwalk", "without-memo", "kernel"] {
                let points = DEPTHS.into_iter().filter_map(|depth| {
                    let ns = figures.ns(&format!("{kind} {depth}"), subject, 1)?;
                    Some((depth as f64, ns.value))
                });
                if let Some((intercept, slope)) = line(&points.collect::<Vec<_>>()) {
                    parts.push(format!("{subject} {intercept:.0} + {slope:.1} per component"));
                }
            }
            findings.push(format!("{kind}, nanoseconds: {}.", parts.join(", ")));
        }
        findings
    }
}

/// The straight line through points that has the least squared distances: where it begins, and its slope.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut across, mut along) = (0.0, 0.0);
    for point in points {
        across += (point.0 - x) * (point.1 - y);
        along += (point.0 - x) * (point.0 - x);
    }
    let slope = across / along;
    slope.is_finite().then_some((y - slope * x, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        assert_eq!(line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]), Some((3.0, 2.0)));
        assert_eq!(line(&[(1.0, 5.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
