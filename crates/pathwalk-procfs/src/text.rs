//! What the regular files contain.
//!
//! Manual: proc_pid_status(5), proc_pid_fdinfo(5).

use crate::{
    node::{Kind, Node},
    task,
};
use pathwalk_abi::{Errno, OpenFlags, Result};
use pathwalk_core::{MountFormat, TaskInfo, Vfs};
use std::fmt::Write;

/// Where `/proc/mounts` leads.
pub(crate) const OWN_MOUNTS: &str = "self/mounts";

/// `O_LARGEFILE`, which every open of a 64-bit program implies.
const LARGEFILE: u64 = 0o100_000;

/// The contents of a file about a task, as of now.
///
/// # Errors
///
/// - `ENOENT`: the open file that it is about was closed.
/// - `ESRCH`: the task is gone.
/// - `EISDIR`: it has none.
pub(crate) fn of(vfs: &Vfs, info: &TaskInfo, node: Node) -> Result<Vec<u8>> {
    match node.kind {
        Kind::Comm => {
            let mut text = info.comm();
            text.push(b'\n');
            Ok(text)
        }
        Kind::Status => Ok(status(info)),
        Kind::FdInfo => fdinfo(info, node.fd),
        Kind::MountInfo => info.mounts(vfs, MountFormat::MountInfo).ok_or(Errno::ESRCH),
        Kind::Mounts => info.mounts(vfs, MountFormat::Mounts).ok_or(Errno::ESRCH),
        _ => Err(Errno::EISDIR),
    }
}

/// Linux: `proc_pid_status`. Memory, signals and processors are nothing that tasks have here.
fn status(info: &TaskInfo) -> Vec<u8> {
    let cred = info.cred();
    let mut text = b"Name:\t".to_vec();
    for byte in info.comm() {
        match byte {
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\\' => text.extend_from_slice(b"\\\\"),
            byte => text.push(byte),
        }
    }
    let mut rest = String::new();
    let fds = info.files().map_or(0, |files| files.numbers(0).len());
    let groups: String = cred.groups.iter().map(|group| format!("{group} ")).collect();
    // A String takes all that is written.
    let _ = write!(
        rest,
        "\nUmask:\t{:04o}\nState:\tR (running)\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\n\
         TracerPid:\t0\nUid:\t{uid}\t{fsuid}\t{fsuid}\t{fsuid}\nGid:\t{gid}\t{fsgid}\t{fsgid}\t{fsgid}\n\
         FDSize:\t{}\nGroups:\t{groups}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\n",
        info.umask().unwrap_or_default(),
        info.process(),
        info.number(),
        info.parent(),
        fds.next_multiple_of(64).max(64),
        cred.permitted.bits(),
        cred.caps.bits(),
        uid = cred.uid,
        fsuid = cred.fsuid,
        gid = cred.gid,
        fsgid = cred.fsgid,
    );
    text.extend_from_slice(rest.as_bytes());
    text
}

/// Linux: `seq_show` in `fs/proc/fd.c`.
fn fdinfo(info: &TaskInfo, fd: u32) -> Result<Vec<u8>> {
    let file = task::file(info, fd).ok_or(Errno::ENOENT)?;
    let large = if file.flags().contains(OpenFlags::PATH) { 0 } else { LARGEFILE };
    let flags = file.flags().bits() | large;
    let text = format!(
        "pos:\t{}\nflags:\t0{flags:o}\nmnt_id:\t{}\nino:\t{}\n",
        file.offset(),
        file.mount_id(),
        file.ino()
    );
    Ok(text.into())
}
