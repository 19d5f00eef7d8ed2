//! Random calls on a few names, so that they meet.

use crate::{
    check_whole,
    common::{seed, tree, watched},
    deadline, machine,
};
use fastrand::Rng;
use pathwalk::{
    AccessMode, AtFlags, Dev, Errno, MemFs, MountFlags, OpenFlags, RenameFlags, Result, Task,
    UmountFlags,
};
use std::{collections::BTreeMap, thread};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "a-name-of-more-than-thirty-two-bytes-in-all"];

fn path(rng: &mut Rng) -> String {
    let mut path = String::new();
    for _ in 0..rng.usize(1..=4) {
        path.push('/');
        path.push_str(if rng.u8(..8) == 0 { ".." } else { NAMES[rng.usize(..NAMES.len())] });
    }
    path
}

fn change(task: &Task, rng: &mut Rng, mounts: bool) -> Result<()> {
    let path = path(rng);
    match rng.u8(..if mounts { 16 } else { 12 }) {
        0..=2 => task.mkdir(path, 0o755),
        3 => task.rmdir(path),
        4 => task.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).and_then(|file| {
            task.write(&file, b"text").map(drop)
        }),
        5 => task.unlink(path),
        6 | 7 => task.rename(path, self::path(rng)),
        8 => {
            let flags = RenameFlags::NOREPLACE;
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
        14 => task.umount2(path, UmountFlags::empty()),
        _ => task.umount2(path, UmountFlags::DETACH),
    }
}

fn look(task: &Task, rng: &mut Rng) -> Result<()> {
    let path = path(rng);
    match rng.u8(..8) {
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
const ANSWERS: [Errno; 12] = [
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
];

fn run(mounts: bool) {
    let seed = seed();
    watched(move || {
        let task = machine();
        let end = deadline();
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
                                let answer = match thread {
                                    0 | 1 => change(&task, &mut rng, mounts),
                                    2 => look(&task, &mut rng),
                                    _ => match rng.bool() {
                                        true => change(&task, &mut rng, mounts),
                                        false => look(&task, &mut rng),
                                    },
                                };
                                let answer = answer.err();
                                if let Some(errno) = answer {
                                    assert!(ANSWERS.contains(&errno), "{errno}");
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
        tree::umount_all(&task);
        check_whole(&task);
    });
}

#[test]
fn a_tree_is_whole_after_changes_from_many_threads() {
    run(false);
}

#[test]
fn a_tree_is_whole_after_changes_and_mounts_from_many_threads() {
    run(true);
}
