//! What is held for nodes, no more than so much of it: descriptors, by which an inode is asked about without walking to it again, and
//! watches.
//!
//! The order is that of a clock: the hand takes the mark off who was used since it came by, and lets go of who was not.
//! Whoever uses a descriptor holds it for that long; so what is let go of may stay open a little longer.

use rustc_hash::FxHashMap;
use std::{
    collections::{VecDeque, hash_map::Entry},
    mem::take,
};

/// What is held, by node.
#[derive(Debug)]
pub(crate) struct Clock<T> {
    held: FxHashMap<u64, Held<T>>,
    /// Each node of `held` once with the turn of it, and some that are gone, or were and came again.
    order: VecDeque<(u64, u64)>,
    /// How often one came.
    turns: u64,
    limit: usize,
}

#[derive(Debug)]
struct Held<T> {
    what: T,
    turn: u64,
    used: bool,
}

impl<T> Clock<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: FxHashMap::default(), order: VecDeque::new(), turns: 0, limit: limit.max(1) }
    }

    /// What is held for a node, which is used now.
    pub(crate) fn get(&mut self, node: u64) -> Option<&mut T> {
        let held = self.held.get_mut(&node)?;
        held.used = true;
        Some(&mut held.what)
    }

    /// Holds something for a node; what is let go of for that, as there was as much as there may be.
    pub(crate) fn put(&mut self, node: u64, what: T) -> Option<(u64, T)> {
        let full = self.held.len() >= self.limit && !self.held.contains_key(&node);
        let gone = if full { self.turn() } else { None };
        match self.held.entry(node) {
            Entry::Occupied(mut held) => {
                let turn = held.get().turn;
                held.insert(Held { what, turn, used: false });
            }
            Entry::Vacant(none) => {
                self.turns += 1;
                none.insert(Held { what, turn: self.turns, used: false });
                self.order.push_back((node, self.turns));
            }
        }
        gone
    }

    /// Lets go of what is held for a node.
    pub(crate) fn remove(&mut self, node: u64) -> Option<T> {
        let gone = self.held.remove(&node)?;
        if self.order.len() > 2 * self.held.len() + 16 {
            let stands = |node, turn| self.held.get(&node).is_some_and(|held| held.turn == turn);
            self.order.retain(|&(node, turn)| stands(node, turn));
        }
        Some(gone.what)
    }

    /// Lets go of half of what it holds, where that is short; says whether that was any.
    pub(crate) fn halve(&mut self) -> bool {
        let left = self.held.len() / 2;
        let any = !self.held.is_empty();
        while self.held.len() > left && self.turn().is_some() {}
        any
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// All that is held, of which none is used by that.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.held.values_mut().map(|held| &mut held.what)
    }

    /// Moves the hand until somebody is let go of; none where nothing is held.
    fn turn(&mut self) -> Option<(u64, T)> {
        loop {
            let (node, turn) = self.order.pop_front()?;
            let Entry::Occupied(mut held) = self.held.entry(node) else { continue };
            if held.get().turn != turn {
                continue;
            }
            if take(&mut held.get_mut().used) {
                self.order.push_back((node, turn));
            } else {
                return Some((node, held.remove().what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_is_used_stays() {
        let mut clock = Clock::new(3);
        let what = Arc::new(());
        for node in 1..=3 {
            clock.put(node, Arc::clone(&what));
        }
        for node in 4..100 {
            assert!(clock.get(1).is_some(), "it is used each time");
            clock.put(node, Arc::clone(&what));
            assert_eq!(clock.len(), 3);
        }
        assert!(clock.get(2).is_none(), "nobody used it");
    }

    #[test]
    fn half_goes_where_descriptors_are_short() {
        let mut clock = Clock::new(100);
        let what = Arc::new(());
        for node in 0..64 {
            clock.put(node, Arc::clone(&what));
        }
        for left in [32, 16, 8, 4, 2, 1, 0] {
            assert!(clock.halve());
            assert_eq!(clock.len(), left);
        }
        assert!(!clock.halve());
        assert_eq!(Arc::strong_count(&what), 1, "all were closed");
    }

    #[test]
    fn who_came_again_has_one_turn() {
        let mut clock = Clock::new(2);
        let what = Arc::new(());
        clock.put(1, Arc::clone(&what));
        clock.remove(1);
        clock.put(1, Arc::clone(&what));
        clock.put(2, Arc::clone(&what));
        assert!(clock.get(1).is_some());
        let gone = clock.put(3, Arc::clone(&what));
        assert_eq!(gone.map(|(node, _)| node), Some(2), "the other was used");
    }

    #[test]
    fn who_goes_leaves_nothing() {
        let mut clock = Clock::new(10);
        let what = Arc::new(());
        for node in 0..10_000 {
            clock.put(node, Arc::clone(&what));
            clock.remove(node);
        }
        assert!(clock.order.len() < 100);
    }
}
