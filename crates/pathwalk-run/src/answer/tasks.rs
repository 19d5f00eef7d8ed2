//! Calls about other processes: those of the program are its own, all others are not there.

use crate::{
    credentials::By,
    engine::{Caller, Engine, Reply},
    procfs,
};
use pathwalk::{Errno, Result};

/// Its memory must stay readable for the supervisor, so it is only said.
pub(crate) fn set_dumpable(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    if caller.args[1] <= 1 { Ok(Reply::Value(0)) } else { Err(Errno::EINVAL) }
}

/// `PTRACE_ATTACH`, `PTRACE_SEIZE`
pub(crate) fn ptrace(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    may_access(engine, caller, caller.word(1))
}

/// A call whose first argument is a process.
pub(crate) fn by_pid(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    may_access(engine, caller, caller.word(0))
}

/// The kernel goes on where it is one of the program's processes, and in the tree nobody who is closed to the caller.
///
/// # Errors
///
/// - `EPERM`: it is not.
fn may_access(engine: &mut Engine, caller: &Caller, pid: u32) -> Result<Reply> {
    if !procfs::is_of_the_program(pid) {
        return Err(Errno::EPERM);
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
    Ok(Reply::Pass)
}
