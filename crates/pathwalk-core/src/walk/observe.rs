//! Watching a walk: what `explain` and the statistics hear of it.
//!
//! The walk is generic over its observer, so one that does not listen costs nothing.

use super::Place;
use crate::{inode::Attr, perm::Rule, vfs::Vfs};
use pathwalk_abi::Errno;

/// Why a walk that held nothing had to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A name is not in the cache, or not yet known to be absent.
    NotCached,
    /// Something on the way was changed during the walk.
    Changed,
    /// A file system wants to be asked for permission.
    Permission,
    /// A file system wants to be asked whether a name still holds.
    Revalidate,
    /// A mount came or went during the walk.
    Mount,
    /// A symlink's body is not in the cache.
    LinkBody,
    /// A symlink's time of last access is to be written.
    Atime,
    /// The call creates what is missing.
    Create,
    /// The path is empty: the place is already held.
    Empty,
}

impl Left {
    /// The reason in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::NotCached => "the name is not in the cache",
            Self::Changed => "something was changed during the walk",
            Self::Permission => "the file system wants to be asked for permission",
            Self::Revalidate => "the file system wants to be asked whether the name still holds",
            Self::Mount => "a mount came or went during the walk",
            Self::LinkBody => "the symlink's body is not in the cache",
            Self::Atime => "the symlink's time of last access is to be written",
            Self::Create => "the name is to be created",
            Self::Empty => "the path is empty",
        }
    }
}

/// What a walk tells of a place that it stands on.
#[derive(Clone, Debug)]
pub struct Stand {
    /// The mount's unique number.
    pub mount: u64,
    /// The attributes, if they could be read in one piece.
    pub attr: Option<Attr>,
}

/// Hears what a walk does. Every method does nothing unless it is overridden.
pub trait Observer {
    /// It began here.
    #[inline(always)]
    fn begin(&mut self, _at: Spot<'_>) {}

    /// A directory may be searched, by this rule.
    #[inline(always)]
    fn may_search(&mut self, _rule: Rule) {}

    /// A directory may not be searched, by this rule.
    #[inline(always)]
    fn may_not_search(&mut self, _rule: Rule) {}

    /// It looks for this component, in a walk that holds something or not.
    #[inline(always)]
    fn component(&mut self, _name: &[u8], _holding: bool) {}

    /// It stepped to here.
    #[inline(always)]
    fn stepped(&mut self, _at: Spot<'_>) {}

    /// It crossed into a mount and stands on its root.
    #[inline(always)]
    fn mounted(&mut self, _at: Spot<'_>) {}

    /// It follows a symlink, the how-manieth, with this body.
    #[inline(always)]
    fn link(&mut self, _at: Spot<'_>, _body: &[u8], _links: u32) {}

    /// It had to hold its place.
    #[inline(always)]
    fn left_rcu(&mut self, _why: Left) {}

    /// It begins again, holding from the start.
    #[inline(always)]
    fn restarted(&mut self, _errno: Errno) {}

    /// Whether anybody listens; where not, nothing is gathered.
    const LISTENS: bool = false;
}

/// A place that an observer is told of.
#[derive(Clone, Copy)]
pub struct Spot<'a> {
    pub(crate) vfs: &'a Vfs,
    pub(crate) place: &'a Place,
}

impl Spot<'_> {
    /// What is there.
    pub fn stand(&self) -> Stand {
        let inode = crate::inode::InodeId(self.vfs.dentry(self.place.dentry).inode.get());
        Stand {
            mount: self.vfs.mount_slot(self.place.mnt).id.get(),
            attr: self.vfs.inode(inode).try_attr(),
        }
    }
}

/// Nobody listens.
impl Observer for () {}
