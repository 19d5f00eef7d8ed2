//! `EMLINK`: a file system has no room for one more link, and is asked last of all.

mod common;

use common::{
    sample::SampleFs,
    tree::{Entry, list},
};
use pathwalk::{
    At, Config, Cred, Dev, InotifyFlags, InotifyMask, MemFs, MountFlags, OpenFlags, RenameFlags,
    Result, Stat, Task, Vfs,
    abi::mode::{S_IFDIR, S_IFMT},
    fs::Features,
};
use std::{str, sync::atomic::Ordering::Relaxed};

/// Directories: mode, and to whom they belong.
const DIRS: [(&str, u32, u32); 12] = [
    ("/full", 0o755, 0),
    ("/full/there", 0o755, 0),
    ("/full/empty", 0o755, 0),
    ("/d", 0o755, 0),
    ("/d/sub", 0o755, 0),
    ("/d/point", 0o755, 0),
    ("/open", 0o777, 0),
    ("/open/roots", 0o755, 0),
    ("/open/own", 0o755, 1000),
    ("/open/own/sub", 0o755, 1000),
    ("/m", 0o755, 0),
    ("/ro", 0o755, 0),
];

/// Files, and whose.
const FILES: [(&str, u32); 4] = [("/f", 0), ("/own", 1000), ("/d/file", 0), ("/full/file", 0)];

/// Where other file systems are mounted, and this one read-only.
const MOUNTS: [&str; 3] = ["/m", "/ro", "/d/point"];

/// What is asked when there is room for no more links. Linux 6.18 answers so on an ext4 made with `-O ^dir_nlink`, when
/// `/full` has 64,998 subdirectories, and `/f` and `/own` have 65,000 names each.
const TABLE: &str = "\
    mkdir /full/new -> EMLINK
    mkdir /full/new/ -> EMLINK
    mkdir /full/there -> EEXIST
    mkdir /full/. -> EEXIST
    mkdir /f/new -> ENOTDIR
    mkdir /full/missing/new -> ENOENT
    mkdir /ro/full/new -> EROFS
    u: mkdir /full/new -> EACCES
    u: mkdir /full/there -> EEXIST
    link /f /g -> EMLINK
    link /f /d -> EEXIST
    link /f /g/ -> ENOENT
    link /missing /g -> ENOENT
    link /ro/f /g -> EXDEV
    link /f /m/new -> EXDEV
    link /f /ro/new -> EROFS
    link /d /g -> EPERM
    u: link /f /open/new -> EPERM
    u: link /own /d -> EEXIST
    u: link /own /g -> EACCES
    u: link /own /open/new -> EMLINK
    rename /d/sub /full/new -> EMLINK
    rename /d/sub /full/new/ -> EMLINK
    rename /d/missing /full/new -> ENOENT
    rename /d/file /full/new/ -> ENOTDIR
    rename /d/sub /full/file -> ENOTDIR
    rename /d/file /full/there -> EISDIR
    rename /full /full/there/new -> EINVAL
    rename /d/sub /full/. -> EBUSY
    rename /d/point /full/new -> EBUSY
    rename /d/sub /m/new -> EXDEV
    rename /ro/d/sub /ro/full/new -> EROFS
    u: rename /open/own/sub /full/new -> EACCES
    u: rename /d/sub /full/new -> EACCES
    u: rename /open/roots /open/own/new -> EACCES
    noreplace /d/sub /full/new -> EMLINK
    noreplace /d/sub /full/there -> EEXIST
    exchange /d/sub /full/file -> EMLINK
    exchange /full/file /d/sub -> EMLINK
    exchange /d/sub /full/new -> ENOENT
    symlink x /full/link -> ok
    mknod /full/node -> ok
    rename /d/file /full/moved -> ok
    rename /full/there /full/again -> ok
    rename /d/sub /full/empty -> ok
";

/// Makes the call of a row.
fn call(task: &Task, row: &str) -> Result<()> {
    let words: Vec<&str> = row.split(' ').collect();
    let renameat2 = |flags| task.renameat2(At::Cwd, words[1], At::Cwd, words[2], flags);
    match words[0] {
        "mkdir" => task.mkdir(words[1], 0o755),
        "mknod" => task.mknod(words[1], 0o644, Dev::default()),
        "symlink" => task.symlink(words[1], words[2]),
        "link" => task.link(words[1], words[2]),
        "rename" => renameat2(RenameFlags::empty()),
        "noreplace" => renameat2(RenameFlags::NOREPLACE),
        "exchange" => renameat2(RenameFlags::EXCHANGE),
        other => panic!("no call is named `{other}`"),
    }
}

/// What there is: what is listed, and what stat(2) tells of it but the time of access, which looking stamps.
fn tree(task: &Task) -> Vec<(String, Entry, Stat)> {
    let mut seen = Vec::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        let open = task.open(format!("{dir}/"), OpenFlags::DIRECTORY, 0).unwrap();
        for entry in list(task, &open, 4096).unwrap() {
            let path = format!("{dir}/{}", str::from_utf8(&entry.name).unwrap());
            if MOUNTS.contains(&&*path) || [&b"."[..], b".."].contains(&&*entry.name) {
                continue;
            }
            let stat = Stat { st_atime: 0, st_atime_nsec: 0, ..task.lstat(&path).unwrap() };
            if stat.st_mode & S_IFMT == S_IFDIR {
                dirs.push(path.clone());
            }
            seen.push((path, entry, stat));
        }
    }
    seen
}

#[test]
fn no_room_for_a_link_is_told_last_and_changes_nothing() {
    let fs = SampleFs::new(Features::empty());
    let vfs = Vfs::new(Config::default(), fs.clone()).unwrap();
    let (root, user) = (vfs.task(Cred::root()), vfs.task(Cred::user(1000, 1000)));
    root.umask(0);
    for (path, mode, uid) in DIRS {
        root.mkdir(path, mode).unwrap();
        root.chown(path, Some(uid), None).unwrap();
    }
    for (path, uid) in FILES {
        root.mknod(path, 0o644, Dev::default()).unwrap();
        root.chown(path, Some(uid), None).unwrap();
    }
    for path in ["/m", "/d/point"] {
        root.mount(MemFs::new(), path, MountFlags::empty()).unwrap();
    }
    root.mount_tree("/", "/ro", MountFlags::BIND).unwrap();
    let flags = MountFlags::REMOUNT | MountFlags::BIND | MountFlags::RDONLY;
    root.mount_tree("none", "/ro", flags).unwrap();
    let queue = root.inotify_init1(InotifyFlags::NONBLOCK).unwrap();
    let changes = InotifyMask::CREATE | InotifyMask::DELETE | InotifyMask::MOVE;
    for dir in ["/", "/full", "/d", "/open"] {
        root.inotify_add_watch(&queue, dir, changes | InotifyMask::ATTRIB).unwrap();
    }

    fs.full.store(true, Relaxed);
    for row in TABLE.lines() {
        let (asked, want) = row.trim().split_once(" -> ").unwrap();
        let (task, what) = match asked.strip_prefix("u: ") {
            Some(what) => (&user, what),
            None => (&root, asked),
        };
        let before = tree(&root);
        let got = call(task, what).map_or_else(|errno| errno.name(), |()| "ok");
        assert_eq!(got, want, "{asked}");
        assert_eq!(tree(&root) == before, want != "ok", "{asked}: what is there");
        assert_eq!(queue.events().count() == 0, want != "ok", "{asked}: what is told");
    }

    // Nor is a name that was refused kept from who comes with room.
    fs.full.store(false, Relaxed);
    for row in ["mkdir /full/new", "link /f /g", "rename /open/roots /full/roots"] {
        assert_eq!(call(&root, row), Ok(()), "{row}");
    }
}
