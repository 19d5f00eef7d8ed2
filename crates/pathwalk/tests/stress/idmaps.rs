//! Maps of owners that come and go, whose memory is used again, while others look through the mounts.

use crate::{
    check_whole,
    circles::{is_one_of, meet},
    common::watched,
    machine,
};
use pathwalk::{
    AccessMode, At, AtFlags, Errno, File, MemFs, MountAttr, MountAttrFlags, MountFlags, MountIdMap,
    MountIdRange, MoveMountFlags, OpenFlags, OpenTreeFlags, Stat, Task, UmountFlags,
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What map `number` adds to users, and with the same number to groups.
const USERS: u32 = 10_000;
const GROUPS: u32 = 100_000;

/// One of many maps: of different lengths, so that the memory of one becomes that of several others.
fn map(number: u32) -> Arc<MountIdMap> {
    let number = number % 500;
    let ranges = |first: u32| -> Vec<MountIdRange> {
        let others = (0..number % 60).map(|other| MountIdRange {
            stored: 1_000_000 + other,
            seen: 2_000_000 + other,
            count: 1,
        });
        let zero = MountIdRange { stored: 0, seen: first + number, count: 1 };
        others.chain([zero]).collect()
    };
    Arc::new(MountIdMap::new(&ranges(USERS), &ranges(GROUPS)).unwrap())
}

fn mapped(idmap: Arc<MountIdMap>) -> MountAttr {
    let (attr_set, idmap) = (MountAttrFlags::IDMAP, Some(idmap));
    MountAttr { attr_set, idmap, ..MountAttr::default() }
}

/// A copy of a tree, which has no map yet.
fn copy(task: &Task) -> File {
    task.open_tree(At::Cwd, "/source", OpenTreeFlags::CLONE).unwrap()
}

/// Owner and group are those of one map, or those that are stored.
#[track_caller]
fn is_of_one_map(stat: &Stat) -> bool {
    let (uid, gid) = (stat.st_uid, stat.st_gid);
    let one = (USERS..USERS + 500).contains(&uid) && uid - USERS == gid.wrapping_sub(GROUPS);
    assert!(one || (uid, gid) == (0, 0), "{uid}:{gid} is of no map");
    one
}

#[test]
fn maps_that_come_and_go_are_never_mixed() {
    watched(|| {
        let task = machine();
        for dir in ["/source", "/m"] {
            task.mkdir(dir, 0o755).unwrap();
        }
        task.mount(MemFs::new(), "/source", MountFlags::empty()).unwrap();
        task.mkdir("/source/dir", 0o700).unwrap();
        task.creat("/source/dir/f", 0o600).unwrap();
        task.creat("/m/f", 0o600).unwrap();
        let (seen, shared) = (AtomicU64::new(0), Mutex::new(Arc::new(copy(&task))));
        let look = |stat: pathwalk::Result<Stat>| match stat {
            Ok(stat) => _ = seen.fetch_add(is_of_one_map(&stat).into(), Relaxed),
            Err(errno) => assert_eq!(errno, Errno::ENOENT),
        };
        meet(
            &task,
            &[
                // A mount with a map comes, and goes while others are in it.
                &|task, round| {
                    let tree = copy(task);
                    let (empty, attr) = (OpenTreeFlags::EMPTY_PATH, mapped(map(round as u32)));
                    task.mount_setattr(&tree, "", empty, &attr).unwrap();
                    let flags = MoveMountFlags::F_EMPTY_PATH;
                    task.move_mount(&tree, "", At::Cwd, "/m", flags).unwrap();
                    drop(tree);
                    std::thread::yield_now();
                    task.umount2("/m", UmountFlags::DETACH).unwrap();
                },
                // A tree gets its map while others are in it; copies of it have that of before, another, or none.
                &|task, round| {
                    let tree = Arc::clone(&shared.lock().unwrap());
                    let attr = mapped(map(7 * round as u32));
                    let empty = OpenTreeFlags::EMPTY_PATH;
                    is_one_of(
                        task.mount_setattr(&*tree, "", empty, &attr),
                        &[Errno::EPERM, Errno::EBUSY],
                    );
                    let copies = empty | OpenTreeFlags::CLONE;
                    let other = mapped(map(11 * round as u32));
                    let none =
                        MountAttr { attr_clr: MountAttrFlags::IDMAP, ..MountAttr::default() };
                    let attr = [MountAttr::default(), other, none];
                    let attr = &attr[round as usize % 3];
                    let copied = task.open_tree_attr(&*tree, "", copies, attr).unwrap();
                    look(task.fstat(&copied));
                    if round % 4 == 0 {
                        *shared.lock().unwrap() = Arc::new(copy(task));
                    }
                },
                &|task, _| {
                    look(task.stat("/m/dir/f"));
                    look(task.stat("/m"));
                    let _ = task.access("/m/dir/f", AccessMode::R_OK | AccessMode::W_OK);
                },
                &|task, _| {
                    // Whoever holds the mount sees its map whatever becomes of others.
                    let Ok(file) = task.open("/m/dir/f", OpenFlags::RDONLY, 0) else { return };
                    let before = task.fstat(&file).unwrap();
                    std::thread::yield_now();
                    let after = task.fstat(&file).unwrap();
                    assert!(is_of_one_map(&before));
                    assert_eq!((before.st_uid, before.st_gid), (after.st_uid, after.st_gid));
                },
                &|task, _| {
                    let tree = Arc::clone(&shared.lock().unwrap());
                    look(task.fstatat(&*tree, "dir/f", AtFlags::empty()));
                    look(task.fstatat(&*tree, "dir", AtFlags::empty()));
                    let none = AtFlags::empty();
                    task.faccessat2(&*tree, "dir/f", AccessMode::R_OK, none).unwrap();
                },
                // The memory of maps becomes that of texts, and back.
                &|task, round| {
                    let path = format!("/link{}", round % 16);
                    let body = vec![b'0' + (round % 10) as u8; 30 << (round % 6)];
                    if task.symlink(body, &path) == Err(Errno::EEXIST) {
                        task.unlink(path).unwrap();
                    }
                },
            ],
        );
        println!("{seen:?} looks through a map");
        drop(shared);
        for link in 0..16 {
            is_one_of(task.unlink(format!("/link{link}")), &[Errno::ENOENT]);
        }
        task.umount2("/source", UmountFlags::empty()).unwrap();
        check_whole(&task);
    });
}
