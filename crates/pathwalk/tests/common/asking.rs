//! For file systems that a test writes itself: what they say of a node, and the task by which they make calls while they are
//! asked.

use pathwalk::{Attr, Config, Cred, FileType, Task, Vfs, fs::FileSystem, fs::Found};
use std::sync::{Arc, Mutex, Weak};

/// A node and what it is, found.
pub(crate) fn found(node: u64, kind: FileType, mode: u32) -> Found {
    let nlink = if kind == FileType::Directory { 2 } else { 1 };
    let attr = Attr { mode: kind.to_mode() | mode, nlink, ino: node, ..Attr::default() };
    Found { node, attr, body: None }
}

/// The task by which a file system makes calls; none until it is given one.
#[derive(Default)]
pub(crate) struct Inside(Mutex<Weak<Task>>);

impl Inside {
    pub(crate) fn give(&self, task: &Arc<Task>) {
        *self.0.lock().unwrap() = Arc::downgrade(task);
    }

    pub(crate) fn take(&self) {
        *self.0.lock().unwrap() = Weak::new();
    }

    pub(crate) fn task(&self) -> Option<Arc<Task>> {
        self.0.lock().unwrap().upgrade()
    }
}

/// A task of root's in a machine with that root.
pub(crate) fn root_task(fs: &Arc<impl FileSystem>) -> Arc<Task> {
    let vfs = Vfs::new(Config::default(), Arc::clone(fs) as _).unwrap();
    Arc::new(vfs.task(Cred::root()))
}
