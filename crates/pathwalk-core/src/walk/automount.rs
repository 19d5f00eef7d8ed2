//! Directories that a file system manages: it mounts something there when a walk comes by, or holds walks back.
//!
//! ```text
//!   TRANSIT      may it be crossed?      yes ──► …      EISDIR ──► a plain directory      holding nothing: perhaps ECHILD
//!   MOUNTED      what is mounted there
//!   AUTOMOUNT    something is to be mounted, unless the walk only wants to know what is there
//! ```
//!
//! The file system is asked with no lock held. What it gives is mounted where the walk stands, unless somebody was faster;
//! either way the walk then goes down into what is there.
//!
//! Linux: `follow_automount`, `finish_automount`, `managed_dentry_rcu`, `__traverse_mounts`.

use super::{
    HeldPath, Lookup, Place, Stop, Walk,
    hold::Hold,
    observe::{Left, Observer},
};
use crate::{
    cred::Subject,
    fs::Automount,
    inode::InodeId,
    mount::{MountId, NsId},
    vfs::Vfs,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::lock_order;

/// What a file system says of a directory that it manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transit {
    /// The walk may go on, into what is mounted there.
    Cross,
    /// It is a plain directory to this walk.
    Plain,
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Asks whether the walk may cross a directory. In RCU mode nothing is held, and what cannot be said at once is asked
    /// again when it is.
    #[cold]
    pub(super) fn manage(&mut self, place: &Place) -> Result<Transit, Stop> {
        let vfs = self.vfs;
        let slot = vfs.dentry(place.dentry);
        if self.flags.contains(Lookup::NO_XDEV) {
            let errno = Errno::EXDEV;
            return Err(if H::RCU { Stop::Leave(Left::Mount) } else { errno.into() });
        }
        if H::RCU && !O::ASKS {
            return Err(Stop::Leave(Left::Mount));
        }
        let inode = vfs.inode_ref(InodeId(slot.inode.get()));
        let (node, sb) = (inode.node(), vfs.superblock(slot.sb.get()));
        let changed = || H::RCU && !slot.seq.unchanged(place.seq);
        // Nobody is asked about another file system's directory.
        if changed() {
            return Err(Stop::Leave(Left::Changed));
        }
        let sb = sb.ok_or(Errno::ESTALE)?;
        lock_order::assert_none_held();
        let said = self.in_hook(|who| sb.fs.manage(node, who, (!H::RCU).then_some(inode)));
        if changed() {
            return Err(Stop::Leave(Left::Changed));
        }
        match said {
            Ok(()) => Ok(Transit::Cross),
            Err(Errno::EISDIR) => Ok(Transit::Plain),
            Err(_) if H::RCU => Err(Stop::Leave(Left::Mount)),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Has the file system mount something on a place that the walk holds, if the walk wants it.
    #[cold]
    pub(super) fn follow_automount(&mut self, place: &Place) -> Result<Transit> {
        let last = self.flags.contains(Lookup::LAST);
        if last && !self.flags.intersects(Lookup::DIRECTORY | Lookup::AUTOMOUNT) {
            return Ok(Transit::Plain);
        }
        if self.flags.contains(Lookup::NO_XDEV) {
            return Err(Errno::EXDEV);
        }
        self.may_follow_one_more()?;
        self.count_link();
        let vfs = self.vfs;
        vfs.hold_both((place.mnt, place.dentry));
        let at = HeldPath::new(vfs, place.mnt, place.dentry);
        lock_order::assert_none_held();
        match self.in_hook(|who| at.sb().fs.automount(at.inode_ref(), who)) {
            Ok(None) => Ok(Transit::Cross),
            Ok(Some(mount)) => vfs.finish_automount(&self.who, &at, mount).map(|()| Transit::Cross),
            Err(Errno::EISDIR) => Ok(Transit::Plain),
            Err(errno) => Err(errno),
        }
    }
}

impl Vfs {
    /// Mounts what a file system gave, unless something is mounted there by now.
    ///
    /// # Errors
    ///
    /// - those of [`Vfs::new_mount`].
    /// - those of [`Vfs::lock_mount_exact`].
    /// - `EINVAL`: the place lies in a mount that was unmounted.
    /// - those of [`LockedMount::graft`](crate::mount::graft::LockedMount::graft).
    fn finish_automount(
        &self,
        who: &Subject<'_>,
        at: &HeldPath<'_>,
        mount: Automount,
    ) -> Result<()> {
        // What is mounted anew is looked at through no map.
        let who = Subject { idmap: None, ..*who };
        let id = self.new_mount(&who, mount.fs, mount.flags)?;
        let hung_up = self.hang_up(id, at);
        if hung_up != Ok(true) {
            self.mount_abandon(id);
        }
        hung_up.map(|_| ())
    }

    /// Hangs a mount up at a place, unless something is mounted there; says whether it did.
    fn hang_up(&self, id: MountId, at: &HeldPath<'_>) -> Result<bool> {
        let Some(mut locked) = self.lock_mount_exact(at)? else { return Ok(false) };
        if locked.ns() == NsId::NONE {
            return Err(Errno::EINVAL);
        }
        locked.lend_flags(id);
        let ns = locked.ns();
        locked.graft(id, ns).map(|()| true)
    }
}
