//! Arenas: type-stable tables of slots, named by 32-bit ids.
//!
//! Invariant: an id that was ever given out names a readable slot of the same type until the arena is
//! dropped. A freed slot stays a slot; only its [`Seq`](crate::Seq) tells that it is another thing now. So a
//! reader may look at any id at any time and needs no guard, no epoch and no hazard pointer.
//!
//! Linux: `SLAB_TYPESAFE_BY_RCU`, taken all the way.

use crate::{
    cell::Cell32,
    mapping::{Mapping, Slots, Zeroed},
    shim::ShortMutex,
    striped,
};
use std::io;

pub use crate::mapping::Zeroed as Slot;

/// Fresh slots are taken this many at a time, so that threads that create do not meet at every slot.
const CHUNK: u32 = 32;

/// So many free slots of a stripe are not for others, as long as there are fresh ones: who gave them back will want as many again, and
/// has them in its cache.
const KEPT: usize = if cfg!(loom) { 0 } else { 1024 };

/// A type-stable table of slots.
pub struct Arena<T> {
    slots: Mapping<T>,
    /// The number of slots that may ever be used; id 0 is none of them.
    limit: u32,
    /// The first slot that was never given out. Held while slots go to a stripe.
    fresh: ShortMutex<u32>,
    /// Mirrors `fresh` for those who only want to know.
    high_water: Cell32,
    free: [Free; striped::STRIPES],
}

/// The free slots of a stripe. On a line of its own: its threads do not meet those of the next one.
#[repr(align(64))]
struct Free(ShortMutex<Vec<u32>>);

impl<T: Zeroed> Arena<T> {
    /// Reserves address space for `limit` slots; memory is committed as slots are first used.
    ///
    /// # Errors
    ///
    /// What mmap(2) answers if the range cannot be reserved.
    pub fn new(limit: u32) -> io::Result<Self> {
        // Slot 0 is none: where the limit is a power of two, one slot less keeps the mapping from being twice as long.
        let limit = limit.clamp(1, crate::chain::MAX_ID);
        let limit = if limit > 64 && limit.is_power_of_two() { limit - 1 } else { limit };
        Ok(Self {
            slots: Mapping::new(limit as usize + 1)?,
            limit,
            fresh: ShortMutex::new(1),
            high_water: Cell32::default(),
            free: std::array::from_fn(|_| Free(ShortMutex::new(Vec::new()))),
        })
    }

    /// The slot named by `id`.
    ///
    /// Any id is safe to ask for; what an id that was never given out names is unspecified.
    #[inline(always)]
    pub fn get(&self, id: u32) -> &T {
        self.slots.slots().get(id)
    }

    /// All slots, for who looks at many.
    #[inline(always)]
    pub fn slots(&self) -> Slots<'_, T> {
        self.slots.slots()
    }

    /// Takes a free slot, or none where `limit` slots are in use. The caller owns it until [`Arena::free`].
    #[must_use = "a slot that is forgotten is lost until the arena is dropped"]
    pub fn alloc(&self) -> Option<u32> {
        let mine = striped::stripe();
        let (free, next) = {
            let mut free = self.free[mine].0.lock();
            (free.pop(), free.last().copied())
        };
        // Who makes one thing will make another, and this one's slot is often in no cache any more.
        if let Some(next) = next {
            self.slots.slots().prefetch(next);
        }
        free.or_else(|| self.refill(mine))
    }

    /// Takes slots for a stripe that has none, and one of them for the caller. What other stripes got back and do not need comes first:
    /// with one thread that makes and another that removes, the arena would grow to its limit else.
    #[cold]
    fn refill(&self, mine: usize) -> Option<u32> {
        // One at a time: slots on their way from one stripe to another are in none, and would be missed.
        let mut fresh = self.fresh.lock();
        if let Some(id) = self.take_over(mine, KEPT) {
            return Some(id);
        }
        let first = *fresh;
        let taken = CHUNK.min(self.limit - (first - 1));
        if taken == 0 {
            return self.take_over(mine, 0).or_else(|| {
                // Looked at one after the other, a slot that comes to the first is missed while one goes from the last. Nobody
                // else holds two of these locks.
                let mut all = self.free.each_ref().map(|stripe| stripe.0.lock());
                all.iter_mut().find_map(|free| free.pop())
            });
        }
        *fresh += taken;
        self.slots.grows(first as usize, *fresh as usize);
        self.high_water.set(*fresh - 1);
        self.free[mine].0.lock().extend((first + 1..first + taken).rev());
        Some(first)
    }

    /// Takes some of the free slots of another stripe, which keeps so many, and one of them for the caller. Another thread of this stripe may
    /// have been first, so the own one is looked at too. The caller holds `fresh`.
    fn take_over(&self, mine: usize, kept: usize) -> Option<u32> {
        (0..striped::STRIPES).map(|n| (mine + n) % striped::STRIPES).find_map(|stripe| {
            let mut taken = {
                let mut free = self.free[stripe].0.lock();
                let left = free.len().saturating_sub(CHUNK as usize);
                let kept = if stripe == mine { 0 } else { kept.min(free.len()) };
                free.split_off(left.max(kept))
            };
            let id = taken.pop()?;
            self.free[mine].0.lock().append(&mut taken);
            Some(id)
        })
    }

    /// Gives a slot back. Its contents stay as they are until it is taken again.
    pub fn free(&self, id: u32) {
        debug_assert!(id != 0 && id <= self.limit, "only what was given out comes back");
        self.free[striped::stripe()].0.lock().push(id);
    }

    /// The number of slots that were ever in use at once, rounded up to the chunk.
    pub fn high_water(&self) -> u32 {
        self.high_water.get()
    }

    /// The number of slots in use at some moment.
    pub fn in_use(&self) -> u32 {
        let free: usize = self.free.iter().map(|stripe| stripe.0.lock().len()).sum();
        self.high_water().saturating_sub(free as u32)
    }

    /// The number of slots that may be in use at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes of memory behind the slots that were ever in use, and of the lists of those that are free. The system may have put up to
    /// 2 MiB more there, where it has pages of that size.
    pub fn bytes(&self) -> u64 {
        let lists: usize = self.free.iter().map(|stripe| stripe.0.lock().capacity()).sum();
        u64::from(self.high_water()) * size_of::<T>() as u64 + (lists * size_of::<u32>()) as u64
    }

    /// The addresses of the slots, for tools that watch stores.
    #[cfg(not(loom))]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.slots.range()
    }

    /// Forbids or allows stores to the slots, to prove that readers make none.
    ///
    /// While stores are forbidden a store ends the process with SIGSEGV: this is for tests.
    ///
    /// # Errors
    ///
    /// What mprotect(2) answers.
    #[cfg(not(loom))]
    pub fn set_writable(&self, writable: bool) -> io::Result<()> {
        self.slots.set_writable(writable)
    }
}

impl<T> std::fmt::Debug for Arena<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("limit", &self.limit)
            .field("high_water", &self.high_water.get())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Cell64;
    use std::collections::HashSet;

    #[test]
    fn gives_out_each_slot_once_and_no_more_than_the_limit() {
        let arena = Arena::<Cell64>::new(100).unwrap();
        let ids: HashSet<u32> = std::iter::from_fn(|| arena.alloc()).collect();
        assert_eq!(ids.len(), 100);
        assert!(!ids.contains(&0));
        assert_eq!(arena.in_use(), 100);
        arena.free(7);
        assert_eq!(arena.alloc(), Some(7));
        assert_eq!(arena.alloc(), None);
    }

    #[test]
    fn one_thread_takes_what_another_gives_back() {
        let arena = Arena::<Cell64>::new(1 << 20).unwrap();
        let (send, receive) = std::sync::mpsc::sync_channel(16);
        std::thread::scope(|scope| {
            scope.spawn(|| receive.into_iter().for_each(|id| arena.free(id)));
            (0..100_000).for_each(|_| send.send(arena.alloc().unwrap()).unwrap());
            drop(send);
        });
        assert!(arena.high_water() < 2 * KEPT as u32, "{arena:?}");
        assert_eq!(arena.in_use(), 0);
    }

    #[test]
    fn who_takes_what_it_gave_back_meets_nobody() {
        let arena = Arena::<Cell64>::new(1 << 20).unwrap();
        // First one, then the other, so that neither needs a slot while the other has all of its own.
        let turn = std::sync::Mutex::new(());
        let take_and_give = || {
            let mut first = HashSet::new();
            for _ in 0..10 {
                let _turn = turn.lock().unwrap();
                let ids: Vec<u32> = (0..500).map(|_| arena.alloc().unwrap()).collect();
                ids.iter().for_each(|&id| arena.free(id));
                let ids: HashSet<u32> = ids.into_iter().collect();
                if first.is_empty() {
                    first = ids;
                } else {
                    assert_eq!(first, ids, "its own, again and again");
                }
            }
            (striped::stripe(), first)
        };
        // Threads get stripes in turn, and other tests make threads in between: two that got the same try again.
        let two = || {
            std::thread::scope(|scope| {
                [(); 2].map(|()| scope.spawn(take_and_give)).map(|one| one.join().unwrap())
            })
        };
        let [one, other] = std::iter::repeat_with(two)
            .take(100)
            .find(|[one, other]| one.0 != other.0)
            .expect("among a hundred pairs one of two stripes");
        assert!(one.1.is_disjoint(&other.1));
    }

    #[test]
    fn what_is_free_is_found_while_others_take_too() {
        let arena = Arena::<Cell64>::new(8).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        arena.free(arena.alloc().expect("eight slots for eight threads"));
                    }
                });
            }
        });
        assert_eq!(arena.in_use(), 0);
    }

    #[test]
    fn any_id_may_be_looked_at() {
        let arena = Arena::<Cell64>::new(8).unwrap();
        assert_eq!(arena.get(u32::MAX).get(), 0);
    }

    #[test]
    fn another_thread_finds_what_this_one_freed() {
        let arena = Arena::<Cell64>::new(1).unwrap();
        let id = arena.alloc().unwrap();
        arena.free(id);
        std::thread::scope(|scope| {
            for _ in 0..striped::STRIPES {
                scope.spawn(|| {
                    let id = arena.alloc();
                    if let Some(id) = id {
                        arena.free(id);
                    }
                });
            }
        });
        assert!(arena.alloc().is_some());
    }
}
