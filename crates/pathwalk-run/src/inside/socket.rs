//! A socket that a thread takes descriptors from, as the supervisor knows it.

use super::{alone::Alone, beside::Row, laid::OwnKey, ready::Expected};
use crate::{
    cookies::HostId,
    engine::Cloexec,
    kin,
    sys::{
        answer, process,
        seccomp::{Listener, Notification},
        socket,
    },
    unseen::Unseen,
};
use pathwalk::Result;
use pathwalk_inside::{Answer, Key, Laid, MESSAGE, TAKES, Table, ready_for};
use rustix::{
    fs,
    io::{self, IoSlice, IoSliceMut},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recv, recvmsg, sendmsg,
        shutdown, socketpair,
    },
};
use std::{
    collections::VecDeque,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::id,
    time::{Duration, Instant},
};

/// So many lie ready for a thread at first, twice as many whenever it took all, up to this, and half as many when it did not.
const FIRST_READY: usize = 4;
const MOST_AT_ONCE: usize = 16;
/// So often something is given as before, as what was asked for lies there still, until it is taken for forgotten: a signal's handler may
/// have jumped away from where it is taken.
const MOST_FULL: u32 = 8;
/// Who was laid nothing ready for so long is not about to take it.
const QUIET: Duration = Duration::from_millis(100);

/// The end that descriptors are put into, the number of the other one, and what was put there and is not known to have been taken, the
/// oldest first. The other end is the thread's, and of who came of it since: what lies there ends with the last of them, or is taken back
/// when the thread is known to have ended.
#[derive(Debug)]
pub(super) struct Socket {
    own: OwnedFd,
    pub(super) ino: u64,
    tid: u32,
    lie: VecDeque<Lies>,
    /// How much one that lies there takes of the kernel's memory.
    each: u32,
    /// So often what was asked for lay there still.
    full: u32,
    /// When something was laid ready there last, and how much may be.
    laid: Option<Instant>,
    pub(super) most: usize,
    /// What the thread runs.
    pub(super) program: Option<HostId>,
    /// What it opened last.
    pub(super) last: Option<Box<[u8]>>,
    /// Where it is among directories.
    pub(super) row: Option<Row>,
}

/// A descriptor that lies in a socket.
#[derive(Debug)]
struct Lies {
    id: HostId,
    number: u32,
    cloexec: Cloexec,
    /// Of what nobody asked for: the answer by which it is found, and the call that opens it.
    ready: Option<(Laid, OwnKey)>,
}

/// What was asked for, and lay there still: the number of its message, and whether it is to be closed by exec.
pub(super) struct Asked {
    pub(super) fd: OwnedFd,
    pub(super) number: u32,
    pub(super) cloexec: Cloexec,
}

/// What became of a descriptor that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It lies there.
    Lies,
    /// One lies there still.
    Full,
    /// Nobody takes anything there any more.
    Left,
}

impl Socket {
    /// Gives a thread an end of a new one; with what it runs.
    ///
    /// # Errors
    ///
    /// - `EBADF`: it may have no descriptor of that number; or it has given the number to something else, or is not alone.
    /// - `EMFILE`, `ENFILE`: no descriptor is left.
    pub(super) fn new(
        listener: &Listener,
        (call, program): (&Notification, Option<HostId>),
        unseen: &Unseen,
        alone: &mut Alone,
    ) -> Result<Self> {
        let number = TAKES.cast_unsigned();
        // Who has calls looked at by a filter of its own would be asked about one that it does not make itself.
        if !(unseen.is_free(call.tid, number) && alone.is(call.tid)) {
            return Err(pathwalk::Errno::EBADF);
        }
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (own, theirs) = answer(socketpair(family, kind, SocketFlags::CLOEXEC, None))?;
        // Nobody reads here what somebody might write there.
        answer(shutdown(&own, Shutdown::Read))?;
        let ino = answer(fs::fstat(&theirs))?.st_ino;
        unseen.hide(ino);
        listener.add_fd_at(call.id, theirs.as_fd(), number)?;
        Ok(Self {
            own,
            ino,
            tid: call.tid,
            lie: VecDeque::new(),
            each: 1,
            full: 0,
            laid: None,
            most: FIRST_READY,
            program,
            last: None,
            row: None,
        })
    }

    /// How many of those that lay there were taken; none where nobody takes any more.
    fn taken(&self) -> Option<usize> {
        let left = socket::unread(&self.own).div_ceil(self.each) as usize;
        // What lay there ended with the other end.
        let ended = left == 0 && self.ready() > 0 && socket::is_left(&self.own);
        (!ended).then(|| self.lie.len().saturating_sub(left))
    }

    /// What lies there now. What arrives from here on is in the thread's list.
    pub(super) fn ids(&self) -> impl Iterator<Item = HostId> + '_ {
        self.lie.iter().skip(self.taken().unwrap_or(usize::MAX)).map(|lies| lies.id)
    }

    /// How many lie there that nobody asked for, as far as is known.
    pub(super) fn ready(&self) -> usize {
        self.lie.iter().filter(|lies| lies.ready.is_some()).count()
    }

    /// Whether nothing lies there, as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        self.lie.is_empty()
    }

    /// The first that lies ready, by the call that opens it.
    pub(super) fn first_ready(&self) -> Option<&OwnKey> {
        self.lie.front()?.ready.as_ref().map(|(_, key)| key)
    }

    /// The number of the first that lies ready, if it is what this call opens now: the same call, and the file that it opened.
    pub(super) fn first_is(
        &self,
        table: &Table,
        key: &OwnKey,
        opened: Option<HostId>,
    ) -> Option<u32> {
        let first = self.lie.front()?;
        let (_, its) = first.ready.as_ref().filter(|(_, its)| its == key)?;
        (table.has(&self.found_by(its)) && opened == Some(first.id)).then_some(first.number)
    }

    /// The first that lies ready was asked for, if that is this one.
    pub(super) fn asks_for(&mut self, table: &mut Table, number: u32, cloexec: Cloexec) -> bool {
        let Some(first) = self.lie.front_mut().filter(|first| first.number == number) else {
            return false;
        };
        let Some((laid, key)) = first.ready.take() else { return false };
        first.cloexec = cloexec;
        table.take_away(laid);
        self.last = Some(key.path());
        true
    }

    /// By what it is found that something lies ready.
    fn found_by<'a>(&self, key: &'a OwnKey) -> Key<'a> {
        let key = key.key();
        Key { args: [key.args[0], ready_for(self.ino, self.tid)], ..key }
    }

    /// Whether something lies there that was asked for.
    pub(super) fn has_asked_for(&self) -> bool {
        self.lie.front().is_some_and(|lies| lies.ready.is_none())
    }

    /// Whether what lies there is not about to be taken.
    pub(super) fn is_quiet(&self) -> bool {
        !self.has_asked_for() && self.laid.is_none_or(|laid| laid.elapsed() > QUIET)
    }

    /// When something was laid ready there last.
    pub(super) fn laid(&self) -> Option<Instant> {
        self.laid
    }

    /// Notes what was taken; how many of these nobody had asked for.
    pub(super) fn settle(&mut self, table: &mut Table) -> u64 {
        if self.lie.is_empty() {
            return 0;
        }
        let Some(taken) = self.taken() else {
            self.forget(table);
            return 0;
        };
        let mut used = 0;
        for _ in 0..taken {
            let Some((laid, key)) = self.lie.pop_front().and_then(|lies| lies.ready) else {
                continue;
            };
            table.take_away(laid);
            self.last = Some(key.path());
            used += 1;
        }
        if used > 0 && self.lie.is_empty() {
            self.most = (2 * self.most).min(MOST_AT_ONCE);
        }
        used
    }

    /// Nothing that lies ready is found any more.
    fn hide(&self, table: &mut Table) {
        for (laid, _) in self.lie.iter().filter_map(|lies| lies.ready.as_ref()) {
            table.take_away(*laid);
        }
    }

    fn forget(&mut self, table: &mut Table) {
        self.hide(table);
        self.lie.clear();
    }

    /// Puts a descriptor that was asked for where it is taken.
    pub(super) fn put(
        &mut self,
        table: &mut Table,
        (fd, cloexec): (BorrowedFd<'_>, Cloexec),
        number: u32,
    ) -> Put {
        if self.has_asked_for() {
            self.full += 1;
            return if self.full < MOST_FULL { Put::Full } else { Put::Left };
        }
        self.full = 0;
        if !self.lie.is_empty() {
            self.most = (self.most / 2).max(1);
            self.take_back(table);
        }
        if !self.lie.is_empty() {
            return Put::Left;
        }
        match HostId::of_fd(fd).and_then(|id| answer(self.send(fd, number)).map(|()| id)) {
            Ok(id) => {
                self.each = socket::unread(&self.own).max(1);
                self.lie.push_back(Lies { id, number, cloexec, ready: None });
                Put::Lies
            }
            Err(_) => Put::Left,
        }
    }

    /// Puts something behind that; whether it could be.
    pub(super) fn put_ready(&mut self, table: &mut Table, expected: Expected, number: u32) -> bool {
        let Expected { key, file, id, parts } = expected;
        let answer = Answer { result: number.into(), written: b"", parts: &parts };
        let Some(ready) = table.put(&self.found_by(&key), &answer) else { return false };
        let sent = file.host_fd().is_some_and(|fd| self.send(fd, number).is_ok());
        if sent {
            self.laid = Some(Instant::now());
            self.lie.push_back(Lies {
                id,
                number,
                cloexec: Cloexec::Yes,
                ready: Some((ready, key)),
            });
        } else {
            table.take_away(ready);
        }
        sent
    }

    fn send(&self, fd: BorrowedFd<'_>, number: u32) -> io::Result<()> {
        let one = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&one));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let number = (MESSAGE | u64::from(number)).to_ne_bytes();
        sendmsg(&self.own, &[IoSlice::new(&number)], &mut message, flags).map(drop)
    }

    /// Takes back all that lies there, by the thread's own end. Who is about to take what it asked for asks again then. Where the end is not
    /// there all stays as it is, but what lies ready is not found.
    pub(super) fn take_back(&mut self, table: &mut Table) {
        self.hide(table);
        if self.empty_of(self.tid) {
            self.lie.clear();
        }
    }

    /// Takes what was asked for and was not received yet, by the thread's own end.
    pub(super) fn take_asked_for(&mut self, table: &mut Table) -> Option<Asked> {
        self.settle(table);
        let &Lies { number, cloexec, .. } = self.lie.front().filter(|_| self.has_asked_for())?;
        let theirs = self.theirs(self.tid)?;
        let (mut message, mut space) =
            ([0_u8; size_of::<u64>()], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        recvmsg(&theirs, &mut [IoSliceMut::new(&mut message)], &mut control, flags).ok()?;
        self.lie.pop_front();
        let is_it = u64::from_ne_bytes(message) == MESSAGE | u64::from(number);
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut all) => all.next(),
            _ => None,
        })?;
        is_it.then_some(Asked { fd, number, cloexec })
    }

    /// The thread does not take anything any more, as it ended or runs another program: what lies there is taken back by who came of it.
    pub(super) fn ends(&mut self, table: &mut Table) {
        self.hide(table);
        if self.lie.is_empty() || socket::is_left(&self.own) {
            return;
        }
        let others = [id(), self.tid].map(|parent| kin::children(parent, parent));
        let others = others.into_iter().flatten().flatten();
        let _ = [self.tid].into_iter().chain(others).any(|tid| self.empty_of(tid));
    }

    /// Empties it, by the end that somebody has, if it is there: without a place for them the descriptors are closed.
    fn empty_of(&self, tid: u32) -> bool {
        let Some(theirs) = self.theirs(tid) else { return false };
        let mut number = [0_u8; size_of::<u64>()];
        while recv(&theirs, &mut number, RecvFlags::DONTWAIT).is_ok_and(|(read, _)| read > 0) {}
        true
    }

    /// The end that somebody has, if it is there.
    fn theirs(&self, tid: u32) -> Option<OwnedFd> {
        let theirs = process::thread(tid).and_then(|thread| process::descriptor(&thread, TAKES));
        let is_it = |fd: &OwnedFd| {
            fs::fstat(fd).is_ok_and(|stat| {
                let kind = fs::FileType::from_raw_mode(stat.st_mode);
                (stat.st_ino, kind) == (self.ino, fs::FileType::Socket)
            })
        };
        theirs.ok().filter(is_it)
    }
}
