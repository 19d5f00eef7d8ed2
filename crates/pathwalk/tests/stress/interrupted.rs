//! Changes at each point of a lookup that holds nothing, step by step and in runs, as if another thread had made them just then.

use crate::machine;
use pathwalk::{
    AccessMode, At, Errno, MemFs, MountFlags, OpenFlags, OpenHow, RenameFlags, ResolveFlags,
    Result, Task, UmountFlags, road,
};

/// Looks with the change at the first point, then with the change at the second, and so on to the last point, each time in
/// a tree of its own; returns how many there were in runs.
fn at_each_point(
    setup: impl Fn(&Task),
    change: fn(&Task),
    look: impl Fn(&Task) -> Result<()>,
    judge: impl Fn(Result<()>, u32),
) -> u32 {
    let mut points = 0;
    for in_runs in [false, true] {
        for point in 0.. {
            let task = machine();
            setup(&task);
            let other = task.fork();
            let (change, look) = (move || change(&other), || look(&task));
            let (answer, happened) = if in_runs {
                road::interrupt_run(point, change, look)
            } else {
                road::interrupt(point, change, look)
            };
            judge(answer, point);
            if !happened {
                assert!(in_runs || point > 3, "only {point} points");
                points = point;
                break;
            }
        }
    }
    points
}

fn dirs(task: &Task, dirs: &[&str]) {
    dirs.iter().for_each(|dir| task.mkdir(dir, 0o755).unwrap());
}

#[test]
fn a_name_that_is_replaced_is_there() {
    let setup = |task: &Task| {
        dirs(task, &["/d", "/d/e"]);
        task.creat("/d/e/name", 0o644).unwrap();
        task.creat("/d/new", 0o644).unwrap();
    };
    let change = |task: &Task| task.rename("/d/new", "/d/e/name").unwrap();
    let look = |task: &Task| task.access("/d/e/name", AccessMode::empty());
    at_each_point(setup, change, look, |answer, point| assert_eq!(answer, Ok(()), "{point}"));
}

#[test]
fn a_scoped_walk_stays_inside_when_its_way_is_moved_away() {
    let setup = |task: &Task| {
        dirs(task, &["/jail", "/jail/a", "/jail/a/b", "/jail/a/b/c", "/out"]);
        task.creat("/out/x", 0o644).unwrap();
        task.chdir("/jail").unwrap();
    };
    let change = |task: &Task| task.rename("/jail/a/b", "/out/b").unwrap();
    let look = |task: &Task| {
        let resolve = ResolveFlags::BENEATH.bits();
        let how = OpenHow { flags: OpenFlags::PATH.bits(), mode: 0, resolve };
        task.openat2(At::Cwd, "a/b/c/../../x", &how).map(drop)
    };
    at_each_point(setup, change, look, |answer, point| {
        let refused = [Errno::ENOENT, Errno::EXDEV, Errno::EAGAIN];
        assert!(answer.is_err_and(|errno| refused.contains(&errno)), "{point}: {answer:?}");
    });
}

/// The mount that the walk is in goes, another takes its slot, and on the same dentry something is mounted there.
#[test]
fn a_mount_is_not_reached_through_one_that_it_never_hung_in() {
    let setup = |task: &Task| {
        dirs(task, &["/src", "/src/d", "/p", "/q"]);
        task.bind("/src", "/p").unwrap();
    };
    let change = |task: &Task| {
        task.umount2("/p", UmountFlags::DETACH).unwrap();
        task.bind("/src", "/q").unwrap();
        task.mount(MemFs::new(), "/q/d", MountFlags::empty()).unwrap();
        task.creat("/q/d/x", 0o644).unwrap();
    };
    let look = |task: &Task| task.access("/p/d/x", AccessMode::empty());
    at_each_point(setup, change, look, |answer, point| {
        assert_eq!(answer, Err(Errno::ENOENT), "{point}");
    });
}

#[test]
fn permission_that_is_taken_is_not_used() {
    let setup = |task: &Task| {
        dirs(task, &["/d", "/d/e"]);
        task.creat("/d/e/f", 0o644).unwrap();
        task.creat("/secret", 0o600).unwrap();
    };
    // What comes under the name is never open to others.
    let change = |task: &Task| {
        task.chmod("/d/e", 0o700).unwrap();
        task.rename("/secret", "/d/e/f").unwrap();
    };
    let look = |task: &Task| {
        let mut user = task.fork();
        user.set_cred(pathwalk::Cred::user(1000, 1000));
        user.access("/d/e/f", AccessMode::R_OK)
    };
    at_each_point(setup, change, look, |answer, point| {
        assert!(matches!(answer, Ok(()) | Err(Errno::EACCES)), "{point}: {answer:?}");
    });
}

/// A mount goes, and another one gets its slot, while a walk steps out of it by `..`.
#[test]
fn what_is_above_a_mount_is_found_though_its_slot_is_used_again() {
    let setup = |task: &Task| {
        dirs(task, &["/one", "/two", "/p", "/q", "/etc"]);
        task.creat("/etc/x", 0o644).unwrap();
        task.mount(MemFs::new(), "/one", MountFlags::empty()).unwrap();
        task.mount(MemFs::new(), "/two", MountFlags::empty()).unwrap();
        task.bind("/one", "/p").unwrap();
    };
    let change = |task: &Task| {
        task.umount2("/p", UmountFlags::DETACH).unwrap();
        task.bind("/two", "/q").unwrap();
    };
    let look = |task: &Task| task.access("/p/../etc/x", AccessMode::empty());
    at_each_point(setup, change, look, |answer, point| assert_eq!(answer, Ok(()), "{point}"));
}

/// The same of a mount that shows a part, whose slot a whole one gets: `..` would lead out of the part, to another link.
#[test]
fn what_is_beside_a_part_is_not_found_though_its_slot_is_used_again() {
    let setup = |task: &Task| {
        dirs(task, &["/s", "/s/sub", "/p", "/q"]);
        task.creat("/public", 0o644).unwrap();
        task.creat("/secret", 0o600).unwrap();
        task.symlink("/public", "/link").unwrap();
        task.symlink("/secret", "/s/link").unwrap();
        // Else the times of last access are to be written, which is done holding.
        std::thread::sleep(std::time::Duration::from_millis(5));
        task.stat("/link").unwrap();
        task.stat("/s/link").unwrap();
        task.bind("/s/sub", "/p").unwrap();
    };
    let change = |task: &Task| {
        task.umount2("/p", UmountFlags::DETACH).unwrap();
        task.mount(MemFs::new(), "/q", MountFlags::empty()).unwrap();
    };
    let look = |task: &Task| {
        let found = task.stat("/p/../link")?;
        assert_eq!(found.st_mode & 0o777, 0o644, "it is the public one");
        Ok(())
    };
    at_each_point(setup, change, look, |answer, point| assert_eq!(answer, Ok(()), "{point}"));
}

/// Two mounts on one place, and the name in both, in the upper one in a mount of its own: before, after, and so at each
/// moment of a lazy umount it is there.
#[test]
fn a_name_below_both_of_two_mounts_is_there_while_one_goes() {
    let setup = |task: &Task| {
        dirs(task, &["/p", "/kept"]);
        task.mount(MemFs::new(), "/p", MountFlags::empty()).unwrap();
        dirs(task, &["/p/d"]);
        task.creat("/p/d/x", 0o644).unwrap();
        task.mount(MemFs::new(), "/kept", MountFlags::empty()).unwrap();
        dirs(task, &["/kept/d"]);
        task.bind("/kept", "/p").unwrap();
        task.mount(MemFs::new(), "/p/d", MountFlags::empty()).unwrap();
        task.creat("/p/d/x", 0o644).unwrap();
    };
    let change = |task: &Task| task.umount2("/p", UmountFlags::DETACH).unwrap();
    let look = |task: &Task| task.access("/p/d/x", AccessMode::empty());
    at_each_point(setup, change, look, |answer, point| assert_eq!(answer, Ok(()), "{point}"));
}

/// A directory is moved away, and only then gets the name.
#[test]
fn what_is_made_in_a_directory_that_was_moved_is_not_found_where_that_was() {
    let setup = |task: &Task| dirs(task, &["/d", "/d/e"]);
    let change = |task: &Task| {
        task.rename("/d/e", "/moved").unwrap();
        task.creat("/moved/name", 0o644).unwrap();
    };
    let look = |task: &Task| task.access("/d/e/name", AccessMode::empty());
    let points = at_each_point(setup, change, look, |answer, point| {
        assert_eq!(answer, Err(Errno::ENOENT), "{point}");
    });
    assert!(points > 4, "{points}");
}

/// Looks for names in a directory until the thread remembers that.
fn remember(task: &Task, directory: &str) {
    for name in ["one", "two", "three"] {
        let look = task.access(format!("{directory}/{name}"), AccessMode::empty());
        assert_eq!(look, Err(Errno::ENOENT));
    }
}

/// A mount goes, and only then is the name made in what it showed; the directory is remembered.
#[test]
fn what_is_made_where_a_mount_was_is_not_found_below_that() {
    let setup = |task: &Task| {
        dirs(task, &["/src", "/src/d", "/p"]);
        task.bind("/src", "/p").unwrap();
        remember(task, "/p/d");
    };
    let change = |task: &Task| {
        task.umount2("/p", UmountFlags::empty()).unwrap();
        task.creat("/src/d/x", 0o644).unwrap();
    };
    let look = |task: &Task| task.access("/p/d/x", AccessMode::empty());
    let points = at_each_point(setup, change, look, |answer, point| {
        assert_eq!(answer, Err(Errno::ENOENT), "{point}");
    });
    assert!(points > 0, "{points}");
}

/// A mount goes, and only then the name from what it showed; below it is the same name, and the directory is remembered.
#[test]
fn what_is_below_a_mount_too_is_there_while_that_goes() {
    let setup = |task: &Task| {
        dirs(task, &["/src", "/src/d", "/p", "/p/d"]);
        task.creat("/src/d/x", 0o644).unwrap();
        task.creat("/p/d/x", 0o644).unwrap();
        task.bind("/src", "/p").unwrap();
        remember(task, "/p/d");
    };
    let change = |task: &Task| {
        task.umount2("/p", UmountFlags::empty()).unwrap();
        task.unlink("/src/d/x").unwrap();
    };
    let look = |task: &Task| task.access("/p/d/x", AccessMode::empty());
    let points = at_each_point(setup, change, look, |answer, point| {
        assert_eq!(answer, Ok(()), "{point}");
    });
    assert!(points > 0, "{points}");
}

/// Two directories are exchanged, and only then goes the name from the one that was there. The names are many, so that the chains
/// of some have others.
#[test]
fn what_is_in_both_of_two_directories_is_there_while_they_are_exchanged() {
    let task = machine();
    dirs(&task, &["/d", "/d/e", "/other"]);
    for number in 0..10_000 {
        task.creat(format!("/d/e/{number}"), 0o644).unwrap();
        task.creat(format!("/other/{number}"), 0o644).unwrap();
    }
    let mut points = 0;
    for number in 0..300 {
        for point in 0.. {
            let gone = format!("/other/{number}");
            let (changer, from) = (task.fork(), gone.clone());
            let change = move || {
                changer
                    .renameat2(At::Cwd, "/d/e", At::Cwd, "/other", RenameFlags::EXCHANGE)
                    .unwrap();
                changer.unlink(from).unwrap();
            };
            let look = || task.access(format!("/d/e/{number}"), AccessMode::empty());
            let (answer, happened) = road::interrupt_run(point, change, look);
            assert_eq!(answer, Ok(()), "{number} at {point}");
            if !happened {
                break;
            }
            task.creat(gone, 0o644).unwrap();
            points += 1;
        }
    }
    assert!(points > 300, "{points}");
}
