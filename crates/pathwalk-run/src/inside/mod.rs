//! Answers that a program's process finds by itself.
//!
//! ```text
//!   a process makes many calls ──► enter: the image and the table are mapped there, and its calls lead there first
//!   a call is answered ──► laid: what was answered is laid into the table, if it stays so
//!     the second file of a directory ──► ahead: what would be answered of the others, too
//!       and of extended attributes that were asked about besides ──► told: that the others have none
//!       a directory was opened for that ──► lister: what is in the next one is laid down when it is opened
//!       a program goes through a tree ──► scout: what it asks next is asked by a thread that goes ahead of it
//!   a file is opened ──► hands: the process takes the descriptor by itself
//!     it is known what is opened next ──► ready, beside: that lies there before it is asked for
//!   a directory is opened ──► directory: it is given as the host has it, and listed in the process
//!   something changes ──► the count of that part of the tree: what hangs on it holds no more
//! ```
//!
//! Rules:
//!
//! 1. What is laid down was answered by the library, to the same call, or to the same one about a file beside it. In the process nothing is
//!    decided.
//! 2. It is laid down where the answer came of what is cached and believed alone: while it was found no file of the host was asked
//!    about, but such as are believed from then on. So it stays as it is until the host tells of something, or something is changed in the tree.
//! 3. What the host tells lies in a queue, before the call returns that it tells of. Who finds an answer that hangs on the host asks
//!    whether the queue is empty. Before it is emptied here, the counts move.
//! 4. What is changed in memory is changed by calls that are answered here: before they are answered the count of memory moves.
//! 5. While somebody watches what is in memory, nothing is found: before each call that is answered is told what was done by descriptors.
//! 6. Attributes are laid down of what the host tells of: not of what is in memory, where a file is written without anybody hearing
//!    of it, and not of what the program itself may have read or written by a descriptor.
//!
//! Nothing of this is done where processes of the program are told apart by credentials that the kernel does not know: all of them
//! may read the whole table.

mod enter;

mod alone;

mod ahead;

mod beside;

mod directory;

mod hands;

mod laid;

mod leave;

mod list;

mod lister;

mod ready;

mod scout;

pub(crate) mod sites;

mod socket;

mod told;

use crate::{
    cookies::{HostId, of_thread},
    engine::{Caller, Engine},
    procfs,
    sys::{answer, memory, seccomp::Notification},
    table::{Call, Group},
    unseen::Unseen,
};
use ahead::Ahead;
use alone::Alone;
use beside::Children;
use directory::Goers;
use hands::Hands;
pub(crate) use hands::InFlight;
use laid::LaidOf;
use lister::Listers;
use pathwalk::{At, AtFlags, Errno, HostFs, Keeper, OpenFlags, Result, StatxMask, Task};
use pathwalk_inside::{
    BASE, CALLS, Counts, IMAGE_BYTES, NEWS, NO_CALL, NO_NEWS, OFF, OWN, PARTS, TABLE_BYTES, Table,
};
use ready::Expected;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::{
    event::{EventfdFlags, Timespec, epoll, eventfd},
    fs::{Mode, OFlags, open},
};
use scout::Scout;
use sites::Sites;
use std::{
    cell::Cell,
    ops::Range,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use told::Askers;

/// All that is in memory.
const MEMORY: usize = 0;
/// What descriptors stand for.
const KNOWN: usize = 1;
/// The first directory of the host.
const FIRST_HOST: usize = 2;
/// Calls from the same piece of memory, of that size, are taken for one library's, and those from so close by on both sides of a border.
const LIBRARY_BITS: u32 = 21;
const CLOSE_BY: u64 = 1 << 18;
/// So many threads are counted, and so many programs kept in mind.
const MOST_COUNTED: usize = 1 << 10;
/// Of so many files it is known that the program has had them open.
const MOST_TOUCHED: usize = 1 << 16;

/// A part of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// In memory.
    Memory,
    /// A directory of the host that tells what others do, by its count; whether the program may write there; whether owners and modes
    /// are the host's; and the number of its root.
    Host { count: usize, writable: bool, plain: bool, root: u64 },
    /// A directory of the host that tells nothing, where owners and modes are the host's.
    Untold,
}

/// What is laid down, and for whom.
pub(crate) struct Inside {
    table: Table,
    counts: Counts,
    /// Ready where the host tells of something, and always by one more event.
    news: OwnedFd,
    _no_news: OwnedFd,
    /// Ready where the host tells of something, or something was mounted there: it is asked here.
    heard: OwnedFd,
    _mounted: OwnedFd,
    hosts: Vec<Arc<HostFs>>,
    /// Who is told by the one that is mounted next.
    told: Option<Arc<Told>>,
    /// By the number of the mount.
    parts: FxHashMap<u64, Part>,
    /// Devices that only the kernel has files on.
    strangers: [u64; 2],
    /// How many calls a thread makes before its process finds answers by itself.
    after: u32,
    /// How many it made from some place, roughly.
    calls: FxHashMap<(u32, u64), Counted>,
    /// Programs of which a process made so many: others of the same find answers from the first call on.
    callers: FxHashSet<HostId>,
    /// What processes run, as far as it was seen.
    programs: FxHashMap<u32, HostId>,
    sites: Sites,
    alone: Alone,
    /// Inode numbers of files that the program has had open; none where they are too many to be known.
    touched: Option<FxHashSet<u64>>,
    /// The attributes of writable files that were laid down, by their inode numbers.
    laid: FxHashMap<u64, LaidOf>,
    /// None where nothing is looked at that was not asked about.
    ahead: Option<Ahead>,
    goers: Goers,
    askers: Askers,
    listers: Listers,
    scout: Scout,
    hands: Hands,
    /// What the thread whose call is being answered is expected to open next.
    expected: Vec<Expected>,
    /// What it opens now leaves what lies in its socket there.
    aside: bool,
    /// The number of what lies ready first, if that is what it opens.
    first: Option<u32>,
    /// The directories in the one that was given last, where they are known.
    children: Option<Children>,
    /// How often what descriptors stand for was forgotten.
    forgotten: u64,
}

/// What is known of a thread's calls from a place.
#[derive(Debug)]
struct Counted {
    calls: u32,
    /// From where the first came.
    at: u64,
    /// What the thread's process runs.
    program: Option<HostId>,
    /// Before so many it is not tried again.
    next: u32,
    /// The library whose calls are found by the process already.
    entered: Range<u64>,
}

/// Who is told by a directory of the host.
#[derive(Debug)]
struct Told {
    counts: Counts,
    count: usize,
    /// It is asked for news with all others.
    asks: AtomicBool,
}

thread_local! {
    /// This thread asked for news, and is to be answered by what was so then.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

impl Keeper for Told {
    fn news(&self) {
        self.counts.count(self.count);
    }

    fn has_asked(&self) -> bool {
        self.asks.load(Relaxed) && ASKED.get()
    }
}

/// What was so before a call was answered.
pub(crate) struct Before {
    questions: u64,
    /// Of the parts that there are.
    counts: [u64; PARTS],
}

impl Inside {
    /// For programs that make more calls than that.
    ///
    /// # Errors
    ///
    /// Those of making memory that can be sealed and executed, and of `EMFILE`.
    pub(crate) fn new(after: u32, in_flight: InFlight, unseen: Unseen) -> Result<Self> {
        let table = answer(Table::new())?;
        let counts = table.counts();
        let news = answer(epoll::create(epoll::CreateFlags::CLOEXEC))?;
        let no_news = answer(eventfd(1, EventfdFlags::CLOEXEC))?;
        let data = epoll::EventData::new_u64(NO_NEWS);
        answer(epoll::add(&news, &no_news, data, epoll::EventFlags::IN))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounted = answer(open("/proc/self/mountinfo", flags, Mode::empty()))?;
        let heard = answer(epoll::create(epoll::CreateFlags::CLOEXEC))?;
        let data = epoll::EventData::new_u64(0);
        answer(epoll::add(&heard, &mounted, data, epoll::EventFlags::PRI))?;
        Ok(Self {
            table,
            counts,
            news,
            _no_news: no_news,
            heard,
            _mounted: mounted,
            hosts: Vec::new(),
            told: None,
            parts: FxHashMap::default(),
            strangers: laid::strangers(),
            after,
            calls: FxHashMap::default(),
            callers: FxHashSet::default(),
            programs: FxHashMap::default(),
            sites: Sites::default(),
            alone: Alone::default(),
            touched: Some(FxHashSet::default()),
            laid: FxHashMap::default(),
            ahead: Some(Ahead::default()),
            goers: Goers::default(),
            askers: Askers::default(),
            listers: Listers::default(),
            scout: Scout::default(),
            hands: Hands::new(in_flight, unseen),
            expected: Vec::new(),
            aside: false,
            first: None,
            children: None,
            forgotten: 0,
        })
    }

    /// Who is told by a directory of the host that is to be mounted next what others did.
    pub(crate) fn keeper(&mut self) -> Option<Arc<dyn Keeper>> {
        let (counts, count) = (self.counts.clone(), FIRST_HOST + self.hosts.len());
        let asks = AtomicBool::new(false);
        let told = (count < PARTS).then(|| Arc::new(Told { counts, count, asks }));
        self.told.clone_from(&told);
        told.map(|told| told as _)
    }

    /// Something in memory was mounted.
    pub(crate) fn mounted_memory(&mut self, task: &Task, at: &[u8]) {
        self.mounted(task, at, |_| Part::Memory);
    }

    /// A directory of the host was mounted, which tells the [`keeper`](Self::keeper).
    pub(crate) fn mounted_host(
        &mut self,
        task: &Task,
        at: &[u8],
        fs: Arc<HostFs>,
        (writable, plain): (bool, bool),
    ) {
        let (Some(news), Some(told)) = (fs.news(), self.told.take()) else { return };
        let add = |to: &OwnedFd| {
            epoll::add(to, news, epoll::EventData::new_u64(0), epoll::EventFlags::IN).is_ok()
        };
        if !(add(&self.heard) && add(&self.news)) {
            return;
        }
        told.asks.store(true, Relaxed);
        let count = FIRST_HOST + self.hosts.len();
        self.mounted(task, at, |root| Part::Host { count, writable, plain, root });
        self.hosts.push(fs);
    }

    /// Another directory of the host was mounted, where owners and modes are the host's.
    pub(crate) fn mounted_untold(&mut self, task: &Task, at: &[u8]) {
        self.mounted(task, at, |_| Part::Untold);
    }

    fn mounted(&mut self, task: &Task, at: &[u8], part: impl FnOnce(u64) -> Part) {
        let stat = task.statx(At::Cwd, at, AtFlags::empty(), StatxMask::MNT_ID | StatxMask::INO);
        if let Ok(stat) = stat {
            self.parts.insert(stat.stx_mnt_id, part(stat.stx_ino));
        }
    }

    /// The directory of the host that a part is, and its count.
    fn host_of(&self, part: Part) -> Option<(Arc<HostFs>, usize)> {
        let Part::Host { count, .. } = part else { return None };
        Some((self.hosts.get(count - FIRST_HOST).map(Arc::clone)?, count))
    }

    /// A call is to be answered. What others did is noted first.
    fn before(&self) -> Before {
        // What is heard of now nobody asked for before.
        self.after();
        let mut ready = [const { std::mem::MaybeUninit::uninit() }; 1];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let quiet = epoll::wait(&self.heard, &mut ready[..], Some(&at_once))
            .is_ok_and(|(ready, _)| ready.is_empty());
        if !quiet {
            self.hosts.iter().for_each(|host| host.hear());
        }
        ASKED.set(true);
        self.now()
    }

    /// Does this as one call does it: what happens meanwhile is heard of later.
    pub(crate) fn as_one<R>(
        inside: Option<&mut Self>,
        does: impl FnOnce(Option<&mut Self>) -> R,
    ) -> R {
        ASKED.set(inside.is_some());
        let done = does(inside);
        ASKED.set(false);
        done
    }

    /// What is so now, as far as it was noted.
    pub(crate) fn now(&self) -> Before {
        let mut counts = [0; PARTS];
        let used = counts.iter_mut().take(FIRST_HOST + self.hosts.len()).enumerate();
        used.for_each(|(part, count)| *count = self.counts.get(part));
        Before { questions: HostFs::questions(), counts }
    }

    /// Whether nothing was changed since in these parts of the tree, as far as it was noted.
    pub(crate) fn are_of_now(&self, parts: &[(usize, u64)]) -> bool {
        parts.iter().all(|&(part, count)| self.counts.get(part) == count)
    }

    /// It was answered.
    fn after(&self) {
        ASKED.set(false);
    }

    /// Whether a thread's process has the image.
    fn is_in(call: &Notification) -> bool {
        (BASE..BASE + IMAGE_BYTES as u64).contains(&call.behind)
    }

    /// Where a call is counted: a border may go through a library, between what asks and what opens.
    fn place_of(&self, call: &Notification) -> (u32, u64) {
        let piece = call.behind >> LIBRARY_BITS;
        let places = [piece, piece.wrapping_sub(1), piece + 1].map(|piece| (call.tid, piece));
        let is_close = |place: &(u32, u64)| {
            let counted = self.calls.get(place);
            counted.is_some_and(|counted| counted.at.abs_diff(call.behind) < CLOSE_BY)
        };
        places.into_iter().find(is_close).unwrap_or(places[0])
    }

    /// Counts a call; whether the process is to find answers by itself from here on.
    fn is_time(&mut self, call: &Notification) -> bool {
        if !CALLS.contains(&call.nr) || Self::is_in(call) {
            return false;
        }
        if self.calls.len() >= MOST_COUNTED {
            self.calls.clear();
        }
        let (program, tid) = (self.programs.get(&call.tid).copied(), call.tid);
        let counted = self.calls.entry(self.place_of(call));
        let counted = counted.or_insert_with(|| Counted {
            calls: 0,
            at: call.behind,
            program: program.or_else(|| of_thread(tid, "exe").ok()),
            next: 1,
            entered: 0..0,
        });
        if counted.entered.contains(&call.behind) {
            return false;
        }
        counted.calls += 1;
        let program = counted.program.filter(|_| counted.calls >= self.after);
        if let Some(program) = program.filter(|program| !self.callers.contains(program)) {
            if self.callers.len() >= MOST_COUNTED {
                self.callers.clear();
            }
            self.callers.insert(program);
        }
        let known = counted.program.is_some_and(|program| self.callers.contains(&program));
        let is_due = (known || counted.calls >= self.after) && counted.calls >= counted.next;
        if is_due {
            counted.next = counted.calls.saturating_mul(2);
        }
        is_due
    }

    /// The process of a call finds the answers of this library's calls from here on; another library may lie close by.
    fn has_entered(&mut self, call: &Notification, library: Range<u64>) {
        if let Some(counted) = self.calls.get_mut(&self.place_of(call)) {
            (counted.calls, counted.next, counted.entered) = (0, 1, library);
        }
    }

    /// A thread runs another program, as this process.
    fn runs_another(&mut self, tid: u32) {
        self.alone.runs_another(tid);
        self.programs.remove(&tid);
        self.calls.retain(|(other, _), _| *other != tid);
        self.goers.runs_another(tid);
        self.askers.runs_another(tid);
        self.listers.runs_another(tid);
        self.hands.runs_another(&mut self.table, tid);
    }

    /// Whether no process or thread was made since this one ran a program.
    pub(crate) fn was_last(&mut self, process: u32) -> bool {
        self.alone.was_last(process)
    }

    /// The number of the process or thread that was made last.
    pub(crate) fn made_last(&self) -> Option<u32> {
        self.alone.made_last()
    }

    /// The number of the process or thread that was made last when somebody ran a program the last time.
    pub(crate) fn last(&self) -> Option<u32> {
        self.alone.last()
    }

    /// A process runs this.
    pub(crate) fn runs(&mut self, process: u32, program: HostId) {
        if self.programs.len() >= MOST_COUNTED {
            self.programs.clear();
        }
        self.programs.insert(process, program);
    }

    /// How many directories were looked at ahead, and in how many of them the program looked then.
    pub(crate) fn ahead(&self) -> Option<[u64; 2]> {
        self.scout.sums()
    }

    /// Closes what is open for what may be asked next.
    pub(crate) fn lets_go(&mut self) {
        self.scout.stops();
        self.ahead.iter_mut().for_each(Ahead::lets_go);
    }

    /// A file was opened: what it is read and written by, nobody hears of.
    pub(crate) fn opened(&mut self, ino: u64) {
        let Some(touched) = &mut self.touched else { return };
        if !touched.insert(ino) {
            return;
        }
        if touched.len() > MOST_TOUCHED {
            self.touched = None;
            self.take_attributes_away();
            return;
        }
        if let Some(laid) = self.laid.remove(&ino) {
            laid.take_away(&mut self.table);
        }
    }

    /// Takes away the attributes of all writable files.
    fn take_attributes_away(&mut self) {
        self.laid.drain().for_each(|(_, laid)| laid.take_away(&mut self.table));
    }

    /// So often something was forgotten for which a file of the host stood, or another place put in its stead.
    fn forgotten(&mut self, times: u64) {
        if std::mem::replace(&mut self.forgotten, times) != times {
            self.counts.count(KNOWN);
        }
    }
}

/// Those of extended attributes that change one; the last two are `setxattrat` and `removexattrat`.
const SETTING_XATTRS: [i64; 8] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463,
    466,
];

/// Where a call changes something, or may, of which the host does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changes {
    Nothing,
    Memory,
    /// On the host too: that a file has one more name is told of that name's directory alone, and of when it was last read nobody
    /// is told.
    All,
}

fn changes(call: &Call, caller: &Caller) -> Changes {
    let making = |flags: u32| {
        let flags = OpenFlags::from_bits_retain(flags.into());
        let makes = flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC);
        let makes = makes || flags.contains(OpenFlags::TMPFILE);
        if makes { Changes::Memory } else { Changes::Nothing }
    };
    match (call.group, i64::from(call.nr)) {
        (Group::Open, libc::SYS_open) => making(caller.word(1)),
        (Group::Open, libc::SYS_openat) => making(caller.word(2)),
        (Group::Sockets, libc::SYS_bind) | (Group::Open | Group::Handles, _) => Changes::Memory,
        (Group::Names, libc::SYS_link | libc::SYS_linkat) => Changes::All,
        (Group::Names, _) => Changes::Memory,
        (Group::Xattrs, nr) if !SETTING_XATTRS.contains(&nr) => Changes::Nothing,
        (Group::Attributes | Group::Xattrs | Group::Mounts | Group::Others, _) => Changes::All,
        (
            Group::Stat
            | Group::Directories
            | Group::Descriptors
            | Group::Exec
            | Group::Watches
            | Group::Sockets
            | Group::Tasks
            | Group::Ids
            | Group::Kernel,
            _,
        ) => Changes::Nothing,
    }
}

impl Engine {
    /// Before a call is answered: see [`Inside::before`].
    pub(crate) fn before(&mut self, call: &Call) -> Option<Before> {
        let inside = self.inside.as_mut()?;
        // Who watches the host would be told of what is looked at for him.
        if call.group == Group::Watches {
            inside.ahead = None;
            inside.scout.rests();
            inside.hands.take_back(&mut inside.table);
        }
        Some(inside.before())
    }

    /// What is asked from here on is none of a call's.
    pub(crate) fn after(&self) {
        self.inside.as_ref().into_iter().for_each(Inside::after);
    }

    /// After it was answered, and before the thread hears of that.
    pub(crate) fn changed(&mut self, call: &Call, caller: &Caller) {
        let Some(inside) = &mut self.inside else { return };
        inside.forgotten(self.cookies.forgotten());
        // What is done by descriptors in memory is told of before the next call is answered: so none is found.
        inside.table.close(self.watches.fd().is_some());
        let changes = changes(call, caller);
        if changes != Changes::Nothing {
            inside.counts.count(MEMORY);
        }
        if changes == Changes::All {
            for part in inside.parts.values() {
                if let Part::Host { count, writable: true, .. } = part {
                    inside.counts.count(*count);
                }
            }
        }
    }

    /// Whether the process of a call finds answers by itself now, and makes the call again.
    pub(crate) fn enters(&mut self, caller: &Caller, call: &Notification) -> bool {
        self.inside.as_mut().is_some_and(|inside| inside.is_time(call)) && self.enter(caller, call)
    }

    /// A thread, or with `all` each of its process, is about to have a filter of its own, which knows nothing of the calls by which answers
    /// are found: its process finds none from here on, nor do those that come of it.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: it may not be changed, or somebody else has changed what is there, or another thread was about to find an answer and does
    ///   not come to an end: it would be killed for what it does not make itself.
    pub(crate) fn finds_no_more(&mut self, caller: &Caller, all: bool) -> Result<()> {
        let tid = caller.tid;
        let Some(inside) = &mut self.inside else { return Ok(()) };
        inside.alone.is_filtered();
        let put_off = put_off(tid, all);
        // Who takes a descriptor just now is done with it, or was interrupted by a handler that it waits for.
        let is_one_of_it = |other| other == tid || procfs::are_one_process(tid, other);
        // Where that could not be written, the filter is not set, and what lies there may be received.
        let gets = |other| put_off.is_ok() && is_one_of_it(other);
        let given = inside.hands.give(&mut inside.table, (&self.listener, caller.id), gets);
        let pieces: Vec<(u64, &[u8])> = given.iter().map(|(at, words)| (*at, &words[..])).collect();
        // Who has no image any more finds nothing there, and makes its call again.
        if !pieces.is_empty() {
            let _ = memory::write_code(tid, &pieces);
        }
        inside.hands.forget(&mut inside.table, is_one_of_it);
        put_off
    }

    /// A thread runs another program, as this process: what it called before is none of that one's.
    pub(crate) fn counts_anew(&mut self, tid: u32) {
        self.inside.iter_mut().for_each(|inside| inside.runs_another(tid));
    }

    /// A file was opened that the host has.
    pub(crate) fn touched(&mut self, id: HostId) {
        if let Some(inside) = &mut self.inside {
            inside.opened(id.ino());
        }
    }
}

/// Has a thread's process find nothing any more; with `all`, no other thread of it is about to then.
///
/// # Errors
///
/// - `ENOMEM`: see [`Engine::finds_no_more`].
fn put_off(tid: u32, all: bool) -> Result<()> {
    let areas = match sites::areas(tid) {
        // Who is gone finds none either.
        Err(Errno::ESRCH) => return Ok(()),
        areas => areas.map_err(|_| Errno::ENOMEM)?,
    };
    match sites::place(&areas) {
        sites::Place::Taken => {
            memory::write_code(tid, &[(BASE, &OFF), (OWN, &NO_CALL)]).map_err(|_| Errno::ENOMEM)?;
            let process = procfs::process_of_thread(tid).unwrap_or(tid);
            let out = !all || leave::have_all_left(tid, process);
            if out { Ok(()) } else { Err(Errno::ENOMEM) }
        }
        sites::Place::Lost if sites::library(&areas, BASE).is_some() => Err(Errno::ENOMEM),
        sites::Place::Lost | sites::Place::Free => Ok(()),
    }
}

/// The number of the descriptor that tells of news, and that of the socket by which descriptors are taken.
pub(crate) const NUMBERS: [u32; 2] = [NUMBER, pathwalk_inside::TAKES.cast_unsigned()];
/// The first of them.
pub(crate) const NUMBER: u32 = NEWS.cast_unsigned();

/// Whether what processes have to find answers by themselves is at this address, but for the stubs.
pub(crate) fn has(address: u64) -> bool {
    let bytes = (IMAGE_BYTES + TABLE_BYTES) as u64;
    (BASE..BASE + bytes).contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that lies on both sides of a border is one, and what lies further away another.
    #[test]
    fn calls_are_counted_by_library() {
        let border = 0x7f12_3460_0000;
        let due = |places: &[u64], times: usize| {
            let (in_flight, unseen) = (InFlight::default(), Unseen::default());
            let mut inside = Inside::new(8, in_flight, unseen).expect("there is memory");
            (1..=times).find(|time| {
                let behind = places[time % places.len()];
                let call = Notification {
                    id: 1,
                    tid: std::process::id(),
                    nr: pathwalk_inside::STAT,
                    args: [0; 6],
                    behind,
                };
                inside.is_time(&call)
            })
        };
        assert_eq!(due(&[border + 100], 20), Some(8));
        assert_eq!(due(&[border - 0x3000, border + 0x4000], 20), Some(8));
        assert_eq!(due(&[border - 0x10_0000, border + 0x4000], 14), None);
    }
}
