//! Directory entries: the records that getdents64(2) writes, one after the other.
//!
//! ```text
//! 0        8        16      18     19
//! ┌────────┬────────┬───────┬──────┬────────────┬───┬─────────┐
//! │ d_ino  │ d_off  │reclen │ type │ d_name ... │ 0 │ padding │
//! └────────┴────────┴───────┴──────┴────────────┴───┴─────────┘
//! ```
//!
//! Invariant: a record starts and ends at a multiple of [`ALIGN`].
//!
//! Manual: getdents64(2), `struct linux_dirent64`.

use core::mem::offset_of;

use linux_raw_sys::general;
use linux_raw_sys::general::linux_dirent64;

/// The offset of the inode number, a `u64`.
pub const D_INO: usize = offset_of!(linux_dirent64, d_ino);
/// The offset of the position of the next entry, an `i64` that lseek(2) takes.
pub const D_OFF: usize = offset_of!(linux_dirent64, d_off);
/// The offset of the record's length, a `u16`.
pub const D_RECLEN: usize = offset_of!(linux_dirent64, d_reclen);
/// The offset of the file type, a `u8`: one of `DT_*`.
pub const D_TYPE: usize = offset_of!(linux_dirent64, d_type);
/// The offset of the name, which ends with a zero byte.
pub const D_NAME: usize = offset_of!(linux_dirent64, d_name);
/// The alignment of a record.
pub const ALIGN: usize = align_of::<linux_dirent64>();

const _: () = assert!(D_INO == 0 && D_OFF == 8 && D_RECLEN == 16 && D_TYPE == 18 && D_NAME == 19);
const _: () = assert!(ALIGN == 8);

/// Returns the length of the record for a name of `name_len` bytes, terminator and padding
/// included.
pub const fn reclen(name_len: usize) -> usize {
    (D_NAME + name_len + 1).next_multiple_of(ALIGN)
}

/// The file system does not say.
pub const DT_UNKNOWN: u8 = general::DT_UNKNOWN as u8;
/// A named pipe.
pub const DT_FIFO: u8 = general::DT_FIFO as u8;
/// A character device.
pub const DT_CHR: u8 = general::DT_CHR as u8;
/// A directory.
pub const DT_DIR: u8 = general::DT_DIR as u8;
/// A block device.
pub const DT_BLK: u8 = general::DT_BLK as u8;
/// A regular file.
pub const DT_REG: u8 = general::DT_REG as u8;
/// A symbolic link.
pub const DT_LNK: u8 = general::DT_LNK as u8;
/// A socket.
pub const DT_SOCK: u8 = general::DT_SOCK as u8;
/// The cover that a union mount leaves over a removed name.
pub const DT_WHT: u8 = 14; // missing in linux-raw-sys; include/linux/fs_dirent.h
