//! The answer of statx(2).
//!
//! Invariant: every field lies where the kernel writes it; the asserts at the end hold it there.
//!
//! Manual: statx(2), `struct statx`.

use core::mem::offset_of;

use crate::time::Timespec;

/// What statx(2) says of a file, 256 bytes.
///
/// A field means something only if its bit is set in `stx_mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Statx {
    /// Which fields are filled: the bits of [`StatxMask`](crate::StatxMask).
    pub stx_mask: u32,
    /// The size of a block that is good for reading and writing, in bytes.
    pub stx_blksize: u32,
    /// The bits of [`StatxAttributes`](crate::StatxAttributes).
    pub stx_attributes: u64,
    /// The number of hard links.
    pub stx_nlink: u32,
    /// The owner.
    pub stx_uid: u32,
    /// The owner's group.
    pub stx_gid: u32,
    /// The type and the permissions, see [`mode`](crate::mode).
    pub stx_mode: u16,
    #[doc(hidden)]
    pub __spare0: [u16; 1],
    /// The inode number.
    pub stx_ino: u64,
    /// The size, in bytes.
    pub stx_size: u64,
    /// The space in use, in units of 512 bytes.
    pub stx_blocks: u64,
    /// Which bits of `stx_attributes` the file system knows.
    pub stx_attributes_mask: u64,
    /// When it was last read.
    pub stx_atime: StatxTimestamp,
    /// When it was created.
    pub stx_btime: StatxTimestamp,
    /// When its inode last changed.
    pub stx_ctime: StatxTimestamp,
    /// When its contents last changed.
    pub stx_mtime: StatxTimestamp,
    /// The major of the device that the file is.
    pub stx_rdev_major: u32,
    /// The minor of the device that the file is.
    pub stx_rdev_minor: u32,
    /// The major of the device that the file is on.
    pub stx_dev_major: u32,
    /// The minor of the device that the file is on.
    pub stx_dev_minor: u32,
    /// The mount that the file was reached through.
    pub stx_mnt_id: u64,
    /// The alignment of memory for direct I/O, in bytes.
    pub stx_dio_mem_align: u32,
    /// The alignment of file offsets for direct I/O, in bytes.
    pub stx_dio_offset_align: u32,
    /// The subvolume of the file.
    pub stx_subvol: u64,
    /// The smallest atomic write, in bytes.
    pub stx_atomic_write_unit_min: u32,
    /// The greatest atomic write, in bytes.
    pub stx_atomic_write_unit_max: u32,
    /// The greatest number of segments in an atomic write.
    pub stx_atomic_write_segments_max: u32,
    /// The alignment of file offsets for direct reads, in bytes.
    pub stx_dio_read_offset_align: u32,
    /// The greatest atomic write that is still fast, in bytes.
    pub stx_atomic_write_unit_max_opt: u32,
    #[doc(hidden)]
    pub __spare2: [u32; 1],
    #[doc(hidden)]
    pub __spare3: [u64; 8],
}

impl Statx {
    /// All bytes zero: no field is filled.
    pub const ZERO: Statx = Statx {
        stx_mask: 0,
        stx_blksize: 0,
        stx_attributes: 0,
        stx_nlink: 0,
        stx_uid: 0,
        stx_gid: 0,
        stx_mode: 0,
        __spare0: [0; 1],
        stx_ino: 0,
        stx_size: 0,
        stx_blocks: 0,
        stx_attributes_mask: 0,
        stx_atime: StatxTimestamp::ZERO,
        stx_btime: StatxTimestamp::ZERO,
        stx_ctime: StatxTimestamp::ZERO,
        stx_mtime: StatxTimestamp::ZERO,
        stx_rdev_major: 0,
        stx_rdev_minor: 0,
        stx_dev_major: 0,
        stx_dev_minor: 0,
        stx_mnt_id: 0,
        stx_dio_mem_align: 0,
        stx_dio_offset_align: 0,
        stx_subvol: 0,
        stx_atomic_write_unit_min: 0,
        stx_atomic_write_unit_max: 0,
        stx_atomic_write_segments_max: 0,
        stx_dio_read_offset_align: 0,
        stx_atomic_write_unit_max_opt: 0,
        __spare2: [0; 1],
        __spare3: [0; 8],
    };
}

/// A time in [`Statx`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StatxTimestamp {
    /// The seconds since 1970-01-01 00:00 UTC.
    pub tv_sec: i64,
    /// The nanoseconds after `tv_sec`.
    pub tv_nsec: u32,
    #[doc(hidden)]
    pub __reserved: i32,
}

impl StatxTimestamp {
    /// 1970-01-01 00:00 UTC.
    pub const ZERO: StatxTimestamp = StatxTimestamp { tv_sec: 0, tv_nsec: 0, __reserved: 0 };
}

impl From<Timespec> for StatxTimestamp {
    fn from(time: Timespec) -> StatxTimestamp {
        StatxTimestamp { tv_sec: time.sec, tv_nsec: time.nsec, __reserved: 0 }
    }
}

impl From<StatxTimestamp> for Timespec {
    fn from(time: StatxTimestamp) -> Timespec {
        Timespec { sec: time.tv_sec, nsec: time.tv_nsec }
    }
}

const _: () = assert!(size_of::<StatxTimestamp>() == 0x10);
const _: () = assert!(offset_of!(StatxTimestamp, tv_sec) == 0x00);
const _: () = assert!(offset_of!(StatxTimestamp, tv_nsec) == 0x08);
const _: () = assert!(offset_of!(StatxTimestamp, __reserved) == 0x0c);

const _: () = assert!(size_of::<Statx>() == 0x100);
const _: () = assert!(offset_of!(Statx, stx_mask) == 0x00);
const _: () = assert!(offset_of!(Statx, stx_blksize) == 0x04);
const _: () = assert!(offset_of!(Statx, stx_attributes) == 0x08);
const _: () = assert!(offset_of!(Statx, stx_nlink) == 0x10);
const _: () = assert!(offset_of!(Statx, stx_uid) == 0x14);
const _: () = assert!(offset_of!(Statx, stx_gid) == 0x18);
const _: () = assert!(offset_of!(Statx, stx_mode) == 0x1c);
const _: () = assert!(offset_of!(Statx, __spare0) == 0x1e);
const _: () = assert!(offset_of!(Statx, stx_ino) == 0x20);
const _: () = assert!(offset_of!(Statx, stx_size) == 0x28);
const _: () = assert!(offset_of!(Statx, stx_blocks) == 0x30);
const _: () = assert!(offset_of!(Statx, stx_attributes_mask) == 0x38);
const _: () = assert!(offset_of!(Statx, stx_atime) == 0x40);
const _: () = assert!(offset_of!(Statx, stx_btime) == 0x50);
const _: () = assert!(offset_of!(Statx, stx_ctime) == 0x60);
const _: () = assert!(offset_of!(Statx, stx_mtime) == 0x70);
const _: () = assert!(offset_of!(Statx, stx_rdev_major) == 0x80);
const _: () = assert!(offset_of!(Statx, stx_rdev_minor) == 0x84);
const _: () = assert!(offset_of!(Statx, stx_dev_major) == 0x88);
const _: () = assert!(offset_of!(Statx, stx_dev_minor) == 0x8c);
const _: () = assert!(offset_of!(Statx, stx_mnt_id) == 0x90);
const _: () = assert!(offset_of!(Statx, stx_dio_mem_align) == 0x98);
const _: () = assert!(offset_of!(Statx, stx_dio_offset_align) == 0x9c);
const _: () = assert!(offset_of!(Statx, stx_subvol) == 0xa0);
const _: () = assert!(offset_of!(Statx, stx_atomic_write_unit_min) == 0xa8);
const _: () = assert!(offset_of!(Statx, stx_atomic_write_unit_max) == 0xac);
const _: () = assert!(offset_of!(Statx, stx_atomic_write_segments_max) == 0xb0);
const _: () = assert!(offset_of!(Statx, stx_dio_read_offset_align) == 0xb4);
const _: () = assert!(offset_of!(Statx, stx_atomic_write_unit_max_opt) == 0xb8);
const _: () = assert!(offset_of!(Statx, __spare2) == 0xbc);
const _: () = assert!(offset_of!(Statx, __spare3) == 0xc0);
