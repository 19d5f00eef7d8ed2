//! Calls that change users and groups, of programs without virtual credentials.
//!
//! Nobody without privilege can become somebody else, as no program gains privilege by being run. Of those who have it each
//! stays who it is: the library asks with the credentials that the program began with.

use crate::engine::{Caller, Engine, Reply};
use pathwalk::{CapSet, Errno, Result};

pub(crate) fn one(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    stays(engine, &caller.args[..1])
}

pub(crate) fn two(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    stays(engine, &caller.args[..2])
}

pub(crate) fn three(engine: &mut Engine, caller: &Caller) -> Result<Reply> {
    stays(engine, &caller.args[..3])
}

/// The kernel does it where it changes nothing, or would be refused by it.
fn stays(engine: &Engine, ids: &[u64]) -> Result<Reply> {
    let cred = engine.task.cred();
    let privileged = cred.caps.intersects(CapSet::SETUID | CapSet::SETGID);
    let own = |&id: &u64| id as u32 == u32::MAX || id as u32 == cred.uid || id as u32 == cred.gid;
    if !privileged || ids.iter().all(own) { Ok(Reply::Pass) } else { Err(Errno::EPERM) }
}
