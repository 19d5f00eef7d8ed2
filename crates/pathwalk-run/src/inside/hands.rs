//! Descriptors that a process takes by itself.
//!
//! ```text
//!   openat ──► the supervisor opens it ──► a socket, whose other end the process has under the number TAKES
//!      the answer: that something lies there, and in which socket ──► image: recvmsg ──► the descriptor
//! ```
//!
//! To give a thread a descriptor (`SECCOMP_IOCTL_NOTIF_ADDFD`) wakes it so that it takes that, and once more for the answer; and to keep it
//! on this CPU meanwhile takes four calls more. Who takes it by himself is woken once.
//!
//! Rules:
//!
//! 1. A socket is one thread's, whose process had no other when it got it. What is handed to others is given as before: who comes of it has
//!    the socket too, as it has all descriptors, and no answer that says that something lies there.
//! 2. One descriptor lies there at most, that of the last answer. Where one lies there still, as a signal's handler runs before it was
//!    taken, the next is given as before.
//! 3. What lies there is in no list of anybody's descriptors: what it stands for is known as long as it may.
//! 4. Handed is only what can be opened again, as nothing is made by it, nor cut off, nor written. Who finds nothing where something was to
//!    lie, or finds another socket there, says so, gets none any more, and makes his call again.

use super::{Inside, MOST_COUNTED, enter::has_filters, sites};
use crate::{
    cookies::HostId,
    engine::{Cloexec, Engine},
    kin,
    sys::{
        answer,
        seccomp::{Listener, Notification},
        socket,
    },
    unseen::Unseen,
};
use pathwalk::{OpenFlags, Result, abi::AT_FDCWD};
use pathwalk_inside::{MARK, OPEN, OPENAT, TAKES, take_by};
use rustix::{
    fs,
    io::{self, IoSlice},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
        SocketType, sendmsg, shutdown, socketpair,
    },
};
use std::{
    collections::{HashMap, HashSet},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// So many descriptors a thread gets before it takes them by itself: who runs a program next opens fewer.
const FIRST: u32 = 4;
/// So many threads have a socket.
const MOST: usize = 256;
/// So often it is done without one where so many have, before it is looked whether they are there.
const WITHOUT: u32 = 1 << 12;

/// The threads that take descriptors by themselves, or may later.
#[derive(Debug, Default)]
pub(super) struct Hands {
    sockets: HashMap<u32, Socket>,
    /// How many descriptors the others got.
    got: HashMap<u32, Got>,
    without: u32,
    /// Their sockets, which are in no list.
    unseen: Unseen,
    /// How many descriptors were handed, and how many of them were not there.
    handed: u64,
    missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Got {
    times: u32,
    /// At so many it gets a socket.
    next: u32,
}

/// The end that descriptors are put into, the number of the other one, and what was put there last.
#[derive(Debug)]
struct Socket {
    own: OwnedFd,
    ino: u64,
    last: Option<HostId>,
}

impl Hands {
    pub(super) fn new(unseen: Unseen) -> Self {
        Self { unseen, ..Self::default() }
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, tid: u32) {
        self.sockets.remove(&tid);
        self.got.remove(&tid);
    }

    /// Nobody takes anything until he is asked whether he may.
    pub(super) fn forget(&mut self) {
        self.sockets.clear();
        self.got.clear();
    }

    /// Closes the sockets of those who are gone.
    pub(super) fn sweep(&mut self) {
        self.sockets.retain(|&tid, _| !kin::is_ending(tid));
    }

    /// What lies in a socket.
    pub(super) fn in_flight(&self) -> HashSet<HostId> {
        let lies_there = |socket: &&Socket| !socket::is_read(&socket.own);
        self.sockets.values().filter(lies_there).filter_map(|socket| socket.last).collect()
    }

    /// How many descriptors were handed, and how many of them were not there.
    pub(super) fn counts(&self) -> [u64; 2] {
        [self.handed, self.missed]
    }

    /// What a thread takes descriptors by, which it gets if it is time for it.
    fn socket(&mut self, listener: &Listener, call: &Notification) -> Option<&mut Socket> {
        if !self.sockets.contains_key(&call.tid) && self.is_time(call.tid) {
            let socket = new_socket(listener, call, &self.unseen).ok()?;
            self.got.remove(&call.tid);
            self.sockets.insert(call.tid, socket);
        }
        self.sockets.get_mut(&call.tid)
    }

    /// Counts a descriptor for a thread without a socket; whether it is to get one now.
    fn is_time(&mut self, tid: u32) -> bool {
        if self.got.len() >= MOST_COUNTED {
            self.got.clear();
        }
        let got = self.got.entry(tid).or_insert(Got { times: 0, next: FIRST });
        got.times = got.times.saturating_add(1);
        if got.times != got.next {
            return false;
        }
        if self.sockets.len() >= MOST {
            self.without += 1;
            if self.without.is_multiple_of(WITHOUT) {
                self.sweep();
            }
        }
        self.sockets.len() < MOST
    }

    /// A thread takes nothing more, until it got twice as many.
    fn end(&mut self, tid: u32) {
        let before = self.got.get(&tid).map_or(FIRST, |got| got.next);
        self.sockets.remove(&tid);
        self.got.insert(tid, Got { times: 0, next: before.saturating_mul(2) });
    }
}

/// Gives a thread an end of a new socket.
///
/// # Errors
///
/// - `EBADF`: it may have no descriptor of that number; or it has given the number to something else, or is not alone.
/// - `EMFILE`, `ENFILE`: no descriptor is left.
fn new_socket(listener: &Listener, call: &Notification, unseen: &Unseen) -> Result<Socket> {
    let number = TAKES.cast_unsigned();
    let own = unseen.is_free(call.tid, number)
        && sites::is_alone(call.tid)
        // Who has calls looked at by a filter of its own would be asked about one that it does not make itself.
        && !has_filters(call.tid);
    if !own {
        return Err(pathwalk::Errno::EBADF);
    }
    let made = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (own, theirs) = answer(made)?;
    // Nobody reads here what somebody might write there.
    answer(shutdown(&own, Shutdown::Read))?;
    let ino = answer(fs::fstat(&theirs))?.st_ino;
    unseen.hide(ino);
    listener.add_fd_at(call.id, theirs.as_fd(), number)?;
    Ok(Socket { own, ino, last: None })
}

impl Socket {
    /// Puts a descriptor where it is taken.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: one lies there still.
    /// - `EPIPE`, `ECONNREFUSED`: nobody has the other end.
    fn put(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !socket::is_read(&self.own) {
            return Err(io::Errno::AGAIN);
        }
        self.last = Some(HostId::of(&fs::fstat(fd)?));
        let one = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&one));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.own, &[IoSlice::new(b"\0")], &mut message, flags).map(drop)
    }
}

/// Whether a call opens what it can open again, by its flags.
fn can_be_made_again(call: &Notification) -> bool {
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
        let socket = inside.hands.socket(&self.listener, call)?;
        match socket.put(fd) {
            Ok(()) => {
                let taken = take_by(socket.ino, call.nr, cloexec == Cloexec::Yes);
                inside.hands.handed += 1;
                Some(taken)
            }
            Err(io::Errno::AGAIN) => None,
            Err(_) => {
                inside.hands.end(call.tid);
                None
            }
        }
    }

    /// Whether a call says that what was handed was not there. Then the thread makes its call again, and is given what it opens.
    pub(crate) fn misses(&mut self, call: &Notification) -> bool {
        let nothing = [AT_FDCWD as i64 as u64, 0, 0, 0, MARK];
        let says = call.nr == OPENAT && call.args[..5] == nothing && Inside::is_in(call);
        let Some(inside) = self.inside.as_mut().filter(|_| says) else { return false };
        inside.hands.end(call.tid);
        inside.hands.missed += 1;
        true
    }

    /// Before it is looked what processes have: what is on its way to them. What arrives meanwhile is in their lists.
    pub(crate) fn look_in_flight(&mut self) {
        if let Some(inside) = &mut self.inside {
            inside.hands.sweep();
            self.cookies.in_flight = inside.hands.in_flight();
        }
    }

    /// How many descriptors were handed, and how many of them were not there.
    pub(crate) fn handed(&self) -> Option<[u64; 2]> {
        self.inside.as_ref().map(|inside| inside.hands.counts())
    }
}
