//! Mounts by numbers that are given in order: when each was made, or hung up.
//!
//! What comes last is noted in a few steps, and so is that it goes again, however many there are: a mount that is taken down is mostly one
//! of the last. One that is not leaves its place empty, until half of the places are.
//!
//! An older one that comes later, as one that was made and is hung up behind others, moves all that are younger; of many such all are put in
//! order at once.

use super::MountId;
use std::ops::{Bound, RangeBounds};

/// Fewer are moved in one by one.
const MANY: usize = 16;

/// Mounts by such numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    /// By number. [`MountId::NONE`] is an empty place, and never the last.
    places: Vec<(u64, MountId)>,
    empty: usize,
}

impl Ordered {
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.empty
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The mount of a number.
    pub(super) fn get(&self, number: u64) -> Option<MountId> {
        let place = self.place(number).ok()?;
        Some(self.places[place].1).filter(|&id| id != MountId::NONE)
    }

    /// Notes a mount under a number that no other one has.
    pub(super) fn insert(&mut self, number: u64, id: MountId) {
        debug_assert_ne!(id, MountId::NONE, "that is an empty place");
        match self.place(number) {
            Ok(place) => {
                self.empty -= usize::from(self.places[place].1 == MountId::NONE);
                self.places[place].1 = id;
            }
            Err(place) => self.places.insert(place, (number, id)),
        }
    }

    /// As [`Ordered::insert`], of all of these.
    pub(super) fn extend(&mut self, new: &[(u64, MountId)]) {
        let before = self.places.last().map(|&(last, _)| last);
        let come_last = before < new.first().map(|&(first, _)| first)
            && new.is_sorted_by_key(|&(number, _)| number);
        if come_last || new.len() < MANY {
            return new.iter().for_each(|&(number, id)| self.insert(number, id));
        }
        self.close_up();
        self.places.extend_from_slice(new);
        self.places.sort_by_key(|&(number, _)| number);
        debug_assert!(self.places.is_sorted_by(|one, next| one.0 < next.0), "each has its own");
    }

    /// Forgets the mount of a number, if there is one.
    pub(super) fn remove(&mut self, number: u64) {
        let Ok(place) = self.place(number) else { return };
        let id = &mut self.places[place].1;
        if *id == MountId::NONE {
            return;
        }
        *id = MountId::NONE;
        self.empty += 1;
        while self.places.last().is_some_and(is_empty) {
            self.places.pop();
            self.empty -= 1;
        }
        if 2 * self.empty > self.places.len() {
            self.close_up();
        }
        if self.places.capacity() > MANY.max(4 * self.places.len()) {
            self.places.shrink_to(2 * self.places.len());
        }
    }

    fn close_up(&mut self) {
        self.places.retain(|place| !is_empty(place));
        self.empty = 0;
    }

    /// The mounts, by their numbers.
    pub(super) fn values(&self) -> impl DoubleEndedIterator<Item = MountId> {
        self.range(..).map(|(_, id)| id)
    }

    /// Those of some numbers, by these.
    pub(super) fn range(
        &self,
        numbers: impl RangeBounds<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, MountId)> {
        let behind = |place: &(u64, MountId)| match numbers.start_bound() {
            Bound::Included(start) => place.0 < *start,
            Bound::Excluded(start) => place.0 <= *start,
            Bound::Unbounded => false,
        };
        let before = |place: &(u64, MountId)| match numbers.end_bound() {
            Bound::Included(end) => place.0 <= *end,
            Bound::Excluded(end) => place.0 < *end,
            Bound::Unbounded => true,
        };
        let start = self.places.partition_point(behind);
        let end = self.places.partition_point(before).max(start);
        self.places[start..end].iter().copied().filter(|place| !is_empty(place))
    }

    /// Where a number is, or else would be.
    fn place(&self, number: u64) -> Result<usize, usize> {
        match self.places.last() {
            Some(&(last, _)) if last > number => {
                self.places.binary_search_by_key(&number, |&(number, _)| number)
            }
            Some(&(last, _)) if last == number => Ok(self.places.len() - 1),
            _ => Err(self.places.len()),
        }
    }
}

fn is_empty(&(_, id): &(u64, MountId)) -> bool {
    id == MountId::NONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map(
            calls: Vec<(bool, u8)>,
            many: std::collections::HashSet<u8>,
            bounds: (u8, u8),
        ) {
            let (mut ordered, mut map) = (Ordered::default(), BTreeMap::new());
            for (adds, number) in calls {
                let number = u64::from(number / 4);
                if adds {
                    let id = MountId(map.len() as u32 + 1);
                    ordered.insert(number, id);
                    map.insert(number, id);
                } else {
                    ordered.remove(number);
                    map.remove(&number);
                }
                prop_assert_eq!(ordered.len(), map.len());
                prop_assert_eq!(ordered.is_empty(), map.is_empty());
                prop_assert!(ordered.places.len() <= 2 * map.len());
                prop_assert_eq!(ordered.get(number), map.get(&number).copied());
            }
            let new = |number: &u64| !map.contains_key(number);
            let many: Vec<_> = many.into_iter().map(u64::from).filter(new).collect();
            let many: Vec<_> = many.into_iter().map(|number| (number, MountId(1))).collect();
            ordered.extend(&many);
            map.extend(many);
            let all: Vec<_> = map.iter().map(|(&number, &id)| (number, id)).collect();
            prop_assert_eq!(ordered.range(..).collect::<Vec<_>>(), all);
            let [start, end] = [bounds.0.min(bounds.1), bounds.0.max(bounds.1)].map(u64::from);
            for bounds in [
                (Bound::Unbounded, Bound::Excluded(end)),
                (Bound::Included(start), Bound::Unbounded),
                (Bound::Excluded(start), Bound::Unbounded),
                (Bound::Included(start), Bound::Included(end)),
            ] {
                let wanted: Vec<_> = map.range(bounds).rev().map(|(_, &id)| id).collect();
                let found: Vec<_> = ordered.range(bounds).rev().map(|(_, id)| id).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }

    /// Whichever end they go from.
    #[test]
    fn places_that_are_not_used_any_more_are_given_back() {
        for from_behind in [true, false] {
            let mut ordered = Ordered::default();
            (0..1000).for_each(|number| ordered.insert(number, MountId(1)));
            for number in 0..997 {
                ordered.remove(if from_behind { 999 - number } else { number });
            }
            assert_eq!(ordered.len(), 3);
            assert!(ordered.places.capacity() <= MANY, "{}", ordered.places.capacity());
        }
    }
}
