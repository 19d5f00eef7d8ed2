//! Hash chains through the slots of an arena, walked without holding anything.
//!
//! ```text
//!   buckets        slots (each has a Link)
//!   [ b ] ───────► 17 ─► 4 ─► END|b
//!   [ b+1 ] = END|b+1    empty
//! ```
//!
//! Rules:
//! 1. A chain ends with a marker that carries the bucket's number. A slot that is freed keeps its link; a
//!    slot that is used again lures a reader that stood on it into another chain, whose marker tells it. One whose memory
//!    went back to the system leads to slot 0, which the owner of the arena has [lead nowhere](Link::lead_nowhere).
//! 2. Slots are inserted at the head only. So a reader that enters a chain at a slot inserted after the reader
//!    set out meets everything that was in the chain then.
//! 3. A hit is believed after the slot's own sequence count was checked. A miss is a hint, unless
//!    [`Table::find_sure`] says [`Absent::Sure`]: the marker was right, the bucket was not being split and
//!    belongs to the hash as before and after; or [`Table::is_surely_empty`] says that nothing was there to be met.
//! 4. The table grows one bucket at a time (linear hashing): bucket `p = n - 2^l` is split into `p` and `n`
//!    under the lock of `p`, and `n` is published last. It never shrinks.
//! 5. Writers hold the lock bit in the bucket's head word; the sections are a few instructions long.
//!
//! Linux: `hlist_bl`, `hlist_nulls`; growth is ours (`d_hash` is sized at boot).

use crate::{
    arena::Arena,
    lock_order::{self, Held, Rank},
    mapping::{Mapping, Slots, Zeroed},
    shim::{
        AtomicU32, AtomicU64, Mutex,
        Ordering::{Acquire, Relaxed, Release},
        put, spin_loop, yield_now,
    },
};
use std::io;

/// Set in a link that ends a chain; the bucket's number is below.
const END: u32 = 1 << 31;
/// Set in a bucket's head while a writer holds the bucket.
const LOCK: u32 = 1 << 30;
/// The highest id a slot in a chain can have.
pub const MAX_ID: u32 = LOCK - 1;

/// After so many steps a reader takes it that it is being led in circles.
#[cfg(not(loom))]
const STEPS: u32 = 1 << 16;
#[cfg(loom)]
const STEPS: u32 = 8;

/// How many buckets a table has.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// So many it begins with.
    first: u32,
    /// So many for each slot, until it has `roomy` of them.
    spare: u32,
    roomy: u32,
    /// So many for each slot, however large it is.
    least: u32,
}

#[cfg(not(loom))]
impl Shape {
    /// The heads of 16 buckets share a cache line: were there as many buckets as slots, a few hundred of them, two threads that
    /// change slots of their own would meet at every line.
    const DENSE: Self = Self { first: 64, spare: 16, roomy: 1 << 14, least: 1 };
    /// With one bucket for each slot, half another slot is met before the one that is looked for, and each comes from memory after
    /// the one before it; with four, an eighth. And where a thread changes two chains with each call, 16 for each slot are too few:
    /// of 800 slots two threads met at every third line.
    const SPARSE: Self = Self { first: 1 << 14, spare: 64, roomy: 1 << 16, least: 4 };
}

/// The models grow their tables by one bucket at a time.
#[cfg(loom)]
impl Shape {
    const DENSE: Self = Self { first: 1, spare: 1, roomy: 1, least: 1 };
    const SPARSE: Self = Self::DENSE;
}

/// A slot's link to the next in its chain, or a bucket's head.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Link(AtomicU32);

impl Link {
    #[inline(always)]
    fn next(&self) -> u32 {
        // Acquire: what was written to the slot before it was linked is seen. Pairs with `publish`.
        self.0.load(Acquire)
    }

    /// Makes it the link of what is in no chain, and where the links of slots without memory lead: to the end of no bucket's chain.
    pub fn lead_nowhere(&self) {
        self.publish(END | MAX_ID);
    }

    #[inline]
    fn publish(&self, value: u32) {
        // Release: pairs with `next`.
        self.0.store(value, Release);
    }
}

#[cfg(loom)]
impl Link {
    /// What becomes of it where its memory is taken away.
    pub(crate) fn zero(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A slot that can be in a chain.
pub trait Linked: Zeroed {
    /// The slot's link.
    fn link(&self) -> &Link;

    /// The hash by which the slot is in a chain. Changed only while it is in none.
    fn chain_hash(&self) -> u64;
}

/// The size of a table as it was when a walk began: good for hits; a miss looks again.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    heads: Slots<'a, Link>,
    size: Size,
}

/// The number of buckets, and the mask that is just not smaller: as one word, which is stored whenever the number changes.
#[derive(Clone, Copy, Debug)]
struct Size {
    n: u32,
    mask: u32,
}

impl Size {
    fn of(n: u32) -> Self {
        Self { n, mask: u32::MAX >> n.leading_zeros() }
    }

    #[inline(always)]
    fn of_word(word: u64) -> Self {
        Self { n: word as u32, mask: (word >> 32) as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.mask) << 32 | u64::from(self.n)
    }

    /// The bucket that `hash` belongs to.
    #[inline(always)]
    fn bucket(self, hash: u64) -> u32 {
        let b = (hash >> 32) as u32 & self.mask;
        if b < self.n { b } else { b & (self.mask >> 1) }
    }
}

impl<'a> View<'a> {
    /// A walk along the chain of `hash`. That a slot is not met on it is only a hint.
    #[inline(always)]
    pub fn chain<T: Linked>(self, slots: Slots<'a, T>, hash: u64) -> Chain<'a, T> {
        Chain { slots, at: self.head(hash), left: STEPS }
    }

    /// The head of the chain of `hash`.
    #[inline(always)]
    fn head(self, hash: u64) -> u32 {
        self.heads.get(self.size.bucket(hash)).next()
    }

    /// Brings the head of the chain of `hash` towards the processor: somebody is about to walk it.
    #[inline(always)]
    pub fn prefetch(self, hash: u64) {
        self.heads.prefetch(self.size.bucket(hash));
    }
}

/// A walk along a chain: stands on a slot, or at the end.
#[derive(Debug)]
pub struct Chain<'a, T> {
    slots: Slots<'a, T>,
    at: u32,
    left: u32,
}

impl<'a, T: Linked> Chain<'a, T> {
    /// A walk that goes on behind a slot: in whatever chain that is by now, so a miss is not even a hint where it was moved.
    #[inline]
    pub fn behind(slots: Slots<'a, T>, from: &T) -> Self {
        Self { slots, at: from.link().next(), left: STEPS }
    }

    /// The slot that the walk stands on.
    #[inline(always)]
    pub fn slot(&self) -> Option<(u32, &'a T)> {
        if self.at & END != 0 {
            return None;
        }
        // A head's lock bit is above all ids, so it is off then.
        let id = self.slots.wrapped(self.at);
        debug_assert!(id == self.at & !LOCK, "no more slots than ids");
        Some((id, self.slots.get(id)))
    }

    /// Goes on from a slot that was not the wanted one.
    #[inline(always)]
    pub fn go_on(&mut self, from: &T) {
        self.left -= 1;
        self.at = if self.left == 0 { END } else { from.link().next() };
    }
}

/// What a thorough search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent<R> {
    /// The slot was found.
    Found(R),
    /// It was in no chain of this table at some moment during the search.
    Sure,
    /// Writers were too near; ask again, or under a lock.
    Unsure,
}

/// Chains through the slots of one arena.
pub struct Table {
    buckets: Mapping<Link>,
    /// The number of buckets in use, which only grows, and its mask: see [`Size`].
    size: AtomicU64,
    most: u32,
    shape: Shape,
    growing: Mutex<()>,
    rank: Rank,
}

impl Table {
    /// A table for up to `most` slots; a bucket's lock has the rank `rank`.
    ///
    /// # Errors
    ///
    /// What mmap(2) answers if the bucket array cannot be reserved.
    pub fn new(most: u32, rank: Rank) -> io::Result<Self> {
        Self::of(Shape::DENSE, most, rank)
    }

    /// The same with more buckets: for what is looked up at random in a large table, as most looks meet one slot, and for what
    /// several threads change at once.
    ///
    /// # Errors
    ///
    /// As [`Table::new`].
    pub fn sparse(most: u32, rank: Rank) -> io::Result<Self> {
        Self::of(Shape::SPARSE, most, rank)
    }

    fn of(shape: Shape, most: u32, rank: Rank) -> io::Result<Self> {
        let most = most.saturating_mul(shape.least).clamp(Shape::DENSE.first, 1 << 28);
        let first = shape.first.min(most);
        let buckets: Mapping<Link> = Mapping::new(most as usize)?;
        for number in 0..first {
            buckets.slots().get(number).publish(END | number);
        }
        let size = AtomicU64::new(Size::of(first).word());
        Ok(Self { buckets, size, most, shape, growing: Mutex::new(()), rank })
    }

    /// Bytes of memory behind the buckets in use.
    pub fn bytes(&self) -> u64 {
        u64::from(self.size().n) * size_of::<Link>() as u64
    }

    /// The table as it is now, to be kept for one walk.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View { heads: self.buckets.slots(), size: self.size() }
    }

    #[inline(always)]
    fn size(&self) -> Size {
        // Acquire: the heads of the buckets below `n` are seen. Pairs with the Release in `split`.
        Size::of_word(self.size.load(Acquire))
    }

    /// The first slot in the chain of `hash`, if there is any. For who looks at one mostly, and keeps no [`View`]: it is read here.
    #[inline(always)]
    pub fn first<'a, T: Linked>(&self, arena: &'a Arena<T>, hash: u64) -> Option<(u32, &'a T)> {
        let head = self.view().head(hash);
        Chain { slots: arena.slots(), at: head, left: STEPS }.slot()
    }

    /// Whether nothing was in the chain of `hash` at some moment during the call. While the table grows it may say so of no chain.
    #[inline(always)]
    pub fn is_surely_empty(&self, hash: u64) -> bool {
        let size = self.size();
        let head = self.buckets.slots().get(size.bucket(hash)).next();
        // Relaxed: as in `moves`. What belonged there then does so still.
        head & (END | LOCK) == END && self.size.load(Relaxed) == size.word()
    }

    /// Walks the chain of `hash` as [`View::chain`] does and says whether a miss can be believed. In line: most chains that are searched so
    /// are empty, and what `f` needs would be put into memory for it.
    #[inline(always)]
    pub fn find_sure<'a, T: Linked, R>(
        &self,
        arena: &'a Arena<T>,
        hash: u64,
        mut f: impl FnMut(u32, &'a T) -> Option<R>,
    ) -> Absent<R> {
        let size = self.size();
        let bucket = size.bucket(hash);
        let head = self.buckets.slots().get(bucket);
        let mut at = head.next();
        // Nothing is in it and nobody splits it, as one load says; if it was split before, that is seen.
        if at == END | bucket {
            return if self.moves(size, hash) { Absent::Unsure } else { Absent::Sure };
        }
        if at & LOCK != 0 {
            return Absent::Unsure;
        }
        let mut steps = 0;
        while at & END == 0 {
            let slot = arena.get(at);
            if let Some(found) = f(at, slot) {
                return Absent::Found(found);
            }
            steps += 1;
            if steps == STEPS {
                return Absent::Unsure;
            }
            at = slot.link().next();
        }
        // Rule 1: the marker of another chain says that we were lured.
        let lured = at != END | bucket;
        // In this order, and both after the walk, for the loads of heads and links are Acquire: if the walk saw a store of
        // a split, the head is locked by that split, or was unlocked after the split had published the new size.
        let splitting = head.next() & LOCK != 0;
        if lured || splitting || self.moves(size, hash) { Absent::Unsure } else { Absent::Sure }
    }

    /// Whether `hash` belongs to another bucket than it did when the table had that size. The caller has just loaded the bucket's head, or
    /// locked it.
    #[inline(always)]
    fn moves(&self, then: Size, hash: u64) -> bool {
        // Relaxed: who found the bucket unlocked by a split loaded or locked its head with Acquire before; the split published the new size
        // before it unlocked that.
        let now = Size::of_word(self.size.load(Relaxed));
        now.n != then.n && now.bucket(hash) != then.bucket(hash)
    }

    /// Walks the chain of `hash` with its bucket locked: the answer is exact.
    pub fn find_locked<'a, T: Linked, R>(
        &self,
        arena: &'a Arena<T>,
        hash: u64,
        mut f: impl FnMut(u32, &'a T) -> Option<R>,
    ) -> Option<R> {
        let bucket = self.lock(hash);
        let mut at = bucket.first;
        while at & END == 0 {
            let slot = arena.get(at);
            if let Some(found) = f(at, slot) {
                return Some(found);
            }
            at = slot.link().next();
        }
        None
    }

    /// Puts a slot into the chain of its hash. The caller holds the slot's lock, or nobody else knows the slot.
    pub fn insert<T: Linked>(&self, id: u32, slot: &T) {
        debug_assert!(id != 0 && id <= MAX_ID, "a slot in a chain has an id");
        let mut bucket = self.lock(slot.chain_hash());
        let first = bucket.first;
        slot.link().publish(first);
        bucket.first = id;
    }

    /// Takes a slot out of the chain of its hash. The caller holds the slot's lock; the slot's link stays, for
    /// those who stand on it.
    ///
    /// # Panics
    ///
    /// Panics if the slot is not in the chain: that is a bug of this project, never of its user.
    pub fn remove<T: Linked>(&self, arena: &Arena<T>, id: u32, slot: &T) {
        let mut bucket = self.lock(slot.chain_hash());
        let after = slot.link().next();
        let mut at = bucket.first;
        if at == id {
            bucket.first = after;
            return;
        }
        loop {
            assert!(at & END == 0, "slot {id} is in the chain it is taken from");
            let link = arena.get(at).link();
            at = link.next();
            if at == id {
                link.publish(after);
                return;
            }
        }
    }

    /// Grows the table until it has as many buckets as `slots` slots want: one for each or several, and more while it is small.
    pub fn grow<T: Linked>(&self, arena: &Arena<T>, slots: u32) {
        let Shape { spare, roomy, least, .. } = self.shape;
        let roomy = slots.saturating_mul(spare).min(roomy);
        let target = roomy.max(slots.saturating_mul(least)).min(self.most);
        if Size::of_word(self.size.load(Relaxed)).n >= target {
            return;
        }
        let _growing = self.growing.lock();
        while Size::of_word(self.size.load(Relaxed)).n < target {
            self.split(arena);
        }
    }

    /// Adds bucket `n`: what belongs there leaves the one bucket where it was until now.
    fn split<T: Linked>(&self, arena: &Arena<T>) {
        let Size { n, .. } = Size::of_word(self.size.load(Relaxed));
        let new = Size::of(n + 1);
        self.buckets.grows(n as usize, n as usize + 1);
        // `n` without its highest bit: where the slots of bucket `n` are found until now.
        let mut from = self.lock_bucket(n ^ (1 << n.ilog2()));
        let to = self.buckets.slots().get(n);
        debug_assert!(to.next() == 0, "a bucket that was never in use is empty");
        let mut to_head = END | n;
        // The last slot that stays; none yet.
        let mut stays: Option<&Link> = None;
        let mut at = from.first;
        while at & END == 0 {
            let slot = arena.get(at);
            let after = slot.link().next();
            if new.bucket(slot.chain_hash()) == n {
                // A reader on this slot is lured to the new chain and will find the wrong marker (rule 1).
                match stays {
                    Some(link) => link.publish(after),
                    None => from.first = after,
                }
                slot.link().publish(to_head);
                to_head = at;
            } else {
                stays = Some(slot.link());
            }
            at = after;
        }
        to.publish(to_head);
        // Release: whoever sees the new size sees both chains as they are now. Pairs with `view`.
        self.size.store(new.word(), Release);
    }

    /// Locks the bucket that `hash` belongs to.
    fn lock(&self, hash: u64) -> BucketGuard<'_> {
        loop {
            let size = self.size();
            let guard = self.lock_bucket(size.bucket(hash));
            // It may have been split while we waited.
            if !self.moves(size, hash) {
                return guard;
            }
        }
    }

    fn lock_bucket(&self, number: u32) -> BucketGuard<'_> {
        let held = lock_order::acquire(self.rank, false);
        let head = self.buckets.slots().get(number);
        let mut tries = 0u32;
        loop {
            // Acquire: sees what the last holder did. Pairs with the Release in the guard's drop.
            let first = head.0.fetch_or(LOCK, Acquire);
            if first & LOCK == 0 {
                return BucketGuard { head, first, _held: held };
            }
            tries += 1;
            // The section is a few instructions; a holder that was preempted needs the processor.
            if tries.is_multiple_of(64) { yield_now() } else { spin_loop() }
        }
    }

    /// The addresses of the buckets, for tools that watch stores.
    #[cfg(not(loom))]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.buckets.range()
    }

    /// Forbids or allows stores to the buckets, to prove that readers make none.
    ///
    /// # Errors
    ///
    /// What mprotect(2) answers.
    #[cfg(not(loom))]
    pub fn set_writable(&self, writable: bool) -> io::Result<()> {
        self.buckets.set_writable(writable)
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("buckets", &self.size().n).finish_non_exhaustive()
    }
}

/// A bucket, locked.
struct BucketGuard<'a> {
    head: &'a Link,
    /// What the head will say when the lock is given up: the first slot, or an end marker.
    first: u32,
    _held: Held,
}

impl Drop for BucketGuard<'_> {
    fn drop(&mut self) {
        // Release: who locks the bucket next, or enters the chain, sees what was done under the lock. Pairs with
        // the Acquire in `lock_bucket` and in `Link::next`.
        put(&self.head.0, self.first, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Cell64;
    use std::collections::HashMap;

    #[derive(Debug, Default)]
    struct Node {
        link: Link,
        key: Cell64,
    }

    #[expect(unsafe_code, reason = "see the argument")]
    // SAFETY: made of atomics; zero is a value; no drop.
    unsafe impl Zeroed for Node {}

    impl Linked for Node {
        fn link(&self) -> &Link {
            &self.link
        }
        fn chain_hash(&self) -> u64 {
            hash(self.key.get())
        }
    }

    /// Ends the readers' loop also where the writer panics.
    struct SetOnDrop<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn a_small_table_has_buckets_to_spare() {
        let arena = Arena::<Node>::new(1 << 20).unwrap();
        let table = Table::new(1 << 20, Rank(7)).unwrap();
        for (slots, buckets) in [(100, 1600), (5000, 1 << 14), (100_000, 100_000)] {
            table.grow(&arena, slots);
            assert_eq!(table.bytes(), 4 * buckets, "{slots}");
        }
        let least = Table::new(64, Rank(7)).unwrap();
        least.grow(&arena, 64);
        assert_eq!(least.bytes(), 4 * 64, "no more than it may ever have slots");
    }

    #[test]
    fn a_sparse_table_has_four_buckets_for_each_slot() {
        let arena = Arena::<Node>::new(1 << 20).unwrap();
        let table = Table::sparse(1 << 18, Rank(7)).unwrap();
        for (slots, buckets) in
            [(0, 1 << 14), (100, 1 << 14), (500, 32_000), (2000, 1 << 16), (100_000, 400_000)]
        {
            table.grow(&arena, slots);
            assert_eq!(table.bytes(), 4 * buckets, "{slots}");
        }
        table.grow(&arena, u32::MAX);
        assert_eq!(
            table.bytes(),
            4 * (4 << 18),
            "no more than its slots want, however many it hears of"
        );
        let small = Table::sparse(1000, Rank(7)).unwrap();
        assert_eq!(small.bytes(), 4 * 4000, "nor to begin with");
        small.grow(&arena, 1000);
        assert_eq!(small.bytes(), 4 * 4000, "nor while it is small");
    }

    fn hash(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn find(table: &Table, arena: &Arena<Node>, key: u64) -> Option<u32> {
        let sure =
            table.find_sure(arena, hash(key), |id, node| (node.key.get() == key).then_some(id));
        let mut chain = table.view().chain(arena.slots(), hash(key));
        let mut hint = None;
        while let Some((id, node)) = chain.slot() {
            if node.key.get() == key {
                hint = Some(id);
                break;
            }
            chain.go_on(node);
        }
        let locked =
            table.find_locked(arena, hash(key), |id, node| (node.key.get() == key).then_some(id));
        assert_eq!(hint, locked);
        assert_eq!(sure, locked.map_or(Absent::Sure, Absent::Found));
        locked
    }

    #[test]
    fn what_is_inserted_is_found_while_the_table_grows() {
        let arena = Arena::<Node>::new(10_000).unwrap();
        let table = Table::new(10_000, Rank(9)).unwrap();
        let mut present = HashMap::new();
        for key in 0..10_000u64 {
            let id = arena.alloc().unwrap();
            arena.get(id).key.set(key);
            table.insert(id, arena.get(id));
            table.grow(&arena, arena.high_water());
            present.insert(key, id);
            if key % 3 == 0 {
                let id = present.remove(&(key / 2));
                if let Some(id) = id {
                    table.remove(&arena, id, arena.get(id));
                }
            }
        }
        for key in 0..10_100 {
            assert_eq!(find(&table, &arena, key), present.get(&key).copied(), "{key}");
        }
    }

    #[test]
    fn a_persistent_slot_is_never_surely_absent_while_others_come_and_go() {
        let arena = Arena::<Node>::new(4096).unwrap();
        let table = Table::new(4096, Rank(9)).unwrap();
        let fixed: Vec<u64> = (0..64).collect();
        for &key in &fixed {
            let id = arena.alloc().unwrap();
            arena.get(id).key.set(key);
            table.insert(id, arena.get(id));
        }
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let _done = SetOnDrop(&done);
                for round in 0..200_000u64 {
                    let id = arena.alloc().unwrap();
                    arena.get(id).key.set(1000 + round);
                    table.insert(id, arena.get(id));
                    table.remove(&arena, id, arena.get(id));
                    arena.free(id);
                    if round % 50 == 0 {
                        table.grow(&arena, (round / 50) as u32);
                    }
                }
            });
            let (mut found, mut unsure) = (0u64, 0u64);
            while !done.load(Relaxed) {
                for &key in &fixed {
                    assert!(!table.is_surely_empty(hash(key)), "slot {key} was there all the time");
                    match table
                        .find_sure(&arena, hash(key), |_, n| (n.key.get() == key).then_some(()))
                    {
                        Absent::Found(()) => found += 1,
                        Absent::Unsure => unsure += 1,
                        Absent::Sure => panic!("slot {key} was there all the time"),
                    }
                }
            }
            writer.join().unwrap();
            assert!(found > unsure, "{found} found, {unsure} unsure");
        });
    }
}
