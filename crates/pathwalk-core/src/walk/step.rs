//! One step: onto the child, through what is mounted there, or to the symlink that it is.
//!
//! Linux: `step_into_slowpath`, `handle_mounts`; the plain step is in [`run`](super::run).

use super::{
    Follow, Lookup, Place, Step, Stop, Walk,
    automount::Transit,
    counts::Counts,
    hold::Hold,
    observe::{Left, Observer, Spot},
};
use crate::dcache::{
    AGED, AUTOMOUNT, DentryId, HASHED, IN_LOOKUP, MANAGED, MOUNTED, NEGATIVE, REVALIDATE, SYMLINK,
    TRANSIT, UNNAMED, lookup::Seen,
};
use pathwalk_abi::Errno;
use pathwalk_sync::Absent;

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Steps onto a child of any kind.
    #[cold]
    #[inline(never)]
    pub(crate) fn step_into_slowpath(&mut self, child: Seen, follow: Follow) -> Result<Step, Stop> {
        if H::RCU && child.flags & (IN_LOOKUP | HASHED) != HASHED {
            return Err(Stop::Leave(Left::NotCached));
        }
        let place = self.child_place(&child);
        self.must_ask_about(&place, REVALIDATE)?;
        if child.flags & AGED != 0 {
            self.vfs.d_used(child.id);
        }
        if child.flags & NEGATIVE != 0 {
            let checked = self.check_child(&place);
            H::put_child(self.vfs, child.id);
            checked?;
            self.observer.absent(Spot { vfs: self.vfs, place: &place }, None);
            return Err(Errno::ENOENT.into());
        }
        let place = if child.flags & MANAGED != 0 { self.handle_mounts(place)? } else { place };
        if place.flags & SYMLINK != 0 && follow == Follow::Yes {
            return Ok(Step::Link(place));
        }
        self.check_child(&place)?;
        H::go_down(self);
        self.move_to(place);
        Ok(Step::Moved)
    }

    /// Moves the walk, and tells.
    pub(crate) fn move_to(&mut self, place: Place) {
        H::step(self, place);
        self.at = place;
        self.observer.stepped(Spot { vfs: self.vfs, place: &place });
    }

    fn child_place(&self, child: &Seen) -> Place {
        Place { dentry: child.id, seq: child.seq, flags: child.flags, ..self.at }
    }

    /// Checks that a place that is not held is still what was seen.
    fn check_child(&self, place: &Place) -> Result<(), Stop> {
        self.point()?;
        if !H::RCU || place.stays(self.vfs) { Ok(()) } else { Err(Stop::Leave(Left::Changed)) }
    }

    /// Goes down into whatever is mounted on a place, to the top of the stack. A counting walk owns a count of the
    /// place's dentry, and gets one of the result and, where it crossed, of its mount.
    ///
    /// Linux: `handle_mounts`, `__follow_mount_rcu`, `__traverse_mounts`.
    pub(crate) fn handle_mounts(&mut self, place: Place) -> Result<Place, Stop> {
        if H::RCU { self.follow_mounts_rcu(place) } else { self.traverse_mounts(place) }
    }

    fn follow_mounts_rcu(&mut self, mut place: Place) -> Result<Place, Stop> {
        let vfs = self.vfs;
        while place.flags & MANAGED != 0 {
            if place.flags & TRANSIT != 0 && self.manage(&place)? == Transit::Plain {
                break;
            }
            if place.flags & MOUNTED == 0 {
                if place.flags & AUTOMOUNT != 0 {
                    return Err(Stop::Leave(Left::Mount));
                }
                break;
            }
            match vfs.lookup_mnt_rcu(place.mnt, place.dentry) {
                Absent::Found(seen) => {
                    let mount = vfs.mount_slot(seen.id);
                    let root = DentryId(mount.root.get());
                    let slot = vfs.dentry(root);
                    let seq = slot.seq.sample();
                    let flags = slot.flags.get();
                    // Hand over hand: the root was sampled before its mount, and that before the dentry below and
                    // the mount that it was seen in, which nobody checks after this.
                    if !mount.seq.unchanged(seen.seq) || !place.stays(vfs) {
                        return Err(Stop::Leave(Left::Mount));
                    }
                    if self.flags.contains(Lookup::NO_XDEV) {
                        self.must_be_sure()?;
                        return Err(Errno::EXDEV.into());
                    }
                    self.observer.passed(Spot { vfs, place: &place });
                    place = Place { mnt: seen.id, mnt_seq: seen.seq, dentry: root, seq, flags };
                    self.observer.mounted(Spot { vfs, place: &place });
                }
                // It is a mountpoint in another mount.
                Absent::Sure if place.stays(vfs) && place.flags & AUTOMOUNT == 0 => break,
                Absent::Sure | Absent::Unsure => return Err(Stop::Leave(Left::Mount)),
            }
        }
        Ok(place)
    }

    /// A walk that holds nothing asks no file system about a place that wants it for that reason: [`REVALIDATE`], or [`UNNAMED`].
    fn must_ask_about(&self, place: &Place, reason: u32) -> Result<(), Stop> {
        let asks = H::RCU && place.flags & reason != 0;
        if asks && !self.observer.believes(Spot { vfs: self.vfs, place }) {
            return Err(Stop::Leave(Left::Revalidate));
        }
        Ok(())
    }

    /// The same of where it stands, if no name led there: before it ends there, is refused there or goes on by a dot, it leaves, so that
    /// one that holds asks.
    pub(crate) fn must_ask_about_place(&self) -> Result<(), Stop> {
        self.must_ask_about(&self.at, UNNAMED)
    }

    fn traverse_mounts(&mut self, start: Place) -> Result<Place, Stop> {
        let vfs = self.vfs;
        let counts = self.counts_of(&start);
        loop {
            // Counts for another try.
            let (end, reached, crossed) = self.traverse_mounts_once(start, counts.again())?;
            // Where nothing is mounted on a mount that was taken away meanwhile, that may be why: what covered it hangs in its
            // place now, and what it covered was never to be seen.
            if crossed && !vfs.mount_slot(end.mnt).seq.unchanged(end.mnt_seq) {
                continue;
            }
            reached.into_raw();
            // The walk's own mount is counted by the walk.
            if crossed && end.mnt == self.at.mnt {
                vfs.mntput(end.mnt);
            }
            return Ok(end);
        }
    }

    /// Goes down once, with the counts of where it begins; gives where it ends, with its counts, and whether that is in another
    /// mount.
    fn traverse_mounts_once(
        &mut self,
        mut place: Place,
        mut counts: Counts<'a>,
    ) -> Result<(Place, Counts<'a>, bool), Stop> {
        let vfs = self.vfs;
        let mut crossed = false;
        loop {
            let mut flags = vfs.dentry(place.dentry).flags.get();
            if flags & MANAGED == 0 {
                break;
            }
            if flags & TRANSIT != 0 {
                match self.manage(&place)? {
                    // It may have been mounted while the walk waited there.
                    Transit::Cross => flags = vfs.dentry(place.dentry).flags.get(),
                    Transit::Plain => break,
                }
            }
            let mounted =
                if flags & MOUNTED != 0 { vfs.lookup_mnt(place.mnt, place.dentry) } else { None };
            let Some((seen, root)) = mounted else {
                if flags & AUTOMOUNT == 0 {
                    break;
                }
                match self.follow_automount(&place)? {
                    Transit::Cross => continue,
                    Transit::Plain => break,
                }
            };
            counts = Counts::of_mounted(vfs, seen.id, root);
            crossed = true;
            place = Place { mnt_seq: seen.seq, ..vfs.sample(seen.id, root) };
            if self.flags.contains(Lookup::NO_XDEV) {
                return Err(Errno::EXDEV.into());
            }
            self.observer.mounted(Spot { vfs, place: &place });
        }
        Ok((place, counts, crossed))
    }
}
