//! Contents in memfds: what is done by a file's descriptor of the host shows, and what is done otherwise shows there.

use crate::contents;
use pathwalk_abi::{
    Errno, InodeFlags, InotifyFlags, InotifyMask, OpenFlags, RenameFlags, SetTime, Timespec,
    XattrFlags,
};
use pathwalk_core::{At, Config, Cred, File, Task, Vfs};
use pathwalk_memfs::{Limits, MemFs};
use rustix::{fs, io};
use std::{os::fd::OwnedFd, sync::Arc, thread::sleep, time::Duration};

/// Longer than a tick of the host's clock.
const TICK: Duration = Duration::from_millis(30);
/// `system.posix_acl_access` with a user of its own: `u::rw,u:7:r,g::r,m::r,o::-`.
const ACL: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 7, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255,
    255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

fn machine() -> (Arc<MemFs>, Task) {
    let limits = Limits { bytes: Some(1 << 20), inodes: None };
    let fs = MemFs::builder().limits(limits).memfd().build();
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).expect("a machine");
    (fs, vfs.task(Cred::root()))
}

fn host(file: &File) -> OwnedFd {
    file.host_fd().expect("it has one").try_clone_to_owned().expect("room for one")
}

fn open(task: &Task, flags: OpenFlags) -> File {
    task.open("f", flags | OpenFlags::CREAT, 0o644).expect("a file")
}

#[test]
fn what_is_written_by_the_descriptor_shows() {
    let (memfs, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    let before = task.fstat(&file).expect("an open file");
    let fd = host(&file);
    assert_eq!(io::write(&fd, b"by the host"), Ok(11));
    let after = task.stat("f").expect("it is there");
    assert_eq!((after.st_size, after.st_blocks), (11, 8));
    assert!((after.st_mtime, after.st_mtime_nsec) >= (before.st_mtime, 0));
    assert_eq!(contents(&task, &file), b"by the host");
    assert_eq!(memfs.usage().bytes, 4096);
    // The position of the descriptor is its own.
    assert_eq!(fs::tell(&fd), Ok(11));
    fs::ftruncate(&fd, 3).expect("it is open for writing");
    assert_eq!(task.fstat(&file).expect("an open file").st_size, 3);
}

#[test]
fn the_room_that_is_left_is_told_after_what_is_written_by_the_descriptor() {
    let (memfs, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    let fd = host(&file);
    let left = || task.statfs("/").expect("it is there").f_bfree;
    let all = left();
    assert_eq!(io::write(&fd, &[1; 10 * 4096]), Ok(10 * 4096));
    assert_eq!(left(), all - 10);
    // The file itself is as it would have been.
    let told = task.stat("f").expect("it is there");
    assert_eq!((told.st_size, told.st_blocks), (10 * 4096, 80));
    fs::ftruncate(&fd, 4096).expect("it is open for writing");
    assert_eq!(left(), all - 1);
    // More than there may be.
    assert_eq!(io::pwrite(&fd, &vec![1; 2 << 20], 0), Ok(2 << 20));
    assert_eq!((left(), task.symlink([b'a'; 200], "long")), (0, Err(Errno::ENOSPC)));
    assert_eq!(task.stat("f").expect("it is there").st_blocks, 4096);
    task.unlink("f").expect("it is there");
    drop((file, fd));
    assert_eq!((left(), memfs.usage().bytes), (all, 0));
}

#[test]
fn what_is_written_otherwise_shows_by_the_descriptor() {
    let (_, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    let fd = host(&open(&task, OpenFlags::RDONLY));
    assert_eq!(task.pwrite(&file, b"abcdef", 2), Ok(6));
    let mut buf = [1; 10];
    assert_eq!(io::pread(&fd, &mut buf, 0), Ok(8));
    assert_eq!(&buf, b"\0\0abcdef\x01\x01");
    assert_eq!(io::write(&fd, b"x"), Err(io::Errno::BADF));
    task.truncate("f", 3).expect("it is there");
    assert_eq!(fs::fstat(&fd).map(|stat| stat.st_size), Ok(3));
    drop(open(&task, OpenFlags::WRONLY | OpenFlags::TRUNC));
    assert_eq!(fs::fstat(&fd).map(|stat| stat.st_size), Ok(0));
}

#[test]
fn what_is_done_by_the_descriptor_is_told_where_somebody_says_so() {
    let (_, task) = machine();
    let queue = task.inotify_init1(InotifyFlags::NONBLOCK).expect("a queue");
    let all = InotifyMask::ALL_EVENTS;
    let dir = task.inotify_add_watch(&queue, "/", all).expect("a watch");
    let file = open(&task, OpenFlags::WRONLY);
    let own = task.inotify_add_watch(&queue, "f", all).expect("a watch");
    assert_eq!(queue.events().count(), 2, "it was made and opened");
    let place = file.place_alone();
    task.rename("f", "g").expect("it is there");
    assert_eq!(queue.events().count(), 3);
    // Attributes are nobody's contents.
    place.notify(InotifyMask::MODIFY | InotifyMask::CLOSE_WRITE | InotifyMask::ATTRIB);
    let told: Vec<_> = queue.events().map(|event| (event.wd, event.mask, event.name)).collect();
    let both = |mask| [(dir, mask, b"g"[..].into()), (own, mask, Box::default())];
    assert_eq!(told, [both(InotifyMask::MODIFY), both(InotifyMask::CLOSE_WRITE)].concat());
    drop(place);
    assert_eq!(queue.events().count(), 2, "it closes as the file does");
}

#[test]
fn a_file_that_the_cache_takes_for_empty_is_cut_off_all_the_same() {
    let (_, task) = machine();
    let fd = host(&open(&task, OpenFlags::RDWR));
    assert_eq!(io::write(&fd, b"unseen"), Ok(6));
    drop(open(&task, OpenFlags::WRONLY | OpenFlags::TRUNC));
    assert_eq!(fs::fstat(&fd).map(|stat| stat.st_size), Ok(0));
}

#[test]
fn times_that_are_set_stay_until_the_next_write() {
    let (_, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    let fd = host(&file);
    assert_eq!(io::write(&fd, b"a"), Ok(1));
    let old = Timespec { sec: 1000, nsec: 5 };
    task.futimens(&file, SetTime::Omit, SetTime::At(old)).expect("the owner asks");
    task.chmod("f", 0o600).expect("the owner asks");
    let stat = task.stat("f").expect("it is there");
    assert_eq!((stat.st_mtime, stat.st_mtime_nsec, stat.st_size), (1000, 5, 1));
    sleep(TICK);
    assert_eq!(io::write(&fd, b"b"), Ok(1));
    assert!(task.stat("f").expect("it is there").st_mtime > 1000);
}

#[test]
fn room_is_given_back_with_the_last_that_has_the_file() {
    let (memfs, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    assert_eq!(task.pwrite(&file, &[1; 10_000], 0), Ok(10_000));
    assert_eq!(memfs.usage().bytes, 3 * 4096);
    let place = file.place_alone();
    assert!(place.host_fd().is_none() && place.place_id() == file.place_id());
    drop(file);
    task.unlink("f").expect("it is there");
    assert_eq!(memfs.usage().bytes, 3 * 4096);
    assert_eq!(task.stat("f").map(drop), Err(Errno::ENOENT));
    drop(place);
    assert_eq!(memfs.usage().bytes, 0);
}

/// When a file was last read.
fn atime(task: &Task, path: &str) -> (i64, u64) {
    let stat = task.stat(path).expect("it is there");
    (stat.st_atime, stat.st_atime_nsec)
}

fn read_by_the_descriptor(fd: &OwnedFd) {
    sleep(TICK);
    assert_eq!(io::pread(fd, &mut [0; 1], 0), Ok(1));
    sleep(TICK);
}

#[test]
fn a_reading_that_is_not_to_be_noted_is_not_whatever_stamps_the_file_after_it() {
    type Stamps = fn(&Task) -> pathwalk_abi::Result<()>;
    let exchange: Stamps = |task| task.renameat2(At::Cwd, "h", At::Cwd, "g", RenameFlags::EXCHANGE);
    let stamps: [(&str, Stamps); 10] = [
        ("rename", |task| task.rename("f", "g")),
        ("exchange", exchange),
        ("exchange again", exchange),
        ("link", |task| task.link("g", "f")),
        ("rename of another name", |task| task.rename("h", "f")),
        ("setxattr", |task| task.setxattr("g", "user.a", b"1", XattrFlags::empty())),
        ("removexattr", |task| task.removexattr("g", "user.a")),
        ("an ACL", |task| task.setxattr("g", "system.posix_acl_access", ACL, XattrFlags::empty())),
        ("chmod", |task| task.chmod("g", 0o600)),
        ("reading by a task", |task| {
            let file = task.open("g", OpenFlags::RDONLY, 0)?;
            task.pread(&file, &mut [0; 1], 0).map(drop)
        }),
    ];
    let (_, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    assert_eq!(task.pwrite(&file, b"a", 0), Ok(1));
    task.mknod("h", 0o100_644, pathwalk_abi::Dev::default()).expect("room for one more");
    let fd = host(&open(&task, OpenFlags::RDONLY));
    let atime = || {
        let stat = task.fstat(&file).expect("an open file");
        (stat.st_atime, stat.st_atime_nsec)
    };
    for (what, stamp) in stamps {
        let before = atime();
        read_by_the_descriptor(&fd);
        let noted = atime();
        assert!(noted > before, "the first since the last change: {what}");
        read_by_the_descriptor(&fd);
        stamp(&task).unwrap_or_else(|errno| panic!("{what}: {errno}"));
        assert_eq!(atime(), noted, "{what}");
    }
}

#[test]
fn a_file_that_wants_no_reading_noted_has_none() {
    let (_, task) = machine();
    let file = open(&task, OpenFlags::RDWR);
    assert_eq!(task.pwrite(&file, b"a", 0), Ok(1));
    let fd = host(&open(&task, OpenFlags::RDONLY));
    task.setflags(&file, InodeFlags::NOATIME).expect("the owner asks");
    let before = atime(&task, "f");
    read_by_the_descriptor(&fd);
    assert_eq!(atime(&task, "f"), before);
    task.setflags(&file, InodeFlags::empty()).expect("the owner asks");
    assert_eq!(atime(&task, "f"), before);
    read_by_the_descriptor(&fd);
    assert!(atime(&task, "f") > before);
}
