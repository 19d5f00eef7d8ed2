//! Change notification: what inotify_add_watch(2) is told, and the records that are read.
//!
//! ```text
//! 0        4        8        12       16
//! ┌────────┬────────┬────────┬────────┬────────────────┬─────────┐
//! │ wd     │ mask   │ cookie │ len    │ name ...       │ zeros   │   len counts the name and its zeros
//! └────────┴────────┴────────┴────────┴────────────────┴─────────┘
//! ```
//!
//! Invariant: a record starts and ends at a multiple of [`HEADER`]; a record without a name is nothing but that.
//!
//! Manual: inotify(7), `struct inotify_event`.

use crate::OpenFlags;
use bitflags::bitflags;
use core::mem::offset_of;
use linux_raw_sys::general::{self, inotify_event};

bitflags! {
    /// What inotify_init1(2) is told: `IN_CLOEXEC`, `IN_NONBLOCK`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InotifyFlags: u32 {
        /// Close the descriptor on execve(2).
        const CLOEXEC = OpenFlags::CLOEXEC.bits() as u32;
        /// Reading does not wait.
        const NONBLOCK = OpenFlags::NONBLOCK.bits() as u32;
    }
}

bitflags! {
    /// What is watched, how, and what happened: `IN_*`.
    ///
    /// `all()` is what inotify_add_watch(2) accepts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InotifyMask: u32 {
        /// A file was read, a directory listed.
        const ACCESS = general::IN_ACCESS;
        /// The contents changed.
        const MODIFY = general::IN_MODIFY;
        /// Attributes changed: mode, owner, times, number of names, extended attributes.
        const ATTRIB = general::IN_ATTRIB;
        /// A file that was open for writing was closed.
        const CLOSE_WRITE = general::IN_CLOSE_WRITE;
        /// A file that was not open for writing was closed.
        const CLOSE_NOWRITE = general::IN_CLOSE_NOWRITE;
        /// A file was opened.
        const OPEN = general::IN_OPEN;
        /// A name left the directory by a rename.
        const MOVED_FROM = general::IN_MOVED_FROM;
        /// A name came into the directory by a rename.
        const MOVED_TO = general::IN_MOVED_TO;
        /// A name was made in the directory.
        const CREATE = general::IN_CREATE;
        /// A name was removed from the directory.
        const DELETE = general::IN_DELETE;
        /// What is watched has no name left, and nobody uses it.
        const DELETE_SELF = general::IN_DELETE_SELF;
        /// What is watched was renamed.
        const MOVE_SELF = general::IN_MOVE_SELF;
        /// The file system was unmounted; of events only.
        const UNMOUNT = general::IN_UNMOUNT;
        /// Events were lost; of events only.
        const Q_OVERFLOW = general::IN_Q_OVERFLOW;
        /// The watch is gone; of events only.
        const IGNORED = general::IN_IGNORED;
        /// Watch only a directory.
        const ONLYDIR = general::IN_ONLYDIR;
        /// Do not follow a symbolic link at the end of the path.
        const DONT_FOLLOW = general::IN_DONT_FOLLOW;
        /// Do not tell about a child that was opened and has no name any more.
        const EXCL_UNLINK = general::IN_EXCL_UNLINK;
        /// Fail if it is watched already.
        const MASK_CREATE = general::IN_MASK_CREATE;
        /// Add to the mask of a watch instead of replacing it.
        const MASK_ADD = general::IN_MASK_ADD;
        /// What the event is about is a directory; of events only.
        const ISDIR = general::IN_ISDIR;
        /// Remove the watch after one event.
        const ONESHOT = general::IN_ONESHOT;
    }
}

impl InotifyMask {
    /// Everything that can happen to what is watched: `IN_ALL_EVENTS`.
    pub const ALL_EVENTS: Self = Self::from_bits_retain(general::IN_ALL_EVENTS);
    /// `IN_CLOSE`: both kinds of closing.
    pub const CLOSE: Self = Self::from_bits_retain(general::IN_CLOSE);
    /// `IN_MOVE`: both sides of a rename.
    pub const MOVE: Self = Self::from_bits_retain(general::IN_MOVE);
}

/// The length of a record without its name.
pub const HEADER: usize = size_of::<inotify_event>();

const _: () = assert!(HEADER == 16);
const _: () = assert!(offset_of!(inotify_event, wd) == 0 && offset_of!(inotify_event, mask) == 4);
const _: () =
    assert!(offset_of!(inotify_event, cookie) == 8 && offset_of!(inotify_event, len) == 12);

/// Returns the length of the record for a name of `name_len` bytes, terminator and padding included; without a name it
/// is nothing but the header.
pub const fn reclen(name_len: usize) -> usize {
    if name_len == 0 { HEADER } else { HEADER + (name_len + 1).next_multiple_of(HEADER) }
}

/// An event, borrowed from what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InotifyEvent<'b> {
    /// The watch; -1 where events were lost.
    pub wd: i32,
    /// What happened.
    pub mask: InotifyMask,
    /// Joins the two sides of a rename; else 0.
    pub cookie: u32,
    /// The name in the watched directory; empty where the event is about what is watched itself.
    pub name: &'b [u8],
}

impl InotifyEvent<'_> {
    /// The length of the record.
    pub fn reclen(&self) -> usize {
        reclen(self.name.len())
    }

    /// Writes the record at the beginning of `buf` and returns its length; `None` where there is no room for it.
    pub fn write(&self, buf: &mut [u8]) -> Option<usize> {
        let len = self.reclen();
        let record = buf.get_mut(..len)?;
        record.fill(0);
        let words = [self.wd as u32, self.mask.bits(), self.cookie, (len - HEADER) as u32];
        for (chunk, word) in record.chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        record[HEADER..][..self.name.len()].copy_from_slice(self.name);
        Some(len)
    }
}

/// Reads the records in `buf`, as read(2) left them there; ends where a record is cut off.
pub fn events(mut buf: &[u8]) -> impl Iterator<Item = InotifyEvent<'_>> {
    core::iter::from_fn(move || {
        let (header, rest) = buf.split_at_checked(HEADER)?;
        let mut words = header
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("a chunk has four bytes")));
        let mut word = || words.next().expect("a header has four words");
        let (wd, mask, cookie, len) = (word(), word(), word(), word());
        let (name, rest) = rest.split_at_checked(len as usize)?;
        buf = rest;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let mask = InotifyMask::from_bits_retain(mask);
        Some(InotifyEvent { wd: wd as i32, mask, cookie, name: &name[..end] })
    })
}
