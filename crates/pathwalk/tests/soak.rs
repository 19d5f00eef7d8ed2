//! Names come and go by the million: the memory that the process has stays what it was after the first half of them.
//!
//! `PATHWALK_SOAK` says how many names there are to be; 10 million by default, 1 million with debug assertions.

mod common;

use common::{resident, sample::SampleFs};
use pathwalk::{Config, Cred, Dev, Errno, MemFs, MountFlags, Task, Vfs, fs::Features};
use std::{collections::VecDeque, sync::mpsc::sync_channel, thread};

const MIB: u64 = 1 << 20;
/// What the tables may have: names of any length in the last quarter.
const BUDGET: u64 = 64 * MIB;
/// Memory beside the tables' slots and strings: hash buckets, what tells what is free, stacks, the heap.
const BESIDE: u64 = 8 * MIB;
/// After the first half of them the resident set may still move by so much.
const FLAT: u64 = 2 * MIB;
const PARTS: u64 = 20;
/// So many names live at once.
const LIVE: usize = 20_000;

/// A name of one of four lengths; three of them lie in the names' arena.
fn name(dir: &str, number: u64) -> String {
    let len = [8, 40, 100, 250][(number / 1000 % 4) as usize];
    format!("{dir}/{number:0len$}")
}

/// One thread makes names, another removes them, some later.
fn make_and_remove(task: &Task, numbers: std::ops::Range<u64>) {
    let (send, receive) = sync_channel(1024);
    let remover = task.fork();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut live = VecDeque::new();
            for number in receive {
                live.push_back(number);
                if live.len() > LIVE {
                    let oldest = live.pop_front().unwrap();
                    assert_eq!(remover.unlink(name("", oldest)), Ok(()));
                }
            }
            live.into_iter().for_each(|last| assert_eq!(remover.unlink(name("", last)), Ok(())));
        });
        for number in numbers {
            assert_eq!(task.mknod(name("", number), 0o100_644, Dev::default()), Ok(()));
            send.send(number).unwrap();
        }
        drop(send);
    });
}

#[test]
fn the_resident_set_stays_flat() {
    let default = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };
    let given = std::env::var("PATHWALK_SOAK").ok();
    let names = given.map_or(default, |names| names.parse().expect("a number of names"));
    let before = resident();
    // Many names are long, and those that stand for nothing may have all of it.
    let within = Config::within(BUDGET);
    let config = Config { name_bytes: BUDGET / 4, negative_bytes: BUDGET, ..within };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/net", 0o755).unwrap();
    task.mount(SampleFs::new(Features::empty()), "/net", MountFlags::empty()).unwrap();
    let mut first = None;
    for part in 0..PARTS {
        let numbers = part * names / PARTS..(part + 1) * names / PARTS;
        let half = numbers.start.midpoint(numbers.end);
        make_and_remove(&task, numbers.start..half);
        // These are in the cache until others need their place.
        for number in half..numbers.end {
            let found = task.stat(name("/net", number)).map(drop);
            assert_eq!(found, Err(Errno::ENOENT), "{number}");
        }
        let (usage, resident) = (vfs.usage(), resident() - before);
        println!("{} names: {} MiB resident, {usage:?}", numbers.end, resident >> 20);
        assert!(usage.name_bytes <= BUDGET / 4, "{usage:?}");
        assert!(usage.bytes <= BUDGET + BESIDE, "{usage:?}");
        assert!(resident <= BUDGET + BESIDE, "{} MiB", resident >> 20);
        // The tables are full after a few parts, and the heap has what it needs beside them after a few more.
        if part >= PARTS / 2 {
            let first = *first.get_or_insert(resident);
            assert!(resident <= first + FLAT, "{resident} bytes, and {first} at first");
        }
    }
}
