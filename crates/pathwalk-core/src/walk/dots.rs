//! `.` and `..`: the dentry's parent, out of mounts, never above the root.
//!
//! Linux: `handle_dots`, `follow_dotdot`, `choose_mountpoint`, `path_connected`.

use super::{
    Lookup, Place, Stop, Walk,
    hold::Hold,
    observe::{Left, Observer, Spot},
};
use crate::{
    dcache::{DentryId, MANAGED},
    mount::MountId,
    name::Kind,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Spin;

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Walks `.` or `..`.
    #[inline(never)]
    pub(crate) fn handle_dots(&mut self, kind: Kind) -> Result<(), Stop> {
        // Who may search the place decides about a dot, too.
        if matches!(kind, Kind::Dot | Kind::DotDot) {
            self.must_ask_about_place()?;
        }
        if kind != Kind::DotDot {
            return Ok(());
        }
        let root = self.load_root();
        if !self.at.is_same(&root) {
            H::go_up(self)?;
        }
        let parent =
            if H::RCU { self.follow_dotdot_rcu(&root)? } else { self.follow_dotdot_ref(&root)? };
        // What is mounted on the parent covers it; nothing else can be there.
        let to = if parent.flags & MANAGED != 0 { self.handle_mounts(parent)? } else { parent };
        self.move_to(to);
        if self.topology_moved() {
            // Somebody moved a directory or a mount: where we are now may lie outside.
            return Err(Errno::EAGAIN.into());
        }
        Ok(())
    }

    /// The place that `..` stops at.
    pub(crate) fn load_root(&mut self) -> Place {
        if let Some(root) = self.root {
            return root;
        }
        let root = H::load_root(self);
        self.root = Some(root);
        root
    }

    fn follow_dotdot_rcu(&mut self, root: &Place) -> Result<Place, Stop> {
        let vfs = self.vfs;
        let mut at = self.at;
        if at.is_same(root) {
            return self.at_the_top();
        }
        while DentryId(vfs.mount_slot(at.mnt).root.get()) == at.dentry {
            let mount = vfs.mount_slot(at.mnt);
            let (parent, mountpoint) =
                (MountId(mount.parent.get()), DentryId(mount.mountpoint.get()));
            let above = vfs.sample(parent, mountpoint);
            if !mount.seq.unchanged(at.mnt_seq) {
                return Err(Stop::Leave(Left::Mount));
            }
            self.observer.passed(Spot { vfs, place: &at });
            if parent == MountId::NONE || above.is_same(root) {
                return self.at_the_top();
            }
            at = above;
            self.observer.passed(Spot { vfs, place: &at });
        }
        // Only here: mounts that lie over the root itself end at the top, without a step out of them.
        if at.mnt != self.at.mnt && self.flags.contains(Lookup::NO_XDEV) {
            self.must_be_sure()?;
            return Err(Errno::EXDEV.into());
        }
        let dentry = vfs.dentry(at.dentry);
        let parent = DentryId(dentry.parent.get());
        let slot = vfs.dentry(parent);
        let seq = slot.seq.sample();
        let flags = slot.flags.get();
        if !dentry.seq.unchanged(at.seq) {
            return Err(Stop::Leave(Left::Changed));
        }
        let to = Place { dentry: parent, seq, flags, ..at };
        let mount = vfs.mount_slot(at.mnt);
        if mount.is_partial() {
            let top = DentryId(mount.root.get());
            // It may have been moved out of the part that the mount shows; then a held place decides.
            let connected = vfs.while_still_rcu(|still| vfs.is_ancestor(top, parent, still));
            if connected != Some(true) {
                return Err(Stop::Leave(Left::Changed));
            }
            self.observer.connected();
        }
        // What was read of the mount was read of this one, not of one that has its slot since.
        if !mount.seq.unchanged(at.mnt_seq) {
            return Err(Stop::Leave(Left::Mount));
        }
        Ok(to)
    }

    /// `..` at the root stays.
    fn at_the_top(&self) -> Result<Place, Stop> {
        if self.flags.contains(Lookup::BENEATH) {
            self.must_be_sure()?;
            return Err(Errno::EXDEV.into());
        }
        if !H::RCU {
            self.vfs.dget(self.at.dentry);
        }
        Ok(self.at)
    }

    fn follow_dotdot_ref(&mut self, root: &Place) -> Result<Place, Stop> {
        let vfs = self.vfs;
        if self.at.is_same(root) {
            return self.at_the_top();
        }
        let (mut mnt, mut dentry) = (self.at.mnt, self.at.dentry);
        // Counts of our own, as the place below is given back only when the walk moves.
        vfs.mntget(mnt);
        vfs.dget(dentry);
        while DentryId(vfs.mount_slot(mnt).root.get()) == dentry {
            let above = vfs.hold_mountpoint(mnt);
            vfs.dput(dentry);
            vfs.mntput(mnt);
            let Some(above) = above else { return self.at_the_top() };
            if above == (root.mnt, root.dentry) {
                vfs.dput(above.1);
                vfs.mntput(above.0);
                return self.at_the_top();
            }
            (mnt, dentry) = above;
        }
        // As in RCU mode: only here.
        if mnt != self.at.mnt && self.flags.contains(Lookup::NO_XDEV) {
            vfs.dput(dentry);
            vfs.mntput(mnt);
            return Err(Errno::EXDEV.into());
        }
        let parent = vfs.dget_parent(dentry);
        vfs.dput(dentry);
        let connected = {
            let mount = vfs.mount_slot(mnt);
            let top = DentryId(mount.root.get());
            !mount.is_partial()
                || vfs.while_still(|still| Some(vfs.is_ancestor(top, parent, still)))
        };
        if !connected || mnt == self.at.mnt {
            // The walk holds this mount already, or does not go there.
            vfs.mntput(mnt);
        }
        if !connected {
            vfs.dput(parent);
            return Err(Errno::ENOENT.into());
        }
        Ok(vfs.sample(mnt, parent))
    }
}

impl crate::vfs::Vfs {
    /// The parent of a dentry that the caller holds, counted.
    ///
    /// Linux: `dget_parent`.
    pub(crate) fn dget_parent(&self, id: DentryId) -> DentryId {
        let dentry = self.dentry(id);
        let mut spin = Spin::default();
        loop {
            let seq = dentry.seq.sample();
            let parent = DentryId(dentry.parent.get());
            if self.dget_not_dead(parent) {
                if dentry.seq.unchanged(seq) {
                    return parent;
                }
                self.dput(parent);
            }
            spin.turn();
        }
    }

    /// What the root of a mount that the caller holds covers, counted; none where it hangs nowhere.
    pub(crate) fn hold_mountpoint(&self, mnt: MountId) -> Option<(MountId, DentryId)> {
        let mount = self.mount_slot(mnt);
        let mut spin = Spin::default();
        loop {
            let seq = mount.seq.sample();
            let (parent, mountpoint) =
                (MountId(mount.parent.get()), DentryId(mount.mountpoint.get()));
            let parent_seq = self.mount_slot(parent).seq.sample();
            if parent == MountId::NONE {
                if mount.seq.unchanged(seq) {
                    return None;
                }
            } else if self.legitimize_mnt(parent, parent_seq) {
                if self.dget_not_dead(mountpoint) {
                    if mount.seq.unchanged(seq) {
                        return Some((parent, mountpoint));
                    }
                    self.dput(mountpoint);
                }
                self.mntput(parent);
            }
            spin.turn();
        }
    }
}
