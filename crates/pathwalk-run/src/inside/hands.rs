//! Descriptors that a process takes by itself.
//!
//! ```text
//!   openat ──► the supervisor opens it ──► a socket, whose other end the process has under the number TAKES
//!      the answer: that something lies there, by which number ──► image: recvmsg ──► the descriptor
//! ```
//!
//! To give a thread a descriptor (`SECCOMP_IOCTL_NOTIF_ADDFD`) wakes it so that it takes that, and once more for the answer; and to keep it
//! on this CPU meanwhile takes four calls more. Who takes it by himself is woken once. Behind that may lie what it is expected to open
//! next (`ready`), which it takes without asking.
//!
//! Rules:
//!
//! 1. A socket is one thread's, whose process had no other when it got it. What is handed to others is given as before: who comes of it has
//!    the socket too, as it has all descriptors, and no answer that says that something lies there.
//! 2. Of descriptors that were asked for one lies there at most, that of the last answer. Where it lies there still, as a signal's handler
//!    runs before it was taken, the next is given as before. What lies there that nobody asked for is taken back before another one is put there; where a
//!    thread asks for the first of it, that is the one that was asked for, and where it goes up by `..`, all stays, and that is given as before.
//! 3. What lies there is in no list of anybody's descriptors: who looks what is in use asks [`InFlight`] before the lists.
//! 4. Who is about to have a filter, by which he might not receive it, is given what lies there that he asked for, before that.
//! 5. Handed is only what can be opened again, as nothing is made by it, nor cut off, nor written. Who finds nothing where something was to
//!    lie, or something else, says so, gets none any more, and makes his call again.

use super::{
    Inside, MOST_COUNTED,
    alone::Alone,
    beside::Row,
    laid::OwnKey,
    ready::{Expected, Follows},
    socket::{Asked, Put, Socket},
};
use crate::{
    cookies::{HostId, of_thread},
    engine::{Cloexec, Engine},
    kin,
    sys::seccomp::{Listener, Notification},
    unseen::Unseen,
};
use parking_lot::Mutex;
use pathwalk::{OpenFlags, abi::AT_FDCWD};
use pathwalk_inside::{GIVEN, GIVEN_MOST, MARK, OPEN, OPENAT, Table, given, take_by};
use rustc_hash::{FxHashMap, FxHashSet};
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

/// So many descriptors a thread gets before it takes them by itself: who runs a program next opens fewer. One of a program that is known to take
/// some gets none before.
const FIRST: u32 = 4;
/// So many threads have a socket.
const MOST: usize = 256;
/// So many descriptors lie in all of them that nobody asked for: the kernel counts how many are on their way for a user, and lets nobody of
/// his send more than he may have open.
const MOST_READY: usize = 128;

/// The sockets of threads, for who looks what is in use: what lies there is in no list.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<FxHashMap<u32, Socket>>>);

impl InFlight {
    /// What is on its way to a thread now.
    pub(crate) fn ids(&self) -> FxHashSet<HostId> {
        self.0.lock().values().flat_map(Socket::ids).collect()
    }
}

/// The threads that take descriptors by themselves, or may later.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) follows: Follows,
    sockets: InFlight,
    /// How many descriptors threads got.
    got: FxHashMap<u32, Got>,
    /// Their sockets, which are not shown.
    unseen: Unseen,
    /// How many descriptors were handed, and how many of them were not there.
    handed: u64,
    missed: u64,
    /// The number of the last message.
    number: u32,
    /// How many descriptors lay ready, and how many of them are known to have been taken.
    ready: u64,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Got {
    times: u32,
    /// At so many it gets a socket.
    next: u32,
    /// What it runs.
    program: Option<HostId>,
}

/// What a thread opens that takes descriptors by itself.
pub(super) enum Opens {
    /// What lies ready first, by the number of its message: something happened elsewhere, so that it asks.
    First(u32),
    Other(Other),
}

/// What is known of a thread that opens something else.
pub(super) struct Other {
    /// What it runs.
    pub(super) program: HostId,
    /// The number of its socket.
    pub(super) ino: u64,
    /// So much may lie ready for it.
    pub(super) most: usize,
    pub(super) row: Option<Row>,
    /// The first that lay ready and that it did not take.
    pub(super) left: Option<OwnKey>,
}

impl Hands {
    pub(super) fn new(sockets: InFlight, unseen: Unseen) -> Self {
        Self { sockets, unseen, ..Self::default() }
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, table: &mut Table, tid: u32) {
        let socket = self.sockets.0.lock().remove(&tid);
        if let Some(mut socket) = socket {
            self.used += socket.settle(table);
            socket.ends(table);
        }
        self.got.remove(&tid);
    }

    /// None of these threads takes anything until it is asked whether it may.
    pub(super) fn forget(&mut self, table: &mut Table, which: impl Fn(u32) -> bool) {
        let mut sockets = self.sockets.0.lock();
        for (tid, mut socket) in sockets.extract_if(|&tid, _| which(tid)) {
            self.used += socket.settle(table);
            socket.take_back(table);
            self.got.remove(&tid);
        }
    }

    /// Gives these threads, whose process may receive nothing any more, what they asked for, by a call that one of them waits in. Says what is
    /// to be written into its memory, and where.
    pub(super) fn give(
        &mut self,
        table: &mut Table,
        (listener, id): (&Listener, u64),
        which: impl Fn(u32) -> bool,
    ) -> Vec<(u64, [u8; 8])> {
        let mut sockets = self.sockets.0.lock();
        let asked = sockets.iter_mut().filter(|(tid, _)| which(**tid));
        let asked: Vec<_> = asked.filter_map(|(_, socket)| socket.take_asked_for(table)).collect();
        let places = asked.into_iter().zip(0_u64..GIVEN_MOST as u64);
        let words = places.map(|(Asked { fd, number, cloexec }, index)| {
            let got = listener.add_fd(id, fd.as_fd(), cloexec == Cloexec::Yes, false);
            let result = got.unwrap_or_else(|errno| -i64::from(errno.raw()));
            let at = GIVEN + 16 * index;
            [(at, result.cast_unsigned().to_ne_bytes()), (at + 8, given(number).to_ne_bytes())]
        });
        // By the number it is found: so that comes behind the rest.
        let (results, numbers): (Vec<_>, Vec<_>) =
            words.map(|[result, number]| (result, number)).unzip();
        [results, numbers].concat()
    }

    /// Takes back what lies there, of all threads.
    pub(super) fn take_back(&mut self, table: &mut Table) {
        for socket in self.sockets.0.lock().values_mut() {
            self.used += socket.settle(table);
            socket.take_back(table);
        }
    }

    /// Forgets threads that ended, of whom something lies there; or all, where there are many.
    fn forget_ended(&mut self, table: &mut Table) {
        let mut sockets = self.sockets.0.lock();
        let many = sockets.len() >= MOST;
        sockets.retain(|&tid, socket| {
            self.used += socket.settle(table);
            let ended = (many || !socket.is_empty()) && kin::is_ending(tid);
            if ended {
                socket.ends(table);
            }
            !ended
        });
    }

    /// How many descriptors were handed, and how many of them were not there.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.handed, self.missed]
    }

    /// How many descriptors lay ready, and how many of them are known to have been taken: not the last ones that a process took.
    pub(super) fn ready(&mut self, table: &mut Table) -> [u64; 2] {
        for socket in self.sockets.0.lock().values_mut() {
            self.used += socket.settle(table);
        }
        [self.ready, self.used]
    }

    /// A thread opens this; what is known of it, if it takes descriptors by itself.
    pub(super) fn opens(
        &mut self,
        table: &mut Table,
        tid: u32,
        key: &OwnKey,
        opened: impl FnOnce() -> Option<HostId>,
    ) -> Option<Opens> {
        let is_first = {
            let mut sockets = self.sockets.0.lock();
            let socket = sockets.get_mut(&tid)?;
            self.used += socket.settle(table);
            socket.first_ready() == Some(key)
        };
        // The host is asked while nothing is locked.
        let opened = if is_first { opened() } else { None };
        let mut sockets = self.sockets.0.lock();
        let socket = sockets.get_mut(&tid)?;
        // Nothing can be put there.
        if socket.has_asked_for() {
            return None;
        }
        if let Some(number) = socket.first_is(table, key, opened) {
            return Some(Opens::First(number));
        }
        let (program, ino) = (socket.program?, socket.ino);
        if let Some(last) = socket.last.replace(key.path()) {
            self.follows.note((program, ino), last, key);
        }
        let (row, left) = (socket.row.take(), socket.first_ready().cloned());
        Some(Opens::Other(Other { program, ino, most: socket.most, row, left }))
    }

    /// A thread asked for what lies ready first, and takes it as such a one.
    fn asks_for(&mut self, table: &mut Table, tid: u32, (number, cloexec): (u32, Cloexec)) -> bool {
        let mut sockets = self.sockets.0.lock();
        let asks =
            sockets.get_mut(&tid).is_some_and(|socket| socket.asks_for(table, number, cloexec));
        self.handed += u64::from(asks);
        self.used += u64::from(asks);
        asks
    }

    /// Whether something lies there for a thread, and it asked for none of it.
    fn has_ready(&mut self, table: &mut Table, tid: u32) -> bool {
        let mut sockets = self.sockets.0.lock();
        sockets.get_mut(&tid).is_some_and(|socket| {
            self.used += socket.settle(table);
            socket.ready() > 0 && !socket.has_asked_for()
        })
    }

    /// Where a thread is among directories.
    pub(super) fn is_at(&mut self, tid: u32, row: Option<Row>) {
        if let Some(socket) = self.sockets.0.lock().get_mut(&tid) {
            socket.row = row;
        }
    }

    /// Puts what a thread is expected to open behind what it asked for.
    fn put_ready(&mut self, table: &mut Table, tid: u32, expected: Vec<Expected>) {
        let mut sockets = self.sockets.0.lock();
        if expected.is_empty() {
            return;
        }
        self.used += make_room(&mut sockets, table, expected.len(), tid);
        let room = MOST_READY.saturating_sub(sockets.values().map(Socket::ready).sum());
        let Some(socket) = sockets.get_mut(&tid) else { return };
        for expected in expected.into_iter().take(room) {
            self.number = self.number.wrapping_add(1);
            if !socket.put_ready(table, expected, self.number) {
                return;
            }
            self.ready += 1;
        }
    }

    /// Puts a descriptor where a thread takes it, which gets a socket if it is time for that: by which number.
    fn put(
        &mut self,
        (listener, table, alone): (&Listener, &mut Table, &mut Alone),
        call: &Notification,
        given: (BorrowedFd<'_>, Cloexec),
    ) -> Option<u32> {
        if !self.sockets.0.lock().contains_key(&call.tid) {
            self.new_socket((listener, table, alone), call)?;
        }
        let mut sockets = self.sockets.0.lock();
        let socket = sockets.get_mut(&call.tid)?;
        self.used += socket.settle(table);
        self.number = self.number.wrapping_add(1);
        match socket.put(table, given, self.number) {
            Put::Lies => {
                self.handed += 1;
                Some(self.number)
            }
            Put::Full => None,
            Put::Left => {
                drop(sockets);
                self.end(table, call.tid);
                None
            }
        }
    }

    /// Gives a thread a socket, if it is time for that.
    fn new_socket(
        &mut self,
        (listener, table, alone): (&Listener, &mut Table, &mut Alone),
        call: &Notification,
    ) -> Option<()> {
        let got = got(&mut self.got, &self.follows, call.tid);
        if got.times < got.next {
            return None;
        }
        got.times = 0;
        let program = got.program;
        self.forget_ended(table);
        let mut sockets = self.sockets.0.lock();
        let room = sockets.len() < MOST;
        let new = || Socket::new(listener, (call, program), &self.unseen, alone).ok();
        let new = room.then(new).flatten();
        if let (None, Some(got)) = (&new, self.got.get_mut(&call.tid)) {
            got.next = got.next.saturating_mul(2);
        }
        sockets.insert(call.tid, new?);
        Some(())
    }

    /// A thread takes nothing more, until it got twice as many as it got before that.
    fn end(&mut self, table: &mut Table, tid: u32) {
        let socket = self.sockets.0.lock().remove(&tid);
        socket.into_iter().for_each(|mut socket| socket.take_back(table));
        if let Some(got) = self.got.get_mut(&tid) {
            (got.times, got.next) = (0, got.next.saturating_mul(2));
        }
    }
}

/// Counts a descriptor for a thread without a socket.
fn got<'a>(all: &'a mut FxHashMap<u32, Got>, follows: &Follows, tid: u32) -> &'a mut Got {
    if all.len() >= MOST_COUNTED {
        all.clear();
    }
    let got = all.entry(tid).or_insert_with(|| {
        let program = of_thread(tid, "exe").ok();
        let takes = program.is_some_and(|program| follows.knows(program));
        Got { times: 0, next: if takes { 1 } else { FIRST }, program }
    });
    got.times = got.times.saturating_add(1);
    got
}

/// Makes room for so many more for a thread: of those that are not about to take what lies ready, it is taken back of the one for which it
/// lies longest first. Says how many were seen to have been taken.
fn make_room(
    sockets: &mut FxHashMap<u32, Socket>,
    table: &mut Table,
    more: usize,
    own: u32,
) -> u64 {
    let is_room = |sockets: &FxHashMap<u32, Socket>| {
        sockets.values().map(Socket::ready).sum::<usize>() + more <= MOST_READY
    };
    if is_room(sockets) {
        return 0;
    }
    let used = sockets.values_mut().map(|socket| socket.settle(table)).sum();
    let quiet = |(tid, socket): &(&u32, &Socket)| **tid != own && socket.is_quiet();
    let mut others: Vec<_> = sockets.iter().filter(quiet).collect();
    others.sort_unstable_by_key(|(_, socket)| socket.laid());
    let others: Vec<_> = others.into_iter().map(|(&tid, _)| tid).collect();
    for tid in others {
        if is_room(sockets) {
            break;
        }
        if let Some(socket) = sockets.get_mut(&tid) {
            socket.take_back(table);
        }
    }
    used
}

/// Whether a call opens what it can open again, by its flags.
pub(super) fn can_be_made_again(call: &Notification) -> bool {
    let flags = match call.nr {
        OPEN => call.args[1],
        OPENAT => call.args[2],
        _ => return false,
    };
    let flags = OpenFlags::from_bits_retain(u64::from(flags as u32));
    let makes = OpenFlags::CREAT | OpenFlags::TRUNC;
    flags & OpenFlags::ACCMODE == OpenFlags::RDONLY
        && !flags.intersects(makes)
        && !flags.contains(OpenFlags::TMPFILE)
}

impl Engine {
    /// Hands a thread a descriptor that it takes by itself: what it is answered then.
    pub(crate) fn hand(
        &mut self,
        call: &Notification,
        fd: BorrowedFd<'_>,
        cloexec: Cloexec,
    ) -> Option<i64> {
        let inside = self.inside.as_mut()?;
        if !Inside::is_in(call) || !can_be_made_again(call) {
            return None;
        }
        let expected = std::mem::take(&mut inside.expected);
        let first = inside.first.take();
        let Inside { hands, table, alone, .. } = inside;
        // What lies there is taken behind that.
        if inside.aside && hands.has_ready(table, call.tid) {
            return None;
        }
        if let Some(number) = first
            && hands.asks_for(table, call.tid, (number, cloexec))
        {
            return Some(take_by(number, call.nr, cloexec == Cloexec::Yes));
        }
        let number = hands.put((&self.listener, table, alone), call, (fd, cloexec))?;
        hands.put_ready(table, call.tid, expected);
        Some(take_by(number, call.nr, cloexec == Cloexec::Yes))
    }

    /// Whether a call says that what was handed was not there. Then the thread makes its call again, and is given what it opens.
    pub(crate) fn misses(&mut self, call: &Notification) -> bool {
        let nothing = [AT_FDCWD as i64 as u64, 0, 0, 0, MARK];
        let says = call.nr == OPENAT && call.args[..5] == nothing && Inside::is_in(call);
        let Some(inside) = self.inside.as_mut().filter(|_| says) else { return false };
        inside.hands.end(&mut inside.table, call.tid);
        inside.hands.missed += 1;
        true
    }

    /// How many descriptors were handed, and how many of them were not there.
    pub(crate) fn handed(&self) -> Option<[u64; 2]> {
        self.inside.as_ref().map(|inside| inside.hands.counts())
    }

    /// How many descriptors lay ready before they were asked for, and how many of them are known to have been taken.
    pub(crate) fn ready(&mut self) -> Option<[u64; 2]> {
        self.inside.as_mut().map(|Inside { hands, table, .. }| hands.ready(table))
    }
}
