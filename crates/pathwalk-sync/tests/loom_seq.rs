//! Sequence counts: what a reader believes belonged together.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Cell32, Sample, Seq};
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
