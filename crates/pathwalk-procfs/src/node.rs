//! What a file shows, in the 64-bit word by which the cache names it.
//!
//! ```text
//!   63        32 31            9   8   7        0
//!   │ task      │ descriptor    │ T │ kind      │      T: below task/
//! ```

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// `/proc` itself.
    Top = 1,
    /// `self`
    OwnProcess,
    /// `thread-self`
    OwnThread,
    /// `/proc/mounts`
    OwnMounts,
    /// The directory of a process or thread.
    Task,
    /// `task`
    Threads,
    /// `fd`
    Fds,
    /// `fd/N`
    Fd,
    /// `fdinfo`
    FdInfos,
    /// `fdinfo/N`
    FdInfo,
    /// `cwd`
    Cwd,
    /// `root`
    Root,
    /// `exe`
    Exe,
    /// `comm`
    Comm,
    /// `status`
    Status,
    /// `mountinfo`
    MountInfo,
    /// `mounts`
    Mounts,
}

const KINDS: [Kind; 17] = [
    Kind::Top,
    Kind::OwnProcess,
    Kind::OwnThread,
    Kind::OwnMounts,
    Kind::Task,
    Kind::Threads,
    Kind::Fds,
    Kind::Fd,
    Kind::FdInfos,
    Kind::FdInfo,
    Kind::Cwd,
    Kind::Root,
    Kind::Exe,
    Kind::Comm,
    Kind::Status,
    Kind::MountInfo,
    Kind::Mounts,
];

/// The largest descriptor that is shown.
pub(crate) const FD_MAX: u32 = (1 << 23) - 1;

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// The task's number; 0 of what is no task's.
    pub(crate) task: u32,
    /// It is below `task`: about a thread, not its process.
    pub(crate) thread: bool,
    pub(crate) fd: u32,
}

impl Node {
    /// A file at the top.
    pub(crate) const fn top(kind: Kind) -> Self {
        Self { kind, task: 0, thread: false, fd: 0 }
    }

    /// Another file of the same task.
    pub(crate) fn of_same(self, kind: Kind) -> Self {
        Self { kind, fd: 0, ..self }
    }

    pub(crate) fn to_word(self) -> u64 {
        let low = self.fd << 9 | u32::from(self.thread) << 8 | self.kind as u32;
        u64::from(self.task) << 32 | u64::from(low)
    }

    /// None for a word that no node has.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let low = word as u32;
        let kind = KINDS.into_iter().find(|&kind| kind as u32 == low & 0xff)?;
        Some(Self { kind, task: (word >> 32) as u32, thread: low & 0x100 != 0, fd: low >> 9 })
    }
}

/// The number that a name is, written as the kernel writes it: without a sign or leading zeros.
pub(crate) fn number(name: &[u8]) -> Option<u32> {
    let canonical =
        name.iter().all(u8::is_ascii_digit) && (name.len() == 1 || name.first() != Some(&b'0'));
    if canonical { std::str::from_utf8(name).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_what_it_was_written_from() {
        for kind in KINDS {
            for (task, thread, fd) in [(0, false, 0), (1 << 22, true, FD_MAX), (7, false, 3)] {
                let node = Node { kind, task, thread, fd };
                assert_eq!(Node::from_word(node.to_word()), Some(node));
            }
        }
        assert_eq!(Node::from_word(0), None);
    }

    #[test]
    fn numbers_have_one_spelling() {
        for (name, want) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("017", None),
            ("00", None),
            ("+1", None),
            ("-1", None),
            ("1x", None),
            ("", None),
            ("99999999999", None),
        ] {
            assert_eq!(number(name.as_bytes()), want, "{name}");
        }
    }
}
