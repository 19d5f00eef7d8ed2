//! Who lists directories, and asks about all that is in them by their paths, as `ls -l` does.
//!
//! ```text
//!   openat(DIR) ──► statx(DIR/FILE), again and again ──► who asks so of one directory asks so of the next
//!   openat(DIR) ──► what is in it is laid down before it is asked about, and the scout goes to what is below
//! ```

use super::{
    Before, Inside, MOST_COUNTED, Part,
    ahead::{Question, Those, UNNOTED, above},
    laid::{End, OwnKey, end_of},
    list::is_unnoted,
    scout::{Been, in_order},
    told::{Kinds, is_of_links},
};
use crate::engine::{Base, Engine};
use pathwalk::{Errno, File, FileType, Seek};
use pathwalk_inside::{Answer, Key};
use rustc_hash::FxHashMap;
use rustix::fs;

/// Who asked so often in a directory that he opened asks about all.
const ENOUGH: u32 = 2;

/// A directory waits for at most so many openings until what is in it is laid down once more.
const LONGEST: u32 = 1024;

/// Threads that list directories, and directories that were listed for them.
#[derive(Debug, Default)]
pub(super) struct Listers {
    threads: FxHashMap<u32, Lister>,
    /// By device and number.
    directories: FxHashMap<[u64; 2], Again>,
}

/// When what is in a directory is laid down once more, if it does not hold any more: where something moves between all openings that
/// would be done each time, for nothing perhaps.
#[derive(Debug)]
struct Again {
    /// After so many openings, …
    left: u32,
    /// … and after so many the next time.
    next: u32,
}

#[derive(Debug)]
struct Lister {
    /// By what the files are found in the directory that it opened last, up to their names.
    opened: OwnKey,
    /// So often it asked about one of them.
    asked: u32,
    /// How it asks about each.
    asks: Option<OwnKey>,
}

impl Listers {
    /// A thread opened a directory: how it asks about what is in it, if it is known to.
    fn opened(&mut self, tid: u32, dir: &OwnKey) -> Option<OwnKey> {
        if self.threads.len() >= MOST_COUNTED {
            self.threads.clear();
        }
        let key = dir.key();
        let slash: &[u8] = if key.text.ends_with(b"/") { b"" } else { b"/" };
        let opened = OwnKey::of(&Key { text: &[key.text, slash].concat(), ..key });
        let new = || Lister { opened: opened.clone(), asked: 0, asks: None };
        let lister = self.threads.entry(tid).or_insert_with(new);
        (lister.opened, lister.asked) = (opened, 0);
        let asks = lister.asks.as_ref()?.key();
        let Key { base, text, .. } = lister.opened.key();
        Some(OwnKey::of(&Key { base, text, ..asks }))
    }

    /// A directory was opened of which nothing lies there: whether that is to be laid down now, which is then done.
    fn is_due(&mut self, dir: [u64; 2]) -> bool {
        if self.directories.len() >= MOST_COUNTED {
            self.directories.clear();
        }
        let again = self.directories.entry(dir).or_insert(Again { left: 0, next: 1 });
        let due = again.left == 0;
        if due {
            (again.left, again.next) = (again.next, LONGEST.min(again.next * 2));
        } else {
            again.left -= 1;
        }
        due
    }

    /// A thread asked what a file is.
    pub(super) fn asked(&mut self, tid: u32, key: &OwnKey) {
        let Some(lister) = self.threads.get_mut(&tid).filter(|_| is_of_links(&key.key())) else {
            return;
        };
        let (key, opened) = (key.key(), lister.opened.key());
        if (key.base, above(key.text)) == (opened.base, opened.text) {
            lister.asked += 1;
            if lister.asked >= ENOUGH {
                lister.asks = Some(OwnKey::of(&Key { text: b"", ..key }));
            }
        }
    }

    /// Whether a thread asks about all that is in what it opens.
    pub(super) fn asks(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|lister| lister.asks.is_some())
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}

impl Engine {
    /// A thread opened a directory: what is in it is laid down, if it asks about all.
    pub(super) fn lists(
        &self,
        inside: &mut Inside,
        before: &Before,
        (tid, base, key): (u32, &Base, &OwnKey),
        file: &File,
    ) {
        let Some(host) = file.host_fd().filter(|host| is_unnoted(*host)) else { return };
        let Ok(stat) = self.task.fstat(file) else { return };
        if FileType::from_mode(stat.st_mode) != Some(FileType::Directory) {
            return;
        }
        let Some(asks) = inside.listers.opened(tid, key) else { return };
        let Ok(end) = end_of(&self.task, inside, before, (base, key)) else { return };
        let End { part, parts, .. } = end;
        // Where the program writes while it goes, what is laid down holds for a moment.
        let Part::Host { writable: false, .. } = part else { return };
        let xattrs = inside.askers.of(tid);
        let (kinds, key, parts) = (Kinds::All, asks.key(), &parts);
        let question = Question { base, key: &asks, part, parts, xattrs: xattrs.clone() };
        let those = Those { kinds, most: question.most(), key, part, parts, xattrs };
        let Some(look) = those.look(inside) else { return };
        // No path is empty: it is found by nobody but who looks here whether it is done.
        let dir = [stat.st_dev, stat.st_ino];
        let done = Key { base: dir, text: b"", ..key };
        if inside.ahead.is_none() || inside.table.has(&done) || !inside.listers.is_due(dir) {
            return;
        }
        let been = inside.scout.opened(file, &stat, kinds, &look.wants);
        inside.table.put(&done, &Answer { result: 0, written: b"", parts });
        if let Been::Yes(Some(found)) = &been
            && found.files.len() <= those.most
            && inside.lay_down_found(&those, found)
        {
            inside.has_laid(&question, None);
            return;
        }
        let mut names = Vec::new();
        // What cannot be listed is asked about.
        let whole = self.lay_down_those(inside, file, &those, &mut |entry, _| {
            if entry.kind == FileType::Directory {
                names.push((Box::from(entry.name), entry.ino));
            }
        });
        let rest = || {
            let at = self.task.lseek(file, Seek::Cur(0))?;
            let rest = self.task.openat(base.at(), question.above(), UNNOTED, 0)?;
            self.task.lseek(&rest, Seek::Set(at.cast_signed()))?;
            Ok::<_, Errno>(rest)
        };
        let rest = if whole == Ok(false) { rest().ok() } else { None };
        inside.has_laid(&question, rest);
        if let Been::No = been {
            in_order(kinds, &mut names);
            inside.scout.go(&self.task, file, look, names);
        }
        // From where it is listed next.
        let _ = fs::seek(host, fs::SeekFrom::Start(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something moves between all openings of one directory, so that nothing which was laid down holds when it is opened again.
    #[test]
    fn what_never_holds_is_laid_down_less_and_less() {
        let mut listers = Listers::default();
        let laid = (0..10_000).filter(|_| listers.is_due([1, 7])).count();
        assert!((10..=20).contains(&laid), "{laid}");
        assert!(listers.is_due([1, 8]), "another is laid down at once");
        assert!((0..2 * MOST_COUNTED as u64).all(|ino| listers.is_due([2, ino])));
        assert!(listers.directories.len() <= MOST_COUNTED);
    }
}
