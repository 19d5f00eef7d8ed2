//! Watches of files in memory: heard of here, and told by what stands for them on the host (`shadow`).
//!
//! ```text
//!   a call that is answered ── the library's inotify: names, attributes, openings ──┐
//!   reads, writes, closes   ── the host's inotify on what the program has open ─────┴─► shadow ──► the program's inotify
//! ```
//!
//! Rules:
//!
//! 1. Of a call all is told before it is answered.
//! 2. What was done by descriptors before a call is told before the call: it is in the host's queue by then.
//! 3. An opening is told by the library, in its place among a call's events; a closing by the host alone, as what is open here is
//!    closed sooner or later than the program closes it.
//! 4. Where nobody watches, nothing is asked and nothing heard. That nobody does any more is looked for now and then.

use crate::{
    answer::watch::following,
    cookies::{Cookies, HostId, is_written, look_at_all, open_of},
    engine::{Base, Engine},
    kin,
    shadow::{By, CLOSE, InTree, Name, Shadows, Told},
    sys::{
        answer,
        process::{self, by_number},
    },
};
use pathwalk::{
    Errno, File, FileType, Inotify, InotifyFlags, InotifyMask, OpenFlags, Result, Task,
    abi::{dirent, inotify::events},
};
use rustc_hash::FxHashSet;
use rustix::{
    fs::{
        self,
        inotify::{self, CreateFlags, WatchFlags},
    },
    io,
};
use std::{
    collections::{HashMap, HashSet},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// What is heard of an open file in memory, of a directory, and of a fifo, which is opened when the other end is.
pub(crate) const CONTENTS: WatchFlags = WatchFlags::ACCESS.union(WatchFlags::MODIFY).union(CLOSING);
pub(crate) const CLOSING: WatchFlags = WatchFlags::CLOSE_WRITE.union(WatchFlags::CLOSE_NOWRITE);
pub(crate) const OPENING: WatchFlags = CONTENTS.union(WatchFlags::OPEN);

/// What is done with open files.
const BY_OPEN_FILES: InotifyMask = InotifyMask::ACCESS.union(InotifyMask::MODIFY).union(CLOSE);
/// What of that the library tells of what it does itself, and the host too.
const BY_BOTH: InotifyMask = InotifyMask::ACCESS.union(InotifyMask::MODIFY);
/// So many are kept without a look at who watches.
const ENOUGH: usize = 64;
/// After so many calls and events it is looked who watches, if that takes no more than this part of the time.
const TURNS: usize = 1024;
const PART: u32 = 50;
/// How long it is waited before it is looked again whether what is watched and has no name is gone.
const SOON: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(2);
/// So many bytes of a listing, and of events, are read at once.
const LISTED: usize = 64 << 10;
const EVENTS: usize = 4 << 10;
/// So many events are told one by one; of more that are there at once it is told once that a file was read, and once that it was
/// written, until something else happened to it.
const EACH: usize = 64;

/// By what two events are the same: their watch, what happened, and the name.
type Key = (i32, InotifyMask, Box<[u8]>);

/// All watches; none where nobody watches.
#[derive(Default)]
pub(crate) struct Watches(Option<Box<Heard>>);

/// What is heard.
struct Heard {
    /// The library's queue.
    library: Inotify,
    /// The host's.
    host: OwnedFd,
    /// Which file of the host a watch is on, and the reverse.
    ids: HashMap<i32, HostId>,
    wds: HashMap<HostId, (i32, WatchFlags)>,
    shadows: Shadows,
    /// What is to be told; and before that what was heard of those who are not known any more.
    told: Vec<Told>,
    earlier: Vec<Told>,
    /// The file that lost its last name by the call that is being answered.
    gone: Option<i32>,
    /// Fifos that are about to be opened.
    fifos: HashMap<HostId, Vec<Opening>>,
    turns: usize,
    /// How many shadows may be there before it is looked who watches; and when that was done, and how long it took.
    enough: usize,
    looked: Option<(Instant, Duration)>,
    /// When it is looked again whether what has no name is gone, and how long after that again.
    again: Option<(Instant, Duration)>,
}

/// An opening that may wait, and may fail.
#[derive(Clone, Default)]
pub(crate) struct Opening {
    writes: bool,
    failed: Arc<AtomicBool>,
}

impl Opening {
    /// It is not to be told.
    pub(crate) fn fails(&self) {
        self.failed.store(true, Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.failed.load(Relaxed)
    }
}

/// What begins with files that are open already.
#[derive(Clone, Copy)]
enum Begins {
    /// To be watched; openings and closings are told by this one.
    Watch(Option<i32>),
    /// A name that one of them came by.
    Name,
}

impl Watches {
    fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Ready when something was done by descriptors.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|heard| heard.host.as_fd())
    }

    /// How long may be waited until [`Engine::look_at_watches`].
    pub(crate) fn wait(&self) -> Option<Duration> {
        let (at, _) = self.0.as_ref()?.again?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// A file was opened for a call, or is about to be, and the program gets this descriptor: it is heard what is done by it, if
    /// anybody wants to know.
    pub(crate) fn opened(&mut self, fd: impl AsFd, writes: bool, what: WatchFlags) -> Opening {
        let opening = Opening { writes, ..Opening::default() };
        let Some(heard) = &mut self.0 else { return opening };
        let mut told = heard.heard_of_library(By { writes, unlinked: false });
        let waits = what.contains(WatchFlags::OPEN);
        let matters = if waits { BY_OPEN_FILES | InotifyMask::OPEN } else { BY_OPEN_FILES };
        let is_wanted = |told: &Told| {
            told.mask.contains(InotifyMask::OPEN)
                && heard.shadows.wanted(told.wd).intersects(matters)
        };
        if told.iter().any(is_wanted) {
            let fd = fd.as_fd();
            if let Ok(id) = HostId::of_fd(fd) {
                heard.listen(by_number(&fd), id, what);
                if waits {
                    told.retain(|told| !told.mask.contains(InotifyMask::OPEN));
                    heard.fifos.retain(|_, openings| {
                        openings.retain(Opening::goes_on);
                        !openings.is_empty()
                    });
                    heard.fifos.entry(id).or_default().push(opening.clone());
                }
            }
        }
        heard.told.append(&mut told);
        opening
    }

    /// Hears what was done by descriptors, to tell it later.
    pub(crate) fn hear(&mut self, cookies: &Cookies, task: &Task) {
        let Some(heard) = &mut self.0 else { return };
        let mut told = heard.told_by_host(cookies, task, &mut Vec::new());
        heard.earlier.append(&mut told);
    }

    /// Hears no more of what nobody has open: so many watches count as there are files that somebody has.
    pub(crate) fn forget_unused(&mut self, cookies: &Cookies) {
        if let Some(heard) = &mut self.0 {
            heard.forget(|id| cookies.get(id).is_none());
        }
    }
}

impl Heard {
    fn new(task: &Task, room: OwnedFd) -> Result<Self> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        Ok(Self {
            library: task.inotify_init1(InotifyFlags::NONBLOCK)?,
            host: answer(inotify::init(flags))?,
            ids: HashMap::new(),
            wds: HashMap::new(),
            shadows: Shadows::new(room),
            told: Vec::new(),
            earlier: Vec::new(),
            gone: None,
            fifos: HashMap::new(),
            turns: 0,
            enough: ENOUGH,
            looked: None,
            again: None,
        })
    }

    /// What the library told. That something was closed here says nothing of the program.
    fn heard_of_library(&mut self, by: By) -> Vec<Told> {
        let mut told = self.all_of_library(by);
        told.retain(|told| !told.mask.intersects(CLOSE));
        told
    }

    fn all_of_library(&mut self, by: By) -> Vec<Told> {
        let events = self.library.events();
        let told = |event: pathwalk::Event| (event.wd, event.mask, event.cookie, event.name);
        events
            .map(told)
            .map(|(wd, mask, cookie, name)| Told { wd, mask, cookie, name, by })
            .collect()
    }

    /// Who hears of what was done with an open file, and by which name.
    fn told_of(&mut self, file: &File, mask: InotifyMask, by: By) -> Vec<Told> {
        let mut before = self.heard_of_library(By::default());
        self.told.append(&mut before);
        file.notify(mask);
        self.all_of_library(by)
    }

    /// Hears of a file of the host from now on.
    fn listen(&mut self, path: impl rustix::path::Arg, id: HostId, what: WatchFlags) {
        if self.wds.get(&id).is_some_and(|(_, had)| had.contains(what)) {
            return;
        }
        // Without room for one more it is not told.
        if let Ok(wd) = inotify::add_watch(&self.host, path, what | WatchFlags::MASK_ADD) {
            self.ids.insert(wd, id);
            self.wds.insert(id, (wd, what));
        }
    }

    /// Hears no more of these files; of what was done before nothing is told.
    fn forget(&mut self, these: impl Fn(HostId) -> bool) {
        for (id, (wd, _)) in self.wds.extract_if(|&id, _| these(id)) {
            self.ids.remove(&wd);
            self.fifos.remove(&id);
            // It may be gone already.
            let _ = inotify::remove_watch(&self.host, wd);
        }
    }

    /// What was done by descriptors until now.
    fn heard_of_host(&mut self) -> Vec<(HostId, InotifyMask)> {
        let mut heard = Vec::new();
        let mut done = HashMap::new();
        let mut buf = [0; EVENTS];
        let mut left = io::ioctl_fionread(&self.host).unwrap_or(0);
        while left > 0
            && let Ok(read) = io::read(&self.host, &mut buf)
        {
            left = left.saturating_sub(read as u64);
            for event in events(&buf[..read]) {
                if event.mask.contains(InotifyMask::IGNORED) {
                    if let Some(id) = self.ids.remove(&event.wd) {
                        self.wds.remove(&id);
                    }
                } else if let Some(&id) = self.ids.get(&event.wd)
                    && is_news(&mut done, id, event.mask, heard.len())
                {
                    heard.push((id, event.mask));
                }
            }
        }
        heard
    }

    /// What is to be told of that, but for what was told already.
    fn told_by_host(&mut self, cookies: &Cookies, task: &Task, twice: &mut Vec<Key>) -> Vec<Told> {
        let mut told = Vec::new();
        for (id, mask) in self.heard_of_host() {
            let Some(known) = cookies.get(id) else { continue };
            let unlinked = task.fstat(&known.file).is_ok_and(|stat| stat.st_nlink == 0);
            let mut more = Vec::new();
            for writes in self.openings(id, mask) {
                more.append(&mut self.told_of(&known.file, mask, By { writes, unlinked }));
            }
            // Who watches a directory does not hear what goes through the pipes in it.
            let by_name = !(self.is_pipe(id) && mask.intersects(BY_BOTH));
            more.retain(|told| {
                let key =
                    |(wd, mask, name): &Key| (*wd, *mask, name) == (told.wd, told.mask, &told.name);
                let first = twice.iter().position(key).map(|at| twice.swap_remove(at)).is_none();
                first && (by_name || told.name.is_empty())
            });
            told.append(&mut more);
        }
        told
    }

    /// How often an event of the host's is to be told, and of what: two openings of a fifo are one event.
    fn openings(&mut self, id: HostId, mask: InotifyMask) -> Vec<bool> {
        let opened = mask.contains(InotifyMask::OPEN).then(|| self.fifos.remove(&id));
        let opened = opened.flatten().unwrap_or_default();
        let writes: Vec<_> =
            opened.iter().filter(|one| one.goes_on()).map(|one| one.writes).collect();
        if writes.is_empty() { vec![false] } else { writes }
    }

    fn is_pipe(&self, id: HostId) -> bool {
        self.wds.get(&id).is_some_and(|(_, what)| what.contains(WatchFlags::OPEN))
    }

    /// Whose shadows some process watches; none where it cannot be told.
    fn watched(&self) -> Option<HashSet<i32>> {
        let by_number: HashMap<_, _> = self.shadows.ids().map(|(wd, id)| (id, wd)).collect();
        let mut watched = HashSet::new();
        let all = look_at_all(|process| {
            each_inotify(process, |_, info| {
                watched.extend(watches_in(info)?.filter_map(|(_, id)| by_number.get(&id)));
                Ok(())
            })
        });
        (all == Ok(true)).then_some(watched)
    }

    /// Has no process watch a shadow any more, whose file went with its file system.
    fn end(&self, wd: i32) {
        let Some((_, gone)) = self.shadows.ids().find(|(of, _)| *of == wd) else { return };
        // Who is not found hears nothing more either.
        let _ = look_at_all(|process| {
            each_inotify(process, |fd, info| {
                for (number, _) in watches_in(info)?.filter(|(_, id)| *id == gone) {
                    let _ = remove_watch(process, fd, number);
                }
                Ok(())
            })
        });
    }
}

impl Engine {
    /// Watches a file in memory by the caller's inotify; `place` is what the path leads to.
    ///
    /// # Errors
    ///
    /// - those of the library's inotify_add_watch(2).
    /// - `ENOSPC`: the host has no room for one more, or for what stands for it.
    pub(crate) fn watch_in_memory(
        &mut self,
        queue: &OwnedFd,
        (base, path): (&Base, &[u8]),
        place: &File,
        mask: InotifyMask,
    ) -> Result<i32> {
        self.look_who_watches();
        if self.watches.is_idle() {
            let heard = Heard::new(&self.task, self.cookies.room()?).map_err(|_| Errno::ENOSPC)?;
            self.watches.0 = Some(Box::new(heard));
        }
        let watched = self.watch_by_library(queue, (base, path), place, mask);
        self.rest();
        watched
    }

    fn watch_by_library(
        &mut self,
        queue: &OwnedFd,
        at: (&Base, &[u8]),
        place: &File,
        mask: InotifyMask,
    ) -> Result<i32> {
        let Some(heard) = &mut self.watches.0 else { return Err(Errno::ENOSPC) };
        let how = mask & (InotifyMask::ONLYDIR | InotifyMask::DONT_FOLLOW);
        let all = InotifyMask::ALL_EVENTS | how;
        let wd = self.task.inotify_add_watchat(&heard.library, at.0.at(), at.1, all)?;
        let is_new = !heard.shadows.has(wd);
        let watched = self.watch_shadow(queue, at, place, wd, mask);
        if watched.is_err() && is_new {
            self.unwatch(wd);
        }
        watched
    }

    /// With the last watch goes all that is heard.
    fn rest(&mut self) {
        if self.watches.0.as_ref().is_some_and(|heard| heard.shadows.len() == 0) {
            self.watches.0 = None;
        }
    }

    fn watch_shadow(
        &mut self,
        queue: &OwnedFd,
        (base, path): (&Base, &[u8]),
        place: &File,
        wd: i32,
        mask: InotifyMask,
    ) -> Result<i32> {
        let Some(heard) = &mut self.watches.0 else { return Err(Errno::ENOSPC) };
        let before = heard.shadows.wanted(wd);
        let listens = (mask - before).intersects(BY_OPEN_FILES);
        let is_new = !heard.shadows.has(wd);
        if is_new || listens {
            let of = in_tree(&self.task, place)?.0;
            let mut names = Vec::new();
            if of.directory {
                names = list(&self.task, base, path)?;
                // Nobody is told of this listing.
                drop(heard.all_of_library(By::default()));
            }
            if is_new {
                heard.shadows.make(wd, of, &names).map_err(|_| Errno::ENOSPC)?;
            }
            if listens {
                let opens = |wanted: InotifyMask| {
                    wanted.contains(InotifyMask::OPEN) && wanted.intersects(CLOSE)
                };
                let begins = opens(before | mask) && !opens(before);
                let numbers = names.iter().map(|name| name.ino).chain([of.ino]);
                let ids = numbers.flat_map(|ino| self.cookies.with_number(ino)).collect();
                self.listen_to_open(ids, Begins::Watch(begins.then_some(wd)));
            }
        }
        let Some(heard) = &mut self.watches.0 else { return Err(Errno::ENOSPC) };
        let shadow = heard.shadows.place(wd, b"").ok_or(Errno::ENOSPC)?;
        let number = answer(inotify::add_watch(queue, by_number(&shadow), following(mask)))?;
        heard.shadows.is_wanted(wd, mask);
        Ok(number)
    }

    /// Hears of those files that the program has open and somebody wants to know of. They are opened where one begins to watch who is told
    /// of openings and closings, or where they come by a name.
    fn listen_to_open(&mut self, ids: Vec<HostId>, begins: Begins) {
        let Self { watches: Watches(Some(heard)), cookies, task, .. } = self else { return };
        let mut wanted = HashMap::new();
        for id in ids {
            let Some(known) = cookies.get(id).filter(|known| !known.path) else { continue };
            let told = heard.told_of(&known.file, InotifyMask::OPEN, By::default());
            if !told.is_empty() {
                wanted.insert(id, (told, heard_of(task, &known.file)));
            }
        }
        if wanted.is_empty() {
            return;
        }
        // Of what cannot be looked at nothing is heard.
        let _ = look_at_all(|process| {
            for thread in kin::threads_with_files(process)? {
                for fd in open_of(process, thread)? {
                    let Ok(stat) = fs::stat(&fd) else { continue };
                    let id = HostId::of(&stat);
                    let Some(&(ref told, what)) = wanted.get(&id) else { continue };
                    heard.listen(&fd, id, what);
                    let by = By { writes: is_written(&info_of(&fd))?, unlinked: false };
                    match begins {
                        Begins::Watch(wd) => {
                            for told in told.iter().filter(|told| Some(told.wd) == wd) {
                                heard.shadows.open_before(told.wd, &told.name, by);
                            }
                        }
                        Begins::Name => heard.shadows.comes_open(by),
                    }
                }
            }
            Ok(())
        });
    }

    /// A file got a name where it may be watched; it may be open.
    pub(crate) fn came_by_name(&mut self, number: Option<u64>) {
        if let Some(number) = number.filter(|_| !self.watches.is_idle()) {
            self.listen_to_open(self.cookies.with_number(number), Begins::Name);
        }
    }

    /// So did one in exchange for it.
    pub(crate) fn came_back(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.listen_to_open(self.cookies.with_number(number), Begins::Watch(None));
        }
    }

    /// The number of a file, if it matters to somebody who watches.
    pub(crate) fn number_if_watched(&self, base: &Base, path: &[u8]) -> Option<u64> {
        if self.watches.is_idle() {
            return None;
        }
        let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
        self.task.openat(base.at(), path, flags, 0).ok().map(|file| file.ino())
    }

    /// The watch of a file that is about to lose its last name, if it has one; then nothing that nobody uses keeps the file. `moved` is
    /// what comes in its place.
    pub(crate) fn about_to_go(
        &mut self,
        base: &Base,
        path: &[u8],
        moved: Option<u64>,
    ) -> Option<i32> {
        let heard = self.watches.0.as_ref()?;
        let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
        let (of, links) = {
            let place = self.task.openat(base.at(), path, flags, 0).ok()?;
            in_tree(&self.task, &place).ok()?
        };
        let wd = heard.shadows.watch_of(of)?;
        if Some(of.ino) == moved || !of.directory && links > 1 {
            return None;
        }
        // A directory is also kept by what was in it.
        if of.directory || !self.cookies.with_number(of.ino).is_empty() {
            self.forget_unused();
        }
        Some(wd)
    }

    /// It has lost it.
    pub(crate) fn is_gone(&mut self, wd: Option<i32>) {
        if let (Some(heard), Some(wd)) = (&mut self.watches.0, wd) {
            heard.shadows.loses_name(wd);
            heard.gone = Some(wd);
            heard.again = Some((Instant::now() + SOON, SOON));
        }
    }

    /// What was moved left a whiteout.
    pub(crate) fn left_whiteout(&mut self) {
        if let Some(heard) = &mut self.watches.0 {
            heard.shadows.leaves_whiteout();
        }
    }

    /// Tells what was done by descriptors.
    pub(crate) fn tell_of_contents(&mut self) {
        if self.watches.is_idle() {
            return;
        }
        self.tell(false);
        self.look_at_watches();
    }

    /// Tells what a call did that was just answered.
    pub(crate) fn tell_of_call(&mut self) {
        if !self.watches.is_idle() {
            self.tell(true);
        }
    }

    fn tell(&mut self, of_call: bool) {
        let Self { watches: Watches(Some(heard)), cookies, task, .. } = self else { return };
        let mut own = heard.heard_of_library(By::default());
        heard.told.append(&mut own);
        let mut of_library = std::mem::take(&mut heard.told);
        // What the library did to contents itself the host tells too.
        let mut twice: Vec<_> = of_library
            .iter()
            .filter(|told| of_call && told.mask.intersects(BY_BOTH))
            .map(|told| (told.wd, told.mask, told.name.clone()))
            .collect();
        let mut told = std::mem::take(&mut heard.earlier);
        told.append(&mut of_library);
        told.append(&mut heard.told_by_host(cookies, task, &mut twice));
        heard.turns += 1 + told.len();
        // What has no name may have been closed the last time.
        let closed =
            |told: &Told| told.mask.intersects(CLOSE) && heard.shadows.is_nameless(told.wd);
        if told.iter().any(closed) {
            heard.again = Some((Instant::now(), SOON));
        }
        heard.repeat(&told);
        heard.shadows.call_is_over(heard.gone.take());
        self.rest();
    }

    /// Looks whether what is watched and has no name is gone, and who watches, where it is time.
    pub(crate) fn look_at_watches(&mut self) {
        let Some(heard) = &mut self.watches.0 else { return };
        if let Some((at, after)) = heard.again
            && Instant::now() >= at
        {
            heard.again = None;
            if heard.shadows.has_nameless() {
                let after = (2 * after).min(LATE);
                heard.again = Some((Instant::now() + after, after));
                self.forget_unused();
                self.tell(false);
            }
        }
        self.look_who_watches();
    }

    /// Removes what nobody watches any more, where there was much to tell or there is much of it.
    fn look_who_watches(&mut self) {
        let Some(heard) = &mut self.watches.0 else { return };
        let part = |(at, took): (Instant, Duration)| at.elapsed() < PART * took;
        let due = heard.turns >= TURNS && !heard.looked.is_some_and(part);
        if !due && heard.shadows.len() < heard.enough {
            return;
        }
        let since = Instant::now();
        if let Some(watched) = heard.watched() {
            let all: Vec<_> = heard.shadows.ids().map(|(wd, _)| wd).collect();
            for wd in all.into_iter().filter(|wd| !watched.contains(wd)) {
                self.unwatch(wd);
            }
        }
        if let Some(heard) = &mut self.watches.0 {
            heard.turns = 0;
            heard.enough = (2 * heard.shadows.len()).max(ENOUGH);
            heard.looked = Some((since, since.elapsed()));
        }
        self.rest();
    }

    /// Removes what stands for a file that nobody watches.
    fn unwatch(&mut self, wd: i32) {
        let Some(heard) = &mut self.watches.0 else { return };
        // It may be gone already.
        let _ = self.task.inotify_rm_watch(&heard.library, wd);
        heard.shadows.remove(wd);
    }
}

impl Heard {
    /// Repeats events. An unmount cannot be: who watched is told that the watch is gone.
    fn repeat(&mut self, told: &[Told]) {
        let unmounted = |told: &Told| told.mask.contains(InotifyMask::UNMOUNT);
        for told in told.chunk_by(|one, other| unmounted(one) == unmounted(other)) {
            if !told.first().is_some_and(unmounted) {
                self.shadows.repeat(told);
                continue;
            }
            for told in told {
                self.end(told.wd);
                self.shadows.remove(told.wd);
            }
        }
    }
}

/// Whether an event of the host's is told that comes after so many others; `done` is how a file was read and written since something
/// else happened to it.
fn is_news(
    done: &mut HashMap<HostId, InotifyMask>,
    id: HostId,
    mask: InotifyMask,
    others: usize,
) -> bool {
    let contents = mask & BY_BOTH;
    if contents.is_empty() {
        done.remove(&id);
        return true;
    }
    let done = done.entry(id).or_insert(InotifyMask::empty());
    let is_new = !done.contains(contents);
    *done |= contents;
    is_new || others < EACH
}

/// What is heard of an open file.
fn heard_of(task: &Task, file: &File) -> WatchFlags {
    match task.fstat(file).ok().and_then(|stat| FileType::from_mode(stat.st_mode)) {
        Some(FileType::Directory) => CLOSING,
        Some(FileType::Fifo) => OPENING,
        _ => CONTENTS,
    }
}

/// A file as it is known in the tree, and how many names it has.
fn in_tree(task: &Task, place: &File) -> Result<(InTree, u64)> {
    let stat = task.fstat(place)?;
    let directory = FileType::from_mode(stat.st_mode) == Some(FileType::Directory);
    Ok((InTree { dev: stat.st_dev, ino: stat.st_ino, directory }, stat.st_nlink))
}

/// The names in a directory.
fn list(task: &Task, base: &Base, path: &[u8]) -> Result<Vec<Name>> {
    let flags = OpenFlags::RDONLY | OpenFlags::DIRECTORY;
    let dir = task.openat(base.at(), path, flags, 0)?;
    let mut names = Vec::new();
    let mut buf = vec![0; LISTED];
    loop {
        let len = task.getdents64(&dir, &mut buf)?;
        let mut rest = &buf[..len];
        if rest.is_empty() {
            return Ok(names);
        }
        while rest.len() > dirent::D_NAME {
            let len = [rest[dirent::D_RECLEN], rest[dirent::D_RECLEN + 1]];
            let (entry, others) = rest.split_at(u16::from_ne_bytes(len).into());
            let name = entry[dirent::D_NAME..].split(|&byte| byte == 0).next().unwrap_or_default();
            if name != b"." && name != b".." {
                let mut ino = [0; 8];
                ino.copy_from_slice(&entry[dirent::D_INO..dirent::D_INO + 8]);
                let directory = entry[dirent::D_TYPE] == dirent::DT_DIR;
                names.push(Name { name: name.into(), ino: u64::from_ne_bytes(ino), directory });
            }
            rest = others;
        }
    }
}

/// The numbers of the files that some process watches; none where it cannot be told.
pub(crate) fn numbers_watched() -> Option<FxHashSet<u64>> {
    let mut numbers = FxHashSet::default();
    let all = look_at_all(|process| {
        each_inotify(process, |_, info| {
            numbers.extend(watches_in(info)?.map(|(_, id)| id.ino()));
            Ok(())
        })
    });
    (all == Ok(true)).then_some(numbers)
}

/// Looks at each inotify of a process, and what is known of it.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at; and those of the look.
fn each_inotify(process: u32, mut look: impl FnMut(&Path, &Path) -> Result<()>) -> Result<()> {
    for thread in kin::threads_of(process)? {
        for fd in open_of(process, thread)? {
            let link = fs::readlink(&fd, Vec::new());
            if link.is_ok_and(|link| link.as_bytes() == b"anon_inode:inotify") {
                look(&fd, &info_of(&fd))?;
            }
        }
    }
    Ok(())
}

/// What is known of a descriptor, which is a file beside it.
pub(crate) fn info_of(fd: &Path) -> PathBuf {
    let number = fd.file_name().unwrap_or_default();
    fd.parent().unwrap_or(fd).with_file_name("fdinfo").join(number)
}

/// The watches of an inotify, by their numbers, and what they are on.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
fn watches_in(info: &Path) -> Result<impl Iterator<Item = (i32, HostId)>> {
    let text = String::from_utf8(kin::read(info)?.unwrap_or_default()).unwrap_or_default();
    let watches: Vec<_> = text.lines().filter_map(watch_of_line).collect();
    Ok(watches.into_iter())
}

/// `inotify wd:1a ino:2a sdev:fe00000 mask:...`
fn watch_of_line(line: &str) -> Option<(i32, HostId)> {
    let words = line.strip_prefix("inotify ")?.split_ascii_whitespace();
    let words: HashMap<_, _> = words.filter_map(|word| word.split_once(':')).collect();
    let hex = |name| u64::from_str_radix(words.get(name)?, 16).ok();
    let (number, ino, dev) = (hex("wd")? as i32, hex("ino")?, hex("sdev")? as u32);
    // The kernel's own form: twelve bits and twenty.
    let dev = fs::makedev(dev >> 20, dev & 0xf_ffff);
    Some((number, HostId::new(dev, ino)))
}

/// Takes a watch from an inotify of a process.
fn remove_watch(pid: u32, fd: &Path, number: i32) -> Result<()> {
    let fd = fd.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
    let fd = fd.ok_or(Errno::ESRCH)?;
    let pidfd = process::thread(pid)?;
    let queue = process::descriptor(&pidfd, fd)?;
    answer(inotify::remove_watch(&queue, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn of_much_that_is_done_to_one_file_little_is_told() {
        let (one, other) = (HostId::new(1, 1), HostId::new(1, 2));
        let (read, write) = (InotifyMask::ACCESS, InotifyMask::MODIFY);
        let mut done = HashMap::new();
        let mut news = |id, mask, others| is_news(&mut done, id, mask, others);
        assert!(news(one, write, 0) && news(other, write, 1) && news(one, write, EACH - 1));
        assert!(!news(one, write, EACH) && !news(other, write, EACH));
        assert!(news(one, read, EACH) && !news(one, read, EACH) && !news(one, write, EACH));
        assert!(news(one, InotifyMask::CLOSE_WRITE, EACH));
        assert!(news(one, write, EACH) && !news(one, write, EACH) && !news(other, write, EACH));
    }

    #[test]
    fn what_an_inotify_watches_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let queue = inotify::init(CreateFlags::CLOEXEC).expect("one more");
        let watch = |number: i32| {
            let path = dir.path().join(number.to_string());
            std::fs::create_dir(&path).expect("it is new");
            let watch = inotify::add_watch(&queue, &path, WatchFlags::CREATE).expect("a watch");
            (watch, HostId::of(&fs::stat(&path).expect("it is there")))
        };
        let mut watches: Vec<_> = (0..40).map(watch).collect();
        let mut found = Vec::new();
        let looked = each_inotify(std::process::id(), |fd, info| {
            if fd.ends_with(queue.as_raw_fd().to_string()) {
                found.extend(watches_in(info)?);
            }
            Ok(())
        });
        assert_eq!(looked, Ok(()));
        found.sort_by_key(|&(number, _)| number);
        found.dedup();
        watches.sort_by_key(|&(number, _)| number);
        assert_eq!(found, watches);
    }
}
