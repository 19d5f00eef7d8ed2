//! What goes when a call ends: mounts that nobody holds any more, whatever their file systems do then.

mod common;

use common::{sample::SampleFs, watched};
use pathwalk::{
    Attr, Cred, Errno, File, FileType, InodeRef, InotifyFlags, InotifyMask, MemFs, MountFlags,
    OpenFlags, Result, Subject, Task, Timespec, UmountFlags, Vfs,
    abi::mode::{S_IFDIR, S_IFREG},
    fs::{Features, FileSystem, Found, OpenHandle},
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
    /// What ended: an opening, or an inode.
    ended: Arc<Mutex<Vec<&'static str>>>,
}

/// An opening of a file.
struct Opening(Arc<Mutex<Vec<&'static str>>>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("opening");
    }
}

impl OpenHandle for Opening {
    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn write(
        &self,
        _: InodeRef<'_>,
        _: Option<u64>,
        _: &[u8],
        _: Timespec,
    ) -> Result<(u64, usize)> {
        Err(Errno::ENOSPC)
    }
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

    fn open(&self, _: InodeRef<'_>, _: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        Ok(Some(Box::new(Opening(Arc::clone(&self.ended)))))
    }

    fn unlink(&self, _: InodeRef<'_>, _: &[u8], _: InodeRef<'_>, _: Timespec) -> Result<()> {
        Ok(())
    }

    fn evict(&self, node: u64, _: bool) {
        if node == FILE {
            drop(self.keeps.lock().unwrap().take());
        }
        self.ended.lock().unwrap().push("inode");
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
        let of = |path| mount(&task, path, path != "/m/b");
        let all = ["/m/a", "/m/b", "/m/c"].map(of);
        let umount = || task.umount2("/m", UmountFlags::DETACH);
        assert!(catch_unwind(AssertUnwindSafe(umount)).is_err(), "it is heard of");
        assert_eq!(task.vfs().usage().mounts, 1);
        assert_eq!(all.map(|fs| Arc::strong_count(&fs)), [1; 3], "they are gone");
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

/// What an opening keeps may be what the file system lies on.
#[test]
fn an_opening_ends_before_its_inode_and_its_mount() {
    let task = machine();
    let fs = mount(&task, "/m", false);
    let file = task.open("/m/f", OpenFlags::RDONLY, 0).unwrap();
    task.unlink("/m/f").unwrap();
    task.umount2("/m", UmountFlags::DETACH).unwrap();
    drop(file);
    assert_eq!(*fs.ended.lock().unwrap(), ["opening", "inode", "inode"]);
    assert_eq!(Arc::strong_count(&fs), 1);
}

/// A directory that goes with the last file in it goes also if both make their file system panic.
#[test]
fn two_inodes_may_panic_in_one_call() {
    watched(|| {
        let task = machine();
        let fs = SampleFs::new(Features::empty());
        task.mkdir("/m", 0o755).unwrap();
        task.mount(Arc::clone(&fs) as _, "/m", MountFlags::empty()).unwrap();
        task.mkdir("/m/d", 0o755).unwrap();
        let file = task.creat("/m/d/f", 0o644).unwrap();
        task.unlink("/m/d/f").unwrap();
        task.rmdir("/m/d").unwrap();
        let usage = |task: &Task| (task.vfs().usage().dentries, task.vfs().usage().inodes);
        let before = usage(&task);
        fs.evict_panics.store(true, Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(file))).is_err(), "it is heard of");
        fs.evict_panics.store(false, Relaxed);
        assert_eq!(usage(&task), (before.0 - 2, before.1 - 2));
        assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()));
        assert_eq!(Arc::strong_count(&fs), 1);
    });
}

/// Linux takes what a task still had from behind when it exits: its namespace's mounts, its current directory, its root.
#[test]
fn what_a_task_had_goes_when_all_was_given_back() {
    let task = machine();
    let queue = task.inotify_init1(InotifyFlags::empty()).unwrap();
    let mut paths = vec![];
    let mut prepare = |path: &'static str| {
        task.mkdir(path, 0o755).unwrap();
        task.mount(MemFs::new(), path, MountFlags::empty()).unwrap();
        let wd = task.inotify_add_watch(&queue, path, InotifyMask::DELETE_SELF).unwrap();
        paths.push((wd, path));
    };
    for path in ["/root", "/cwd", "/own", "/other"] {
        prepare(path);
    }
    let unmounted = || {
        let gone = |wd| paths.iter().find(|(known, _)| *known == wd).unwrap().1;
        let events = queue.events().filter(|event| event.mask.contains(InotifyMask::UNMOUNT));
        events.map(|event| gone(event.wd)).collect::<Vec<_>>()
    };
    let child = task.fork();
    child.chdir("/cwd").unwrap();
    child.chroot("/root").unwrap();
    for path in ["/root", "/cwd"] {
        task.umount2(path, UmountFlags::DETACH).unwrap();
    }
    assert_eq!(unmounted(), Vec::<&str>::new());
    drop(child);
    assert_eq!(unmounted(), ["/cwd", "/root"]);
    let mut child = task.fork();
    child.chdir("/other").unwrap();
    child.unshare_mounts().unwrap();
    child.umount2("/other", UmountFlags::DETACH).unwrap();
    for path in ["/own", "/other"] {
        task.umount2(path, UmountFlags::DETACH).unwrap();
    }
    assert_eq!(unmounted(), Vec::<&str>::new());
    drop(child);
    assert_eq!(unmounted(), ["/own", "/other"]);
}

/// What a walk lets go of may panic when the answer is there already: nobody else gives that back.
#[test]
fn a_walk_whose_end_panics_keeps_nothing() {
    watched(|| {
        let task = machine();
        let fs = SampleFs::new(Features::REVALIDATE);
        fs.appear("f", FileType::Regular, 0o644, "");
        task.mkdir("/m", 0o755).unwrap();
        task.mount(Arc::clone(&fs) as _, "/m", MountFlags::empty()).unwrap();
        for flags in [OpenFlags::PATH, OpenFlags::RDONLY, OpenFlags::CREAT] {
            task.stat("/m/f").unwrap();
            let before = task.vfs().usage().dentries;
            fs.vanish("f");
            fs.appear("f", FileType::Regular, 0o644, "");
            fs.valid.store(false, Relaxed);
            fs.evict_panics.store(true, Relaxed);
            let open = || task.open("/m/f", flags, 0o644).map(drop);
            assert!(catch_unwind(AssertUnwindSafe(open)).is_err(), "the one before goes");
            fs.evict_panics.store(false, Relaxed);
            fs.valid.store(true, Relaxed);
            task.stat("/m/f").unwrap();
            assert_eq!(task.vfs().usage().dentries, before, "{flags:?}");
        }
        assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()), "nobody has anything of it");
    });
}
