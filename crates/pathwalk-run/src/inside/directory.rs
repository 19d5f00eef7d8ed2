//! Directories that are given as the host has them, and listed in the process.
//!
//! ```text
//!   open a directory ──► of a part of the host, and not its root
//!      ──► the process gets it as it is, and finds by its number that it may list it itself
//!      ──► the process goes through a tree that is only read: what the directories in it are is laid down too
//! ```
//!
//! What such a directory lists is what the tree lists: names, types and numbers are the host's, and what is mounted on one of its names is
//! listed as what is below it, on Linux too. Of the root alone `..` is another one. By the descriptor nothing is reached but the list: every
//! call that has a path, or changes something, is answered here, and to enter the directory is to enter a cookie.
//!
//! Who goes through a tree opens each directory, and asks what the directories in it are before it opens them. By the names in it that
//! is known when the first is opened: so it is not asked.

use super::{
    Inside, KNOWN, MOST_COUNTED, Part,
    ahead::Those,
    beside::{Children, MOST_NAMES, NO_OTHERS},
    laid::{attributes_of, ino_and_mode_in},
    list::is_unnoted,
    scout::Been,
    told::{Kinds, Xattrs},
};
use crate::{
    cookies::{HostId, Known},
    engine::{Base, Caller, Engine},
};
use pathwalk::{File, FileType, Stat};
use pathwalk_inside::{Answer, GETDENTS64, Key, NEWFSTATAT};
use rustc_hash::FxHashMap;
use rustix::fs::{self, SeekFrom};
use std::os::fd::BorrowedFd;

/// Of so many directories in one it is laid down what they are: all others wait meanwhile.
const MOST_CHILDREN: usize = 256;

/// Threads that go through a tree, and the flags by which they ask what a directory is.
#[derive(Debug, Default)]
pub(super) struct Goers(FxHashMap<u32, u64>);

impl Goers {
    /// A thread asked what a name is in a directory that it was given.
    pub(super) fn asked(&mut self, tid: u32, flags: u64) {
        if self.0.len() >= MOST_COUNTED {
            self.0.clear();
        }
        self.0.insert(tid, flags);
    }

    /// By which flags a thread asks, if it goes through a tree.
    pub(super) fn flags(&self, tid: u32) -> Option<u64> {
        self.0.get(&tid).copied()
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, tid: u32) {
        self.0.remove(&tid);
    }
}

/// Whether a thread waits for a directory: what is in one that it is only expected to open is not looked at for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Asked,
    Expected,
}

/// Whether a path leads up, as who goes through a tree by fts(3) goes back.
pub(super) fn is_up(path: &[u8]) -> bool {
    path == b".."
}

/// A directory that is given, and what is known of it before anything else is asked.
pub(super) struct AsItIs<'a> {
    file: &'a File,
    host: BorrowedFd<'a>,
    stat: fs::Stat,
    /// What the tree has of it, if it could be asked.
    ours: Option<Stat>,
    part: Part,
    /// What answers hang on: what descriptors stand for, and what others do.
    parts: [(usize, u64); 2],
}

impl AsItIs<'_> {
    fn base(&self) -> [u64; 2] {
        [self.stat.st_dev, self.stat.st_ino]
    }
}

impl Engine {
    /// Whether a directory that was opened is given as the host has it. Then the process lists it by itself.
    pub(crate) fn gives(&mut self, caller: &Caller, file: &File) -> bool {
        let Some(mut inside) = self.inside.take() else { return false };
        // What is above was gone through before.
        let up = caller.paths.borrow().iter().any(|(_, text)| is_up(text));
        let is_given = match up {
            true => self.gives_as_it_is(&mut inside, file).is_some(),
            false => self.gives_to(&mut inside, caller.tid, file, Opening::Asked),
        };
        self.inside = Some(inside);
        is_given
    }

    /// The same of one that a thread opens or is expected to open.
    pub(super) fn gives_to(
        &mut self,
        inside: &mut Inside,
        tid: u32,
        file: &File,
        opening: Opening,
    ) -> bool {
        let Some(given) = self.gives_as_it_is(inside, file) else { return false };
        // Where the program writes while it goes, what is laid down holds for a moment.
        if let Part::Host { writable: false, .. } = given.part
            && let (Some(ours), Some(flags)) = (given.ours, inside.goers.flags(tid))
        {
            return self.lay_down_children(inside, &given, &ours, flags, opening);
        }
        true
    }

    /// Makes a directory one that is given as it is, if it may be.
    fn gives_as_it_is<'a>(&mut self, inside: &mut Inside, file: &'a File) -> Option<AsItIs<'a>> {
        let host = file.host_fd()?;
        let &part = inside.parts.get(&file.mount_id())?;
        let Part::Host { count, plain: true, root, .. } = part else { return None };
        let stat = fs::fstat(host).ok()?;
        let id = HostId::of(&stat);
        if stat.st_ino == root || self.asker.is_stranger(id) || !self.cookies.give(id, file) {
            return None;
        }
        inside.forgotten(self.cookies.forgotten());
        let parts = [KNOWN, count].map(|part| (part, inside.counts.get(part)));
        inside.lists([stat.st_dev, stat.st_ino]);
        let ours = self.task.fstat(file).ok();
        if let Some(ours) = &ours {
            inside.lay_as_the_host(&stat, &attributes_of(ours), parts[0]);
        }
        Some(AsItIs { file, host, stat, ours, part, parts })
    }

    /// Somebody lists a directory that is given, and did not find that he may do it himself.
    pub(crate) fn is_listed(&mut self, known: &Known) {
        if let Some(inside) = &mut self.inside {
            inside.forgotten(self.cookies.forgotten());
            inside.lists([known.id.dev(), known.id.ino()]);
        }
    }

    /// Lays down what the directories in it are; says whether that has to be done no more. Nothing is laid down where to list it would be noted, which the program may not do: it is where it is
    /// neither the user's own nor root asks.
    fn lay_down_children(
        &self,
        inside: &mut Inside,
        given: &AsItIs<'_>,
        ours: &Stat,
        flags: u64,
        opening: Opening,
    ) -> bool {
        if given.stat.st_nlink == NO_OTHERS {
            inside.scout.is_followed();
            return true;
        }
        let done = Key { nr: NEWFSTATAT, args: [flags, 0], base: given.base(), text: b"" };
        let (kinds, part, parts) = (Kinds::Directories, given.part, &given.parts);
        let xattrs = Xattrs::default();
        let those = Those { kinds, most: MOST_CHILDREN, key: done, part, parts, xattrs };
        let Some(look) = those.look(inside) else { return true };
        // No path is empty: it is found by nobody but who looks here whether it is done.
        let is_done = inside.table.has(&done);
        let expected = opening == Opening::Expected && !is_done;
        let id = [given.file.mount_id(), ours.st_dev, ours.st_ino];
        if expected && !inside.scout.has_found(&those, id) {
            return false;
        }
        let been = inside.scout.opened(given.file, ours, kinds, &look.wants);
        // Who watches would be told of what is read here.
        if is_done || inside.ahead.is_none() {
            return true;
        }
        let answer = Answer { result: 0, written: b"", parts: &given.parts };
        let dir = HostId::of(&given.stat);
        let parts = Some(given.parts);
        if let Been::Yes(Some(found)) = &been
            && inside.lay_down_found(&those, found)
        {
            inside.table.put(&done, &answer);
            let whole = found.whole && found.files.len() <= MOST_NAMES;
            let names = found.files.iter().map(|(name, told)| (name.clone(), told.ino()));
            let names = (names.take(MOST_NAMES).collect(), whole);
            inside.children = Some(Children { dir, names, parts });
            return true;
        }
        if expected {
            return false;
        }
        inside.table.put(&done, &answer);
        if !is_unnoted(given.host) {
            return true;
        }
        let (mut names, mut to_enter, mut all_believed) = (Vec::new(), Vec::new(), true);
        // What cannot be listed is asked about.
        let whole = self.lay_down_those(inside, given.file, &those, &mut |entry, told| {
            let Some(told) = told else {
                all_believed = false;
                return;
            };
            let named = (Box::from(entry.name), entry.ino);
            if told.nlink() != NO_OTHERS {
                to_enter.push(named.clone());
            }
            names.push(named);
        });
        // Where one is left out, another one would seem to be next.
        if whole == Ok(true) && all_believed {
            inside.children = Some(Children { dir, names: (names, true), parts });
        }
        if let Been::No = been {
            inside.scout.go(&self.task, given.file, look, to_enter);
        }
        // From where it is listed next.
        let _ = fs::seek(given.host, SeekFrom::Start(0));
        true
    }
}

impl Inside {
    /// Hears of a question that was answered. Who asks what a directory is by its name in one that he was given goes through a tree.
    pub(super) fn goes(&mut self, caller: &Caller, key: &Key<'_>) {
        let in_given = || matches!(&*caller.base.borrow(), Some((Base::Dir(dir), _)) if dir.given);
        let of_directory = || {
            let told = ino_and_mode_in(key.nr, &caller.written.borrow());
            told.is_some_and(|(_, mode)| FileType::from_mode(mode) == Some(FileType::Directory))
        };
        if key.nr == NEWFSTATAT && !key.text.contains(&b'/') && in_given() && of_directory() {
            self.goers.asked(caller.tid, key.args[0]);
        }
    }

    /// A process that has this directory of the host lists it.
    fn lists(&mut self, base: [u64; 2]) {
        let key = Key { nr: GETDENTS64, args: [0, 0], base, text: b"" };
        if !self.table.has(&key) {
            let parts = [(KNOWN, self.counts.get(KNOWN))];
            self.table.put(&key, &Answer { result: 0, written: b"", parts: &parts });
        }
    }
}
