//! Mounts that come, go, move and propagate in several namespaces while others look things up.

use crate::{
    check_whole,
    circles::{is_one_of, meet},
    common::watched,
    machine,
};
use pathwalk::{
    At, Errno, MemFs, MountFlags, MoveMountFlags, OpenFlags, OpenTreeFlags, Task, UmountFlags,
    mountinfo,
};

const DETACH: UmountFlags = UmountFlags::DETACH.union(UmountFlags::NOFOLLOW);

fn new_mount(task: &Task, path: &str) {
    let ends = &[Errno::ENOENT, Errno::EINVAL, Errno::ENOSPC];
    is_one_of(task.mount(MemFs::new(), path, MountFlags::empty()), ends);
}

/// Two peers and a slave; mounts in each of them, seen from a second namespace too.
#[test]
fn propagation_meets_lookups() {
    watched(|| {
        let task = machine();
        for dir in ["/a", "/b", "/c", "/lost"] {
            task.mkdir(dir, 0o755).unwrap();
        }
        task.mount(MemFs::new(), "/a", MountFlags::empty()).unwrap();
        task.mkdir("/a/x", 0o755).unwrap();
        task.mkdir("/a/x/in", 0o755).unwrap();
        task.mount_tree("none", "/a", MountFlags::SHARED).unwrap();
        task.bind("/a", "/b").unwrap();
        task.bind("/a", "/c").unwrap();
        task.mount_tree("none", "/c", MountFlags::SLAVE).unwrap();
        let mut elsewhere = task.fork();
        elsewhere.unshare_mounts().unwrap();
        let ends = &[Errno::EINVAL, Errno::EBUSY, Errno::ENOENT, Errno::ELOOP];
        let looks = |task: &Task, round: u64| {
            let dir = ["/a", "/b", "/c"][round as usize % 3];
            // The directory is there whatever is mounted on it.
            task.stat(format!("{dir}/x")).unwrap();
            // Where a mount has gone, its root is a root of its own: `..` stays there.
            for path in ["x/../x", "x/../../lost", "x/in"] {
                is_one_of(task.stat(format!("{dir}/{path}")).map(drop), &[Errno::ENOENT]);
            }
            task.open(format!("{dir}/x"), OpenFlags::DIRECTORY, 0).map(drop).unwrap();
        };
        meet(
            &task,
            &[
                &|task, _| {
                    new_mount(task, "/a/x");
                    is_one_of(task.umount2("/a/x", UmountFlags::NOFOLLOW), ends);
                    while task.umount2("/a/x", DETACH).is_ok() {}
                },
                &|task, round| {
                    new_mount(task, "/c/x");
                    if round % 7 == 0 {
                        is_one_of(task.mount_tree("none", "/c/x", MountFlags::SHARED), ends);
                    }
                    is_one_of(task.umount2("/c/x", DETACH), ends);
                },
                &|task, _| {
                    let all = OpenTreeFlags::CLONE | OpenTreeFlags::RECURSIVE;
                    // What was found may have been unmounted since.
                    let Ok(copy) = task.open_tree(At::Cwd, "/b/x", all) else { return };
                    task.fstat(&copy).unwrap();
                    let flags = MoveMountFlags::F_EMPTY_PATH;
                    is_one_of(task.move_mount(&copy, "", At::Cwd, "/b/x", flags), ends);
                    is_one_of(task.umount2("/b/x", DETACH), ends);
                },
                &|task, round| {
                    let mut task = task.fork();
                    task.unshare_mounts().unwrap();
                    looks(&task, round);
                    new_mount(&task, "/b/x");
                },
                &|_, round| looks(&elsewhere, round),
                &looks,
                &|task, _| assert!(mountinfo(task).ends_with(b"\n")),
            ],
        );
        drop(elsewhere);
        crate::common::tree::umount_all(&task);
        check_whole(&task);
    });
}

/// What is covered is never seen while something is mounted beneath what covers it, or what covers it slides down.
#[test]
fn what_is_covered_stays_covered() {
    watched(|| {
        let task = machine();
        for dir in ["/a", "/b"] {
            task.mkdir(dir, 0o755).unwrap();
        }
        task.mount(MemFs::new(), "/a", MountFlags::empty()).unwrap();
        task.mkdir("/a/x", 0o755).unwrap();
        task.mkdir("/a/x/covered", 0o755).unwrap();
        task.mount_tree("none", "/a", MountFlags::SHARED).unwrap();
        task.bind("/a", "/b").unwrap();
        task.mount_tree("none", "/b", MountFlags::SLAVE).unwrap();
        task.mount(MemFs::new(), "/b/x", MountFlags::empty()).unwrap();
        task.mkdir("/b/x/cover", 0o755).unwrap();
        let covered = |task: &Task| {
            task.stat("/b/x/cover").unwrap();
            assert_eq!(task.stat("/b/x/covered").map(drop), Err(Errno::ENOENT));
            let dir = task.open("/b/x/cover/..", OpenFlags::DIRECTORY, 0).unwrap();
            task.fstatat(&dir, "cover", pathwalk::AtFlags::empty()).unwrap();
        };
        meet(
            &task,
            &[
                &|task, _| {
                    // Each goes beneath the cover at /b/x, and away again.
                    task.mount(MemFs::new(), "/a/x", MountFlags::empty()).unwrap();
                    is_one_of(task.umount2("/a/x", DETACH), &[]);
                },
                &|task, _| covered(task),
                &|task, _| covered(task),
            ],
        );
        task.umount2("/b/x", DETACH).unwrap();
        crate::common::tree::umount_all(&task);
        check_whole(&task);
    });
}

/// What propagation makes counts, too.
#[test]
fn a_namespace_has_no_more_mounts_than_it_may() {
    let task = machine();
    for dir in ["/s", "/peers"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.mount(MemFs::new(), "/s", MountFlags::empty()).unwrap();
    (0..=100).for_each(|dir| task.mkdir(format!("/s/{dir}"), 0o755).unwrap());
    task.mount_tree("", "/s", MountFlags::SHARED).unwrap();
    for peer in (0..1000).map(|peer| format!("/peers/{peer}")) {
        task.mkdir(&peer, 0o755).unwrap();
        task.bind("/s", &peer).unwrap();
    }
    let mount = |dir| task.mount(MemFs::new(), format!("/s/{dir}"), MountFlags::empty());
    let refused = (0..=100).find_map(|dir| mount(dir).err());
    assert_eq!(refused, Some(Errno::ENOSPC));
    assert!(task.vfs().usage().mounts <= 100_000);
}
