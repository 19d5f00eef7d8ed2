//! The example of a file system works, and docs/file-systems.md quotes it as it is.

mod common;

#[path = "../examples/numbers.rs"]
mod numbers;

use common::asking::{found, root_task};
use numbers::Numbers;
use pathwalk::{
    Config, Cred, Errno, FileType, InodeRef, OpenFlags, Result, Stat, Subject, Task, Timespec, Vfs,
    fs::{Features, FileSystem, Found},
};
use std::sync::Arc;

const EXAMPLE: &str = include_str!("../examples/numbers.rs");
const PAGE: &str = include_str!("../../../docs/file-systems.md");

fn task() -> Task {
    Vfs::new(Config::default(), Arc::new(Numbers)).unwrap().task(Cred::user(1000, 1000))
}

#[test]
fn the_example_runs() {
    numbers::main().unwrap();
}

#[test]
fn each_quotation_stands_in_the_example() {
    let blocks = PAGE.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut quoted = 0;
    for block in blocks {
        assert!(EXAMPLE.contains(block), "this is not in the example:\n{block}");
        quoted += 1;
    }
    assert!(quoted >= 4);
    assert!(EXAMPLE.lines().count() < 150);
}

#[test]
fn the_example_has_what_it_says() {
    let task = task();
    for (path, kind, size) in [
        ("/", FileType::Directory, 0),
        ("/97", FileType::Directory, 0),
        ("/97/factors", FileType::Regular, 3),
        ("/96/next/factors", FileType::Regular, 3),
        ("/999999/factors", FileType::Regular, 17),
    ] {
        let stat = task.stat(path).unwrap();
        assert_eq!(FileType::from_mode(stat.st_mode), Some(kind), "{path}");
        assert_eq!(stat.st_size, size, "{path}");
    }
    for path in ["/0", "/007", "/x", "/1000000", "/7/other", "/999999/next/factors"] {
        assert_eq!(task.stat(path).err(), Some(Errno::ENOENT), "{path}");
    }
    assert_eq!(task.stat("/7/factors/x").err(), Some(Errno::ENOTDIR));
    let mut path = [0; 16];
    let len = task.realpath("/5/next/next", &mut path, &mut Stat::default()).unwrap();
    assert_eq!(path[..len].trim_ascii_end(), b"/7");
}

#[test]
fn what_a_file_system_does_not_do_is_refused_as_linux_refuses_it() {
    let vfs = Vfs::new(Config::default(), Arc::new(Numbers)).unwrap();
    let root = vfs.task(Cred::root());
    assert_eq!(root.creat("/new", 0o644).err(), Some(Errno::EACCES));
    for refused in [
        root.mkdir("/new", 0o755),
        root.symlink("x", "/new"),
        root.link("/7/factors", "/8/other"),
        root.unlink("/7/factors"),
        root.rmdir("/7"),
        root.rename("/7/factors", "/7/other"),
        root.chmod("/7/factors", 0o666),
    ] {
        assert_eq!(refused, Err(Errno::EPERM));
    }
    let file = root.open("/7/factors", OpenFlags::RDWR, 0).unwrap();
    assert_eq!(root.write(&file, b"8"), Err(Errno::EINVAL));
}

/// A root with a file, of which it says no more than it must.
struct Bare;

impl FileSystem for Bare {
    fn kind(&self) -> &str {
        "bare"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        Ok((name == b"file").then(|| found(2, FileType::Regular, 0o644)))
    }
}

#[test]
fn one_that_neither_reads_nor_counts_says_so() {
    let task = root_task(&Arc::new(Bare));
    let file = task.open("/file", OpenFlags::RDONLY, 0).unwrap();
    assert_eq!(task.read(&file, &mut [0; 8]), Err(Errno::EINVAL));
    assert_eq!(task.statfs("/file").err(), Some(Errno::ENOSYS));
}

#[test]
fn the_example_is_listed() {
    let task = task();
    let list = |path: &str| {
        let dir = task.open(path, OpenFlags::DIRECTORY, 0).unwrap();
        let mut buf = [0; 100];
        let mut entries = 0;
        loop {
            let len = task.getdents64(&dir, &mut buf).unwrap();
            if len == 0 {
                return entries;
            }
            let mut at = 0;
            while at < len {
                at += usize::from(u16::from_ne_bytes([buf[at + 16], buf[at + 17]]));
                entries += 1;
            }
        }
    };
    assert_eq!(list("/"), 2 + 99);
    assert_eq!(list("/12"), 2 + 2);
}
