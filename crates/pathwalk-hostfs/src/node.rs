//! Nodes: which file of the host an inode of the cache is, and by which names it was seen.
//!
//! ```text
//!   by number    node ──► its file, its names (parent's node, name), how often it was answered
//!   by file      (device, inode, birth) ──► node
//! ```
//!
//! Rules:
//! 1. A number is given to one file once and never again.
//! 2. A node stays until it was taken back as often as it was answered; then nothing of it is left.
//! 3. A name is where a file was seen, and may have become another's: who goes there looks whether it is still the file.
//! 4. A file that has lost its last name is held by a descriptor, for as long as its node stays: there is no other way
//!    to it.
//!
//! Linux: `nlookup` of FUSE; `i_ino` and `i_generation` of a file handle.

use crate::handle::HostFile;
use parking_lot::Mutex;
use pathwalk_abi::{FileType, Timespec};
use rustc_hash::FxHashMap;
use rustix::fs::Statx;
use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

/// The number of the root's node.
pub(crate) const ROOT: u64 = 1;

/// Where the host was asked about a file so often, it is worth a watch of its own.
const OFTEN_LOOKED_AT: u64 = 4;

/// So many of a file's names are remembered, the latest first.
const NAMES: usize = 64;

/// Which file of the host: its birth tells it from one that got its inode number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ident {
    dev: (u32, u32),
    ino: u64,
    birth: (i64, u32),
    kind: FileType,
}

impl Ident {
    pub(crate) fn of(stat: &Statx) -> Self {
        Self {
            dev: (stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            birth: (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
            kind: FileType::from_mode(stat.stx_mode.into()).unwrap_or(FileType::Regular),
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        self.kind
    }

    /// Whether another file may be this one by all that is told of it: so it is with terminals, of which each has the number and the
    /// name of one that is gone. A descriptor of that leads to none.
    pub(crate) fn may_come_again(&self) -> bool {
        self.kind == FileType::CharDevice && self.birth == (0, 0)
    }
}

/// A file of the host that the cache was told of.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) ident: Ident,
    state: Mutex<State>,
    /// The turn of the attributes that the cache has; under the inode's lock.
    pub(crate) shown: AtomicU64,
    /// A name in it was asked about.
    pub(crate) asked_in: AtomicBool,
    /// See [`Node::is_linked`].
    linked: AtomicBool,
    /// Somebody was given a place of it.
    given: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    names: Vec<(u64, Box<[u8]>)>,
    nameless: Option<Arc<OwnedFd>>,
    opened: Vec<Weak<HostFile>>,
    /// How often the host was asked for the attributes.
    turns: u64,
    /// Where that is so often, it is tried to watch it itself; where it cannot be, or is watched no more, again at twice as often.
    watch_at: u64,
    /// The time of last access that the host kept when it noted no reading: the cache has a later one.
    unnoted: Option<Timespec>,
    /// When the ACLs were asked for that the cache may have; none where it has none for sure.
    acls: Option<AclsOf>,
}

/// What was so when the host was asked for ACLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclsOf {
    /// The version of what is watched itself.
    pub(crate) version: Option<u64>,
    /// The time of last change, if it was so long ago that the next change has another one.
    pub(crate) ctime: Option<Timespec>,
}

impl Node {
    pub(crate) fn kind(&self) -> FileType {
        self.ident.kind
    }

    /// Whether it can have extended attributes of its user's on the host.
    pub(crate) fn can_have_attributes(&self) -> bool {
        matches!(self.ident.kind, FileType::Regular | FileType::Directory)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.ident.kind == FileType::Directory
    }

    /// Whether it was seen to have several names. What is done by one of them is told neither of the directory of another, nor later, when
    /// that one is gone and somebody still has the file open by it.
    pub(crate) fn is_linked(&self) -> bool {
        // Relaxed: whose call began when another one had seen it comes behind that; whose call ran beside it may be answered as before.
        self.linked.load(Relaxed)
    }

    /// Whether all that happens to it is told only where it is watched itself.
    pub(crate) fn needs_a_watch(&self) -> bool {
        self.is_directory() || self.is_linked()
    }

    /// Notes how many names the host says that it has; says whether that is the first time that there were several.
    pub(crate) fn note_links(&self, nlink: u32) -> bool {
        nlink > 1 && !self.is_directory() && !self.linked.swap(true, Relaxed)
    }

    /// Notes that somebody was given a place of it.
    pub(crate) fn is_given(&self) {
        // Relaxed: whose call runs beside it may hold it once more, until it has no name.
        self.given.store(true, Relaxed);
    }

    /// Whether a descriptor of it may be held for a later call: not where that would keep from others that it is gone.
    pub(crate) fn may_be_held(&self) -> bool {
        !self.ident.may_come_again() && !self.given.load(Relaxed)
    }

    /// A turn at asking for the attributes: of two answers the one that was asked for later is right.
    pub(crate) fn turn(&self) -> u64 {
        let mut state = self.state.lock();
        state.turns += 1;
        state.turns
    }

    /// How often that was.
    pub(crate) fn turns(&self) -> u64 {
        self.state.lock().turns
    }

    /// Whether the host was asked so often that it is worth a watch of its own, and it is to be tried now.
    pub(crate) fn is_to_be_watched(&self) -> bool {
        let mut state = self.state.lock();
        let now = state.turns >= state.watch_at.max(OFTEN_LOOKED_AT);
        if now {
            state.watch_at = 2 * state.turns;
        }
        now
    }

    /// See [`State::unnoted`].
    pub(crate) fn unnoted(&self) -> Option<Timespec> {
        self.state.lock().unnoted
    }

    /// Sets [`State::unnoted`].
    pub(crate) fn set_unnoted(&self, kept: Option<Timespec>) {
        self.state.lock().unnoted = kept;
    }

    /// Notes that the host is about to be asked for the ACLs. The first since they were forgotten counts: that is older than any that
    /// the cache may have.
    pub(crate) fn asks_for_acls(&self, now: AclsOf) {
        self.state.lock().acls.get_or_insert(now);
    }

    /// See [`State::acls`].
    pub(crate) fn acls(&self) -> Option<AclsOf> {
        self.state.lock().acls
    }

    /// Where ACLs were asked for, forgets them unless nothing has happened to them since. Nobody asks meanwhile; `forget` may take the inode's lock.
    pub(crate) fn forget_acls_unless(
        &self,
        same: impl FnOnce(&AclsOf) -> bool,
        forget: impl FnOnce(),
    ) {
        let acls = &mut self.state.lock().acls;
        if acls.take_if(|acls| !same(acls)).is_some() {
            forget();
        }
    }

    /// Where it was seen, the latest first: the directory's node and the name.
    pub(crate) fn names(&self) -> Vec<(u64, Box<[u8]>)> {
        self.state.lock().names.clone()
    }

    /// Where it was seen last.
    pub(crate) fn last_name(&self) -> Option<(u64, Box<[u8]>)> {
        self.state.lock().names.first().cloned()
    }

    /// Notes that it was seen there.
    pub(crate) fn add_name(&self, dir: u64, name: &[u8]) {
        let names = &mut self.state.lock().names;
        match names.iter().position(|(at, known)| *at == dir && **known == *name) {
            Some(0) => {}
            Some(place) => names[..=place].rotate_right(1),
            None => {
                names.truncate(NAMES - 1);
                // A directory has one name.
                if self.ident.kind == FileType::Directory {
                    names.clear();
                }
                names.insert(0, (dir, name.into()));
            }
        }
    }

    /// Notes that it is there no more.
    pub(crate) fn remove_name(&self, dir: u64, name: &[u8]) {
        self.state.lock().names.retain(|(at, known)| *at != dir || **known != *name);
    }

    /// Its descriptor, if it has lost its last name.
    pub(crate) fn nameless(&self) -> Option<Arc<OwnedFd>> {
        self.state.lock().nameless.clone()
    }

    /// Says by what it is reached when it has no name; none where it has one.
    pub(crate) fn set_nameless(&self, fd: Option<Arc<OwnedFd>>) {
        self.state.lock().nameless = fd;
    }

    /// Notes who has it open.
    pub(crate) fn opened(&self, file: &Arc<HostFile>) {
        let opened = &mut self.state.lock().opened;
        opened.retain(|file| file.strong_count() != 0);
        opened.push(Arc::downgrade(file));
    }

    /// Somebody who has it open, and can write to it if that is wanted.
    pub(crate) fn who_has_it_open(&self, writes: bool) -> Option<Arc<HostFile>> {
        let state = self.state.lock();
        state.opened.iter().filter_map(Weak::upgrade).find(|file| !writes || file.writes())
    }
}

/// All nodes of a mount.
#[derive(Debug)]
pub(crate) struct Nodes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_number: FxHashMap<u64, (Arc<Node>, u64)>,
    by_file: FxHashMap<Ident, u64>,
    next: u64,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Table { next: ROOT, ..Table::default() }))
    }

    /// The node of a file that is about to be answered, and whether it was not there before: each call is taken back once, by
    /// [`Nodes::forget`].
    pub(crate) fn answer(&self, ident: Ident) -> (Arc<Node>, bool) {
        let mut table = self.0.lock();
        let table = &mut *table;
        let id = *table.by_file.entry(ident).or_insert(table.next);
        let (node, answered) = table.by_number.entry(id).or_insert_with(|| {
            table.next += 1;
            let node = Node {
                id,
                ident,
                state: Mutex::default(),
                shown: AtomicU64::new(0),
                asked_in: AtomicBool::new(false),
                linked: AtomicBool::new(false),
                given: AtomicBool::new(false),
            };
            (Arc::new(node), 0)
        });
        *answered += 1;
        (Arc::clone(node), *answered == 1)
    }

    /// The node of that number.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Node>> {
        self.0.lock().by_number.get(&id).map(|(node, _)| Arc::clone(node))
    }

    /// The node of a file, if there is one.
    pub(crate) fn of_file(&self, ident: &Ident) -> Option<Arc<Node>> {
        let table = self.0.lock();
        let (node, _) = table.by_number.get(table.by_file.get(ident)?)?;
        Some(Arc::clone(node))
    }

    /// Takes one answer back; says whether it was the last.
    pub(crate) fn forget(&self, id: u64) -> bool {
        let mut table = self.0.lock();
        let Some((node, answered)) = table.by_number.get_mut(&id) else {
            debug_assert!(false, "an answer is taken back once");
            return false;
        };
        *answered -= 1;
        if *answered != 0 {
            return false;
        }
        let ident = node.ident;
        table.by_number.remove(&id);
        table.by_file.remove(&ident);
        true
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Arc<Node> {
        let (dev, ino, birth, kind) = ((0, 1), 2, (0, 0), FileType::Regular);
        Nodes::new().answer(Ident { dev, ino, birth, kind }).0
    }

    /// Who asked first may have been told the older ones, and those may be what the cache has.
    #[test]
    fn acls_are_of_the_first_time_that_they_were_asked_for() {
        let node = node();
        let at = |version| AclsOf { version: Some(version), ctime: None };
        let forgets = |now: AclsOf| {
            let mut forgot = false;
            node.forget_acls_unless(|acls| *acls == now, || forgot = true);
            forgot
        };
        assert!(!forgets(at(1)), "none are known");
        node.asks_for_acls(at(1));
        node.asks_for_acls(at(2));
        assert!(!forgets(at(1)));
        assert!(forgets(at(2)));
        assert!(!forgets(at(3)), "once");
        node.asks_for_acls(at(3));
        assert_eq!(node.acls(), Some(at(3)));
    }

    /// Others ask as well, so a count may be passed over.
    #[test]
    fn what_is_asked_about_is_watched_at_the_latest_by_the_next_look() {
        let node = node();
        let mut tried = Vec::new();
        for _ in 0..40 {
            _ = (node.turn(), node.turn(), node.turn());
            if node.is_to_be_watched() {
                tried.push(node.turns());
            }
        }
        assert_eq!(tried, [6, 12, 24, 48, 96]);
    }
}
