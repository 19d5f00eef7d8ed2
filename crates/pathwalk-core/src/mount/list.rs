//! Mounts by their unique numbers: what statmount and listmount tell.
//!
//! Linux: `do_statmount`, `do_listmount`; statmount(2), listmount(2).

use super::{MntFlags, MountId, NsId, show::show_options, tree::TreeGuard};
use crate::{
    cred::Subject, dcache::DentryId, idmap::MountIdRange, task::Task, vfs::Vfs, walk::HeldPath,
};
use pathwalk_abi::{
    CapSet, Dev, Errno, ListmountFlags, MountAttrFlags, MountFlags, Result, StatmountMask,
};
use std::ops::Bound;

/// Stands for the mount of the caller's root in listmount(2).
pub const LSMT_ROOT: u64 = u64::MAX;

/// Stands for the caller's mount namespace.
const OWN: u64 = 0;

/// No number up to this one is a mount's.
const MNT_UNIQUE_ID_OFFSET: u64 = 1 << 31;

/// What statmount(2) tells of a mount: `struct statmount`. `mask` says what is filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatMount {
    /// What is filled.
    pub mask: StatmountMask,
    /// The device that stat shows.
    pub sb_dev: Dev,
    /// The file system's number, `f_type` of statfs.
    pub sb_magic: u64,
    /// The file system's flags: `MS_RDONLY`, `MS_SYNCHRONOUS`, `MS_DIRSYNC`, `MS_LAZYTIME`.
    pub sb_flags: MountFlags,
    /// The mount's unique number.
    pub mnt_id: u64,
    /// That of the mount that it hangs in; its own at the bottom.
    pub mnt_parent_id: u64,
    /// The mount's small number, as in mountinfo.
    pub mnt_id_old: u32,
    /// That of the mount that it hangs in.
    pub mnt_parent_id_old: u32,
    /// The mount's flags.
    pub mnt_attr: MountAttrFlags,
    /// `MS_SHARED`, `MS_SLAVE`, `MS_UNBINDABLE`, or `MS_PRIVATE` if it is none of them.
    pub mnt_propagation: MountFlags,
    /// The peer group that it is in; 0 is none.
    pub mnt_peer_group: u64,
    /// The peer group that it receives from; 0 is none.
    pub mnt_master: u64,
    /// The nearest peer group that it receives from and that the caller sees; 0 is none, as in a namespace not its own.
    pub propagate_from: u64,
    /// What of its file system it shows.
    pub mnt_root: Vec<u8>,
    /// Where it is mounted, as seen from the caller's root.
    pub mnt_point: Vec<u8>,
    /// The number of the mount namespace: [`MountNamespace::id`](crate::MountNamespace::id).
    pub mnt_ns_id: u64,
    /// The name of the file system's type.
    pub fs_type: Vec<u8>,
    /// The source.
    pub sb_source: Vec<u8>,
    /// The file system's own options as mountinfo has them, without a comma in front.
    pub mnt_opts: Vec<u8>,
    /// The same, one by one, as they are.
    pub opt_array: Vec<Vec<u8>>,
    /// What can be asked for.
    pub supported_mask: StatmountMask,
    /// How the mount shows users, where it has a map.
    pub mnt_uidmap: Vec<MountIdRange>,
    /// How the mount shows groups, where it has a map.
    pub mnt_gidmap: Vec<MountIdRange>,
}

impl Task {
    /// `statmount(id, mask)`: tells of a mount in the task's mount namespace. statmount(2)
    ///
    /// # Errors
    ///
    /// As [`Task::statmount_in`].
    pub fn statmount(&self, id: u64, mask: StatmountMask) -> Result<StatMount> {
        self.statmount_in(OWN, id, mask)
    }

    /// `statmount(ns_id, id, mask)`: tells of a mount in the mount namespace of a number,
    /// [`MountNamespace::id`](crate::MountNamespace::id); 0 is the task's own. Another is seen from the first mount that hangs in the one at its bottom. Rights over one are rights over all:
    /// [`Task::unshare_mounts_less_privileged`] hides no namespace. statmount(2)
    ///
    /// What is asked for is told where there is something to be told: the place of a mount that the task's root does not
    /// lead to is left out, and so are options where there are none. No file system here has a type of two parts, no security
    /// module has options of its own: those are never told. Bits that nobody knows are ignored.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: no mount can have the number.
    /// - `ENOENT`: there is no such namespace.
    /// - `EPERM`: it is another one, and the task lacks `CAP_SYS_ADMIN`.
    /// - `ENOENT`: nothing is mounted in it.
    /// - `ENOENT`: there is no such mount in the namespace.
    /// - `EPERM`: it cannot be reached from the task's root, and the task lacks `CAP_SYS_ADMIN`.
    /// - whatever the file system answers about itself.
    pub fn statmount_in(&self, ns_id: u64, id: u64, mask: StatmountMask) -> Result<StatMount> {
        must_be_a_number(id)?;
        let vfs = self.vfs();
        let (mnt, dentry) = self.fs.hold_root(vfs);
        let own_root = HeldPath::new(vfs, mnt, dentry);
        let (fs, mut told) = {
            let tree = vfs.mount_tree();
            let own_root = (own_root.mnt(), own_root.dentry());
            let (ns, root) = tree.seen_from(self, ns_id, own_root, Errno::EPERM)?;
            let mount = tree.by_unique_id(id, ns)?;
            tree.must_be_reachable(mount, root, &self.cred.subject())?;
            let sb = vfs.superblock(vfs.mount_slot(mount).sb.get()).ok_or(Errno::ENOENT)?;
            (sb.fs.clone(), tree.stat(mount, root, own_root, mask))
        };
        if mask.contains(StatmountMask::SB_BASIC) {
            told.sb_magic = fs.statfs()?.magic;
        }
        const OPTIONS: StatmountMask = StatmountMask::MNT_OPTS.union(StatmountMask::OPT_ARRAY);
        if mask.intersects(OPTIONS) {
            told.tell_options(fs.options(), mask);
        }
        Ok(told)
    }

    /// `listmount(id, last, flags)`: lists mounts in the task's mount namespace. listmount(2)
    ///
    /// # Errors
    ///
    /// As [`Task::listmount_in`].
    pub fn listmount(
        &self,
        id: u64,
        last: u64,
        max: usize,
        flags: ListmountFlags,
    ) -> Result<Vec<u64>> {
        self.listmount_in(OWN, id, last, max, flags)
    }

    /// `listmount(ns_id, id, last, flags)`: the unique numbers of up to `max` mounts below a mount, or with [`LSMT_ROOT`] of
    /// those below the task's root with the one that it lies in, the oldest first. `last` is 0, or the last number of the
    /// answer before. The namespace is meant as in [`Task::statmount_in`]; the root of another one is what it is seen from.
    /// listmount(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: an unknown flag.
    /// - `EOVERFLOW`: more than 1,000,000 are asked for.
    /// - `EINVAL`: no mount can have one of the numbers.
    /// - `ENOENT`: there is no such namespace; it is another one, and the task lacks `CAP_SYS_ADMIN`; or nothing is mounted in
    ///   it.
    /// - `ENOENT`: there is no such mount in the namespace.
    /// - `EPERM`: it cannot be reached from the task's root, and the task lacks `CAP_SYS_ADMIN`.
    pub fn listmount_in(
        &self,
        ns_id: u64,
        id: u64,
        last: u64,
        max: usize,
        flags: ListmountFlags,
    ) -> Result<Vec<u64>> {
        if flags.bits() & !ListmountFlags::all().bits() != 0 {
            return Err(Errno::EINVAL);
        }
        if max > 1_000_000 {
            return Err(Errno::EOVERFLOW);
        }
        must_be_a_number(id)?;
        if last != 0 {
            must_be_a_number(last)?;
        }
        let vfs = self.vfs();
        let (mnt, dentry) = self.fs.hold_root(vfs);
        let root = HeldPath::new(vfs, mnt, dentry);
        let tree = vfs.mount_tree();
        let (ns, root) = tree.seen_from(self, ns_id, (root.mnt(), root.dentry()), Errno::ENOENT)?;
        let top = if id == LSMT_ROOT {
            root
        } else {
            let mount = tree.by_unique_id(id, ns)?;
            tree.must_be_reachable(mount, root, &self.cred.subject())?;
            (mount, vfs.mount_slot(mount).root())
        };
        let Some(namespace) = tree.namespaces.get(&ns) else { return Ok(Vec::new()) };
        let listed = |&(number, mount): &(u64, MountId)| {
            number != id && tree.is_reachable((mount, vfs.mount_slot(mount).root()), top)
        };
        let number = |(number, _): (u64, MountId)| number;
        let mounts = &namespace.mounts;
        Ok(if flags.contains(ListmountFlags::REVERSE) {
            let end = if last == 0 { Bound::Unbounded } else { Bound::Excluded(last) };
            let range = mounts.range((Bound::Unbounded, end)).rev();
            range.filter(listed).take(max).map(number).collect()
        } else {
            // Behind the last number of all the kernel begins again.
            let range = mounts.range(last.wrapping_add(1)..);
            range.filter(listed).take(max).map(number).collect()
        })
    }
}

impl StatMount {
    fn tell_options(&mut self, options: Vec<Vec<u8>>, mask: StatmountMask) {
        if options.is_empty() {
            return;
        }
        if mask.contains(StatmountMask::MNT_OPTS) {
            self.mask |= StatmountMask::MNT_OPTS;
            self.mnt_opts = show_options(&options).split_off(1);
        }
        if mask.contains(StatmountMask::OPT_ARRAY) {
            self.mask |= StatmountMask::OPT_ARRAY;
            self.opt_array = options;
        }
    }
}

/// # Errors
///
/// `EINVAL`: no mount can have the number.
fn must_be_a_number(id: u64) -> Result<()> {
    if id > MNT_UNIQUE_ID_OFFSET { Ok(()) } else { Err(Errno::EINVAL) }
}

impl TreeGuard<'_> {
    /// The namespace of a number, and the place from which a task sees it, whose own root it is told.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: there is none.
    /// - `hidden`: it is another one, and the task lacks `CAP_SYS_ADMIN`.
    /// - `ENOENT`: nothing is mounted in it.
    fn seen_from(
        &self,
        task: &Task,
        ns_id: u64,
        own_root: (MountId, DentryId),
        hidden: Errno,
    ) -> Result<(NsId, (MountId, DentryId))> {
        let own = task.mount_namespace().ns();
        if [OWN, u64::from(own.0)].contains(&ns_id) {
            return Ok((own, own_root));
        }
        let ns = u32::try_from(ns_id).map(NsId).map_err(|_| Errno::ENOENT)?;
        let namespace = self.namespaces.get(&ns).filter(|namespace| namespace.anonymous.is_none());
        let namespace = namespace.ok_or(Errno::ENOENT)?;
        if !task.cred.subject().capable(CapSet::SYS_ADMIN) {
            return Err(hidden);
        }
        let hangs_at_the_bottom =
            |mount: &MountId| self.vfs.mount_slot(*mount).place().0 == namespace.root;
        let bottom = self.vfs.mount_slot(namespace.root).unique_id.get();
        let younger = namespace.mounts.range((Bound::Excluded(bottom), Bound::Unbounded));
        let first = younger.map(|(_, mount)| mount).find(hangs_at_the_bottom);
        let first = first.ok_or(Errno::ENOENT)?;
        Ok((ns, (first, self.vfs.mount_slot(first).root())))
    }

    fn by_unique_id(&self, id: u64, ns: NsId) -> Result<MountId> {
        let namespace = self.namespaces.get(&ns).ok_or(Errno::ENOENT)?;
        namespace.mounts.get(id).ok_or(Errno::ENOENT)
    }

    fn must_be_reachable(
        &self,
        id: MountId,
        root: (MountId, DentryId),
        who: &Subject<'_>,
    ) -> Result<()> {
        let top = (id, self.vfs.mount_slot(id).root());
        let may = self.is_reachable(top, root) || who.capable(CapSet::SYS_ADMIN);
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// All but what the file system must be asked for. Where it hangs is seen from `root`, whom it receives from by who asks,
    /// from `own_root`.
    fn stat(
        &self,
        id: MountId,
        root: (MountId, DentryId),
        own_root: (MountId, DentryId),
        mask: StatmountMask,
    ) -> StatMount {
        const SB_FLAGS: MountFlags = MountFlags::RDONLY
            .union(MountFlags::SYNCHRONOUS)
            .union(MountFlags::DIRSYNC)
            .union(MountFlags::LAZYTIME);
        let vfs: &Vfs = self.vfs;
        let mount = vfs.mount_slot(id);
        let sb = vfs.superblock(mount.sb.get()).expect("a mount keeps its superblock");
        let (node, master) = (self.node(id), self.master_group(id));
        let parent = mount.place().0;
        let parent = if parent == MountId::NONE { mount } else { vfs.mount_slot(parent) };
        // What the file system has to say of these comes later.
        const LATER: StatmountMask = StatmountMask::MNT_OPTS
            .union(StatmountMask::FS_SUBTYPE)
            .union(StatmountMask::OPT_ARRAY)
            .union(StatmountMask::OPT_SEC_ARRAY);
        let filled = mask & StatmountMask::all().difference(LATER);
        let mut told = StatMount { mask: filled, ..StatMount::default() };
        if mask.contains(StatmountMask::SB_BASIC) {
            told.sb_dev = sb.dev;
            told.sb_flags = sb.flags() & SB_FLAGS;
        }
        if mask.contains(StatmountMask::MNT_BASIC) {
            (told.mnt_id, told.mnt_parent_id) = (mount.unique_id.get(), parent.unique_id.get());
            (told.mnt_id_old, told.mnt_parent_id_old) = (mount.mnt_id.get(), parent.mnt_id.get());
            told.mnt_attr = mount.flags().attributes();
            for (flag, is) in [
                (MountFlags::SHARED, node.shared != 0),
                (MountFlags::SLAVE, master != 0),
                (MountFlags::UNBINDABLE, node.unbindable),
            ] {
                told.mnt_propagation.set(flag, is);
            }
            if told.mnt_propagation.is_empty() {
                told.mnt_propagation = MountFlags::PRIVATE;
            }
            (told.mnt_peer_group, told.mnt_master) = (node.shared.into(), master.into());
        }
        if mask.contains(StatmountMask::PROPAGATE_FROM) && master != 0 {
            let from = vfs.while_still(|still| Some(self.dominating(id, own_root, still)));
            told.propagate_from = from.into();
        }
        if mask.contains(StatmountMask::MNT_ROOT) {
            told.mnt_root = vfs.while_still(|_| self.dentry_path(mount.root()));
        }
        if mask.contains(StatmountMask::MNT_POINT) {
            let point = self.point(id, root);
            told.mask.set(StatmountMask::MNT_POINT, point.is_some());
            told.mnt_point = point.unwrap_or_default();
        }
        if mask.contains(StatmountMask::FS_TYPE) {
            told.fs_type = sb.fs.kind().into();
        }
        if mask.contains(StatmountMask::MNT_NS_ID) {
            told.mnt_ns_id = mount.ns.get().into();
        }
        if mask.contains(StatmountMask::SB_SOURCE) {
            told.sb_source = sb.fs.source().to_vec();
        }
        if mask.contains(StatmountMask::SUPPORTED_MASK) {
            told.supported_mask = StatmountMask::all();
        }
        let idmap = vfs.mnt_idmap(id);
        if idmap.is_none() {
            told.mask -= StatmountMask::MNT_UIDMAP | StatmountMask::MNT_GIDMAP;
        }
        if let Some(idmap) = idmap.filter(|_| mask.contains(StatmountMask::MNT_UIDMAP)) {
            told.mnt_uidmap = idmap.users().iter().collect();
        }
        if let Some(idmap) = idmap.filter(|_| mask.contains(StatmountMask::MNT_GIDMAP)) {
            told.mnt_gidmap = idmap.groups().iter().collect();
        }
        told
    }

    /// Where a mount is, as seen from a root; none where that does not lead there.
    fn point(&self, id: MountId, root: (MountId, DentryId)) -> Option<Vec<u8>> {
        let top = (id, self.vfs.mount_slot(id).root());
        self.vfs.while_still(|still| {
            if self.vfs.is_under(top, root, still) { self.path_from(top, root) } else { Some(None) }
        })
    }
}

impl MntFlags {
    /// The flags as mount_setattr(2) has them.
    fn attributes(self) -> MountAttrFlags {
        let mut attributes = MountAttrFlags::empty();
        for (flag, attribute) in [
            (Self::RDONLY, MountAttrFlags::RDONLY),
            (Self::NOSUID, MountAttrFlags::NOSUID),
            (Self::NODEV, MountAttrFlags::NODEV),
            (Self::NOEXEC, MountAttrFlags::NOEXEC),
            (Self::NODIRATIME, MountAttrFlags::NODIRATIME),
            (Self::NOSYMFOLLOW, MountAttrFlags::NOSYMFOLLOW),
            (Self::IDMAPPED, MountAttrFlags::IDMAP),
        ] {
            attributes.set(attribute, self.contains(flag));
        }
        if self.contains(Self::NOATIME) {
            attributes |= MountAttrFlags::NOATIME;
        } else if !self.contains(Self::RELATIME) {
            attributes |= MountAttrFlags::STRICTATIME;
        }
        attributes
    }
}
