//! What a thread keeps: its memos, in sets by their texts' hashes, and which texts it met.

use super::{super::Request, Beyond, Memo, Root, key};
#[cfg(test)]
use crate::dcache::DentryId;
use crate::vfs::Vfs;
use parking_lot::Mutex;
use pathwalk_sync::{Cell64, seq::era};
use std::{
    cell::{Cell, RefCell},
    mem::ManuallyDrop,
    ops::Range,
    rc::Rc,
};

/// So many sets of texts that hash alike are remembered in a thread: twice as many as they need room, as those that meet more than
/// their set holds drive each other out, time after time.
const SETS: usize = 512;
/// So many sets of texts that were met are noted.
const NOTED: usize = 256;
/// So many texts are in a set.
const WAYS: usize = 4;
/// Of so many pairs of texts it is noted what was asked after them.
const PAIRS: usize = 4096;
/// So many misses are looked at together. If they took longer than the hits among them saved, the memos sleep.
const WINDOW: u32 = 512;
/// A miss takes as long as so many steps of a walk: the text is hashed, looked for, and noted.
const MISS: u64 = 4;
/// … and where a memo is made, so many more.
const MADE: u64 = 16;
/// So many steps a symlink, a mount or whatever matters beside dentries stands for at least.
pub(super) const OTHER: u64 = 4;
/// They sleep for so many misses the first time, twice as many the next, … A path that is looked up while they sleep is one miss; while
/// they are awake two, where its directory is asked for too.
const NAP: u32 = 512;
/// … up to so many doublings.
const DOZED: u32 = 7;

thread_local! {
    /// The memos; taken out while they are looked at. Nothing is dropped here: so nobody asks, at each look, whether the
    /// thread has ended; but what is put over something is lost.
    static MEMOS: Cell<ManuallyDrop<Option<Box<Memos>>>> = const { Cell::new(NO_MEMOS) };
    /// The memos while they sleep: not in their place, so nobody looks for them.
    static ASLEEP: Cell<ManuallyDrop<Option<Box<Memos>>>> = const { Cell::new(NO_MEMOS) };
    /// So many more misses do they sleep.
    static SLEEP: Cell<u32> = const { Cell::new(0) };
    static END: End = const { End };
    /// Nothing is remembered: see [`Nothing`].
    static NOTHING: Cell<bool> = const { Cell::new(false) };
    pub(super) static NOTES: RefCell<Notes> = const { RefCell::new(Notes::NONE) };
}

const NO_MEMOS: ManuallyDrop<Option<Box<Memos>>> = ManuallyDrop::new(None);

/// Takes the thread's memos out, if there are any.
///
/// They are moved, not lent to a closure: so all that is done with them is in line where it is done. Whoever has them puts
/// them back once, and calls nobody else's code meanwhile but under [`Nothing`]: that may walk, and would find none.
#[inline(always)]
pub(super) fn take() -> Option<Box<Memos>> {
    ManuallyDrop::into_inner(MEMOS.replace(NO_MEMOS))
}

/// Puts them back.
#[inline(always)]
pub(super) fn put(memos: Box<Memos>) {
    let before = MEMOS.replace(ManuallyDrop::new(Some(memos)));
    debug_assert!(before.is_none(), "nobody put others there");
}

/// Drops the thread's memos when it ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        drop(take());
        drop(ManuallyDrop::into_inner(ASLEEP.replace(NO_MEMOS)));
        SLEEP.set(0);
    }
}

/// Puts the memos back after a miss, or to sleep, if they may and were of no use.
///
/// To look for a text in vain, twice a path, takes as long as some steps of a walk, and more where the memos and the walk do not fit into
/// the cache together.
pub(super) fn put_after_miss(mut memos: Box<Memos>, made: bool, may_sleep: bool) {
    match memos.missed(made) {
        Useful::No if may_sleep => {
            SLEEP.set(memos.doze());
            let before = ASLEEP.replace(ManuallyDrop::new(Some(memos)));
            debug_assert!(before.is_none(), "they were awake");
        }
        _ => put(memos),
    }
}

/// Whether the memos sleep on after a miss. The last one wakes them, and one where they are not to sleep does at once.
pub(super) fn sleep_on(may_sleep: bool) -> bool {
    let left = SLEEP.get();
    if left == 0 {
        return false;
    }
    let left = if may_sleep { left - 1 } else { 0 };
    SLEEP.set(left);
    if left == 0
        && let Some(memos) = ManuallyDrop::into_inner(ASLEEP.replace(NO_MEMOS))
    {
        put(memos);
    }
    may_sleep
}

/// Whether the memos sleep on after a miss that is not the last one of their nap.
#[inline(always)]
pub(crate) fn sleeps_on(vfs: &Vfs) -> bool {
    let left = SLEEP.get();
    let sleeps = left > 1 && vfs.asks.get() == 0 && !NOTHING.get();
    if sleeps {
        SLEEP.set(left - 1);
    }
    sleeps
}

/// Whether they sleep.
pub(super) fn sleeps() -> bool {
    SLEEP.get() > 0
}

/// Whether they sleep, and the next miss is not the last one of their nap: in a machine where they may.
#[inline(always)]
pub(crate) fn seem_asleep() -> bool {
    SLEEP.get() > 1
}

/// While it is there, its thread remembers nothing, and notes nothing that it meets.
pub(super) struct Nothing {
    memos: Option<Box<Memos>>,
    before: bool,
}

impl Nothing {
    /// Begins, with the memos that are in their place.
    pub(super) fn begin() -> Self {
        Self { before: NOTHING.replace(true), memos: take() }
    }

    /// Whether there is one.
    pub(super) fn is_remembered() -> bool {
        NOTHING.get()
    }
}

impl Drop for Nothing {
    fn drop(&mut self) {
        NOTHING.set(self.before);
        if let Some(memos) = self.memos.take() {
            put(memos);
        }
    }
}

/// The memos of a thread. On the heap, as a thread's stack may be small.
pub(super) struct Memos {
    /// In the order in which they were made first: who asks in the same order again finds each one beside the one before
    /// it, and so does the hardware.
    all: Vec<Memo>,
    /// What they take of the budget, piece by piece.
    taken: Vec<Budgeted>,
    /// The era in which they were made.
    era: u32,
    sets: [Set; SETS],
    /// The way of each set that goes next where none is free.
    next: [u8; SETS],
    /// The place that goes next where there is no room for more.
    turn: usize,
    /// Where the memo is that was asked for after two others, the last time; by a hash of where those are.
    after: [Cell<u16>; PAIRS],
    /// Where the memo is that was asked for last. In a whole word, as the two behind it: half of one is read together with the other half, and
    /// that waits until both are written.
    last: Cell<u32>,
    /// What is noted of the last two in `after`.
    pair: Cell<u32>,
    /// … and what that says: where the next one may be.
    guess: Cell<u32>,
    /// How many were found since one was not.
    hits: Cell<u32>,
    /// How many were not since that was last looked at, and how many steps those that were found have saved.
    misses: u32,
    saved: u64,
    /// Memos that were made in that time.
    made: u32,
    /// So often in a row they were put to sleep.
    dozed: u32,
}

/// Whether memos saved more than they took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Useful {
    Yes,
    No,
    /// It is too early to say.
    Unknown,
}

/// The texts that hash alike.
#[derive(Clone, Copy)]
struct Set {
    tags: Tags,
    /// Where the memo of each way is; it stays the way's.
    at: [u16; WAYS],
}

/// Where no memo is.
const NOWHERE: u16 = u16::MAX;

impl Memos {
    /// So many at first, and from then on twice as many as before.
    const FIRST: usize = 16;

    /// No memos yet, if the budget has room for them. A thread that ends gets none.
    pub(super) fn new(budget: u64) -> Option<Box<Self>> {
        END.try_with(|_| ()).ok()?;
        let bytes = size_of::<Self>() + Self::FIRST * size_of::<Memo>();
        let taken = vec![Budgeted::new(bytes, budget)?];
        let all = Vec::with_capacity(Self::FIRST);
        let sets = [Set { tags: Tags(0), at: [NOWHERE; WAYS] }; SETS];
        Some(Box::new(Self {
            all,
            taken,
            era: era(),
            sets,
            next: [0; SETS],
            turn: 0,
            after: [const { Cell::new(0) }; PAIRS],
            last: Cell::new(0),
            pair: Cell::new(0),
            guess: Cell::new(0),
            hits: Cell::new(0),
            misses: 0,
            saved: 0,
            made: 0,
            dozed: 0,
        }))
    }

    /// The memo of the text, if there seems to be one, and where it is.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<(u16, &Memo)> {
        let set = &self.sets[hash as usize % SETS];
        let &at = set.at.get(set.tags.way(hash))?;
        self.at(at).map(|memo| (at, memo))
    }

    /// The memo at a place.
    #[inline(always)]
    pub(super) fn at(&self, at: u16) -> Option<&Memo> {
        self.all.get(usize::from(at))
    }

    /// The memo that was asked for last.
    pub(super) fn last_mut(&mut self) -> Option<&mut Memo> {
        self.all.get_mut(self.last.get() as usize)
    }

    /// Where the memo is that will be asked for now, if all goes as the last time.
    #[inline(always)]
    pub(super) fn guess(&self) -> u16 {
        self.guess.get() as u16
    }

    /// It was another one: so it will be that the next time.
    #[inline(always)]
    pub(super) fn follow_by(&self, at: u16) {
        self.after[self.pair.get() as usize % PAIRS].set(at);
    }

    /// A memo was asked for.
    #[inline(always)]
    pub(super) fn came_to(&self, at: u16) {
        let at = u32::from(at);
        let pair = self.last.replace(at) << 16 | at;
        let pair = pair.wrapping_mul(0x9e37_79b1) >> 16;
        self.pair.set(pair);
        self.guess.set(u32::from(self.after[pair as usize % PAIRS].get()));
    }

    /// It held.
    #[inline(always)]
    pub(super) fn hit(&self) {
        self.hits.set(self.hits.get().wrapping_add(1));
    }

    /// A text was not found, and a memo of it made, or not; answers whether the memos were of use.
    ///
    /// Of what was found since the miss before it is the last that is looked at.
    fn missed(&mut self, made: bool) -> Useful {
        let hits = self.hits.replace(0);
        if hits > 0 {
            let steps = self.at(self.last.get() as u16).map_or(0, Memo::steps);
            self.saved = self.saved.saturating_add(u64::from(hits) * steps);
        }
        self.misses += 1;
        self.made += u32::from(made);
        if self.misses < WINDOW {
            return Useful::Unknown;
        }
        let took = MISS * u64::from(WINDOW) + MADE * u64::from(self.made);
        let useful = self.saved >= took;
        (self.misses, self.saved, self.made) = (0, 0, 0);
        if !useful {
            return Useful::No;
        }
        self.dozed = 0;
        Useful::Yes
    }

    /// For how many misses they sleep now.
    fn doze(&mut self) -> u32 {
        let nap = NAP << self.dozed;
        self.dozed = (self.dozed + 1).min(DOZED);
        nap
    }

    /// Whether the memos are of now. Asked last: see [`era`].
    #[inline(always)]
    pub(super) fn are_of_this_era(&self) -> bool {
        self.era == era()
    }

    /// Whether what is remembered of `text`, with which the request's path begins, holds still; `hash` is its [`key`].
    pub(super) fn hold(&self, hash: u64, request: &Request<'_>, text: &[u8]) -> bool {
        let (vfs, root) = (request.vfs, request.fs.peek_root());
        let found = self.find(hash).filter(|(_, memo)| memo.is(vfs, root, text));
        found.is_some_and(|(_, memo)| memo.holds(vfs, request.asker)) && self.are_of_this_era()
    }

    /// Forgets the memo of a text that does not hold any more, and all that were made in another era; answers whether it
    /// was of use.
    pub(super) fn forget(&mut self, hash: u64) -> Option<bool> {
        let now = era();
        if self.era != now {
            self.era = now;
            self.sets.iter_mut().for_each(|set| set.tags = Tags(0));
            self.all.iter_mut().for_each(|memo| *memo = Memo::none());
        }
        let (at, memo) = self.find(hash)?;
        let used = memo.was_of_use();
        self.all[usize::from(at)] = Memo::none();
        let tags = &mut self.sets[hash as usize % SETS].tags;
        tags.put(tags.way(hash), 0);
        Some(used)
    }

    /// The room for the memo of a text with that hash: of a way of its set that is free, or whose turn it is and which is of no use
    /// any more. Where more texts are in use than a set holds, those stay that are there: else each would drive out the next.
    pub(super) fn room(&mut self, hash: u64, budget: u64) -> Option<Room<'_>> {
        let set = hash as usize % SETS;
        let free = self.sets[set].tags.way_of(0);
        let way = if free < WAYS { free } else { usize::from(self.next[set]) };
        if free == WAYS
            && let Some(memo) = self.at(self.sets[set].at[way])
            && memo.used.get() != 0
        {
            // Two hits make up for that.
            memo.used.set(memo.used.get() >> 2);
            self.next[set] = (way as u8 + 1) % WAYS as u8;
            return None;
        }
        if self.sets[set].at[way] == NOWHERE {
            self.sets[set].at[way] = self.push(budget).or_else(|| self.take_away())?;
        }
        let Set { tags, at } = &mut self.sets[set];
        let memo = self.all.get_mut(usize::from(at[way]))?;
        Some(Room { memo, tags, next: &mut self.next[set], way, tag: Tags::tag(hash) })
    }

    /// Takes the place of another memo; each one's turn comes.
    fn take_away(&mut self) -> Option<u16> {
        let place = u16::try_from(self.turn % self.all.len().max(1)).ok()?;
        self.turn = self.turn.wrapping_add(1);
        let set = self.sets.iter_mut().find(|set| set.at.contains(&place))?;
        let way = set.at.iter().position(|&at| at == place)?;
        set.tags.put(way, 0);
        set.at[way] = NOWHERE;
        // It would be found there still, by who guesses.
        *self.all.get_mut(usize::from(place))? = Memo::none();
        Some(place)
    }

    /// Makes room for one more, if all threads then have no more than the budget.
    fn push(&mut self, budget: u64) -> Option<u16> {
        let all = &mut self.all;
        if all.len() == all.capacity() {
            let as_many = all.len();
            self.taken.push(Budgeted::new(as_many * size_of::<Memo>(), budget)?);
            all.reserve_exact(as_many);
        }
        all.push(Memo::none());
        u16::try_from(all.len() - 1).ok()
    }
}

/// What lies beyond the memo of a text that is remembered.
pub(super) fn beyond(vfs: &Vfs, root: Root, text: &[u8]) -> Option<Rc<Beyond>> {
    let memos = take()?;
    let found = memos.find(key(vfs, text)).filter(|(_, memo)| memo.is(vfs, root, text));
    let beyond = found.and_then(|(_, memo)| memo.beyond.clone());
    put(memos);
    beyond
}

/// Whether what is remembered of `text`, with which the request's path begins, holds still.
pub(super) fn still_holds(request: &Request<'_>, text: &[u8]) -> bool {
    let Some(memos) = take() else { return false };
    let holds = memos.hold(key(request.vfs, text), request, text);
    put(memos);
    holds
}

/// Forgets the memo of a text, which does not hold by what a file system says; and whether it ever did.
pub(super) fn forget(vfs: &Vfs, text: &[u8], held: bool) {
    let key = key(vfs, text);
    if let Some(mut memos) = take() {
        memos.forget(key);
        put(memos);
    }
    NOTES.with(|notes| {
        if let Ok(mut notes) = notes.try_borrow_mut() {
            if held { notes.held(key) } else { notes.strike(key) }
        }
    });
}

/// Where a memo is put.
pub(super) struct Room<'a> {
    memo: &'a mut Memo,
    tags: &'a mut Tags,
    next: &'a mut u8,
    way: usize,
    tag: u64,
}

impl Room<'_> {
    /// Keeps the memo.
    pub(super) fn put(self, memo: Memo) {
        *self.memo = memo;
        self.tags.put(self.way, self.tag);
        *self.next = (self.way as u8 + 1) % WAYS as u8;
    }
}

/// The bytes of all threads' memos; changed by who has the lock beside it.
static TAKEN: Cell64 = Cell64::new(0);
static TAKING: Mutex<()> = Mutex::new(());

/// How many bytes the threads of the process have for the paths that they remember: see
/// [`Config::memo_bytes`](crate::Config::memo_bytes).
pub fn bytes() -> u64 {
    TAKEN.get()
}

/// Bytes that are taken of the budget, until it is dropped.
pub(super) struct Budgeted(u64);

impl Budgeted {
    /// Takes so many, if there are.
    pub(super) fn new(bytes: usize, budget: u64) -> Option<Self> {
        let bytes = bytes as u64;
        let more = || Some(TAKEN.get() + bytes).filter(|&bytes| bytes <= budget);
        // Who finds no room stores nothing.
        more()?;
        let _taking = TAKING.lock();
        TAKEN.set(more()?);
        Some(Self(bytes))
    }
}

impl Drop for Budgeted {
    fn drop(&mut self) {
        let _taking = TAKING.lock();
        TAKEN.set(TAKEN.get() - self.0);
    }
}

/// What tells the texts of a set apart, mostly: sixteen bits of each one's hash.
#[derive(Clone, Copy)]
struct Tags(u64);

impl Tags {
    const LOW: u64 = 0x0001_0001_0001_0001;
    const HIGH: u64 = Self::LOW << 15;

    /// The way of the first text with that hash; behind the last one if there is none.
    #[inline(always)]
    fn way(self, hash: u64) -> usize {
        self.way_of(Self::tag(hash))
    }

    /// All are compared before anything is decided: which one it is cannot be predicted.
    #[inline(always)]
    fn way_of(self, tag: u64) -> usize {
        let differ = self.0 ^ tag.wrapping_mul(Self::LOW);
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

/// The texts that a thread met, in sets as the memos are, the last one first.
pub(super) struct Notes([[Met; WAYS]; NOTED]);

/// A text that was met.
#[derive(Clone, Copy)]
struct Met {
    /// More of its hash.
    tag: u32,
    /// So many meetings until it is remembered.
    left: u16,
    /// So often in a row it was remembered in vain.
    strikes: u16,
}

impl Notes {
    const NONE: Self = Self([[Met { tag: 0, left: 0, strikes: 0 }; WAYS]; NOTED]);

    /// Notes that a text is met; answers whether it is to be remembered. `was_of_use` is of a memo of it that does not hold any
    /// more.
    pub(super) fn meet(&mut self, hash: u64, was_of_use: Option<bool>) -> bool {
        let Some(met) = self.of(hash) else { return false };
        match was_of_use {
            Some(true) => met.held(),
            Some(false) => met.strike(),
            None => {}
        }
        let due = met.left == 0;
        met.left = met.left.saturating_sub(1);
        due
    }

    /// The text was remembered in vain.
    pub(super) fn strike(&mut self, hash: u64) {
        if let Some(met) = self.of(hash) {
            met.strike();
        }
    }

    /// The text was remembered, and that held.
    fn held(&mut self, hash: u64) {
        if let Some(met) = self.of(hash) {
            met.held();
        }
    }

    /// What is known of a text that is met; nothing the first time.
    fn of(&mut self, hash: u64) -> Option<&mut Met> {
        let met = &mut self.0[hash as usize % NOTED];
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
    fn held(&mut self) {
        (self.left, self.strikes) = (0, 0);
    }

    fn strike(&mut self) {
        self.strikes = (self.strikes + 1).min(10);
        self.left = (1 << self.strikes) - 1;
    }
}

/// The addresses of what the thread keeps, for tools that watch stores.
pub fn own_ranges() -> Vec<Range<usize>> {
    fn of<T: ?Sized>(it: &T) -> Range<usize> {
        let at = std::ptr::from_ref(it).cast::<()>().addr();
        at..at + size_of_val(it)
    }
    let mut ranges = vec![MEMOS.with(of), NOTES.with(of), ASLEEP.with(of), SLEEP.with(of)];
    for memos in [&MEMOS, &ASLEEP] {
        let kept = memos.replace(NO_MEMOS);
        ranges.extend(kept.iter().flat_map(|memos| [of(&**memos), of(&*memos.all)]));
        memos.set(kept);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss() {
        if !sleep_on(true) {
            put_after_miss(take().expect("who does not sleep is in its place"), false, true);
        }
    }

    fn awake() -> bool {
        let memos = take();
        let awake = memos.is_some();
        memos.into_iter().for_each(put);
        awake
    }

    /// Memos, of which the first has so many steps.
    fn memos(steps: u32) -> Box<Memos> {
        let mut memos = Memos::new(1 << 24).unwrap();
        let at = memos.push(1 << 24).unwrap();
        for step in &mut memos.all[usize::from(at)].few[..steps as usize] {
            step.0 = DentryId(1);
        }
        memos
    }

    /// Five texts of one set, asked for in turns: four stay, and are not made again. Who is not asked for any more goes.
    #[test]
    fn who_is_asked_for_stays_where_a_set_is_full() {
        let mut memos = Memos::new(1 << 24).unwrap();
        let hash = |number: u64| (number + 1) << 49;
        for number in 0..WAYS as u64 {
            memos.room(hash(number), 1 << 24).expect("a way is free").put(Memo::none());
        }
        for round in 0..100 {
            for number in 0..WAYS as u64 {
                let (_, memo) = memos.find(hash(number)).expect("it stays");
                memo.used.set(memo.used.get() << 1 | 1);
            }
            assert!(memos.room(hash(4), 1 << 24).is_none(), "round {round}");
        }
        let refused = (0..100).find(|_| memos.room(hash(4), 1 << 24).is_some());
        assert!(refused.is_some_and(|refused| (4..20).contains(&refused)), "{refused:?}");
    }

    #[test]
    fn memos_that_are_of_no_use_sleep_longer_each_time_and_wake() {
        put(memos(0));
        for nap in (9..=16).map(|power| 1 << power).chain([65_536]) {
            for _ in 0..WINDOW {
                assert!(awake());
                miss();
            }
            for _ in 0..nap {
                assert!(!awake());
                miss();
            }
        }
        assert!(awake());
        (0..WINDOW).for_each(|_| miss());
        assert!(!awake());
        assert!(!sleep_on(false), "who is not to sleep wakes at once");
        assert!(awake());
        (0..2 * WINDOW).for_each(|_| put_after_miss(take().unwrap(), false, false));
        assert!(awake());
        drop(take());
    }

    #[test]
    fn who_was_not_to_sleep_sleeps_no_longer_for_that() {
        put(memos(0));
        (0..8 * WINDOW).for_each(|_| put_after_miss(take().unwrap(), false, false));
        (0..WINDOW).for_each(|_| miss());
        assert_eq!(SLEEP.get(), NAP);
        (0..NAP).for_each(|_| miss());
        drop(take());
    }

    #[test]
    fn what_is_made_again_and_again_is_of_no_use() {
        for (hits, useful) in [(4, false), (5, true)] {
            put(memos(4));
            for _ in 0..WINDOW {
                let memos = take().unwrap();
                (0..hits).for_each(|_| {
                    memos.came_to(0);
                    memos.hit();
                });
                put_after_miss(memos, true, true);
            }
            assert_eq!(awake(), useful, "{hits} hits of each");
            for _ in 0..NAP {
                sleep_on(true);
            }
            drop(take());
        }
    }

    #[test]
    fn a_hit_is_worth_the_steps_that_it_saves() {
        for (steps, hits, useful) in [(3, 1, false), (4, 1, true), (2, 1, false), (2, 2, true)] {
            put(memos(steps));
            for _ in 0..WINDOW {
                let memos = take().unwrap();
                (0..hits).for_each(|_| {
                    memos.came_to(0);
                    memos.hit();
                });
                put(memos);
                miss();
            }
            assert_eq!(awake(), useful, "{hits} hits of {steps} steps for each miss");
            for _ in 0..NAP {
                sleep_on(true);
            }
            drop(take());
        }
    }
}
