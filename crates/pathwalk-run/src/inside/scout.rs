//! A thread that goes ahead of a program that goes through a tree, and asks the library what the program asks next.
//!
//! ```text
//!   the program opens a directory ──► the directories in it lie on the stack, the first on top
//!   the scout takes the top one ──► lists it, and asks about what is in it ──► the directories in that lie on top
//!   the program opens one that was taken ──► what it asks now is cached
//! ```
//!
//! What the scout is told nobody hears of: it lies in the cache, and is asked for anew.
//!
//! 1. It asks what the program may ask, and nothing that is noted as a reading.
//! 2. It is no more than so many directories ahead, and goes further ahead of who opens what it took.
//! 3. While something is mounted or unmounted it rests: a mount of which a file is open is busy.

use super::list::{Entry, LISTED, MOST_FILES, is_unnoted, list};
use parking_lot::{Condvar, Mutex};
use pathwalk::{At, AtFlags, File, FileType, HostFs, OpenFlags, OpenHow, ResolveFlags, Task};
use std::{
    collections::VecDeque,
    mem::take,
    sync::Arc,
    thread::{self, available_parallelism},
};

/// It is so many directories ahead of who did not open any of them yet, and of anybody at most.
const FIRST: usize = 32;
/// It is woken for so many.
const WOKEN_FOR: usize = 8;
const MOST: usize = 256;
/// So many wait to be taken; of more the last are not.
const WAITING: usize = 4096;

/// What is asked about of all that is in a directory.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) kind: FileType,
    pub(super) flags: AtFlags,
    /// The directory of the host that it lies in.
    pub(super) host: Arc<HostFs>,
}

/// A directory that the program may open.
struct Place {
    dir: Arc<(File, Look)>,
    name: Box<[u8]>,
    ino: u64,
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
}

#[derive(Default)]
struct State {
    /// Where to go next, the first last.
    stack: Vec<Place>,
    /// What it took, and the program did not open since: by the numbers of the inodes, which need not be unlike.
    taken: VecDeque<u64>,
    ahead: usize,
    /// It asks; what it finds is gone for where this is not so any more.
    asks: Asks,
    /// It is to be woken.
    waits: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Asks {
    #[default]
    Nothing,
    /// About a directory, and those in it are to be gone to.
    All,
    /// About one of which nobody wants that any more.
    Alone,
}

impl Scout {
    /// The program opens a directory; whether the scout has gone to those in it.
    pub(super) fn opened(&self, ino: u64, kind: FileType) -> bool {
        let Known::Hired(shared) = &self.0 else { return false };
        shared.opened(ino, kind == FileType::Directory)
    }

    /// The program is about to open these directories, in this order.
    pub(super) fn go(
        &mut self,
        task: &Task,
        dir: &File,
        look: Look,
        names: impl DoubleEndedIterator<Item = (Box<[u8]>, u64)>,
    ) {
        if matches!(self.0, Known::Not) {
            self.0 = hire(task).map_or(Known::None, Known::Hired);
        }
        let Known::Hired(shared) = &self.0 else { return };
        let mut state = shared.state.lock();
        state.push(Arc::new((dir.clone(), look)), names);
        shared.wake(&mut state);
    }

    /// Goes nowhere that it was sent to, and has nothing open.
    pub(super) fn rests(&self) {
        let Known::Hired(shared) = &self.0 else { return };
        let mut state = shared.state.lock();
        let gone = take(&mut state.stack);
        state.taken.clear();
        while state.asks != Asks::Nothing {
            state.asks = Asks::Alone;
            shared.changed.wait(&mut state);
        }
        drop(state);
        drop(gone);
    }
}

impl State {
    /// How many more it may take.
    fn room(&self) -> usize {
        (FIRST + self.ahead).saturating_sub(self.taken.len())
    }

    fn push(
        &mut self,
        dir: Arc<(File, Look)>,
        names: impl DoubleEndedIterator<Item = (Box<[u8]>, u64)>,
    ) {
        let places = names.rev().map(|(name, ino)| Place { dir: Arc::clone(&dir), name, ino });
        self.stack.extend(places);
        let most = self.stack.len().saturating_sub(WAITING);
        self.stack.drain(..most);
    }
}

impl Shared {
    /// See [`Scout::opened`]. Who goes through all of a tree has passed what comes before.
    fn opened(&self, ino: u64, passed: bool) -> bool {
        let mut state = self.state.lock();
        if let Some(at) = state.taken.iter().position(|&taken| taken == ino) {
            state.taken.drain(if passed { 0 } else { at }..=at);
            state.ahead = (state.ahead + 2).min(MOST);
            self.wake(&mut state);
            return true;
        }
        if let Some(at) = state.stack.iter().rposition(|place| place.ino == ino) {
            let end = if passed { state.stack.len() } else { at + 1 };
            if passed {
                // All of them lay above it.
                state.taken.clear();
                self.wake(&mut state);
            }
            let gone: Vec<_> = state.stack.drain(at..end).collect();
            drop(state);
            drop(gone);
        }
        false
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
                match if state.room() > 0 { state.stack.pop() } else { None } {
                    Some(place) => break place,
                    None => {
                        state.waits = true;
                        self.changed.wait(&mut state);
                    }
                }
            };
            state.taken.push_back(place.ino);
            state.asks = Asks::All;
            drop(state);
            let found = look(task, &place, &mut listing);
            drop(place);
            state = self.state.lock();
            let asked = take(&mut state.asks);
            if asked == Asks::Alone {
                self.changed.notify_all();
            } else if let Some((dir, names)) = found {
                state.push(Arc::new(dir), names.into_iter());
            }
        }
    }
}

/// Asks about all in a directory; that directory, where others in it are to be gone to, and those. None where it is not there, or what is
/// done there would be noted.
fn look(
    task: &Task,
    place: &Place,
    listing: &mut [u8],
) -> Option<((File, Look), Vec<(Box<[u8]>, u64)>)> {
    let (above, look) = &*place.dir;
    let flags = OpenFlags::RDONLY | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW | OpenFlags::NOATIME;
    let how = OpenHow { flags: flags.bits(), mode: 0, resolve: ResolveFlags::NO_XDEV.bits() };
    let dir = task.openat2(above, &place.name, &how).ok()?;
    if !is_unnoted(dir.host_fd()?) {
        return None;
    }
    // What is found is about to be entered, and is watched then.
    let enters = look.kind == FileType::Directory;
    let watched = enters.then(|| look.host.watch_found());
    let (mut names, mut left) = (Vec::new(), MOST_FILES);
    let listed = list(task, &dir, listing, |Entry { name, kind, ino }| {
        if kind == look.kind {
            // What it answers is cached.
            let _ = task.fstatat(At::Dir(&dir), name, look.flags);
            if enters {
                names.push((name.into(), ino));
            }
        }
        left -= 1;
        left > 0
    });
    drop(watched);
    (listed.is_ok() && enters).then(|| ((dir, look.clone()), names))
}

/// Where one processor is all that there is, nobody goes ahead.
fn hire(task: &Task) -> Option<Arc<Shared>> {
    available_parallelism().ok().filter(|many| many.get() > 1)?;
    let (shared, task) = (Arc::new(Shared::default()), task.thread());
    let its = Arc::clone(&shared);
    thread::Builder::new().spawn(move || its.goes(&task)).ok()?;
    Some(shared)
}
