//! Why a call was refused: the component that decided, and whether it is one that was not given.
//!
//! The library is asked to explain the same path, and then the accesses that a call of this kind needs, until one fails as
//! the call did. Where none does, but the path leads to something of which a call says so, it is said what that is. So what is said is true of
//! the tree; where it is none of these, nothing is said.

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
    let (walked, resolve) = (caller.walked.borrow(), caller.resolve.get());
    let how = ExplainHow { resolve, ..ExplainHow::default() };
    let found = walked.iter().find_map(|(base, path)| {
        let task = from(task, base)?;
        explain(&task, call.group, path, how, errno)
    });
    if let Some((text, hidden)) = found {
        return Why { text, denied: refused || hidden };
    }
    if let (Errno::EXDEV, [old, new]) = (errno, &walked[..]) {
        let text = in_two_mounts(task, old, new).unwrap_or_default();
        return Why { text, denied: refused };
    }
    // Of two paths, what is there already is at the second; of which of them else is not known.
    let one = walked.len() == 1 || matches!(errno, Errno::EEXIST | Errno::ENOTEMPTY);
    let text = walked.last().filter(|_| one).and_then(|(base, path)| {
        let task = from(task, base)?;
        what_is_there(&task, call.group, path, how, errno)
    });
    Why { text: text.unwrap_or_default(), denied: refused }
}

/// A task whose walks begin there.
fn from(task: &Task, base: &Base) -> Option<Task> {
    let task = task.fork();
    if let Some(known) = base.dir() {
        task.fchdir(&known.file).ok()?;
    }
    Some(task)
}

/// The sentence, and whether the host has what is absent.
fn explain(
    task: &Task,
    group: Group,
    path: &[u8],
    how: ExplainHow,
    errno: Errno,
) -> Option<(String, bool)> {
    let parent = parent(path);
    if errno == Errno::EROFS {
        // A new name and one that goes are written to their directory, whatever a symlink there leads to.
        let file = if group == Group::Names { None } else { read_only(task, path) };
        return file.or_else(|| read_only(task, parent)).map(|text| (text, false));
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
        let explanation = task.explain(path, ExplainHow { access, flags, ..how });
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

/// That two names lie in different mounts.
fn in_two_mounts(task: &Task, old: &(Base, Vec<u8>), new: &(Base, Vec<u8>)) -> Option<String> {
    let directory = |(base, path): &(Base, Vec<u8>)| {
        let explanation = from(task, base)?.explain(parent(path), ExplainHow::default());
        let step = explanation.outcome.as_ref().ok()?.step;
        let mount = explanation.steps[step].stand.as_ref()?.mount;
        Some((mount, explanation.path_of(step)))
    };
    let ((old, old_path), (new, new_path)) = (directory(old)?, directory(new)?);
    let paths = (old_path.escape_ascii(), new_path.escape_ascii());
    (old != new).then(|| format!(": {} and {} lie in different mounts", paths.0, paths.1))
}

/// What the path leads to, of which the call wants that it is something else, or not there.
fn what_is_there(
    task: &Task,
    group: Group,
    path: &[u8],
    how: ExplainHow,
    errno: Errno,
) -> Option<String> {
    if errno == Errno::ENOTDIR {
        return explain(task, group, &[path, b"/"].concat(), how, errno).map(|(text, _)| text);
    }
    let flags = match errno {
        Errno::EISDIR | Errno::ENOTEMPTY => AtFlags::empty(),
        Errno::EEXIST | Errno::ELOOP => AtFlags::SYMLINK_NOFOLLOW,
        // That of readlink(2).
        Errno::EINVAL if group == Group::Stat => AtFlags::SYMLINK_NOFOLLOW,
        _ => return None,
    };
    let found = task.explain(path, ExplainHow { flags, ..how }).found()?;
    let empty = if errno == Errno::ENOTEMPTY { ", and not empty" } else { "" };
    Some(format!(": {found}{empty}"))
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
