//! Arenas: type-stable tables of slots, named by 32-bit ids.
//!
//! Invariant: an id that was ever given out names a readable slot of the same type until the arena is
//! dropped. A freed slot stays a slot; only its [`Seq`](crate::Seq) tells that it is another thing now. So a
//! reader may look at any id at any time and needs no guard, no epoch and no hazard pointer. That holds for slots whose memory went back to
//! the system too, where an arena gives it back: see [`vacant`](crate::vacant).
//!
//! Linux: `SLAB_TYPESAFE_BY_RCU`, taken all the way.

use crate::{
    cell::Cell32,
    mapping::{Mapping, Slots, Zeroed},
    shim::ShortMutex,
    striped,
    vacant::{Returned, Returns, Vacant},
};
use std::{io, mem};

pub use crate::mapping::Zeroed as Slot;

/// Fresh slots are taken this many at a time, so that threads that create do not meet at every slot.
const CHUNK: u32 = 32;

/// So many free slots of a stripe are not for others, as long as there are fresh ones: who gave them back will want as many again, and
/// has them in its cache.
const KEPT: usize = if cfg!(loom) { 0 } else { 1024 };

/// Where a stripe has so many free slots, it is looked whether some of their memory can go back to the system; and again when it has as many
/// more, or a quarter more than were left then. Who makes fewer and removes them, again and again, keeps what he has.
const MANY: usize = 1 << 16;

/// A stripe's list keeps room for so many, whatever is in it.
const ROOM: usize = 512;

/// A type-stable table of slots.
pub struct Arena<T> {
    slots: Mapping<T>,
    /// The number of slots that may ever be used; id 0 is none of them.
    limit: u32,
    /// Held while slots go to a stripe.
    unused: ShortMutex<Unused>,
    /// Mirrors `unused.fresh` for those who only want to know.
    high_water: Cell32,
    free: [Free; striped::STRIPES],
    /// Of an arena that gives memory back.
    returns: Option<Returns<T>>,
}

/// Slots without memory.
struct Unused {
    /// The first that was never given out.
    fresh: u32,
    vacant: Vec<Vacant>,
}

impl Unused {
    fn vacant(&self) -> u32 {
        self.vacant.iter().map(|vacant| vacant.slots.len() as u32).sum()
    }
}

/// The free slots of a stripe. On a line of its own: its threads do not meet those of the next one.
#[repr(align(64))]
struct Free(ShortMutex<List>);

struct List {
    ids: Vec<u32>,
    /// It is looked for memory to give back when there are so many.
    many: usize,
}

impl List {
    /// Takes back what was looked at and stays free. Says whether there is so much more by now that it is to be looked again.
    fn put_back(&mut self, mut looked_at: Vec<u32>) -> bool {
        self.many = looked_at.len() + MANY.max(looked_at.len() / 4);
        // Those that came meanwhile are taken first: they are in a cache.
        looked_at.append(&mut self.ids);
        looked_at.shrink_to(2 * looked_at.len());
        self.ids = looked_at;
        self.ids.len() >= self.many
    }
}

impl<T: Zeroed> Arena<T> {
    /// Reserves address space for `limit` slots; memory is committed as slots are first used.
    ///
    /// # Errors
    ///
    /// What mmap(2) answers if the range cannot be reserved.
    pub fn new(limit: u32) -> io::Result<Self> {
        Self::of(limit, |_, _| Ok(None))
    }

    fn of(
        limit: u32,
        returns: impl FnOnce(&Mapping<T>, u32) -> io::Result<Option<Returns<T>>>,
    ) -> io::Result<Self> {
        // Slot 0 is none: where the limit is a power of two, one slot less keeps the mapping from being twice as long.
        let limit = limit.clamp(1, crate::chain::MAX_ID);
        let limit = if limit > 64 && limit.is_power_of_two() { limit - 1 } else { limit };
        let slots = Mapping::new(limit as usize + 1)?;
        let returns = returns(&slots, limit + 1)?;
        let many = if returns.is_some() { MANY } else { usize::MAX };
        Ok(Self {
            slots,
            limit,
            unused: ShortMutex::new(Unused { fresh: 1, vacant: Vec::new() }),
            high_water: Cell32::default(),
            free: std::array::from_fn(|_| Free(ShortMutex::new(List { ids: Vec::new(), many }))),
            returns,
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
            (free.ids.pop(), free.ids.last().copied())
        };
        // Who makes one thing will make another, and this one's slot is often in no cache any more.
        if let Some(next) = next {
            self.slots.slots().prefetch(next);
        }
        free.or_else(|| self.refill(mine))
    }

    /// Takes slots for a stripe that has none, and one of them for the caller.
    #[cold]
    fn refill(&self, mine: usize) -> Option<u32> {
        self.take_unused(mine).or_else(|| {
            // Those of who looks for memory to give back are in no list: he is waited for.
            let _looking = self.returns.as_ref()?.looking.lock();
            self.take_unused(mine)
        })
    }

    /// What other stripes got back and do not need comes first: with one thread that makes and another that removes, the arena would grow to
    /// its limit else.
    fn take_unused(&self, mine: usize) -> Option<u32> {
        // One at a time: slots on their way from one stripe to another are in none, and would be missed.
        let mut unused = self.unused.lock();
        if let Some(id) = self.take_over(mine, KEPT) {
            return Some(id);
        }
        if let Some(id) = self.take_without_memory(mine, &mut unused) {
            return Some(id);
        }
        self.take_over(mine, 0).or_else(|| {
            // Looked at one after the other, a slot that comes to the first is missed while one goes from the last. Nobody
            // else holds two of these locks.
            let mut all = self.free.each_ref().map(|stripe| stripe.0.lock());
            all.iter_mut().find_map(|free| free.ids.pop())
        })
    }

    /// Takes slots that have no memory, those first that had some before.
    fn take_without_memory(&self, mine: usize, unused: &mut Unused) -> Option<u32> {
        let mut taken = match (unused.vacant.last_mut(), &self.returns) {
            (Some(vacant), Some(returns)) => {
                let taken = returns.take(&self.slots, vacant, CHUNK);
                if vacant.slots.is_empty() {
                    unused.vacant.pop();
                }
                taken
            }
            _ => {
                let first = unused.fresh;
                let taken = first..first + CHUNK.min(self.limit - (first - 1));
                unused.fresh = taken.end;
                self.slots.grows(first as usize, taken.end as usize);
                self.high_water.set(taken.end - 1);
                if let Some(returns) = &self.returns {
                    returns.take(&self.slots, &mut Vacant::fresh(taken.clone()), CHUNK);
                }
                taken
            }
        };
        let first = taken.next()?;
        self.free[mine].0.lock().ids.extend(taken.rev());
        Some(first)
    }

    /// Takes some of the free slots of another stripe, which keeps so many, and one of them for the caller. Another thread of this stripe may
    /// have been first, so the own one is looked at too. The caller holds `unused`.
    fn take_over(&self, mine: usize, kept: usize) -> Option<u32> {
        (0..striped::STRIPES).map(|n| (mine + n) % striped::STRIPES).find_map(|stripe| {
            let mut taken = {
                let free = &mut self.free[stripe].0.lock().ids;
                let left = free.len().saturating_sub(CHUNK as usize);
                let kept = if stripe == mine { 0 } else { kept.min(free.len()) };
                free.split_off(left.max(kept))
            };
            let id = taken.pop()?;
            self.free[mine].0.lock().ids.append(&mut taken);
            Some(id)
        })
    }

    /// Gives a slot back. Its contents stay as they are until it is taken again, or its memory goes back to the system.
    pub fn free(&self, id: u32) {
        debug_assert!(id != 0 && id <= self.limit, "only what was given out comes back");
        let (grows, are_many) = {
            let free = &mut *self.free[striped::stripe()].0.lock();
            let grows = free.ids.len() >= ROOM && free.ids.len() == free.ids.capacity();
            free.ids.push(id);
            (grows, free.ids.len() >= free.many)
        };
        if grows {
            self.shrink_lists();
        }
        if are_many {
            self.trim_unless_it_is_done();
        }
    }

    /// A list has grown. Where all together have room for more than twice the slots that there are, each keeps room for twice what is in it:
    /// else each would have room for all slots in the end.
    #[cold]
    fn shrink_lists(&self) {
        let room: usize = self.free.iter().map(|stripe| stripe.0.lock().ids.capacity()).sum();
        if room <= 2 * self.high_water() as usize + striped::STRIPES * ROOM {
            return;
        }
        for stripe in &self.free {
            let ids = &mut stripe.0.lock().ids;
            if ids.capacity() > ROOM.max(2 * ids.len()) {
                ids.shrink_to(ROOM.max(ids.len()));
            }
        }
    }

    /// As [`Arena::trim`], where nobody does that now.
    #[cold]
    fn trim_unless_it_is_done(&self) {
        let Some(returns) = &self.returns else { return };
        while let Some(mut looks) = returns.looking.try_lock() {
            // Those that came meanwhile were no reason for others to look.
            if !self.trim_looking(returns, &mut looks) {
                break;
            }
        }
    }

    /// Gives memory of free slots back to the system, where an arena does that: of blocks of which none is in use, see
    /// [`vacant`](crate::vacant).
    pub fn trim(&self) {
        if let Some(returns) = &self.returns {
            self.trim_looking(returns, &mut returns.looking.lock());
        }
    }

    /// How often it was looked for memory to give back: for tests.
    #[doc(hidden)]
    pub fn looks(&self) -> u32 {
        self.returns.as_ref().map_or(0, |returns| *returns.looking.lock())
    }

    /// The caller has the right to look, and with it the number of looks. Says whether so many came meanwhile that it is to be looked again.
    fn trim_looking(&self, returns: &Returns<T>, looks: &mut u32) -> bool {
        *looks += 1;
        let mut lists = self.free.each_ref().map(|stripe| mem::take(&mut stripe.0.lock().ids));
        let vacant = returns.vacate(&self.slots, &mut lists);
        let mut are_many = false;
        for (list, stripe) in lists.into_iter().zip(&self.free) {
            are_many |= stripe.0.lock().put_back(list);
        }
        // Behind all others: the one that is used in part is the next to be used.
        self.unused.lock().vacant.splice(..0, vacant);
        are_many
    }

    /// The number of slots that were ever in use at once, rounded up to the chunk.
    pub fn high_water(&self) -> u32 {
        self.high_water.get()
    }

    /// The number of slots in use at some moment.
    pub fn in_use(&self) -> u32 {
        let _looking = self.returns.as_ref().map(|returns| returns.looking.lock());
        let unused = self.unused.lock();
        let free: usize = self.free.iter().map(|stripe| stripe.0.lock().ids.len()).sum();
        self.high_water().saturating_sub(free as u32 + unused.vacant())
    }

    /// The number of slots that may be in use at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes of memory behind the slots that were in use and did not give theirs back, and of the lists of those that are free. The system may
    /// have put up to 2 MiB more there, where it has pages of that size.
    pub fn bytes(&self) -> u64 {
        let unused = self.unused.lock();
        let lists: usize = self.free.iter().map(|stripe| stripe.0.lock().ids.capacity()).sum();
        let lists = lists * size_of::<u32>() + unused.vacant.capacity() * size_of::<Vacant>();
        u64::from(self.high_water() - unused.vacant()) * size_of::<T>() as u64 + lists as u64
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

impl<T: Returned> Arena<T> {
    /// As [`Arena::new`], of an arena that gives the memory of free slots back to the system.
    ///
    /// # Errors
    ///
    /// As [`Arena::new`].
    pub fn returning(limit: u32) -> io::Result<Self> {
        Self::of(limit, |slots, end| Returns::new(slots, end).map(Some))
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

    /// Who frees while another looks does not look himself: what he freed is no part of what was found to stay.
    #[test]
    fn what_came_while_it_was_looked_is_a_reason_to_look_again() {
        let list = |ids: u32| List { ids: (1..=ids).collect(), many: 0 };
        let mut came = list(MANY as u32);
        assert!(came.put_back(Vec::new()));
        let mut few = list(MANY as u32 - 1);
        assert!(!few.put_back((1..=10 * MANY as u32).collect()));
        assert_eq!((few.many, few.ids.len()), (10 * MANY * 5 / 4, 11 * MANY - 1));
    }

    /// Each thread in turn frees what all had, and takes it again.
    #[test]
    fn the_lists_of_all_stripes_have_room_for_what_is_free() {
        let arena = Arena::<Cell64>::new(1 << 14).unwrap();
        let slots = 10_000;
        let lists = || arena.bytes() - u64::from(arena.high_water()) * 8;
        for _ in 0..2 * striped::STRIPES {
            let ids: Vec<u32> = (0..slots).map(|_| arena.alloc().unwrap()).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| ids.iter().for_each(|&id| arena.free(id)));
            });
            let most = 2 * arena.high_water() as usize + striped::STRIPES * ROOM;
            assert!(lists() <= 4 * most as u64, "{}", lists());
        }
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
