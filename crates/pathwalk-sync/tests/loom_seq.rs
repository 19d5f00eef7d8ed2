//! Sequence counts: what a reader believes belonged together.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Blob, BlobArena, Cell32, Sample, Seq};
use std::{collections::BTreeSet, sync::Arc};

/// Two cells that a writer keeps equal.
#[derive(Default)]
struct Pair {
    seq: Seq,
    left: Cell32,
    right: Cell32,
}

impl Pair {
    fn write(&self, value: u32) {
        let _change = self.seq.change();
        self.left.set(value);
        self.right.set(value);
    }

    /// What both cells hold, if that can be believed.
    fn read(&self) -> Option<u32> {
        let sample = self.seq.sample();
        let (left, right) = (self.left.get(), self.right.get());
        let believed = self.seq.unchanged(sample);
        assert!(!believed || left == right, "believed {left} beside {right}");
        believed.then_some(left)
    }
}

#[test]
fn a_believed_pair_is_never_torn() {
    let seen = explore(|| {
        let pair = Arc::new(Pair::default());
        let writer = spawn(&pair, |pair| pair.write(1));
        let reader = spawn(&pair, Pair::read);
        let other = spawn(&pair, Pair::read);
        writer.join().unwrap();
        (reader.join().unwrap(), other.join().unwrap())
    });
    let each = [None, Some(0), Some(1)];
    let all: BTreeSet<_> = each.iter().flat_map(|&a| each.map(|b| (a, b))).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_sample_does_not_outlive_two_changes() {
    let seen = explore(|| {
        let pair = Arc::new(Pair::default());
        let writer = spawn(&pair, |pair| {
            pair.write(1);
            pair.write(2);
        });
        let reader = spawn(&pair, |pair| (pair.read(), pair.read()));
        writer.join().unwrap();
        reader.join().unwrap()
    });
    for (first, second) in &seen {
        assert!(first.is_none() || second.is_none() || first <= second, "{first:?}, {second:?}");
    }
    for value in [None, Some(0), Some(1), Some(2)] {
        assert!(seen.iter().any(|(first, _)| *first == value), "{value:?} was never read first");
    }
}

#[test]
fn what_follows_an_invalidation_is_not_believed_under_an_older_sample() {
    let seen = explore(|| {
        let pair = Arc::new(Pair::default());
        let sample: Sample = pair.seq.sample();
        let writer = spawn(&pair, |pair| {
            pair.seq.invalidate();
            pair.left.set(1);
        });
        let reader = spawn(&pair, move |pair| (pair.left.get(), pair.seq.unchanged(sample)));
        writer.join().unwrap();
        reader.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([(0, false), (0, true), (1, false)]));
}

/// A slot that is held, so that its count need not be checked, and gets a blob meanwhile: as a mount its map of owners.
struct Held {
    seq: Seq,
    names: BlobArena,
    blob: Cell32,
}

const STRING: u64 = 0x0101_0101_0101_0101;

impl Held {
    fn write(&self) {
        let blob = self.names.store(&STRING.to_le_bytes()).unwrap();
        let _change = self.seq.change();
        self.blob.set(blob);
    }

    /// What is in the blob, if the slot is seen to name one.
    fn read(&self) -> Option<[u64; 2]> {
        let blob: Blob = self.blob.get();
        Seq::acquire();
        (blob != 0).then(|| [0, 1].map(|word| self.names.words(blob)[word].get()))
    }
}

#[test]
fn who_sees_what_a_change_names_sees_what_was_written_before_it() {
    let seen = explore(|| {
        let names = BlobArena::new(0).unwrap();
        // It was another's before: what is not overwritten in time is seen.
        let other = names.store(&[0xff; 63]).unwrap();
        names.free(other);
        let held = Arc::new(Held { seq: Seq::default(), names, blob: Cell32::default() });
        let writer = spawn(&held, Held::write);
        let reader = spawn(&held, Held::read);
        writer.join().unwrap();
        reader.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([None, Some([STRING, 0])]));
}
