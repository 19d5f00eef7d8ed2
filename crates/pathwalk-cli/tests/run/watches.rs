//! inotify: of a tree in memory the program is told what the kernel tells of a tmpfs, event for event.

use crate::{
    attacks::{Attack, left_by, signal, that_waits},
    common::{can_run, said, text},
    programs::same,
};
use rustix::process::Signal;
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// `TMPFS_MAGIC`
const TMPFS: i64 = 0x0102_1994;

/// The program that watches, and a directory in the tree that is memory.
fn watching() -> Option<(Attack, String)> {
    let attack = Attack::of("watches")?;
    let memory = attack.here("memory").display().to_string();
    Some((attack, memory))
}

fn in_memory(attack: &Attack, memory: &str, how: &[&str]) -> String {
    said(attack.here.path(), &[&["--tmpfs", memory], how].concat())
}

/// Has the program say what it is told on a tmpfs of the host and in the tree, which must be the same; returns it.
fn the_same(attack: &Attack, memory: &str, how: &[&str]) -> Option<String> {
    if !rustix::fs::statfs("/dev/shm").is_ok_and(|stat| stat.f_type == TMPFS) {
        eprintln!("left out: /dev/shm is no tmpfs");
        return None;
    }
    let native = TempDir::new_in("/dev/shm").unwrap();
    let mut command = Command::new(attack.here("watches"));
    let natively = command.arg(native.path()).args(how).output().unwrap();
    let want = text(&natively.stdout);
    assert!(natively.status.success(), "{want}");
    let have = in_memory(attack, memory, &[&["./watches", memory], how].concat());
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (native, ours) = (lines(&want), lines(&have));
    let differs = native.iter().zip(&ours).position(|(a, b)| a != b);
    if let Some(at) = differs.or((native.len() != ours.len()).then_some(native.len())) {
        let near = |lines: &[String]| {
            lines.iter().skip(at.saturating_sub(8)).take(16).cloned().collect::<Vec<_>>()
        };
        panic!("{how:?}: natively {:#?}, in the tree {:#?}", near(&native), near(&ours));
    }
    Some(want)
}

#[test]
fn a_tree_in_memory_is_told_of_as_the_kernel_tells_of_one() {
    let Some((attack, memory)) = watching() else { return };
    if let Some(said) = the_same(&attack, &memory, &[]) {
        assert!(said.lines().count() > 400, "{said}");
    }
}

#[test]
fn calls_drawn_at_random_are_told_of_as_the_kernel_tells_of_them() {
    let Some((attack, memory)) = watching() else { return };
    let mut told = 0;
    for seed in 1..=24 {
        let Some(said) = the_same(&attack, &memory, &[&seed.to_string()]) else { return };
        told += said.lines().filter(|line| line.starts_with("  queue")).count();
    }
    assert!(told > 3000, "{told} events");
}

/// The kernel alone can say that a file system was unmounted.
#[test]
fn of_what_is_unmounted_it_is_told_that_the_watch_is_gone() {
    let Some((attack, memory)) = watching() else { return };
    let told = in_memory(&attack, &memory, &["--uid", "0", "./watches", &memory, "unmounted"]);
    let lines: Vec<_> = told.lines().skip_while(|line| !line.starts_with("umount")).collect();
    let want = [
        "umount(\"m\")",
        "  queue 0, watch 2: IGNORED",
        "  queue 0, watch 1: IGNORED",
        "  queue 1, watch 1: IGNORED",
        "inotify_add_watch(queues[0], \"m\", 0x00000100) = 3",
        "mkdir(\"m/e\", 0755)",
        "  queue 0, watch 3: CREATE|ISDIR e",
    ];
    assert_eq!(lines, want, "{told}");
}

/// What stands for watched files on the host.
fn shadows(supervisor: u32) -> usize {
    let own = format!("pathwalk-{supervisor}-");
    let list = |path: &Path| fs::read_dir(path).unwrap().flatten().collect::<Vec<_>>();
    let rooms = list(Path::new("/dev/shm")).into_iter();
    let rooms = rooms.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
    let names = rooms.flat_map(|room| list(&room.path()));
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with('w')).count()
}

fn many(attack: &Attack, memory: &str, how: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.args(["run", "--tmpfs", memory, "./watches", memory, how]);
    command.current_dir(attack.here.path());
    command
}

#[test]
fn what_nobody_watches_any_more_leaves_nothing_on_the_host() {
    let Some((attack, memory)) = watching() else { return };
    let (mut child, _out, [.., supervisor]) = that_waits(many(&attack, &memory, "goes"));
    assert_eq!(shadows(supervisor), 0);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(left_by(supervisor), 0);
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_of_what_is_watched() {
    let Some((attack, memory)) = watching() else { return };
    let (mut child, _out, [.., supervisor]) = that_waits(many(&attack, &memory, "stays"));
    assert_eq!(shadows(supervisor), 100);
    signal(supervisor, Signal::KILL);
    assert!(!child.wait().unwrap().success());
    assert_eq!(left_by(supervisor), 0);
}

#[test]
fn tail_follows_a_file_in_memory() {
    same(
        &["tail", "timeout"],
        "cd $(mktemp -d /tmp/XXXXXX); echo one > log; timeout 20 tail -F log > out 2>/dev/null & tail=$!
until_there() { n=0; until grep -q $1 out; do n=$((n + 1)); test $n -lt 500; sleep 0.02; done; }
until_there one; echo two >> log; until_there two; mv log log.1; echo three > log; until_there three
echo four >> log; until_there four; kill $tail; wait $tail || true; cat out; rm -r $PWD",
    );
}

#[test]
fn a_watch_is_heard_of_by_who_waits_for_it() {
    if !can_run(&["python3"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let script = "mkdir /tmp/w; python3 -c 'import ctypes, os, struct
libc = ctypes.CDLL(None); queue = libc.inotify_init()
libc.inotify_add_watch(queue, b\"/tmp/w\", 0x108); os.mkdir(\"/tmp/ready\"); seen = []
while len(seen) < 2:
    data = os.read(queue, 4096); at = 0
    while at < len(data):
        _, mask, _, len_ = struct.unpack_from(\"iIII\", data, at)
        seen.append((hex(mask), data[at + 16:at + 16 + len_].rstrip(b\"\\0\").decode())); at += 16 + len_
print(seen)' & until test -d /tmp/ready; do sleep 0.01; done; echo x > /tmp/w/file; wait";
    let seen = said(dir.path(), &["timeout", "20", "sh", "-c", script]);
    assert_eq!(seen, "[('0x100', 'file'), ('0x8', 'file')]\n");
}
