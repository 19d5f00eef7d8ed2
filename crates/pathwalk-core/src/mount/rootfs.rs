//! The file system below the root: an empty directory that the root is mounted on.
//!
//! It is there so that the root is a mount like any other: it can be moved by pivot_root(2), and taken away lazily.
//! Nothing can be made in it.
//!
//! Linux: `rootfs`, which is a tmpfs.

use crate::{
    cred::Subject,
    fs::{Features, FileSystem, Found, FsStat, NewInode},
    inode::{Attr, InodeRef},
};
use pathwalk_abi::{Errno, Result, Timespec, mode::S_IFDIR};

/// An empty directory.
pub(crate) struct RootFs;

impl FileSystem for RootFs {
    fn kind(&self) -> &str {
        "rootfs"
    }

    fn features(&self) -> Features {
        Features::COMPLETE
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        let attr = Attr { mode: S_IFDIR | 0o755, nlink: 2, ino: 1, ..Attr::default() };
        Ok(Found { node: 1, attr, body: None })
    }

    fn create(&self, _: InodeRef<'_>, _: &[u8], _: &NewInode<'_>) -> Result<Option<Found>> {
        Err(Errno::EPERM)
    }

    fn read(&self, _: InodeRef<'_>, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write(
        &self,
        _: InodeRef<'_>,
        _: Option<u64>,
        _: &[u8],
        _: Timespec,
    ) -> Result<(u64, usize)> {
        Err(Errno::EISDIR)
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { magic: 0x8584_58f6, bsize: 4096, ..FsStat::default() })
    }
}
