//! The ranges of a map: as they are given, and as they lie in a blob, where who holds nothing looks at them.
//!
//! ```text
//!   blob   how many │ stored seen count │ stored seen count │ …        half a word each
//! ```
//!
//! Linux: `struct uid_gid_map`, `map_write`, `map_id_range_down`, `map_id_up`.

use pathwalk_abi::{Errno, Result};
use pathwalk_sync::Cell64;

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
    pub(super) users: Box<[MountIdRange]>,
    pub(super) groups: Box<[MountIdRange]>,
}

/// So many ranges has a map at most.
const RANGES: usize = 340;

/// So many are kept as they were given, and looked through: `UID_GID_MAP_MAX_BASE_EXTENTS`.
const AS_GIVEN: usize = 5;

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
        Ok(Self { users: in_order(users), groups: in_order(groups) })
    }
}

/// Of more than five ranges Linux keeps the order of the stored ids, which statmount(2) shows.
fn in_order(ranges: &[MountIdRange]) -> Box<[MountIdRange]> {
    let mut ranges: Box<[_]> = ranges.into();
    if ranges.len() > AS_GIVEN {
        ranges.sort_unstable_by_key(|range| range.stored);
    }
    ranges
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

/// How many ranges there are, and each as three halves of words.
pub(super) fn bytes(ranges: &[MountIdRange]) -> Vec<u8> {
    let halves = ranges.iter().flat_map(|range| [range.stored, range.seen, range.count]);
    [ranges.len() as u32].into_iter().chain(halves).flat_map(u32::to_le_bytes).collect()
}

/// The ranges of a blob, which may be that of something else by now: then they are any numbers, no more than a map has.
#[derive(Clone, Copy)]
pub(crate) struct Ranges<'a>(pub(super) &'a [Cell64]);

impl<'a> Ranges<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = MountIdRange> + 'a {
        (0..self.len()).map(move |index| self.get(index))
    }

    /// What is seen of an id that is stored.
    ///
    /// Linux: `map_id_range_down`.
    pub(super) fn seen(self, id: u32) -> Option<u32> {
        let len = self.len();
        if len <= AS_GIVEN {
            return self.iter().find_map(|range| range.seen(id));
        }
        // More are in the order of the stored ids.
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).stored <= id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.get(low.checked_sub(1)?).seen(id)
    }

    /// What is stored for an id that is seen. There is no room for them in this order, too: each is looked at. It is asked
    /// where something is made or gets another owner.
    ///
    /// Linux: `map_id_up`.
    pub(super) fn stored(self, id: u32) -> Option<u32> {
        self.iter().find_map(|range| range.stored(id))
    }

    fn len(self) -> usize {
        (self.half(0) as usize).min(RANGES)
    }

    fn get(self, index: usize) -> MountIdRange {
        let [stored, seen, count] = [1, 2, 3].map(|at| self.half(3 * index + at));
        MountIdRange { stored, seen, count }
    }

    fn half(self, at: usize) -> u32 {
        self.0.get(at / 2).map_or(0, |word| (word.get() >> (at % 2 * 32)) as u32)
    }
}

impl MountIdRange {
    fn seen(&self, id: u32) -> Option<u32> {
        let past = id.checked_sub(self.stored).filter(|&past| past < self.count)?;
        // Of what is no range the sum may be no id.
        Some(self.seen.wrapping_add(past))
    }

    fn stored(&self, id: u32) -> Option<u32> {
        let past = id.checked_sub(self.seen).filter(|&past| past < self.count)?;
        Some(self.stored.wrapping_add(past))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathwalk_sync::BlobArena;

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
        assert!(MountIdMap::new(&good, &good).is_ok());
        let seen = |id| good.iter().find_map(|range| range.seen(id));
        let stored = |id| good.iter().find_map(|range| range.stored(id));
        assert_eq!([0, 1, 2, 3].map(seen), [Some(1000), Some(1001), Some(0), None]);
        assert_eq!([0, 1000, 1001, 1].map(stored), [Some(2), Some(0), Some(1), None]);
    }

    /// The most ranges fill their blob; whatever was in it before, none comes behind the last.
    #[test]
    fn ranges_come_back_as_they_were() {
        let names = BlobArena::new(1 << 20).unwrap();
        for len in [1, 2, 3, 5, 16, 339, 340] {
            let used = names.store(&[1; 4095]).unwrap();
            names.free(used);
            let range =
                |index: u32| MountIdRange { stored: 7 * index, seen: 1000 + 7 * index, count: 7 };
            let wanted: Vec<_> = (0..len).map(range).collect();
            let blob = names.store(&bytes(&wanted)).unwrap();
            let ranges = Ranges(names.words(blob));
            assert_eq!(ranges.iter().collect::<Vec<_>>(), wanted);
            for id in (0..7 * len + 2).chain(999..1002 + 7 * len).chain([u32::MAX]) {
                let both = (ranges.seen(id), ranges.stored(id));
                let seen = wanted.iter().find_map(|range| range.seen(id));
                assert_eq!(both, (seen, wanted.iter().find_map(|range| range.stored(id))), "{id}");
            }
            names.free(blob);
        }
        // What is no map at all is looked at without harm.
        let other = names.store(&[0xff; 4095]).unwrap();
        for blob in [other, u32::MAX] {
            let ranges = Ranges(names.words(blob));
            assert!(ranges.iter().count() <= RANGES);
            let _ = [0, 1, u32::MAX].map(|id| (ranges.seen(id), ranges.stored(id)));
        }
    }

    /// Of more than five some lie between others, in any order, with holes.
    #[test]
    fn many_ranges_are_bisected() {
        let names = BlobArena::new(1 << 20).unwrap();
        let range = |index: u32| MountIdRange {
            stored: 10 * (index * 7 % 97),
            seen: 5000 - 20 * index,
            count: 1 + index % 10,
        };
        let given: Vec<_> = (0..97).map(range).collect();
        let map = MountIdMap::new(&given, &given[..6]).unwrap();
        for (ranges, given) in [(&map.users, &given[..]), (&map.groups, &given[..6])] {
            let ranges = Ranges(names.words(names.store(&bytes(ranges)).unwrap()));
            for id in (0..1000).chain([u32::MAX]) {
                assert_eq!(ranges.seen(id), given.iter().find_map(|range| range.seen(id)), "{id}");
            }
        }
    }
}
