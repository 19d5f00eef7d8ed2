//! Finding a name: without holding anything, and for sure.
//!
//! Linux: `__d_lookup_rcu`, `__d_lookup`.

use super::{COMPLETE, Dentry, DentryId, HASHED};
use crate::{
    name::{Component, Secret, has_nul},
    vfs::Vfs,
};
use pathwalk_sync::{Absent, Chain, Sample, Slots, View};
use std::num::NonZeroU32;

/// A dentry as a reader that holds nothing saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) id: DentryId,
    pub(crate) seq: Sample,
    pub(crate) flags: u32,
}

/// How often a reader asks again for a sure miss before it takes the parent's lock.
const TRIES: u32 = 4;

/// What a walk looks at again and again, to be kept in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) dentries: Slots<'a, Dentry>,
    view: View<'a>,
    pub(crate) secret: Secret,
}

impl<'a> Tables<'a> {
    /// Says that a child is about to be looked for.
    #[inline(always)]
    pub(crate) fn expect(&self, child: &Dentry) {
        self.view.prefetch(child.key.get());
    }

    /// Says that a name is about to be looked for.
    #[inline(always)]
    pub(crate) fn expect_name(&self, parent: DentryId, name: &Component) {
        self.view.prefetch(name.key(parent.0, self.secret));
    }

    /// The chain of a key.
    #[inline(always)]
    pub(crate) fn chain(self, key: u64) -> Chain<'a, Dentry> {
        self.view.chain(self.dentries, key)
    }

    /// Looks along the chain of a key for the one below that parent.
    #[inline(always)]
    fn search(self, parent: DentryId, key: u64, is_it: impl Fn(&Dentry) -> bool) -> Option<Seen> {
        search(self.chain(key), parent, key, is_it)
    }
}

/// Looks along a chain, or the rest of one, for the one below that parent.
#[inline(always)]
fn search(
    mut chain: Chain<'_, Dentry>,
    parent: DentryId,
    key: u64,
    is_it: impl Fn(&Dentry) -> bool,
) -> Option<Seen> {
    while let Some((id, dentry)) = chain.slot() {
        if let Some(seen) = seen(id, dentry, parent, key, &is_it) {
            return Some(seen);
        }
        chain.go_on(dentry);
    }
    None
}

impl Dentry {
    /// Whether it is the one of a short name below that parent; a guess until it is checked.
    #[inline(always)]
    pub(crate) fn is_called(&self, parent: DentryId, key: u64, name: &Component) -> bool {
        self.key.get() == key && self.parent.get() == parent.0 && name.words_are_in(&self.name)
    }

    /// Whether these are the first two words of its name.
    #[inline(always)]
    fn has_words(&self, first: u64, second: u64) -> bool {
        self.name[0].get() == first && self.name[1].get() == second
    }

    /// Whether the directory, which is what it was when it was sampled, has no child of a name, as a search of all its children says.
    #[inline(always)]
    fn has_none(&self, seq: Sample, is_in_no_chain: impl FnOnce() -> bool) -> bool {
        let children = self.children_seq.sample();
        self.is(COMPLETE)
            && is_in_no_chain()
            && self.children_seq.unchanged(children)
            && self.seq.unchanged(seq)
    }
}

/// One entry of a chain: what it is if it is the one. It may have been unhashed meanwhile: its flags say so.
#[inline(always)]
fn seen(
    id: u32,
    dentry: &Dentry,
    parent: DentryId,
    key: u64,
    is_it: impl Fn(&Dentry) -> bool,
) -> Option<Seen> {
    let seq = dentry.seq.sample();
    let same = dentry.key.get() == key && dentry.parent.get() == parent.0 && is_it(dentry);
    // Where it had no memory when it was sampled it may have none again when that is checked.
    let is_one = same && seq != Sample::NONE;
    is_one.then(|| Seen { id: DentryId(id), seq, flags: dentry.flags.get() })
}

impl Vfs {
    /// The tables as they are now.
    #[inline(always)]
    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables { dentries: self.dentries.slots(), view: self.dhash.view(), secret: self.secret }
    }

    /// Looks for a name without holding anything. What is found is true if the sample still holds later; a miss is
    /// a hint.
    #[inline(always)]
    pub(crate) fn d_lookup_rcu(
        &self,
        tables: Tables<'_>,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Option<Seen> {
        let key = name.key(parent.0, tables.secret);
        if !name.is_short() {
            // None is called what no file system has.
            let may_be = !name.too_long();
            return may_be.then(|| self.d_lookup_long(parent, key, text, name.start)).flatten();
        }
        tables.search(parent, key, |dentry| name.is_in(&dentry.name))
    }

    /// Looks for a short name behind a dentry that was met in its chain: a guess, as that one may be in another chain by now. All comes and
    /// goes in registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn search_behind(
        &self,
        from: &Dentry,
        parent: DentryId,
        key: u64,
        first: u64,
        second: u64,
    ) -> Option<(NonZeroU32, Sample)> {
        let chain = Chain::behind(self.dentries.slots(), from);
        let seen = search(chain, parent, key, |dentry| dentry.has_words(first, second))?;
        NonZeroU32::new(seen.id.0).map(|id| (id, seen.seq))
    }

    /// Looks for a name that is not short and begins at `start`; its key knows its length. All comes in registers: so who looks for a name keeps
    /// what he has there, and looks at the tables anew.
    #[cold]
    #[inline(never)]
    fn d_lookup_long(&self, parent: DentryId, key: u64, text: &[u8], start: usize) -> Option<Seen> {
        let name = text.get(start..)?.get(..usize::from(key as u8))?;
        self.tables().search(parent, key, |dentry| self.name_is(dentry, name))
    }

    /// One entry of a chain, as [`seen`], by a name of any length.
    #[inline(always)]
    fn compare(
        &self,
        id: u32,
        dentry: &Dentry,
        parent: DentryId,
        key: u64,
        text: &[u8],
        name: &Component,
    ) -> Option<Seen> {
        seen(id, dentry, parent, key, |dentry| {
            name.is_in(&dentry.name) || !name.is_short() && self.name_is(dentry, name.bytes(text))
        })
    }

    /// Says whether a name that was not found is known not to exist: its directory is complete, its set of
    /// children did not change during the search, and the search was not led astray.
    ///
    /// The caller checks the parent's sequence count afterwards.
    #[inline(always)]
    pub(crate) fn surely_absent(
        &self,
        secret: Secret,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Option<Sample> {
        let key = name.key(parent.0, secret);
        if !name.is_short() {
            return self.surely_absent_long(parent, key, text, name.start);
        }
        self.search_surely(parent, key, |dentry| name.is_in(&dentry.name))
    }

    /// As [`Vfs::surely_absent`], of a name that is not short and begins at `start`; its key knows its length.
    #[cold]
    #[inline(never)]
    fn surely_absent_long(
        &self,
        parent: DentryId,
        key: u64,
        text: &[u8],
        start: usize,
    ) -> Option<Sample> {
        let name = text.get(start..)?.get(..usize::from(key as u8))?;
        self.search_surely(parent, key, |dentry| self.name_is(dentry, name))
    }

    /// Whether a short name whose chain seems to be empty is known not to exist in a directory, which is what it was when it was sampled. All
    /// comes in registers, word by word: what is put into memory so and read as one waits there.
    #[inline(never)]
    pub(crate) fn is_absent(
        &self,
        directory: &Dentry,
        seq: Sample,
        key: u64,
        first: u64,
        second: u64,
    ) -> bool {
        // First, as the words' registers are wanted.
        !has_nul([first, second], usize::from(key as u8))
            && directory.has_none(seq, || self.dhash.is_surely_empty(key))
    }

    /// As [`Vfs::is_absent`], where the name's chain has others. Whatever has the same key decides nothing: two names in 2⁵⁶ share one.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_absent_beside_others(
        &self,
        directory: &Dentry,
        seq: Sample,
        key: u64,
        first: u64,
        second: u64,
    ) -> bool {
        let seems_called_so = |_, dentry: &Dentry| (dentry.key.get() == key).then_some(());
        let search = || self.dhash.find_sure(&self.dentries, key, seems_called_so);
        !has_nul([first, second], usize::from(key as u8))
            && directory.has_none(seq, || matches!(search(), Absent::Sure))
    }

    #[inline(always)]
    fn search_surely(
        &self,
        parent: DentryId,
        key: u64,
        is_it: impl Fn(&Dentry) -> bool,
    ) -> Option<Sample> {
        let directory = self.dentry(parent);
        for _ in 0..TRIES {
            let children = directory.children_seq.sample();
            if !directory.is(COMPLETE) {
                return None;
            }
            let found = self
                .dhash
                .find_sure(&self.dentries, key, |id, dentry| seen(id, dentry, parent, key, &is_it));
            match found {
                // It came meanwhile, or it is there without standing for anything: not for us to say.
                Absent::Found(_) => return None,
                Absent::Sure if directory.children_seq.unchanged(children) => {
                    return Some(children);
                }
                Absent::Sure | Absent::Unsure => std::hint::spin_loop(),
            }
        }
        None
    }

    /// What seems to be cached of a name: nobody is asked, and it may change at once. That it is surely absent is true while
    /// the parent's set of children is as it was before the call.
    pub(crate) fn d_lookup_hint(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Absent<DentryId> {
        let key = name.key(parent.0, self.secret);
        self.dhash.find_sure(&self.dentries, key, |id, dentry| {
            self.compare(id, dentry, parent, key, text, name).map(|seen| seen.id)
        })
    }

    /// Looks for a name that seemed to be that dentry's; the caller holds the parent's lock, so the answer is exact.
    pub(crate) fn d_lookup_hinted(
        &self,
        hint: Option<DentryId>,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Option<DentryId> {
        let still = |id: &DentryId| self.leads_to(*id, parent, text, name);
        hint.filter(still).or_else(|| self.d_lookup_locked(parent, text, name))
    }

    /// Whether a name leads to that dentry; the caller holds the parent's lock, so the answer is exact.
    pub(crate) fn leads_to(
        &self,
        id: DentryId,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> bool {
        let (dentry, key) = (self.dentry(id), name.key(parent.0, self.secret));
        // The parent's lock keeps its children in their chains. Whether it is a child is for its own count to say: the slot may
        // be another directory's, and change hands.
        let same = self.compare(id.0, dentry, parent, key, text, name);
        same.is_some_and(|seen| seen.flags & HASHED != 0 && dentry.seq.unchanged(seen.seq))
    }

    /// Looks for a name; the caller holds the parent's lock, so the answer is exact.
    pub(crate) fn d_lookup_locked(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Option<DentryId> {
        let key = name.key(parent.0, self.secret);
        self.dhash
            .find_locked(&self.dentries, key, |id, dentry| {
                self.compare(id, dentry, parent, key, text, name)
            })
            .map(|seen| seen.id)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(debug_assertions)]
    use crate::road;
    use crate::{
        cred::Cred,
        dcache::{COMPLETE, HASHED, change::tests::directory},
        lock,
        mount::{NsId, rootfs::RootFs},
        name::{Component, scan},
        task::Task,
        vfs::{Config, Vfs},
    };
    use pathwalk_abi::{AccessMode, Errno};
    use pathwalk_sync::Sample;
    use std::sync::Arc;

    #[test]
    fn nothing_is_absent_beside_others_while_somebody_is_at_its_chain() {
        let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
        // All its children are in the table.
        let root = directory(&vfs, COMPLETE);
        let parent = vfs.dentry(root);
        let name = |text: &str| scan(text.as_bytes(), 0, vfs.secret);
        let child = vfs.dentry_alloc(root, b"child", &name("child")).unwrap();
        {
            let _parent = parent.lockref.lock(lock::DENTRY);
            vfs.hash_locked(root, child, vfs.dentry(child).flags.get());
        }
        let absent = |name: &Component| {
            let (key, [first, second]) = (name.key(root.0, vfs.secret), name.words());
            vfs.is_absent_beside_others(parent, parent.seq.sample(), key, first, second)
        };
        // Another name that would be in the child's chain.
        let beside = |name: &Component, f: &dyn Fn()| {
            let key = name.key(root.0, vfs.secret);
            let met = |id, _: &_| (id == child.0).then(f);
            vfs.dhash.find_locked(&vfs.dentries, key, met).is_some()
        };
        let other = (0..10_000_000)
            .map(|number| name(&number.to_string()))
            .find(|name| beside(name, &|| {}));
        let other = other.expect("one in so many thousands");
        assert!(absent(&other));
        assert!(!absent(&name("child")));
        assert!(beside(&other, &|| assert!(!absent(&other), "somebody has the chain locked")));
        {
            let _children = parent.children_seq.change();
            assert!(!absent(&other), "a child comes or goes");
        }
        let before = parent.seq.sample();
        parent.seq.invalidate();
        let (key, [first, second]) = (other.key(root.0, vfs.secret), other.words());
        assert!(!vfs.is_absent_beside_others(parent, before, key, first, second), "it has moved");
        {
            let _parent = parent.lockref.lock(lock::DENTRY);
            vfs.unhash_locked(root, child);
        }
        vfs.dput(child);
        vfs.dput(root);
    }

    /// Who is led to a slot without memory samples what comes again where its memory goes again: whatever it held between is no hit.
    #[test]
    fn what_gives_no_sample_is_no_hit_on_any_road() {
        type Road = fn(&Task, &str) -> Result<(), Errno>;
        let roads: [Road; 3] = [
            |task, path| task.access(path, AccessMode::empty()),
            |task, path| task.stat(path).map(drop),
            |task, path| {
                #[cfg(debug_assertions)]
                road::take(Some(road::Road { at: road::NEVER, how: road::How::Unlazy }));
                let answer = task.stat(path).map(drop);
                #[cfg(debug_assertions)]
                road::take(None);
                answer
            },
        ];
        for (walk, long) in roads.into_iter().flat_map(|walk| [(walk, false), (walk, true)]) {
            let text = if long { "a-name-that-lies-elsewhere-because-it-is-long" } else { "f" };
            let vfs = Vfs::new(Config::default(), Arc::new(RootFs)).unwrap();
            let task = vfs.task(Cred::root());
            let (mnt, root) = vfs.hold_ns_root(NsId::INIT);
            let name = scan(text.as_bytes(), 0, vfs.secret);
            // As a name, in the state of which the count is none's.
            let id = vfs.dentries.high_water() + 1000;
            let dentry = vfs.dentries.get(id);
            dentry.flags.set(HASHED);
            dentry.parent.set(root.0);
            dentry.inode.set(vfs.dentry(root).inode.get());
            dentry.key.set(name.key(root.0, vfs.secret));
            if long {
                dentry.name[0].set(vfs.names.store(text.as_bytes()).unwrap().into());
            } else {
                name.write_to(text.as_bytes(), &dentry.name);
            }
            vfs.dhash.insert(id, dentry);
            assert_eq!(dentry.seq.sample(), Sample::NONE);
            assert_eq!(walk(&task, &format!("/{text}")), Err(Errno::ENOENT), "{text}");
            {
                let _change = dentry.seq.change();
            }
            let found = vfs
                .tables()
                .search(root, dentry.key.get(), |other| other.key.get() == dentry.key.get());
            assert!(found.is_some(), "one of them is there");
            vfs.dhash.remove(&vfs.dentries, id, dentry);
            vfs.dput(root);
            vfs.mntput(mnt);
        }
    }
}
