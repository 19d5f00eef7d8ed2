//! The numbers and layouts of the Linux file calls: errno, modes, flags, statx, dirents.
//!
//! There is no behaviour here, only what a caller and the answer of a call agree on. The numbers
//! are those of the kernel's own headers, by way of `linux-raw-sys`, and the layouts are checked
//! when the crate is built.
//!
//! Flag types keep bits that they have no name for, so that a call sees what its caller passed and
//! can answer `EINVAL`: make them with `from_bits_retain`, and compare with `all()`.
//!
//! ```
//! use pathwalk_abi::{Errno, FileType, OpenFlags, mode};
//!
//! assert_eq!(Errno::ENOENT.to_string(), "ENOENT (No such file or directory)");
//! assert_eq!(FileType::from_mode(mode::S_IFDIR | 0o755), Some(FileType::Directory));
//!
//! let flags = OpenFlags::from_bits_retain(1 << 40);
//! assert!(!OpenFlags::all().contains(flags));
//! ```

mod errno;
pub mod limits;
pub mod mode;

mod flags;
mod how;

pub mod dirent;
pub mod inotify;
mod stat;
mod statx;
mod time;

mod caps;
mod dev;

pub mod xattr;

pub use caps::CapSet;
pub use dev::Dev;
pub use errno::{Errno, Result};
pub use flags::{
    AT_FDCWD, AccessMode, AtFlags, InodeFlags, ListmountFlags, MountAttrFlags, MountFlags,
    MoveMountFlags, OpenFlags, OpenTreeFlags, RenameFlags, ResolveFlags, StatfsFlags,
    StatmountMask, StatxAttributes, StatxMask, UmountFlags, XattrFlags,
};
pub use how::OpenHow;
pub use inotify::{InotifyEvent, InotifyFlags, InotifyMask};
pub use limits::{MAXSYMLINKS, NAME_MAX, PATH_MAX, XATTR_LIST_MAX, XATTR_NAME_MAX, XATTR_SIZE_MAX};
pub use mode::FileType;
pub use stat::{Stat, Statfs};
pub use statx::{Statx, StatxTimestamp};
pub use time::{SetTime, Timespec, UTIME_NOW, UTIME_OMIT};
pub use xattr::XattrArgs;
