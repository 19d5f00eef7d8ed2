//! `pathwalk bench record -- COMMAND`: writes down a command's calls about paths, and the tree they
//! depend on.
//!
//! The tree is looked at after the command ended: what it created is left out, so that it is created again
//! when the calls are made again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pathwalk_abi::OpenFlags;

use crate::Error;
use crate::args::Args;
use crate::calls::PathCall;
use crate::trace::{self, Traced};

/// Symlinks on one path, as for Linux.
const MOST_LINKS: u32 = 40;

/// Runs the command and writes `recorded.calls` and `recorded.tree`.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let failed = |cause: std::io::Error| Error::doing("recording", cause);
    let log = tempfile::NamedTempFile::new().map_err(failed)?;
    let status = Command::new("strace")
        .args(["-f", "-y", "-s", "8192", "-e", "trace=%file", "-o"])
        .arg(log.path())
        .arg("--")
        .args(&args.command)
        .status()
        .map_err(|cause| Error::doing("starting strace", cause))?;
    if !status.success() {
        return Err(Error::new(format!("the command failed: {status}")));
    }
    let text = fs::read(log.path()).map_err(failed)?;
    let cwd = std::env::current_dir().map_err(failed)?;
    let (calls, others) = trace::parse(&String::from_utf8_lossy(&text), &cwd.to_string_lossy());
    let dir = folder(args);
    let written = |cause| Error::doing(format_args!("writing to {}", dir.display()), cause);
    fs::create_dir_all(&dir).map_err(written)?;
    fs::write(dir.join("recorded.calls"), lines(&calls)).map_err(written)?;
    fs::write(dir.join("recorded.tree"), tree(&calls)).map_err(written)?;
    let (count, dir) = (calls.len(), dir.display());
    eprintln!("pathwalk bench: {count} calls written to {dir}; {others} of other kinds left out");
    Ok(())
}

/// Where it is written.
pub(crate) fn folder(args: &Args) -> PathBuf {
    args.out.clone().unwrap_or_else(|| PathBuf::from("recorded"))
}

/// The text of a `.calls` file.
fn lines(calls: &[Traced]) -> Vec<u8> {
    let mut text = Vec::new();
    for Traced { call, path, answer } in calls.iter().filter(|call| is_writable(&call.path)) {
        text.extend_from_slice(call.word().as_bytes());
        text.push(b'\t');
        text.extend_from_slice(path.to_bytes());
        text.extend_from_slice(format!("\t{answer}\n").as_bytes());
    }
    text
}

/// Tabs and newlines cannot be written.
fn is_writable(path: &std::ffi::CStr) -> bool {
    !path.to_bytes().iter().any(|byte| matches!(byte, b'\t' | b'\n'))
}

/// The text of a `.tree` file with what the calls met.
fn tree(calls: &[Traced]) -> Vec<u8> {
    let mut made = BTreeSet::new();
    let mut met = BTreeSet::new();
    for call in calls.iter().filter(|call| call.answer == "OK" && is_writable(&call.path)) {
        let path = PathBuf::from(std::ffi::OsString::from_vec(call.path.to_bytes().to_vec()));
        match call.call {
            PathCall::Open(flags) if flags.contains(OpenFlags::CREAT) && !met.contains(&path) => {
                made.insert(path);
            }
            _ => drop(met.insert(path)),
        }
    }
    let mut entries = BTreeMap::new();
    for call in calls.iter().filter(|call| is_writable(&call.path)) {
        follow(Path::new(std::ffi::OsStr::from_bytes(call.path.to_bytes())), &mut entries);
    }
    let mut text = Vec::new();
    for (path, line) in entries.into_iter().filter(|(path, _)| !made.contains(path)) {
        let (kind, mode, target) = line;
        text.extend_from_slice(format!("{kind}\t{mode:04o}\t").as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(b'\t');
        text.extend_from_slice(target.as_os_str().as_bytes());
        text.push(b'\n');
    }
    text
}

/// Enters all files on the way to a path, as far as they are there: type, mode, and what a symlink
/// holds.
fn follow(path: &Path, entries: &mut BTreeMap<PathBuf, (char, u32, PathBuf)>) {
    let mut rest: Vec<PathBuf> = names(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name.as_os_str() == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let Ok(meta) = fs::symlink_metadata(&next) else { return };
        let mode = meta.permissions().mode() & 0o7777;
        let target = fs::read_link(&next).unwrap_or_default();
        if meta.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return;
            }
            rest.extend(names(&target));
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            entries.insert(next, ('l', 0o777, target));
        } else if meta.is_dir() {
            entries.insert(next.clone(), ('d', mode, target));
            at = next;
        } else {
            entries.insert(next, ('f', mode, target));
            return;
        }
    }
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<PathBuf> {
    let names = path.as_os_str().as_bytes().split(|&byte| byte == b'/');
    let names = names.filter(|name| !matches!(*name, b"" | b"."));
    let names = names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name)));
    let mut names: Vec<PathBuf> = names.collect();
    names.reverse();
    names
}
