//! Threads that open the same files keep counts of them for the next time; nothing outlives its name for that.

use crate::{check_whole, common::watched, deadline, machine};
use pathwalk::{Errno, InotifyFlags, InotifyMask, MemFs, MountFlags, OpenFlags, Task, UmountFlags};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Instant,
};

/// Opens and closes a file in several threads, until each has a count of it to spare.
fn open_and_close(task: &Task, path: &str) {
    let held = task.open(path, OpenFlags::RDONLY, 0).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            let task = task.fork();
            scope.spawn(move || {
                for _ in 0..3 {
                    drop(task.open(path, OpenFlags::RDONLY, 0).unwrap());
                }
            });
        }
    });
    drop(held);
}

#[test]
fn a_file_that_was_open_goes_with_its_last_name() {
    let task = machine();
    let queue = task.inotify_init1(InotifyFlags::empty()).unwrap();
    let files = || task.vfs().usage().inodes;
    type Take = fn(&Task) -> Result<(), Errno>;
    let takings: [Take; 3] = [
        |task| task.unlink("/f"),
        |task| task.rename("/other", "/f"),
        |task| task.unlink("/f").and_then(|()| task.mkdir("/d", 0o755)).and(task.rmdir("/d")),
    ];
    for take in takings {
        task.creat("/f", 0o644).unwrap();
        task.creat("/other", 0o644).unwrap();
        open_and_close(&task, "/f");
        let before = files();
        task.inotify_add_watch(&queue, "/f", InotifyMask::DELETE_SELF).unwrap();
        take(&task).unwrap();
        let events: Vec<_> = queue.events().map(|event| event.mask).collect();
        assert_eq!(events, [InotifyMask::DELETE_SELF, InotifyMask::IGNORED]);
        assert_eq!(files(), before - 1);
        let _ = (task.unlink("/f"), task.unlink("/other"));
    }
    check_whole(&task);
}

#[test]
fn what_was_open_keeps_neither_a_mount_nor_a_place_in_the_cache() {
    let task = machine();
    task.mkdir("/m", 0o755).unwrap();
    task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
    task.creat("/m/f", 0o644).unwrap();
    open_and_close(&task, "/m/f");
    task.umount2("/m", UmountFlags::empty()).unwrap();
    check_whole(&task);
}

#[test]
fn a_machine_goes_though_somebody_keeps_a_count() {
    let task = machine();
    task.creat("/f", 0o644).unwrap();
    open_and_close(&task, "/f");
    // A debug build says so if a count is missing then.
    drop(task);
}

/// A busy file is opened by some, while others take its name away, move it and put another in its place.
#[test]
fn names_go_while_their_files_are_opened() {
    watched(|| {
        let task = machine();
        task.mkdir("/m", 0o755).unwrap();
        task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
        let (over, opened) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut changed = 0_u64;
        thread::scope(|scope| {
            for _ in 0..3 {
                let (task, over, opened) = (task.fork(), &over, &opened);
                scope.spawn(move || {
                    while !over.load(Relaxed) {
                        for path in ["/m/a", "/m/b", "/m/a"] {
                            match task.open(path, OpenFlags::RDONLY, 0) {
                                Ok(_) => _ = opened.fetch_add(1, Relaxed),
                                Err(errno) => assert_eq!(errno, Errno::ENOENT),
                            }
                        }
                    }
                });
            }
            let end = deadline();
            while Instant::now() < end {
                changed += 1;
                for path in ["/m/a", "/m/b"] {
                    task.creat(path, 0o644).unwrap();
                }
                for _ in 0..changed % 50 {
                    drop(task.open("/m/a", OpenFlags::RDONLY, 0).unwrap());
                }
                match changed % 3 {
                    0 => task.rename("/m/a", "/m/b").unwrap(),
                    1 => _ = task.vfs().shrink(8),
                    _ => task.rename("/m/b", "/m/c").unwrap(),
                }
                for path in ["/m/a", "/m/b", "/m/c"] {
                    let _ = task.unlink(path);
                }
            }
            over.store(true, Relaxed);
        });
        let opened = opened.into_inner();
        println!("{opened} opened, {changed} changes");
        assert!(opened > 100 && changed > 10, "they met");
        // The file system goes with all that was in it.
        task.umount2("/m", UmountFlags::empty()).unwrap();
        check_whole(&task);
    });
}
