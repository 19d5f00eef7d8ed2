//! Numbers, names and layouts against two other authors of them: libc and rustix.

#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use core::mem::offset_of;
use std::ffi::{CStr, c_char, c_int};

use pathwalk_abi::{
    AtFlags, CapSet, Dev, Errno, FileType, InodeFlags, InotifyEvent, InotifyFlags, InotifyMask,
    MountFlags, OpenFlags, OpenHow, RenameFlags, ResolveFlags, SetTime, Stat, Statfs, StatfsFlags,
    Statx, StatxAttributes, StatxMask, Timespec, UTIME_NOW, UTIME_OMIT, UmountFlags, XattrFlags,
    dirent, inotify, limits, mode,
};

/// Returns the name that the C library has for an error number.
fn libc_name(raw: c_int) -> Option<&'static str> {
    #[expect(unsafe_code, reason = "libc does not bind this function of glibc 2.32")]
    // SAFETY: the signature is that of strerrorname_np(3), which any number may be passed to.
    unsafe extern "C" {
        safe fn strerrorname_np(errnum: c_int) -> *const c_char;
    }
    let name = strerrorname_np(raw);
    if name.is_null() {
        return None;
    }
    #[expect(unsafe_code, reason = "the C library answers with a C string")]
    // SAFETY: strerrorname_np(3) answers null or a string that is never freed.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().ok()
}

#[test]
fn every_errno_has_the_name_and_the_text_of_the_c_library() {
    let mut named = 0;
    for raw in 1..=4095 {
        let errno = Errno::from_raw(raw).expect("in range");
        assert_eq!(errno.raw(), raw);
        let text = std::io::Error::from(errno).to_string();
        match libc_name(raw) {
            Some(name) => {
                named += 1;
                assert_eq!(format!("{errno:?}"), canonical(name));
                assert_eq!(text, format!("{} (os error {raw})", errno.description()));
                assert_eq!(errno.to_string(), format!("{errno:?} ({})", errno.description()));
            }
            None => {
                assert_eq!((errno.name(), errno.description()), ("EUNKNOWN", "Unknown error"));
                assert_eq!(text, format!("Unknown error {raw} (os error {raw})"));
            }
        }
    }
    assert_eq!(named, 131, "1..=133 without 41 and 58");
}

/// Takes the C library's choice among two names of one number to the kernel's.
fn canonical(name: &str) -> &str {
    match name {
        "ENOTSUP" => "EOPNOTSUPP",
        "EDEADLOCK" => "EDEADLK",
        "EWOULDBLOCK" => "EAGAIN",
        name => name,
    }
}

#[test]
fn an_errno_out_of_range_is_none() {
    for raw in [i32::MIN, -1, 0, 4096, 65_537, i32::MAX] {
        assert_eq!(Errno::from_raw(raw), None, "{raw}");
    }
    assert_eq!(Errno::ENOTSUP.raw(), libc::ENOTSUP);
    assert_eq!(Errno::EWOULDBLOCK.raw(), libc::EWOULDBLOCK);
    assert_eq!(Errno::EDEADLOCK.raw(), libc::EDEADLOCK);
}

/// Asserts that the named fields lie at the same offsets in two structures of the same size.
macro_rules! same_layout {
    ($ours:ty, $theirs:ty: $($field:ident)*) => {
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>());
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>());
        $(assert_eq!(
            offset_of!($ours, $field),
            offset_of!($theirs, $field),
            stringify!($field)
        );)*
    };
}

#[test]
fn layouts_are_those_of_libc() {
    same_layout!(Statx, libc::statx:
        stx_mask stx_blksize stx_attributes stx_nlink stx_uid stx_gid stx_mode stx_ino stx_size
        stx_blocks stx_attributes_mask stx_atime stx_btime stx_ctime stx_mtime stx_rdev_major
        stx_rdev_minor stx_dev_major stx_dev_minor stx_mnt_id stx_dio_mem_align
        stx_dio_offset_align stx_subvol stx_atomic_write_unit_min stx_atomic_write_unit_max
        stx_atomic_write_segments_max stx_dio_read_offset_align stx_atomic_write_unit_max_opt);
    same_layout!(pathwalk_abi::StatxTimestamp, libc::statx_timestamp: tv_sec tv_nsec);
    same_layout!(Stat, libc::stat:
        st_dev st_ino st_nlink st_mode st_uid st_gid st_rdev st_size st_blksize st_blocks st_atime
        st_atime_nsec st_mtime st_mtime_nsec st_ctime st_ctime_nsec);
    same_layout!(Statfs, libc::statfs64:
        f_type f_bsize f_blocks f_bfree f_bavail f_files f_ffree f_fsid f_namelen f_frsize f_flags
        f_spare);
    same_layout!(OpenHow, libc::open_how: flags mode resolve);
    assert_eq!(Statx::ZERO, Statx::default());
}

#[test]
fn dirents_are_those_of_libc() {
    assert_eq!(dirent::D_INO, offset_of!(libc::dirent64, d_ino));
    assert_eq!(dirent::D_OFF, offset_of!(libc::dirent64, d_off));
    assert_eq!(dirent::D_RECLEN, offset_of!(libc::dirent64, d_reclen));
    assert_eq!(dirent::D_TYPE, offset_of!(libc::dirent64, d_type));
    assert_eq!(dirent::D_NAME, offset_of!(libc::dirent64, d_name));
    for (name_len, reclen) in [(1, 24), (4, 24), (5, 32), (12, 32), (13, 40), (255, 280)] {
        assert_eq!(dirent::reclen(name_len), reclen, "{name_len}");
    }
    // The longest name fills the C library's structure: no record is longer.
    assert_eq!(dirent::reclen(limits::NAME_MAX), size_of::<libc::dirent64>());
}

#[test]
fn inotify_events_are_those_of_libc() {
    assert_eq!(inotify::HEADER, size_of::<libc::inotify_event>());
    for (name_len, reclen) in [(0, 16), (1, 32), (15, 32), (16, 48), (255, 272)] {
        assert_eq!(inotify::reclen(name_len), reclen, "{name_len}");
    }
    let events = [
        InotifyEvent { wd: -1, mask: InotifyMask::Q_OVERFLOW, cookie: 0, name: b"" },
        InotifyEvent { wd: 7, mask: InotifyMask::MOVED_TO, cookie: 9, name: b"a name" },
    ];
    let mut buf = [0; 64];
    let first = events[0].write(&mut buf).unwrap();
    let second = events[1].write(&mut buf[first..]).unwrap();
    assert_eq!(events[1].write(&mut buf[first + second..]), None, "no room");
    assert!(inotify::events(&buf[..first + second]).eq(events));
    assert_eq!(inotify::events(&buf[..first + second - 1]).count(), 1, "one is cut off");
}

#[test]
fn file_types_go_through_every_form() {
    let table = [
        (FileType::Regular, libc::S_IFREG, libc::DT_REG, '-'),
        (FileType::Directory, libc::S_IFDIR, libc::DT_DIR, 'd'),
        (FileType::Symlink, libc::S_IFLNK, libc::DT_LNK, 'l'),
        (FileType::CharDevice, libc::S_IFCHR, libc::DT_CHR, 'c'),
        (FileType::BlockDevice, libc::S_IFBLK, libc::DT_BLK, 'b'),
        (FileType::Fifo, libc::S_IFIFO, libc::DT_FIFO, 'p'),
        (FileType::Socket, libc::S_IFSOCK, libc::DT_SOCK, 's'),
    ];
    for (file_type, bits, dt, letter) in table {
        assert_eq!(FileType::from_mode(bits | mode::S_IALLUGO), Some(file_type));
        assert_eq!(FileType::from_dt(dt), Some(file_type));
        assert_eq!((file_type.to_mode(), file_type.to_dt()), (bits, dt));
        assert_eq!(file_type.letter(), letter);
    }
    let known = (0..16).filter(|bits| FileType::from_mode(bits << 12).is_some()).count();
    assert_eq!(known, table.len());
    let known = (0..=255).filter(|dt| FileType::from_dt(*dt).is_some()).count();
    assert_eq!(known, table.len());
    assert_eq!((mode::S_IXUGO, mode::S_IRWXUGO, mode::S_IALLUGO), (0o111, 0o777, 0o7777));
}

#[test]
fn device_numbers_are_those_of_makedev() {
    let majors = [0, 1, 8, 0xff, 0x100, 0xabc, 0xfff];
    let minors = [0, 1, 0xff, 0x100, 0x12345, 0xf_ffff];
    for major in majors {
        for minor in minors {
            let dev = Dev::new(major, minor);
            assert_eq!((dev.major(), dev.minor()), (major, minor));
            assert_eq!(dev.to_stat(), libc::makedev(major, minor), "{dev}");
            assert_eq!(Dev::from_stat(dev.to_stat()), dev);
            assert_eq!(Dev::from_u32(dev.to_u32()), dev);
            assert_eq!(dev.to_u32(), major << 20 | minor);
        }
    }
    // What does not fit is lost on the way into the kernel, which reads 32 bits.
    assert_eq!(Dev::from_stat(libc::makedev(0x1abc, 0x12_3456)), Dev::new(0x1abc, 0x12_3456));
    assert_eq!(Dev::new(0x1abc, 0x12_3456), Dev::new(0xabc, 0x2_3456));
    assert_eq!(format!("{0} {0:?}", Dev::new(8, 1)), "8:1 Dev(8:1)");
}

/// Asserts that each flag is the number that libc has for it, and that no flag was left out.
macro_rules! same_flags {
    ($flags:ty: $($name:ident $number:expr,)*) => {
        let rows = [$((stringify!($name), <$flags>::$name, $number as u64)),*];
        for (name, flag, number) in rows {
            assert_eq!(flag.bits() as u64, number, "{name}");
        }
        let names: Vec<_> = <$flags as bitflags::Flags>::FLAGS.iter().map(|f| f.name()).collect();
        assert_eq!(names, rows.map(|row| row.0));
    };
}

#[test]
fn open_flags_are_those_of_libc() {
    same_flags!(OpenFlags:
        WRONLY libc::O_WRONLY, RDWR libc::O_RDWR, CREAT libc::O_CREAT, EXCL libc::O_EXCL,
        NOCTTY libc::O_NOCTTY, TRUNC libc::O_TRUNC, APPEND libc::O_APPEND,
        NONBLOCK libc::O_NONBLOCK, DSYNC libc::O_DSYNC, ASYNC libc::O_ASYNC,
        DIRECT libc::O_DIRECT,
        // libc has the C library's zero, which means that the kernel sets it by itself.
        LARGEFILE 0o100000,
        DIRECTORY libc::O_DIRECTORY, NOFOLLOW libc::O_NOFOLLOW, NOATIME libc::O_NOATIME,
        CLOEXEC libc::O_CLOEXEC, SYNC libc::O_SYNC, PATH libc::O_PATH, TMPFILE libc::O_TMPFILE,
    );
    assert_eq!(OpenFlags::RDONLY.bits(), libc::O_RDONLY as u64);
    assert_eq!(OpenFlags::ACCMODE.bits(), libc::O_ACCMODE as u64);
    same_flags!(ResolveFlags:
        NO_XDEV libc::RESOLVE_NO_XDEV, NO_MAGICLINKS libc::RESOLVE_NO_MAGICLINKS,
        NO_SYMLINKS libc::RESOLVE_NO_SYMLINKS, BENEATH libc::RESOLVE_BENEATH,
        IN_ROOT libc::RESOLVE_IN_ROOT, CACHED libc::RESOLVE_CACHED,
    );
}

/// `all()` is what decides over `EINVAL`, so the running kernel is asked about each bit alone.
#[test]
fn openat2_knows_all_of_open_flags_and_no_more() {
    // Half of O_TMPFILE is refused without the other half.
    let lone_tmpfile = OpenFlags::TMPFILE.difference(OpenFlags::DIRECTORY);
    for bit in (0..u32::BITS).map(|shift| 1u32 << shift) {
        let flags = OpenFlags::from_bits_retain(bit.into());
        assert_eq!(flags.bits(), bit.into(), "a bit without a name is kept");
        let answer = rustix::fs::openat2(
            rustix::fs::CWD,
            "/proc/does-not-exist/file",
            rustix::fs::OFlags::from_bits_retain(bit),
            rustix::fs::Mode::empty(),
            rustix::fs::ResolveFlags::empty(),
        );
        let refused = flags == lone_tmpfile || !OpenFlags::all().contains(flags);
        let expected = if refused { Errno::EINVAL } else { Errno::ENOENT };
        assert_eq!(answer.err().map(|e| e.raw_os_error()), Some(expected.raw()), "{bit:#o}");
    }
}

#[test]
fn flags_of_the_at_calls_are_those_of_libc() {
    same_flags!(AtFlags:
        SYMLINK_NOFOLLOW libc::AT_SYMLINK_NOFOLLOW, REMOVEDIR libc::AT_REMOVEDIR,
        EACCESS libc::AT_EACCESS, SYMLINK_FOLLOW libc::AT_SYMLINK_FOLLOW,
        NO_AUTOMOUNT libc::AT_NO_AUTOMOUNT, EMPTY_PATH libc::AT_EMPTY_PATH,
        STATX_FORCE_SYNC libc::AT_STATX_FORCE_SYNC, STATX_DONT_SYNC libc::AT_STATX_DONT_SYNC,
    );
    same_flags!(RenameFlags:
        NOREPLACE libc::RENAME_NOREPLACE, EXCHANGE libc::RENAME_EXCHANGE,
        WHITEOUT libc::RENAME_WHITEOUT,
    );
    same_flags!(pathwalk_abi::AccessMode:
        X_OK libc::X_OK, W_OK libc::W_OK, R_OK libc::R_OK,
    );
    // Of libc those numbers are missing; ioctl_iflags(2) has them.
    same_flags!(InodeFlags: IMMUTABLE 0x10, APPEND 0x20, NODUMP 0x40, NOATIME 0x80,);
    same_flags!(XattrFlags: CREATE libc::XATTR_CREATE, REPLACE libc::XATTR_REPLACE,);
    assert_eq!(pathwalk_abi::AT_FDCWD, libc::AT_FDCWD);
}

#[test]
fn inotify_flags_are_those_of_libc() {
    same_flags!(InotifyFlags: CLOEXEC libc::IN_CLOEXEC, NONBLOCK libc::IN_NONBLOCK,);
    same_flags!(InotifyMask:
        ACCESS libc::IN_ACCESS, MODIFY libc::IN_MODIFY, ATTRIB libc::IN_ATTRIB,
        CLOSE_WRITE libc::IN_CLOSE_WRITE, CLOSE_NOWRITE libc::IN_CLOSE_NOWRITE,
        OPEN libc::IN_OPEN, MOVED_FROM libc::IN_MOVED_FROM, MOVED_TO libc::IN_MOVED_TO,
        CREATE libc::IN_CREATE, DELETE libc::IN_DELETE, DELETE_SELF libc::IN_DELETE_SELF,
        MOVE_SELF libc::IN_MOVE_SELF, UNMOUNT libc::IN_UNMOUNT, Q_OVERFLOW libc::IN_Q_OVERFLOW,
        IGNORED libc::IN_IGNORED, ONLYDIR libc::IN_ONLYDIR, DONT_FOLLOW libc::IN_DONT_FOLLOW,
        EXCL_UNLINK libc::IN_EXCL_UNLINK, MASK_CREATE libc::IN_MASK_CREATE,
        MASK_ADD libc::IN_MASK_ADD, ISDIR libc::IN_ISDIR, ONESHOT libc::IN_ONESHOT,
    );
    assert_eq!(InotifyMask::ALL_EVENTS.bits(), libc::IN_ALL_EVENTS);
    assert_eq!(InotifyMask::CLOSE.bits(), libc::IN_CLOSE);
    assert_eq!(InotifyMask::MOVE.bits(), libc::IN_MOVE);
}

#[test]
fn mount_flags_are_those_of_libc() {
    same_flags!(MountFlags:
        RDONLY libc::MS_RDONLY, NOSUID libc::MS_NOSUID, NODEV libc::MS_NODEV,
        NOEXEC libc::MS_NOEXEC, SYNCHRONOUS libc::MS_SYNCHRONOUS, REMOUNT libc::MS_REMOUNT,
        MANDLOCK libc::MS_MANDLOCK, DIRSYNC libc::MS_DIRSYNC, NOSYMFOLLOW libc::MS_NOSYMFOLLOW,
        NOATIME libc::MS_NOATIME, NODIRATIME libc::MS_NODIRATIME, BIND libc::MS_BIND,
        MOVE libc::MS_MOVE, REC libc::MS_REC, SILENT libc::MS_SILENT,
        POSIXACL libc::MS_POSIXACL, UNBINDABLE libc::MS_UNBINDABLE, PRIVATE libc::MS_PRIVATE,
        SLAVE libc::MS_SLAVE, SHARED libc::MS_SHARED, RELATIME libc::MS_RELATIME,
        STRICTATIME libc::MS_STRICTATIME, LAZYTIME libc::MS_LAZYTIME,
    );
    same_flags!(UmountFlags:
        FORCE libc::MNT_FORCE, DETACH libc::MNT_DETACH, EXPIRE libc::MNT_EXPIRE,
        NOFOLLOW libc::UMOUNT_NOFOLLOW,
    );
    same_flags!(StatfsFlags:
        RDONLY libc::ST_RDONLY, NOSUID libc::ST_NOSUID, NODEV libc::ST_NODEV,
        NOEXEC libc::ST_NOEXEC, SYNCHRONOUS libc::ST_SYNCHRONOUS,
        // libc leaves these two out.
        VALID 0x20, MANDLOCK libc::ST_MANDLOCK,
        NOATIME libc::ST_NOATIME, NODIRATIME libc::ST_NODIRATIME, RELATIME libc::ST_RELATIME,
        NOSYMFOLLOW 0x2000,
    );
}

#[test]
fn statx_flags_are_those_of_libc() {
    same_flags!(StatxMask:
        TYPE libc::STATX_TYPE, MODE libc::STATX_MODE, NLINK libc::STATX_NLINK,
        UID libc::STATX_UID, GID libc::STATX_GID, ATIME libc::STATX_ATIME,
        MTIME libc::STATX_MTIME, CTIME libc::STATX_CTIME, INO libc::STATX_INO,
        SIZE libc::STATX_SIZE, BLOCKS libc::STATX_BLOCKS, BASIC_STATS libc::STATX_BASIC_STATS,
        BTIME libc::STATX_BTIME, MNT_ID libc::STATX_MNT_ID, DIOALIGN libc::STATX_DIOALIGN,
        MNT_ID_UNIQUE libc::STATX_MNT_ID_UNIQUE, SUBVOL libc::STATX_SUBVOL,
        WRITE_ATOMIC libc::STATX_WRITE_ATOMIC, DIO_READ_ALIGN libc::STATX_DIO_READ_ALIGN,
    );
    assert_eq!(StatxMask::RESERVED.bits(), libc::STATX__RESERVED as u32);
    same_flags!(StatxAttributes:
        COMPRESSED libc::STATX_ATTR_COMPRESSED, IMMUTABLE libc::STATX_ATTR_IMMUTABLE,
        APPEND libc::STATX_ATTR_APPEND, NODUMP libc::STATX_ATTR_NODUMP,
        ENCRYPTED libc::STATX_ATTR_ENCRYPTED, AUTOMOUNT libc::STATX_ATTR_AUTOMOUNT,
        MOUNT_ROOT libc::STATX_ATTR_MOUNT_ROOT, VERITY libc::STATX_ATTR_VERITY,
        DAX libc::STATX_ATTR_DAX, WRITE_ATOMIC libc::STATX_ATTR_WRITE_ATOMIC,
    );
}

#[test]
fn capabilities_are_those_of_rustix() {
    let theirs = rustix::thread::CapabilitySet::all().iter_names().collect::<Vec<_>>();
    let ours = CapSet::FULL.iter_names().collect::<Vec<_>>();
    assert_eq!((ours.len(), theirs.len()), (41, 41));
    for ((name, cap), (their_name, their_cap)) in ours.into_iter().zip(theirs) {
        assert_eq!((name, cap.bits()), (their_name, their_cap.bits()));
    }
    // CAP_FS_MASK of setfsuid(2) with CAP_LINUX_IMMUTABLE: bits 0 to 4, 9, 27 and 32.
    assert_eq!(CapSet::FS.bits(), 0x1f | 1 << 9 | 1 << 27 | 1 << 32);
}

#[test]
fn times_of_utimensat_are_read() {
    assert_eq!((UTIME_NOW, UTIME_OMIT), (libc::UTIME_NOW, libc::UTIME_OMIT));
    let table = [
        (7, UTIME_NOW, Ok(SetTime::Now)),
        (7, UTIME_OMIT, Ok(SetTime::Omit)),
        (-1, 0, Ok(SetTime::At(Timespec { sec: -1, nsec: 0 }))),
        (1, 999_999_999, Ok(SetTime::At(Timespec { sec: 1, nsec: 999_999_999 }))),
        (1, 1_000_000_000, Err(Errno::EINVAL)),
        (1, -1, Err(Errno::EINVAL)),
        (1, i64::MAX, Err(Errno::EINVAL)),
    ];
    for (sec, nsec, expected) in table {
        assert_eq!(SetTime::from_raw(sec, nsec), expected, "{sec} {nsec}");
    }
}
