//! What a file system may rely on: it is asked once, for one step, with no lock held, and believed afterwards.

mod common;

use common::{sample::SampleFs, watched};
use pathwalk::{
    AccessMode, At, AtFlags, Config, Cred, Errno, FileType, InodeFlags, InotifyFlags, InotifyMask,
    MemFs, MountFlags, OpenFlags, RenameFlags, ResolveFlags, Result, Subject, Task, Timespec, Vfs,
    fs::{Features, FileSystem, Found},
};
use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Barrier, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

fn machine(features: Features) -> (Arc<SampleFs>, Task) {
    let fs = SampleFs::new(features);
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let task = vfs.task(Cred::root());
    (fs, task)
}

fn asked(counter: &AtomicU64) -> u64 {
    counter.swap(0, Relaxed)
}

const DIR: FileType = FileType::Directory;
const FILE: FileType = FileType::Regular;

#[test]
fn many_threads_that_miss_one_name_make_one_call() {
    watched(|| {
        let (fs, task) = machine(Features::empty());
        fs.appear("there", FILE, 0o644, "");
        for (name, want) in [("/there", Ok(())), ("/absent", Err(Errno::ENOENT))] {
            fs.hold(Some(&name[1..]));
            let start = Barrier::new(9);
            thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            task.stat(name).map(drop)
                        })
                    })
                    .collect();
                start.wait();
                fs.until_held();
                // Most of them wait for the answer now; those that come later find it.
                thread::sleep(Duration::from_millis(20));
                fs.hold(None);
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), want);
                }
            });
            assert_eq!(asked(&fs.calls.lookup), 1, "{name}");
        }
    });
}

#[test]
fn answers_are_cached_and_negative_ones_too_until_shrink_drops_them() {
    let (fs, task) = machine(Features::empty());
    fs.appear("there", FILE, 0o644, "");
    let empty = task.vfs().usage();
    for _ in 0..3 {
        assert_eq!(task.stat("/there").map(drop), Ok(()));
        assert_eq!(task.stat("/absent").map(drop), Err(Errno::ENOENT));
    }
    assert_eq!(asked(&fs.calls.lookup), 2);
    assert_eq!(task.vfs().usage().dentries, empty.dentries + 2);
    assert_eq!(task.vfs().shrink(1000), 2);
    assert_eq!(task.vfs().usage().dentries, empty.dentries);
    assert_eq!(task.vfs().usage().inodes, empty.inodes);
    assert_eq!(asked(&fs.calls.evict), 1);
    assert_eq!(task.stat("/absent").map(drop), Err(Errno::ENOENT));
    assert_eq!(asked(&fs.calls.lookup), 1);
}

#[test]
fn what_somebody_holds_is_not_dropped() {
    let (fs, task) = machine(Features::empty());
    fs.appear("held", DIR, 0o755, "");
    let dir = task.open("/held", OpenFlags::PATH, 0).unwrap();
    assert_eq!(task.vfs().shrink(1000), 0);
    drop(dir);
    assert_eq!(task.vfs().shrink(1000), 1);
}

#[test]
fn a_symlinks_body_is_asked_for_once() {
    let (fs, task) = machine(Features::empty());
    fs.appear("there", FILE, 0o644, "");
    fs.appear("link", FileType::Symlink, 0o777, "there");
    let mut body = [0; 8];
    for _ in 0..3 {
        assert_eq!(task.stat("/link").map(|stat| stat.st_mode), Ok(0o100_644));
        assert_eq!(task.readlink("/link", &mut body), Ok(5));
        assert_eq!(&body[..5], b"there");
    }
    assert_eq!(asked(&fs.calls.readlink), 1);
}

/// The ACL is asked for where it may decide, once, and from then on kept in the cache.
#[test]
fn acls_are_asked_for_once() {
    let (fs, root) = machine(Features::POSIX_ACL);
    fs.appear("d", DIR, 0o755, "");
    fs.appear("closed", DIR, 0o700, "");
    fs.set_acls("closed", common::lookups::acl(0o700, 1000..1001, 5));
    let task = root.vfs().task(Cred::user(1000, 1000));
    for _ in 0..3 {
        assert_eq!(task.stat("/d/x").map(drop), Err(Errno::ENOENT));
        assert_eq!(task.stat("/closed/x").map(drop), Err(Errno::ENOENT));
        assert_eq!(task.access("/closed", AccessMode::W_OK), Err(Errno::EACCES));
    }
    // The root, and each of the two.
    assert_eq!(asked(&fs.calls.acls), 3);
    root.chmod("/closed", 0o740).unwrap();
    assert_eq!(task.stat("/closed/x").map(drop), Err(Errno::EACCES));
    assert_eq!(task.access("/closed", AccessMode::R_OK), Ok(()));
    root.chmod("/closed", 0o750).unwrap();
    while root.vfs().shrink(1000) != 0 {}
    // What was set was set in the file system too.
    assert_eq!(task.stat("/closed/x").map(drop), Err(Errno::ENOENT));
    assert_eq!(asked(&fs.calls.acls), 1);
    let mut list = [0; 1000];
    assert_eq!(root.getxattr("/closed", "system.posix_acl_access", &mut list), Ok(4 + 5 * 8));
    assert_eq!(root.getxattr("/closed", "user.a", &mut list), Err(Errno::EOPNOTSUPP));
}

/// What was told last is of after the call began: nobody waits until others leave it alone.
#[test]
fn acls_that_others_change_all_the_time_decide_all_the_same() {
    let (fs, root) = machine(Features::POSIX_ACL);
    fs.appear("d", DIR, 0o700, "");
    let user = root.vfs().task(Cred::user(1000, 1000));
    fs.restless.store(true, Relaxed);
    let mut value = [0; 100];
    for (access, want) in [(5, Errno::ENOENT), (0, Errno::EACCES), (5, Errno::ENOENT)] {
        fs.set_acls("d", common::lookups::acl(0o700, 1000..1001, access));
        assert_eq!(user.access("/d/x", AccessMode::empty()), Err(want));
        assert_eq!(root.getxattr("/d", "system.posix_acl_access", &mut value), Ok(4 + 5 * 8));
    }
    fs.restless.store(false, Relaxed);
    assert_eq!(user.access("/d/x", AccessMode::empty()), Err(Errno::ENOENT));
    asked(&fs.calls.acls);
    assert_eq!(user.access("/d/x", AccessMode::empty()), Err(Errno::ENOENT));
    assert_eq!(asked(&fs.calls.acls), 0);
}

/// For the owner, and for who may read everything, it is not asked for; who searches is answered by a flag later, which says that there is none.
#[test]
fn an_acl_that_decides_nothing_is_not_asked_for() {
    let (fs, root) = machine(Features::POSIX_ACL);
    fs.appear("d", DIR, 0o750, "");
    fs.set_acls("d", common::lookups::acl(0o750, 1000..1001, 4));
    assert_eq!(root.access("/d", AccessMode::R_OK), Ok(()));
    // That of the directory that was searched.
    assert_eq!(asked(&fs.calls.acls), 1);
    let user = root.vfs().task(Cred::user(1000, 1000));
    assert_eq!(user.access("/d", AccessMode::R_OK), Ok(()));
    assert_eq!(asked(&fs.calls.acls), 1);
    assert_eq!(root.access("/d", AccessMode::X_OK), Ok(()));
    assert_eq!(user.access("/d", AccessMode::X_OK), Err(Errno::EACCES));
    assert_eq!(user.access("/d", AccessMode::W_OK), Err(Errno::EACCES));
    assert_eq!(asked(&fs.calls.acls), 0);
}

/// Linux: `retry_estale`: every call that looks something up is made once more.
#[test]
fn a_stale_answer_is_asked_for_once_more() {
    type Call = fn(&Task) -> Result<(), Errno>;
    let calls: &[(&str, Call)] = &[
        ("stat", |task| task.stat("/d/there").map(drop)),
        ("open", |task| task.open("/d/there", OpenFlags::PATH, 0).map(drop)),
        ("open to make", |task| task.creat("/d/new", 0o644).map(drop)),
        ("mkdir", |task| task.mkdir("/d/new", 0o755)),
        ("symlink", |task| task.symlink("x", "/d/new")),
        ("link", |task| task.link("/there", "/d/new")),
        ("unlink", |task| task.unlink("/d/there")),
        ("rename", |task| task.rename("/d/there", "/d/new")),
        ("rename to", |task| task.rename("/there", "/d/new")),
    ];
    for (name, call) in calls {
        let (fs, task) = machine(Features::empty());
        task.mkdir("/d", 0o755).unwrap();
        for file in ["/there", "/d/there"] {
            task.creat(file, 0o644).unwrap();
        }
        task.vfs().shrink(1000);
        task.stat("/d").unwrap();
        task.stat("/there").unwrap();
        fs.stale.store(1, Relaxed);
        assert_eq!(call(&task), Ok(()), "{name}: stale once");
        assert_eq!(fs.stale.load(Relaxed), 0, "{name}: it was asked");
    }
    // Only once more: a file system that says so for ever does not keep the caller for ever.
    let (fs, task) = machine(Features::empty());
    fs.stale.store(u64::MAX, Relaxed);
    assert_eq!(task.stat("/x").map(drop), Err(Errno::ESTALE));
    assert_eq!(task.mkdir("/x", 0o755), Err(Errno::ESTALE));
    assert!(asked(&fs.calls.lookup) <= 6);
}

#[test]
fn a_name_that_no_longer_holds_is_asked_for_anew() {
    let (fs, task) = machine(Features::REVALIDATE);
    fs.appear("name", FILE, 0o644, "");
    assert_eq!(task.stat("/name").map(|stat| stat.st_ino), Ok(2));
    assert_eq!(asked(&fs.calls.lookup), 1);
    assert_eq!(task.stat("/name").map(|stat| stat.st_ino), Ok(2));
    assert!(asked(&fs.calls.revalidate) >= 1);
    assert_eq!(asked(&fs.calls.lookup), 0);
    // Another client replaces it.
    fs.appear("name", FILE, 0o600, "");
    fs.valid.store(false, Relaxed);
    assert_eq!(task.stat("/name").map(|stat| stat.st_ino), Ok(3));
    assert_eq!(asked(&fs.calls.lookup), 1);
    // Takes it away, and makes another.
    fs.vanish("name");
    assert_eq!(task.stat("/name").map(drop), Err(Errno::ENOENT));
    fs.appear("name", FILE, 0o600, "");
    assert_eq!(task.stat("/name").map(|stat| stat.st_ino), Ok(4));
}

/// Linux: `LOOKUP_REVAL`.
#[test]
fn who_asks_anew_is_told_what_is_there_now() {
    let (fs, task) = machine(Features::REVALIDATE);
    fs.appear("name", FILE, 0o644, "");
    let anew = || task.fstatat(At::Cwd.anew(), "/name", AtFlags::empty()).map(|stat| stat.st_ino);
    assert_eq!(anew(), Ok(2));
    assert_eq!((asked(&fs.calls.lookup_anew), asked(&fs.calls.revalidate_anew)), (1, 0));
    assert_eq!(anew(), Ok(2));
    assert_eq!((asked(&fs.calls.lookup_anew), asked(&fs.calls.revalidate_anew)), (0, 1));
    assert_eq!(task.stat("/name").map(|stat| stat.st_ino), Ok(2));
    assert_eq!((asked(&fs.calls.lookup_anew), asked(&fs.calls.revalidate_anew)), (0, 0));
    // Also within bounds, whichever was said first.
    fs.appear("dir", DIR, 0o755, "");
    let dir = task.open("/dir", OpenFlags::PATH, 0).unwrap();
    let beneath = ResolveFlags::BENEATH;
    for at in [At::Dir(&dir).resolve(beneath).anew(), At::Dir(&dir).anew().resolve(beneath)] {
        assert_eq!(task.fstatat(at, "../name", AtFlags::empty()).map(drop), Err(Errno::EXDEV));
        assert_eq!(task.openat(at, "../name", OpenFlags::PATH, 0).map(drop), Err(Errno::EXDEV));
        assert_eq!(task.fstatat(at, "none", AtFlags::empty()).map(drop), Err(Errno::ENOENT));
        assert_eq!(asked(&fs.calls.lookup_anew) + asked(&fs.calls.revalidate_anew), 1);
    }
}

/// What is wrong with the flags is said before, and what with the first of two paths.
#[test]
fn who_begins_nowhere_is_told_so_when_it_comes_to_the_path() {
    let task = Vfs::new(Config::default(), MemFs::builder().build()).unwrap().task(Cred::root());
    task.mkdir("/d", 0o755).unwrap();
    let unknown = AtFlags::from_bits_retain(1);
    let long = "n".repeat(256);
    let nowhere = At::Nowhere(Errno::EFAULT);
    for at in [nowhere, nowhere.anew(), nowhere.resolve(ResolveFlags::BENEATH)] {
        for path in ["d", "/d", "", &*long] {
            let empty = AtFlags::EMPTY_PATH;
            for (flags, errno) in [(empty, Errno::EFAULT), (empty | unknown, Errno::EINVAL)] {
                assert_eq!(task.fstatat(at, path, flags).map(drop), Err(errno), "{path:?}");
                assert_eq!(task.fchmodat2(at, path, 0, flags), Err(errno), "{path:?}");
                assert_eq!(task.linkat(at, path, At::Cwd, "new", flags), Err(errno), "{path:?}");
                assert_eq!(task.open_exec(at, path, flags).map(drop), Err(errno), "{path:?}");
            }
            assert_eq!(task.mkdirat(at, path, 0o755), Err(Errno::EFAULT), "{path:?}");
            assert_eq!(task.openat(at, path, OpenFlags::PATH, 0).map(drop), Err(Errno::EFAULT));
        }
        let moves = |old: &str| task.renameat2(At::Cwd, old, at, "new", RenameFlags::empty());
        assert_eq!(moves("none/none"), Err(Errno::ENOENT));
        assert_eq!(moves(&format!("{long}/x")), Err(Errno::ENAMETOOLONG));
        assert_eq!(moves("d"), Err(Errno::EFAULT));
    }
}

/// What is mounted on or below a name that no longer holds goes with it, in all namespaces. Linux: `d_invalidate`.
#[test]
fn mounts_on_and_below_a_name_that_no_longer_holds_are_taken_down() {
    let (fs, task) = machine(Features::REVALIDATE);
    for name in ["dir", "file", "other"] {
        fs.appear(name, if name == "file" { FILE } else { DIR }, 0o755, "");
    }
    task.mkdir("/dir/sub", 0o755).unwrap();
    let mount = |path| task.mount(MemFs::new(), path, MountFlags::empty());
    mount("/dir/sub").unwrap();
    task.mkdir("/dir/sub/inner", 0o755).unwrap();
    mount("/dir/sub/inner").unwrap();
    mount("/other").unwrap();
    task.creat("/other/f", 0o644).unwrap();
    task.bind("/other/f", "/file").unwrap();
    let mut elsewhere = task.fork();
    elsewhere.unshare_mounts().unwrap();
    let held = task.open("/dir/sub/inner", OpenFlags::PATH, 0).unwrap();
    let inside = task.fork();
    inside.chdir("/dir").unwrap();
    let mounts = |task: &Task| pathwalk::mountinfo(task).iter().filter(|&&b| b == b'\n').count();
    assert_eq!((mounts(&task), mounts(&elsewhere)), (5, 5));
    fs.valid.store(false, Relaxed);
    // A file.
    assert_eq!(task.stat("/file").map(|stat| stat.st_size), Ok(0));
    assert_eq!((mounts(&task), mounts(&elsewhere)), (4, 4));
    // What lies below a directory; it is found anew, without what was cached of it.
    assert_eq!(task.stat("/dir").map(drop), Ok(()));
    assert_eq!((mounts(&task), mounts(&elsewhere)), (2, 2));
    assert_eq!(task.fstatat(&held, "..", AtFlags::empty()).map(drop), Ok(()), "held, it goes on");
    // The mountpoint itself, which is gone.
    fs.vanish("other");
    assert_eq!(elsewhere.stat("/other").map(drop), Err(Errno::ENOENT));
    assert_eq!((mounts(&task), mounts(&elsewhere)), (1, 1));
    // Below what was dropped nothing is mounted any more.
    let new = inside.mount(MemFs::new(), "sub", MountFlags::empty());
    assert_eq!(new, Err(Errno::ENOENT));
    drop((held, inside));
    // The two roots, and the bottom of the second namespace.
    assert_eq!(task.vfs().usage().mounts, 3);
}

/// Calls that change a name ask whether what is cached of it still holds, as lookups do.
#[test]
fn changes_do_not_trust_a_name_that_no_longer_holds() {
    let (fs, task) = machine(Features::REVALIDATE);
    fs.appear("gone", FILE, 0o644, "");
    assert_eq!(task.stat("/gone").map(drop), Ok(()));
    assert_eq!(task.stat("/came").map(drop), Err(Errno::ENOENT));
    fs.vanish("gone");
    fs.appear("came", FILE, 0o644, "");
    fs.valid.store(false, Relaxed);
    assert_eq!(task.mkdir("/came", 0o755), Err(Errno::EEXIST));
    assert_eq!(task.unlink("/gone"), Err(Errno::ENOENT));
    assert_eq!(task.rename("/gone", "/elsewhere"), Err(Errno::ENOENT));
    assert_eq!(task.unlink("/came"), Ok(()));
}

#[test]
fn a_rename_asks_about_the_new_name_when_the_old_one_is_there() {
    // In either order of the names: that is the order in which they are reserved.
    for (old, new) in [("/a", "/b"), ("/b", "/a")] {
        let (fs, task) = machine(Features::REVALIDATE);
        assert_eq!(task.rename(old, new), Err(Errno::ENOENT));
        assert_eq!(asked(&fs.calls.lookup), 1, "{old}");
        // Both are cached, and what is said of the old one is stale: it is asked about once more.
        fs.appear(&new[1..], FILE, 0o644, "");
        task.stat(new).unwrap();
        let _ = task.stat(old);
        asked(&fs.calls.lookup);
        asked(&fs.calls.revalidate);
        assert_eq!(task.rename(old, new), Err(Errno::ENOENT));
        assert_eq!((asked(&fs.calls.lookup), asked(&fs.calls.revalidate)), (0, 1), "{old}");
        fs.vanish(&new[1..]);
        fs.appear(&old[1..], FILE, 0o644, "");
        fs.valid.store(false, Relaxed);
        assert_eq!(task.rename(old, new), Ok(()), "{old}");
        fs.valid.store(true, Relaxed);
        assert_eq!(
            (task.stat(new).map(drop), task.stat(old).map(drop)),
            (Ok(()), Err(Errno::ENOENT))
        );
    }
}

#[test]
fn a_rename_that_waits_for_the_old_name_holds_up_nobody_who_looks_for_the_new_one() {
    watched(|| {
        for (old, new) in [("/a", "/b"), ("/b", "/a")] {
            for somebody_has_it in [false, true] {
                let (fs, task) = machine(Features::empty());
                fs.appear(&old[1..], FILE, 0o644, "");
                fs.hold(Some(&old[1..]));
                thread::scope(|scope| {
                    let unlinking = somebody_has_it.then(|| scope.spawn(|| task.unlink(old)));
                    if somebody_has_it {
                        fs.until_held();
                    }
                    let renaming = scope.spawn(|| task.rename(old, new));
                    if somebody_has_it {
                        thread::sleep(Duration::from_millis(50));
                    } else {
                        fs.until_held();
                    }
                    assert_eq!(task.stat(new).map(drop), Err(Errno::ENOENT), "{old} {new}");
                    fs.hold(None);
                    let renamed = renaming.join().unwrap();
                    match unlinking.map(|it| it.join().unwrap()) {
                        None => assert_eq!(renamed, Ok(())),
                        // Either may come first.
                        Some(unlinked) => assert!(unlinked.is_ok() != renamed.is_ok()),
                    }
                });
            }
        }
    });
}

/// In a complete directory a rename has an absent name reserved without a dentry.
#[test]
fn a_name_that_a_file_is_being_renamed_to_is_nobody_elses() {
    watched(|| {
        for (old, new) in [("/a", "/b"), ("/b", "/a")] {
            // The first two are refused, the others do something with what came there.
            for other in 0..5 {
                let (fs, task) = machine(Features::COMPLETE);
                for name in [old, "/0", "/c", "/e"] {
                    task.creat(name, 0o644).unwrap();
                }
                let renamed = task.stat(old).unwrap().st_ino;
                fs.hold(Some(&old[1..]));
                thread::scope(|scope| {
                    let renaming = scope.spawn(|| task.rename(old, new));
                    fs.until_held();
                    let others: Vec<_> = (0..2)
                        .map(|_| {
                            scope.spawn(|| match other {
                                0 => task.mkdir(new, 0o755),
                                1 => task.link("/c", new),
                                2 => task.open(new, OpenFlags::CREAT, 0o644).map(drop),
                                // Whose name comes before, or behind it; for one of the two it is gone by then.
                                3 => task.rename("/0", new).or(Ok(())),
                                _ => task.rename("/c", new).or(Ok(())),
                            })
                        })
                        .collect();
                    thread::sleep(Duration::from_millis(20));
                    assert!(others.iter().all(|thread| !thread.is_finished()), "{new} {other}");
                    // Who only looks does not wait, nor who renames something else in that directory.
                    assert_eq!(task.stat(new).map(drop), Err(Errno::ENOENT));
                    assert_eq!(task.stat(old).map(|stat| stat.st_ino), Ok(renamed));
                    assert_eq!(task.rename("/e", "/f"), Ok(()));
                    fs.hold(None);
                    assert_eq!(renaming.join().unwrap(), Ok(()));
                    let want = if other < 2 { Err(Errno::EEXIST) } else { Ok(()) };
                    for thread in others {
                        assert_eq!(thread.join().unwrap(), want, "{new} {other}");
                    }
                });
                assert_eq!(task.stat(new).unwrap().st_ino == renamed, other < 3);
                assert_eq!(task.stat(old).map(drop), Err(Errno::ENOENT));
                assert_eq!(task.mkdir(old, 0o755), Ok(()), "nothing is reserved any more");
            }
        }
    });
}

#[test]
fn a_name_is_free_when_the_rename_to_it_panicked_or_was_refused() {
    let (fs, task) = machine(Features::COMPLETE);
    task.mkdir("/a", 0o755).unwrap();
    fs.panics.store(true, Relaxed);
    let rename = || task.rename("/a", "/b");
    assert!(panic::catch_unwind(AssertUnwindSafe(rename)).is_err());
    fs.panics.store(false, Relaxed);
    let user = task.vfs().task(Cred::user(1000, 1000));
    assert_eq!(user.rename("/a", "/b"), Err(Errno::EACCES));
    watched(move || {
        assert_eq!(task.mkdir("/b", 0o755), Ok(()));
        assert_eq!(task.rmdir("/b"), Ok(()));
        assert_eq!(task.rename("/a", "/b"), Ok(()));
    });
}

#[test]
fn permission_is_the_file_systems_to_decide_unless_it_opts_out() {
    for (features, calls_of_a_hit) in [
        (Features::empty(), 0),
        (Features::PERMISSION | Features::MAY_EXEC, 0),
        (Features::PERMISSION, 2),
    ] {
        let (fs, task) = machine(features);
        fs.appear("open", DIR, 0o755, "");
        fs.appear("shut", DIR, 0o700, "");
        task.creat("/open/file", 0o644).unwrap();
        task.creat("/shut/file", 0o644).unwrap();
        let user = task.vfs().task(Cred::user(1000, 1000));
        asked(&fs.calls.permission);
        // Two directories are searched: `/` and `/open`.
        assert_eq!(user.stat("/open/file").map(drop), Ok(()));
        assert_eq!(asked(&fs.calls.permission), calls_of_a_hit, "{features:?}");
        // A directory that not everyone may search is asked about in any case.
        assert_eq!(user.stat("/shut/file").map(drop), Err(Errno::EACCES));
        if features.contains(Features::PERMISSION) {
            assert!(asked(&fs.calls.permission) > 0, "{features:?}");
            assert_eq!(user.access("/open/file", AccessMode::R_OK), Ok(()));
            assert!(asked(&fs.calls.permission) > 0, "{features:?}: access asks about the file");
            // It may hide it from some: walked, walked to be remembered, and remembered.
            for _ in 0..4 {
                assert_eq!(user.access("/open/file", AccessMode::empty()), Ok(()));
                assert!(asked(&fs.calls.permission) > 0, "{features:?}: also whether it is there");
            }
        }
        // And a chmod is felt at once.
        assert_eq!(task.chmod("/open", 0o700), Ok(()));
        assert_eq!(user.stat("/open/file").map(drop), Err(Errno::EACCES));
        assert_eq!(task.chmod("/open", 0o711), Ok(()));
        assert_eq!(user.stat("/open/file").map(drop), Ok(()));
    }
}

#[test]
fn what_is_changed_through_it_is_seen_at_once() {
    let (fs, task) = machine(Features::empty());
    assert_eq!(task.stat("/d").map(drop), Err(Errno::ENOENT));
    assert_eq!(task.mkdir("/d", 0o755), Ok(()));
    assert_eq!(task.stat("/d").map(|stat| stat.st_nlink), Ok(2));
    assert_eq!(task.stat("/").map(|stat| stat.st_nlink), Ok(3));
    assert_eq!(task.creat("/d/a", 0o644).map(drop), Ok(()));
    assert_eq!(task.link("/d/a", "/d/b"), Ok(()));
    assert_eq!(task.stat("/d/a").map(|stat| stat.st_nlink), Ok(2));
    assert_eq!(task.rename("/d/b", "/c"), Ok(()));
    assert_eq!(task.stat("/d/b").map(drop), Err(Errno::ENOENT));
    assert_eq!(task.rmdir("/d"), Err(Errno::ENOTEMPTY));
    assert_eq!(task.unlink("/d/a"), Ok(()));
    assert_eq!(task.stat("/c").map(|stat| stat.st_nlink), Ok(1));
    assert_eq!(task.rmdir("/d"), Ok(()));
    assert_eq!(task.stat("/d").map(drop), Err(Errno::ENOENT));
    assert_eq!(task.mkdir("/d", 0o755), Ok(()), "what was removed can be made again");
    assert_eq!(task.mkdir("/e", 0o755), Ok(()));
    assert_eq!(task.rename("/d", "/e"), Ok(()), "an empty directory is replaced");
    assert_eq!(task.stat("/").map(|stat| stat.st_nlink), Ok(3));
    assert_eq!(task.rename("/e", "/e/below"), Err(Errno::EINVAL));
    // None of it asked about what the calls themselves had said.
    asked(&fs.calls.lookup);
    for path in ["/c", "/e"] {
        assert_eq!(task.stat(path).map(drop), Ok(()));
    }
    assert_eq!(asked(&fs.calls.lookup), 0);
    let root = task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
    let listed = common::tree::list(&task, &root, 64).unwrap();
    let names: Vec<&[u8]> = listed.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, [&b"."[..], b"..", b"c", b"e"]);
}

/// Runs `f` while a call about `name` is under way in the file system: `f` must not wait for it.
fn during(
    fs: &SampleFs,
    name: &str,
    slow: impl FnOnce() -> Result<(), Errno> + Send,
    f: impl FnOnce(),
) {
    /// Lets it go on, also where `f` fails.
    struct LetGo<'a>(&'a SampleFs);

    impl Drop for LetGo<'_> {
        fn drop(&mut self) {
            self.0.hold(None);
        }
    }

    fs.hold(Some(name));
    thread::scope(|scope| {
        let slow = scope.spawn(slow);
        fs.until_held();
        let let_go = LetGo(fs);
        f();
        assert!(!slow.is_finished());
        drop(let_go);
        assert_eq!(slow.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_slow_call_holds_up_no_other_name() {
    type Call = fn(&Task) -> Result<(), Errno>;
    let calls: &[(&str, Call)] = &[
        ("a lookup", |task| task.stat("/d/slow").map(drop)),
        ("a removal", |task| task.unlink("/d/slow")),
        ("a link", |task| task.link("/d/other", "/e/slow")),
        ("a creation", |task| task.mkdir("/e/slow", 0o755)),
        ("a rename in place", |task| task.rename("/d/slow", "/d/moved")),
        ("a rename to elsewhere", |task| task.rename("/d/slow", "/e/moved")),
        ("a rename onto it", |task| task.rename("/d/other", "/e/slow")),
        ("a removal of a directory", |task| task.rmdir("/d/x/slow")),
    ];
    for &(what, call) in calls {
        println!("{what}");
        watched(move || {
            let (fs, task) = machine(Features::empty());
            for dir in ["/d", "/d/x", "/d/x/slow", "/e"] {
                task.mkdir(dir, 0o755).unwrap();
            }
            for file in ["/d/slow", "/d/other", "/d/x/file"] {
                task.creat(file, 0o644).unwrap();
            }
            // What it is about must be asked for too.
            task.vfs().shrink(1000);
            let task = &task;
            during(
                &fs,
                "slow",
                || call(task),
                || {
                    assert_eq!(task.stat("/d/none").map(drop), Err(Errno::ENOENT));
                    assert_eq!(task.stat("/d/x/file").map(drop), Ok(()));
                    assert_eq!(task.creat("/d/made", 0o644).map(drop), Ok(()));
                    assert_eq!(task.rename("/d/made", "/d/name"), Ok(()));
                    assert_eq!(task.rename("/d/name", "/e/name"), Ok(()), "{what}");
                    assert_eq!(task.unlink("/e/name"), Ok(()));
                    assert_eq!(task.mkdir("/e/dir", 0o755), Ok(()));
                    assert_eq!(task.rmdir("/e/dir"), Ok(()));
                    assert_eq!(task.chmod("/d", 0o700), Ok(()));
                    assert_eq!(task.mount(MemFs::new(), "/d/x", MountFlags::empty()), Ok(()));
                    assert_eq!(task.umount2("/d/x", pathwalk::UmountFlags::empty()), Ok(()));
                    let dir = task.open("/d", OpenFlags::DIRECTORY, 0).unwrap();
                    assert!(common::tree::list(task, &dir, 512).unwrap().len() >= 3);
                },
            );
        });
    }
}

/// Who sees a name goes on seeing it while somebody takes it away slowly.
#[test]
fn a_slow_removal_hides_nothing_before_it_is_done() {
    watched(|| {
        let (fs, task) = machine(Features::empty());
        task.creat("/slow", 0o644).unwrap();
        during(
            &fs,
            "slow",
            || task.unlink("/slow"),
            || {
                assert_eq!(task.stat("/slow").map(|stat| stat.st_nlink), Ok(1));
            },
        );
        assert_eq!(task.stat("/slow").map(drop), Err(Errno::ENOENT));
    });
}

/// What is remembered to be missing in a directory goes with it, at the latest with its file system.
#[test]
fn a_removed_directory_keeps_no_file_system() {
    watched(|| {
        let (fs, task) = machine(Features::empty());
        let other = SampleFs::new(Features::empty());
        task.mkdir("/mnt", 0o755).unwrap();
        task.mount(Arc::clone(&other) as _, "/mnt", MountFlags::empty()).unwrap();
        for path in ["/mnt/dir", "/mnt/dir/removed", "/mnt/dir/replaced", "/mnt/dir/replacing"] {
            task.mkdir(path, 0o755).unwrap();
            assert_eq!(task.stat(format!("{path}/none")).map(drop), Err(Errno::ENOENT));
        }
        assert_eq!(task.rmdir("/mnt/dir/removed"), Ok(()));
        assert_eq!(task.rename("/mnt/dir/replacing", "/mnt/dir/replaced"), Ok(()));
        assert_eq!(task.umount2("/mnt", pathwalk::UmountFlags::empty()), Ok(()));
        assert_eq!(asked(&other.calls.evict), 5, "the root and its directories");
        assert_eq!(task.vfs().usage().dentries, 2);
        drop((fs, task));
    });
}

/// A file system hears the last of an inode when nobody uses it any more, and whether its data can go.
#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    let (fs, task) = machine(Features::empty());
    fs.appear("file", FILE, 0o644, "text");
    let file = task.open("/file", OpenFlags::RDONLY, 0).unwrap();
    assert_eq!(task.unlink("/file"), Ok(()));
    let mut text = [0; 8];
    assert_eq!(task.read(&file, &mut text), Ok(4));
    assert_eq!(task.fstat(&file).map(|stat| stat.st_nlink), Ok(0));
    assert_eq!(asked(&fs.calls.evict), 0);
    drop(file);
    assert_eq!(asked(&fs.calls.evict), 1);
}

/// A walk that holds nothing may stop where it has already arrived; going on, it is still there.
#[test]
fn a_walk_that_must_hold_at_its_end_does_not_walk_the_last_name_twice() {
    let (fs, task) = machine(Features::PERMISSION | Features::MAY_EXEC);
    fs.appear("file", FILE, 0o644, "");
    fs.appear("dir", DIR, 0o755, "");
    fs.appear("link", FileType::Symlink, 0o777, "body");
    task.creat("/dir/dir", 0o644).unwrap();
    for path in ["/file", "/dir", "/link"] {
        task.lstat(path).unwrap();
    }
    // The file system is asked about the file itself, and for the body.
    assert_eq!(task.access("/file", AccessMode::R_OK), Ok(()));
    assert_eq!(task.access("/dir", AccessMode::R_OK), Ok(()));
    assert_eq!(task.access("/dir/", AccessMode::R_OK), Ok(()));
    assert_eq!(task.access("/file/", AccessMode::R_OK), Err(Errno::ENOTDIR));
    assert_eq!(task.readlink("/link", &mut [0; 8]), Ok(4));
    // Its time of last access is to be written.
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.symlink("body", "/link").unwrap();
    assert_eq!(task.readlink("/link", &mut [0; 8]), Ok(4));
    assert_eq!(task.readlink("/link/", &mut [0; 8]), Err(Errno::ENOENT));
}

#[test]
fn a_change_that_was_stale_is_made_once_more_and_then_all_is_asked_anew() {
    type Change = (&'static str, fn(&Task) -> pathwalk::Result<()>, pathwalk::Result<()>);
    let changes: [Change; 6] = [
        ("chmod", |task| task.chmod("/d/f", 0o600), Ok(())),
        ("chown", |task| task.chown("/d/f", Some(1), Some(1)), Ok(())),
        ("truncate", |task| task.truncate("/d/f", 0), Ok(())),
        (
            "utimensat",
            |task| {
                let (now, none) = (pathwalk::SetTime::Now, AtFlags::empty());
                task.utimensat(pathwalk::At::Cwd, "/d/f", now, now, none)
            },
            Ok(()),
        ),
        ("mkdir", |task| task.mkdir("/d/new", 0o755), Ok(())),
        (
            "open",
            |task| task.open("/d/made", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).map(drop),
            Ok(()),
        ),
    ];
    for (what, change, want) in changes {
        let (fs, task) = machine(Features::REVALIDATE);
        task.mkdir("/d", 0o755).unwrap();
        drop(task.open("/d/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap());
        assert_eq!(asked(&fs.calls.revalidate_anew), 0, "{what}");
        fs.stale_changes.store(1, Relaxed);
        assert_eq!(change(&task), want, "{what}");
        assert_ne!(asked(&fs.calls.revalidate_anew), 0, "{what}");
        fs.stale_changes.store(2, Relaxed);
        let again = task.chmod("/d/f", 0o600);
        assert_eq!(again, Err(Errno::ESTALE), "{what}: once is enough");
    }
}

/// Linux: `lookup_open` looks a name up and makes it in one step.
#[test]
fn what_others_make_at_that_moment_is_opened() {
    let makes = OpenFlags::CREAT | OpenFlags::RDWR;
    for features in [Features::empty(), Features::REVALIDATE, Features::ATOMIC_OPEN] {
        // Known to be missing, and unknown.
        for known in [true, false] {
            let (fs, task) = machine(features);
            let missing = || {
                let unknown = (task.stat("/new").map(drop), task.stat("/dir").map(drop));
                assert_eq!(unknown, (Err(Errno::ENOENT), Err(Errno::ENOENT)));
            };
            if known {
                missing();
            }
            fs.raced.store(1, Relaxed);
            assert_eq!(
                task.open("/new", makes | OpenFlags::EXCL, 0o600).map(drop),
                Err(Errno::EEXIST)
            );
            assert_eq!(task.stat("/new").map(|stat| stat.st_size), Ok(6), "it is known now");
            fs.raced.store(1, Relaxed);
            assert_eq!(task.mkdir("/dir", 0o755), Err(Errno::EEXIST));
            assert_eq!(task.stat("/dir").map(|stat| stat.st_size), Ok(6), "it is known now");
            task.unlink("/new").unwrap();
            task.unlink("/dir").unwrap();

            if known {
                missing();
            } else {
                task.vfs().shrink(1000);
            }
            fs.raced.store(1, Relaxed);
            let opened = task.open("/new", makes, 0o600).unwrap();
            let stat = task.fstat(&opened).unwrap();
            assert_eq!((stat.st_size, stat.st_mode & 0o777), (6, 0o644), "theirs");
            assert_eq!(asked(&fs.raced), 0);
        }
    }
}

/// It was made all the same.
#[test]
fn what_others_put_in_the_place_of_what_was_made_is_looked_up() {
    for features in [Features::empty(), Features::REVALIDATE] {
        let (fs, task) = machine(features);
        let queue = task.inotify_init1(InotifyFlags::empty()).unwrap();
        task.inotify_add_watch(&queue, "/", InotifyMask::CREATE).unwrap();
        fs.replaced.store(1, Relaxed);
        assert_eq!(task.mkdir("/new", 0o755), Ok(()));
        assert_eq!(task.stat("/new").map(|stat| stat.st_mode), Ok(0o100_644), "theirs");
        let told: Vec<_> = queue.events().map(|event| event.mask).collect();
        assert_eq!(told, [InotifyMask::CREATE | InotifyMask::ISDIR], "a directory was made");
        fs.replaced.store(1, Relaxed);
        let makes = OpenFlags::CREAT | OpenFlags::RDWR;
        let opened = task.open("/file", makes, 0o600).unwrap();
        assert_eq!(task.fstat(&opened).map(|stat| stat.st_mode), Ok(0o100_644), "theirs");
    }
}

/// What it finds then it can keep at hand.
#[test]
fn what_was_stale_is_looked_up_anew() {
    let (fs, task) = machine(Features::empty());
    fs.appear("file", FILE, 0o644, "body");
    fs.stale.store(1, Relaxed);
    assert_eq!(task.stat("/file").map(|stat| stat.st_size), Ok(4));
    assert_eq!((asked(&fs.calls.lookup), asked(&fs.calls.lookup_anew)), (2, 1));
}

#[test]
fn what_others_make_and_take_away_is_made_in_the_end() {
    let makes = OpenFlags::CREAT | OpenFlags::RDWR;
    let (fs, task) = machine(Features::empty());
    fs.raced_away.store(true, Relaxed);
    fs.raced.store(20, Relaxed);
    let opened = task.open("/new", makes, 0o600).unwrap();
    assert_eq!(task.fstat(&opened).map(|stat| stat.st_mode & 0o777), Ok(0o600));
    // A file system that says so for ever does not keep the caller for ever.
    fs.raced.store(u64::MAX, Relaxed);
    asked(&fs.calls.create);
    assert_eq!(task.open("/other", makes, 0o600).map(drop), Err(Errno::EEXIST));
    assert_eq!(asked(&fs.calls.create), 33);
}

/// A file that Linux found is held until it is open.
#[test]
fn what_others_replace_all_the_time_is_opened() {
    for how in [OpenFlags::RDWR, OpenFlags::CREAT | OpenFlags::RDWR] {
        let (fs, task) = machine(Features::REVALIDATE);
        fs.appear("file", FILE, 0o644, "body");
        fs.stale_openings.store(20, Relaxed);
        let opened = task.open("/file", how, 0o600).unwrap();
        assert_eq!(task.fstat(&opened).map(|stat| stat.st_size), Ok(4));
        assert_eq!(asked(&fs.stale_openings), 0);
        fs.stale_openings.store(u64::MAX, Relaxed);
        assert_eq!(task.open("/file", how, 0o600).map(drop), Err(Errno::ESTALE));
        assert!(u64::MAX - asked(&fs.stale_openings) <= 40, "not for ever");
    }
}

/// Walks in its own machine when it is asked what it is like, and counts that.
struct Walking {
    inner: Arc<SampleFs>,
    task: OnceLock<Task>,
    asked: AtomicU64,
}

impl Walking {
    fn walk(&self) {
        self.asked.fetch_add(1, Relaxed);
        if let Some(task) = self.task.get() {
            assert_eq!(task.stat("/there").map(drop), Ok(()));
        }
    }
}

impl FileSystem for Walking {
    fn kind(&self) -> &str {
        "walking"
    }

    fn features(&self) -> Features {
        self.walk();
        Features::empty()
    }

    fn root(&self, who: &Subject<'_>, now: Timespec) -> Result<Found> {
        self.inner.root(who, now)
    }

    fn blksize(&self) -> u32 {
        self.walk();
        512
    }

    fn inode_flags(&self) -> Option<InodeFlags> {
        self.walk();
        None
    }
}

#[test]
fn what_it_is_like_is_asked_once_with_no_lock_held() {
    let (fs, task) = machine(Features::REVALIDATE);
    fs.appear("there", FILE, 0o644, "");
    fs.appear("mnt", DIR, 0o755, "");
    fs.appear("bound", DIR, 0o755, "");
    let walking = Arc::new(Walking {
        inner: SampleFs::new(Features::empty()),
        task: OnceLock::new(),
        asked: AtomicU64::new(0),
    });
    assert!(walking.task.set(task.fork()).is_ok());
    let mounted = Arc::clone(&walking);
    watched(move || {
        task.mount(mounted, "/mnt", MountFlags::empty()).unwrap();
        task.bind("/mnt", "/bound").unwrap();
        assert_eq!(task.stat("/bound").unwrap().st_blksize, 512);
    });
    assert_eq!(walking.asked.load(Relaxed), 3, "each of three questions once");
}
