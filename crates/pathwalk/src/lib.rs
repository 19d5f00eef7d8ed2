//! The Linux VFS as a library: dentry cache, inode table, mounts, permissions and one lock-free walk over them.
//!
//! ```
//! use pathwalk::{AccessMode, Config, Cred, MemFs, OpenFlags, Vfs};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let vfs = Vfs::new(Config::default(), MemFs::new())?;
//! let root = vfs.task(Cred::root());
//! root.mkdir("/srv", 0o755)?;
//! root.symlink("/srv", "/home")?;
//! let file = root.open("/home/notes", OpenFlags::CREAT | OpenFlags::RDWR, 0o600)?;
//! root.write(&file, b"hello")?;
//! let user = vfs.task(Cred::user(1000, 1000));
//! assert_eq!(user.stat("/srv/../home/notes")?.st_size, 5);
//! assert_eq!(user.access("/srv/notes", AccessMode::R_OK), Err(pathwalk::Errno::EACCES));
//! # Ok(())
//! # }
//! ```

pub use pathwalk_abi::{
    self as abi, AccessMode, AtFlags, CapSet, Dev, Errno, FileType, InodeFlags, InotifyEvent,
    InotifyFlags, InotifyMask, ListmountFlags, MountAttrFlags, MountFlags, MoveMountFlags,
    OpenFlags, OpenHow, OpenTreeFlags, RenameFlags, ResolveFlags, Result, SetTime, Stat, Statfs,
    StatmountMask, Statx, StatxMask, Timespec, UmountFlags, XattrFlags,
};
pub use pathwalk_core::*;
#[cfg(feature = "hostfs")]
pub use pathwalk_hostfs::{Coherence, HostFs, HostOptions, IdMap, IdRange, Identities, Keeper};
#[cfg(feature = "memfs")]
pub use pathwalk_memfs::{Limits, MemFs};
#[cfg(feature = "procfs")]
pub use pathwalk_procfs::ProcFs;

/// The README, so that its example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
