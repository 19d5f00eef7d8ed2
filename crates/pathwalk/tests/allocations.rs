//! A cached lookup allocates nothing: hits and misses, through symlinks, mounts and `..`.

mod common;

use common::lookups::World;

#[test]
fn a_lookup_allocates_nothing() {
    let world = World::new().unwrap();
    let mut calls = 0;
    let info = allocation_counter::measure(|| calls = world.round(&world.task));
    assert!(calls > 300, "{calls} calls");
    assert_eq!(info.count_total, 0, "allocations in {calls} calls");
    // The counter counts: whoever keeps two places allocates for one of them.
    let open = || world.task.open("/usr", pathwalk::OpenFlags::PATH, 0).unwrap();
    let info = allocation_counter::measure(|| drop((open(), open())));
    assert!(info.count_total > 0);
    // And who opens one after the other has the room of the one before.
    let info = allocation_counter::measure(|| (0..3).for_each(|_| drop(open())));
    assert_eq!(info.count_total, 0, "allocations for files that are closed");
}
