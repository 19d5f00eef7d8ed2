//! What a user holds: inotify_init1, inotify_add_watch, inotify_rm_watch, and reading.
//!
//! Linux: `fs/notify/inotify/inotify_user.c`; inotify(7).

use super::{group::Group, marks::Told};
use crate::{
    fs::Access,
    security::{Hooks, PathRef},
    task::{At, Task},
    vfs::Vfs,
    walk::{Lookup, lookup::keep},
};
use pathwalk_abi::{Errno, InotifyEvent, InotifyFlags, InotifyMask, Result};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// How much a user may watch: `fs.inotify.*`. Users are told apart by [`Cred::fsuid`](crate::Cred::fsuid), which follows
/// the effective user id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InotifyLimits {
    /// `max_queued_events`: how many events a queue holds.
    pub max_queued_events: u32,
    /// `max_user_instances`: how many queues a user may have.
    pub max_user_instances: u32,
    /// `max_user_watches`: how many watches a user may have.
    pub max_user_watches: u32,
}

impl Default for InotifyLimits {
    /// 16384 events, 128 queues; 65536 watches, where Linux takes a share of the machine's memory.
    fn default() -> Self {
        Self { max_queued_events: 16_384, max_user_instances: 128, max_user_watches: 65_536 }
    }
}

/// A queue of events, and the watches that fill it. Its clones are the same queue. The last one that goes takes the watches
/// away.
#[derive(Clone)]
pub struct Inotify(Arc<Instance>);

struct Instance {
    vfs: Arc<Vfs>,
    group: Arc<Group>,
    flags: InotifyFlags,
}

/// An event, as something that one can keep.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The watch; -1 where events were lost.
    pub wd: i32,
    /// What happened.
    pub mask: InotifyMask,
    /// Joins the two sides of a rename; else 0.
    pub cookie: u32,
    /// The name in the watched directory; empty where the event is about what is watched itself.
    pub name: Box<[u8]>,
}

impl Event {
    /// Events were lost.
    pub(super) fn overflow() -> Self {
        Self { wd: -1, mask: InotifyMask::Q_OVERFLOW, cookie: 0, name: Box::default() }
    }

    /// What one who watches hears. Of an inode that moves or goes nobody is told whether it is a directory.
    pub(super) fn new(wd: i32, told: &Told<'_>) -> Self {
        let mut mask = told.mask;
        if mask.intersects(InotifyMask::MOVE_SELF | InotifyMask::DELETE_SELF) {
            mask.remove(InotifyMask::ISDIR);
        }
        Self { wd, mask, cookie: told.cookie, name: told.name.into() }
    }

    /// The watch is gone.
    pub(super) fn ignored(wd: i32) -> Self {
        Self { wd, mask: InotifyMask::IGNORED, cookie: 0, name: Box::default() }
    }

    /// The event as it is written.
    pub fn as_abi(&self) -> InotifyEvent<'_> {
        InotifyEvent { wd: self.wd, mask: self.mask, cookie: self.cookie, name: &self.name }
    }
}

impl Task {
    /// `inotify_init1(flags)`: makes a queue of events. inotify_init(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: another flag than `IN_CLOEXEC` and `IN_NONBLOCK`.
    /// - `EMFILE`: the user has as many as [`InotifyLimits`] allow.
    pub fn inotify_init1(&self, flags: InotifyFlags) -> Result<Inotify> {
        if flags.bits() & !InotifyFlags::all().bits() != 0 {
            return Err(Errno::EINVAL);
        }
        let vfs = self.vfs();
        let group = vfs.notify.new_group(self.cred.fsuid, &vfs.config.inotify)?;
        Ok(Inotify(Arc::new(Instance { vfs: Arc::clone(vfs), group, flags })))
    }

    /// `inotify_add_watch(queue, path, mask)`: watches a file, or changes what it is watched for; returns the watch.
    ///
    /// The watch is on the inode: it stays where that is renamed or gets more names. inotify_add_watch(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: an unknown bit, or none.
    /// - `EBADF`: the queue is of another machine.
    /// - `EINVAL`: `IN_MASK_ADD` with `IN_MASK_CREATE`.
    /// - those of the lookup; `ENOTDIR`: `IN_ONLYDIR`, and it is no directory.
    /// - `EACCES`: the file may not be read.
    /// - `EEXIST`: `IN_MASK_CREATE`, and the queue watches the file already.
    /// - `ENOSPC`: the user has as many watches as [`InotifyLimits`] allow.
    pub fn inotify_add_watch(
        &self,
        queue: &Inotify,
        path: impl AsRef<[u8]>,
        mask: InotifyMask,
    ) -> Result<i32> {
        self.inotify_add_watchat(queue, At::Cwd, path, mask)
    }

    /// `inotify_add_watchat(queue, dir, path, mask)`: watches a file. Linux has no such call: it is
    /// [`Task::inotify_add_watch`] from a directory, or within bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::inotify_add_watch`]; `ENOENT`: the path is empty.
    pub fn inotify_add_watchat<'a>(
        &self,
        queue: &Inotify,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        mask: InotifyMask,
    ) -> Result<i32> {
        if mask.bits() & !InotifyMask::all().bits() != 0 || mask.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.must_be_ours(queue)?;
        if mask.contains(InotifyMask::MASK_ADD | InotifyMask::MASK_CREATE) {
            return Err(Errno::EINVAL);
        }
        let mut flags = Lookup::empty();
        flags.set(Lookup::FOLLOW, !mask.contains(InotifyMask::DONT_FOLLOW));
        flags.set(Lookup::DIRECTORY, mask.contains(InotifyMask::ONLYDIR));
        let held = keep(&self.request(dir.into(), path.as_ref(), flags)?)?;
        let vfs = self.vfs();
        vfs.inode_permission(held.inode(), Access::READ, &held.seen_by(self.cred.subject()))?;
        vfs.ask(Hooks::PATH_NOTIFY, |module| {
            module.path_notify(&self.cred.subject(), &PathRef::of(vfs, &held))
        })?;
        vfs.update_watch(&queue.0.group, held.inode(), mask)
    }

    /// `inotify_rm_watch(queue, wd)`: takes a watch away, which is the last that is heard of it. inotify_rm_watch(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: the queue is of another machine.
    /// - `EINVAL`: it has no such watch.
    pub fn inotify_rm_watch(&self, queue: &Inotify, wd: i32) -> Result<()> {
        self.must_be_ours(queue)?;
        self.vfs().remove_watch(&queue.0.group, wd)
    }

    fn must_be_ours(&self, queue: &Inotify) -> Result<()> {
        if Arc::ptr_eq(&queue.0.vfs, self.vfs()) { Ok(()) } else { Err(Errno::EBADF) }
    }
}

impl Inotify {
    /// `read(queue, buf)`: moves events into `buf`, as many as fit, as `struct inotify_event`s; returns how many bytes.
    /// Waits for one unless the queue was made with `IN_NONBLOCK`. [`pathwalk_abi::inotify::events`] reads them. read(2)
    ///
    /// # Errors
    ///
    /// - `EAGAIN`: there is none, and it does not wait.
    /// - `EINVAL`: the first one does not fit.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize> {
        self.0.group.read(buf, !self.0.flags.contains(InotifyFlags::NONBLOCK))
    }

    /// How many bytes there are to be read: `FIONREAD`. ioctl(2)
    pub fn bytes(&self) -> usize {
        self.0.group.bytes()
    }

    /// The events that are there, taken out one by one; it does not wait.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        std::iter::from_fn(|| self.0.group.take())
    }

    /// Waits until there is an event, for so long at most; says whether there is one. The thread sleeps meanwhile. poll(2)
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.0.group.wait_until(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Says whether there is an event, or has the waker called once when there is one: for executors, and by
    /// [`std::task::Wake`] for any callback.
    ///
    /// The waker is called in the thread that made the change, within its call: it may wake somebody, and must not call
    /// the machine itself.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.group.poll(cx)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.vfs.remove_group(&self.group);
    }
}

impl std::fmt::Debug for Inotify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inotify").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
