//! As what the files of a directory are asked about, and what is told of them.
//!
//! ```text
//!   statx(FILE)
//!   lgetxattr(FILE, NAME) ──► who asked this after that asks so of the other files too
//! ```
//!
//! Of extended attributes it is told that a file has none of that name: of most files that is so, and of those that have one it is asked.

use super::{
    MOST_COUNTED,
    laid::{OwnKey, attributes_of},
    list::MOST_FILES,
};
use crate::answer;
use pathwalk::{
    At, AtFlags, Dev, Errno, File, FileType, HostFs, Peek, Result, Stat, Statx, StatxMask, Task,
};
use pathwalk_inside::{GETXATTR, Key, LGETXATTR, LSTAT, NEWFSTATAT, STATX};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// So many extended attributes a thread is taken to ask about.
const MOST_XATTRS: usize = 4;

/// By which call somebody asks what a file is, as far as it matters to what is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// stat(2) and its like.
    Stat(AtFlags),
    /// statx(2).
    Statx(AtFlags, StatxMask),
}

/// Which of the files of a directory somebody asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    Regular,
    Directories,
    All,
}

/// A call that asks about an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Xattr {
    nr: u32,
    name: Box<[u8]>,
}

/// The extended attributes that somebody asks about of each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Xattrs(Arc<[Xattr]>);

/// What somebody asks about each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    call: Call,
    pub(super) xattrs: Xattrs,
}

/// What is told of a file.
#[derive(Debug)]
pub(super) struct Told {
    attributes: Attributes,
    /// By which error it has none of the extended attributes; those behind the last of these were not asked about.
    lacks: Vec<Option<Errno>>,
}

#[derive(Debug)]
enum Attributes {
    Stat(Stat),
    /// There are fewer of these, and they are larger.
    Statx(Box<Statx>),
}

/// Which threads ask about extended attributes.
#[derive(Debug, Default)]
pub(super) struct Askers(FxHashMap<u32, Asker>);

#[derive(Debug)]
struct Asker {
    /// Of what it asked last what it is.
    last: OwnKey,
    xattrs: Xattrs,
}

/// Whether a call asks about an extended attribute.
pub(super) fn is_of_xattr(nr: u32) -> bool {
    [GETXATTR, LGETXATTR].contains(&nr)
}

/// Whether a call asks what a file is, and of a symlink what that is itself.
pub(super) fn is_of_links(key: &Key<'_>) -> bool {
    [STATX, LSTAT, NEWFSTATAT].contains(&key.nr) && Call::of(key).is_of_links()
}

/// What such a call is found by, where this is the path.
pub(super) fn with_name(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"\0", name].concat()
}

impl Askers {
    /// A thread asked what a file is.
    pub(super) fn asked(&mut self, tid: u32, key: &OwnKey) {
        if self.0.len() >= MOST_COUNTED {
            self.0.clear();
        }
        let asker = || Asker { last: key.clone(), xattrs: Xattrs::default() };
        self.0.entry(tid).or_insert_with(asker).last.clone_from(key);
    }

    /// It asked about an extended attribute: if of the same file, it asks so of others.
    pub(super) fn asked_about_xattr(&mut self, tid: u32, key: &OwnKey) {
        let Some(asker) = self.0.get_mut(&tid) else { return };
        let (key, last) = (key.key(), asker.last.key());
        let name = key.text.strip_prefix(last.text).and_then(|rest| rest.strip_prefix(b"\0"));
        let Some(name) = name.filter(|_| key.base == last.base) else { return };
        let (new, known) = (Xattr { nr: key.nr, name: name.into() }, &asker.xattrs.0);
        if known.len() < MOST_XATTRS && !known.contains(&new) {
            asker.xattrs = Xattrs(known.iter().cloned().chain([new]).collect());
        }
    }

    /// Which ones it asks about.
    pub(super) fn of(&self, tid: u32) -> Xattrs {
        self.0.get(&tid).map(|asker| asker.xattrs.clone()).unwrap_or_default()
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, tid: u32) {
        self.0.remove(&tid);
    }
}

impl Kinds {
    /// Whether a file of this kind is one of them.
    pub(super) fn have(self, kind: FileType) -> bool {
        match self {
            Self::Regular => kind == FileType::Regular,
            Self::Directories => kind == FileType::Directory,
            Self::All => true,
        }
    }
}

impl Call {
    /// As a call does that has this key.
    fn of(key: &Key<'_>) -> Self {
        let flags = AtFlags::from_bits_retain(key.args[0] as u32);
        match key.nr {
            STATX => Self::Statx(flags, StatxMask::from_bits_retain(key.args[1] as u32)),
            LSTAT => Self::Stat(AtFlags::SYMLINK_NOFOLLOW),
            NEWFSTATAT => Self::Stat(flags & AtFlags::SYMLINK_NOFOLLOW),
            _ => Self::Stat(AtFlags::empty()),
        }
    }

    /// Asks about a name in a directory.
    ///
    /// # Errors
    ///
    /// Those of the call.
    fn ask(self, task: &Task, dir: &File, name: &[u8]) -> Result<Attributes> {
        Ok(match self {
            Self::Stat(flags) => Attributes::Stat(task.fstatat(At::Dir(dir), name, flags)?),
            Self::Statx(flags, mask) => {
                Attributes::Statx(Box::new(task.statx(At::Dir(dir), name, flags, mask)?))
            }
        })
    }

    /// What was told of a name, as it is told by this call.
    fn of_peek(self, told: &Peek) -> Option<Attributes> {
        match self {
            Self::Stat(_) => told.stat().map(Attributes::Stat),
            Self::Statx(_, mask) => told.statx(mask).map(|stat| Attributes::Statx(Box::new(stat))),
        }
    }

    /// Whether it asks about a symlink itself.
    fn is_of_links(self) -> bool {
        let (Self::Stat(flags) | Self::Statx(flags, _)) = self;
        flags.contains(AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Wants {
    /// As a call does that has this key, and about these.
    pub(super) fn new(key: &Key<'_>, xattrs: Xattrs) -> Self {
        Self { call: Call::of(key), xattrs }
    }

    /// Of so many files it is laid down at once: of more, what was laid down last would drive out what was laid down first.
    pub(super) fn most(&self) -> usize {
        MOST_FILES / (1 + self.xattrs.0.len())
    }

    /// What is told of a file of this kind, if that comes of what is believed. What is not cached stays so, where that will do: each is
    /// asked about once. Else the first question may ask the host.
    pub(super) fn believed(
        &self,
        task: &Task,
        dir: &File,
        (name, kind): (&[u8], FileType),
    ) -> Option<Told> {
        if kind == FileType::Symlink && !self.call.is_of_links() {
            return None;
        }
        let (mut attributes, mut lacks) = (None, Vec::new());
        // A directory is to be cached: what becomes of it is told of itself alone.
        if kind != FileType::Directory || !self.xattrs.0.is_empty() {
            let names: Vec<&[u8]> = self.xattrs.0.iter().map(|xattr| &*xattr.name).collect();
            // The first question in a directory asks whether that may be searched.
            let peek = |_| if_believed(|| task.peekat(dir, name, &names));
            if let Some(told) = (0..2).find_map(peek).flatten() {
                attributes = self.call.of_peek(&told);
                lacks = told.lacks().to_vec();
            }
        }
        let ask = |_| if_believed(|| self.call.ask(task, dir, name));
        let attributes =
            attributes.filter(|told| told.kind() == Some(kind)).or_else(|| (0..2).find_map(ask))?;
        Some(Told { attributes, lacks })
    }
}

/// What is answered, if that comes of what is believed.
fn if_believed<T>(ask: impl FnOnce() -> Result<T>) -> Option<T> {
    let before = HostFs::questions();
    let told = ask().ok()?;
    (HostFs::questions() == before).then_some(told)
}

impl Attributes {
    fn kind(&self) -> Option<FileType> {
        FileType::from_mode(match self {
            Self::Stat(stat) => stat.st_mode,
            Self::Statx(stat) => stat.stx_mode.into(),
        })
    }
}

impl Told {
    fn is_link(&self) -> bool {
        self.attributes.kind() == Some(FileType::Symlink)
    }

    pub(super) fn dev(&self) -> u64 {
        match &self.attributes {
            Attributes::Stat(stat) => stat.st_dev,
            Attributes::Statx(stat) => Dev::new(stat.stx_dev_major, stat.stx_dev_minor).to_stat(),
        }
    }

    pub(super) fn ino(&self) -> u64 {
        match &self.attributes {
            Attributes::Stat(stat) => stat.st_ino,
            Attributes::Statx(stat) => stat.stx_ino,
        }
    }

    pub(super) fn nlink(&self) -> u64 {
        match &self.attributes {
            Attributes::Stat(stat) => stat.st_nlink,
            Attributes::Statx(stat) => stat.stx_nlink.into(),
        }
    }

    /// As it is written.
    pub(super) fn written(&self) -> Vec<u8> {
        match &self.attributes {
            Attributes::Stat(stat) => attributes_of(stat),
            Attributes::Statx(stat) => answer::layout::statx(stat),
        }
    }

    /// By what it is found that it has none of the extended attributes, where the key of what it is is this one, and by which error that is.
    pub(super) fn lacks(
        &self,
        asked: &Xattrs,
        key: &Key<'_>,
    ) -> impl Iterator<Item = (OwnKey, Errno)> {
        // What a symlink leads to was not looked at.
        let looked_at = |nr: u32| nr == LGETXATTR || !self.is_link();
        let asked = asked.0.iter().zip(&self.lacks).filter(move |(xattr, _)| looked_at(xattr.nr));
        asked.filter_map(move |(xattr, errno)| {
            let text = with_name(key.text, &xattr.name);
            let key = Key { nr: xattr.nr, args: [0, 0], text: &text, ..*key };
            Some((OwnKey::of(&key), (*errno)?))
        })
    }
}
