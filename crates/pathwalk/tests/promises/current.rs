//! An answer is that of now: whatever a thread or a cache remembers, a change on the way is felt by the next call.

use pathwalk::{
    AccessMode, AtFlags, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Result, Task,
    UmountFlags, Vfs,
};

struct World {
    root: Task,
    user: Task,
}

fn world() -> World {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    for dir in ["/a", "/a/b", "/a/b/c", "/o", "/o/b", "/o/b/c", "/jail", "/jail/a", "/jail/a/b"] {
        root.mkdir(dir, 0o755).unwrap();
    }
    root.mkdir("/jail/a/b/c", 0o755).unwrap();
    for (file, size) in [("/a/b/c/f", 1), ("/o/b/c/f", 2), ("/jail/a/b/c/f", 3)] {
        root.creat(file, 0o644).unwrap();
        root.truncate(file, size).unwrap();
    }
    root.symlink("/a/b", "/l").unwrap();
    root.symlink("c/f", "/a/b/s").unwrap();
    let user = vfs.task(Cred::user(1000, 1000));
    World { root, user }
}

/// The sizes of what is found by each path, each by the same thread, often enough to be remembered.
fn sizes(task: &Task) -> Vec<Result<i64>> {
    const PATHS: [&str; 8] = [
        "/a/b/c/f",
        "/l/c/f",
        "/l/s",
        "/a/b/s",
        "/a/b/../b/c/f",
        "/a/b/c/none",
        "/a/b/c",
        "/l/c/../s",
    ];
    let mut sizes = Vec::new();
    for path in PATHS {
        let size = || task.stat(path).map(|stat| stat.st_size);
        let first = size();
        for _ in 0..4 {
            assert_eq!(size(), first, "{path}");
            let access = task.access(path, AccessMode::empty());
            assert_eq!(access, first.map(drop), "{path}");
            let stat = task.fstatat(pathwalk::At::Cwd, path, AtFlags::empty());
            assert_eq!(stat.map(|stat| stat.st_size), first, "{path}");
        }
        sizes.push(first);
    }
    sizes
}

/// A change, and what becomes of `/a/b/c/f` and `/l/s` by it, for root and for a user.
type Row = (&'static str, fn(&World), Result<i64>, Result<i64>);

const ENOENT: Result<i64> = Err(Errno::ENOENT);
const EACCES: Result<i64> = Err(Errno::EACCES);

const ROWS: &[Row] = &[
    ("nothing", |_| {}, Ok(1), Ok(1)),
    ("a chmod of the file", |w| w.root.chmod("/a/b/c/f", 0).unwrap(), Ok(1), Ok(1)),
    ("a chmod on the way", |w| w.root.chmod("/a/b", 0o700).unwrap(), EACCES, EACCES),
    ("a chmod of the last directory", |w| w.root.chmod("/a/b/c", 0o644).unwrap(), EACCES, EACCES),
    ("a chmod of the root", |w| w.root.chmod("/", 0o700).unwrap(), EACCES, EACCES),
    (
        "a chown",
        |w| {
            w.root.chmod("/a/b", 0o701).unwrap();
            w.root.chown("/a/b", Some(1000), None).unwrap();
            w.root.chmod("/a/b", 0o071).unwrap();
        },
        EACCES,
        EACCES,
    ),
    ("a rename of a directory", |w| w.root.rename("/a/b", "/a/x").unwrap(), ENOENT, ENOENT),
    ("a rename of the first", |w| w.root.rename("/a", "/x").unwrap(), ENOENT, ENOENT),
    ("a rename of the file", |w| w.root.rename("/a/b/c/f", "/a/b/c/g").unwrap(), ENOENT, ENOENT),
    (
        "another in its place",
        |w| {
            w.root.rename("/a", "/x").unwrap();
            w.root.rename("/o", "/a").unwrap();
        },
        Ok(2),
        ENOENT,
    ),
    (
        "there and back",
        |w| {
            w.root.rename("/a/b", "/x").unwrap();
            w.root.rename("/x", "/a/b").unwrap();
        },
        Ok(1),
        Ok(1),
    ),
    ("a removal", |w| w.root.unlink("/a/b/c/f").unwrap(), ENOENT, ENOENT),
    (
        "a file made anew",
        |w| {
            w.root.unlink("/a/b/c/f").unwrap();
            w.root.creat("/a/b/c/f", 0o644).unwrap();
        },
        Ok(0),
        Ok(0),
    ),
    (
        "another symlink",
        |w| {
            w.root.unlink("/l").unwrap();
            w.root.symlink("/o/b", "/l").unwrap();
            w.root.symlink("c/f", "/o/b/s").unwrap();
        },
        Ok(1),
        Ok(2),
    ),
    (
        "another symlink at the end",
        |w| {
            w.root.unlink("/a/b/s").unwrap();
            w.root.symlink("/o/b/c/f", "/a/b/s").unwrap();
        },
        Ok(1),
        Ok(2),
    ),
    (
        "a mount on the way",
        |w| {
            w.root.mount(MemFs::new(), "/a/b", MountFlags::empty()).unwrap();
        },
        ENOENT,
        ENOENT,
    ),
    ("a bind mount on the way", |w| w.root.bind("/o/b", "/a/b").unwrap(), Ok(2), ENOENT),
    ("a bind mount of the last", |w| w.root.bind("/o/b/c", "/a/b/c").unwrap(), Ok(2), Ok(2)),
    ("a bind mount of the file", |w| w.root.bind("/o/b/c/f", "/a/b/c/f").unwrap(), Ok(2), Ok(2)),
    (
        "a mount that came and went",
        |w| {
            w.root.mount(MemFs::new(), "/a/b", MountFlags::empty()).unwrap();
            assert!(w.user.stat("/a/b/c/f").is_err() && w.user.stat("/l/s").is_err());
            w.root.umount2("/a/b", UmountFlags::empty()).unwrap();
        },
        Ok(1),
        Ok(1),
    ),
    (
        "another root",
        |w| {
            let capable = w.user.clone_fs();
            let mut capable = capable;
            capable.set_cred(Cred::root());
            capable.chroot("/jail").unwrap();
        },
        Ok(3),
        ENOENT,
    ),
];

#[test]
fn a_change_on_the_way_is_felt_by_the_next_call() {
    for &(what, change, file, link) in ROWS {
        let w = world();
        let before = sizes(&w.user);
        assert_eq!((before[0], before[2], before[5]), (Ok(1), Ok(1), ENOENT));
        let as_root = sizes(&w.root);
        assert_eq!(before, as_root);
        change(&w);
        assert_eq!(w.user.stat("/a/b/c/f").map(|stat| stat.st_size), file, "{what}");
        assert_eq!(w.user.stat("/l/s").map(|stat| stat.st_size), link, "{what}");
        let after = sizes(&w.user);
        // A thread that remembers nothing says the same.
        let fresh = std::thread::scope(|scope| scope.spawn(|| sizes(&w.user)).join().unwrap());
        assert_eq!(after, fresh, "{what}");
        assert_eq!((after[0], after[2]), (file, link), "{what}");
    }
}

/// What is remembered of an absent name does not hide it when it comes.
#[test]
fn what_comes_is_found_by_the_next_call() {
    let w = world();
    for round in 0..3 {
        for path in ["/a/b/c/none", "/l/c/none", "/a/b/x/y/z", "/l/x/y/z"] {
            for _ in 0..4 {
                assert_eq!(w.user.stat(path).map(drop), Err(Errno::ENOENT), "{path} {round}");
            }
        }
        w.root.creat("/a/b/c/none", 0o644).unwrap();
        w.root.mkdir("/a/b/x", 0o755).unwrap();
        w.root.mkdir("/a/b/x/y", 0o755).unwrap();
        w.root.creat("/a/b/x/y/z", 0o644).unwrap();
        for path in ["/a/b/c/none", "/l/c/none", "/a/b/x/y/z", "/l/x/y/z"] {
            assert_eq!(w.user.stat(path).map(drop), Ok(()), "{path}");
        }
        w.root.unlink("/a/b/c/none").unwrap();
        w.root.unlink("/a/b/x/y/z").unwrap();
        w.root.rmdir("/a/b/x/y").unwrap();
        w.root.rmdir("/a/b/x").unwrap();
    }
}

/// Two machines, tasks and users in one thread do not get each other's answers.
#[test]
fn a_thread_keeps_its_machines_and_tasks_apart() {
    let (one, other) = (world(), world());
    other.root.rename("/a", "/gone").unwrap();
    other.root.rename("/o", "/a").unwrap();
    one.root.chmod("/jail", 0o700).unwrap();
    let jailed = one.root.fork();
    jailed.chroot("/jail").unwrap();
    for _ in 0..5 {
        let size = |task: &Task, path: &str| task.stat(path).map(|stat| stat.st_size);
        assert_eq!(size(&one.user, "/a/b/c/f"), Ok(1));
        assert_eq!(size(&other.user, "/a/b/c/f"), Ok(2));
        assert_eq!(size(&jailed, "/a/b/c/f"), Ok(3));
        assert_eq!(size(&one.root, "/jail/a/b/c/f"), Ok(3));
        assert_eq!(size(&one.user, "/jail/a/b/c/f"), EACCES);
        assert_eq!(size(&jailed, "/../a/b/c/f"), Ok(3));
    }
}

/// A file that a symlink leads to stays a file, however well the way to it is known.
#[test]
fn a_known_way_to_a_file_leads_into_no_directory() {
    let w = world();
    for _ in 0..5 {
        for path in ["/a/b/s", "/l/s", "/a/b/c/f"] {
            assert_eq!(w.user.stat(path).map(|stat| stat.st_size), Ok(1), "{path}");
            assert_eq!(w.user.chdir(path), Err(Errno::ENOTDIR), "{path}");
            let opened = w.user.open(path, OpenFlags::DIRECTORY, 0);
            assert_eq!(opened.map(drop), Err(Errno::ENOTDIR), "{path}");
            let slash = w.user.stat(format!("{path}/"));
            assert_eq!(slash.map(drop), Err(Errno::ENOTDIR), "{path}/");
        }
    }
}
