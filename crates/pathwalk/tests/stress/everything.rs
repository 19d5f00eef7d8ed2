//! Random calls on a few names, so that they meet.

use crate::{
    check_whole,
    common::{sample::SampleFs, seed, tree, watched},
    deadline, machine,
};
use fastrand::Rng;
use pathwalk::{
    AccessMode, AtFlags, Config, Cred, Dev, Errno, FileType, MemFs, MountFlags, OpenFlags,
    RenameFlags, Result, Task, UmountFlags, Vfs, fs::Features,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "a-name-of-more-than-thirty-two-bytes-in-all"];

fn path(rng: &mut Rng) -> String {
    let mut path = String::new();
    for _ in 0..rng.usize(1..=4) {
        path.push('/');
        path.push_str(if rng.u8(..8) == 0 { ".." } else { NAMES[rng.usize(..NAMES.len())] });
    }
    path
}

/// Makes a file without a name and gives it one.
fn unnamed(task: &Task, dir: &str, path: &str) -> Result<()> {
    let file = task.open(dir, OpenFlags::TMPFILE | OpenFlags::RDWR, 0o644)?;
    task.linkat(&file, "", pathwalk::At::Cwd, path, AtFlags::EMPTY_PATH)
}

/// Makes a change; `which` says of what kind.
fn change(task: &Task, which: u8, rng: &mut Rng) -> Result<()> {
    let path = path(rng);
    match which {
        0..=2 => task.mkdir(path, 0o755),
        3 => task.rmdir(path),
        4 if rng.u8(..4) == 0 => match unnamed(task, &path, &self::path(rng)) {
            Err(Errno::EOPNOTSUPP) => Ok(()),
            answer => answer,
        },
        4 => task
            .open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644)
            .and_then(|file| task.write(&file, b"text").map(drop)),
        5 => task.unlink(path),
        6 | 7 => task.rename(path, self::path(rng)),
        8 => {
            let (none, whiteout) = (RenameFlags::empty(), RenameFlags::WHITEOUT);
            let flags = [RenameFlags::NOREPLACE, RenameFlags::EXCHANGE, whiteout, none];
            let flags = flags[rng.usize(..flags.len())];
            task.renameat2(pathwalk::At::Cwd, path, pathwalk::At::Cwd, self::path(rng), flags)
        }
        9 => task.link(path, self::path(rng)),
        10 => task.symlink(self::path(rng), path),
        11 => match rng.bool() {
            true => task.chmod(path, if rng.bool() { 0o755 } else { 0o700 }),
            false => task.mknod(path, 0o010_644, Dev::default()),
        },
        12 => task.mount(MemFs::new(), path, MountFlags::empty()),
        13 => task.bind(path, self::path(rng)),
        // Nor the root itself, which would leave the tasks without a tree.
        _ if path.ends_with("..") => Ok(()),
        14 => task.umount2(path, UmountFlags::NOFOLLOW),
        _ => task.umount2(path, UmountFlags::DETACH | UmountFlags::NOFOLLOW),
    }
}

/// Looks something up; `which` says how.
fn look(task: &Task, which: u8, rng: &mut Rng) -> Result<()> {
    let path = path(rng);
    match which {
        0 => task.stat(path).map(drop),
        1 => task.lstat(path).map(drop),
        2 => task.access(path, AccessMode::R_OK),
        3 => task.readlink(path, &mut [0; 64]).map(drop),
        4 => task.open(path, OpenFlags::RDONLY, 0).and_then(|file| {
            task.fstat(&file)?;
            let mut text = [0; 8];
            match task.read(&file, &mut text) {
                Err(Errno::EISDIR) => tree::list(task, &file, 512).map(drop),
                read => read.map(drop),
            }
        }),
        5 => task.open(path, OpenFlags::PATH, 0).and_then(|dir| {
            task.fstatat(&dir, "..", AtFlags::empty())?;
            task.fstatat(&dir, NAMES[rng.usize(..NAMES.len())], AtFlags::empty()).map(drop)
        }),
        6 => task.chdir(path).and_then(|()| {
            task.stat("..")?;
            task.getcwd()?;
            task.stat(NAMES[rng.usize(..NAMES.len())]).map(drop)
        }),
        _ => task.chdir("/"),
    }
}

/// What Linux answers such calls.
const ANSWERS: [Errno; 14] = [
    Errno::ENOENT,
    Errno::EEXIST,
    Errno::ENOTDIR,
    Errno::EISDIR,
    Errno::ENOTEMPTY,
    Errno::EINVAL,
    Errno::EBUSY,
    Errno::EXDEV,
    Errno::ELOOP,
    Errno::EPERM,
    Errno::ENXIO,
    Errno::EMLINK,
    // No room for data, or for one more name in use.
    Errno::ENOSPC,
    Errno::ENOMEM,
];

/// Runs calls from four threads on an empty machine until time is over.
fn run(task: &Task, seed: u64, mounts: bool) {
    let end = deadline();
    let kinds = if mounts { 16 } else { 12 };
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let task = task.fork();
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed + thread);
                    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
                    while std::time::Instant::now() < end {
                        for _ in 0..100 {
                            let changes = match thread {
                                0 | 1 => true,
                                2 => false,
                                _ => rng.bool(),
                            };
                            let which = rng.u8(..if !changes { 8 } else { kinds });
                            let answer = match changes {
                                true => change(&task, which, &mut rng),
                                false => look(&task, which, &mut rng),
                            };
                            let answer = answer.err();
                            if let Some(errno) = answer {
                                let what = if changes { "change" } else { "look" };
                                assert!(ANSWERS.contains(&errno), "{what} {which}: {errno}");
                            }
                            *answers.entry(answer.map_or("ok", Errno::name)).or_default() += 1;
                        }
                    }
                    answers
                })
            })
            .collect();
        for thread in threads {
            for (answer, count) in thread.join().unwrap() {
                *answers.entry(answer).or_default() += count;
            }
        }
    });
    println!("{answers:?}");
    assert!(answers["ok"] > 1000, "enough of it succeeds: {answers:?}");
}

#[test]
fn a_tree_is_whole_after_changes_from_many_threads() {
    let seed = seed();
    watched(move || {
        let task = machine();
        run(&task, seed, false);
        check_whole(&task);
    });
}

#[test]
fn a_tree_is_whole_after_changes_and_mounts_from_many_threads() {
    let seed = seed();
    watched(move || {
        let task = machine();
        run(&task, seed, true);
        tree::umount_all(&task);
        check_whole(&task);
    });
}

/// A file system that is asked, under a cache that holds a part of it and drops names all the time.
#[test]
fn a_small_cache_agrees_with_its_file_system_after_changes_from_many_threads() {
    let seed = seed();
    watched(move || {
        let config = Config { dentry_bytes: 2 << 20, ..Config::default() };
        let vfs = Vfs::new(config, SampleFs::new(Features::empty())).unwrap();
        let task = vfs.task(Cred::root());
        let over = Arc::new(AtomicBool::new(false));
        let shrinking = thread::spawn({
            let (vfs, over) = (Arc::clone(&vfs), Arc::clone(&over));
            move || {
                while !over.load(Relaxed) {
                    vfs.shrink(8);
                    thread::yield_now();
                }
            }
        });
        run(&task, seed, false);
        over.store(true, Relaxed);
        shrinking.join().unwrap();
        // What the file system lists is there, found by the cache and found anew.
        let agrees = || {
            let mut names = 0;
            let mut todo = vec![task.open("/", OpenFlags::DIRECTORY, 0).unwrap()];
            while let Some(dir) = todo.pop() {
                for entry in tree::list(&task, &dir, 512).unwrap() {
                    let stat = task.fstatat(&dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
                    assert_eq!(stat.st_ino, entry.ino);
                    let dots = entry.name == b"." || entry.name == b"..";
                    if !dots && FileType::from_mode(stat.st_mode) == Some(FileType::Directory) {
                        let flags = OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
                        todo.push(task.openat(&dir, &entry.name, flags, 0).unwrap());
                    }
                    names += 1;
                }
            }
            names
        };
        let cached = agrees();
        while vfs.shrink(u32::MAX) != 0 {}
        let usage = vfs.usage();
        assert_eq!((usage.dentries, usage.inodes), (1, 1), "everything was given back");
        assert_eq!(agrees(), cached);
    });
}
