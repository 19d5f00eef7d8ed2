//! How a walk holds its place: not at all, or by counts.
//!
//! [`Rcu`] owns nothing; whatever it read is checked by sequence counts. [`Ref`] owns one count of the mount and one of
//! the dentry it stands on, and of the root once that is loaded; dropping it gives them back, wherever a walk ends.
//!
//! Linux: `LOOKUP_RCU`, `try_to_unlazy`, `legitimize_path`, `terminate_walk`.

use super::{
    Lookup, Place, Start, Stop, Walk,
    ahead::Ahead,
    counts::Counts,
    end::End,
    job::Terminal,
    observe::{Left, Observer, Spot},
    road,
};
use crate::{
    dcache::{
        DentryId, HASHED, IN_LOOKUP, REVALIDATE, UNNAMED,
        ask::Query,
        lookup::{Seen, Tables},
        reserve::LookedUp,
    },
    mount::{MountId, task_work::TaskWork},
    name::{Component, Secret},
    task::FsStruct,
    vfs::Vfs,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Sample;
use std::mem::replace;

/// A way of holding a place in a machine that is borrowed for `'a`.
pub(crate) trait Hold<'a>: Sized {
    /// Whether nothing is held.
    const RCU: bool;

    /// The place where a walk begins, held; twice where it is also the root that must be kept.
    fn start(vfs: &'a Vfs, fs: &FsStruct, start: Start, keep: bool) -> (Place, Self);

    /// Finds a child of the place. A counting walk gets it counted.
    fn lookup<O: Observer>(
        walk: &mut Walk<'a, Self, O>,
        text: &[u8],
        name: &Component,
    ) -> Result<Seen, Stop>;

    /// Holds a place that the walk moves to, in its way, instead of the one it stood on.
    fn step<O: Observer>(walk: &mut Walk<'a, Self, O>, to: Place);

    /// Gives back a child that the walk does not move to.
    fn put_child(vfs: &Vfs, child: DentryId);

    /// Asks something of the place where the walk ends.
    fn finish<O: Observer, T: Terminal<'a>>(
        walk: &mut Walk<'a, Self, O>,
        terminal: &mut T,
    ) -> Result<T::Out, Stop>;

    /// The place of the root that `..` stops at, held.
    fn load_root<O: Observer>(walk: &mut Walk<'a, Self, O>) -> Place;

    /// Asks whether what lies above the place is what the path went through.
    ///
    /// # Errors
    ///
    /// `ESTALE`: nobody was asked about that.
    fn go_up<O: Observer>(walk: &mut Walk<'a, Self, O>) -> Result<(), Errno>;

    /// The walk goes down by a name.
    fn go_down<O: Observer>(walk: &mut Walk<'a, Self, O>);

    /// Has the file system say who may search and read the place, if no name led there.
    fn ask_about_place<O: Observer>(walk: &mut Walk<'a, Self, O>);
}

/// Holds nothing.
#[derive(Debug)]
pub(crate) struct Rcu;

/// Holds by counts.
pub(crate) struct Ref<'a> {
    vfs: &'a Vfs,
    at: (MountId, DentryId),
    root: Option<(MountId, DentryId)>,
    /// Children on the way of which the file system has said that their names hold.
    pub(super) ahead: Ahead,
    /// How the place was come to.
    came: Came,
    /// Something is asked of the place, and the answer does not hold it.
    only_asks: bool,
    /// What the walk lets go of goes behind it, and a panic in that goes on there. The last of all.
    _work: TaskWork<'a>,
}

/// How a walk came to where it stands: a file system that is asked about names says of that place what it is, too, if a name led there.
struct Came {
    /// By so many names, from a place to which none led.
    names: u32,
    /// How it is about to move on.
    by: By,
    /// The file system is to be asked about the place.
    unasked: bool,
}

/// How a walk moves on.
#[derive(Clone, Copy)]
enum By {
    /// Down, by a name.
    Name,
    /// Up.
    Dots,
    /// That was not said: to where a symlink begins, or leads without a path; or it stays at the root.
    Jump,
}

impl Came {
    /// To a place by no name.
    fn to(place: &Place) -> Self {
        Self { names: 0, by: By::Jump, unasked: place.flags & UNNAMED != 0 }
    }

    /// The walk moves to a place, by which it may enter a mount.
    fn moves(&mut self, place: &Place, enters: bool) {
        let names = match self.by {
            By::Name if !enters => self.names.checked_add(1),
            By::Dots if !enters => self.names.checked_sub(1),
            _ => None,
        };
        *self = match names {
            Some(names) => Self { names, by: By::Jump, unasked: false },
            None => Self::to(place),
        };
    }
}

impl Vfs {
    /// A place as it is now, to be checked later.
    #[inline]
    pub(crate) fn sample(&self, mnt: MountId, dentry: DentryId) -> Place {
        let mnt_seq = self.mount_slot(mnt).seq.sample();
        let slot = self.dentry(dentry);
        let seq = slot.seq.sample();
        Place { mnt, mnt_seq, dentry, seq, flags: slot.flags.get() }
    }

    pub(crate) fn hold_both(&self, (mnt, dentry): (MountId, DentryId)) {
        self.mntget(mnt);
        self.dget(dentry);
    }

    /// A dentry as it is now. What wanted to be asked of it has been.
    fn seen_now(&self, id: DentryId) -> Seen {
        let dentry = self.dentry(id);
        let seq = dentry.seq.sample();
        Seen { id, seq, flags: dentry.flags.get() & !REVALIDATE }
    }

    /// By a walk that holds, which is a [`TaskWork`].
    fn put_both(&self, (mnt, dentry): (MountId, DentryId)) {
        self.dput(dentry);
        self.mntput(mnt);
    }
}

impl<'a> Hold<'a> for Rcu {
    const RCU: bool = true;

    #[inline(always)]
    fn start(vfs: &'a Vfs, fs: &FsStruct, start: Start, _keep: bool) -> (Place, Self) {
        let place = match start {
            Start::Root => fs.sample_root(vfs),
            Start::Cwd => fs.sample_cwd(vfs),
            Start::Dir(mnt, dentry) => vfs.sample(mnt, dentry),
        };
        (place, Self)
    }

    #[inline(always)]
    fn lookup<O: Observer>(
        walk: &mut Walk<'a, Self, O>,
        text: &[u8],
        name: &Component,
    ) -> Result<Seen, Stop> {
        let (vfs, at) = (walk.vfs, walk.at);
        match vfs.d_lookup_rcu(walk.tables, at.dentry, text, name) {
            Some(seen) => {
                // Hand over hand: the child was sampled before the parent is checked again.
                walk.check_at()?;
                Ok(seen)
            }
            None => match miss_out_of_line(vfs, at, text, *name) {
                Ok(children) => {
                    walk.observer.absent(Spot { vfs, place: &at }, Some(children));
                    Err(Errno::ENOENT.into())
                }
                Err(Stop::Leave(Left::NotCached)) => again(walk, text, name),
                Err(stop) => Err(stop),
            },
        }
    }

    #[inline(always)]
    fn step<O: Observer>(_walk: &mut Walk<'a, Self, O>, _to: Place) {}

    #[inline(always)]
    fn put_child(_vfs: &Vfs, _child: DentryId) {}

    fn finish<O: Observer, T: Terminal<'a>>(
        walk: &mut Walk<'a, Self, O>,
        terminal: &mut T,
    ) -> Result<T::Out, Stop> {
        walk.point()?;
        walk.must_ask_about_place()?;
        terminal.finish(&End::<true>::new(walk.vfs, walk.asker, walk.at, walk.root))
    }

    fn load_root<O: Observer>(walk: &mut Walk<'a, Self, O>) -> Place {
        walk.fs.sample_root(walk.vfs)
    }

    fn go_up<O: Observer>(_walk: &mut Walk<'a, Self, O>) -> Result<(), Errno> {
        Ok(())
    }

    #[inline(always)]
    fn go_down<O: Observer>(_walk: &mut Walk<'a, Self, O>) {}

    #[inline(always)]
    fn ask_about_place<O: Observer>(_walk: &mut Walk<'a, Self, O>) {}
}

/// Searches once more: somebody who changes another place may have led the first search into another chain, by using a
/// slot again or splitting a bucket. That is no reason to hold anything.
#[cold]
#[inline(never)]
fn again<O: Observer>(
    walk: &Walk<'_, Rcu, O>,
    text: &[u8],
    name: &Component,
) -> Result<Seen, Stop> {
    let vfs = walk.vfs;
    let seen = vfs.d_lookup_rcu(vfs.tables(), walk.at.dentry, text, name);
    walk.check_at()?;
    seen.ok_or(Stop::Leave(Left::NotCached))
}

/// What a walk that holds nothing makes of a name that it did not find: the name is absent, and was so when its
/// directory's set of children was sampled. In line in who looks a path up, where all that it takes is in registers; a walk that goes on
/// has it out of line.
#[inline(always)]
pub(crate) fn miss(
    vfs: &Vfs,
    secret: Secret,
    at: Place,
    text: &[u8],
    name: Component,
) -> Result<Sample, Stop> {
    if name.has_nul(text) {
        let sure = at.stays(vfs);
        return Err(if sure { Errno::EINVAL.into() } else { Stop::Leave(Left::Changed) });
    }
    if name.too_long() {
        return Err(Stop::Leave(Left::NotCached));
    }
    let children = vfs.surely_absent(secret, at.dentry, text, &name);
    let children = children.ok_or(Stop::Leave(Left::NotCached))?;
    if at.stays(vfs) { Ok(children) } else { Err(Stop::Leave(Left::Changed)) }
}

#[inline(never)]
fn miss_out_of_line(vfs: &Vfs, at: Place, text: &[u8], name: Component) -> Result<Sample, Stop> {
    miss(vfs, vfs.secret, at, text, name)
}

impl<'a> Hold<'a> for Ref<'a> {
    const RCU: bool = false;

    fn start(vfs: &'a Vfs, fs: &FsStruct, start: Start, keep: bool) -> (Place, Self) {
        let work = vfs.task_work();
        let at = match start {
            Start::Root => fs.hold_root(vfs),
            Start::Cwd => fs.hold_cwd(vfs),
            Start::Dir(mnt, dentry) => {
                vfs.hold_both((mnt, dentry));
                (mnt, dentry)
            }
        };
        let root = keep.then(|| {
            vfs.hold_both(at);
            at
        });
        let place = vfs.sample(at.0, at.1);
        let (ahead, came) = (Ahead::default(), Came::to(&place));
        (place, Self { vfs, at, root, ahead, came, only_asks: false, _work: work })
    }

    fn lookup<O: Observer>(
        walk: &mut Walk<'a, Self, O>,
        text: &[u8],
        name: &Component,
    ) -> Result<Seen, Stop> {
        let vfs = walk.vfs;
        let (dir, inode) = (walk.at.dentry, walk.inode());
        let query = Query { dir, inode, text, name, anew: walk.flags.contains(Lookup::REVAL) };
        let seen = lookup_fast(walk, text, name);
        let child = seen.map(|seen| Counts::of_child(vfs, seen.id));
        if walk.hold.ahead.is_next(vfs, seen.map(|seen| seen.id))?
            && let Some(child) = child
        {
            return Ok(vfs.seen_now(child.into_raw()));
        }
        match seen.zip(child) {
            Some((seen, child)) if seen.flags & REVALIDATE == 0 => {
                child.into_raw();
                Ok(seen)
            }
            Some((seen, child)) => {
                if !query.anew && walk.ask_ahead(text, name, &seen) {
                    return Ok(vfs.seen_now(child.into_raw()));
                }
                Ok(vfs.seen_now(still_held(vfs, child, query)?))
            }
            None => Ok(vfs.seen_now(lookup_slow(vfs, query)?)),
        }
    }

    fn step<O: Observer>(walk: &mut Walk<'a, Self, O>, to: Place) {
        let (mnt, dentry) = walk.hold.at;
        walk.hold.at = (to.mnt, to.dentry);
        walk.at = to;
        walk.hold.came.moves(&to, mnt != to.mnt);
        if mnt == to.mnt {
            return walk.vfs.dput(dentry);
        }
        // What is ahead lies in the mount that is given back.
        walk.hold.ahead.leave(walk.vfs);
        walk.vfs.put_both((mnt, dentry));
    }

    fn put_child(vfs: &Vfs, child: DentryId) {
        vfs.dput(child);
    }

    fn finish<O: Observer, T: Terminal<'a>>(
        walk: &mut Walk<'a, Self, O>,
        terminal: &mut T,
    ) -> Result<T::Out, Stop> {
        walk.hold.only_asks = !T::HOLDS;
        terminal.finish(&End::<false>::new(walk.vfs, walk.asker, walk.at, walk.root))
    }

    fn load_root<O: Observer>(walk: &mut Walk<'a, Self, O>) -> Place {
        let root = walk.fs.hold_root(walk.vfs);
        walk.hold.root = Some(root);
        walk.vfs.sample(root.0, root.1)
    }

    fn go_up<O: Observer>(walk: &mut Walk<'a, Self, O>) -> Result<(), Errno> {
        walk.hold.came.by = By::Dots;
        walk.hold.ahead.go_up()
    }

    fn go_down<O: Observer>(walk: &mut Walk<'a, Self, O>) {
        walk.hold.came.by = By::Name;
        walk.hold.ahead.go_down();
    }

    fn ask_about_place<O: Observer>(walk: &mut Walk<'a, Self, O>) {
        if replace(&mut walk.hold.came.unasked, false) {
            walk.vfs.ask_about_unnamed(walk.at.dentry);
        }
    }
}

impl Drop for Ref<'_> {
    fn drop(&mut self) {
        self.ahead.clear(self.vfs);
        // The mount keeps the file system until the count is kept.
        let (mnt, dentry) = self.at;
        if self.only_asks {
            self.vfs.dput_keeping(dentry);
        } else {
            self.vfs.dput(dentry);
        }
        self.vfs.mntput(mnt);
        if let Some(root) = self.root {
            self.vfs.put_both(root);
        }
    }
}

/// Finds a child in the cache and counts it. A miss is no answer yet.
///
/// Linux: `lookup_fast` in ref mode.
fn lookup_fast<'a, O: Observer>(
    walk: &Walk<'a, Ref<'a>, O>,
    text: &[u8],
    name: &Component,
) -> Option<Seen> {
    lookup_held(walk.vfs, walk.tables, walk.at.dentry, text, name)
}

/// As [`lookup_fast`], below any directory that the caller holds.
pub(super) fn lookup_held(
    vfs: &Vfs,
    tables: Tables<'_>,
    dir: DentryId,
    text: &[u8],
    name: &Component,
) -> Option<Seen> {
    let seen = vfs.d_lookup_rcu(tables, dir, text, name)?;
    if seen.flags & (IN_LOOKUP | HASHED) != HASHED || !vfs.dget_not_dead(seen.id) {
        return None;
    }
    if !vfs.dentry(seen.id).seq.unchanged(seen.seq) {
        vfs.dput(seen.id);
        return None;
    }
    Some(seen)
}

/// Asks the file system for a child: one call, however many walks miss the same name.
///
/// Linux: `lookup_slow`.
#[cold]
fn lookup_slow(vfs: &Vfs, query: Query<'_>) -> Result<DentryId, Errno> {
    match vfs.lookup_or_reserve(query.dir, query.text, query.name)? {
        LookedUp::Known(id) => still_held(vfs, Counts::of_child(vfs, id), query),
        LookedUp::Ask(reserved) => match vfs.fill(&reserved, query)? {
            None => Ok(reserved.hold()),
            Some(busy) => {
                drop(reserved);
                busy.wait();
                Ok(vfs.reserve_known(query)?.hold())
            }
        },
    }
}

/// A cached name once its file system has said that it still holds; else what it stands for now.
///
/// Also of a name that another walk has just asked for: how long its answer holds is not known.
fn still_held(vfs: &Vfs, child: Counts<'_>, query: Query<'_>) -> Result<DentryId, Errno> {
    if vfs.still_holds(child.dentry(), query)? {
        return Ok(child.into_raw());
    }
    drop(child);
    Ok(vfs.reserve_known(query)?.hold())
}

impl<'a, O: Observer> Walk<'a, Rcu, O> {
    /// Makes the walk a counting one where it stands, to go on from there. The root is held too, if it was needed.
    ///
    /// # Errors
    ///
    /// `ECHILD`: the place has changed since; the walk begins anew. (`EAGAIN` where only cached answers are wanted.)
    ///
    /// Linux: `try_to_unlazy`.
    #[cold]
    pub(crate) fn try_to_unlazy(self) -> Result<Walk<'a, Ref<'a>, O>, (Errno, O)> {
        if self.flags.contains(Lookup::CACHED) {
            return Err((Errno::EAGAIN, self.observer));
        }
        let vfs = self.vfs;
        let Some(at) = vfs.legitimize(&self.at) else {
            return Err((Errno::ECHILD, self.observer));
        };
        if road::has_changed(self.flags) {
            vfs.put_no_expire(at);
            return Err((Errno::ECHILD, self.observer));
        }
        let root = match &self.root {
            Some(root) => match vfs.legitimize(root) {
                Some(root) => Some(root.into_raw()),
                None => {
                    vfs.put_no_expire(at);
                    return Err((Errno::ECHILD, self.observer));
                }
            },
            None => None,
        };
        let (at, _work) = (at.into_raw(), vfs.task_work());
        let (ahead, came) = (Ahead::default(), Came::to(&self.at));
        let hold = Ref { vfs, at, root, ahead, came, only_asks: false, _work };
        Ok(Walk {
            vfs,
            fs: self.fs,
            asker: self.asker,
            who: self.who,
            flags: self.flags,
            tables: self.tables,
            at: self.at,
            root: self.root,
            links: self.links,
            topology: self.topology,
            observer: self.observer,
            hold,
        })
    }
}
