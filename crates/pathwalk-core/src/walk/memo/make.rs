//! Making a memo: the path is walked once more, and what the walk reads is noted.

use super::{
    super::{
        Lookup, Place, Request, Stop, Walk,
        end::End,
        hold::Rcu,
        job::{Job, LookupJob, Terminal},
        link::{AT_ONCE, atime_due},
        observe::{Observer, Spot},
        road,
        text::Text,
    },
    Beyond, FEW, Facts, INODES, Known, LONG_WAY, MOST, MOUNTS, Memo, OTHERS, STEPS, Step,
    ask::Gathered,
    beyond::Rest,
    both, key,
    text::{self as memo_text, LONG},
    thread::{self, Memos, NOTES, Nothing},
};
use crate::{
    cred::{Asker, Identity, Subject},
    dcache::{AUTOMOUNT, DentryId, SEARCH_ALL, TRANSIT},
    fs::Features,
    inode::InodeId,
    mount::MountId,
    perm::Rule,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Sample;
use smallvec::{Array, SmallVec};
use std::rc::Rc;

/// Remembers how the walk of `text`, with which the request's path begins, ends; if the text was met before and can be
/// remembered.
#[cold]
#[inline(never)]
pub(crate) fn remember(request: Request<'_>, text: &[u8]) -> Memory {
    let may_sleep = request.vfs.asks.get() == 0;
    if Nothing::is_remembered() {
        return Memory::Asleep;
    }
    if thread::sleep_on(may_sleep) {
        return if thread::sleeps() { Memory::Asleep } else { Memory::Awake };
    }
    let hash = key(request.vfs, text);
    NOTES.with(|notes| {
        // Who walks to make a memo makes none on the way.
        let Ok(mut notes) = notes.try_borrow_mut() else { return };
        let budget = request.vfs.config.memo_bytes;
        let mut memos = thread::take();
        // The caller had no use for what it says, or it slept when he asked.
        if let Some(memos) = memos.take_if(|memos| memos.hold(hash, &request, text)) {
            return thread::put(memos);
        }
        let was_of_use = memos.as_mut().and_then(|memos| memos.forget(hash));
        let mut made = false;
        if notes.meet(hash, was_of_use) {
            memos = memos.or_else(|| Memos::new(budget));
            if let Some(memos) = &mut memos
                && let Some(room) = memos.room(hash, budget)
            {
                made = true;
                match make(&request, text) {
                    Some(memo) => room.put(memo),
                    None => notes.strike(hash),
                }
            }
        }
        if let Some(memos) = memos {
            thread::put_after_miss(memos, made, may_sleep);
        }
    });
    Memory::Awake
}

/// Whether a thread may remember something, of any text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Awake,
    /// There is no use in asking.
    Asleep,
}

/// Walks once more, noting what is read.
fn make(request: &Request<'_>, text: &[u8]) -> Option<Memo> {
    road::note_made();
    let mut noter = Noter::of(request.asker, request.vfs.config.protected_symlinks);
    let request = Request { path: text, flags: Lookup::FOLLOW, ..*request };
    let mut walk = Walk::<Rcu, &mut Noter<'_>>::path_init(&request, &mut noter).ok()?;
    let root = walk.root?;
    let (at, absent) = match LookupJob(Arrive).run(&mut walk, &mut Text::new(text)) {
        Ok(at) => (at, false),
        Err(Stop::Errno(Errno::ENOENT)) => (walk.at, true),
        Err(_) => return None,
    };
    noter.step((at.dentry, at.seq));
    if at.mnt != root.mnt {
        noter.mount(&root);
    }
    // There are other reasons for ENOENT than an absent name.
    if noter.broken || noter.absent != absent {
        return None;
    }
    let questions = noter.questions.questions().ok()?;
    let mut facts = Facts::empty();
    facts.set(Facts::ABSENT, absent);
    facts.set(Facts::LINK, noter.link);
    facts.set(Facts::CANONICAL, noter.links == 0 && memo_text::is_canonical(text));
    facts.set(Facts::ASKS, questions.is_some());
    facts.set(Facts::DECIDES, request.vfs.mount_slot(at.mnt).decides());
    let known = Known {
        mnt: (at.mnt, at.mnt_seq),
        at: (at.dentry, at.seq),
        links: u8::try_from(noter.links).ok()?,
        facts,
    };
    let (kept, rest) = text.split_at(text.len().min(LONG));
    let (steps, dentries) = noter.steps.split_at(noter.steps.len().min(STEPS));
    let (inodes, more_inodes) = noter.inodes.split_at(noter.inodes.len().min(INODES));
    let (mounts, more_mounts) = noter.mounts.split_at(noter.mounts.len().min(MOUNTS));
    let rest = Rest {
        text: rest.into(),
        dentries: dentries.into(),
        inodes: more_inodes.into(),
        mounts: more_mounts.into(),
    };
    let long_way = if steps.len() > FEW { LONG_WAY } else { 0 };
    let others = !(inodes.is_empty() && mounts.is_empty()) || rest.matters();
    let matters = long_way | if others { OTHERS } else { 0 };
    let beyond = Beyond::of(rest, questions, request.vfs.config.memo_bytes).ok()?;
    let mut memo = Memo {
        root: both((root.mnt, root.dentry)),
        known,
        children: noter.children,
        vfs: request.vfs.number,
        len: u16::try_from(text.len()).ok()?,
        matters,
        until: noter.until,
        who: if noter.theirs { request.asker.identity() } else { Identity::NONE },
        beyond: beyond.map(Rc::new),
        ..Memo::none()
    };
    memo.text[..kept.len()].copy_from_slice(kept);
    let (few, more) = steps.split_at(steps.len().min(FEW));
    memo.few[..few.len()].copy_from_slice(few);
    memo.more[..more.len()].copy_from_slice(more);
    memo.inodes[..inodes.len()].copy_from_slice(inodes);
    memo.mounts[..mounts.len()].copy_from_slice(mounts);
    Some(memo)
}

/// Asks nothing of the place but that it stays.
struct Arrive;

impl<'a> Terminal<'a> for Arrive {
    type Out = Place;

    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<Place, Stop> {
        end.check()?;
        Ok(end.at)
    }
}

/// Notes what a walk reads.
struct Noter<'a> {
    who: Subject<'a>,
    steps: SmallVec<[Step<DentryId>; STEPS]>,
    inodes: SmallVec<[Step<InodeId>; INODES]>,
    mounts: SmallVec<[Step<MountId>; MOUNTS]>,
    links: u32,
    children: Step<DentryId>,
    until: i64,
    link: bool,
    absent: bool,
    questions: Gathered,
    /// Whether `fs.protected_symlinks` is set, which asks about the directory of the last symlink.
    protects: bool,
    /// The directory of the symlink that was met last.
    directory: Option<Step<DentryId>>,
    /// A directory was searched that not everyone may.
    theirs: bool,
    /// Something cannot be noted.
    broken: bool,
}

impl<'a> Noter<'a> {
    fn of(asker: Asker<'a>, protects: bool) -> Self {
        Self {
            who: asker.subject(),
            steps: SmallVec::new(),
            inodes: SmallVec::new(),
            mounts: SmallVec::new(),
            links: 0,
            children: super::NO_STEP,
            until: i64::MAX,
            link: false,
            absent: false,
            questions: Gathered::default(),
            protects,
            directory: None,
            theirs: false,
            broken: false,
        }
    }
}

/// Notes a step, if it is not noted yet; whether there is room for it.
fn note<T: PartialEq, const N: usize>(steps: &mut SmallVec<[T; N]>, step: T) -> bool
where
    [T; N]: Array<Item = T>,
{
    if !steps.contains(&step) {
        if steps.len() == MOST {
            return false;
        }
        steps.push(step);
    }
    true
}

impl Noter<'_> {
    fn step(&mut self, step: Step<DentryId>) {
        self.broken |= !note(&mut self.steps, step);
    }

    /// Notes the mount of a place.
    fn mount(&mut self, at: &Place) {
        self.broken |= !note(&mut self.mounts, (at.mnt, at.mnt_seq));
    }

    /// Notes an inode, and what is read of it under its count.
    fn inode<T>(
        &mut self,
        at: Spot<'_>,
        read: impl FnOnce(&Self, InodeId) -> Option<T>,
    ) -> Option<T> {
        let vfs = at.vfs;
        let id = InodeId(vfs.dentry(at.place.dentry).inode.get());
        let inode = vfs.inode(id);
        let seq = inode.seq.sample();
        let read = read(self, id)?;
        (note(&mut self.inodes, (id, seq)) && inode.seq.unchanged(seq)).then_some(read)
    }

    /// Notes the inode of a symlink, and until when its use needs no note.
    fn symlink(&mut self, at: Spot<'_>) -> Option<()> {
        let flags = at.vfs.mount_slot(at.place.mnt).flags();
        let attr = self.inode(at, |_, id| at.vfs.inode(id).try_attr())?;
        match atime_due(&attr, flags) {
            Some(AT_ONCE) => return None,
            Some(due) => self.until = self.until.min(due),
            None => {}
        }
        self.links += 1;
        Some(())
    }

    /// Notes the inode of a directory that not everyone may search.
    fn directory(&mut self, at: Spot<'_>) -> Option<()> {
        self.theirs = true;
        let may = self.inode(at, |noter, id| {
            let who = at.vfs.through(at.place.mnt, &noter.who);
            at.vfs.try_may_search(id, &who).ok()
        });
        may?.ok().map(|_| ())
    }
}

impl Observer for &mut Noter<'_> {
    const LISTENS: bool = true;
    const ASKS: bool = false;

    /// They are asked about afterwards, if the file system can be asked about all at once.
    fn believes(&self, at: Spot<'_>) -> bool {
        let sb = at.vfs.superblock(at.vfs.dentry(at.place.dentry).sb.get());
        sb.is_some_and(|sb| sb.features.contains(Features::REVALIDATE_PATH))
    }

    fn begin(&mut self, at: Spot<'_>) {
        let at_root = at.vfs.mount_slot(at.place.mnt).root() == at.place.dentry;
        self.questions.enter(at.place.mnt, at_root);
        self.stepped(at);
    }

    fn component(&mut self, name: &[u8], _holding: bool) {
        self.questions.name(name);
    }

    fn stepped(&mut self, at: Spot<'_>) {
        self.questions.seen(at.place);
        // Whether it is crossed is not the memo's to say.
        self.broken |= at.place.flags & (AUTOMOUNT | TRANSIT) != 0;
        self.step((at.place.dentry, at.place.seq));
    }

    /// The flag is what a chmod takes away; a directory whose dentry is not its own any more does not have it.
    fn may_search(&mut self, at: Spot<'_>, _rule: Rule) {
        self.broken |= at.place.flags & SEARCH_ALL == 0 && self.directory(at).is_none();
    }

    fn passed(&mut self, at: Spot<'_>) {
        self.stepped(at);
        self.mount(at.place);
        self.questions.enter(at.place.mnt, false);
    }

    fn mounted(&mut self, at: Spot<'_>) {
        self.questions.enter(at.place.mnt, true);
        self.stepped(at);
        self.mount(at.place);
    }

    fn connected(&mut self) {
        self.broken = true;
    }

    fn before_link(&mut self, at: Spot<'_>) {
        let parent = DentryId(at.vfs.dentry(at.place.dentry).parent.get());
        self.directory = self.steps.iter().rfind(|step| step.0 == parent).copied();
        self.stepped(at);
        self.questions.link(at.place);
        self.broken |= self.symlink(at).is_none();
    }

    fn asked_who(&mut self) {
        self.broken = true;
    }

    fn link(&mut self, _body: &[u8], _links: u32, last: bool) {
        self.link |= last;
        if last && self.protects {
            match self.directory {
                Some(directory) => self.questions.directory(directory),
                None => self.broken = true,
            }
        }
    }

    fn absent(&mut self, at: Spot<'_>, children: Option<Sample>) {
        self.absent = true;
        match children {
            Some(children) => self.children = (at.place.dentry, children),
            None => self.stepped(at),
        }
    }
}
