//! Small numbers that are given out and come back: of mounts, and of peer groups.
//!
//! Linux: `ida_alloc`.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Small numbers, the lowest free one first.
#[derive(Debug, Default)]
pub(super) struct Ids {
    last: u32,
    free: BinaryHeap<Reverse<u32>>,
}

impl Ids {
    pub(super) fn take(&mut self) -> u32 {
        if let Some(Reverse(id)) = self.free.pop() {
            return id;
        }
        self.last += 1;
        self.last
    }

    pub(super) fn give(&mut self, id: u32) {
        self.free.push(Reverse(id));
    }
}
