//! Names that a file system must be asked for, and takes back.

use crate::{
    common::{sample::SampleFs, watched},
    deadline,
};
use pathwalk::{AtFlags, Config, Cred, Errno, FileType, OpenFlags, Task, Vfs, fs::Features};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

fn machine(features: Features) -> (Arc<SampleFs>, Task) {
    let fs = SampleFs::new(features);
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    (fs, vfs.task(Cred::root()))
}

/// Time enough for another thread to go wrong.
fn a_while() {
    thread::sleep(Duration::from_millis(50));
}

/// chmod moves the directory's count under the lookups, so that they lose it on the way; they ask all the same.
#[test]
fn a_cached_name_is_asked_about_at_each_use() {
    watched(|| {
        let (fs, task) = machine(Features::REVALIDATE);
        fs.appear("d", FileType::Directory, 0o755, "");
        task.stat("/d").unwrap();
        let (over, uses) = (AtomicBool::new(false), AtomicU64::new(0));
        fs.calls.revalidate.store(0, Relaxed);
        thread::scope(|scope| {
            for change in [true, false, false] {
                let (task, over, uses) = (task.fork(), &over, &uses);
                scope.spawn(move || {
                    for round in 0.. {
                        if over.load(Relaxed) {
                            break;
                        }
                        if change {
                            task.chmod("/d", [0o700, 0o755][round % 2]).unwrap();
                        } else {
                            task.stat("/d").unwrap();
                        }
                        uses.fetch_add(1, Relaxed);
                    }
                });
            }
            thread::sleep(deadline() - Instant::now());
            over.store(true, Relaxed);
        });
        let (asked, uses) = (fs.calls.revalidate.load(Relaxed), uses.into_inner());
        println!("{uses} uses, asked {asked} times");
        assert!(asked >= uses, "{uses} uses, asked {asked} times");
    });
}

/// Whoever is in the file system with a name reserved is not met there by somebody who found the name to be stale.
#[test]
fn a_stale_name_waits_for_whoever_changes_it() {
    watched(|| {
        let (fs, task) = machine(Features::REVALIDATE);
        fs.appear("x", FileType::Regular, 0o644, "");
        task.stat("/x").unwrap();
        fs.hold(Some("x"));
        thread::scope(|scope| {
            let unlinking = scope.spawn(|| task.unlink("/x"));
            fs.until_held();
            fs.valid.store(false, Relaxed);
            fs.calls.lookup.store(0, Relaxed);
            let looking = scope.spawn(|| task.stat("/x").map(drop));
            a_while();
            assert_eq!(fs.calls.lookup.load(Relaxed), 0, "two calls about one name");
            fs.hold(None);
            assert_eq!(unlinking.join().unwrap(), Ok(()));
            assert_eq!(looking.join().unwrap(), Err(Errno::ENOENT));
        });
    });
}

#[test]
fn a_directory_that_shows_elsewhere_waits_for_whoever_has_its_old_name() {
    watched(|| {
        let (fs, task) = machine(Features::empty());
        fs.appear("d", FileType::Directory, 0o755, "");
        task.stat("/d").unwrap();
        fs.appear_as_well("d", "e");
        fs.hold(Some("d"));
        thread::scope(|scope| {
            let renaming = scope.spawn(|| task.rename("/d", "/f"));
            fs.until_held();
            let looking = scope.spawn(|| task.stat("/e").map(drop));
            a_while();
            assert!(!looking.is_finished(), "the old name was taken from whoever had it reserved");
            fs.hold(None);
            assert_eq!(renaming.join().unwrap(), Ok(()));
            assert_eq!(looking.join().unwrap(), Ok(()));
        });
        assert_eq!(task.stat("/f/..").map(drop), Ok(()));
    });
}

/// Two names of one directory, the second of them in a rename that has the first: nobody waits for itself.
#[test]
fn a_rename_between_two_names_of_one_directory_comes_to_its_end() {
    watched(|| {
        let (fs, task) = machine(Features::empty());
        fs.appear("d", FileType::Directory, 0o755, "");
        fs.appear_as_well("d", "e");
        assert_eq!(task.rename("/d", "/e"), Err(Errno::ESTALE));
        assert_eq!(task.rename("/e", "/d"), Err(Errno::ESTALE));
        assert_eq!(task.stat("/e").map(drop), Ok(()));
    });
}

/// Who holds a directory by the dentry that was its only one is refused all the same once it may not be searched.
#[test]
fn a_directory_that_shows_elsewhere_is_closed_to_those_who_hold_it() {
    let (fs, task) = machine(Features::empty());
    let user = task.vfs().task(Cred::user(1000, 1000));
    fs.appear("d", FileType::Directory, 0o755, "");
    let dir = user.open("/d", OpenFlags::PATH, 0).unwrap();
    let look = || user.fstatat(&dir, "x", AtFlags::empty()).map(drop);
    assert_eq!(look(), Err(Errno::ENOENT));
    fs.appear_as_well("d", "e");
    task.chmod("/e", 0o700).unwrap();
    assert_eq!(look(), Err(Errno::EACCES));
}

/// Of two walks that learn at a time of a directory under two names one takes the name from the other.
#[test]
fn a_directory_that_shows_under_two_names_at_once_has_one() {
    watched(|| {
        let end = deadline();
        let mut rounds = 0;
        while Instant::now() < end || rounds <= 10 {
            let (fs, task) = machine(Features::empty());
            let user = task.vfs().task(Cred::user(1000, 1000));
            fs.appear("d", FileType::Directory, 0o755, "");
            fs.appear_as_well("d", "e");
            let start = Barrier::new(2);
            thread::scope(|scope| {
                for path in ["/d", "/e"] {
                    let (task, start) = (task.fork(), &start);
                    scope.spawn(move || {
                        start.wait();
                        task.stat(path).unwrap();
                    });
                }
            });
            // The root, and one name: the other leads nowhere.
            assert_eq!(task.vfs().usage().dentries, 2, "{rounds}");
            task.chmod(["/d", "/e"][rounds % 2], 0o700).unwrap();
            for path in ["/d/x", "/e/x"] {
                assert_eq!(user.stat(path).map(drop), Err(Errno::EACCES), "{path}");
            }
            rounds += 1;
        }
    });
}
