//! Why a call was refused: the component that decided, and whether it is one that was not given.
//!
//! The library is asked to explain the same path, and then the accesses that a call of this kind needs, until one fails as
//! the call did. So what is said is true of the tree; where nothing fails so, nothing is said.

use crate::{
    engine::{Base, Caller},
    table::{Call, Group},
};
use pathwalk::{
    AccessMode, AtFlags, Errno, Task,
    abi::StatfsFlags,
    explain::{Cause, ExplainHow},
};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

/// What is known of a refusal.
#[derive(Debug, Default)]
pub(crate) struct Why {
    /// What is written behind the errno; empty where nothing is known.
    pub(crate) text: String,
    /// It was refused because something was not given.
    pub(crate) denied: bool,
}

/// Says why a call was refused.
pub(crate) fn why(task: &Task, call: &Call, caller: &Caller, errno: Errno) -> Why {
    let refused = matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EROFS);
    let walked = caller.walked.borrow();
    let found = walked.iter().find_map(|(base, path)| explain(task, call.group, base, path, errno));
    match found {
        Some((text, hidden)) => Why { text, denied: refused || hidden },
        None => Why { denied: refused, ..Why::default() },
    }
}

/// The sentence, and whether the host has what is absent.
fn explain(
    task: &Task,
    group: Group,
    base: &Base,
    path: &[u8],
    errno: Errno,
) -> Option<(String, bool)> {
    // Where the walk begins is a task's own.
    let task = task.fork();
    if let Some(known) = base.dir() {
        task.fchdir(&known.file).ok()?;
    }
    let parent = parent(path);
    if errno == Errno::EROFS {
        // A new name and one that goes are written to their directory, whatever a symlink there leads to.
        let file = if group == Group::Names { None } else { read_only(&task, path) };
        return file.or_else(|| read_only(&task, parent)).map(|text| (text, false));
    }
    let none = AccessMode::empty();
    let change = AccessMode::W_OK | AccessMode::X_OK;
    let (follow, nofollow) = (AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW);
    let names = [(path, none, nofollow), (parent, change, follow)];
    let files = [
        (path, none, follow),
        (path, AccessMode::R_OK, follow),
        (path, AccessMode::W_OK, follow),
        (path, AccessMode::X_OK, follow),
        (parent, change, follow),
    ];
    let asked = if group == Group::Names { &names[..] } else { &files[..] };
    asked.iter().find_map(|&(path, access, flags)| {
        let explanation = task.explain(path, ExplainHow { access, flags, ..ExplainHow::default() });
        let failure = explanation.outcome.as_ref().err().filter(|failed| failed.errno == errno)?;
        let mut text = format!(": {}", explanation.because(failure));
        let absent = failure.step.filter(|_| failure.cause == Cause::Absent);
        let hidden = absent.is_some_and(|step| is_on_host(&explanation.path_of(step)));
        if hidden {
            text += "; the host has it";
        }
        Some((text, hidden))
    })
}

/// What says `EROFS` looks at the mount before it looks at permissions, or after, so an access does not tell. The path may be the
/// other one of two.
fn read_only(task: &Task, path: &[u8]) -> Option<String> {
    if task.statfs(path).ok()?.f_flags as u64 & StatfsFlags::RDONLY.bits() == 0 {
        return None;
    }
    let explanation = task.explain(path, ExplainHow::default());
    let there = explanation.path_of(explanation.outcome.as_ref().ok()?.step);
    Some(format!(": {} is on a read-only mount or file system", there.escape_ascii()))
}

/// The directory in which a path's last component is.
fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    match path[..end].iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(slash) => &path[..slash],
        None if end == 0 => path,
        None => b".",
    }
}

fn is_on_host(path: &[u8]) -> bool {
    fs::symlink_metadata(OsStr::from_bytes(path)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::parent;

    #[test]
    fn the_directory_of_a_path() {
        let rows: [(&[u8], &[u8]); 6] = [
            (b"/a/b", b"/a"),
            (b"/a", b"/"),
            (b"a", b"."),
            (b"a/b//", b"a"),
            (b"/", b"/"),
            (b"../a", b".."),
        ];
        for (path, want) in rows {
            assert_eq!(parent(path), want, "{}", path.escape_ascii());
        }
    }
}
