//! What is laid down before anybody asks: who asks about two files of a directory is about to ask about them all.
//!
//! A program that looks through a directory asks about each of its files once. So what is laid down when it asks is of no use to it. At the
//! second question about a regular file the directory is listed here, and what would be told of its others is laid down. Not of its
//! directories: they are asked about to be entered, each before the next.

use super::{
    Inside, Part,
    laid::{OwnKey, attributes_of},
};
use crate::engine::{Base, Engine};
use pathwalk::{At, AtFlags, File, FileType, OpenFlags, Result, Stat, Task};
use pathwalk_inside::{Answer, Key, LSTAT, NEWFSTATAT};

/// So many directories are kept in mind.
const DIRECTORIES: usize = 64;
/// So many names of a directory are looked at; what the others are is left to be asked.
const MOST_FILES: usize = 4096;
/// So many bytes of names are listed at once.
const LISTED: usize = 32 << 10;

/// In which directories was asked, of what, and how often something had been changed there.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    asked: Vec<Asked>,
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

impl Question<'_> {
    /// Up to the last component.
    fn above(&self) -> &[u8] {
        let text = self.key.key().text;
        let slash = text.iter().rposition(|&byte| byte == b'/');
        slash.map_or(&[], |slash| &text[..=slash])
    }
}

impl Ahead {
    /// Notes a question; whether it is the second one in that directory.
    fn is_second(&mut self, question: &Question<'_>) -> bool {
        let key = question.key.key();
        let like = OwnKey::of(&Key { text: question.above(), ..key });
        // All that has changed there counts, that below the same root too.
        let count = question.parts.iter().map(|(_, count)| count).sum();
        let asked = Asked { like, count };
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
        let flags = OpenFlags::RDONLY | OpenFlags::DIRECTORY | OpenFlags::NOATIME;
        let path = if above.is_empty() { b"." } else { above };
        let dir = self.task.openat(question.base.at(), path, flags, 0)?;
        let (part, parts) = (question.part, question.parts);
        let kind = FileType::Regular;
        let those = Those { kind, most: MOST_FILES, key: Key { text: above, ..key }, part, parts };
        self.lay_down_those(inside, &dir, &those)
    }

    /// Lays down what some of the files in a directory are, from where it is listed next.
    ///
    /// # Errors
    ///
    /// Those of listing the directory.
    pub(super) fn lay_down_those(
        &self,
        inside: &mut Inside,
        dir: &File,
        those: &Those<'_>,
    ) -> Result<()> {
        let nofollow = those.key.nr == LSTAT
            || those.key.nr == NEWFSTATAT
                && those.key.args[0] & u64::from(AtFlags::SYMLINK_NOFOLLOW.bits()) != 0;
        let flags = if nofollow { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        // Not what is mounted there.
        let device = self.task.fstat(dir)?.st_dev;
        let mut listing = inside.ahead.as_mut().map(|ahead| std::mem::take(&mut ahead.listing));
        let listing = listing.get_or_insert_default();
        listing.resize(LISTED, 0);
        let (mut names, mut left) = (MOST_FILES, those.most);
        let listed = list(&self.task, dir, listing, |name, kind| {
            names -= 1;
            if kind == those.kind && name != b"." && name != b".." {
                left -= 1;
                let text = [those.key.text, name].concat();
                let key = Key { text: &text, ..those.key };
                if let Some(stat) = self.believed(inside, dir, name, flags)
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
    fn believed(&self, inside: &Inside, dir: &File, name: &[u8], flags: AtFlags) -> Option<Stat> {
        self.task.fstatat(At::Dir(dir), name, flags).ok()?;
        let before = inside.questions();
        let stat = self.task.fstatat(At::Dir(dir), name, flags).ok()?;
        (inside.questions() == before).then_some(stat)
    }
}

/// Lists a directory, until that is enough.
///
/// # Errors
///
/// Those of getdents64(2).
fn list(
    task: &Task,
    dir: &File,
    buf: &mut [u8],
    mut each: impl FnMut(&[u8], FileType) -> bool,
) -> Result<()> {
    loop {
        let len = task.getdents64(dir, buf)?;
        if len == 0 {
            return Ok(());
        }
        let mut rest = &buf[..len];
        // `struct linux_dirent64`: its length in two bytes from 16 on, its type, its name.
        while let Some(length) = rest.get(16..18) {
            let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
            let (entry, after) = rest.split_at(length.clamp(19, rest.len()));
            let name = entry[19..].split(|&byte| byte == 0).next().unwrap_or_default();
            let kind = FileType::from_mode(u32::from(entry[18]) << 12);
            if !each(name, kind.unwrap_or(FileType::Regular)) {
                return Ok(());
            }
            rest = after;
        }
    }
}
