//! The root of a tmpfs: whose it is, and since when.

use pathwalk_abi::{CapSet, Errno, MountFlags, OpenFlags, Result, Timespec, UmountFlags};
use pathwalk_core::{
    Attr, Config, Cred, InodeRef, Subject, Task, Vfs,
    fs::{Automount, Features, FileSystem, Found, FsStat, Managed},
};
use pathwalk_memfs::MemFs;
use std::sync::Arc;

fn owner(task: &Task, path: &str) -> (u32, u32) {
    let stat = task.stat(path).expect("it is there");
    (stat.st_uid, stat.st_gid)
}

/// Linux: `shmem_init_fs_context` takes `current_fsuid()` and `current_fsgid()`.
#[test]
fn who_mounts_owns_the_root() {
    let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a machine");
    let root = vfs.task(Cred::root());
    root.mkdir("/d", 0o755).expect("a directory");
    assert_eq!(owner(&root, "/"), (0, 0), "nobody has mounted the first");
    let admin = Cred { fsuid: 1000, fsgid: 1001, ..Cred::user(7, 8).with_caps(CapSet::SYS_ADMIN) };
    let admin = vfs.task(admin);
    let fs = MemFs::new();
    for (task, want) in [(&admin, (1000, 1001)), (&root, (0, 0)), (&admin, (1000, 1001))] {
        task.mount(Arc::clone(&fs) as _, "/d", MountFlags::empty()).expect("a mount");
        assert_eq!(owner(task, "/d"), want);
        let remount = MountFlags::REMOUNT | MountFlags::NOATIME;
        for other in [&root, &admin] {
            other.mount_tree("none", "/d", remount).expect("it is mounted");
            assert_eq!(owner(task, "/d"), want, "who mounts anew mounts nothing");
        }
        task.umount2("/d", UmountFlags::empty()).expect("nobody uses it");
    }
    let none = u32::MAX;
    for (said, want) in [((0, 0), (0, 0)), ((none, 5), (1000, 5)), ((none, none), (1000, 1001))] {
        let said = MemFs::builder().root_owner(said.0, said.1).build();
        admin.mount(said, "/d", MountFlags::empty()).expect("a mount");
        assert_eq!(owner(&admin, "/d"), want);
    }
}

#[test]
fn a_root_is_as_old_as_the_machines_clock_says() {
    fn seven() -> Timespec {
        Timespec { sec: 7, nsec: 8 }
    }
    let config = Config { clock: Some(seven), ..Config::default() };
    let task = Vfs::new(config, MemFs::new()).expect("a machine").task(Cred::root());
    let stat = task.stat("/").expect("a root");
    assert_eq!((stat.st_atime, stat.st_mtime, stat.st_ctime), (7, 7, 7));
    assert_eq!((stat.st_atime_nsec, stat.st_mtime_nsec, stat.st_ctime_nsec), (8, 8, 8));
}

/// Mounts a tmpfs on its root.
struct Mounting;

impl FileSystem for Mounting {
    fn kind(&self) -> &str {
        "mounting"
    }

    fn features(&self) -> Features {
        Features::MANAGED
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        let attr = Attr { mode: 0o40755, nlink: 2, ino: 1, ..Attr::default() };
        Ok(Found { node: 1, attr, body: None })
    }

    fn managed(&self, _found: &Found) -> Managed {
        Managed::AUTOMOUNT
    }

    fn automount(&self, _dir: InodeRef<'_>, _who: &Subject<'_>) -> Result<Option<Automount>> {
        Ok(Some(Automount { fs: MemFs::new(), flags: MountFlags::empty() }))
    }

    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat::default())
    }
}

#[test]
fn who_walks_into_an_automount_owns_its_root() {
    let vfs = Vfs::new(Config::default(), MemFs::new()).expect("a machine");
    let root = vfs.task(Cred::root());
    root.mkdir("/d", 0o755).expect("a directory");
    root.mount(Arc::new(Mounting), "/d", MountFlags::empty()).expect("a mount");
    let user = vfs.task(Cred::user(1000, 1001));
    let inside = user.open("/d/", OpenFlags::DIRECTORY, 0).expect("a directory");
    let stat = user.fstat(&inside).expect("an open file");
    assert_eq!((stat.st_mode, stat.st_uid, stat.st_gid), (0o41777, 1000, 1001));
}
