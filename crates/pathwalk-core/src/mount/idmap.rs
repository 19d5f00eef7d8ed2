//! Which mount has which map of owners, and how many have each.
//!
//! A map is made by one call for all mounts that it changes; copies of a mount have that of the original.
//!
//! Linux: `can_idmap_mount`, `do_idmap_mount`, `mnt_idmap_get`, `mnt_idmap_put`.

use super::{IDMAPPED, MntFlags, MountId, tree::TreeGuard};
use crate::{fs::Features, idmap::IdmapBlobs};
use pathwalk_abi::{Errno, Result};

impl TreeGuard<'_> {
    /// Asks whether a mount can get a map, perhaps in the place of another.
    ///
    /// # Errors
    ///
    /// - `EPERM`: it has one, which is not to be replaced.
    /// - `EINVAL`: its file system cannot, or it can be seen in a namespace.
    ///
    /// Linux: `can_idmap_mount`.
    pub(super) fn may_idmap(&self, id: MountId, replaces: bool) -> Result<()> {
        let mount = self.vfs.mount_slot(id);
        if mount.idmap_blobs() != IdmapBlobs::NONE && !replaces {
            return Err(Errno::EPERM);
        }
        let sb = self.vfs.superblock(mount.sb.get()).ok_or(Errno::EINVAL)?;
        let can = sb.features.contains(Features::IDMAP) && self.is_anonymous(id);
        if can { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Gives a mount its map, or another one, or none. Who has the tree's file may walk there meanwhile, and see it or not.
    ///
    /// Linux: `do_idmap_mount`.
    pub(super) fn set_idmap(&mut self, id: MountId, blobs: IdmapBlobs) {
        let mount = self.vfs.mount_slot(id);
        let before = mount.idmap_blobs();
        let some = blobs != IdmapBlobs::NONE;
        if some {
            *self.idmaps.entry(blobs).or_default() += 1;
            self.vfs.idmaps.set(self.idmaps.len() as u32);
        }
        {
            let _change = self.change(id);
            mount.name_idmap(blobs);
            let others = mount.blksize.get() & !IDMAPPED;
            mount.blksize.set(if some { others | IDMAPPED } else { others });
            let flags = mount.flags().difference(MntFlags::IDMAPPED);
            let mapped = if some { MntFlags::IDMAPPED } else { MntFlags::empty() };
            mount.flags.set((flags | mapped).bits());
        }
        self.put_idmap(before);
    }

    /// Notes that one mount less has a map, whose count was made to move. The last one's is freed after the lock.
    pub(super) fn put_idmap(&mut self, blobs: IdmapBlobs) {
        if blobs == IdmapBlobs::NONE {
            return;
        }
        let count = self.idmaps.get_mut(&blobs).expect("a mount's map counts it");
        *count -= 1;
        if *count == 0 {
            self.idmaps.remove(&blobs);
            self.vfs.idmaps.set(self.idmaps.len() as u32);
            self.idmaps_left.push(blobs);
        }
    }
}
