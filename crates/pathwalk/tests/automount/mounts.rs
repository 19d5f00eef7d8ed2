//! What a mount is like that a walk had mounted: its flags, who gets it too, and how it goes.
//!
//! The same is held against Linux, as far as it shows it, by `automounts.rs` of `pathwalk-check`'s tests.

use crate::managing::{Answer, Managing, machine};
use pathwalk::{
    At, Cred, Errno, MemFs, MountAttr, MountAttrFlags, MountFlags, OpenFlags, OpenHow,
    OpenTreeFlags, ResolveFlags, Task, UmountFlags,
};
use std::{
    sync::{Arc, Barrier, atomic::Ordering::Relaxed},
    thread,
};

/// A machine with a MemFs as its root and a managing file system on `/a`; `/b` and `/c` are empty.
pub(crate) fn managed_at_a(flags: MountFlags) -> (Arc<Managing>, Arc<Task>) {
    let (root, task) = machine();
    root.inside.take();
    task.mount(MemFs::new(), "/plain", MountFlags::empty()).unwrap();
    task.chroot("/plain").unwrap();
    task.chdir("/").unwrap();
    for name in ["/a", "/b", "/c"] {
        task.mkdir(name, 0o755).unwrap();
    }
    let fs = Arc::new(Managing::default());
    fs.inside.give(&task);
    task.mount(Arc::clone(&fs) as _, "/a", flags).unwrap();
    (fs, task)
}

/// What is mounted, and its flags, in the order in which it was.
pub(crate) fn mounts(task: &Task) -> Vec<String> {
    let text = String::from_utf8(pathwalk::mountinfo(task)).unwrap();
    let fields = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        format!("{} {}", fields.next().unwrap(), fields.next().unwrap())
    };
    text.lines().map(fields).filter(|line| !line.starts_with("/ ")).collect()
}

pub(crate) fn umount(task: &Task, path: &str) -> Result<(), Errno> {
    task.umount2(path, UmountFlags::empty())
}

#[test]
fn it_has_the_flags_of_the_mount_it_hangs_in() {
    let all = MountFlags::NOSUID
        | MountFlags::NODEV
        | MountFlags::NOEXEC
        | MountFlags::NOATIME
        | MountFlags::NOSYMFOLLOW;
    let (fs, task) = managed_at_a(all);
    let read_only = MountAttr { attr_set: MountAttrFlags::RDONLY, ..Default::default() };
    task.mount_setattr(At::Cwd, "/a", OpenTreeFlags::empty(), &read_only).unwrap();
    fs.answer_with([Answer::Mounts]);
    task.stat("/a/auto/.").unwrap();
    let flags = "ro,nosuid,nodev,noexec,noatime,nosymfollow";
    assert_eq!(mounts(&task), [format!("/a {flags}"), format!("/a/auto {flags}")]);
    assert_eq!(task.mkdir("/a/auto/x", 0o755), Err(Errno::EROFS));

    // What the file system refuses itself comes to that; the times of last access are not its to say.
    let (fs, task) = managed_at_a(MountFlags::NODEV | MountFlags::STRICTATIME);
    fs.answer_with([Answer::MountsWith(MountFlags::NOEXEC | MountFlags::NOATIME)]);
    task.stat("/a/auto/.").unwrap();
    assert_eq!(mounts(&task), ["/a rw,nodev", "/a/auto rw,nodev,noexec"]);
    task.mkdir("/a/auto/x", 0o755).unwrap();
}

/// As Linux has it of a debugfs in such a namespace, with the tracefs that a walk mounts below it.
#[test]
fn where_flags_are_locked_it_has_them_locked_too() {
    let (fs, task) = machine();
    let refused = MountAttr { attr_set: MountAttrFlags::NOEXEC, ..Default::default() };
    task.mount_setattr(At::Cwd, "/", OpenTreeFlags::empty(), &refused).unwrap();
    let mut guest = task.vfs().task(Cred::root());
    guest.unshare_mounts_less_privileged().unwrap();
    fs.answer_with([Answer::Mounts]);
    guest.stat("/auto/.").unwrap();
    let again = MountFlags::REMOUNT | MountFlags::BIND;
    assert_eq!(guest.mount_tree("", "/auto", again), Err(Errno::EPERM));
    assert_eq!(guest.mount_tree("", "/auto", again | MountFlags::NOEXEC), Ok(()));
    assert_eq!(umount(&guest, "/auto"), Ok(()), "it hides nothing that was there before");
}

#[test]
fn unused_it_is_in_nobodys_way() {
    let (fs, task) = managed_at_a(MountFlags::empty());
    let come_by = || {
        fs.answer_with([Answer::Mounts]);
        task.stat("/a/auto/.").unwrap();
    };
    // Somebody is there.
    come_by();
    let file = task.open("/a/auto", OpenFlags::empty(), 0).unwrap();
    assert_eq!(umount(&task, "/a"), Err(Errno::EBUSY));
    assert_eq!(mounts(&task).len(), 2);
    drop(file);
    // Something else hangs in it.
    task.mkdir("/a/auto/in", 0o755).unwrap();
    task.mount(MemFs::new(), "/a/auto/in", MountFlags::empty()).unwrap();
    assert_eq!(umount(&task, "/a"), Err(Errno::EBUSY));
    assert_eq!(mounts(&task).len(), 3);
    umount(&task, "/a/auto/in").unwrap();
    // What is in the way is something else: it goes all the same.
    task.mount(MemFs::new(), "/a/plain", MountFlags::empty()).unwrap();
    assert_eq!(umount(&task, "/a"), Err(Errno::EBUSY));
    assert_eq!(mounts(&task), ["/a rw,relatime", "/a/plain rw,relatime"]);
    umount(&task, "/a/plain").unwrap();
    // To ask whether it expired takes nothing down.
    come_by();
    let expire = |path| task.umount2(path, UmountFlags::EXPIRE);
    assert_eq!((expire("/a"), expire("/a")), (Err(Errno::EBUSY), Err(Errno::EBUSY)));
    assert_eq!((expire("/a/auto"), expire("/a/auto")), (Err(Errno::EAGAIN), Ok(())));
    // In an automount another one, both unused; a remount changes nothing about it.
    come_by();
    umount(&task, "/a/auto").unwrap();
    let inner = Arc::new(Managing::default());
    fs.answer_with([Answer::Gives(Arc::clone(&inner) as _)]);
    inner.answer_with([Answer::Mounts]);
    task.stat("/a/auto/auto/.").unwrap();
    let flags = MountFlags::REMOUNT | MountFlags::BIND | MountFlags::NODEV;
    task.mount_tree("", "/a/auto/auto", flags).unwrap();
    assert_eq!(mounts(&task).len(), 3);
    assert_eq!(umount(&task, "/a"), Ok(()));
    assert_eq!(mounts(&task), [""; 0]);
}

#[test]
fn so_is_a_copy_of_it_and_what_moved() {
    let (fs, task) = managed_at_a(MountFlags::empty());
    fs.answer_with([Answer::Mounts]);
    task.stat("/a/auto/.").unwrap();
    for name in ["/b", "/c"] {
        task.mount(MemFs::new(), name, MountFlags::empty()).unwrap();
        task.mkdir(format!("{name}/x"), 0o755).unwrap();
    }
    task.bind("/a/auto", "/b/x").unwrap();
    task.mount_tree("/a/auto", "/c/x", MountFlags::MOVE).unwrap();
    assert_eq!(mounts(&task).len(), 5);
    assert_eq!((umount(&task, "/b"), umount(&task, "/c")), (Ok(()), Ok(())));
    assert_eq!(mounts(&task), ["/a rw,relatime"]);
    // A bind mount of something else is in the way as ever.
    task.mount(MemFs::new(), "/b", MountFlags::empty()).unwrap();
    task.mkdir("/b/x", 0o755).unwrap();
    task.bind("/a/plain", "/b/x").unwrap();
    assert_eq!(umount(&task, "/b"), Err(Errno::EBUSY));
}

#[test]
fn peers_get_it_too() {
    let (fs, task) = managed_at_a(MountFlags::empty());
    task.mount_tree("", "/a", MountFlags::SHARED).unwrap();
    task.bind("/a", "/b").unwrap();
    task.bind("/a", "/c").unwrap();
    task.mount_tree("", "/c", MountFlags::SLAVE).unwrap();
    let flags = MountFlags::REMOUNT | MountFlags::BIND | MountFlags::NODEV;
    task.mount_tree("", "/b", flags).unwrap();
    fs.answer_with([Answer::Mounts]);
    task.stat("/b/auto/.").unwrap();
    task.stat("/a/auto/.").unwrap();
    task.stat("/c/auto/.").unwrap();
    assert_eq!(fs.automounts(), 1);
    let mut all = mounts(&task);
    all.sort();
    let copies = ["/a", "/a/auto", "/b", "/b/auto", "/c", "/c/auto"];
    // The copies have the flags of what was mounted, not of where they hang.
    let flags = |path: &str| if matches!(path, "/a" | "/c") { "rw" } else { "rw,nodev" };
    let expected = copies.map(|path| format!("{path} {},relatime", flags(path)));
    assert_eq!(all, expected);
    // In use where it was copied to, it is in the way of all.
    let file = task.open("/a/auto", OpenFlags::empty(), 0).unwrap();
    assert_eq!(umount(&task, "/b"), Err(Errno::EBUSY));
    assert_eq!(mounts(&task).len(), 6);
    drop(file);
    assert_eq!(umount(&task, "/b"), Ok(()));
    assert_eq!(mounts(&task), ["/a rw,relatime", "/c rw,relatime"]);
    // Who only receives has one of its own.
    fs.answer_with([Answer::Mounts]);
    task.stat("/c/auto/.").unwrap();
    assert_eq!(mounts(&task), ["/a rw,relatime", "/c rw,relatime", "/c/auto rw,relatime"]);
    fs.answer_with([Answer::Mounts]);
    task.stat("/a/auto/.").unwrap();
    assert_eq!(mounts(&task).len(), 5);
}

#[test]
fn nothing_is_mounted_in_what_was_unmounted() {
    let (fs, task) = managed_at_a(MountFlags::empty());
    let dir = task.open("/a", OpenFlags::PATH | OpenFlags::DIRECTORY, 0).unwrap();
    task.umount2("/a", UmountFlags::DETACH).unwrap();
    fs.answer_with([Answer::Mounts]);
    let inside = task.openat(&dir, "auto/sub", OpenFlags::PATH, 0).map(drop);
    assert_eq!((inside, fs.automounts()), (Err(Errno::EINVAL), 1));
    // A tree that hangs nowhere is mounted all the same.
    let (fs, task) = managed_at_a(MountFlags::empty());
    let tree = task.open_tree(At::Cwd, "/a", OpenTreeFlags::CLONE).unwrap();
    fs.answer_with([Answer::Mounts]);
    let inside = task.openat(&tree, "auto/sub", OpenFlags::PATH, 0).map(drop);
    assert_eq!((inside, fs.automounts()), (Err(Errno::ENOENT), 1));
    let to = OpenFlags::PATH | OpenFlags::DIRECTORY;
    assert!(task.openat(&tree, "auto", to, 0).is_ok());
    assert_eq!(fs.automounts(), 0);
}

#[test]
fn a_bounded_walk_goes_in_and_cannot_say_what_lies_above() {
    for resolve in [ResolveFlags::BENEATH, ResolveFlags::IN_ROOT] {
        // Each path, and what it answers when it has something mounted, and then.
        for (path, first) in [
            ("auto", Ok(())),
            ("auto/.", Ok(())),
            ("auto/..", Err(Errno::EAGAIN)),
            ("auto/../gate", Err(Errno::EAGAIN)),
        ] {
            let (fs, task) = managed_at_a(MountFlags::empty());
            let dir = task.open("/a", OpenFlags::PATH | OpenFlags::DIRECTORY, 0).unwrap();
            let how = OpenHow { flags: 0, mode: 0, resolve: resolve.bits() };
            let open = || task.openat2(&dir, path, &how).map(drop);
            fs.answer_with([Answer::Mounts]);
            assert_eq!((open(), open()), (first, Ok(())), "{path}");
            assert_eq!((fs.automounts(), mounts(&task).len()), (1, 2), "{path}");
        }
    }
}

#[test]
fn of_two_walks_that_have_something_mounted_one_does() {
    for _ in 0..20 {
        let (fs, task) = managed_at_a(MountFlags::empty());
        let covered = task.stat("/a/auto").unwrap().st_dev;
        // Neither goes on before the other is being asked, too.
        let both = Arc::new(Barrier::new(2));
        fs.answer_with((0..2).map(|_| {
            let both = Arc::clone(&both);
            Answer::After(Box::new(move |_| {
                both.wait();
            }))
        }));
        let walk = || task.stat("/a/auto/.").unwrap().st_dev;
        let (one, other) = thread::scope(|scope| {
            let one = scope.spawn(walk);
            let other = walk();
            (one.join().unwrap(), other)
        });
        assert_eq!((fs.automounts(), mounts(&task).len()), (2, 2));
        assert!(one == other && one != covered, "{one} {other} {covered}");
        assert_eq!(umount(&task, "/a"), Ok(()));
    }
}

#[test]
fn walks_come_by_while_it_is_unmounted() {
    let (fs, task) = managed_at_a(MountFlags::empty());
    fs.always.store(true, Relaxed);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let covered = task.lstat("/a/plain").unwrap().st_dev;
                    assert_ne!(task.stat("/a/auto/.").unwrap().st_dev, covered);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..300 {
                // Somebody is in it, or nothing is there just now.
                let gone = umount(&task, "/a/auto");
                assert!(matches!(gone, Ok(()) | Err(Errno::EBUSY | Errno::EINVAL)), "{gone:?}");
            }
        });
    });
    // Nobody has kept a count.
    assert_eq!(umount(&task, "/a"), Ok(()));
    assert_eq!(mounts(&task), [""; 0]);
}
