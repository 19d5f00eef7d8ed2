//! statmount and listmount by numbers: what no path leads to, and lists in pieces.

use pathwalk::{
    At, AtFlags, Config, Cred, Errno, LSMT_ROOT, ListmountFlags, MemFs, MountFlags, MoveMountFlags,
    OpenTreeFlags, StatmountMask, StatxMask, Task, UmountFlags, Vfs,
};

const NONE: ListmountFlags = ListmountFlags::empty();

fn machine() -> Task {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    for number in 0..10 {
        let path = format!("/{number}");
        task.mkdir(&path, 0o755).unwrap();
        task.mount(MemFs::new(), &path, MountFlags::empty()).unwrap();
    }
    task
}

fn id(task: &Task, path: &str) -> u64 {
    let statx = task.statx(At::Cwd, path, AtFlags::empty(), StatxMask::MNT_ID_UNIQUE).unwrap();
    statx.stx_mnt_id
}

#[test]
fn a_list_in_pieces_is_the_whole() {
    let task = machine();
    let whole = task.listmount(LSMT_ROOT, 0, 100, NONE).unwrap();
    let below: Vec<_> = (0..10).map(|number| id(&task, &format!("/{number}"))).collect();
    assert_eq!(whole[1..], below, "the oldest first");
    assert_eq!(task.listmount(whole[0], 0, 100, NONE), Ok(below));
    for flags in [NONE, ListmountFlags::REVERSE] {
        for size in 1..12 {
            let (mut pieces, mut last) = (Vec::new(), 0);
            loop {
                let piece = task.listmount(LSMT_ROOT, last, size, flags).unwrap();
                let Some(&end) = piece.last() else { break };
                last = end;
                pieces.extend(piece);
            }
            if flags == ListmountFlags::REVERSE {
                pieces.reverse();
            }
            assert_eq!(pieces, whole, "{size}");
        }
    }
    task.umount2("/4", UmountFlags::empty()).unwrap();
    assert_eq!(task.listmount(LSMT_ROOT, whole[4], 1, NONE), Ok(vec![whole[6]]));
    assert_eq!(task.listmount(LSMT_ROOT, whole[5], 1, NONE), Ok(vec![whole[6]]), "it is gone");
    assert_eq!(task.statmount(whole[5], StatmountMask::all()), Err(Errno::ENOENT));
}

/// The kernel's answers to the same numbers.
#[test]
fn numbers_that_are_no_mounts() {
    let task = machine();
    let list = |id, last, max, flags| task.listmount(id, last, max, flags).map(|ids| ids.len());
    let first = 1 << 31;
    for number in [0, 5, first] {
        assert_eq!(list(number, 0, 9, NONE), Err(Errno::EINVAL));
        assert_eq!(task.statmount(number, StatmountMask::all()).map(drop), Err(Errno::EINVAL));
    }
    for number in [first + (1 << 40), LSMT_ROOT - 1] {
        assert_eq!(list(number, 0, 9, NONE), Err(Errno::ENOENT));
        assert_eq!(task.statmount(number, StatmountMask::all()).map(drop), Err(Errno::ENOENT));
    }
    assert_eq!(task.statmount(LSMT_ROOT, StatmountMask::all()).map(drop), Err(Errno::ENOENT));
    assert_eq!(list(LSMT_ROOT, 5, 100, NONE), Err(Errno::EINVAL));
    assert_eq!(list(LSMT_ROOT, first, 100, NONE), Err(Errno::EINVAL));
    assert_eq!(list(LSMT_ROOT, LSMT_ROOT, 100, NONE), Ok(11), "from the beginning");
    assert_eq!(list(LSMT_ROOT, 0, 0, NONE), Ok(0));
    assert_eq!(list(LSMT_ROOT, 0, 1_000_001, NONE), Err(Errno::EOVERFLOW));
    assert_eq!(list(0, 0, 1_000_001, ListmountFlags::from_bits_retain(2)), Err(Errno::EINVAL));
    // What the root does not lead to is told to who may mount.
    let mut inside = task.fork();
    inside.chroot("/3").unwrap();
    let (top, point) = (id(&task, "/"), StatmountMask::MNT_POINT);
    assert_eq!(inside.listmount(top, 0, 100, NONE).map(|ids| ids.len()), Ok(10));
    assert_eq!(inside.statmount(top, point).map(|told| told.mask), Ok(StatmountMask::empty()));
    inside.set_cred(Cred::user(1000, 1000));
    assert_eq!(inside.listmount(top, 0, 100, NONE), Err(Errno::EPERM));
    assert_eq!(inside.statmount(top, point).map(drop), Err(Errno::EPERM));
    let own = inside.listmount(LSMT_ROOT, 0, 100, NONE).unwrap();
    assert_eq!(own, [id(&task, "/3")]);
    assert_eq!(inside.statmount(own[0], point).map(|told| told.mnt_point), Ok(b"/".to_vec()));
    // Another namespace's mounts are not there.
    let mut other = task.fork();
    other.unshare_mounts().unwrap();
    assert_eq!(
        other.statmount(id(&task, "/3"), StatmountMask::all()).map(drop),
        Err(Errno::ENOENT)
    );
}

/// A whole tree that was copied before others were mounted, and hung up behind them.
#[test]
fn an_older_tree_is_listed_before_what_is_younger() {
    let task = machine();
    for number in 0..30 {
        let path = format!("/0/{number}");
        task.mkdir(&path, 0o755).unwrap();
        task.mount(MemFs::new(), &path, MountFlags::empty()).unwrap();
    }
    let flags = OpenTreeFlags::CLONE | OpenTreeFlags::RECURSIVE;
    let copy = task.open_tree(At::Cwd, "/0", flags).unwrap();
    for path in ["/1/younger", "/2/younger"] {
        task.mkdir(path, 0o755).unwrap();
        task.mount(MemFs::new(), path, MountFlags::empty()).unwrap();
    }
    task.mkdir("/copy", 0o755).unwrap();
    task.move_mount(&copy, "", At::Cwd, "/copy", MoveMountFlags::F_EMPTY_PATH).unwrap();
    let list = || task.listmount(LSMT_ROOT, 0, 1000, NONE).unwrap();
    let all = list();
    assert!(all.is_sorted(), "{all:?}");
    assert_eq!(all.len(), 1 + 10 + 30 + 2 + 31);
    assert_eq!(all.last(), Some(&id(&task, "/2/younger")));
    assert!(all.contains(&id(&task, "/copy/29")));
    task.umount2("/copy", UmountFlags::DETACH).unwrap();
    let without = list();
    assert_eq!(without.len(), all.len() - 31);
    assert!(without.iter().all(|id| all.contains(id)) && without.is_sorted());
}
