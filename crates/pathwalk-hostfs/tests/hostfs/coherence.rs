//! What another process changes: when it is seen.

use crate::common::{Ground, as_ordinary_user, left_out};
use pathwalk_abi::{
    AccessMode, AtFlags, Errno, OpenFlags,
    mode::{S_IFDIR, S_IFLNK, S_IFMT},
};
use pathwalk_core::{At, Config, Cred, Vfs, fs::FileSystem};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify,
    process::geteuid,
};
use std::{
    cell::Cell,
    env,
    fmt::Debug,
    fs,
    io::Write,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, PermissionsExt, symlink},
        },
    },
    process::Command,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

pub(crate) fn ground(coherence: Coherence) -> Ground {
    with(HostOptions { coherence, ..HostOptions::default() })
}

pub(crate) fn with(options: HostOptions) -> Ground {
    let ground = Ground::with(options);
    fs::create_dir_all(ground.host("a/b/c")).unwrap();
    fs::write(ground.host("a/b/c/file"), "1").unwrap();
    ground
}

/// Has another process do something in the directory.
pub(crate) fn elsewhere(ground: &Ground, script: &str) {
    let status =
        Command::new("sh").args(["-ec", script]).current_dir(ground.host("")).status().unwrap();
    assert!(status.success(), "{script}");
}

/// What a call answers: walked, walked to be remembered, remembered, asked often enough to be watched, and watched.
pub(crate) fn often<T: PartialEq + Debug>(call: impl Fn() -> T) -> T {
    let first = call();
    for _ in 0..8 {
        assert_eq!(call(), first);
    }
    first
}

/// Those that notice what others do.
pub(crate) fn each(f: impl Fn(&Ground)) {
    for coherence in [Coherence::Strict, Coherence::Watched] {
        f(&ground(coherence));
    }
    f(&unwatched());
}

/// One that asks each time.
pub(crate) fn unwatched() -> Ground {
    with(HostOptions { coherence: Coherence::Strict, watches: 0, ..HostOptions::default() })
}

#[test]
fn what_others_did_before_a_call_is_seen_by_it() {
    each(|ground| {
        let task = &ground.task;
        let size = |path: &str| often(|| task.stat(path).map(|stat| stat.st_size));
        for round in 0..3 {
            assert_eq!(size("/a/b/c/file"), Ok(1));
            assert_eq!(size("/a/b/c/new"), Err(Errno::ENOENT));
            elsewhere(ground, "echo 12345 > a/b/c/new");
            assert_eq!(size("/a/b/c/new"), Ok(6));
            elsewhere(ground, "echo 1234567 > a/b/c/new");
            assert_eq!(size("/a/b/c/new"), Ok(8), "round {round}");
            elsewhere(ground, "chmod 600 a/b/c/new");
            assert_eq!(task.stat("/a/b/c/new").unwrap().st_mode & 0o777, 0o600);
            let links = task.stat("/a/b").unwrap().st_nlink;
            elsewhere(ground, "mkdir a/b/d");
            assert_eq!(task.stat("/a/b").unwrap().st_nlink, links + 1);
            elsewhere(ground, "rmdir a/b/d; rm a/b/c/new");
            assert_eq!(size("/a/b/c/new"), Err(Errno::ENOENT));
            elsewhere(ground, "mv a/b a/x");
            assert_eq!(size("/a/b/c/file"), Err(Errno::ENOENT));
            assert_eq!(size("/a/x/c/file"), Ok(1));
            elsewhere(ground, "mv a/x a/b");
            assert_eq!(size("/a/b/c/file"), Ok(1));
            elsewhere(ground, "mkdir -p y/c; echo 123 > y/c/file; mv a/b z; mv y a/b");
            assert_eq!(size("/a/b/c/file"), Ok(4), "another directory has the name");
            elsewhere(ground, "mv a/b y; mv z a/b; rm -r y");
            assert_eq!(size("/a/b/c/file"), Ok(1));
        }
    });
}

#[test]
fn names_become_other_kinds_of_files() {
    each(|ground| {
        let task = &ground.task;
        let stat = |path: &str| often(|| task.stat(path).map(|stat| stat.st_size));
        assert!(stat("/a/b/c/file").is_ok());
        elsewhere(ground, "mv a/b kept; ln -s ../kept a/b");
        assert!(stat("/a/b/c/file").is_ok(), "through a symlink, which is walked here");
        assert_eq!(task.lstat("/a/b").unwrap().st_mode & 0o170_000, 0o120_000);
        elsewhere(ground, "rm a/b; echo > a/b");
        assert_eq!(stat("/a/b/c/file"), Err(Errno::ENOTDIR));
        elsewhere(ground, "rm a/b; mv kept a/b");
        assert!(stat("/a/b/c/file").is_ok());
        symlink("file", ground.host("a/b/c/link")).unwrap();
        assert_eq!(stat("/a/b/c/link"), Ok(1));
        elsewhere(ground, "ln -sfT nowhere a/b/c/link");
        assert_eq!(stat("/a/b/c/link"), Err(Errno::ENOENT));
    });
}

#[test]
fn an_open_file_is_told_about_as_it_is() {
    each(|ground| {
        let task = &ground.task;
        let file = task.open("/a/b/c/file", OpenFlags::RDONLY, 0).unwrap();
        elsewhere(ground, "echo 12345 > a/b/c/file");
        assert_eq!(task.fstat(&file).unwrap().st_size, 6);
        elsewhere(ground, "ln a/b/c/file a/other; echo 1 > a/other");
        assert_eq!(task.fstat(&file).unwrap().st_size, 2);
        assert_eq!(task.stat("/a/b/c/file").unwrap().st_nlink, 2);
        elsewhere(ground, "echo 123 > a/other");
        assert_eq!(task.stat("/a/b/c/file").unwrap().st_size, 4, "by its other name");
        elsewhere(ground, "rm a/other a/b/c/file");
        assert_eq!(task.fstat(&file).unwrap().st_nlink, 0);
        let mut buf = [0; 8];
        assert_eq!(task.pread(&file, &mut buf, 0), Ok(4));
    });
}

#[test]
fn a_change_of_what_others_replaced_is_one_of_what_is_there() {
    each(|ground| {
        let task = &ground.task;
        assert!(task.stat("/a/b/c/file").is_ok());
        elsewhere(ground, "rm a/b/c/file; echo new > a/b/c/file");
        task.chmod("/a/b/c/file", 0o604).unwrap();
        assert_eq!(task.stat("/a/b/c/file").unwrap().st_mode & 0o777, 0o604);
        elsewhere(ground, "test $(stat -c %a a/b/c/file) = 604; rm a/b/c/file; mkdir a/b/c/file");
        assert_eq!(task.unlink("/a/b/c/file"), Err(Errno::EISDIR));
        elsewhere(ground, "touch a/b/c/file/x");
        assert_eq!(task.rmdir("/a/b/c/file"), Err(Errno::ENOTEMPTY));
        elsewhere(ground, "rm a/b/c/file/x");
        task.rmdir("/a/b/c/file").unwrap();
        elsewhere(ground, "test ! -e a/b/c/file; touch a/b/c/made");
        assert_eq!(task.mkdir("/a/b/c/made", 0o755), Err(Errno::EEXIST));
    });
}

#[test]
fn strict_asks_about_a_run_of_names_at_once() {
    let ground = unwatched();
    let task = &ground.task;
    let _ = (task.stat("/a/b/c/file"), task.access("/a/b/c/none", Default::default()));
    let access = |path: &str| {
        ground.calls(|| {
            let _ = task.access(path, Default::default());
        })
    };
    assert_eq!(access("/a/b/c/file"), 2, "it is walked to, and looked at");
    assert_eq!(access("/a/b/c/none"), 1, "it is not there");
    assert_eq!(access("/a/b/../b/./c/../c/file"), 2, "also where the path goes up");
    assert_eq!(access("/a/b/c/../../b/c/none"), 1);
    assert_eq!(access("/../a/b/c/none"), 1);
    elsewhere(&ground, "mv a/b a/x");
    assert_eq!(task.stat("/a/x/../b/c/file"), Err(Errno::ENOENT));
    assert!(task.stat("/a/x/c/../../x/c/file").is_ok());
    assert_eq!(task.stat("/a/b/../x/c/file"), Err(Errno::ENOENT), "b is no directory any more");
}

#[test]
fn strict_asks_about_a_remembered_path_at_once() {
    let ground = unwatched();
    let task = &ground.task;
    task.chmod("/a/b/c", 0o700).unwrap();
    let calls = |call: &dyn Fn()| {
        call();
        call();
        ground.calls(call)
    };
    let access = |path: &'static str| move || _ = task.access(path, AccessMode::R_OK);
    assert_eq!(calls(&access("/a/b/c/file")), 2, "it is walked to, and looked at");
    assert_eq!(calls(&access("/a/b/c/none")), 1);
    assert_eq!(calls(&access("/a/b/c/none/below")), 1);
    assert_eq!(calls(&|| assert!(task.stat("/a/b/c/file").is_ok())), 2, "and not once more");
    let open = || assert!(task.open("/a/b/c/file", OpenFlags::RDONLY, 0).is_ok());
    assert_eq!(calls(&open), 3);
    // What is remembered is of its directories as they were: who takes the right away is obeyed.
    let user = task.vfs().task(Cred::user(1000, 1000));
    let look = || user.access("/a/b/c/file", AccessMode::empty());
    assert_eq!(often(look), Err(Errno::EACCES));
    task.chmod("/a/b/c", 0o755).unwrap();
    assert_eq!(often(look), Ok(()));
    task.chmod("/a/b/c", 0o700).unwrap();
    assert_eq!(often(look), Err(Errno::EACCES));
}

#[test]
fn strict_watches_what_is_asked_for_again_and_again() {
    let ground = ground(Coherence::Strict);
    let task = &ground.task;
    let access = |path: &str| task.access(path, AccessMode::empty());
    let look = || {
        assert_eq!(access("/a/b/c/file"), Ok(()));
        assert_eq!(access("/a/b/c/none"), Err(Errno::ENOENT));
        assert_eq!(access("/a/none/c"), Err(Errno::ENOENT));
        assert_eq!(access("/a/b/../b/c/./file"), Ok(()));
    };
    (0..20).for_each(|_| look());
    assert_eq!(ground.calls(look), 4, "whether anything happened");
    let stat = || _ = task.stat("/a/b/c/file").unwrap();
    assert_eq!(ground.calls(stat), 2, "and what it is like");
    elsewhere(&ground, "touch a/b/elsewhere");
    look();
    assert_eq!(ground.calls(look), 4, "the names that are asked for were not touched");
    elsewhere(&ground, "touch a/b/c/none; rm a/b/c/file");
    assert_eq!(access("/a/b/c/none"), Ok(()));
    assert_eq!(access("/a/b/c/file"), Err(Errno::ENOENT));
    elsewhere(&ground, "mv a/b/c/none a/b/c/file");
    (0..20).for_each(|_| look());
    assert_eq!(ground.calls(look), 4);
}

/// A user has so many queues: in a process of a user of whom no other test takes any.
#[test]
fn strict_watches_when_a_queue_is_left_again() {
    let test = "coherence::strict_watches_when_a_queue_is_left_again";
    as_ordinary_user(4322, test, || {
        if env::args().all(|arg| arg != test) {
            eprintln!("not tried: only root runs it as a user of its own");
            return;
        }
        let mut queues = Vec::new();
        while let Ok(queue) = inotify::init(inotify::CreateFlags::CLOEXEC) {
            queues.push(queue);
        }
        let ground = ground(Coherence::Strict);
        let look = || {
            assert_eq!(ground.task.access("/a/b/none", AccessMode::empty()), Err(Errno::ENOENT));
        };
        (0..20).for_each(|_| look());
        queues.clear();
        (0..200).for_each(|_| look());
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let open = open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        let has_queue = open.filter(|file| file.as_os_str() == "anon_inode:inotify").count();
        assert_eq!((has_queue, ground.calls(look)), (1, 1));
        elsewhere(&ground, "touch a/b/none");
        assert_eq!(ground.task.access("/a/b/none", AccessMode::empty()), Ok(()));
    });
}

#[test]
fn strict_sees_what_is_done_by_other_names() {
    let ground = ground(Coherence::Strict);
    let mode = || ground.task.stat("/a/b/c/file").map(|stat| stat.st_mode & 0o777);
    elsewhere(&ground, "mkdir far; chmod 644 a/b/c/file");
    assert_eq!(often(mode), Ok(0o644));
    elsewhere(&ground, "ln a/b/c/file far/other; chmod 600 far/other");
    assert_eq!(often(mode), Ok(0o600));
    elsewhere(
        &ground,
        "mv far/other far/another; chmod 640 far/another; echo 123456 > far/another",
    );
    assert_eq!(often(mode), Ok(0o640));
    assert_eq!(
        ground.task.stat("/a/b/c/file").map(|stat| (stat.st_size, stat.st_nlink)),
        Ok((7, 2))
    );
}

/// No directory tells of what is done by other names, or by a descriptor.
#[test]
fn strict_permits_what_is_permitted_by_other_names() {
    if !geteuid().is_root() {
        return left_out("only root has files that somebody else may not read");
    }
    for ground in [ground(Coherence::Strict), unwatched()] {
        elsewhere(&ground, "chmod 755 . a a/b a/b/c; mkdir far; chmod 644 a/b/c/file");
        let mut user = ground.task.fork();
        user.set_cred(Cred::user(1000, 1000));
        let may = |path: &str| often(|| often(|| user.access(path, AccessMode::R_OK)));
        let [yes, no] = [Ok(()), Err(Errno::EACCES)];
        for link in ["far/1", "far/2", "a/3"] {
            assert_eq!(may("/a/b/c/file"), yes);
            // Of these names nobody has heard.
            elsewhere(&ground, &format!("ln a/b/c/file {link}; chmod 600 {link}"));
            assert_eq!(may("/a/b/c/file"), no);
            elsewhere(&ground, &format!("chmod 604 {link}"));
            assert_eq!(may("/a/b/c/file"), yes);
            elsewhere(&ground, "chown 1000 far/1; chmod 044 far/1");
            assert_eq!(may("/a/b/c/file"), no);
            elsewhere(&ground, "chown 0 far/1");
            assert_eq!(may("/a/b/c/file"), yes);
            assert_eq!(may("/a/b"), yes, "of a directory");
            elsewhere(&ground, "chmod 711 a/b");
            assert_eq!(may("/a/b"), no);
            elsewhere(&ground, "chmod 755 a/b");
        }
        elsewhere(&ground, "rm far/* a/3");
        let by = fs::File::open(ground.host("a/b/c/file")).unwrap();
        assert_eq!(may("/a/b/c/file"), yes);
        by.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(may("/a/b/c/file"), no);
        elsewhere(&ground, "mv a/b/c/file far; echo > a/b/c/file");
        assert_eq!(may("/a/b/c/file"), yes, "another file has the name");
        by.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
        elsewhere(&ground, "chmod 600 a/b/c/file");
        assert_eq!(may("/a/b/c/file"), no);
    }
}

/// inotify tells nobody.
#[test]
fn strict_sees_that_nobody_may_write() {
    if !geteuid().is_root() {
        return left_out("only root makes files immutable");
    }
    let ground = ground(Coherence::Strict);
    let task = &ground.task;
    let write = OpenFlags::WRONLY;
    for _ in 0..3 {
        let may = || often(|| task.access("/a/b/c/file", AccessMode::W_OK));
        assert_eq!(often(may), Ok(()));
        elsewhere(&ground, "chattr +i a/b/c/file");
        assert_eq!(may(), Err(Errno::EPERM));
        assert_eq!(task.open("/a/b/c/file", write, 0).map(drop), Err(Errno::EPERM));
        elsewhere(&ground, "chattr -i a/b/c/file");
        assert!(task.open("/a/b/c/file", write, 0).is_ok());
        elsewhere(&ground, "chattr +a a/b/c");
        assert_eq!(task.unlink("/a/b/c/file"), Err(Errno::EPERM));
        elsewhere(&ground, "chattr -a a/b/c");
    }
    assert_eq!(task.unlink("/a/b/c/file"), Ok(()));
}

/// Of who opens a file and looks at it both ask the host.
#[test]
fn strict_watches_what_is_opened_and_looked_at() {
    let ground = ground(Coherence::Strict);
    let task = &ground.task;
    for _ in 0..40 {
        let file = task.open("/a/b/c/file", OpenFlags::RDONLY, 0).unwrap();
        task.fstat(&file).unwrap();
    }
    let access = || task.access("/a/b/c/file", AccessMode::R_OK).unwrap();
    access();
    assert_eq!(ground.calls(access), 1);
}

/// What is done to a file by another of its names is seen, and the file is believed nevertheless when it was asked about often enough.
#[test]
fn a_file_of_several_names_is_watched_itself() {
    each(|ground| {
        elsewhere(ground, "mkdir other; echo 1 > a/file; ln a/file other/file");
        let user = ground.task.vfs().task(Cred::user(1000, 1000));
        let tells = ground.fs.news().is_some();
        let spellings = Cell::new(0);
        let look = || {
            // No thread remembers a path that it did not meet before. What else asks brings the attributes up to date, so it comes behind.
            spellings.set(spellings.get() + 1);
            let unknown = format!("/a/{}file", "./".repeat(spellings.get() % 200));
            let may = user.access(unknown, AccessMode::R_OK);
            assert_eq!(user.access("/a/file", AccessMode::R_OK), may);
            let stat = ground.task.stat("/a/file").map(|stat| (stat.st_size, stat.st_nlink));
            (stat, may)
        };
        let asks = || {
            let before = HostFs::questions();
            let _ = look();
            HostFs::questions() > before
        };
        assert_eq!(often(look), (Ok((2, 2)), Ok(())));
        assert!(!(tells && asks()));
        for (script, seen) in [
            ("echo 22 > other/file", (Ok((3, 2)), Ok(()))),
            ("chmod 600 other/file", (Ok((3, 2)), Err(Errno::EACCES))),
            ("chmod 644 other/file; ln other/file third", (Ok((3, 3)), Ok(()))),
            ("mv third a/fourth", (Ok((3, 3)), Ok(()))),
            ("rm a/fourth other/file", (Ok((3, 1)), Ok(()))),
            ("echo 333 > a/file", (Ok((4, 1)), Ok(()))),
            ("mv a/file third", (Err(Errno::ENOENT), Err(Errno::ENOENT))),
            ("ln third a/file", (Ok((4, 2)), Ok(()))),
            ("echo 4444 > third", (Ok((5, 2)), Ok(()))),
            ("rm a/file; echo 1 > a/file", (Ok((2, 1)), Ok(()))),
        ] {
            elsewhere(ground, script);
            assert_eq!(often(look), seen, "{script}");
            let changed = fs::metadata(ground.host("a/file")).map(|stat| stat.ctime_nsec());
            let ours = ground.task.stat("/a/file").map(|stat| stat.st_ctime_nsec as i64);
            assert_eq!(ours.ok(), changed.ok(), "{script}");
            assert!(!(tells && asks()), "{script}");
        }
        // Who has it open by a name that is gone is told of by no directory that has one.
        elsewhere(ground, "rm a/file; echo 1 > other/gone; ln other/gone a/file");
        let opened = fs::File::options().append(true).open(ground.host("other/gone"));
        assert_eq!(often(look), (Ok((2, 2)), Ok(())));
        elsewhere(ground, "rm other/gone");
        assert_eq!(often(look), (Ok((2, 1)), Ok(())));
        opened.unwrap().write_all(b"22\n").unwrap();
        assert_eq!(often(look), (Ok((5, 1)), Ok(())));
    });
}

/// Of two who ask while it is written to, one may have begun to watch it when the other had asked already.
#[test]
fn what_was_asked_for_before_a_file_is_watched_is_not_believed() {
    let ground = ground(Coherence::Watched);
    elsewhere(&ground, "mkdir other");
    let (begin, end) = (Barrier::new(3), Barrier::new(3));
    let round = AtomicUsize::new(0);
    let (rounds, mut wrong) = (5000, 0);
    thread::scope(|scope| {
        for which in 0..2 {
            let (round, begin, end) = (&round, &begin, &end);
            let task = ground.task.thread();
            scope.spawn(move || {
                for _ in 0..rounds {
                    begin.wait();
                    for spelling in 0..3 {
                        let dots = "./".repeat(1 + which + 2 * spelling);
                        let path = format!("/a/{dots}{}", round.load(Relaxed));
                        let _ = task.access(path, AccessMode::empty());
                    }
                    end.wait();
                }
            });
        }
        for turn in 0..rounds {
            let [here, there] = ["a", "other"].map(|dir| ground.host(&format!("{dir}/{turn}")));
            fs::write(&there, "1").unwrap();
            fs::hard_link(&there, &here).unwrap();
            let mut file = fs::File::options().append(true).open(&there).unwrap();
            let size = || ground.task.stat(format!("/a/{turn}")).map(|stat| stat.st_size);
            for _ in 0..=turn % 3 {
                let _ = size();
            }
            round.store(turn, Relaxed);
            begin.wait();
            for _ in 0..turn * 7919 % 3000 {
                std::hint::spin_loop();
            }
            file.write_all(b"2").unwrap();
            end.wait();
            // Who fails here leaves the others waiting.
            wrong += u32::from(size() != Ok(2));
            for name in [here, there] {
                fs::remove_file(name).unwrap();
            }
        }
    });
    assert_eq!(wrong, 0);
}

#[test]
fn more_files_of_several_names_than_are_watched_are_answered_all_the_same() {
    let ground =
        with(HostOptions { coherence: Coherence::Watched, watches: 16, ..HostOptions::default() });
    elsewhere(&ground, "mkdir other; for i in $(seq 0 29); do echo 1 > a/$i; ln a/$i other; done");
    let size = |i: usize| ground.task.stat(format!("/a/{i}")).map(|stat| stat.st_size);
    let sizes = || (0..30).map(size).collect::<Vec<_>>();
    for turn in 0..40 {
        let mut expected = sizes();
        elsewhere(&ground, &format!("echo 22 >> other/{}", turn % 30));
        expected[turn % 30] = expected[turn % 30].map(|size| size + 3);
        assert_eq!(sizes(), expected, "{turn}");
    }
}

#[test]
fn more_directories_than_are_watched_are_answered_all_the_same() {
    let options =
        HostOptions { coherence: Coherence::Strict, watches: 3, ..HostOptions::default() };
    for coherence in [Coherence::Strict, Coherence::Watched] {
        let ground = with(HostOptions { coherence, ..options.clone() });
        for turn in 0..4 {
            for dir in 0..10 {
                let (path, other) = (format!("d{dir}/e/f{turn}"), format!("/d{dir}/e/g{turn}"));
                let there = || ground.task.access(format!("/{path}"), AccessMode::empty());
                assert_eq!(often(there), Err(Errno::ENOENT));
                elsewhere(&ground, &format!("mkdir -p d{dir}/e; touch {path}"));
                assert_eq!(often(there), Ok(()));
                elsewhere(&ground, &format!("mv {path} .{other}"));
                assert_eq!(often(there), Err(Errno::ENOENT));
                assert_eq!(often(|| ground.task.access(&other, AccessMode::empty())), Ok(()));
            }
        }
    }
}

/// What is mounted on the host below the directory is there, and gone when it is unmounted: lazily, as its directories are held.
#[test]
fn mounts_of_the_host_are_noticed() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: only root mounts something");
        return;
    }
    each(|ground| {
        let size = |path: &str| often(|| ground.task.stat(path).map(|stat| stat.st_size));
        fs::create_dir_all(ground.host("over/c")).unwrap();
        fs::write(ground.host("over/c/file"), "12345").unwrap();
        for _ in 0..3 {
            assert_eq!((size("/a/b/c/file"), size("/a/b/c/none")), (Ok(1), Err(Errno::ENOENT)));
            elsewhere(ground, "mount --bind over a/b");
            assert_eq!(size("/a/b/c/file"), Ok(5));
            elsewhere(ground, "echo > a/b/c/none");
            assert_eq!(size("/a/b/c/none"), Ok(1));
            elsewhere(ground, "umount -l a/b; rm over/c/none");
        }
    });
}

/// What is written to a file that is mounted on a name, is told where it has its own.
#[test]
fn what_becomes_of_a_mounted_file_is_noticed() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: only root mounts something");
        return;
    }
    each(|ground| {
        let size = || often(|| ground.task.stat("/a/b/c/file").map(|stat| stat.st_size));
        fs::write(ground.host("over"), "12345").unwrap();
        for _ in 0..3 {
            assert_eq!(size(), Ok(1));
            elsewhere(ground, "mount --bind over a/b/c/file");
            assert_eq!(size(), Ok(5));
            elsewhere(ground, "echo 123456 > over");
            assert_eq!(size(), Ok(7));
            elsewhere(ground, "printf 12345 > over");
            assert_eq!(size(), Ok(5));
            elsewhere(ground, "umount -l a/b/c/file");
        }
    });
}

#[test]
fn a_remembered_symlink_is_what_is_not_followed() {
    each(|ground| {
        let task = &ground.task;
        for (name, body) in [("c", "a/b/c"), ("nowhere", "a/none"), ("top", "/")] {
            symlink(body, ground.host(name)).unwrap();
            let path = &format!("/{name}");
            let followed = often(|| task.stat(path).map(|stat| stat.st_mode & S_IFMT));
            let there = if name == "nowhere" { Err(Errno::ENOENT) } else { Ok(S_IFDIR) };
            assert_eq!(followed, there, "{name}");
            let mode = often(|| task.lstat(path).map(|stat| stat.st_mode & S_IFMT));
            assert_eq!(mode, Ok(S_IFLNK), "{name}");
            let read = often(|| task.readlinkat(At::Cwd, path, &mut [0; 64]));
            assert_eq!(read, Ok(body.len()), "{name}");
            let opens = || task.open(path, OpenFlags::NOFOLLOW, 0).map(drop);
            assert_eq!(often(opens), Err(Errno::ELOOP), "{name}");
        }
        elsewhere(ground, "chmod 711 .");
        let mode = |path: &str| often(|| task.stat(path).map(|stat| stat.st_mode & 0o777));
        assert_eq!(mode("/top"), Ok(0o711), "the root is told about as it is");
    });
}

#[test]
fn watched_asks_whether_anything_happened() {
    let ground = ground(Coherence::Watched);
    let task = &ground.task;
    let look = || {
        assert!(task.access("/a/b/c/file", Default::default()).is_ok());
        assert_eq!(task.access("/a/b/c/none", Default::default()), Err(Errno::ENOENT));
    };
    look();
    look();
    assert_eq!(ground.calls(look), 2, "once for each walk");
    elsewhere(&ground, "touch a/elsewhere");
    assert!(ground.calls(look) > 2);
    look();
    assert_eq!(ground.calls(look), 2);
}

/// Who looks a name up is told what is believed from then on, and that it was asked for does not count: not of a directory, whose times
/// nobody tells of, nor of what has another name.
#[test]
fn what_is_believed_when_it_is_looked_up_counts_as_no_question() {
    let ground = ground(Coherence::Watched);
    if ground.fs.news().is_none() {
        return left_out("this file system does not tell of all");
    }
    for name in ["first", "file", "linked", "pair"] {
        fs::write(ground.host(name), "1").unwrap();
    }
    fs::hard_link(ground.host("linked"), ground.host("other")).unwrap();
    fs::hard_link(ground.host("pair"), ground.host("its-other")).unwrap();
    let asks = |path: &str| {
        let (before, calls) = (HostFs::questions(), ground.fs.host_calls());
        let size = ground.task.stat(path).map(|stat| stat.st_size);
        assert!(ground.fs.host_calls() > calls, "{path}");
        (size, HostFs::questions() > before)
    };
    // Whether the root has an ACL is asked as well.
    assert_eq!(asks("/first").0, Ok(1));
    assert_eq!(asks("/file"), (Ok(1), false));
    assert_eq!(asks("/absent"), (Err(Errno::ENOENT), false));
    assert_eq!(asks("/linked"), (Ok(1), true));
    let before = HostFs::questions();
    assert_eq!(ground.task.access("/pair", AccessMode::empty()), Ok(()));
    assert!(
        HostFs::questions() > before,
        "what has several names is not believed when it is looked up"
    );
    assert!(asks("/a").1);
    // It is told of.
    fs::write(ground.host("file"), "22").unwrap();
    assert_eq!(asks("/file"), (Ok(2), true));
}

/// What it is when it is found is believed until something is done to it, or in it.
#[test]
fn a_directory_is_watched_when_it_is_asked_about_where_that_is_said() {
    for watches_found in [false, true] {
        let ground = ground(Coherence::Watched);
        if ground.fs.news().is_none() {
            return left_out("this file system does not tell of all");
        }
        let looks = || looks_at_a_directory(&ground, watches_found);
        if watches_found { ground.fs.watching_found(looks) } else { looks() }
    }
}

fn looks_at_a_directory(ground: &Ground, watches_found: bool) {
    fs::create_dir(ground.host("d")).unwrap();
    let links = || ground.task.stat("/d").map(|stat| stat.st_nlink);
    // As many calls as before, but for those that ask about files.
    let asked = |f: &dyn Fn()| {
        let before = HostFs::questions();
        f();
        HostFs::questions() - before
    };
    assert_eq!(links(), Ok(2));
    assert_eq!(asked(&|| assert_eq!(links(), Ok(2))) == 0, watches_found);
    // One that was found before, too.
    ground.fs.watching_found(|| {
        assert_eq!([links(), links()], [Ok(2); 2]);
        assert_eq!(asked(&|| assert_eq!(links(), Ok(2))), 0);
    });
    elsewhere(ground, "mkdir d/below");
    assert_eq!(links(), Ok(3));
    elsewhere(ground, "rmdir d/below; chmod 700 d");
    assert_eq!(links(), Ok(2));
    assert_eq!(ground.task.stat("/d").map(|stat| stat.st_mode), Ok(0o40_700));
    elsewhere(ground, "mv d e; mkdir d d/below");
    assert_eq!(links(), Ok(3));
    elsewhere(ground, "rm -r d");
    assert_eq!(links(), Err(Errno::ENOENT));
}

/// Of names that differ in case alone, of which a directory of a host may have thousands, none is asked about for longer than another.
#[test]
fn names_of_one_sound_are_looked_up_as_others() {
    let ground = ground(Coherence::Watched);
    let spelt = |number: u32| -> String {
        let upper = |(at, letter): (usize, char)| {
            if number >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
        };
        "abcdefghijklm".chars().enumerate().map(upper).collect()
    };
    let plain = |number: u32| format!("{number:013}");
    let took = |dir: &str, name: &dyn Fn(u32) -> String| {
        fs::create_dir(ground.host(dir)).unwrap();
        (0..1 << 13).for_each(|number| {
            fs::write(ground.host(&format!("{dir}/{}", name(number))), "").unwrap()
        });
        let since = Instant::now();
        for number in 0..1 << 13 {
            ground.task.stat(format!("/{dir}/{}", name(number))).unwrap();
        }
        since.elapsed()
    };
    // What else the machine does may take longer than either.
    let tried: Vec<_> = (0..5)
        .map(|turn| (took(&format!("alike{turn}"), &spelt), took(&format!("others{turn}"), &plain)))
        .take_while(|&(alike, others)| alike >= 3 * others)
        .collect();
    assert!(tried.len() < 5, "names of one sound, and others: {tried:?}");
}

#[test]
fn lost_events_make_all_be_asked_about() {
    let ground = ground(Coherence::Watched);
    let task = &ground.task;
    assert_eq!(task.stat("/a/b/c/file").unwrap().st_size, 1);
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: u32 = limit.trim().parse().unwrap();
    // Two names in turn, so that no event is like the one before it.
    for _ in 0..limit / 4 + 10 {
        for name in ["a/b/c/x", "a/b/c/y"] {
            fs::write(ground.host(name), "").unwrap();
            fs::remove_file(ground.host(name)).unwrap();
        }
    }
    elsewhere(&ground, "echo 1234 > a/b/c/file; touch a/b/c/x");
    assert_eq!(task.stat("/a/b/c/file").unwrap().st_size, 5);
    assert!(task.stat("/a/b/c/x").is_ok());
}

#[test]
fn exclusive_believes_what_it_has_seen() {
    let ground = ground(Coherence::Exclusive);
    let task = &ground.task;
    assert_eq!(task.stat("/a/b/c/file").unwrap().st_size, 1);
    elsewhere(&ground, "echo 12345 > a/b/c/file");
    assert_eq!(task.stat("/a/b/c/file").unwrap().st_size, 1, "the promise was broken");
    // What is written by the host's descriptor is our own doing, and known.
    let file = task.open("/a/b/c/file", OpenFlags::RDWR, 0).unwrap();
    let native: fs::File = file.host_fd().unwrap().try_clone_to_owned().unwrap().into();
    native.set_len(100).unwrap();
    assert_eq!(task.stat("/a/b/c/file").unwrap().st_size, 100);
    assert_eq!(task.fstat(&file).unwrap().st_size, 100);
    native.set_len(50).unwrap();
    let by_name = task.fstatat(At::Cwd, "/a/b/c/file", AtFlags::empty()).unwrap();
    assert_eq!(by_name.st_size, 50);
}

/// The file system is asked about a directory, and says that not everyone may search it any more: that is the answer of this call.
#[test]
fn what_is_heard_of_a_directory_is_the_answer_of_the_call_that_heard_it() {
    let ground = ground(Coherence::Strict);
    if ground.host("").metadata().unwrap().uid() != 0 {
        eprintln!("not tried: only root has directories that somebody else may not search");
        return;
    }
    elsewhere(&ground, "chmod 755 .; mkdir d; ln -s d/. dl; ln -s d/.. du");
    let mut user = ground.task.fork();
    user.set_cred(Cred::user(1000, 1000));
    let look = |path: &str| user.stat(path).map(drop);
    for path in ["/d/.", "/dl", "/d/..", "/du"] {
        elsewhere(&ground, "chmod 755 d");
        (0..6).for_each(|_| assert_eq!(look(path), Ok(()), "{path}"));
        elsewhere(&ground, "chmod 700 d");
        (0..3).for_each(|_| assert_eq!(look(path), Err(Errno::EACCES), "{path}"));
    }
}

/// The inode stays while somebody holds it: what the lookup by the new name heard is of it.
#[test]
fn a_file_that_others_moved_is_told_about_as_it_is() {
    each(|ground| {
        let task = &ground.task;
        let file = task.open("/a/b/c/file", OpenFlags::RDONLY, 0).unwrap();
        let size = |path: &str| often(|| task.stat(path).map(|stat| stat.st_size));
        assert_eq!(size("/a/b/c/file"), Ok(1));
        elsewhere(ground, "mv a/b/c/file a/b/c/moved; echo 1234 > a/b/c/moved");
        assert_eq!(size("/a/b/c/moved"), Ok(5));
        assert_eq!(task.fstat(&file).unwrap().st_size, 5);
        elsewhere(ground, "mv a/b/c/moved a/b/c/file; chmod 640 a/b/c/file");
        let mode = |path: &str| often(|| task.stat(path).map(|stat| stat.st_mode & 0o777));
        assert_eq!(mode("/a/b/c/file"), Ok(0o640));
    });
}

/// The inode stays while somebody holds it: the first walk by the new name goes by what the file is like now.
#[test]
fn a_file_that_others_moved_may_be_read_by_whom_they_let() {
    each(|ground| {
        let task = &ground.task;
        if ground.host("").metadata().unwrap().uid() != 0 {
            eprintln!("not tried: only root has files that somebody else may not read");
            return;
        }
        elsewhere(ground, "chmod 755 .; chmod 600 a/b/c/file");
        let mut user = task.fork();
        user.set_cred(Cred::user(1000, 1000));
        let may = |path: &str| user.access(path, AccessMode::R_OK);
        let _file = task.open("/a/b/c/file", OpenFlags::RDONLY, 0).unwrap();
        assert_eq!(often(|| may("/a/b/c/file")), Err(Errno::EACCES));
        elsewhere(ground, "mv a/b/c/file a/b/c/moved; chmod 644 a/b/c/moved");
        assert_eq!(often(|| may("/a/b/c/moved")), Ok(()));
        elsewhere(ground, "mv a/b/c/moved a/b/c/file; chmod 600 a/b/c/file");
        assert_eq!(often(|| may("/a/b/c/file")), Err(Errno::EACCES));
    });
}

/// The root has no name in the tree: of what becomes of it the directory tells that it lies in.
#[test]
fn the_root_is_told_about_as_others_make_it() {
    let check = |ground: &Ground, believes: bool| {
        let task = &ground.task;
        let held = fs::File::open(ground.host("")).unwrap();
        let native = || {
            let stat = held.metadata().unwrap();
            (u64::from(stat.mode()), stat.nlink(), stat.size(), stat.mtime(), stat.ctime_nsec())
        };
        let told = || {
            often(|| {
                let stat = task.stat("/").unwrap();
                let mode = u64::from(stat.st_mode);
                let times = (stat.st_mtime, i64::try_from(stat.st_ctime_nsec).unwrap());
                (mode, stat.st_nlink, stat.st_size as u64, times.0, times.1)
            })
        };
        let here = ground.host("").display().to_string();
        let here = here.trim_end_matches('/');
        let away = format!("{here}.away");
        let turn = [
            "chmod 711 .".to_owned(),
            "mkdir new".to_owned(),
            "rmdir new; touch -d @1000000000 .".to_owned(),
            format!("mv {here} {away}"),
            format!("chmod 755 {away}; touch {away}/file"),
            format!("mv {away} {here}; rm {here}/file"),
            format!("mkdir {away}; mv {here} {away}/below"),
            format!("mv {away}/below {here}; rmdir {away}"),
        ];
        for change in turn.iter().cycle().take(3 * turn.len()) {
            assert_eq!(told(), native());
            let mut other = Command::new("sh");
            other.args(["-ec", change]).current_dir(format!("/proc/self/fd/{}", held.as_raw_fd()));
            assert!(other.status().unwrap().success(), "{change}");
            assert_eq!(told(), native(), "{change}");
        }
        // Nobody asks what is believed.
        let before = HostFs::questions();
        told();
        assert!(HostFs::questions() == before || !believes);
        elsewhere(ground, "rm -r *");
        assert_eq!(told(), native());
        assert!(Command::new("rmdir").arg(here).status().unwrap().success());
        assert_eq!(told(), native());
        assert_eq!(native().1, 0);
        fs::create_dir(here).unwrap();
        assert_eq!(told(), native());
    };
    check(&ground(Coherence::Watched), true);
    check(&ground(Coherence::Strict), false);
    check(&unwatched(), false);
}

/// What others do in the directory that the root lies in is no news for long where there is much of it.
#[test]
fn what_is_done_above_the_root_is_heard_of_seldom() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let options = HostOptions { coherence: Coherence::Watched, ..HostOptions::default() };
    let host = HostFs::with_options(root.as_os_str().as_bytes(), options).unwrap();
    let vfs = Vfs::new(Config::default(), Arc::clone(&host) as Arc<dyn FileSystem>).unwrap();
    let task = vfs.task(Cred::root());
    let heard = (0..400).filter(|_| {
        assert!(task.stat("/").unwrap().st_nlink > 0);
        fs::write(dir.path().join("other"), "").unwrap();
        fs::remove_file(dir.path().join("other")).unwrap();
        let news = host.news().unwrap();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(news, PollFlags::IN)], Some(&at_once)) == Ok(1)
    });
    let heard = heard.count();
    assert!((1..150).contains(&heard), "{heard}");
    fs::remove_dir(&root).unwrap();
    assert_eq!(task.stat("/").unwrap().st_nlink, 0);
}
