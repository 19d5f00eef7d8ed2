//! `may-exec`: what search permission costs, component by component.
//!
//! Six components; the directories are such that everyone may search them, that only their owner may,
//! that an ACL says so, or that their file system has a permission method of its own and must be asked or
//! need not be.

use std::ffi::CString;

use pathwalk_abi::Errno;

use super::{create, mkdir, must, path, repeated};
use crate::Error;
use crate::contender::{Mounted, Worker};
use crate::report::{Figure, Figures, at_least, at_most};
use crate::workload::{Case, Workload};

const OPTED: &str = "asks, opted in";
const CASES: [&str; 5] = ["search-all", "owner-only", "acl", "asks", OPTED];
const TOPS: [&str; 5] = ["/all", "/owner", "/acl", "/asks", "/opted"];
/// Directories on the way, with the top; the last component is a file.
const DIRECTORIES: usize = 5;
const COMPONENTS: f64 = 6.0;
const CALLS: usize = 1000;

/// An ACL as its xattr has it: the owner, user 0 and the mask may search, nobody else may.
const ACL: &[u8] = &[
    2, 0, 0, 0, // the version
    0x01, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, // user::rwx
    0x02, 0, 5, 0, 0, 0, 0, 0, // user:0:r-x
    0x04, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, // group::---
    0x10, 0, 5, 0, 0xff, 0xff, 0xff, 0xff, // mask::r-x
    0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, // other::---
];

pub(crate) struct MayExec {
    files: Vec<CString>,
}

impl Workload for MayExec {
    const NAME: &'static str = "may-exec";
    const ABOUT: &'static str = "access on 6 components, by what decides who may search them";
    const OP: &'static str = "access";
    const FLOOR: bool = true;

    fn new(_quick: bool) -> Result<Self, Error> {
        Ok(Self { files: TOPS.map(|top| path(format!("{top}/d1/d2/d3/d4/file"))).to_vec() })
    }

    fn cases(&self) -> Vec<Case> {
        CASES.map(|name| Case::new(name, CALLS)).to_vec()
    }

    fn setup<W: Worker>(&self, worker: &mut W, _threads: usize) -> Result<(), Error> {
        for (case, top) in TOPS.into_iter().enumerate() {
            let asks = match CASES[case] {
                "asks" => Some(Mounted::Asking { opts_in: false }),
                OPTED => Some(Mounted::Asking { opts_in: true }),
                _ => None,
            };
            let mut dirs = Vec::new();
            let mut text = String::from(top);
            for at in 1..=DIRECTORIES {
                let dir = path(text.as_str());
                mkdir(worker, &dir)?;
                match asks.filter(|_| at == 1).map(|what| worker.mount(what, &dir)) {
                    // Who may not mount has no such file system.
                    None | Some(Ok(()) | Err(Errno::EPERM)) => {}
                    Some(Err(errno)) => return must("mount", Err(errno)),
                }
                text += &format!("/d{at}");
                dirs.push(dir);
            }
            create(worker, &self.files[case])?;
            for dir in dirs.iter().rev() {
                match CASES[case] {
                    "owner-only" => must("chmod", worker.chmod(dir, 0o700))?,
                    "acl" => {
                        must("setxattr", worker.setxattr(dir, c"system.posix_acl_access", ACL))?;
                        match worker.chown(dir, 1, 1) {
                            // Who is not root stays the owner: the ACL's first entry decides.
                            Ok(()) | Err(Errno::EPERM) => {}
                            Err(errno) => return must("chown", Err(errno)),
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn round<W: Worker>(&self, case: usize, _thread: usize, worker: &mut W) -> u64 {
        let file = &self.files[case];
        repeated(CALLS, || worker.access(file).is_ok())
    }

    fn findings(&self, figures: &Figures<'_>) -> Vec<String> {
        let each =
            |case, subject| figures.ns(case, subject, 1).map(|ns| ns.map(|ns| ns / COMPONENTS));
        let said = |what, ns: Option<Figure>| ns.map(|ns| format!("{what}: {ns:.1}."));
        let [own, walking] = ["pathwalk", "without-memo"];
        [
            at_most("Nanoseconds per component", each("search-all", own), 12.0),
            at_most("The same where every path is walked", each("search-all", walking), 12.0),
            said("Nanoseconds per component, asks, opted in", each(OPTED, own)),
            said("The same where every path is walked", each(OPTED, walking)),
            at_least(
                "Percent that the switch of may_exec costs where paths are walked",
                figures.loss("search-all", "without-memo+may_exec", "without-memo"),
                5.0,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
