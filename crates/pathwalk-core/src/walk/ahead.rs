//! Asking ahead: a file system that wants to be asked about each name is asked about a run of them at once.
//!
//! ```text
//!   text   a / b / c / d        a, b, c, d are cached, and are to be asked about
//!          ▲   └───┬───┘
//!          │       ahead: held, and known to hold
//!          the walk asks about all four here
//! ```
//!
//! A file system says of a run whether it leads where it led: where it ends is what was seen, and what lies between may be
//! another directory by now, in which the same file is. So a walk stands nowhere but at the end of a run, unless the file system
//! [knows each name](Features::EACH_NAME). (Whether the directories between may be searched is decided by what the cache has of
//! them.)
//! 1. Unless each name is known, a run ends in front of a symlink, whose body begins in its directory; in front of the last name, if the
//!    call is about its directory; and it does not end by going up.
//! 2. Unless each name is known, a walk that goes up from the end of a run to where nothing was asked about alone begins anew. So does any
//!    that comes to another dentry than the next one. It asks about each name alone then.
//!
//! Invariant: what is ahead is counted, and is taken in its order only by the walk that asked.
//!
//! Linux has no such thing: there each name is a round trip of its own, or none where it is believed for a while.

use super::{
    Lookup, Walk,
    counts::Counts,
    hold::{Ref, lookup_held},
    observe::Observer,
    skip_slashes,
};
use crate::{
    dcache::{DIRECTORY, DentryId, MANAGED, NEGATIVE, REVALIDATE, SYMLINK, lookup::Seen},
    fs::{CachedName, Features},
    inode::InodeId,
    name::{Component, Kind, scan},
    vfs::Vfs,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::lock_order;
use smallvec::SmallVec;

/// So many names are asked about at a time.
const MOST: usize = 32;

/// What was said of the names on the way.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Dentries that come next, counted; the next one is the last.
    next: SmallVec<[DentryId; 8]>,
    /// So many directories above are known to be those of the path, since a run ended, where it is 0; none if there was no run:
    /// then all are.
    known_above: Option<i32>,
    /// The walk left the run before its end: it is not known where it is.
    lost: bool,
}

impl Ahead {
    /// Whether this is what comes next; the caller has a count of it of its own.
    ///
    /// # Errors
    ///
    /// `ESTALE`: something else does, so it is not known where the walk is.
    pub(super) fn is_next(&mut self, vfs: &Vfs, id: Option<DentryId>) -> Result<bool> {
        self.must_not_be_lost()?;
        let Some(next) = self.next.pop() else { return Ok(false) };
        vfs.dput(next);
        if Some(next) == id { Ok(true) } else { Err(Errno::ESTALE) }
    }

    /// The walk goes up.
    ///
    /// # Errors
    ///
    /// `ESTALE`: it is not known what lies there.
    pub(super) fn go_up(&mut self) -> Result<()> {
        self.must_not_be_lost()?;
        match &mut self.known_above {
            Some(..=0) if self.next.is_empty() => Err(Errno::ESTALE),
            Some(above) if self.next.is_empty() => {
                *above -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The walk goes down.
    pub(super) fn go_down(&mut self) {
        if let Some(above) = &mut self.known_above
            && self.next.is_empty()
        {
            *above += 1;
        }
    }

    /// The walk goes into another mount, in which nothing is ahead.
    pub(super) fn leave(&mut self, vfs: &Vfs) {
        self.lost |= !self.next.is_empty();
        self.clear(vfs);
    }

    fn must_not_be_lost(&self) -> Result<()> {
        if self.lost { Err(Errno::ESTALE) } else { Ok(()) }
    }

    /// Forgets what comes next.
    pub(super) fn clear(&mut self, vfs: &Vfs) {
        for id in self.next.drain(..) {
            vfs.dput(id);
        }
    }
}

impl<'a, O: Observer> Walk<'a, Ref<'a>, O> {
    /// Asks about a cached child and those that the text goes on to; says whether the child is known to hold. If not, it
    /// is to be asked about alone.
    pub(super) fn ask_ahead(&mut self, text: &[u8], name: &Component, child: &Seen) -> bool {
        if self.flags.contains(Lookup::ALONE) {
            return false;
        }
        let vfs = self.vfs;
        let sb = vfs.superblock(vfs.dentry(child.id).sb.get());
        let Some(sb) = sb.filter(|sb| sb.features.contains(Features::LOOKUP_MANY)) else {
            return false;
        };
        let dir = vfs.inode_ref(self.inode());
        let only_end = !sb.features.contains(Features::EACH_NAME);
        // Counted but for the first, which the caller has counted, and `..`.
        let mut run: SmallVec<[(Option<Counts<'_>>, DentryId, Component); 8]> = SmallVec::new();
        run.push((None, child.id, *name));
        // The directories above the one that the run has come to, the nearest last.
        let mut above: SmallVec<[(DentryId, u32); 8]> = SmallVec::new();
        above.push((self.at.dentry, DIRECTORY));
        let (mut at, mut flags) = (child.id, child.flags);
        let mut pos = name.start + name.len;
        while flags & (DIRECTORY | MANAGED | SYMLINK | NEGATIVE) == DIRECTORY && run.len() < MOST {
            pos = skip_slashes(text, pos);
            // Who may not search it is told nothing of what lies there, nor what becomes of asking.
            if pos == text.len() || !self.may_surely_search(at) {
                break;
            }
            let name = scan(text, pos, self.tables.secret);
            match name.kind() {
                Kind::Norm if !name.too_long() => {
                    let is_last = skip_slashes(text, pos + name.len) == text.len();
                    if only_end && is_last && self.flags.contains(Lookup::PARENT) {
                        break;
                    }
                    let seen = lookup_held(vfs, self.tables, at, text, &name);
                    let Some(seen) = seen else { break };
                    let counts = Counts::of_child(vfs, seen.id);
                    if seen.flags & REVALIDATE == 0 || only_end && seen.flags & SYMLINK != 0 {
                        break;
                    }
                    above.push((at, flags));
                    (at, flags) = (seen.id, seen.flags);
                    run.push((Some(counts), seen.id, name));
                }
                Kind::Dot => {}
                // Not above where the run begins: what lies there is for the walk to know.
                Kind::DotDot if above.len() > 1 => {
                    (at, flags) = above.pop().expect("there is more than one");
                    run.push((None, DentryId::NONE, name));
                }
                _ => break,
            }
            pos += name.len;
        }
        // To go up last is no question, and where it leads is to be an end.
        let mut up = 0;
        while let Some((_, id, _)) = run.last()
            && (up > 0 || *id == DentryId::NONE)
        {
            if *id != DentryId::NONE {
                up -= 1;
            } else if only_end {
                up += 1;
            }
            run.pop();
        }
        let names: SmallVec<[CachedName<'_>; 8]> = run
            .iter()
            .map(|(_, id, name)| {
                if *id == DentryId::NONE {
                    return CachedName { name: b"..", inode: None };
                }
                let inode = InodeId(vfs.dentry(*id).inode.get());
                let inode = (inode != InodeId::NONE).then(|| vfs.inode_ref(inode));
                CachedName { name: name.bytes(text), inode }
            })
            .collect();
        lock_order::assert_none_held();
        // Of one name alone it is asked in the way that can also say no.
        let held = if names.len() > 1 { sb.fs.lookup_many(dir, &names) } else { Ok(0) };
        let held = held.unwrap_or_else(|_| {
            // It may be about a name that the walk never comes to. The rest of the run would most likely fail as well.
            self.flags |= Lookup::ALONE;
            0
        });
        let known = held.min(run.len());
        drop(names);
        run.truncate(known);
        let counted = run.into_iter().rev().filter_map(|(counts, ..)| counts);
        let ahead = &mut self.hold.ahead;
        ahead.next.extend(counted.map(Counts::into_raw));
        if only_end && known > 1 {
            // With the step to its end it is 0.
            ahead.known_above = Some(-1);
        }
        known != 0
    }

    /// Whether a directory below the place may be searched, if nobody has to be asked.
    fn may_surely_search(&self, dir: DentryId) -> bool {
        let inode = InodeId(self.vfs.dentry(dir).inode.get());
        let who = self.vfs.through(self.at.mnt, &self.who);
        matches!(self.vfs.try_may_search(inode, &who), Ok(Ok(_)))
    }
}
