//! Calls about other processes: those of the program are its own, all others are not there.
//!
//! Such a call names a process by a number. The number may be another one's when the kernel gets to the call, and the process may
//! have become somebody else: so the call is made here, of what was looked at, or it is waited for until it is done. Nobody runs
//! another program meanwhile, as that is answered here too.

use crate::{
    credentials::By,
    engine::{Caller, Engine, Reply},
    mapped,
    procfs::{self, OnHost},
    sys::{memory, process},
};
use pathwalk::{Errno, Result};
use rustix::fs::OFlags;
use std::{
    fs::File,
    io::Read,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

/// `UIO_MAXIOV`
const MOST_PIECES: u64 = 1024;
/// So much is copied at once.
const AT_ONCE: u64 = 256 << 10;

/// Its memory must stay readable for the supervisor, so it is only said.
pub(crate) fn set_dumpable(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    if caller.args[1] <= 1 { Ok(Reply::Value(0)) } else { Err(Errno::EINVAL) }
}

/// `PTRACE_ATTACH`, `PTRACE_SEIZE`
pub(crate) fn ptrace(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let pid = caller.word(1);
    let target = process::thread(pid).map_err(|_| Errno::ESRCH)?;
    may_access(engine, caller, pid)?;
    engine.pass_about(caller, &target)
}

pub(crate) fn process_vm_readv(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    process_vm(engine, caller, Memory::to_read)
}

pub(crate) fn process_vm_writev(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    process_vm(engine, caller, Memory::to_write)
}

/// Copies between the caller's memory and that of a process, which is opened before it is looked who that is.
///
/// # Errors
///
/// - `EINVAL`: there are flags, or too many pieces.
/// - `EFAULT`: the pieces are not there, or not what the first of them are.
/// - `ESRCH`: there is no such process of the program's.
/// - `EPERM`: it is closed to the caller.
fn process_vm(
    engine: &mut Engine,
    caller: &Caller,
    open: impl FnOnce(u32) -> Result<Memory>,
) -> Result<Reply> {
    let [_, local, local_count, remote, remote_count, flags] = caller.args;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let mut local = pieces(caller, local, local_count)?;
    if local.is_empty() {
        return Ok(Reply::Value(0));
    }
    let mut remote = pieces(caller, remote, remote_count)?;
    if remote.is_empty() {
        return Ok(Reply::Value(0));
    }
    let pid = caller.word(0);
    let memory = open(pid)?;
    may_access(engine, caller, pid)?;
    engine.still_waits(caller)?;
    let mut done = 0;
    while let (Some((here, room)), Some((there, len))) = (local.last_mut(), remote.last_mut()) {
        let copied = match memory.copy(caller, *here, *there, (*room).min(*len).min(AT_ONCE)) {
            Ok(copied) => copied,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        };
        done += copied;
        (*here, *room) = (*here + copied, *room - copied);
        (*there, *len) = (*there + copied, *len - copied);
        local.pop_if(|(_, left)| *left == 0);
        remote.pop_if(|(_, left)| *left == 0);
    }
    Ok(Reply::Value(done as i64))
}

/// The pieces of an array of `struct iovec` that are not empty, the last first.
fn pieces(caller: &Caller, at: u64, count: u64) -> Result<Vec<(u64, u64)>> {
    if count > MOST_PIECES {
        return Err(Errno::EINVAL);
    }
    let mut bytes = vec![0; 16 * count as usize];
    if count > 0 && memory::read(caller.tid, at, &mut bytes)? != bytes.len() {
        return Err(Errno::EFAULT);
    }
    let mut pieces = Vec::new();
    for piece in bytes.chunks_exact(16).rev() {
        let word = |half: &[u8]| half.try_into().map_or(0, u64::from_ne_bytes);
        let (at, len) = (word(&piece[..8]), word(&piece[8..]));
        if len > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        // What lies beyond the end is not there.
        if len > 0 {
            pieces.push((at, len.min(u64::MAX - at)));
        }
    }
    Ok(pieces)
}

/// The memory of a process.
enum Memory {
    /// By its number, as long as this says that it is there.
    Read(u32, OwnedFd),
    /// Itself, and where the process might write.
    Write(File, Vec<(u64, u64)>),
}

impl Memory {
    fn to_read(pid: u32) -> Result<Self> {
        process::thread(pid).map(|target| Self::Read(pid, target)).map_err(|_| Errno::ESRCH)
    }

    fn to_write(pid: u32) -> Result<Self> {
        let open = |name: &str, flags| {
            let file = OnHost::new(&format!("{pid}/{name}")).and_then(|file| file.open(flags));
            file.map(File::from).map_err(|errno| match errno {
                Errno::ENOENT => Errno::ESRCH,
                Errno::EACCES => Errno::EPERM,
                errno => errno,
            })
        };
        let memory = open("mem", OFlags::WRONLY)?;
        let mut maps = Vec::new();
        open("maps", OFlags::RDONLY)?.read_to_end(&mut maps).map_err(|_| Errno::ESRCH)?;
        Ok(Self::Write(memory, mapped::writable(&String::from_utf8_lossy(&maps))))
    }

    /// Copies so many bytes between here, in the caller's memory, and there, or fewer.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: nothing is in one of the places.
    /// - `ESRCH`: the process is gone.
    fn copy(&self, caller: &Caller, here: u64, there: u64, len: u64) -> Result<u64> {
        let mut bytes = vec![0; len as usize];
        match self {
            Self::Read(pid, target) => {
                let read = memory::read(*pid, there, &mut bytes)?;
                if !process::is_there(target) {
                    return Err(Errno::ESRCH);
                }
                memory::write(caller.tid, here, &bytes[..read])?;
                Ok(read as u64)
            }
            Self::Write(target, maps) => {
                // The file takes what the process itself may not write too.
                let map = maps.iter().find(|(start, end)| (*start..*end).contains(&there));
                let room = map.ok_or(Errno::EFAULT)?.1 - there;
                bytes.truncate(room.min(len) as usize);
                let read = memory::read(caller.tid, here, &mut bytes)?;
                target.write_all_at(&bytes[..read], there).map_err(|_| Errno::EFAULT)?;
                Ok(read as u64)
            }
        }
    }
}

/// Whether it is one of the program's processes, and in the tree nobody who is closed to the caller.
///
/// # Errors
///
/// - `ESRCH`: it is none.
/// - `EPERM`: it is closed.
fn may_access(engine: &mut Engine, caller: &Caller, pid: u32) -> Result<()> {
    if !procfs::is_of_the_program(pid) {
        return Err(Errno::ESRCH);
    }
    let same = || procfs::process_of_thread(pid) == procfs::process_of_thread(caller.tid);
    if let Some(people) = &mut engine.people
        && !same()
    {
        let (own, target) = (people.who(caller.tid)?, people.is(pid)?);
        if !own.credentials.may_access(&target.credentials, By::Real) {
            return Err(Errno::EPERM);
        }
    }
    Ok(())
}
