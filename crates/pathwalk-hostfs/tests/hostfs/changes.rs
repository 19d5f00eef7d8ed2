//! What is changed here is changed there.

use crate::{
    common::{Ground, both_ways},
    left_out::left_out,
};
use pathwalk_abi::{
    AtFlags, Dev, Errno, InodeFlags, OpenFlags, RenameFlags, SetTime, Timespec, XattrFlags, mode,
};
use pathwalk_core::{At, Config, Cred};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

#[test]
fn names_and_attributes_are_those_of_the_host() {
    both_ways(|options| {
        let ground = Ground::with(options);
        let task = &ground.task;
        task.umask(0);
        task.mkdir("/d", 0o1777).unwrap();
        task.symlink("over/there", "/d/link").unwrap();
        task.mknod("/d/fifo", mode::S_IFIFO | 0o622, Dev::default()).unwrap();
        task.creat("/d/file", 0o4711).unwrap();
        task.link("/d/file", "/d/other").unwrap();
        assert_eq!(ground.host("d").metadata().unwrap().mode() & 0o7777, 0o1777);
        assert_eq!(fs::read_link(ground.host("d/link")).unwrap().to_str(), Some("over/there"));
        assert!(ground.host("d/fifo").metadata().unwrap().file_type().is_fifo());
        let host = ground.host("d/other").metadata().unwrap();
        assert_eq!((host.mode() & 0o7777, host.nlink()), (0o4711, 2));
        let ours = task.stat("/d/file").unwrap();
        assert_eq!((ours.st_ino, ours.st_nlink), (host.ino(), 2));
        assert_eq!((ours.st_ctime, ours.st_ctime_nsec as i64), (host.ctime(), host.ctime_nsec()));
        task.unlink("/d/file").unwrap();
        assert_eq!(task.stat("/d/other").unwrap().st_nlink, 1);
        let time = Timespec { sec: 86_400, nsec: 7 };
        task.utimensat(At::Cwd, "/d/other", SetTime::At(time), SetTime::Omit, AtFlags::empty())
            .unwrap();
        let host = ground.host("d/other").metadata().unwrap();
        assert_eq!((host.atime(), host.atime_nsec()), (86_400, 7));
        task.setxattr("/d/other", "user.note", b"value", XattrFlags::empty()).unwrap();
        let mut buf = [0; 32];
        assert_eq!(task.getxattr("/d/other", "user.note", &mut buf), Ok(5));
        assert_eq!(task.listxattr("/d/other", &mut buf), Ok(10));
    });
}

#[test]
fn what_is_moved_is_found_again_below() {
    both_ways(|mut options| {
        // No descriptor stays held: everything is walked to again.
        options.handles = 1;
        let ground = Ground::with(options);
        let task = &ground.task;
        task.mkdir("/a", 0o755).unwrap();
        task.mkdir("/a/b", 0o755).unwrap();
        task.creat("/a/b/f", 0o644).unwrap();
        let held = task.open("/a/b/f", OpenFlags::PATH, 0).unwrap();
        task.mkdir("/z", 0o755).unwrap();
        task.rename("/a/b", "/z/y").unwrap();
        task.rename("/z", "/a/c").unwrap();
        task.fchmodat2(At::Dir(&held), "", 0o600, AtFlags::EMPTY_PATH).unwrap();
        assert_eq!(ground.host("a/c/y/f").metadata().unwrap().mode() & 0o777, 0o600);
        task.creat("/a/c/y/g", 0o644).unwrap();
        let exchange = RenameFlags::EXCHANGE;
        task.renameat2(At::Cwd, "/a/c/y/g", At::Cwd, "/a/c/y/f", exchange).unwrap();
        task.fchmodat2(At::Dir(&held), "", 0o640, AtFlags::EMPTY_PATH).unwrap();
        assert_eq!(ground.host("a/c/y/g").metadata().unwrap().mode() & 0o777, 0o640);
        task.rename("/a/c/y/f", "/a/c/y/g").unwrap();
        assert_eq!(task.fstatat(At::Dir(&held), "", AtFlags::EMPTY_PATH).unwrap().st_nlink, 0);
        assert_eq!(task.rmdir("/a"), Err(Errno::ENOTEMPTY));
        assert_eq!(fs::read_dir(ground.host("a/c/y")).unwrap().count(), 1);
    });
}

#[test]
fn deep_trees_are_walked_in_pieces() {
    both_ways(|mut options| {
        options.handles = 1;
        let ground = Ground::with(options);
        let task = &ground.task;
        let name = "n".repeat(200);
        let depth = 40;
        task.chdir("/").unwrap();
        for _ in 0..depth {
            task.mkdir(&name, 0o755).unwrap();
            task.chdir(&name).unwrap();
        }
        task.creat("bottom", 0o644).unwrap();
        let other = task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
        task.fchdir(&task.open(".", OpenFlags::DIRECTORY, 0).unwrap()).unwrap();
        assert_eq!(task.stat("bottom").unwrap().st_size, 0);
        task.chmod("bottom", 0o600).unwrap();
        assert_eq!(task.stat("bottom").unwrap().st_mode & 0o777, 0o600);
        task.fchdir(&other).unwrap();
    });
}

#[test]
fn a_file_that_keeps_its_size_keeps_its_times() {
    both_ways(|options| {
        // As the host's truncate does there.
        let ground =
            Ground::on(tempfile::tempdir_in("/dev/shm").unwrap(), options, Config::default());
        let task = &ground.task;
        let file = task.creat("/f", 0o644).unwrap();
        let old = SetTime::At(Timespec { sec: 86_400, nsec: 0 });
        let mtime = || ground.host("f").metadata().unwrap().mtime();
        task.utimensat(At::Cwd, "/f", old, old, AtFlags::empty()).unwrap();
        task.truncate("/f", 0).unwrap();
        assert_eq!(mtime(), 86_400);
        task.ftruncate(&file, 0).unwrap();
        assert_ne!(mtime(), 86_400);
        task.utimensat(At::Cwd, "/f", old, old, AtFlags::empty()).unwrap();
        task.truncate("/f", 1).unwrap();
        assert_ne!(mtime(), 86_400);
    });
}

#[test]
fn set_id_bits_go_with_a_write_to_what_became_immutable() {
    both_ways(|options| {
        let ground =
            Ground::on(tempfile::tempdir_in("/dev/shm").unwrap(), options, Config::default());
        let task = &ground.task;
        let file = task.creat("/f", 0o2644).unwrap();
        let flags = InodeFlags::IMMUTABLE | InodeFlags::NODUMP;
        if task.setflags(&file, flags).is_err() {
            left_out("no right to make files immutable");
            return;
        }
        let mut other = task.vfs().task(task.cred().clone());
        other.set_cred(Cred::user(1000, 1000));
        assert_eq!(other.write(&file, b"x"), Ok(1));
        assert_eq!(task.getflags(&file), Ok(flags));
        task.setflags(&file, InodeFlags::empty()).unwrap();
        assert_eq!(ground.host("f").metadata().unwrap().mode() & 0o7777, 0o644);
    });
}
