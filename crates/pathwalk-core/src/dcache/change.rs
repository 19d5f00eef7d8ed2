//! Changing what names stand for: filling a dentry, taking it out of the table, moving it.
//!
//! Every function here that ends in `_locked` is called under the lock of the directory whose children it changes.
//!
//! Linux: `d_alloc`, `d_instantiate`, `d_delete`, `d_move`.

use super::{
    ABSENT, COMPLETE, DEAD_DIR, DIRECTORY, Dentry, DentryId, HASHED, IN_LOOKUP, IS_ROOT, MOUNTED,
    NEGATIVE, PERSISTENT, REVALIDATE, SEARCH_ALL, SYMLINK, UNNAMED,
    reserve::{Reserved, Target},
};
use crate::{
    inode::InodeId,
    lock,
    name::{Component, INLINE_LEN, INLINE_WORDS},
    topology::RenameGuard,
    vfs::{SuperBlock, Vfs},
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::gate;

/// The first cookie of a listing; below it are `.` and `..`.
pub(crate) const FIRST_COOKIE: u64 = 3;

impl Vfs {
    /// Makes a dentry with one count that no name leads to yet; it counts its parent, which the caller holds.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the dentry table or the names' arena is full, and nothing could be evicted.
    pub(crate) fn dentry_alloc(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Result<DentryId> {
        let bytes = name.bytes(text);
        let blob = if name.len > INLINE_LEN {
            Some(self.with_room(|| self.names.store(bytes)).ok_or(Errno::ENOMEM)?)
        } else {
            None
        };
        let Some(id) = self.with_room(|| self.dentries.alloc()) else {
            if let Some(blob) = blob {
                self.names.free(blob);
            }
            return Err(Errno::ENOMEM);
        };
        self.dhash.grow(&self.dentries, self.dentries.high_water());
        let dentry = self.dentries.get(id);
        {
            let _change = dentry.seq.change();
            dentry.flags.set(NEGATIVE);
            dentry.parent.set(parent.0);
            dentry.inode.set(0);
            self.set_name(id, (text, name), blob);
            dentry.key.set(name.key(parent.0, self.secret));
        }
        dentry.first_child.set(0);
        dentry.busy.set(0);
        debug_assert!(dentry.coming.get() == 0, "who renames in a directory holds it");
        dentry.next_cookie.set(FIRST_COOKIE);
        dentry.sb.set(self.dentry(parent).sb.get());
        self.dget(parent);
        dentry.lockref.revive();
        Ok(DentryId(id))
    }

    /// Writes the name, or the blob that it lies in.
    fn set_name(&self, id: u32, (text, name): (&[u8], &Component), blob: Option<u32>) {
        let cells = &self.dentries.get(id).name;
        match blob {
            Some(blob) => cells[0].set(u64::from(blob)),
            None => name.write_to(text, cells),
        }
    }

    /// Makes the root dentry of a file system, with one count.
    pub(crate) fn dentry_root(&self, sb: u32, inode: InodeId, flags: u32) -> Result<DentryId> {
        let id = self.with_room(|| self.dentries.alloc()).ok_or(Errno::ENOMEM)?;
        let dentry = self.dentries.get(id);
        dentry.first_child.set(0);
        dentry.busy.set(0);
        dentry.next_cookie.set(FIRST_COOKIE);
        dentry.sb.set(sb);
        {
            // For SEARCH_ALL, which a security module may be taking away just now: who has the lock after sees it, so the dentry
            // must be alive by then. He leaves the flags of a dead one alone.
            let (_guard, type_flags) =
                self.lock_telling(DentryId(id), || self.try_type_flags(inode));
            let _change = dentry.seq.change();
            dentry.flags.set(IS_ROOT | flags | type_flags);
            dentry.parent.set(id);
            dentry.inode.set(inode.0);
            dentry.key.set(0);
            dentry.lockref.revive();
        }
        self.set_alias(inode, DentryId(id));
        Ok(DentryId(id))
    }

    /// Frees a dead, unhashed dentry and returns its parent, whose count it held. The caller may have the superblock at hand; he
    /// is in a [`TaskWork`], as the file system may panic when it hears of the inode.
    ///
    /// [`TaskWork`]: crate::mount::task_work::TaskWork
    pub(crate) fn dentry_free(&self, id: DentryId, sb: Option<&SuperBlock>) -> DentryId {
        let dentry = self.dentry(id);
        let (parent, inode, long) = (
            DentryId(dentry.parent.get()),
            InodeId(dentry.inode.get()),
            dentry.name_len() > INLINE_LEN,
        );
        let blob = dentry.blob();
        {
            let _change = dentry.seq.change();
            dentry.flags.set(0);
            dentry.parent.set(0);
            dentry.inode.set(0);
            dentry.key.set(0);
        }
        if long {
            self.names.free(blob);
        }
        if inode != InodeId::NONE {
            self.fsnotify_inoderemove(inode);
            self.give_up_alias(inode, id);
            self.iput_of(inode, sb);
        }
        self.dentries.free(id.0);
        parent
    }

    /// Makes the name lead to a dentry that was just made and becomes a child of `parent`. Nobody else knows it, so its flags
    /// need no lock.
    pub(crate) fn hash_locked(&self, parent: DentryId, id: DentryId, flags: u32) {
        let _children = self.dentry(parent).children_seq.change();
        self.list_child(parent, id);
        let dentry = self.dentry(id);
        dentry.set_hashed(flags);
        self.dhash.insert(id.0, dentry);
    }

    /// As [`Vfs::hash_locked`], within a change of the parent's set of children, for a dentry that others may know.
    fn insert_child(&self, parent: DentryId, id: DentryId, flags: u32) {
        let dentry = self.dentry(id);
        self.list_child(parent, id);
        {
            let _dentry = dentry.lockref.lock_nested(lock::DENTRY);
            dentry.set_hashed(flags);
        }
        self.dhash.insert(id.0, dentry);
    }

    /// Makes the name lead nowhere. The dentry goes on to stand for what it stood for, for its holders, and
    /// keeps counting its parent.
    pub(crate) fn unhash_locked(&self, parent: DentryId, id: DentryId) {
        if self.dentry(id).is(HASHED) {
            let _children = self.dentry(parent).children_seq.change();
            self.remove_child(parent, id, 0);
        }
    }

    /// As [`Vfs::unhash_locked`], within a change of the parent's set of children; the dentry gets more flags.
    fn remove_child(&self, parent: DentryId, id: DentryId, more: u32) {
        let dentry = self.dentry(id);
        self.unlink_child(parent, id);
        let _dentry = dentry.lockref.lock_nested(lock::DENTRY);
        let _change = dentry.seq.change();
        let flags = dentry.flags.get();
        dentry.flags.set(flags & !(HASHED | ABSENT) | more);
        self.absent.note(id, flags, 0);
        self.dhash.remove(&self.dentries, id.0, dentry);
    }

    /// Newest first: who reads a listing to its end meets no name that was made meanwhile.
    fn list_child(&self, parent: DentryId, id: DentryId) {
        let (directory, dentry) = (self.dentry(parent), self.dentry(id));
        let cookie = directory.next_cookie.get();
        directory.next_cookie.set(cookie + 1);
        dentry.cookie.set(cookie);
        let first = directory.first_child.get();
        dentry.prev_sibling.set(0);
        dentry.next_sibling.set(first);
        if first != 0 {
            self.dentries.get(first).prev_sibling.set(id.0);
        }
        directory.first_child.set(id.0);
    }

    fn unlink_child(&self, parent: DentryId, id: DentryId) {
        let dentry = self.dentry(id);
        let (prev, next) = (dentry.prev_sibling.get(), dentry.next_sibling.get());
        match prev {
            0 => self.dentry(parent).first_child.set(next),
            prev => self.dentries.get(prev).next_sibling.set(next),
        }
        if next != 0 {
            self.dentries.get(next).prev_sibling.set(prev);
        }
    }

    /// Says what a reserved name stands for; takes over the caller's count of the inode.
    ///
    /// `kind` are the flags that the file system's inodes' dentries have: [`KIND`].
    pub(crate) fn d_instantiate(&self, id: DentryId, inode: InodeId, kind: u32) {
        let dentry = self.dentry(id);
        // The alias first: a chmod from now on finds the dentry, and waits for its lock.
        self.set_alias(inode, id);
        let (_guard, type_flags) = self.lock_telling(id, || self.try_type_flags_locked(id, inode));
        let kind = if type_flags & DIRECTORY != 0 { kind } else { kind & !COMPLETE };
        let _change = dentry.seq.change();
        dentry.inode.set(inode.0);
        let flags = dentry.flags.get();
        debug_assert_eq!(flags & MOUNTED, 0, "on a name that is reserved nothing is mounted");
        let absent = if inode == InodeId::NONE && flags & HASHED != 0 { ABSENT } else { 0 };
        dentry.flags.set(flags & (HASHED | IS_ROOT) | kind | type_flags | absent);
        self.absent.note(id, flags, absent);
    }

    /// Makes a name that was unlinked lead nowhere; the caller has it reserved.
    pub(crate) fn d_delete(&self, parent: DentryId, id: DentryId, dead_dir: bool) {
        let (directory, dentry) = (self.dentry(parent), self.dentry(id));
        {
            let _parent = directory.lockref.lock(lock::DENTRY);
            assert!(dentry.is(HASHED), "a name that is reserved leads somewhere");
            let _children = directory.children_seq.change();
            self.remove_child(parent, id, if dead_dir { DEAD_DIR } else { 0 });
        }
        // Before those who watch are told: they are told otherwise where somebody else holds it.
        if dentry.lockref.count() > 1 {
            self.call_in(id);
        }
    }

    /// Makes a reserved name that no longer holds lead nowhere, and what is below it unreachable by it; what is mounted
    /// there is taken down.
    ///
    /// Linux: `d_invalidate`.
    pub(crate) fn d_invalidate(&self, name: &Reserved<'_>) {
        let parent = DentryId(name.dentry().parent.get());
        {
            let _parent = self.dentry(parent).lockref.lock(lock::DENTRY);
            self.unhash_locked(parent, name.id);
        }
        self.detach_submounts(name.id);
    }

    /// Moves a dentry to another parent and name; what was there before no longer leads anywhere. `left` is a dentry that
    /// takes the old name.
    ///
    /// The rename lock is held where the parents differ. Both sets of children change in one piece: nobody finds the new
    /// name to be absent meanwhile. The reservation goes with the dentry; where nobody watches anything it ends with the move.
    ///
    /// Linux: `d_move`.
    pub(crate) fn d_move(
        &self,
        source: &mut Reserved<'_>,
        target: &mut Target<'_>,
        lock: Option<&RenameGuard<'_>>,
        (text, new_name): (&[u8], &Component),
        blob: Option<u32>,
        left: Option<DentryId>,
    ) {
        let moved = source.dentry();
        let from = DentryId(moved.parent.get());
        let to = target.name().map_or(from, |name| DentryId(name.dentry().parent.get()));
        let old_long = moved.name_len() > INLINE_LEN;
        let old_blob = moved.blob();
        let across = from != to;
        if across {
            self.dget(to);
        }
        let waited_for = {
            let _moving = moved.is(DIRECTORY).then(|| self.moving());
            let (first, second) = self.parents_in_order(from, to, lock);
            let _first = self.dentry(first).lockref.lock(lock::DENTRY);
            let _second = across.then(|| self.dentry(second).lockref.lock_nested(lock::DENTRY));
            let _from = self.dentry(from).children_seq.change();
            let _to = across.then(|| self.dentry(to).children_seq.change());
            match target {
                // A reserved name of a complete directory is in the table though it stands for nothing.
                Target::Name(name) if name.dentry().is(HASHED) => {
                    self.remove_child(to, name.id, 0);
                }
                Target::Name(_) => {}
                Target::Absent(coming) => coming.end_locked(),
            }
            self.unlink_child(from, source.id);
            {
                // It stands for the same, and its flags stay: so it is changed once, and not taken out and put in.
                let _moved = moved.lockref.lock_nested(lock::DENTRY);
                let _change = moved.seq.change();
                self.dhash.remove(&self.dentries, source.id.0, moved);
                moved.parent.set(to.0);
                self.set_name(source.id.0, (text, new_name), blob);
                moved.key.set(new_name.key(to.0, self.secret));
            }
            // Listed as tmpfs does, so what is left is older than what was moved.
            if let Some(left) = left {
                self.insert_child(from, left, 0);
            }
            self.list_child(to, source.id);
            self.dhash.insert(source.id.0, moved);
            source.follow();
            // Who changes the name next is to tell of it after us, so he waits until we did. But a watch that is made after this
            // look is one of after the move.
            self.notify.is_idle() && source.end_locked()
        };
        if waited_for {
            gate::wake_all(moved);
        }
        if old_long {
            self.names.free(old_blob);
        }
        if across {
            self.dput(from);
        }
    }

    /// Exchanges parents and names of two dentries, neither of which lies below the other.
    ///
    /// The rename lock is held where the parents differ. The reservations go with the dentries.
    ///
    /// Linux: `d_exchange`.
    pub(crate) fn d_exchange(
        &self,
        a: &mut Reserved<'_>,
        b: &mut Reserved<'_>,
        lock: Option<&RenameGuard<'_>>,
    ) {
        let (one, other) = (a.dentry(), b.dentry());
        let (from, to) = (DentryId(one.parent.get()), DentryId(other.parent.get()));
        {
            let _moving = (one.is(DIRECTORY) || other.is(DIRECTORY)).then(|| self.moving());
            let (first, second) = self.parents_in_order(from, to, lock);
            let _first = self.dentry(first).lockref.lock(lock::DENTRY);
            let _second =
                (first != second).then(|| self.dentry(second).lockref.lock_nested(lock::DENTRY));
            let _from = self.dentry(from).children_seq.change();
            let _to = (from != to).then(|| self.dentry(to).children_seq.change());
            self.remove_child(from, a.id, 0);
            self.remove_child(to, b.id, 0);
            // Each had a count of its parent; the counts change hands with the parents.
            let (old, new) = (PlaceInTree::of(one), PlaceInTree::of(other));
            new.give(one);
            old.give(other);
            // In one directory the first is the newest, as in tmpfs.
            self.insert_child(from, b.id, 0);
            self.insert_child(to, a.id, 0);
        }
        a.follow();
        b.follow();
    }

    /// An ancestor before its descendant, else by id. Two directories can be told apart like that only while they keep
    /// their parents.
    fn parents_in_order(
        &self,
        a: DentryId,
        b: DentryId,
        lock: Option<&RenameGuard<'_>>,
    ) -> (DentryId, DentryId) {
        if a == b {
            return (a, b);
        }
        let still = lock.expect("the rename lock is held where the parents differ").still();
        let above = |a, b| self.is_ancestor(a, b, still);
        if above(a, b) || !above(b, a) && a < b { (a, b) } else { (b, a) }
    }
}

impl Dentry {
    fn set_hashed(&self, flags: u32) {
        let _change = self.seq.change();
        self.flags.set(self.flags.get() & !(NEGATIVE | IN_LOOKUP) | HASHED | flags);
    }
}

/// Parent and name of a dentry.
struct PlaceInTree {
    parent: u32,
    key: u64,
    /// A long name's blob goes with it.
    name: [u64; INLINE_WORDS],
}

impl PlaceInTree {
    fn of(dentry: &Dentry) -> Self {
        let name = std::array::from_fn(|word| dentry.name[word].get());
        Self { parent: dentry.parent.get(), key: dentry.key.get(), name }
    }

    /// Gives it to a dentry that is in no table; the length of the name is part of the key.
    fn give(&self, dentry: &Dentry) {
        let _guard = dentry.lockref.lock_nested(lock::DENTRY);
        let _change = dentry.seq.change();
        dentry.parent.set(self.parent);
        dentry.key.set(self.key);
        for (cell, word) in dentry.name.iter().zip(self.name) {
            cell.set(word);
        }
    }
}

/// The flags of a dentry that say what its file system is like.
pub(crate) const KIND: u32 = COMPLETE | PERSISTENT | REVALIDATE | UNNAMED;

const _: () = assert!(KIND & (NEGATIVE | SYMLINK | SEARCH_ALL) == 0);

#[cfg(test)]
pub(super) mod tests {
    use super::{DentryId, IS_ROOT};
    use crate::{
        ended::Moment,
        fs::Found,
        inode::Attr,
        lock,
        mount::rootfs::RootFs,
        vfs::{Config, Vfs},
    };
    use pathwalk_abi::mode::S_IFDIR;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::Relaxed},
        },
        thread,
    };

    /// A directory that is its own parent, in the first superblock.
    pub(in super::super) fn directory(vfs: &Vfs, flags: u32) -> DentryId {
        let sb = vfs.superblock(1).unwrap();
        let attr = Attr { mode: S_IFDIR | 0o755, nlink: 2, ..Attr::default() };
        let found = Found { node: 2, attr, body: None };
        let inode = vfs.iget(&sb, &found, Moment::FRESH).unwrap().unwrap();
        vfs.dentry_root(1, inode, flags).unwrap()
    }

    /// Who takes flags away leaves those of a dead dentry alone, so one that has them must be alive when its lock is given up.
    #[test]
    fn a_root_is_alive_when_it_gets_its_flags() {
        const ROUNDS: u32 = 200_000;
        let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
        let make = || directory(&vfs, 0);
        let free = |id: DentryId| {
            let dentry = vfs.dentry(id);
            {
                let guard = dentry.lockref.lock(lock::DENTRY);
                let _change = dentry.seq.change();
                dentry.flags.set(0);
                assert!(guard.put_and_mark_dead(), "nobody else holds it");
            }
            vfs.dentry_free(id, None);
        };
        let slot = make();
        free(slot);
        let [begun, over, bad] = [(); 3].map(|()| AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let dentry = vfs.dentry(slot);
                begun.store(true, Relaxed);
                while !over.load(Relaxed) {
                    let _guard = dentry.lockref.lock(lock::DENTRY);
                    if dentry.is(IS_ROOT) && dentry.lockref.is_dead() {
                        bad.store(true, Relaxed);
                    }
                }
            });
            while !begun.load(Relaxed) {
                thread::yield_now();
            }
            for _ in 0..ROUNDS {
                let id = make();
                assert_eq!(id, slot, "the slot that was freed last is the next one");
                free(id);
            }
            over.store(true, Relaxed);
        });
        assert!(!bad.into_inner());
    }
}
