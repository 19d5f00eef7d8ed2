//! Two calls that meet: each is done as if the other had been before it or came after it, and neither waits for ever.

use crate::{
    check_whole,
    common::{sample::SampleFs, watched},
    deadline, machine,
};
use pathwalk::{
    AccessMode, At, AtFlags, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, RenameFlags, Task,
    UmountFlags, Vfs, fs::Features,
};
use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

/// Does `other` again and again in a thread of its own, and `one` until the time is over; how often each was done.
fn beside(mut other: impl FnMut() + Send, mut one: impl FnMut()) -> (u64, u64) {
    let (over, end) = (AtomicBool::new(false), deadline());
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut done = 0;
            while !over.load(Relaxed) {
                other();
                done += 1;
            }
            done
        });
        let mut done = 0;
        while Instant::now() < end {
            one();
            done += 1;
        }
        over.store(true, Relaxed);
        (others.join().unwrap(), done)
    })
}

fn sample() -> (Arc<SampleFs>, Task) {
    let fs = SampleFs::new(Features::empty());
    let task = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap().task(Cred::root());
    (fs, task)
}

#[test]
fn a_rename_does_not_undo_a_chmod() {
    watched(|| {
        let root = machine();
        for dir in ["/a", "/a/d"] {
            root.mkdir(dir, 0o755).unwrap();
        }
        root.creat("/a/d/f", 0o644).unwrap();
        let dir = root.open("/a/d", OpenFlags::RDONLY, 0).unwrap();
        let (mut user, mover) = (root.fork(), root.fork());
        user.set_cred(Cred::user(1000, 1000));
        let rename = || {
            mover.rename("/a/d", "/a/e").unwrap();
            mover.rename("/a/e", "/a/d").unwrap();
        };
        beside(rename, || {
            root.fchmod(&dir, 0o700).unwrap();
            let seen = user.faccessat2(At::Dir(&dir), "f", AccessMode::empty(), AtFlags::empty());
            assert_eq!(seen, Err(Errno::EACCES));
            root.fchmod(&dir, 0o755).unwrap();
        });
    });
}

/// An absent name is one caller's, whether he makes it or renames to it: what he did can be undone.
#[test]
fn a_name_that_two_want_comes_to_one_of_them() {
    watched(|| {
        let root = machine();
        for file in ["/a", "/y"] {
            root.creat(file, 0o644).unwrap();
        }
        let other = root.fork();
        let to_x = |task: &Task, old: &str| {
            let to = task.renameat2(At::Cwd, old, At::Cwd, "/x", RenameFlags::NOREPLACE);
            match to {
                Ok(()) => assert_eq!(task.rename("/x", old), Ok(())),
                refused => assert_eq!(refused, Err(Errno::EEXIST)),
            }
        };
        let mut round = 0;
        let make_or_rename = || {
            round += 1;
            match round % 3 {
                0 => to_x(&other, "/y"),
                1 => match other.mkdir("/x", 0o755) {
                    Ok(()) => assert_eq!(other.rmdir("/x"), Ok(())),
                    refused => assert_eq!(refused, Err(Errno::EEXIST)),
                },
                // In the same directory, and of no name that anybody else wants.
                _ => {
                    assert_eq!(other.rename("/y", "/z"), Ok(()));
                    assert_eq!(other.rename("/z", "/y"), Ok(()));
                }
            }
        };
        beside(make_or_rename, || to_x(&root, "/a"));
        check_whole(&root);
    });
}

/// A directory that was renamed elsewhere is seen by its new name: each of the two names takes it from the other.
#[test]
fn a_chmod_and_the_lookup_of_another_name_do_not_wait_for_each_other() {
    watched(|| {
        let (fs, root) = sample();
        root.mkdir("/dir", 0o755).unwrap();
        fs.appear_as_well("dir", "new");
        let dir = root.open("/dir", OpenFlags::RDONLY, 0).unwrap();
        let other = root.fork();
        let look = || {
            other.stat("/new").unwrap();
            other.stat("/dir").unwrap();
        };
        let (looks, changes) = beside(look, || {
            root.fchmod(&dir, 0o700).unwrap();
            root.fchmod(&dir, 0o755).unwrap();
        });
        assert!(looks > 0 && changes > 0, "{looks} lookups, {changes} changes");
    });
}

#[test]
fn a_refused_remount_is_not_felt() {
    watched(|| {
        let root = machine();
        let writer = root.creat("/open", 0o644).unwrap();
        let other = root.fork();
        let remount = || {
            let remounted = other.mount_tree("", "/", MountFlags::REMOUNT | MountFlags::RDONLY);
            assert_eq!(remounted, Err(Errno::EBUSY));
        };
        beside(remount, || {
            assert_eq!(root.mkdir("/x", 0o755), Ok(()));
            assert_eq!(root.rmdir("/x"), Ok(()));
            assert_eq!(root.open("/open", OpenFlags::WRONLY, 0).map(drop), Ok(()));
        });
        drop(writer);
    });
}

/// A call under way is in the way of a remount: nothing is made after it.
#[test]
fn nothing_is_made_after_the_mount_became_read_only() {
    watched(|| {
        let (fs, root) = sample();
        // It is known to be absent, so that mkdir does not wait in the lookup.
        assert_eq!(root.access("/late", AccessMode::empty()), Err(Errno::ENOENT));
        fs.hold(Some("late"));
        let read_only = MountFlags::REMOUNT | MountFlags::RDONLY;
        thread::scope(|scope| {
            let making = scope.spawn(|| root.mkdir("/late", 0o755));
            fs.until_held();
            assert_eq!(root.mount_tree("", "/", read_only), Err(Errno::EBUSY));
            fs.hold(None);
            assert_eq!(making.join().unwrap(), Ok(()));
        });
        assert_eq!(root.mount_tree("", "/", read_only), Ok(()));
        assert_eq!(root.mkdir("/later", 0o755), Err(Errno::EROFS));
    });
}

/// One leaves a detached mount while another, who shares its current directory, opens it: it is held, or gone.
#[test]
fn a_detached_mount_is_not_freed_while_somebody_comes_to_hold_it() {
    /// What the one who opens is to do: open again and again, say what it holds, or wait for the next round.
    const OPEN: u32 = 1;
    const SAY: u32 = 2;
    const WAIT: u32 = 3;
    const OVER: u32 = 4;
    watched(|| {
        let root = machine();
        for dir in ["/m", "/keep"] {
            root.mkdir(dir, 0o755).unwrap();
        }
        root.mount(MemFs::new(), "/keep", MountFlags::empty()).unwrap();
        let dev = root.stat("/keep").unwrap().st_dev;
        let top = root.open("/", OpenFlags::PATH, 0).unwrap();
        let other = root.clone_fs();
        // A long way to the same place: the walk samples the mount at its beginning and holds it at its end.
        let long = "./".repeat(1500) + ".";
        let (state, said) = (Mutex::new(WAIT), Mutex::new(0));
        let say = |cell: &Mutex<u32>, value| *cell.lock().unwrap() = value;
        let until = |cell: &Mutex<u32>, is: &dyn Fn(u32) -> bool| loop {
            let value = *cell.lock().unwrap();
            if is(value) {
                break value;
            }
            spin_loop();
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while until(&state, &|state| state != WAIT) != OVER {
                    let file = loop {
                        let file = other.open(&long, OpenFlags::PATH, 0).ok();
                        if *state.lock().unwrap() != OPEN {
                            break file;
                        }
                    };
                    let held = file
                        .as_ref()
                        .is_some_and(|file| other.fstat(file).is_ok_and(|stat| stat.st_dev == dev));
                    say(&said, 1 + u32::from(held));
                    until(&state, &|state| state != SAY);
                    drop(file);
                    say(&said, 0);
                }
            });
            let end = deadline();
            while Instant::now() < end {
                until(&said, &|said| said == 0);
                root.bind("/keep", "/m").unwrap();
                root.chdir("/m").unwrap();
                root.umount2("/m", UmountFlags::DETACH).unwrap();
                say(&state, OPEN);
                (0..fastrand::u32(100..3000)).for_each(|_| spin_loop());
                root.fchdir(&top).unwrap();
                say(&state, SAY);
                let held = until(&said, &|said| said != 0) == 2;
                // The root, /keep, and what is held.
                assert_eq!(root.vfs().usage().mounts, 2 + u32::from(held));
                say(&state, WAIT);
            }
            until(&said, &|said| said == 0);
            say(&state, OVER);
        });
    });
}

/// What is mounted on stays, and on what was removed nothing is mounted; who failed leaves nothing behind.
#[test]
fn a_mount_and_who_takes_its_place_away() {
    type Takes<'a> = &'a (dyn Fn(&Task) -> pathwalk::Result<()> + Sync);
    let ways: [Takes<'_>; 2] = [&|task| task.rmdir("/in/place"), &|task| {
        task.renameat2(At::Cwd, "/empty", At::Cwd, "/in/place", RenameFlags::empty())
    }];
    for (way, takes) in ways.into_iter().enumerate() {
        watched(move || {
            let task = machine();
            task.mkdir("/in", 0o755).unwrap();
            task.mkdir("/in/place", 0o755).unwrap();
            let device = task.stat("/in").unwrap().st_dev;
            let (other, one) = (task.fork(), task.fork());
            let (mut taken, mut mounted) = (0, 0);
            beside(
                || {
                    let _ = other.mkdir("/empty", 0o755);
                    match takes(&other) {
                        Ok(()) => taken += 1,
                        Err(errno) => assert_eq!(errno, Errno::EBUSY, "{way}"),
                    }
                    let _ = other.mkdir("/in/place", 0o755);
                },
                || {
                    match one.mount(MemFs::new(), "/in/place", MountFlags::empty()) {
                        Ok(()) => {
                            mounted += 1;
                            for _ in 0..4 {
                                assert_ne!(one.stat("/in/place").unwrap().st_dev, device, "{way}");
                            }
                            one.umount2("/in/place", UmountFlags::empty()).unwrap();
                        }
                        Err(errno) => assert_eq!(errno, Errno::ENOENT, "{way}"),
                    }
                    assert_eq!(
                        one.mount(MemFs::new(), "/in/none", MountFlags::empty()),
                        Err(Errno::ENOENT)
                    );
                },
            );
            assert!(taken > 0 && mounted > 0, "{way}: {taken}, {mounted}");
            check_whole(&task);
        });
    }
}
