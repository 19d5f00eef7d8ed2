//! Loading a tree into a directory of the host.

use std::os::fd::AsFd;

use pathwalk_abi::FileType;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::Error;
use crate::tree::{Entry, Tree};

/// Makes every file of the tree under `root`, empty; absolute symlinks get `prefix` before them.
///
/// A tree lists only directories above its entries, so no path leads out of `root`.
pub(super) fn load(tree: &Tree, root: impl AsFd, prefix: &[u8]) -> Result<(), Error> {
    let root = root.as_fd();
    for entry in tree.entries.iter().filter(|entry| entry.path != b"/") {
        make(entry, root, prefix).map_err(|cause| failed(entry, cause))?;
    }
    // Last, and what is deepest first: a mode may forbid its owner to go on, and a umask may have
    // taken bits away.
    for entry in tree.entries.iter().rev().filter(|entry| entry.kind != FileType::Symlink) {
        let mode = Mode::from_raw_mode(entry.mode);
        rustix::fs::chmodat(root, relative(entry), mode, AtFlags::empty())
            .map_err(|cause| failed(entry, cause))?;
    }
    Ok(())
}

fn make(entry: &Entry, root: impl AsFd, prefix: &[u8]) -> rustix::io::Result<()> {
    let path = relative(entry);
    match entry.kind {
        FileType::Directory => rustix::fs::mkdirat(root, path, Mode::RWXU),
        FileType::Symlink if entry.target.starts_with(b"/") => {
            rustix::fs::symlinkat([prefix, &entry.target].concat(), root, path)
        }
        FileType::Symlink => rustix::fs::symlinkat(&entry.target, root, path),
        _ => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(root, path, flags, Mode::RUSR | Mode::WUSR).map(drop)
        }
    }
}

/// Returns the path of an entry from the root, which itself is `.`.
fn relative(entry: &Entry) -> &[u8] {
    match entry.path.strip_prefix(b"/") {
        Some(rest) if !rest.is_empty() => rest,
        _ => b".",
    }
}

fn failed(entry: &Entry, cause: rustix::io::Errno) -> Error {
    Error::doing(format_args!("making {}", String::from_utf8_lossy(&entry.path)), cause)
}
