//! Watched directories: which of their names nobody has touched since the host was asked about them.
//!
//! ```text
//!   drain ── what happened ──► a name is not known any more; a directory is not as it was
//!   watch ──► the directory's version ── the host is asked ──► learn: known, if the version is still the same
//! ```
//!
//! Rules:
//! 1. The host puts an event into the queue before the call returns that it tells of. So who has emptied the queue knows of
//!    all that was done before.
//! 2. A name is known only while its directory is watched, and was so before the host was asked about it.
//! 3. Each event moves its directory's version, lost ones move all: what was asked before and is told after is not believed.
//!
//! Manual: inotify(7).

use crate::{
    host::{Event, Host},
    node::Node,
};
use parking_lot::Mutex;
use pathwalk_abi::Result;
use std::{
    collections::{HashMap, HashSet},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A directory of which more names are known forgets all of them.
const MOST: usize = 1 << 16;

/// All watches of a mount.
#[derive(Debug)]
pub(crate) struct Watches {
    queue: OwnedFd,
    /// Held while the queue is read, so that what was read has been noted.
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    dirs: HashMap<u64, Dir>,
    by_number: HashMap<i32, u64>,
}

#[derive(Debug)]
struct Dir {
    number: i32,
    version: u64,
    known: HashSet<Box<[u8]>>,
    /// Its attributes are those that the cache has.
    fresh: bool,
}

impl Dir {
    fn touch(&mut self) {
        self.version += 1;
        self.fresh = false;
    }
}

impl Watches {
    /// # Errors
    ///
    /// `EMFILE`: the user has as many queues as one may have.
    pub(crate) fn new(host: &Host) -> Result<Self> {
        Ok(Self { queue: host.inotify()?, table: Mutex::default() })
    }

    /// Notes all that has happened.
    pub(crate) fn drain(&self, host: &Host) {
        let mut table = self.table.lock();
        let read = host.events(self.queue.as_fd(), &mut |event| table.note(&event));
        if read.is_err() {
            table.forget_all();
        }
    }

    /// Watches a directory that is held, and gives its version; none where it cannot be watched.
    pub(crate) fn watch(&self, host: &Host, dir: u64, held: BorrowedFd<'_>) -> Option<u64> {
        let mut table = self.table.lock();
        if let Some(dir) = table.dirs.get(&dir) {
            return Some(dir.version);
        }
        let number = host.add_watch(self.queue.as_fd(), held).ok()?;
        table.by_number.insert(number, dir);
        let new = Dir { number, version: 0, known: HashSet::new(), fresh: false };
        table.dirs.insert(dir, new);
        Some(0)
    }

    /// Notes that the host was asked about a name, when the directory had that version.
    pub(crate) fn learn(&self, dir: u64, name: &[u8], version: u64) {
        let mut table = self.table.lock();
        if let Some(dir) = table.dirs.get_mut(&dir).filter(|dir| dir.version == version) {
            if dir.known.len() >= MOST {
                dir.known.clear();
            }
            dir.known.insert(name.into());
        }
    }

    /// Notes that a directory's own attributes were told.
    pub(crate) fn fresh(&self, dir: u64) {
        if let Some(dir) = self.table.lock().dirs.get_mut(&dir) {
            dir.fresh = true;
        }
    }

    /// Whether a name, and what it stands for, is as it was when the host was asked.
    pub(crate) fn knows(&self, dir: u64, name: &[u8], node: Option<&Node>) -> bool {
        let table = self.table.lock();
        let known = table.dirs.get(&dir).is_some_and(|dir| dir.known.contains(name));
        // What happens in a directory that is not watched changes its times, and nobody says so.
        known
            && node.is_none_or(|node| {
                !node.is_directory() || table.dirs.get(&node.id).is_some_and(|dir| dir.fresh)
            })
    }

    /// Watches a directory no more.
    pub(crate) fn forget(&self, host: &Host, dir: u64) {
        let mut table = self.table.lock();
        if let Some(dir) = table.dirs.remove(&dir) {
            table.by_number.remove(&dir.number);
            host.remove_watch(self.queue.as_fd(), dir.number);
        }
    }
}

impl Table {
    fn note(&mut self, event: &Event<'_>) {
        if event.lost {
            self.forget_all();
            return;
        }
        let Some(&id) = self.by_number.get(&event.number) else { return };
        if event.ends {
            self.by_number.remove(&event.number);
            self.dirs.remove(&id);
            return;
        }
        let Some(dir) = self.dirs.get_mut(&id) else { return };
        dir.touch();
        if let Some(name) = event.name {
            dir.known.remove(name);
        }
    }

    fn forget_all(&mut self) {
        for dir in self.dirs.values_mut() {
            dir.touch();
            dir.known.clear();
        }
    }
}
