//! Paths that this thread walked before: a walk is not walked again while nothing on it moved.
//!
//! A walk that holds nothing is a function of the slots that it read. A memo keeps what a walk read: the text, and of each
//! dentry on the way the id and the sequence count. If the text is the same and no count moved, the walk would read the
//! same and end the same. Looking at the counts costs no hash and no comparison of names, and they do not wait for each
//! other, as the steps of a walk do.
//!
//! Rules:
//! 1. A memo belongs to its thread: looking at it and replacing it store nothing that another thread reads.
//! 2. It is made of a walk from the task's root in which nobody was asked for permission: every directory could be
//!    searched by everyone, which the dentries' flags say, and those cannot change without their counts.
//! 3. A walk that crossed a mount, or held its place for whatever reason, makes none.
//! 4. A symlink on the way is one more dentry; the memo holds until its time of last access would be written again.
//! 5. That a name is absent holds while the set of its directory's children, or its negative dentry, does not change.
//! 6. Whole paths are remembered, and the directories of their last components, from where a walk to a new name goes on.
//! 7. A text is remembered the second time that it is met, so that who meets none again pays for none.
//!
//! Linux has no such thing; the idea of remembering whole paths and validating them is that of C.-C. Tsai et al., "How to
//! Get More Value From Your File System Directory Cache" (SOSP 2015).

use super::{
    Event, Place, Request, Stop, Walk,
    hold::Rcu,
    link::DAY,
    observe::{Observer, Spot},
    text::Text,
};
use crate::{
    dcache::{COMPLETE, DIRECTORY, DentryId, NEGATIVE},
    inode::InodeId,
    mount::MntFlags,
    name::{Bytes, fold, padded, scan},
    perm::Rule,
    vfs::Vfs,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Sample;
use std::cell::RefCell;

/// So many sets of texts that hash alike are remembered in a thread: 336 KiB in all, touched as used.
const SETS: usize = 256;
/// So many texts are in a set. With as many texts as sets, one set in three hundred is too small.
const WAYS: usize = 4;
/// The longest text that is remembered.
const TEXT: usize = 120;
/// The most dentries on the way.
const STEPS: usize = 16;

/// Where a remembered walk ends.
#[derive(Clone, Copy)]
pub(crate) enum Known {
    /// At a place, reached by so many symlinks; `link` says that the text's last component is one of them.
    At { at: Place, links: u32, link: bool },
    /// Nowhere: a name is absent.
    Absent,
}

/// The memo of one text. A look at it reads three cache lines, where the walk would read one a step, and wait for each.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Memo {
    /// The machine's number; 0 where there is no memo.
    vfs: u32,
    /// Where the walk began, which must be the task's root still.
    root: (u32, u32),
    /// The second at which a symlink's time of last access is to be written; `i64::MAX` if there is no symlink.
    until: i64,
    /// A directory whose set of children decides, and its count; none if there is no such.
    children: (DentryId, Sample),
    len: u8,
    steps: u8,
    links: u8,
    /// The text's last component is a symlink.
    link: bool,
    /// Where the walk ended; none where a name is absent.
    at: Option<Place>,
    seen: [(DentryId, Sample); STEPS],
    text: [u8; TEXT],
}

const _: () = assert!(std::mem::offset_of!(Memo, seen) <= 64);
const _: () = assert!(size_of::<Memo>() == 320);

impl Memo {
    const NONE: Self = Self {
        vfs: 0,
        root: (0, 0),
        until: i64::MAX,
        children: (DentryId::NONE, Sample::NONE),
        len: 0,
        steps: 0,
        links: 0,
        link: false,
        at: None,
        seen: [(DentryId::NONE, Sample::NONE); STEPS],
        text: [0; TEXT],
    };

    #[inline(always)]
    fn known(&self) -> Known {
        match self.at {
            Some(at) => Known::At { at, links: u32::from(self.links), link: self.link },
            None => Known::Absent,
        }
    }
}

/// The memos of texts that hash alike.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Set {
    /// More of the hash of each.
    tags: [u32; WAYS],
    /// The tags of texts that were met and not found.
    met: [u32; WAYS],
    /// The one of `memos` and of `met` that goes next.
    oldest: u32,
    oldest_met: u32,
    memos: [Memo; WAYS],
}

impl Set {
    const NONE: Self = Self {
        tags: [0; WAYS],
        met: [0; WAYS],
        oldest: 0,
        oldest_met: 0,
        memos: [Memo::NONE; WAYS],
    };

    #[inline(always)]
    fn find(&self, tag: u32) -> Option<&Memo> {
        let way = self.tags.iter().position(|&other| other == tag)?;
        self.memos.get(way)
    }
}

thread_local! {
    static MEMOS: RefCell<[Set; SETS]> = const { RefCell::new([Set::NONE; SETS]) };
}

/// Whether a text can be remembered: it is not too long, and does not end in a slash.
#[inline(always)]
pub(crate) fn can_be(text: &[u8]) -> bool {
    text.len() <= TEXT && text.last().is_some_and(|&last| last != b'/')
}

/// The text before the last component, if there is one.
#[inline(always)]
pub(crate) fn directory_of(path: &[u8]) -> Option<&[u8]> {
    let last = path.iter().rposition(|&byte| byte == b'/')?;
    (last > 1).then(|| &path[..last]).filter(|text| can_be(text))
}

/// How the walk of `text` from `root` ends, symlinks followed, if this thread walked it before and nothing moved since.
#[inline(always)]
pub(crate) fn recall(vfs: &Vfs, root: &Place, text: &[u8]) -> Option<Known> {
    let hash = hash(text);
    MEMOS.with(|memos| {
        let memos = memos.try_borrow().ok()?;
        let memo = memos[hash as usize % SETS].find(tag(hash))?;
        if !memo.is(vfs, root, text) {
            return None;
        }
        memo.holds(vfs).then(|| memo.known())
    })
}

impl Memo {
    #[inline(always)]
    fn is(&self, vfs: &Vfs, root: &Place, text: &[u8]) -> bool {
        usize::from(self.len) == text.len()
            && self.vfs == vfs.number
            && self.root == (root.mnt.0, root.dentry.0)
            && self.spells(text)
    }

    /// Whether the text is this one, which has the same length. In words: a call would cost more.
    #[inline(always)]
    fn spells(&self, text: &[u8]) -> bool {
        let Some(own) = self.text.get(..text.len()) else { return false };
        let (Some(last), Some(own_last)) = (text.last_chunk::<8>(), own.last_chunk::<8>()) else {
            return own == text;
        };
        let (words, _) = text.as_chunks::<8>();
        let (own_words, _) = own.as_chunks::<8>();
        // What is left is in the last eight bytes, which overlap the word before.
        words.iter().zip(own_words).all(|(a, b)| u64::from_le_bytes(*a) == u64::from_le_bytes(*b))
            && u64::from_le_bytes(*last) == u64::from_le_bytes(*own_last)
    }

    /// Whether nothing moved since.
    #[inline(always)]
    fn holds(&self, vfs: &Vfs) -> bool {
        let dentries = vfs.dentries.slots();
        let seen = self.seen.get(..usize::from(self.steps)).unwrap_or_default();
        let (directory, children) = self.children;
        seen.iter().all(|&(id, seq)| dentries.get(id.0).seq.unchanged(seq))
            && (directory == DentryId::NONE
                || dentries.get(directory.0).children_seq.unchanged(children))
            && (self.until == i64::MAX || vfs.now_seconds() < self.until)
    }
}

/// Remembers how the walk of `text`, with which the request's path begins, ends; if the text was met before and can be
/// remembered.
#[cold]
#[inline(never)]
pub(crate) fn remember(request: Request<'_>, text: &[u8]) {
    let hash = hash(text);
    MEMOS.with(|memos| {
        let Ok(mut memos) = memos.try_borrow_mut() else { return };
        let set = &mut memos[hash as usize % SETS];
        let tag = tag(hash);
        if !set.met.contains(&tag) {
            set.oldest_met = (set.oldest_met + 1) % WAYS as u32;
            set.met[set.oldest_met as usize] = tag;
            return;
        }
        if let Some(made) = make(&request, text) {
            let same = set.tags.iter().position(|&other| other == tag);
            let way = same.unwrap_or_else(|| {
                set.oldest = (set.oldest + 1) % WAYS as u32;
                set.oldest as usize
            });
            (set.tags[way], set.memos[way]) = (tag, made);
        }
    });
}

/// What tells the texts of a set apart, mostly.
#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

/// A quick hash of the text, which is compared afterwards.
#[inline(always)]
fn hash(text: &[u8]) -> u64 {
    let last =
        text.last_chunk::<8>().map_or_else(|| padded(text), |last| u64::from_le_bytes(*last));
    let (words, _) = text.as_chunks::<8>();
    let sum = words.iter().fold(last ^ text.len() as u64, |sum, word| {
        sum.rotate_left(21) ^ u64::from_le_bytes(*word)
    });
    fold(sum, 0x9e37_79b9_7f4a_7c15)
}

/// Walks once more, noting what is read.
fn make(request: &Request<'_>, text: &[u8]) -> Option<Memo> {
    let vfs = request.vfs;
    let mut noter = Noter { memo: Memo { vfs: vfs.number, ..Memo::NONE }, broken: false };
    let own = Request { path: text, ..*request };
    let mut walk = Walk::<Rcu, &mut Noter>::path_init(&own, &mut noter).ok()?;
    let root = walk.root?;
    let mut rest = Text::new(text);
    let mut link = false;
    // The last component is walked like any other here: symlinks are followed.
    let absent = loop {
        let (current, mut pos, _) = rest.current();
        let event = walk.link_path_walk(current, &mut pos, true);
        rest.set_pos(pos);
        match event {
            Ok(Event::Link(place, _)) => {
                if rest.is_lowest() && pos == text.len() {
                    link = true;
                    if walk.is_in_shared_directory() {
                        // Who may follow a link that stands last there depends on who asks: `fs.protected_symlinks`.
                        return None;
                    }
                }
                walk.pick_link(place, &mut rest, false).ok()?;
            }
            Ok(Event::End) if rest.is_lowest() => break None,
            Ok(Event::End) => rest.pop(),
            Err(Stop::Errno(Errno::ENOENT)) if rest.is_lowest() => break Some(pos),
            Ok(Event::Last(_)) | Err(_) => return None,
        }
    };
    let (at, links) = (walk.at, walk.links);
    // Of an absent name: what its absence hangs on, sampled before it is looked for again.
    let mut children = (DentryId::NONE, Sample::NONE);
    let mut negative = None;
    if let Some(pos) = absent {
        let directory = vfs.dentry(at.dentry);
        let sample = directory.children_seq.sample();
        let bytes = Bytes::new(text);
        let name = scan(bytes, pos, vfs.secret);
        if directory.is(COMPLETE) {
            if !vfs.surely_absent(at.dentry, bytes, &name)
                || !directory.children_seq.unchanged(sample)
            {
                return None;
            }
            children = (at.dentry, sample);
        } else {
            let seen = vfs.d_lookup_rcu(walk.tables, at.dentry, bytes, &name)?;
            if seen.flags & NEGATIVE == 0 {
                return None;
            }
            negative = Some((seen.id, seen.seq));
        }
    }
    walk.check_at().ok()?;
    if noter.broken || at.mnt != root.mnt {
        return None;
    }
    let mut memo = noter.memo;
    if let Some(negative) = negative {
        *memo.seen.get_mut(usize::from(memo.steps))? = negative;
        memo.steps += 1;
    }
    memo.root = (root.mnt.0, root.dentry.0);
    memo.len = u8::try_from(text.len()).ok()?;
    memo.text[..text.len()].copy_from_slice(text);
    memo.children = children;
    (memo.links, memo.link) = (u8::try_from(links).ok()?, link);
    memo.at = absent.is_none().then_some(at);
    Some(memo)
}

/// Whether a walk can go on from a remembered place.
pub(crate) fn is_directory(at: &Place) -> bool {
    at.flags & DIRECTORY != 0
}

/// Notes what a walk reads.
struct Noter {
    memo: Memo,
    broken: bool,
}

impl Noter {
    fn note(&mut self, at: Spot<'_>) {
        let index = usize::from(self.memo.steps);
        match self.memo.seen.get_mut(index) {
            Some(seen) => {
                *seen = (at.place.dentry, at.place.seq);
                self.memo.steps += 1;
            }
            None => self.broken = true,
        }
    }
}

impl Observer for &mut Noter {
    const LISTENS: bool = true;

    fn begin(&mut self, at: Spot<'_>) {
        self.note(at);
    }

    fn stepped(&mut self, at: Spot<'_>) {
        self.note(at);
    }

    fn may_search(&mut self, rule: Rule) {
        self.broken |= rule != Rule::Everyone;
    }

    fn mounted(&mut self, _at: Spot<'_>) {
        self.broken = true;
    }

    fn before_link(&mut self, at: Spot<'_>) {
        self.note(at);
        let vfs = at.vfs;
        let flags = vfs.mount_slot(at.place.mnt).flags();
        if flags.contains(MntFlags::NOATIME) || flags.read_only() {
            return;
        }
        let inode = InodeId(vfs.dentry(at.place.dentry).inode.get());
        match vfs.inode(inode).try_attr() {
            Some(attr) if flags.contains(MntFlags::RELATIME) => {
                self.memo.until = self.memo.until.min(attr.atime.sec.saturating_add(DAY));
            }
            _ => self.broken = true,
        }
    }
}
