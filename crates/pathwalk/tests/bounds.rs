//! Bounds hold for the path that they are given for, and for no other of the same call.

use pathwalk::{At, Config, Cred, Errno, MemFs, OpenFlags, RenameFlags, ResolveFlags, Vfs};

/// Both paths are spelled alike, and lead elsewhere.
#[test]
fn a_rename_has_bounds_for_each_of_its_paths() {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    for dir in ["/jail", "/jail/d", "/d"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.creat("/jail/d/f", 0o644).unwrap();
    let jail = task.open("/jail", OpenFlags::PATH, 0).unwrap();
    let within = At::Dir(&jail).resolve(ResolveFlags::IN_ROOT);
    let is_there = |path| match task.lstat(path) {
        Ok(_) => true,
        Err(Errno::ENOENT) => false,
        Err(errno) => panic!("{path}: {errno}"),
    };

    task.renameat2(within, "/d/f", At::Cwd, "/d/g", RenameFlags::empty()).unwrap();
    assert_eq!(["/d/g", "/jail/d/g", "/jail/d/f"].map(is_there), [true, false, false]);

    task.renameat2(At::Cwd, "/d/g", within, "/d/h", RenameFlags::empty()).unwrap();
    assert_eq!(["/jail/d/h", "/d/h", "/d/g"].map(is_there), [true, false, false]);

    task.renameat2(within, "/d/h", within, "/d/i", RenameFlags::empty()).unwrap();
    assert_eq!(["/jail/d/i", "/d/i", "/jail/d/h"].map(is_there), [true, false, false]);
}
