//! A file system that shows tasks, as Linux' procfs does: as much of it as programs use to find files.
//!
//! ```text
//!   /proc/self, thread-self ──► PID, PID/task/TID of who asks
//!   /proc/mounts ──► self/mounts
//!   /proc/PID/{cwd,root,exe}, fd/N      lead to the place itself, whatever path leads there, if any does
//!   /proc/PID/{comm,status,mountinfo,mounts,fdinfo/N}    text
//!   /proc/PID/task/TID/…                the same of each thread
//! ```
//!
//! ```
//! use pathwalk_core::{Config, Cred, FdTable, Vfs};
//! # use pathwalk_abi::{MountFlags, OpenFlags};
//! use pathwalk_procfs::ProcFs;
//! use std::sync::Arc;
//!
//! let vfs = Vfs::new(Config::default(), ProcFs::new())?;
//! let task = vfs.task(Cred::root());
//! let files = Arc::new(FdTable::new(1024));
//! task.set_files(Some(Arc::clone(&files)));
//! let fd = files.insert(task.open("/self", OpenFlags::PATH, 0)?)?;
//! let mut text = [0; 100];
//! let len = task.readlink(format!("/self/fd/{fd}"), &mut text)?;
//! assert_eq!(&text[..len], format!("/{}", task.number()).as_bytes());
//! # Ok::<_, pathwalk_abi::Errno>(())
//! ```
//!
//! Nothing is kept here: what is shown is read from the machine ([`pathwalk_core::TaskInfo`]) each time.
//!
//! Linux: `fs/proc`; proc(5).

mod procfs;

mod task;

mod node;

mod text;

pub use procfs::ProcFs;
