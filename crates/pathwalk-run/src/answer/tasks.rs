//! Calls about other processes: those of the program are its own, all others are not there.
//!
//! Such a call names a process by a number. The number may be another one's when the kernel gets to the call, and the process may
//! have become somebody else: so the call is made here, of what was looked at, or it is waited for until it is done. Nobody begins to run
//! another program meanwhile, as that is answered here too; and who is about to is asked for as who it is and who it will be.

use super::wait::later;
use crate::{
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
    sync::Arc,
};

/// `UIO_MAXIOV`
const MOST_PIECES: u64 = 1024;
/// So much is copied at once.
const AT_ONCE: u64 = 256 << 10;
/// So much one call copies at most.
const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// `PR_SET_SECCOMP`, `PR_SET_DUMPABLE`
pub(crate) fn prctl(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    if caller.word(0) == libc::PR_SET_SECCOMP as u32 {
        seccomp(engine, caller)
    } else {
        set_dumpable(engine, caller)
    }
}

/// The kernel reads the filter; what it may not see any more is not made from there on.
pub(crate) fn seccomp(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    engine.still_waits(caller)?;
    let all = caller.word(0) == libc::SECCOMP_SET_MODE_FILTER
        && caller.args[1] & libc::SECCOMP_FILTER_FLAG_TSYNC != 0;
    engine.finds_no_more(caller, all)?;
    Ok(Reply::Pass)
}

/// Its memory must stay readable for the supervisor, so it is only said.
pub(crate) fn set_dumpable(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    if caller.args[1] <= 1 { Ok(Reply::Value(0)) } else { Err(Errno::EINVAL) }
}

/// Where a thread may run, asked when nobody is kept on a CPU: the kernel would be asked when somebody may be again.
///
/// # Errors
///
/// - `EINVAL`: there is no room for all CPUs, or that is no number of words.
/// - `ESRCH`: there is no such thread.
/// - `EFAULT`: the room is not there.
pub(crate) fn affinity(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    engine.nobody_stays();
    let tid = if caller.word(0) == 0 { caller.tid } else { caller.word(0) };
    let mask = process::affinity(tid, caller.word(1))?;
    caller.put(2, &mask)?;
    Ok(Reply::Value(mask.len() as i64))
}

/// What says where somebody runs, or by which policy: the kernel's to do. Nobody is kept on a CPU from then on, also where it is refused: that is not
/// known before.
pub(crate) fn says_who_runs(engine: &mut Engine, _: &Caller) -> Result<Reply> {
    engine.nobody_stays_again();
    Ok(Reply::Pass)
}

/// `PTRACE_ATTACH`, `PTRACE_SEIZE`
pub(crate) fn ptrace(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let pid = caller.word(1);
    let target = process::thread(pid).map_err(|_| Errno::ESRCH)?;
    may_access(engine, caller, pid)?;
    engine.pass_about(caller, &target)
}

/// The address of the list of robust futexes of a thread, of what size it is.
pub(crate) fn get_robust_list(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let pid = caller.word(0);
    let target = process::thread(pid).map_err(|_| Errno::ESRCH)?;
    may_access(engine, caller, pid)?;
    let (head, len) = process::robust_list(pid)?;
    if !process::is_there(&target) {
        return Err(Errno::ESRCH);
    }
    caller.put(2, &len.to_ne_bytes())?;
    caller.put(1, &head.to_ne_bytes())?;
    Ok(Reply::Value(0))
}

/// How large a core may become. It is written into the current directory, which is not what the kernel takes for it: so there is none, and
/// nobody raises the limit.
///
/// # Errors
///
/// - `EINVAL`: what is to hold now is more than what may ever hold.
/// - `EPERM`: it is not 0.
fn no_core(new: Option<u128>) -> Result<u128> {
    // `struct rlimit`: what holds now comes first.
    let [now, most] = new.map_or([0, 0], |new| [new as u64, (new >> 64) as u64]);
    match (now, most) {
        _ if now > most => Err(Errno::EINVAL),
        (_, 1..) => Err(Errno::EPERM),
        _ => Ok(0),
    }
}

/// Sets how large a core may become.
///
/// # Errors
///
/// - `EFAULT`: the new limit is not there.
/// - those of [`no_core`].
pub(crate) fn setrlimit(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    no_core(Some(memory::read_exact(caller.tid, caller.args[1]).map(u128::from_ne_bytes)?))?;
    Ok(Reply::Value(0))
}

/// Another process's limits are for who has the same ids, or `CAP_SYS_RESOURCE`. The kernel, to which they are all one, does the rest.
///
/// # Errors
///
/// - `EFAULT`: the new limit is not there.
/// - `ESRCH`: there is no such process of the program's.
/// - `EPERM`: it is closed to the caller; or the kernel's user may not raise the limit.
/// - `EINVAL`: there is no such limit, or it is larger than the largest.
/// - `EFAULT`: there is no room for the old limit, and the new one is set.
///
/// Linux: `check_prlimit_permission`.
pub(crate) fn prlimit64(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let [_, _, new, old, ..] = caller.args;
    let new = match new {
        0 => None,
        at => Some(memory::read_exact(caller.tid, at).map(u128::from_ne_bytes)?),
    };
    // Of one's own only that of cores is answered here.
    let (pid, of_core) = (caller.word(0), caller.word(1) == libc::RLIMIT_CORE);
    let own = of_core && pid == 0;
    let _target = (!own).then(|| process::thread(pid).map_err(|_| Errno::ESRCH)).transpose()?;
    if !own && !procfs::is_of_the_program(pid) {
        return Err(Errno::ESRCH);
    }
    if let Some(people) = &mut engine.people
        && !own
        && pid != caller.tid
    {
        let own = people.who(caller.tid)?;
        people.limits_are_open(pid, &own.credentials)?;
    }
    engine.still_waits(caller)?;
    let before = if of_core { no_core(new)? } else { process::limit(pid, caller.word(1), new)? };
    if old != 0 {
        caller.put(3, &before.to_ne_bytes())?;
    }
    Ok(Reply::Value(0))
}

pub(crate) fn process_vm_readv(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    process_vm(engine, caller, Direction::Read)
}

pub(crate) fn process_vm_writev(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    process_vm(engine, caller, Direction::Write)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// Copies between the caller's memory and that of a process, which is opened before it is looked who that is. Much is copied by a
/// thread of its own.
///
/// # Errors
///
/// - `EINVAL`: there are flags, or too many pieces.
/// - `EFAULT`: the pieces are not there, or not what the first of them are.
/// - `ESRCH`: there is no such process of the program's.
/// - `EPERM`: it is closed to the caller.
fn process_vm(engine: &mut Engine, caller: &Caller, direction: Direction) -> Result<Reply> {
    let [_, local, local_count, remote, remote_count, flags] = caller.args;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let mut local = pieces(caller, local, local_count)?;
    limit_to(MAX_RW_COUNT, &mut local);
    if local.is_empty() {
        return Ok(Reply::Value(0));
    }
    let remote = pieces(caller, remote, remote_count)?;
    if remote.is_empty() {
        return Ok(Reply::Value(0));
    }
    let pid = caller.word(0);
    let sum =
        |pieces: &[(u64, u64)]| pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.1));
    let much = sum(&local).min(sum(&remote)) > AT_ONCE;
    let there = match direction {
        Direction::Read if !much => Memory::by_number(pid)?,
        _ => Memory::opened(pid)?,
    };
    if direction == Direction::Write
        && let Some(process) = engine.patches.with_new_memory(pid)
    {
        return Ok(Reply::AfterExec(process));
    }
    may_access(engine, caller, pid)?;
    let here = if much { Memory::opened(caller.tid)? } else { Memory::ByNumber(caller.tid, None) };
    engine.still_waits(caller)?;
    let copy = Copy { direction, here, there };
    if !much {
        return copy.all(local, remote, || true).map(Reply::Value);
    }
    let (listener, id) = (Arc::clone(&engine.listener), caller.id);
    later(move || {
        // Who does not wait any more needs no answer.
        let copied = copy.all(local, remote, || listener.is_valid(id));
        let _ = listener.send(id, copied);
    })
}

/// Leaves out what is beyond so many bytes of pieces, of which the last comes first.
fn limit_to(most: u64, pieces: &mut Vec<(u64, u64)>) {
    let mut left = most;
    for (_, len) in pieces.iter_mut().rev() {
        *len = left.min(*len);
        left -= *len;
    }
    pieces.retain(|(_, len)| *len > 0);
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
    /// By its number, as long as this says that it is there; or that of who waits meanwhile.
    ByNumber(u32, Option<OwnedFd>),
    /// Itself, whatever program the process runs by then, and its maps.
    Opened(File, String),
}

impl Memory {
    fn by_number(pid: u32) -> Result<Self> {
        let target = process::thread(pid).map_err(|_| Errno::ESRCH)?;
        Ok(Self::ByNumber(pid, Some(target)))
    }

    fn opened(pid: u32) -> Result<Self> {
        let open = |name: &str, flags| {
            let file = OnHost::new(&format!("{pid}/{name}")).and_then(|file| file.open(flags));
            file.map(File::from).map_err(|errno| match errno {
                Errno::ENOENT => Errno::ESRCH,
                Errno::EACCES => Errno::EPERM,
                errno => errno,
            })
        };
        let memory = open("mem", OFlags::RDWR)?;
        let mut maps = Vec::new();
        open("maps", OFlags::RDONLY)?.read_to_end(&mut maps).map_err(|_| Errno::ESRCH)?;
        Ok(Self::Opened(memory, String::from_utf8_lossy(&maps).into_owned()))
    }
}

/// A copying between the caller's memory, here, and that of another process.
struct Copy {
    direction: Direction,
    here: Memory,
    there: Memory,
}

impl Copy {
    /// Copies as much as there is, and says how much; no more when nobody waits.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: nothing is in the first of the places.
    /// - `ESRCH`: the process is gone.
    fn all(
        self,
        mut local: Vec<(u64, u64)>,
        mut remote: Vec<(u64, u64)>,
        waits: impl Fn() -> bool,
    ) -> Result<i64> {
        let (mut from, mut to) = match self.direction {
            Direction::Read => (Place::new(self.there, 'r'), Place::new(self.here, 'w')),
            Direction::Write => (Place::new(self.here, 'r'), Place::new(self.there, 'w')),
        };
        let mut bytes = vec![0; AT_ONCE as usize];
        let mut done = 0;
        while let (Some((here, room)), Some((there, len))) = (local.last_mut(), remote.last_mut())
            && waits()
        {
            let bytes = &mut bytes[..(*room).min(*len).min(AT_ONCE) as usize];
            let (source, target) = match self.direction {
                Direction::Read => (*there, *here),
                Direction::Write => (*here, *there),
            };
            let copied = from.read(source, bytes).and_then(|read| to.write(target, &bytes[..read]));
            let copied = match copied {
                Ok(copied) => copied as u64,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            };
            done += copied;
            (*here, *room) = (*here + copied, *room - copied);
            (*there, *len) = (*there + copied, *len - copied);
            local.pop_if(|(_, left)| *left == 0);
            remote.pop_if(|(_, left)| *left == 0);
        }
        Ok(done as i64)
    }
}

/// The memory of a process, for one of the two.
pub(super) struct Place {
    memory: Memory,
    /// What the process itself may do so with: the file gives more.
    ranges: Vec<(u64, u64)>,
}

impl Place {
    fn new(memory: Memory, right: char) -> Self {
        let ranges = match &memory {
            Memory::ByNumber(..) => Vec::new(),
            Memory::Opened(_, maps) => mapped::with_right(maps, right),
        };
        Self { memory, ranges }
    }

    /// The memory of who waits, to be written in the end: that of the program that made the call, whatever it runs by then.
    ///
    /// # Errors
    ///
    /// - `ESRCH`, `EPERM`: it is gone. `EMFILE`: no descriptor is left.
    pub(super) fn of_who_waits(tid: u32) -> Result<Self> {
        Memory::opened(tid).map(|memory| Self::new(memory, 'w'))
    }

    /// How many bytes there are from an address on, without a gap.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: there are none.
    fn room(&self, at: u64) -> Result<u64> {
        let after = self.ranges.partition_point(|(_, end)| *end <= at);
        match self.ranges.get(after) {
            Some((start, end)) if *start <= at => Ok(end - at),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Reads as many bytes as there are.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: there are none.
    /// - `ESRCH`: the process is gone.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<usize> {
        match &self.memory {
            Memory::ByNumber(pid, target) => {
                let read = memory::read(*pid, at, bytes)?;
                if target.as_ref().is_some_and(|target| !process::is_there(target)) {
                    return Err(Errno::ESRCH);
                }
                Ok(read)
            }
            Memory::Opened(file, _) => {
                let len = self.room(at)?.min(bytes.len() as u64) as usize;
                match file.read_at(&mut bytes[..len], at) {
                    Ok(read) if read > 0 => Ok(read),
                    _ => Err(Errno::EFAULT),
                }
            }
        }
    }

    /// Writes as many bytes as there is room for.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: there is none.
    /// - `ESRCH`: the process is gone.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<usize> {
        match &self.memory {
            Memory::ByNumber(pid, _) => memory::write(*pid, at, bytes).map(|()| bytes.len()),
            Memory::Opened(file, _) => {
                let len = self.room(at)?.min(bytes.len() as u64) as usize;
                match file.write_at(&bytes[..len], at) {
                    Ok(written) if written > 0 => Ok(written),
                    _ => Err(Errno::EFAULT),
                }
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
    if let Some(people) = &mut engine.people
        && !procfs::are_one_process(pid, caller.tid)
    {
        let own = people.who(caller.tid)?;
        people.is_open(pid, &own.credentials)?;
    }
    Ok(())
}
