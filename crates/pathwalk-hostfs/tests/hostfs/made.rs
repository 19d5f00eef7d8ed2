//! What is made while others are at the same names: it was made, and what is theirs stays as it is.

use crate::{coherence::ground, common::Ground};
use pathwalk_abi::{Dev, Errno, Result, mode};
use pathwalk_core::{Cred, Task};
use pathwalk_hostfs::Coherence;
use rustix::{
    fs::{self, AtFlags, CWD, FileType, Mode, Stat},
    process::geteuid,
};
use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// So long two are at it.
const TAKES: Duration = Duration::from_millis(500);

/// Makes a name here, and there.
type Kind = (&'static str, fn(&Task, &str) -> Result<()>, fn(&Path) -> rustix::io::Result<()>);

fn native_node(path: &Path, kind: FileType) -> rustix::io::Result<()> {
    fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), 0)
}

const KINDS: [Kind; 4] = [
    (
        "mkdir",
        |task, path| task.mkdir(path, 0o755),
        |path| fs::mkdirat(CWD, path, Mode::from_raw_mode(0o700)),
    ),
    ("symlink", |task, path| task.symlink("here", path), |path| fs::symlinkat("there", CWD, path)),
    (
        "mkfifo",
        |task, path| task.mknod(path, mode::S_IFIFO | 0o644, Dev::default()),
        |path| native_node(path, FileType::Fifo),
    ),
    (
        "mknod",
        |task, path| task.mknod(path, mode::S_IFREG | 0o644, Dev::default()),
        |path| native_node(path, FileType::RegularFile),
    ),
];

/// Each kind, where others are noticed, and for who makes what has to be given to him.
fn each(f: impl Fn(&Ground, &Task, &Kind)) {
    for coherence in [Coherence::Strict, Coherence::Watched] {
        let ground = ground(coherence);
        let mut task = ground.task.fork();
        ground.task.chmod("/", 0o777).unwrap();
        if geteuid().is_root() {
            task.set_cred(Cred::user(1000, 1000));
        }
        for kind in &KINDS {
            f(&ground, &task, kind);
        }
    }
}

fn look(path: &Path) -> rustix::io::Result<Stat> {
    fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

fn take_away(path: &Path) {
    for flags in [AtFlags::empty(), AtFlags::REMOVEDIR] {
        let _ = fs::unlinkat(CWD, path, flags);
    }
}

/// Nobody here removes anything.
#[test]
fn what_others_make_in_its_place_stays_theirs() {
    each(|ground, task, (what, makes, makes_there)| {
        let path = ground.host("name");
        take_away(&path);
        let ends = AtomicBool::new(false);
        let made = thread::scope(|scope| {
            scope.spawn(|| {
                let mut theirs = 0;
                while !ends.load(Relaxed) {
                    take_away(&path);
                    if makes_there(&path).is_err() {
                        continue;
                    }
                    theirs += 1;
                    let before = look(&path);
                    for _ in 0..20 {
                        let now = look(&path);
                        let of = |stat: &Stat| (stat.st_ino, stat.st_mode, stat.st_uid);
                        let (before, now) = (before.as_ref().map(of), now.as_ref().map(of));
                        if before != now || now.is_ok_and(|(_, _, uid)| uid != geteuid().as_raw()) {
                            ends.store(true, Relaxed);
                            panic!("{what}, {theirs}: {before:?} became {now:?}");
                        }
                    }
                }
            });
            let mut made = 0;
            let began = Instant::now();
            while began.elapsed() < TAKES && !ends.load(Relaxed) {
                match makes(task, "/name") {
                    Ok(()) => made += 1,
                    Err(Errno::EEXIST) => {}
                    Err(errno) => {
                        ends.store(true, Relaxed);
                        panic!("{what} answers {errno:?} after {made}");
                    }
                }
            }
            ends.store(true, Relaxed);
            made
        });
        assert_ne!(made, 0, "{what}");
    });
}

#[test]
fn what_others_link_or_write_to_was_made() {
    each(|ground, task, (what, makes, _)| {
        if *what == "mkdir" {
            return;
        }
        for writes in [false, true] {
            let next = AtomicUsize::new(0);
            let (path, link) = (ground.host("name"), ground.host("link"));
            take_away(&path);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for round in 0.. {
                        while next.load(Relaxed) == round {
                            let done = if writes && *what == "mknod" {
                                std::fs::OpenOptions::new().write(true).open(&path).is_ok_and(
                                    |mut file| std::io::Write::write(&mut file, b"1").is_ok(),
                                )
                            } else {
                                fs::linkat(CWD, &path, CWD, &link, AtFlags::empty()).is_ok()
                            };
                            if done {
                                break;
                            }
                        }
                        while next.load(Relaxed) == round {
                            std::hint::spin_loop();
                        }
                        if next.load(Relaxed) == usize::MAX {
                            return;
                        }
                    }
                });
                let began = Instant::now();
                for round in 0.. {
                    let made = makes(task, "/name");
                    let kind = task.lstat("/name").map(|_| ());
                    take_away(&link);
                    take_away(&path);
                    if began.elapsed() >= TAKES || (made, kind) != (Ok(()), Ok(())) {
                        next.store(usize::MAX, Relaxed);
                        assert_eq!((made, kind), (Ok(()), Ok(())), "{what}, {round}");
                        return;
                    }
                    next.store(round + 1, Relaxed);
                }
            });
        }
    });
}
