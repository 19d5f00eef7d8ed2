//! The walk: from a path to a place, once, for every call.
//!
//! ```text
//!   filename_lookup     the retry ladder: holding nothing, then holding, then asking the file system anew
//!     path_init         where it begins
//!     link_path_walk    the loop over the components
//!       run             as many plain steps as there are        ← the hot loop
//!         may_lookup    may this directory be searched?
//!         scan          the end of the name and its hash, in one pass
//!         step_into     onto the child
//!       walk_component  one component of any kind: H::lookup, then step_into_slowpath
//!     lookup_last       the last component
//!     finish            what the call wanted, where the walk ended
//! ```
//!
//! The text is written once, for both ways of holding a place: [`Rcu`](hold::Rcu) holds nothing and checks sequence
//! counts, [`Ref`](hold::Ref) counts. A walk that holds nothing and meets something it cannot decide stops with
//! [`Stop::Leave`] at the beginning of that component; [`Walk::try_to_unlazy`] makes it a counting walk, by type, that goes
//! on from there.
//!
//! Invariant (Rcu): when `at.seq` was sampled, the dentry had the name and parent by which it was reached. A child is
//! sampled before its parent is checked again: hand over hand.
//!
//! Linux: `fs/namei.c`; path-lookup in the kernel's documentation.

pub(crate) mod lookup;

pub(crate) mod ladder;

pub(crate) mod job;

pub(crate) mod run;

pub(crate) mod memo;

pub(crate) mod step;

mod automount;

mod budget;

pub(crate) mod link;

pub(crate) mod dots;

pub(crate) mod hold;

pub(crate) mod ahead;

pub(crate) mod counts;

pub(crate) mod end;

pub(crate) mod held;

pub(crate) mod text;

pub mod observe;

mod tally;

#[cfg_attr(
    not(debug_assertions),
    expect(unreachable_pub, reason = "only builds with debug assertions let tests force a road")
)]
pub mod road;

pub(crate) use held::{HeldPath, MountCount};

use crate::{
    cred::{Asker, Subject},
    dcache::{DIRECTORY, DentryId, lookup::Tables},
    fs::Access,
    inode::InodeId,
    mount::MountId,
    name::{Component, Kind, scan},
    task::FsStruct,
    vfs::Vfs,
};
use bitflags::bitflags;
use hold::Hold;
use observe::{Left, Observer};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::Sample;
use run::{Runner, Stopped, Until};

bitflags! {
    /// How to walk. The names are the kernel's.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Lookup: u32 {
        /// Follow a symlink at the end.
        const FOLLOW = 1 << 0;
        /// What is found must be a directory.
        const DIRECTORY = 1 << 1;
        /// An empty path is the starting place.
        const EMPTY = 1 << 2;
        /// Ask file systems anew: the last try after ESTALE.
        const REVAL = 1 << 3;
        /// Follow no symlink at all.
        const NO_SYMLINKS = 1 << 4;
        /// Cross no mount.
        const NO_XDEV = 1 << 5;
        /// Never leave the starting place.
        const BENEATH = 1 << 6;
        /// The starting place is the root.
        const IN_ROOT = 1 << 7;
        /// Only what can be answered without holding anything.
        const CACHED = 1 << 8;
        /// Follow no symlink that leads to a place instead of a path.
        const NO_MAGICLINKS = 1 << 9;
        /// At the end too what is to be mounted there is mounted.
        const AUTOMOUNT = 1 << 10;
        /// The component that is walked is the last one, as far as is known; the walk's own.
        const LAST = 1 << 11;
        /// A file system failed to say of a run of names whether they hold: each is asked about alone; the walk's own.
        const ALONE = 1 << 12;
        /// The last name is not walked: the call is about its directory; the walk's own.
        const PARENT = 1 << 13;
        /// The call changes where the path leads: it is of no use to remember that.
        const MOVES = 1 << 14;
        /// It is to be unmounted: a file system that does not answer is still to be left.
        const MOUNTPOINT = 1 << 15;
        /// A test says by which road: see [`road`].
        const FORCED = 1 << 31;
    }
}

impl Lookup {
    /// The flags that change nothing for what is remembered of a path.
    pub(crate) const REMEMBERED: Self =
        Self::FOLLOW.union(Self::DIRECTORY).union(Self::EMPTY).union(Self::AUTOMOUNT);
    /// The flags that change nothing for a run of plain steps.
    pub(crate) const EXPRESS: Self = Self::REMEMBERED.union(Self::MOVES).union(Self::MOUNTPOINT);

    /// Whether the walk must stay below a place.
    pub(crate) fn is_scoped(self) -> bool {
        self.intersects(Self::BENEATH | Self::IN_ROOT)
    }
}

/// Why a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is decided.
    Errno(Errno),
    /// It cannot be decided without holding the place.
    Leave(Left),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// A place: a dentry as seen in a mount, with the samples under which it was reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) mnt: MountId,
    pub(crate) mnt_seq: Sample,
    pub(crate) dentry: DentryId,
    pub(crate) seq: Sample,
    /// The dentry's flags under `seq`.
    pub(crate) flags: u32,
}

impl Place {
    /// Whether dentry and mount are what they were when they were read.
    #[inline(always)]
    pub(crate) fn stays(&self, vfs: &Vfs) -> bool {
        vfs.dentry(self.dentry).seq.unchanged(self.seq)
            && vfs.mount_slot(self.mnt).seq.unchanged(self.mnt_seq)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.mnt == other.mnt && self.dentry == other.dentry
    }
}

/// What a lookup is told.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) vfs: &'a Vfs,
    pub(crate) fs: &'a FsStruct,
    pub(crate) asker: Asker<'a>,
    /// Where a relative path begins; the current directory if there is none.
    pub(crate) dir: Option<(MountId, DentryId)>,
    pub(crate) path: &'a [u8],
    pub(crate) flags: Lookup,
}

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// The task's root.
    Root,
    /// The task's current directory.
    Cwd,
    /// A directory that the caller holds.
    Dir(MountId, DentryId),
}

impl Request<'_> {
    /// Where the path begins.
    ///
    /// # Errors
    ///
    /// `EXDEV`: an absolute path must not leave the starting place.
    #[inline(always)]
    pub(crate) fn start(&self) -> Result<Start> {
        let absolute = self.path.first() == Some(&b'/');
        match self.dir {
            _ if absolute && !self.flags.contains(Lookup::IN_ROOT) => {
                if self.flags.contains(Lookup::BENEATH) {
                    Err(Errno::EXDEV)
                } else {
                    Ok(Start::Root)
                }
            }
            Some((mnt, dentry)) => Ok(Start::Dir(mnt, dentry)),
            None => Ok(Start::Cwd),
        }
    }
}

/// A walk under way.
pub(crate) struct Walk<'a, H: Hold<'a>, O: Observer> {
    pub(crate) vfs: &'a Vfs,
    pub(crate) fs: &'a FsStruct,
    pub(crate) asker: Asker<'a>,
    pub(crate) who: Subject<'a>,
    pub(crate) flags: Lookup,
    pub(crate) tables: Tables<'a>,
    pub(crate) at: Place,
    /// The task's root, or the place that a scoped walk must not leave; loaded when it is needed.
    pub(crate) root: Option<Place>,
    /// How many symlinks were followed.
    pub(crate) links: u32,
    /// The places of directories and mounts when a scoped walk began.
    pub(crate) topology: Option<Sample>,
    pub(crate) observer: O,
    pub(crate) hold: H,
}

/// Where [`Walk::link_path_walk`] stopped of itself.
pub(crate) enum Event {
    /// At the last component, which is not walked.
    Last(Component),
    /// At a symlink in the middle, which wants to be followed: the link, and where the component began.
    Link(Place, usize),
    /// At the end of a symlink's body; more is pending below it.
    End,
}

/// What [`Walk::walk_component`] did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It stands on the component.
    Moved,
    /// The component is a symlink that wants to be followed.
    Link(Place),
}

/// Whether a symlink is followed where it stands last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Yes,
    No,
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Walks the components of `text` from `pos`. `pending` says that this is a symlink's body with more below it.
    ///
    /// On [`Stop::Leave`], `pos` is the beginning of the component that could not be decided.
    ///
    /// Linux: `link_path_walk`.
    pub(crate) fn link_path_walk(
        &mut self,
        text: &[u8],
        pos: &mut usize,
        pending: bool,
    ) -> Result<Event, Stop> {
        *pos = skip_slashes(text, *pos);
        if *pos == text.len() {
            return Ok(if pending { Event::End } else { Event::Last(Component::ROOT) });
        }
        loop {
            // Plain steps first, as many as there are; a walk that holds, or is watched, walks them one by one.
            let mut found = None;
            if H::RCU && !O::LISTENS && !road::is_forced(self.flags) {
                let until = if pending { Until::Body } else { Until::Last };
                let root = self.root.filter(|_| !self.flags.is_scoped()).map(|root| root.dentry);
                let (stopped, at, came) = self.runner().run(text, self.at, *pos, until, root);
                (self.at, *pos) = (at, came);
                match stopped {
                    Stopped::Done => return Ok(Event::End),
                    Stopped::Last(last) => return Ok(Event::Last(last)),
                    Stopped::Child(name, child) => found = Some((name.len, child)),
                    Stopped::Miss(_) | Stopped::Odd => {}
                }
            }
            let (len, step) = match found {
                Some((len, child)) => (len, self.step_into_slowpath(child, Follow::Yes)?),
                None => {
                    self.point()?;
                    self.may_lookup()?;
                    let mut name = scan(text, *pos, self.tables.secret);
                    let end = *pos + name.len;
                    let next = skip_slashes(text, end);
                    if next == text.len() && !pending {
                        name.trailing_slash = next != end;
                        return Ok(Event::Last(name));
                    }
                    (name.len, self.walk_component(text, &name, Follow::Yes)?)
                }
            };
            let start = *pos;
            *pos = skip_slashes(text, start + len);
            match step {
                Step::Link(link) => return Ok(Event::Link(link, start)),
                Step::Moved if *pos == text.len() => return Ok(Event::End),
                Step::Moved => {}
            }
        }
    }

    /// A place where a walk that holds nothing may stop undecided.
    #[inline(always)]
    pub(crate) fn point(&self) -> Result<(), Stop> {
        if H::RCU { road::point(self.flags) } else { Ok(()) }
    }

    /// What runs of plain steps look at.
    fn runner(&self) -> Runner<'_> {
        Runner::of(self.vfs, &self.asker, self.at)
    }

    /// Asks whether what the walk stands on is a directory that may be searched.
    ///
    /// Linux: `may_lookup`, and the test for a directory before it.
    fn may_lookup(&mut self) -> Result<(), Stop> {
        if self.at.flags & DIRECTORY == 0 {
            self.must_be_sure()?;
            return Err(Errno::ENOTDIR.into());
        }
        H::ask_about_place(self);
        let inode = InodeId(self.vfs.dentry(self.at.dentry).inode.get());
        let who = self.vfs.through(self.at.mnt, &self.who);
        if !H::RCU {
            let asked = self.vfs.inode_permission(inode, Access::EXEC, &who);
            match asked {
                Ok(rule) => {
                    self.observer.may_search(observe::Spot { vfs: self.vfs, place: &self.at }, rule)
                }
                Err(_) if O::LISTENS => {
                    let (Ok(rule) | Err(rule)) = self.vfs.deciding_rule(inode, Access::EXEC, &who);
                    self.observer.may_not_search(rule);
                }
                Err(_) => {}
            }
            return Ok(asked.map(|_| ())?);
        }
        match self.vfs.try_may_search(inode, &who).map_err(Stop::Leave)? {
            Ok(rule) => {
                self.observer.may_search(observe::Spot { vfs: self.vfs, place: &self.at }, rule);
                Ok(())
            }
            // A refusal ends the walk, so it must be of this directory and of this moment.
            Err(rule) => {
                self.must_ask_about_place()?;
                self.must_be_sure()?;
                self.observer.may_not_search(rule);
                Err(Errno::EACCES.into())
            }
        }
    }

    /// Walks one component, of whatever kind.
    ///
    /// Linux: `walk_component`.
    pub(crate) fn walk_component(
        &mut self,
        text: &[u8],
        name: &Component,
        follow: Follow,
    ) -> Result<Step, Stop> {
        if O::LISTENS {
            self.observer.component(name.bytes(text), !H::RCU);
        }
        let kind = name.kind();
        if kind != Kind::Norm {
            self.handle_dots(kind)?;
            return Ok(Step::Moved);
        }
        self.point()?;
        let child = H::lookup(self, text, name)?;
        self.step_into_slowpath(child, follow)
    }

    /// Checks that what was read of the place is still true.
    #[inline(always)]
    pub(crate) fn check_at(&self) -> Result<(), Stop> {
        if !H::RCU || self.at.stays(self.vfs) { Ok(()) } else { Err(Stop::Leave(Left::Changed)) }
    }

    /// Checks the place before the walk is refused there. Where only cached answers are wanted that is none: Linux refuses
    /// on held places only.
    #[inline]
    pub(crate) fn must_be_sure(&self) -> Result<(), Stop> {
        if H::RCU && self.flags.contains(Lookup::CACHED) {
            return Err(Stop::Leave(Left::Changed));
        }
        self.check_at()
    }

    /// The inode of the place; a guess until the place is checked.
    #[inline(always)]
    pub(crate) fn inode(&self) -> InodeId {
        InodeId(self.vfs.dentry(self.at.dentry).inode.get())
    }
}

/// The first position from `pos` that is no slash.
#[inline(always)]
fn skip_slashes(text: &[u8], pos: usize) -> usize {
    text.len() - behind_slashes(text.get(pos..).unwrap_or_default()).len()
}

/// What follows the slashes that a text begins with.
#[inline(always)]
fn behind_slashes(mut text: &[u8]) -> &[u8] {
    while let [b'/', behind @ ..] = text {
        text = behind;
    }
    text
}
