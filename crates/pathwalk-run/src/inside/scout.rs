//! A thread that goes ahead of a program that goes through a tree, and asks the library what the program asks next.
//!
//! ```text
//!   the program opens a directory ──► the directories in it lie on the stack, the first on top; of who asks about directories those with others in them
//!   the scout takes the top one ──► lists it, and asks about what is in it ──► the directories in that lie on top
//!   the program opens one that was taken ──► what it asks now was found
//! ```
//!
//! What the scout finds is laid down by who answers the program, as what he finds himself: of what is believed, and hanging on the count
//! that the part of the tree had before it was asked. What lies beside what was asked about he lays down as soon as he answers anything, but for each fourth directory that was taken: that waits
//! until it is asked about, and tells how far the program is.
//!
//! 1. It asks what the program may ask, and nothing that is noted as a reading; and goes where what is there is believed, so where the host tells
//!    of it.
//! 2. It is no more than so many directories ahead, and goes further ahead of who opens what it took. Who goes elsewhere has it begin anew.
//! 3. It has few directories open, and none some time after the program opened the last one.
//! 4. From when somebody watches what is done it rests: he would be told of what it does.

use super::{
    ASKED, Part,
    ahead::Those,
    beside::NO_OTHERS,
    laid::OwnKey,
    list::{Entry, LISTED, is_unnoted, list},
    told::{Kinds, Told, Wants},
};
use crate::cpu;
use parking_lot::{Condvar, Mutex, MutexGuard};
use pathwalk::{File, FileType, HostFs, OpenFlags, OpenHow, ResolveFlags, Stat, Task};
use pathwalk_inside::Counts;
use rustix::process::{Resource, getrlimit};
use std::{
    collections::VecDeque,
    mem::{forget, take},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, available_parallelism},
    time::Duration,
};

/// It is so many directories ahead of who did not open any of them yet, and so many more of who does.
const FIRST: usize = 32;
const MOST: usize = 256;
/// So many behind one that the program is at come next.
const BEHIND: usize = 4;
/// They are looked for among so many.
const SOON: usize = 128;
/// A directory with more files is not laid down before it is asked about: all others wait meanwhile.
const MOST_LAID: usize = 256;
/// Of so many directories beside each other one is not laid down before it is asked about.
const EACH: u64 = 4;
/// It is woken for so many.
const WOKEN_FOR: usize = 8;
/// So many wait to be taken, in so many directories, each of which is open; of more the last are not.
const WAITING: usize = 4096;
const OPEN: usize = 16;
/// Where fewer descriptors may be open nobody goes ahead: what is there is needed.
const ROOM: u64 = 1024;
/// What it found and nobody opened yet are no more files than that.
const MOST_FOUND: usize = 1 << 15;
/// Where it had nothing to do for so long it has nothing open.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked about of all that is in a directory.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) kinds: Kinds,
    pub(super) wants: Wants,
    /// The directory of the host that it lies in, by its count.
    pub(super) host: Arc<HostFs>,
    pub(super) counts: Counts,
    pub(super) count: usize,
    /// By what it is found that lies beside each other.
    pub(super) lays: Option<Arc<Lays>>,
}

/// By what the files are found in directories beside each other.
#[derive(Debug)]
pub(super) struct Lays {
    /// Its text is the way to what is above.
    pub(super) above: OwnKey,
    pub(super) part: Part,
    /// What the answers hang on.
    pub(super) parts: Vec<(usize, u64)>,
}

/// What was found in a directory: all of that kind, as they are believed to be.
pub(super) struct Found {
    /// The mount, the device and the number of the directory.
    dir: [u64; 3],
    kinds: Kinds,
    pub(super) wants: Wants,
    /// How often something had been changed in that part of the tree before.
    pub(super) count: (usize, u64),
    pub(super) files: Vec<(Box<[u8]>, Told)>,
    /// There are no others of that kind.
    pub(super) whole: bool,
    /// Where they may be laid down before somebody asks.
    beside: Option<Beside>,
}

/// One of some directories beside each other.
pub(super) struct Beside {
    pub(super) lays: Arc<Lays>,
    pub(super) name: Box<[u8]>,
    /// What it is, if that is believed.
    pub(super) itself: Option<Told>,
}

/// Whether the scout was in a directory already.
pub(super) enum Been {
    No,
    /// It was, or is; what it found, if it found all.
    Yes(Option<Box<Found>>),
}

/// A name in a directory, and the number of its inode.
pub(super) type Named = (Box<[u8]>, u64);

/// A directory, and what is asked about of all that is in those in it.
struct Above {
    dir: File,
    /// The numbers of its mount, and its own.
    mount: u64,
    number: u64,
    look: Look,
}

impl Above {
    fn new(dir: File, look: Look) -> Self {
        Self { mount: dir.mount_id(), number: dir.ino(), dir, look }
    }
}

/// A directory that the program may open.
struct Place {
    above: Arc<Above>,
    name: Box<[u8]>,
    ino: u64,
    /// Which one it is of those in the directory.
    order: usize,
}

impl Place {
    fn place(&self) -> (u64, u64) {
        (self.above.mount, self.ino)
    }

    fn place_above(&self) -> (u64, u64) {
        (self.above.mount, self.above.number)
    }

    fn order(&self) -> (u64, usize) {
        (self.above.number, self.order)
    }
}

/// The scout, as the supervisor knows it.
#[derive(Default)]
pub(super) struct Scout(Known);

#[derive(Default)]
enum Known {
    /// It was not needed yet.
    #[default]
    Not,
    Hired(Arc<Shared>),
    /// There can be none.
    None,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The state is another one.
    changed: Condvar,
    /// How many directories are to be laid down.
    to_lay: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Where to go next, the first last.
    stack: Vec<Place>,
    /// What it took, and the program did not open since.
    taken: VecDeque<Taken>,
    /// How much further ahead it goes, as what it took was opened.
    ahead: usize,
    /// How often it took one, how often the program opened one of which all was found, and how often all was forgotten.
    turns: u64,
    opened: u64,
    forgotten: u64,
    /// The program opened one since it was last looked.
    follows: bool,
    /// It asks about a directory.
    asks: bool,
    /// In which turn it asked about one that the program opened meanwhile.
    met: u64,
    /// It is to be woken.
    waits: bool,
}

/// A directory that was taken, by its mount and its number, and in which turn.
struct Taken {
    place: (u64, u64),
    /// Its place among those beside it, by the number of what is above.
    order: (u64, usize),
    turn: u64,
    found: Option<Box<Found>>,
    /// So many files were found.
    files: usize,
    /// What was found is laid down.
    laid: bool,
}

impl Scout {
    /// The program opens a directory, of which this is to be known.
    pub(super) fn opened(&self, dir: &File, stat: &Stat, kinds: Kinds, wants: &Wants) -> Been {
        let Known::Hired(shared) = &self.0 else { return Been::No };
        let id = [dir.mount_id(), stat.st_dev, stat.st_ino];
        match shared.opened((id[0], id[2]), kinds != Kinds::Regular) {
            Been::Yes(found) => Been::Yes(found.filter(|found| found.is_of(id, kinds, wants))),
            Been::No => Been::No,
        }
    }

    /// Whether it found those in a directory, and nothing happened since.
    pub(super) fn has_found(&self, those: &Those<'_>, dir: [u64; 3]) -> bool {
        let Known::Hired(shared) = &self.0 else { return false };
        let state = shared.state.lock();
        let mut found = state.taken.iter().filter_map(|taken| taken.found.as_ref());
        let wants = those.wants();
        found.any(|found| found.is_of(dir, those.kinds, &wants) && those.is_of_now(found))
    }

    /// The program opens a directory that it need not go to.
    pub(super) fn is_followed(&self) {
        if let Known::Hired(shared) = &self.0 {
            shared.state.lock().follows = true;
        }
    }

    /// The program is about to open these directories, in this order.
    pub(super) fn go(&mut self, task: &Task, dir: &File, look: Look, names: Vec<Named>) {
        if matches!(self.0, Known::Not) {
            self.0 = hire(task).map_or(Known::None, Known::Hired);
        }
        let Known::Hired(shared) = &self.0 else { return };
        let mut state = shared.state.lock();
        state.begins_anew();
        let gone = state.push(Above::new(dir.clone(), look), names);
        state.waits = false;
        shared.changed.notify_all();
        drop(state);
        drop(gone);
    }

    /// What was found in a directory, and may be laid down before somebody asks.
    pub(super) fn to_lay(&self) -> Option<(Beside, Box<Found>)> {
        let Known::Hired(shared) = &self.0 else { return None };
        // Relaxed: what is there is seen under the lock, now or by who asks next.
        if shared.to_lay.load(Relaxed) == 0 {
            return None;
        }
        let mut state = shared.state.lock();
        let taken = state.taken.iter_mut().find(|taken| taken.is_to_lay());
        let found = taken.and_then(|taken| {
            taken.laid = true;
            taken.found.take()
        });
        shared.count(&state);
        let mut found = found?;
        Some((found.beside.take()?, found))
    }

    /// What was found in a directory was not laid down after all: who asks about it looks himself.
    pub(super) fn is_not_laid(&self, found: &Found) {
        let Known::Hired(shared) = &self.0 else { return };
        shared.state.lock().taken.retain(|taken| taken.place != (found.dir[0], found.dir[2]));
    }

    /// How many directories it took, and of how many of them the program took what was found; none where it was not needed.
    pub(super) fn sums(&self) -> Option<[u64; 2]> {
        let Known::Hired(shared) = &self.0 else { return None };
        let state = shared.state.lock();
        Some([state.turns, state.opened])
    }

    /// Whether it has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        let Known::Hired(shared) = &self.0 else { return true };
        let state = shared.state.lock();
        state.stack.is_empty() && state.taken.is_empty()
    }

    /// Goes nowhere that it was sent to, once it is done with the directory that it asks about.
    pub(super) fn stops(&self) {
        let Known::Hired(shared) = &self.0 else { return };
        let gone = shared.state.lock().forget();
        drop(gone);
    }

    /// The same, and has nothing open.
    pub(super) fn rests(&self) {
        let Known::Hired(shared) = &self.0 else { return };
        let mut state = shared.state.lock();
        let gone = state.forget();
        while state.asks {
            shared.changed.wait(&mut state);
        }
        drop(state);
        drop(gone);
    }
}

impl State {
    /// How many more it may take.
    fn room(&self) -> usize {
        if self.taken.iter().map(|taken| taken.files).sum::<usize>() > MOST_FOUND {
            return 0;
        }
        (FIRST + self.ahead).saturating_sub(self.taken.len())
    }

    /// Puts directories on the stack; gives those that are not gone to for that.
    fn push(&mut self, above: Above, names: Vec<Named>) -> Vec<Place> {
        // What it was sent to once more comes now.
        let again = (above.mount, above.number);
        let mut gone: Vec<_> =
            self.stack.extract_if(.., |place| place.place_above() == again).collect();
        let above = Arc::new(above);
        let place = |(order, (name, ino))| Place { above: Arc::clone(&above), name, ino, order };
        self.stack.extend(names.into_iter().enumerate().rev().map(place));
        let mut open: Vec<*const Above> = Vec::with_capacity(OPEN);
        let kept = self.stack.iter().rev().take(WAITING).take_while(|place| {
            let above = Arc::as_ptr(&place.above);
            let known = open.contains(&above);
            if !known && open.len() < OPEN {
                open.push(above);
            }
            known || open.last() == Some(&above)
        });
        let last = self.stack.len() - kept.count();
        gone.extend(self.stack.drain(..last));
        gone
    }

    /// The program is at this directory, and maybe at others elsewhere: what is behind it comes next, if it came soon in any case.
    fn next_are_behind(&mut self, (above, order): (u64, usize)) {
        let behind = order + 1..=order + BEHIND;
        let is_next = |place: &Place| place.above.number == above && behind.contains(&place.order);
        let soon = self.stack.len().saturating_sub(SOON);
        let (next, rest): (Vec<_>, Vec<_>) = self.stack.drain(soon..).partition(is_next);
        self.stack.extend(rest);
        self.stack.extend(next);
    }

    /// Whether there are few of those left that are listed before this one, beside it. Who leaves more of them goes in another order, and comes
    /// to them yet.
    fn skips_few(&self, (above, order): (u64, usize)) -> bool {
        let is_before = |other: (u64, usize)| other.0 == above && other.1 < order;
        let taken = self.taken.iter().filter(|taken| is_before(taken.order)).count();
        let soon = self.stack.iter().rev().take(SOON);
        let waiting = soon.filter(|place| is_before(place.order())).count();
        taken + waiting <= BEHIND
    }

    /// Where as much was taken as may be, nobody comes by there any more, but by the one that is asked about now.
    fn begins_anew(&mut self) {
        if self.room() == 0 {
            self.taken.retain(Taken::is_asked_about);
            self.ahead = 0;
        }
    }

    /// Forgets everything; gives what there was to be gone to.
    fn forget(&mut self) -> Vec<Place> {
        self.taken.clear();
        self.ahead = 0;
        self.forgotten += 1;
        take(&mut self.stack)
    }
}

impl Found {
    fn is_of(&self, dir: [u64; 3], kinds: Kinds, wants: &Wants) -> bool {
        (self.dir, self.kinds, &self.wants) == (dir, kinds, wants)
    }
}

impl Taken {
    /// Whether it is the one that the scout looks at now.
    fn is_asked_about(&self) -> bool {
        self.found.is_none() && !self.laid
    }

    fn is_to_lay(&self) -> bool {
        let beside = self.found.as_ref().is_some_and(|found| found.beside.is_some());
        beside && self.files <= MOST_LAID && !self.turn.is_multiple_of(EACH)
    }
}

impl Shared {
    /// See [`Scout::opened`]. Who goes through all of a tree has passed what is beside it and comes before, if he goes in the order in which
    /// it is listed.
    fn opened(&self, place: (u64, u64), all: bool) -> Been {
        let mut state = self.state.lock();
        state.follows = true;
        if let Some(at) = state.taken.iter().position(|taken| taken.place == place) {
            let order = state.taken[at].order;
            let passed = all && state.skips_few(order);
            if state.taken[at].is_asked_about() {
                state.met = state.taken[at].turn;
            }
            let found = state.taken.remove(at).and_then(|taken| taken.found);
            // Who came to this one passed those before it; of those that were laid down, he did not have to ask.
            let is_before = |taken: &Taken| taken.order.0 == order.0 && taken.order.1 < order.1;
            let mut laid = 0;
            state.taken.retain(|taken| {
                let gone = is_before(taken) && (passed || taken.laid);
                laid += usize::from(gone && taken.laid);
                !gone
            });
            state.opened += u64::from(found.is_some()) + laid as u64;
            state.ahead = (state.ahead + 2 + 2 * laid).min(MOST);
            // Who goes deep comes to what is in this one first.
            if !all {
                state.next_are_behind(order);
            }
            self.count(&state);
            self.wake(&mut state);
            return Been::Yes(found);
        }
        if let Some(at) = state.stack.iter().rposition(|other| other.place() == place) {
            let order = state.stack[at].order();
            let passed = all && state.skips_few(order);
            let end = if passed { state.stack.len() } else { at + 1 };
            let gone: Vec<_> = state.stack.drain(at..end).collect();
            if !all {
                state.next_are_behind(order);
            }
            state.begins_anew();
            self.wake(&mut state);
            drop(state);
            drop(gone);
        }
        Been::No
    }

    /// Counts what is to be laid down.
    fn count(&self, state: &State) {
        let count = state.taken.iter().filter(|taken| taken.is_to_lay()).count();
        // Relaxed: see `Scout::to_lay`.
        self.to_lay.store(count, Relaxed);
    }

    /// Wakes the scout if it waits and there is enough to be done: to be woken takes longer than to go to one directory.
    fn wake(&self, state: &mut State) {
        if state.waits && !state.stack.is_empty() && state.room() >= WOKEN_FOR {
            state.waits = false;
            self.changed.notify_all();
        }
    }

    /// What the scout does.
    fn goes(&self, task: &Task) {
        let mut listing = vec![0; LISTED];
        let mut state = self.state.lock();
        loop {
            let place = loop {
                if state.room() > 0
                    && let Some(place) = state.stack.pop()
                {
                    break place;
                }
                state.waits = true;
                if state.stack.is_empty() && state.taken.is_empty() {
                    self.changed.wait(&mut state);
                } else if self.changed.wait_for(&mut state, PATIENCE).timed_out()
                    && !take(&mut state.follows)
                {
                    let gone = state.forget();
                    MutexGuard::unlocked(&mut state, || drop(gone));
                }
            };
            // It was there since it was sent there first.
            if state.taken.iter().any(|taken| taken.place == place.place()) {
                MutexGuard::unlocked(&mut state, || drop(place));
                continue;
            }
            state.turns += 1;
            let (turn, forgotten) = (state.turns, state.forgotten);
            state.taken.push_back(Taken {
                place: place.place(),
                order: place.order(),
                turn,
                found: None,
                files: 0,
                laid: false,
            });
            state.asks = true;
            drop(state);
            let asks = Asks(self);
            let mut looked = look(task, &place, &mut listing);
            drop(place);
            forget(asks);
            state = self.state.lock();
            let all_is_forgotten = state.forgotten != forgotten;
            if all_is_forgotten {
                MutexGuard::unlocked(&mut state, || looked = None);
            }
            // Nothing is open by now that nobody wants.
            state.asks = false;
            self.changed.notify_all();
            if all_is_forgotten {
                continue;
            }
            let Some(Looked { found, below }) = looked else {
                // Who opens it looks himself.
                state.taken.retain(|taken| taken.turn != turn);
                continue;
            };
            // Whoever passed by comes to nothing in it any more.
            let mut comes = state.met == turn;
            if let Some(taken) = state.taken.iter_mut().find(|taken| taken.turn == turn) {
                comes = true;
                (taken.files, taken.found) = (found.files.len(), Some(Box::new(found)));
            }
            self.count(&state);
            if let Some((above, names)) = below.filter(|_| comes) {
                let gone = state.push(above, names);
                MutexGuard::unlocked(&mut state, || drop(gone));
            }
        }
    }
}

/// The scout asks about a directory. Should it end by that, nobody waits for it.
struct Asks<'a>(&'a Shared);

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.state.lock().asks = false;
        self.0.changed.notify_all();
    }
}

/// What there was in a directory.
struct Looked {
    found: Found,
    /// The directory, where others in it are to be gone to, and those.
    below: Option<(Above, Vec<Named>)>,
}

/// Asks about all in a directory. None where it is not there, where what is done there would be noted, or where there is too much.
fn look(task: &Task, place: &Place, listing: &mut [u8]) -> Option<Looked> {
    let Above { dir: above, look, .. } = &*place.above;
    let Look { kinds, wants, host, .. } = look;
    let how = OpenFlags::RDONLY | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW | OpenFlags::NOATIME;
    let how = OpenHow { flags: how.bits(), mode: 0, resolve: ResolveFlags::NO_XDEV.bits() };
    let dir = task.openat2(above, &place.name, &how).ok()?;
    if !is_unnoted(dir.host_fd()?) {
        return None;
    }
    let stat = task.fstat(&dir).ok()?;
    // What was told until now is noted, and what is told from here on is counted: so it is asked for once.
    ASKED.set(false);
    host.hear();
    let count = (look.count, look.counts.get(look.count));
    ASKED.set(true);
    let mut names = Vec::new();
    let whole = list(task, &dir, listing, |Entry { name, kind: its, ino }| {
        if kinds.have(its) {
            names.push((Box::<[u8]>::from(name), ino, its));
        }
        true
    });
    if !whole.ok()? {
        return None;
    }
    let listed = names.len();
    let mut files = Vec::with_capacity(listed);
    // Much is asked about here; and what is about to be entered is watched then.
    host.watching_found(|| {
        names.retain(|(name, _, kind)| {
            let its = wants.believed(task, &dir, (name, *kind));
            // Not what is mounted there.
            let its = its.filter(|its| its.dev() == stat.st_dev);
            let others = *kind == FileType::Directory
                && its.as_ref().is_some_and(|its| is_gone_to(*kinds, its.nlink()));
            files.extend(its.map(|its| (name.clone(), its)));
            others
        });
    });
    let id = [dir.mount_id(), stat.st_dev, stat.st_ino];
    let whole = files.len() == listed;
    let beside = look.lays.clone().map(|lays| {
        let itself =
            host.watching_found(|| wants.believed(task, above, (&place.name, FileType::Directory)));
        let itself = itself.filter(|its| (its.dev(), its.ino()) == (stat.st_dev, stat.st_ino));
        Beside { lays, name: place.name.clone(), itself }
    });
    let found = Found { dir: id, kinds: *kinds, wants: wants.clone(), count, files, whole, beside };
    let below = (*kinds != Kinds::Regular).then(|| {
        let mut names: Vec<_> = names.into_iter().map(|(name, ino, _)| (name, ino)).collect();
        in_order(*kinds, &mut names);
        (Above::new(dir, look.clone()), names)
    });
    Some(Looked { found, below })
}

/// Whether a directory with so many links is gone to by who asks about these: of one without others in it nothing is asked but about the files.
pub(super) fn is_gone_to(kinds: Kinds, nlink: u64) -> bool {
    kinds == Kinds::All || nlink != NO_OTHERS
}

/// Puts the directories in one in the order in which who asks about these goes to them: who asks about all mostly sorts them before.
pub(super) fn in_order(kinds: Kinds, names: &mut [Named]) {
    if kinds == Kinds::All {
        names.sort_unstable();
    }
}

/// Where one processor is all that there is, nobody goes ahead.
fn hire(task: &Task) -> Option<Arc<Shared>> {
    cpu::is_to_make_a_thread();
    available_parallelism().ok().filter(|many| many.get() > 1)?;
    if getrlimit(Resource::Nofile).current.is_some_and(|limit| limit < ROOM) {
        return None;
    }
    let (shared, task) = (Arc::new(Shared::default()), task.thread());
    let its = Arc::clone(&shared);
    thread::Builder::new().spawn(move || its.goes(&task)).ok()?;
    Some(shared)
}
