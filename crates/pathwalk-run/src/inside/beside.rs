//! Who opens directories as they are listed is about to open the next ones: they lie ready.
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
//! 2. Behind one that has directories in it those come next, and then what is beside it, if that is what came last time. Where it is not known
//!    yet, or they came later then, or lay ready and were passed by, nothing is expected there.
//! 3. A thread that took the last ones goes on in the next directory from its first one. Who opened another one instead has to open two
//!    in order again.

use super::{
    Before, Inside, Part,
    ahead::{UNNOTED, above, itself},
    directory::Opening,
    laid::{End, OwnKey, end_of},
    list::{Entry, LISTED, is_unnoted, list},
    ready::Expected,
    scout::Named,
};
use crate::{
    cookies::HostId,
    engine::{Base, Engine},
};
use pathwalk::{File, FileType, OpenFlags};
use pathwalk_inside::Key;
use rustix::fs;

/// So many directories of one are kept in mind.
pub(super) const MOST_NAMES: usize = 512;
/// And of so many, each in another one.
const MOST_LEVELS: usize = 16;
/// Where directories are counted in it, one without others has so many links.
pub(super) const NO_OTHERS: u64 = 2;
/// Flags of a directory that lies ready.
pub(super) const PLAIN: OpenFlags = OpenFlags::DIRECTORY
    .union(OpenFlags::CLOEXEC)
    .union(OpenFlags::NONBLOCK)
    .union(OpenFlags::NOCTTY)
    .union(OpenFlags::LARGEFILE)
    .union(OpenFlags::NOFOLLOW);

/// Where among directories a thread is.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Those that it is in the middle of, each in the one before it.
    levels: Vec<Level>,
    /// It opened the last ones in order.
    in_order: bool,
    behind: Behind,
}

/// What came last time behind a directory that has others in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behind {
    #[default]
    Unknown,
    /// What is in it.
    Below,
    /// What is beside it.
    Beside,
}

/// What comes next in a directory.
enum Next<'a> {
    One(&'a Named),
    /// It is through with that.
    Through,
    /// It was there, or is, where it is not known what comes next.
    Unknown,
}

/// A directory of which those that are in it are opened.
#[derive(Debug)]
struct Level {
    /// How they are opened, up to the name.
    like: OwnKey,
    /// Their names, as they are listed, if they were, and whether these are all.
    names: Option<Listed>,
    /// Which was opened last, if one was.
    last: Option<Box<[u8]>>,
    /// What is in that, if it has directories in it.
    below: Option<Below>,
    /// What it hangs on that they need not be looked at; none where they do.
    parts: Option<[(usize, u64); 2]>,
}

/// Names as they are listed, and whether these are all.
type Listed = (Vec<Named>, bool);

/// How the directories in one are opened, and which those are, if that is known.
#[derive(Debug)]
struct Below {
    like: OwnKey,
    children: Option<Children>,
}

/// The directories in one that was given to who goes through a tree, which was looked at for that.
#[derive(Debug)]
pub(super) struct Children {
    pub(super) dir: HostId,
    pub(super) names: Listed,
    /// What it hangs on that they are what they were, by a descriptor of that.
    pub(super) parts: Option<[(usize, u64); 2]>,
}

/// A directory that was opened: how those beside it are, up to the name, its name, and what is behind that.
struct Opened<'a> {
    like: Key<'a>,
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
        let like = Key { text: above, ..key };
        plain.then_some(Self { like, name, end: &key.text[path.len()..] })
    }
}

impl Level {
    fn new(Below { like, children }: Below) -> Self {
        let (names, parts) = children.map(|its| (its.names, its.parts)).unzip();
        Self { like, names, last: None, below: None, parts: parts.flatten() }
    }

    /// What comes next, by the names, which are listed where they are not known.
    fn next(&mut self, list: impl FnOnce(&Self) -> Listed) -> Next<'_> {
        if self.names.is_none() {
            self.names = Some(list(self));
        }
        let Some((names, whole)) = &self.names else { return Next::Unknown };
        let next = match &self.last {
            Some(last) => match names.iter().position(|(name, _)| name == last) {
                Some(at) => at + 1,
                None => return Next::Unknown,
            },
            None => 0,
        };
        match names.get(next) {
            Some(one) => Next::One(one),
            None if *whole => Next::Through,
            None => Next::Unknown,
        }
    }

    fn is_next(&mut self, name: &[u8], list: impl FnOnce(&Self) -> Listed) -> bool {
        matches!(self.next(list), Next::One((next, _)) if **next == *name)
    }

    /// One in it was opened, from where the path begins.
    fn opened(
        &mut self,
        base: &Base,
        name: &[u8],
        which: &fs::Stat,
        children: &mut Option<Children>,
    ) {
        self.last = Some(name.into());
        let key = self.like.key();
        let by_descriptor = key.text.is_empty() && matches!(base, Base::Dir(known) if known.given);
        let text = if by_descriptor { Vec::new() } else { [key.text, name, b"/"].concat() };
        let base = if by_descriptor { [which.st_dev, which.st_ino] } else { key.base };
        let its = children.take_if(|children| children.dir == HostId::of(which));
        // Another path leads through more than that hangs on.
        let its = its.map(|its| Children { parts: its.parts.filter(|_| by_descriptor), ..its });
        let below = || Below { like: OwnKey::of(&Key { base, text: &text, ..key }), children: its };
        self.below = (which.st_nlink != NO_OTHERS).then(below);
    }
}

impl Row {
    /// The thread opened a directory; `left` is the first that lay ready and that it did not take.
    fn comes_to(
        &mut self,
        like: OwnKey,
        name: &[u8],
        left: Option<&OwnKey>,
        list: impl FnOnce(&Level) -> Listed,
    ) {
        if let Some(at) = self.levels.iter().rposition(|level| level.like == like) {
            self.levels.truncate(at + 1);
            let level = &mut self.levels[at];
            self.in_order = level.is_next(name, list);
            // What is in the last one was passed by, though it might have been expected, or was: what lies ready may have gone up again behind that.
            let left = left.and_then(Opened::of);
            let is_deeper = left.is_some_and(|left| OwnKey::of(&left.like) != level.like);
            if level.below.is_some() || is_deeper {
                self.behind = Behind::Beside;
            }
            return;
        }
        let below = self.levels.last_mut().and_then(|level| level.below.take());
        match below.filter(|below| below.like == like) {
            Some(below) => {
                self.behind = Behind::Below;
                self.goes_into(below);
                let level = self.levels.last_mut();
                self.in_order &= level.is_some_and(|level| level.is_next(name, list));
            }
            None => {
                self.levels.clear();
                self.in_order &= left.is_none();
                self.goes_into(Below { like, children: None });
            }
        }
    }

    /// It is in the middle of one more.
    fn goes_into(&mut self, below: Below) {
        if self.levels.len() >= MOST_LEVELS {
            self.levels.remove(0);
        }
        self.levels.push(Level::new(below));
    }
}

impl Engine {
    /// A thread opened a directory: what it is expected to open next, opened; and where the thread is then.
    pub(super) fn expected_beside(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        (base, key): (&Base, &OwnKey),
        file: &File,
        (tid, row, left, most): (u32, Option<Row>, Option<OwnKey>, usize),
    ) -> (Vec<Expected>, Option<Row>) {
        let Some(opened) = Opened::of(key) else { return (Vec::new(), row) };
        let which = file.host_fd().and_then(|host| fs::fstat(host).ok());
        let Some(which) = which else { return (Vec::new(), None) };
        let mut row = row.unwrap_or_default();
        let like = OwnKey::of(&opened.like);
        row.comes_to(like, opened.name, left.as_ref(), |level| self.names_in(level));
        if let Some(level) = row.levels.last_mut() {
            level.opened(base, opened.name, &which, &mut inside.children);
        }
        let mut all = Vec::new();
        while row.in_order
            && all.len() < most
            && let Some((name, ino)) = self.next_of(&mut row)
            && let Some(level) = row.levels.last_mut()
            && let Some(base) = self.begins(&level.like)
        {
            let above = level.like.key();
            let text = [above.text, &name, opened.end].concat();
            let at = (&base, OwnKey::of(&Key { text: &text, ..above }));
            let unchanged = |&(part, count): &(usize, u64)| before.counts[part] == count;
            let known = level.parts.filter(|parts| parts.iter().all(unchanged));
            let place = (file.mount_id(), ino);
            let expected = self.open_beside(inside, before, (tid, known), at, place);
            let Some((expected, which)) = expected else { break };
            level.opened(&base, &name, &which, &mut inside.children);
            all.push(expected);
        }
        (all, Some(row))
    }

    /// Which one a thread that goes on in order is expected to open next, of those in the directory that it is in the middle of then.
    fn next_of(&self, row: &mut Row) -> Option<Named> {
        loop {
            let goes_up = row.levels.len() > 1 && row.behind == Behind::Below;
            let level = row.levels.last_mut()?;
            if level.below.is_some() && row.behind != Behind::Below {
                return None;
            }
            if let Some(below) = level.below.take() {
                row.goes_into(below);
                continue;
            }
            match level.next(|level| self.names_in(level)) {
                Next::One(next) => return Some(next.clone()),
                Next::Through if goes_up => {
                    row.levels.pop();
                }
                Next::Through | Next::Unknown => return None,
            }
        }
    }

    /// Where the paths begin, if somebody still has that.
    fn begins(&self, like: &OwnKey) -> Option<Base> {
        let Key { base, text, .. } = like.key();
        if text.first() == Some(&b'/') {
            return Some(Base::Root);
        }
        self.cookies.get(HostId::new(base[0], base[1])).map(Base::Dir)
    }

    /// The directories in one, as they are listed; none where that would be noted.
    fn names_in(&self, level: &Level) -> Listed {
        let mut names = Vec::new();
        let path = itself(level.like.key().text);
        let base = self.begins(&level.like);
        let dir = base.and_then(|base| self.task.openat(base.at(), path, UNNOTED, 0).ok());
        let Some(dir) = dir.filter(|dir| dir.host_fd().is_some_and(is_unnoted)) else {
            return (names, false);
        };
        let each = |Entry { name, kind, ino }: Entry<'_>| {
            if kind == FileType::Directory {
                names.push((name.into(), ino));
            }
            names.len() < MOST_NAMES
        };
        let whole = list(&self.task, &dir, &mut vec![0; LISTED], each);
        (names, whole == Ok(true))
    }

    /// Opens what a call would open, if it is a directory that would be given as it is. It is looked at before, or was when it was laid down what
    /// it is, and nothing happened since: what somebody mounted there on the host may not answer.
    fn open_beside(
        &mut self,
        inside: &mut Inside,
        before: &Before,
        (tid, known): (u32, Option<[(usize, u64); 2]>),
        (base, key): (&Base, OwnKey),
        (mount, ino): (u64, u64),
    ) -> Option<(Expected, fs::Stat)> {
        let parts = match known {
            Some(parts) => parts.to_vec(),
            None => {
                let End { part, stat, parts } =
                    end_of(&self.task, inside, before, (base, &key)).ok()?;
                let is_it = matches!(part, Part::Host { .. }) && stat.st_ino == ino;
                is_it.then_some(parts)?
            }
        };
        let flags = OpenFlags::from_bits_retain(key.key().args[0]);
        let file = self.task.openat(base.at(), key.key().text, flags, 0).ok()?;
        if file.mount_id() != mount {
            return None;
        }
        let which = fs::fstat(file.host_fd()?).ok()?;
        if which.st_ino != ino || !self.gives_to(inside, tid, &file, Opening::Expected) {
            return None;
        }
        Some((Expected { key, file, id: HostId::of(&which), parts }, which))
    }
}
