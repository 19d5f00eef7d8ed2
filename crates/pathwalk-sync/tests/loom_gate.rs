//! The gate: whoever waits is woken.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Cell32, gate};
use std::{collections::BTreeSet, sync::Arc};

/// A thread that sleeps for ever ends the model as a deadlock.
#[test]
fn nobody_sleeps_through_the_last_wake_up() {
    let seen = explore(|| {
        let busy = Arc::new(Cell32::default());
        busy.set(1);
        let waiters = [(); 2].map(|()| {
            spawn(&busy, |busy| {
                let at_first = busy.get();
                gate::wait(busy, || busy.get() != 0);
                at_first
            })
        });
        let worker = spawn(&busy, |busy| {
            busy.set(0);
            gate::wake_all(busy);
        });
        worker.join().unwrap();
        waiters.map(|waiter| waiter.join().unwrap())
    });
    assert_eq!(seen, BTreeSet::from([[0, 0], [0, 1], [1, 0], [1, 1]]));
}
