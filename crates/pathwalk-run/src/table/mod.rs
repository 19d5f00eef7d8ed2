//! The system calls as data: which are answered, which are the kernel's, which are refused.
//!
//! From this one table come the filter, the dispatcher, the table in `docs/run.md` and the test that no call is missing.

mod calls;

mod filter;

pub(crate) use calls::NAMESPACES;
pub(crate) use filter::program;

use crate::engine::{Caller, Engine, Reply};
use pathwalk::{Errno, Result};

/// Answers a call.
pub(crate) type Handler = fn(&mut Engine, &Caller) -> Result<Reply>;

/// A system call.
pub(crate) struct Call {
    pub(crate) nr: u32,
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    handling: Handling,
    /// Where the program has virtual credentials, if that is something else.
    with_virtual: Option<Handling>,
}

impl Call {
    /// What happens when it is made by a program with such credentials.
    pub(crate) fn handling(&self, identity: Identity) -> Handling {
        match (identity, self.with_virtual) {
            (Identity::Virtual, Some(handling)) => handling,
            // What it looks up a path for is in memory, where no filter sees it.
            (Identity::Privileged, _) if i64::from(self.nr) == libc::SYS_perf_event_open => {
                Handling::Refuse(Errno::EACCES)
            }
            _ => self.handling,
        }
    }

    /// Whether it is exit or exit_group, which nobody is refused.
    pub(crate) fn ends(&self) -> bool {
        [libc::SYS_exit, libc::SYS_exit_group].contains(&self.nr.into())
    }
}

/// Who the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Who started it, for the kernel and in the tree.
    Own,
    /// The same, and the kernel lets it watch programs that it names by a path.
    Privileged,
    /// In the tree somebody whom the kernel does not know.
    Virtual,
}

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Open,
    Stat,
    Names,
    Directories,
    Attributes,
    Xattrs,
    Exec,
    Mounts,
    Handles,
    Watches,
    Sockets,
    Descriptors,
    Tasks,
    Ids,
    Others,
    /// Nothing that paths have to do with.
    Kernel,
}

/// What happens when a call is made.
#[derive(Clone, Copy)]
pub(crate) enum Handling {
    /// The kernel does it.
    Pass,
    /// The kernel answers with an error at once.
    Refuse(Errno),
    /// The library answers.
    Answer(Handler),
    /// The library answers where the arguments are such; else the kernel does it.
    AnswerIf(&'static [Condition], Handler),
    /// Refused where the arguments are such, by the first that holds; else the kernel does it.
    RefuseIf(&'static [(Condition, Errno)]),
}

/// What is asked of one argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    /// Its lower half is one of these.
    Is(u8, &'static [u32]),
    /// Its lower half has one of these bits.
    Any(u8, u32),
    /// The second byte of its lower half, of an ioctl(2) its type, is one of these, and the lower half none of those.
    OfType(u8, &'static [u8], &'static [u32]),
    /// It is not 0.
    NotZero(u8),
}

/// One more than the last number that is known: what comes after is refused with `ENOSYS`.
pub(crate) const END: u32 = 470;

const fn call(nr: u32, name: &'static str, group: Group, handling: Handling) -> Call {
    Call { nr, name, group, handling, with_virtual: None }
}

/// A call that is another one's business where the program has virtual credentials.
const fn call_of_users(
    nr: u32,
    name: &'static str,
    group: Group,
    [own, with_virtual]: [Handling; 2],
) -> Call {
    Call { nr, name, group, handling: own, with_virtual: Some(with_virtual) }
}

/// All calls, by number.
pub(crate) fn calls() -> &'static [Call] {
    calls::CALLS
}

/// The call of a number.
pub(crate) fn call_of(nr: u32) -> Option<&'static Call> {
    let calls = calls();
    calls.binary_search_by_key(&nr, |call| call.nr).ok().map(|index| &calls[index])
}

/// The calls that are not simply the kernel's, as the table of `docs/run.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "| about | answered | refused | with `--uid`, `--gid` or `--groups` |\n|---|---|---|---|\n",
    );
    let mut groups: Vec<Group> = Vec::new();
    for call in calls() {
        if !groups.contains(&call.group) && call.group != Group::Kernel {
            groups.push(call.group);
        }
    }
    for group in groups {
        let of_group = || calls().iter().filter(|call| call.group == group);
        let list = |handlings: &dyn Fn(&Call) -> Option<Handling>,
                    told: fn(&str, Handling) -> Option<String>| {
            let told = |call| handlings(call).and_then(|handling| told(call.name, handling));
            of_group().filter_map(told).collect::<Vec<_>>().join(", ")
        };
        let own = |call: &Call| Some(call.handling);
        let with_virtual = |call: &Call| call.with_virtual;
        let either =
            |name: &str, handling| answered(name, handling).or_else(|| refused(name, handling));
        let name = format!("{group:?}").to_lowercase();
        let (answered, refused) = (list(&own, answered), list(&own, refused));
        text += &format!("| {name} | {answered} | {refused} | {} |\n", list(&with_virtual, either));
    }
    text
}

fn answered(name: &str, handling: Handling) -> Option<String> {
    match handling {
        Handling::Answer(_) => Some(format!("`{name}`")),
        Handling::AnswerIf(..) => Some(format!("`{name}` in part")),
        _ => None,
    }
}

fn refused(name: &str, handling: Handling) -> Option<String> {
    match handling {
        Handling::Refuse(errno) => Some(format!("`{name}` {errno:?}")),
        Handling::RefuseIf(conditions) => {
            let mut errnos: Vec<_> =
                conditions.iter().map(|(_, errno)| format!("{errno:?}")).collect();
            errnos.dedup();
            Some(format!("`{name}` in part {}", errnos.join(" or ")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_up_to_the_end_is_there_once() {
        // Between 335 and 424 no call was ever given a number.
        let want: Vec<u32> = (0..END).filter(|nr| !(336..424).contains(nr)).collect();
        let have: Vec<u32> = calls().iter().map(|call| call.nr).collect();
        assert_eq!(have, want);
    }

    #[test]
    fn names_and_numbers_belong_together() {
        for (name, nr) in [
            ("open", libc::SYS_open),
            ("execve", libc::SYS_execve),
            ("openat2", libc::SYS_openat2),
            ("statx", libc::SYS_statx),
            ("getdents64", libc::SYS_getdents64),
            ("removexattrat", 466),
            ("fchmodat2", libc::SYS_fchmodat2),
            ("io_uring_setup", libc::SYS_io_uring_setup),
            ("mount_setattr", libc::SYS_mount_setattr),
            ("utimensat", libc::SYS_utimensat),
        ] {
            assert_eq!(call_of(nr as u32).map(|call| call.name), Some(name));
        }
    }

    #[test]
    fn the_document_shows_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.md");
        let page = std::fs::read_to_string(path).expect("docs/run.md is there");
        for row in markdown().lines() {
            assert!(page.contains(row), "docs/run.md lacks the row\n{row}");
        }
    }
}
