//! What is laid down before anybody asks: who asks about two files of a directory is about to ask about them all.
//!
//! A program that looks through a directory asks about each of its files once. So what is laid down when it asks is of no use to it. At the
//! second question about a regular file the directory is listed here, and what would be told of its others is laid down. Not of its
//! directories: they are asked about to be entered, each before the next.

use super::{
    Inside, Part,
    laid::{OwnKey, attributes_of},
    list::{Entry, LISTED, MOST_FILES, is_unnoted, list},
    scout::Look,
};
use crate::engine::{Base, Engine};
use pathwalk::{At, AtFlags, File, FileType, HostFs, OpenFlags, Result, Stat};
use pathwalk_inside::{Answer, Key, LSTAT, NEWFSTATAT};

/// So many directories are kept in mind.
const DIRECTORIES: usize = 64;
/// How a directory is opened to be listed here.
const UNNOTED: OpenFlags =
    OpenFlags::RDONLY.union(OpenFlags::DIRECTORY).union(OpenFlags::NOATIME);

/// In which directories was asked, of what, and how often something had been changed there.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    asked: Vec<Asked>,
    /// In which of them all was laid down in how many directories.
    gone_through: Vec<(Asked, u32)>,
    listing: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    like: OwnKey,
    count: u64,
}

/// A question about a regular file that was answered.
pub(super) struct Question<'a> {
    pub(super) base: &'a Base,
    pub(super) key: &'a OwnKey,
    pub(super) part: Part,
    /// What its answer hangs on.
    pub(super) parts: &'a [(usize, u64)],
}

/// Files of a directory of which it is laid down what they are.
pub(super) struct Those<'a> {
    pub(super) kind: FileType,
    /// So many of them at most.
    pub(super) most: usize,
    /// By what the answers are found; each has its name behind this text.
    pub(super) key: Key<'a>,
    pub(super) part: Part,
    pub(super) parts: &'a [(usize, u64)],
}

/// A path up to its last component.
fn above(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    slash.map_or(&[], |slash| &path[..=slash])
}

/// The path of a directory, which may be where it begins.
fn itself(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

impl Question<'_> {
    /// The path of the directory in which it was asked.
    fn above(&self) -> &[u8] {
        above(self.key.key().text)
    }

    /// What was asked in a directory on its way.
    fn asked(&self, path: &[u8]) -> Asked {
        let like = OwnKey::of(&Key { text: path, ..self.key.key() });
        // All that has changed there counts, that below the same root too.
        let count = self.parts.iter().map(|(_, count)| count).sum();
        Asked { like, count }
    }
}

impl Those<'_> {
    /// As what they are asked about.
    fn flags(&self) -> AtFlags {
        let nofollow = self.key.nr == LSTAT
            || self.key.nr == NEWFSTATAT
                && self.key.args[0] & u64::from(AtFlags::SYMLINK_NOFOLLOW.bits()) != 0;
        if nofollow { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() }
    }

    /// The same for who goes ahead.
    pub(super) fn look(&self, inside: &Inside) -> Option<Look> {
        let host = inside.host_of(self.part)?;
        Some(Look { kind: self.kind, flags: self.flags(), host })
    }
}

impl Ahead {
    /// Notes a question; whether it is the second one in that directory.
    fn is_second(&mut self, question: &Question<'_>) -> bool {
        let asked = question.asked(question.above());
        if let Some(at) = self.asked.iter().position(|known| *known == asked) {
            self.asked.remove(at);
            return true;
        }
        if self.asked.len() >= DIRECTORIES {
            self.asked.remove(0);
        }
        self.asked.push(asked);
        false
    }

    /// Notes that all was laid down in a directory; whether it is the second in the one above: the others in it are to be gone to.
    fn is_gone_through(&mut self, question: &Question<'_>, up: &[u8]) -> bool {
        let asked = question.asked(up);
        if let Some((_, times)) = self.gone_through.iter_mut().find(|(known, _)| *known == asked) {
            *times += 1;
            return *times == 2;
        }
        if self.gone_through.len() >= DIRECTORIES {
            self.gone_through.remove(0);
        }
        self.gone_through.push((asked, 1));
        false
    }
}

impl Engine {
    /// Hears of a question that was answered of what is believed.
    pub(super) fn look_ahead(&self, inside: &mut Inside, question: &Question<'_>) {
        if inside.ahead.as_mut().is_some_and(|ahead| ahead.is_second(question)) {
            // What cannot be listed is asked about.
            let _ = self.lay_down_all(inside, question);
        }
    }

    /// # Errors
    ///
    /// Those of listing the directory: without being noted as read, it may not be.
    fn lay_down_all(&self, inside: &mut Inside, question: &Question<'_>) -> Result<()> {
        let key = question.key.key();
        let above = question.above();
        let dir = self.task.openat(question.base.at(), itself(above), UNNOTED, 0)?;
        let (part, parts) = (question.part, question.parts);
        let kind = FileType::Regular;
        let those = Those { kind, most: MOST_FILES, key: Key { text: above, ..key }, part, parts };
        inside.scout.opened(self.task.fstat(&dir)?.st_ino, kind);
        self.send_beside(inside, question, &those)?;
        self.lay_down_those(inside, &dir, &those, &mut |_| {})
    }

    /// Who asks about all files in two directories of one is about to ask about those in its others: the scout goes there.
    ///
    /// # Errors
    ///
    /// Those of listing the directory above.
    fn send_beside(
        &self,
        inside: &mut Inside,
        question: &Question<'_>,
        those: &Those<'_>,
    ) -> Result<()> {
        let Some(own) = those.key.text.strip_suffix(b"/").filter(|path| !path.is_empty()) else {
            return Ok(());
        };
        let up = above(own);
        let ahead = inside.ahead.as_mut();
        if !ahead.is_some_and(|ahead| ahead.is_gone_through(question, up)) {
            return Ok(());
        }
        let dir = self.task.openat(question.base.at(), itself(up), UNNOTED, 0)?;
        if !dir.host_fd().is_some_and(is_unnoted) {
            return Ok(());
        }
        let (mut names, mut left) = (Vec::new(), MOST_FILES);
        list(&self.task, &dir, &mut vec![0; LISTED], |Entry { name, kind, ino }| {
            if kind == FileType::Directory {
                names.push((Box::from(name), ino));
            }
            left -= 1;
            left > 0
        })?;
        names.sort();
        // Those behind this one first.
        let behind = names.partition_point(|(name, _)| **name <= own[up.len()..]);
        names.rotate_left(behind);
        if let Some(look) = those.look(inside) {
            inside.scout.go(&self.task, &dir, look, names.into_iter());
        }
        Ok(())
    }

    /// Lays down what some of the files in a directory are, from where it is listed next, and tells of each of them.
    ///
    /// # Errors
    ///
    /// Those of listing the directory.
    pub(super) fn lay_down_those(
        &self,
        inside: &mut Inside,
        dir: &File,
        those: &Those<'_>,
        tell: &mut dyn FnMut(&Entry<'_>),
    ) -> Result<()> {
        let flags = those.flags();
        // Not what is mounted there.
        let device = self.task.fstat(dir)?.st_dev;
        let mut listing = inside.ahead.as_mut().map(|ahead| std::mem::take(&mut ahead.listing));
        let listing = listing.get_or_insert_default();
        listing.resize(LISTED, 0);
        let (mut names, mut left) = (MOST_FILES, those.most);
        let listed = list(&self.task, dir, listing, |entry| {
            names -= 1;
            if entry.kind == those.kind {
                left -= 1;
                tell(&entry);
                let text = [those.key.text, entry.name].concat();
                let key = Key { text: &text, ..those.key };
                if let Some(stat) = self.believed(dir, entry.name, flags)
                    && stat.st_dev == device
                    && inside.may_lay_attributes(those.part, stat.st_ino, &key)
                {
                    let written = attributes_of(&stat);
                    let answer = Answer { result: 0, written: &written, parts: those.parts };
                    inside.table.put(&key, &answer);
                }
            }
            names > 0 && left > 0
        });
        if let Some(ahead) = &mut inside.ahead {
            ahead.listing = std::mem::take(listing);
        }
        listed
    }

    /// The attributes of a file, if they come of what is believed: the first question may ask the host.
    fn believed(&self, dir: &File, name: &[u8], flags: AtFlags) -> Option<Stat> {
        (0..2).find_map(|_| {
            let before = HostFs::questions();
            let stat = self.task.fstatat(At::Dir(dir), name, flags).ok()?;
            (HostFs::questions() == before).then_some(stat)
        })
    }
}
