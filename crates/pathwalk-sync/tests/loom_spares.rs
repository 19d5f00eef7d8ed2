//! Spare counts: none is lost, none is there twice, and none outlives the slot's end.
#![cfg(loom)]

mod model;
mod plain;

use loom::thread::{self, JoinHandle};
use model::{explore, spawn};
use pathwalk_sync::{Cell32, Lockref, Rank, Spares};
use plain::Plain;
use std::{collections::BTreeSet, sync::Arc};

const RANK: Rank = Rank(1);
const ID: u32 = 7;

/// A slot that is freed with its last count, once no name leads to it.
#[derive(Default)]
struct File {
    spares: Spares,
    lockref: Lockref,
    nameless: Cell32,
    contents: Plain,
    freed: Cell32,
}

impl File {
    fn held(counts: u32) -> Arc<Self> {
        let file = Self::default();
        file.lockref.revive();
        (1..counts).for_each(|_| file.lockref.get());
        Arc::new(file)
    }

    /// Gives a count back as the cache of names does: who leaves others behind without a name calls in what they keep.
    fn put(&self) {
        self.contents.read();
        if self.lockref.put() != 0 {
            if self.nameless.get() != 0 {
                self.spares.call_in(ID, |_| self.put());
            }
            return;
        }
        if self.nameless.get() != 0 && self.lockref.lock(RANK).mark_dead() {
            self.contents.write();
            self.freed.set(self.freed.get() + 1);
        }
    }

    /// A file that only who is asked about has, and that no name leads to.
    fn nameless() -> Arc<Self> {
        let file = Self::held(1);
        file.nameless.set(1);
        file
    }

    /// Uses the file, and keeps the count whatever becomes of the name.
    fn keep(&self) {
        self.contents.read();
        self.spares.keep(ID, || true, |_| panic!("there was room"));
    }

    fn close(&self) {
        self.contents.read();
        self.spares.keep(ID, || self.nameless.get() == 0, |_| self.put());
    }

    fn unlink(&self) {
        {
            let _guard = self.lockref.lock(RANK);
            self.nameless.set(1);
        }
        self.put();
    }

    fn assert_freed(&self) {
        self.spares.call_in_all(|_| panic!("a count outlived the file"));
        assert_eq!((self.freed.get(), self.lockref.count()), (1, 0));
    }
}

#[test]
fn whoever_takes_the_name_away_or_who_closes_frees_the_file() {
    explore(|| {
        let file = File::held(2);
        let closer = spawn(&file, File::close);
        file.unlink();
        closer.join().unwrap();
        file.assert_freed();
    });
}

#[test]
fn a_kept_count_is_taken_or_called_in_but_not_both() {
    explore(|| {
        let file = File::held(2);
        let user = spawn(&file, |file| {
            file.close();
            if file.spares.take(ID) {
                file.contents.read();
                file.put();
            }
        });
        file.unlink();
        user.join().unwrap();
        file.assert_freed();
    });
}

#[test]
fn two_that_close_leave_nothing_behind() {
    explore(|| {
        let file = File::held(3);
        let one = spawn(&file, File::close);
        let other = spawn(&file, File::close);
        file.unlink();
        one.join().unwrap();
        other.join().unwrap();
        file.assert_freed();
    });
}

/// A thread that keeps its counts on the line of the main thread, which has the first line.
fn spawn_beside_main(file: &Arc<File>, work: impl FnOnce(&File) + 'static) -> JoinHandle<()> {
    // Threads have the lines in turn, from when they first keep or take one.
    assert!(!file.spares.take(ID));
    spawn(file, |file| assert!(!file.spares.take(ID))).join().unwrap();
    spawn(file, work)
}

#[test]
fn whoever_takes_a_count_sees_what_was_done_under_it() {
    let taken = explore(|| {
        let file = File::nameless();
        let closer = spawn_beside_main(&file, File::keep);
        thread::yield_now();
        let taken = file.spares.take(ID);
        if taken {
            file.put();
        }
        closer.join().unwrap();
        if !taken {
            file.spares.call_in_all(|_| file.put());
        }
        file.assert_freed();
        taken
    });
    assert_eq!(taken, BTreeSet::from([false, true]));
}

#[test]
fn whoever_calls_counts_in_sees_what_was_done_under_them() {
    type CallIn = fn(&Spares, &mut dyn FnMut(u32));
    let all: CallIn = |spares, give_back| spares.call_in_all(give_back);
    let one: CallIn = |spares, give_back| spares.call_in(ID, give_back);
    for call_in in [all, one] {
        let called = explore(move || {
            let file = File::nameless();
            let closer = spawn(&file, File::keep);
            thread::yield_now();
            let mut called = false;
            call_in(&file.spares, &mut |_| {
                called = true;
                file.put();
            });
            closer.join().unwrap();
            file.spares.call_in_all(|_| file.put());
            file.assert_freed();
            called
        });
        assert_eq!(called, BTreeSet::from([false, true]));
    }
}

#[test]
fn whoever_displaces_a_count_sees_what_was_done_under_it() {
    let displaced = explore(|| {
        let file = File::nameless();
        let closer = spawn_beside_main(&file, |file| {
            file.contents.read();
            file.spares.keep(ID, || true, |_| {});
        });
        // Another slot's count, at the same place.
        let other = ID + 16;
        let mut displaced = false;
        file.spares.keep(
            other,
            || true,
            |id| {
                assert_eq!(id, ID);
                displaced = true;
                file.put();
            },
        );
        closer.join().unwrap();
        file.spares.call_in_all(|id| {
            if id == ID {
                file.put()
            }
        });
        file.assert_freed();
        displaced
    });
    assert_eq!(displaced, BTreeSet::from([false, true]));
}

#[test]
fn whoever_may_not_keep_a_count_sees_what_another_did_under_it() {
    explore(|| {
        let file = File::nameless();
        let user = spawn_beside_main(&file, |file| {
            if file.spares.take(ID) {
                file.keep();
            }
        });
        file.close();
        user.join().unwrap();
        file.spares.call_in_all(|_| file.put());
        file.assert_freed();
    });
}
