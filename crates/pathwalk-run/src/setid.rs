//! Set-id bits and capabilities of files in memory, which writing takes.
//!
//! What is written by descriptors the kernel writes, and knows nothing of what the file is in the tree. So of a file that has such bits
//! and is open for writing it is heard when that is done, and before the next call is answered the bits are gone.
//!
//! Who wrote is not told. A process with `CAP_FSETID` lets set-id bits stay: so they stay where all there ever were have it.
//!
//! Linux: `file_remove_privs`.

use crate::{
    cookies::{Cookies, HostId, is_written, look_at_all, open_of},
    engine::Engine,
    kin,
    sys::process::by_number,
    watches::info_of,
};
use pathwalk::{
    At, AtFlags, CapSet, File, InotifyMask, Result, Stat, Task,
    abi::{
        inotify::events,
        mode::{S_ISGID, S_ISUID, S_IXGRP},
    },
};
use rustix::{
    fs::{
        self,
        inotify::{self, CreateFlags, WatchFlags},
    },
    io,
};
use std::{
    collections::HashMap,
    os::fd::{BorrowedFd, OwnedFd},
};

pub(crate) const CAPABILITY: &[u8] = b"security.capability";
pub(crate) const SET_ID: u32 = S_ISUID | S_ISGID;
/// So many bytes of events are read at once.
const EVENTS: usize = 4 << 10;

/// Files that have them, and are open for writing.
pub(crate) struct SetIds {
    /// Who may change every file.
    task: Task,
    /// None where there never was such a file.
    queue: Option<OwnedFd>,
    files: HashMap<i32, (HostId, File)>,
}

impl SetIds {
    /// The task may be anybody's.
    pub(crate) fn new(mut task: Task) -> Self {
        task.set_cred(pathwalk::Cred::root());
        Self { task, queue: None, files: HashMap::new() }
    }

    /// A file was opened for writing, and the program gets this descriptor.
    pub(crate) fn opened(&mut self, fd: BorrowedFd<'_>, id: HostId, file: &File) {
        if self.has_some(file) {
            self.listen(by_number(&fd), id, file);
        }
    }

    fn has_some(&self, file: &File) -> bool {
        self.task.fstat(file).is_ok_and(|stat| stat.st_mode & SET_ID != 0)
            || self.capability(file).is_ok()
    }

    fn capability(&self, file: &File) -> Result<usize> {
        self.task.getxattrat(At::Dir(file), b"", AtFlags::EMPTY_PATH, CAPABILITY, &mut [])
    }

    /// Hears of a file from now on. Without room for one more watch it keeps what it has.
    fn listen(&mut self, path: impl rustix::path::Arg, id: HostId, file: &File) {
        if self.queue.is_none() {
            self.queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        }
        let Some(queue) = &self.queue else { return };
        if let Ok(watch) = inotify::add_watch(queue, path, WatchFlags::MODIFY) {
            self.files.entry(watch).or_insert_with(|| (id, file.place_alone()));
        }
    }

    /// Takes what all that was written until now takes; where set-id bits may stay, capabilities alone.
    pub(crate) fn take(&mut self, may_stay: impl FnOnce() -> bool) {
        let Some(queue) = self.queue.as_ref().filter(|_| !self.files.is_empty()) else { return };
        let mut written = Vec::new();
        let mut buf = [0; EVENTS];
        while let Ok(read) = io::read(queue, &mut buf)
            && read > 0
        {
            for event in events(&buf[..read]) {
                if event.mask.contains(InotifyMask::IGNORED) {
                    self.files.remove(&event.wd);
                } else if event.mask.contains(InotifyMask::Q_OVERFLOW) {
                    written.extend(self.files.values().map(|(_, file)| file.clone()));
                } else if let Some((_, file)) = self.files.get(&event.wd) {
                    written.push(file.clone());
                }
            }
        }
        if written.is_empty() {
            return;
        }
        let may_stay = may_stay();
        for file in written {
            if !may_stay {
                // Where the mount is read-only by now it has them still.
                let _ = self.take_bits(&file);
            }
            if self.capability(&file).is_ok() {
                let at = At::Dir(&file);
                let _ = self.task.removexattrat(at, b"", AtFlags::EMPTY_PATH, CAPABILITY);
            }
        }
    }

    fn take_bits(&self, file: &File) -> Result<()> {
        let Stat { st_mode: mode, .. } = self.task.fstat(file)?;
        // Without the right to be executed by the group the one bit says something else.
        let sgid = if mode & S_IXGRP != 0 { S_ISGID } else { 0 };
        let taken = mode & (S_ISUID | sgid);
        if taken == 0 {
            return Ok(());
        }
        let left = mode & 0o7777 & !taken;
        self.task.fchmodat2(At::Dir(file), b"", left, AtFlags::EMPTY_PATH)
    }

    /// Hears no more of what nobody has open.
    fn forget_unused(&mut self, cookies: &Cookies) {
        let Some(queue) = &self.queue else { return };
        for (watch, _) in self.files.extract_if(|_, (id, _)| cookies.get(*id).is_none()) {
            // It may be gone already.
            let _ = inotify::remove_watch(queue, watch);
        }
    }
}

impl Engine {
    /// Takes from what was written what writing takes.
    pub(crate) fn take_set_ids(&mut self) {
        let Self { set_ids, people, task, .. } = self;
        set_ids.take(|| match people {
            Some(people) => people.all_had(CapSet::FSETID),
            None => task.cred().caps.contains(CapSet::FSETID),
        });
    }

    /// Hears no more of what nobody has open; what was done to that before is done with.
    pub(crate) fn forget_set_ids(&mut self) {
        self.take_set_ids();
        self.set_ids.forget_unused(&self.cookies);
    }

    /// A file of which this was looked up may have got some. Who has it open for writing has it so already.
    pub(crate) fn has_set_ids(&mut self, stat: Result<Stat>) {
        let Ok(stat) = stat else { return };
        let Self { set_ids, cookies, .. } = self;
        let known = cookies.with_number(stat.st_ino).into_iter();
        let known = known.filter_map(|id| Some((id, cookies.get(id)?)));
        let known: HashMap<_, _> =
            known.filter(|(_, known)| set_ids.has_some(&known.file)).collect();
        if known.is_empty() {
            return;
        }
        // What cannot be looked at keeps what it has.
        let _ = look_at_all(|process| {
            for thread in kin::threads_with_files(process)? {
                for fd in open_of(process, thread)? {
                    let Ok(stat) = fs::stat(&fd) else { continue };
                    let id = HostId::of(&stat);
                    if let Some(known) = known.get(&id).filter(|_| is_in_memory(&stat))
                        && is_written(&info_of(&fd))?
                    {
                        set_ids.listen(&fd, id, &known.file);
                    }
                }
            }
            Ok(())
        });
    }
}

/// Whether a file of the host may be one in memory here: those have no name there.
pub(crate) fn is_in_memory(stat: &fs::Stat) -> bool {
    stat.st_nlink == 0
}
