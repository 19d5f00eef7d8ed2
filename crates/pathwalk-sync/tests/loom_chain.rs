//! Hash chains: when a search that found nothing may be believed.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Absent, Arena, Cell64, Link, Linked, Rank, Table, slot};
use std::{collections::BTreeSet, sync::Arc};

slot! {
    /// A slot that is known by its key.
    struct Node {
        link: Link,
        key: Cell64,
    }
}

impl Linked for Node {
    fn link(&self) -> &Link {
        &self.link
    }

    fn chain_hash(&self) -> u64 {
        hash(self.key.get())
    }
}

/// Even keys are in bucket 0; odd ones too, until the table grows to two buckets.
fn hash(key: u64) -> u64 {
    key << 32
}

struct Names {
    arena: Arena<Node>,
    table: Table,
}

/// What a search says, in order of how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Found,
    Sure,
    Unsure,
}

use Says::{Found, Sure, Unsure};

impl Names {
    /// A table of so many buckets with these keys in it; a chain begins with the key that is last here.
    fn of(buckets: u32, keys: &[u64]) -> Arc<Self> {
        let names = Self { arena: Arena::new(5).unwrap(), table: Table::new(4, Rank(1)).unwrap() };
        keys.iter().for_each(|&key| names.insert(key));
        names.table.grow(&names.arena, buckets);
        Arc::new(names)
    }

    fn insert(&self, key: u64) {
        let id = self.arena.alloc().unwrap();
        self.arena.get(id).key.set(key);
        self.table.insert(id, self.arena.get(id));
    }

    /// Takes a key out and uses its slot for another one.
    fn rename(&self, from: u64, to: u64) {
        let id = self.table.find_locked(&self.arena, hash(from), |id, node| {
            (node.key.get() == from).then_some(id)
        });
        let id = id.unwrap();
        self.table.remove(&self.arena, id, self.arena.get(id));
        self.arena.free(id);
        self.insert(to);
    }

    fn grow(&self) {
        self.table.grow(&self.arena, 2);
    }

    /// Whether the chain of a key is surely empty.
    fn has_none(&self, key: u64) -> bool {
        self.table.is_surely_empty(hash(key))
    }

    fn find(&self, key: u64) -> Says {
        match self
            .table
            .find_sure(&self.arena, hash(key), |_, node| (node.key.get() == key).then_some(()))
        {
            Absent::Found(()) => Found,
            Absent::Sure => Sure,
            Absent::Unsure => Unsure,
        }
    }
}

#[test]
fn a_chain_is_not_surely_empty_while_what_is_in_it_moves() {
    for keys in [&[1][..], &[0, 1]] {
        let seen = explore(move || {
            let names = Names::of(1, keys);
            let writer = spawn(&names, Names::grow);
            let reader = spawn(&names, |names| names.has_none(1));
            writer.join().unwrap();
            assert_eq!((names.has_none(0), names.has_none(1)), (keys.len() == 1, false));
            reader.join().unwrap()
        });
        assert_eq!(seen, BTreeSet::from([false]), "{keys:?}");
    }
}

#[test]
fn a_reader_whose_slot_is_used_elsewhere_does_not_miss_what_stays() {
    let seen = explore(|| {
        let names = Names::of(2, &[0, 2]);
        let writer = spawn(&names, |names| names.rename(2, 1));
        let reader = spawn(&names, |names| (names.find(0), names.find(1)));
        writer.join().unwrap();
        assert_eq!((names.find(0), names.find(1), names.find(2)), (Found, Found, Sure));
        reader.join().unwrap()
    });
    let all = [Found, Unsure].iter().flat_map(|&stays| [Found, Sure, Unsure].map(|it| (stays, it)));
    assert_eq!(seen, all.collect());
}

#[test]
fn a_reader_that_is_lured_away_and_back_does_not_miss_what_stays() {
    let seen = explore(|| {
        let names = Names::of(2, &[0, 2]);
        let writer = spawn(&names, |names| {
            names.rename(2, 1);
            names.rename(1, 2);
        });
        let reader = spawn(&names, |names| names.find(0));
        writer.join().unwrap();
        reader.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([Found, Unsure]));
}

#[test]
fn a_split_hides_neither_what_stays_nor_what_moves() {
    for keys in [[0, 1], [1, 0]] {
        let seen = explore(move || {
            let names = Names::of(1, &keys);
            let writer = spawn(&names, Names::grow);
            let stays = spawn(&names, |names| names.find(0));
            let moves = spawn(&names, |names| names.find(1));
            writer.join().unwrap();
            assert_eq!((names.find(0), names.find(1)), (Found, Found));
            (stays.join().unwrap(), moves.join().unwrap())
        });
        let all = [Found, Unsure].iter().flat_map(|&stays| [Found, Unsure].map(|it| (stays, it)));
        assert_eq!(seen, all.collect(), "{keys:?}");
    }
}

/// A bucket in which nothing is left, or nothing was yet, is looked at by one load.
#[test]
fn a_split_that_leaves_a_bucket_empty_does_not_hide_what_moves() {
    let seen = explore(|| {
        let names = Names::of(1, &[1]);
        let writer = spawn(&names, Names::grow);
        let reader = spawn(&names, |names| names.find(1));
        writer.join().unwrap();
        assert_eq!((names.find(0), names.find(1)), (Sure, Found));
        reader.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([Found, Unsure]));
}

#[test]
fn what_is_put_into_an_empty_bucket_beside_its_split_is_there_then() {
    let seen = explore(|| {
        let names = Names::of(1, &[]);
        let grower = spawn(&names, Names::grow);
        let writer = spawn(&names, |names| {
            names.insert(1);
            names.find(1)
        });
        grower.join().unwrap();
        let own = writer.join().unwrap();
        assert_eq!([0, 1, 3].map(|key| names.find(key)), [Sure, Found, Sure]);
        own
    });
    assert_eq!(seen, BTreeSet::from([Found, Unsure]));
}

#[test]
fn a_split_beside_a_reuse_does_not_hide_what_stays() {
    let seen = explore(|| {
        let names = Names::of(1, &[0, 1]);
        let grower = spawn(&names, Names::grow);
        let renamer = spawn(&names, |names| names.rename(1, 2));
        let reader = spawn(&names, |names| names.find(0));
        grower.join().unwrap();
        renamer.join().unwrap();
        assert_eq!([0, 1, 2].map(|key| names.find(key)), [Found, Sure, Found]);
        reader.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([Found, Unsure]));
}

#[test]
fn what_was_never_there_is_not_found() {
    let seen = explore(|| {
        let names = Names::of(1, &[0, 1]);
        let writer = spawn(&names, Names::grow);
        let reader = spawn(&names, |names| names.find(3));
        writer.join().unwrap();
        assert_eq!(names.find(3), Sure);
        reader.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([Sure, Unsure]));
}

/// Two at a time: of three, two could wait for each other's turn in a schedule without end.
#[test]
fn writers_do_not_lose_each_others_slots() {
    let insert: fn(&Names) = |names| names.insert(2);
    let rename: fn(&Names) = |names| names.rename(1, 3);
    let table = [
        (insert, rename, [Found, Sure, Found, Found]),
        (insert, Names::grow, [Found, Found, Found, Sure]),
        (rename, Names::grow, [Found, Sure, Sure, Found]),
    ];
    for (one, other, expected) in table {
        let seen = explore(move || {
            let names = Names::of(1, &[0, 1]);
            let writers = [one, other].map(|work| spawn(&names, work));
            for writer in writers {
                writer.join().unwrap();
            }
            [0, 1, 2, 3].map(|key| names.find(key))
        });
        assert_eq!(seen, BTreeSet::from([expected]));
    }
}
