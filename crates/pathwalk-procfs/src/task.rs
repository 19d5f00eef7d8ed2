//! What is shown of one task: names, owners, who may look, and where its links lead.
//!
//! Linux: `fs/proc/base.c`, `fs/proc/fd.c`, `ptrace_may_access`.

use crate::{
    node::{FD_MAX, Kind, Node, number},
    procfs::found,
};
use pathwalk_abi::{CapSet, Errno, FileType, OpenFlags, Result};
use pathwalk_core::{
    File, HeldPlace, InodeRef, Subject, TaskInfo,
    fs::{Emit, Found},
};
use std::sync::Arc;

/// A name in a task's directory: what it is, and its mode.
struct Entry(&'static str, Kind, FileType, u32);

const DIR: FileType = FileType::Directory;
const LINK: FileType = FileType::Symlink;
const FILE: FileType = FileType::Regular;

/// The names in a task's directory; the first is in that of a process only.
const ENTRIES: [Entry; 10] = [
    Entry("task", Kind::Threads, DIR, 0o555),
    Entry("fd", Kind::Fds, DIR, 0o500),
    Entry("fdinfo", Kind::FdInfos, DIR, 0o555),
    Entry("cwd", Kind::Cwd, LINK, 0o777),
    Entry("root", Kind::Root, LINK, 0o777),
    Entry("exe", Kind::Exe, LINK, 0o777),
    Entry("comm", Kind::Comm, FILE, 0o644),
    Entry("status", Kind::Status, FILE, 0o444),
    Entry("mountinfo", Kind::MountInfo, FILE, 0o444),
    Entry("mounts", Kind::Mounts, FILE, 0o444),
];

fn entries(node: Node) -> &'static [Entry] {
    if node.thread { &ENTRIES[1..] } else { &ENTRIES }
}

/// The task that a file is about, while it lives.
pub(crate) fn info(inode: InodeRef<'_>, node: Node) -> Option<Arc<TaskInfo>> {
    let vfs = inode.vfs();
    let process = if node.thread { None } else { vfs.process_info(node.task) };
    process.or_else(|| vfs.task_info(node.task))
}

/// What a name in a directory of a task stands for.
pub(crate) fn lookup(dir: InodeRef<'_>, node: Node, name: &[u8]) -> Option<Found> {
    let info = info(dir, node)?;
    let child = match node.kind {
        Kind::Task => {
            let entry = entries(node).iter().find(|entry| entry.0.as_bytes() == name)?;
            node.of_same(entry.1)
        }
        Kind::Threads => {
            let thread = dir.vfs().task_info(number(name)?)?;
            if thread.process() != info.process() {
                return None;
            }
            Node { kind: Kind::Task, task: thread.number(), thread: true, fd: 0 }
        }
        Kind::Fds => Node { fd: number(name)?, ..node.of_same(Kind::Fd) },
        Kind::FdInfos => Node { fd: number(name)?, ..node.of_same(Kind::FdInfo) },
        _ => return None,
    };
    found_at(dir, child)
}

/// A file of a task, if there is such.
pub(crate) fn found_at(dir: InodeRef<'_>, node: Node) -> Option<Found> {
    let info = info(dir, node)?;
    let (kind, mode) = match node.kind {
        Kind::Task => (DIR, 0o555),
        Kind::Fd => (LINK, link_mode(&file(&info, node.fd)?)),
        Kind::FdInfo => {
            file(&info, node.fd)?;
            (FILE, 0o444)
        }
        _ => {
            let entry = ENTRIES.iter().find(|entry| entry.1 == node.kind)?;
            (entry.2, entry.3)
        }
    };
    let cred = info.cred();
    Some(found(node, kind.to_mode() | mode, (cred.fsuid, cred.fsgid), dir.vfs().now()))
}

/// The link to an open file shows what it was opened for.
///
/// Linux: `tid_fd_update_inode`.
fn link_mode(file: &File) -> u32 {
    let flags = file.flags();
    if flags.contains(OpenFlags::PATH) {
        return 0;
    }
    match flags.bits() & OpenFlags::ACCMODE.bits() {
        0 => 0o500,
        1 => 0o300,
        2 => 0o700,
        // For neither reading nor writing.
        _ => 0,
    }
}

pub(crate) fn file(info: &TaskInfo, fd: u32) -> Option<File> {
    info.files()?.get(i32::try_from(fd).ok()?).ok()
}

/// Where a link of a task leads; nowhere where the task or the file is gone.
pub(crate) fn target<'v>(inode: InodeRef<'v>, node: Node) -> Option<HeldPlace<'v>> {
    let vfs = inode.vfs();
    let info = info(inode, node)?;
    match node.kind {
        Kind::Cwd => info.cwd(vfs),
        Kind::Root => info.root(vfs),
        Kind::Exe => info.exe()?.held_place(vfs),
        Kind::Fd => file(&info, node.fd)?.held_place(vfs),
        _ => None,
    }
}

/// Whether a file is about the process that asks.
pub(crate) fn is_own(inode: InodeRef<'_>, node: Node, who: &Subject<'_>) -> bool {
    let own = inode.vfs().task_info(who.task);
    let info = info(inode, node);
    own.zip(info).is_some_and(|(own, info)| own.process() == info.process())
}

/// Asks whether the subject may see what a task's links show.
///
/// # Errors
///
/// - `EACCES`: it is another's process, or a more powerful one, or gone.
///
/// Linux: `ptrace_may_access` with `PTRACE_MODE_READ_FSCREDS`.
pub(crate) fn may_read(inode: InodeRef<'_>, node: Node, who: &Subject<'_>) -> Result<()> {
    let info = info(inode, node).ok_or(Errno::EACCES)?;
    if is_own(inode, node, who) || who.capable(CapSet::SYS_PTRACE) {
        return Ok(());
    }
    let cred = info.cred();
    let same = [cred.uid, cred.fsuid].iter().all(|&uid| uid == who.fsuid)
        && [cred.gid, cred.fsgid].iter().all(|&gid| gid == who.fsgid);
    if same && who.caps.contains(cred.permitted) { Ok(()) } else { Err(Errno::EACCES) }
}

/// Lists a directory of a task.
///
/// # Errors
///
/// - `ENOENT`: the task is gone.
pub(crate) fn list(dir: InodeRef<'_>, node: Node, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
    let info = info(dir, node).ok_or(Errno::ENOENT)?;
    let from = u32::try_from(offset).unwrap_or(u32::MAX);
    match node.kind {
        Kind::Task => {
            for (index, entry) in (1..).zip(entries(node)) {
                let ino = node.of_same(entry.1).to_word();
                if index > offset && !emit(index, ino, entry.2, entry.0.as_bytes()) {
                    break;
                }
            }
        }
        Kind::Threads => {
            let threads = dir.vfs().threads(info.process());
            for number in threads.into_iter().filter(|&number| number > from) {
                let thread = Node { kind: Kind::Task, task: number, thread: true, fd: 0 };
                let name = number.to_string();
                if !emit(number.into(), thread.to_word(), DIR, name.as_bytes()) {
                    break;
                }
            }
        }
        Kind::Fds | Kind::FdInfos => {
            let (kind, shown) =
                if node.kind == Kind::Fds { (Kind::Fd, LINK) } else { (Kind::FdInfo, FILE) };
            let fds = info.files().map(|files| files.numbers(from as usize)).unwrap_or_default();
            for fd in fds.into_iter().map(i32::cast_unsigned).take_while(|&fd| fd <= FD_MAX) {
                let ino = Node { fd, ..node.of_same(kind) }.to_word();
                if !emit(u64::from(fd) + 1, ino, shown, fd.to_string().as_bytes()) {
                    break;
                }
            }
        }
        _ => return Err(Errno::ENOTDIR),
    }
    Ok(())
}
