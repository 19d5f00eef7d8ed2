//! Calls about other processes: those of the program are its own, all others are not there.

use crate::{
    engine::{Caller, Engine, Reply},
    procfs,
};
use pathwalk::{Errno, Result};

/// Its memory must stay readable for the supervisor, so it is only said.
pub(crate) fn set_dumpable(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    if caller.args[1] <= 1 { Ok(Reply::Value(0)) } else { Err(Errno::EINVAL) }
}

/// `PTRACE_ATTACH`, `PTRACE_SEIZE`
pub(crate) fn ptrace(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    of_the_program(caller.word(1))
}

/// A call whose first argument is a process.
pub(crate) fn by_pid(_: &mut Engine, caller: &Caller) -> Result<Reply> {
    of_the_program(caller.word(0))
}

fn of_the_program(pid: u32) -> Result<Reply> {
    if procfs::is_of_the_program(pid) { Ok(Reply::Pass) } else { Err(Errno::EPERM) }
}
