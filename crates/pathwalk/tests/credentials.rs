//! Which credentials are the same: those of a process's threads, until one changes its own.

use pathwalk::{At, AtFlags, Config, Cred, Errno, File, MemFs, OpenFlags, Result, Task, Vfs};

/// linkat(2) of an open file's own is for who opened it; others need `CAP_DAC_READ_SEARCH`.
///
/// Linux: a thread has its process's `struct cred`, who forks has a copy, and who changes anything a new one.
#[test]
fn threads_name_each_others_files_and_children_do_not() {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let mut task = vfs.task(Cred::user(1000, 1000));
    let unnamed = |task: &Task| task.open("/", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o600);
    let link = |task: &Task, file: &File, name: &str| -> Result<()> {
        task.linkat(file, "", At::Cwd, name, AtFlags::EMPTY_PATH)
    };
    let file = unnamed(&task).unwrap();
    let mut thread = task.thread();
    let of_thread = unnamed(&thread).unwrap();
    let (child, sibling) = (task.fork(), task.thread());
    assert_eq!(link(&task, &file, "/a"), Ok(()));
    assert_eq!(link(&thread, &file, "/b"), Ok(()));
    assert_eq!(link(&task, &of_thread, "/c"), Ok(()));
    assert_eq!(link(&sibling, &of_thread, "/d"), Ok(()));
    assert_eq!(link(&child.thread(), &file, "/e"), Err(Errno::ENOENT));
    for child in [child, task.clone_fs(), vfs.task(Cred::user(1000, 1000))] {
        assert_eq!(link(&child, &file, "/e"), Err(Errno::ENOENT));
    }
    // Changed and changed back they are others.
    for groups in [&[5][..], &[]] {
        thread.set_cred(Cred::user(1000, 1000).with_groups(groups));
        assert_eq!(link(&thread, &file, "/e"), Err(Errno::ENOENT));
        assert_eq!(link(&thread, &of_thread, "/e"), Err(Errno::ENOENT));
    }
    assert_eq!(link(&sibling, &of_thread, "/e"), Ok(()));
    task.set_cred(Cred::user(1001, 1000));
    assert_eq!(link(&task, &file, "/f"), Err(Errno::ENOENT));
    assert_eq!(link(&sibling, &file, "/f"), Ok(()));
}
