//! What is laid down before anybody asks: who asks about two files of a directory is about to ask about them all.
//!
//! A program that looks through a directory asks about each of its files once. So what is laid down when it asks is of no use to it. At the
//! second question about a regular file the directory is listed here, and what would be told of its others is laid down. Not of its
//! directories: they are asked about to be entered, each before the next.
//!
//! 1. Of a directory with many files some are laid down, and some more when others are asked about.
//! 2. What was laid down once is not laid down again while nothing changes, as long as the directory is among the last that were asked about.
//!    When something has changed it takes twice as many questions as before.
//! 3. Who asks about the files of two directories beside each other, by their paths, is about to ask about those of all that are beside
//!    them: the scout goes there, and what it found is laid down when anything is answered, or at the first question.

use super::{
    Inside, Part,
    laid::OwnKey,
    list::{Entry, LISTED, is_unnoted, list},
    scout::{Been, Beside, Found, Lays, Look, PATIENCE},
    told::{Kinds, Told, Wants, Xattrs},
};
use crate::engine::{Base, Engine};
use pathwalk::{File, FileType, OpenFlags, Result};
use pathwalk_inside::{Answer, Key};
use std::{sync::Arc, time::Instant};

/// So many directories are kept in mind.
const DIRECTORIES: usize = 64;
/// At so many questions in a directory all is laid down.
const SECOND: u32 = 2;
/// Who asked about all files of so many directories beside each other goes on.
const ENOUGH: u32 = 2;
/// So many directories are laid down at once before somebody asks about them.
const MOST_AT_ONCE: usize = 8;
/// How a directory is opened to be listed here.
pub(super) const UNNOTED: OpenFlags =
    OpenFlags::RDONLY.union(OpenFlags::DIRECTORY).union(OpenFlags::NOATIME);

/// In which directories was asked, of what.
#[derive(Default)]
pub(super) struct Ahead {
    /// The latest last.
    asked: Vec<Asked>,
    /// When somebody asked last about all files of directories beside each other.
    goes_on: Option<Instant>,
    listing: Vec<u8>,
}

/// Questions in a directory.
struct Asked {
    like: OwnKey,
    /// How often something had been changed there.
    count: u64,
    /// So many were asked since then, or since something was laid down.
    questions: u32,
    laid: Laid,
    /// So many are to be asked before anything is.
    most: u32,
    /// In so many directories in it all was laid down.
    below: u32,
    /// The scout was sent to the others.
    sent: bool,
}

/// How much is laid down of a directory.
enum Laid {
    Nothing,
    /// What was listed by now.
    Some(File),
    /// All, or nothing of it can be.
    All,
}

/// A question about a regular file that was answered.
pub(super) struct Question<'a> {
    pub(super) base: &'a Base,
    pub(super) key: &'a OwnKey,
    pub(super) part: Part,
    /// What its answer hangs on.
    pub(super) parts: &'a [(usize, u64)],
    /// What who asked asks about besides.
    pub(super) xattrs: Xattrs,
}

/// Files of a directory of which it is laid down what they are.
pub(super) struct Those<'a> {
    pub(super) kinds: Kinds,
    /// So many of them at most.
    pub(super) most: usize,
    /// By what the answers are found; each has its name behind this text.
    pub(super) key: Key<'a>,
    pub(super) part: Part,
    pub(super) parts: &'a [(usize, u64)],
    pub(super) xattrs: Xattrs,
}

/// A path up to its last component.
pub(super) fn above(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    slash.map_or(&[], |slash| &path[..=slash])
}

/// The path of a directory, which may be where it begins.
pub(super) fn itself(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"." } else { path }
}

impl Question<'_> {
    /// The path of the directory in which it was asked.
    pub(super) fn above(&self) -> &[u8] {
        above(self.key.key().text)
    }

    /// Of so many files it is laid down at once.
    pub(super) fn most(&self) -> usize {
        Wants::new(&self.key.key(), self.xattrs.clone()).most()
    }

    /// How often something was changed where it was asked: all counts, that below the same root too.
    fn count(&self) -> u64 {
        self.parts.iter().map(|(_, count)| count).sum()
    }
}

impl Those<'_> {
    /// As what they are asked about.
    pub(super) fn wants(&self) -> Wants {
        Wants::new(&self.key, self.xattrs.clone())
    }

    /// Whether nothing happened between what the scout found and the question, or since.
    pub(super) fn is_of_now(&self, found: &Found) -> bool {
        self.parts.contains(&found.count)
    }

    /// What is asked, for who goes ahead.
    pub(super) fn look(&self, inside: &Inside) -> Option<Look> {
        let (host, count) = inside.host_of(self.part)?;
        let counts = inside.counts.clone();
        Some(Look { kinds: self.kinds, wants: self.wants(), host, counts, count, lays: None })
    }
}

impl Ahead {
    /// Has no directory open.
    pub(super) fn lets_go(&mut self) {
        for asked in &mut self.asked {
            if let Laid::Some(_) = asked.laid {
                asked.laid = Laid::All;
            }
        }
    }

    /// What was asked like a question in a directory on its way.
    fn asked(&mut self, question: &Question<'_>, path: &[u8]) -> &mut Asked {
        let (like, count) =
            (OwnKey::of(&Key { text: path, ..question.key.key() }), question.count());
        let mut asked = match self.asked.iter().position(|known| known.like == like) {
            Some(at) => self.asked.remove(at),
            None => {
                let (laid, most) = (Laid::Nothing, SECOND);
                Asked { like, count, questions: 0, laid, most, below: 0, sent: false }
            }
        };
        if asked.count != count {
            if !matches!(asked.laid, Laid::Nothing) {
                asked.most = asked.most.saturating_mul(2);
            }
            (asked.count, asked.questions, asked.laid) = (count, 0, Laid::Nothing);
        }
        if self.asked.len() >= DIRECTORIES {
            self.asked.remove(0);
        }
        self.asked.push(asked);
        let last = self.asked.len() - 1;
        &mut self.asked[last]
    }

    /// At the files of so many directories beside each other it is taken that those of all come.
    fn enough(&self) -> u32 {
        let goes_on = self.goes_on.is_some_and(|last| last.elapsed() < PATIENCE);
        if goes_on { 1 } else { ENOUGH }
    }

    /// All in a directory was laid down, or what was listed by now.
    pub(super) fn has_laid(&mut self, question: &Question<'_>, rest: Option<File>) {
        self.asked(question, question.above()).laid = rest.map_or(Laid::All, Laid::Some);
    }

    /// Notes a question; what was laid down there, if more is to be now.
    fn hears(&mut self, question: &Question<'_>) -> Option<Laid> {
        let up = question.above().strip_suffix(b"/").map(above);
        let beside = up.map_or(0, |up| self.asked(question, up).below);
        let enough = self.enough();
        let asked = self.asked(question, question.above());
        asked.questions += 1;
        let most = if beside >= enough && asked.most == SECOND { 1 } else { asked.most };
        let more = !matches!(asked.laid, Laid::All) && asked.questions >= most;
        more.then(|| {
            asked.questions = 0;
            // Until it is known how much there is.
            std::mem::replace(&mut asked.laid, Laid::All)
        })
    }
}

impl Engine {
    /// Hears of a question that was answered of what is believed.
    pub(super) fn look_ahead(&self, inside: &mut Inside, question: &Question<'_>) {
        let more = inside.ahead.as_mut().and_then(|ahead| ahead.hears(question));
        let dir = match more {
            Some(Laid::Some(dir)) => Some(dir),
            Some(Laid::Nothing) => None,
            Some(Laid::All) | None => return,
        };
        // What cannot be listed is asked about.
        if let Ok(Some(rest)) = self.lay_down_more(inside, question, dir)
            && let Some(ahead) = &mut inside.ahead
        {
            ahead.asked(question, question.above()).laid = Laid::Some(rest);
        }
    }

    /// Lays down what files of a directory are, of which some were listed or none was; the directory, where others are left.
    ///
    /// # Errors
    ///
    /// Those of listing the directory: without being noted as read, it may not be.
    fn lay_down_more(
        &self,
        inside: &mut Inside,
        question: &Question<'_>,
        listed: Option<File>,
    ) -> Result<Option<File>> {
        let key = question.key.key();
        let above = question.above();
        let (part, parts) = (question.part, question.parts);
        let kinds = Kinds::Regular;
        let (key, xattrs) = (Key { text: above, ..key }, question.xattrs.clone());
        let those = Those { kinds, most: question.most(), key, part, parts, xattrs };
        let dir = match listed {
            Some(dir) => dir,
            None => {
                let dir = self.task.openat(question.base.at(), itself(above), UNNOTED, 0)?;
                self.send_beside(inside, question, &those)?;
                let stat = self.task.fstat(&dir)?;
                let been = inside.scout.opened(&dir, &stat, kinds, &those.wants());
                if let Been::Yes(Some(found)) = been
                    && inside.lay_down_found(&those, &found)
                {
                    return Ok(None);
                }
                dir
            }
        };
        let whole = self.lay_down_those(inside, &dir, &those, &mut |_, _| {})?;
        Ok((!whole).then_some(dir))
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
        let own = those.key.text.strip_suffix(b"/").filter(|path| !path.is_empty());
        let (Some(own), Some(ahead)) = (own, &mut inside.ahead) else { return Ok(()) };
        // What was laid down before was counted then.
        if ahead.asked(question, question.above()).most != SECOND {
            return Ok(());
        }
        let up = above(own);
        let enough = ahead.enough();
        let asked = ahead.asked(question, up);
        asked.below += 1;
        // It may have stopped since, as nobody followed for a while.
        let again = asked.sent && inside.scout.is_idle();
        if asked.below < enough || asked.sent && !again {
            return Ok(());
        }
        asked.sent = true;
        ahead.goes_on = Some(Instant::now());
        let dir = self.task.openat(question.base.at(), itself(up), UNNOTED, 0)?;
        if !dir.host_fd().is_some_and(is_unnoted) {
            return Ok(());
        }
        let mut names = Vec::new();
        list(&self.task, &dir, &mut vec![0; LISTED], |Entry { name, kind, ino }| {
            if kind == FileType::Directory {
                names.push((Box::from(name), ino));
            }
            true
        })?;
        names.sort();
        // Those behind this one first.
        let behind = names.partition_point(|(name, _)| **name <= own[up.len()..]);
        names.rotate_left(behind);
        if again {
            names.truncate(names.len() - behind);
        }
        if let Some(look) = those.look(inside) {
            let above = OwnKey::of(&Key { text: up, ..those.key });
            let lays = Lays { above, part: those.part, parts: those.parts.to_vec() };
            let look = Look { lays: Some(Arc::new(lays)), ..look };
            inside.scout.go(&self.task, &dir, look, names);
        }
        Ok(())
    }

    /// Lays down what some of the files in a directory are, from where it is listed next, and tells of each of
    /// them, and what it is if that is believed; whether there are no more.
    ///
    /// # Errors
    ///
    /// Those of listing the directory.
    pub(super) fn lay_down_those(
        &self,
        inside: &mut Inside,
        dir: &File,
        those: &Those<'_>,
        tell: &mut dyn FnMut(&Entry<'_>, Option<&Told>),
    ) -> Result<bool> {
        let wants = those.wants();
        // Not what is mounted there.
        let device = self.task.fstat(dir)?.st_dev;
        let mut listing = inside.ahead.as_mut().map(|ahead| std::mem::take(&mut ahead.listing));
        let listing = listing.get_or_insert_default();
        listing.resize(LISTED, 0);
        let Some((host, _)) = inside.host_of(those.part) else { return Ok(true) };
        let mut left = those.most;
        // Much is asked about here; and what is about to be entered is watched then.
        let listed = host.watching_found(|| {
            list(&self.task, dir, listing, |entry| {
                if those.kinds.have(entry.kind) {
                    left -= 1;
                    let told = wants.believed(&self.task, dir, (entry.name, entry.kind));
                    let told = told.filter(|told| told.dev() == device);
                    tell(&entry, told.as_ref());
                    if let Some(told) = told {
                        inside.lay_down_one(those, entry.name, &told, those.parts);
                    }
                }
                left > 0
            })
        });
        if let Some(ahead) = &mut inside.ahead {
            ahead.listing = std::mem::take(listing);
        }
        listed
    }
}

impl Inside {
    /// See [`Ahead::has_laid`].
    pub(super) fn has_laid(&mut self, question: &Question<'_>, rest: Option<File>) {
        self.ahead.iter_mut().for_each(|ahead| ahead.has_laid(question, rest.clone()));
    }

    /// Lays down what the scout found beside what was asked about, if the way there is what it was.
    pub(super) fn lay_down_ahead(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Some((Beside { lays, name, itself }, found)) = self.scout.to_lay() else { return };
            let Lays { above, part, parts } = &*lays;
            let unchanged = |&(part, count): &(usize, u64)| self.counts.get(part) == count;
            if !parts.iter().all(unchanged) || !parts.contains(&found.count) {
                self.scout.is_not_laid(&found);
                continue;
            }
            let key = above.key();
            let kinds = Kinds::Regular;
            let (xattrs, most) = (found.wants.xattrs.clone(), found.wants.most());
            let beside = Those { kinds, most, key, part: *part, parts, xattrs };
            if let Some(told) = itself {
                self.lay_down_one(&beside, &name, &told, parts);
            }
            let text = [key.text, &name, b"/"].concat();
            let those = Those { key: Key { text: &text, ..key }, ..beside };
            self.lay_down_found(&those, &found);
        }
    }

    /// Lays down what the scout found, if nothing happened between the question and that, or since: what leads there may be another
    /// way by then.
    pub(super) fn lay_down_found(&mut self, those: &Those<'_>, found: &Found) -> bool {
        let is_of_now = those.is_of_now(found);
        if is_of_now {
            for (name, told) in found.files.iter().take(those.most) {
                self.lay_down_one(those, name, told, those.parts);
            }
        }
        is_of_now
    }

    fn lay_down_one(
        &mut self,
        those: &Those<'_>,
        name: &[u8],
        told: &Told,
        parts: &[(usize, u64)],
    ) {
        let text = [those.key.text, name].concat();
        let key = Key { text: &text, ..those.key };
        let written = told.written();
        let answer = Answer { result: 0, written: &written, parts };
        self.lay_attributes((those.part, told.ino()), &key, &answer);
        for (key, errno) in told.lacks(&those.xattrs, &key) {
            let answer = Answer { result: -i64::from(errno.raw()), written: b"", parts };
            self.lay_attributes((those.part, told.ino()), &key.key(), &answer);
        }
    }
}
