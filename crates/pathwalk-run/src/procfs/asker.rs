//! Who asks.

use super::{OnHost, are_one_process, is_of_the_program, process_of_thread, status};
use crate::{
    cookies::HostId,
    credentials::By,
    hidden::Hidden,
    image::Images,
    people::{Person, Thread, Threads},
    unseen::Unseen,
};
use parking_lot::Mutex;
use pathwalk::{Errno, File, Result};
use rustix::fs::{self, OFlags};
use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
};

/// Whose call is being answered, and by which task of the library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asker(pub(super) Arc<Asked>);

#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) tid: AtomicU32,
    pub(super) task: AtomicU32,
    /// Processes find answers by themselves.
    pub(super) finds: AtomicBool,
    pub(super) unseen: Unseen,
    /// Those that have virtual credentials.
    pub(super) threads: Threads,
    /// Which programs run by interpreters.
    pub(super) images: Images,
    /// The thread whose memory was opened for the call, to be written.
    pub(super) memory: AtomicU32,
    /// What was opened for the call and is no file of the tree.
    pub(super) strangers: Mutex<Vec<HostId>>,
    /// The links that were read for the call and lead to no file of the tree: what leads on, and whose it is.
    pub(super) links: Mutex<Vec<(Vec<u8>, Hidden)>>,
    /// A link was read for the call that leads to a file of the tree.
    linked: AtomicBool,
    /// The call is answered anew, and the files that it was given are reached by these, that have them open.
    lent: Mutex<Option<Vec<File>>>,
}

impl Asker {
    /// A call of this thread is answered from now on.
    pub(crate) fn set(&self, tid: u32) {
        self.0.tid.store(tid, Relaxed);
        self.0.memory.store(0, Relaxed);
        self.0.linked.store(false, Relaxed);
        self.0.strangers.lock().clear();
        self.0.links.lock().clear();
    }

    /// The call is answered anew: the files that it was given are reached by what the process has open.
    pub(crate) fn ask_anew(&self) {
        self.0.lent.lock().get_or_insert_default();
    }

    pub(crate) fn asks_anew(&self) -> bool {
        self.0.lent.lock().is_some()
    }

    /// A file that a link leads to for the call; as [`Asker::lends`].
    pub(super) fn links_to(&self, file: &File, fd: impl FnOnce() -> Option<OwnedFd>) {
        self.0.linked.store(true, Relaxed);
        self.lends(file, fd);
    }

    /// Whether a link was read for the call that leads to a file of the tree.
    pub(crate) fn is_linked(&self) -> bool {
        self.0.linked.load(Relaxed)
    }

    /// A file that it has open by a descriptor, which is only got where it is to be lent.
    pub(crate) fn lends(&self, file: &File, fd: impl FnOnce() -> Option<OwnedFd>) {
        if !self.asks_anew() {
            return;
        }
        // Others are asked, so without the lock.
        let opened = fd().and_then(|fd| file.opened_as(fd));
        if let Some(lent) = &mut *self.0.lent.lock() {
            lent.extend(opened);
        }
    }

    /// The call is answered.
    pub(crate) fn take_back(&self) {
        let lent = self.0.lent.lock().take();
        drop(lent);
    }

    /// The thread whose memory was opened for the call, to be written.
    pub(crate) fn memory(&self) -> Option<u32> {
        Some(self.0.memory.load(Relaxed)).filter(|&tid| tid != 0)
    }

    /// What processes have to find answers by themselves is shown to nobody.
    pub(crate) fn find_inside(&self) {
        self.0.finds.store(true, Relaxed);
    }

    /// Sockets of processes that are shown to nobody.
    pub(crate) fn unseen(&self) -> Unseen {
        self.0.unseen.clone()
    }

    /// Which programs run by interpreters.
    pub(crate) fn images(&self) -> &Images {
        &self.0.images
    }

    /// Whether this was opened for the call by a name that nobody sees, and has no place by that.
    pub(crate) fn is_stranger(&self, id: HostId) -> bool {
        self.0.strangers.lock().contains(&id)
    }

    /// What readlink(2) says of a link that was read for the call: of one that leads to a hidden file the host's text.
    pub(crate) fn shown(&self, body: Vec<u8>) -> Vec<u8> {
        let links = self.0.links.lock();
        let Some((_, hidden)) = links.iter().find(|(link, _)| *link == body) else { return body };
        OnHost::new(&hidden.link()).and_then(|link| link.link()).unwrap_or(body)
    }

    /// Whether a link was read for the call that leads to no file of the tree.
    pub(crate) fn is_led_behind(&self) -> bool {
        !self.0.links.lock().is_empty()
    }

    /// What the links lead to that were read for the call, and is no file of the tree, held, if it is the one that is looked for.
    pub(crate) fn behind_link(&self, is_it: impl Fn(&fs::Stat) -> bool) -> Option<OwnedFd> {
        let links: Vec<_> = self.0.links.lock().iter().map(|(_, hidden)| hidden.link()).collect();
        let held = |link: &String| OnHost::new(link).ok()?.open_behind(OFlags::PATH).ok();
        let mut held = links.iter().rev().filter_map(held);
        held.find(|held| fs::fstat(held).is_ok_and(|stat| is_it(&stat)))
    }

    /// Threads that have virtual credentials, and who they are.
    pub(crate) fn threads(&self) -> Threads {
        Arc::clone(&self.0.threads)
    }

    /// Who a thread is in the tree, if it is somebody else for the kernel.
    pub(super) fn credentials(&self, tid: u32) -> Option<Arc<Person>> {
        self.thread(tid).map(|thread| thread.person)
    }

    pub(super) fn thread(&self, tid: u32) -> Option<Thread> {
        self.0.threads.lock().get(&tid).filter(|thread| thread.is_there(tid)).cloned()
    }

    /// Whether who asks may look into a thread's process, for all that it is in the tree.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it may not.
    pub(super) fn may_access(&self, target: u32) -> Result<()> {
        let asker = self.0.tid.load(Relaxed);
        let Some(person) = self.credentials(asker) else { return Ok(()) };
        if are_one_process(target, asker) {
            return Ok(());
        }
        // Of whom nothing was heard yet has what his maker has.
        let mut at = Some(target);
        while let Some(tid) = at.filter(|&tid| is_of_the_program(tid)) {
            if let Some(target) = self.thread(tid) {
                let may = target.is_open_to(&person.credentials, By::Fs);
                return if may { Ok(()) } else { Err(Errno::EACCES) };
            }
            at = match process_of_thread(tid) {
                Some(process) if process != tid => Some(process),
                _ => status(tid, "PPid:"),
            };
        }
        Err(Errno::EACCES)
    }

    /// This task of the library answers.
    pub(crate) fn set_task(&self, task: u32) {
        self.0.task.store(task, Relaxed);
    }
}
