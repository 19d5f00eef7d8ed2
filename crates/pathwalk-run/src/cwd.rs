//! Which directory a thread stands in, remembered.
//!
//! To ask the kernel takes as long as a short walk. Only chdir and fchdir change the answer, and both come by here; but a
//! thread may share its directory with others, and its number may become another thread's. So everything is forgotten whenever
//! somebody moved, nothing is remembered while somebody is about to, and nothing of who is gone.

use crate::{cookies::Known, sys::process};
use std::{collections::HashMap, os::fd::OwnedFd, sync::Arc};

/// So many are remembered.
const MOST: usize = 64;

/// The directories of threads.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    threads: HashMap<u32, (Arc<OwnedFd>, Arc<Known>)>,
    /// Threads that the kernel lets move, whenever it gets to it; of which there is no descriptor, those may for ever.
    moving: HashMap<u32, Option<Arc<OwnedFd>>>,
}

impl Remembered {
    /// The directory of a thread.
    pub(crate) fn get(&self, tid: u32) -> Option<Arc<Known>> {
        let (thread, known) = self.threads.get(&tid)?;
        process::is_there(thread).then(|| Arc::clone(known))
    }

    /// The kernel said that a thread stands there, of which this is a descriptor that was there before.
    pub(crate) fn stands(&mut self, tid: u32, thread: Arc<OwnedFd>, known: &Arc<Known>) {
        // Who is gone does not move any more.
        self.moving
            .retain(|_, thread| thread.as_ref().is_none_or(|thread| process::is_there(thread)));
        if !self.moving.is_empty() {
            return;
        }
        if self.threads.len() >= MOST {
            self.threads.clear();
        }
        self.threads.insert(tid, (thread, Arc::clone(known)));
    }

    /// Somebody moved.
    pub(crate) fn moved(&mut self) {
        self.threads.clear();
    }

    /// A thread is about to move.
    pub(crate) fn moves(&mut self, tid: u32, thread: Option<Arc<OwnedFd>>) {
        self.threads.clear();
        self.moving.insert(tid, thread);
    }

    /// A thread makes a call: where it was about to move it did.
    pub(crate) fn calls(&mut self, tid: u32) {
        if !self.moving.is_empty() {
            self.moving.remove(&tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathwalk::{At, Config, Cred, MemFs, OpenFlags, Vfs};
    use std::process::Command;

    #[test]
    fn who_is_gone_moves_no_more() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a tree");
        let file = vfs.task(Cred::root()).openat(At::Cwd, b"/", OpenFlags::PATH, 0).expect("/");
        let known = Arc::new(Known { file, path: false });
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut remembered = Remembered::default();
        let thread = |pid| Arc::new(process::thread(pid).expect("it runs"));
        let own = std::process::id();
        remembered.moves(child.id(), Some(thread(child.id())));
        remembered.stands(own, thread(own), &known);
        assert!(remembered.get(own).is_none());
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        remembered.stands(own, thread(own), &known);
        assert!(remembered.get(own).is_some());
    }

    #[test]
    fn where_somebody_stood_who_is_gone_is_not_remembered() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a tree");
        let file = vfs.task(Cred::root()).openat(At::Cwd, b"/", OpenFlags::PATH, 0).expect("/");
        let known = Arc::new(Known { file, path: false });
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let mut remembered = Remembered::default();
        let thread = Arc::new(process::thread(child.id()).expect("it runs"));
        remembered.stands(child.id(), thread, &known);
        assert!(remembered.get(child.id()).is_some());
        child.kill().expect("it runs");
        child.wait().expect("it runs");
        assert!(remembered.get(child.id()).is_none());
    }
}
