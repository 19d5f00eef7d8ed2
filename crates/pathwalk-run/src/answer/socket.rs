//! Addresses that are paths: those of local sockets.
//!
//! The call is made here, with the address that was copied, on the same open socket: what the thread's memory says later does
//! not matter.
//!
//! The kernel has a socket of the tree by a path of the host, and tells that where it is not asked through here: recvfrom, recvmsg,
//! accept. That path stands for the one that the socket was bound to, which is looked up in the tree as any other.

use super::{
    done,
    wait::{Waiting, later},
};
use crate::{
    cookies::{Cookies, HostId},
    engine::{Caller, Engine, Reply},
    kin,
    sys::{
        answer, memory,
        process::by_number,
        socket::{self, Side},
    },
};
use pathwalk::{
    AccessMode, At, AtFlags, Dev, Errno, File, FileType, MountFlags, OpenFlags, Result,
    StatmountMask, StatxMask, Task, abi::AT_FDCWD,
};
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use std::{
    collections::{HashMap, HashSet},
    os::fd::OwnedFd,
};

/// The largest address: `struct sockaddr_storage`.
const LARGEST: usize = 128;
/// The largest with a path: `struct sockaddr_un`.
const LONGEST: usize = size_of::<libc::sockaddr_un>();
/// When there are so many names, and twice what was left of them the last time, it is looked which of them nobody has.
const MANY: usize = 64;
/// `AF_UNIX`
const LOCAL: [u8; 2] = (libc::AF_UNIX as u16).to_ne_bytes();

/// The path of an address, if it is one. The kernel refuses what is too long for one.
pub(super) fn path_of(address: &[u8]) -> Option<&[u8]> {
    let path = address.strip_prefix(&LOCAL).filter(|_| address.len() <= LONGEST)?;
    // One that begins with NUL is a name, and none has none.
    if path.first().is_none_or(|&byte| byte == 0) {
        return None;
    }
    Some(path.split(|&byte| byte == 0).next().unwrap_or(path))
}

fn address(caller: &Caller, at: usize, len: usize) -> Result<Vec<u8>> {
    let len = caller.word(len).cast_signed();
    if len < 0 || len as usize > LARGEST {
        return Err(Errno::EINVAL);
    }
    let mut address = vec![0; len as usize];
    if !address.is_empty()
        && memory::read(caller.tid, caller.args[at], &mut address)? != address.len()
    {
        return Err(Errno::EFAULT);
    }
    Ok(address)
}

/// Sockets that were given names in the tree.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// By device and number: the address on the host, in the private directory. A file may have many names.
    bound: HashMap<(u64, u64), Bound>,
    /// As they were given, by where the kernel has them: a socket has its name longer than its file has one.
    names: HashMap<Vec<u8>, Vec<u8>>,
    /// So many were left of these.
    left: usize,
    next: u64,
}

#[derive(Debug)]
struct Bound {
    file: File,
    /// Where the kernel has it: which one in the private directory, by what path it was bound, and which file that is.
    number: u64,
    host: Vec<u8>,
    id: HostId,
}

/// An address on the host, and what must stay open as long as it is used.
pub(super) struct Place(pub(super) Vec<u8>, pub(super) Option<OwnedFd>);

fn local(path: &[u8]) -> Vec<u8> {
    [&LOCAL[..], path, b"\0"].concat()
}

/// Finds the socket that a path leads to in the tree; what the kernel told of one of the tree is the path that it was bound to.
///
/// # Errors
///
/// - those of the lookup.
/// - `EROFS`: it is no socket, and its file system is read-only.
/// - `EACCES`: it may not be written.
/// - `ECONNREFUSED`: it is no socket, or nobody has it.
pub(super) fn find(engine: &mut Engine, caller: &Caller, path: &[u8]) -> Result<Place> {
    let given = engine.sockets.names.get(path).cloned();
    let path = given.as_deref().unwrap_or(path);
    let base = engine.base(caller, AT_FDCWD, path)?;
    let file = engine.task.openat(base.at(), path, OpenFlags::PATH, 0)?;
    let flags = AtFlags::EACCESS | AtFlags::EMPTY_PATH;
    match engine.task.faccessat2(At::Dir(&file), b"", AccessMode::W_OK, flags) {
        Ok(()) => {}
        // Whether the mount is read-only is not asked here, only by access(2), and after all else.
        Err(Errno::EROFS) if !is_on_read_only(engine, &file) => {}
        Err(errno) => return Err(errno),
    }
    let stat = engine.task.fstat(&file)?;
    if FileType::from_mode(stat.st_mode) != Some(FileType::Socket) {
        return Err(Errno::ECONNREFUSED);
    }
    if let Some(bound) = engine.sockets.bound.get(&(stat.st_dev, stat.st_ino)) {
        let held = engine.cookies.hold_socket(bound.number, bound.id);
        return held.map(place).map_err(|errno| match errno {
            Errno::ENOENT => Errno::ECONNREFUSED,
            errno => errno,
        });
    }
    file.host_place()?.map(place).ok_or(Errno::ECONNREFUSED)
}

/// Whether a file's file system is read-only, whatever its mount is.
fn is_on_read_only(engine: &Engine, file: &File) -> bool {
    let (mask, flags) = (StatxMask::MNT_ID_UNIQUE, AtFlags::EMPTY_PATH);
    let told = engine
        .task
        .statx(At::Dir(file), b"", flags, mask)
        .and_then(|stat| engine.task.statmount(stat.stx_mnt_id, StatmountMask::SB_BASIC));
    told.is_ok_and(|told| told.sb_flags.contains(MountFlags::RDONLY))
}

/// The address of a socket that is held.
fn place(host: OwnedFd) -> Place {
    Place(local(by_number(&host).as_bytes()), Some(host))
}

pub(crate) fn connect(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let fd = engine.fetch(caller, caller.fd(0))?;
    let mut address = address(caller, 1, 2)?;
    let is_local = socket::option(&fd, libc::SO_DOMAIN)? == libc::AF_UNIX;
    engine.still_waits(caller)?;
    let mut stays = None;
    if let Some(path) = path_of(&address).filter(|_| is_local) {
        let path = path.to_vec();
        Place(address, stays) = find(engine, caller, &path)?;
    }
    if answer(fcntl_getfl(&fd))?.contains(OFlags::NONBLOCK) {
        return done(socket::connect(&fd, &address));
    }
    // It may take as long as the other side does.
    let mut waiting = Waiting::new(engine, caller);
    later(move || {
        let connected = waiting.have(|| socket::connect(&fd, &address));
        answers(&waiting, &fd, connected.map(|()| 0));
        drop(stays);
    })
}

/// Answers a call about a socket that waited. Who waits for a time only is not to wait for all of it again.
pub(super) fn answers(waiting: &Waiting, fd: &OwnedFd, answer: Result<i64>) {
    match answer {
        Err(Errno::EINTR) if socket::gives_up_sending(fd) => {
            let _ = waiting.listener.send(waiting.id, Err(Errno::EINTR));
        }
        Err(errno) => waiting.fails(errno),
        // Who does not wait any more needs no answer.
        Ok(value) => drop(waiting.listener.send(waiting.id, Ok(value))),
    }
}

/// A socket with a path is a socket of the tree; where the kernel has it is a path of nobody's.
pub(crate) fn bind(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let fd = engine.fetch(caller, caller.fd(0))?;
    let is_local = socket::option(&fd, libc::SO_DOMAIN)? == libc::AF_UNIX;
    let address = address(caller, 1, 2)?;
    engine.still_waits(caller)?;
    let path = path_of(&address).filter(|_| is_local);
    let Some(path) = path else { return done(socket::bind(&fd, &address)) };
    let path = path.to_vec();
    let base = engine.base(caller, AT_FDCWD, &path)?;
    engine.take_umask(caller)?;
    // That of the socket, which fchmod(2) may have changed; and the umask takes from it also where the directory has ACLs for what is made in it.
    let umask = engine.task.umask(0);
    let mode = answer(fstat(&fd))?.st_mode & !umask;
    engine.task.mknodat(base.at(), &path, mode, Dev::default()).map_err(|errno| match errno {
        Errno::EEXIST => Errno::EADDRINUSE,
        errno => errno,
    })?;
    let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
    engine.sockets.next += 1;
    let number = engine.sockets.next;
    let bound = engine.task.openat(base.at(), &path, flags, 0).and_then(|file| {
        let host = engine.cookies.socket(number);
        let stat = engine.task.fstat(&file)?;
        socket::bind(&fd, &local(&host))?;
        let id = engine.cookies.socket_id(number)?;
        Ok(((stat.st_dev, stat.st_ino), Bound { file, number, host, id }))
    });
    match bound {
        Ok((id, bound)) => {
            engine.sockets.forget_nameless(&engine.task, &engine.cookies);
            engine.sockets.names.insert(bound.host.clone(), path);
            engine.sockets.bound.insert(id, bound);
            engine.sockets.forget_names();
            Ok(Reply::Value(0))
        }
        Err(errno) => {
            // As if it had not been made.
            engine.cookies.remove_socket(number);
            let _ = engine.task.unlinkat(base.at(), &path, AtFlags::empty());
            Err(errno)
        }
    }
}

impl Sockets {
    /// Forgets those whose file has no name any more: nobody finds them again.
    fn forget_nameless(&mut self, task: &Task, cookies: &Cookies) {
        self.keep(cookies, |bound| task.fstat(&bound.file).is_ok_and(|stat| stat.st_nlink > 0));
    }

    /// Forgets those that nobody has: who asks for one is refused with it and without.
    pub(crate) fn forget_unused(&mut self, cookies: &Cookies) {
        if self.bound.is_empty() {
            return;
        }
        let Some(list) = addresses() else { return };
        let paths = paths(&list);
        self.keep(cookies, |bound| paths.contains(&bound.host[..]));
    }

    /// Forgets names that nobody has, nor may find, if there may be many.
    fn forget_names(&mut self) {
        if self.names.len() < MANY.max(2 * self.left) {
            return;
        }
        let Some(list) = addresses() else { return };
        let mut stay = paths(&list);
        stay.extend(self.bound.values().map(|bound| &bound.host[..]));
        self.names.retain(|host, _| stay.contains(&host[..]));
        self.left = self.names.len();
    }

    fn keep(&mut self, cookies: &Cookies, stays: impl Fn(&Bound) -> bool) {
        self.bound.retain(|_, bound| {
            let stays = stays(bound);
            if !stays {
                cookies.remove_socket(bound.number);
            }
            stays
        });
    }

    /// An address as the program knows it.
    fn shown(&self, address: Vec<u8>) -> Vec<u8> {
        let name = path_of(&address).and_then(|path| self.names.get(path));
        name.map_or(address, |name| local(name))
    }
}

/// The addresses of all local sockets, a line each.
fn addresses() -> Option<Vec<u8>> {
    kin::read("/proc/net/unix").ok().flatten()
}

/// Those of them that are absolute paths, as all of ours are.
fn paths(list: &[u8]) -> HashSet<&[u8]> {
    let lines = list.split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| line.iter().position(|&byte| byte == b'/').map(|at| &line[at..]))
        .collect()
}

pub(crate) fn getsockname(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    name(engine, caller, Side::Own)
}

pub(crate) fn getpeername(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    name(engine, caller, Side::Peer)
}

/// Writes an address, as much of it as there is room for, and how long it is.
fn name(engine: &mut Engine, caller: &Caller, side: Side) -> Result<Reply> {
    let fd = engine.fetch(caller, caller.fd(0))?;
    let address = engine.sockets.shown(socket::name(&fd, side)?);
    let room = i32::from_ne_bytes(memory::read_exact(caller.tid, caller.args[2])?);
    engine.still_waits(caller)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    caller.put(1, &address[..address.len().min(room)])?;
    done(caller.put(2, &(address.len() as u32).to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_are_paths() {
        let local = |rest: &[u8]| [&LOCAL[..], rest].concat();
        assert_eq!(path_of(&local(b"/run/a\0\0")), Some(&b"/run/a"[..]));
        assert_eq!(path_of(&local(b"a")), Some(&b"a"[..]));
        assert_eq!(path_of(&local(b"\0name")), None);
        assert_eq!(path_of(&local(b"")), None);
        assert_eq!(path_of(b""), None);
        assert_eq!(path_of(&[2, 0, b'/', b'a']), None);
    }
}
