//! User namespaces: Linux takes a mount's map of owners from one.
//!
//! Each is made by a process that does nothing else, and stays when that is gone.
//!
//! Manual: user_namespaces(7), mount_setattr(2).

use super::sys::{Arg, syscall};
use crate::idmaps::{IDMAPS, Idmap};
use pathwalk::{Errno, Result};
use std::{
    fmt::Write,
    fs,
    os::fd::{AsRawFd, OwnedFd},
    sync::OnceLock,
};

static NAMESPACES: OnceLock<Vec<OwnedFd>> = OnceLock::new();

/// Makes the namespaces, while procfs is there; without the right to, there are none.
pub(crate) fn make_maps() {
    NAMESPACES.get_or_init(|| {
        let made: Result<Vec<_>> =
            IDMAPS.iter().map(|(_, users, groups)| one(users, groups)).collect();
        made.unwrap_or_default()
    });
}

/// The descriptor of the namespace that has a map, in all worlds.
pub(crate) fn with_map(map: Idmap) -> Option<i32> {
    NAMESPACES.get()?.get(map.0).map(AsRawFd::as_raw_fd)
}

fn one(users: &[(u32, u32, u32)], groups: &[(u32, u32, u32)]) -> Result<OwnedFd> {
    let flags = Arg::Int((libc::CLONE_NEWUSER | libc::SIGCHLD).into());
    let pid =
        syscall(libc::SYS_clone, [flags, Arg::Int(0), Arg::Int(0), Arg::Int(0), Arg::Int(0)])?;
    if pid == 0 {
        loop {
            let _interrupted = syscall(libc::SYS_pause, []);
        }
    }
    let made = || {
        for (file, ranges) in [("uid_map", users), ("gid_map", groups)] {
            fs::write(format!("/proc/{pid}/{file}"), lines(ranges)).map_err(|_| Errno::EPERM)?;
        }
        let namespace = fs::File::open(format!("/proc/{pid}/ns/user")).map_err(|_| Errno::EPERM)?;
        Ok(OwnedFd::from(namespace))
    };
    let made = made();
    syscall(libc::SYS_kill, [Arg::Int(pid), Arg::Int(libc::SIGKILL.into())])?;
    syscall(libc::SYS_wait4, [Arg::Int(pid), Arg::Int(0), Arg::Int(0), Arg::Int(0)])?;
    made
}

fn lines(ranges: &[(u32, u32, u32)]) -> String {
    let mut lines = String::new();
    for (stored, seen, count) in ranges {
        let _ = writeln!(lines, "{stored} {seen} {count}");
    }
    lines
}
