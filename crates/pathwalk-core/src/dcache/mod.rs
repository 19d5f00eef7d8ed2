//! The dentry cache: what is called what, where.
//!
//! ```text
//!   line 0   seq flags parent inode  key(hash+length) link   name (32 bytes)                     what the walk reads
//!   line 1   lockref children_seq first_child siblings busy sb cookie next_cookie coming        what holders write
//! ```
//!
//! Invariant: parent, name, inode and flags of a dentry change only under its lock, or while nobody else knows it, or by
//! who marked it dead, and between two increments of its `seq`. Which children a directory has changes only under the
//! directory's lock and between two increments of its `children_seq`.
//!
//! Linux: `struct dentry`, `fs/dcache.c`.

pub(crate) mod lookup;

pub(crate) mod reserve;

pub(crate) mod ask;

pub(crate) mod change;

pub(crate) mod alias;

pub(crate) mod shrink;

pub(crate) mod reclaim;

pub(crate) mod path;

use crate::{
    inode::{
        I_ACL, I_ACL_UNKNOWN, I_AUTOMOUNT, I_MAY_EXEC, I_PERMISSION, I_TRANSIT, InodeId, Owner,
    },
    lock,
    name::{INLINE_LEN, INLINE_WORDS, spells},
    vfs::{SuperBlock, Vfs},
};
use pathwalk_abi::{FileType, mode::S_IXUGO};
use pathwalk_sync::{Cell32, Cell64, Link, Linked, LockGuard, Lockref, Returned, Seq, Spin, slot};

/// The name of a dentry slot; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DentryId(pub(crate) u32);

impl DentryId {
    pub(crate) const NONE: Self = Self(0);
}

/// In the table: the name leads here. Set and cleared with the insertion and the removal.
pub(crate) const HASHED: u32 = 1 << 0;
/// The name stands for nothing; the walk answers ENOENT.
pub(crate) const NEGATIVE: u32 = 1 << 1;
/// The file system is being asked what the name stands for; the walk takes it as not cached.
pub(crate) const IN_LOOKUP: u32 = 1 << 2;
/// A directory that can be walked through.
pub(crate) const DIRECTORY: u32 = 1 << 3;
/// A symlink.
pub(crate) const SYMLINK: u32 = 1 << 4;
/// Something is mounted here, in some mount.
pub(crate) const MOUNTED: u32 = 1 << 5;
/// The file system wants to be asked at each use whether the name still stands for the same.
pub(crate) const REVALIDATE: u32 = 1 << 6;
/// A directory that everyone may search: all x bits, no ACL, nobody who wants to be asked.
pub(crate) const SEARCH_ALL: u32 = 1 << 7;
/// A directory all of whose children are in the cache: what is not found is not there.
pub(crate) const COMPLETE: u32 = 1 << 8;
/// A removed directory: it gets no new children, ever.
pub(crate) const DEAD_DIR: u32 = 1 << 9;
/// A dentry that is the only record of its name: never evicted.
pub(crate) const PERSISTENT: u32 = 1 << 10;
/// A root of a file system: its own parent.
pub(crate) const IS_ROOT: u32 = 1 << 11;
/// A name that is in the table though it stands for nothing, and its directory is not complete: counted, as such names
/// have a share of the table.
pub(crate) const ABSENT: u32 = 1 << 12;
/// A directory on which its file system mounts something when a walk comes by. Linux: `DCACHE_NEED_AUTOMOUNT`.
pub(crate) const AUTOMOUNT: u32 = 1 << 13;
/// A directory whose file system is asked before it is crossed. Linux: `DCACHE_MANAGE_TRANSIT`.
pub(crate) const TRANSIT: u32 = 1 << 14;
/// The file system wants to be asked about it where no name led to it, too: see `ask_about_unnamed`.
pub(crate) const UNNAMED: u32 = 1 << 15;
/// Where a walk may go somewhere else than to the directory itself. Linux: `DCACHE_MANAGED_DENTRY`.
pub(crate) const MANAGED: u32 = MOUNTED | AUTOMOUNT | TRANSIT;
/// Nobody held it when room was last made: it goes unless a walk comes by, which takes the mark off. See `shrink`.
pub(crate) const AGED: u32 = 1 << 24;

/// What needs more than a step: one test tells the plain case from all others.
pub(crate) const NOT_PLAIN: u32 = IN_LOOKUP | SYMLINK | MANAGED | REVALIDATE | NEGATIVE | AGED;

slot! {
    /// A dentry slot: two cache lines.
    #[repr(align(64))]
    pub(crate) struct Dentry: Words {
        pub(crate) seq: Seq,
        pub(crate) flags: Cell32,
        pub(crate) parent: Cell32,
        pub(crate) inode: Cell32,
        /// The hash of (parent, name) and the length of the name; see `Component::key`.
        pub(crate) key: Cell64,
        link: Link,
        /// The name, zero-padded; of a name that does not fit, the blob.
        name: [Cell64; INLINE_WORDS],

        /// The lock of this dentry and of its children's list, and the count of its holders: who uses it, and one
        /// for each child.
        pub(crate) lockref: Lockref,
        /// Odd while the set of children is being changed.
        pub(crate) children_seq: Seq,
        pub(crate) first_child: Cell32,
        pub(crate) next_sibling: Cell32,
        pub(crate) prev_sibling: Cell32,
        /// 1 while an operation on this name is under way, 2 while somebody waits for it; under the parent's lock, as long as the
        /// name leads anywhere.
        pub(crate) busy: Cell32,
        pub(crate) sb: Cell32,
        /// The position in a complete directory's listing; never given twice in one directory.
        pub(crate) cookie: Cell64,
        /// Of a complete directory: the next child's cookie.
        pub(crate) next_cookie: Cell64,
        /// Of a complete directory: the key of a name that is absent and that a rename in it has reserved, or 0; and 1 while somebody
        /// waits for the end of that. Under its lock.
        pub(crate) coming: Cell64,
        pub(crate) coming_awaited: Cell32,
    }
}

const _: () = assert!(size_of::<Dentry>() == 128);
const _: () = assert!(std::mem::offset_of!(Dentry, lockref) == 64);

impl Linked for Dentry {
    fn link(&self) -> &Link {
        &self.link
    }

    fn chain_hash(&self) -> u64 {
        self.key.get()
    }
}

impl Returned for Dentry {
    fn lockref(&self) -> &Lockref {
        &self.lockref
    }

    fn seqs(&self) -> impl Iterator<Item = &Seq> {
        [&self.seq, &self.children_seq].into_iter()
    }
}

impl Dentry {
    /// The length of the name.
    #[inline(always)]
    pub(crate) fn name_len(&self) -> usize {
        (self.key.get() & 0xff) as usize
    }

    #[inline(always)]
    pub(crate) fn is(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }

    /// The blob of a long name.
    fn blob(&self) -> u32 {
        self.name[0].get() as u32
    }
}

/// What the file system does on the way into a directory, by its inode's flags.
pub(crate) fn managed(flags: u32) -> u32 {
    let flag = |inode, dentry| if flags & inode != 0 { dentry } else { 0 };
    flag(I_AUTOMOUNT, AUTOMOUNT) | flag(I_TRANSIT, TRANSIT)
}

impl Vfs {
    /// The dentry slot of that id.
    #[inline(always)]
    pub(crate) fn dentry(&self, id: DentryId) -> &Dentry {
        self.dentries.get(id.0)
    }

    /// Whether a dentry's name is `name`, of which it is known that it is as long. A guess until the dentry's seq is checked.
    #[inline]
    pub(crate) fn name_is(&self, dentry: &Dentry, name: &[u8]) -> bool {
        if name.len() <= INLINE_LEN {
            spells(&dentry.name, name)
        } else {
            self.long_name_is(dentry, name)
        }
    }

    #[cold]
    #[inline(never)]
    fn long_name_is(&self, dentry: &Dentry, name: &[u8]) -> bool {
        spells(self.names.words(dentry.blob()), name)
    }

    /// Appends a dentry's name to `out`. A guess until the dentry's seq is checked.
    pub(crate) fn copy_name(&self, dentry: &Dentry, out: &mut Vec<u8>) {
        let len = dentry.name_len();
        if len > INLINE_LEN {
            self.names.copy(dentry.blob(), len, |piece| out.extend_from_slice(piece));
        } else {
            let bytes = dentry.name.iter().flat_map(|word| word.get().to_le_bytes());
            out.extend(bytes.take(len));
        }
    }

    /// Writes the name to where `out` begins, and returns what lies behind it, of which some may be overwritten; none if it is
    /// too small. A guess until the dentry's seq is checked.
    #[inline]
    pub(crate) fn copy_name_to<'o>(
        &self,
        dentry: &Dentry,
        out: &'o mut [u8],
    ) -> Option<&'o mut [u8]> {
        let len = dentry.name_len();
        if len > INLINE_LEN {
            let (name, behind) = out.split_at_mut_checked(len)?;
            let mut at = 0;
            self.names.copy(dentry.blob(), len, |piece| {
                name[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            });
            return Some(behind);
        }
        let mut text = [0; INLINE_LEN];
        for (bytes, word) in text.as_chunks_mut::<8>().0.iter_mut().zip(&dentry.name) {
            *bytes = word.get().to_le_bytes();
        }
        // In whole words where there is room: a copy of a length that is not known is a call.
        match out.first_chunk_mut() {
            Some(words) => *words = text,
            None => out.get_mut(..len)?.copy_from_slice(&text[..len]),
        }
        out.get_mut(len..)
    }

    /// Takes a count unless the dentry is dead, as none is too: what was read of a mount that just goes may be no dentry.
    #[inline]
    pub(crate) fn dget_not_dead(&self, id: DentryId) -> bool {
        self.dentry(id).lockref.get_not_dead()
    }

    /// Takes one more count of a dentry that the caller holds.
    #[inline]
    pub(crate) fn dget(&self, id: DentryId) {
        self.dentry(id).lockref.get();
    }

    /// Gives a count back; the last one frees what no name leads to any more.
    ///
    /// Linux: `dput`.
    pub(crate) fn dput(&self, id: DentryId) {
        self.dput_of(id, None);
    }

    /// As [`Vfs::dput`], of who may have the superblock at hand.
    pub(super) fn dput_of(&self, mut id: DentryId, sb: Option<&SuperBlock>) {
        // The file system that hears that an inode goes may let go of its last mount, and the unmount waits for the parent.
        let mut work = None;
        loop {
            let dentry = self.dentry(id);
            // What is counted stays what it is.
            let is_directory = dentry.is(DIRECTORY);
            if dentry.is(HASHED | IS_ROOT) {
                let last = dentry.lockref.put() == 0;
                if dentry.is(HASHED | IS_ROOT) {
                    if last {
                        self.let_go(dentry);
                    }
                    return;
                }
                // The name went meanwhile, or the slot is another's by now. Who has the last count of what has no name frees it:
                // as any late reader, who finds what he counts dead, or the last count to be his.
                if !last {
                    return self.call_in_nameless(id, is_directory);
                }
                if !dentry.lockref.get_not_dead() {
                    return;
                }
                continue;
            }
            if dentry.lockref.put_unless_last() {
                return self.call_in_nameless(id, is_directory);
            }
            // Nobody marks dead what he does not count, but for who has the parent's lock.
            if !self.put_last(dentry) {
                // It was found meanwhile, or got a name.
                continue;
            }
            work.get_or_insert_with(|| self.task_work());
            let parent = self.dentry_free(id, sb);
            if parent == DentryId::NONE || parent == id {
                return;
            }
            id = parent;
        }
    }

    /// Takes the count that this thread keeps, else one more unless the dentry is dead.
    #[inline(always)]
    pub(crate) fn dget_kept(&self, id: DentryId) -> bool {
        self.spares.take(id.0) || self.dget_not_dead(id)
    }

    /// As [`Vfs::dput`], of a file that was open, or asked about: where others hold it too, this thread keeps the count for the next
    /// time, so that threads that come to one file do not meet.
    // In line: a call of it was ten instructions of an opening with its close.
    #[inline(always)]
    pub(crate) fn dput_keeping(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let named = dentry.flags.get() & (HASHED | DIRECTORY) == HASHED;
        // A full table waits for every count.
        if named && dentry.lockref.count() > 1 && !self.is_full() {
            let may_stay = || dentry.is(HASHED) && !self.is_full();
            self.spares.keep(id.0, may_stay, self.give_back());
        } else {
            self.dput(id);
        }
    }

    /// As [`Vfs::call_in`], where what has no name is still counted: it may be that threads only keep counts of it.
    fn call_in_nameless(&self, id: DentryId, is_directory: bool) {
        if !is_directory {
            self.call_in(id);
        }
    }

    /// Gives back the counts of a dentry that threads keep; says whether there was one. Its name leads nowhere any more, so none is
    /// kept from now on.
    fn call_in(&self, id: DentryId) -> bool {
        let (mut any, mut give_back) = (false, self.give_back());
        self.spares.call_in(id.0, |id| {
            any = true;
            give_back(id);
        });
        any
    }

    /// Gives back all counts that threads keep.
    pub(super) fn call_in_all(&self) {
        self.spares.call_in_all(self.give_back());
    }

    /// Gives back counts that threads kept, all of them, whichever file system panics.
    fn give_back(&self) -> impl FnMut(u32) {
        let mut work = None;
        move |id| {
            work.get_or_insert_with(|| self.task_work());
            self.dput(DentryId(id));
        }
    }

    /// Gives back the caller's count of a dentry that no name leads to, and marks it dead, if that was the only one.
    fn put_last(&self, dentry: &Dentry) -> bool {
        let guard = dentry.lockref.lock(lock::DENTRY);
        !dentry.is(HASHED | IS_ROOT) && guard.put_and_mark_dead()
    }

    /// The flags that a dentry gets from what it stands for; none while that is being changed: who changes it may be waiting
    /// for the dentry's lock.
    ///
    /// Linux: `d_flags_for_inode`.
    pub(crate) fn try_type_flags(&self, inode: InodeId) -> Option<u32> {
        if inode == InodeId::NONE {
            return Some(NEGATIVE);
        }
        let (owner, flags) = self.inode(inode).try_owner()?;
        Some(match FileType::from_mode(owner.mode) {
            Some(FileType::Directory) => DIRECTORY | self.search_all(owner, flags) | managed(flags),
            Some(FileType::Symlink) => SYMLINK,
            _ => 0,
        })
    }

    /// Takes a dentry's lock at a moment when `flags` can be told under it: a chmod before has not seen this dentry, one from
    /// now on waits.
    pub(crate) fn lock_telling(
        &self,
        id: DentryId,
        flags: impl Fn() -> Option<u32>,
    ) -> (LockGuard<'_>, u32) {
        let mut spin = Spin::default();
        loop {
            let guard = self.dentry(id).lockref.lock(lock::DENTRY);
            if let Some(flags) = flags() {
                return (guard, flags);
            }
            drop(guard);
            spin.turn();
        }
    }

    /// SEARCH_ALL, or nothing; under the dentry's lock.
    fn search_all(&self, owner: Owner, flags: u32) -> u32 {
        let asks = flags & (I_PERMISSION | I_MAY_EXEC) == I_PERMISSION;
        let asks = asks || self.security.asks_in_walks();
        let acl = flags & (I_ACL | I_ACL_UNKNOWN) != 0;
        if owner.mode & S_IXUGO == S_IXUGO && !asks && !acl { SEARCH_ALL } else { 0 }
    }
}
