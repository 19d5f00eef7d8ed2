//! The kernel's procfs shows tasks that are not the library's, and more of each.

use super::{Ground, Known};
use crate::answer::COUNTED;

/// A directory that has one of these names is a procfs's, of the top or of a task.
const SHOWS_TASKS: [&[u8]; 2] = [b"thread-self", b"fdinfo"];

/// What the library's procfs shows.
const SHOWN: [&[u8]; 14] = [
    b".",
    b"..",
    b"self",
    b"thread-self",
    b"task",
    b"fd",
    b"fdinfo",
    b"cwd",
    b"root",
    b"exe",
    b"comm",
    b"status",
    b"mounts",
    b"mountinfo",
];

/// What the judge does not look at: what is about the process that makes the calls.
pub(crate) const OF_THE_CALLER: [&[u8]; 6] =
    [b"cwd", b"exe", b"comm", b"status", b"mounts", b"mountinfo"];

/// Leaves of the names of a directory, if it is a procfs's, those that the library's shows too. Which others there are
/// follows from how the kernel was configured: where it is shown, that there are some.
pub(super) fn without_others(names: &mut Vec<(Vec<u8>, u8)>, known: Known) -> bool {
    let of_procfs = names.iter().any(|(name, _)| SHOWS_TASKS.contains(&&**name));
    if of_procfs {
        let all = names.len();
        names.retain(|(name, _)| SHOWN.contains(&&**name));
        if known == Known::Shown && names.len() < all {
            names.push((b"others".into(), 0));
        }
    }
    of_procfs
}

/// Links and size of a file, of which those of a directory count what is in it.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) of_procfs: bool,
    pub(super) directory: bool,
    pub(super) known: Known,
}

impl Counts {
    /// Those of a directory of a procfs count processes and threads, which are the machine's: where it is shown, whether it
    /// does.
    pub(super) fn links(self, links: u64) -> u64 {
        match self.known {
            _ if !self.of_procfs || !self.directory => links,
            Known::Hidden => 0,
            Known::Shown if links > 2 => COUNTED,
            Known::Shown => links,
        }
    }

    /// As well, with descriptors. An ext4 sizes directories in its own way.
    pub(super) fn size(self, size: i64, ground: Ground) -> i64 {
        match self.known {
            _ if !self.directory => size,
            _ if ground == Ground::Ext4 => 0,
            _ if !self.of_procfs => size,
            Known::Hidden => 0,
            Known::Shown if size > 0 => COUNTED as i64,
            Known::Shown => size,
        }
    }
}
