//! What a thread keeps: its memos, in sets by their texts' hashes, and which texts it met.

use super::Memo;
use parking_lot::Mutex;
use pathwalk_sync::{Cell64, seq::era};
use std::{cell::RefCell, ops::Range};

/// So many sets of texts that hash alike are remembered in a thread: 320 KiB in all, from the first one on.
const SETS: usize = 256;
/// So many texts are in a set.
const WAYS: usize = 4;
/// What a thread knows.
pub(super) struct Thread {
    /// The memos, the first ones of all sets first.
    memos: Option<Room>,
    /// The era in which they were made.
    era: u32,
    /// Which texts have a memo.
    tags: [Tags; SETS],
    /// The texts that were met, in sets as the memos are, the last one first.
    met: [[Met; WAYS]; SETS],
    /// The way that goes next.
    next: [u8; SETS],
}

/// A text that was met.
#[derive(Clone, Copy)]
pub(super) struct Met {
    /// More of its hash.
    tag: u32,
    /// So many meetings until it is remembered.
    pub(super) left: u16,
    /// So often in a row it was remembered in vain.
    pub(super) strikes: u16,
}

thread_local! {
    pub(super) static THREAD: RefCell<Thread> = const { RefCell::new(Thread::NONE) };
}

impl Thread {
    pub(super) const NONE: Self = Self {
        memos: None,
        era: 0,
        tags: [Tags(0); SETS],
        met: [[Met { tag: 0, left: 0, strikes: 0 }; WAYS]; SETS],
        next: [0; SETS],
    };

    /// The memo of the text, if there seems to be one.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<&Memo> {
        let set = hash as usize % SETS;
        let way = self.tags[set].way(hash);
        // Where there is no such way, this lies behind the last memo.
        self.memos.as_ref()?.0.get(way * SETS + set)
    }

    /// Whether its memos are of now. Asked last: see [`era`].
    #[inline(always)]
    pub(super) fn is_of_this_era(&self) -> bool {
        self.era == era()
    }

    /// Forgets what was made in another era.
    pub(super) fn begin_era(&mut self) {
        let now = era();
        if self.era != now {
            (self.era, self.tags) = (now, [Tags(0); SETS]);
        }
    }

    /// Whether it has room for memos, or gets it.
    pub(super) fn has_room(&mut self, budget: u64) -> bool {
        if self.memos.is_none() {
            self.memos = Room::take(budget);
        }
        self.memos.is_some()
    }

    /// Takes the memo of a text that does not hold any more; answers whether it ever did.
    pub(super) fn take(&mut self, hash: u64) -> Option<bool> {
        let used = self.find(hash)?.used.get();
        let tags = &mut self.tags[hash as usize % SETS];
        tags.put(tags.way(hash), 0);
        Some(used)
    }

    /// Keeps a memo, if there is room.
    pub(super) fn put(&mut self, hash: u64, memo: Memo) {
        let Some(Room(memos)) = &mut self.memos else { return };
        let set = hash as usize % SETS;
        let next = &mut self.next[set];
        let way = usize::from(*next) % WAYS;
        *next = next.wrapping_add(1);
        self.tags[set].put(way, Tags::tag(hash));
        memos[way * SETS + set] = memo;
    }

    /// What is known of a text that is met; nothing the first time.
    pub(super) fn meet(&mut self, hash: u64) -> Option<&mut Met> {
        let met = &mut self.met[hash as usize % SETS];
        let tag = (hash >> 32) as u32 | 1;
        match met.iter().position(|met| met.tag == tag) {
            Some(at) => Some(&mut met[at]),
            None => {
                met.rotate_right(1);
                met[0] = Met { tag, left: 0, strikes: 0 };
                None
            }
        }
    }
}

impl Met {
    /// It was remembered in vain.
    pub(super) fn strike(&mut self) {
        self.strikes = (self.strikes + 1).min(10);
        self.left = (1 << self.strikes) - 1;
    }
}

/// What tells the texts of a set apart, mostly: sixteen bits of each one's hash.
#[derive(Clone, Copy)]
struct Tags(u64);

impl Tags {
    const LOW: u64 = 0x0001_0001_0001_0001;
    const HIGH: u64 = Self::LOW << 15;

    /// The way of the first text with that hash, if there is one. All are compared before anything is decided: which one
    /// it is cannot be predicted.
    #[inline(always)]
    fn way(self, hash: u64) -> usize {
        let differ = self.0 ^ Self::tag(hash).wrapping_mul(Self::LOW);
        // The top bits of those that are zero, and maybe of some behind the first of them.
        let same = differ.wrapping_sub(Self::LOW) & !differ & Self::HIGH;
        same.trailing_zeros() as usize / 16
    }

    /// Sixteen bits of a hash, none of which is the tag of an empty way.
    #[inline(always)]
    fn tag(hash: u64) -> u64 {
        hash >> 48 | 1
    }

    fn put(&mut self, way: usize, tag: u64) {
        self.0 = self.0 & !(0xffff << (16 * way)) | tag << (16 * way);
    }
}

/// A thread's memos, and that they count.
struct Room(Box<[Memo; SETS * WAYS]>);

/// The bytes of all threads' memos; changed by who has the lock beside it.
static TAKEN: Cell64 = Cell64::new(0);
static TAKING: Mutex<()> = Mutex::new(());

/// How many bytes the threads of the process have for the paths that they remember: see
/// [`Config::memo_bytes`](crate::Config::memo_bytes).
pub fn bytes() -> u64 {
    TAKEN.get()
}

impl Room {
    const BYTES: u64 = size_of::<[Memo; SETS * WAYS]>() as u64;

    /// Made on the heap, as a thread's stack may be small; none where all threads would have more than the budget.
    fn take(budget: u64) -> Option<Self> {
        let more = || Some(TAKEN.get() + Self::BYTES).filter(|&bytes| bytes <= budget);
        // Who finds no room stores nothing.
        more()?;
        {
            let _taking = TAKING.lock();
            TAKEN.set(more()?);
        }
        let memos = vec![Memo::none(); SETS * WAYS].into_boxed_slice();
        Some(Self(memos.try_into().unwrap_or_else(|_| unreachable!("there are so many"))))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _taking = TAKING.lock();
        TAKEN.set(TAKEN.get() - Self::BYTES);
    }
}

/// The addresses of what the thread keeps, for tools that watch stores.
pub fn own_ranges() -> Vec<Range<usize>> {
    THREAD.with(|thread| {
        let at = std::ptr::from_ref(thread).addr();
        let own = at..at + size_of_val(thread);
        let memos = thread.borrow().memos.as_ref().map(|Room(memos)| {
            let at = std::ptr::from_ref(&**memos).addr();
            at..at + size_of_val(&**memos)
        });
        std::iter::once(own).chain(memos).collect()
    })
}
