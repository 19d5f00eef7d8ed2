//! Where things lie in memory, for tools that watch who stores to them.

use crate::{
    dcache::DentryId,
    inode::InodeId,
    mount::MountId,
    task::{At, Task},
    vfs::Vfs,
    walk::{HeldPath, Lookup, lookup::keep},
};
use pathwalk_abi::Result;
use std::ops::Range;

impl Task {
    /// The addresses of what a path leads to: mount, dentry and inode; of the root of a mount also those of what it covers.
    ///
    /// # Errors
    ///
    /// Those of the lookup.
    #[doc(hidden)]
    pub fn addresses(&self, path: impl AsRef<[u8]>) -> Result<Vec<Range<usize>>> {
        let vfs = self.vfs();
        let held = keep(&self.request(At::Cwd, path.as_ref(), Lookup::FOLLOW)?)?;
        let mut all = Vec::from(vfs.addresses_of(held.mnt(), held.dentry()));
        if held.is_mount_root()
            && let Some((mnt, dentry)) = vfs.hold_mountpoint(held.mnt())
        {
            let covered = HeldPath::new(vfs, mnt, dentry);
            all.extend(vfs.addresses_of(covered.mnt(), covered.dentry()));
        }
        Ok(all)
    }
}

impl Vfs {
    fn addresses_of(&self, mnt: MountId, dentry: DentryId) -> [Range<usize>; 3] {
        let dentry = self.dentry(dentry);
        let inode = self.inode(InodeId(dentry.inode.get()));
        [of(self.mount_slot(mnt)), of(dentry), of(inode)]
    }
}

fn of<T>(it: &T) -> Range<usize> {
    let at = std::ptr::from_ref(it).addr();
    at..at + size_of_val(it)
}
