//! The places that anything can be at, numbered: the root is 1, and below number n lie 3n − 1 (`a`), 3n (`b`) and 3n + 1 (`z`).
//!
//! So a file goes by its place, whatever else is in the tree.

use super::hands::{As, Ask, Hands, shown};
use pathwalk::{AtFlags, Errno};
use std::{
    ffi::{CStr, CString},
    fmt::Write,
};

/// The names that anything can have.
const NAMES: [&str; 3] = ["a", "b", "z"];

/// A tree moved into itself, aside, is no deeper than this.
const DEPTH: u32 = super::NODES as u32 + 2;

/// The group of the root; that of a node is its place's number more.
pub(super) const FIRST_GROUP: u32 = 2000;

/// The paths of all places, by their numbers.
pub(super) struct Places {
    paths: Vec<CString>,
}

impl Places {
    pub(super) fn new() -> Self {
        // Number 0 is no place.
        let mut paths = vec![CString::default(); 2];
        for number in 2..=(1..=DEPTH).map(|depth| 3_usize.pow(depth)).sum::<usize>() + 1 {
            let dir = paths[parent(number)].to_str().expect("paths are text");
            let path = format!("{dir}/{}", NAMES[(number + 1) % 3]);
            paths.push(CString::new(path).expect("paths have no NUL"));
        }
        Self { paths }
    }

    /// The group by which what is built at a path is known.
    pub(super) fn group(path: &str) -> u32 {
        let number = path.split('/').skip(1).fold(1, |number, name| {
            let name = NAMES.iter().position(|known| *known == name).expect("the path of a place");
            first_below(number) + name
        });
        FIRST_GROUP + number as u32
    }

    /// What is where: numbers of places, and what is there.
    pub(super) fn snapshot(&self, hands: &mut dyn Hands) -> Vec<(u16, u64)> {
        let mut seen = Vec::new();
        let mut dirs = vec![1];
        while let Some(dir) = dirs.pop() {
            for number in below(dir) {
                let look = Ask::Stat(&self.paths[number], AtFlags::SYMLINK_NOFOLLOW);
                if let Ok(what) = hands.call(look) {
                    if what >> 20 & 0o170_000 == 0o040_000 {
                        dirs.push(number);
                    }
                    seen.push((number as u16, what));
                }
            }
        }
        seen
    }

    /// A snapshot for people.
    pub(super) fn shown(&self, seen: &[(u16, u64)]) -> String {
        let mut text = String::new();
        for &(number, what) in seen {
            let path = self.paths[usize::from(number)].to_string_lossy();
            let _ = write!(text, "{path} {}, ", shown(Ok(what)));
        }
        text
    }

    /// Removes what there is, and mounts, but for those at the paths `stay`.
    pub(super) fn clear(&self, hands: &mut dyn Hands, stay: &[CString]) {
        hands.become_user(As::Root);
        self.clear_below(hands, 1, stay);
    }

    fn clear_below(&self, hands: &mut dyn Hands, dir: usize, stay: &[CString]) {
        for number in below(dir) {
            let path: &CStr = &self.paths[number];
            if hands.call(Ask::Unlink(path, AtFlags::empty())) != Err(Errno::EISDIR) {
                continue;
            }
            self.clear_below(hands, number, stay);
            if hands.call(Ask::Unlink(path, AtFlags::REMOVEDIR)) == Err(Errno::EBUSY)
                && !stay.iter().any(|stays| **stays == *path)
            {
                hands.call(Ask::Umount(path)).expect("a mountpoint has a mount");
                self.clear_below(hands, number, stay);
                hands.call(Ask::Unlink(path, AtFlags::REMOVEDIR)).expect("nothing is left in it");
            }
        }
    }
}

fn parent(number: usize) -> usize {
    (number + 1) / 3
}

fn first_below(number: usize) -> usize {
    3 * number - 1
}

fn below(number: usize) -> std::ops::Range<usize> {
    first_below(number)..first_below(number) + NAMES.len()
}
