//! Marks: who watches which inode for what.
//!
//! Invariants:
//! - `I_WATCHED` is in an inode's flags while it has marks, and each of them holds a count of it.
//! - A mark's count is known by superblock until it was given back: an unmount waits for that.
//! - All here is under one mutex, of rank [`lock::NOTIFY`]; queues are filled under it, so that an event is in all queues
//!   before the next one is in any.
//!
//! Linux: `struct fsnotify_mark`, `struct inotify_inode_mark`; `inotify_update_watch`, `fsnotify_destroy_mark`.

use super::{
    group::Group,
    inotify::{Event, InotifyLimits},
};
use crate::{
    inode::{I_WATCHED, InodeId},
    lock,
    vfs::Vfs,
};
use parking_lot::{Mutex, MutexGuard};
use pathwalk_abi::{Errno, InotifyMask, Result};
use pathwalk_sync::{
    Cell32,
    lock_order::{self, Held},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    task::Waker,
};

/// All watches of a machine.
#[derive(Default)]
pub(crate) struct Notify {
    live: Live,
    next_cookie: Cell32,
    marks: Mutex<Marks>,
}

/// How many marks there are. On a line of its own: every call looks at it.
#[derive(Default)]
#[repr(align(64))]
struct Live(Cell32);

#[derive(Default)]
struct Marks {
    of_inode: HashMap<InodeId, Vec<Mark>>,
    of_sb: HashMap<u32, OfSb>,
    /// By group and watch.
    by_wd: BTreeMap<(u64, i32), InodeId>,
    /// By user.
    used: HashMap<u32, Used>,
    last_group: u64,
}

/// What is watched of a file system.
#[derive(Default)]
struct OfSb {
    /// Those that have marks.
    inodes: HashSet<InodeId>,
    /// How many counts of its inodes marks hold, or held and have not given back yet.
    counts: u32,
}

/// A watch on an inode.
struct Mark {
    group: Arc<Group>,
    wd: i32,
    mask: InotifyMask,
}

/// What a user has.
#[derive(Clone, Copy, Default)]
struct Used {
    instances: u32,
    watches: u32,
}

/// An event, to those who watch an inode.
#[derive(Clone, Copy)]
pub(super) struct Told<'n> {
    pub(super) inode: InodeId,
    pub(super) mask: InotifyMask,
    pub(super) name: &'n [u8],
    pub(super) cookie: u32,
    /// It was done with an open file that has lost its name.
    pub(super) unlinked: bool,
}

/// What is left to be done when the marks' lock is given up.
#[derive(Default)]
struct After {
    woken: Vec<Waker>,
    released: Vec<Released>,
}

/// An inode, with a count that a mark held, and its superblock.
struct Released {
    inode: InodeId,
    sb: u32,
}

/// The marks' lock, held.
struct MarksGuard<'a> {
    marks: MutexGuard<'a, Marks>,
    _held: Held,
}

impl Notify {
    /// Whether nobody watches anything: what every call asks.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.live.0.get() == 0
    }

    /// A number that joins two events.
    pub(super) fn cookie(&self) -> u32 {
        self.next_cookie.add(1).wrapping_add(1)
    }

    /// Whether marks hold inodes of a superblock, or held some that are not given back yet.
    pub(super) fn holds_of(&self, sb: u32) -> bool {
        self.lock().marks.of_sb.contains_key(&sb)
    }

    fn lock(&self) -> MarksGuard<'_> {
        let held = lock_order::acquire(lock::NOTIFY, false);
        MarksGuard { marks: self.marks.lock(), _held: held }
    }

    /// Makes a queue.
    ///
    /// # Errors
    ///
    /// `EMFILE`: the user has as many as allowed.
    pub(super) fn new_group(&self, uid: u32, limits: &InotifyLimits) -> Result<Arc<Group>> {
        let mut guard = self.lock();
        let marks = &mut *guard.marks;
        let used = marks.used.entry(uid).or_default();
        if used.instances >= limits.max_user_instances {
            return Err(Errno::EMFILE);
        }
        used.instances += 1;
        marks.last_group += 1;
        let max_events = limits.max_queued_events as usize;
        Ok(Arc::new(Group::new(marks.last_group, uid, max_events)))
    }
}

impl Marks {
    /// A count of an inode of that superblock was given back.
    fn gave_back(&mut self, sb: u32) {
        let of_sb = self.of_sb.get_mut(&sb).expect("the count of a mark is counted");
        of_sb.counts -= 1;
        if of_sb.counts == 0 {
            self.of_sb.remove(&sb);
        }
    }

    /// A user has less.
    fn uses_less(&mut self, uid: u32, less: impl FnOnce(&mut Used)) {
        let used = self.used.get_mut(&uid).expect("groups and watches are counted");
        less(used);
        if (used.instances, used.watches) == (0, 0) {
            self.used.remove(&uid);
        }
    }
}

/// What of a mask is kept in a mark.
const KEPT: InotifyMask =
    InotifyMask::ALL_EVENTS.union(InotifyMask::EXCL_UNLINK).union(InotifyMask::ONESHOT);

impl Vfs {
    /// Watches an inode that the caller holds, or changes what is watched for; returns the watch.
    ///
    /// # Errors
    ///
    /// - `EEXIST`: `IN_MASK_CREATE`, and it is watched.
    /// - `ENOSPC`: the user has as many watches as allowed.
    pub(super) fn update_watch(
        &self,
        group: &Arc<Group>,
        inode: InodeId,
        mask: InotifyMask,
    ) -> Result<i32> {
        let mut guard = self.notify.lock();
        let Marks { of_inode, of_sb, by_wd, used, .. } = &mut *guard.marks;
        let kept = mask & KEPT;
        let mut on_inode = of_inode.get_mut(&inode).into_iter().flatten();
        if let Some(mark) = on_inode.find(|mark| mark.group.number == group.number) {
            if mask.contains(InotifyMask::MASK_CREATE) {
                return Err(Errno::EEXIST);
            }
            let add = mask.contains(InotifyMask::MASK_ADD);
            mark.mask = if add { mark.mask | kept } else { kept };
            return Ok(mark.wd);
        }
        // The number is spent even where the watch is refused then.
        let mut wd = group.last_wd.get().cast_signed();
        loop {
            wd = if wd == i32::MAX { 1 } else { wd + 1 };
            if !by_wd.contains_key(&(group.number, wd)) {
                break;
            }
        }
        group.last_wd.set(wd.cast_unsigned());
        let used = used.entry(group.uid).or_default();
        if used.watches >= self.config.inotify.max_user_watches {
            return Err(Errno::ENOSPC);
        }
        used.watches += 1;
        by_wd.insert((group.number, wd), inode);
        let of_inode = of_inode.entry(inode).or_default();
        of_inode.push(Mark { group: Arc::clone(group), wd, mask: kept });
        self.notify.live.0.set(by_wd.len() as u32);
        let slot = self.inode(inode);
        let sb = slot.sb.get();
        let of_sb = of_sb.entry(sb).or_default();
        of_sb.inodes.insert(inode);
        of_sb.counts += 1;
        self.superblock(sb).expect("a held inode keeps its superblock").note_watched();
        slot.lockref.get();
        let _inode = slot.lockref.lock(lock::INODE);
        slot.flags.set(slot.flags.get() | I_WATCHED);
        Ok(wd)
    }

    /// Removes a watch, which is told.
    ///
    /// # Errors
    ///
    /// `EINVAL`: there is no such.
    pub(super) fn remove_watch(&self, group: &Group, wd: i32) -> Result<()> {
        let mut after = After::default();
        let gone = {
            let mut guard = self.notify.lock();
            self.destroy(&mut guard.marks, (group.number, wd), &mut after)
        };
        self.finish(after);
        gone.ok_or(Errno::EINVAL)
    }

    /// Removes all watches of a queue, and the queue from its user's budget.
    pub(super) fn remove_group(&self, group: &Group) {
        self.notify.lock().marks.uses_less(group.uid, |used| used.instances -= 1);
        // One at a time: where an inode goes, its file system may give up another one, whose unmount waits for what was removed
        // there and is not given back.
        loop {
            let mut after = After::default();
            {
                let mut guard = self.notify.lock();
                let all = (group.number, i32::MIN)..=(group.number, i32::MAX);
                let Some((&key, _)) = guard.marks.by_wd.range(all).next() else { break };
                self.destroy(&mut guard.marks, key, &mut after);
            }
            self.finish(after);
        }
    }

    /// Removes all watches of an inode, which is told.
    pub(super) fn fsnotify_inode_delete(&self, inode: InodeId) {
        let mut after = After::default();
        {
            let mut guard = self.notify.lock();
            let marks = guard.marks.of_inode.get(&inode).into_iter().flatten();
            let keys: Vec<_> = marks.map(|mark| (mark.group.number, mark.wd)).collect();
            for key in keys {
                self.destroy(&mut guard.marks, key, &mut after);
            }
        }
        self.finish(after);
    }

    /// The watched inodes of a superblock, each with a count that is the caller's.
    pub(super) fn hold_watched(&self, sb: u32) -> Vec<InodeId> {
        let guard = self.notify.lock();
        let inodes = guard.marks.of_sb.get(&sb).into_iter().flat_map(|of_sb| &of_sb.inodes);
        // A mark's count is given back later than it leaves here.
        inodes.inspect(|&&inode| self.inode(inode).lockref.get()).copied().collect()
    }

    /// Tells an event to those who watch for it: the first inode's watchers, then the second's.
    #[cold]
    pub(super) fn fsnotify(&self, told: &[Told<'_>]) {
        let mut after = After::default();
        {
            let mut guard = self.notify.lock();
            for told in told {
                let mut spent = Vec::new();
                for mark in guard.marks.of_inode.get(&told.inode).into_iter().flatten() {
                    let wanted = mark.mask | InotifyMask::UNMOUNT;
                    let what = told.mask.difference(InotifyMask::ISDIR);
                    let excluded = told.unlinked && mark.mask.contains(InotifyMask::EXCL_UNLINK);
                    if !wanted.intersects(what) || excluded {
                        continue;
                    }
                    mark.group.add(Event::new(mark.wd, told), &mut after.woken);
                    if mark.mask.contains(InotifyMask::ONESHOT) {
                        spent.push((mark.group.number, mark.wd));
                    }
                }
                for key in spent {
                    self.destroy(&mut guard.marks, key, &mut after);
                }
            }
        }
        self.finish(after);
    }

    /// Removes a mark; none where there is no such.
    fn destroy(&self, marks: &mut Marks, key: (u64, i32), after: &mut After) -> Option<()> {
        let inode = marks.by_wd.remove(&key)?;
        let of_inode = marks.of_inode.get_mut(&inode).expect("a watch has its mark");
        let at = of_inode.iter().position(|mark| (mark.group.number, mark.wd) == key);
        let mark = of_inode.swap_remove(at.expect("a watch has its mark"));
        let slot = self.inode(inode);
        let sb = slot.sb.get();
        if of_inode.is_empty() {
            marks.of_inode.remove(&inode);
            let of_sb = marks.of_sb.get_mut(&sb).expect("the count of a mark is counted");
            of_sb.inodes.remove(&inode);
            let _inode = slot.lockref.lock(lock::INODE);
            slot.flags.set(slot.flags.get() & !I_WATCHED);
        }
        marks.uses_less(mark.group.uid, |used| used.watches -= 1);
        self.notify.live.0.set(marks.by_wd.len() as u32);
        after.released.push(Released { inode, sb });
        mark.group.add(Event::ignored(mark.wd), &mut after.woken);
        Some(())
    }

    /// Does what could not be done under the lock. Who is woken may wait for an unmount, which waits for the inodes: they come
    /// first. Who panics, a file system or who is woken, keeps nobody waiting.
    fn finish(&self, after: After) {
        // A file system that hears that an inode goes may let go of its last mount, and an unmount waits for the inode.
        let any = !after.released.is_empty() || !after.woken.is_empty();
        let _work = any.then(|| self.task_work());
        for Released { inode, sb } in after.released {
            self.iput(inode);
            self.notify.lock().marks.gave_back(sb);
        }
        for waker in after.woken {
            drop(self.outlast(|| waker.wake()));
        }
    }
}
