//! Who changes a file while another one's change of it is under way.

mod common;

use common::asking::{found, root_task};
use pathwalk::{
    FileType, InodeRef, OpenFlags, Result, Subject, Timespec,
    fs::{Features, FileSystem, Found, Iattr},
};
use std::{
    convert::Infallible,
    mem::take,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::Duration,
};

/// A file whose mode another machine has. Who asks for it may be kept until his answer is old.
struct Elsewhere {
    mode: Mutex<u32>,
    keeps: Mutex<bool>,
    kept: Barrier,
}

impl FileSystem for Elsewhere {
    fn kind(&self) -> &str {
        "elsewhere"
    }

    fn features(&self) -> Features {
        Features::GETATTR
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        Ok(Some(found(2, FileType::Regular, *self.mode.lock().unwrap())))
    }

    fn getattr(&self, inode: InodeRef<'_>) -> Result<()> {
        if inode.node() == 1 {
            return Ok(());
        }
        let mode = *self.mode.lock().unwrap();
        let keeps = take(&mut *self.keeps.lock().unwrap());
        if keeps {
            self.kept.wait();
            self.kept.wait();
        }
        let Ok(()) = inode.update(|attr| {
            attr.mode = attr.mode & !0o7777 | mode;
            Ok::<_, Infallible>(())
        });
        Ok(())
    }

    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        if let Some(mode) = change.mode {
            *self.mode.lock().unwrap() = mode & 0o7777;
        }
        inode.update(|attr| {
            change.copy_to(attr);
            Ok(())
        })
    }
}

/// The chown takes set-id bits from the mode that it was told of: nobody may have changed that by then.
#[test]
fn who_asks_what_he_changes_forgets_no_other_change() {
    let (mode, keeps, kept) = (Mutex::new(0o4755), Mutex::default(), Barrier::new(2));
    let fs = Arc::new(Elsewhere { mode, keeps, kept });
    let task = root_task(&fs);
    let file = task.open("/f", OpenFlags::RDWR, 0).unwrap();
    *fs.keeps.lock().unwrap() = true;
    thread::scope(|scope| {
        let (task, file) = (&task, &file);
        scope.spawn(move || task.fchown(file, None, Some(5)).unwrap());
        fs.kept.wait();
        scope.spawn(move || task.fchmod(file, 0o4700).unwrap());
        // Time enough for the chmod, if it does not wait.
        thread::sleep(Duration::from_millis(100));
        fs.kept.wait();
    });
    let mode = *fs.mode.lock().unwrap();
    assert!([0o700, 0o4700].contains(&mode), "{mode:o}");
}
