//! Whose the files are.

use crate::common::{Ground, as_ordinary_user};
use pathwalk_abi::{Dev, Errno, FileType, OpenFlags, XattrFlags, mode};
use pathwalk_core::{Config, Cred, Task, Vfs};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions, IdMap, IdRange, Identities};
use rustix::process::{getegid, geteuid};
use std::os::unix::{
    ffi::OsStrExt,
    fs::{MetadataExt, chown},
};

/// A machine of its own on the directory, for who is root there.
fn machine(ground: &Ground, options: HostOptions) -> Task {
    let fs = HostFs::with_options(ground.host("").as_os_str().as_bytes(), options).unwrap();
    Vfs::new(Config::default(), fs).unwrap().task(Cred::root())
}

fn kind_and_mode(mode: u32) -> (Option<FileType>, u32) {
    (FileType::from_mode(mode), mode & 0o7777)
}

/// The types in a listing, without the two that are always there.
fn kinds(task: &Task, path: &str) -> Vec<FileType> {
    let dir = task.open(path, OpenFlags::DIRECTORY, 0).unwrap();
    let mut buf = [0; 512];
    let len = task.getdents64(&dir, &mut buf).unwrap();
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < len {
        kinds.push(FileType::from_dt(buf[at + 18]).unwrap());
        at += usize::from(u16::from_ne_bytes([buf[at + 16], buf[at + 17]]));
    }
    kinds.retain(|kind| *kind != FileType::Directory);
    kinds
}

#[test]
fn an_ordinary_user_holds_the_files_of_another_world() {
    as_ordinary_user(4321, "identities::an_ordinary_user_holds_the_files_of_another_world", || {
        for coherence in [Coherence::Exclusive, Coherence::Strict, Coherence::Watched] {
            another_world(coherence);
        }
    });
}

fn another_world(coherence: Coherence) {
    let kept = HostOptions { identities: Identities::Kept, coherence, ..HostOptions::default() };
    let ground = Ground::new();
    let root = machine(&ground, kept.clone());
    root.umask(0);
    root.mkdir("/dev", 0o755).unwrap();
    let null = Dev::new(1, 3);
    root.mknod("/dev/null", mode::S_IFCHR | 0o666, null).unwrap();
    root.mknod("/dev/fifo", mode::S_IFIFO | 0o620, Dev::default()).unwrap();
    root.symlink("null", "/dev/zero").unwrap();
    root.lchown("/dev/zero", Some(5), Some(6)).unwrap();
    let file = root.open("/su", OpenFlags::CREAT | OpenFlags::RDWR, 0o000).unwrap();
    root.write(&file, b"program").unwrap();
    root.chown("/su", Some(70_000), Some(80_000)).unwrap();
    root.chmod("/su", 0o4711).unwrap();
    root.setxattr("/su", "user.other", b"1", XattrFlags::empty()).unwrap();
    let own = "user.pathwalk.stat";
    assert_eq!(root.setxattr("/su", own, b"1", XattrFlags::empty()), Err(Errno::EPERM));
    assert_eq!(root.getxattr("/su", own, &mut [0; 99]), Err(Errno::ENODATA));
    assert_eq!(root.listxattr("/su", &mut [0; 99]), Ok("user.other\0".len()));
    for task in [&root, &machine(&ground, kept.clone())] {
        let stat = task.stat("/dev/zero").unwrap();
        assert_eq!(kind_and_mode(stat.st_mode), (Some(FileType::CharDevice), 0o666));
        assert_eq!(stat.st_rdev, null.to_stat());
        let stat = task.stat("/dev/fifo").unwrap();
        assert_eq!(kind_and_mode(stat.st_mode), (Some(FileType::Fifo), 0o620));
        let stat = task.lstat("/dev/zero").unwrap();
        assert_eq!(kind_and_mode(stat.st_mode).0, Some(FileType::Symlink));
        assert_eq!((stat.st_uid, stat.st_gid, stat.st_size), (5, 6, 4));
        let stat = task.stat("/su").unwrap();
        assert_eq!((stat.st_uid, stat.st_gid, stat.st_size), (70_000, 80_000, 7));
        assert_eq!(stat.st_mode & 0o7777, 0o4711);
        let kinds = kinds(task, "/dev");
        assert_eq!(kinds.len(), 3);
        for kind in [FileType::CharDevice, FileType::Fifo, FileType::Symlink] {
            assert!(kinds.contains(&kind), "{kind:?}");
        }
    }
    // To the host they are plain files of this process's user.
    let host = ground.host("dev/null").symlink_metadata().unwrap();
    assert!(host.is_file());
    assert_eq!((host.uid(), host.mode() & 0o777), (geteuid().as_raw(), 0o600));
    assert_eq!(ground.host("su").metadata().unwrap().mode() & 0o7777, 0o700);
    // Whoever writes takes the bits, here as anywhere.
    let owner = root.vfs().task(Cred::user(70_000, 80_000));
    let file = owner.open("/su", OpenFlags::WRONLY, 0).unwrap();
    owner.write(&file, b"P").unwrap();
    assert_eq!(owner.fstat(&file).unwrap().st_mode & 0o7777, 0o711);
    let other = root.vfs().task(Cred::user(1, 1));
    assert_eq!(other.open("/su", OpenFlags::RDONLY, 0).err(), Some(Errno::EACCES));
    root.rename("/su", "/dev/su").unwrap();
    root.link("/dev/su", "/again").unwrap();
    assert_eq!(machine(&ground, kept).stat("/again").unwrap().st_uid, 70_000);
}

#[test]
fn what_others_wrote_beside_a_file_harms_nobody() {
    let kept = HostOptions {
        identities: Identities::Kept,
        coherence: Coherence::Strict,
        ..HostOptions::default()
    };
    let ground = Ground::new();
    let root = machine(&ground, kept);
    root.creat("/f", 0o644).unwrap();
    root.mkdir("/d", 0o755).unwrap();
    root.creat("/d/deep", 0o644).unwrap();
    for text in ["", "x", "40755 0 0 0:0", "100600 1 2 0:0", "20600 0 0 1:5", "120777 0 0 0:0"] {
        let set = |name| {
            let path = ground.host(name);
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&path, "user.pathwalk.stat", text.as_bytes(), flags).unwrap();
        };
        set("f");
        set("d");
        set("d/deep");
        for name in ["/f", "/d/deep"] {
            let stat = root.lstat(name).unwrap();
            assert_ne!(FileType::from_mode(stat.st_mode), Some(FileType::Directory));
        }
        let stat = root.stat("/d").unwrap();
        assert_eq!(FileType::from_mode(stat.st_mode), Some(FileType::Directory), "{text}");
    }
    for name in ["/f", "/d/deep"] {
        assert_eq!(root.stat(name), Err(Errno::EIO), "an empty symlink is none");
    }
}

#[test]
fn owners_are_mapped_by_a_table() {
    let one = |host| vec![IdRange { inside: 0, host, count: 1 }];
    let map = IdMap { users: one(geteuid().as_raw()), groups: one(getegid().as_raw()) };
    let options = HostOptions { identities: Identities::Mapped(map), ..HostOptions::default() };
    let ground = Ground::new();
    let root = machine(&ground, options);
    root.mkdir("/d", 0o755).unwrap();
    assert_eq!(root.stat("/d").unwrap().st_uid, 0);
    assert_eq!(ground.host("d").metadata().unwrap().uid(), geteuid().as_raw());
    root.chown("/d", Some(0), Some(0)).unwrap();
    assert_eq!(root.chown("/d", Some(1), None), Err(Errno::EINVAL), "there is no such user");
    let user = root.vfs().task(Cred::user(7, 7));
    root.chmod("/", 0o777).unwrap();
    assert_eq!(user.mkdir("/e", 0o755), Err(Errno::EOVERFLOW));
    assert!(!ground.host("e").exists());
    if geteuid().is_root() {
        std::fs::write(ground.host("strange"), "").unwrap();
        chown(ground.host("strange"), Some(99), Some(0)).unwrap();
        let stat = root.stat("/strange").unwrap();
        assert_eq!((stat.st_uid, stat.st_gid), (65_534, 0));
    }
}
