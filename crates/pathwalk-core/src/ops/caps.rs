//! File capabilities: the value of `security.capability`, and when a file loses it.
//!
//! All users are of one user namespace, so nothing is translated but what an idmapped mount shows otherwise, and the shape:
//! a namespace's root that is user 0 needs no mention.
//!
//! Linux: `cap_convert_nscap`, `cap_inode_getsecurity`.

use crate::{
    cred::Subject,
    inode::{Attr, I_NOSEC, InodeId},
    lock,
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::{
    CapSet, Errno, Result,
    xattr::{XATTR_NAME_CAPS, vfs_cap},
};
use pathwalk_sync::lock_order;

/// Asks whether a value may be set; answers what is to be kept instead of it, where it is to be translated.
///
/// # Errors
///
/// - `EINVAL`: it is neither of revision 2 nor of revision 3.
/// - `EPERM`: `CAP_SETFCAP` is missing, or the mount does not show whose file it is.
/// - `EINVAL`: its root is nobody, or nobody on this mount.
///
/// Linux: `cap_convert_nscap`.
pub(crate) fn to_store(value: &[u8], attr: &Attr, who: &Subject<'_>) -> Result<Option<Vec<u8>>> {
    let caps = Caps::read(value).ok_or(Errno::EINVAL)?;
    if !who.capable_over(CapSet::SETFCAP, attr.uid, attr.gid) {
        return Err(Errno::EPERM);
    }
    if caps.root == Some(u32::MAX) {
        return Err(Errno::EINVAL);
    }
    if who.idmap.is_none() {
        return Ok(None);
    }
    let root = who.stored_uid(caps.root.unwrap_or(0)).ok_or(Errno::EINVAL)?;
    Ok(Some(revision_3(value, &caps, root)))
}

/// A value as it is shown.
///
/// # Errors
///
/// - `EINVAL`: it was set otherwise and is none.
/// - `EOVERFLOW`: its root is nobody on this mount.
///
/// Linux: `cap_inode_getsecurity`.
pub(crate) fn shown(value: Vec<u8>, who: &Subject<'_>) -> Result<Vec<u8>> {
    let caps = Caps::read(&value).ok_or(Errno::EINVAL)?;
    let root = who.seen_uid(caps.root.unwrap_or(0)).ok_or(Errno::EOVERFLOW)?;
    if root != 0 {
        return Ok(revision_3(&value, &caps, root));
    }
    let magic = vfs_cap::REVISION_2 | caps.effective;
    let words = &value[4..vfs_cap::SIZE_2];
    Ok([&magic.to_le_bytes(), words].concat())
}

fn revision_3(value: &[u8], caps: &Caps, root: u32) -> Vec<u8> {
    let magic = vfs_cap::REVISION_3 | caps.effective;
    let words = &value[4..vfs_cap::SIZE_2];
    [&magic.to_le_bytes(), words, &root.to_le_bytes()].concat()
}

/// What is in front of the words, and behind them.
struct Caps {
    effective: u32,
    root: Option<u32>,
}

impl Caps {
    fn read(value: &[u8]) -> Option<Self> {
        let magic = u32::from_le_bytes(*value.first_chunk()?);
        let effective = magic & vfs_cap::FLAGS_EFFECTIVE;
        let root = match (magic & !vfs_cap::FLAGS_EFFECTIVE, value.len()) {
            (vfs_cap::REVISION_2, vfs_cap::SIZE_2) => None,
            (vfs_cap::REVISION_3, vfs_cap::SIZE_3) => {
                Some(u32::from_le_bytes(*value.last_chunk()?))
            }
            _ => return None,
        };
        Some(Self { effective, root })
    }
}

impl Vfs {
    /// Notes that a file may have capabilities from now on. Called before and after they are set: who finds none meanwhile
    /// and notes that is overruled.
    pub(crate) fn forget_nosec(&self, inode: InodeId, name: &[u8]) {
        if name == XATTR_NAME_CAPS {
            let slot = self.inode(inode);
            let _guard = slot.lockref.lock(lock::INODE);
            let _change = slot.seq.change();
            slot.flags.set(slot.flags.get() & !I_NOSEC);
        }
    }

    /// Takes a file's capabilities away, because its contents or its owner change. No capability of the caller's keeps
    /// them.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    ///
    /// Linux: `cap_inode_need_killpriv`, `cap_inode_killpriv`; the flag is `S_NOSEC`.
    pub(crate) fn kill_caps(&self, held: &HeldPath<'_>) -> Result<()> {
        let slot = self.inode(held.inode());
        let sample = slot.seq.sample();
        if slot.flags.get() & I_NOSEC != 0 {
            return Ok(());
        }
        lock_order::assert_none_held();
        let fs = &held.sb().fs;
        let has = fs.getxattr(held.inode_ref(), XATTR_NAME_CAPS).is_ok_and(|caps| !caps.is_empty());
        if has {
            return fs.removexattr(held.inode_ref(), XATTR_NAME_CAPS, self.now());
        }
        let _guard = slot.lockref.lock(lock::INODE);
        if slot.seq.unchanged(sample) {
            let _change = slot.seq.change();
            slot.flags.set(slot.flags.get() | I_NOSEC);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cred::Cred;

    fn value(magic: u32, root: Option<u32>) -> Vec<u8> {
        let words = [magic, 1, 2, 3, 4];
        words.into_iter().chain(root).flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn a_root_that_is_user_0_is_not_shown() {
        let root = Cred::root();
        let shown = |value| shown(value, &root.subject());
        assert_eq!(shown(value(0x0300_0001, Some(0))), Ok(value(0x0200_0001, None)));
        assert_eq!(shown(value(0x0300_0000, Some(7))), Ok(value(0x0300_0000, Some(7))));
        assert_eq!(shown(value(0x0200_0000, None)), Ok(value(0x0200_0000, None)));
    }

    #[test]
    fn revision_and_size_belong_together() {
        for wrong in [
            value(0x0100_0000, None),
            value(0x0300_0000, None),
            value(0x0200_0000, Some(0)),
            value(0x0200_0010, None),
            value(0x0300_0000, Some(u32::MAX)),
            vec![0; 3],
        ] {
            let root = Cred::root();
            assert_eq!(
                to_store(&wrong, &Attr::default(), &root.subject()),
                Err(Errno::EINVAL),
                "{wrong:?}"
            );
        }
    }
}
