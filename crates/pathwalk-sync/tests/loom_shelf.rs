//! Shelves: a value is dropped once, by the last who uses it, and whole.
#![cfg(loom)]

mod model;
mod plain;

use model::{explore, spawn};
use pathwalk_sync::Shelf;
use plain::Plain;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// A value that notes its end, which writes to what its users read. What counts ends is not what a model is about.
struct Value {
    number: u32,
    contents: Plain,
    ended: Arc<AtomicU32>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.contents.write();
        self.ended.fetch_add(1, Relaxed);
    }
}

/// A shelf, and how many of its values have ended.
#[derive(Default)]
struct Room {
    shelf: Shelf<Value>,
    ended: Arc<AtomicU32>,
}

impl Room {
    fn put(&self, number: u32) -> bool {
        let value = Value { number, contents: Plain::default(), ended: Arc::clone(&self.ended) };
        value.contents.write();
        // One that was refused is not put there: its end is none.
        self.shelf
            .put(value)
            .map_err(|refused| {
                drop(refused);
                self.ended.fetch_sub(1, Relaxed);
            })
            .is_ok()
    }

    /// A room with a value. The main thread is the first to count, before there are others: which thread counts where is then no
    /// message from one to the other.
    fn filled() -> Arc<Self> {
        let room = Self::default();
        assert!(room.shelf.get().is_none());
        room.put(1);
        Arc::new(room)
    }

    fn read(&self) -> Option<u32> {
        self.shelf.get().map(|value| {
            value.contents.read();
            value.number
        })
    }

    fn ended(&self) -> u32 {
        self.ended.load(Relaxed)
    }
}

#[test]
fn of_those_who_use_it_and_the_one_who_takes_it_away_one_drops_it() {
    let seen = explore(|| {
        let room = Room::filled();
        let users = [(); 2].map(|()| spawn(&room, Room::read));
        let taker = spawn(&room, |room| room.shelf.clear());
        let got = users.map(|user| user.join().unwrap());
        taker.join().unwrap();
        assert_eq!(room.ended(), 1, "{got:?}");
        assert!(room.put(2), "the place is free");
        room.shelf.clear();
        got
    });
    let each = [None, Some(1)];
    assert_eq!(seen, each.iter().flat_map(|&one| each.map(|other| [one, other])).collect());
}

#[test]
fn who_gets_a_value_that_is_put_there_sees_it_whole() {
    let seen = explore(|| {
        let room = Arc::new(Room::default());
        assert!(room.shelf.get().is_none());
        let filler = spawn(&room, |room| {
            room.put(1);
        });
        let user = spawn(&room, Room::read);
        filler.join().unwrap();
        let got = user.join().unwrap();
        room.shelf.clear();
        assert_eq!(room.ended(), 1);
        got
    });
    assert_eq!(seen, BTreeSet::from([None, Some(1)]));
}

#[test]
fn who_takes_it_away_sees_it_whole_and_the_next_one_finds_the_place_empty() {
    let seen = explore(|| {
        let room = Arc::new(Room::default());
        assert!(room.shelf.get().is_none());
        let filler = spawn(&room, |room| room.put(1));
        let next = spawn(&room, |room| room.put(2));
        let taker = spawn(&room, |room| room.shelf.clear());
        taker.join().unwrap();
        let put = [filler.join().unwrap(), next.join().unwrap()];
        room.shelf.clear();
        (put, room.ended())
    });
    let each = [([true, false], 1), ([false, true], 1), ([true, true], 2)];
    assert_eq!(seen, BTreeSet::from(each));
}

#[test]
fn a_slow_one_does_not_end_what_was_put_there_since() {
    let seen = explore(|| {
        let room = Room::filled();
        let user = spawn(&room, |room| {
            let first = room.read();
            (first, room.read())
        });
        let taker = spawn(&room, |room| {
            room.shelf.clear();
            let put = room.put(2);
            room.shelf.clear();
            put
        });
        let (got, put) = (user.join().unwrap(), taker.join().unwrap());
        assert_eq!(room.ended(), 1 + u32::from(put), "{got:?}");
        (got, put)
    });
    // Refused once it may be in use again: then the second is another value.
    assert!(seen.contains(&((Some(1), Some(2)), true)), "{seen:?}");
    assert!(seen.contains(&((Some(1), None), false)), "{seen:?}");
    assert!(!seen.contains(&((Some(2), Some(1)), true)), "{seen:?}");
}
