//! Files that are known and have no name any more.
//!
//! That nobody has one of them open any more is heard of by nobody: closing is the kernel's. As long as it is known, what is in it
//! stays, in memory or on the disk. So where there are many, or much is in them, it is looked which of them are in use.

use crate::{cookies::HostId, engine::Engine};
use rustc_hash::FxHashSet;
use std::time::{Duration, Instant};

/// So many are kept, and so many bytes of them, beside twice what was in use when it was looked last.
const MANY: usize = 64;
const MUCH: u64 = 16 << 20;
/// One that had nothing in it when it lost its name may have been written since.
const AGAIN: Duration = Duration::from_secs(1);

/// The files.
#[derive(Debug)]
pub(crate) struct Nameless {
    files: FxHashSet<HostId>,
    /// How many there may be, and how many bytes in them.
    enough: (usize, u64),
    /// When they were counted; not since the last one came.
    counted: Option<Instant>,
}

impl Default for Nameless {
    fn default() -> Self {
        Self { files: FxHashSet::default(), enough: (MANY, MUCH), counted: None }
    }
}

impl Nameless {
    /// One that may have lost its last name.
    pub(crate) fn add(&mut self, id: HostId) {
        self.files.insert(id);
        self.counted = None;
    }
}

impl Engine {
    /// A name is gone that a file with this number had.
    pub(crate) fn lost_name(&mut self, number: Option<u64>) {
        let Some(number) = number else { return };
        for id in self.cookies.with_number(number) {
            self.nameless.add(id);
        }
        self.handles.lost_name(&self.task, number);
    }

    /// Forgets those that nobody has open, where there is much of them.
    pub(crate) fn let_go(&mut self) {
        if self.nameless.files.is_empty()
            || self.nameless.counted.is_some_and(|then| then.elapsed() < AGAIN)
        {
            return;
        }
        let (count, bytes) = self.count_nameless();
        let (many, much) = self.nameless.enough;
        if count >= many || bytes >= much {
            self.forget_unused();
            let (count, bytes) = self.count_nameless();
            self.nameless.enough = (2 * count + MANY, 2 * bytes + MUCH);
        }
        self.nameless.counted = Some(Instant::now());
    }

    /// How many there are, and the bytes in them. Who has a name after all is none, nor who is known no more.
    fn count_nameless(&mut self) -> (usize, u64) {
        let mut bytes = 0;
        let Self { nameless, cookies, task, .. } = self;
        nameless.files.retain(|&id| {
            let stat = cookies.get(id).and_then(|known| task.fstat(&known.file).ok());
            let stat = stat.filter(|stat| stat.st_nlink == 0);
            bytes += stat.as_ref().map_or(0, |stat| 512 * stat.st_blocks as u64);
            stat.is_some()
        });
        (nameless.files.len(), bytes)
    }
}
