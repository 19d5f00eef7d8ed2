//! What all threads of a process remember is bounded; alone in its process, as the bound is the process's.

use pathwalk::{AccessMode, Config, Cred, MemFs, Vfs, memo_bytes};
use std::{sync::Barrier, thread};

/// So many threads look at so many paths, and wait for each other before they end; how many bytes they all have then.
fn remembered_by(threads: usize, paths: usize, budget: u64) -> u64 {
    // Threads give back what they have after they are joined.
    while memo_bytes() > 0 {
        thread::yield_now();
    }
    let config = Config { memo_bytes: budget, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    let paths: Vec<_> = (0..paths).map(|number| format!("/{number}")).collect();
    paths.iter().for_each(|path| task.mkdir(path, 0o755).unwrap());
    let (looked, ends) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for path in paths.iter().cycle().take(5 * paths.len()) {
                    assert_eq!(task.access(path, AccessMode::empty()), Ok(()));
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
    let one = remembered_by(1, 1, 1 << 20);
    assert!((1..1 << 15).contains(&one), "{one}");
    assert_eq!(remembered_by(8, 1, 8 * one), 8 * one);
    assert_eq!(remembered_by(8, 1, 8 * one - 1), 7 * one, "one walks");
    assert_eq!(remembered_by(8, 1, 0), 0);

    let many = remembered_by(1, 500, 1 << 20);
    assert!(many > 8 * one, "who remembers more takes more: {many}");
    let fewer = remembered_by(1, 500, many - 1);
    assert!((many / 2..many).contains(&fewer), "{fewer} of {many}: what there is room for");
    assert!(remembered_by(1, 5000, 1 << 20) < 1 << 19, "a thread has so many memos and no more");
}
