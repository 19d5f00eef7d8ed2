//! How much room there is: pages and inodes, taken before they are used and given back after.
//!
//! Invariant: a count never exceeds its limit, not even for a moment, so a call that is refused was refused by what
//! others really have.
//!
//! Linux: `shmem_inode_acct_blocks`, `shmem_reserve_inode`.

use pathwalk_abi::{Errno, Result};
use pathwalk_sync::Striped;
use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The size of a page in bytes: files take room in these.
pub(crate) const PAGE: u64 = 4096;

/// How much a [`MemFs`](crate::MemFs) may hold; no number is no limit. tmpfs(5)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of file contents, rounded up to pages: the option `size=`.
    ///
    /// Holes take no room. The body of a symlink takes a page from 128 bytes on.
    pub bytes: Option<u64>,
    /// Inodes, the root among them: the option `nr_inodes=`.
    ///
    /// Each name of a file after the first counts as one more. Extended attributes take of the same room: 1024 bytes of
    /// them as much as an inode. Without this limit, they may take a quarter of what contents may.
    pub inodes: Option<u64>,
}

impl Limits {
    /// No limit at all; contents then grow until the host has no memory left.
    pub const NONE: Self = Self { bytes: None, inodes: None };
}

impl Default for Limits {
    /// Bytes: half of the host's memory, as in tmpfs. Inodes: no limit but that of the machine's own inode table, where
    /// tmpfs allows one per page.
    fn default() -> Self {
        /// In bytes. Asked for once: it costs a system call.
        static MEMORY: LazyLock<u64> = LazyLock::new(|| {
            let host = rustix::system::sysinfo();
            (host.totalram as u64).saturating_mul(host.mem_unit.into())
        });
        Self { bytes: Some(*MEMORY / 2), inodes: None }
    }
}

/// How much a [`MemFs`](crate::MemFs) holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of file contents, in whole pages.
    pub bytes: u64,
    /// Inodes, as [`Limits::inodes`] counts them.
    pub inodes: u64,
}

/// The room that is there and the room that is taken.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) pages: Counter,
    /// In bytes, [`INODE`] each; attributes are counted with them if they are limited.
    inodes: Counter,
    /// In bytes.
    xattrs: Counter,
    shared: bool,
}

/// What an inode takes of the room that it shares with extended attributes.
const INODE: u64 = 1024;
/// Without a limit of inodes, attributes take at most so much of what contents may: as tmpfs by default, which allows an
/// inode for each page.
const XATTR_SHARE: u64 = PAGE / INODE;

impl Space {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            pages: Counter::new(limits.bytes.map(|bytes| bytes.div_ceil(PAGE))),
            inodes: Counter::new(limits.inodes.map(|inodes| inodes.saturating_mul(INODE))),
            xattrs: Counter::new(limits.bytes.map(|bytes| bytes / XATTR_SHARE)),
            shared: limits.inodes.is_some(),
        }
    }

    /// The inodes in use; a part of one, taken by attributes, counts as one.
    pub(crate) fn used_inodes(&self) -> u64 {
        self.inodes.used().div_ceil(INODE)
    }

    /// The limit of inodes and what is left of it; both 0 where there is none.
    pub(crate) fn total_and_free_inodes(&self) -> (u64, u64) {
        let (total, free) = self.inodes.total_and_free();
        (total / INODE, free / INODE)
    }

    /// Takes inodes, or nothing.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there are less left.
    pub(crate) fn take_inodes(&self, count: u64) -> Result<()> {
        self.inodes.take(count * INODE)
    }

    /// Gives inodes back.
    pub(crate) fn give_inodes(&self, count: u64) {
        self.inodes.give(count * INODE);
    }

    /// Takes room for attributes, or nothing.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there is less left.
    pub(crate) fn take_xattr(&self, bytes: u64) -> Result<()> {
        self.xattr_counter().take(bytes)
    }

    /// Gives room for attributes back.
    pub(crate) fn give_xattr(&self, bytes: u64) {
        self.xattr_counter().give(bytes);
    }

    fn xattr_counter(&self) -> &Counter {
        if self.shared { &self.inodes } else { &self.xattrs }
    }

    /// Takes an inode, and `pages` pages with it, or nothing.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there are as many inodes as there may be.
    /// - `ENOSPC`: there are not so many pages.
    pub(crate) fn take_inode(&self, pages: u64) -> Result<()> {
        self.take_inodes(1)?;
        // Most have no pages: so they do not meet at that count.
        if pages == 0 {
            return Ok(());
        }
        self.pages.take(pages).inspect_err(|_| self.give_inodes(1))
    }
}

/// A count, with a limit or without, as long as a cache line, so that none lies on that of another: whoever creates does not
/// meet whoever writes.
///
/// The count orders nothing, so all access is relaxed.
#[derive(Debug)]
pub(crate) struct Counter {
    count: Count,
    _rest: [u64; 5],
}

const _: () = assert!(size_of::<Counter>() == 64);

#[derive(Debug)]
enum Count {
    /// Exact at each moment, as the limit is.
    Limited { used: AtomicU64, limit: u64 },
    /// Nobody is refused, so threads need not meet.
    Unlimited(Box<Striped>),
}

impl Counter {
    fn new(limit: Option<u64>) -> Self {
        let count = match limit {
            Some(limit) => Count::Limited { used: AtomicU64::new(0), limit },
            None => Count::Unlimited(Box::default()),
        };
        Self { count, _rest: [0; 5] }
    }

    pub(crate) fn used(&self) -> u64 {
        match &self.count {
            Count::Limited { used, .. } => used.load(Relaxed),
            Count::Unlimited(used) => used.sum(),
        }
    }

    /// The limit and what is left of it; both 0 where there is none, as statfs(2) shows it.
    pub(crate) fn total_and_free(&self) -> (u64, u64) {
        match &self.count {
            Count::Limited { limit, .. } => (*limit, limit - self.used()),
            Count::Unlimited(_) => (0, 0),
        }
    }

    /// Takes `count`, or nothing.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: there is less left.
    pub(crate) fn take(&self, count: u64) -> Result<()> {
        match &self.count {
            Count::Limited { used, limit } => {
                let enough = |used| (limit - used >= count).then(|| used + count);
                used.try_update(Relaxed, Relaxed, enough).map(drop).map_err(|_| Errno::ENOSPC)
            }
            Count::Unlimited(used) => {
                used.add(count);
                Ok(())
            }
        }
    }

    /// Takes `count`, or what is left, and says how much that was.
    pub(crate) fn take_up_to(&self, count: u64) -> u64 {
        match &self.count {
            Count::Limited { used, limit } => {
                let before = used.update(Relaxed, Relaxed, |used| used + count.min(limit - used));
                count.min(limit - before)
            }
            Count::Unlimited(used) => {
                used.add(count);
                count
            }
        }
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, count: u64) {
        match &self.count {
            Count::Limited { used, .. } => {
                let before = used.fetch_sub(count, Relaxed);
                debug_assert!(before >= count, "nobody gives back what was never taken");
            }
            Count::Unlimited(used) => used.sub(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicBool, thread};

    #[test]
    fn of_one_only_one_has_it() {
        const ROUNDS: usize = 100_000;
        let one = Counter::new(Some(1));
        let taken = AtomicBool::new(false);
        thread::scope(|scope| {
            for thread in 0..2 {
                let (one, taken) = (&one, &taken);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let got = match (round + thread) % 2 {
                            0 => one.take(1).is_ok(),
                            _ => one.take_up_to(3) == 1,
                        };
                        if got {
                            assert!(!taken.swap(true, Relaxed), "two have the only one");
                            taken.store(false, Relaxed);
                            one.give(1);
                        }
                    }
                });
            }
        });
        assert_eq!(one.used(), 0);
        assert_eq!(one.take(1), Ok(()));
        assert_eq!((one.take(1), one.take_up_to(1)), (Err(Errno::ENOSPC), 0));
    }
}
