//! Extended attributes: names and values, in the order in which they are listed.
//!
//! Linux: `simple_xattr_set`, `shmem_xattr_handler_set`.

use crate::memfs::MemFs;
use pathwalk_abi::{
    Errno, Result, Timespec, XattrFlags,
    xattr::{XATTR_SECURITY_PREFIX, XATTR_TRUSTED_PREFIX, XATTR_USER_PREFIX},
};
use pathwalk_core::InodeRef;
use std::collections::BTreeMap;

/// What an attribute takes of the room beside its name and value.
const OVERHEAD: u64 = 40;

/// The attributes of a file.
#[derive(Debug, Default)]
pub(crate) struct Xattrs(BTreeMap<Box<[u8]>, Box<[u8]>>);

impl Xattrs {
    /// The value of an attribute.
    ///
    /// # Errors
    ///
    /// - `ENODATA`: it is not there.
    fn get(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.0.get(name).map(|value| value.to_vec()).ok_or(Errno::ENODATA)
    }

    /// Sets an attribute; returns the room that the one of before took.
    ///
    /// # Errors
    ///
    /// - `EEXIST`: it is to be new, and it is there.
    /// - `ENODATA`: it is to be there, and it is not.
    fn set(&mut self, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<u64> {
        match self.0.get_mut(name) {
            Some(_) if flags.contains(XattrFlags::CREATE) => Err(Errno::EEXIST),
            None if flags.contains(XattrFlags::REPLACE) => Err(Errno::ENODATA),
            Some(old) => {
                let room = room(name, old);
                *old = value.into();
                Ok(room)
            }
            None => {
                self.0.insert(name.into(), value.into());
                Ok(0)
            }
        }
    }

    /// Removes an attribute; returns the room that it took.
    ///
    /// # Errors
    ///
    /// - `ENODATA`: it is not there.
    fn remove(&mut self, name: &[u8]) -> Result<u64> {
        self.0.remove(name).map(|value| room(name, &value)).ok_or(Errno::ENODATA)
    }

    /// All names, the last in the alphabet first, as on tmpfs.
    fn names(&self) -> Vec<Vec<u8>> {
        self.0.keys().rev().map(|name| name.to_vec()).collect()
    }

    /// The room that all take.
    pub(crate) fn room(&self) -> u64 {
        self.0.iter().map(|(name, value)| room(name, value)).sum()
    }
}

impl MemFs {
    /// An attribute of a file.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: there is none of such a name. `EINVAL`: the name is a beginning and nothing else.
    /// - `ENODATA`: it is not there.
    pub(crate) fn xattr(&self, inode: InodeRef<'_>, name: &[u8]) -> Result<Vec<u8>> {
        must_be_known(name)?;
        let file = self.attributes(inode).ok_or(Errno::ENODATA)?;
        let xattrs = file.xattrs.read();
        xattrs.get(name)
    }

    /// Sets an attribute of a file.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`, `EINVAL`: as [`MemFs::xattr`].
    /// - `ENOSPC`: there is no room, be it that the attribute of before would make some.
    /// - `EEXIST`, `ENODATA`: as the flags want it.
    pub(crate) fn set_xattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timespec,
    ) -> Result<()> {
        must_be_known(name)?;
        self.note_others(inode)?;
        let room = room(name, value);
        self.space.take_xattr(room)?;
        let file = self.file_or_new(inode);
        let mut xattrs = file.xattrs.write();
        let old = xattrs.set(name, value, flags).inspect_err(|_| self.space.give_xattr(room))?;
        self.space.give_xattr(old);
        inode.set_changed(None, now);
        Ok(())
    }

    /// Removes an attribute of a file.
    ///
    /// # Errors
    ///
    /// As [`MemFs::xattr`].
    pub(crate) fn remove_xattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        now: Timespec,
    ) -> Result<()> {
        must_be_known(name)?;
        self.note_others(inode)?;
        let file = self.attributes(inode).ok_or(Errno::ENODATA)?;
        let mut xattrs = file.xattrs.write();
        self.space.give_xattr(xattrs.remove(name)?);
        inode.set_changed(None, now);
        Ok(())
    }

    /// The names of a file's attributes.
    pub(crate) fn xattr_names(&self, inode: InodeRef<'_>) -> Vec<Vec<u8>> {
        let file = self.attributes(inode);
        file.map(|file| file.xattrs.read().names()).unwrap_or_default()
    }
}

/// The room that an attribute takes.
fn room(name: &[u8], value: &[u8]) -> u64 {
    OVERHEAD + (name.len() + value.len()) as u64
}

/// Sees whether there can be an attribute of that name.
///
/// # Errors
///
/// - `EINVAL`: it is a beginning and nothing else.
/// - `EOPNOTSUPP`: no name begins so.
///
/// Linux: `xattr_resolve_name`.
fn must_be_known(name: &[u8]) -> Result<()> {
    for prefix in [XATTR_USER_PREFIX, XATTR_TRUSTED_PREFIX, XATTR_SECURITY_PREFIX] {
        match name.strip_prefix(prefix) {
            Some([]) => return Err(Errno::EINVAL),
            Some(_) => return Ok(()),
            None => {}
        }
    }
    Err(Errno::EOPNOTSUPP)
}
