//! A writer elsewhere is not felt: lookups go on holding nothing while names and mounts come and go in another place.

use crate::common::{seed, watched};
use fastrand::Rng;
use pathwalk::{
    AccessMode, Config, Cred, Errno, MemFs, MountFlags, Task, UmountFlags, Vfs, explain::ExplainHow,
};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// All that changes names and mounts, below `/b`.
fn change(task: &Task, rng: &mut Rng) {
    let path = |rng: &mut Rng| format!("/b/{}", rng.u8(..20));
    let (one, other) = (path(rng), path(rng));
    let _ = match rng.u8(..10) {
        0..=1 => task.mkdir(one, 0o755),
        2 => task.rmdir(one),
        3..=4 => task.creat(one, 0o644).map(drop),
        5 => task.unlink(one),
        6 => task.rename(one, other),
        7 => task.chmod(one, 0o700),
        8 => task.mount(MemFs::new(), one, MountFlags::empty()),
        _ => task.umount2(one, UmountFlags::DETACH),
    };
}

/// Whoever is interrupted while it holds a bucket's lock, for a few instructions, may be met there: the bucket cannot be
/// believed about what it lacks. That is one lookup in a million, here at most one in so many.
const RARE: u64 = 10_000;

const HITS: [&str; 6] =
    ["/a/x/y/file", "/a/x/../x/y", "/a/link/y/file", "/a/mnt/inside", "/a/mnt/../x", "/"];
const MISSES: [&str; 3] = ["/a/none", "/a/x/y/none/at/all", "/a/mnt/none"];

/// A tree with all kinds of places below `/a`, where nobody changes anything, and `/b`.
fn tree() -> Task {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    for dir in ["/a", "/b", "/a/x", "/a/x/y", "/a/mnt"] {
        root.mkdir(dir, 0o755).unwrap();
    }
    root.creat("/a/x/y/file", 0o644).unwrap();
    root.symlink("/a/x", "/a/link").unwrap();
    root.mount(MemFs::new(), "/a/mnt", MountFlags::empty()).unwrap();
    root.creat("/a/mnt/inside", 0o644).unwrap();
    // The link's time of last access is written once.
    thread::sleep(Duration::from_millis(5));
    root.stat("/a/link").unwrap();
    root
}

/// Has somebody change things below `/b` while `f` runs; returns how often that was done.
fn beside_changes(root: &Task, seed: u64, f: impl FnOnce()) -> u64 {
    let (over, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng::with_seed(seed);
            while !over.load(Relaxed) {
                change(root, &mut rng);
                changes.fetch_add(1, Relaxed);
            }
        });
        f();
        over.store(true, Relaxed);
    });
    changes.into_inner()
}

/// Looks everything up once, as programs do: remembered, in runs, however it comes.
fn look(task: &Task) {
    for path in HITS {
        assert_eq!(task.access(path, AccessMode::empty()), Ok(()), "{path}");
    }
    for path in MISSES {
        assert_eq!(task.access(path, AccessMode::empty()), Err(Errno::ENOENT), "{path}");
    }
}

/// They neither stop nor lose what is remembered. Counted inside the walk, on whichever road it takes; so only where that is built in.
#[cfg(debug_assertions)]
#[test]
fn lookups_hold_nothing_on_any_road_while_somebody_changes_another_place() {
    use pathwalk::road;
    let seed = seed();
    watched(move || {
        let root = tree();
        let task = root.fork();
        look(&task);
        let stepwise = road::Road { at: road::NEVER, how: road::How::Unlazy };
        for forced in [None, Some(stepwise)] {
            let (before, made, mut rounds) = (road::left(), road::made(), 0);
            let changes = beside_changes(&root, seed, || {
                road::take(forced);
                let end = Instant::now() + Duration::from_secs(1);
                while Instant::now() < end {
                    look(&task);
                    rounds += 1;
                }
                road::take(None);
            });
            let (left, lookups) =
                (road::left() - before, rounds * (HITS.len() + MISSES.len()) as u64);
            println!("{forced:?}: {lookups} lookups, {left} left, beside {changes} changes");
            assert!(changes > 1000, "{changes} changes");
            assert!(left * RARE < lookups, "{left} of {lookups} left");
            // What is remembered stays so. Those that cannot be, as they cross mounts, are tried again now and then.
            let made = road::made() - made;
            assert!(made < 100 + lookups / 1000, "{made} memos were made");
        }
    });
}

#[test]
fn lookups_hold_nothing_while_somebody_changes_another_place() {
    let seed = seed();
    watched(move || {
        let root = tree();
        let task = root.fork();
        let mut left: BTreeMap<(&str, String), u64> = BTreeMap::new();
        let mut lookups = 0;
        let changes = beside_changes(&root, seed, || {
            let how = ExplainHow::default();
            let end = Instant::now() + Duration::from_secs(3);
            while Instant::now() < end {
                for path in HITS.iter().chain(&MISSES) {
                    let explained = task.explain(path, how);
                    let errno = explained.outcome.err().map(|failure| failure.errno);
                    assert_eq!(errno.is_some(), MISSES.contains(path), "{path}: {errno:?}");
                    assert!(errno.is_none_or(|errno| errno == Errno::ENOENT));
                    lookups += 1;
                    if let Some(why) = explained.left {
                        *left.entry((path, format!("{why:?}"))).or_default() += 1;
                    }
                }
            }
        });
        println!("{lookups} lookups, {changes} changes, left: {left:?}");
        assert!(changes > 1000, "{changes} changes");
        assert!(left.values().sum::<u64>() * RARE < lookups, "{left:?}");
    });
}

/// While a file system is made read-only the tree of mounts is locked: it is not looked through for files without a name.
#[test]
fn to_make_a_file_system_read_only_takes_as_long_whatever_is_in_it() {
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    task.mkdir("/m", 0o755).unwrap();
    task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
    // The shortest time counts: others may be at work.
    let remounts = || {
        let remount = |_| {
            let start = Instant::now();
            task.mount_tree("", "/m", MountFlags::REMOUNT | MountFlags::RDONLY).unwrap();
            let taken = start.elapsed();
            task.mount_tree("", "/m", MountFlags::REMOUNT).unwrap();
            taken
        };
        (0..100).map(remount).min().unwrap()
    };
    let empty = remounts();
    for number in 0..50_000 {
        task.mknod(format!("/m/{number}"), 0o100_644, Default::default()).unwrap();
    }
    let full = remounts();
    assert!(full < 20 * empty, "{full:?} instead of {empty:?}");
}
