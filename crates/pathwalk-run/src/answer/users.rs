//! Calls about who one is, of programs with virtual credentials; and those that make somebody.

use super::tasks;
use crate::{
    credentials::{Credentials, KEEP, Set, Which, capability},
    engine::{Caller, Engine, Reply},
    sys::memory,
    table::NAMESPACES,
};
use pathwalk::{CapSet, Errno, Result};

/// `NGROUPS_MAX`
const MOST_GROUPS: u32 = 65_536;
/// `_LINUX_CAPABILITY_VERSION_1` and so on, and how many pairs of words each has.
const VERSIONS: [(u32, usize); 3] = [(0x1998_0330, 1), (0x2007_1026, 2), (LATEST, 2)];
const LATEST: u32 = 0x2008_0522;

/// clone, whose flags are a number: no namespaces, and nobody else's child.
pub(crate) fn clones(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    if caller.word(0) & (NAMESPACES | libc::CLONE_PARENT as u32) != 0 {
        return Err(Errno::EPERM);
    }
    makes(engine, caller)
}

/// fork, vfork: the kernel makes what is made.
pub(crate) fn makes(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    if let Some(people) = &mut engine.people {
        people.makes(caller.tid)?;
    }
    Ok(Reply::Pass)
}

/// exit, exit_group
pub(crate) fn ends(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    if let Some(people) = &mut engine.people {
        people.ends(caller.tid);
    }
    Ok(Reply::Pass)
}

/// Whose call is answered.
fn own(engine: &mut Engine, caller: &Caller) -> Result<Credentials> {
    let people = engine.people.as_mut().ok_or(Errno::ENOSYS)?;
    Ok(people.who(caller.tid)?.credentials.clone())
}

/// Makes the caller somebody else.
fn become_(engine: &mut Engine, caller: &Caller, new: Credentials) -> Result<Reply> {
    if let Some(people) = &mut engine.people {
        people.become_(caller.tid, new);
    }
    Ok(Reply::Value(0))
}

fn number(id: u32) -> Result<Reply> {
    Ok(Reply::Value(id.into()))
}

pub(crate) fn getuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    number(own(engine, caller)?.user.real)
}

pub(crate) fn geteuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    number(own(engine, caller)?.user.effective)
}

pub(crate) fn getgid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    number(own(engine, caller)?.group.real)
}

pub(crate) fn getegid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    number(own(engine, caller)?.group.effective)
}

pub(crate) fn getresuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let ids = own(engine, caller)?.user;
    put_each(caller, [ids.real, ids.effective, ids.saved])
}

pub(crate) fn getresgid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let ids = own(engine, caller)?.group;
    put_each(caller, [ids.real, ids.effective, ids.saved])
}

fn put_each(caller: &Caller, ids: [u32; 3]) -> Result<Reply> {
    for (index, id) in ids.into_iter().enumerate() {
        caller.put(index, &id.to_ne_bytes())?;
    }
    Ok(Reply::Value(0))
}

fn set(engine: &mut Engine, caller: &Caller, which: Which, set: Set) -> Result<Reply> {
    let new = own(engine, caller)?.set_ids(which, set)?;
    become_(engine, caller, new)
}

pub(crate) fn setuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::User, Set::Id(caller.word(0)))
}

pub(crate) fn setgid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::Group, Set::Id(caller.word(0)))
}

pub(crate) fn setreuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::User, Set::RealEffective(caller.word(0), caller.word(1)))
}

pub(crate) fn setregid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::Group, Set::RealEffective(caller.word(0), caller.word(1)))
}

pub(crate) fn setresuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::User, Set::All([0, 1, 2].map(|index| caller.word(index))))
}

pub(crate) fn setresgid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    set(engine, caller, Which::Group, Set::All([0, 1, 2].map(|index| caller.word(index))))
}

/// It answers who was before, whether it changed anything or not.
pub(crate) fn setfsuid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let before = own(engine, caller)?.user.fs;
    set(engine, caller, Which::User, Set::Fs(caller.word(0)))?;
    number(before)
}

pub(crate) fn setfsgid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let before = own(engine, caller)?.group.fs;
    set(engine, caller, Which::Group, Set::Fs(caller.word(0)))?;
    number(before)
}

pub(crate) fn getgroups(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let groups = own(engine, caller)?.groups;
    let room = usize::try_from(caller.fd(0)).map_err(|_| Errno::EINVAL)?;
    if room != 0 {
        if room < groups.len() {
            return Err(Errno::EINVAL);
        }
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
        caller.put(1, &bytes)?;
    }
    Ok(Reply::Value(groups.len() as i64))
}

pub(crate) fn setgroups(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let own = own(engine, caller)?;
    if !own.has(CapSet::SETGID) {
        return Err(Errno::EPERM);
    }
    let count = caller.word(0);
    if count > MOST_GROUPS {
        return Err(Errno::EINVAL);
    }
    let groups = words(caller, caller.args[1], count as usize)?;
    if groups.contains(&KEEP) {
        return Err(Errno::EINVAL);
    }
    become_(engine, caller, own.set_groups(groups)?)
}

pub(crate) fn capget(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let header = header(caller);
    if caller.args[1] == 0 {
        // It was only asked which version there is.
        return match header {
            Ok(_) | Err(Errno::EINVAL) => Ok(Reply::Value(0)),
            Err(errno) => Err(errno),
        };
    }
    let (pairs, pid) = header?;
    let pid = u32::try_from(pid).map_err(|_| Errno::EINVAL)?;
    let people = engine.people.as_mut().ok_or(Errno::ENOSYS)?;
    let tid = if pid == 0 { caller.tid } else { pid };
    if !crate::procfs::is_of_the_program(tid) {
        return Err(Errno::ESRCH);
    }
    let who = people.is(tid)?;
    let Credentials { effective, permitted, inheritable, .. } = who.credentials;
    let sets = [effective, permitted, inheritable].map(|set| set.bits());
    let words = (0..pairs).flat_map(|half| sets.map(|bits| (bits >> (32 * half)) as u32));
    let bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    caller.put(1, &bytes)?;
    Ok(Reply::Value(0))
}

pub(crate) fn capset(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let (pairs, pid) = header(caller)?;
    if pid != 0 && pid.cast_unsigned() != caller.tid {
        return Err(Errno::EPERM);
    }
    let words = words(caller, caller.args[1], 3 * pairs)?;
    let set = |index: usize| {
        let bits = (0..pairs).map(|half| u64::from(words[3 * half + index]) << (32 * half)).sum();
        CapSet::from_bits_truncate(bits)
    };
    let new = own(engine, caller)?.set_caps(set(0), set(1), set(2))?;
    become_(engine, caller, new)
}

/// How many pairs of words the version has that `struct __user_cap_header_struct` says, and the process.
///
/// # Errors
///
/// - `EFAULT`: there is none.
/// - `EINVAL`: there is no such version; it is told which there is.
fn header(caller: &Caller) -> Result<(usize, i32)> {
    let [version, pid] = words(caller, caller.args[0], 2)?[..] else { return Err(Errno::EFAULT) };
    match VERSIONS.iter().find(|(known, _)| *known == version) {
        Some(&(_, pairs)) => Ok((pairs, pid.cast_signed())),
        None => {
            caller.put(0, &LATEST.to_ne_bytes())?;
            Err(Errno::EINVAL)
        }
    }
}

fn words(caller: &Caller, at: u64, count: usize) -> Result<Vec<u32>> {
    let mut bytes = vec![0; 4 * count];
    if count != 0 && memory::read(caller.tid, at, &mut bytes)? != bytes.len() {
        return Err(Errno::EFAULT);
    }
    let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

/// `SECCOMP_SET_MODE_FILTER`
pub(crate) fn seccomp(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let flags = u64::from(caller.word(1));
    filter(engine, caller, flags & libc::SECCOMP_FILTER_FLAG_TSYNC != 0)
}

/// A filter of the program's own. For the kernel it gives up all that it could get by running other programs; in the tree it must
/// have, or be root: what a filter makes of its calls a set-id program is not prepared for.
///
/// # Errors
///
/// - `EFAULT`: there is none.
/// - `EINVAL`: it is empty, or too long.
/// - `EACCES`: the caller has neither said so nor `CAP_SYS_ADMIN`.
///
/// Linux: `seccomp_prepare_filter`.
fn filter(engine: &mut Engine, caller: &Caller, for_all: bool) -> Result<Reply> {
    let program: [u8; 16] = memory::read_exact(caller.tid, caller.args[2])?;
    let len = i32::from(u16::from_ne_bytes([program[0], program[1]]));
    if !(1..=libc::BPF_MAXINSNS).contains(&len) {
        return Err(Errno::EINVAL);
    }
    let own = own(engine, caller)?;
    if !own.no_new_privs && !own.has(CapSet::SYS_ADMIN) {
        return Err(Errno::EACCES);
    }
    if let Some(people) = &mut engine.people
        && for_all
        && own.no_new_privs
    {
        people.none_new_privs(caller.tid)?;
    }
    Ok(Reply::Pass)
}

/// Those of its options that are about credentials, and `PR_SET_DUMPABLE`.
pub(crate) fn prctl(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    let old = own(engine, caller)?;
    let [_, two, three, four, five, _] = caller.args;
    let truth = |yes: bool| Ok(Reply::Value(yes.into()));
    let new = match caller.fd(0) {
        libc::PR_GET_KEEPCAPS => return truth(old.keeps_caps()),
        libc::PR_SET_KEEPCAPS => old.set_keep_caps(two)?,
        libc::PR_CAPBSET_READ => return truth(old.bounding.contains(capability(two)?)),
        libc::PR_CAPBSET_DROP => old.drop_bounding(two)?,
        libc::PR_GET_SECUREBITS => return number(old.securebits),
        libc::PR_SET_SECUREBITS => old.set_securebits(two)?,
        libc::PR_GET_NO_NEW_PRIVS if [two, three, four, five] == [0; 4] => {
            return truth(old.no_new_privs);
        }
        libc::PR_SET_NO_NEW_PRIVS if [two, three, four, five] == [1, 0, 0, 0] => {
            Credentials { no_new_privs: true, ..old }
        }
        libc::PR_CAP_AMBIENT if [four, five] == [0; 2] => match two as i32 {
            libc::PR_CAP_AMBIENT_CLEAR_ALL if three == 0 => {
                Credentials { ambient: CapSet::empty(), ..old }
            }
            libc::PR_CAP_AMBIENT_IS_SET => return truth(old.ambient.contains(capability(three)?)),
            libc::PR_CAP_AMBIENT_RAISE => old.set_ambient(three, true)?,
            libc::PR_CAP_AMBIENT_LOWER => old.set_ambient(three, false)?,
            _ => return Err(Errno::EINVAL),
        },
        libc::PR_SET_CHILD_SUBREAPER => {
            // Who takes none any more may have some.
            if let Some(people) = &mut engine.people
                && two != 0
            {
                people.reaps(caller.tid);
            }
            return Ok(Reply::Pass);
        }
        libc::PR_SET_SECCOMP if two == u64::from(libc::SECCOMP_MODE_FILTER) => {
            return filter(engine, caller, false);
        }
        libc::PR_SET_SECCOMP => return Ok(Reply::Pass),
        // It would hide which program it is.
        libc::PR_SET_MM => return Err(Errno::EPERM),
        libc::PR_SET_DUMPABLE => return tasks::set_dumpable(engine, caller),
        _ => return Err(Errno::EINVAL),
    };
    become_(engine, caller, new)
}
