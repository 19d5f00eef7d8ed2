//! What a thread remembers of a path tells nobody more than walking it would, and leaves nothing undone.

use crate::common::sample::SampleFs;
use pathwalk::{
    AccessMode, Config, Cred, Errno, MemFs, MountFlags, OpenFlags, Task, Timespec, Vfs,
    fs::Features,
};
use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
        mpsc::{Sender, channel},
    },
    thread,
};

fn machine(config: Config) -> Arc<Vfs> {
    Vfs::new(config, MemFs::new()).unwrap()
}

/// The time is what the tests say it is; every look at it is a second later.
pub(super) fn ticking() -> Timespec {
    static NOW: AtomicI64 = AtomicI64::new(1_000_000);
    Timespec { sec: NOW.fetch_add(1, Relaxed), nsec: 0 }
}

/// A link at the end of a link's body stands last, too: `fs.protected_symlinks` refuses it each time.
#[test]
fn a_link_in_a_shared_directory_is_refused_by_way_of_another_link() {
    let vfs = machine(Config::default());
    let root = vfs.task(Cred::root());
    root.mkdir("/tmp", 0).unwrap();
    root.chmod("/tmp", 0o1777).unwrap();
    root.mkdir("/a", 0o755).unwrap();
    root.creat("/a/secret", 0o644).unwrap();
    let owner = vfs.task(Cred::user(1000, 1000));
    owner.symlink("/a/secret", "/tmp/theirs").unwrap();
    root.symlink("/tmp/theirs", "/a/ours").unwrap();
    let stranger = vfs.task(Cred::user(2000, 2000));
    for path in ["/a/ours", "/tmp/theirs"] {
        for _ in 0..6 {
            assert_eq!(owner.stat(path).map(drop), Ok(()), "{path}");
            assert_eq!(stranger.stat(path).map(drop), Err(Errno::EACCES), "{path}");
            let access = stranger.access(path, AccessMode::empty());
            assert_eq!(access, Err(Errno::EACCES), "{path}");
        }
    }
}

/// Whether another's link is followed depends on who owns its directory and on bits that say nothing about who may search it:
/// a memo of what lies behind the link must not outlive them.
#[test]
fn a_directory_that_becomes_shared_or_somebody_elses_is_felt_behind_its_links() {
    let vfs = machine(Config::default());
    let root = vfs.task(Cred::root());
    let remount = MountFlags::REMOUNT | MountFlags::NOATIME;
    root.mount_tree("none", "/", remount).unwrap();
    root.mkdir("/x", 0o755).unwrap();
    root.mkdir("/x/d", 0o755).unwrap();
    root.creat("/x/d/f", 0o644).unwrap();
    root.symlink("f", "/x/d/l").unwrap();
    root.lchown("/x/d/l", Some(1001), Some(1001)).unwrap();
    let user = vfs.task(Cred::user(1000, 1000));
    let is_followed = |want: bool, what: &str| {
        for _ in 0..8 {
            let want = if want { Ok(()) } else { Err(Errno::EACCES) };
            assert_eq!(user.stat("/x/d/l").map(drop), want, "{what}");
            assert_eq!(user.access("/x/d/l", AccessMode::R_OK), want, "{what}");
            let opened = user.open("/x/d/l", OpenFlags::RDONLY, 0);
            assert_eq!(opened.map(drop), want, "{what}");
        }
    };
    let chmod = |mode| root.chmod("/x/d", mode).unwrap();
    let chown = |owner| root.chown("/x/d", Some(owner), None).unwrap();
    is_followed(true, "0755");
    for mode in [0o1755, 0o777] {
        chmod(mode);
        is_followed(true, "sticky or open to all, not both");
        chmod(0o1777);
        is_followed(false, "both");
    }
    chown(1001);
    is_followed(true, "the directory's owner's link");
    chown(1002);
    is_followed(false, "another's");
    chmod(0o755);
    is_followed(true, "0755 again");
}

/// relatime writes a symlink's time of last access when its other times have moved past that.
#[test]
fn the_use_of_a_changed_link_is_noted() {
    let vfs = machine(Config { clock: Some(ticking), ..Config::default() });
    let task = vfs.task(Cred::root());
    task.mkdir("/a", 0o755).unwrap();
    task.creat("/a/f", 0o644).unwrap();
    task.symlink("f", "/a/l").unwrap();
    let atime = |task: &Task| task.lstat("/a/l").unwrap().st_atime;
    for round in 0..3 {
        for _ in 0..5 {
            task.stat("/a/l").unwrap();
        }
        let before = atime(&task);
        task.stat("/a/l").unwrap();
        assert_eq!(atime(&task), before, "nothing is due");
        task.link("/a/l", format!("/a/l{round}")).unwrap();
        task.stat("/a/l").unwrap();
        assert!(atime(&task) > before, "its ctime has moved in round {round}");
    }
}

/// That a symlink leads nowhere says nothing about the symlink.
#[test]
fn a_dangling_link_is_there_for_who_does_not_follow_it() {
    let vfs = machine(Config::default());
    let task = vfs.task(Cred::root());
    task.mkdir("/d", 0o755).unwrap();
    task.symlink("missing", "/d/l").unwrap();
    task.symlink("l", "/d/k").unwrap();
    for _ in 0..6 {
        for path in ["/d/l", "/d/k"] {
            assert_eq!(task.stat(path).map(drop), Err(Errno::ENOENT), "{path}");
            assert_eq!(task.lstat(path).map(drop), Ok(()), "{path}");
            assert_eq!(task.readlink(path, &mut [0; 9]).map(drop), Ok(()), "{path}");
        }
    }
    task.creat("/d/missing", 0o644).unwrap();
    assert_eq!(task.stat("/d/k").map(drop), Ok(()));
}

/// How a name is absent decides until when that may be believed.
#[test]
fn an_empty_symlink_body_or_a_gone_directory_is_no_absent_name() {
    let vfs = machine(Config::default());
    let task = vfs.task(Cred::root());
    task.mkdir("/d", 0o755).unwrap();
    let inside = task.fork();
    inside.chdir("/d").unwrap();
    task.rmdir("/d").unwrap();
    for _ in 0..5 {
        assert_eq!(inside.stat("f").map(drop), Err(Errno::ENOENT));
        assert_eq!(task.stat("/d/f").map(drop), Err(Errno::ENOENT));
    }
    task.mkdir("/d", 0o755).unwrap();
    task.creat("/d/f", 0o644).unwrap();
    assert_eq!(task.stat("/d/f").map(drop), Ok(()));
    assert_eq!(inside.stat("f").map(drop), Err(Errno::ENOENT));
}

/// Texts of every length around where the way of comparing changes, known and with one byte changed.
#[test]
fn long_and_short_texts_are_told_apart() {
    let vfs = machine(Config::default());
    let task = vfs.task(Cred::root());
    let name = |len: usize| "n".repeat(len);
    let lens = || (1..=130).chain([200, 255]);
    for len in lens() {
        task.open(format!("/{}", name(len)), OpenFlags::CREAT, 0o644).unwrap();
    }
    for _ in 0..4 {
        for len in lens() {
            assert_eq!(task.stat(format!("/{}", name(len))).map(drop), Ok(()), "{len}");
            for at in [0, len / 2, len - 1] {
                let mut other = name(len).into_bytes();
                other[at] = b'x';
                let other = [b"/", &other[..]].concat();
                assert_eq!(task.stat(&other).map(drop), Err(Errno::ENOENT), "{at} of {len}");
            }
        }
    }
}

/// What a mount allows is asked of it each time, however often its paths were walked before.
#[test]
fn a_remounted_mount_is_felt_at_once() {
    use pathwalk::{MountAttr, MountAttrFlags, MountFlags, OpenTreeFlags};
    let vfs = machine(Config::default());
    let task = vfs.task(Cred::root());
    task.mkdir("/m", 0o755).unwrap();
    task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
    for top in ["", "/m"] {
        task.mkdir(format!("{top}/d"), 0o755).unwrap();
        drop(task.open(format!("{top}/d/f"), OpenFlags::CREAT, 0o755).unwrap());
        task.symlink("f", format!("{top}/d/l")).unwrap();
        task.mknod(format!("{top}/d/null"), 0o020_666, pathwalk::Dev::new(1, 3)).unwrap();
    }
    let read_only = [Ok(()), Err(Errno::EROFS), Ok(()), Ok(()), Ok(()), Err(Errno::EROFS)];
    let no_exec = [Ok(()), Ok(()), Err(Errno::EACCES), Ok(()), Ok(()), Ok(())];
    let no_links = [Ok(()), Ok(()), Ok(()), Err(Errno::ELOOP), Ok(()), Ok(())];
    let no_devices = [Ok(()), Ok(()), Ok(()), Ok(()), Err(Errno::EACCES), Ok(())];
    let none = MountFlags::empty();
    let bind = MountFlags::BIND;
    for top in ["", "/m"] {
        let answers = || {
            let (f, l) = (format!("{top}/d/f"), format!("{top}/d/l"));
            let access = |mode| task.access(&f, mode);
            [
                access(AccessMode::R_OK),
                access(AccessMode::W_OK),
                access(AccessMode::X_OK),
                task.stat(&l).map(drop),
                task.open(format!("{top}/d/null"), OpenFlags::RDONLY, 0).map(drop),
                task.open(&f, OpenFlags::WRONLY, 0).map(drop),
            ]
        };
        let path = if top.is_empty() { "/" } else { top };
        let first = answers();
        // No driver is behind the device: what matters is that it changes.
        let plain = |mut want: [Result<(), Errno>; 6]| {
            want[4] = if want[4].is_ok() { first[4] } else { want[4] };
            want
        };
        let rows = [
            (MountFlags::RDONLY | bind, read_only),
            (MountFlags::NOEXEC | bind, no_exec),
            (MountFlags::NOSYMFOLLOW | bind, no_links),
            (MountFlags::NODEV | bind, no_devices),
            (MountFlags::RDONLY, read_only),
            (none, [Ok(()); 6]),
            (MountFlags::NOSYMFOLLOW, no_links),
            (bind, [Ok(()); 6]),
        ];
        for (flags, want) in rows {
            let before = answers();
            for _ in 0..4 {
                assert_eq!(answers(), before);
            }
            task.mount_tree("none", path, MountFlags::REMOUNT | flags).unwrap();
            assert_eq!(answers(), plain(want), "{path} {flags:?}");
        }
        let (attr_set, attr_clr) = (MountAttrFlags::RDONLY, MountAttrFlags::RDONLY);
        let set = MountAttr { attr_set, ..MountAttr::default() };
        let clear = MountAttr { attr_clr, ..MountAttr::default() };
        for (attr, want) in [(set, read_only), (clear, [Ok(()); 6])] {
            let before = answers();
            for _ in 0..4 {
                assert_eq!(answers(), before);
            }
            task.mount_setattr(pathwalk::At::Cwd, path, OpenTreeFlags::empty(), &attr).unwrap();
            assert_eq!(answers(), plain(want), "{path} {attr:?}");
        }
    }
}

/// The root lies in a part that a mount shows, and is moved out of it: `..` leads nowhere from there, though nothing on the
/// way changed.
#[test]
fn dotdot_of_a_root_that_left_its_part_is_no_way() {
    let vfs = machine(Config::default());
    let root = vfs.task(Cred::root());
    for dir in ["/src", "/src/d1", "/src/d1/d2", "/src/d1/d2/a", "/out", "/p"] {
        root.mkdir(dir, 0o755).unwrap();
    }
    root.creat("/src/d1/d2/b", 0o644).unwrap();
    root.bind("/src", "/p").unwrap();
    let jail = root.fork();
    jail.chroot("/p/d1/d2").unwrap();
    let look = || jail.access("/a/../b", AccessMode::empty());
    (0..4).for_each(|_| assert_eq!(look(), Ok(())));
    root.rename("/src/d1", "/out/d1").unwrap();
    (0..4).for_each(|_| assert_eq!(look(), Err(Errno::ENOENT)));
}

/// Where a memo never holds it is not made again and again: after a thousand looks in vain one in a thousand makes it.
#[cfg(debug_assertions)]
#[test]
fn what_moves_each_time_is_remembered_less_and_less() {
    use pathwalk::road;
    let task = machine(Config::default()).task(Cred::root());
    task.mkdir("/build", 0o755).unwrap();
    let look = |rounds: u32| {
        let before = road::made();
        for number in 0..rounds {
            task.creat(format!("/build/{number}"), 0o644).unwrap();
            for path in ["/build/stdio.h", "/build/stdlib.h"] {
                assert_eq!(task.access(path, AccessMode::empty()), Err(Errno::ENOENT));
            }
            task.unlink(format!("/build/{number}")).unwrap();
        }
        road::made() - before
    };
    let (early, late) = (look(100), look(3000));
    assert!((4..40).contains(&early), "{early} memos of 200 looks");
    assert!(late < 100, "{late} memos of 6000 looks");
}

/// While a thread's memos sleep each look is one miss, whichever call makes it; and a look in a machine whose file system wants to be asked
/// wakes them.
#[cfg(debug_assertions)]
#[test]
fn memos_that_sleep_wake_as_soon_whoever_looks() {
    use pathwalk::road;
    type Look = fn(&Task, &str) -> pathwalk::Result<()>;
    let access: Look = |task, path| task.access(path, AccessMode::empty());
    let stat: Look = |task, path| task.stat(path).map(drop);
    let task = machine(Config::default()).task(Cred::root());
    let asks = Vfs::new(Config::default(), SampleFs::new(Features::REVALIDATE)).unwrap();
    let asks = asks.task(Cred::root());
    task.mkdir("/dir", 0o755).unwrap();
    // How many looks it takes until something is remembered again.
    let looks = |look: Look, between: &[&Task]| {
        (0..3).for_each(|_| look(&task, "/dir").unwrap());
        for number in 0..600 {
            assert_eq!(look(&task, &format!("/{number}")), Err(Errno::ENOENT));
        }
        for other in between {
            assert_eq!(look(other, "/absent"), Err(Errno::ENOENT));
        }
        let before = road::made();
        let made = |_: &u32| {
            look(&task, "/.").unwrap();
            road::made() > before
        };
        (1..2000).find(made)
    };
    let on_its_own = |look, between: &[&Task]| {
        thread::scope(|scope| scope.spawn(|| looks(look, between)).join().expect("it looks"))
    };
    let slept = on_its_own(stat, &[]);
    assert!(slept.is_some_and(|slept| (400..512).contains(&slept)), "{slept:?}");
    assert_eq!(on_its_own(access, &[]), slept);
    let woken = on_its_own(stat, &[&asks]);
    assert!(woken.is_some_and(|woken| woken < 5), "{woken:?}");
    assert_eq!(on_its_own(access, &[&asks]), woken);
}

/// A count comes again after 2³¹ changes: no memo is so old.
#[cfg(debug_assertions)]
#[test]
fn memos_end_with_the_era() {
    use pathwalk::road;
    let task = machine(Config::default()).task(Cred::root());
    task.mkdir("/dir", 0o755).unwrap();
    let looks = || {
        let before = road::made();
        (0..5).for_each(|_| assert_eq!(task.access("/dir", AccessMode::empty()), Ok(())));
        road::made() - before
    };
    assert_eq!((looks(), looks()), (1, 0));
    // Others may end it too, so once may become twice.
    road::end_era();
    assert!(looks() > 0);
}

/// The root is a directory by a name that it does not have any more: no chmod is told to that dentry.
#[test]
fn a_chmod_is_felt_by_whose_root_was_renamed_elsewhere() {
    let fs = SampleFs::new(Features::empty());
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let root = vfs.task(Cred::root());
    root.mkdir("/dir", 0o755).unwrap();
    root.creat("/dir/file", 0o644).unwrap();
    let mut jailed = root.fork();
    jailed.chroot("/dir").unwrap();
    jailed.chdir("/").unwrap();
    jailed.set_cred(Cred::user(1, 1));
    fs.appear_as_well("dir", "new");
    root.stat("/new").unwrap();
    let look = || jailed.access("/file", AccessMode::empty());
    (0..4).for_each(|_| assert_eq!(look(), Ok(())));
    root.chmod("/new", 0o700).unwrap();
    (0..3).for_each(|_| assert_eq!(look(), Err(Errno::EACCES)));
}

/// A thread that ends may still look, though what it remembered went before.
#[test]
fn a_thread_looks_while_it_ends() {
    struct Cleaner(Task, Sender<bool>);

    impl Drop for Cleaner {
        fn drop(&mut self) {
            let looks = (0..3).map(|_| self.0.access("/a", AccessMode::empty()));
            self.1.send(looks.filter(Result::is_ok).count() == 3).unwrap();
        }
    }

    thread_local! {
        static CLEANER: RefCell<Option<Cleaner>> = const { RefCell::new(None) };
    }

    let task = machine(Config::default()).task(Cred::root());
    task.mkdir("/a", 0o755).unwrap();
    let (send, receive) = channel();
    let body = move || {
        // Made before, so that it goes after.
        CLEANER.with_borrow_mut(|cleaner| *cleaner = Some(Cleaner(task.fork(), send)));
        (0..3).for_each(|_| assert_eq!(task.access("/a", AccessMode::empty()), Ok(())));
    };
    // A stack as small as other languages' threads have.
    thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
    assert_eq!(receive.recv(), Ok(true));
}
