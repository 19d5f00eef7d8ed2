//! Paths that this thread walked before: a walk is not walked again while nothing on it moved.
//!
//! A walk that holds nothing is a function of the slots that it read. A memo keeps what a walk read: the text, and of each
//! dentry on the way the id and the sequence count. If the text is the same and no count moved, the walk would read the
//! same and end the same. Looking at the counts costs no hash and no comparison of names, and they do not wait for each
//! other, as the steps of a walk do.
//!
//! Rules:
//! 1. A memo belongs to its thread: looking at it and replacing it store nothing that another thread reads.
//! 2. It is made by the walk itself, watched, from the task's root, if that held its place nowhere and asked no file system.
//! 3. It holds while no count moved: of each dentry on the way; of each mount, which says that it hangs where it hung; of a
//!    symlink's inode, until its use is to be written down by the clock; and of a directory whose children are all cached, or
//!    of a negative dentry, where a name is absent.
//! 4. That everyone may search a directory its dentry's flags say, under its count. Where only some may, the memo is of this
//!    asker alone, and the directory's inode is one more step. If more depends on who asks, none is made.
//! 5. A count comes again after 2³¹ changes. So memos end with the [era](pathwalk_sync::seq::era) of the counts.
//! 6. Where a file system wants to be asked about cached names, the memo has the [`Questions`](ask::Questions), and holds only
//!    if that answers them as before: one about the whole path, one about the way to each symlink on it, and where
//!    `fs.protected_symlinks` decides, one about the directory of the last of these.
//! 7. A text is remembered the second time that it is met: whole paths, and the directories of last components. A thread that
//!    met none again has 8 KiB of notes and nothing else; all have no more than
//!    [`Config::memo_bytes`](crate::Config::memo_bytes).
//! 8. What is asked after two texts is mostly what was asked after them before: that memo is compared with first, and the text
//!    is hashed only if it is another.
//! 9. A memo that does not hold any more goes when it is found so, and the text is remembered anew. Where that is of no
//!    use, as the memo held less than eight times (where it saves questions: never), or none could be made, or a file system refused
//!    it, it is tried again only after two more meetings, then after four, then eight, up to 1024.
//!    Where a set of texts that hash alike is full of such as are in use, another is not remembered.
//! 10. Where looking for memos, and making them, takes longer than those save that are found, as with names at random in a large tree,
//!     they sleep: nobody looks for them, and nothing is noted. They wake after so many misses, twice as many each time, and sleep
//!     again if that was of no use. A walk in a machine with a file system that wants to be asked wakes them, and does not put them
//!     to sleep: a memo saves questions there.
//!
//! Linux has no such thing; the idea of remembering whole paths and validating them is that of C.-C. Tsai et al., "How to
//! Get More Value From Your File System Directory Cache" (SOSP 2015).

mod ask;

mod beyond;

mod make;

mod path;

mod text;

mod thread;

pub(crate) use ask::Said;
pub(crate) use make::{Memory, remember};
pub(crate) use text::{any_directory_of, can_be, directory_of};
pub use thread::{bytes, own_ranges};
pub(crate) use thread::{seem_asleep, sleeps_on};

use super::Place;
use crate::{
    cred::{Asker, Identity},
    dcache::DentryId,
    inode::InodeId,
    mount::MountId,
    vfs::Vfs,
};
use beyond::Beyond;
use bitflags::bitflags;
use pathwalk_abi::Result;
use pathwalk_sync::Sample;
use std::{cell::Cell, rc::Rc};
use text::{LONG, SHORT};

/// So many dentries are looked at first; most walks have no more.
const FEW: usize = 8;
/// So many are in the memo itself, …
const STEPS: usize = FEW + 7;
/// … so many inodes that matter, which are symlinks, and directories that only some may search, …
const INODES: usize = 7;
/// … and so many mounts, where there are others than the root's. What is more lies [beyond](Beyond).
const MOUNTS: usize = 3;
/// The most of each.
const MOST: usize = 256;
/// The longest text that is remembered.
pub(crate) const LONGEST: usize = if cfg!(pathwalk_ablate = "memo") { 0 } else { 1024 };

/// Where walks begin: the root's mount, and its dentry.
pub(crate) type Root = (MountId, DentryId);

/// Both words of a root.
fn both((MountId(mnt), DentryId(dentry)): Root) -> u64 {
    u64::from(mnt) << 32 | u64::from(dentry)
}

/// Where a remembered walk ends.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    mnt: Step<MountId>,
    at: Step<DentryId>,
    /// So many symlinks were followed.
    links: u8,
    facts: Facts,
}

bitflags! {
    /// What is known of a remembered walk beside where it ends. In one byte: it is copied at each look.
    #[derive(Clone, Copy)]
    pub(crate) struct Facts: u8 {
        /// A name is absent.
        const ABSENT = 1 << 0;
        /// The text's last component is a symlink.
        const LINK = 1 << 1;
        /// There is neither a symlink nor a dot nor an empty name in the text: it is the place's one path.
        const CANONICAL = 1 << 2;
        /// A file system is to be asked whether it still is so: see [`Known::ask`].
        const ASKS = 1 << 3;
        /// The file system at the end decides permission itself.
        const DECIDES = 1 << 4;
    }
}

impl Known {
    const NOTHING: Self = Self { mnt: NO_MOUNT, at: NO_STEP, links: 0, facts: Facts::empty() };

    /// Whether that is so, or any of it.
    #[inline(always)]
    pub(crate) fn is(&self, any: Facts) -> bool {
        self.facts.intersects(any)
    }

    /// Whether a name is absent and nobody is to be asked, whether or not a last symlink is followed.
    #[inline(always)]
    fn is_surely_absent(&self) -> bool {
        self.is(Facts::ABSENT) && !self.is(Facts::ASKS | Facts::LINK)
    }

    /// The place, unless a name is absent.
    #[inline(always)]
    pub(crate) fn place(&self, vfs: &Vfs) -> Place {
        let ((mnt, mnt_seq), (dentry, seq)) = (self.mnt, self.at);
        // Whoever goes on from the place looks at the count again, so these are the flags under it.
        Place { mnt, mnt_seq, dentry, seq, flags: vfs.dentry(dentry).flags.get() }
    }

    /// How many symlinks were followed.
    pub(crate) fn links(&self) -> u32 {
        u32::from(self.links)
    }
}

/// A slot that was read on the way, and its count.
type Step<Id> = (Id, Sample);

/// A step that always holds: nobody changes the slot that is no dentry.
const NO_STEP: Step<DentryId> = (DentryId::NONE, Sample::NONE);
/// The same of mounts.
const NO_MOUNT: Step<MountId> = (MountId::NONE, Sample::NONE);
/// The same of inodes.
const NO_INODE: Step<InodeId> = (InodeId::NONE, Sample::NONE);

/// The memo of one text. Of most texts, three cache lines are looked at, where the walk would look at one a step, and
/// wait for each.
#[repr(C, align(64))]
struct Memo {
    /// Where the walk began, which must be the task's root still; both words at once.
    root: u64,
    known: Known,
    /// A directory whose set of children decides, and its count.
    children: Step<DentryId>,
    /// The machine's number; 0 where there is no memo.
    vfs: u32,
    len: u16,
    /// What matters beside few steps and the mount at the end: [`LONG_WAY`], [`OTHERS`].
    matters: u8,
    /// As many bits as it held when it was looked at, up to eight.
    used: Cell<u8>,
    /// So many bytes behind the text are [the place's one path](path); or why there are none.
    path: u8,
    /// The second at which a symlink's time of last access is to be written.
    until: i64,
    /// The dentries on the way, filled up with steps that always hold.
    few: [Step<DentryId>; FEW],
    /// The text, or its beginning; and behind it, where it was asked for and there is room, the one path of the place.
    text: [u8; LONG],
    more: [Step<DentryId>; STEPS - FEW],
    /// The inodes that matter, filled up likewise.
    inodes: [Step<InodeId>; INODES],
    /// The mounts on the way if there are others than the root's, filled up likewise.
    mounts: [Step<MountId>; MOUNTS],
    /// Whose walk it was, if a directory was searched that not everyone may.
    who: Identity,
    /// What there is no room for, and what a file system is to be asked.
    beyond: Option<Rc<Beyond>>,
}

/// There are more than few steps.
const LONG_WAY: u8 = 1 << 0;
/// Mounts on the way matter, inodes, who asks, or what the memo has no room for.
const OTHERS: u8 = 1 << 1;

const _: () = assert!(std::mem::offset_of!(Memo, text) + SHORT <= 3 * 64);
const _: () = assert!(size_of::<Memo>() == 6 * 64);

/// What a thread remembers of a text.
pub(crate) enum Recalled {
    /// Nothing that holds.
    Nothing,
    /// A name is absent: nobody is to be asked, and there is no last symlink to be followed or not. No more is read of it, which the
    /// compiler sees only where this is apart.
    Absent,
    /// Where the walk ends.
    Known(Known),
}

/// How the walk of `text` from `root` ends, symlinks followed, if this thread walked it before and nothing moved since.
///
/// In line in each call: it has no closure, which the compiler may put out of line where several are alike.
#[inline(always)]
pub(crate) fn recall(vfs: &Vfs, root: Root, asker: Asker<'_>, text: &[u8]) -> Recalled {
    let Some(memos) = thread::take() else { return Recalled::Nothing };
    let guess = memos.guess();
    let found = match memos.at(guess) {
        Some(memo) if memo.is(vfs, root, text) => Some((guess, memo)),
        _ => match memos.find(key(vfs, text)) {
            Some((at, memo)) if memo.is(vfs, root, text) => {
                memos.follow_by(at);
                Some((at, memo))
            }
            _ => None,
        },
    };
    // First of all: so where the next one may be has come from the cache by the time that it is asked for.
    if let Some((at, _)) = found {
        memos.came_to(at);
    }
    let known = match found {
        Some((_, memo)) if memo.holds(vfs, asker) => {
            // Mostly it was: then nothing is stored.
            if memo.used.get() != u8::MAX {
                memo.used.set(memo.used.get() << 1 | 1);
            }
            memos.hit();
            if !memos.are_of_this_era() {
                Recalled::Nothing
            } else if memo.known.is_surely_absent() {
                Recalled::Absent
            } else {
                Recalled::Known(memo.known)
            }
        }
        _ => Recalled::Nothing,
    };
    thread::put(memos);
    known
}

/// Writes the one path of the place where the walk ends that was recalled last; returns how many bytes. Nothing if the memo does not
/// have it.
///
/// # Errors
///
/// - `ERANGE`: the buffer is too small.
pub(crate) fn path_in_last(vfs: &Vfs, asker: Asker<'_>, buf: &mut [u8]) -> Option<Result<usize>> {
    let mut memos = thread::take()?;
    let written = memos.last_mut().and_then(|memo| path::write(memo, vfs, asker, buf));
    thread::put(memos);
    written
}

/// By what a memo is found: machines in which the same texts are asked for do not take each other's places.
#[inline(always)]
fn key(vfs: &Vfs, text: &[u8]) -> u64 {
    text::hash(text) ^ u64::from(vfs.number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Does something while this thread remembers nothing: each walk is walked.
pub(super) fn without<R>(f: impl FnOnce() -> R) -> R {
    let _nothing = thread::Nothing::begin();
    f()
}

impl Memo {
    const fn none() -> Self {
        Self {
            root: 0,
            known: Known::NOTHING,
            children: NO_STEP,
            vfs: 0,
            len: 0,
            matters: 0,
            used: Cell::new(0),
            path: path::UNASKED,
            until: 0,
            few: [NO_STEP; FEW],
            text: [0; LONG],
            more: [NO_STEP; STEPS - FEW],
            inodes: [NO_INODE; INODES],
            mounts: [NO_MOUNT; MOUNTS],
            who: Identity::NONE,
            beyond: None,
        }
    }

    #[inline(always)]
    fn is(&self, vfs: &Vfs, root: Root, text: &[u8]) -> bool {
        usize::from(self.len) == text.len()
            && self.vfs == vfs.number
            && self.root == both(root)
            && text::same(&self.text, text, |rest| self.goes_on_with(rest))
    }

    /// How many steps of a walk it saves, about.
    #[cold]
    fn steps(&self) -> u64 {
        let steps = self.few.iter().chain(&self.more).filter(|(id, _)| *id != DentryId::NONE);
        let others = if self.matters & OTHERS == 0 { 0 } else { thread::OTHER };
        steps.count() as u64 + others
    }

    /// Whether it was worth making: a walk that is watched takes as long as several that are not. A question that it saves is worth
    /// more than that.
    fn was_of_use(&self) -> bool {
        if self.known.is(Facts::ASKS) { self.used.get() != 0 } else { self.used.get() == u8::MAX }
    }

    /// Whether the text behind what is here is that.
    #[cold]
    #[inline(never)]
    fn goes_on_with(&self, text: &[u8]) -> bool {
        self.beyond.as_ref().is_some_and(|beyond| beyond.text() == text)
    }

    /// Whether nothing moved since.
    #[inline(always)]
    fn holds(&self, vfs: &Vfs, asker: Asker<'_>) -> bool {
        let dentries = vfs.dentries.slots();
        let holds = |&(id, seq): &Step<DentryId>| dentries.get(id.0).seq.is(seq);
        let ((directory, children), (mnt, mnt_seq)) = (self.children, self.known.mnt);
        self.few.iter().all(holds)
            && dentries.get(directory.0).children_seq.is(children)
            && vfs.mount_slot(mnt).seq.is(mnt_seq)
            && (self.matters & LONG_WAY == 0 || self.more.iter().all(holds))
            && (self.matters & OTHERS == 0 || self.rest_holds(vfs, asker))
    }

    /// Whether the mounts on the way are where they were, and the inodes that matter what they were: the symlinks, whose use
    /// needs no note, and the directories that who asks may search; and what lies beyond. Out of line: it asks the clock.
    #[inline(never)]
    fn rest_holds(&self, vfs: &Vfs, asker: Asker<'_>) -> bool {
        self.mounts.iter().all(|&(id, seq)| vfs.mount_slot(id).seq.is(seq))
            && self.inodes.iter().all(|&(id, seq)| vfs.inode(id).seq.is(seq))
            && self.beyond.as_ref().is_none_or(|beyond| beyond.holds(vfs))
            && (self.until == i64::MAX || without(|| vfs.now_seconds()) < self.until)
            && (self.who == Identity::NONE
                || self.who == asker.identity() && !vfs.security.asks_in_walks())
    }
}
