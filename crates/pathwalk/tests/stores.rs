//! A cached lookup stores nothing to the tables: each store of a run is looked at, under valgrind.
//!
//! The test runs this program once more with `ROUNDS` set. That run says where the tables lie, and the address of
//! `MARK`; waits for a line; then looks up, between two stores to `MARK`.

mod common;

use common::lookups::World;
use std::{
    io::{BufRead, BufReader, Read, Write},
    ops::Range,
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What a run stored to the tables between its marks, and how many stores there were in all.
struct Stores {
    to_tables: Vec<u64>,
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
    valgrind.args(["--exact", "no_store_of_a_cached_lookup_hits_the_tables", "--nocapture"]);
    valgrind.env(ROUNDS, rounds);
    valgrind.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = valgrind.spawn().ok()?;
    let (trace, where_to_look) = (child.stderr.take().unwrap(), OnceLock::new());
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    std::thread::scope(|scope| {
        let stores = scope.spawn(|| sort(trace, &where_to_look));
        let mut tables = Vec::new();
        let mark = loop {
            let line = said.next().expect("it says where to look");
            match line.split(' ').collect::<Vec<&str>>()[..] {
                ["table", start, end] => tables.push(hex(start)..hex(end)),
                ["mark", at] => break hex(at),
                _ => {}
            }
        };
        assert!(tables.len() > 5, "it says where the tables lie");
        where_to_look.set((tables, mark)).unwrap();
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
    let mut stores = Stores { to_tables: Vec::new(), all: 0, calls: 0 };
    for line in BufReader::new(trace).split(b'\n') {
        let line = line.unwrap();
        let (Some((tables, mark)), [b' ', b'S' | b'M', ..]) = (where_to_look.get(), &line[..])
        else {
            continue;
        };
        let access = std::str::from_utf8(&line[2..]).unwrap().trim();
        let (at, size) = access.split_once(',').unwrap();
        let (at, size) = (hex(at), size.parse::<u64>().unwrap());
        marks += u32::from(at == *mark);
        if marks == 1 {
            stores.all += 1;
            if tables.iter().any(|table| at < table.end && table.start < at + size) {
                stores.to_tables.push(at);
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
    println!();
    for range in world.vfs.table_ranges() {
        println!("table {:x} {:x}", range.start, range.end);
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

/// A store here begins or ends the lookups.
static MARK: AtomicU32 = AtomicU32::new(0);

#[test]
fn no_store_of_a_cached_lookup_hits_the_tables() {
    if let Ok(rounds) = std::env::var(ROUNDS) {
        return look_up(&rounds);
    }
    let Some(quiet) = run("1") else {
        println!("skipped: there is no valgrind");
        return;
    };
    assert!(quiet.calls > 300 && quiet.all > 10 * quiet.calls, "the stack is written");
    assert_eq!(quiet.to_tables, [0; 0]);
    // What changes something is seen.
    assert!(!run("chmod").unwrap().to_tables.is_empty());
}
