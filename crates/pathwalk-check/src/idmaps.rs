//! The maps of owners that mounts are given: few, so that what is drawn meets itself.

use crate::field::{Field, Word};
use pathwalk::{MountIdMap, MountIdRange};
use std::{
    fmt::{self, Formatter},
    sync::Arc,
};

/// A map by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idmap(pub(crate) usize);

type Ranges = &'static [(u32, u32, u32)];

/// The maps: name, users and groups, as lines of `/proc/PID/uid_map`.
pub(crate) const IDMAPS: [(&str, Ranges, Ranges); 8] = [
    ("shifted", &[(0, 1000, 2)], &[(0, 1000, 2)]),
    ("swapped", &[(0, 1000, 1), (1000, 0, 1), (1001, 1001, 1)], &[(0, 1000, 1), (1000, 0, 1)]),
    ("same", &[(0, 0, 65534)], &[(0, 0, 65534)]),
    ("u", &[(1000, 1000, 1)], &[(1000, 1000, 1)]),
    ("users", &[(0, 1001, 1), (1001, 0, 1), (1000, 1000, 1)], &[(0, 0, 65534)]),
    ("many", &MANY, &MANY),
    (NOT_THE_STRANGER, &[(0, 0, 1), (5000, 1000, 1)], &[(0, 0, 1001), (2000, 2000, 10_000)]),
    ("groups", &[(0, 0, 65534)], &[(0, 1001, 1), (1000, 0, 1), (5, 1000, 1)]),
];

/// Root and user 1000, stored by another number, with the groups that small worlds have.
pub(crate) const NOT_THE_STRANGER: &str = "two";

/// Of more than five the kernel keeps the order of the stored ids.
const MANY: [(u32, u32, u32); 7] = [
    (50, 0, 1),
    (3, 70, 2),
    (0, 1000, 1),
    (1000, 50, 3),
    (20, 20, 5),
    (2, 8, 1),
    (100_000, 200_000, 65536),
];

impl Idmap {
    /// The map of this name.
    pub(crate) fn named(name: &str) -> Self {
        Self::read(name).expect("a map has this name")
    }

    /// The library's map.
    pub(crate) fn map(self) -> Arc<MountIdMap> {
        let (_, users, groups) = IDMAPS[self.0];
        let ranges = |ranges: Ranges| -> Vec<MountIdRange> {
            let range = |&(stored, seen, count)| MountIdRange { stored, seen, count };
            ranges.iter().map(range).collect()
        };
        Arc::new(MountIdMap::new(&ranges(users), &ranges(groups)).expect("they are maps"))
    }
}

impl Word for Idmap {}

impl Field for Idmap {
    fn read(word: &str) -> Option<Self> {
        IDMAPS.iter().position(|(name, ..)| *name == word).map(Self)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(IDMAPS[self.0].0)
    }
}
