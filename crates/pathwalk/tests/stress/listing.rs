//! Listings under change: what is there all the time is listed once.

use crate::{
    check_whole,
    common::{
        seed,
        tree::{self, Entry},
        watched,
    },
    deadline, machine,
};
use fastrand::Rng;
use pathwalk::{File, OpenFlags, Seek, Task};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Instant,
};

const STABLE: usize = 40;

fn is_stable(entry: &Entry) -> bool {
    entry.name.starts_with(b"stable")
}

/// Names come and go, or change, between the stable ones.
fn churn(task: &Task, rng: &mut Rng) {
    let volatile = |rng: &mut Rng| format!("/d/volatile{}", rng.u8(..50));
    let (one, other) = (volatile(rng), volatile(rng));
    let _ = match rng.u8(..5) {
        0 => task.creat(one, 0o644).map(drop),
        1 => task.unlink(one),
        2 => task.rename(one, other),
        3 => task.link(one, other),
        _ => task.rename(one, "/elsewhere").and_then(|()| task.rename("/elsewhere", other)),
    };
}

/// Reads a listing in buffers of all sizes and checks it; returns it.
fn read_all(task: &Task, dir: &File, rng: &mut Rng) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let some = tree::getdents(task, dir, rng.usize(64..600)).unwrap();
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    let names: BTreeSet<&[u8]> = all.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names.len(), all.len(), "nothing is listed twice");
    assert_eq!(all.iter().filter(|entry| is_stable(entry)).count(), STABLE);
    assert!(names.contains(&b"."[..]) && names.contains(&b".."[..]));
    all
}

#[test]
fn what_is_there_all_the_time_is_listed_once() {
    let seed = seed();
    watched(move || {
        let task = machine();
        task.mkdir("/d", 0o755).unwrap();
        let mut rng = Rng::with_seed(seed);
        for number in 0..STABLE {
            task.creat(format!("/d/stable{number}"), 0o644).unwrap();
            (0..5).for_each(|_| churn(&task, &mut rng));
        }
        let (end, over) = (deadline(), AtomicBool::new(false));
        thread::scope(|scope| {
            for thread in 1..=2 {
                let (task, over) = (task.fork(), &over);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed + thread);
                    while !over.load(Relaxed) {
                        churn(&task, &mut rng);
                    }
                });
            }
            let mut passes = 0;
            // The stable ones have their places for good, whatever happens between them.
            let mut places: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            while Instant::now() < end {
                let dir = task.open("/d", OpenFlags::DIRECTORY, 0).unwrap();
                let all = read_all(&task, &dir, &mut rng);
                for entry in all.iter().filter(|entry| is_stable(entry)) {
                    let place = *places.entry(entry.name.clone()).or_insert(entry.next);
                    assert_eq!(place, entry.next, "{:?}", entry.name.escape_ascii());
                }
                let stable: Vec<&Entry> = all.iter().filter(|entry| is_stable(entry)).collect();
                // Back to behind any entry, be it gone by now: the same follow.
                let back = rng.usize(..all.len());
                assert_eq!(task.lseek(&dir, Seek::Set(all[back].next as i64)), Ok(all[back].next));
                let rest = tree::list(&task, &dir, rng.usize(64..600)).unwrap();
                let want: Vec<&Entry> =
                    all[back + 1..].iter().filter(|entry| is_stable(entry)).collect();
                let got: Vec<&Entry> = rest.iter().filter(|entry| is_stable(entry)).collect();
                assert_eq!(got, want, "after {}", all[back].name.escape_ascii());
                assert!(stable.len() == STABLE);
                // And from the beginning.
                assert_eq!(task.lseek(&dir, Seek::Set(0)), Ok(0));
                read_all(&task, &dir, &mut rng);
                passes += 1;
            }
            over.store(true, Relaxed);
            assert!(passes > 10, "{passes} passes");
        });
        check_whole(&task);
    });
}
