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
//!    runs before it was taken, the next is given as before. What lies there that nobody asked for is taken back before another one is put there.
//! 3. What lies there is in no list of anybody's descriptors: who looks what is in use asks [`InFlight`] before the lists.
//! 4. Handed is only what can be opened again, as nothing is made by it, nor cut off, nor written. Who finds nothing where something was to
//!    lie, or finds another socket there, says so, gets none any more, and makes his call again.

use super::{
    Inside, MOST_COUNTED,
    alone::Alone,
    beside::Row,
    laid::OwnKey,
    ready::{Expected, Follows},
};
use crate::{
    cookies::{HostId, of_thread},
    engine::{Cloexec, Engine},
    kin,
    sys::{
        answer, process,
        seccomp::{Listener, Notification},
        socket,
    },
    unseen::Unseen,
};
use parking_lot::Mutex;
use pathwalk::{OpenFlags, Result, abi::AT_FDCWD};
use pathwalk_inside::{Answer, Key, MARK, OPEN, OPENAT, TAKES, Table, ready_for, take_by};
use rustix::{
    fs,
    io::{self, IoSlice},
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown,
        SocketFlags, SocketType, recv, sendmsg, shutdown, socketpair,
    },
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// So many descriptors a thread gets before it takes them by itself: who runs a program next opens fewer.
const FIRST: u32 = 4;
/// So many threads have a socket.
const MOST: usize = 256;
/// So many lie ready for a thread at first, twice as many whenever it took all, up to this, and half as many when it did not.
const FIRST_READY: usize = 4;
const MOST_AT_ONCE: usize = 16;
/// So many descriptors lie in all of them that nobody asked for: the kernel counts how many are on their way for a user, and lets nobody of
/// his send more than he may have open.
const MOST_READY: usize = 128;

/// The sockets of threads, for who looks what is in use: what lies there is in no list.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<u32, Socket>>>);

impl InFlight {
    /// What is on its way to a thread now. What arrives from here on is in the thread's list.
    pub(crate) fn ids(&self) -> HashSet<HostId> {
        let mut sockets = self.0.lock();
        sockets.retain(|&tid, _| !kin::is_ending(tid));
        sockets
            .values()
            .flat_map(|socket| socket.lie.iter().skip(socket.taken().unwrap_or(usize::MAX)))
            .map(|lies| lies.id)
            .collect()
    }
}

/// The threads that take descriptors by themselves, or may later.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) follows: Follows,
    sockets: InFlight,
    /// How many descriptors threads got.
    got: HashMap<u32, Got>,
    /// Their sockets, which are not shown.
    unseen: Unseen,
    /// How many descriptors were handed, and how many of them were not there.
    handed: u64,
    missed: u64,
    /// The number of the last message, and how often something was laid ready.
    number: u32,
    turn: u64,
    /// How many descriptors lay ready, and how many of them are known to have been taken.
    ready: u64,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Got {
    times: u32,
    /// At so many it gets a socket.
    next: u32,
}

/// The end that descriptors are put into, the number of the other one, and what was put there and is not known to have been taken, the
/// oldest first. The other end is the thread's alone: so what lies there ends with it.
#[derive(Debug)]
struct Socket {
    own: OwnedFd,
    ino: u64,
    lie: VecDeque<Lies>,
    /// How much one that lies there takes of the kernel's memory.
    each: u32,
    /// When something was laid ready there last, and how much may be.
    turn: u64,
    most: usize,
    program: Option<HostId>,
    /// What the thread opened last.
    last: Option<Box<[u8]>>,
    /// Where it is among directories beside each other.
    row: Option<Row>,
}

/// What is known of a thread that opens something.
pub(super) struct Opens {
    /// What it runs.
    pub(super) program: HostId,
    /// So much may lie ready for it.
    pub(super) most: usize,
    pub(super) row: Option<Row>,
    /// What lay ready it took.
    pub(super) took: bool,
}

/// A descriptor that lies in a socket.
#[derive(Debug)]
struct Lies {
    id: HostId,
    /// By what it is found that nobody asked for.
    ready: Option<OwnKey>,
}

impl Hands {
    pub(super) fn new(sockets: InFlight, unseen: Unseen) -> Self {
        Self { sockets, unseen, ..Self::default() }
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, table: &mut Table, tid: u32) {
        let socket = self.sockets.0.lock().remove(&tid);
        if let Some(mut socket) = socket {
            self.used += socket.settle(table, tid);
            socket.forget(table, tid);
        }
        self.got.remove(&tid);
    }

    /// Nobody takes anything until he is asked whether he may.
    pub(super) fn forget(&mut self, table: &mut Table) {
        self.take_back(table);
        self.sockets.0.lock().clear();
        self.got.clear();
    }

    /// Takes back what lies ready, of all threads.
    pub(super) fn take_back(&mut self, table: &mut Table) {
        for (&tid, socket) in &mut *self.sockets.0.lock() {
            self.used += socket.settle(table, tid);
            socket.take_back(table, tid);
        }
    }

    /// How many descriptors were handed, and how many of them were not there.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.handed, self.missed]
    }

    /// How many descriptors lay ready, and how many of them are known to have been taken: not the last ones that a process took.
    pub(super) fn ready(&mut self, table: &mut Table) -> [u64; 2] {
        for (&tid, socket) in &mut *self.sockets.0.lock() {
            self.used += socket.settle(table, tid);
        }
        [self.ready, self.used]
    }

    /// A thread opens this; what is known of it, if it takes descriptors by itself.
    pub(super) fn opens(&mut self, table: &mut Table, tid: u32, key: &OwnKey) -> Option<Opens> {
        let mut sockets = self.sockets.0.lock();
        let socket = sockets.get_mut(&tid)?;
        self.used += socket.settle(table, tid);
        let program = socket.program?;
        if let Some(last) = socket.last.replace(key.path()) {
            self.follows.note(program, last, key);
        }
        let (row, took) = (socket.row.take(), socket.lie.is_empty());
        Some(Opens { program, most: socket.most, row, took })
    }

    /// Where a thread is among directories beside each other.
    pub(super) fn is_at(&mut self, tid: u32, row: Option<Row>) {
        if let Some(socket) = self.sockets.0.lock().get_mut(&tid) {
            socket.row = row;
        }
    }

    /// Puts what a thread is expected to open behind what it asked for.
    fn put_ready(&mut self, table: &mut Table, tid: u32, expected: Vec<Expected>) {
        let mut sockets = self.sockets.0.lock();
        if expected.is_empty() || !make_room(&mut sockets, table, expected.len(), tid) {
            return;
        }
        let Some(socket) = sockets.get_mut(&tid) else { return };
        self.turn += 1;
        socket.turn = self.turn;
        for Expected { key, file, id, parts } in expected {
            let Some(fd) = file.host_fd() else { return };
            self.number = self.number.wrapping_add(1);
            if socket.send(fd, self.number).is_err() {
                return;
            }
            let answer = Answer { result: self.number.into(), written: b"", parts: &parts };
            table.put(&found_ready(&key, socket.ino, tid), &answer);
            socket.lie.push_back(Lies { id, ready: Some(key) });
            self.ready += 1;
        }
    }

    /// Puts a descriptor where a thread takes it, which gets a socket if it is time for that: by which number.
    fn put(
        &mut self,
        (listener, table, alone): (&Listener, &mut Table, &mut Alone),
        call: &Notification,
        fd: BorrowedFd<'_>,
    ) -> Option<u32> {
        let mut sockets = self.sockets.0.lock();
        if !sockets.contains_key(&call.tid) {
            let got = got(&mut self.got, call.tid);
            if got.times < got.next {
                return None;
            }
            if sockets.len() >= MOST {
                sockets.retain(|&tid, _| !kin::is_ending(tid));
            }
            let room = sockets.len() < MOST;
            let new = room.then(|| new_socket(listener, call, &self.unseen, alone).ok()).flatten();
            got.times = 0;
            let Some(new) = new else {
                got.next = got.next.saturating_mul(2);
                return None;
            };
            sockets.insert(call.tid, new);
        }
        let socket = sockets.get_mut(&call.tid)?;
        self.number = self.number.wrapping_add(1);
        match socket.put(table, call.tid, (fd, self.number)) {
            Ok(()) => {
                self.handed += 1;
                Some(self.number)
            }
            Err(io::Errno::AGAIN) => None,
            Err(_) => {
                drop(sockets);
                self.end(table, call.tid);
                None
            }
        }
    }

    /// A thread takes nothing more, until it got twice as many as it got before that.
    fn end(&mut self, table: &mut Table, tid: u32) {
        let socket = self.sockets.0.lock().remove(&tid);
        socket.into_iter().for_each(|mut socket| socket.forget(table, tid));
        if let Some(got) = self.got.get_mut(&tid) {
            (got.times, got.next) = (0, got.next.saturating_mul(2));
        }
    }
}

/// Counts a descriptor for a thread without a socket.
fn got(all: &mut HashMap<u32, Got>, tid: u32) -> &mut Got {
    if all.len() >= MOST_COUNTED {
        all.clear();
    }
    let got = all.entry(tid).or_insert(Got { times: 0, next: FIRST });
    got.times = got.times.saturating_add(1);
    got
}

/// Gives a thread an end of a new socket.
///
/// # Errors
///
/// - `EBADF`: it may have no descriptor of that number; or it has given the number to something else, or is not alone.
/// - `EMFILE`, `ENFILE`: no descriptor is left.
fn new_socket(
    listener: &Listener,
    call: &Notification,
    unseen: &Unseen,
    alone: &mut Alone,
) -> Result<Socket> {
    let number = TAKES.cast_unsigned();
    // Who has calls looked at by a filter of its own would be asked about one that it does not make itself.
    if !(unseen.is_free(call.tid, number) && alone.is(call.tid)) {
        return Err(pathwalk::Errno::EBADF);
    }
    let made = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (own, theirs) = answer(made)?;
    // Nobody reads here what somebody might write there.
    answer(shutdown(&own, Shutdown::Read))?;
    let ino = answer(fs::fstat(&theirs))?.st_ino;
    unseen.hide(ino);
    listener.add_fd_at(call.id, theirs.as_fd(), number)?;
    let program = of_thread(call.tid, "exe").ok();
    Ok(Socket {
        own,
        ino,
        lie: VecDeque::new(),
        each: 1,
        turn: 0,
        most: FIRST_READY,
        program,
        last: None,
        row: None,
    })
}

/// By what a thread finds that something lies ready for it.
fn found_ready(key: &OwnKey, ino: u64, tid: u32) -> Key<'_> {
    let key = key.key();
    Key { args: [key.args[0], ready_for(ino, tid)], ..key }
}

/// Makes room for so many more for a thread: what lies ready longest for others is taken back. Whether there is room.
fn make_room(sockets: &mut HashMap<u32, Socket>, table: &mut Table, more: usize, own: u32) -> bool {
    let is_room = |sockets: &HashMap<u32, Socket>| {
        sockets.values().map(|socket| socket.lie.len()).sum::<usize>() + more <= MOST_READY
    };
    if is_room(sockets) {
        return true;
    }
    for (&tid, socket) in &mut *sockets {
        socket.settle(table, tid);
    }
    let others = sockets.iter().filter(|(tid, socket)| **tid != own && socket.has_ready_first());
    let mut others: Vec<_> = others.map(|(&tid, socket)| (socket.turn, tid)).collect();
    others.sort_unstable();
    for (_, tid) in others {
        if is_room(sockets) {
            break;
        }
        if let Some(socket) = sockets.get_mut(&tid) {
            socket.take_back(table, tid);
        }
    }
    is_room(sockets)
}

impl Socket {
    /// How many of those that lay there were taken; none where nobody takes any more.
    fn taken(&self) -> Option<usize> {
        let left = socket::unread(&self.own).ok()?.div_ceil(self.each) as usize;
        let ready = self.lie.iter().any(|lies| lies.ready.is_some());
        // What lay there ended with the other end.
        let ended = left == 0 && ready && socket::is_left(&self.own);
        (!ended).then(|| self.lie.len().saturating_sub(left))
    }

    /// Notes what was taken; how many of these nobody had asked for.
    fn settle(&mut self, table: &mut Table, tid: u32) -> u64 {
        if self.lie.is_empty() {
            return 0;
        }
        let Some(taken) = self.taken() else {
            self.forget(table, tid);
            return 0;
        };
        let mut used = 0;
        for taken in self.lie.drain(..taken) {
            let Some(key) = taken.ready else { continue };
            table.remove(&found_ready(&key, self.ino, tid));
            self.last = Some(key.path());
            used += 1;
        }
        if used > 0 && self.lie.is_empty() {
            self.most = (2 * self.most).min(MOST_AT_ONCE);
        }
        used
    }

    /// Nothing that lies ready is found any more.
    fn forget(&mut self, table: &mut Table, tid: u32) {
        for key in self.lie.drain(..).filter_map(|lies| lies.ready) {
            table.remove(&found_ready(&key, self.ino, tid));
        }
    }

    /// Puts a descriptor that was asked for where it is taken.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: one lies there still.
    /// - `EPIPE`, `ECONNREFUSED`: nobody has the other end.
    fn put(
        &mut self,
        table: &mut Table,
        tid: u32,
        (fd, number): (BorrowedFd<'_>, u32),
    ) -> io::Result<()> {
        self.settle(table, tid);
        if !self.lie.is_empty() && !self.has_ready_first() {
            return Err(io::Errno::AGAIN);
        }
        if !self.lie.is_empty() {
            self.most = (self.most / 2).max(1);
            self.take_back(table, tid);
        }
        if !self.lie.is_empty() {
            return Err(io::Errno::PIPE);
        }
        let id = HostId::of(&fs::fstat(fd)?);
        self.send(fd, number)?;
        self.each = socket::unread(&self.own).unwrap_or(self.each).max(1);
        self.lie.push_back(Lies { id, ready: None });
        Ok(())
    }

    /// Whether what lies there first nobody asked for.
    fn has_ready_first(&self) -> bool {
        self.lie.front().is_some_and(|lies| lies.ready.is_some())
    }

    fn send(&self, fd: BorrowedFd<'_>, number: u32) -> io::Result<()> {
        let one = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&one));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let number = u64::from(number).to_ne_bytes();
        sendmsg(&self.own, &[IoSlice::new(&number)], &mut message, flags).map(drop)
    }

    /// Takes back what lies ready, by the thread's own end: without a place for them the descriptors are closed. Where something lies in front
    /// of it that was asked for, or the end is not there, all stays as it is, but is not found.
    fn take_back(&mut self, table: &mut Table, tid: u32) {
        for key in self.lie.iter().filter_map(|lies| lies.ready.as_ref()) {
            table.remove(&found_ready(key, self.ino, tid));
        }
        if !self.has_ready_first() {
            return;
        }
        let theirs = process::thread(tid).and_then(|thread| process::descriptor(&thread, TAKES));
        let is_it = |fd: &OwnedFd| fs::fstat(fd).is_ok_and(|stat| stat.st_ino == self.ino);
        let Some(theirs) = theirs.ok().filter(is_it) else { return };
        let mut number = [0_u8; size_of::<u64>()];
        while recv(&theirs, &mut number, RecvFlags::DONTWAIT).is_ok_and(|(read, _)| read > 0) {}
        self.lie.clear();
    }
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
        let Inside { hands, table, alone, .. } = inside;
        let number = hands.put((&self.listener, table, alone), call, fd)?;
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
