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
//! A mount gets its map while it hangs nowhere and nobody writes through it, and keeps it for good. Who holds nothing reads
//! it under the mount's count. Who walks in such a tree while it gets its map may see it from some step on, as in Linux.
//! Who is asked for permission carries the map of the mount that he looks through, [`Subject::idmap`]; all rules about
//! owners are methods of his. While no mount of the machine has a map, nobody looks for one.
//!
//! Linux: `fs/mnt_idmapping.c`, `make_vfsuid`, `from_vfsuid`; mount_setattr(2), user_namespaces(7).

use crate::{
    cred::Subject,
    inode::{Attr, Owner},
    mount::MountId,
    vfs::Vfs,
    walk::HeldPath,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::Cell32;
use std::{ops::Deref, sync::OnceLock};

/// A range of ids: those from `stored` on are seen as those from `seen` on.
///
/// It is a line of `/proc/PID/uid_map` of the user namespace that Linux takes the map from, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MountIdRange {
    /// The first id as inodes have it.
    pub stored: u32,
    /// The first id as the mount shows it.
    pub seen: u32,
    /// How many there are.
    pub count: u32,
}

/// How a mount shows owners and groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MountIdMap {
    users: Box<[MountIdRange]>,
    groups: Box<[MountIdRange]>,
}

/// So many ranges has a map at most.
const RANGES: usize = 340;

impl MountIdMap {
    /// A map of users and one of groups.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: there are no ranges or more than 340, one is empty or goes on behind the last id, or two of them overlap.
    pub fn new(users: &[MountIdRange], groups: &[MountIdRange]) -> Result<Self> {
        if !are_a_map(users) || !are_a_map(groups) {
            return Err(Errno::EINVAL);
        }
        Ok(Self { users: users.into(), groups: groups.into() })
    }
}

/// Linux: the checks of `map_write`.
fn are_a_map(ranges: &[MountIdRange]) -> bool {
    let fits = |first: u32, count: u32| count != 0 && first.checked_add(count).is_some();
    let apart = |a: (u32, u32), b: (u32, u32)| a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0;
    let each = |(index, range): (usize, &MountIdRange)| {
        fits(range.stored, range.count)
            && fits(range.seen, range.count)
            && ranges[..index].iter().all(|other| {
                apart((range.stored, range.count), (other.stored, other.count))
                    && apart((range.seen, range.count), (other.seen, other.count))
            })
    };
    (1..=RANGES).contains(&ranges.len()) && ranges.iter().enumerate().all(each)
}

fn seen(ranges: &[MountIdRange], id: u32) -> Option<u32> {
    let at = |range: &MountIdRange| {
        let past = id.checked_sub(range.stored)?;
        (past < range.count).then_some(range.seen + past)
    };
    ranges.iter().find_map(at)
}

fn stored(ranges: &[MountIdRange], id: u32) -> Option<u32> {
    let at = |range: &MountIdRange| {
        let past = id.checked_sub(range.seen)?;
        (past < range.count).then_some(range.stored + past)
    };
    ranges.iter().find_map(at)
}

/// What stat shows of an owner whom the mount does not show: `/proc/sys/kernel/overflowuid`.
const NOBODY: u32 = 65534;

impl Subject<'_> {
    /// An inode's user as the subject sees it; none whom the mount does not show.
    ///
    /// Linux: `i_uid_into_vfsuid`.
    pub fn seen_uid(&self, uid: u32) -> Option<u32> {
        self.idmap.map_or(Some(uid), |map| seen(&map.users, uid))
    }

    /// An inode's group as the subject sees it.
    pub fn seen_gid(&self, gid: u32) -> Option<u32> {
        self.idmap.map_or(Some(gid), |map| seen(&map.groups, gid))
    }

    /// The user that an inode gets where the subject says `uid`; none where the mount shows nobody so.
    ///
    /// Linux: `from_vfsuid`.
    pub(crate) fn stored_uid(&self, uid: u32) -> Option<u32> {
        self.idmap.map_or(Some(uid), |map| stored(&map.users, uid))
    }

    /// The group that an inode gets where the subject says `gid`.
    pub(crate) fn stored_gid(&self, gid: u32) -> Option<u32> {
        self.idmap.map_or(Some(gid), |map| stored(&map.groups, gid))
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
    pub(crate) fn has_unmapped(&self, uid: u32, gid: u32) -> bool {
        self.idmap.is_some() && (self.seen_uid(uid).is_none() || self.seen_gid(gid).is_none())
    }

    /// Refuses what has an owner or a group that the mount does not show.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: it has.
    pub(crate) fn must_be_mapped(&self, attr: &Attr) -> Result<()> {
        if self.has_unmapped(attr.uid, attr.gid) { Err(Errno::EOVERFLOW) } else { Ok(()) }
    }

    /// Whether two inodes have one owner, and the mount shows him.
    pub(crate) fn same_owner(&self, owner: Owner, other: &Attr) -> bool {
        owner.uid == other.uid && self.seen_uid(owner.uid).is_some()
    }
}

/// The maps of a machine, each once, by their numbers; 0 is none. None is ever taken away.
#[derive(Default)]
pub(crate) struct Idmaps {
    maps: OnceLock<Box<[OnceLock<MountIdMap>]>>,
    used: Cell32,
}

/// So many different maps has a machine at most.
const MAPS: usize = 4096;

impl Idmaps {
    fn get(&self, number: u32) -> Option<&MountIdMap> {
        self.maps.get()?.get((number as usize).checked_sub(1)?)?.get()
    }

    /// The number of a map; the caller has the lock of the tree of mounts.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: there are as many different ones as there can be.
    pub(crate) fn number_of(&self, map: &MountIdMap) -> Result<u32> {
        let maps = self.maps.get_or_init(|| (0..MAPS).map(|_| OnceLock::new()).collect());
        let it = |slot: &OnceLock<MountIdMap>| slot.get().is_none_or(|known| known == map);
        let index = maps.iter().position(it).ok_or(Errno::ENOMEM)?;
        maps[index].get_or_init(|| map.clone());
        let number = index as u32 + 1;
        self.used.set(self.used.get().max(number));
        Ok(number)
    }
}

impl Vfs {
    /// Whether some mount has, or had, a map.
    #[inline(always)]
    pub(crate) fn has_idmaps(&self) -> bool {
        self.idmaps.used.get() != 0
    }

    /// Who asks, looking through a mount. Of a mount that is not held a guess until it is checked.
    #[inline(always)]
    pub(crate) fn through<'w, 's>(&'s self, mnt: MountId, who: &'w Subject<'s>) -> Through<'w, 's> {
        if self.has_idmaps() { self.through_map(mnt, who) } else { Through::Plain(who) }
    }

    #[cold]
    #[inline(never)]
    fn through_map<'w, 's>(&'s self, mnt: MountId, who: &'w Subject<'s>) -> Through<'w, 's> {
        match self.idmaps.get(self.mount_slot(mnt).idmap.get()) {
            None => Through::Plain(who),
            idmap => Through::Mapped(Subject { idmap, ..*who }),
        }
    }

    /// Whether a mount with a map does not show the owner or the group.
    #[cold]
    #[inline(never)]
    pub(crate) fn hides_owner(&self, mnt: MountId, attr: &Attr) -> bool {
        let map = self.idmaps.get(self.mount_slot(mnt).idmap.get());
        map.is_some_and(|map| {
            seen(&map.users, attr.uid).is_none() || seen(&map.groups, attr.gid).is_none()
        })
    }

    /// Owner and group as a mount with a map shows them.
    #[cold]
    #[inline(never)]
    pub(crate) fn shown_through(&self, mnt: MountId, uid: u32, gid: u32) -> (u32, u32) {
        let map = self.idmaps.get(self.mount_slot(mnt).idmap.get());
        map.map_or((uid, gid), |map| {
            (seen(&map.users, uid).unwrap_or(NOBODY), seen(&map.groups, gid).unwrap_or(NOBODY))
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
    pub(crate) fn seen_by<'s>(&self, who: Subject<'s>) -> Subject<'s>
    where
        'a: 's,
    {
        *self.vfs().through(self.mnt(), &who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_on_either_side_are_no_map() {
        let range = |stored, seen, count| MountIdRange { stored, seen, count };
        let good = [range(0, 1000, 2), range(2, 0, 1)];
        for (bad, why) in [
            (vec![], "none"),
            (vec![range(0, 0, 0)], "an empty one"),
            (vec![range(u32::MAX, 0, 1)], "behind the last id"),
            (vec![range(0, 0, 2), range(1, 9, 1)], "stored twice"),
            (vec![range(0, 0, 2), range(9, 1, 1)], "seen twice"),
            ((0..341).map(|id| range(id, id, 1)).collect(), "too many"),
        ] {
            assert_eq!(MountIdMap::new(&bad, &good), Err(Errno::EINVAL), "{why}");
            assert_eq!(MountIdMap::new(&good, &bad), Err(Errno::EINVAL), "{why}");
        }
        let map = MountIdMap::new(&good, &good).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|id| seen(&map.users, id)),
            [Some(1000), Some(1001), Some(0), None]
        );
        assert_eq!(
            [0, 1000, 1001, 1].map(|id| stored(&map.users, id)),
            [Some(2), Some(0), Some(1), None]
        );
    }
}
