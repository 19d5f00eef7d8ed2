//! While something is written by way of a mount, nobody makes the mount read-only: a file system that tries, whatever it is
//! asked just then, is told that the mount is in use.

mod common;

use common::asking::{Inside, found, root_task};
use pathwalk::{
    At, Errno, FileType, InodeRef, MountAttr, MountAttrFlags, OpenFlags, OpenTreeFlags, Result,
    Subject, Task, Timespec,
    fs::{Features, FileSystem, Found, Iattr, OpenHandle},
};
use std::sync::{Arc, Mutex};

/// A root directory with one regular file. It tries to make its mount read-only when it is asked something.
#[derive(Default)]
struct Trying {
    inside: Inside,
    /// When it was asked, and what it was told.
    told: Mutex<Vec<(&'static str, Result<()>)>>,
}

impl Trying {
    fn try_it(&self, when: &'static str) {
        let Some(task) = self.inside.task() else { return };
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

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o777))
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        Ok((name == b"file").then(|| found(2, FileType::Regular, 0o777)))
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
}

/// What it was told while something was done.
fn told(what: impl FnOnce(&Task)) -> Vec<(&'static str, Result<()>)> {
    let fs = Arc::new(Trying::default());
    let task = root_task(&fs);
    fs.inside.give(&task);
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
