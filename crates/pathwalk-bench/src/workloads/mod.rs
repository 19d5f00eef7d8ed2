//! The workloads, a file each.

pub(crate) mod big_tree;
pub(crate) mod changes;
pub(crate) mod compile_replay;
pub(crate) mod creat_mounts;
pub(crate) mod depth;
pub(crate) mod gcc_205;
pub(crate) mod hostfs_cold;
pub(crate) mod hostfs_hit;
pub(crate) mod load;
pub(crate) mod may_exec;
pub(crate) mod misses;
pub(crate) mod mount_storm;
pub(crate) mod realpath;
pub(crate) mod scale;
pub(crate) mod statx;
pub(crate) mod tree_walk;
pub(crate) mod wide;
pub(crate) mod writer_elsewhere;

use std::ffi::{CStr, CString};
use std::fmt::Display;

use pathwalk_abi::{Errno, OpenFlags};

use crate::Error;
use crate::contender::Worker;

/// A path as the calls take it.
fn path(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("a path of ours has no NUL")
}

/// Says what was being done when a call failed that may not.
fn must<T>(what: impl Display, result: Result<T, Errno>) -> Result<T, Error> {
    result.map_err(|errno| Error::doing(what, errno))
}

/// Makes a directory that everyone may search.
fn mkdir<W: Worker>(worker: &mut W, dir: &CStr) -> Result<(), Error> {
    must(format_args!("mkdir {}", dir.to_string_lossy()), worker.mkdir(dir, 0o755))
}

/// Makes an empty file.
fn create<W: Worker>(worker: &mut W, file: &CStr) -> Result<(), Error> {
    let flags = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY;
    let made = worker.open(file, flags, 0o644).map(drop);
    must(format_args!("creating {}", file.to_string_lossy()), made)
}

/// Makes a directory, one in it, and so on, so many, and returns their paths with that of the first.
fn chain<W: Worker>(worker: &mut W, first: &str, depth: usize) -> Result<Vec<CString>, Error> {
    let mut dirs = Vec::with_capacity(depth);
    let mut text = String::from(first);
    for at in 0..depth {
        if at > 0 {
            text += &format!("/d{at}");
        }
        let dir = path(text.as_str());
        mkdir(worker, &dir)?;
        dirs.push(dir);
    }
    Ok(dirs)
}

/// One call, so many times.
fn repeated(count: usize, mut call: impl FnMut() -> bool) -> u64 {
    (0..count).map(|_| u64::from(call())).sum()
}
