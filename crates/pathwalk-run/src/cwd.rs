//! Which directory a thread stands in, remembered.
//!
//! To ask the kernel takes as long as a short walk. Only chdir and fchdir change the answer, and both come by here, where nothing else is
//! done while the kernel does them; but a thread may share its directory with others, and its number may become another thread's. So
//! everything is forgotten whenever somebody moved, and nothing is remembered of who is gone.

use crate::{cookies::Known, sys::process};
use rustc_hash::FxHashMap;
use std::{os::fd::OwnedFd, sync::Arc};

/// So many are remembered.
const MOST: usize = 64;

/// The directories of threads.
#[derive(Debug, Default)]
pub(crate) struct Remembered(FxHashMap<u32, (Arc<OwnedFd>, Arc<Known>)>);

impl Remembered {
    /// The directory of a thread.
    pub(crate) fn get(&self, tid: u32) -> Option<Arc<Known>> {
        let (thread, known) = self.0.get(&tid)?;
        process::is_there(thread).then(|| Arc::clone(known))
    }

    /// The kernel said that a thread stands there, of which this is a descriptor that was there before.
    pub(crate) fn stands(&mut self, tid: u32, thread: Arc<OwnedFd>, known: &Arc<Known>) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(tid, (thread, Arc::clone(known)));
    }

    /// Somebody moved.
    pub(crate) fn moved(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cookies::HostId;
    use pathwalk::{At, Config, Cred, MemFs, OpenFlags, Vfs};
    use std::process::Command;

    #[test]
    fn where_somebody_stood_who_is_gone_is_not_remembered() {
        let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a tree");
        let file = vfs.task(Cred::root()).openat(At::Cwd, b"/", OpenFlags::PATH, 0).expect("/");
        let known = Arc::new(Known { id: HostId::new(0, 0), file, path: false, given: false });
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
