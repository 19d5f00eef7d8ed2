//! Where the paths of a call begin, and what its descriptors are: files of the tree, by what stands for them on the host.

use super::{Caller, Engine};
use crate::{
    cookies::{HostId, Known, of_thread},
    sys::{answer, process},
};
use pathwalk::{At, Errno, File, OpenFlags, Result, abi::AT_FDCWD};
use rustix::fs;
use std::{os::fd::OwnedFd, sync::Arc};

/// So many threads are known by a descriptor.
const PIDFDS: usize = 256;
/// So many files are known to have no place.
const STRANGERS: usize = 1024;

/// Where a path of a call begins.
#[derive(Clone)]
pub(crate) enum Base {
    /// At the root: the path is absolute.
    Root,
    /// At a directory of the tree.
    Dir(Arc<Known>),
    /// At the root or a directory of the tree, to be asked about anew: the call is.
    Anew(Option<Arc<Known>>),
    /// Nowhere, as there is no such path or descriptor: the library says so when it comes to the path.
    Nowhere(Errno),
}

impl Base {
    /// The same for the library.
    pub(crate) fn at(&self) -> At<'_> {
        match self {
            Self::Root => At::Cwd,
            Self::Dir(known) => At::Dir(&known.file),
            Self::Anew(None) => At::Cwd.anew(),
            Self::Anew(Some(known)) => At::Dir(&known.file).anew(),
            Self::Nowhere(errno) => At::Nowhere(*errno),
        }
    }

    /// The directory, unless that is the root.
    pub(crate) fn dir(&self) -> Option<&Arc<Known>> {
        match self {
            Self::Root | Self::Nowhere(_) => None,
            Self::Dir(known) => Some(known),
            Self::Anew(known) => known.as_ref(),
        }
    }

    fn anew(self) -> Self {
        match self {
            Self::Root => Self::Anew(None),
            Self::Dir(known) => Self::Anew(Some(known)),
            Self::Anew(_) | Self::Nowhere(_) => self,
        }
    }
}

/// What a descriptor of the program is.
pub(crate) enum Descriptor {
    /// A file of the tree, and the open file of the host that the program has of it.
    Ours(Arc<Known>, OwnedFd),
    /// Something else: a pipe, a socket, a terminal, or what it was given from outside.
    Foreign(OwnedFd),
}

impl Engine {
    /// Where a path begins that a call was given with a descriptor. An empty path is not said to be wrong here.
    ///
    /// # Errors
    ///
    /// - `EBADF`: there is no such descriptor.
    /// - `ENOTDIR`: it is no file of the tree.
    /// - `EACCES`: it is a directory of the host that was not given.
    pub(crate) fn base(&mut self, caller: &Caller, fd: i32, path: &[u8]) -> Result<Base> {
        if path.first() != Some(&b'/') {
            return self.directory(caller, fd, path);
        }
        self.still_waits(caller)?;
        self.to_be_told(caller, &Base::Root, path);
        caller.base.replace(Some((Base::Root, None)));
        Ok(self.to_be_asked(Base::Root))
    }

    /// Where a path is looked up from, if the call is answered anew.
    fn to_be_asked(&self, base: Base) -> Base {
        if self.asker.asks_anew() { base.anew() } else { base }
    }

    fn to_be_told(&self, caller: &Caller, base: &Base, path: &[u8]) {
        if self.trace.listens() {
            caller.walked.borrow_mut().push((base.clone(), path.to_vec()));
        }
    }

    /// The directory that a call was given with a path, also where the path is absolute.
    ///
    /// # Errors
    ///
    /// As [`Engine::base`].
    pub(crate) fn directory(&mut self, caller: &Caller, fd: i32, path: &[u8]) -> Result<Base> {
        let base = self.known_directory(caller, fd)?;
        self.to_be_told(caller, &base, path);
        Ok(self.to_be_asked(base))
    }

    fn known_directory(&mut self, caller: &Caller, fd: i32) -> Result<Base> {
        if fd == AT_FDCWD {
            let cwd = Base::Dir(self.cwd(caller)?);
            caller.base.replace(Some((cwd.clone(), None)));
            return Ok(cwd);
        }
        self.still_waits(caller)?;
        match self.descriptor(caller, fd)? {
            Descriptor::Ours(known, _) => Ok(Base::Dir(known)),
            Descriptor::Foreign(fd) => {
                let stat = answer(fs::fstat(&fd))?;
                let directory =
                    fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory;
                Err(if directory { Errno::EACCES } else { Errno::ENOTDIR })
            }
        }
    }

    /// The current directory of a thread.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it is a directory of the host that was not given.
    /// - `ESRCH`: the thread does not wait any more.
    pub(crate) fn cwd(&mut self, caller: &Caller) -> Result<Arc<Known>> {
        let tid = caller.tid;
        let found = match self.cwds.get(tid) {
            Some(known) => Ok(known),
            None => self.cwd_of(tid),
        };
        // What was read by the number is its own.
        self.still_waits(caller)?;
        found
    }

    fn cwd_of(&mut self, tid: u32) -> Result<Arc<Known>> {
        let thread = self.thread(tid);
        let known = self.cookies.stands_for(of_thread(tid, "cwd")?).ok_or(Errno::EACCES)?;
        // Before Linux 6.9 there is none of other threads than a process's first.
        if let Ok(thread) = thread {
            self.cwds.stands(tid, thread, &known);
        }
        Ok(known)
    }

    /// What a descriptor is.
    ///
    /// # Errors
    ///
    /// - `EBADF`: there is no such.
    pub(crate) fn descriptor(&mut self, caller: &Caller, fd: i32) -> Result<Descriptor> {
        let number = fd;
        let fd = self.fetch(caller, number)?;
        let stat = answer(fs::fstat(&fd))?;
        Ok(
            match self
                .cookies
                .get(HostId::of(&stat))
                .or_else(|| self.adopt(caller.tid, number, &stat))
            {
                Some(known) => {
                    self.asker.lends(&known.file, || fd.try_clone().ok());
                    caller.base.replace(Some((Base::Dir(Arc::clone(&known)), Some(stat))));
                    Descriptor::Ours(known, fd)
                }
                None => Descriptor::Foreign(fd),
            },
        )
    }

    /// Finds the place of a file that the program has open and did not open by a path of the tree: what it was given, or the
    /// other end of a terminal. It is that file if the tree has it by the name that the host has.
    pub(super) fn adopt(&mut self, tid: u32, number: i32, stat: &fs::Stat) -> Option<Arc<Known>> {
        let id = HostId::of(stat);
        let kind = fs::FileType::from_raw_mode(stat.st_mode);
        let named = matches!(kind, fs::FileType::CharacterDevice | fs::FileType::RegularFile);
        if !named || self.strangers.contains(&id) {
            return None;
        }
        let link = format!("/proc/{tid}/fd/{number}");
        let path = fs::readlink(link, Vec::new()).ok()?.into_bytes();
        let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
        // Whoever it is now, and whatever its root: it was given.
        let task = self.people.as_ref().map_or(&self.task, |people| &people.first().task);
        let place = task.openat(At::Cwd, &path, flags, 0).ok();
        let place = place.filter(|place| path.first() == Some(&b'/') && is_on_host(place, id));
        let Some(place) = place else {
            if self.strangers.len() >= STRANGERS {
                self.strangers.clear();
            }
            self.strangers.insert(id);
            return None;
        };
        // It is open, and may be known later by who opens it here.
        let known = self.cookies.know(id, &place.place_as(OpenFlags::RDONLY));
        self.touched(id);
        Some(known)
    }

    /// Notes what an open file of the host stands for; not of what was opened by the link of a descriptor that leads to no place.
    pub(crate) fn know(&mut self, id: HostId, file: &File) -> Option<Arc<Known>> {
        if self.asker.is_stranger(id) { None } else { Some(self.cookies.know(id, file)) }
    }

    /// The open file of a descriptor of the thread's.
    ///
    /// # Errors
    ///
    /// - `EBADF`: there is no such.
    pub(crate) fn fetch(&mut self, caller: &Caller, fd: i32) -> Result<OwnedFd> {
        if fd < 0 {
            return Err(Errno::EBADF);
        }
        if let Some(pidfd) = self.pidfds.get(&caller.tid) {
            match process::descriptor(pidfd, fd) {
                // It was another thread's, who is gone.
                Err(Errno::ESRCH) => {}
                answer => return answer,
            }
        }
        let pidfd = self.new_thread(caller.tid)?;
        self.still_waits(caller)?;
        process::descriptor(&pidfd, fd)
    }

    /// A thread, as a descriptor.
    ///
    /// # Errors
    ///
    /// As [`process::thread`].
    pub(crate) fn thread(&mut self, tid: u32) -> Result<Arc<OwnedFd>> {
        match self.pidfds.get(&tid) {
            Some(pidfd) if process::is_there(pidfd) => Ok(Arc::clone(pidfd)),
            _ => self.new_thread(tid),
        }
    }

    fn new_thread(&mut self, tid: u32) -> Result<Arc<OwnedFd>> {
        if self.pidfds.len() >= PIDFDS {
            self.pidfds.clear();
        }
        let pidfd = Arc::new(process::thread(tid)?);
        self.pidfds.insert(tid, Arc::clone(&pidfd));
        Ok(pidfd)
    }
}

/// Whether a place is that file of the host.
fn is_on_host(place: &File, id: HostId) -> bool {
    let host = place.host_place().ok().flatten();
    host.is_some_and(|host| HostId::of_fd(host) == Ok(id))
}
