//! Messages that may have an address: sendto, sendmsg, sendmmsg.
//!
//! ```text
//!   struct msghdr ──► address    a path is looked up in the tree
//!                 ──► data       copied, as much as is sent at once
//!                 ──► control    descriptors become those of this process: the same open files
//!                      └──► sent here, on the same open socket
//! ```
//!
//! No filter sees whether there is an address behind the pointer that sendmsg is given, and the kernel would read it again. So
//! each is sent from here, also one without.
//!
//! Manual: send(2), sendmmsg(2), cmsg(3), unix(7).

use super::{
    socket::{Place, answers, find, path_of},
    tasks,
    wait::{Waiting, later},
};
use crate::{
    cookies::HostId,
    engine::{Caller, Engine, Reply},
    procfs,
    sys::{
        memory, process,
        socket::{self, Message},
    },
};
use pathwalk::{Errno, Result};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    sync::{Arc, Weak},
};

/// So many bytes are sent at once: of a stream the rest is for the next call, and no datagram is so long.
const MOST_DATA: usize = 1 << 20;
/// The kernel takes no more control data, as it is mostly set up.
const MOST_CONTROL: usize = 128 << 10;
/// `UIO_MAXIOV`: so many pieces may data have, and so many messages are sent by a call.
const MOST_PIECES: u64 = 1024;
/// `SCM_MAX_FD`
const MOST_DESCRIPTORS: usize = 253;
/// The largest address: `struct sockaddr_storage`.
const LARGEST: usize = 128;
/// The lengths of `struct msghdr`, `struct mmsghdr` and `struct cmsghdr`; where the second has how much was sent.
const MSGHDR: usize = 56;
const MMSGHDR: u64 = 64;
const SENT: u64 = 56;
const CMSGHDR: usize = 16;

pub(crate) fn sendto(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let fd = engine.fetch(caller, caller.fd(0))?;
    let socket = Socket::of(fd, caller.word(3))?;
    let name = match caller.word(5).cast_signed() {
        len if !(0..=LARGEST as i32).contains(&len) => return Err(Errno::EINVAL),
        len => bytes(caller, caller.args[4], len as usize)?,
    };
    let len = usize::try_from(caller.args[2]).unwrap_or(usize::MAX);
    socket.takes(len)?;
    let data = bytes(caller, caller.args[1], len.min(MOST_DATA))?;
    let message = Message { name, data, control: Vec::new() };
    let message = Outgoing { message, len, held: Vec::new() };
    send(engine, caller, socket, message, None)
}

pub(crate) fn sendmsg(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let fd = engine.fetch(caller, caller.fd(0))?;
    let socket = Socket::of(fd, caller.word(2))?;
    let message = copy(engine, caller, &socket, caller.args[1])?;
    send(engine, caller, socket, message, None)
}

/// Those in front of the first that cannot be sent at once are sent; if that is the very first, it is waited for alone. One that is sent in
/// part, as of a stream, is the last: nothing may follow in the place of its rest.
pub(crate) fn sendmmsg(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let fd = engine.fetch(caller, caller.fd(0))?;
    socket::option(&fd, libc::SO_DOMAIN)?;
    let count = u64::from(caller.word(2)).min(MOST_PIECES);
    let mut sent = 0;
    while sent < count {
        let socket = Socket::of(fd.try_clone().map_err(|_| Errno::EMFILE)?, caller.word(3))?;
        let at = caller.args[1].wrapping_add(MMSGHDR * sent);
        let mut wanted = 0;
        let answer = copy(engine, caller, &socket, at).and_then(|message| {
            wanted = message.len;
            let waits = (sent == 0).then_some(at + SENT);
            let flags = if sent == 0 { 0 } else { libc::MSG_DONTWAIT };
            let socket = Socket { flags: socket.flags | flags, ..socket };
            send(engine, caller, socket, message, waits)
        });
        match answer {
            Ok(Reply::Value(len)) => {
                let told = memory::write(caller.tid, at + SENT, &(len as u32).to_ne_bytes());
                if sent == 0 {
                    told?;
                } else if told.is_err() {
                    break;
                }
                sent += 1;
                if (len as usize) < wanted {
                    break;
                }
            }
            Ok(other) => return Ok(other),
            Err(errno) if sent == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(Reply::Value(sent as i64))
}

/// The socket that a call is about.
struct Socket {
    fd: OwnedFd,
    domain: i32,
    kind: i32,
    flags: i32,
}

impl Socket {
    /// # Errors
    ///
    /// - `ENOTSOCK`: it is none.
    /// - `ENOBUFS`: the memory of the thread was to be sent without being copied, which cannot be done from here; who asks
    ///   for that copies then.
    fn of(fd: OwnedFd, flags: u32) -> Result<Self> {
        let option = |option| socket::option(&fd, option);
        let (domain, kind) = (option(libc::SO_DOMAIN)?, option(libc::SO_TYPE)?);
        let flags = flags.cast_signed();
        if flags & libc::MSG_ZEROCOPY != 0 && option(libc::SO_ZEROCOPY)? != 0 {
            return Err(Errno::ENOBUFS);
        }
        Ok(Self { fd, domain, kind, flags: flags & !libc::MSG_ZEROCOPY })
    }

    fn is_local(&self) -> bool {
        self.domain == libc::AF_UNIX
    }

    fn is_stream(&self) -> bool {
        self.kind == libc::SOCK_STREAM
    }

    /// # Errors
    ///
    /// - `EMSGSIZE`: a message of so many bytes cannot be sent in one piece.
    fn takes(&self, len: usize) -> Result<()> {
        if len > MOST_DATA && !self.is_stream() { Err(Errno::EMSGSIZE) } else { Ok(()) }
    }
}

/// What is sent, and what must stay open until it was.
struct Outgoing {
    message: Message,
    /// How long it is. What is copied is as much of it as is sent at once.
    len: usize,
    held: Vec<OwnedFd>,
}

/// Copies a message.
///
/// # Errors
///
/// - `EFAULT`: it is not all there.
/// - `EINVAL`: a length is none.
/// - `EMSGSIZE`: it has too many pieces, or is too long.
/// - `ENOBUFS`: there is too much control data.
/// - `EBADF`: it carries a descriptor that there is not.
fn copy(engine: &mut Engine, caller: &Caller, socket: &Socket, at: u64) -> Result<Outgoing> {
    let head: [u8; MSGHDR] = memory::read_exact(caller.tid, at)?;
    let [name, _, pieces, count, control, control_len, _] = words(&head);
    let name_len = i32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
    let name_len = if name == 0 { 0 } else { name_len };
    let name_len = usize::try_from(name_len).map_err(|_| Errno::EINVAL)?.min(LARGEST);
    if count > MOST_PIECES {
        return Err(Errno::EMSGSIZE);
    }
    let name = bytes(caller, name, name_len)?;
    let (data, len) = gather(caller, socket, &bytes(caller, pieces, 16 * count as usize)?)?;
    let control_len = if control == 0 { 0 } else { control_len };
    if control_len > MOST_CONTROL as u64 {
        return Err(Errno::ENOBUFS);
    }
    let mut control = bytes(caller, control, control_len as usize)?;
    let held = if socket.is_local() || socket.domain == libc::AF_NETLINK {
        carry(engine, caller, &mut control)?
    } else {
        Vec::new()
    };
    Ok(Outgoing { message: Message { name, data, control }, len, held })
}

/// The bytes that a list of pieces points to, as many as are sent at once; and how many they are in all.
fn gather(caller: &Caller, socket: &Socket, pieces: &[u8]) -> Result<(Vec<u8>, usize)> {
    let mut total = 0_usize;
    let mut wanted = Vec::new();
    for piece in pieces.chunks_exact(16) {
        let [at, len] = words(piece);
        let len = usize::try_from(len.cast_signed()).map_err(|_| Errno::EINVAL)?;
        wanted.push((at, len.min(MOST_DATA - total.min(MOST_DATA))));
        total = total.saturating_add(len);
    }
    socket.takes(total)?;
    let mut data = Vec::with_capacity(total.min(MOST_DATA));
    for (at, len) in wanted {
        data.extend(bytes(caller, at, len)?);
    }
    Ok((data, total))
}

/// Puts numbers of this process in the place of those of the thread, for descriptors that a message carries.
///
/// # Errors
///
/// - `EINVAL`: the control data is not well formed, or carries too many.
/// - `EBADF`: there is no such descriptor.
fn carry(engine: &mut Engine, caller: &Caller, control: &mut [u8]) -> Result<Vec<OwnedFd>> {
    let mut held = Vec::new();
    let mut at = 0;
    while at + CMSGHDR <= control.len() {
        let [len, what] = words(&control[at..]);
        let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
        let end = end.filter(|&end| len >= CMSGHDR as u64 && end <= control.len());
        let end = end.ok_or(Errno::EINVAL)?;
        if what == header(libc::SCM_RIGHTS) {
            for number in control[at + CMSGHDR..end].chunks_exact_mut(4) {
                if held.len() == MOST_DESCRIPTORS {
                    return Err(Errno::EINVAL);
                }
                let fd = i32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
                let own = engine.fetch(caller, fd)?;
                number.copy_from_slice(&own.as_raw_fd().to_ne_bytes());
                held.push(own);
            }
        }
        at = end.next_multiple_of(8);
    }
    Ok(held)
}

/// Level and type of control data of all sockets, as they lie behind its length.
fn header(kind: i32) -> u64 {
    let bytes = [libc::SOL_SOCKET.to_ne_bytes(), kind.to_ne_bytes()].concat();
    words::<1>(&bytes)[0]
}

/// Sends a message. If it has to wait, a thread of its own sends it: `told` is then where its length is written, and the call
/// answers 1.
fn send(
    engine: &mut Engine,
    caller: &Caller,
    socket: Socket,
    outgoing: Outgoing,
    told: Option<u64>,
) -> Result<Reply> {
    engine.still_waits(caller)?;
    let Outgoing { mut message, mut held, .. } = outgoing;
    // A stream refuses an address, and a sequence of packets does not look at it.
    if socket.is_local()
        && socket.kind == libc::SOCK_DGRAM
        && let Some(path) = path_of(&message.name).map(<[u8]>::to_vec)
    {
        let Place(address, stays) = find(engine, caller, &path)?;
        message.name = address;
        held.extend(stays);
    }
    let (by, carried) = engine.carried(&socket.fd, &held)?;
    let now = socket.flags | libc::MSG_DONTWAIT;
    let mut first = socket::send(&socket.fd, &message, now);
    let refused = first == Err(Errno::EPERM) && socket.is_local();
    if refused && speaks_for_itself(caller, &mut message.control) {
        first = socket::send(&socket.fd, &message, now);
    }
    if first.is_ok() {
        carried.iter().for_each(|&file| engine.cookies.sent.add(file, by, Weak::new()));
    }
    let waits = socket.flags & libc::MSG_DONTWAIT == 0 && !socket::is_nonblocking(&socket.fd)?;
    let sent = match first {
        Err(Errno::EAGAIN) if waits => 0,
        Ok(sent) if waits && (sent as usize) < message.data.len() => sent,
        Err(errno) => {
            complain(caller.tid, &socket, errno);
            return Err(errno);
        }
        Ok(sent) => return Ok(Reply::Value(sent)),
    };
    message.data.drain(..sent as usize);
    if sent > 0 {
        message.control.clear();
    }
    // By then the number may be that of another program's process.
    let mut told =
        match told.map(|at| Ok((at, tasks::Place::of_who_waits(caller.tid)?))).transpose() {
            // What was sent is sent.
            Err(_) if sent > 0 => return Ok(Reply::Value(sent)),
            told => told?,
        };
    let (mut waiting, tid) = (Waiting::new(engine, caller), caller.tid);
    let not_sent = Arc::new(());
    if sent == 0 {
        let waits = || Arc::downgrade(&not_sent);
        carried.iter().for_each(|&file| engine.cookies.sent.add(file, by, waits()));
    }
    later(move || {
        let rest = waiting.have(|| socket::send(&socket.fd, &message, socket.flags));
        drop((held, not_sent));
        if !waiting.listener.is_valid(waiting.id) {
            return;
        }
        let answer = match (rest, sent) {
            (Err(errno), 0) => {
                complain(tid, &socket, errno);
                Err(errno)
            }
            (rest, _) => Ok(sent + rest.unwrap_or(0)),
        };
        let answer = match &mut told {
            Some((at, memory)) => {
                answer.and_then(|len| memory.write(*at, &(len as u32).to_ne_bytes()).map(|_| 1))
            }
            None => answer,
        };
        answers(&waiting, &socket.fd, answer);
    })
}

impl Engine {
    /// Which socket sends, and which files of those that it is about to send are known.
    ///
    /// # Errors
    ///
    /// None that fstat(2) has for an open file.
    fn carried(&mut self, socket: &OwnedFd, held: &[OwnedFd]) -> Result<(HostId, Vec<HostId>)> {
        let by = HostId::of_fd(socket)?;
        let ids = held.iter().map(HostId::of_fd).collect::<Result<Vec<_>>>()?;
        if !ids.is_empty() && socket::unread(socket) == 0 {
            self.cookies.sent.was_received(by);
        }
        Ok((by, ids.into_iter().filter(|&id| self.cookies.get(id).is_some()).collect()))
    }
}

/// A stream that nobody reads any more kills who writes to it, if that does not say otherwise.
fn complain(tid: u32, socket: &Socket, errno: Errno) {
    if errno == Errno::EPIPE && socket.is_stream() && socket.flags & libc::MSG_NOSIGNAL == 0 {
        process::kill_thread(tid, libc::SIGPIPE);
    }
}

/// Puts this process in the place of the thread's own, where a message of a local socket says who sends it: nobody without
/// privilege may name another. Whether it says so.
fn speaks_for_itself(caller: &Caller, control: &mut [u8]) -> bool {
    let own = procfs::process_of_thread(caller.tid);
    let mut at = 0;
    let mut found = false;
    while at + CMSGHDR + 4 <= control.len() {
        let [len, what] = words(&control[at..]);
        let pid = &mut control[at + CMSGHDR..at + CMSGHDR + 4];
        if what == header(libc::SCM_CREDENTIALS)
            && own.map(u32::to_ne_bytes).as_ref().is_some_and(|own| pid == own)
        {
            pid.copy_from_slice(&std::process::id().to_ne_bytes());
            found = true;
        }
        // `carry` saw that it is well formed.
        at += (len as usize).next_multiple_of(8);
    }
    found
}

/// Copies bytes; none where none are asked for.
///
/// # Errors
///
/// - `EFAULT`: they are not all there.
fn bytes(caller: &Caller, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    if !bytes.is_empty() && memory::read(caller.tid, at, &mut bytes)? != len {
        return Err(Errno::EFAULT);
    }
    Ok(bytes)
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
    words
}
