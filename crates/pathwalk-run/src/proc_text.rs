//! Files of a process of which the host's is not what the program is to see: who it is in the tree, what is mounted there, and nothing that
//! is for those alone who may look into it.

use crate::{
    credentials::{Credentials, Ids},
    sys::errno_of,
};
use pathwalk::{CapSet, Errno, Result};
use std::os::fd::OwnedFd;

/// `/proc/PID/status` of somebody, where the host's says who it is for the kernel.
pub(crate) fn status_of(host: OwnedFd, who: &Credentials) -> Result<Vec<u8>> {
    let text =
        std::io::read_to_string(std::fs::File::from(host)).map_err(|error| errno_of(&error))?;
    let ids = |ids: &Ids| format!("{}\t{}\t{}\t{}", ids.real, ids.effective, ids.saved, ids.fs);
    let caps = |set: CapSet| format!("{:016x}", set.bits());
    let mut out = String::new();
    for line in text.lines() {
        let (name, _) = line.split_once(':').unwrap_or((line, ""));
        let own = match name {
            "Uid" => ids(&who.user),
            "Gid" => ids(&who.group),
            "Groups" => who.groups.iter().map(|group| format!("{group} ")).collect(),
            "CapInh" => caps(who.inheritable),
            "CapPrm" => caps(who.permitted),
            "CapEff" => caps(who.effective),
            "CapBnd" => caps(who.bounding),
            "CapAmb" => caps(who.ambient),
            "NoNewPrivs" => u8::from(who.no_new_privs).to_string(),
            _ => {
                out += line;
                out += "\n";
                continue;
            }
        };
        out += &format!("{name}:\t{own}\n");
    }
    Ok(out.into_bytes())
}

/// `/proc/PID/stat` for who may not look into the process: without the addresses in its memory, and how it ended.
///
/// Linux: `do_task_stat`, where it is not permitted.
pub(crate) fn stat_for_others(host: OwnedFd) -> Result<Vec<u8>> {
    let text =
        std::io::read_to_string(std::fs::File::from(host)).map_err(|error| errno_of(&error))?;
    // The name has what it has.
    let (name, rest) = text.rsplit_once(") ").ok_or(Errno::EIO)?;
    let words = (3..).zip(rest.split_ascii_whitespace()).map(|(number, word)| match number {
        26 | 27 if word != "0" => "1",
        28..=30 | 35 | 45..=52 => "0",
        _ => word,
    });
    Ok(format!("{name}) {}\n", words.collect::<Vec<_>>().join(" ")).into_bytes())
}

/// `/proc/PID/mountstats`, of which `/proc/PID/mounts` has all that file systems have to say here.
///
/// Linux: `show_vfsstat`
pub(crate) fn mount_stats(mounts: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in mounts.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b' ');
        let (Some(source), Some(at), Some(kind)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let words = [b"device ", source, b" mounted on ", at, b" with fstype ", kind, b"\n"];
        words.iter().for_each(|word| text.extend_from_slice(word));
    }
    text
}
