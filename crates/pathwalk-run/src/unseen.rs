//! What a process has to find answers by itself, which `/proc` shows to nobody.

use crate::inside;
use parking_lot::Mutex;
use rustix::{fs, io};
use std::{collections::VecDeque, os::fd::OwnedFd, sync::Arc};

/// Sockets that processes have and are not shown, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unseen(Arc<Mutex<VecDeque<u64>>>);

/// So many are kept in mind, the latest: a process may have one that it was given by another, who is gone.
const MOST_UNSEEN: usize = 1 << 12;

impl Unseen {
    /// One more is not shown.
    pub(crate) fn hide(&self, ino: u64) {
        let mut unseen = self.0.lock();
        if unseen.len() >= MOST_UNSEEN {
            unseen.pop_front();
        }
        unseen.push_back(ino);
    }

    /// Whether one has this number.
    pub(crate) fn has_number(&self, ino: u64) -> bool {
        self.0.lock().contains(&ino)
    }

    /// Whether a link of a descriptor leads to one.
    fn has(&self, link: &[u8]) -> bool {
        let ino = link.strip_prefix(b"socket:[").and_then(|rest| rest.strip_suffix(b"]"));
        let ino = ino.and_then(|ino| std::str::from_utf8(ino).ok()?.parse().ok());
        ino.is_some_and(|ino| self.has_number(ino))
    }

    /// Whether a thread has nothing of its own under this number.
    pub(crate) fn is_free(&self, tid: u32, number: u32) -> bool {
        match fs::readlink(format!("/proc/{tid}/fd/{number}"), Vec::new()) {
            Ok(link) => self.has(link.to_bytes()),
            Err(errno) => errno == io::Errno::NOENT,
        }
    }
}

/// Whether a name in a process's directory is of what it has to find answers by itself.
pub(crate) fn is_inside(dir: &OwnedFd, name: &[u8], unseen: &Unseen) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    if text.parse().is_ok_and(|number| inside::NUMBERS.contains(&number)) {
        // In `fd` it is a link, in `fdinfo` a file.
        let kind = fs::statat(dir, name, fs::AtFlags::SYMLINK_NOFOLLOW);
        let kind = kind.map(|stat| fs::FileType::from_raw_mode(stat.st_mode));
        let link = match kind {
            Ok(fs::FileType::RegularFile) => {
                fs::readlinkat(dir, format!("../fd/{text}"), Vec::new())
            }
            _ => fs::readlinkat(dir, name, Vec::new()),
        };
        return link.is_ok_and(|link| {
            link.to_bytes() == b"anon_inode:[eventpoll]" || unseen.has(link.to_bytes())
        });
    }
    let start = text.split_once('-').and_then(|(start, _)| u64::from_str_radix(start, 16).ok());
    start.is_some_and(inside::has)
}
