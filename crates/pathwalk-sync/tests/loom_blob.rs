//! Blobs that are used again: who believes what it read of one read the string of the slot that named it.
#![cfg(loom)]

mod model;

use model::{explore, spawn};
use pathwalk_sync::{Blob, BlobArena, Seq};
use std::{collections::BTreeSet, sync::Arc};

/// A slot that names a blob.
struct World {
    seq: Seq,
    names: BlobArena,
    blob: Blob,
}

const OLD: u64 = 0x0101_0101_0101_0101;
const NEW: u64 = 0x0202_0202_0202_0202;

#[test]
fn what_is_believed_is_the_slots_own_string() {
    let seen = explore(|| {
        let names = BlobArena::new(0).unwrap();
        let blob = names.store(&OLD.to_le_bytes()).unwrap();
        let world = Arc::new(World { seq: Seq::default(), names, blob });
        let sample = world.seq.sample();
        // The slot goes: its count moves, and its blob is free.
        let frees = spawn(&world, |world| {
            world.seq.invalidate();
            world.names.free(world.blob);
        });
        let takes = spawn(&world, |world| world.names.store(&NEW.to_le_bytes()));
        let reader = spawn(&world, move |world| {
            let word = world.names.words(world.blob)[0].get();
            world.seq.unchanged(sample).then_some(word)
        });
        frees.join().unwrap();
        let reused = takes.join().unwrap() == Some(world.blob);
        let read = reader.join().unwrap();
        assert!(read.is_none_or(|word| word == OLD), "a believed string is another's");
        (reused, read)
    });
    let all = [(false, None), (false, Some(OLD)), (true, None), (true, Some(OLD))];
    assert_eq!(seen, BTreeSet::from(all));
}
