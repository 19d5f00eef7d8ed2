//! What goes when a call ends: mounts that nobody holds any more, whatever their file systems do then.

mod common;

use common::watched;
use pathwalk::{
    Attr, Cred, Errno, File, InodeRef, MemFs, MountFlags, OpenFlags, Result, Subject, Task,
    Timespec, UmountFlags, Vfs,
    abi::mode::{S_IFDIR, S_IFREG},
    fs::{Features, FileSystem, Found},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// A directory in which there is a file by every name.
#[derive(Default)]
struct Everything {
    /// Whether it panics when an inode goes.
    panics: AtomicBool,
    /// What it lets go of when the file goes.
    keeps: Mutex<Option<File>>,
}

const ROOT: u64 = 1;
const FILE: u64 = 2;

fn found(node: u64, mode: u32) -> Found {
    let attr = Attr { mode, nlink: 1, ino: node, ..Attr::default() };
    Found { node, attr, body: None }
}

impl FileSystem for Everything {
    fn kind(&self) -> &str {
        "everything"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(ROOT, S_IFDIR | 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        Ok(Some(found(FILE, S_IFREG | 0o644)))
    }

    fn unlink(&self, _: InodeRef<'_>, _: &[u8], _: InodeRef<'_>, _: Timespec) -> Result<()> {
        Ok(())
    }

    fn evict(&self, node: u64, _: bool) {
        if node == FILE {
            drop(self.keeps.lock().unwrap().take());
        }
        assert!(!self.panics.load(Relaxed), "as it is to");
    }
}

fn machine() -> Task {
    Vfs::new(Default::default(), MemFs::new()).unwrap().task(Cred::root())
}

fn mount(task: &Task, path: &str, panics: bool) -> Arc<Everything> {
    let fs = Arc::new(Everything { panics: panics.into(), ..Everything::default() });
    task.mkdir(path, 0o755).unwrap();
    task.mount(Arc::clone(&fs) as _, path, MountFlags::empty()).unwrap();
    fs
}

#[test]
fn file_systems_that_panic_while_they_go_keep_nobody_else() {
    watched(|| {
        let task = machine();
        task.mkdir("/m", 0o755).unwrap();
        task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
        for path in ["/m/a", "/m/b", "/m/c"] {
            mount(&task, path, path != "/m/b");
        }
        let umount = || task.umount2("/m", UmountFlags::DETACH);
        assert!(catch_unwind(AssertUnwindSafe(umount)).is_err(), "it is heard of");
        assert_eq!(task.vfs().usage().mounts, 1);
        // And what comes after it goes as ever.
        task.mount(MemFs::new(), "/m", MountFlags::empty()).unwrap();
        assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
        assert_eq!(task.vfs().usage().mounts, 1);
    });
}

#[test]
fn a_file_whose_file_system_panics_when_it_is_closed_does_not_keep_its_mount() {
    watched(|| {
        let task = machine();
        let fs = mount(&task, "/m", true);
        let file = task.open("/m/f", OpenFlags::PATH, 0).unwrap();
        task.unlink("/m/f").unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(file))).is_err());
        fs.panics.store(false, Relaxed);
        assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
    });
}

/// It goes behind the name that had the last of it, which it would wait for else.
#[test]
fn a_file_system_may_let_go_of_its_last_mount_when_an_inode_goes() {
    watched(|| {
        let task = machine();
        let fs = mount(&task, "/m", false);
        task.stat("/m/f").unwrap();
        *fs.keeps.lock().unwrap() = Some(task.open("/m", OpenFlags::PATH, 0).unwrap());
        task.umount2("/m", UmountFlags::DETACH).unwrap();
        assert_eq!(task.vfs().usage().mounts, 2);
        task.vfs().shrink(u32::MAX);
        assert_eq!(task.vfs().usage().mounts, 1);
        assert_eq!(task.stat("/m/f").map(drop), Err(Errno::ENOENT));
    });
}
