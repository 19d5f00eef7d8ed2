//! The ranks of the locks; the order and its reasons stand in `docs/locking.md`.

use pathwalk_sync::Rank;

/// Where a superblock's directories hang: held by a rename that moves a directory to another one.
pub(crate) const RENAME: Rank = Rank(1);
/// The tree of mounts.
pub(crate) const MOUNTS: Rank = Rank(2);
/// The places of directories and mounts, while one of them moves.
pub(crate) const TOPOLOGY: Rank = Rank(3);
/// Who watches which inode.
pub(crate) const NOTIFY: Rank = Rank(4);
/// An inode's attributes.
pub(crate) const INODE: Rank = Rank(5);
/// A dentry and its children; two at a time: the parent first, else by id.
pub(crate) const DENTRY: Rank = Rank(6);
/// A bucket of the dentry, inode or mount table.
pub(crate) const BUCKET: Rank = Rank(7);
