//! Paths out of dentries.
//!
//! Linux: `prepend_path`, `d_path`, `getcwd`.

use super::{DentryId, HASHED, IS_ROOT};
use crate::{mount::MountId, vfs::Vfs, walk::HeldPath};
use pathwalk_abi::{Errno, PATH_MAX, Result};

/// The path of a place, as far as there is one.
struct Prepended {
    path: Vec<u8>,
    /// It begins at the root that was asked about, not at that of a tree of mounts which does not contain it.
    reached: bool,
}

impl Vfs {
    /// The path of a place as seen from `root`, as links of a procfs show it: ` (deleted)` stands behind it where the name
    /// is gone. Where `root` does not lie above, it is the path from the top of that tree, and nothing tells.
    ///
    /// # Errors
    ///
    /// - `ENAMETOOLONG`: it has more than 4095 bytes.
    ///
    /// Linux: `d_path`.
    pub(crate) fn d_path(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Result<Vec<u8>> {
        let mut path = self.prepend_path(place, root).path;
        if !place.slot().is(HASHED | IS_ROOT) {
            path.extend_from_slice(b" (deleted)");
        }
        fits(path)
    }

    /// The path of a directory as seen from `root`; `(unreachable)` stands before it where `root` does not lie above.
    ///
    /// # Errors
    ///
    /// - `ENAMETOOLONG`: it has more than 4095 bytes.
    ///
    /// Linux: `getcwd`.
    pub(crate) fn getcwd(&self, cwd: &HeldPath<'_>, root: &HeldPath<'_>) -> Result<Vec<u8>> {
        let Prepended { path, reached } = self.prepend_path(cwd, root);
        fits(if reached { path } else { [b"(unreachable)", path.as_slice()].concat() })
    }

    /// The path of a place that is held, as seen from `root`.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: `root` does not lie above, or the name is gone.
    /// - `ENAMETOOLONG`: it has more than 4095 bytes.
    pub(crate) fn path_below(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Result<Vec<u8>> {
        let Prepended { path, reached } = self.prepend_path(place, root);
        if !reached || !place.slot().is(HASHED | IS_ROOT) {
            return Err(Errno::ENOENT);
        }
        fits(path)
    }

    /// The same of a place that is not held, written into a buffer; returns how many bytes. `None` where something moved
    /// meanwhile.
    ///
    /// The path is true if the place is still what it was when it was sampled, which the caller checks afterwards: a
    /// directory above it goes away only after it, and moves only with the topology.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: `root` does not lie above.
    /// - `ERANGE`: the buffer is too small.
    pub(crate) fn path_below_rcu(
        &self,
        place: (MountId, DentryId),
        root: (MountId, DentryId),
        buf: &mut [u8],
    ) -> Option<Result<usize>> {
        self.while_still_rcu(|_| self.climb_rcu(place, root, buf))?
    }

    /// Writes names from the end of the buffer on, then moves them to its beginning.
    fn climb_rcu(
        &self,
        (mut mnt, mut id): (MountId, DentryId),
        root: (MountId, DentryId),
        buf: &mut [u8],
    ) -> Option<Result<usize>> {
        let mut start = buf.len();
        // What is read may be slots that are used for something else by now, in a circle even.
        for _ in 0..PATH_MAX {
            if (mnt, id) == root {
                if start == buf.len() {
                    let Some(slash) = start.checked_sub(1) else { return Some(Err(Errno::ERANGE)) };
                    start = slash;
                    buf[start] = b'/';
                }
                buf.copy_within(start.., 0);
                return Some(Ok(buf.len() - start));
            }
            let mount = self.mount_slot(mnt);
            if id.0 == mount.root.get() {
                let parent = MountId(mount.parent.get());
                if parent == MountId::NONE {
                    return Some(Err(Errno::ENOENT));
                }
                (mnt, id) = (parent, DentryId(mount.mountpoint.get()));
                continue;
            }
            let dentry = self.dentry(id);
            let seq = dentry.seq.sample();
            let Some(slash) = start.checked_sub(dentry.name_len() + 1) else {
                return dentry.seq.unchanged(seq).then_some(Err(Errno::ERANGE));
            };
            let (parent, is_root) = (DentryId(dentry.parent.get()), dentry.is(IS_ROOT));
            buf[slash] = b'/';
            self.copy_name_to(dentry, &mut buf[slash + 1..start]);
            start = slash;
            if !dentry.seq.unchanged(seq) {
                return None;
            }
            if is_root || parent == DentryId::NONE {
                return Some(Err(Errno::ENOENT));
            }
            id = parent;
        }
        None
    }

    /// Linux: `prepend_path`.
    fn prepend_path(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Prepended {
        // A directory that moved meanwhile may have made a path that never was.
        self.while_still(|_| self.prepend_path_once(place, root))
    }

    fn prepend_path_once(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Option<Prepended> {
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
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend(name);
        }
        if names.is_empty() {
            path.push(b'/');
        }
        Some(Prepended { path, reached })
    }
}

/// Refuses a path that is longer than any call takes.
fn fits(path: Vec<u8>) -> Result<Vec<u8>> {
    if path.len() >= PATH_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(path) }
}
