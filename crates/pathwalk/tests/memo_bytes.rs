//! What all threads of a process remember is bounded; alone in its process, as the bound is the process's.

use pathwalk::{AccessMode, Config, Cred, MemFs, Vfs, memo_bytes};
use std::{sync::Barrier, thread};

/// So many threads look at one path, and wait for each other before they end; how many bytes they all have then.
fn remembered_by(threads: usize, budget: u64) -> u64 {
    let config = Config { memo_bytes: budget, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    task.mkdir("/dir", 0o755).unwrap();
    let (looked, ends) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(task.access("/dir", AccessMode::empty()), Ok(()));
                }
                looked.wait();
                ends.wait();
            });
        }
        looked.wait();
        let bytes = memo_bytes();
        ends.wait();
        bytes
    })
}

#[test]
fn threads_remember_no_more_than_the_budget() {
    let one = remembered_by(1, 1 << 20);
    assert!((1..1 << 20).contains(&one), "{one}");
    let fit = (1 << 20) / one;
    assert!(fit < 8);
    assert_eq!(remembered_by(8, 1 << 20), fit * one, "others walk");
    assert_eq!(remembered_by(8, 8 * one), 8 * one);
    assert_eq!(remembered_by(8, 8 * one - 1), 7 * one);
    assert_eq!(remembered_by(8, 0), 0);
}
