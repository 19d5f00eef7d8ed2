//! What a rename promises to those who look: a name that is replaced or exchanged is there at every moment.

use crate::{check_whole, common::watched, deadline, machine};
use pathwalk::{AccessMode, At, Errno, OpenFlags, RenameFlags, Result, Task};
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Instant,
};

/// Has two threads look for names while the caller's changes them; each of the looks must find one.
fn every_look_finds(looks: &[&str], setup: impl Fn(&Task), change: impl Fn(&Task) -> Result<()>) {
    let task = machine();
    setup(&task);
    let (over, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            let (task, over, seen) = (task.fork(), &over, &seen);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    for path in looks {
                        assert_eq!(task.access(path, AccessMode::empty()), Ok(()), "{path}");
                        seen.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        let end = deadline();
        let mut changes = 0_u64;
        while Instant::now() < end {
            change(&task).expect("nothing refuses it");
            changes += 1;
        }
        over.store(true, Relaxed);
        assert!(changes > 100, "only {changes} changes");
    });
    assert!(seen.into_inner() > 100, "somebody looked");
    check_whole(&task);
}

fn make(task: &Task, path: &str) -> Result<()> {
    task.open(path, OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).map(drop)
}

#[test]
fn a_name_that_is_replaced_is_always_there() {
    watched(|| {
        every_look_finds(
            &["/d/name", "/d/./name"],
            |task| {
                task.mkdir("/d", 0o755).unwrap();
                make(task, "/d/name").unwrap();
            },
            |task| {
                make(task, "/d/new")?;
                task.rename("/d/new", "/d/name")
            },
        );
    });
}

#[test]
fn names_that_are_exchanged_are_always_there() {
    const LONG: &str = "/e/a_name_that_is_longer_than_a_slot_of_the_cache_has_room_for";
    watched(|| {
        every_look_finds(
            &["/d/x/in", LONG, "/e/../d/x"],
            |task| {
                for dir in ["/d", "/e", "/d/x"] {
                    task.mkdir(dir, 0o755).unwrap();
                }
                task.mkdir(LONG, 0o755).unwrap();
                make(task, "/d/x/in").unwrap();
                make(task, &format!("{LONG}/in")).unwrap();
            },
            |task| task.renameat2(At::Cwd, "/d/x", At::Cwd, LONG, RenameFlags::EXCHANGE),
        );
    });
}

/// Among many others, so that the chains of some have others.
#[test]
fn names_that_are_exchanged_among_many_are_always_there() {
    watched(|| {
        let names: Vec<String> = (0..16).map(|number| format!("/d/{number}")).collect();
        let looks: Vec<&str> = names.iter().map(String::as_str).collect();
        let pairs = Cell::new(0);
        every_look_finds(
            &looks,
            |task| {
                task.mkdir("/d", 0o755).unwrap();
                for number in 0..20_000 {
                    make(task, &format!("/d/{number}")).unwrap();
                }
            },
            |task| {
                let pair = pairs.replace(pairs.get() + 1);
                let [one, other] = [pair, pair + 1].map(|at| looks[at % looks.len()]);
                task.renameat2(At::Cwd, one, At::Cwd, other, RenameFlags::EXCHANGE)
            },
        );
    });
}

#[test]
fn a_name_that_becomes_a_whiteout_is_always_there() {
    watched(|| {
        every_look_finds(
            &["/d/a"],
            |task| {
                task.mkdir("/d", 0o755).unwrap();
                make(task, "/d/a").unwrap();
            },
            |task| {
                match task.unlink("/d/b") {
                    Ok(()) | Err(Errno::ENOENT) => {}
                    Err(errno) => return Err(errno),
                }
                task.renameat2(At::Cwd, "/d/a", At::Cwd, "/d/b", RenameFlags::WHITEOUT)
            },
        );
    });
}
