//! Names that stand for nothing are remembered, so that nobody asks for them again, and have a share of the cache.

mod common;

use common::sample::SampleFs;
use pathwalk::{Config, Cred, Errno, FileType, Task, Vfs, fs::Features};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// So many may be remembered.
const SHARE: u32 = 1000;

fn machine() -> (Arc<SampleFs>, Task) {
    let fs = SampleFs::new(Features::empty());
    let config = Config { negative_bytes: u64::from(SHARE) * 128, ..Config::default() };
    let vfs = Vfs::new(config, fs.clone()).unwrap();
    (fs, vfs.task(Cred::root()))
}

fn negative(task: &Task) -> u32 {
    task.vfs().usage().negative
}

#[test]
fn a_search_for_what_is_not_there_drives_out_nothing_that_is() {
    let (fs, task) = machine();
    let files: Vec<String> = (0..500).map(|number| format!("/file{number}")).collect();
    for file in &files {
        fs.appear(&file[1..], FileType::Regular, 0o644, "");
        task.stat(file).unwrap();
    }
    for number in 0..50 * SHARE {
        assert_eq!(task.stat(format!("/absent{number}")).map(drop), Err(Errno::ENOENT));
        assert!(negative(&task) <= SHARE, "the {number}th");
    }
    assert!(negative(&task) > SHARE / 2, "the share is used");
    let asked = fs.calls.lookup.load(Relaxed);
    files.iter().for_each(|file| assert!(task.stat(file).is_ok()));
    assert_eq!(fs.calls.lookup.load(Relaxed), asked, "all are still known");
}

#[test]
fn an_absent_name_that_is_asked_for_all_the_time_is_asked_for_seldom() {
    let (fs, task) = machine();
    let absent = 20 * SHARE;
    for number in 0..absent {
        for name in [format!("/absent{number}"), "/often".to_owned()] {
            assert_eq!(task.stat(name).map(drop), Err(Errno::ENOENT));
        }
    }
    let again = fs.calls.lookup.load(Relaxed) - u64::from(absent);
    assert!(again <= 22, "it is the oldest of all {again} times");
}

/// Few may be remembered, and there are many other names: the share holds all the same.
#[test]
fn the_share_holds_in_a_large_table() {
    let (fs, task) = machine();
    for number in 0..50 * SHARE {
        fs.appear(&format!("file{number}"), FileType::Regular, 0o644, "");
        task.stat(format!("/file{number}")).unwrap();
    }
    for number in 0..5 * SHARE {
        assert_eq!(task.stat(format!("/absent{number}")).map(drop), Err(Errno::ENOENT));
        assert!(negative(&task) <= SHARE, "the {number}th");
    }
}

/// What was absent and is made, and goes again, leaves nothing behind.
#[test]
fn what_is_made_leaves_no_trace_of_its_absence() {
    let (_fs, task) = machine();
    for _ in 0..20 * SHARE {
        assert_eq!(task.stat("/file").map(drop), Err(Errno::ENOENT));
        task.creat("/file", 0o644).unwrap();
        task.unlink("/file").unwrap();
    }
    assert_eq!(negative(&task), 0);
}

#[test]
fn what_comes_to_be_is_absent_no_longer() {
    let (_fs, task) = machine();
    assert_eq!(task.stat("/a").map(drop), Err(Errno::ENOENT));
    assert_eq!(task.stat("/b").map(drop), Err(Errno::ENOENT));
    assert_eq!(negative(&task), 2);
    task.mkdir("/a", 0o755).unwrap();
    assert_eq!(negative(&task), 1);
    task.rename("/a", "/b").unwrap();
    assert_eq!(negative(&task), 0);
    task.rmdir("/b").unwrap();
    assert_eq!(negative(&task), 0);
    assert_eq!(task.stat("/b").map(drop), Err(Errno::ENOENT));
    assert_eq!(task.stat("/b").map(drop), Err(Errno::ENOENT));
    assert_eq!(negative(&task), 1, "counted once");
}
