//! Who asks.

use crate::error::{Error, in_words};
use pathwalk::{CapSet, Cred};
use rustix::{process, thread};

/// The credentials that the command line asks for; where it says nothing, those of this process.
pub(super) fn cred(
    uid: Option<u32>,
    gid: Option<u32>,
    groups: Option<&[u32]>,
) -> Result<Cred, Error> {
    let mut cred = match uid {
        Some(0) => Cred::root(),
        Some(uid) => Cred::user(uid, uid),
        None => own()?,
    };
    if let Some(gid) = gid {
        (cred.gid, cred.fsgid) = (gid, gid);
    }
    if let Some(groups) = groups {
        cred.groups = groups.to_vec();
    }
    Ok(cred)
}

fn own() -> Result<Cred, Error> {
    let failed = |what| move |errno: rustix::io::Errno| Error::doing(what, in_words(&errno.into()));
    let groups = process::getgroups().map_err(failed("asking for one's groups"))?;
    let caps = thread::capabilities(None).map_err(failed("asking for one's capabilities"))?;
    Ok(Cred {
        uid: process::getuid().as_raw(),
        gid: process::getgid().as_raw(),
        fsuid: process::geteuid().as_raw(),
        fsgid: process::getegid().as_raw(),
        groups: groups.iter().map(|gid| gid.as_raw()).collect(),
        caps: CapSet::from_bits_truncate(caps.effective.bits()),
        permitted: CapSet::from_bits_truncate(caps.permitted.bits()),
        security: 0,
    })
}
