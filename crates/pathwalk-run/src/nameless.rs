//! Files that are known and have no name any more.
//!
//! That nobody has one of them open any more is heard of by nobody: closing is the kernel's. As long as it is known, what is in it
//! stays, in memory or on the disk. So where there are many, or much is in them, it is looked which of them are in use.
//!
//! Who watches one of the host's is told that it is gone when nobody keeps it. So of those that a program watches it is looked at once, and
//! again as long as somebody has it; and of the others by a call some time later, as somebody outside may watch them.

use crate::{cookies::HostId, engine::Engine};
use pathwalk::File;
use rustc_hash::FxHashSet;
use std::time::{Duration, Instant};

/// So many are kept, and so many bytes of them, beside twice what was in use when it was looked last.
const MANY: usize = 64;
const MUCH: u64 = 16 << 20;
/// One that had nothing in it when it lost its name may have been written since.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it is waited before it is looked again whether one that is watched is gone; others are looked at late, and seldom.
const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(2);
const SELDOM: Duration = Duration::from_secs(60);
/// So many watched ones are noted before it is looked which still are, beside twice as many as were when it was looked last.
const WATCHED: usize = 1024;
/// To look takes no more than this part of the time, and so much once; beside what it takes for who asks how much room is left.
const PART: u32 = 50;
const ONCE: Duration = Duration::from_millis(200);

/// The files.
#[derive(Debug)]
pub(crate) struct Nameless {
    files: FxHashSet<HostId>,
    /// How many there may be, and how many bytes in them.
    enough: (usize, u64),
    /// When they were counted; not since the last one came.
    counted: Option<Instant>,
    /// The numbers of the host's files that a program has watched. One may be another file's by now, and one may not be watched any more:
    /// a watch is removed in the kernel, and ends with its inotify, and nobody tells of it. How many there may be before that is looked at.
    watched: FxHashSet<u64>,
    many_watched: usize,
    /// The numbers of those that have no name, as far as is known; when it is looked which of them are in use, and how long after that again.
    kept: FxHashSet<u64>,
    again: Option<(Instant, Duration)>,
    spent: Spent,
}

impl Default for Nameless {
    fn default() -> Self {
        let (files, watched, kept) = Default::default();
        Self {
            files,
            enough: (MANY, MUCH),
            counted: None,
            watched,
            many_watched: WATCHED,
            kept,
            again: None,
            spent: Spent::default(),
        }
    }
}

impl Nameless {
    /// One that may have lost its last name.
    pub(crate) fn add(&mut self, id: HostId) {
        self.files.insert(id);
        self.counted = None;
    }

    /// A program watches the file of the host that has this number; `who_watches` says of which numbers programs watch any now, if that
    /// can be told. One that it leaves out all the same, as a queue is on its way from process to process, is looked at late, as others.
    pub(crate) fn is_watched(
        &mut self,
        number: u64,
        who_watches: impl FnOnce() -> Option<FxHashSet<u64>>,
    ) {
        self.watched.insert(number);
        if self.watched.len() <= self.many_watched {
            return;
        }
        if let Some(still) = who_watches() {
            self.watched.retain(|number| still.contains(number));
        }
        self.many_watched = 2 * self.watched.len() + WATCHED;
    }

    /// How long may be waited until [`Engine::look_at_nameless`]; others than those that are watched need not be waited for.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let (at, _) = self.again.filter(|_| self.is_one_watched())?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    fn is_one_watched(&self) -> bool {
        !self.watched.is_empty() && !self.kept.is_disjoint(&self.watched)
    }
}

/// How long it was looked lately, by when; what that is counts less the longer ago it is, and nothing in the end.
#[derive(Debug)]
struct Spent(Duration, Instant);

impl Default for Spent {
    fn default() -> Self {
        Self(Duration::ZERO, Instant::now())
    }
}

impl Spent {
    fn at(&self, now: Instant) -> Duration {
        self.0.saturating_sub(now.saturating_duration_since(self.1) / PART)
    }

    fn add(&mut self, more: Duration, now: Instant) {
        *self = Self(self.at(now) + more, now);
    }

    /// How long may not be looked, as that took too long lately.
    fn rests(&self, now: Instant) -> Option<Duration> {
        self.at(now).checked_sub(ONCE).filter(|over| !over.is_zero()).map(|over| PART * over)
    }
}

impl Engine {
    /// A name is gone that a file with this number had.
    pub(crate) fn lost_name(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        for id in self.cookies.with_number(number) {
            self.nameless.add(id);
        }
        self.handles.lost_name(&self.task, number);
        self.let_go_nameless(number);
    }

    /// The directory with this number was removed.
    pub(crate) fn lost_directory(&mut self, number: u64) {
        // Of what it is open by nothing is kept.
        self.handles.lost_name(&self.task, number);
        self.let_go_nameless(number);
    }

    /// Keeps nothing of a file that is watched and has no name any more, nor of what was in a directory; and of others nothing that nobody
    /// has, some time later.
    fn let_go_nameless(&mut self, number: u64) {
        let names = self.names_of(number);
        let watched = self.nameless.watched.contains(&number);
        if names.is_some_and(|names| names > 0) || names.is_none() && !watched {
            return;
        }
        self.nameless.kept.insert(number);
        let (wait, after) = match self.nameless.spent.rests(Instant::now()) {
            None if watched => return self.look_at_kept(SOON),
            Some(rests) if watched => (rests, SOON),
            _ => (LATE, LATE),
        };
        let at = Instant::now() + wait;
        let again = &mut self.nameless.again;
        *again = again.filter(|(sooner, _)| *sooner <= at).or(Some((at, after)));
    }

    /// Looks which of those that have no name are gone, where it is time.
    pub(crate) fn look_at_nameless(&mut self) {
        if let Some((at, after)) = self.nameless.again
            && Instant::now() >= at
        {
            let most = if self.nameless.is_one_watched() { LATE } else { SELDOM };
            self.look_at_kept((2 * after).min(most));
        }
    }

    fn look_at_kept(&mut self, after: Duration) {
        let since = Instant::now();
        self.forget_nameless();
        self.nameless.spent.add(since.elapsed(), Instant::now());
        let after =
            self.nameless.spent.rests(Instant::now()).map_or(after, |rests| after.max(rests));
        let mut kept = std::mem::take(&mut self.nameless.kept);
        kept.retain(|&number| {
            let stays = self.names_of(number) == Some(0);
            if !stays {
                self.nameless.watched.remove(&number);
            }
            stays
        });
        self.nameless.again = (!kept.is_empty()).then(|| (Instant::now() + after, after));
        self.nameless.kept = kept;
    }

    /// Forgets those that have no name and that nobody has open, and nothing else.
    fn forget_nameless(&mut self) {
        self.count_nameless();
        let Self { nameless, cookies, .. } = self;
        let kept = nameless.kept.iter().flat_map(|&number| cookies.with_number(number));
        let may_go: FxHashSet<HostId> = nameless.files.iter().copied().chain(kept).collect();
        self.forget(|id| may_go.contains(id));
    }

    /// How many names a file with this number has, the least of those that are known.
    fn names_of(&self, number: u64) -> Option<u64> {
        let names = |file: &File| self.task.fstat(file).ok().map(|stat| stat.st_nlink);
        self.cookies.files_with_number(number).iter().filter_map(names).min()
    }

    /// Forgets those that nobody has open, where there is much of them.
    pub(crate) fn let_go(&mut self) {
        if self.nameless.files.is_empty()
            || self.nameless.counted.is_some_and(|then| then.elapsed() < AGAIN)
        {
            return;
        }
        let (count, bytes) = self.count_nameless();
        let (many, much) = self.nameless.enough;
        if count >= many || bytes >= much {
            self.forget_nameless();
            let (count, bytes) = self.count_nameless();
            self.nameless.enough = (2 * count + MANY, 2 * bytes + MUCH);
        }
        self.nameless.counted = Some(Instant::now());
    }

    /// Forgets those that nobody has open, however few they are: for who asks how much room is left.
    pub(crate) fn let_all_go(&mut self) {
        if !self.nameless.files.is_empty() {
            self.forget_nameless();
            self.count_nameless();
        }
    }

    /// How many there are, and the bytes in them. Who has a name after all is none, nor who is known no more.
    fn count_nameless(&mut self) -> (usize, u64) {
        let mut bytes = 0;
        let Self { nameless, cookies, task, .. } = self;
        nameless.files.retain(|&id| {
            let stat = cookies.get(id).and_then(|known| task.fstat(&known.file).ok());
            let stat = stat.filter(|stat| stat.st_nlink == 0);
            bytes += stat.as_ref().map_or(0, |stat| 512 * stat.st_blocks as u64);
            stat.is_some()
        });
        (nameless.files.len(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nothing_is_looked_at_is_not_saved_up() {
        let begins = Instant::now();
        let ms = Duration::from_millis;
        for idle in [0, 3600] {
            let now = begins + Duration::from_secs(idle);
            let mut spent = Spent(Duration::ZERO, begins);
            assert_eq!(spent.rests(now), None);
            spent.add(ONCE, now);
            assert_eq!(spent.rests(now), None, "so much once");
            spent.add(ms(10), now);
            assert_eq!(spent.rests(now), Some(PART * ms(10)), "{idle}");
            assert_eq!(spent.rests(now + PART * ms(4)), Some(PART * ms(6)));
            assert_eq!(spent.rests(now + PART * ms(10)), None);
        }
    }

    /// Many numbers, one after the other, and how often it was looked which are still watched.
    fn watching(
        still: impl Fn(u64) -> Option<FxHashSet<u64>>,
        each: impl Fn(&Nameless, u64),
    ) -> (Nameless, u32) {
        let (mut nameless, mut looks) = (Nameless::default(), 0);
        for number in 0..20 * WATCHED as u64 {
            nameless.is_watched(number, || {
                looks += 1;
                still(number)
            });
            each(&nameless, number);
        }
        (nameless, looks)
    }

    #[test]
    fn what_is_watched_no_more_is_not_kept() {
        let still = |number: u64| Some((number - 9..=number).chain([3]).collect());
        let (nameless, looks) = watching(still, |nameless, number| {
            assert!(nameless.watched.len() <= WATCHED + 22, "{number}");
            assert!(nameless.watched.contains(&number));
        });
        assert!(nameless.watched.contains(&3), "all the time");
        assert!((10..=20).contains(&looks), "{looks}");
    }

    #[test]
    fn what_cannot_be_told_not_to_be_watched_stays() {
        let (nameless, looks) = watching(|_| None, |_, _| ());
        assert_eq!(nameless.watched.len(), 20 * WATCHED);
        assert!(looks < 6, "{looks}");
    }
}
