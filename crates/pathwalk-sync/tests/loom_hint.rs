//! A name that seemed to be a directory's: it is believed under the directory's lock only by the count of its slot.
//!
//! The slot may by then be a name of another directory, whose lock the reader has not, and become one of ours that is not yet
//! in its chain. `d_lookup_hinted` in `pathwalk-core`.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Cell32, Seq};
use std::{collections::BTreeSet, sync::Arc};

#[derive(Default)]
struct Dentry {
    seq: Seq,
    key: Cell32,
    flags: Cell32,
}

const HASHED: u32 = 1;
const NEGATIVE: u32 = 2;
const OTHERS: u32 = 1;
const OURS: u32 = 7;

impl Dentry {
    /// The name of another directory is taken out of its chain, and the slot taken for a name of ours. It waits for our lock,
    /// which the reader has, to be put into the chain.
    fn reuse(&self) {
        {
            let _change = self.seq.change();
            self.flags.set(0);
        }
        let _change = self.seq.change();
        self.flags.set(NEGATIVE);
        self.key.set(OURS);
    }

    /// Whether it is taken for a name of ours that is in its chain.
    fn is_believed(&self, looks_at_the_count: bool) -> bool {
        let seq = self.seq.sample();
        let same = self.key.get() == OURS;
        let hashed = self.flags.get() & HASHED != 0;
        same && hashed && (!looks_at_the_count || self.seq.unchanged(seq))
    }
}

/// What the reader may come to think, in all orders of the steps.
fn answers(looks_at_the_count: bool) -> BTreeSet<bool> {
    explore(move || {
        let slot = Arc::new(Dentry::default());
        slot.flags.set(HASHED);
        slot.key.set(OTHERS);
        let writer = spawn(&slot, Dentry::reuse);
        let reader = spawn(&slot, move |slot| slot.is_believed(looks_at_the_count));
        writer.join().unwrap();
        reader.join().unwrap()
    })
}

#[test]
fn a_slot_that_is_in_no_chain_of_ours_is_not_believed() {
    assert_eq!(answers(true), BTreeSet::from([false]));
}

#[test]
fn without_the_count_it_would_be() {
    assert!(answers(false).contains(&true), "or the model shows nothing");
}
