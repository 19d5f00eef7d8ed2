//! Directories that this thread reached before: the walk to one is not walked again while nothing on it moved.
//!
//! A walk that holds nothing is a function of the slots that it read. A memo keeps what a walk to a directory read: the
//! text, and of each dentry on the way the id and the sequence count. If the text is the same and no count moved, the
//! walk would read the same and end at the same place; so it may begin there. Looking at the counts costs no hash and no
//! comparison of names, and they do not wait for each other.
//!
//! Rules:
//! 1. A memo belongs to its thread: looking at it and replacing it store nothing that another thread reads.
//! 2. It is made of a walk from the task's root in which nobody was asked for permission: every directory could be
//!    searched by everyone, which the dentries' flags say, and those cannot change without their counts.
//! 3. A walk that crossed a mount, or held its place for whatever reason, makes none.
//! 4. A symlink on the way is one more dentry; the memo holds until its time of last access would be written again.
//! 5. Where a name on the way is not there, what is remembered is the directory that lacks it, and how much of the text
//!    is left: the walk goes on from there, and finds out whether the name is there now.
//! 6. A text is remembered the second time that it is met, so that who meets none again pays for none.
//!
//! 7. A whole path is remembered in the same way where its last component is a symlink that is followed.
//!
//! Linux has no such thing; the idea of remembering whole prefixes and validating them is that of C.-C. Tsai et al., "How
//! to Get More Value From Your File System Directory Cache" (SOSP 2015).

use super::{
    Event, Place, Request, Stop, Walk,
    hold::Rcu,
    link::DAY,
    observe::{Observer, Spot},
    text::Text,
};
use crate::{
    dcache::{DIRECTORY, DentryId},
    inode::InodeId,
    mount::MntFlags,
    name::{fold, padded},
    perm::Rule,
    vfs::Vfs,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Sample;
use std::cell::RefCell;

/// So many directories are remembered in a thread: in sets of two, as some texts hash alike.
const SETS: usize = 32;
/// The longest text that is remembered.
const TEXT: usize = 120;
/// The most dentries on the way.
const STEPS: usize = 16;

/// The memo of one directory.
#[derive(Clone, Copy)]
struct Memo {
    /// The machine's number; 0 where there is no memo.
    vfs: u64,
    /// The hash of the text that was met last and not found.
    met: u64,
    /// Where the walk began, which must be the task's root still.
    root: (u32, u32),
    len: u16,
    /// Where in the text what is left of it begins.
    left: u16,
    steps: u8,
    links: u8,
    /// The second at which a symlink's time of last access is to be written; none if there is no symlink.
    until: i64,
    /// Whether the text was a whole path. As the beginning of a longer one it would not do: what it leads to need not be a
    /// directory, and nothing of the text is left.
    whole: bool,
    text: [u8; TEXT],
    seen: [(DentryId, Sample); STEPS],
    end: Option<Place>,
}

impl Memo {
    const NONE: Self = Self {
        vfs: 0,
        met: 0,
        root: (0, 0),
        len: 0,
        left: 0,
        steps: 0,
        links: 0,
        until: i64::MAX,
        whole: false,
        text: [0; TEXT],
        seen: [(DentryId::NONE, Sample::NONE); STEPS],
        end: None,
    };
}

thread_local! {
    static MEMOS: RefCell<[[Memo; 2]; SETS]> = const { RefCell::new([[Memo::NONE; 2]; SETS]) };
}

/// What was remembered: the place, where in the path the walk goes on, and how many symlinks it followed.
#[derive(Clone, Copy)]
pub(crate) struct Remembered {
    pub(crate) at: Place,
    pub(crate) pos: usize,
    pub(crate) links: u32,
}

/// The length of the text that leads to the last component's directory, if that is worth remembering.
#[inline(always)]
pub(crate) fn prefix_len(path: &[u8]) -> Option<usize> {
    let last = path.iter().rposition(|&byte| byte == b'/')?;
    // A path that ends in a slash has its last component before it.
    ((2..=TEXT).contains(&last) && last + 1 < path.len()).then_some(last)
}

/// The length of the whole path, if only the component at `pos` is left of it and it is worth remembering.
pub(crate) fn whole_len(path: &[u8], pos: usize) -> Option<usize> {
    let last = !path[pos..].contains(&b'/');
    (last && path.len() <= TEXT).then_some(path.len())
}

/// The place that `path[..len]` leads to from `root`, symlinks followed, if this thread was there and nothing moved since.
#[inline(always)]
pub(crate) fn recall(vfs: &Vfs, root: &Place, path: &[u8], len: usize) -> Option<Remembered> {
    let (text, whole) = (&path[..len], len == path.len());
    let hash = hash(text);
    MEMOS.with(|memos| {
        let memos = memos.try_borrow().ok()?;
        let set = &memos[hash as usize % SETS];
        let memo = match set {
            [memo, _] if memo.is(vfs, root, text, whole) => memo,
            [_, memo] if memo.is(vfs, root, text, whole) => memo,
            _ => return None,
        };
        if !memo.holds(vfs) {
            return None;
        }
        let (pos, links) = (usize::from(memo.left), u32::from(memo.links));
        memo.end.map(|at| Remembered { at, pos, links })
    })
}

impl Memo {
    #[inline(always)]
    fn is(&self, vfs: &Vfs, root: &Place, text: &[u8], whole: bool) -> bool {
        usize::from(self.len) == text.len()
            && self.whole == whole
            && self.vfs == vfs.number
            && self.root == (root.mnt.0, root.dentry.0)
            && self.spells(text)
    }

    /// Whether the text is this one, which has the same length. In words: a call would cost more.
    #[inline(always)]
    fn spells(&self, text: &[u8]) -> bool {
        if text.len() < 8 {
            return self.text.get(..text.len()) == Some(text);
        }
        let (words, _) = text.as_chunks::<8>();
        let (own_words, _) = self.text.as_chunks::<8>();
        let same = words
            .iter()
            .zip(own_words)
            .all(|(a, b)| u64::from_le_bytes(*a) == u64::from_le_bytes(*b));
        // What is left is in the last eight bytes, which overlap the word before.
        same && text.last_chunk::<8>()
            == self.text.get(..text.len()).and_then(|own| own.last_chunk::<8>())
    }

    /// Whether nothing moved since.
    #[inline(always)]
    fn holds(&self, vfs: &Vfs) -> bool {
        let dentries = vfs.dentries.slots();
        let seen = self.seen.get(..usize::from(self.steps)).unwrap_or_default();
        let unmoved = seen.iter().all(|&(id, seq)| dentries.get(id.0).seq.unchanged(seq));
        unmoved && (self.until == i64::MAX || vfs.now().sec < self.until)
    }
}

/// Remembers the place that `path[..len]` leads to, if it was met before and can be remembered.
#[cold]
#[inline(never)]
pub(crate) fn remember(request: Request<'_>, len: usize) {
    let text = &request.path[..len];
    let hash = hash(text);
    MEMOS.with(|memos| {
        let Ok(mut memos) = memos.try_borrow_mut() else { return };
        let set = &mut memos[hash as usize % SETS];
        if set[0].met != hash | 1 {
            set[0].met = hash | 1;
            return;
        }
        if let Some(made) = make(&request, text) {
            // The older one goes.
            set.swap(0, 1);
            set[0] = made;
        }
    });
}

fn hash(text: &[u8]) -> u64 {
    // Texts that end alike have unlike lengths, mostly; the text itself is compared.
    let last =
        text.last_chunk::<8>().map_or_else(|| padded(text), |last| u64::from_le_bytes(*last));
    fold(last ^ (text.len() as u64) << 32, 0x9e37_79b9_7f4a_7c15) >> 7
}

/// Walks to the place once more, noting what is read.
fn make(request: &Request<'_>, text: &[u8]) -> Option<Memo> {
    let mut noter = Noter { memo: Memo { vfs: request.vfs.number, ..Memo::NONE }, broken: false };
    let own = Request { path: text, ..*request };
    let mut walk = Walk::<Rcu, &mut Noter>::path_init(&own, &mut noter).ok()?;
    let root = walk.root?;
    let mut rest = Text::new(text);
    // The text is a beginning: its last component is one like any other, symlinks included.
    let left = loop {
        let (current, mut pos, _) = rest.current();
        let event = walk.link_path_walk(current, &mut pos, true);
        rest.set_pos(pos);
        match event {
            Ok(Event::Link(link, _)) => {
                if rest.is_lowest() && pos == text.len() && walk.is_in_shared_directory() {
                    // Who may follow a link that stands last there depends on who asks: `fs.protected_symlinks`.
                    return None;
                }
                walk.pick_link(link, &mut rest, false).ok()?;
            }
            Ok(Event::End) if rest.is_lowest() => break request.path.len().min(text.len() + 1),
            Ok(Event::End) => rest.pop(),
            Err(Stop::Errno(Errno::ENOENT)) if rest.is_lowest() && pos > 1 => break pos,
            Ok(Event::Last(_)) | Err(_) => return None,
        }
    };
    let (at, links) = (walk.at, walk.links);
    walk.check_at().ok()?;
    let whole = text.len() == request.path.len();
    if noter.broken || at.flags & DIRECTORY == 0 && !whole || at.mnt != root.mnt {
        return None;
    }
    let mut memo = noter.memo;
    memo.root = (root.mnt.0, root.dentry.0);
    memo.len = u16::try_from(text.len()).ok()?;
    memo.text[..text.len()].copy_from_slice(text);
    memo.left = u16::try_from(left).ok()?;
    memo.links = u8::try_from(links).ok()?;
    memo.whole = whole;
    memo.end = Some(at);
    Some(memo)
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
