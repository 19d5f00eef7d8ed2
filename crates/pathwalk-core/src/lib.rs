//! What Linux does with names: dentry cache, inode table, mounts, permissions and one walk over them.
//!
//! ```text
//!   ops/      a file per family of calls: what users call
//!   walk/     from a path to a place                          ← the one walk
//!   perm      may this be done?
//!   dcache/   what is called what, where        mount/  which tree hangs where
//!   inode     what a name stands for            fs      the contract for file systems
//! ```
//!
//! This crate names no file system and makes no system call.

pub mod fs;

mod vfs;

mod task;

mod file;

mod fdtable;

mod tasks;

mod cred;

mod ops;

mod walk;

mod idmap;

mod perm;

mod security;

mod acl;

mod name;

mod dcache;

mod inode;

mod iget;

mod ended;

mod setattr;

mod profile;

mod mount;

mod topology;

mod notify;

mod lock;

pub use acl::{
    AclEntry, AclKind, AclTag, Acls, acl_chmod,
    format::{from_xattr as acl_from_xattr, to_xattr as acl_to_xattr},
};
pub use cred::{Cred, Subject};
pub use fdtable::FdTable;
pub use file::{File, Reach};
pub use idmap::{MntIdmap, MountIdMap, MountIdRange};
pub use inode::{Attr, InodeRef};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use mount::patience;
pub use mount::{
    list::{LSMT_ROOT, StatMount},
    namespace::MountNamespace,
    show::{MountFormat, mountinfo},
};
pub use notify::{Event, Inotify, InotifyLimits};
pub use ops::exec::Executable;
pub use ops::peek::Peek;
pub use ops::rw::Seek;
pub use ops::{explain, mount_setattr::MountAttr};
pub use perm::{Rule, generic_permission};
pub use profile::LinuxProfile;
pub use security::{Entry, Hooks, PathRef, SecurityModule, SetAttr};
pub use task::{At, Task};
pub use tasks::{HeldPlace, TaskInfo};
pub use vfs::{Config, Usage, Vfs, system_time};
#[doc(hidden)]
pub use walk::memo::own_ranges as memo_ranges;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use walk::road;
pub use walk::{memo::bytes as memo_bytes, observe};
