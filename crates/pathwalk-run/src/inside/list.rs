//! Listing a directory of which the program hears nothing.

use pathwalk::{File, FileType, Result, Seek, Task};
use rustix::fs::{OFlags, fcntl_getfl};
use std::os::fd::BorrowedFd;

/// So many names of a directory are looked at at once.
pub(super) const MOST_FILES: usize = 4096;
/// So many bytes of names are listed at once.
pub(super) const LISTED: usize = 32 << 10;

/// What a directory has in it.
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: FileType,
    pub(super) ino: u64,
}

/// Whether what is listed by this descriptor is not noted as read.
pub(super) fn is_unnoted(host: BorrowedFd<'_>) -> bool {
    fcntl_getfl(host).is_ok_and(|told| told.contains(OFlags::NOATIME))
}

/// Lists a directory but for its dots, until that is enough or it was [`MOST_FILES`]; whether that was all. Where others are left it is
/// listed from the first of them on next.
///
/// # Errors
///
/// Those of getdents64(2).
pub(super) fn list(
    task: &Task,
    dir: &File,
    buf: &mut [u8],
    mut each: impl FnMut(Entry<'_>) -> bool,
) -> Result<bool> {
    let (mut left, mut next) = (MOST_FILES, 0);
    loop {
        let len = task.getdents64(dir, buf)?;
        if len == 0 {
            return Ok(true);
        }
        let mut rest = &buf[..len];
        // `struct linux_dirent64`: its inode's number, where the next one is, its length in two bytes from 16 on, its type, its name.
        while let Some(&[a, b]) = rest.get(16..18) {
            let length = usize::from(u16::from_ne_bytes([a, b]));
            let (entry, after) = rest.split_at(length.clamp(19, rest.len()));
            let word = |at| u64::from_ne_bytes(entry[at..at + 8].try_into().unwrap_or_default());
            let name = entry[19..].split(|&byte| byte == 0).next().unwrap_or_default();
            // Where the host does not say what it is, it is left out: it may be a symlink.
            let kind = FileType::from_mode(u32::from(entry[18]) << 12);
            if let Some(kind) = kind.filter(|_| ![&b"."[..], b".."].contains(&name)) {
                let enough = left == 0 || {
                    (left, next) = (left - 1, word(8));
                    !each(Entry { name, kind, ino: word(0) })
                };
                if enough {
                    task.lseek(dir, Seek::Set(next.cast_signed()))?;
                    return Ok(false);
                }
            }
            rest = after;
        }
    }
}
