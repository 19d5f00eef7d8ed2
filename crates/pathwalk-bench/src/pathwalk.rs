//! pathwalk itself: the tree in a memfs, a task in each thread.

use std::ffi::CStr;
use std::sync::Arc;

use pathwalk::{AccessMode, Config, Cred, Dev, Errno, FileType, MemFs, OpenFlags, Task, Vfs};

use crate::Error;
use crate::contender::{Contender, Worker};
use crate::tree::{Entry, Tree};

/// What this build is called.
const BUILD: &str = if cfg!(pathwalk_ablate = "step_into") {
    "without-step_into"
} else if cfg!(pathwalk_ablate = "may_exec") {
    "without-may_exec"
} else if cfg!(pathwalk_ablate = "statx") {
    "without-statx"
} else if cfg!(pathwalk_ablate = "forget_root") {
    "without-forget_root"
} else {
    "pathwalk"
};

/// pathwalk as it is compiled here.
#[derive(Debug)]
pub struct Pathwalk {
    name: &'static str,
    vfs: Arc<Vfs>,
}

impl Pathwalk {
    /// Loads the tree into a machine of its own.
    ///
    /// # Errors
    ///
    /// Where there is not enough memory, or an entry cannot be made.
    pub fn new(tree: &Tree) -> Result<Self, Error> {
        Self::of(BUILD, Config::default(), tree)
    }

    /// The same, but every path is walked, however often it was walked before.
    ///
    /// # Errors
    ///
    /// As [`Pathwalk::new`].
    pub fn walking(tree: &Tree) -> Result<Self, Error> {
        Self::of("without-memo", Config { remember_paths: false, ..Config::default() }, tree)
    }

    fn of(name: &'static str, config: Config, tree: &Tree) -> Result<Self, Error> {
        let made = Vfs::new(config, MemFs::new());
        let vfs = made.map_err(|errno| Error::doing("making a machine", errno))?;
        load(tree, &vfs.task(Cred::root()))?;
        Ok(Self { name, vfs })
    }
}

impl Contender for Pathwalk {
    type Worker = Task;

    fn name(&self) -> &str {
        self.name
    }

    fn worker(&self) -> Result<Task, Error> {
        Ok(self.vfs.task(Cred::root()))
    }
}

impl Worker for Task {
    #[inline]
    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        Task::access(self, path.to_bytes(), AccessMode::empty())
    }
}

/// Makes the entries of a tree, below the task's root.
///
/// # Errors
///
/// The first entry that cannot be made, and why.
pub fn load(tree: &Tree, task: &Task) -> Result<(), Error> {
    let umask = task.umask(0);
    let loaded = tree.entries.iter().try_for_each(|entry| {
        make(entry, task).map_err(|errno| {
            Error::doing(format!("making {}", String::from_utf8_lossy(&entry.path)), errno)
        })
    });
    task.umask(umask);
    loaded
}

fn make(entry: &Entry, task: &Task) -> Result<(), Errno> {
    let path = &entry.path[..];
    match entry.kind {
        FileType::Directory if path == b"/" => task.chmod(path, entry.mode),
        FileType::Directory => task.mkdir(path, entry.mode),
        FileType::Symlink => task.symlink(&entry.target, path),
        FileType::Regular => {
            let flags = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::WRONLY;
            task.open(path, flags, entry.mode).map(drop)
        }
        kind => task.mknod(path, kind.to_mode() | entry.mode, Dev::default()),
    }
}
