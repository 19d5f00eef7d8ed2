//! What the ground has of its own, where calls are drawn on an ext4 or on a directory of the host.
//!
//! A tmpfs and `MemFs` need none of this.

use super::Ground;
use crate::{
    answer::Answer,
    call::Call,
    field::{Int, Len},
    value::Value,
};
use pathwalk::{
    Errno, MountFlags, OpenFlags, RenameFlags, ResolveFlags, StatMount, Statx, StatxMask,
    UmountFlags,
    abi::xattr::{XATTR_NAME_POSIX_ACL_ACCESS, posix_acl},
};

/// Files of an ext4 end before 16 TiB, those of a tmpfs nowhere; offsets may add up.
const FAR: i64 = 1 << 42;

/// ioctl_iflags(2): the file's blocks are kept as extents.
const FS_EXTENT_FL: i64 = 0x8_0000;

impl Ground {
    /// Whether a call is drawn: whether it is about what an ext4 has too.
    pub(crate) fn knows(self, call: &Call) -> bool {
        if self == Self::Tmpfs {
            return true;
        }
        let near = |offset: Int| offset.0 < FAR;
        match call {
            Call::Within { call, .. } => self.knows(call),
            // To read no bytes is no use of a file there: its time of last access stays.
            Call::Read { len: Len(0), .. } | Call::Pread { len: Len(0), .. } => false,
            Call::Pwrite { offset, .. } | Call::Pread { offset, .. } => near(*offset),
            Call::LseekSet { to: by, .. }
            | Call::LseekCur { by, .. }
            | Call::LseekEnd { by, .. } => near(*by),
            // It stamps a file that keeps its size, which most often is none.
            Call::Truncate { size: Int(0), .. } => false,
            Call::Truncate { size, .. } | Call::Ftruncate { size, .. } => near(*size),
            // It leaves the set-group-id bit to who is not in the group when an ACL goes, a tmpfs takes it.
            Call::Removexattr { name, .. }
            | Call::Lremovexattr { name, .. }
            | Call::Fremovexattr { name, .. }
            | Call::Removexattrat { name, .. } => name.0 != XATTR_NAME_POSIX_ACL_ACCESS,
            Call::Setxattr { name, value, .. }
            | Call::Lsetxattr { name, value, .. }
            | Call::Fsetxattr { name, value, .. }
            | Call::Setxattrat { name, value, .. } => {
                name.0 != XATTR_NAME_POSIX_ACL_ACCESS || has_entries(&value.0)
            }
            // It has more flags than tmpfs has, and wants those back that say how blocks are found.
            Call::Setflags { .. } => false,
            // It wants buffers and lengths in units.
            Call::Openat { flags, .. } => !flags.contains(OpenFlags::DIRECT),
            Call::Openat2 { flags, .. } => !flags.contains(OpenFlags::DIRECT),
            // All worlds of a nursery stand on one.
            Call::Mount { flags, .. }
            | Call::Mountproc { flags, .. }
            | Call::MountTree { flags, .. } => {
                !flags.contains(MountFlags::REMOUNT) || flags.contains(MountFlags::BIND)
            }
            // Of a task's own root it makes that file system read-only.
            Call::Umount2 { flags, .. } => flags.contains(UmountFlags::DETACH),
            _ => true,
        }
    }

    /// How to go past the cache, and in which units, ext4 says and tmpfs does not.
    pub(super) fn mask(self, mask: StatxMask) -> u32 {
        let own = match self {
            Self::Tmpfs => StatxMask::empty(),
            Self::Ext4 => StatxMask::DIOALIGN | StatxMask::WRITE_ATOMIC | StatxMask::DIO_READ_ALIGN,
        };
        mask.difference(own).bits()
    }

    /// The end of what statx tells.
    pub(super) fn tail(self, statx: &Statx) -> [u64; 8] {
        if self == Self::Ext4 {
            return [0; 8];
        }
        [
            statx.stx_dio_mem_align.into(),
            statx.stx_dio_offset_align.into(),
            statx.stx_subvol,
            statx.stx_atomic_write_unit_min.into(),
            statx.stx_atomic_write_unit_max.into(),
            statx.stx_atomic_write_segments_max.into(),
            statx.stx_dio_read_offset_align.into(),
            statx.stx_atomic_write_unit_max_opt.into(),
        ]
    }

    /// An ext4 gives out blocks when it writes back, and keeps short symlinks in the inode.
    pub(super) fn blocks(self, blocks: i64) -> i64 {
        if self == Self::Ext4 { 0 } else { blocks }
    }

    /// Drops of an answer what only an ext4 says: which file system it is, how a file's blocks are found,
    /// the order of extended attributes, of which some lie in the inode and some in a block. Of a directory, the
    /// position, which is a hash, and what it can be added to.
    pub(super) fn drop_own(self, call: &Call, directory: bool, answer: &mut Answer) {
        if self == Self::Tmpfs {
            return;
        }
        match (call, answer) {
            (Call::Statfs { .. } | Call::Fstatfs { .. }, answer @ Answer::Bytes(_)) => {
                *answer = Answer::Done;
            }
            (
                Call::Listxattr { .. }
                | Call::Llistxattr { .. }
                | Call::Flistxattr { .. }
                | Call::Listxattrat { .. },
                Answer::Value(Value(names)) | Answer::Bytes(names),
            ) => {
                let mut sorted: Vec<_> = names.split_inclusive(|&byte| byte == 0).collect();
                sorted.sort();
                *names = sorted.concat();
            }
            // They tell the type and the source, and which directory of the ext4 the root is.
            (
                Call::Mounts {}
                | Call::Statmount { .. }
                | Call::StatmountId { .. }
                | Call::StatmountOf { .. }
                | Call::StatmountNs { .. },
                answer,
            ) => *answer = Answer::Done,
            (Call::Getflags { .. }, Answer::Number(flags)) => *flags &= !FS_EXTENT_FL,
            (
                Call::Read { .. }
                | Call::LseekSet { .. }
                | Call::LseekCur { .. }
                | Call::LseekEnd { .. },
                answer,
            ) if directory => *answer = Answer::Done,
            _ => {}
        }
    }

    /// Whether which times a call stamps is the file system's own: of a file that gets the size or the attribute that it has,
    /// loses an ACL that it has not, or is empty and read; of a directory in which an ext4 had made a whiteout when it found that
    /// the rename cannot be: it takes that back, and the directory has changed.
    pub(super) fn stamps_its_own_way(self, call: &Call, answer: &Answer) -> bool {
        let own = match call {
            Call::Renameat2 { flags, .. } => {
                flags.contains(RenameFlags::WHITEOUT)
                    && matches!(answer.without_events(), Answer::Failed(_))
            }
            Call::Read { .. }
            | Call::Pread { .. }
            | Call::Truncate { .. }
            | Call::Ftruncate { .. }
            | Call::Removexattr { .. }
            | Call::Lremovexattr { .. }
            | Call::Fremovexattr { .. }
            | Call::Removexattrat { .. }
            | Call::Setxattr { .. }
            | Call::Lsetxattr { .. }
            | Call::Fsetxattr { .. }
            | Call::Setxattrat { .. } => true,
            _ => false,
        };
        own && self == Self::Ext4
    }

    /// Whether the kernel has no room where tmpfs has: an ext4 keeps all extended attributes of a file in a block.
    pub(super) fn lacks_room(self, answer: &Answer) -> bool {
        self == Self::Ext4 && *answer == Answer::Failed(Errno::ENOSPC)
    }
}

/// Whether it is more than a header, which alone takes the ACL away.
fn has_entries(acl: &[u8]) -> bool {
    acl.len() > posix_acl::HEADER
}

/// Whether a call is drawn of a directory of the host: whether it is not about what is cached, of which the kernel has all,
/// pathwalk what it has seen.
pub(crate) fn is_known_of_host(call: &Call) -> bool {
    !matches!(call, Call::Openat2 { resolve, .. } if resolve.contains(ResolveFlags::CACHED))
}

/// The text of mountinfo, where a directory of the host stands for the kernel's tmpfs.
pub(crate) fn mountinfo_as_tmpfs(text: Vec<u8>) -> Vec<u8> {
    let line = |line: &[u8]| {
        let words = line.split(|&byte| byte == b' ');
        let mut words: Vec<&[u8]> = words.collect();
        if let Some(at) = words.iter().position(|word| *word == b"hostfs") {
            words[at..=at + 1].copy_from_slice(&[b"tmpfs", b"none"]);
        }
        words.join(&b' ')
    };
    text.split(|&byte| byte == b'\n').map(line).collect::<Vec<_>>().join(&b'\n')
}

/// What statmount tells, the same.
pub(crate) fn statmount_as_tmpfs(mut told: StatMount) -> StatMount {
    if told.fs_type == b"hostfs" {
        told.fs_type = b"tmpfs".into();
    }
    if told.sb_source.starts_with(b"/dev/shm/") {
        told.sb_source = b"none".into();
    }
    told
}
