//! Bad input gets an errno: never a panic, a hang or a leak.

mod common;

use common::{
    tree::{census, list, umount_all, umount_but_root},
    watched,
};
use pathwalk::{
    AccessMode, At, AtFlags, Config, Cred, Dev, Errno, FdTable, File, MemFs, MountAttr,
    MountAttrFlags, MountFlags, MoveMountFlags, OpenFlags, OpenHow, OpenTreeFlags, RenameFlags,
    Result, Seek, SetTime, StatxMask, Task, Timespec, UmountFlags, Usage, Vfs,
};
use proptest::prelude::*;
use std::sync::Arc;

fn machine() -> Task {
    let config = Config { protected_hardlinks: false, ..Config::default() };
    Vfs::new(config, MemFs::new()).unwrap().task(Cred::root())
}

/// A call with a path, and perhaps a second one, flags and numbers of all kinds.
type Call = fn(&Task, At<'_>, &[u8], &[u8], u64) -> Result<()>;

/// Every call that takes a path.
const CALLS: &[(&str, Call)] = &[
    ("access", |task, _, path, _, n| task.access(path, AccessMode::from_bits_retain(n as _))),
    ("faccessat2", |task, at, path, _, n| {
        let flags = AtFlags::from_bits_retain((n >> 3) as _);
        task.faccessat2(at, path, AccessMode::from_bits_retain(n as u32 & 7), flags)
    }),
    ("stat", |task, _, path, _, _| task.stat(path).map(drop)),
    ("lstat", |task, _, path, _, _| task.lstat(path).map(drop)),
    ("fstatat", |task, at, path, _, n| {
        task.fstatat(at, path, AtFlags::from_bits_retain(n as _)).map(drop)
    }),
    ("statx", |task, at, path, _, n| {
        let mask = StatxMask::from_bits_retain((n >> 20) as _);
        task.statx(at, path, AtFlags::from_bits_retain(n as _), mask).map(drop)
    }),
    ("statfs", |task, _, path, _, _| task.statfs(path).map(drop)),
    ("readlink", |task, at, path, _, n| {
        task.readlinkat(at, path, &mut vec![0; n as usize % 8]).map(drop)
    }),
    ("openat", |task, at, path, _, n| {
        task.openat(at, path, OpenFlags::from_bits_retain(n >> 16), n as u32).map(drop)
    }),
    ("openat2", |task, at, path, _, n| {
        // Most random flags are EINVAL: these are more often known.
        let flags = n & 0o2_003_703;
        let mode = if flags & OpenFlags::CREAT.bits() != 0 { 0o600 } else { 0 };
        let how = OpenHow { flags, mode, resolve: n >> 32 & 0x3f };
        task.openat2(at, path, &how).map(drop)
    }),
    ("creat", |task, _, path, _, n| task.creat(path, n as _).map(drop)),
    ("mkdirat", |task, at, path, _, n| task.mkdirat(at, path, n as _)),
    ("mknodat", |task, at, path, _, n| {
        task.mknodat(at, path, n as _, Dev::from_u32((n >> 32) as _))
    }),
    ("symlinkat", |task, at, path, other, _| task.symlinkat(other, at, path)),
    ("linkat", |task, at, path, other, n| {
        task.linkat(at, path, at, other, AtFlags::from_bits_retain(n as u32 & 0x1c00))
    }),
    ("unlinkat", |task, at, path, _, n| {
        task.unlinkat(at, path, AtFlags::from_bits_retain(n as u32 & 0x300))
    }),
    ("rmdir", |task, _, path, _, _| task.rmdir(path)),
    ("renameat2", |task, at, path, other, n| {
        task.renameat2(at, path, at, other, RenameFlags::from_bits_retain(n as u32 & 9))
    }),
    ("fchmodat2", |task, at, path, _, n| {
        task.fchmodat2(at, path, n as _, AtFlags::from_bits_retain((n >> 32) as u32 & 0x1100))
    }),
    ("fchownat", |task, at, path, _, n| {
        let flags = AtFlags::from_bits_retain((n >> 32) as u32 & 0x1100);
        task.fchownat(at, path, Some(n as _), Some((n >> 8) as _), flags)
    }),
    ("utimensat", |task, at, path, _, n| {
        let time = SetTime::At(Timespec { sec: n as _, nsec: n as _ });
        task.utimensat(at, path, time, SetTime::Now, AtFlags::from_bits_retain(n as u32 & 0x1100))
    }),
    ("truncate", |task, _, path, _, n| task.truncate(path, n as i64)),
    ("chdir", |task, _, path, _, _| task.chdir(path)),
    ("chroot", |task, _, path, _, _| task.fork().chroot(path)),
    ("mount", |task, _, path, _, n| {
        task.mount(MemFs::new(), path, MountFlags::from_bits_retain(n & 0xf))
    }),
    ("bind", |task, _, path, other, _| task.bind(other, path)),
    ("umount2", |task, _, path, _, n| {
        umount_but_root(task, path, UmountFlags::from_bits_retain(n as u32 & 0xa))
    }),
    ("mount_tree", |task, _, path, other, n| {
        let flags = MountFlags::BIND | MountFlags::from_bits_retain(n & 0x7005);
        task.mount_tree(other, path, flags)
    }),
    ("move_mount", |task, at, path, other, n| {
        task.move_mount(at, other, at, path, MoveMountFlags::from_bits_retain(n as u32 & 0x311))
    }),
    ("open_tree", |task, at, path, _, n| {
        task.open_tree(at, path, OpenTreeFlags::from_bits_retain(n as u32 & 0x8901)).map(drop)
    }),
    ("mount_setattr", |task, at, path, _, n| {
        let attr_set = MountAttrFlags::NOSUID | MountAttrFlags::from_bits_retain(n & 0xe);
        let attr = MountAttr { attr_set, ..MountAttr::default() };
        task.mount_setattr(at, path, OpenTreeFlags::from_bits_retain(n as u32 & 0x8900), &attr)
    }),
    ("explain", |task, _, path, _, _| {
        task.explain(path, Default::default()).outcome.map(drop).map_err(|failure| failure.errno)
    }),
];

#[test]
fn paths_that_no_call_takes() {
    let task = machine();
    task.mkdir("/d", 0o755).unwrap();
    let dir = task.open("/d", OpenFlags::DIRECTORY, 0).unwrap();
    let long_path = "/.".repeat(2048).into_bytes();
    let just_fits = [b"//d".to_vec(), b"/.".repeat(2046)].concat();
    assert_eq!((long_path.len(), just_fits.len()), (4096, 4095));
    let long_name = vec![b'n'; 256];
    let before = task.vfs().usage();
    for (name, call) in CALLS {
        let errno = |path: &[u8]| call(&task, At::Dir(&dir), path, b"other", 0).unwrap_err();
        // Without flags: where a flag allows the empty path it is another call.
        let want = if *name == "readlink" { Errno::EINVAL } else { Errno::ENOENT };
        let number = if *name == "readlink" { 4 } else { 0 };
        let empty = call(&task, At::Dir(&dir), b"", b"other", number).unwrap_err();
        let empty_is = if *name == "readlink" { Errno::ENOENT } else { want };
        assert_eq!(empty, empty_is, "{name}: the empty path");
        let or_invalid = |errno: Errno, want: Errno| {
            // What has no path to begin with, or flags that go before it.
            errno == want || errno == Errno::EINVAL && *name == "readlink"
        };
        assert!(or_invalid(errno(&long_path), Errno::ENAMETOOLONG), "{name}: 4096 bytes");
        assert!(or_invalid(errno(&long_name), Errno::ENAMETOOLONG), "{name}: a name of 256");
        for path in [&b"\0"[..], b"a\0b", b"/\0", b"/d/\0x", b"/d\0/x"] {
            let path_text = path.escape_ascii();
            let errno = call(&task, At::Dir(&dir), path, b"other", number).unwrap_err();
            assert_eq!(errno, Errno::EINVAL, "{name}: {path_text}");
        }
        assert_eq!(task.vfs().usage(), before, "{name}");
    }
    assert_eq!(task.stat(&just_fits).map(drop), Ok(()));
    assert_eq!(task.stat("/d".to_owned() + &"/".repeat(4000)).map(drop), Ok(()));
    assert_eq!(task.creat([b'n'; 255], 0o644).map(drop), Ok(()));
    assert_eq!(task.symlink("a\0b", "/link"), Err(Errno::EINVAL));
    assert_eq!(task.symlink("x".repeat(4096), "/link"), Err(Errno::ENAMETOOLONG));
    assert_eq!(task.symlink("x".repeat(4095), "/link"), Ok(()));
}

#[test]
fn the_41st_link_is_eloop() {
    let task = machine();
    task.creat("/0", 0o644).unwrap();
    for number in 1..=41 {
        task.symlink(format!("{}", number - 1), format!("/{number}")).unwrap();
    }
    assert_eq!(task.stat("/40").map(drop), Ok(()));
    assert_eq!(task.stat("/41").map(drop), Err(Errno::ELOOP));
    // They count over the whole path.
    task.symlink(".", "/here").unwrap();
    assert_eq!(task.stat("/here".repeat(40)).map(drop), Ok(()));
    assert_eq!(task.stat("/here".repeat(41)).map(drop), Err(Errno::ELOOP));
    assert_eq!(task.lstat("/here".repeat(41)).map(drop), Ok(()));
}

#[test]
fn handles_that_are_closed_or_of_another_machine() {
    let (task, other) = (machine(), machine());
    let fds = FdTable::new(4);
    for fd in [0, 1, -1, i32::MIN, i32::MAX] {
        assert_eq!(fds.get(fd).map(drop), Err(Errno::EBADF), "{fd}");
        assert_eq!(fds.close(fd), Err(Errno::EBADF), "{fd}");
        assert_eq!(fds.dup(fd), Err(Errno::EBADF), "{fd}");
        assert_eq!(fds.dup2(fd, 1), Err(Errno::EBADF), "{fd}");
    }
    let open = || task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
    assert_eq!((0..4).map(|_| fds.insert(open()).unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(fds.insert(open()), Err(Errno::EMFILE));
    assert_eq!(fds.dup(0), Err(Errno::EMFILE));
    for to in [4, -1, i32::MAX] {
        assert_eq!(fds.dup2(0, to), Err(Errno::EBADF), "{to}");
    }
    assert_eq!(fds.dup2(0, 0), Ok(0));
    assert_eq!(fds.close(1), Ok(()));
    assert_eq!(fds.close(1), Err(Errno::EBADF));
    assert_eq!(fds.insert(open()), Ok(1), "the lowest free number");
    // A handle knows its machine.
    let dir = fds.get(0).unwrap();
    let file = task.creat("/file", 0o644).unwrap();
    let before = other.vfs().usage();
    assert_eq!(other.fstat(&dir).map(drop), Err(Errno::EBADF));
    assert_eq!(other.fchdir(&dir), Err(Errno::EBADF));
    assert_eq!(other.getdents64(&dir, &mut [0; 64]), Err(Errno::EBADF));
    assert_eq!(other.read(&file, &mut [0; 4]), Err(Errno::EBADF));
    assert_eq!(other.write(&file, b"x"), Err(Errno::EBADF));
    assert_eq!(other.lseek(&file, Seek::Set(0)), Err(Errno::EBADF));
    assert_eq!(other.ftruncate(&file, 0), Err(Errno::EBADF));
    assert_eq!(other.fchmod(&file, 0), Err(Errno::EBADF));
    assert_eq!(other.fchown(&file, None, None), Err(Errno::EBADF));
    assert_eq!(other.fstatfs(&file).map(drop), Err(Errno::EBADF));
    for (name, call) in CALLS {
        let number = if *name == "readlink" { 4 } else { 0 };
        if let Err(errno) = call(&other, At::Dir(&dir), b"name", b"/other", number) {
            // Some take no handle, and then these paths are no good.
            let answers = [Errno::EBADF, Errno::ENOENT, Errno::ENOTDIR, Errno::EINVAL];
            assert!(answers.contains(&errno), "{name}: {errno}");
        }
    }
    for path in ["/name", "/other"] {
        let _ = other.unlink(path);
        let _ = task.unlink(path);
    }
    assert_eq!(other.vfs().usage().inodes, before.inodes);
}

#[test]
fn a_user_without_permission() {
    let task = machine();
    task.mkdir("/shut", 0o700).unwrap();
    task.mkdir("/plain", 0o755).unwrap();
    task.creat("/plain/file", 0o600).unwrap();
    task.mkdir("/plain/dir", 0o755).unwrap();
    let user = task.vfs().task(Cred::user(1000, 1000));
    let before = task.vfs().usage();
    for (name, call) in CALLS {
        let number = if *name == "readlink" { 4 } else { 0 };
        let shut = call(&user, At::Cwd, b"/shut/x", b"/plain/dir", number);
        // Names are looked up first, but by these.
        let asks_first = ["move_mount", "mount_setattr"].contains(name);
        let want = if asks_first { Errno::EPERM } else { Errno::EACCES };
        assert_eq!(shut, Err(want), "{name}");
    }
    let file: &[u8] = b"/plain/file";
    let no: &[(&str, Result<()>)] = &[
        ("unlink", user.unlink(file)),
        ("rename", user.rename(file, "/plain/x")),
        ("rmdir", user.rmdir("/plain/dir")),
        ("creat", user.creat("/plain/x", 0o644).map(drop)),
        ("mkdir", user.mkdir("/plain/x", 0o755)),
        ("symlink", user.symlink("x", "/plain/x")),
        ("link", user.link(file, "/plain/x")),
        ("truncate", user.truncate(file, 0)),
        ("read", user.open(file, OpenFlags::RDONLY, 0).map(drop)),
        ("utimes", user.utimensat(At::Cwd, file, SetTime::Now, SetTime::Now, AtFlags::empty())),
    ];
    for (name, answer) in no {
        assert_eq!(*answer, Err(Errno::EACCES), "{name}");
    }
    let never: &[(&str, Result<()>)] = &[
        ("chmod", user.chmod(file, 0o777)),
        ("chown", user.chown(file, Some(1000), None)),
        ("mount", user.mount(MemFs::new(), "/plain", MountFlags::empty())),
        ("bind", user.bind("/plain", "/plain")),
        ("umount", user.umount2("/", UmountFlags::DETACH)),
        ("chroot", user.chroot("/plain")),
        ("mknod", user.mknod("/plain/x", 0o020_600, Dev::new(1, 3))),
    ];
    for (name, answer) in never {
        let want = if *name == "mknod" { Errno::EACCES } else { Errno::EPERM };
        assert_eq!(*answer, Err(want), "{name}");
    }
    assert_eq!(task.vfs().usage(), before);
    assert_eq!(census(&task).names, before.dentries);
}

/// Numbers at the edges of what a file can have.
#[test]
fn offsets_and_sizes_at_the_edges() {
    let task = machine();
    let flags = OpenFlags::CREAT | OpenFlags::RDWR;
    let file = task.open("/file", flags, 0o644).unwrap();
    assert_eq!(task.lseek(&file, Seek::Set(-1)), Err(Errno::EINVAL));
    assert_eq!(task.lseek(&file, Seek::Set(i64::MAX)), Ok(i64::MAX as u64));
    assert_eq!(task.lseek(&file, Seek::Cur(1)), Err(Errno::EINVAL));
    assert_eq!(task.lseek(&file, Seek::Cur(i64::MIN)), Err(Errno::EINVAL));
    assert_eq!(task.write(&file, b"x"), Err(Errno::EINVAL));
    assert_eq!(task.read(&file, &mut [0; 4]), Err(Errno::EINVAL));
    assert_eq!(task.read(&file, &mut []), Ok(0));
    assert_eq!(task.pread(&file, &mut [0; 4], -1), Err(Errno::EINVAL));
    assert_eq!(task.pwrite(&file, b"x", i64::MIN), Err(Errno::EINVAL));
    assert_eq!(task.ftruncate(&file, -1), Err(Errno::EINVAL));
    assert_eq!(task.truncate("/file", i64::MIN), Err(Errno::EINVAL));
    assert_eq!(task.ftruncate(&file, i64::MAX), Ok(()));
    assert_eq!(task.lseek(&file, Seek::End(1)), Err(Errno::EINVAL));
    assert_eq!(task.write(&file, b""), Ok(0));
    let dir = task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
    for offset in [1, 2, 3, 4, 1 << 61, 1 << 62, (1 << 62) + 2, (1 << 62) + 3, i64::MAX] {
        assert_eq!(task.lseek(&dir, Seek::Set(offset)), Ok(offset as u64));
        assert!(list(&task, &dir, 64).unwrap().len() <= 2, "{offset}");
    }
    assert_eq!(task.lseek(&dir, Seek::Set(0)), Ok(0));
    assert_eq!(task.getdents64(&dir, &mut [0; 8]), Err(Errno::EINVAL));
    assert_eq!(task.getdents64(&dir, &mut []), Err(Errno::EINVAL));
    assert_eq!(list(&task, &dir, 64).unwrap().len(), 3);
}

/// Each call counts what it holds and gives it back, whether it succeeds or fails: otherwise something would be left
/// when all is taken away again.
fn nothing_is_left(task: &Task, before: Usage) {
    task.chdir("/").unwrap();
    umount_all(task);
    let now = census(task);
    let usage = task.vfs().usage();
    assert_eq!((usage.dentries, usage.inodes), (now.names, now.inodes));
    assert_eq!(usage.mounts, before.mounts);
    // Whatever is still held would stay in the tables: so all of it is taken away.
    let root = task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
    empty(task, &root);
    drop(root);
    assert_eq!(census(task).names, 1);
    let usage = task.vfs().usage();
    assert_eq!((usage.dentries, usage.inodes, usage.mounts), (1, 1, 1));
}

/// Removes all that a directory has.
fn empty(task: &Task, dir: &File) {
    for entry in list(task, dir, 4096).unwrap() {
        if entry.name == b"." || entry.name == b".." {
            continue;
        }
        let name = &entry.name;
        if task.unlinkat(dir, name, AtFlags::empty()) == Err(Errno::EISDIR) {
            let flags = OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
            empty(task, &task.openat(dir, name, flags, 0).unwrap());
            assert_eq!(task.unlinkat(dir, name, AtFlags::REMOVEDIR), Ok(()));
        }
    }
}

/// Bytes that are likely to make a path: short names, dots and slashes, and now and then anything.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "c", "d", "long-long-long-long-long-long-long-name"])
            .prop_map(|name| name.as_bytes().to_vec()),
        6 => Just(b"/".to_vec()),
        2 => Just(b"..".to_vec()),
        1 => Just(b".".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => (200usize..300).prop_map(|len| vec![b'n'; len]),
    ];
    prop_oneof![
        20 => prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => (4090usize..4100).prop_map(|len| b"/.".iter().copied().cycle().take(len).collect()),
    ]
}

/// Which call, its paths and number, and from where it is made and by whom.
type Asked = (usize, Vec<u8>, Vec<u8>, u64, u8);

fn answers(calls: Vec<Asked>) {
    let task = machine();
    let before = task.vfs().usage();
    let user = task.vfs().task(Cred::user(1000, 1000).with_groups(&[5]));
    {
        let mut handles: Vec<File> = vec![task.open("/", OpenFlags::PATH, 0).unwrap()];
        for (which, path, other, number, from) in calls {
            let (name, call) = CALLS[which % CALLS.len()];
            let task = if from & 1 == 0 { &task } else { &user };
            let at = match from >> 1 {
                0..40 => At::Cwd,
                handle => At::Dir(&handles[handle as usize % handles.len()]),
            };
            let answer = call(task, at, &path, &other, number);
            if let Err(errno) = answer {
                let never = [Errno::ECHILD, Errno::ESTALE, Errno::EIO, Errno::ENOMEM];
                assert!(!never.contains(&errno), "{name}: {errno}");
            }
            if let Ok(handle) = task.open(&path, OpenFlags::from_bits_retain(number & 3), 0) {
                let mut buf = [0; 128];
                let _ = task.read(&handle, &mut buf[..number as usize % 64]);
                let _ = task.pwrite(&handle, &path, number as i64);
                let _ = task.lseek(&handle, Seek::Cur(number as i64));
                let _ = task.getdents64(&handle, &mut buf[..number as usize % 128]);
                let _ = task.ftruncate(&handle, (number % 100_000) as i64);
                let _ = task.fchmod(&handle, 0o755);
                handles.truncate(8);
                handles.push(handle);
            }
            let _ = task.getcwd();
            task.umask(0o022);
        }
    }
    user.chdir("/").unwrap_or_else(|_| task.chmod("/", 0o755).and(user.chdir("/")).unwrap());
    nothing_is_left(&task, before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_as_paths_get_an_answer_and_leave_nothing(
        calls in prop::collection::vec(
            (any::<usize>(), path(), path(), any::<u64>(), any::<u8>()),
            1..150,
        ),
    ) {
        watched(move || answers(calls));
    }
}

/// Every name, file and mount goes with the machine, also in the middle of things.
#[test]
fn a_machine_may_go_at_any_time() {
    let fs = MemFs::new();
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/m", 0o755).unwrap();
    let file = task.creat("/m/file", 0o644).unwrap();
    task.write(&file, &[1; 10_000]).unwrap();
    task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
    task.chdir("/m").unwrap();
    task.unlink("/m/file").unwrap_err();
    drop(vfs);
    drop(task);
    // The last handle keeps it alive.
    assert_eq!(file.vfs().usage().mounts, 2);
    drop(file);
    assert_eq!(Arc::strong_count(&fs), 1, "the machine let go of its file system");
}
