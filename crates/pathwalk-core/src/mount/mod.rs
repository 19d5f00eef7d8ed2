//! The mount table: which tree hangs where.
//!
//! ```text
//!   mount 1 (root)            mount 2
//!     /srv  ── MOUNTED ──►      its root dentry
//!              (parent 1, mountpoint /srv) is the key by which mount 2 is found
//! ```
//!
//! Invariants:
//! - A mount's parent and mountpoint change only under the tree's lock and between two increments of its `seq`.
//! - Mounting on a dentry or unmounting from it also moves the *dentry's* `seq`: who found nothing mounted there and
//!   sees the count unmoved was right. So no walk needs a count that all mounts share.
//! - A mount's holders are counted in stripes; a detached mount is freed by whoever finds the sum zero.
//! - A mount without a namespace is in no tree: unmounted, or not mounted yet.
//!
//! Linux: `struct mount`, `__lookup_mnt`, `legitimize_mnt`; mount_namespaces(7).

pub(crate) mod tree;

pub(crate) mod graft;

pub(crate) mod propagate;

pub(crate) mod umount;

pub(crate) mod task_work;

#[cfg_attr(
    not(debug_assertions),
    expect(unreachable_pub, reason = "only builds with debug assertions let tests listen")
)]
pub mod patience;

pub(crate) mod change;

pub(crate) mod remount;

mod locked;

mod idmap;

mod ids;

mod ordered;

pub(crate) mod namespace;

pub(crate) mod show;

pub(crate) mod list;

pub(crate) mod rootfs;

use crate::{
    dcache::DentryId,
    fs::{Features, FileSystem},
    name::fold,
    vfs::Vfs,
};
use bitflags::bitflags;
use pathwalk_abi::MountFlags;
use pathwalk_sync::{Absent, Cell32, Cell64, Link, Linked, Sample, Seq, Spin, slot};

/// The name of a mount slot; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MountId(pub(crate) u32);

impl MountId {
    pub(crate) const NONE: Self = Self(0);
}

/// The number of a mount namespace; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NsId(pub(crate) u32);

impl NsId {
    pub(crate) const NONE: Self = Self(0);
    /// The namespace that a machine begins with.
    pub(crate) const INIT: Self = Self(1);
}

bitflags! {
    /// The flags of a mount that its users feel.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct MntFlags: u32 {
        const RDONLY = 1 << 0;
        /// Somebody looks whether it can be made read-only: writers wait. Not part of what walks read.
        const WRITE_HOLD = 1 << 31;
        const NOSUID = 1 << 1;
        const NODEV = 1 << 2;
        const NOEXEC = 1 << 3;
        const NOATIME = 1 << 4;
        const NODIRATIME = 1 << 5;
        const RELATIME = 1 << 6;
        const NOSYMFOLLOW = 1 << 7;
        /// Owners are not shown as they are: [`Mount::idmap`].
        const IDMAPPED = 1 << 8;
        /// In no tree any more; freed when the last holder lets go.
        const DETACHED = 1 << 16;
        /// The superblock itself is read-only.
        const SB_RDONLY = 1 << 17;
        /// `MNT_EXPIRE` was asked for once and nobody let go of the mount since.
        const EXPIRY_MARK = 1 << 18;
        /// A walk that came by had it mounted, or it is a copy of such a one: it is in nobody's way.
        const SHRINKABLE = 1 << 19;
        /// It is not unmounted, moved or left out of a copy alone: what it covers stays covered.
        const LOCKED = 1 << 20;
        /// What stays set, and what is said about times of last access stays said: see [`locked`].
        const LOCK_RDONLY = 1 << 21;
        const LOCK_NOSUID = 1 << 22;
        const LOCK_NODEV = 1 << 23;
        const LOCK_NOEXEC = 1 << 24;
        const LOCK_ATIME = 1 << 25;
        /// Which flags stay as they are; copies have it too.
        const LOCKS = Self::LOCK_RDONLY.bits()
            | Self::LOCK_NOSUID.bits()
            | Self::LOCK_NODEV.bits()
            | Self::LOCK_NOEXEC.bits()
            | Self::LOCK_ATIME.bits();
        /// `SB_MANDLOCK`, `SB_SYNCHRONOUS` and the like are the superblock's; what is here is the mount's own and may be
        /// changed by remounting.
        const USER_SETTABLE = Self::RDONLY.bits()
            | Self::NOSUID.bits()
            | Self::NODEV.bits()
            | Self::NOEXEC.bits()
            | Self::ATIME.bits()
            | Self::NOSYMFOLLOW.bits();
        /// What is said about times of last access.
        const ATIME = Self::NOATIME.bits() | Self::NODIRATIME.bits() | Self::RELATIME.bits();
    }
}

impl MntFlags {
    /// The flags that mount(2) asks for; relatime unless something else is said.
    ///
    /// Linux: the first half of `path_mount`.
    pub(crate) fn from_ms(ms: MountFlags) -> Self {
        let mut flags = Self::empty();
        for (bit, flag) in [
            (MountFlags::RDONLY, Self::RDONLY),
            (MountFlags::NOSUID, Self::NOSUID),
            (MountFlags::NODEV, Self::NODEV),
            (MountFlags::NOEXEC, Self::NOEXEC),
            (MountFlags::NODIRATIME, Self::NODIRATIME),
            (MountFlags::NOSYMFOLLOW, Self::NOSYMFOLLOW),
        ] {
            flags.set(flag, ms.contains(bit));
        }
        // `MS_STRICTATIME` has the last word; `MS_RELATIME` says nothing.
        let noatime = ms.contains(MountFlags::NOATIME);
        let strict = ms.contains(MountFlags::STRICTATIME);
        flags.set(Self::NOATIME, noatime && !strict);
        flags.set(Self::RELATIME, !noatime && !strict);
        flags
    }

    /// Whether nothing may be changed through the mount.
    pub(crate) fn read_only(self) -> bool {
        self.intersects(Self::RDONLY | Self::SB_RDONLY)
    }
}

slot! {
    /// A mount slot.
    #[repr(align(64))]
    pub(crate) struct Mount {
        pub(crate) seq: Seq,
        /// [`MntFlags`].
        pub(crate) flags: Cell32,
        /// The mount that this one hangs in; 0 for a root and for a detached one.
        pub(crate) parent: Cell32,
        /// The dentry that it covers.
        pub(crate) mountpoint: Cell32,
        /// The dentry that covers it.
        pub(crate) root: Cell32,
        pub(crate) sb: Cell32,
        /// The root of the superblock; another than `root` in a bind mount of a subdirectory.
        pub(crate) sb_root: Cell32,
        link: Link,
        /// Never given twice, from 2³¹ + 1 up.
        pub(crate) unique_id: Cell64,
        /// The device that stat shows, and its block size with [`COARSE_TIMES`] and its like.
        pub(crate) dev: Cell32,
        pub(crate) blksize: Cell32,
        /// The namespace that it is mounted in; 0 is none.
        pub(crate) ns: Cell32,
        /// The lowest number that was free when it was made.
        pub(crate) mnt_id: Cell32,
        /// The map of owners: see [`IdmapBlobs`](crate::idmap::IdmapBlobs).
        pub(crate) idmap: Cell64,
    }
}

const _: () = assert!(size_of::<Mount>() == 64);

impl Linked for Mount {
    fn link(&self) -> &Link {
        &self.link
    }

    fn chain_hash(&self) -> u64 {
        mount_hash(MountId(self.parent.get()), DentryId(self.mountpoint.get()))
    }
}

/// In a mount's block size: [`Features::COARSE_TIMES`](crate::fs::Features::COARSE_TIMES).
pub(crate) const COARSE_TIMES: u32 = 1 << 31;

/// In a mount's block size: it has a map of owners.
pub(crate) const IDMAPPED: u32 = 1 << 30;

/// In a mount's block size: its files have no flags, see [`FileSystem::inode_flags`](crate::fs::FileSystem::inode_flags).
pub(crate) const FLAGLESS: u32 = 1 << 29;

/// In a mount's block size: [`Features::PERMISSION`](crate::fs::Features::PERMISSION).
pub(crate) const DECIDES: u32 = 1 << 28;

/// What is no size in a mount's block size.
pub(crate) const NO_SIZE: u32 = COARSE_TIMES | IDMAPPED | FLAGLESS | DECIDES;

/// A file system's block size, with what it is like; it is asked for both.
pub(crate) fn blksize_with(fs: &dyn FileSystem, features: Features) -> u32 {
    let like = [
        (features.contains(Features::COARSE_TIMES), COARSE_TIMES),
        (fs.inode_flags().is_none(), FLAGLESS),
        (features.contains(Features::PERMISSION), DECIDES),
    ];
    let like = like.into_iter().filter_map(|(is, bit)| is.then_some(bit));
    like.fold(fs.blksize() & !NO_SIZE, |size, bit| size | bit)
}

fn mount_hash(parent: MountId, mountpoint: DentryId) -> u64 {
    fold(u64::from(parent.0) << 32 | u64::from(mountpoint.0), 0x9e37_79b9_7f4a_7c15)
}

impl Mount {
    pub(crate) fn flags(&self) -> MntFlags {
        MntFlags::from_bits_retain(self.flags.get())
    }

    /// The namespace that it is mounted in.
    pub(crate) fn ns(&self) -> NsId {
        NsId(self.ns.get())
    }

    /// What it covers; no mount where it hangs nowhere.
    pub(crate) fn place(&self) -> (MountId, DentryId) {
        (MountId(self.parent.get()), DentryId(self.mountpoint.get()))
    }

    /// Its root.
    pub(crate) fn root(&self) -> DentryId {
        DentryId(self.root.get())
    }

    /// Whether the mount shows only a part of its file system.
    pub(crate) fn is_partial(&self) -> bool {
        self.root.get() != self.sb_root.get()
    }

    /// Whether its file system decides permission itself.
    #[inline(always)]
    pub(crate) fn decides(&self) -> bool {
        self.blksize.get() & DECIDES != 0
    }
}

/// A mount as a reader that holds nothing saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenMount {
    pub(crate) id: MountId,
    pub(crate) seq: Sample,
}

impl Vfs {
    /// The mount slot of that id.
    #[inline(always)]
    pub(crate) fn mount_slot(&self, id: MountId) -> &Mount {
        self.mounts.get(id.0)
    }

    /// What is mounted on a dentry as seen in a mount, without holding anything.
    ///
    /// `Absent::Sure` is true if the dentry's sequence count did not move.
    pub(crate) fn lookup_mnt_rcu(
        &self,
        parent: MountId,
        mountpoint: DentryId,
    ) -> Absent<SeenMount> {
        let found =
            self.mhash.find_sure(&self.mounts, mount_hash(parent, mountpoint), |id, mount| {
                let seq = mount.seq.sample();
                let it = mount.place() == (parent, mountpoint);
                // One that is just being changed is there all the same.
                it.then(|| mount.seq.unchanged(seq).then_some(SeenMount { id: MountId(id), seq }))
            });
        match found {
            Absent::Found(Some(seen)) => Absent::Found(seen),
            Absent::Found(None) | Absent::Unsure => Absent::Unsure,
            Absent::Sure => Absent::Sure,
        }
    }

    /// What is mounted on a dentry as seen in a mount, held: the mount and its root, both counted. The mount's sample tells
    /// later whether it still hangs there.
    ///
    /// The caller holds both arguments.
    pub(crate) fn lookup_mnt(
        &self,
        parent: MountId,
        mountpoint: DentryId,
    ) -> Option<(SeenMount, DentryId)> {
        let mut spin = Spin::default();
        loop {
            let before = self.dentry(mountpoint).seq.sample();
            match self.lookup_mnt_rcu(parent, mountpoint) {
                Absent::Found(seen) => {
                    let root = DentryId(self.mount_slot(seen.id).root.get());
                    if self.legitimize_mnt(seen.id, seen.seq) {
                        // The mount holds its root.
                        self.dget(root);
                        return Some((seen, root));
                    }
                }
                Absent::Sure if self.dentry(mountpoint).seq.unchanged(before) => return None,
                Absent::Sure | Absent::Unsure => {}
            }
            spin.turn();
        }
    }

    /// Holds a mount that was seen, unless it changed since.
    ///
    /// Linux: `legitimize_mnt`.
    #[inline]
    pub(crate) fn legitimize_mnt(&self, id: MountId, seq: Sample) -> bool {
        let mount = self.mount_slot(id);
        let held = self.mount_counts.get(id.0).get_if(|| mount.seq.unchanged(seq));
        if !held {
            self.mount_look(id);
        }
        held
    }

    /// Takes one more count of a mount that the caller holds.
    #[inline]
    pub(crate) fn mntget(&self, id: MountId) {
        self.mount_counts.get(id.0).get();
    }

    /// Gives a count of a mount back; the last one of a detached mount frees it. It does not count as use of the mount.
    ///
    /// Linux: `mntput_no_expire`.
    #[inline]
    pub(crate) fn mntput(&self, id: MountId) {
        self.mount_counts.get(id.0).put_then_look();
        self.mount_look(id);
    }

    /// Gives a count of a mount back by who used it: it is not expired.
    ///
    /// Linux: `mntput`.
    #[inline]
    pub(crate) fn mntput_used(&self, id: MountId) {
        if self.mount_slot(id).flags().contains(MntFlags::EXPIRY_MARK) {
            self.unmark_expired(id);
        }
        self.mntput(id);
    }

    #[inline]
    fn mount_look(&self, id: MountId) {
        if self.mount_slot(id).flags().contains(MntFlags::DETACHED) {
            self.free_later(id);
        }
    }
}
