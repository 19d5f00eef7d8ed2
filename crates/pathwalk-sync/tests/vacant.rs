//! Memory of free slots goes back to the system, and what late readers know of a slot is never taken for something else.
#![cfg(not(loom))]

use pathwalk_sync::{Arena, Cell32, Cell64, Lockref, Rank, Returned, Sample, Seq, slot};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

const RANK: Rank = Rank(1);
/// The slots, of 64 bytes, of a block of 64 KiB.
const BLOCK: u32 = 1024;

slot! {
    #[repr(align(64))]
    struct Slot: Words {
        seq: Seq,
        other: Seq,
        lockref: Lockref,
        /// Which life this is of all lives of all slots, and the same again.
        life: Cell64,
        again: Cell64,
        marked: Cell32,
    }
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Returned for Slot {
    fn lockref(&self) -> &Lockref {
        &self.lockref
    }

    fn seqs(&self) -> impl Iterator<Item = &Seq> {
        [&self.seq, &self.other].into_iter()
    }
}

/// Makes a free slot something.
fn make(arena: &Arena<Slot>, life: u64) -> u32 {
    let id = arena.alloc().unwrap();
    let slot = arena.get(id);
    {
        let _change = slot.seq.change();
        slot.life.set(life);
        slot.again.set(life);
    }
    slot.lockref.revive();
    id
}

/// Ends it.
fn end(arena: &Arena<Slot>, id: u32) {
    let slot = arena.get(id);
    {
        let guard = slot.lockref.lock(RANK);
        let _change = slot.seq.change();
        assert!(guard.put_and_mark_dead());
        slot.life.set(0);
        slot.again.set(0);
    }
    arena.free(id);
}

/// Says at its end that it is over, also where the test has failed by then: others wait for that.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn arena() -> Arena<Slot> {
    Arena::returning(1 << 22).unwrap()
}

fn memory(arena: &Arena<Slot>) -> u64 {
    arena.bytes() / 64
}

#[test]
fn what_nobody_has_goes_and_comes_back_with_counts_that_none_had_before() {
    let arena = arena();
    let slots = 20 * BLOCK;
    let mut before: HashMap<u32, Sample> = HashMap::new();
    for round in 1..5 {
        let ids: Vec<u32> = (0..slots).map(|number| make(&arena, number.into())).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        assert!(arena.high_water() <= slots + BLOCK, "{round}: what had memory is used again");
        let samples = ids.iter().map(|&id| (id, arena.get(id).seq.sample()));
        let known: HashMap<u32, Sample> = samples.collect();
        for (id, sample) in &known {
            let before = before.get(id).map_or(0, |before| before.count());
            assert!(sample.count() > before, "{round}: {id}");
        }
        ids.iter().for_each(|&id| end(&arena, id));
        arena.trim();
        // Slot 0 shares a block with the first, and the last block may have been begun.
        assert!(memory(&arena) < u64::from(4 * BLOCK), "{round}: {arena:?}");
        assert_eq!(arena.in_use(), 0);
        let gone = known.keys().filter(|&&id| arena.get(id).seq.is(Sample::NONE)).count();
        assert!(gone as u32 >= slots - 3 * BLOCK, "{round}: {gone}");
        for (&id, &sample) in &known {
            let slot = arena.get(id);
            assert!(!slot.seq.unchanged(sample) && !slot.lockref.get_not_dead());
            assert_eq!((slot.life.get(), slot.again.get()), (0, 0));
        }
        before = known;
    }
}

/// A block that is used in part is used up before another one is begun: it goes only as a whole.
#[test]
fn no_more_is_kept_each_time_that_memory_goes() {
    let arena = arena();
    for round in 0..40 {
        let slots = 20 * BLOCK - 100 * round;
        let ids: Vec<u32> = (0..slots).map(|number| make(&arena, number.into())).collect();
        ids.iter().for_each(|&id| end(&arena, id));
        arena.trim();
        assert!(memory(&arena) < u64::from(4 * BLOCK), "{round}: {}", memory(&arena));
    }
}

#[test]
fn slots_of_one_block_begin_beyond_the_highest_count_of_any() {
    let arena = arena();
    let ids: Vec<u32> = (0..4 * BLOCK).map(|number| make(&arena, number.into())).collect();
    let block = |id: u32| id / BLOCK;
    let one = ids[2 * BLOCK as usize];
    (0..50).for_each(|_| arena.get(one).other.invalidate());
    let highest = arena.get(one).other.sample().count();
    ids.iter().for_each(|&id| end(&arena, id));
    arena.trim();
    let again: Vec<u32> = (0..4 * BLOCK).map(|number| make(&arena, number.into())).collect();
    let of_that = again.iter().filter(|&&id| block(id) == block(one));
    assert_eq!(of_that.clone().count() as u32, BLOCK);
    of_that.for_each(|&id| {
        assert!(arena.get(id).seq.sample().count() > highest);
        assert!(arena.get(id).other.sample().count() > highest);
    });
}

#[test]
fn a_block_stays_where_one_of_its_slots_is_in_use_or_a_late_reader_has_its_lock() {
    let arena = arena();
    let ids: Vec<u32> = (0..8 * BLOCK).map(|number| make(&arena, number.into())).collect();
    let (used, read) = (3 * BLOCK + 5, 5 * BLOCK + 6);
    ids.iter().filter(|&&id| id != used).for_each(|&id| end(&arena, id));
    let life = arena.get(used).life.get();
    let late = arena.get(read).lockref.lock(RANK);
    arena.trim();
    let is_there = |id: u32| !arena.get(id).seq.is(Sample::NONE);
    let blocks: Vec<u32> = (0..8).filter(|block| is_there(block * BLOCK + 1)).collect();
    assert_eq!(blocks, [0, 3, 5], "and the first, which has slot 0");
    assert_eq!((arena.get(used).life.get(), arena.in_use()), (life, 1));
    drop(late);
    // Those of the block that stayed have their locks again.
    (5 * BLOCK..6 * BLOCK).for_each(|id| drop(arena.get(id).lockref.lock(RANK)));
    arena.trim();
    assert!(!is_there(read) && is_there(used));
    end(&arena, used);
    assert_eq!(arena.in_use(), 0);
}

/// Beyond the first MiBs it goes in pieces of 2 MiB.
#[test]
fn memory_goes_without_being_asked_to_where_much_is_free() {
    let arena = arena();
    let (slots, large) = (512 * BLOCK, 32 * BLOCK);
    for round in 0..3 {
        let ids: Vec<u32> = (0..slots).map(|number| make(&arena, number.into())).collect();
        assert!(memory(&arena) >= slots.into() && arena.high_water() < slots + BLOCK);
        let (stays, go) = ids.split_at(1);
        go.iter().for_each(|&id| end(&arena, id));
        assert!(memory(&arena) < u64::from(slots / 3), "{round}: {}", memory(&arena));
        arena.trim();
        assert!(memory(&arena) < u64::from(3 * large), "{round}: {}", memory(&arena));
        assert_eq!(arena.in_use(), 1);
        end(&arena, stays[0]);
    }
}

/// Where one slot of each block stays in use, nothing goes: it is looked again when a good part more is free, and not each time.
#[test]
fn it_is_not_looked_again_and_again() {
    let arena = arena();
    let ids: Vec<u32> = (0..390 * BLOCK).map(|number| make(&arena, number.into())).collect();
    let (stay, go): (Vec<u32>, Vec<u32>) = ids.iter().partition(|&&id| id % BLOCK == 1);
    go.iter().for_each(|&id| end(&arena, id));
    assert_eq!(arena.looks(), 5, "at 65,536, at twice and three times as many, and so on");
    assert!(memory(&arena) > u64::from(389 * BLOCK), "{arena:?}");
    stay.iter().for_each(|&id| end(&arena, id));
    assert_eq!(arena.looks(), 5);
    arena.trim();
    assert!(memory(&arena) < u64::from(70 * BLOCK) && arena.looks() == 6, "{arena:?}");
}

/// Where memory is locked the system takes what lies before that, and says that it did not.
#[test]
fn memory_that_is_locked_in_part_is_used_as_before() {
    let arena = arena();
    let ids: Vec<u32> = (0..8 * BLOCK).map(|number| make(&arena, number.into())).collect();
    let page = arena.range().start + (3 * BLOCK as usize + BLOCK as usize / 2) * 64;
    // SAFETY: the page is mapped as long as the arena is there, and what it holds is not changed.
    #[expect(unsafe_code, reason = "there is no other way to lock memory")]
    let locked = unsafe { rustix::mm::mlock(page as *mut _, 4096) };
    assert_eq!(locked, Ok(()), "a page may be locked by everyone");
    let known: HashMap<u32, Sample> =
        ids.iter().map(|&id| (id, arena.get(id).seq.sample())).collect();
    ids.iter().for_each(|&id| end(&arena, id));
    arena.trim();
    let of_block = |id: &u32| *id / BLOCK == 3;
    assert!((3 * BLOCK..4 * BLOCK).all(|id| !arena.get(id).seq.is(Sample::NONE)));
    let again: Vec<u32> = (0..8 * BLOCK).map(|number| make(&arena, number.into())).collect();
    assert_eq!(again.iter().copied().filter(of_block).count() as u32, BLOCK);
    for id in again {
        let before = known.get(&id).map_or(0, |sample| sample.count());
        assert!(arena.get(id).seq.sample().count() > before, "{id}");
    }
}

/// What stays where every other slot is in use is free for others, and is not looked at each time.
#[test]
fn where_blocks_have_slots_in_use_all_free_ones_are_found() {
    let arena = Arena::<Slot>::returning(100 * BLOCK).unwrap();
    let ids: Vec<u32> = std::iter::from_fn(|| arena.alloc()).collect();
    ids.iter().for_each(|&id| arena.get(id).lockref.revive());
    ids.iter().filter(|&&id| id % 2 == 0).for_each(|&id| end(&arena, id));
    let free: HashSet<u32> = std::iter::from_fn(|| arena.alloc()).collect();
    assert_eq!(free.len(), ids.iter().filter(|&&id| id % 2 == 0).count());
    assert!(free.iter().all(|id| id % 2 == 0));
}

/// Does something while another thread has memory go all the time.
fn while_it_goes(arena: &Arena<Slot>, does: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            while !over.load(Relaxed) {
                arena.trim();
            }
        });
        does();
    });
}

#[test]
fn how_many_are_in_use_is_told_while_memory_goes() {
    let arena = arena();
    let held: Vec<u32> = (0..500).map(|number| make(&arena, number)).collect();
    while_it_goes(&arena, || {
        for _ in 0..200 {
            let ids: Vec<u32> = (0..2 * BLOCK).map(|number| make(&arena, number.into())).collect();
            assert_eq!(arena.in_use(), 500 + 2 * BLOCK);
            ids.iter().for_each(|&id| end(&arena, id));
            assert_eq!(arena.in_use(), 500);
        }
    });
    held.iter().for_each(|&id| end(&arena, id));
    assert_eq!(arena.in_use(), 0);
}

#[test]
fn a_full_arena_finds_its_last_slot_while_memory_goes() {
    let arena = Arena::<Slot>::returning(2 * BLOCK).unwrap();
    let ids: Vec<u32> = std::iter::from_fn(|| arena.alloc()).collect();
    while_it_goes(&arena, || {
        for &id in ids.iter().cycle().take(50_000) {
            arena.free(id);
            assert_eq!(arena.alloc(), Some(id), "the only one that is free");
        }
    });
}

/// Readers with ids and samples of long ago, lockers by old ids, makers, and somebody who has memory go all the time.
#[test]
fn who_comes_late_believes_nothing_that_is_not_so() {
    let arena = arena();
    let (over, lives) = (AtomicBool::new(false), AtomicU64::new(1));
    let seen: Mutex<Vec<(u32, Sample, u64)>> = Mutex::default();
    thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut number = 1_usize;
                while !over.load(Relaxed) {
                    number = number.wrapping_mul(25_214_903_917) + 11;
                    let of = |all: &Vec<_>| all.get((number >> 20) % all.len().max(1)).copied();
                    let Some((id, sample, life)) = of(&seen.lock().unwrap()) else { continue };
                    let slot = arena.get(id);
                    let now = (slot.life.get(), slot.again.get());
                    if slot.seq.unchanged(sample) {
                        assert_eq!(now, (life, life));
                    }
                    let fresh = slot.seq.sample();
                    let now = (slot.life.get(), slot.again.get());
                    if slot.seq.unchanged(fresh) {
                        assert_eq!(now.0, now.1);
                        assert!(fresh != Sample::NONE || now.0 == 0);
                    }
                    if slot.lockref.get_not_dead() {
                        // As who unlazies does: its end waits for this.
                        assert_ne!(slot.lockref.put(), 0, "the maker has one");
                    }
                    let _guard = slot.lockref.lock(RANK);
                    assert_eq!(slot.marked.get(), 0, "another has the lock");
                    slot.marked.set(1);
                    std::hint::spin_loop();
                    slot.marked.set(0);
                }
            });
        }
        scope.spawn(|| {
            while !over.load(Relaxed) {
                arena.trim();
            }
        });
        for _ in 0..60 {
            let ids: Vec<u32> = (0..3 * BLOCK)
                .map(|_| {
                    let life = lives.fetch_add(1, Relaxed);
                    let id = make(&arena, life);
                    let mut seen = seen.lock().unwrap();
                    if seen.len() >= 20_000 {
                        seen.swap_remove(life as usize % 20_000);
                    }
                    seen.push((id, arena.get(id).seq.sample(), life));
                    id
                })
                .collect();
            for id in ids {
                let slot = arena.get(id);
                loop {
                    let guard = slot.lockref.lock(RANK);
                    if guard.put_and_mark_dead() {
                        let _change = slot.seq.change();
                        slot.life.set(0);
                        slot.again.set(0);
                        break;
                    }
                }
                arena.free(id);
            }
        }
    });
    assert_eq!(arena.in_use(), 0);
}
