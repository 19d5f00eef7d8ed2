//! What the host tells of what others do: to watched directories and files, and of mounts.
//!
//! Manual: inotify(7), epoll(7), proc_pid_mountinfo(5).

use super::{Host, MOUNTS, answer, by_number};
use crate::let_go::leave_behind;
use pathwalk_abi::{Errno, Result};
use rustix::{
    event::{Timespec, epoll},
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, Mode, OFlags, inotify},
    io,
};
use std::{ffi::CStr, mem::MaybeUninit};

/// An event takes at least so many bytes, inotify(7).
const EVENT_BYTES: u64 = 16;

/// By what the host tells of what others do.
#[derive(Debug)]
pub(crate) struct News {
    /// What happens in watched directories.
    queue: OwnedFd,
    ear: Ear,
    /// Of whose mounts it tells.
    namespace: (u64, u64),
}

/// By what some threads hear that there is something to be read. Others have another one: threads that ask by one descriptor meet in the
/// kernel at its count, and of what is mounted each is told once.
#[derive(Debug)]
pub(crate) struct Ear {
    /// Ready where the queue is, or where something was mounted or unmounted.
    ready: OwnedFd,
    /// The list of mounts, of whose changes `ready` tells as long as this is open.
    _mounts: OwnedFd,
}

impl News {
    /// Ready where anything happened in a watched directory that was not noted yet. Not what was mounted: of that one is told who asks
    /// first, and once.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// This process is about to end: see [`HostFs::ends`](crate::HostFs::ends).
    pub(crate) fn ends(&self) {
        leave_behind(self.queue.as_fd());
    }
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Which descriptor is ready.
const QUEUE: u64 = 0;
const MOUNTED: u64 = 1;

/// What happened in a watched directory.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    /// Which watch tells.
    pub(crate) number: i32,
    /// The name that it is about; none is the directory itself.
    pub(crate) name: Option<&'a [u8]>,
    pub(crate) what: What,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    /// Anything else: one that has several names.
    File,
}

/// What an event is beside one of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Others were lost.
    Lost,
    /// Something was mounted or unmounted.
    Mounted,
    /// The watch is no more.
    Ends,
    Else,
}

impl Host {
    /// What tells of watched directories, none yet, and of mounts.
    pub(crate) fn news(&self) -> Result<News> {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let queue = self.call(|| inotify::init(flags))?;
        let namespace = self.mount_namespace()?;
        let ear = self.listens(&queue)?;
        Ok(News { queue, ear, namespace })
    }

    /// Another ear, which is told of what is mounted from now on.
    ///
    /// # Errors
    ///
    /// - `EXDEV`: the process has another mount namespace by now, and would be told of that one's mounts.
    pub(crate) fn ear(&self, news: &News) -> Result<Ear> {
        let ear = self.listens(&news.queue)?;
        // As long as it is told of, no later one has its number.
        if self.mount_namespace()? == news.namespace { Ok(ear) } else { Err(Errno::EXDEV) }
    }

    /// By what the mount namespace of the process differs from others that there are.
    fn mount_namespace(&self) -> Result<(u64, u64)> {
        let stat = self.look(|| fs::stat("/proc/self/ns/mnt"))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    fn listens(&self, queue: &OwnedFd) -> Result<Ear> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = self.look(|| fs::open(MOUNTS, flags, Mode::empty()))?;
        let ready = self.look(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
        for (fd, number, what) in
            [(queue, QUEUE, epoll::EventFlags::IN), (&mounts, MOUNTED, epoll::EventFlags::PRI)]
        {
            self.look(|| epoll::add(&ready, fd, epoll::EventData::new_u64(number), what))?;
        }
        Ok(Ear { ready, _mounts: mounts })
    }

    /// Watches what is held: of a directory its names, what they stand for but for their contents, and itself, and with that the
    /// contents too; of a file itself, and its contents likewise.
    ///
    /// Not that anybody reads (`IN_ACCESS`): each reading of ours would be told, and what is read be asked about at each use.
    pub(crate) fn add_watch(
        &self,
        news: &News,
        held: BorrowedFd<'_>,
        kind: Kind,
        contents: bool,
    ) -> Result<i32> {
        let mut what = inotify::WatchFlags::ATTRIB
            | inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::DELETE_SELF;
        if kind == Kind::Directory {
            what |= inotify::WatchFlags::CREATE
                | inotify::WatchFlags::DELETE
                | inotify::WatchFlags::MOVE
                | inotify::WatchFlags::ONLYDIR;
        }
        what.set(inotify::WatchFlags::MODIFY, contents);
        self.call(|| inotify::add_watch(&news.queue, by_number(held), what))
    }

    /// Watches the directory that a held one lies in, for that to be removed or moved.
    ///
    /// # Errors
    ///
    /// - `EACCES`: who may not read it is told nothing.
    pub(crate) fn add_watch_above(&self, news: &News, above: BorrowedFd<'_>) -> Result<i32> {
        let what = inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::ONLYDIR
            // It may be watched already, as a directory of its own that is mounted below.
            | inotify::WatchFlags::MASK_ADD;
        self.call(|| inotify::add_watch(&news.queue, by_number(above), what))
    }

    pub(crate) fn remove_watch(&self, news: &News, number: i32) {
        // It went with its directory otherwise.
        let _ = self.call(|| inotify::remove_watch(&news.queue, number));
    }

    /// Whether nothing has happened of which this ear heard.
    pub(crate) fn is_quiet(&self, ear: &Ear) -> Result<bool> {
        let mut ready = [MaybeUninit::uninit(); 2];
        let (ready, _) = self.look(|| epoll::wait(&ear.ready, &mut ready[..], Some(&AT_ONCE)))?;
        Ok(ready.is_empty())
    }

    /// Whether somebody else asks for news, and has done so already.
    pub(crate) fn has_been_asked(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.has_asked())
    }

    /// Tells of all that has happened: one call of the host where that is nothing. If it is something, `begins` is called before any of it
    /// is taken out of the queue. Says whether it was asked.
    pub(crate) fn events(
        &self,
        news: &News,
        begins: impl FnOnce(),
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<bool> {
        if self.has_been_asked() {
            return Ok(false);
        }
        let mut ready = [MaybeUninit::uninit(); 2];
        let (ready, _) =
            self.look(|| epoll::wait(&news.ear.ready, &mut ready[..], Some(&AT_ONCE)))?;
        if !ready.is_empty() {
            self.say_news();
            begins();
        }
        for event in ready {
            if event.data.u64() == MOUNTED {
                tell(Event { number: 0, name: None, what: What::Mounted });
            } else {
                self.queued(news, tell)?;
            }
        }
        Ok(true)
    }

    /// Those that were there when it began, and what came with the last of them: others can write as fast as it is read here.
    fn queued(&self, news: &News, tell: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let mut at_most = self.look(|| io::ioctl_fionread(&news.queue))? / EVENT_BYTES;
        let mut buf = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&news.queue, &mut buf);
        while at_most > 0 || !events.is_buffer_empty() {
            at_most = at_most.saturating_sub(1);
            if events.is_buffer_empty() {
                self.looks.get();
            }
            match events.next() {
                Ok(event) => tell(Event {
                    number: event.wd(),
                    name: event.file_name().map(CStr::to_bytes),
                    what: if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                        What::Lost
                    } else if event.events().contains(inotify::ReadFlags::IGNORED) {
                        What::Ends
                    } else {
                        What::Else
                    },
                }),
                Err(io::Errno::AGAIN) => return Ok(()),
                Err(errno) => return answer(Err(errno)),
            }
        }
        Ok(())
    }
}
