//! Lockrefs: who frees a slot, who may touch it, and what they see of those before them.
#![cfg(loom)]

mod model;
mod plain;

use model::{explore, spawn};
use pathwalk_sync::{Cell32, Lockref, Rank};
use plain::Plain;
use std::{collections::BTreeSet, sync::Arc};

const RANK: Rank = Rank(1);

/// A slot whose contents a holder reads, the lock's holder writes, and who frees it destroys.
#[derive(Default)]
struct Slot {
    lockref: Lockref,
    contents: Plain,
    /// A word that says which life of the slot this is.
    life: Cell32,
}

impl Slot {
    /// A slot with so many counts.
    fn held(counts: u32) -> Arc<Self> {
        let slot = Self::default();
        slot.lockref.revive();
        (0..counts).for_each(|_| slot.lockref.get());
        let _left = slot.lockref.put();
        Arc::new(slot)
    }

    /// A slot that was freed.
    fn free() -> Arc<Self> {
        let slot = Self::held(0);
        assert!(slot.lockref.lock(RANK).mark_dead());
        slot
    }

    /// Gives a count back and destroys the contents if it was the last; says whether it was.
    fn put(&self) -> bool {
        self.contents.read();
        self.lockref.put() == 0 && self.destroy_unless_held()
    }

    /// As [`Slot::put`], of a slot that never stays at count 0.
    fn put_or_destroy(&self) -> bool {
        self.contents.read();
        loop {
            if self.lockref.put_unless_last() {
                return false;
            }
            let guard = self.lockref.lock(RANK);
            if guard.put_and_mark_dead() {
                self.contents.write();
                return true;
            }
        }
    }

    /// Destroys the contents if nobody holds the slot.
    fn destroy_unless_held(&self) -> bool {
        let guard = self.lockref.lock(RANK);
        let dead = guard.mark_dead();
        if dead {
            self.contents.write();
        }
        dead
    }
}

/// Two at a time, because three of them have a million schedules; each returns whether it freed the slot, or
/// nothing where it was refused a count.
#[test]
fn of_all_who_find_a_slot_unheld_one_frees_it() {
    let holder: fn(&Slot) -> Option<bool> = |slot| Some(slot.put());
    let walker: fn(&Slot) -> Option<bool> = |slot| slot.lockref.get_not_dead().then(|| slot.put());
    let shrinker: fn(&Slot) -> Option<bool> = |slot| Some(slot.destroy_unless_held());
    let (freed, left, refused) = (Some(true), Some(false), None);
    let table = [
        (2, holder, holder, vec![(freed, left), (left, freed)]),
        (1, holder, walker, vec![(freed, left), (left, freed), (freed, refused)]),
        (1, holder, shrinker, vec![(freed, left), (left, freed)]),
        (0, walker, shrinker, vec![(freed, left), (left, freed), (refused, freed)]),
    ];
    for (counts, one, other, expected) in table {
        let seen = explore(move || {
            let slot = Slot::held(counts);
            let [one, other] = [one, other].map(|work| spawn(&slot, work));
            let outcome = (one.join().unwrap(), other.join().unwrap());
            assert!(slot.lockref.is_dead() && slot.lockref.count() == 0);
            outcome
        });
        assert_eq!(seen, BTreeSet::from_iter(expected), "{counts} counts");
    }
}

#[test]
fn a_last_count_can_be_given_back_under_the_lock() {
    let seen = explore(|| {
        let slot = Slot::held(2);
        let owner = spawn(&slot, |slot| {
            let guard = slot.lockref.lock(RANK);
            let dead = guard.put_and_mark_dead();
            if dead {
                slot.contents.write();
            }
            drop(guard);
            dead || slot.put()
        });
        let walker = spawn(&slot, Slot::put);
        let (owner, walker) = (owner.join().unwrap(), walker.join().unwrap());
        assert!(owner != walker, "{owner} {walker}");
        assert!(slot.lockref.is_dead() && slot.lockref.count() == 0);
        owner
    });
    assert_eq!(seen, BTreeSet::from([false, true]));
}

/// Two holders and one who finds the slot; each returns whether it freed it, or nothing where it was refused a count.
#[test]
fn of_a_slot_that_is_never_left_at_no_count_the_last_holder_frees_it() {
    let seen = explore(|| {
        let slot = Slot::held(2);
        let holders = [(); 2].map(|()| spawn(&slot, Slot::put_or_destroy));
        let walker =
            spawn(&slot, |slot| slot.lockref.get_not_dead().then(|| slot.put_or_destroy()));
        let freed = holders.map(|holder| holder.join().unwrap());
        let found = walker.join().unwrap();
        assert!(slot.lockref.is_dead() && slot.lockref.count() == 0);
        (freed, found)
    });
    let (freed, left, refused) = (Some(true), Some(false), None);
    let mut expected = BTreeSet::from([([false, false], freed)]);
    for found in [left, refused] {
        expected.extend([([true, false], found), ([false, true], found)]);
    }
    assert_eq!(seen, expected);
}

/// Else it could be freed by who finds it, and be another's, before the one who gave the last count back gets the lock.
#[test]
fn a_slot_that_is_never_left_at_no_count_is_dead_where_nobody_holds_it() {
    let seen = explore(|| {
        let slot = Slot::held(2);
        let holders = [(); 2].map(|()| spawn(&slot, Slot::put_or_destroy));
        let looker = spawn(&slot, |slot| {
            let _guard = slot.lockref.lock(RANK);
            (slot.lockref.count(), slot.lockref.is_dead())
        });
        let freed = holders.map(|holder| holder.join().unwrap());
        assert!(freed[0] != freed[1], "one of the two frees it");
        looker.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([(2, false), (1, false), (0, true)]));
}

#[test]
fn a_count_of_a_revived_slot_shows_its_contents() {
    let seen = explore(|| {
        let slot = Slot::free();
        let owner = spawn(&slot, |slot| {
            slot.contents.write();
            slot.life.set(2);
            slot.lockref.revive();
        });
        let walker = spawn(&slot, |slot| {
            let held = slot.lockref.get_not_dead();
            if held {
                slot.contents.read();
                assert_eq!(slot.life.get(), 2, "a holder sees an earlier life");
                assert_ne!(slot.lockref.put(), 0, "the owner still holds it");
            }
            held
        });
        owner.join().unwrap();
        let held = walker.join().unwrap();
        assert_eq!(slot.lockref.count(), 1);
        held
    });
    assert_eq!(seen, BTreeSet::from([false, true]));
}

#[test]
fn a_slot_that_is_locked_by_an_old_id_is_revived_unharmed() {
    let seen = explore(|| {
        let slot = Slot::held(0);
        // Both have seen the count reach zero. One frees the slot, which is then taken again at once.
        let [one, other] = [(); 2].map(|()| {
            spawn(&slot, |slot| {
                let freed = slot.destroy_unless_held();
                if freed {
                    slot.lockref.revive();
                    let _guard = slot.lockref.lock(RANK);
                    slot.contents.write();
                } else {
                    let _guard = slot.lockref.lock(RANK);
                    slot.contents.read();
                }
                freed
            })
        });
        let freed = (one.join().unwrap(), other.join().unwrap());
        assert_eq!(slot.lockref.count(), 1);
        freed
    });
    assert_eq!(seen, BTreeSet::from([(false, true), (true, false)]));
}

#[test]
fn the_lock_excludes_and_loses_no_sleeper() {
    let seen = explore(|| {
        let slot = Slot::held(1);
        let threads = [1, 2, 3].map(|me| {
            spawn(&slot, move |slot| {
                let _guard = slot.lockref.lock(RANK);
                slot.contents.write();
                let before = slot.life.get();
                slot.life.set(me);
                before
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    // What each found is who came before it: all six orders.
    let orders = [[0, 1, 2], [0, 3, 1], [2, 0, 1], [3, 0, 2], [2, 3, 0], [3, 1, 0]];
    assert_eq!(seen, BTreeSet::from(orders));
}

#[test]
fn counts_go_up_and_down_while_the_lock_is_held() {
    let seen = explore(|| {
        let slot = Slot::held(1);
        let writer = spawn(&slot, |slot| {
            let guard = slot.lockref.lock(RANK);
            slot.contents.write();
            let died = guard.mark_dead();
            drop(guard);
            died
        });
        let walker = spawn(&slot, |slot| {
            let held = slot.lockref.get_not_dead();
            slot.lockref.get();
            slot.lockref.put() + slot.lockref.put() * 10 * u32::from(held)
        });
        let died = writer.join().unwrap();
        (died, walker.join().unwrap(), slot.lockref.count())
    });
    assert_eq!(seen, BTreeSet::from([(false, 12, 1)]));
}
