//! While something is written by way of a mount, nobody makes the mount read-only: a file system that tries, whatever it is
//! asked just then, is told that the mount is in use.

use pathwalk::{
    At, Attr, Config, Cred, Errno, FileType, InodeRef, MountAttr, MountAttrFlags, OpenFlags,
    OpenTreeFlags, Result, Subject, Task, Timespec, Vfs,
    fs::{Emit, Features, FileSystem, Found, FsStat, Iattr, NewInode, OpenHandle},
};
use std::sync::{Arc, Mutex, Weak};

/// A root directory with one regular file. It tries to make its mount read-only when it is asked something.
#[derive(Default)]
struct Trying {
    task: Mutex<Weak<Task>>,
    /// When it was asked, and what it was told.
    told: Mutex<Vec<(&'static str, Result<()>)>>,
}

impl Trying {
    fn found(node: u64, kind: FileType) -> Found {
        let mode = kind.to_mode() | 0o777;
        let attr = Attr { mode, nlink: 1, ino: node, size: 9, ..Attr::default() };
        Found { node, attr, body: None }
    }

    fn try_it(&self, when: &'static str) {
        let Some(task) = self.task.lock().unwrap().upgrade() else { return };
        let read_only = MountAttr { attr_set: MountAttrFlags::RDONLY, ..MountAttr::default() };
        let told = task.mount_setattr(At::Cwd, "/", OpenTreeFlags::empty(), &read_only);
        self.told.lock().unwrap().push((when, told));
    }
}

impl FileSystem for Trying {
    fn kind(&self) -> &str {
        "trying"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        Ok(Self::found(1, FileType::Directory))
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        Ok((name == b"file").then(|| Self::found(2, FileType::Regular)))
    }

    fn create(&self, _: InodeRef<'_>, _: &[u8], _: &NewInode<'_>) -> Result<Found> {
        Err(Errno::EPERM)
    }

    fn open(&self, _: InodeRef<'_>, _: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        self.try_it("open");
        Ok(None)
    }

    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        self.try_it("setattr");
        inode.update(|attr| {
            change.copy_to(attr);
            Ok(())
        })
    }

    fn update_time(&self, inode: InodeRef<'_>, atime: Timespec) {
        self.try_it("update_time");
        let _: Result<()> = inode.update(|attr| {
            attr.atime = atime;
            Ok(())
        });
    }

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
        Err(Errno::EPERM)
    }

    fn readdir(&self, _: InodeRef<'_>, _: u64, _: &mut Emit<'_>) -> Result<()> {
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat::default())
    }
}

/// What it was told while something was done.
fn told(what: impl FnOnce(&Task)) -> Vec<(&'static str, Result<()>)> {
    let fs = Arc::new(Trying::default());
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let task = Arc::new(vfs.task(Cred::root()));
    *fs.task.lock().unwrap() = Arc::downgrade(&task);
    what(&task);
    fs.told.lock().unwrap().split_off(0)
}

#[test]
fn who_only_looks_is_not_in_the_way() {
    let told = told(|task| drop(task.open("/file", OpenFlags::empty(), 0).unwrap()));
    assert_eq!(told, [("open", Ok(()))]);
}

/// Also where the file is not open for writing.
#[test]
fn an_opening_that_truncates_writes_until_it_is_truncated() {
    let told = told(|task| drop(task.open("/file", OpenFlags::TRUNC, 0).unwrap()));
    assert_eq!(told, [("open", Err(Errno::EBUSY)), ("setattr", Err(Errno::EBUSY))]);
}

#[test]
fn a_note_of_the_last_access_is_written() {
    let told = told(|task| {
        let file = task.open("/file", OpenFlags::empty(), 0).unwrap();
        let before = MountAttr { attr_clr: MountAttrFlags::RDONLY, ..MountAttr::default() };
        task.mount_setattr(At::Cwd, "/", OpenTreeFlags::empty(), &before).unwrap();
        task.read(&file, &mut [0; 9]).unwrap();
    });
    assert_eq!(told, [("open", Ok(())), ("update_time", Err(Errno::EBUSY))]);
}
