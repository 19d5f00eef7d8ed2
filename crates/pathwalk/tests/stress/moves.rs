//! Directories that move under those who climb: a scoped walk stays inside, a path is one that was.

use crate::{check_whole, common::watched, deadline, machine};
use pathwalk::{Errno, OpenFlags, OpenHow, ResolveFlags, Task};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Has two threads look while the caller's moves directories.
fn beside_moves(task: &Task, moves: &[(&str, &str)], look: impl Fn(&Task) + Sync) {
    let (over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            let (task, over, looks, look) = (task.fork(), &over, &looks, &look);
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    look(&task);
                    looks.fetch_add(1, Relaxed);
                }
            });
        }
        let end = deadline();
        while Instant::now() < end {
            for (from, to) in moves {
                assert_eq!(task.rename(from, to), Ok(()));
            }
        }
        over.store(true, Relaxed);
    });
    assert!(looks.into_inner() > 100, "somebody looked");
}

fn tree(dirs: &[&str], files: &[&str]) -> Task {
    let task = machine();
    for dir in dirs {
        task.mkdir(dir, 0o755).unwrap();
    }
    for file in files {
        task.creat(file, 0o644).unwrap();
    }
    task
}

#[test]
fn a_scoped_walk_does_not_escape_by_a_directory_that_is_moved_away() {
    watched(|| {
        let dirs = ["/jail", "/jail/a", "/jail/a/b", "/jail/a/b/c", "/out"];
        let task = tree(&dirs, &["/out/x"]);
        let moves = [("/jail/a/b", "/out/b"), ("/out/b", "/jail/a/b")];
        for scope in [ResolveFlags::BENEATH, ResolveFlags::IN_ROOT] {
            let flags = OpenFlags::PATH.bits();
            let how = OpenHow { flags, mode: 0, resolve: scope.bits() };
            beside_moves(&task, &moves, |task| {
                let jail = task.open("/jail", OpenFlags::PATH | OpenFlags::DIRECTORY, 0).unwrap();
                // There never is an `x` below the jail.
                let answer = task.openat2(&jail, "a/b/c/../../x", &how).map(drop);
                let refused = [Errno::ENOENT, Errno::EXDEV, Errno::EAGAIN];
                assert!(answer.is_err_and(|errno| refused.contains(&errno)), "{answer:?}");
            });
        }
        check_whole(&task);
    });
}

/// A directory comes in only after the one below it has left: what lies in that one is never inside.
#[test]
fn a_scoped_walk_does_not_take_two_moves_for_one_place() {
    watched(|| {
        let dirs = ["/jail", "/out", "/out/a", "/out/a/x"];
        let task = tree(&dirs, &["/out/a/x/secret"]);
        // Whenever `a` is in the jail, `x` is not in `a`.
        let moves = [
            ("/out/a/x", "/out/x"),
            ("/out/a", "/jail/a"),
            ("/jail/a", "/out/a"),
            ("/out/x", "/out/a/x"),
        ];
        let how = OpenHow {
            flags: OpenFlags::PATH.bits(),
            mode: 0,
            resolve: ResolveFlags::BENEATH.bits(),
        };
        beside_moves(&task, &moves, |task| {
            let jail = task.open("/jail", OpenFlags::PATH | OpenFlags::DIRECTORY, 0).unwrap();
            let answer = task.openat2(&jail, "a/x/secret", &how).map(drop);
            assert!(answer.is_err(), "{answer:?}");
        });
        check_whole(&task);
    });
}

/// In a bind mount of a part, `..` above what has been moved out of that part is ENOENT, and else never is.
#[test]
fn a_part_of_a_file_system_that_is_shown_elsewhere_is_left_by_moves_only() {
    watched(|| {
        let dirs = ["/src", "/src/a", "/src/a/b", "/src/c", "/m", "/elsewhere"];
        let task = tree(&dirs, &[]);
        task.bind("/src", "/m").unwrap();
        let moves = [("/src/a/b", "/src/c/b"), ("/src/c/b", "/src/a/b")];
        let inside = task.open("/m/a/b", OpenFlags::PATH, 0).unwrap();
        beside_moves(&task, &moves, |task| {
            let up = task.fstatat(&inside, "../..", pathwalk::AtFlags::empty()).map(drop);
            assert_eq!(up, Ok(()), "it never left the part");
        });
        drop(inside);
        crate::common::tree::umount_all(&task);
        check_whole(&task);
    });
}

/// getcwd comes to its end, and with a path that was, however often directories move.
#[test]
fn a_path_is_one_that_was_though_directories_move_all_the_time() {
    const DEPTH: usize = 1000;
    watched(|| {
        let task = tree(&["/x", "/a", "/b", "/a/d"], &[]);
        let deep = task.fork();
        deep.chdir("/a/d").unwrap();
        for _ in 0..DEPTH {
            deep.mkdir("e", 0o755).unwrap();
            deep.chdir("e").unwrap();
        }
        let tail = "/e".repeat(DEPTH);
        let paths = [format!("/a/d{tail}"), format!("/b/d{tail}")];
        let moves = [("/x", "/y"), ("/y", "/x"), ("/a/d", "/b/d"), ("/b/d", "/a/d")];
        let slowest = AtomicU64::new(0);
        beside_moves(&task, &moves, |_| {
            let begun = Instant::now();
            let path = deep.getcwd().unwrap();
            slowest.fetch_max(begun.elapsed().as_millis() as u64, Relaxed);
            let path = String::from_utf8(path).unwrap();
            assert!(paths.contains(&path), "{}…", &path[..20]);
        });
        let slowest = Duration::from_millis(slowest.into_inner());
        println!("the slowest took {slowest:?}");
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        task.rename("/a/d", "/top").unwrap();
        task.chdir("/").unwrap();
        drop(deep);
        let mut dir = task.open("/top", OpenFlags::PATH, 0).unwrap();
        for _ in 0..DEPTH {
            dir = task.openat(&dir, "e", OpenFlags::PATH, 0).unwrap();
        }
    });
}
