//! Paths through mounts are remembered, too: while each mount hangs where it hung, and nothing covers it.

use pathwalk::{
    AccessMode, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Result, Task, UmountFlags, Vfs,
};

/// /m, a file system of its own with /m/d/file and, in it, another one at /m/d/n with /m/d/n/e/file.
fn machine() -> Task {
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    mkdirs(&task, &["/m", "/other", "/other/d"]);
    task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
    mkdirs(&task, &["/m/d", "/m/d/n"]);
    task.mount(MemFs::new(), "/m/d/n", MountFlags::empty()).unwrap();
    mkdirs(&task, &["/m/d/n/e"]);
    for path in ["/m/d/file", "/m/d/n/e/file"] {
        task.creat(path, 0o644).unwrap();
    }
    task
}

fn mkdirs(task: &Task, paths: &[&str]) {
    paths.iter().for_each(|path| task.mkdir(path, 0o755).unwrap());
}

const PATHS: [&str; 6] = [
    "/m/d/file",
    "/m/d/n/e/file",
    "/m/../m/d/file",
    "/m/d/n/e/../../file",
    "/m/d/missing",
    "/m/d/n/e/../../../d/n/e/missing",
];

fn look(task: &Task) -> [Result<()>; 6] {
    PATHS.map(|path| task.access(path, AccessMode::empty()))
}

/// Looks until all is remembered that can be, and that it is right.
fn know(task: &Task) {
    let (there, absent) = (Ok(()), Err(Errno::ENOENT));
    (0..5).for_each(|_| assert_eq!(look(task), [there, there, there, there, absent, absent]));
}

/// Without this all others could pass because nothing is remembered.
#[cfg(debug_assertions)]
#[test]
fn they_are_remembered() {
    let task = machine();
    know(&task);
    let made = pathwalk::road::made();
    assert!(made >= 6, "{made}");
    know(&task);
    assert_eq!(pathwalk::road::made(), made, "all held");
}

/// An open that may make the file has no use for what is remembered of one that is mounted. It stays remembered.
#[cfg(debug_assertions)]
#[test]
fn a_mounted_file_that_is_opened_again_and_again_is_remembered_once() {
    let task = machine();
    task.creat("/null", 0o644).unwrap();
    task.bind("/m/d/file", "/null").unwrap();
    let made = pathwalk::road::made();
    for _ in 0..100 {
        task.open("/null", OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).unwrap();
    }
    let made = pathwalk::road::made() - made;
    assert!((1..=4).contains(&made), "{made}");
}

/// To make a memo takes longer than three walks.
#[cfg(debug_assertions)]
#[test]
fn what_changes_after_every_third_look_is_seldom_remembered() {
    let task = machine();
    task.mkdir("/m/d/there", 0o755).unwrap();
    let made = pathwalk::road::made();
    for round in 0..1000 {
        task.mkdir("/m/d/new", 0o755).unwrap();
        for _ in 0..3 {
            let missing = task.access("/m/d/there/missing", AccessMode::empty());
            assert_eq!(missing, Err(Errno::ENOENT), "round {round}");
            assert_eq!(task.access("/m/d/missing", AccessMode::empty()), Err(Errno::ENOENT));
        }
        task.rmdir("/m/d/new").unwrap();
    }
    let made = pathwalk::road::made() - made;
    assert!((1..100).contains(&made), "{made}");
}

/// What nobody remembers: the same machine asked for the first time, in a thread of its own.
fn walked(task: &Task) -> [Result<()>; 6] {
    std::thread::scope(|scope| scope.spawn(|| look(task)).join().expect("it looks"))
}

/// What is done is felt by the next look, and so is what undoes it.
fn felt(what: &str, done: impl Fn(&Task) -> Result<()>, undone: impl Fn(&Task) -> Result<()>) {
    let task = machine();
    for round in 0..4 {
        know(&task);
        let before = look(&task);
        done(&task).unwrap();
        assert_ne!(look(&task), before, "{what} makes a difference");
        for _ in 0..5 {
            assert_eq!(look(&task), walked(&task), "{what}, round {round}");
        }
        undone(&task).unwrap();
        assert_eq!(look(&task), before, "{what}, undone in round {round}");
    }
}

#[test]
fn a_mount_that_moves_is_felt() {
    let to = |from: &'static str, to: &'static str| {
        move |task: &Task| task.mount_tree(from, to, MountFlags::MOVE)
    };
    felt("the inner mount moves", to("/m/d/n", "/other"), to("/other", "/m/d/n"));
    felt("the outer mount moves", to("/m", "/other"), to("/other", "/m"));
}

#[test]
fn what_is_mounted_over_something_is_felt() {
    for over in ["/m", "/m/d", "/m/d/n", "/m/d/n/e"] {
        felt(
            over,
            |task| task.bind("/other", over),
            |task| task.umount2(over, UmountFlags::empty()),
        );
    }
}

/// The dentry that is covered is a mountpoint already: in a mount of the same file system elsewhere.
#[test]
fn what_is_mounted_over_what_is_covered_elsewhere_is_felt() {
    for over in ["/m/d", "/m/d/n/e"] {
        let (top, name) = over.rsplit_once('/').expect("a path");
        let cover = |task: &Task| {
            if task.mkdir("/elsewhere", 0o755).is_ok() {
                task.bind(top, "/elsewhere")?;
                task.bind("/other", format!("/elsewhere/{name}"))?;
            }
            task.bind("/other", over)
        };
        felt(over, cover, |task| task.umount2(over, UmountFlags::empty()));
    }
}

#[test]
fn a_rename_in_a_mount_is_felt() {
    let rename = |from: &'static str, to: &'static str| move |task: &Task| task.rename(from, to);
    felt("a directory", rename("/m/d", "/m/x"), rename("/m/x", "/m/d"));
    felt("a file", rename("/m/d/file", "/m/d/x"), rename("/m/d/x", "/m/d/file"));
    felt(
        "an absent name",
        rename("/m/d/file", "/m/d/missing"),
        rename("/m/d/missing", "/m/d/file"),
    );
}

/// It is the task's own root that a path begins at, and the mounts of its own namespace.
#[test]
fn not_for_who_has_another_root() {
    let task = machine();
    know(&task);
    let inside = task.fork();
    inside.chroot("/m").unwrap();
    let mut other = task.fork();
    other.unshare_mounts().unwrap();
    for _ in 0..5 {
        assert_eq!(look(&inside), [Err(Errno::ENOENT); 6]);
        assert_eq!(inside.access("/d/n/e/file", AccessMode::empty()), Ok(()));
        know(&other);
        know(&task);
    }
    other.umount2("/m/d/n", UmountFlags::DETACH).unwrap();
    assert_eq!(look(&other)[1], Err(Errno::ENOENT));
    know(&task);
}
