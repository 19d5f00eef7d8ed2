//! A file system that is asked: for permission, or for names.
//!
//! `MemFs` never is, so it cannot show what asking costs. This one keeps a map of names, as one on a
//! disk has them in its directories. A file that is made keeps the attributes it was made with, for
//! whoever asks after the cache forgot it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use pathwalk::fs::{Access, Features, FileSystem, Found, FsStat, Iattr, NewInode};
use pathwalk::{Attr, Errno, FileType, InodeRef, Result, Subject, Timespec};

use crate::contender::Mounted;

/// Directories and empty files, by directory and name.
pub(crate) struct Asked {
    features: Features,
    names: Mutex<HashMap<(u64, Vec<u8>), Found>>,
}

impl Asked {
    pub(crate) fn new(what: Mounted) -> Arc<Self> {
        let features = match what {
            Mounted::Memory => Features::COMPLETE,
            Mounted::Asking { opts_in: false } => Features::COMPLETE | Features::PERMISSION,
            Mounted::Asking { opts_in: true } => {
                Features::COMPLETE | Features::PERMISSION | Features::MAY_EXEC
            }
            Mounted::Incomplete => Features::empty(),
        };
        Arc::new(Self { features, names: Mutex::default() })
    }

    fn enter(&self, dir: InodeRef<'_>, name: &[u8], attr: Attr) -> Found {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // The root is 1.
        let node = names.len() as u64 + 2;
        let found = Found { node, attr: Attr { ino: node, ..attr }, body: None };
        names.insert((dir.node(), name.to_vec()), found.clone());
        found
    }
}

impl FileSystem for Asked {
    fn kind(&self) -> &str {
        "asked"
    }

    fn features(&self) -> Features {
        self.features
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        let mode = FileType::Directory.to_mode() | 0o755;
        Ok(Found { node: 1, attr: Attr { mode, nlink: 2, ino: 1, ..Attr::default() }, body: None })
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(names.get(&(dir.node(), name.to_vec())).cloned())
    }

    fn permission(&self, inode: InodeRef<'_>, access: Access, who: &Subject<'_>) -> Result<()> {
        inode.generic_permission(access, who)
    }

    /// Makes a directory or a file.
    ///
    /// # Errors
    ///
    /// - `EPERM`: of any other type.
    fn create(&self, dir: InodeRef<'_>, name: &[u8], new: &NewInode<'_>) -> Result<Option<Found>> {
        let nlink = match new.file_type {
            FileType::Directory => 2,
            FileType::Regular => 1,
            _ => return Err(Errno::EPERM),
        };
        let mode = new.file_type.to_mode() | new.mode;
        Ok(Some(self.enter(dir, name, Attr { mode, nlink, ..Attr::default() })))
    }

    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        inode.update(|attr| {
            change.copy_to(attr);
            Ok(())
        })
    }

    fn readlink(&self, _: InodeRef<'_>) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
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
        Err(Errno::ENOSPC)
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { bsize: 4096, ..FsStat::default() })
    }
}
