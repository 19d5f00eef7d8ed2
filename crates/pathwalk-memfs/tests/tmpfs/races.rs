//! Names that are made while their directory or their file goes: one of the two wins, nothing is left over.

use crate::{Ends, Meeting, machine, open};
use pathwalk_abi::{Errno, OpenFlags, Result};
use pathwalk_core::Task;
use pathwalk_memfs::Usage;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How often each of the two must win, and how often it is tried at most.
const ENOUGH: u32 = 500;
const MOST: u32 = 5_000_000;

/// Removes and makes `d` again and again while `make` enters `d/name`, and sees that a name that was entered keeps its
/// directory. Ends when both won often enough.
fn enter_while_removed(task: &Task, make: impl Fn(&Task) -> Result<()> + Sync) {
    let done = AtomicBool::new(false);
    let (entered, removed) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (task, _ends) = (task.fork(), Ends(&done));
            while !done.load(Ordering::Relaxed) {
                match task.rmdir("d") {
                    Ok(()) => removed.fetch_add(1, Ordering::Relaxed),
                    Err(errno) => {
                        assert_eq!(errno, Errno::ENOTEMPTY);
                        continue;
                    }
                };
                task.mkdir("d", 0o755).expect("only we make it");
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            let (task, _ends) = (task.fork(), Ends(&done));
            for _ in 0..MOST {
                match make(&task) {
                    Ok(()) => {
                        entered.fetch_add(1, Ordering::Relaxed);
                        task.unlink("d/name").expect("an entered name keeps its directory");
                    }
                    Err(errno) => assert_eq!(errno, Errno::ENOENT),
                }
                if entered.load(Ordering::Relaxed).min(removed.load(Ordering::Relaxed)) >= ENOUGH
                    || done.load(Ordering::Relaxed)
                {
                    break;
                }
            }
        });
    });
    let (entered, removed) = (entered.into_inner(), removed.into_inner());
    assert!(entered >= ENOUGH && removed >= ENOUGH, "{entered} entered, {removed} removed");
}

#[test]
fn create_against_rmdir() {
    let (fs, task) = machine(None, Some(1000));
    task.mkdir("d", 0o755).expect("a directory");
    let how = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY;
    enter_while_removed(&task, |task| task.open("d/name", how, 0o644).map(drop));
    let root = task.stat("/").expect("the root");
    assert_eq!((root.st_nlink, root.st_size), (3, 60));
    assert_eq!(fs.usage(), Usage { bytes: 0, inodes: 2 });
}

#[test]
fn link_against_rmdir() {
    let (fs, task) = machine(None, Some(1000));
    task.mkdir("d", 0o755).expect("a directory");
    open(&task, "f");
    enter_while_removed(&task, |task| task.link("f", "d/name"));
    assert_eq!(task.stat("f").expect("a file").st_nlink, 1);
    assert_eq!(task.stat("/").expect("the root").st_size, 80);
    assert_eq!(fs.usage(), Usage { bytes: 0, inodes: 3 });
}

#[test]
fn rename_against_rmdir() {
    let (fs, task) = machine(None, Some(1000));
    task.mkdir("d", 0o755).expect("a directory");
    let make = |task: &Task| {
        open(task, "f");
        task.rename("f", "d/name")
    };
    enter_while_removed(&task, make);
    open(&task, "f");
    task.unlink("f").expect("a file");
    let root = task.stat("/").expect("the root");
    assert_eq!((root.st_nlink, root.st_size), (3, 60));
    assert_eq!(fs.usage(), Usage { bytes: 0, inodes: 2 });
}

#[test]
fn link_against_unlink() {
    const ROUNDS: u32 = 3000;
    let (fs, task) = machine(None, Some(1000));
    let start = Meeting::default();
    let linked = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let task = task.fork();
            for round in 0..ROUNDS {
                open(&task, "f");
                start.meet();
                // Now this one is ahead, now that one.
                (0..round % 200).for_each(|_| std::hint::spin_loop());
                task.unlink("f").expect("a file");
                start.meet();
                match task.lstat(format!("g{round}")) {
                    Ok(stat) => {
                        linked.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(stat.st_nlink, 1);
                        task.unlink(format!("g{round}")).expect("a file");
                    }
                    Err(errno) => assert_eq!(errno, Errno::ENOENT),
                }
                assert_eq!(fs.usage(), Usage { bytes: 0, inodes: 1 }, "round {round}");
            }
        });
        scope.spawn(|| {
            let task = task.fork();
            for round in 0..ROUNDS {
                start.meet();
                let answer = task.link("f", format!("g{round}"));
                assert!(matches!(answer, Ok(()) | Err(Errno::ENOENT)), "{answer:?}");
                start.meet();
            }
        });
    });
    let linked = linked.into_inner();
    assert!(linked > 0, "{linked} of {ROUNDS} linked");
}

#[test]
fn renames_across_keep_the_counts() {
    const THREADS: usize = 4;
    let (fs, task) = machine(None, None);
    for dir in ["a", "b"] {
        task.mkdir(dir, 0o755).expect("a directory");
    }
    for thread in 0..THREADS {
        task.mkdir(format!("a/d{thread}"), 0o755).expect("a directory");
        open(&task, &format!("a/f{thread}"));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let task = task.fork();
            scope.spawn(move || {
                for round in 0..1000 {
                    let (from, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    for name in ["d", "f"] {
                        let name = format!("{name}{thread}");
                        task.rename(format!("{from}/{name}"), format!("{to}/{name}"))
                            .expect("a name");
                    }
                }
            });
        }
    });
    let shown = |path| {
        let stat = task.stat(path).expect("a directory");
        (stat.st_nlink, stat.st_size)
    };
    assert_eq!(shown("a"), (2 + THREADS as u64, 40 + 2 * 20 * THREADS as i64));
    assert_eq!(shown("b"), (2, 40));
    assert_eq!(fs.usage().inodes, 3 + 2 * THREADS as u64);
}
