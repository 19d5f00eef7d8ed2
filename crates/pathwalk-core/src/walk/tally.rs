//! How often walks had to hold their place, and why, counted by each thread for itself: for a front end that tells its user.
//!
//! A walk that decides without holding anything comes by nothing of this.

use super::observe::Left;
use std::{
    cell::Cell,
    ops::{AddAssign, Sub},
};

/// How often walks left RCU mode, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally([u64; Left::ALL.len()]);

thread_local! {
    static LEFT: Cell<Tally> = const { Cell::new(Tally([0; Left::ALL.len()])) };
}

impl Tally {
    /// What the walks of this thread did so far, on all machines.
    pub fn of_thread() -> Self {
        LEFT.get()
    }

    /// The reasons that there were, each with its number.
    pub fn reasons(self) -> impl Iterator<Item = (Left, u64)> {
        Left::ALL.into_iter().zip(self.0).filter(|&(_, times)| times > 0)
    }

    /// How many walks it were.
    pub fn total(self) -> u64 {
        self.0.iter().sum()
    }
}

/// What came since.
impl Sub for Tally {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index].wrapping_sub(earlier.0[index])))
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, times)| *sum = sum.wrapping_add(times));
    }
}

/// A walk of this thread has to hold.
#[cold]
pub(super) fn note(why: Left) {
    let mut tally = LEFT.get();
    tally.0[why.index()] += 1;
    LEFT.set(tally);
}

#[cfg(test)]
mod tests {
    use super::{Left, Tally, note};

    #[test]
    fn each_reason_is_counted_where_it_stands() {
        let before = Tally::of_thread();
        for (index, why) in Left::ALL.into_iter().enumerate() {
            assert_eq!(why.index(), index);
            (0..=index).for_each(|_| note(why));
        }
        let since = Tally::of_thread() - before;
        let want: Vec<_> = Left::ALL.into_iter().zip(1..).collect();
        assert_eq!(since.reasons().collect::<Vec<_>>(), want);
        let mut twice = since;
        twice += since;
        assert_eq!(twice - since, since);
        assert_eq!(since.total(), want.iter().map(|&(_, times)| times).sum());
    }
}
