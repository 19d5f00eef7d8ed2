//! Calls that could wait for each other in a circle, or make one.

use crate::{
    check_whole,
    common::{seed, watched},
    deadline, machine,
};
use pathwalk::{Errno, MemFs, MountFlags, OpenFlags, Result, Task, UmountFlags};
use std::{thread, time::Instant};

/// What a thread does again and again; it is told the number of the round.
pub(crate) type Turn<'a> = &'a (dyn Fn(&Task, u64) + Sync);

/// Gives each of the turns to a thread of its own.
pub(crate) fn meet(task: &Task, turns: &[Turn<'_>]) {
    let end = deadline();
    thread::scope(|scope| {
        for turn in turns {
            let task = task.fork();
            scope.spawn(move || {
                for round in 0.. {
                    turn(&task, round);
                    if round % 64 == 0 && Instant::now() > end {
                        break;
                    }
                }
            });
        }
    });
}

pub(crate) fn is_one_of(answer: Result<()>, errnos: &[Errno]) {
    if let Err(errno) = answer {
        assert!(errnos.contains(&errno), "{errno}");
    }
}

#[test]
fn renames_to_and_fro_between_two_directories_meet() {
    watched(|| {
        let task = machine();
        for dir in ["/a", "/b", "/a/x", "/b/y", "/a/d", "/a/d/e"] {
            task.mkdir(dir, 0o755).unwrap();
        }
        let gone = &[Errno::ENOENT, Errno::ENOTEMPTY, Errno::EINVAL];
        meet(
            &task,
            &[
                &|task, _| is_one_of(task.rename("/a/x", "/b/x"), gone),
                &|task, _| is_one_of(task.rename("/b/x", "/a/x"), gone),
                &|task, _| is_one_of(task.rename("/b/y", "/a/y"), gone),
                &|task, _| is_one_of(task.rename("/a/y", "/b/y"), gone),
                &|task, _| is_one_of(task.rename("/a/x", "/b/y"), gone),
                &|task, _| {
                    is_one_of(task.stat("/a/x/../../b").map(drop), gone);
                    is_one_of(task.stat("/b/x/../../a").map(drop), gone);
                    let _ = task.mkdir("/a/x", 0o755);
                },
            ],
        );
        check_whole(&task);
    });
}

/// Two directories each of which is moved below the other: one of the two must be refused.
#[test]
fn no_directory_becomes_its_own_descendant() {
    watched(|| {
        let task = machine();
        for dir in ["/a", "/b", "/a/p", "/b/q"] {
            task.mkdir(dir, 0o755).unwrap();
        }
        let refused = &[Errno::ENOENT, Errno::EINVAL, Errno::ENOTEMPTY];
        meet(
            &task,
            &[
                &|task, _| is_one_of(task.rename("/a", "/b/q/a"), refused),
                &|task, _| is_one_of(task.rename("/b", "/a/p/b"), refused),
                &|task, _| is_one_of(task.rename("/b/q/a", "/a"), refused),
                &|task, _| is_one_of(task.rename("/a/p/b", "/b"), refused),
                &|task, _| {
                    is_one_of(task.stat("/a/p/b/q").map(drop), refused);
                    is_one_of(task.stat("/b/q/a/p/../../..").map(drop), refused);
                },
            ],
        );
        check_whole(&task);
        assert!(task.stat("/a").is_ok() || task.stat("/b").is_ok());
        // Both are still reached from the root: nothing was lost in a loop.
        let census = crate::common::tree::census(&task);
        assert_eq!(census.names, 5);
    });
}

#[test]
fn a_directory_is_removed_or_gets_a_name_but_not_both() {
    watched(|| {
        let task = machine();
        meet(
            &task,
            &[
                &|task, _| {
                    is_one_of(task.mkdir("/d", 0o755), &[Errno::EEXIST]);
                    is_one_of(task.rmdir("/d"), &[Errno::ENOENT, Errno::ENOTEMPTY]);
                },
                &|task, _| {
                    let flags = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY;
                    match task.open("/d/file", flags, 0o644) {
                        // Who made a name in it keeps it from being removed.
                        Ok(_) => assert_eq!(task.unlink("/d/file"), Ok(())),
                        Err(errno) => assert_eq!(errno, Errno::ENOENT),
                    }
                },
                &|task, _| match task.mkdir("/d/sub", 0o755) {
                    Ok(()) => {
                        assert!(task.stat("/d/sub/..").is_ok());
                        assert_eq!(task.rmdir("/d/sub"), Ok(()));
                    }
                    Err(errno) => assert_eq!(errno, Errno::ENOENT),
                },
                &|task, _| match task.symlink("x", "/e") {
                    Ok(()) => match task.rename("/e", "/d/e") {
                        Ok(()) => assert_eq!(task.unlink("/d/e"), Ok(())),
                        Err(errno) => {
                            assert_eq!(errno, Errno::ENOENT);
                            assert_eq!(task.unlink("/e"), Ok(()));
                        }
                    },
                    Err(errno) => panic!("{errno}"),
                },
            ],
        );
        check_whole(&task);
    });
}

/// A mountpoint is not removed, and nothing is mounted on what was removed.
#[test]
fn a_directory_is_removed_or_mounted_on_but_not_both() {
    watched(|| {
        let task = machine();
        task.mkdir("/other", 0o755).unwrap();
        let gone = &[Errno::ENOENT];
        let mount = |task: &Task| {
            if task.mount(MemFs::new(), "/d", MountFlags::empty()).is_ok() {
                // It may have been renamed before, but cannot be renamed or removed now.
                let umount = |path| task.umount2(path, UmountFlags::DETACH);
                assert!(umount("/d").is_ok() || umount("/other/d").is_ok());
            }
        };
        meet(
            &task,
            &[
                &|task, _| {
                    is_one_of(task.mkdir("/d", 0o755), &[Errno::EEXIST]);
                    is_one_of(task.rmdir("/d"), &[Errno::ENOENT, Errno::EBUSY]);
                },
                &|task, _| mount(task),
                &|task, _| {
                    let busy = &[Errno::ENOENT, Errno::EBUSY, Errno::EXDEV];
                    is_one_of(task.rename("/d", "/other/d"), busy);
                    is_one_of(task.rename("/other/d", "/d"), busy);
                    is_one_of(task.rmdir("/other/d"), busy);
                },
                &|task, _| is_one_of(task.stat("/d/..").map(drop), gone),
            ],
        );
        crate::common::tree::umount_all(&task);
        check_whole(&task);
    });
}

/// Mounts that come and go in stacks do not keep lookups from their end, and leave nothing behind.
#[test]
fn mounts_come_and_go_under_lookups() {
    let seed = seed();
    watched(move || {
        let task = machine();
        for dir in ["/m", "/m/in", "/src", "/src/in"] {
            task.mkdir(dir, 0o755).unwrap();
        }
        let ends = &[Errno::EINVAL, Errno::EBUSY];
        meet(
            &task,
            &[
                &|task, round| {
                    task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
                    task.bind("/src", "/m").unwrap();
                    let flags = [UmountFlags::empty(), UmountFlags::DETACH];
                    is_one_of(task.umount2("/m", flags[(seed + round) as usize % 2]), ends);
                    is_one_of(task.umount2("/m", flags[round as usize % 2]), ends);
                    while task.umount2("/m", UmountFlags::DETACH).is_ok() {}
                },
                &|task, _| {
                    // Where a mount has gone, its root is a root of its own: `..` stays there.
                    let gone = &[Errno::ENOENT];
                    is_one_of(task.stat("/m/in/../../src/in").map(drop), gone);
                    is_one_of(task.stat("/m/../m/./..").map(drop), gone);
                    is_one_of(task.stat("/m/./..").map(drop), &[]);
                },
                &|task, _| {
                    if let Ok(dir) = task.open("/m", OpenFlags::PATH, 0) {
                        task.fstatat(&dir, "..", pathwalk::AtFlags::empty()).unwrap();
                    }
                },
            ],
        );
        crate::common::tree::umount_all(&task);
        check_whole(&task);
    });
}
