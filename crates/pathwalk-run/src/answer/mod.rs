//! The calls, answered: from registers and memory to a call of the library and back. One file per kind.

pub(crate) mod open;

pub(crate) mod stat;

pub(crate) mod names;

pub(crate) mod dirs;

pub(crate) mod attr;

pub(crate) mod xattr;

pub(crate) mod exec;

pub(crate) mod handle;

pub(crate) mod watch;

pub(crate) mod socket;

pub(crate) mod message;

pub(crate) mod tasks;

pub(crate) mod ids;

pub(crate) mod users;

pub(crate) mod mounts;

pub(crate) mod layout;

use crate::{
    cpu,
    engine::{Base, Caller, Descriptor, Engine, Reply},
    sys::{process, seccomp::Listener},
};
use pathwalk::{AtFlags, Errno, Result, abi::PATH_MAX};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl},
    pipe::{PipeFlags, pipe_with},
    thread::gettid,
};
use std::{
    os::fd::OwnedFd,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// How often it is looked whether a call is waited for that is not any more, and one that is.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const LOOK_LATER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What fstat(2) would write of a file of the host's.
pub(crate) fn as_bytes(host: &rustix::fs::Stat) -> Vec<u8> {
    layout::stat(&layout::of_host(host))
}

/// What a call that has only to succeed answers.
fn done(result: Result<()>) -> Result<Reply> {
    result.map(|()| Reply::Value(0))
}

/// Has a call answered by a thread of its own, as it may take long.
///
/// # Errors
///
/// - `EAGAIN`: no thread can be made.
fn later(answer: impl FnOnce() + Send + 'static) -> Result<Reply> {
    cpu::is_to_make_a_thread();
    match std::thread::Builder::new().spawn(answer) {
        Ok(_) => Ok(Reply::Later),
        Err(_) => Err(Errno::EAGAIN),
    }
}

/// Does what waits for somebody else, for ever if need be, or until who asked for it does not wait any more, of whom this is a
/// descriptor.
///
/// # Errors
///
/// - those of what is done; `EINTR` where nobody waits.
/// - `EAGAIN`, `EMFILE`: no thread can be made.
fn as_long_as_it_waits<T: Send>(
    (listener, id): (&Listener, u64),
    thread: Option<&OwnedFd>,
    work: impl Fn() -> Result<T> + Send,
) -> Result<T> {
    let (done, works) = crate::sys::answer(pipe_with(PipeFlags::CLOEXEC))?;
    let worker = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let by = &worker;
        let does = move || {
            let _works = works;
            process::be_interruptible();
            by.store(gettid().as_raw_nonzero().get().cast_unsigned(), Relaxed);
            loop {
                match work() {
                    Err(Errno::EINTR) if listener.is_valid(id) => {}
                    done => return done,
                }
            }
        };
        let spawned = std::thread::Builder::new().spawn_scoped(scope, does);
        let working = spawned.map_err(|_| Errno::EAGAIN)?;
        let mut fds = vec![PollFd::new(&done, PollFlags::empty())];
        fds.extend(thread.map(|thread| PollFd::new(thread, PollFlags::IN)));
        loop {
            // Who ended is told of by the descriptor, if by it, and mostly at once.
            let gone = !listener.is_valid(id);
            let time = if gone { LOOK } else { LOOK_LATER };
            if gone && worker.load(Relaxed) != 0 {
                // It may not have begun to wait.
                process::interrupt(worker.load(Relaxed));
            }
            let _ = poll(&mut fds, Some(&time));
            if !fds[0].revents().is_empty() {
                break;
            }
            if fds.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
                fds.truncate(1);
            }
        }
        working.join().unwrap_or(Err(Errno::EIO))
    })
}

/// The flags of a call with a directory.
fn at_flags(caller: &Caller, index: usize) -> AtFlags {
    AtFlags::from_bits_retain(caller.word(index))
}

/// Copies a path. One that is none as such, empty or too long, is the library's to refuse, when its turn comes: flags are
/// mostly looked at before, and of two paths the first is followed before.
///
/// # Errors
///
/// - `EFAULT`: there is none.
fn any_path(caller: &Caller, index: usize, flags: AtFlags) -> Result<Vec<u8>> {
    if flags.contains(AtFlags::EMPTY_PATH) && caller.args[index] == 0 {
        return Ok(Vec::new());
    }
    match caller.path(index) {
        Err(Errno::ENAMETOOLONG) => Ok(vec![b'.'; PATH_MAX]),
        path => path,
    }
}

/// Where a path of [`any_path`] begins; of what is none as such nobody asks.
///
/// # Errors
///
/// Those of [`Engine::base`].
fn base_of(
    engine: &mut Engine,
    caller: &Caller,
    dir: i32,
    path: &[u8],
    flags: AtFlags,
) -> Result<Base> {
    let empty = path.is_empty() && !flags.contains(AtFlags::EMPTY_PATH);
    if empty || path.len() >= PATH_MAX { Ok(Base::Root) } else { engine.base(caller, dir, path) }
}

/// Whether a call names a file by its descriptor alone: `AT_EMPTY_PATH` with no path, for which there may be no pointer.
fn by_descriptor(caller: &Caller, path: usize, flags: AtFlags) -> Result<bool> {
    if !flags.contains(AtFlags::EMPTY_PATH) {
        return Ok(false);
    }
    Ok(caller.args[path] == 0 || caller.path(path)?.is_empty())
}

/// A descriptor that something is to be done with that takes an open file.
///
/// # Errors
///
/// - `EBADF`: there is no such, or it was opened with `O_PATH`.
fn open_file(engine: &mut Engine, caller: &Caller, index: usize) -> Result<Descriptor> {
    let descriptor = engine.descriptor(caller, caller.fd(index))?;
    let path = match &descriptor {
        Descriptor::Ours(known, _) => known.path,
        Descriptor::Foreign(fd) => crate::sys::answer(fcntl_getfl(fd))?.contains(OFlags::PATH),
    };
    if path { Err(Errno::EBADF) } else { Ok(descriptor) }
}
