//! What umount promises: it refuses what is in use, and takes all of a file system with it.

use crate::{
    check_whole,
    common::{sample::SampleFs, watched},
    deadline, machine,
};
use pathwalk::{Errno, File, FileType, MemFs, MountFlags, OpenFlags, UmountFlags, fs::Features};
use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Whoever has a file of the mount open keeps it where it is.
#[test]
fn a_mount_is_unmounted_or_a_file_in_it_is_open_but_not_both() {
    watched(|| {
        let task = machine();
        task.mkdir("/m", 0o755).unwrap();
        // Even while the mount is there, odd once umount has said that nobody uses it.
        let state = AtomicU64::new(0);
        let (over, opened, refused) =
            (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                let (task, over, state, opened) = (task.fork(), &over, &state, &opened);
                scope.spawn(move || {
                    while !over.load(Relaxed) {
                        let Ok(file) = task.open("/m/f", OpenFlags::RDONLY, 0) else { continue };
                        let before = state.load(Relaxed);
                        assert_eq!(before % 2, 0, "it was unmounted while a file was being opened");
                        for _ in 0..20 {
                            thread::yield_now();
                            assert_eq!(
                                before,
                                state.load(Relaxed),
                                "it was unmounted under a file"
                            );
                        }
                        drop(file);
                        opened.fetch_add(1, Relaxed);
                        // Else somebody would have a file open all the time.
                        thread::sleep(Duration::from_micros(opened.load(Relaxed) % 4 * 50));
                    }
                });
            }
            let end = deadline();
            while Instant::now() < end {
                task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
                task.creat("/m/f", 0o644).unwrap();
                // On one CPU nobody would ever come by otherwise.
                thread::sleep(Duration::from_micros(50));
                loop {
                    match task.umount2("/m", UmountFlags::empty()) {
                        Ok(()) => break,
                        Err(errno) => assert_eq!(errno, Errno::EBUSY),
                    }
                    refused.fetch_add(1, Relaxed);
                    thread::yield_now();
                }
                state.fetch_add(1, Relaxed);
                thread::yield_now();
                state.fetch_add(1, Relaxed);
            }
            over.store(true, Relaxed);
        });
        let (opened, refused) = (opened.into_inner(), refused.into_inner());
        println!("{opened} opened, {refused} unmounts refused");
        assert!(opened > 10 && refused > 10, "they met");
        check_whole(&task);
    });
}

/// Whatever else a thread has of its own, the last file may go after it.
#[test]
fn a_mount_goes_with_what_a_thread_has_of_its_own() {
    thread_local! {
        static FIRST: RefCell<Option<File>> = const { RefCell::new(None) };
        static SECOND: RefCell<Option<File>> = const { RefCell::new(None) };
    }
    let task = machine();
    for name in ["/m", "/n", "/o"] {
        task.mkdir(name, 0o755).unwrap();
        task.mount(MemFs::new(), name, MountFlags::empty()).unwrap();
    }
    let open = |name| task.open(name, OpenFlags::DIRECTORY, 0).unwrap();
    thread::scope(|scope| {
        let ends = scope.spawn(|| {
            // One is there before the thread has let go of a mount, or taken a lock; the other after that.
            FIRST.with(|_| ());
            FIRST.set(Some(open("/m")));
            let held = open("/o");
            task.umount2("/o", UmountFlags::DETACH).unwrap();
            drop(held);
            SECOND.set(Some(open("/n")));
            task.umount2("/m", UmountFlags::DETACH).unwrap();
            task.umount2("/n", UmountFlags::DETACH).unwrap();
        });
        // The scope waits for what it does, but not for its end.
        ends.join().unwrap();
    });
    check_whole(&task);
}

/// Names go by eviction while all of them go with their file system.
#[test]
fn a_file_system_is_unmounted_while_its_names_are_evicted() {
    watched(|| {
        let task = machine();
        task.mkdir("/m", 0o755).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let shrinking = thread::spawn({
            let (vfs, over) = (Arc::clone(task.vfs()), Arc::clone(&over));
            move || {
                while !over.load(Relaxed) {
                    vfs.shrink(8);
                }
            }
        });
        let end = deadline();
        let mut rounds = 0;
        while Instant::now() < end {
            let fs = SampleFs::new(Features::empty());
            fs.appear("file", FileType::Regular, 0o644, "");
            fs.appear("d", FileType::Directory, 0o755, "");
            task.mount(Arc::clone(&fs) as _, "/m", MountFlags::empty()).unwrap();
            for name in 0..40 {
                assert_eq!(task.stat(format!("/m/{name}")).map(drop), Err(Errno::ENOENT));
                assert_eq!(task.stat(format!("/m/d/{name}")).map(drop), Err(Errno::ENOENT));
            }
            task.stat("/m/file").unwrap();
            assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
            // Nothing of it is left, and it has heard of its root, the directory and the file.
            assert!(fs.calls.evict.load(Relaxed) >= 3, "{rounds}");
            rounds += 1;
        }
        over.store(true, Relaxed);
        shrinking.join().unwrap();
        println!("{rounds} rounds");
        assert!(rounds > 10, "only {rounds} rounds");
        check_whole(&task);
    });
}
