//! Flags: one type for each argument or answer that is a set of bits.
//!
//! Invariant: a bit without a name here is kept by `from_bits_retain`, so that the call sees it and
//! can answer `EINVAL`; `from_bits_truncate` and `!` would lose it. `all()` of [`OpenFlags`],
//! [`ResolveFlags`], [`RenameFlags`], [`AccessMode`], [`XattrFlags`] and [`UmountFlags`] is exactly
//! what their calls accept; mount(2) ignores what it does not know, and each `*at` call accepts
//! [`AtFlags`] of its own.

use bitflags::bitflags;
use linux_raw_sys::general;

/// The directory descriptor that stands for the current directory.
pub const AT_FDCWD: i32 = general::AT_FDCWD;

bitflags! {
    /// How a file is opened: `O_*`, open(2).
    ///
    /// Reading only is the absence of [`OpenFlags::WRONLY`] and [`OpenFlags::RDWR`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u64 {
        /// Open for writing only.
        const WRONLY = general::O_WRONLY as u64;
        /// Open for reading and writing.
        const RDWR = general::O_RDWR as u64;
        /// Create the file if it is missing.
        const CREAT = general::O_CREAT as u64;
        /// With `CREAT`: fail if the file exists.
        const EXCL = general::O_EXCL as u64;
        /// Do not make a terminal the controlling one.
        const NOCTTY = general::O_NOCTTY as u64;
        /// Cut a regular file to length zero.
        const TRUNC = general::O_TRUNC as u64;
        /// Write at the end.
        const APPEND = general::O_APPEND as u64;
        /// Do not wait.
        const NONBLOCK = general::O_NONBLOCK as u64;
        /// Writes return when the data is stored.
        const DSYNC = general::O_DSYNC as u64;
        /// Send a signal when I/O is possible.
        const ASYNC = general::FASYNC as u64;
        /// Bypass the page cache.
        const DIRECT = general::O_DIRECT as u64;
        /// Allow files of 2 GiB and more; implied on 64-bit machines.
        const LARGEFILE = general::O_LARGEFILE as u64;
        /// Fail unless it is a directory.
        const DIRECTORY = general::O_DIRECTORY as u64;
        /// Fail if the last component is a symbolic link.
        const NOFOLLOW = general::O_NOFOLLOW as u64;
        /// Do not update the access time.
        const NOATIME = general::O_NOATIME as u64;
        /// Close the descriptor on execve(2).
        const CLOEXEC = general::O_CLOEXEC as u64;
        /// Writes return when data and metadata are stored; contains `DSYNC`.
        const SYNC = general::O_SYNC as u64;
        /// Name a place in the tree, without opening the file.
        const PATH = general::O_PATH as u64;
        /// Create a file without a name; contains `DIRECTORY`.
        const TMPFILE = general::O_TMPFILE as u64;
    }
}

impl OpenFlags {
    /// Open for reading only: no bit.
    pub const RDONLY: OpenFlags = OpenFlags::from_bits_retain(general::O_RDONLY as u64);
    /// The mask of the two bits that say reading or writing; both set is a fourth value, not two
    /// flags.
    pub const ACCMODE: OpenFlags = OpenFlags::from_bits_retain(general::O_ACCMODE as u64);
    /// Those that say how an open file is read and written, where a host does that: it is told them.
    pub const IO: OpenFlags = Self::ACCMODE
        .union(Self::APPEND)
        .union(Self::NOATIME)
        .union(Self::ASYNC)
        .union(Self::DSYNC)
        .union(Self::SYNC);
    /// `O_EMPTYPATH` of Linux 7.2: an empty path is the directory handle itself. No flag before.
    pub const EMPTYPATH: OpenFlags = OpenFlags::from_bits_retain(1 << 26);
}

bitflags! {
    /// How a path may be resolved: `RESOLVE_*`, openat2(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ResolveFlags: u64 {
        /// Do not cross into another mount.
        const NO_XDEV = general::RESOLVE_NO_XDEV as u64;
        /// Do not follow the magic links of procfs.
        const NO_MAGICLINKS = general::RESOLVE_NO_MAGICLINKS as u64;
        /// Do not follow symbolic links, magic ones included.
        const NO_SYMLINKS = general::RESOLVE_NO_SYMLINKS as u64;
        /// Do not leave the directory the walk starts in.
        const BENEATH = general::RESOLVE_BENEATH as u64;
        /// Take the directory the walk starts in for the root.
        const IN_ROOT = general::RESOLVE_IN_ROOT as u64;
        /// Fail with `EAGAIN` rather than wait.
        const CACHED = general::RESOLVE_CACHED as u64;
    }
}

bitflags! {
    /// The last argument of the `*at` calls: `AT_*`.
    ///
    /// Which bits are valid depends on the call.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AtFlags: u32 {
        /// Do not follow a symbolic link in the last component.
        const SYMLINK_NOFOLLOW = general::AT_SYMLINK_NOFOLLOW;
        /// unlinkat(2): remove a directory.
        const REMOVEDIR = general::AT_REMOVEDIR;
        /// faccessat2(2): check with the effective ids; shares its bit with `REMOVEDIR`.
        const EACCESS = general::AT_EACCESS;
        /// linkat(2): follow a symbolic link in the last component.
        const SYMLINK_FOLLOW = general::AT_SYMLINK_FOLLOW;
        /// Do not mount at an automount point in the last component.
        const NO_AUTOMOUNT = general::AT_NO_AUTOMOUNT;
        /// An empty path means the directory descriptor itself.
        const EMPTY_PATH = general::AT_EMPTY_PATH;
        /// statx(2): ask the server, even if the cache knows.
        const STATX_FORCE_SYNC = general::AT_STATX_FORCE_SYNC;
        /// statx(2): answer from the cache, even if it may be old.
        const STATX_DONT_SYNC = general::AT_STATX_DONT_SYNC;
    }
}

bitflags! {
    /// How a name is moved: `RENAME_*`, renameat2(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RenameFlags: u32 {
        /// Fail if the new name exists.
        const NOREPLACE = general::RENAME_NOREPLACE;
        /// Exchange the two names.
        const EXCHANGE = general::RENAME_EXCHANGE;
        /// Leave a whiteout under the old name.
        const WHITEOUT = general::RENAME_WHITEOUT;
    }
}

bitflags! {
    /// What access(2) is to check: `*_OK`.
    ///
    /// `F_OK`, the mere existence, is `empty()`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct AccessMode: u32 {
        /// May execute or search.
        const X_OK = general::X_OK;
        /// May write.
        const W_OK = general::W_OK;
        /// May read.
        const R_OK = general::R_OK;
    }
}

bitflags! {
    /// How setxattr(2) treats an attribute that exists or is missing: `XATTR_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct XattrFlags: u32 {
        /// Fail if the attribute exists.
        const CREATE = general::XATTR_CREATE;
        /// Fail if the attribute is missing.
        const REPLACE = general::XATTR_REPLACE;
    }
}

bitflags! {
    /// How a file system is mounted, or a mount changed: `MS_*`, mount(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MountFlags: u64 {
        /// Refuse writes.
        const RDONLY = general::MS_RDONLY as u64;
        /// Ignore set-id bits and file capabilities.
        const NOSUID = general::MS_NOSUID as u64;
        /// Refuse to open device files.
        const NODEV = general::MS_NODEV as u64;
        /// Refuse to execute files.
        const NOEXEC = general::MS_NOEXEC as u64;
        /// Every write is as with [`OpenFlags::SYNC`].
        const SYNCHRONOUS = general::MS_SYNCHRONOUS as u64;
        /// Change the flags of a mount.
        const REMOUNT = general::MS_REMOUNT as u64;
        /// Mandatory locking; without effect since Linux 5.15.
        const MANDLOCK = general::MS_MANDLOCK as u64;
        /// Changes of directories are stored before the call returns.
        const DIRSYNC = general::MS_DIRSYNC as u64;
        /// Do not follow symbolic links.
        const NOSYMFOLLOW = general::MS_NOSYMFOLLOW as u64;
        /// Do not update access times.
        const NOATIME = general::MS_NOATIME as u64;
        /// Do not update access times of directories.
        const NODIRATIME = general::MS_NODIRATIME as u64;
        /// Mount an existing tree a second time.
        const BIND = general::MS_BIND as u64;
        /// Move a mount.
        const MOVE = general::MS_MOVE as u64;
        /// Include all mounts below.
        const REC = general::MS_REC as u64;
        /// Keep some warnings out of the log.
        const SILENT = general::MS_SILENT as u64;
        /// Access control lists count.
        const POSIXACL = general::MS_POSIXACL as u64;
        /// Make it private and refuse to bind it.
        const UNBINDABLE = general::MS_UNBINDABLE as u64;
        /// Neither send nor receive mounts.
        const PRIVATE = general::MS_PRIVATE as u64;
        /// Receive mounts, do not send them.
        const SLAVE = general::MS_SLAVE as u64;
        /// Send and receive mounts.
        const SHARED = general::MS_SHARED as u64;
        /// Update an access time only if it is older than a change or a day.
        const RELATIME = general::MS_RELATIME as u64;
        /// Update access times always.
        const STRICTATIME = general::MS_STRICTATIME as u64;
        /// Store times late.
        const LAZYTIME = general::MS_LAZYTIME as u64;
    }
}

bitflags! {
    /// How a mount is taken away: `MNT_*`, umount2(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct UmountFlags: u32 {
        /// Abort what is under way.
        const FORCE = general::MNT_FORCE;
        /// Take it out of the tree now, clean up when it is no longer in use.
        const DETACH = general::MNT_DETACH;
        /// Mark it as expired, unmount it the second time.
        const EXPIRE = general::MNT_EXPIRE;
        /// Do not follow a symbolic link in the last component.
        const NOFOLLOW = general::UMOUNT_NOFOLLOW;
    }
}

bitflags! {
    /// How a place in the tree of mounts is opened: `OPEN_TREE_*` and `AT_*`, open_tree(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenTreeFlags: u32 {
        /// Copy what is mounted there, instead of opening it.
        const CLONE = general::OPEN_TREE_CLONE;
        /// Close the descriptor on execve(2).
        const CLOEXEC = general::O_CLOEXEC;
        /// Do not follow a symbolic link in the last component.
        const SYMLINK_NOFOLLOW = general::AT_SYMLINK_NOFOLLOW;
        /// Do not mount at an automount point in the last component.
        const NO_AUTOMOUNT = general::AT_NO_AUTOMOUNT;
        /// An empty path means the directory descriptor itself.
        const EMPTY_PATH = general::AT_EMPTY_PATH;
        /// With `CLONE`: include all mounts below.
        const RECURSIVE = general::AT_RECURSIVE;
    }
}

bitflags! {
    /// How a mount is moved: `MOVE_MOUNT_*`, move_mount(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MoveMountFlags: u32 {
        /// Follow a symbolic link at the end of the source.
        const F_SYMLINKS = general::MOVE_MOUNT_F_SYMLINKS;
        /// Mount at an automount point at the end of the source.
        const F_AUTOMOUNTS = general::MOVE_MOUNT_F_AUTOMOUNTS;
        /// An empty source means its directory descriptor itself.
        const F_EMPTY_PATH = general::MOVE_MOUNT_F_EMPTY_PATH;
        /// Follow a symbolic link at the end of the target.
        const T_SYMLINKS = general::MOVE_MOUNT_T_SYMLINKS;
        /// Mount at an automount point at the end of the target.
        const T_AUTOMOUNTS = general::MOVE_MOUNT_T_AUTOMOUNTS;
        /// An empty target means its directory descriptor itself.
        const T_EMPTY_PATH = general::MOVE_MOUNT_T_EMPTY_PATH;
        /// Do not move, but make the target take part in propagation as the source does.
        const SET_GROUP = general::MOVE_MOUNT_SET_GROUP;
        /// Mount beneath the topmost mount of the target.
        const BENEATH = general::MOVE_MOUNT_BENEATH;
    }
}

bitflags! {
    /// What mount_setattr(2) sets or clears: `MOUNT_ATTR_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MountAttrFlags: u64 {
        /// Refuse writes.
        const RDONLY = general::MOUNT_ATTR_RDONLY as u64;
        /// Ignore set-id bits and file capabilities.
        const NOSUID = general::MOUNT_ATTR_NOSUID as u64;
        /// Refuse to open device files.
        const NODEV = general::MOUNT_ATTR_NODEV as u64;
        /// Refuse to execute files.
        const NOEXEC = general::MOUNT_ATTR_NOEXEC as u64;
        /// Do not update access times.
        const NOATIME = general::MOUNT_ATTR_NOATIME as u64;
        /// Update access times always.
        const STRICTATIME = general::MOUNT_ATTR_STRICTATIME as u64;
        /// The bits of which `NOATIME`, `STRICTATIME` or, as none, relatime are the values.
        const _ATIME = general::MOUNT_ATTR__ATIME as u64;
        /// Do not update access times of directories.
        const NODIRATIME = general::MOUNT_ATTR_NODIRATIME as u64;
        /// Map owners.
        const IDMAP = general::MOUNT_ATTR_IDMAP as u64;
        /// Do not follow symbolic links.
        const NOSYMFOLLOW = general::MOUNT_ATTR_NOSYMFOLLOW as u64;
    }
}

bitflags! {
    /// What statmount(2) is asked for and tells: `STATMOUNT_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StatmountMask: u64 {
        /// Device, type and flags of the file system.
        const SB_BASIC = 1 << 0;
        /// Numbers, flags and propagation of the mount.
        const MNT_BASIC = 1 << 1;
        /// The nearest peer group that it receives from and that the caller sees.
        const PROPAGATE_FROM = 1 << 2;
        /// What of its file system it shows.
        const MNT_ROOT = 1 << 3;
        /// Where it is mounted.
        const MNT_POINT = 1 << 4;
        /// The name of the file system's type.
        const FS_TYPE = 1 << 5;
        /// The number of the mount namespace.
        const MNT_NS_ID = 1 << 6;
        /// The file system's own options, in one string.
        const MNT_OPTS = 1 << 7;
        /// The second half of a type's name, as FUSE has it.
        const FS_SUBTYPE = 1 << 8;
        /// The source.
        const SB_SOURCE = 1 << 9;
        /// The file system's own options, one by one.
        const OPT_ARRAY = 1 << 10;
        /// Options of a security module.
        const OPT_SEC_ARRAY = 1 << 11;
        /// What can be asked for.
        const SUPPORTED_MASK = 1 << 12;
        /// How the mount shows users.
        const MNT_UIDMAP = 1 << 13;
        /// How the mount shows groups.
        const MNT_GIDMAP = 1 << 14;
    }
}

bitflags! {
    /// Flags of listmount(2): `LISTMOUNT_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ListmountFlags: u32 {
        /// The youngest first.
        const REVERSE = 1;
    }
}

bitflags! {
    /// Which fields statx(2) is asked for and fills: `STATX_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StatxMask: u32 {
        /// The type bits of `stx_mode`.
        const TYPE = general::STATX_TYPE;
        /// The permission bits of `stx_mode`.
        const MODE = general::STATX_MODE;
        /// `stx_nlink`.
        const NLINK = general::STATX_NLINK;
        /// `stx_uid`.
        const UID = general::STATX_UID;
        /// `stx_gid`.
        const GID = general::STATX_GID;
        /// `stx_atime`.
        const ATIME = general::STATX_ATIME;
        /// `stx_mtime`.
        const MTIME = general::STATX_MTIME;
        /// `stx_ctime`.
        const CTIME = general::STATX_CTIME;
        /// `stx_ino`.
        const INO = general::STATX_INO;
        /// `stx_size`.
        const SIZE = general::STATX_SIZE;
        /// `stx_blocks`.
        const BLOCKS = general::STATX_BLOCKS;
        /// All of the above: what stat(2) answers.
        const BASIC_STATS = general::STATX_BASIC_STATS;
        /// `stx_btime`.
        const BTIME = general::STATX_BTIME;
        /// `stx_mnt_id`, a number that may be used again.
        const MNT_ID = general::STATX_MNT_ID;
        /// `stx_dio_mem_align` and `stx_dio_offset_align`.
        const DIOALIGN = general::STATX_DIOALIGN;
        /// `stx_mnt_id`, a number that is never used again.
        const MNT_ID_UNIQUE = general::STATX_MNT_ID_UNIQUE;
        /// `stx_subvol`.
        const SUBVOL = general::STATX_SUBVOL;
        /// `stx_atomic_write_*`.
        const WRITE_ATOMIC = general::STATX_WRITE_ATOMIC;
        /// `stx_dio_read_offset_align`.
        const DIO_READ_ALIGN = general::STATX_DIO_READ_ALIGN;
    }
}

impl StatxMask {
    /// The bit kept for a larger `struct statx`; statx(2) answers `EINVAL` to it.
    pub const RESERVED: StatxMask = StatxMask::from_bits_retain(general::STATX__RESERVED);
}

bitflags! {
    /// What is special about a file: `STATX_ATTR_*`, statx(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StatxAttributes: u64 {
        /// Compressed by the file system.
        const COMPRESSED = general::STATX_ATTR_COMPRESSED as u64;
        /// May not be changed, renamed or removed.
        const IMMUTABLE = general::STATX_ATTR_IMMUTABLE as u64;
        /// May only be appended to.
        const APPEND = general::STATX_ATTR_APPEND as u64;
        /// Left out of backups.
        const NODUMP = general::STATX_ATTR_NODUMP as u64;
        /// Encrypted by the file system.
        const ENCRYPTED = general::STATX_ATTR_ENCRYPTED as u64;
        /// A directory that mounts something when it is used.
        const AUTOMOUNT = general::STATX_ATTR_AUTOMOUNT as u64;
        /// The root of a mount.
        const MOUNT_ROOT = general::STATX_ATTR_MOUNT_ROOT as u64;
        /// Checked against a hash tree when it is read.
        const VERITY = general::STATX_ATTR_VERITY as u64;
        /// Mapped without the page cache.
        const DAX = general::STATX_ATTR_DAX as u64;
        /// Supports atomic writes.
        const WRITE_ATOMIC = general::STATX_ATTR_WRITE_ATOMIC as u64;
    }
}

bitflags! {
    /// Attributes of a file beside its mode: `FS_*_FL`, ioctl_iflags(2); lsattr(1) shows them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InodeFlags: u32 {
        /// May not be changed, renamed, linked or removed: `chattr +i`.
        const IMMUTABLE = general::FS_IMMUTABLE_FL;
        /// May only be appended to; of a directory, names may only be added: `chattr +a`.
        const APPEND = general::FS_APPEND_FL;
        /// Left out of backups: `chattr +d`.
        const NODUMP = general::FS_NODUMP_FL;
        /// The time of last access is not updated: `chattr +A`.
        const NOATIME = general::FS_NOATIME_FL;
    }
}

bitflags! {
    /// How a file system is mounted, as statfs(2) says: `ST_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StatfsFlags: u64 {
        // The numbers are missing in linux-raw-sys; statfs(2) has them.
        /// Writes are refused.
        const RDONLY = 1;
        /// Set-id bits are ignored.
        const NOSUID = 2;
        /// Device files cannot be opened.
        const NODEV = 4;
        /// Files cannot be executed.
        const NOEXEC = 8;
        /// Every write is stored before the call returns.
        const SYNCHRONOUS = 16;
        /// The other bits are filled in; the kernel always sets it.
        const VALID = 32;
        /// Mandatory locking is allowed.
        const MANDLOCK = 64;
        /// Access times are not updated.
        const NOATIME = 1024;
        /// Access times of directories are not updated.
        const NODIRATIME = 2048;
        /// Access times are updated if older than a change or a day.
        const RELATIME = 4096;
        /// Symbolic links are not followed.
        const NOSYMFOLLOW = 8192;
    }
}
