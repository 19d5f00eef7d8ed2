//! Paths out of dentries.
//!
//! Linux: `prepend_path`, `d_path`, `getcwd`.

use super::{DentryId, HASHED, IS_ROOT};
use crate::{mount::MountId, vfs::Vfs, walk::HeldPath};
use pathwalk_abi::{Errno, PATH_MAX, Result};
use pathwalk_sync::Sample;

/// Who holds nothing climbs over so many names at most.
const RCU_NAMES: usize = 32;

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
    /// meanwhile, or it has too many names.
    ///
    /// The path is true if the place is still what it was when it was sampled, which the caller checks afterwards: a
    /// directory above it goes away only after it, and moves only with the topology.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: `root` does not lie above, or the name is gone.
    /// - `ENAMETOOLONG`: it has more than 4095 bytes.
    /// - `ERANGE`: the buffer is too small.
    pub(crate) fn path_below_rcu(
        &self,
        place: (MountId, DentryId),
        root: (MountId, DentryId),
        buf: &mut [u8],
    ) -> Option<Result<usize>> {
        let mut names = [(DentryId::NONE, Sample::NONE); RCU_NAMES];
        let (mut count, mut len) = (0, 0);
        let climbed = self.while_still_rcu(|_| {
            (count, len) = (0, 0);
            self.climb(place, root, |id, seq| {
                *names.get_mut(count)? = (id, seq);
                count += 1;
                len += 1 + self.dentry(id).name_len();
                Some(())
            })
        })??;
        let len = len.max(1);
        if climbed != Climbed::Root || !self.dentry(place.1).is(HASHED | IS_ROOT) {
            return Some(Err(Errno::ENOENT));
        }
        if len >= PATH_MAX {
            return Some(Err(Errno::ENAMETOOLONG));
        }
        let Some(buf) = buf.get_mut(..len) else { return Some(Err(Errno::ERANGE)) };
        buf[0] = b'/';
        let mut rest = buf;
        for &(id, seq) in names.get(..count)?.iter().rev() {
            let dentry = self.dentry(id);
            let (slash, behind) = rest.split_first_mut()?;
            *slash = b'/';
            rest = self.copy_name_to(dentry, behind)?;
            if !dentry.seq.unchanged(seq) {
                return None;
            }
        }
        Some(Ok(len))
    }

    /// Linux: `prepend_path`.
    fn prepend_path(&self, place: &HeldPath<'_>, root: &HeldPath<'_>) -> Prepended {
        // A directory that moved meanwhile may have made a path that never was.
        self.while_still(|_| {
            let mut names: Vec<Vec<u8>> = Vec::new();
            let (from, to) = ((place.mnt(), place.dentry()), (root.mnt(), root.dentry()));
            let climbed = self.climb(from, to, |id, _| {
                let mut name = vec![b'/'];
                self.copy_name(self.dentry(id), &mut name);
                names.push(name);
                Some(())
            })?;
            if climbed == Climbed::Lost || names.is_empty() {
                // No name of what was moved out of the part that its mount shows means anything there.
                names = vec![b"/".to_vec()];
            }
            names.reverse();
            Some(Prepended { path: names.concat(), reached: climbed == Climbed::Root })
        })
    }

    /// Climbs from a place to `root`, out of mounts, and shows each dentry that has a name on the way, the last name first.
    /// `None` where something changed meanwhile, or `show` says so.
    ///
    /// For who holds nothing, what is read may be slots that are used for something else by now, in a circle even.
    #[inline(always)]
    pub(crate) fn climb(
        &self,
        (mut mnt, mut id): (MountId, DentryId),
        root: (MountId, DentryId),
        mut show: impl FnMut(DentryId, Sample) -> Option<()>,
    ) -> Option<Climbed> {
        loop {
            if (mnt, id) == root {
                return Some(Climbed::Root);
            }
            let mount = self.mount_slot(mnt);
            if id.0 == mount.root.get() {
                let parent = MountId(mount.parent.get());
                if parent == MountId::NONE {
                    return Some(Climbed::Top);
                }
                (mnt, id) = (parent, DentryId(mount.mountpoint.get()));
                continue;
            }
            let dentry = self.dentry(id);
            let seq = dentry.seq.sample();
            let (parent, is_root) = (DentryId(dentry.parent.get()), dentry.is(IS_ROOT));
            if !is_root {
                show(id, seq)?;
            }
            if !dentry.seq.unchanged(seq) {
                return None;
            }
            if is_root || parent == DentryId::NONE {
                return Some(Climbed::Lost);
            }
            id = parent;
        }
    }
}

/// Where a climb ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Climbed {
    /// At the root that was asked about.
    Root,
    /// At the top of a tree of mounts that does not contain it.
    Top,
    /// Nowhere: the place was moved out of the part that its mount shows.
    Lost,
}

/// Refuses a path that is longer than any call takes.
fn fits(path: Vec<u8>) -> Result<Vec<u8>> {
    if path.len() >= PATH_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(path) }
}
