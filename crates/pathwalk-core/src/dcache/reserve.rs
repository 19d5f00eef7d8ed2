//! Reserving a name: what an operation holds while the file system is asked, instead of the directory's lock.
//!
//! Rules:
//! 1. A name is reserved by setting `busy` in its dentry, under the parent's lock; a name that has no dentry gets
//!    one. Whoever finds it reserved notes under that lock that he waits, and waits, holding no lock. Once the name leads
//!    nowhere nobody finds it, and its holder needs no lock to end the reservation.
//! 2. Only the holder of the reservation changes what the name stands for, or which name and parent the dentry has. Where
//!    it moves the dentry the reservation goes with it: `busy` is under the new parent's lock then.
//! 3. Who reserves two names (rename) waits for them in the order of (parent, name), so nobody waits in a circle. Who waits,
//!    waits for the name: a dentry that was given another one is waited for no longer.
//! 4. A dentry made for a reservation is IN_LOOKUP until the file system said what the name stands for, unless the
//!    directory is complete: then it stands for nothing, and everybody may see that.
//!    A rename to an absent name of its own complete directory needs no such dentry: the directory notes the name's key as
//!    [`Coming`], one at a time. Who finds a name absent looks there before he makes a dentry for it.
//! 5. Who finds a cached name to be stale invalidates it with the name reserved, and asks once more before.
//! 6. A plain lookup waits only for IN_LOOKUP: so two misses on one name make one call, and a slow unlink does not
//!    hold up those who still see the name.
//!
//! Linux: `d_alloc_parallel`; changing operations hold the directory's `i_rwsem` there.

use super::{
    ABSENT, COMPLETE, DEAD_DIR, Dentry, DentryId, HASHED, IN_LOOKUP, IS_ROOT, NEGATIVE, REVALIDATE,
};
use crate::{
    inode::InodeId,
    lock,
    mount::task_work::TaskWork,
    name::Component,
    vfs::{SuperBlock, Vfs},
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::{Absent, Sample, gate};
use std::mem::ManuallyDrop;

/// What `busy` says: the name is reserved.
const RESERVED: u32 = 1;
/// What `busy` says: it is reserved, and somebody waits for the end of that.
const WAITED_FOR: u32 = 2;

/// What to do with a name that another operation has reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Wait until it is over: the caller wants to change what the name stands for.
    ForChanges,
    /// Wait only until it is known what the name stands for.
    ForLookup,
}

/// A reserved name: the dentry, counted. That counts its parent, which nobody else changes: so the parent is there too.
#[derive(Debug)]
#[must_use = "a reservation that is forgotten blocks its name"]
pub(crate) struct Reserved<'v> {
    vfs: &'v Vfs,
    pub(crate) id: DentryId,
    /// None where the reservation ended with a move: no more than the dentry's count is left of it then.
    parent: DentryId,
    /// This thread lets no file system go while it has a name reserved: what that does then may want the name. There until the
    /// end.
    work: Option<TaskWork<'v>>,
}

/// A name that is absent from a complete directory, reserved for a rename within that. The caller holds the directory.
#[derive(Debug)]
#[must_use = "a reservation that is forgotten blocks its name"]
pub(crate) struct Coming<'v> {
    vfs: &'v Vfs,
    dir: DentryId,
    /// Whether the directory still names it; if not, whether somebody waited.
    noted: bool,
    awaited: bool,
}

/// The name that a rename gives, reserved.
pub(crate) enum Target<'v> {
    /// By its dentry, whatever it stands for.
    Name(Reserved<'v>),
    Absent(Coming<'v>),
}

/// A name that somebody else has reserved: its dentry, counted; the directory's instead where the name is [`Coming`].
///
/// It is the name that is waited for, not the dentry: a rename may give the dentry another name, which somebody else has
/// reserved by then, who may be waiting for us (rule 3 orders names).
#[derive(Debug)]
#[must_use = "a name is busy until it was waited for"]
pub(crate) struct Busy<'v> {
    vfs: &'v Vfs,
    id: DentryId,
    parent: DentryId,
    key: u64,
}

/// A name that was reserved, and may be again while it stands for the same: its dentry, counted.
#[derive(Debug)]
pub(crate) struct LetGo<'v> {
    vfs: &'v Vfs,
    id: DentryId,
    /// From when it was reserved: only who has it reserved changes what it stands for.
    seq: Sample,
}

/// What came of reserving a name again.
pub(crate) enum Again<'v> {
    /// It stands for what it stood for.
    Reserved(Reserved<'v>),
    /// Somebody else has it reserved.
    Busy(Busy<'v>),
    /// It may stand for something else by now.
    Changed,
}

/// What came of trying to reserve the name of a dentry, or to do what is done as if it were.
pub(crate) enum Tried<'v, R = Reserved<'v>> {
    /// Nobody had it reserved.
    Free(R),
    Busy(Busy<'v>),
    /// No name leads to it any more.
    Nameless,
    /// A root has no name, and cannot be removed.
    Root,
}

/// A name, looked up for good.
pub(crate) enum LookedUp<'v> {
    /// Somebody knew it: the dentry, counted.
    Known(DentryId),
    /// Nobody knew it: the caller asks the file system.
    Ask(Reserved<'v>),
}

impl<'v> Reserved<'v> {
    fn new(vfs: &'v Vfs, id: DentryId, parent: DentryId) -> Self {
        Self { vfs, id, parent, work: Some(vfs.task_work()) }
    }

    pub(crate) fn dentry(&self) -> &'v Dentry {
        self.vfs.dentry(self.id)
    }

    /// What the name stands for.
    pub(crate) fn inode(&self) -> Option<InodeId> {
        let inode = InodeId(self.dentry().inode.get());
        (inode != InodeId::NONE).then_some(inode)
    }

    /// The name, if it stands for something.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: it does not.
    pub(crate) fn that_is_there(self) -> Result<Self> {
        if self.inode().is_some() { Ok(self) } else { Err(Errno::ENOENT) }
    }

    /// Whether the file system has yet to be asked.
    pub(crate) fn unknown(&self) -> bool {
        self.dentry().is(IN_LOOKUP)
    }

    /// Goes with the dentry to the parent that it was moved to: `busy` is under that one's lock from now on.
    pub(super) fn follow(&mut self) {
        self.parent = DentryId(self.dentry().parent.get());
    }

    /// Whether the reservation ended with a move: the name may be another's by now.
    pub(crate) fn has_ended(&self) -> bool {
        self.parent == DentryId::NONE
    }

    /// Ends the reservation of a name that stands for something, of who has the directory's lock; says whether somebody waits for
    /// that, who is to be woken behind the lock. The dentry stays counted.
    #[must_use = "who waits is woken"]
    pub(super) fn end_locked(&mut self) -> bool {
        let dentry = self.dentry();
        debug_assert!(!dentry.is(NEGATIVE | IN_LOOKUP), "it would be taken out");
        self.parent = DentryId::NONE;
        let waited_for = dentry.busy.get() == WAITED_FOR;
        dentry.busy.set(0);
        waited_for
    }

    /// Ends the reservation, to take it up again.
    pub(crate) fn let_go(self) -> LetGo<'v> {
        LetGo { vfs: self.vfs, id: self.hold(), seq: self.dentry().seq.sample() }
    }

    /// One more count of the dentry, for after the reservation.
    pub(crate) fn hold(&self) -> DentryId {
        self.vfs.dget(self.id);
        self.id
    }
}

impl Reserved<'_> {
    /// Ends the reservation of who has the superblock at hand.
    pub(crate) fn end(self, sb: &SuperBlock) {
        let mut name = ManuallyDrop::new(self);
        let _work = name.work.take();
        name.give_up(Some(sb));
    }

    fn give_up(&self, sb: Option<&SuperBlock>) {
        if self.has_ended() {
            return self.vfs.dput_of(self.id, sb);
        }
        let dentry = self.dentry();
        let parent = self.vfs.dentry(self.parent);
        let (flags, waited_for) = {
            // Where the name leads nowhere any more, nobody finds it reserved: who did has noted that he waits before it was taken
            // out, under this lock.
            let hashed = dentry.is(HASHED);
            let _parent = hashed.then(|| parent.lockref.lock(lock::DENTRY));
            debug_assert_eq!(dentry.parent.get(), self.parent.0, "only the holder moves it");
            let waited_for = dentry.busy.get() == WAITED_FOR;
            dentry.busy.set(0);
            let flags = dentry.flags.get();
            // Nobody said what it stands for, or nobody needs to be told that it stands for nothing.
            let stale = flags & IN_LOOKUP != 0 || flags & NEGATIVE != 0 && parent.is(COMPLETE);
            if stale {
                self.vfs.unhash_locked(self.parent, self.id);
            }
            (flags, waited_for)
        };
        if waited_for {
            gate::wake_all(dentry);
        }
        self.vfs.dput_of(self.id, sb);
        if flags & ABSENT != 0 {
            self.vfs.trim_absent();
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.give_up(None);
    }
}

impl Coming<'_> {
    /// Ends the reservation of who has the directory's lock: the name leads to something by now, or is given up.
    pub(super) fn end_locked(&mut self) {
        let directory = self.vfs.dentry(self.dir);
        self.noted = false;
        self.awaited = directory.coming_awaited.get() != 0;
        directory.coming.set(0);
        directory.coming_awaited.set(0);
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let directory = self.vfs.dentry(self.dir);
        if self.noted {
            let _directory = directory.lockref.lock(lock::DENTRY);
            self.end_locked();
        }
        if self.awaited {
            gate::wake_all(directory);
        }
    }
}

impl<'v> Target<'v> {
    /// The dentry that has the name.
    pub(crate) fn name(&self) -> Option<&Reserved<'v>> {
        match self {
            Self::Name(name) => Some(name),
            Self::Absent(_) => None,
        }
    }
}

impl<'v> LetGo<'v> {
    /// Reserves the name again, if nobody else has it and it stands for the same. It waits for nobody.
    pub(crate) fn reserve_again(self) -> Again<'v> {
        match self.vfs.try_reserve_held(self.id) {
            Tried::Free(name) if name.dentry().seq.unchanged(self.seq) => Again::Reserved(name),
            Tried::Busy(busy) => Again::Busy(busy),
            Tried::Free(_) | Tried::Nameless | Tried::Root => Again::Changed,
        }
    }
}

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.vfs.dput(self.id);
    }
}

impl<'v> Busy<'v> {
    /// Notes that somebody waits for a name, with that key, that another has reserved: the dentry counted by the caller, who
    /// has the lock of the parent.
    fn locked(vfs: &'v Vfs, (id, parent): (DentryId, DentryId), key: u64) -> Self {
        let dentry = vfs.dentry(id);
        if dentry.busy.get() != 0 {
            dentry.busy.set(WAITED_FOR);
        }
        Self { vfs, id, parent, key }
    }

    /// As [`Busy::locked`], of a name that comes to a directory, which the caller holds.
    fn coming_locked(vfs: &'v Vfs, parent: DentryId, key: u64) -> Self {
        let directory = vfs.dentry(parent);
        directory.lockref.get();
        directory.coming_awaited.set(1);
        Self { vfs, id: parent, parent, key }
    }

    /// Waits until the name is no longer reserved, holding nothing but the dentry's count.
    pub(crate) fn wait(self) {
        self.wait_for(Wait::ForChanges);
    }

    #[cold]
    fn wait_for(self, what: Wait) {
        let dentry = self.vfs.dentry(self.id);
        gate::wait(dentry, || {
            if self.id == self.parent {
                // As below; what comes there is known to be absent until then, so nobody waits for a lookup of it.
                return dentry.coming.get() == self.key && dentry.coming_awaited.get() != 0;
            }
            let same_name = dentry.parent.get() == self.parent.0 && dentry.key.get() == self.key;
            // A later reservation, that nobody waits for yet, does not wake us.
            let reserved = dentry.busy.get() == WAITED_FOR && same_name;
            match what {
                Wait::ForChanges => reserved,
                Wait::ForLookup => reserved && dentry.is(IN_LOOKUP),
            }
        });
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.vfs.dput(self.id);
    }
}

impl Vfs {
    /// Refuses what no directory can have as a name.
    ///
    /// # Errors
    ///
    /// - `ENAMETOOLONG`, or what the file system says: it has more than 255 bytes. `EINVAL`: one of them is NUL.
    fn must_be_a_name(&self, parent: DentryId, text: &[u8], name: &Component) -> Result<()> {
        if name.too_long() {
            let sb = self.superblock(self.dentry(parent).sb.get());
            return Err(sb.map_or(Errno::ENAMETOOLONG, |sb| sb.fs.long_name()));
        }
        if name.has_nul(text) { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Looks a name up below a directory that the caller holds, or reserves it for asking the file system.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the directory was removed, or it is complete and has no such name.
    /// - `ENAMETOOLONG`: the name has more than 255 bytes. `EINVAL`: one of them is NUL.
    /// - `ENOMEM`: the dentry table is full.
    pub(crate) fn lookup_or_reserve(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Result<LookedUp<'_>> {
        let directory = self.dentry(parent);
        let key = name.key(parent.0, self.secret);
        loop {
            let guard = directory.lockref.lock(lock::DENTRY);
            if directory.is(DEAD_DIR) {
                return Err(Errno::ENOENT);
            }
            self.must_be_a_name(parent, text, name)?;
            match self.d_lookup_locked(parent, text, name) {
                Some(id) => {
                    let dentry = self.dentry(id);
                    dentry.lockref.get_locked();
                    if !dentry.is(IN_LOOKUP) {
                        return Ok(LookedUp::Known(id));
                    }
                    let busy = Busy::locked(self, (id, parent), key);
                    drop(guard);
                    busy.wait_for(Wait::ForLookup);
                }
                None if directory.is(COMPLETE) => return Err(Errno::ENOENT),
                None => {
                    drop(guard);
                    if let Some(reserved) = self.reserve_new(parent, text, name, None)? {
                        return Ok(LookedUp::Ask(reserved));
                    }
                }
            }
        }
    }

    /// Reserves a name below a directory that the caller holds.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the directory was removed.
    /// - `ENAMETOOLONG`: the name has more than 255 bytes. `EINVAL`: one of them is NUL.
    /// - `ENOMEM`: the dentry table is full.
    pub(crate) fn reserve(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Result<Reserved<'_>> {
        loop {
            match self.reserve_or_busy(parent, text, name)? {
                Ok(reserved) => return Ok(reserved),
                Err(busy) => busy.wait(),
            }
        }
    }

    /// As [`Vfs::reserve`], unless somebody else has it: for who may not wait.
    ///
    /// # Errors
    ///
    /// As [`Vfs::reserve`].
    pub(crate) fn reserve_or_busy(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
    ) -> Result<std::result::Result<Reserved<'_>, Busy<'_>>> {
        let directory = self.dentry(parent);
        let key = name.key(parent.0, self.secret);
        let children = directory.children_seq.sample();
        let hint = match self.d_lookup_hint(parent, text, name) {
            Absent::Found(id) => Some(id),
            absent => {
                let absent = matches!(absent, Absent::Sure).then_some(children);
                if !directory.is(DEAD_DIR)
                    && self.must_be_a_name(parent, text, name).is_ok()
                    && let Some(reserved) = self.reserve_new(parent, text, name, absent)?
                {
                    return Ok(Ok(reserved));
                }
                None
            }
        };
        loop {
            let guard = directory.lockref.lock(lock::DENTRY);
            if directory.is(DEAD_DIR) {
                return Err(Errno::ENOENT);
            }
            if name.too_long() {
                self.must_be_a_name(parent, text, name)?;
            }
            if let Some(id) = self.d_lookup_hinted(hint, parent, text, name) {
                let dentry = self.dentry(id);
                dentry.lockref.get_locked();
                if dentry.busy.get() != 0 {
                    return Ok(Err(Busy::locked(self, (id, parent), key)));
                }
                dentry.busy.set(RESERVED);
                return Ok(Ok(Reserved::new(self, id, parent)));
            }
            self.must_be_a_name(parent, text, name)?;
            if directory.coming.get() == key {
                return Ok(Err(Busy::coming_locked(self, parent, key)));
            }
            drop(guard);
            if let Some(reserved) = self.reserve_new(parent, text, name, None)? {
                return Ok(Ok(reserved));
            }
        }
    }

    /// Reserves two names of a complete directory, which the caller holds: one that is there, and one that is absent, without a
    /// dentry for that. None where they are not so, or not to be had at once: nobody is waited for, so they have no order.
    pub(crate) fn reserve_to_move(
        &self,
        parent: DentryId,
        (old_text, old): (&[u8], &Component),
        (new_text, new): (&[u8], &Component),
    ) -> Option<(Reserved<'_>, Coming<'_>)> {
        let directory = self.dentry(parent);
        if !directory.is(COMPLETE) {
            return None;
        }
        let children = directory.children_seq.sample();
        let Absent::Found(id) = self.d_lookup_hint(parent, old_text, old) else { return None };
        let Absent::Sure = self.d_lookup_hint(parent, new_text, new) else { return None };
        self.must_be_a_name(parent, new_text, new).ok()?;
        let dentry = self.dentry(id);
        let _directory = directory.lockref.lock(lock::DENTRY);
        let free = directory.coming.get() == 0
            && !directory.is(DEAD_DIR)
            && directory.children_seq.unchanged(children)
            && self.leads_to(id, parent, old_text, old)
            && !dentry.is(NEGATIVE | IN_LOOKUP | REVALIDATE)
            && dentry.busy.get() == 0;
        if !free {
            return None;
        }
        dentry.lockref.get_locked();
        dentry.busy.set(RESERVED);
        directory.coming.set(new.key(parent.0, self.secret));
        let coming = Coming { vfs: self, dir: parent, noted: true, awaited: false };
        Some((Reserved::new(self, id, parent), coming))
    }

    /// Does something with a dentry that the caller holds while nobody has its name reserved, under the lock of its directory.
    pub(crate) fn while_not_reserved(&self, id: DentryId, f: impl FnOnce()) -> Tried<'_, ()> {
        let dentry = self.dentry(id);
        if dentry.is(IS_ROOT) {
            return Tried::Root;
        }
        loop {
            // The directory is not counted, so its slot may be another's by now: then the dentry has another parent.
            let parent = DentryId(dentry.parent.get());
            let _guard = self.dentry(parent).lockref.lock(lock::DENTRY);
            if dentry.parent.get() != parent.0 {
                continue;
            }
            if !dentry.is(HASHED) {
                return Tried::Nameless;
            }
            if dentry.busy.get() != 0 {
                dentry.lockref.get();
                return Tried::Busy(Busy::locked(self, (id, parent), dentry.key.get()));
            }
            f();
            return Tried::Free(());
        }
    }

    /// Reserves the name of a dentry that the caller holds, unless somebody else has: for who may not wait.
    pub(crate) fn try_reserve_held(&self, id: DentryId) -> Tried<'_> {
        let dentry = self.dentry(id);
        if dentry.is(IS_ROOT) {
            return Tried::Root;
        }
        loop {
            let parent = self.dget_parent(id);
            let guard = self.dentry(parent).lockref.lock(lock::DENTRY);
            if dentry.parent.get() == parent.0 {
                let hashed = dentry.is(HASHED);
                if hashed {
                    dentry.lockref.get_locked();
                }
                let tried = if !hashed {
                    Tried::Nameless
                } else if dentry.busy.get() == 0 {
                    dentry.busy.set(RESERVED);
                    Tried::Free(Reserved::new(self, id, parent))
                } else {
                    Tried::Busy(Busy::locked(self, (id, parent), dentry.key.get()))
                };
                drop(guard);
                self.dput(parent);
                return tried;
            }
            drop(guard);
            self.dput(parent);
        }
    }

    /// Makes a reserved dentry for a name that has none; none where somebody else was faster. With `absent` the name was surely
    /// absent while the directory's children were as they were then.
    fn reserve_new(
        &self,
        parent: DentryId,
        text: &[u8],
        name: &Component,
        absent: Option<Sample>,
    ) -> Result<Option<Reserved<'_>>> {
        let id = self.dentry_alloc(parent, text, name)?;
        let directory = self.dentry(parent);
        let guard = directory.lockref.lock(lock::DENTRY);
        let still_absent = absent
            .is_some_and(|children| directory.children_seq.unchanged(children))
            || self.d_lookup_locked(parent, text, name).is_none();
        let dentry = self.dentry(id);
        // Who is told that somebody was faster looks again, and finds that it is coming. One that is not complete has none.
        let coming = directory.coming.get() == dentry.key.get();
        if directory.is(DEAD_DIR) || !still_absent || coming {
            drop(guard);
            self.dput(id);
            return Ok(None);
        }
        dentry.busy.set(RESERVED);
        let unknown = if directory.is(COMPLETE) { 0 } else { IN_LOOKUP };
        self.hash_locked(parent, id, NEGATIVE | unknown);
        drop(guard);
        Ok(Some(Reserved::new(self, id, parent)))
    }
}
