//! Who opens directories beside each other, as they are listed, is about to open the next ones: they lie ready.
//!
//! ```text
//!   a thread opens a/x, and then a/y ──► a is listed: y comes behind x
//!   ──► what comes behind y is opened too, and put behind it (hands)
//! ```
//!
//! Rules:
//!
//! 1. Only a directory lies ready that would be given as the host has it (`directory`), and on which nothing is mounted, and by the rules of
//!    `ready` but for the first; the program may write where it is, as nothing is read or written by it.
//! 2. Behind one that has directories in it nothing is expected: those come next.
//! 3. A thread that took the last ones goes on in the next directory from its first one. Who opened another one instead has to open two
//!    in order again.

use super::{
    Before, Inside, Part,
    ahead::{UNNOTED, above, itself},
    laid::{End, OwnKey, end_of},
    list::{Entry, LISTED, is_unnoted, list},
    ready::Expected,
};
use crate::{
    cookies::HostId,
    engine::{Base, Engine},
};
use pathwalk::{File, FileType, OpenFlags};
use pathwalk_inside::Key;
use rustix::fs;

/// So many directories of one are kept in mind.
const MOST_NAMES: usize = 512;
/// Where directories are counted in it, one without others has so many links.
const NO_OTHERS: u64 = 2;
/// Flags of a directory that lies ready.
const PLAIN: OpenFlags = OpenFlags::DIRECTORY
    .union(OpenFlags::CLOEXEC)
    .union(OpenFlags::NONBLOCK)
    .union(OpenFlags::NOCTTY)
    .union(OpenFlags::LARGEFILE)
    .union(OpenFlags::NOFOLLOW);

/// Where among directories beside each other a thread is.
#[derive(Debug)]
pub(super) struct Row {
    /// How they are opened, up to the name.
    like: OwnKey,
    /// Their names, as they are listed; none where that is not known yet.
    names: Vec<Name>,
    /// Which was opened last.
    last: Box<[u8]>,
    /// It opened them in order.
    in_order: bool,
}

/// The name of a directory, and its number as it is listed: what is mounted there has another one.
type Name = (Box<[u8]>, u64);

/// A directory that was opened, by the path of what it is in, its name, and what is behind that.
struct Opened<'a> {
    above: &'a [u8],
    name: &'a [u8],
    end: &'a [u8],
}

impl<'a> Opened<'a> {
    fn of(key: &'a OwnKey) -> Option<Self> {
        let key = key.key();
        let flags = OpenFlags::from_bits_retain(key.args[0]);
        if !flags.contains(OpenFlags::DIRECTORY) || !(flags - PLAIN).is_empty() {
            return None;
        }
        let path = key.text.strip_suffix(b"/").unwrap_or(key.text);
        let above = above(path);
        let name = &path[above.len()..];
        let plain = ![&b""[..], b".", b".."].contains(&name);
        plain.then_some(Self { above, name, end: &key.text[path.len()..] })
    }
}

impl Row {
    /// Where a thread is that goes on elsewhere, or begins; `took` where what lay ready is what it opened.
    fn elsewhere(before: Option<&Self>, like: OwnKey, name: &[u8], took: bool) -> Self {
        let in_order = took && before.is_some_and(|row| row.in_order);
        Self { like, names: Vec::new(), last: name.into(), in_order }
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|(known, _)| **known == *name)
    }

    /// It opened one more.
    fn goes_on(&mut self, name: &[u8]) {
        let last = self.position(&self.last);
        self.in_order = last.is_some_and(|last| self.position(name) == Some(last + 1));
        self.last = name.into();
    }

    /// What comes behind the last one.
    fn behind(&self) -> &[Name] {
        let last = self.position(&self.last);
        last.map_or(&[], |last| &self.names[last + 1..])
    }
}

impl Engine {
    /// A thread opened a directory: what lies beside it, and is expected to be opened next, opened; and where the thread is then.
    pub(super) fn expected_beside(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        (base, key): (&Base, &OwnKey),
        file: &File,
        (row, took, most): (Option<Row>, bool, usize),
    ) -> (Vec<Expected>, Option<Row>) {
        let Some(opened) = Opened::of(key) else { return (Vec::new(), row) };
        let like = OwnKey::of(&Key { text: opened.above, ..key.key() });
        let mut row = match row {
            Some(mut row) if row.like == like => {
                if row.names.is_empty() {
                    row.names = self.names_in(base, opened.above).unwrap_or_default();
                }
                row.goes_on(opened.name);
                row
            }
            row => {
                let mut row = Row::elsewhere(row.as_ref(), like, opened.name, took);
                if row.in_order {
                    row.names = self.names_in(base, opened.above).unwrap_or_default();
                }
                row
            }
        };
        let no_others = |file: &File| {
            let stat = file.host_fd().and_then(|host| fs::fstat(host).ok());
            stat.is_some_and(|stat| stat.st_nlink == NO_OTHERS)
        };
        let mut all: Vec<Expected> = Vec::new();
        if !row.in_order || !no_others(file) {
            return (all, Some(row));
        }
        for (name, ino) in row.behind().iter().take(most) {
            let text = [opened.above, name, opened.end].concat();
            let key = OwnKey::of(&Key { text: &text, ..key.key() });
            let expected = self.open_beside(inside, before, base, key, (file.mount_id(), *ino));
            let Some(expected) = expected else { break };
            let is_last = !no_others(&expected.file);
            all.push(expected);
            if is_last {
                break;
            }
        }
        if let Some((last, _)) = row.behind().get(..all.len()).and_then(<[_]>::last).cloned() {
            row.last = last;
        }
        (all, Some(row))
    }

    /// The directories in one, as they are listed; none where that would be noted.
    fn names_in(&self, base: &Base, above: &[u8]) -> Option<Vec<Name>> {
        let dir = self.task.openat(base.at(), itself(above), UNNOTED, 0).ok()?;
        if !dir.host_fd().is_some_and(is_unnoted) {
            return None;
        }
        let mut names = Vec::new();
        let each = |Entry { name, kind, ino }: Entry<'_>| {
            if kind == FileType::Directory {
                names.push((name.into(), ino));
            }
            names.len() < MOST_NAMES
        };
        list(&self.task, &dir, &mut vec![0; LISTED], each).ok()?;
        Some(names)
    }

    /// Opens what a call would open, if it is a directory that would be given as it is. It is looked at before: what somebody mounted
    /// there on the host may not answer.
    fn open_beside(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        base: &Base,
        key: OwnKey,
        (mount, ino): (u64, u64),
    ) -> Option<Expected> {
        let End { part, stat, parts } = end_of(&self.task, inside, before, (base, &key)).ok()?;
        if !matches!(part, Part::Host { .. }) || stat.st_ino != ino {
            return None;
        }
        let flags = OpenFlags::from_bits_retain(key.key().args[0]);
        let file = self.task.openat(base.at(), key.key().text, flags, 0).ok()?;
        if file.mount_id() != mount {
            return None;
        }
        let id = HostId::of_fd(file.host_fd()?).ok()?;
        self.gives_as_it_is(inside, &file)?;
        Some(Expected { key, file, id, parts })
    }
}
