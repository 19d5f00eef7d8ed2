//! What an unmount does about what walks had mounted below: how long it waits for those who are in there, and who feels it
//! meanwhile.

use crate::mounts::{managed_at_a, mounts, umount};
use pathwalk::{At, Errno, File, MountFlags, OpenFlags, OpenHow, ResolveFlags, Task, patience};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A machine that has something mounted, when a walk comes by, on each numbered directory of `/a`.
fn numbers_at_a() -> Arc<Task> {
    let (fs, task) = managed_at_a(MountFlags::empty());
    fs.always.store(true, Relaxed);
    task
}

fn open(task: &Task, path: &str) -> File {
    task.open(path, OpenFlags::empty(), 0).unwrap()
}

/// Unmounts `/a`, in which something is busy; answers how often it waited, and how the walks to `path` went which holding
/// nothing came by meanwhile.
fn refused(task: &Arc<Task>, path: &'static str) -> (u64, Vec<Result<(), Errno>>) {
    let met = Rc::new(RefCell::new(Vec::new()));
    let walks = {
        let (met, task) = (Rc::clone(&met), Arc::clone(task));
        let how = OpenHow {
            flags: OpenFlags::PATH.bits(),
            mode: 0,
            resolve: ResolveFlags::CACHED.bits(),
        };
        move || met.borrow_mut().push(task.openat2(At::Cwd, path, &how).map(drop))
    };
    let before = patience::waits();
    let answer = patience::meanwhile(walks, || umount(task, "/a"));
    assert_eq!(answer, Err(Errno::EBUSY));
    let waits = patience::waits() - before;
    let met = met.take();
    assert_eq!(met.len() as u64, waits);
    (waits, met)
}

#[test]
fn of_many_that_are_busy_it_waits_for_all_as_for_one() {
    let waits = [1, 2, 100].map(|busy| {
        let task = numbers_at_a();
        let held: Vec<_> = (0..busy).map(|name| open(&task, &format!("/a/{name}"))).collect();
        let (waits, met) = refused(&task, "/a/0/.");
        assert!(met.iter().all(Result::is_ok), "{met:?}");
        assert_eq!(mounts(&task).len(), 1 + held.len());
        waits
    });
    assert!(waits[0] > 0, "it waited for who holds one for a moment");
    assert_eq!(waits, [waits[0]; 3]);
}

#[test]
fn what_idle_ones_cover_is_uncovered_before_it_waits_for_the_busy() {
    let task = numbers_at_a();
    for name in 0..4 {
        task.stat(format!("/a/{name}/.")).unwrap();
    }
    let _busy = open(&task, "/a/1");
    // A walk that holds nothing goes where nothing is mounted any more, and would have to have something mounted.
    let (_, met) = refused(&task, "/a/2/.");
    assert!(met.iter().all(|met| *met == Err(Errno::EAGAIN)), "{met:?}");
    let left: Vec<_> = mounts(&task).iter().map(|line| line[..5].trim().to_owned()).collect();
    assert_eq!(left, ["/a rw", "/a/1"]);
}

/// Idle itself, but to be taken down with a copy in which somebody is: it stays, and nobody in it is to wait.
#[test]
fn who_walks_in_an_idle_one_with_a_busy_copy_does_not_feel_it() {
    let task = numbers_at_a();
    task.mount_tree("", "/a", MountFlags::SHARED).unwrap();
    task.bind("/a", "/b").unwrap();
    let _busy = [0, 1, 2].map(|name| {
        task.stat(format!("/a/{name}/.")).unwrap();
        open(&task, &format!("/b/{name}"))
    });
    for path in ["/a/0/.", "/a/1/.", "/a/2/."] {
        let (waits, met) = refused(&task, path);
        assert!(waits > 0);
        assert!(met.iter().all(Result::is_ok), "{path}: {met:?}");
    }
    assert_eq!(mounts(&task).len(), 2 + 6);
}
