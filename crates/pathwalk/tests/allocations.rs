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
    // The counter counts: whoever keeps a place allocates for it.
    let info = allocation_counter::measure(|| {
        let _ = world.task.open("/usr", pathwalk::OpenFlags::PATH, 0);
    });
    assert!(info.count_total > 0);
}
