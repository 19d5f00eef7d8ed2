//! A file system in memory: the embedded default and the reference implementation.
//!
//! ```text
//!   pathwalk-core   names, attributes, symlink bodies          here   what files contain, how much there may be
//!      dentry ──► inode ── node ─────────────────────────────────►  pages of 4096 bytes
//! ```
//!
//! To its users it is Linux' tmpfs: sizes, links, times, blocks and limits are what stat(2) and statfs(2) show there.
//! The cache above is the only record of its names ([`Features::COMPLETE`]), so it never looks a name up; it says what
//! making or removing one does to the attributes of the inodes involved.
//!
//! ```
//! use pathwalk_core::{Config, Cred, Vfs};
//! use pathwalk_memfs::MemFs;
//!
//! let vfs = Vfs::new(Config::default(), MemFs::new())?;
//! let task = vfs.task(Cred::root());
//! task.mkdir("/etc", 0o755)?;
//! assert_eq!(task.stat("/etc")?.st_size, 40);
//! # Ok::<_, pathwalk_abi::Errno>(())
//! ```
//!
//! Linux: `mm/shmem.c`; tmpfs(5).
//!
//! [`Features::COMPLETE`]: pathwalk_core::fs::Features::COMPLETE

mod memfs;

mod builder;

mod directory;

mod data;

mod memfd;

mod rename;

mod xattr;

mod node;

mod space;

pub use builder::Builder;
pub use memfs::MemFs;
pub use space::{Limits, Usage};
