//! Idmapped mounts: whose a file is depends on the mount that it is seen through.
//!
//! ```text
//!   in the inode          seen through the mount
//!     0 ───────────────────► 1000            MountIdRange { stored: 0, seen: 1000, count: 2 }
//!     1 ───────────────────► 1001
//!     2                      nobody          has no owner there: nothing of it can be changed
//!   1000 ◄──────────────── ? 2000            who is not seen by anybody's id makes nothing there: EOVERFLOW
//! ```
//!
//! A mount gets its map while it hangs nowhere and nobody writes through it, and keeps it until it is freed; only a copy that
//! nobody has seen yet may get another one. Who walks in such a tree while it gets its map may see it from some step on, as in
//! Linux.
//!
//! Who is asked for permission carries the map of the mount that he looks through, [`Subject::idmap`]; all rules about
//! owners are methods of his. While no mount of the machine has a map, nobody looks for one.
//!
//! The ranges lie in two blobs of the names' arena, which the mount names in one word and shares with its copies. So a map is
//! in a budget, goes with the last mount that has it, and may be looked at by who holds nothing: he may read the ranges of
//! another map, or what is no range at all, but then the mount's count has moved.
//!
//! Linux: `fs/mnt_idmapping.c`, `make_vfsuid`, `from_vfsuid`; mount_setattr(2), user_namespaces(7).

mod ranges;

pub use ranges::{MountIdMap, MountIdRange};

use crate::{
    cred::Subject,
    inode::{Attr, Owner},
    mount::{Mount, MountId},
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::{Blob, BlobArena, Seq, lock_order};
use ranges::{Ranges, bytes};
use std::{
    fmt::{self, Debug, Formatter},
    ops::Deref,
};

/// A map as mounts have it; what it says is a guess until the mount's count is checked, unless the mount is held.
///
/// Linux: `struct mnt_idmap`.
#[derive(Clone, Copy)]
pub struct MntIdmap<'a> {
    names: &'a BlobArena,
    blobs: IdmapBlobs,
}

/// Where the ranges of a map lie: users, and groups. 0 is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdmapBlobs(u64);

impl IdmapBlobs {
    pub(crate) const NONE: Self = Self(0);

    fn users(self) -> Blob {
        self.0 as u32
    }

    fn groups(self) -> Blob {
        (self.0 >> 32) as u32
    }
}

impl MntIdmap<'_> {
    /// The ranges of users.
    pub(crate) fn users(&self) -> Ranges<'_> {
        Ranges(self.names.words(self.blobs.users()))
    }

    /// The ranges of groups.
    pub(crate) fn groups(&self) -> Ranges<'_> {
        Ranges(self.names.words(self.blobs.groups()))
    }

    // Out of line: where there is no map the rules about owners stay as short as they are.

    #[cold]
    #[inline(never)]
    fn seen_uid(&self, uid: u32) -> Option<u32> {
        self.users().seen(uid)
    }

    #[cold]
    #[inline(never)]
    fn seen_gid(&self, gid: u32) -> Option<u32> {
        self.groups().seen(gid)
    }

    #[cold]
    #[inline(never)]
    fn stored_uid(&self, uid: u32) -> Option<u32> {
        self.users().stored(uid)
    }

    #[cold]
    #[inline(never)]
    fn stored_gid(&self, gid: u32) -> Option<u32> {
        self.groups().stored(gid)
    }

    /// Whether it does not show the owner or the group.
    #[cold]
    #[inline(never)]
    fn hides(&self, uid: u32, gid: u32) -> bool {
        self.seen_uid(uid).is_none() || self.seen_gid(gid).is_none()
    }
}

impl Debug for MntIdmap<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (users, groups): (Vec<_>, Vec<_>) =
            (self.users().iter().collect(), self.groups().iter().collect());
        f.debug_struct("MntIdmap").field("users", &users).field("groups", &groups).finish()
    }
}

/// What stat shows of an owner whom the mount does not show: `/proc/sys/kernel/overflowuid`.
const NOBODY: u32 = 65534;

impl Subject<'_> {
    /// An inode's user as the subject sees it; none whom the mount does not show.
    ///
    /// Linux: `i_uid_into_vfsuid`.
    #[inline(always)]
    pub fn seen_uid(&self, uid: u32) -> Option<u32> {
        self.idmap.map_or(Some(uid), |map| map.seen_uid(uid))
    }

    /// An inode's group as the subject sees it.
    #[inline(always)]
    pub fn seen_gid(&self, gid: u32) -> Option<u32> {
        self.idmap.map_or(Some(gid), |map| map.seen_gid(gid))
    }

    /// The user that an inode gets where the subject says `uid`; none where the mount shows nobody so.
    ///
    /// Linux: `from_vfsuid`.
    pub(crate) fn stored_uid(&self, uid: u32) -> Option<u32> {
        self.idmap.map_or(Some(uid), |map| map.stored_uid(uid))
    }

    /// The group that an inode gets where the subject says `gid`.
    pub(crate) fn stored_gid(&self, gid: u32) -> Option<u32> {
        self.idmap.map_or(Some(gid), |map| map.stored_gid(gid))
    }

    /// Owner and group of what the subject makes.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: the mount shows nobody by the subject's ids.
    ///
    /// Linux: `fsuidgid_has_mapping`, `mapped_fsuid`.
    pub(crate) fn new_ids(&self) -> Result<(u32, u32)> {
        let ids = self.stored_uid(self.fsuid).zip(self.stored_gid(self.fsgid));
        ids.ok_or(Errno::EOVERFLOW)
    }

    /// Whether the mount does not show the owner or the group: such an inode is not written.
    ///
    /// Linux: `HAS_UNMAPPED_ID`.
    #[inline(always)]
    pub(crate) fn has_unmapped(&self, uid: u32, gid: u32) -> bool {
        self.idmap.is_some_and(|map| map.hides(uid, gid))
    }

    /// Refuses what has an owner or a group that the mount does not show.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: it has.
    pub(crate) fn must_be_mapped(&self, uid: u32, gid: u32) -> Result<()> {
        if self.has_unmapped(uid, gid) { Err(Errno::EOVERFLOW) } else { Ok(()) }
    }

    /// Whether two inodes have one owner, and the mount shows him.
    pub(crate) fn same_owner(&self, owner: Owner, other: &Attr) -> bool {
        owner.uid == other.uid && self.seen_uid(owner.uid).is_some()
    }
}

/// A map that no mount has yet; its blobs are freed with it.
pub(crate) struct NewIdmap<'v> {
    vfs: &'v Vfs,
    blobs: IdmapBlobs,
}

impl<'v> NewIdmap<'v> {
    /// Stores a map; the caller has no lock.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: the names' arena is full, and nothing could be evicted.
    pub(crate) fn store(vfs: &'v Vfs, map: &MountIdMap) -> Result<Self> {
        let store = |ranges: &[MountIdRange]| {
            let bytes = bytes(ranges);
            vfs.with_room(|| vfs.names.store(&bytes)).ok_or(Errno::ENOMEM)
        };
        let mut new = Self { vfs, blobs: IdmapBlobs(store(&map.users)?.into()) };
        new.blobs.0 |= u64::from(store(&map.groups)?) << 32;
        Ok(new)
    }

    /// The blobs, which a mount has from now on.
    pub(crate) fn keep(mut self) -> IdmapBlobs {
        std::mem::replace(&mut self.blobs, IdmapBlobs::NONE)
    }
}

impl Drop for NewIdmap<'_> {
    fn drop(&mut self) {
        self.vfs.idmap_free(self.blobs);
    }
}

impl Mount {
    pub(crate) fn idmap_blobs(&self) -> IdmapBlobs {
        IdmapBlobs(self.idmap.get())
    }

    /// Names a map; the caller changes the mount.
    pub(crate) fn name_idmap(&self, blobs: IdmapBlobs) {
        self.idmap.set(blobs.0);
    }
}

impl Vfs {
    /// Frees a map that no mount has any more. Its page may go back to the system, which holds up all threads: the caller has
    /// no lock.
    pub(crate) fn idmap_free(&self, blobs: IdmapBlobs) {
        for blob in [blobs.users(), blobs.groups()] {
            if blob != 0 {
                lock_order::assert_none_held();
                self.names.free(blob);
            }
        }
    }

    /// Whether some mount has a map.
    #[inline(always)]
    fn has_idmaps(&self) -> bool {
        self.idmaps.get() != 0
    }

    /// The map of a mount, if it has one.
    pub(crate) fn mnt_idmap(&self, mnt: MountId) -> Option<MntIdmap<'_>> {
        let mount = self.mount_slot(mnt);
        let blobs = mount.idmap_blobs();
        // Who sees the word sees the ranges, also who holds the mount just when it gets its map: they were written before
        // the change began.
        Seq::acquire();
        (blobs != IdmapBlobs::NONE).then_some(MntIdmap { names: &self.names, blobs })
    }

    /// Who asks, looking through a mount. Of a mount that is not held a guess until it is checked.
    #[inline(always)]
    pub(crate) fn through<'w, 's>(&'s self, mnt: MountId, who: &'w Subject<'s>) -> Through<'w, 's> {
        if self.has_idmaps() { self.through_map(mnt, who) } else { Through::Plain(who) }
    }

    #[cold]
    #[inline(never)]
    fn through_map<'w, 's>(&'s self, mnt: MountId, who: &'w Subject<'s>) -> Through<'w, 's> {
        match self.mnt_idmap(mnt) {
            None => Through::Plain(who),
            idmap => Through::Mapped(Subject { idmap, ..*who }),
        }
    }

    /// Whether a mount with a map does not show the owner or the group.
    #[cold]
    #[inline(never)]
    pub(crate) fn hides_owner(&self, mnt: MountId, attr: &Attr) -> bool {
        self.mnt_idmap(mnt).is_some_and(|map| map.hides(attr.uid, attr.gid))
    }

    /// Owner and group as a mount with a map shows them: two numbers, so that the other attributes may stay in registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn shown_through(&self, mnt: MountId, uid: u32, gid: u32) -> (u32, u32) {
        self.mnt_idmap(mnt).map_or((uid, gid), |map| {
            (map.seen_uid(uid).unwrap_or(NOBODY), map.seen_gid(gid).unwrap_or(NOBODY))
        })
    }
}

/// Who asks, looking through a mount: the one who asks himself where it has no map, so that nothing is copied.
pub(crate) enum Through<'w, 's> {
    /// The mount has no map.
    Plain(&'w Subject<'s>),
    /// With the mount's map.
    Mapped(Subject<'s>),
}

impl<'s> Deref for Through<'_, 's> {
    type Target = Subject<'s>;

    #[inline(always)]
    fn deref(&self) -> &Subject<'s> {
        match self {
            Self::Plain(who) => who,
            Self::Mapped(who) => who,
        }
    }
}

impl<'a> HeldPath<'a> {
    /// Who asks about what is here, through this mount.
    #[inline]
    pub(crate) fn seen_by<'s>(&'s self, who: Subject<'s>) -> Subject<'s> {
        *self.vfs().through(self.mnt(), &who)
    }
}
