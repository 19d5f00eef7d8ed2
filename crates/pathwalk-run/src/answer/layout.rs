//! Structs of the calls, as bytes.

use pathwalk::{Stat, Statfs, Statx, abi::StatxTimestamp};
use rustix::fs;

/// `struct stat`
pub(crate) fn stat(stat: &Stat) -> Vec<u8> {
    let mut out = Vec::with_capacity(size_of::<Stat>());
    for word in [stat.st_dev, stat.st_ino, stat.st_nlink] {
        out.extend(word.to_ne_bytes());
    }
    for word in [stat.st_mode, stat.st_uid, stat.st_gid, 0] {
        out.extend(word.to_ne_bytes());
    }
    out.extend(stat.st_rdev.to_ne_bytes());
    for word in [stat.st_size, stat.st_blksize, stat.st_blocks] {
        out.extend(word.to_ne_bytes());
    }
    for (sec, nsec) in [
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    ] {
        out.extend(sec.to_ne_bytes());
        out.extend(nsec.to_ne_bytes());
    }
    out.resize(size_of::<Stat>(), 0);
    out
}

/// What the host says of a file of its own, as the calls have it.
pub(crate) fn of_host(host: &fs::Stat) -> Stat {
    Stat {
        st_dev: host.st_dev,
        st_ino: host.st_ino,
        st_nlink: host.st_nlink,
        st_mode: host.st_mode,
        st_uid: host.st_uid,
        st_gid: host.st_gid,
        st_rdev: host.st_rdev,
        st_size: host.st_size,
        st_blksize: host.st_blksize,
        st_blocks: host.st_blocks,
        st_atime: host.st_atime,
        st_atime_nsec: host.st_atime_nsec,
        st_mtime: host.st_mtime,
        st_mtime_nsec: host.st_mtime_nsec,
        st_ctime: host.st_ctime,
        st_ctime_nsec: host.st_ctime_nsec,
        ..Stat::default()
    }
}

/// `struct statx`
pub(crate) fn statx(stat: &Statx) -> Vec<u8> {
    let mut out = Vec::with_capacity(size_of::<Statx>());
    out.extend(stat.stx_mask.to_ne_bytes());
    out.extend(stat.stx_blksize.to_ne_bytes());
    out.extend(stat.stx_attributes.to_ne_bytes());
    for word in [stat.stx_nlink, stat.stx_uid, stat.stx_gid] {
        out.extend(word.to_ne_bytes());
    }
    out.extend(stat.stx_mode.to_ne_bytes());
    out.extend([0; 2]);
    for word in [stat.stx_ino, stat.stx_size, stat.stx_blocks, stat.stx_attributes_mask] {
        out.extend(word.to_ne_bytes());
    }
    for time in [stat.stx_atime, stat.stx_btime, stat.stx_ctime, stat.stx_mtime] {
        let StatxTimestamp { tv_sec, tv_nsec, .. } = time;
        out.extend(tv_sec.to_ne_bytes());
        out.extend(tv_nsec.to_ne_bytes());
        out.extend([0; 4]);
    }
    for word in [stat.stx_rdev_major, stat.stx_rdev_minor, stat.stx_dev_major, stat.stx_dev_minor] {
        out.extend(word.to_ne_bytes());
    }
    out.extend(stat.stx_mnt_id.to_ne_bytes());
    // What follows is not known of any file here.
    out.resize(size_of::<Statx>(), 0);
    out
}

/// What the host says of a file of its own, as statx has it.
pub(crate) fn statx_of_host(host: &fs::Statx) -> Statx {
    let time = |time: fs::StatxTimestamp| StatxTimestamp {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_nsec,
        ..StatxTimestamp::ZERO
    };
    Statx {
        stx_mask: host.stx_mask,
        stx_blksize: host.stx_blksize,
        stx_attributes: host.stx_attributes.bits(),
        stx_nlink: host.stx_nlink,
        stx_uid: host.stx_uid,
        stx_gid: host.stx_gid,
        stx_mode: host.stx_mode,
        stx_ino: host.stx_ino,
        stx_size: host.stx_size,
        stx_blocks: host.stx_blocks,
        stx_attributes_mask: host.stx_attributes_mask.bits(),
        stx_atime: time(host.stx_atime),
        stx_btime: time(host.stx_btime),
        stx_ctime: time(host.stx_ctime),
        stx_mtime: time(host.stx_mtime),
        stx_rdev_major: host.stx_rdev_major,
        stx_rdev_minor: host.stx_rdev_minor,
        stx_dev_major: host.stx_dev_major,
        stx_dev_minor: host.stx_dev_minor,
        stx_mnt_id: host.stx_mnt_id,
        ..Statx::ZERO
    }
}

/// `struct statfs`
pub(crate) fn statfs(stat: &Statfs) -> Vec<u8> {
    let mut out = Vec::with_capacity(size_of::<Statfs>());
    for word in [stat.f_type, stat.f_bsize] {
        out.extend(word.to_ne_bytes());
    }
    for word in [stat.f_blocks, stat.f_bfree, stat.f_bavail, stat.f_files, stat.f_ffree] {
        out.extend(word.to_ne_bytes());
    }
    for word in stat.f_fsid {
        out.extend(word.to_ne_bytes());
    }
    for word in [stat.f_namelen, stat.f_frsize, stat.f_flags] {
        out.extend(word.to_ne_bytes());
    }
    out.resize(size_of::<Statfs>(), 0);
    out
}

/// Makes entries of getdents64 such of getdents: `struct linux_dirent` has the type behind the name, at its end. They take as
/// many bytes, and inode numbers and positions have 64 bits too.
pub(crate) fn as_old_dirents(mut entries: &mut [u8]) {
    const LEN: usize = 16;
    const TYPE: usize = 18;
    while let Some(&[low, high]) = entries.get(LEN..TYPE) {
        let len = usize::from(u16::from_ne_bytes([low, high]));
        let Some((entry, rest)) = entries.split_at_mut_checked(len) else { return };
        // Behind each name there is room, if only for its NUL.
        entry[TYPE..].rotate_left(1);
        entries = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn an_old_entry_has_its_type_at_the_end() {
        let entry = |len: u16, name: &[u8], kind: u8| {
            let mut bytes = vec![7; 16];
            bytes.extend(len.to_ne_bytes());
            bytes.push(kind);
            bytes.extend(name);
            bytes.resize(len.into(), 0);
            bytes
        };
        // The second name leaves no room but for its NUL.
        let mut bytes = [entry(24, b"a", 4), entry(32, b"abcdefghijkl", 8)].concat();
        as_old_dirents(&mut bytes);
        assert_eq!(bytes[16..24], [24, 0, b'a', 0, 0, 0, 0, 4]);
        assert_eq!(bytes[24 + 18..], *b"abcdefghijkl\0\x08");
        as_old_dirents(&mut []);
    }

    #[test]
    fn fields_lie_where_the_structs_have_them() {
        let bytes = stat(&Stat {
            st_gid: 7,
            st_rdev: 8,
            st_blocks: 9,
            st_ctime: 10,
            st_ctime_nsec: 11,
            ..Stat::default()
        });
        assert_eq!(bytes.len(), 144);
        assert_eq!(bytes[offset_of!(Stat, st_gid)], 7);
        assert_eq!(bytes[offset_of!(Stat, st_rdev)], 8);
        assert_eq!(bytes[offset_of!(Stat, st_blocks)], 9);
        assert_eq!(bytes[offset_of!(Stat, st_ctime)], 10);
        assert_eq!(bytes[offset_of!(Stat, st_ctime_nsec)], 11);

        let bytes = statx(&Statx { stx_ino: 7, stx_dev_minor: 8, stx_mnt_id: 9, ..Statx::ZERO });
        assert_eq!(bytes.len(), 256);
        assert_eq!(bytes[offset_of!(Statx, stx_ino)], 7);
        assert_eq!(bytes[offset_of!(Statx, stx_dev_minor)], 8);
        assert_eq!(bytes[offset_of!(Statx, stx_mnt_id)], 9);

        let bytes = statfs(&Statfs { f_namelen: 7, f_flags: 8, ..Statfs::default() });
        assert_eq!(bytes.len(), 120);
        assert_eq!(bytes[offset_of!(Statfs, f_namelen)], 7);
        assert_eq!(bytes[offset_of!(Statfs, f_flags)], 8);
    }
}
