//! A timed round allocates nothing, in any contender.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use std::ffi::CString;

use pathwalk_bench::contender::{Contender, Worker};
use pathwalk_bench::floor::Floor;
use pathwalk_bench::kernel::Kernel;
use pathwalk_bench::pathwalk::Pathwalk;
use pathwalk_bench::{gcc_205_calls, gcc_205_tree};

#[test]
fn the_floor_allocates_nothing() {
    assert_no_allocation(&Floor);
}

#[test]
fn the_kernel_in_a_directory_allocates_nothing() {
    assert_no_allocation(&Kernel::tmpdir().expect("a temporary directory"));
}

#[test]
fn the_kernel_in_a_mount_namespace_allocates_nothing() {
    match Kernel::tmpfs() {
        Ok(tmpfs) => assert_no_allocation(&tmpfs),
        Err(error) => left_out(error),
    }
}

#[test]
fn pathwalk_allocates_nothing() {
    assert_no_allocation(&Pathwalk::new().expect("a machine"));
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
    let paths = calls.iter().map(|call| CString::new(&*call.path));
    let paths: Vec<CString> = paths.collect::<Result<_, _>>().expect("no NUL in a path");
    let mut worker = contender.worker().expect("a worker");
    if C::ANSWERS {
        gcc_205_tree().expect("the tree").load(&mut worker).expect("it can be made");
    }
    let mut round = || paths.iter().map(|path| u64::from(worker.access(path).is_ok())).sum::<u64>();
    // What a thread remembers of paths is allocated when it meets one the second time.
    round();
    round();
    let mut found = 0;
    let info = allocation_counter::measure(|| found = round());
    assert_eq!(info.count_total, 0, "{}", contender.name());
    if C::ANSWERS {
        assert_eq!(found, 87, "{}", contender.name());
    }
    let info = allocation_counter::measure(|| drop(paths.clone()));
    assert!(info.count_total >= 205, "the counter counts");
}
