//! Watched directories: which of their names nobody has touched since the host was asked about them. And watched files: those of
//! several names, about which no directory tells all, and where nothing but names is believed others too, for who may open them.
//!
//! ```text
//!   drain ── what happened ──► a name is not known any more; a directory is not as it was
//!   watch ──► the directory's version ── the host is asked ──► learn: known, if the version is still the same
//!   leads ──► where a path of known names leads
//!   still_leads ──► the same, if this thread has asked before and nothing happened since: without the table, by what its stripe has
//! ```
//!
//! Rules:
//! 1. The host puts an event into the queue before the call returns that it tells of, and tells of mounts by then. So who has
//!    emptied the queue knows of all that was done before.
//! 2. A name is known only while its directory is watched, and was so before the host was asked about it.
//! 3. Each event moves its directory's version, lost ones and mounts move all: what was asked before and is told after is not
//!    believed.
//! 4. What is done to a file by one of its names is told of the directory of that name alone. So a file that has several is
//!    as it was only while it is watched itself, and was so before the host was asked about it.
//! 5. A host may take two names for the same that differ in case or in how their letters are written, and tells of one of them:
//!    then both are not known any more.
//! 6. The sequence count is odd from before anything is taken out of the queue until it has been noted, and moves with all else that is
//!    not known any more. So who finds the queue empty, and then the count as it was, knows what was known then.
//!
//! Manual: inotify(7).

mod ways;

use self::ways::{Led, Moment, Own, Way};
use crate::{
    clock::Clock,
    host::{Ear, Event, Host, Kind, News, What},
    node::{Ident, Node, ROOT},
};
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use parking_lot::{Mutex, MutexGuard};
use pathwalk_abi::{NAME_MAX, Result};
use pathwalk_sync::{Seq, Stripes};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    mem::replace,
    ops::{Deref, DerefMut},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread::panicking,
    time::{Duration, Instant},
};

/// Where more names are known, of all directories, all are forgotten.
const MOST: usize = 1 << 16;

/// Of a name so many spellings are known.
const MOST_SPELLINGS: usize = 8;

/// Where the root was asked about so often, the directory that it lies in is watched.
const OFTEN_ASKED: u64 = 4;

/// So often it is tried to watch something while others' watches are taken away.
const MOST_TRIES: u32 = 8;

/// What is believed of a name while nothing was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Believed {
    /// Which file it stands for: who asks about that file asks the host.
    Names,
    /// And the file's attributes.
    All,
}

/// All watches of a mount.
#[derive(Debug)]
pub(crate) struct Watches {
    news: News,
    believed: Believed,
    /// Held while the queue is read, so that what was read has been noted.
    table: Mutex<Table>,
    /// Changed under the table's lock.
    seq: Seq,
    own: Stripes<Mutex<Own>>,
}

/// The table, locked.
struct Locked<'w> {
    table: MutexGuard<'w, Table>,
    seq: &'w Seq,
}

impl Deref for Locked<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl Locked<'_> {
    /// Has the count move, if anything was heard: it is this one then.
    fn tell(&mut self) -> Moment {
        if self.table.told != self.table.heard {
            self.table.told = self.table.heard;
            self.seq.invalidate();
        }
        Moment::of(self.seq)
    }

    fn drain(&mut self, host: &Host, news: &News) -> bool {
        self.table.drain(host, news, self.seq)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // A keeper who panics is told before anything is noted: of what was mounted it is not told again.
        if panicking() {
            self.table.forget_all(true);
        }
        self.tell();
    }
}

#[derive(Debug)]
struct Table {
    watched: Clock<Watch>,
    by_number: HashMap<i32, u64>,
    /// How often anything was heard, and was when the count was moved.
    heard: u64,
    told: u64,
    /// How many watches were taken away.
    ends: u64,
    /// How many names are known.
    names: usize,
    above: Option<Above>,
    /// Where the root was asked about so often, the directory that it lies in is watched.
    above_after: u64,
}

/// The directory that the root lies in. It tells that the root is removed or moved.
#[derive(Debug)]
struct Above {
    number: i32,
    ident: Ident,
    /// How often the root had been asked about when it was looked last whether it lies there.
    asked: u64,
    /// So often it told of something since then, which was mostly something else.
    told: u32,
    since: Instant,
}

/// Where the directory that the root lies in told of more in such a time it is watched no more.
const MOST_TOLD: u32 = 8;
const TIME: Duration = Duration::from_secs(1);

/// A directory that is watched, or a file.
#[derive(Debug)]
struct Watch {
    kind: Kind,
    number: i32,
    version: u64,
    /// The version that it had when something last happened to itself: not to what has a name in it.
    itself: u64,
    /// Of a file there are none.
    known: Names,
    /// Its attributes are those that the cache has.
    fresh: bool,
    /// Those of them are that permission goes by, and ACLs: nothing happened to itself since they were told.
    permits: bool,
    /// Events were lost, and among them may have been that it is watched no more.
    unsure: bool,
}

/// Names and the nodes that they stand for, none for a name that is not there.
#[derive(Debug, Default)]
struct Names {
    /// Those that are ASCII, by what they are the same as for a host that does not look at case.
    ascii: HashTable<Name>,
    /// All others: how their letters may be written is the host's to say, so they go together.
    foreign: HashMap<Box<[u8]>, Option<u64>>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Name {
    name: Box<[u8]>,
    node: Option<u64>,
}

impl Names {
    /// By what a name is found, and all that differ from it in case alone.
    fn hash(hasher: &DefaultHashBuilder, name: &[u8]) -> u64 {
        let mut lower = [0; NAME_MAX];
        let lower = &mut lower[..name.len().min(NAME_MAX)];
        lower.copy_from_slice(&name[..lower.len()]);
        lower.make_ascii_lowercase();
        hasher.hash_one(&*lower)
    }

    fn get(&self, name: &[u8]) -> Option<Option<u64>> {
        if !name.is_ascii() {
            return self.foreign.get(name).copied();
        }
        let hash = Self::hash(&self.hasher, name);
        self.ascii.find(hash, |known| *known.name == *name).map(|known| known.node)
    }

    /// Says what was known before. Of many names that differ in case alone no more than some are known, as they are looked through one after
    /// the other; a name that is taken for one of them by its hash is forgotten with them.
    fn insert(&mut self, name: &[u8], node: Option<u64>) -> Option<Option<u64>> {
        if !name.is_ascii() {
            return self.foreign.insert(name.into(), node);
        }
        let hash = Self::hash(&self.hasher, name);
        let spellings = self.ascii.iter_hash(hash);
        if spellings.count() >= MOST_SPELLINGS
            && self.ascii.find(hash, |known| *known.name == *name).is_none()
        {
            while let Ok(known) = self.ascii.find_entry(hash, |_| true) {
                known.remove();
            }
        }
        let Self { ascii, hasher, .. } = self;
        let again = |known: &Name| Self::hash(hasher, &known.name);
        match ascii.entry(hash, |known| *known.name == *name, again) {
            Entry::Occupied(mut known) => Some(replace(&mut known.get_mut().node, node)),
            Entry::Vacant(none) => {
                none.insert(Name { name: name.into(), node });
                None
            }
        }
    }

    /// Forgets a name, and what may be the same.
    fn remove(&mut self, name: &[u8]) {
        if !name.is_ascii() {
            return self.clear();
        }
        self.foreign.clear();
        let hash = Self::hash(&self.hasher, name);
        let same = |known: &Name| known.name.eq_ignore_ascii_case(name);
        while let Ok(known) = self.ascii.find_entry(hash, same) {
            known.remove();
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    fn count(&self) -> usize {
        self.ascii.len() + self.foreign.len()
    }
}

impl Watch {
    /// Something happened in it, or to itself.
    fn touch(&mut self, itself: bool) {
        self.version += 1;
        self.fresh = false;
        if itself {
            (self.itself, self.permits) = (self.version, false);
        }
    }
}

impl Watches {
    /// Watches so many directories and files at most.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`: no descriptor is left, or the user has as many queues as one may have.
    /// - `ENOENT`, `EACCES`: there is no /proc.
    pub(crate) fn new(host: &Host, believed: Believed, most: usize) -> Result<Self> {
        let (watched, by_number) = (Clock::new(most), HashMap::new());
        let (above, above_after) = (None, OFTEN_ASKED);
        let (heard, told, ends, names) = (0, 0, 0, 0);
        let table = Table { watched, by_number, heard, told, ends, names, above, above_after };
        let (seq, own) = (Seq::default(), Stripes::default());
        Ok(Self { news: host.news()?, believed, table: Mutex::new(table), seq, own })
    }

    /// What is believed.
    pub(crate) fn believed(&self) -> Believed {
        self.believed
    }

    /// Ready where something happened that was not noted.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.news.fd()
    }

    /// This process is about to end.
    pub(crate) fn ends(&self) {
        self.news.ends();
    }

    fn lock(&self) -> Locked<'_> {
        Locked { table: self.table.lock(), seq: &self.seq }
    }

    /// Notes all that has happened. Where that is nothing nobody waits for anybody.
    pub(crate) fn drain(&self, host: &Host) {
        self.drain_by(&mut self.own.mine().lock(), host);
    }

    fn drain_by(&self, own: &mut Own, host: &Host) {
        let has_been_asked = host.has_been_asked();
        if own.ear.is_none() && !own.is_deaf && !has_been_asked {
            let ear = host.ear(&self.news);
            own.is_deaf = ear.is_err();
            // Of what was mounted before it does not tell.
            if self.lock().drain(host, &self.news) {
                own.ear = ear.ok();
            }
            return;
        }
        let is_quiet = |ear: &Ear| host.is_quiet(ear).unwrap_or(false);
        let quiet = has_been_asked || own.ear.as_ref().is_some_and(is_quiet);
        if !quiet || !Moment::of(&self.seq).is_now(&self.seq) {
            let noted = self.lock().drain(host, &self.news);
            if !noted && !quiet {
                // It does not tell again of what was mounted.
                own.ear = None;
            }
        }
    }

    /// Watches a directory that is held, and gives its version; none where it cannot be watched, or its file system does not tell of all
    /// that happens.
    pub(crate) fn watch(&self, host: &Host, dir: u64, held: BorrowedFd<'_>) -> Option<u64> {
        self.watch_as(Kind::Directory, host, dir, held)
    }

    /// The same of a file, too.
    pub(crate) fn watch_as(
        &self,
        kind: Kind,
        host: &Host,
        node: u64,
        held: BorrowedFd<'_>,
    ) -> Option<u64> {
        if let Some(version) = self.version(node) {
            return Some(version);
        }
        // It may take long: nobody else waits for that.
        let stat = host.statx(held, b"").ok()?;
        if !host.tells_all(&stat, held).unwrap_or(false) {
            return None;
        }
        let contents = self.believed == Believed::All;
        self.enter(kind, host, node, || host.add_watch(&self.news, held, kind, contents).ok())
    }

    /// Whether it is told from now on that the root is removed or moved, which was asked about so often; `above` finds where it lies, and is
    /// asked twice, as it may be moved meanwhile.
    pub(crate) fn watch_above(
        &self,
        host: &Host,
        asked: u64,
        above: impl Fn() -> Result<(OwnedFd, Ident)>,
    ) -> bool {
        if asked < self.lock().above_after {
            return false;
        }
        let watched = self.try_to_watch_above(host, asked, above);
        if watched.is_err() {
            // It may not be read, or what it is on is mounted: so it is mostly for ever.
            self.lock().above_after = 2 * asked;
        }
        watched.unwrap_or(false)
    }

    /// Whether it is told that the root is removed or moved.
    pub(crate) fn is_above_watched(&self) -> bool {
        self.lock().above.is_some()
    }

    fn try_to_watch_above(
        &self,
        host: &Host,
        asked: u64,
        above: impl Fn() -> Result<(OwnedFd, Ident)>,
    ) -> Result<bool> {
        let (held, ident) = above()?;
        let is_it = |above: &&mut Above| above.ident == ident;
        let mut table = self.lock();
        let known = table.above.as_mut().filter(is_it).map(|above| above.asked = asked);
        drop(table);
        if known.is_none() {
            let number = host.add_watch_above(&self.news, held.as_fd())?;
            let mut table = self.lock();
            let new = Above { number, ident, asked, told: 0, since: Instant::now() };
            let before = table.above.replace(new);
            if let Some(before) = before.filter(|before| before.number != number) {
                table.end_above(host, &self.news, &before);
            }
        }
        let (_, again) = above()?;
        Ok(again == ident)
    }

    /// Enters what is watched under the number that the host gives its watch. The table is not locked while the host is asked: a directory
    /// of which it does not answer is nobody else's concern.
    fn enter(
        &self,
        kind: Kind,
        host: &Host,
        node: u64,
        add: impl Fn() -> Option<i32>,
    ) -> Option<u64> {
        for _ in 0..MOST_TRIES {
            let before = self.lock().ends;
            let number = add()?;
            let mut table = self.lock();
            // What the host told of this number until now, it told before it is asked about a name. But what was watched already had
            // that number before, and may have lost it since: by us, as the kernel ends no watch of what is held.
            if table.ends == before {
                return Some(table.enter(kind, host, &self.news, node, number));
            }
            if !table.by_number.contains_key(&number) {
                table.ends += 1;
                host.remove_watch(&self.news, number);
            }
        }
        None
    }

    /// Notes what the host said of a name, when the directory had that version: the node that it stands for, or none. Says whether it
    /// still had it.
    pub(crate) fn learn(&self, dir: u64, name: &[u8], node: Option<u64>, version: u64) -> bool {
        let mut table = self.lock();
        let table = &mut *table;
        if table.names >= MOST {
            table.forget_all(false);
        }
        let Some(dir) = table.watched.get(dir).filter(|dir| dir.version == version) else {
            return false;
        };
        let known = dir.known.count();
        let before = dir.known.insert(name, node);
        table.names = table.names - known + dir.known.count();
        // The file was forgotten and found again; or other names were forgotten.
        let forgot = before.map_or(dir.known.count() <= known, |before| before != node);
        table.heard += u64::from(forgot);
        true
    }

    /// The version of what is watched, if it is.
    pub(crate) fn version(&self, node: u64) -> Option<u64> {
        self.lock().sure(node).map(|watch| watch.version)
    }

    /// The same of what is watched itself: it moves with what happens to that, and not with what happens to the names in it.
    pub(crate) fn version_of_itself(&self, node: u64) -> Option<u64> {
        self.lock().sure(node).map(|watch| watch.itself)
    }

    /// Notes that the own attributes of what is watched were told, when it had that version; which was taken before the turn at asking for
    /// them. Else attributes of a later turn, which the cache keeps instead, may be from before that version.
    pub(crate) fn fresh(&self, node: u64, version: u64) {
        let mut table = self.lock();
        if let Some(watch) = table.watched.get(node).filter(|watch| watch.version == version) {
            watch.fresh = true;
        }
    }

    /// Whether a name stands for what it stood for when the host was asked, and that is as it was, but for the times, the size and the
    /// links of a directory: see [`Watches::tells_about`].
    pub(crate) fn knows(&self, dir: u64, name: &[u8], node: Option<&Node>) -> bool {
        let mut table = self.lock();
        let known = table.watched.get(dir).and_then(|dir| dir.known.get(name));
        known == Some(node.map(|node| node.id))
            && self.believed == Believed::All
            && node.is_none_or(|node| !node.is_linked() || table.is_fresh(node.id))
    }

    /// Whether the attributes of a file are those that the cache has, as long as its name is known.
    pub(crate) fn tells_about(&self, node: &Node) -> bool {
        self.believed == Believed::All
            // What happens in a directory that is not watched changes its times, and nobody says so.
            && (!node.needs_a_watch() || self.lock().is_fresh(node.id))
    }

    /// Where names lead from a directory on, after all that has happened, if that is known.
    ///
    /// `last` is the node that it should be.
    pub(crate) fn leads(
        &self,
        host: &Host,
        dir: u64,
        names: &[&[u8]],
        last: Option<&Node>,
    ) -> Option<Led> {
        let mut own = self.own.mine().lock();
        self.drain_by(&mut own, host);
        let mut table = self.lock();
        let at = table.tell();
        let known = match names {
            &[path] => own.ways.get(dir, path, at),
            _ => None,
        };
        let node = match known {
            Some(led) => led.node,
            None => table.leads(dir, names)?,
        };
        let led = Led {
            node,
            permits: node.is_some_and(|node| table.permits(node)),
            tells: self.believed == Believed::All
                && last.is_some_and(|last| {
                    Some(last.id) == node && (!last.needs_a_watch() || table.is_fresh(last.id))
                }),
            begins: table.permits(dir),
        };
        if let &[path] = names
            && known != Some(led)
        {
            own.ways.put(Way { dir, path: path.into(), at, led });
        }
        Some(led)
    }

    /// Whether a path leads to a node, or for `None` to none, as it did when this thread asked last, and who may read that, and who may
    /// search where it begins if all is believed, is what it was; and if they are wanted all attributes of what it leads to. Where it is
    /// not known it is to be asked anew.
    pub(crate) fn still_leads(
        &self,
        host: &Host,
        dir: u64,
        path: &[u8],
        to: Option<u64>,
        attributes: bool,
    ) -> bool {
        let mut own = self.own.mine().lock();
        let at = Moment::of(&self.seq);
        let Some(led) = own.ways.get(dir, path, at) else { return false };
        let all = self.believed == Believed::All;
        let is_known = led.node == to
            && (to.is_none() || led.tells || led.permits && !attributes)
            && (led.begins || !all);
        if is_known {
            self.drain_by(&mut own, host);
        }
        is_known && at.is_now(&self.seq)
    }

    /// A file was seen to have several names: what was known of it by one of them is not for sure.
    pub(crate) fn note_linked(&self) {
        self.lock().heard += 1;
    }

    /// Whether the cache has of a node what permission goes by, as far as was heard.
    pub(crate) fn permits(&self, node: u64) -> bool {
        self.lock().permits(node)
    }

    /// Notes that the cache was told what permission goes by, of what is watched itself, when it had that version of itself: taken before the
    /// turn at asking, as for [`Watches::fresh`]. Says whether it still has it.
    pub(crate) fn told_who_may(&self, node: u64, itself: u64) -> bool {
        let mut table = self.lock();
        let watch = table.sure(node).filter(|watch| watch.itself == itself);
        watch.map(|watch| watch.permits = true).is_some()
    }

    /// Watches a node no more.
    pub(crate) fn forget(&self, host: &Host, node: u64) {
        let mut table = self.lock();
        if let Some(gone) = table.watched.remove(node) {
            table.end(host, &self.news, node, &gone);
        }
    }
}

impl Table {
    /// What is watched for sure.
    fn sure(&mut self, node: u64) -> Option<&mut Watch> {
        self.watched.get(node).filter(|watch| !watch.unsure)
    }

    /// Whether the cache has its own attributes, and nothing happened to it since it was told them.
    fn is_fresh(&mut self, node: u64) -> bool {
        self.watched.get(node).is_some_and(|watch| watch.fresh)
    }

    /// See [`Watches::permits`].
    fn permits(&mut self, node: u64) -> bool {
        self.watched.get(node).is_some_and(|watch| watch.permits)
    }

    /// Something happened in the directory that the root lies in, or it is watched no more.
    fn note_above(&mut self, event: &Event<'_>) {
        let Some(above) = self.above.as_mut().filter(|above| above.number == event.number) else {
            return;
        };
        if above.told == 0 || above.since.elapsed() > TIME {
            (above.told, above.since) = (0, Instant::now());
        }
        above.told += 1;
        if event.what == What::Ends {
            self.above = None;
        }
        self.touch_root();
    }

    fn touch_root(&mut self) {
        self.heard += 1;
        if let Some(root) = self.watched.get(ROOT) {
            root.touch(true);
        }
    }

    /// The directory that the root lay in, or lies in, is watched no more for that.
    fn end_above(&mut self, host: &Host, news: &News, above: &Above) {
        if !self.by_number.contains_key(&above.number) {
            host.remove_watch(news, above.number);
        }
    }

    /// Notes that something is watched under that number, and gives its version.
    fn enter(&mut self, kind: Kind, host: &Host, news: &News, node: u64, number: i32) -> u64 {
        if let Some(known) = self.watched.get(node)
            && known.number == number
            && !known.unsure
        {
            return known.version;
        }
        // What is watched already has one number: an older node of the same file, or this one that was not sure of it.
        for other in [self.by_number.get(&number).copied(), Some(node)].into_iter().flatten() {
            if let Some(gone) = self.watched.remove(other) {
                self.names -= gone.known.count();
                if self.by_number.get(&gone.number) == Some(&other) {
                    self.by_number.remove(&gone.number);
                }
            }
        }
        self.by_number.insert(number, node);
        self.heard += 1;
        // None that it had when it was watched before.
        let version = self.heard;
        let (known, itself) = (Names::default(), version);
        let (fresh, permits, unsure) = (false, false, false);
        let new = Watch { kind, number, version, itself, known, fresh, permits, unsure };
        if let Some((other, gone)) = self.watched.put(node, new) {
            self.end(host, news, other, &gone);
        }
        version
    }

    /// As [`Watches::leads`], name by name.
    fn leads(&mut self, mut dir: u64, names: &[&[u8]]) -> Option<Option<u64>> {
        let mut way = Vec::new();
        for name in each(names) {
            // Through a file leads not even a dot.
            let known = &self.watched.get(dir).filter(|watch| watch.kind == Kind::Directory)?.known;
            match name {
                b"." => {}
                b".." => dir = way.pop()?,
                _ => {
                    way.push(dir);
                    match known.get(name)? {
                        Some(node) => dir = node,
                        None => return Some(None),
                    }
                }
            }
        }
        Some(Some(dir))
    }

    /// Notes all that has happened, unless somebody else has asked.
    fn drain(&mut self, host: &Host, news: &News, seq: &Seq) -> bool {
        let mut change = None;
        let begins = || change = Some(seq.change());
        let asked = host.events(news, begins, &mut |event| self.note(&event));
        if asked.is_err() {
            self.forget_all(true);
        }
        drop(change);
        // What others do there is no news of what is below, and would be heard of each time.
        if let Some(above) = self.above.take_if(|above| above.told > MOST_TOLD) {
            self.end_above(host, news, &above);
            self.above_after = 2 * above.asked;
            self.touch_root();
        }
        asked.unwrap_or(true)
    }

    fn note(&mut self, event: &Event<'_>) {
        match event.what {
            What::Lost => return self.forget_all(true),
            What::Mounted => return self.forget_all(false),
            What::Ends | What::Else => {}
        }
        self.note_above(event);
        let Some(&id) = self.by_number.get(&event.number) else { return };
        self.heard += 1;
        if event.what == What::Ends {
            self.by_number.remove(&event.number);
            self.names -= self.watched.remove(id).map_or(0, |gone| gone.known.count());
            return;
        }
        let Some(watch) = self.watched.get(id) else { return };
        watch.touch(event.name.is_none());
        if let Some(name) = event.name {
            let before = watch.known.count();
            watch.known.remove(name);
            self.names -= before - watch.known.count();
        }
    }

    /// Watches a node no more that was taken out.
    fn end(&mut self, host: &Host, news: &News, node: u64, gone: &Watch) {
        // Nothing more is heard of it.
        host.say_news();
        self.heard += 1;
        self.names -= gone.known.count();
        // A later node of the same file may have its number.
        if self.by_number.get(&gone.number) == Some(&node) {
            self.by_number.remove(&gone.number);
            if self.above.take_if(|above| above.number == gone.number).is_some() {
                self.touch_root();
            }
            self.ends += 1;
            host.remove_watch(news, gone.number);
        }
    }

    /// Forgets all names; and where events were lost, whether it is watched.
    fn forget_all(&mut self, lost: bool) {
        self.heard += 1;
        self.names = 0;
        for watch in self.watched.values_mut() {
            watch.touch(true);
            watch.known.clear();
            watch.unsure |= lost;
        }
        if lost {
            self.above = None;
        }
    }
}

/// The names of a path in pieces, and the dots among them.
pub(crate) fn each<'a>(names: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
    names.iter().flat_map(|piece| piece.split(|&byte| byte == b'/')).filter(|name| !name.is_empty())
}

/// How often the host was asked the same: what is asked again and again is worth a watch.
#[derive(Debug)]
pub(crate) struct Asked {
    hasher: RandomState,
    /// By a hash of the question; two that share one are watched sooner.
    counts: Box<[AtomicU32]>,
}

/// So often, before it is worth that; where it cannot be watched it is tried at twice as often.
const OFTEN: u32 = 4;
/// So many questions are counted.
const COUNTS: usize = 1 << 10;

impl Asked {
    pub(crate) fn new() -> Self {
        let counts = (0..COUNTS).map(|_| AtomicU32::new(0)).collect();
        Self { hasher: RandomState::new(), counts }
    }

    fn count(&self, dir: u64, names: &[&[u8]]) -> &AtomicU32 {
        &self.counts[self.hasher.hash_one((dir, names)) as usize % COUNTS]
    }

    /// Counts a question; whether it is to be watched now.
    pub(crate) fn again(&self, dir: u64, names: &[&[u8]]) -> bool {
        let count = self.count(dir, names).fetch_add(1, Relaxed).saturating_add(1);
        count >= OFTEN && count.is_power_of_two()
    }

    /// It is watched now: should that end, it is counted from the beginning.
    pub(crate) fn watched(&self, dir: u64, names: &[&[u8]]) {
        self.count(dir, names).store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests;
