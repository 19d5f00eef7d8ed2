//! A writer elsewhere is not felt: lookups go on holding nothing while names and mounts come and go in another place.

use crate::common::{seed, watched};
use fastrand::Rng;
use pathwalk::{
    Config, Cred, Errno, MemFs, MountFlags, Task, UmountFlags, Vfs, explain::ExplainHow,
};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
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

const HITS: [&str; 6] =
    ["/a/x/y/file", "/a/x/../x/y", "/a/link/y/file", "/a/mnt/inside", "/a/mnt/../x", "/"];
const MISSES: [&str; 3] = ["/a/none", "/a/x/y/none/at/all", "/a/mnt/none"];

#[test]
fn lookups_hold_nothing_while_somebody_changes_another_place() {
    let seed = seed();
    watched(move || {
        let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
        let root = vfs.task(Cred::root());
        for dir in ["/a", "/b", "/a/x", "/a/x/y", "/a/mnt"] {
            root.mkdir(dir, 0o755).unwrap();
        }
        root.creat("/a/x/y/file", 0o644).unwrap();
        root.symlink("/a/x", "/a/link").unwrap();
        root.mount(MemFs::new(), "/a/mnt", MountFlags::empty()).unwrap();
        root.creat("/a/mnt/inside", 0o644).unwrap();
        let task = root.fork();
        // The link's time of last access is written once.
        thread::sleep(std::time::Duration::from_millis(5));
        task.stat("/a/link").unwrap();
        let (over, changes) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut left: BTreeMap<(&str, String), u64> = BTreeMap::new();
        let mut lookups = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = Rng::with_seed(seed);
                while !over.load(Relaxed) {
                    change(&root, &mut rng);
                    changes.fetch_add(1, Relaxed);
                }
            });
            let how = ExplainHow::default();
            let end = std::time::Instant::now() + std::time::Duration::from_secs(3);
            while std::time::Instant::now() < end {
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
            over.store(true, Relaxed);
        });
        println!("{lookups} lookups, {changes:?} changes, left: {left:?}");
        assert!(changes.into_inner() > 1000);
        // Whoever is interrupted while it holds a bucket's lock, for a few instructions, may be met there: the bucket
        // cannot be believed about what it lacks. That is one lookup in a million, here one in ten thousand.
        assert!(left.values().sum::<u64>() * 10_000 < lookups, "{left:?}");
    });
}
