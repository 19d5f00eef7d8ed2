//! Watching a walk: what `explain` and the statistics hear of it.
//!
//! The walk is generic over its observer, so one that does not listen costs nothing.

use super::Place;
use crate::{
    cred::Subject,
    fs::Access,
    inode::{Attr, I_PERMISSION, InodeId},
    perm::Rule,
    vfs::Vfs,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Sample;

pub use super::tally::Tally;

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
    /// A file system wants to be asked for the attributes.
    Attributes,
}

impl Left {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::NotCached,
        Self::Changed,
        Self::Permission,
        Self::Revalidate,
        Self::Mount,
        Self::LinkBody,
        Self::Atime,
        Self::Create,
        Self::Attributes,
    ];

    /// Where it stands among all.
    pub(super) const fn index(self) -> usize {
        // The last one: a reason more does not compile until it stands in `ALL`.
        const { assert!(Self::Attributes as usize + 1 == Self::ALL.len()) };
        match self {
            Self::NotCached
            | Self::Changed
            | Self::Permission
            | Self::Revalidate
            | Self::Mount
            | Self::LinkBody
            | Self::Atime
            | Self::Create
            | Self::Attributes => self as usize,
        }
    }

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
            Self::Attributes => "the file system wants to be asked for the attributes",
        }
    }
}

/// What a walk tells of a place that it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The mount's number, as mountinfo has it.
    pub mount: u64,
    /// The attributes, if they could be read in one piece.
    pub attr: Option<Attr>,
}

/// Hears what a walk does. Every method does nothing unless it is overridden.
///
/// A component that could not be decided without holding anything is told a second time, after
/// [`left_rcu`](Self::left_rcu). What ends a walk is its result; it is about the component that was told last, if the
/// walk did not step onto it since, else about the place that it stands on.
pub trait Observer {
    /// It began here, or goes on from here: at the root, for a symlink with an absolute body.
    #[inline(always)]
    fn begin(&mut self, _at: Spot<'_>) {}

    /// A directory may be searched, by this rule.
    #[inline(always)]
    fn may_search(&mut self, _at: Spot<'_>, _rule: Rule) {}

    /// A directory may not be searched, by this rule.
    #[inline(always)]
    fn may_not_search(&mut self, _rule: Rule) {}

    /// It looks for this component, in a walk that holds something or not.
    #[inline(always)]
    fn component(&mut self, _name: &[u8], _holding: bool) {}

    /// It stepped to here.
    #[inline(always)]
    fn stepped(&mut self, _at: Spot<'_>) {}

    /// It passed this place without standing there: something is mounted over it, or it is the root of a mount that `..`
    /// leads out of.
    #[inline(always)]
    fn passed(&mut self, _at: Spot<'_>) {}

    /// It crossed into a mount and stands before its root.
    #[inline(always)]
    fn mounted(&mut self, _at: Spot<'_>) {}

    /// It stands before a symlink that is to be followed.
    #[inline(always)]
    fn before_link(&mut self, _at: Spot<'_>) {}

    /// The symlink is not one that may be followed here: `fs.protected_symlinks`.
    #[inline(always)]
    fn may_not_follow(&mut self) {}

    /// `..` in a mount that shows a part of its file system: the way up to that part was climbed, whatever lies on it.
    #[inline(always)]
    fn connected(&mut self) {}

    /// Whether the symlink may be followed hangs on who asks.
    #[inline(always)]
    fn asked_who(&mut self) {}

    /// A name is absent. The place is the directory, and the sample is that of its children; or the place is the name's
    /// negative dentry.
    #[inline(always)]
    fn absent(&mut self, _at: Spot<'_>, _children: Option<Sample>) {}

    /// It follows the symlink, the how-manieth, with this body; `last` says that nothing is pending behind the body.
    #[inline(always)]
    fn link(&mut self, _body: &[u8], _links: u32, _last: bool) {}

    /// The symlink that was just told leads to a place, not to what its body says: the walk stands there.
    #[inline(always)]
    fn jumped(&mut self, _at: Spot<'_>) {}

    /// A symlink's body was walked to its end; what was pending behind it is next.
    #[inline(always)]
    fn end_of_link(&mut self) {}

    /// It had to hold its place.
    #[inline(always)]
    fn left_rcu(&mut self, _why: Left) {}

    /// It begins again, holding from the start.
    #[inline(always)]
    fn restarted(&mut self, _errno: Errno) {}

    /// Whether anybody listens; where not, nothing is gathered.
    const LISTENS: bool = false;

    /// Whether a walk that holds nothing asks file systems; where not, it leaves: it is a walk beside that of the call, which
    /// asks itself.
    const ASKS: bool = true;

    /// Whether a walk that holds nothing believes a cached name of which its file system wants to be asked.
    #[inline(always)]
    fn believes(&self, _at: Spot<'_>) -> bool {
        false
    }
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
        let dentry = self.vfs.dentry(self.place.dentry);
        let seq = dentry.seq.sample();
        let attr = self.vfs.inode(InodeId(dentry.inode.get())).try_attr();
        Stand {
            mount: self.vfs.mount_slot(self.place.mnt).mnt_id.get().into(),
            attr: attr.filter(|_| seq != Sample::NONE && dentry.seq.unchanged(seq)),
        }
    }
}

/// Nobody listens.
impl Observer for () {}

impl Vfs {
    /// The rule that grants or refuses access to an inode, for an observer to be told: what
    /// [`Vfs::inode_permission`] answered is not decided again.
    #[cold]
    pub(crate) fn deciding_rule(
        &self,
        inode: InodeId,
        access: Access,
        who: &Subject<'_>,
    ) -> Result<Rule, Rule> {
        if self.inode(inode).owner().1 & I_PERMISSION != 0 {
            return Err(Rule::FileSystem);
        }
        self.generic_rule(inode, access, who).unwrap_or(Err(Rule::FileSystem))
    }
}
