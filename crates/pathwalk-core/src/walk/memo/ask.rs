//! Asking a file system whether what is remembered still holds: once about the whole path, and once about the way to each
//! symlink on it.
//!
//! ```text
//!   /mnt/bin/cc, where bin/cc is a symlink to gcc        all but mnt are cached, and are to be asked about
//!
//!   revalidate_path(root of the mount, "bin/cc", the symlink)
//!   revalidate_path(root of the mount, "bin/gcc", the end)
//! ```
//!
//! Where `fs.protected_symlinks` decides, about the directory of the last symlink too.
//!
//! The walk would count each directory on its way, and ask about a run of names. Here nothing on the way is held: that the
//! names lead where they led the file system says, and that nothing was changed in the cache the memo.
//!
//! Linux has no such thing.

use super::{
    super::{HeldPath, Place, Request, counts::Counts, held::MountCount, observe::Left, tally},
    Facts, Known, Step, thread,
};
use crate::{
    dcache::{DentryId, REVALIDATE, UNNAMED},
    inode::{InodeId, InodeRef},
    mount::MountId,
    vfs::Vfs,
};
use pathwalk_abi::PATH_MAX;
use pathwalk_sync::lock_order;
use smallvec::SmallVec;
use std::cell::Cell;

/// What a file system is to be asked.
pub(super) struct Questions {
    before: Box<[Question]>,
    /// The names that lead to the end, from the root of its mount on.
    last: Box<[u8]>,
    /// They were answered as before, once at least.
    held: Cell<bool>,
}

/// Whether these names, from the root of the mount on, lead to that symlink, or to the directory in which one lies.
struct Question {
    names: Box<[u8]>,
    to: Step<DentryId>,
}

/// What a file system says of a path that was walked before.
pub(crate) enum Said<'a> {
    /// It leads where it led; that is held. Whether all its attributes are those of now.
    Leads(HeldPath<'a>, bool),
    /// It leads to no file, as before.
    Absent,
    /// That is not to be believed any more: the path is to be walked.
    Walk,
}

impl Known {
    /// Asks the file system whether `text`, with which the request's path begins, leads where it led, and has it bring the attributes up to
    /// date, if they are wanted.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask<'a>(&self, request: &Request<'a>, text: &[u8], attributes: bool) -> Said<'a> {
        let vfs = request.vfs;
        tally::note(Left::Revalidate);
        let Some(held) = self.hold(vfs) else { return Said::Walk };
        let beyond = thread::beyond(vfs, request.fs.peek_root(), text);
        let Some(questions) = beyond.as_ref().and_then(|beyond| beyond.questions.as_ref()) else {
            return Said::Walk;
        };
        lock_order::assert_none_held();
        if !questions.hold((vfs, self.place(vfs).mnt), held.as_ref().ok(), attributes) {
            thread::forget(vfs, text, questions.held.get());
            return Said::Walk;
        }
        questions.held.set(true);
        // What was brought up to date meanwhile may be what the memo rests on.
        if !thread::still_holds(request, text) {
            return Said::Walk;
        }
        match held {
            // Nobody was asked for all attributes of the root of the mount.
            Ok(held) => Said::Leads(held, attributes && !questions.last.is_empty()),
            Err(_) => Said::Absent,
        }
    }

    /// What the path leads to; or, where it is absent, its mount alone, and by that the root: nobody is asked about the last directory,
    /// nor meets others at its count. None where that changed.
    fn hold<'a>(&self, vfs: &'a Vfs) -> Option<Result<HeldPath<'a>, MountCount<'a>>> {
        let place = self.place(vfs);
        if !self.is(Facts::ABSENT) {
            return vfs.legitimize(&place).map(Ok);
        }
        let held = vfs.legitimize_mnt(place.mnt, place.mnt_seq);
        held.then(|| Err(MountCount { vfs, id: place.mnt }))
    }
}

impl Questions {
    /// The bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        let each = |question: &Question| size_of::<Question>() + question.names.len();
        self.last.len() + self.before.iter().map(each).sum::<usize>()
    }

    /// Whether all are answered as before, in a mount that is held; what they lead to is held too, if there is anything.
    fn hold(
        &self,
        (vfs, mnt): (&Vfs, MountId),
        held: Option<&HeldPath<'_>>,
        attributes: bool,
    ) -> bool {
        let mount = vfs.mount_slot(mnt);
        let sb = vfs.superblock(mount.sb.get()).expect("a held mount keeps its superblock");
        let dentry = mount.root();
        let root = inode_of(vfs, dentry);
        // Where there are no names it is the root itself.
        let leads = |names: &[u8], to, attributes| {
            if names.is_empty() {
                vfs.ask_about_unnamed(dentry);
                return true;
            }
            matches!(sb.fs.revalidate_path(root, names, to, attributes), Ok(true))
        };
        let finds = |question: &Question| {
            let (to, seq) = question.to;
            let counted = vfs.dget_kept(to).then(|| Counts::of_child(vfs, to));
            counted.is_some_and(|held| {
                let finds = vfs.dentry(to).seq.unchanged(seq)
                    && leads(&question.names, Some(inode_of(vfs, to)), false);
                held.put_keeping();
                finds
            })
        };
        self.before.iter().all(finds)
            && leads(&self.last, held.map(HeldPath::inode_ref), attributes)
    }
}

/// The inode of a dentry that is counted.
fn inode_of(vfs: &Vfs, dentry: DentryId) -> InodeRef<'_> {
    vfs.inode_ref(InodeId(vfs.dentry(dentry).inode.get()))
}

/// Whether the names lead above where they begin, where a walk at its root stays: no file system is asked about that.
fn leads_above(names: &[u8]) -> bool {
    let mut depth = 0;
    names.split(|&byte| byte == b'/').any(|name| {
        depth += match name {
            b"." | b"" => 0,
            b".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

/// Whether the names end by going up: whether the last directory may be searched is told by nobody who is asked about its parent.
fn ends_above(names: &[u8]) -> bool {
    names.rsplit(|&byte| byte == b'/').find(|&name| name != b".") == Some(b"..")
}

/// The questions about a walk, gathered while it is walked once more.
#[derive(Default)]
pub(super) struct Gathered {
    /// The mount that the walk is in.
    mnt: Option<MountId>,
    /// The names since the root of the mount, with slashes between.
    names: SmallVec<[u8; 128]>,
    /// They begin there.
    from_root: bool,
    before: Vec<Question>,
    /// There is a name to be asked about.
    asks: bool,
    /// Some of that cannot be asked at once.
    broken: bool,
}

impl Gathered {
    /// The walk goes on at the root of a mount, or in the middle of one. Names of two mounts are not asked about.
    pub(super) fn enter(&mut self, mnt: MountId, at_root: bool) {
        self.broken |= self.asks && self.mnt != Some(mnt);
        (self.mnt, self.from_root) = (Some(mnt), at_root);
        self.names.clear();
    }

    /// The walk looks for a name.
    pub(super) fn name(&mut self, name: &[u8]) {
        if !self.names.is_empty() {
            self.names.push(b'/');
        }
        self.names.extend_from_slice(name);
        if self.names.len() >= PATH_MAX {
            // Nobody can ask a host about more.
            self.broken = true;
            self.names.clear();
        }
    }

    /// The walk came to what the name stands for, or saw that it is absent.
    pub(super) fn seen(&mut self, at: &Place) {
        self.asks |= at.flags & (REVALIDATE | UNNAMED) != 0;
    }

    /// What it came to is a symlink, which it follows.
    pub(super) fn link(&mut self, at: &Place) {
        if at.flags & REVALIDATE != 0 {
            self.ask((at.dentry, at.seq));
        }
        let dir = self.names.iter().rposition(|&byte| byte == b'/');
        self.names.truncate(dir.unwrap_or(0));
    }

    /// It matters whose the directory is in which the symlink lies, and who may write there.
    pub(super) fn directory(&mut self, directory: Step<DentryId>) {
        // The root of a mount is asked about with all names, or by no walk.
        if self.asks && !self.names.is_empty() {
            self.ask(directory);
        }
    }

    fn ask(&mut self, to: Step<DentryId>) {
        self.broken |= !self.from_root || leads_above(&self.names);
        self.before.push(Question { names: (&*self.names).into(), to });
    }

    /// The questions, or none if there are none to be asked.
    ///
    /// # Errors
    ///
    /// It cannot be asked so.
    pub(super) fn questions(self) -> Result<Option<Questions>, ()> {
        if !self.asks {
            return Ok(None);
        }
        if self.broken || !self.from_root || leads_above(&self.names) || ends_above(&self.names) {
            return Err(());
        }
        Ok(Some(Questions {
            before: self.before.into(),
            last: self.names.into_vec().into(),
            held: Cell::new(false),
        }))
    }
}
