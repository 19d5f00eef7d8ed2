//! Paths out of dentries.
//!
//! Linux: `prepend_path`, `d_path`, `getcwd`.

use super::{DentryId, IS_ROOT};
use crate::{mount::MountId, vfs::Vfs, walk::HeldPath};

impl Vfs {
    /// The path of a place as seen from `root`; `(unreachable)` stands before it where `root` does not lie above.
    pub(crate) fn d_path(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Vec<u8> {
        // A directory that moved meanwhile may have made a path that never was.
        self.while_still(|_| self.d_path_once(place, root))
    }

    fn d_path_once(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Option<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let (mut mnt, mut id) = (place.mnt(), place.dentry());
        let reached = loop {
            if (mnt, id) == (root.mnt(), root.dentry()) {
                break true;
            }
            let mount = self.mount_slot(mnt);
            if id.0 == mount.root.get() {
                let parent = MountId(mount.parent.get());
                if parent == MountId::NONE {
                    break false;
                }
                (mnt, id) = (parent, DentryId(mount.mountpoint.get()));
                continue;
            }
            let dentry = self.dentry(id);
            let seq = dentry.seq.sample();
            let mut name = Vec::new();
            self.copy_name(dentry, &mut name);
            let parent = DentryId(dentry.parent.get());
            let is_root = dentry.is(IS_ROOT);
            if !dentry.seq.unchanged(seq) {
                return None;
            }
            if is_root || parent == DentryId::NONE {
                // It was moved out of the part that its mount shows: no name of it means anything there.
                names.clear();
                break false;
            }
            names.push(name);
            id = parent;
        };
        let mut path = if reached { Vec::new() } else { b"(unreachable)".to_vec() };
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend(name);
        }
        if names.is_empty() {
            path.push(b'/');
        }
        Some(path)
    }
}
