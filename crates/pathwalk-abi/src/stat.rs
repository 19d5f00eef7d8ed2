//! The answers of stat(2) and statfs(2), in the layout of x86-64.
//!
//! Other architectures order `struct stat` differently; a caller there converts field by field.
//!
//! Manual: stat(2), stat(3type), statfs(2).

use core::mem::offset_of;

/// What stat(2) says of a file, 144 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stat {
    /// The device that the file is on, see [`Dev::to_stat`](crate::Dev::to_stat).
    pub st_dev: u64,
    /// The inode number.
    pub st_ino: u64,
    /// The number of hard links.
    pub st_nlink: u64,
    /// The type and the permissions, see [`mode`](crate::mode).
    pub st_mode: u32,
    /// The owner.
    pub st_uid: u32,
    /// The owner's group.
    pub st_gid: u32,
    #[doc(hidden)]
    pub __pad0: u32,
    /// The device that the file is, see [`Dev::to_stat`](crate::Dev::to_stat).
    pub st_rdev: u64,
    /// The size, in bytes.
    pub st_size: i64,
    /// The size of a block that is good for reading and writing, in bytes.
    pub st_blksize: i64,
    /// The space in use, in units of 512 bytes.
    pub st_blocks: i64,
    /// When it was last read: the seconds.
    pub st_atime: i64,
    /// When it was last read: the nanoseconds after.
    pub st_atime_nsec: u64,
    /// When its contents last changed: the seconds.
    pub st_mtime: i64,
    /// When its contents last changed: the nanoseconds after.
    pub st_mtime_nsec: u64,
    /// When its inode last changed: the seconds.
    pub st_ctime: i64,
    /// When its inode last changed: the nanoseconds after.
    pub st_ctime_nsec: u64,
    #[doc(hidden)]
    pub __unused: [i64; 3],
}

/// What statfs(2) says of a file system, 120 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Statfs {
    /// The magic number of the file system's type.
    pub f_type: i64,
    /// The size of a block that is good for reading and writing, in bytes.
    pub f_bsize: i64,
    /// The number of blocks, in units of `f_frsize`.
    pub f_blocks: u64,
    /// The number of free blocks.
    pub f_bfree: u64,
    /// The number of free blocks that an unprivileged user may take.
    pub f_bavail: u64,
    /// The number of inodes.
    pub f_files: u64,
    /// The number of free inodes.
    pub f_ffree: u64,
    /// The identity of the file system.
    pub f_fsid: [i32; 2],
    /// The longest name, in bytes.
    pub f_namelen: i64,
    /// The size of a fragment, in bytes.
    pub f_frsize: i64,
    /// The bits of [`StatfsFlags`](crate::StatfsFlags).
    pub f_flags: i64,
    #[doc(hidden)]
    pub f_spare: [i64; 4],
}

const _: () = assert!(size_of::<Stat>() == 144);
const _: () = assert!(offset_of!(Stat, st_dev) == 0);
const _: () = assert!(offset_of!(Stat, st_ino) == 8);
const _: () = assert!(offset_of!(Stat, st_nlink) == 16);
const _: () = assert!(offset_of!(Stat, st_mode) == 24);
const _: () = assert!(offset_of!(Stat, st_uid) == 28);
const _: () = assert!(offset_of!(Stat, st_gid) == 32);
const _: () = assert!(offset_of!(Stat, st_rdev) == 40);
const _: () = assert!(offset_of!(Stat, st_size) == 48);
const _: () = assert!(offset_of!(Stat, st_blksize) == 56);
const _: () = assert!(offset_of!(Stat, st_blocks) == 64);
const _: () = assert!(offset_of!(Stat, st_atime) == 72);
const _: () = assert!(offset_of!(Stat, st_mtime) == 88);
const _: () = assert!(offset_of!(Stat, st_ctime) == 104);
const _: () = assert!(offset_of!(Stat, __unused) == 120);

const _: () = assert!(size_of::<Statfs>() == 120);
const _: () = assert!(offset_of!(Statfs, f_type) == 0);
const _: () = assert!(offset_of!(Statfs, f_bsize) == 8);
const _: () = assert!(offset_of!(Statfs, f_blocks) == 16);
const _: () = assert!(offset_of!(Statfs, f_bfree) == 24);
const _: () = assert!(offset_of!(Statfs, f_bavail) == 32);
const _: () = assert!(offset_of!(Statfs, f_files) == 40);
const _: () = assert!(offset_of!(Statfs, f_ffree) == 48);
const _: () = assert!(offset_of!(Statfs, f_fsid) == 56);
const _: () = assert!(offset_of!(Statfs, f_namelen) == 64);
const _: () = assert!(offset_of!(Statfs, f_frsize) == 72);
const _: () = assert!(offset_of!(Statfs, f_flags) == 80);
const _: () = assert!(offset_of!(Statfs, f_spare) == 88);
