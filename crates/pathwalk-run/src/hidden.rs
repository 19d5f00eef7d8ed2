//! Files at the top of the view of `/proc` that nobody lists: what links of processes lead to that has no place in the tree.

use crate::{
    procfs,
    sys::{answer, process},
};
use pathwalk::Result;
use rustix::fs::{self, AtFlags, StatxAttributes, StatxFlags};
use std::os::fd::OwnedFd;

/// What a hidden file stands for, of which thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    Descriptor(u32, u32),
    Namespace(u32, String),
}

impl Hidden {
    /// By its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if let Some((pid, fd)) = name.strip_prefix(".fd-").and_then(|rest| rest.split_once('-')) {
            return Some(Self::Descriptor(number(pid)?, fd.parse().ok()?));
        }
        let (pid, kind) = name.strip_prefix(".ns-")?.split_once('-')?;
        let plain = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        Some(Self::Namespace(number(pid)?, kind.to_owned())).filter(|_| plain)
    }

    /// By the link that leads to it: `PID/fd/N`, `PID/task/TID/fd/N`, and the same with `ns/NAME`.
    pub(crate) fn by_link(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            [pid, "fd", fd] | [_, "task", pid, "fd", fd] => {
                Some(Self::Descriptor(number(pid)?, fd.parse().ok()?))
            }
            [pid, "ns", kind] | [_, "task", pid, "ns", kind] => {
                Some(Self::Namespace(number(pid)?, kind.to_owned()))
            }
            _ => None,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Descriptor(tid, fd) => format!(".fd-{tid}-{fd}"),
            Self::Namespace(tid, kind) => format!(".ns-{tid}-{kind}"),
        }
    }

    /// The host's link.
    pub(crate) fn link(&self) -> String {
        match self {
            Self::Descriptor(tid, fd) => format!("{tid}/fd/{fd}"),
            Self::Namespace(tid, kind) => format!("{tid}/ns/{kind}"),
        }
    }

    pub(crate) fn tid(&self) -> u32 {
        match self {
            Self::Descriptor(tid, _) | Self::Namespace(tid, _) => *tid,
        }
    }
}

/// Whether a file of the host's has no name there, as memory, a pipe and a socket: for the host it belongs to who started this, and in the
/// tree to who has it.
pub(crate) fn is_nameless(mode: u32, nlink: u64) -> bool {
    let kind = fs::FileType::from_raw_mode(mode);
    nlink == 0 || matches!(kind, fs::FileType::Fifo | fs::FileType::Socket)
}

/// A number as the kernel writes it in `/proc`.
pub(crate) fn number(name: &str) -> Option<u32> {
    let canonical = name.bytes().all(|byte| byte.is_ascii_digit()) && !name.starts_with('0');
    if canonical { name.parse().ok() } else { None }
}

/// Whether a descriptor is one of a procfs, wherever that is mounted, that tells of a process those alone who may trace it: opened
/// anew it would tell of whatever the process runs by now, be it this. One that is mounted by itself may be any.
pub(crate) fn is_private(fd: &OwnedFd) -> Result<bool> {
    // Of a file system that does not say, it is none.
    if !fs::fstatfs(fd).is_ok_and(|stat| stat.f_type == procfs::MAGIC as i64) {
        return Ok(false);
    }
    let stat = answer(fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::empty()))?;
    if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(true);
    }
    let path = answer(fs::readlink(process::by_number(fd), Vec::new()))?.into_bytes();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(&path);
    let mut names = path.rsplit(|&byte| byte == b'/');
    let [name, above] = [names.next(), names.next()];
    let is = |name: Option<&[u8]>| procfs::PRIVATE.iter().any(|one| Some(one.as_bytes()) == name);
    // Of those directories all is; what lies in the third is the machine's.
    Ok(match above {
        Some(b"fdinfo" | b"map_files") => true,
        Some(b"pressure") => false,
        _ => is(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_links_are_told_apart() {
        assert_eq!(Hidden::by_link("12/fd/3"), Some(Hidden::Descriptor(12, 3)));
        assert_eq!(Hidden::by_link("12/task/13/fd/0"), Some(Hidden::Descriptor(13, 0)));
        assert_eq!(Hidden::by_link("12/fdinfo/3"), None);
        let namespace = Hidden::Namespace(12, "pid_for_children".to_owned());
        assert_eq!(Hidden::by_link("12/ns/pid_for_children"), Some(namespace.clone()));
        for (hidden, name, link) in [
            (Hidden::Descriptor(12, 0), ".fd-12-0", "12/fd/0"),
            (namespace, ".ns-12-pid_for_children", "12/ns/pid_for_children"),
        ] {
            assert_eq!((&*hidden.name(), &*hidden.link()), (name, link));
            assert_eq!(Hidden::of(name), Some(hidden));
        }
        for name in [".fd-x-0", ".fd-12", ".ns-12-../exe", ".ns-x-mnt", "12"] {
            assert_eq!(Hidden::of(name), None, "{name}");
        }
    }
}
