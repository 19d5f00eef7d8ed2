//! Which directory a thread stands in, remembered for a moment.
//!
//! To ask the kernel takes as long as a short walk. Only chdir and fchdir change the answer, and both come by here; but a
//! thread may share its directory with others, and its number may become another thread's. So everything is forgotten whenever
//! somebody moved, nothing is remembered while somebody is about to, and nothing for long.

use crate::cookies::Known;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// No number of a thread comes back so soon.
const LONGEST: Duration = Duration::from_millis(100);
/// So many are remembered.
const MOST: usize = 64;

/// The directories of threads.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    threads: HashMap<u32, (Instant, Arc<Known>)>,
    /// Threads that the kernel lets move, whenever it gets to it.
    moving: HashSet<u32>,
}

impl Remembered {
    /// The directory of a thread.
    pub(crate) fn get(&self, tid: u32) -> Option<Arc<Known>> {
        let (since, known) = self.threads.get(&tid)?;
        (since.elapsed() < LONGEST).then(|| Arc::clone(known))
    }

    /// The kernel said that a thread stands there.
    pub(crate) fn stands(&mut self, tid: u32, known: &Arc<Known>) {
        if !self.moving.is_empty() {
            return;
        }
        if self.threads.len() >= MOST {
            self.threads.clear();
        }
        self.threads.insert(tid, (Instant::now(), Arc::clone(known)));
    }

    /// Somebody moved.
    pub(crate) fn moved(&mut self) {
        self.threads.clear();
    }

    /// A thread is about to move.
    pub(crate) fn moves(&mut self, tid: u32) {
        self.threads.clear();
        self.moving.insert(tid);
    }

    /// A thread makes a call: where it was about to move it did.
    pub(crate) fn calls(&mut self, tid: u32) {
        if !self.moving.is_empty() {
            self.moving.remove(&tid);
        }
    }
}
