//! What this process may have the kernel do: all as root; without root, what one user may in a user namespace of his own.
//!
//! Manual: user_namespaces(7).

use super::sys::{Arg, syscall};
use crate::{
    call::{Step, Who},
    normal::undrawn::is_of_one_user,
};
use pathwalk::Result;
use std::{fs, sync::OnceLock, thread};

/// What can be asked of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Powers {
    /// Everything.
    Root,
    /// What one user asks, who is user 0 in a namespace that has no other.
    OneUser,
    /// Nothing: no mounts.
    None,
}

/// What a namespace of one user leaves out, in a line.
pub(crate) const NOT_OF_ONE_USER: &str = "not root: the kernel is asked in a user namespace, by one user; not covered: other \
users, moving mounts and unmounting, chown, ACLs, devices, inode flags, attributes other than user.*, a procfs, idmapped mounts, small worlds, races; the tables are held \
against recorded answers";

/// What it may, found out at the first time; then the process is in the namespace.
pub(crate) fn powers() -> Powers {
    static POWERS: OnceLock<Powers> = OnceLock::new();
    *POWERS.get_or_init(|| {
        if syscall(libc::SYS_geteuid, [Arg::Int(0)]) == Ok(0) {
            return if may_mount() { Powers::Root } else { Powers::None };
        }
        if enter().is_ok() && may_mount() { Powers::OneUser } else { Powers::None }
    })
}

/// Whether a thread can have mounts of its own.
fn may_mount() -> bool {
    let unshare = || {
        let flags = libc::CLONE_NEWNS | libc::CLONE_FS;
        syscall(libc::SYS_unshare, [Arg::Int(flags.into())]).is_ok()
    };
    thread::spawn(unshare).join().expect("asking does not panic")
}

/// Enters a user namespace. A process that has threads cannot.
fn enter() -> Result<()> {
    let id = |call| syscall(call, [Arg::Int(0)]);
    let (user, group) = (id(libc::SYS_geteuid)?, id(libc::SYS_getegid)?);
    syscall(libc::SYS_unshare, [Arg::Int(libc::CLONE_NEWUSER.into())])?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (file, text) in maps {
        fs::write(file, text).map_err(|_| pathwalk::Errno::EPERM)?;
    }
    Ok(())
}

impl Powers {
    /// The step as this process may have it made, if it may.
    pub(crate) fn step(self, step: Step) -> Option<Step> {
        match self {
            Self::Root => Some(step),
            Self::OneUser => is_of_one_user(&step.call).then_some(Step { who: Who::Root, ..step }),
            Self::None => None,
        }
    }
}
