//! The node: all that is kept here of an inode, in the word that the inode table has for it.
//!
//! ```text
//!  63          34 33              0
//! ┌──────────────┬─────────────────┐
//! │ names beyond │ contents        │    contents: 0 none, all ones a page that holds a symlink's body,
//! │ the first    │                 │              else one more than the key in `Files`
//! └──────────────┴─────────────────┘
//! ```
//!
//! Names beyond the first are counted here because each takes an inode from the limit, and the node is all that
//! eviction sees. The inode table has at most 2²⁹ slots and the dentry table too: neither field can overflow.
//!
//! Invariant: an inode's node is written under the inode's lock, that is inside `InodeRef::update`. A key, once there,
//! stays the same until the inode is evicted.

use crate::data::Key;
use pathwalk_abi::{Errno, Result};

const CONTENTS_BITS: u32 = 34;
const CONTENTS: u64 = (1 << CONTENTS_BITS) - 1;
const NAME: u64 = 1 << CONTENTS_BITS;

/// An inode's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u64);

/// What stands behind a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Nothing: it never had a size, as regular files have, or an extended attribute.
    None,
    /// A page's worth of room for a symlink's body, which the inode table has.
    Body,
    /// Pages and extended attributes.
    File(Key),
}

impl Node {
    /// A file with one name and nothing else.
    pub(crate) const EMPTY: Self = Self(0);
    /// A symlink whose body takes a page.
    pub(crate) const BODY: Self = Self(CONTENTS);

    pub(crate) fn contents(self) -> Contents {
        match self.0 & CONTENTS {
            0 => Contents::None,
            CONTENTS => Contents::Body,
            more => Contents::File(Key(more - 1)),
        }
    }

    /// The same with a file, where there was none; what a symlink's body takes is the file's to know then.
    pub(crate) fn with_file(self, key: Key) -> Self {
        let none = !matches!(self.contents(), Contents::File(_));
        assert!(none && key.0 + 1 < CONTENTS, "{self:?} gets {key:?}");
        Self(self.0 & !CONTENTS | (key.0 + 1))
    }

    /// The number of names beyond the first.
    pub(crate) fn more_names(self) -> u64 {
        self.0 >> CONTENTS_BITS
    }

    /// The same with one more name.
    ///
    /// # Errors
    ///
    /// - `EMLINK`: it has as many as can be counted.
    pub(crate) fn with_name(self) -> Result<Self> {
        self.0.checked_add(NAME).map(Self).ok_or(Errno::EMLINK)
    }

    /// The same with one name less, if it has more than one.
    pub(crate) fn without_name(self) -> Option<Self> {
        self.0.checked_sub(NAME).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_keep_apart() {
        let key = Key((1 << 33) + 5);
        let node = Node::EMPTY.with_name().and_then(Node::with_name).expect("two more");
        assert_eq!((node.contents(), node.more_names()), (Contents::None, 2));
        let node = node.with_file(key);
        assert_eq!((node.contents(), node.more_names()), (Contents::File(key), 2));
        let node = node.without_name().and_then(Node::without_name).expect("two less");
        assert_eq!((node.contents(), node.more_names()), (Contents::File(key), 0));
        assert_eq!(node.without_name(), None);
        let body = Node::BODY.with_name().expect("one more");
        assert_eq!((body.contents(), body.more_names()), (Contents::Body, 1));
    }

    #[test]
    fn the_last_name_that_can_be_counted() {
        let full = Node(((1 << 30) - 1) << CONTENTS_BITS | CONTENTS);
        assert_eq!(full.more_names(), (1 << 30) - 1);
        assert_eq!(full.with_name(), Err(Errno::EMLINK));
    }
}
