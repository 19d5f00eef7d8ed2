//! What a process under `pathwalk run` is not asked, or not compared, and why: the table is that of `docs/run.md`.

use crate::{
    answer::Answer,
    call::{Call, Step},
    subject::Engine,
};
use pathwalk::{
    AtFlags, Errno, OpenFlags,
    abi::mode::{S_IFMT, S_IFREG, S_ISGID, S_ISUID},
};

/// Whether a call is made within bounds: then by descriptors, whatever its paths begin with.
#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    Some,
    None,
}

/// Something that is left out.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the document says what and why, and a test holds it to this")
)]
struct LeftOut {
    /// What, as the document says it.
    what: &'static str,
    /// Why.
    why: &'static str,
    /// Whether a call is such a one.
    is: fn(&Call, Bounds) -> bool,
}

const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        what: "`FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`",
        why: "they are refused, or answered of the host's file that stands for one",
        is: |call, _| matches!(call, Call::Getflags { .. } | Call::Setflags { .. }),
    },
    LeftOut {
        what: "inotify",
        why: "what is done by descriptors is told a moment later",
        is: |call, _| call.name().starts_with("inotify_"),
    },
    LeftOut {
        what: "`open_tree`, `move_mount`, `mount_setattr`, `statmount`, `listmount`",
        why: "they are refused",
        is: |call, _| {
            matches!(
                call,
                Call::OpenTree { .. }
                    | Call::OpenTreeAttr { .. }
                    | Call::MoveMount { .. }
                    | Call::MountSetattr { .. }
                    | Call::IdmapMount { .. }
            ) || ["statmount", "listmount"].iter().any(|name| call.name().starts_with(name))
        },
    },
    LeftOut {
        what: "`unshare` and `setns` of mount namespaces",
        why: "there is one",
        is: |call, _| {
            matches!(call, Call::UnshareMounts {} | Call::UnshareLess {} | Call::Setns { .. })
        },
    },
    LeftOut {
        what: "a procfs, and mountinfo, which one reads there",
        why: "it is a view of the host's",
        is: |call, _| matches!(call, Call::Mountproc { .. } | Call::Mounts {}),
    },
    LeftOut {
        what: "`mount`, `umount2`, `pivot_root`, `truncate` and calls about extended attributes within bounds, which have none in Linux",
        why: "they are made up of calls by names in a procfs",
        is: |call, bounds| {
            bounds == Bounds::Some
                && matches!(
                    call,
                    Call::Mount { .. }
                        | Call::Bind { .. }
                        | Call::MountTree { .. }
                        | Call::Umount2 { .. }
                        | Call::PivotRoot { .. }
                        | Call::Truncate { .. }
                        | Call::Setxattrat { .. }
                        | Call::Getxattrat { .. }
                        | Call::Listxattrat { .. }
                        | Call::Removexattrat { .. }
                )
        },
    },
    LeftOut {
        what: "modes with a set-id bit",
        why: "the kernel writes a file in memory, and does not tell who wrote it: where some have `CAP_FSETID` and others not, the bits go",
        is: |call, _| match call {
            Call::Openat { mode, .. }
            | Call::Openat2 { mode, .. }
            | Call::Mknodat { mode, .. }
            | Call::Fchmodat2 { mode, .. }
            | Call::Fchmod { mode, .. } => mode.0 & (S_ISUID | S_ISGID) != 0,
            _ => false,
        },
    },
    LeftOut {
        what: "`O_NOATIME`",
        why: "a directory is listed as it was opened first",
        is: |call, _| match call {
            Call::Openat { flags, .. } | Call::Openat2 { flags, .. } => {
                flags.contains(OpenFlags::NOATIME)
            }
            _ => false,
        },
    },
    LeftOut {
        what: "`linkat` from a descriptor with `AT_EMPTY_PATH`",
        why: "who opened the descriptor is not known",
        is: |call, bounds| {
            let Call::Linkat { old, flags, .. } = call else { return false };
            let given = old.dir.is_some() && flags.contains(AtFlags::EMPTY_PATH);
            given || bounds == Bounds::Some
        },
    },
];

/// What is left out otherwise: see [`is_on_path_alone`], [`has_atime`] and [`is_drawn`].
#[cfg(test)]
const OTHERWISE: [(&str, &str); 3] = [
    (
        "reading, writing, seeking and `ftruncate` where Linux answers `EBADF`",
        "what stands for a descriptor with `O_PATH` is an open one: errors are others",
    ),
    ("the time of last access of a regular file", "one in memory is read by the kernel alone"),
    (
        "`pivot_root` as it is drawn; tables with it are held",
        "who stands in the old root stays there, as said above, and one of the tasks always does",
    ),
];

/// Whether a call is drawn.
pub(crate) fn is_drawn(step: &Step) -> bool {
    !is_left_out(step) && !matches!(step.call, Call::PivotRoot { .. })
}

/// Whether a call is left out.
pub(crate) fn is_left_out(Step { call, .. }: &Step) -> bool {
    let (bare, bounds) = match call {
        Call::Within { call, .. } => (&**call, Bounds::Some),
        call => (call, Bounds::None),
    };
    LEFT_OUT.iter().any(|left_out| (left_out.is)(bare, bounds))
}

/// Whether it was refused as it is about a descriptor with `O_PATH`, or one that is not open for that. None with `O_PATH` can be
/// installed in another process.
pub(crate) fn is_on_path_alone(call: &Call, answer: &Answer) -> bool {
    let works_on_open = matches!(
        call,
        Call::Read { .. }
            | Call::Pread { .. }
            | Call::Write { .. }
            | Call::Pwrite { .. }
            | Call::LseekSet { .. }
            | Call::LseekCur { .. }
            | Call::LseekEnd { .. }
            | Call::Ftruncate { .. }
    );
    works_on_open && *answer.without_events() == Answer::Failed(Errno::EBADF)
}

/// Whether the time of last access of such a file is compared.
pub(crate) fn has_atime(engine: Engine, mode: u32) -> bool {
    engine == Engine::Library || mode & S_IFMT != S_IFREG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_shows_this_table() {
        let page = include_str!("../../../../docs/run.md");
        let rows = LEFT_OUT.iter().map(|LeftOut { what, why, .. }| (*what, *why));
        for (what, why) in rows.chain(OTHERWISE) {
            let row = format!("| {what} | {why} |");
            assert!(page.lines().any(|line| line == row), "docs/run.md lacks the row\n{row}");
        }
    }
}
