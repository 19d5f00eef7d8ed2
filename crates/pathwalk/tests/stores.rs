//! A cached lookup stores nothing that another thread reads: each store of a run is looked at, under valgrind.
//!
//! The test runs this program once more with `ROUNDS` set. That run says what is its own: its stack, and what the thread
//! remembers; and the address of `MARK`. It waits for a line; then it looks up, between two stores to `MARK`. Whatever is
//! stored elsewhere meanwhile, in the tables or on the heap, is one store too many.

mod common;

use common::lookups::World;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    ops::Range,
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What a run stored elsewhere than to its own memory between its marks, and how many stores there were in all.
struct Stores {
    elsewhere: BTreeMap<u64, u64>,
    all: u64,
    calls: u64,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// Runs lookups under valgrind and sorts their stores; none where there is no valgrind.
fn run(rounds: &str) -> Option<Stores> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes"]).arg(std::env::current_exe().unwrap());
    valgrind.args(["--exact", "a_cached_lookup_stores_to_its_own_memory_alone", "--nocapture"]);
    valgrind.env(ROUNDS, rounds);
    valgrind.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = valgrind.spawn().ok()?;
    let (trace, where_to_look) = (child.stderr.take().unwrap(), OnceLock::new());
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    std::thread::scope(|scope| {
        let stores = scope.spawn(|| sort(trace, &where_to_look));
        let mut own = Vec::new();
        let mark = loop {
            let line = said.next().expect("it says where to look");
            match line.split(' ').collect::<Vec<&str>>()[..] {
                ["own", start, end] => own.push(hex(start)..hex(end)),
                ["mark", at] => break hex(at),
                _ => {}
            }
        };
        assert!(own.len() > 2, "it says what is its own");
        where_to_look.set((own, mark)).unwrap();
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let calls = said.find_map(|line| line.strip_prefix("calls ")?.parse().ok());
        let calls = calls.expect("it says how many calls it made");
        said.for_each(drop);
        assert!(child.wait().unwrap().success());
        Some(Stores { calls, ..stores.join().unwrap() })
    })
}

/// Reads the trace: ` S 1ffefffe10,8` is a store, ` M 1ffefffe10,4` a change.
fn sort(trace: impl Read, where_to_look: &OnceLock<(Vec<Range<u64>>, u64)>) -> Stores {
    let mut marks = 0;
    let mut stores = Stores { elsewhere: BTreeMap::new(), all: 0, calls: 0 };
    for line in BufReader::new(trace).split(b'\n') {
        let line = line.unwrap();
        let (Some((own, mark)), [b' ', b'S' | b'M', ..]) = (where_to_look.get(), &line[..]) else {
            continue;
        };
        let access = std::str::from_utf8(&line[2..]).unwrap().trim();
        let (at, size) = access.split_once(',').unwrap();
        let (at, size) = (hex(at), size.parse::<u64>().unwrap());
        marks += u32::from(at == *mark);
        if marks == 1 && at != *mark {
            stores.all += 1;
            if !own.iter().any(|own| own.start <= at && at + size <= own.end) {
                *stores.elsewhere.entry(at).or_default() += 1;
            }
        }
    }
    assert_eq!(marks, 2, "the lookups are marked");
    stores
}

/// What valgrind runs.
fn look_up(rounds: &str) {
    let world = World::new().unwrap();
    let root = world.vfs.task(pathwalk::Cred::root());
    // What is met the second time is remembered, in memory that is taken then.
    let warm: usize = (0..2).map(|_| world.round(&world.task)).sum();
    assert!(warm > 0);
    println!();
    let here = std::ptr::from_ref(&world).addr();
    let mut own = pathwalk::memo_ranges();
    own.push(here - STACK..here + STACK);
    for range in own {
        println!("own {:x} {:x}", range.start, range.end);
    }
    println!("mark {:x}", MARK.as_ptr().addr());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    MARK.store(1, Relaxed);
    let calls: usize = match rounds.parse::<usize>() {
        Ok(rounds) => (0..rounds).map(|_| world.round(&world.task)).sum(),
        Err(_) => root.chmod("/mnt/upper", 0o600).map(|()| 1).unwrap(),
    };
    MARK.store(2, Relaxed);
    println!("calls {calls}");
}

const ROUNDS: &str = "PATHWALK_ROUNDS";

/// So far from a value on it the stack reaches, at least.
const STACK: usize = 64 << 10;

/// A store here begins or ends the lookups.
static MARK: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_cached_lookup_stores_to_its_own_memory_alone() {
    if let Ok(rounds) = std::env::var(ROUNDS) {
        return look_up(&rounds);
    }
    let Some(quiet) = run("1") else {
        println!("skipped: there is no valgrind");
        return;
    };
    assert!(quiet.calls > 300 && quiet.all > 10 * quiet.calls, "the stack is written");
    assert_eq!(quiet.elsewhere, BTreeMap::new());
    // What changes something is seen.
    assert!(!run("chmod").unwrap().elsewhere.is_empty());
}
