//! Held descriptors, no more than so many: which inodes can be asked about without walking to them again.
//!
//! The order is that of a clock: the hand takes the mark off who was used since it came by, and lets go of who was not.
//! Whoever uses a descriptor holds it for that long; so what is let go of may stay open a little longer.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::OwnedFd,
    sync::Arc,
};

/// Descriptors by node.
#[derive(Debug)]
pub(crate) struct Pool {
    held: HashMap<u64, Held>,
    /// Each node of `held` once, and some that are gone.
    clock: VecDeque<u64>,
    limit: usize,
}

#[derive(Debug)]
struct Held {
    fd: Arc<OwnedFd>,
    used: bool,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: HashMap::new(), clock: VecDeque::new(), limit: limit.max(1) }
    }

    /// The descriptor of a node, if it is held.
    pub(crate) fn get(&mut self, node: u64) -> Option<Arc<OwnedFd>> {
        let held = self.held.get_mut(&node)?;
        held.used = true;
        Some(Arc::clone(&held.fd))
    }

    /// Holds a descriptor, and lets go of another where there are as many as there may be.
    pub(crate) fn put(&mut self, node: u64, fd: &Arc<OwnedFd>) {
        while self.held.len() >= self.limit && self.turn() {}
        if self.held.insert(node, Held { fd: Arc::clone(fd), used: false }).is_none() {
            self.clock.push_back(node);
        }
    }

    /// Lets go of a node's descriptor.
    pub(crate) fn remove(&mut self, node: u64) {
        self.held.remove(&node);
        if self.clock.len() > 2 * self.held.len() + 16 {
            self.clock.retain(|node| self.held.contains_key(node));
        }
    }

    /// Lets go of half of what it holds, where descriptors are short; says whether that was any.
    pub(crate) fn halve(&mut self) -> bool {
        let left = self.held.len() / 2;
        let any = !self.held.is_empty();
        while self.held.len() > left && self.turn() {}
        any
    }

    /// How many are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Moves the hand by one; says whether there was anything.
    fn turn(&mut self) -> bool {
        let Some(node) = self.clock.pop_front() else { return false };
        if let Some(held) = self.held.get_mut(&node) {
            if std::mem::take(&mut held.used) {
                self.clock.push_back(node);
            } else {
                self.held.remove(&node);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fd() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/").expect("there is a root").into())
    }

    #[test]
    fn who_is_used_stays() {
        let mut pool = Pool::new(3);
        let fd = fd();
        for node in 1..=3 {
            pool.put(node, &fd);
        }
        for node in 4..100 {
            assert!(pool.get(1).is_some(), "it is used each time");
            pool.put(node, &fd);
            assert_eq!(pool.len(), 3);
        }
        assert!(pool.get(2).is_none(), "nobody used it");
    }

    #[test]
    fn half_goes_where_descriptors_are_short() {
        let mut pool = Pool::new(100);
        let fd = fd();
        for node in 0..64 {
            pool.put(node, &fd);
        }
        for left in [32, 16, 8, 4, 2, 1, 0] {
            assert!(pool.halve());
            assert_eq!(pool.len(), left);
        }
        assert!(!pool.halve());
        assert_eq!(Arc::strong_count(&fd), 1, "all were closed");
    }

    #[test]
    fn who_goes_leaves_nothing() {
        let mut pool = Pool::new(10);
        let fd = fd();
        for node in 0..10_000 {
            pool.put(node, &fd);
            pool.remove(node);
        }
        assert!(pool.clock.len() < 100);
    }
}
