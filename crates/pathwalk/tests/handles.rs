//! Files that are opened by no name: what file handles are made of.

use pathwalk::{
    At, AtFlags, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Reach, Task, UmountFlags, Vfs,
};

fn task() -> Task {
    let task = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    for dir in ["/a", "/b", "/a/d"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task
}

fn path(task: &Task, path: &str) -> pathwalk::File {
    task.open(path, OpenFlags::PATH | OpenFlags::NOFOLLOW, 0).unwrap()
}

#[test]
fn a_file_is_opened_anew_whatever_its_name() {
    let task = task();
    let file = task.open("/a/d/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap();
    task.write(&file, b"text").unwrap();
    let place = file.place_alone();
    task.rename("/a/d/f", "/b/g").unwrap();
    let again = task.reopen(&place, OpenFlags::RDONLY).unwrap();
    let mut buf = [0; 8];
    assert_eq!(task.read(&again, &mut buf), Ok(4));
    assert_eq!(task.d_path(&again).unwrap(), b"/b/g");
    for (flags, want) in [
        (OpenFlags::CREAT, Ok(())),
        (OpenFlags::CREAT | OpenFlags::EXCL, Err(Errno::EEXIST)),
        (OpenFlags::DIRECTORY, Err(Errno::ENOTDIR)),
        (OpenFlags::TMPFILE | OpenFlags::RDWR, Err(Errno::ENOTDIR)),
        (OpenFlags::EMPTYPATH, Ok(())),
        (OpenFlags::PATH, Ok(())),
    ] {
        assert_eq!(task.reopen(&place, flags).map(drop), want, "{flags:?}");
    }
    task.chmod("/b/g", 0o600).unwrap();
    let mut other = task.fork();
    other.set_cred(Cred::user(1, 1));
    assert_eq!(other.reopen(&place, OpenFlags::RDONLY).map(drop), Err(Errno::EACCES));
    task.unlink("/b/g").unwrap();
    let gone = task.reopen(&place, OpenFlags::RDONLY).unwrap();
    assert_eq!(task.fstat(&gone).unwrap().st_nlink, 0);
    task.symlink("/a", "/link").unwrap();
    assert_eq!(task.reopen(&path(&task, "/link"), OpenFlags::RDONLY).map(drop), Err(Errno::ELOOP));
    let directory = path(&task, "/a/d");
    let inside = task.reopen(&directory, OpenFlags::RDONLY | OpenFlags::CREAT).map(drop);
    assert_eq!(inside, Err(Errno::EISDIR));
    let unnamed = task.reopen(&directory, OpenFlags::TMPFILE | OpenFlags::RDWR).unwrap();
    assert_eq!(task.fstat(&unnamed).unwrap().st_nlink, 0);
}

#[test]
fn a_mount_shows_what_lies_below_its_root() {
    let task = task();
    task.open("/a/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap();
    task.open("/a/d/g", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap();
    task.bind("/a/d", "/b").unwrap();
    let (mount, whole) = (path(&task, "/b"), path(&task, "/"));
    let into = |file: &str, mount, reach| {
        path(&task, file).in_mount_of(mount, reach).map(|file| {
            let stat = task.fstat(&file).unwrap();
            assert_eq!(file.flags(), OpenFlags::PATH);
            (file.mount_id(), stat.st_ino)
        })
    };
    let ino = |path: &str| task.stat(path).unwrap().st_ino;
    assert_eq!(into("/a/d/g", &mount, Reach::Mount), Ok((mount.mount_id(), ino("/b/g"))));
    assert_eq!(into("/a/f", &mount, Reach::Mount), Err(Errno::ESTALE));
    assert_eq!(into("/a/f", &mount, Reach::FileSystem), Ok((mount.mount_id(), ino("/a/f"))));
    assert_eq!(into("/b/g", &whole, Reach::Mount), Ok((whole.mount_id(), ino("/a/d/g"))));
    // A name that moves out is shown no more.
    let file = path(&task, "/b/g");
    task.rename("/a/d/g", "/a/g").unwrap();
    assert_eq!(file.in_mount_of(&mount, Reach::Mount).map(drop), Err(Errno::ESTALE));
    task.mount(MemFs::new(), "/b", MountFlags::empty()).unwrap();
    let other = path(&task, "/b");
    assert_eq!(file.in_mount_of(&other, Reach::FileSystem).map(drop), Err(Errno::EXDEV));
    let machine = Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root());
    let elsewhere = path(&machine, "/");
    assert_eq!(file.in_mount_of(&elsewhere, Reach::FileSystem).map(drop), Err(Errno::EXDEV));
}

#[test]
fn who_holds_a_file_apart_keeps_no_mount_of_it() {
    let task = task();
    task.mount(MemFs::new(), "/b", MountFlags::empty()).unwrap();
    let file = task.open("/b/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap();
    task.write(&file, b"text").unwrap();
    let mounts = task.listmount(pathwalk::LSMT_ROOT, 0, 100, pathwalk::ListmountFlags::empty());
    let root = file.apart().unwrap();
    let held = file.in_mount_of(&root, Reach::FileSystem).unwrap();
    assert_eq!(
        task.listmount(pathwalk::LSMT_ROOT, 0, 100, pathwalk::ListmountFlags::empty()),
        mounts
    );
    assert_eq!((file.mounts(), root.mounts(), path(&task, "/").mounts()), (2, 2, 1));
    assert_eq!(task.umount2("/b", UmountFlags::empty()), Err(Errno::EBUSY));
    drop(file);
    task.umount2("/b", UmountFlags::empty()).unwrap();
    assert_eq!(root.mounts(), 1);
    // It is there as long as somebody holds it, and hangs nowhere.
    let again = task.reopen(&held, OpenFlags::RDONLY).unwrap();
    assert_eq!(task.fstat(&again).unwrap().st_size, 4);
    drop(again);
    let flags = AtFlags::EMPTY_PATH;
    assert!(task.fstatat(At::Dir(&held), b"", flags).is_ok());
    drop((held, root));
    assert_eq!(path(&task, "/").mounts(), 1);
}
