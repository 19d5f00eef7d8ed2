//! Whom the view lets, where that is not for the mode bits alone to say.
//!
//! Linux: `proc_pid_instantiate`, `proc_fd_permission`, `proc_sys_permission`.

use super::{ProcView, are_one_process};
use crate::hidden::{Hidden, number};
use pathwalk::{Attr, Errno, FileType, InodeRef, Result, Subject, fs::Access};
use std::sync::atomic::Ordering::Relaxed;

/// Who may do what with a file of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// As its mode says.
    Mode,
    /// The same, but for this process's threads it is open.
    Own(u32),
    /// The machine's settings: as their mode says, also to who has capabilities.
    Setting,
}

impl Rule {
    pub(super) fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').take(5).collect();
        match parts[..] {
            ["sys", ..] => Self::Setting,
            [top, "fd" | "map_files"] | [top, "task", _, "fd"] => {
                number(top).map_or(Self::Mode, Self::Own)
            }
            _ => Self::Mode,
        }
    }
}

/// Whether nobody changes it: the directory of a process or a thread, and a namespace.
pub(super) fn is_immutable(path: &str) -> bool {
    match path.split('/').take(4).collect::<Vec<_>>()[..] {
        [top] => number(top).is_some() || matches!(Hidden::of(top), Some(Hidden::Namespace(..))),
        [top, "task", thread] => number(top).is_some() && number(thread).is_some(),
        _ => false,
    }
}

impl ProcView {
    /// Whether who asks may have this access.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it may not.
    pub(super) fn may(&self, inode: InodeRef<'_>, access: Access, who: &Subject<'_>) -> Result<()> {
        let generic = || inode.generic_permission(access, who);
        match self.rule(inode) {
            Rule::Mode => generic(),
            Rule::Own(process) => generic().or_else(|errno| {
                let own = are_one_process(process, self.asker.0.tid.load(Relaxed));
                if own { Ok(()) } else { Err(errno) }
            }),
            Rule::Setting => may_set(&inode.attr(), access, who),
        }
    }

    fn rule(&self, inode: InodeRef<'_>) -> Rule {
        let nodes = self.nodes.lock();
        nodes.paths.get(&inode.node()).map_or(Rule::Mode, |(path, _)| Rule::of(path))
    }
}

/// Settings are root's; no capability makes anybody else root.
///
/// Linux: `sysctl_perm`, `test_perm`.
fn may_set(attr: &Attr, access: Access, who: &Subject<'_>) -> Result<()> {
    let class = match () {
        () if who.fsuid == 0 => attr.mode >> 6,
        () if who.in_group(0) => attr.mode >> 3,
        () => attr.mode,
    };
    let executes = access.contains(Access::EXEC) && attr.file_type() == FileType::Regular;
    let may = Access::from_bits_truncate(class).contains(access);
    if may && !executes { Ok(()) } else { Err(Errno::EACCES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_which_rule_it_goes_by() {
        for (path, rule) in [
            ("", Rule::Mode),
            ("12", Rule::Mode),
            ("12/task", Rule::Mode),
            ("12/task/13", Rule::Mode),
            ("12/task/13/fd", Rule::Own(12)),
            ("12/fd", Rule::Own(12)),
            ("12/fd/3", Rule::Mode),
            ("12/map_files", Rule::Own(12)),
            ("12/status", Rule::Mode),
            ("self", Rule::Mode),
            ("sys", Rule::Setting),
            ("sys/kernel/ostype", Rule::Setting),
            ("sysvipc/shm", Rule::Mode),
            (".fd-12-3", Rule::Mode),
            (".ns-12-net", Rule::Mode),
        ] {
            assert_eq!(Rule::of(path), rule, "{path}");
            let fixed = ["12", "12/task/13", ".ns-12-net"].contains(&path);
            assert_eq!(is_immutable(path), fixed, "{path}");
        }
    }
}
