//! A cached lookup stores nothing that another thread reads, and an opening nothing to the root or to a mountpoint: each store of a
//! run is looked at, under valgrind.
//!
//! Each test runs this program once more with `ROUNDS` set. That run says what is its own: its stack, and what the thread
//! remembers; and the address of `MARK`. It waits for a line; then it looks up, between two stores to `MARK`. Whatever is
//! stored elsewhere meanwhile, in the tables or on the heap, is one store too many.

mod common;

#[path = "../../left_out.rs"]
mod left_out;

use common::{lookups::World, sample::SampleFs};
use left_out::left_out;
use pathwalk::{
    AccessMode, Config, Cred, Errno, FileType, MemFs, MountFlags, OpenFlags, Task, Vfs,
    fs::Features,
};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    ops::Range,
    process::{Command, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What a run stored elsewhere than to its own memory between its marks, and how many stores there were in all.
struct Stores {
    elsewhere: BTreeMap<u64, u64>,
    all: u64,
    calls: u64,
    /// Where nothing is to be stored.
    watched: Vec<Range<u64>>,
}

impl Stores {
    /// How many stores there were where nothing is to be stored, by line of the cache.
    fn to_watched(&self) -> u64 {
        let line = |at: u64| at / 64;
        let watches = |at| {
            self.watched.iter().any(|of| (line(of.start)..=line(of.end - 1)).contains(&line(at)))
        };
        self.elsewhere.iter().filter(|&(&at, _)| watches(at)).map(|(_, count)| count).sum()
    }
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// Runs a test's calls under valgrind and sorts their stores; none where there is no valgrind.
fn run(test: &str, rounds: &str) -> Option<Stores> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes"]).arg(std::env::current_exe().unwrap());
    valgrind.args(["--exact", test, "--nocapture"]);
    valgrind.env(ROUNDS, rounds);
    valgrind.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = valgrind.spawn().ok()?;
    let (trace, where_to_look) = (child.stderr.take().unwrap(), OnceLock::new());
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    std::thread::scope(|scope| {
        let stores = scope.spawn(|| sort(trace, &where_to_look));
        let (mut own, mut watched) = (Vec::new(), Vec::new());
        let mark = loop {
            let line = said.next().expect("it says where to look");
            match line.split(' ').collect::<Vec<&str>>()[..] {
                ["own", start, end] => own.push(hex(start)..hex(end)),
                ["watched", start, end] => watched.push(hex(start)..hex(end)),
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
        Some(Stores { calls, watched, ..stores.join().unwrap() })
    })
}

/// Reads the trace: ` S 1ffefffe10,8` is a store, ` M 1ffefffe10,4` a change.
fn sort(trace: impl Read, where_to_look: &OnceLock<(Vec<Range<u64>>, u64)>) -> Stores {
    let mut marks = 0;
    let mut stores = Stores { elsewhere: BTreeMap::new(), all: 0, calls: 0, watched: Vec::new() };
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
    marked(&[], || match rounds.parse::<usize>() {
        Ok(rounds) => (0..rounds).map(|_| world.round(&world.task)).sum(),
        Err(_) => root.chmod("/mnt/upper", 0o600).map(|()| 1).unwrap(),
    });
}

/// Says where to look, makes calls between the marks, and says how many.
fn marked(watched: &[Range<usize>], calls: impl FnOnce() -> usize) {
    println!();
    let here = std::ptr::from_ref(&watched).addr();
    let mut own = pathwalk::memo_ranges();
    own.push(here - STACK..here + STACK);
    for (what, ranges) in [("own", &own[..]), ("watched", watched)] {
        for range in ranges {
            println!("{what} {:x} {:x}", range.start, range.end);
        }
    }
    println!("mark {:x}", MARK.as_ptr().addr());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    MARK.store(1, Relaxed);
    let calls = calls();
    MARK.store(2, Relaxed);
    println!("calls {calls}");
}

/// What valgrind runs: files that are there, and others that are not, are opened with `O_CREAT` in several mounts under one root,
/// by tasks that take turns, each with files of its own.
fn open_in_mounts(rounds: &str) {
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    for number in 0..MOUNTS {
        let mountpoint = format!("/m{number}");
        task.mkdir(&mountpoint, 0o755).unwrap();
        task.mount(MemFs::new(), &mountpoint, MountFlags::empty()).unwrap();
    }
    let open = |task: &Task, path: &str, flags: OpenFlags| {
        task.open(path, OpenFlags::CREAT | OpenFlags::WRONLY | flags, 0o644).map(drop).unwrap();
    };
    // Each with a root of its own, which counts it.
    let tasks: Vec<Task> = (0..TASKS).map(|_| task.fork()).collect();
    let round = || {
        for (at, task) in tasks.iter().enumerate() {
            let number = at % MOUNTS;
            open(task, &format!("/m{number}/file{at}"), OpenFlags::empty());
            for flags in [OpenFlags::empty(), OpenFlags::EXCL] {
                open(task, &format!("/m{number}/new{at}"), flags);
                task.unlink(format!("/m{number}/new{at}")).unwrap();
            }
        }
        5 * TASKS
    };
    if rounds.parse::<usize>().is_ok() {
        // What is met the second time is remembered.
        (0..2).for_each(|_| _ = round());
    }
    let mut watched = task.addresses("/").unwrap();
    for number in 0..MOUNTS {
        // The mount, then its root, in which files are made; then what it covers.
        let all = task.addresses(format!("/m{number}")).unwrap();
        watched.extend(
            all.into_iter().enumerate().filter(|(at, _)| ![1, 2].contains(at)).map(|it| it.1),
        );
    }
    marked(&watched, || match rounds.parse::<usize>() {
        Ok(rounds) => (0..rounds).map(|_| round()).sum(),
        Err(_) => task.chmod("/", 0o700).map(|()| 1).unwrap(),
    });
}

/// What valgrind runs: it is asked again and again whether a file is there that somebody else holds, of a file system that decides
/// permission itself.
fn ask_about_what_others_hold(rounds: &str) {
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    task.mkdir("/asks", 0o755).unwrap();
    let fs = SampleFs::new(Features::PERMISSION | Features::MAY_EXEC);
    fs.appear("file", FileType::Regular, 0o644, "");
    task.mount(Arc::clone(&fs) as _, "/asks", MountFlags::empty()).unwrap();
    let _others = task.open("/asks/file", OpenFlags::RDONLY, 0).unwrap();
    let ask = || task.access("/asks/file", AccessMode::empty()).map(|()| 1).unwrap();
    let mut watched = task.addresses("/asks/file").unwrap();
    watched.extend(task.addresses("/").unwrap());
    let asked = fs.calls.permission.load(Relaxed);
    (0..2).for_each(|_| _ = ask());
    assert_eq!(fs.calls.permission.load(Relaxed), asked + 2);
    marked(&watched, || match rounds.parse::<usize>() {
        Ok(rounds) => (0..rounds).map(|_| ask()).sum(),
        Err(_) => task.chmod("/asks/file", 0o600).map(|()| 1).unwrap(),
    });
}

/// What valgrind runs: of a name that was absent it is asked again and again whether it still is.
fn ask_about_what_is_absent(rounds: &str) {
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    task.mkdir("/asks", 0o755).unwrap();
    let fs = SampleFs::new(Features::REVALIDATE | Features::REVALIDATE_PATH);
    task.mount(Arc::clone(&fs) as _, "/asks", MountFlags::empty()).unwrap();
    let ask = || {
        assert_eq!(task.access("/asks/none", AccessMode::empty()), Err(Errno::ENOENT));
        1
    };
    // It is remembered, and once more asked about name by name.
    (0..4).for_each(|_| _ = ask());
    let asked = fs.calls.revalidate.load(Relaxed);
    let watched = task.addresses("/asks").unwrap();
    marked(&watched, || match rounds.parse::<usize>() {
        Ok(rounds) => (0..rounds).map(|_| ask()).sum(),
        Err(_) => task.chmod("/asks", 0o700).map(|()| 1).unwrap(),
    });
    assert_eq!(fs.calls.revalidate.load(Relaxed), asked, "it is asked about the path at once");
}

/// Where files are opened, and by how many.
const MOUNTS: usize = 8;
const TASKS: usize = 100;

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
    const THIS: &str = "a_cached_lookup_stores_to_its_own_memory_alone";
    let Some(quiet) = run(THIS, "1") else {
        left_out("there is no valgrind");
        return;
    };
    assert!(quiet.calls > 300 && quiet.all > 10 * quiet.calls, "the stack is written");
    assert_eq!(quiet.elsewhere, BTreeMap::new());
    // What changes something is seen.
    assert!(!run(THIS, "chmod").unwrap().elsewhere.is_empty());
}

#[test]
fn opening_in_many_mounts_stores_nothing_to_the_root_or_the_mountpoints() {
    if let Ok(rounds) = std::env::var(ROUNDS) {
        return open_in_mounts(&rounds);
    }
    const THIS: &str = "opening_in_many_mounts_stores_nothing_to_the_root_or_the_mountpoints";
    let Some(opened) = run(THIS, "1") else {
        left_out("there is no valgrind");
        return;
    };
    assert!(opened.watched.len() > 30 && opened.calls == (5 * TASKS) as u64);
    assert!(!opened.elsewhere.is_empty(), "what is opened is counted");
    assert_eq!(opened.to_watched(), 0);
    // What changes the root is seen.
    assert!(run(THIS, "chmod").unwrap().to_watched() > 0);
}

#[test]
fn who_asks_again_about_a_file_stores_nothing_to_what_others_hold() {
    if let Ok(rounds) = std::env::var(ROUNDS) {
        return ask_about_what_others_hold(&rounds);
    }
    const THIS: &str = "who_asks_again_about_a_file_stores_nothing_to_what_others_hold";
    let Some(asked) = run(THIS, "10") else {
        left_out("there is no valgrind");
        return;
    };
    assert_eq!(asked.calls, 10);
    assert!(!asked.elsewhere.is_empty(), "what is asked about is held meanwhile");
    assert_eq!(asked.to_watched(), 0);
    // What changes the file is seen.
    assert!(run(THIS, "chmod").unwrap().to_watched() > 0);
}

#[test]
fn who_asks_again_whether_a_name_is_absent_stores_nothing_to_its_directory() {
    if let Ok(rounds) = std::env::var(ROUNDS) {
        return ask_about_what_is_absent(&rounds);
    }
    const THIS: &str = "who_asks_again_whether_a_name_is_absent_stores_nothing_to_its_directory";
    let Some(asked) = run(THIS, "10") else {
        left_out("there is no valgrind");
        return;
    };
    assert_eq!(asked.calls, 10);
    assert!(!asked.elsewhere.is_empty(), "its mount is held meanwhile");
    assert_eq!(asked.to_watched(), 0);
    // What changes the directory is seen.
    assert!(run(THIS, "chmod").unwrap().to_watched() > 0);
}
