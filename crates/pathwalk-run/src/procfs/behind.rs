//! Extended attributes of what a link leads to that has no place in the tree: they are the host's.

use super::ProcView;
use crate::{
    hidden::Hidden,
    sys::{answer, process::by_number},
};
use pathwalk::{
    CapSet, Errno, InodeRef, Result, XattrFlags,
    abi::{XATTR_LIST_MAX, XATTR_SIZE_MAX},
};
use rustix::fs::{self, OFlags};
use std::{os::fd::OwnedFd, sync::atomic::Ordering::Relaxed};

/// It, held.
pub(super) struct Behind(OwnedFd);

impl ProcView {
    /// What is behind a hidden file, whose extended attributes are the host's; none of any other file.
    ///
    /// # Errors
    ///
    /// - those of [`ProcView::fetched`].
    /// - `EACCES`: it is a directory of the host.
    pub(super) fn behind(&self, inode: InodeRef<'_>) -> Result<Option<Behind>> {
        Ok(match Hidden::of(&self.path(inode)?) {
            Some(hidden) => Some(self.behind_hidden(&hidden)?.0),
            None => None,
        })
    }

    fn behind_hidden(&self, hidden: &Hidden) -> Result<(Behind, fs::Stat)> {
        let (held, stat) = match *hidden {
            Hidden::Descriptor(tid, number) => self.fetched(tid, number)?,
            Hidden::Namespace(..) => {
                let held = self.open_hidden(hidden, OFlags::PATH)?;
                let stat = answer(fs::fstat(&held))?;
                (held, stat)
            }
        };
        let directory = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory;
        if directory { Err(Errno::EACCES) } else { Ok((Behind(held), stat)) }
    }

    /// The same, where an attribute of it is to be changed by who may.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it is not behind a hidden file.
    /// - `EPERM`: it has a name on the host and the caller is somebody whom the host does not know; or it is another one's and its
    ///   ACLs are to be changed.
    pub(super) fn changed_behind(&self, inode: InodeRef<'_>, name: &[u8]) -> Result<Behind> {
        let hidden = Hidden::of(&self.path(inode)?).ok_or(Errno::EOPNOTSUPP)?;
        let (behind, stat) = self.behind_hidden(&hidden)?;
        let asks = self.asker.credentials(self.asker.0.tid.load(Relaxed));
        let owns = asks.is_none_or(|person| {
            let cred = &person.credentials;
            inode.attr().uid == cred.user.fs || cred.effective.contains(CapSet::FOWNER)
        });
        if self.is_others(hidden.tid(), &stat) || name.starts_with(b"system.") && !owns {
            return Err(Errno::EPERM);
        }
        Ok(behind)
    }
}

impl Behind {
    pub(super) fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let mut value = vec![0; XATTR_SIZE_MAX];
        let len = answer(fs::getxattr(by_number(&self.0), name, &mut value[..]))?;
        value.truncate(len);
        Ok(value)
    }

    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<()> {
        let flags = fs::XattrFlags::from_bits_retain(flags.bits());
        answer(fs::setxattr(by_number(&self.0), name, value, flags))
    }

    pub(super) fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        answer(fs::removexattr(by_number(&self.0), name))
    }

    /// The names of all.
    pub(super) fn xattrs(&self) -> Result<Vec<Vec<u8>>> {
        let mut names = vec![0; XATTR_LIST_MAX];
        let len = answer(fs::listxattr(by_number(&self.0), &mut names[..]))?;
        let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }
}
