//! All kinds of calls beside somebody who makes, removes, renames, links and replaces the same few names on the host: no other answers than Linux
//! gives there.

use crate::common::Ground;
use pathwalk_abi::{
    AccessMode, AtFlags, Dev, Errno, OpenFlags, RenameFlags, Result, SetTime, XattrFlags, mode,
};
use pathwalk_core::{At, Task};
use pathwalk_hostfs::{Coherence, HostOptions};
use rustix::{
    fs::{self as host, CWD, FileType, Mode, OFlags},
    io,
};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// So long each is at it.
const TAKES: Duration = Duration::from_secs(3);

const NAMES: [&str; 7] = ["a", "b", "c", "a/d", "b/d", "a/d/e", "c/d"];

/// A call on one name or two, here and there, and errnos.
type Call = (
    &'static str,
    fn(&Task, &str, &str) -> Result<()>,
    fn(&Path, &Path) -> io::Result<()>,
    &'static [Errno],
);

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode)
}

fn open(task: &Task, path: &str, flags: OpenFlags) -> Result<()> {
    task.open(path, flags | OpenFlags::NONBLOCK, 0o644).map(drop)
}

fn native_open(path: &Path, flags: OFlags) -> io::Result<()> {
    host::openat(CWD, path, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, permissions(0o644))
        .map(drop)
}

fn renames(task: &Task, old: &str, new: &str, flags: RenameFlags) -> Result<()> {
    task.renameat2(At::Cwd, old, At::Cwd, new, flags)
}

fn native_renames(old: &Path, new: &Path, flags: host::RenameFlags) -> io::Result<()> {
    host::renameat_with(CWD, old, CWD, new, flags)
}

fn native_node(path: &Path, kind: FileType) -> io::Result<()> {
    host::mknodat(CWD, path, kind, permissions(0o644), 0)
}

const NOW: host::Timespec = host::Timespec { tv_sec: 0, tv_nsec: host::UTIME_NOW };

/// What all of them answer in Linux.
const LOOKUP: [Errno; 3] = [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP];

/// With what each answers in Linux beside that: what `what_linux_answers` showed of ext4 and tmpfs, Linux 6.18.
const CALLS: [Call; 26] = [
    (
        "stat",
        |task, a, _| task.stat(a).map(drop),
        |a, _| host::statat(CWD, a, host::AtFlags::empty()).map(drop),
        &[],
    ),
    (
        "lstat",
        |task, a, _| task.lstat(a).map(drop),
        |a, _| host::statat(CWD, a, host::AtFlags::SYMLINK_NOFOLLOW).map(drop),
        &[],
    ),
    (
        "access",
        |task, a, _| task.access(a, AccessMode::R_OK),
        |a, _| host::accessat(CWD, a, host::Access::READ_OK, host::AtFlags::empty()),
        &[],
    ),
    (
        "readlink",
        |task, a, _| task.readlink(a, &mut [0; 99]).map(drop),
        |a, _| host::readlinkat(CWD, a, Vec::new()).map(drop),
        &[Errno::EINVAL],
    ),
    (
        "open",
        |task, a, _| open(task, a, OpenFlags::RDONLY),
        |a, _| native_open(a, OFlags::RDONLY),
        &[Errno::ENXIO],
    ),
    (
        "open to write",
        |task, a, _| open(task, a, OpenFlags::RDWR),
        |a, _| native_open(a, OFlags::RDWR),
        &[Errno::EISDIR, Errno::ENXIO],
    ),
    (
        "open, O_TRUNC",
        |task, a, _| open(task, a, OpenFlags::RDWR | OpenFlags::TRUNC),
        |a, _| native_open(a, OFlags::RDWR | OFlags::TRUNC),
        &[Errno::EISDIR, Errno::ENXIO],
    ),
    (
        "open, O_CREAT",
        |task, a, _| open(task, a, OpenFlags::RDWR | OpenFlags::CREAT),
        |a, _| native_open(a, OFlags::RDWR | OFlags::CREATE),
        &[Errno::EISDIR, Errno::ENXIO],
    ),
    (
        "open, O_EXCL",
        |task, a, _| open(task, a, OpenFlags::RDWR | OpenFlags::CREAT | OpenFlags::EXCL),
        |a, _| native_open(a, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL),
        &[Errno::EEXIST],
    ),
    (
        "open and list",
        |task, a, _| {
            let dir = task.open(a, OpenFlags::DIRECTORY, 0)?;
            task.getdents64(&dir, &mut [0; 999]).map(drop)
        },
        |a, _| {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = host::openat(CWD, a, flags, Mode::empty())?;
            let mut buf = [const { std::mem::MaybeUninit::uninit() }; 999];
            host::RawDir::new(dir, &mut buf).next().map_or(Ok(()), |entry| entry.map(drop))
        },
        &[],
    ),
    (
        "mkdir",
        |task, a, _| task.mkdir(a, 0o755),
        |a, _| host::mkdirat(CWD, a, permissions(0o755)),
        &[Errno::EEXIST],
    ),
    (
        "mknod of a socket",
        |task, a, _| task.mknod(a, mode::S_IFSOCK | 0o644, Dev::default()),
        |a, _| native_node(a, FileType::Socket),
        &[Errno::EEXIST],
    ),
    (
        "mknod",
        |task, a, _| task.mknod(a, mode::S_IFREG | 0o644, Dev::default()),
        |a, _| native_node(a, FileType::RegularFile),
        &[Errno::EEXIST],
    ),
    (
        "symlink",
        |task, a, _| task.symlink("b", a),
        |a, _| host::symlinkat("b", CWD, a),
        &[Errno::EEXIST],
    ),
    (
        "link",
        |task, a, b| task.link(a, b),
        |a, b| host::linkat(CWD, a, CWD, b, host::AtFlags::empty()),
        &[Errno::EEXIST, Errno::EPERM],
    ),
    (
        "unlink",
        |task, a, _| task.unlink(a),
        |a, _| host::unlinkat(CWD, a, host::AtFlags::empty()),
        &[Errno::EISDIR],
    ),
    (
        "rmdir",
        |task, a, _| task.rmdir(a),
        |a, _| host::unlinkat(CWD, a, host::AtFlags::REMOVEDIR),
        &[Errno::ENOTEMPTY],
    ),
    (
        "rename",
        |task, a, b| renames(task, a, b, RenameFlags::empty()),
        |a, b| native_renames(a, b, host::RenameFlags::empty()),
        &[Errno::EINVAL, Errno::EISDIR, Errno::ENOTEMPTY],
    ),
    (
        "rename, RENAME_NOREPLACE",
        |task, a, b| renames(task, a, b, RenameFlags::NOREPLACE),
        |a, b| native_renames(a, b, host::RenameFlags::NOREPLACE),
        &[Errno::EEXIST, Errno::EINVAL],
    ),
    (
        "rename, RENAME_EXCHANGE",
        |task, a, b| renames(task, a, b, RenameFlags::EXCHANGE),
        |a, b| native_renames(a, b, host::RenameFlags::EXCHANGE),
        &[Errno::EINVAL],
    ),
    (
        "chmod",
        |task, a, _| task.chmod(a, 0o755),
        |a, _| host::chmodat(CWD, a, permissions(0o755), host::AtFlags::empty()),
        &[],
    ),
    (
        "lchown",
        |task, a, _| task.lchown(a, None, None),
        |a, _| host::chownat(CWD, a, None, None, host::AtFlags::SYMLINK_NOFOLLOW),
        &[],
    ),
    (
        "utimensat",
        |task, a, _| task.utimensat(At::Cwd, a, SetTime::Now, SetTime::Now, AtFlags::empty()),
        |a, _| {
            let times = host::Timestamps { last_access: NOW, last_modification: NOW };
            host::utimensat(CWD, a, &times, host::AtFlags::empty())
        },
        &[],
    ),
    (
        "truncate",
        |task, a, _| task.truncate(a, 1),
        |a, _| {
            let cut = nix::unistd::truncate(a, 1);
            cut.map_err(|errno| io::Errno::from_raw_os_error(errno as i32))
        },
        &[Errno::EINVAL, Errno::EISDIR],
    ),
    (
        "setxattr",
        |task, a, _| task.setxattr(a, "user.x", b"1", XattrFlags::empty()),
        |a, _| host::setxattr(a, "user.x", b"1", host::XattrFlags::empty()),
        &[Errno::EPERM],
    ),
    (
        "getxattr",
        |task, a, _| task.getxattr(a, "user.x", &mut [0; 9]).map(drop),
        |a, _| host::getxattr(a, "user.x", &mut [0; 9][..]).map(drop),
        &[Errno::ENODATA],
    ),
];

/// Does this and that to the names until it ends.
fn changes(dir: &Path, ends: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(1);
    let other = dir.join("other");
    let take_away = |path: &Path| {
        if fs::remove_file(path).is_err() {
            let _ = fs::remove_dir_all(path);
        }
    };
    let make = |path: &Path, what: u32| match what {
        0 => _ = fs::OpenOptions::new().write(true).create_new(true).open(path),
        1 => _ = fs::create_dir(path),
        2 => _ = std::os::unix::fs::symlink(["a", "b", "c", "d"][path.as_os_str().len() % 4], path),
        _ => _ = native_node(path, FileType::Socket),
    };
    while !ends.load(Relaxed) {
        let mut name = || dir.join(NAMES[random.usize(..NAMES.len())]);
        let (a, b) = (name(), name());
        let what = random.u32(..4);
        match random.u32(..8) {
            0 => take_away(&a),
            1 => make(&a, what),
            2 | 3 => {
                take_away(&a);
                make(&a, what);
            }
            4 => _ = fs::rename(&a, &b),
            5 => _ = native_renames(&a, &b, host::RenameFlags::EXCHANGE),
            6 => _ = fs::hard_link(&a, &b),
            _ => {
                make(&other, what);
                _ = fs::rename(&other, &a);
                take_away(&other);
            }
        }
    }
}

type Answers = BTreeMap<&'static str, (u64, Vec<Errno>)>;

/// What the calls answer beside that.
fn answers(
    dir: &Path,
    takes: Duration,
    seed: u64,
    make: impl Fn(&Call, &str, &str) -> Result<()>,
) -> Answers {
    let ends = AtomicBool::new(false);
    let mut answers = Answers::new();
    thread::scope(|scope| {
        scope.spawn(|| changes(dir, &ends));
        let mut random = fastrand::Rng::with_seed(seed);
        let began = Instant::now();
        while began.elapsed() < takes {
            for _ in 0..100 {
                let call = &CALLS[random.usize(..CALLS.len())];
                let mut name = || NAMES[random.usize(..NAMES.len())];
                let (a, b) = (name(), name());
                let (done, errnos) = answers.entry(call.0).or_default();
                match make(call, a, b) {
                    Ok(()) => *done += 1,
                    Err(errno) if errnos.contains(&errno) => {}
                    Err(errno) => errnos.push(errno),
                }
            }
        }
        ends.store(true, Relaxed);
    });
    answers
}

#[test]
fn answers_are_those_of_linux() {
    let mut wrong = Vec::new();
    for coherence in [Coherence::Strict, Coherence::Watched] {
        let ground = Ground::with(HostOptions { coherence, ..HostOptions::default() });
        let make = |call: &Call, a: &str, b: &str| {
            call.1(&ground.task, &format!("/{a}"), &format!("/{b}"))
        };
        let answers = answers(&ground.host(""), TAKES, 2, make);
        for (what, _, _, errnos) in &CALLS {
            let (done, got) = &answers[what];
            let others: Vec<_> = got
                .iter()
                .filter(|errno| !LOOKUP.contains(errno) && !errnos.contains(errno))
                .collect();
            if !others.is_empty() {
                wrong.push(format!("{coherence:?}, {what}: {others:?}"));
            }
            assert_ne!(*done, 0, "{coherence:?}, {what}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whence the errnos of [`CALLS`] are: each call is made on the host itself, for a minute on each file system.
#[test]
#[ignore = "it makes the table"]
fn what_linux_answers() {
    for dir in ["/tmp", "/dev/shm"] {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let make = |call: &Call, a: &str, b: &str| {
            let made = call.2(&dir.path().join(a), &dir.path().join(b));
            made.map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap())
        };
        let answers = answers(dir.path(), 20 * TAKES, 3, make);
        for (what, (done, errnos)) in answers {
            println!("{what}: {done} done, {errnos:?}");
        }
    }
}
