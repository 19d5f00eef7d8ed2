//! The file mode: twelve permission bits and, above them, four bits of file type.
//!
//! ```text
//!  15      12 11   9 8     6 5     3 2     0
//! ┌──────────┬──────┬───────┬───────┬───────┐
//! │ file type│ s s t│ r w x │ r w x │ r w x │
//! └──────────┴──────┴───────┴───────┴───────┘
//!    S_IFMT           user    group   others
//! ```
//!
//! Manual: inode(7).

use linux_raw_sys::general;

pub use linux_raw_sys::general::{
    S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK, S_IRGRP, S_IROTH,
    S_IRUSR, S_IRWXG, S_IRWXO, S_IRWXU, S_ISGID, S_ISUID, S_ISVTX, S_IWGRP, S_IWOTH, S_IWUSR,
    S_IXGRP, S_IXOTH, S_IXUSR,
};

use crate::dirent;

/// The three bits that let someone read.
pub const S_IRUGO: u32 = S_IRUSR | S_IRGRP | S_IROTH;
/// The three bits that let someone write.
pub const S_IWUGO: u32 = S_IWUSR | S_IWGRP | S_IWOTH;
/// The three bits that let someone execute a file or search a directory: `0o111`.
pub const S_IXUGO: u32 = S_IXUSR | S_IXGRP | S_IXOTH;
/// The nine bits of read, write and execute: `0o777`.
pub const S_IRWXUGO: u32 = S_IRWXU | S_IRWXG | S_IRWXO;
/// Every bit that chmod(2) sets: `0o7777`.
pub const S_IALLUGO: u32 = S_ISUID | S_ISGID | S_ISVTX | S_IRWXUGO;

/// The type of a file, the part of a mode that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A file of bytes.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket bound to a name.
    Socket,
}

impl FileType {
    /// Reads the type out of a mode, or `None` where its bits name no type.
    ///
    /// A mode without type bits is `None` too; only mknod(2) takes it for a regular file.
    pub const fn from_mode(mode: u32) -> Option<FileType> {
        match mode & S_IFMT {
            general::S_IFREG => Some(FileType::Regular),
            general::S_IFDIR => Some(FileType::Directory),
            general::S_IFLNK => Some(FileType::Symlink),
            general::S_IFCHR => Some(FileType::CharDevice),
            general::S_IFBLK => Some(FileType::BlockDevice),
            general::S_IFIFO => Some(FileType::Fifo),
            general::S_IFSOCK => Some(FileType::Socket),
            _ => None,
        }
    }

    /// Returns the type bits of a mode, without permissions.
    pub const fn to_mode(self) -> u32 {
        match self {
            FileType::Regular => S_IFREG,
            FileType::Directory => S_IFDIR,
            FileType::Symlink => S_IFLNK,
            FileType::CharDevice => S_IFCHR,
            FileType::BlockDevice => S_IFBLK,
            FileType::Fifo => S_IFIFO,
            FileType::Socket => S_IFSOCK,
        }
    }

    /// Reads the `d_type` of a directory entry, or `None` for `DT_UNKNOWN` and numbers without a
    /// meaning.
    pub const fn from_dt(dt: u8) -> Option<FileType> {
        match dt {
            dirent::DT_REG => Some(FileType::Regular),
            dirent::DT_DIR => Some(FileType::Directory),
            dirent::DT_LNK => Some(FileType::Symlink),
            dirent::DT_CHR => Some(FileType::CharDevice),
            dirent::DT_BLK => Some(FileType::BlockDevice),
            dirent::DT_FIFO => Some(FileType::Fifo),
            dirent::DT_SOCK => Some(FileType::Socket),
            _ => None,
        }
    }

    /// Returns the `d_type` of a directory entry.
    pub const fn to_dt(self) -> u8 {
        match self {
            FileType::Regular => dirent::DT_REG,
            FileType::Directory => dirent::DT_DIR,
            FileType::Symlink => dirent::DT_LNK,
            FileType::CharDevice => dirent::DT_CHR,
            FileType::BlockDevice => dirent::DT_BLK,
            FileType::Fifo => dirent::DT_FIFO,
            FileType::Socket => dirent::DT_SOCK,
        }
    }

    /// Returns the letter that `ls -l` shows in its first column.
    pub const fn letter(self) -> char {
        match self {
            FileType::Regular => '-',
            FileType::Directory => 'd',
            FileType::Symlink => 'l',
            FileType::CharDevice => 'c',
            FileType::BlockDevice => 'b',
            FileType::Fifo => 'p',
            FileType::Socket => 's',
        }
    }
}
