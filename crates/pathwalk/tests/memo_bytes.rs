//! What all threads of a process remember is bounded; alone in its process, as the bound is the process's.

use pathwalk::{AccessMode, Config, Cred, MemFs, Task, Timespec, Vfs, memo_bytes};
use std::{
    sync::{Barrier, OnceLock},
    thread,
};

/// So many threads look at so many paths, and wait for each other before they end; how many bytes they all have then.
fn remembered_by(threads: usize, paths: usize, budget: u64) -> u64 {
    let config = Config { memo_bytes: budget, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    let paths: Vec<_> = (0..paths).map(|number| format!("/{number}")).collect();
    paths.iter().for_each(|path| task.mkdir(path, 0o755).unwrap());
    let (looked, ends) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let bytes = thread::scope(|scope| {
        let look = || {
            for path in paths.iter().cycle().take(5 * paths.len()) {
                assert_eq!(task.access(path, AccessMode::empty()), Ok(()));
            }
            looked.wait();
            ends.wait();
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
        looked.wait();
        let bytes = memo_bytes();
        ends.wait();
        // The scope waits for what they do, but not for their ends.
        threads.into_iter().for_each(|thread| thread.join().expect("it looks"));
        bytes
    });
    assert_eq!(memo_bytes(), 0, "what ended threads had is given back");
    bytes
}

/// How many bytes a thread has that looks at a path which is longer than a memo has room for.
fn remembered_far_away(budget: u64) -> u64 {
    let config = Config { memo_bytes: budget, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    let path = format!("/{}", "n".repeat(250));
    task.mkdir(&path, 0o755).unwrap();
    let look = || {
        (0..5).for_each(|_| task.access(&path, AccessMode::empty()).unwrap());
        memo_bytes()
    };
    let bytes = thread::scope(|scope| scope.spawn(look).join().unwrap());
    assert_eq!(memo_bytes(), 0, "what ended threads had is given back");
    bytes
}

/// How many bytes a thread has that remembers a path, and meets so many new ones that its memos sleep when it ends.
fn remembered_asleep(budget: u64) -> u64 {
    let config = Config { memo_bytes: budget, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    task.mkdir("/a", 0o755).unwrap();
    let look = || {
        (0..5).for_each(|_| task.access("/a", AccessMode::empty()).unwrap());
        for number in 0..600 {
            let absent = task.access(format!("/{number}"), AccessMode::empty());
            assert_eq!(absent, Err(pathwalk::Errno::ENOENT));
        }
        memo_bytes()
    };
    let bytes = thread::scope(|scope| scope.spawn(look).join().unwrap());
    assert_eq!(memo_bytes(), 0, "what ended threads had is given back");
    bytes
}

/// A machine's clock that walks in another machine.
fn walking() -> Timespec {
    if let Some(task) = OTHER.get() {
        assert_eq!(task.access("/a", AccessMode::empty()), Ok(()));
    }
    Timespec { sec: 1_000_000, nsec: 0 }
}

static OTHER: OnceLock<Task> = OnceLock::new();

/// The clock is asked by who looks at what is remembered of a symlink.
fn by_way_of_a_clock_that_walks() -> (u64, u64) {
    let body = || {
        let inner = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
        inner.mkdir("/a", 0o755).unwrap();
        let config = Config { clock: Some(walking), ..Config::default() };
        let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
        task.mkdir("/d", 0o755).unwrap();
        task.creat("/d/f", 0o644).unwrap();
        task.symlink("f", "/d/l").unwrap();
        assert!(OTHER.set(inner).is_ok());
        let look = |rounds: u32| {
            (0..rounds).for_each(|_| task.access("/d/l", AccessMode::empty()).unwrap());
            memo_bytes()
        };
        (look(10), look(300))
    };
    thread::scope(|scope| scope.spawn(body).join().unwrap())
}

/// How many of two texts that are met last are remembered where there is room for few.
#[cfg(debug_assertions)]
fn remembered_last(room: u64) -> u64 {
    use pathwalk::road::made;
    let config = Config { memo_bytes: room, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    (0..40).for_each(|number| task.mkdir(format!("/{number}"), 0o755).unwrap());
    let look = |path: &str| (0..9).for_each(|_| task.access(path, AccessMode::empty()).unwrap());
    thread::scope(|scope| {
        let body = || {
            (0..38).for_each(|number| look(&format!("/{number}")));
            let before = made();
            ["/38", "/39"].into_iter().for_each(look);
            made() - before
        };
        scope.spawn(body).join().unwrap()
    })
}

/// How often a text is remembered again whose place went to another that no memo can be made of.
#[cfg(debug_assertions)]
fn remembered_after_its_place_went(room: u64) -> u64 {
    use pathwalk::road::made;
    let config = Config { memo_bytes: room, ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).unwrap().task(Cred::root());
    (0..16).for_each(|number| task.mkdir(format!("/{number}"), 0o755).unwrap());
    task.creat("/file", 0o644).unwrap();
    let look = |path: &str, times: u32| {
        for _ in 0..times {
            let _ = task.access(path, AccessMode::empty());
        }
    };
    thread::scope(|scope| {
        let body = || {
            (0..16).for_each(|number| look(&format!("/{number}"), 6));
            look("/file/below", 2);
            task.chmod("/0", 0o700).unwrap();
            let before = made();
            look("/0", 1000);
            made() - before
        };
        scope.spawn(body).join().unwrap()
    })
}

/// How many bytes a thread has when it looked at a path of symlinks that ask a file system about much, and before.
#[cfg(feature = "hostfs")]
fn remembered_of_long_questions(budget: u64) -> (u64, u64) {
    use pathwalk::{Coherence, HostFs, HostOptions};
    use std::os::unix::{ffi::OsStrExt, fs::symlink};
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("12"), "").unwrap();
    for link in 0..12 {
        let body = format!("/{}{}", "./".repeat(1900), link + 1);
        symlink(body, dir.path().join(link.to_string())).unwrap();
    }
    let options = HostOptions { coherence: Coherence::Strict, ..HostOptions::default() };
    let fs = HostFs::with_options(dir.path().as_os_str().as_bytes(), options).unwrap();
    let config = Config { memo_bytes: budget, ..Config::default() };
    let task = Vfs::new(config, fs).unwrap().task(Cred::root());
    let look = |path: &str| {
        (0..9).for_each(|_| task.access(path, AccessMode::empty()).unwrap());
        memo_bytes()
    };
    let body = || (look("/12"), look("/0"));
    thread::scope(|scope| scope.spawn(body).join().unwrap())
}

#[test]
fn threads_remember_no_more_than_the_budget() {
    let one = remembered_by(1, 1, 1 << 20);
    assert!((1..1 << 15).contains(&one), "{one}");
    assert_eq!(remembered_by(8, 1, 8 * one), 8 * one);
    assert_eq!(remembered_by(8, 1, 8 * one - 1), 7 * one, "one walks");
    assert_eq!(remembered_by(8, 1, 0), 0);
    assert_eq!(remembered_asleep(1 << 20), one);
    #[cfg(debug_assertions)]
    assert_eq!(remembered_last(one), 2, "old texts give way");
    #[cfg(debug_assertions)]
    assert_eq!(remembered_after_its_place_went(one), 1, "once, and then it is known");

    let many = remembered_by(1, 500, 1 << 20);
    assert!(many > 8 * one, "who remembers more takes more: {many}");
    let fewer = remembered_by(1, 500, many - 1);
    assert!((many / 2..many).contains(&fewer), "{fewer} of {many}: what there is room for");
    assert!(remembered_by(1, 5000, 1 << 20) < 1 << 19, "a thread has so many memos and no more");

    let long = remembered_far_away(1 << 20);
    assert!((one + 1..1 << 16).contains(&long), "what has no room in a memo is counted: {long}");
    assert_eq!(
        remembered_far_away(long - 1),
        one,
        "and where it has none in the budget it is walked"
    );

    #[cfg(feature = "hostfs")]
    {
        let (before, after) = remembered_of_long_questions(1 << 20);
        assert!(before < after, "{before} {after}");
        let (before, after) = remembered_of_long_questions(after - 1);
        assert_eq!(before, after, "what cannot be had whole is not taken");
    }

    let (before, after) = by_way_of_a_clock_that_walks();
    assert_eq!((before, after), (one, one), "what the clock walks takes nothing");
}
