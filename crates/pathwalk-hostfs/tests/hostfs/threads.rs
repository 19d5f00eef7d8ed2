//! What others do, as each of many threads is told.

use crate::{
    coherence::{each, elsewhere, often, with},
    left_out::left_out,
};
use pathwalk_abi::AccessMode;
use pathwalk_hostfs::{Coherence, HostOptions, Keeper};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
};

/// Each thread is told, whoever asks first: more of them than have something to themselves.
#[test]
fn mounts_of_the_host_are_noticed_by_each_thread() {
    if !rustix::process::geteuid().is_root() {
        left_out("only root mounts something");
        return;
    }
    const THREADS: usize = 12;
    const SCRIPTS: [&str; 4] = ["true", "mount --bind over a/b", "umount -l a/b", "true"];
    each(|ground| {
        fs::create_dir_all(ground.host("over/c")).unwrap();
        fs::write(ground.host("over/c/file"), "12345").unwrap();
        let turn = Barrier::new(THREADS + 1);
        let asks = || {
            let task = ground.task.fork();
            SCRIPTS.map(|_| {
                turn.wait();
                let found: Vec<_> = (0..9)
                    .map(|_| task.access("/a/b/c/file", AccessMode::empty()))
                    .zip((0..9).map(|_| task.stat("/a/b/c/file").map(|stat| stat.st_size)))
                    .collect();
                turn.wait();
                found
            })
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(asks)).collect();
            for script in SCRIPTS {
                elsewhere(ground, script);
                turn.wait();
                turn.wait();
            }
            for thread in threads {
                let found = thread.join().unwrap();
                assert_eq!(found, [1, 5, 1, 1].map(|size| vec![(Ok(()), Ok(size)); 9]));
            }
        });
    });
}

/// Somebody who asks for news himself while a call is answered: from the second time on that it is asked whether he did.
#[derive(Debug, Default)]
struct AsksToo {
    begins: AtomicBool,
    times: AtomicU32,
}

impl Keeper for AsksToo {
    fn news(&self) {}

    fn has_asked(&self) -> bool {
        self.begins.load(Relaxed) && self.times.fetch_add(1, Relaxed) > 0
    }
}

/// Each thread is told once of what is mounted. What is told while somebody else begins to ask is noted when he does so no more.
#[test]
fn what_was_told_and_not_noted_is_told_again() {
    if !rustix::process::geteuid().is_root() {
        left_out("only root mounts something");
        return;
    }
    let keeper = Arc::new(AsksToo::default());
    let options = HostOptions { keeper: Some(Arc::clone(&keeper) as _), ..HostOptions::default() };
    let ground = with(HostOptions { coherence: Coherence::Watched, ..options });
    fs::create_dir_all(ground.host("over/c")).unwrap();
    fs::write(ground.host("over/c/file"), "12345").unwrap();
    let size = || ground.task.stat("/a/b/c/file").map(|stat| stat.st_size);
    for (script, now) in [("true", 1), ("mount --bind over a/b", 5), ("umount -l a/b", 1)] {
        elsewhere(&ground, script);
        keeper.times.store(0, Relaxed);
        keeper.begins.store(true, Relaxed);
        assert!(size().is_ok(), "he is to know of it");
        keeper.begins.store(false, Relaxed);
        assert_eq!(often(size), Ok(now), "{script}");
    }
    assert!(keeper.times.load(Relaxed) > 1, "he began while it was asked");
}

/// Somebody who panics when he is told, if he is to.
#[derive(Debug, Default)]
struct Panics(AtomicBool);

impl Keeper for Panics {
    fn news(&self) {
        assert!(!self.0.load(Relaxed), "as it is to");
    }

    fn has_asked(&self) -> bool {
        false
    }
}

#[test]
fn what_was_told_to_who_panicked_is_not_lost() {
    if !rustix::process::geteuid().is_root() {
        left_out("only root mounts something");
        return;
    }
    let keeper = Arc::new(Panics::default());
    let options = HostOptions { keeper: Some(Arc::clone(&keeper) as _), ..HostOptions::default() };
    let ground = with(HostOptions { coherence: Coherence::Watched, ..options });
    fs::create_dir_all(ground.host("over/c")).unwrap();
    fs::write(ground.host("over/c/file"), "12345").unwrap();
    let size = || ground.task.stat("/a/b/c/file").map(|stat| stat.st_size);
    assert_eq!(often(size), Ok(1));
    for (script, now) in [("mount --bind over a/b", 5), ("umount -l a/b", 1)] {
        elsewhere(&ground, script);
        keeper.0.store(true, Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(size)).is_err(), "he is told");
        keeper.0.store(false, Relaxed);
        assert_eq!(often(size), Ok(now), "{script}");
    }
}
