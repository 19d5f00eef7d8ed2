//! Where a walk ends, and what a call reads there.
//!
//! Linux: `complete_walk`; the last part of `path_lookupat`.

use super::{HeldPath, Place, Request, Stop, memo, observe::Left};
use crate::{
    cred::{Asker, Subject},
    inode::InodeId,
    mount::Mount,
    vfs::Vfs,
};
use pathwalk_abi::Result;

/// The end of a walk. `RCU` says that nothing is held there: what was read is believed only after [`End::check`].
#[derive(Clone, Copy)]
pub(crate) struct End<'a, const RCU: bool> {
    pub(crate) vfs: &'a Vfs,
    asker: Asker<'a>,
    pub(crate) at: Place,
    /// The root, if the walk loaded it: only the old way of ending looks at it.
    root: Option<Place>,
    /// What is known of the place's one path.
    pub(crate) path: OnePath,
    /// The file system has just brought the attributes up to date.
    pub(crate) fresh: bool,
}

/// What is known, where a walk ends, of the place's one path, in which there are neither symlinks nor dots nor empty names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnePath {
    /// Nothing.
    Unknown,
    /// It is the path that was asked for.
    Asked,
    /// It may be kept in the memo by which the walk was not walked, which is the one that this thread asked for last.
    InMemo,
}

impl<'a, const RCU: bool> End<'a, RCU> {
    #[inline(always)]
    pub(crate) fn new(vfs: &'a Vfs, asker: Asker<'a>, at: Place, root: Option<Place>) -> Self {
        Self { vfs, asker, at, root, path: OnePath::Unknown, fresh: false }
    }

    /// The end of an express walk.
    #[inline(always)]
    pub(crate) fn of(request: &Request<'a>, at: Place, root: Option<Place>) -> Self {
        Self::new(request.vfs, request.asker, at, root)
    }

    /// Who asks, looking through the mount where the walk ends; a guess until the place is checked.
    #[inline(always)]
    pub(crate) fn who(&self) -> Subject<'a> {
        *self.vfs.through(self.at.mnt, &self.asker.subject())
    }

    /// Writes the place's one path into a buffer, if the memo by which the walk was not walked has it; returns how many bytes.
    ///
    /// # Errors
    ///
    /// - `ERANGE`: the buffer is too small.
    pub(crate) fn path_in_memo(&self, buf: &mut [u8]) -> Option<Result<usize>> {
        memo::path_in_last(self.vfs, self.asker, buf)
    }

    /// The inode; a guess until the place is checked.
    #[inline(always)]
    pub(crate) fn inode(&self) -> InodeId {
        InodeId(self.vfs.dentry(self.at.dentry).inode.get())
    }

    #[inline(always)]
    pub(crate) fn mount(&self) -> &'a Mount {
        self.vfs.mount_slot(self.at.mnt)
    }

    /// Whether the file system decides permission itself; a guess until the place is checked.
    #[inline(always)]
    pub(crate) fn decides(&self) -> bool {
        self.mount().decides()
    }

    /// Checks that the place and its mount are still what they were when they were read.
    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if !RCU || self.at.stays(self.vfs) { Ok(()) } else { Err(Stop::Leave(Left::Changed)) }
    }

    /// The place as something that outlives the walk.
    ///
    /// What the walk ends with is all that is counted: the root is forgotten, whatever the call, so that nobody meets at
    /// its counter. (Linux takes it where O_CREAT unlazies.)
    #[inline(always)]
    pub(crate) fn hold(&self) -> Result<HeldPath<'a>, Stop> {
        if !RCU {
            self.vfs.hold_both((self.at.mnt, self.at.dentry));
            return Ok(HeldPath::new(self.vfs, self.at.mnt, self.at.dentry));
        }
        #[cfg(pathwalk_ablate = "forget_root")]
        let _root = match &self.root {
            Some(root) => Some(self.vfs.legitimize(root).ok_or(Stop::Leave(Left::Changed))?),
            None => None,
        };
        #[cfg(not(pathwalk_ablate = "forget_root"))]
        let _ = &self.root;
        self.vfs.legitimize(&self.at).ok_or(Stop::Leave(Left::Changed))
    }
}

impl<'a> End<'a, false> {
    /// The end of a walk that was not walked, as its file system said of all of it that it leads there; and whether that brought
    /// the attributes up to date.
    pub(crate) fn asked(request: &Request<'a>, held: &HeldPath<'a>, fresh: bool) -> Self {
        let at = request.vfs.sample(held.mnt(), held.dentry());
        Self { fresh, ..Self::new(request.vfs, request.asker, at, None) }
    }
}

impl Vfs {
    /// Counts a place and its mount, unless either changed since it was sampled.
    ///
    /// Linux: `legitimize_path`.
    #[inline(always)]
    pub(crate) fn legitimize(&self, place: &Place) -> Option<HeldPath<'_>> {
        if !self.legitimize_mnt(place.mnt, place.mnt_seq) {
            return None;
        }
        if self.dget_kept(place.dentry) {
            let held = HeldPath::new(self, place.mnt, place.dentry);
            if self.dentry(place.dentry).seq.unchanged(place.seq) {
                return Some(held);
            }
            self.put_no_expire(held);
            return None;
        }
        self.mntput(place.mnt);
        None
    }
}
