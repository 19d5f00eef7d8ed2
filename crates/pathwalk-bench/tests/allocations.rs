//! A timed round allocates nothing, in any contender.

use std::ffi::CString;

use pathwalk_bench::contender::{Contender, Worker};
use pathwalk_bench::floor::Floor;
use pathwalk_bench::kernel::{Chroot, Prefixed};
use pathwalk_bench::{gcc_205_calls, gcc_205_tree};

#[test]
fn the_floor_allocates_nothing() {
    assert_no_allocation(&Floor);
}

#[test]
fn the_kernel_in_a_directory_allocates_nothing() {
    let tree = gcc_205_tree().expect("the tree");
    assert_no_allocation(&Prefixed::tmpdir(&tree).expect("a temporary directory"));
}

#[test]
fn the_kernel_in_a_chroot_allocates_nothing() {
    let tree = gcc_205_tree().expect("the tree");
    match Chroot::tmpfs(&tree) {
        Ok(tmpfs) => assert_no_allocation(&tmpfs),
        Err(error) => println!("skipped: {error}"),
    }
}

/// Counts the allocations of one round, and those of a vector to see that they are counted.
///
/// In a thread of its own, since a worker may change the root of its thread.
fn assert_no_allocation<C: Contender>(contender: &C) {
    std::thread::scope(|scope| {
        scope.spawn(|| count_allocations(contender));
    });
}

fn count_allocations<C: Contender>(contender: &C) {
    let calls = gcc_205_calls().expect("the calls");
    let spelt = calls.iter().map(|call| CString::new(contender.spell(&call.path)));
    let paths: Vec<CString> = spelt.collect::<Result<_, _>>().expect("no NUL in a path");
    let mut worker = contender.worker().expect("a worker");
    let mut found = 0;
    let info = allocation_counter::measure(|| found = worker.round(&paths));
    assert_eq!(info.count_total, 0, "{}", contender.name());
    if C::ANSWERS {
        assert_eq!(found, 87, "{}", contender.name());
    }
    let info = allocation_counter::measure(|| drop(paths.clone()));
    assert!(info.count_total >= 205, "the counter counts");
}
