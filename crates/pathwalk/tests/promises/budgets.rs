//! Every cache is bounded: a full one is an errno, and nothing is lost.

use crate::common::{
    sample::SampleFs,
    tree::{Census, census},
};
use pathwalk::{
    At, Config, Cred, Errno, File, MemFs, MountAttr, MountAttrFlags, MountFlags, MountIdMap,
    MountIdRange, MoveMountFlags, OpenFlags, OpenTreeFlags, Task, UmountFlags, Vfs, fs::Features,
};
use std::sync::Arc;

/// 64 slots are the fewest that a table has.
const TINY: u64 = 64 * 128;

/// Makes things until one is refused; returns how many there are.
fn until_refused(want: Errno, mut make: impl FnMut(usize) -> Result<(), Errno>) -> usize {
    for made in 0..100_000 {
        match make(made) {
            Ok(()) => {}
            Err(errno) => {
                assert_eq!(errno, want);
                return made;
            }
        }
    }
    panic!("it is never refused");
}

fn checked(vfs: &Arc<Vfs>, task: &Task) -> Census {
    let census = census(task);
    let usage = vfs.usage();
    assert_eq!((usage.dentries, usage.inodes), (census.names, census.inodes));
    census
}

/// Files and symlinks of short and long names until there is no room, and all of them removed, again and again.
#[test]
fn one_budget_is_kept_whatever_is_in_it() {
    for budget in [4 << 20, 32 << 20] {
        let vfs = Vfs::new(Config::within(budget), MemFs::new()).unwrap();
        let task = vfs.task(Cred::root());
        for len in [8, 40, 200, 8] {
            let path = |number: usize| format!("/{number:0len$}");
            let within = || assert!(vfs.usage().bytes <= budget, "{len}: {:?}", vfs.usage());
            let made = until_refused(Errno::ENOMEM, |number| {
                if number.is_multiple_of(1000) {
                    within();
                }
                match number % 3 {
                    0 => task.symlink(path(number), path(number)),
                    _ => task.creat(path(number), 0o644).map(drop),
                }
            });
            within();
            // As much as fits where names are short; the names are full first where they are long.
            let used = vfs.usage();
            assert!(len != 8 || used.bytes > budget / 4 * 3, "{used:?}");
            assert!(len == 8 || used.name_bytes == budget / 8, "{used:?}");
            (0..made).for_each(|number| task.unlink(path(number)).unwrap());
            within();
        }
    }
}

/// One thread after the other makes all that there is room for and removes it, so each was once the one that had all that is free; and
/// asks for names that are absent.
#[test]
fn one_budget_is_kept_whoever_has_what_is_free() {
    for budget in [4 << 20, 5 << 20, 11 << 20] {
        let vfs = Vfs::new(Config::within(budget), MemFs::new()).unwrap();
        let task = vfs.task(Cred::root());
        task.mkdir("/asked", 0o755).unwrap();
        let asked = SampleFs::new(Features::empty());
        task.mount(asked as _, "/asked", pathwalk::MountFlags::empty()).unwrap();
        for round in 0..10 {
            let within = || {
                let used = vfs.usage();
                assert!(used.bytes <= budget, "{budget}, {round}: {used:?}");
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let task = vfs.task(Cred::root());
                    let path = |number: usize| format!("/{number}");
                    let made = until_refused(Errno::ENOMEM, |number| {
                        task.creat(path(number), 0o644).map(drop)
                    });
                    within();
                    (0..made).for_each(|number| task.unlink(path(number)).unwrap());
                    within();
                    for number in 0..2 * made {
                        let found = task.stat(format!("/asked/{round}-{number}")).map(drop);
                        assert_eq!(found, Err(Errno::ENOENT));
                    }
                    within();
                });
            });
        }
    }
}

/// What allocates in the kernel answers ENOMEM there.
#[test]
fn a_full_table_is_enomem_and_loses_nothing() {
    let long = "x".repeat(100);
    let budgets = [
        ("dentries", Config { dentry_bytes: TINY, ..Config::default() }),
        ("inodes", Config { inode_bytes: TINY, ..Config::default() }),
        ("names", Config { name_bytes: TINY, ..Config::default() }),
    ];
    for (what, config) in budgets {
        let vfs = Vfs::new(config, MemFs::new()).unwrap();
        let task = vfs.task(Cred::root());
        type Make = fn(&Task, &str) -> Result<(), Errno>;
        let makes: [(&str, Make); 4] = [
            ("creat", |task, path| task.creat(path, 0o644).map(drop)),
            ("mkdir", |task, path| task.mkdir(path, 0o755)),
            ("symlink", |task, path| task.symlink("y".repeat(100), path)),
            ("link", |task, path| {
                // Two names a file: the dentries are full before the inodes.
                task.creat(path, 0o644).map(drop)?;
                let linked = task.link(path, format!("{path}+"));
                if linked.is_err() {
                    task.unlink(path)?;
                }
                linked
            }),
        ];
        for (call, make) in makes {
            let path = |number: usize| format!("/{number}{long}");
            let made = until_refused(Errno::ENOMEM, |number| make(&task, &path(number)));
            assert!(made > 10, "{what}, {call}: {made}");
            let full = checked(&vfs, &task);
            // Refused again and again, and nothing changes; what is there is found.
            for _ in 0..100 {
                assert_eq!(make(&task, &path(made)), Err(Errno::ENOMEM), "{what}, {call}");
            }
            assert_eq!(task.lstat(path(made)).map(drop), Err(Errno::ENOENT));
            assert_eq!(task.lstat(path(made - 1)).map(drop), Ok(()));
            assert_eq!(checked(&vfs, &task), full, "{what}, {call}");
            // A rename needs room for its reservation, or for the new name.
            let new = format!("/{}", "z".repeat(200));
            match task.rename(path(0), &new) {
                Ok(()) => assert_eq!(task.rename(&new, path(0)), Ok(())),
                Err(errno) => assert_eq!(errno, Errno::ENOMEM, "{what}, {call}"),
            }
            assert_eq!(checked(&vfs, &task), full, "{what}, {call}");
            // With room it goes on.
            let remove = |number: usize| match call {
                "mkdir" => task.rmdir(path(number)),
                "link" => task.unlink(path(number)).and(task.unlink(path(number) + "+")),
                _ => task.unlink(path(number)),
            };
            (0..made / 2).for_each(|number| assert_eq!(remove(number), Ok(())));
            (0..made / 2).for_each(|number| assert_eq!(make(&task, &path(number)), Ok(())));
            (0..made).for_each(|number| assert_eq!(remove(number), Ok(()), "{what}, {call}"));
            assert_eq!(checked(&vfs, &task), Census { names: 1, inodes: 1 });
        }
    }
}

/// What tmpfs limits answers ENOSPC there.
#[test]
fn a_full_file_system_is_enospc_and_loses_nothing() {
    let limits = pathwalk_memfs::Limits { bytes: Some(16 << 12), inodes: Some(50) };
    let fs = MemFs::with_limits(limits);
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let task = vfs.task(Cred::root());
    let made = until_refused(Errno::ENOSPC, |number| task.mkdir(format!("/{number}"), 0o755));
    assert_eq!(made, 49, "the root is one of the 50");
    let full = checked(&vfs, &task);
    assert_eq!(task.creat("/x", 0o644).map(drop), Err(Errno::ENOSPC));
    assert_eq!(task.symlink("y", "/x"), Err(Errno::ENOSPC));
    assert_eq!(checked(&vfs, &task), full);
    assert_eq!(task.rmdir("/0"), Ok(()));
    let file = task.creat("/file", 0o644).unwrap();
    let mut written = 0;
    until_refused(Errno::ENOSPC, |_| task.write(&file, &[1; 1000]).map(|len| written += len));
    assert_eq!(written, 16 << 12);
    assert_eq!(task.fstat(&file).map(|stat| stat.st_size), Ok(16 << 12));
    assert_eq!(task.unlink("/file"), Ok(()));
    drop(file);
    assert_eq!(fs.usage().bytes, 0);
    assert_eq!(fs.usage().inodes, 49);
}

#[test]
fn a_million_missing_names_stay_within_the_budget() {
    let config = Config { dentry_bytes: 1 << 20, name_bytes: 1 << 20, ..Config::default() };
    let vfs = Vfs::new(config, SampleFs::new(Features::empty())).unwrap();
    let task = vfs.task(Cred::root());
    let dir = task.open("/", OpenFlags::PATH, 0).unwrap();
    for number in 0..1_000_000 {
        // Every tenth name lies in the names' arena.
        let name = if number % 10 == 0 { format!("{number:040}") } else { format!("{number}") };
        let found = task.fstatat(&dir, &name, pathwalk::AtFlags::empty());
        assert_eq!(found.map(drop), Err(Errno::ENOENT), "{name}");
    }
    let usage = vfs.usage();
    assert!(usage.dentries <= (1 << 20) / 128, "{usage:?}");
    assert!(usage.name_bytes <= 1 << 20, "{usage:?}");
    // Inodes: the root's. Beside the two budgets: buckets, what tells which slots are free, and in what order names came.
    assert!(usage.bytes <= (2 << 20) + (1 << 18) + (1 << 17), "{usage:?}");
    drop(dir);
    vfs.shrink(u32::MAX);
    assert_eq!(vfs.usage().dentries, 1, "the root is left");
}

/// One budget for names of all lengths, whatever was there before.
#[test]
fn the_names_budget_is_one_for_all_lengths() {
    let budget = 1 << 20;
    let config = Config { name_bytes: budget, ..Config::default() };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    for len in [60, 120, 250, 500, 1000, 2000, 4000, 60] {
        let path = |number: usize| format!("/{number}");
        let made =
            until_refused(Errno::ENOMEM, |number| task.symlink(vec![b'x'; len], path(number)));
        assert_eq!(made, budget as usize / len.next_power_of_two(), "{len}");
        assert_eq!(vfs.usage().name_bytes, budget, "{len}");
        (0..made).for_each(|number| assert_eq!(task.unlink(path(number)), Ok(())));
        assert!(vfs.usage().name_bytes <= budget / 8, "{len}: {:?}", vfs.usage());
    }
}

/// Room is made until what was asked for fits: short names that go do not help a long one.
#[test]
fn idle_long_names_make_room_for_long_ones() {
    let config = Config { name_bytes: 4096, ..Config::default() };
    let vfs = Vfs::new(config, SampleFs::new(Features::empty())).unwrap();
    let task = vfs.task(Cred::root());
    let absent = |name: String| {
        assert_eq!(task.stat(&name).map(drop), Err(Errno::ENOENT), "{name}");
    };
    (0..1000).for_each(|number| absent(format!("/{number}")));
    (0..300).for_each(|number| absent(format!("/{number:040}")));
    // And a longer one for many that are shorter.
    absent(format!("/{}", "x".repeat(200)));
}

/// What is in use cannot go; as soon as somebody lets go of one, it can.
#[test]
fn a_full_table_has_room_again_when_somebody_lets_go() {
    let config = Config { dentry_bytes: TINY, ..Config::default() };
    let fs = SampleFs::new(Features::empty());
    let vfs = Vfs::new(config, Arc::clone(&fs) as _).unwrap();
    let task = vfs.task(Cred::root());
    let mut held = Vec::new();
    until_refused(Errno::ENOMEM, |number| {
        // Twice: the first that is closed is not the last.
        let made = task.creat(format!("/{number}"), 0o644)?;
        let again = task.open(format!("/{number}"), OpenFlags::RDONLY, 0)?;
        held.push([made, again]);
        Ok(())
    });
    for round in 0..100 {
        assert_eq!(task.stat("/x").map(drop), Err(Errno::ENOMEM), "{round}");
        drop(held.swap_remove(round * 7 % held.len()));
        let made = task.creat(format!("/new{round}"), 0o644).unwrap();
        held.push([made, task.open(format!("/new{round}"), OpenFlags::RDONLY, 0).unwrap()]);
    }
}

/// A refusal costs little where nothing can go: it does not look through the whole table each time.
#[test]
fn a_full_table_is_refused_quickly() {
    let config = Config { dentry_bytes: 128 << 17, ..Config::default() };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    let mut made = 0;
    while task.mknod(format!("/{made}"), 0o100_644, Default::default()).is_ok() {
        made += 1;
    }
    assert!(made > 120_000, "{made}");
    let before = vfs.hand_steps();
    for _ in 0..4000 {
        assert_eq!(task.mkdir("/x", 0o755), Err(Errno::ENOMEM));
    }
    let steps = vfs.hand_steps().wrapping_sub(before);
    assert!(steps < 2 << 17, "{steps} slots were looked at");
}

/// A name that is used stays, while others come and go.
#[test]
fn names_in_use_outlive_a_flood_of_others() {
    let config = Config { dentry_bytes: 1 << 20, ..Config::default() };
    let fs = SampleFs::new(Features::empty());
    let vfs = Vfs::new(config, Arc::clone(&fs) as _).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/dir", 0o755).unwrap();
    task.creat("/dir/file", 0o644).unwrap();
    let asked = || fs.calls.lookup.swap(0, std::sync::atomic::Ordering::Relaxed);
    asked();
    let mut others = 0;
    for number in 0..200_000 {
        if number % 100 == 0 {
            assert_eq!(task.stat("/dir/file").map(drop), Ok(()));
        }
        assert_eq!(task.stat(format!("/{number}")).map(drop), Err(Errno::ENOENT));
        others += 1;
    }
    // Each other name was asked for once. These two were looked up 2000 times meanwhile, and asked for again once at
    // most: where room is made for the first time no name had the time to be seen in use.
    let again = asked() - others;
    assert!(again <= 2, "{again}");
}

/// A machine that goes tells its file systems.
#[test]
fn a_machine_that_goes_unmounts_everything() {
    let (root, other) = (MemFs::new(), MemFs::new());
    let sample = SampleFs::new(Features::empty());
    let vfs = Vfs::new(Config::default(), Arc::clone(&root) as _).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/a", 0o755).unwrap();
    task.mount(Arc::clone(&other) as _, "/a", pathwalk::MountFlags::empty()).unwrap();
    task.mkdir("/a/b", 0o755).unwrap();
    task.mount(Arc::clone(&sample) as _, "/a/b", pathwalk::MountFlags::empty()).unwrap();
    for path in ["/file", "/a/file", "/a/b/file"] {
        let file = task.creat(path, 0o644).unwrap();
        assert_eq!(task.write(&file, &[1; 4000]), Ok(4000));
    }
    task.chdir("/a/b").unwrap();
    let evicted = || sample.calls.evict.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((root.usage().bytes, other.usage().bytes, evicted()), (4096, 4096, 0));
    drop((vfs, task));
    for fs in [&root, &other] {
        assert_eq!((fs.usage().bytes, fs.usage().inodes), (0, 0));
    }
    assert_eq!(evicted(), 2, "the root and the file");
    assert_eq!(Arc::strong_count(&sample), 1);
}

/// A copy of the root's tree with a map of its own, of so many ranges.
fn mapped(task: &Task, ranges: u32, first: u32) -> Result<File, Errno> {
    let range = |index| MountIdRange { stored: index, seen: first + index, count: 1 };
    let ranges: Vec<_> = (0..ranges).map(range).collect();
    let idmap = Some(Arc::new(MountIdMap::new(&ranges, &ranges)?));
    let attr = MountAttr { attr_set: MountAttrFlags::IDMAP, idmap, ..MountAttr::default() };
    task.open_tree_attr(At::Cwd, "/", OpenTreeFlags::CLONE, &attr)
}

/// Asks for maps that no mount can get, of a mount that has one among others: there need be no room for them.
#[track_caller]
fn refuses_maps(task: &Task, has_one: &File) {
    let set = |at: At<'_>, path| {
        let ranges: Vec<_> =
            (0..340).map(|id| MountIdRange { stored: id, seen: 7 + id, count: 1 }).collect();
        let idmap = Some(Arc::new(MountIdMap::new(&ranges, &ranges).unwrap()));
        let attr = MountAttr { attr_set: MountAttrFlags::IDMAP, idmap, ..MountAttr::default() };
        task.mount_setattr(at, path, OpenTreeFlags::EMPTY_PATH, &attr)
    };
    assert_eq!(set(At::Cwd, "/"), Err(Errno::EINVAL));
    assert_eq!(set(has_one.into(), ""), Err(Errno::EPERM));
    let written = task.open_tree(At::Cwd, "/", OpenTreeFlags::CLONE).unwrap();
    let _writer = task.openat(&written, "f", OpenFlags::WRONLY, 0).unwrap();
    assert_eq!(set((&written).into(), ""), Err(Errno::EBUSY));
}

/// Who is refused a map has nothing evicted for it.
#[test]
fn a_map_that_is_refused_costs_nobody_a_name() {
    let config = Config { name_bytes: 1 << 20, ..Config::default() };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/m", 0o755).unwrap();
    task.creat("/f", 0o644).unwrap();
    let sample = SampleFs::new(Features::empty());
    task.mount(Arc::clone(&sample) as _, "/m", MountFlags::empty()).unwrap();
    let tree = mapped(&task, 1, 1).unwrap();
    let long = "n".repeat(250);
    let absent = |number| task.stat(format!("/m/{number}{long}")).map(drop);
    let mut names = 0;
    while vfs.usage().name_bytes + 4096 < 1 << 20 {
        assert_eq!(absent(names), Err(Errno::ENOENT));
        names += 1;
    }
    assert!(names > 1000, "{names}");
    let cached = || (vfs.usage().dentries, vfs.usage().name_bytes);
    let full = cached();
    refuses_maps(&task, &tree);
    assert_eq!(cached(), full);
    // One that is not.
    let tree = mapped(&task, 340, 1).unwrap();
    assert!(cached().0 < full.0, "there was room for it");
    assert_eq!(task.fstat(&tree).unwrap().st_uid, 1);
}

/// Maps of owners lie in the names' budget, and go with the last mount that has them.
#[test]
fn maps_of_owners_go_with_their_last_mount() {
    let budget = 1 << 20;
    let config = Config { name_bytes: budget, ..Config::default() };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/m", 0o755).unwrap();
    task.creat("/f", 0o644).unwrap();
    for (ranges, least) in [(340, 120), (1, 8000), (340, 120)] {
        let mut held = Vec::new();
        let made = until_refused(Errno::ENOMEM, |number| {
            held.push(mapped(&task, ranges, number as u32)?);
            Ok(())
        });
        assert!(made >= least, "{ranges}: {made}");
        assert!(vfs.usage().name_bytes <= budget);
        let full = vfs.usage();
        assert_eq!(mapped(&task, ranges, 0).map(drop), Err(Errno::ENOMEM));
        assert_eq!(vfs.usage(), full, "nothing is left of one that was refused");
        refuses_maps(&task, &held[0]);
        assert_eq!(vfs.usage(), full);
        // As soon as somebody lets go of one there is room for one.
        for number in 0..50 {
            drop(held.swap_remove(number));
            held.push(mapped(&task, ranges, number as u32).unwrap());
        }
        // What has several mounts goes with the last of them.
        let tree = held.pop().unwrap();
        let shown = task.fstat(&tree).unwrap().st_uid;
        let flags = MoveMountFlags::F_EMPTY_PATH;
        task.move_mount(&tree, "", At::Cwd, "/m", flags).unwrap();
        task.bind("/m", "/m").unwrap();
        drop((held, tree));
        assert!(vfs.usage().name_bytes < budget / 8, "{:?}", vfs.usage());
        task.umount2("/m", UmountFlags::empty()).unwrap();
        assert_eq!(task.stat("/m").unwrap().st_uid, shown);
        task.umount2("/m", UmountFlags::empty()).unwrap();
        assert_eq!(task.stat("/m").unwrap().st_uid, 0);
    }
    // More than there is room for, one after the other.
    for number in 0..50_000 {
        assert_eq!(task.fstat(&mapped(&task, 1, number).unwrap()).unwrap().st_uid, number);
    }
}
