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
//! 3. Handed is only what can be opened again, as nothing is made by it, nor cut off, nor written. Who finds nothing where something was to
//!    lie, or finds another socket there, says so, gets none any more, and makes his call again.

use super::{Inside, enter::has_filters, sites};
use crate::{
    engine::{Cloexec, Engine},
    kin,
    procfs::Unseen,
    sys::{
        answer,
        seccomp::{Listener, Notification},
        socket,
    },
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
    collections::HashMap,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// So many descriptors a thread gets before it takes them by itself: who runs a program next opens fewer.
const FIRST: u32 = 4;
/// So many threads are kept in mind.
const MOST: usize = 256;

/// The threads that take descriptors by themselves, or may later.
#[derive(Debug, Default)]
pub(super) struct Hands {
    threads: HashMap<u32, Hand>,
    /// Their sockets, which are in no list.
    unseen: Unseen,
}

#[derive(Debug)]
struct Hand {
    /// How many descriptors it got.
    got: u32,
    /// At so many it gets a socket.
    next: u32,
    socket: Option<Socket>,
}

/// The end that descriptors are put into, and the number of the other one.
#[derive(Debug)]
struct Socket {
    own: OwnedFd,
    ino: u64,
}

impl Hands {
    pub(super) fn new(unseen: Unseen) -> Self {
        Self { threads: HashMap::new(), unseen }
    }

    /// A thread runs another program.
    pub(super) fn runs_another(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }

    /// Nobody takes anything until he is asked whether he may.
    pub(super) fn forget(&mut self) {
        self.threads.clear();
    }

    /// What a thread takes descriptors by, which it gets if it is time for it.
    fn socket(&mut self, listener: &Listener, call: &Notification) -> Option<&Socket> {
        if self.threads.len() >= MOST && !self.threads.contains_key(&call.tid) {
            self.threads.retain(|&tid, _| !kin::is_ending(tid));
            if self.threads.len() >= MOST {
                return None;
            }
        }
        let Self { threads, unseen } = self;
        let first = || Hand { got: 0, next: FIRST, socket: None };
        let hand = threads.entry(call.tid).or_insert_with(first);
        hand.got = hand.got.saturating_add(1);
        if hand.got == hand.next && hand.socket.is_none() {
            hand.socket = new_socket(listener, call, unseen).ok();
        }
        hand.socket.as_ref()
    }

    /// A thread takes nothing more; or it is tried again when it got twice as many.
    fn end(&mut self, tid: u32) {
        if let Some(hand) = self.threads.get_mut(&tid) {
            hand.socket = None;
            hand.next = hand.got.saturating_mul(2).max(2 * FIRST);
        }
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
    Ok(Socket { own, ino })
}

impl Socket {
    /// Puts a descriptor where it is taken.
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: one lies there still.
    /// - `EPIPE`, `ECONNREFUSED`: nobody has the other end.
    fn put(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !socket::is_read(&self.own) {
            return Err(io::Errno::AGAIN);
        }
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
            Ok(()) => Some(take_by(socket.ino, call.nr, cloexec == Cloexec::Yes)),
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
        true
    }
}
