//! What a walk is for: the place where it ends, or the directory of its last name.
//!
//! Linux: `path_lookupat`, `path_parentat`, `lookup_last`, `complete_walk`.

use super::{
    Event, Follow, HeldPath, Lookup, Step, Stop, Walk,
    end::End,
    hold::Hold,
    observe::{Left, Observer},
    text::{LastText, Text},
};
use crate::{
    dcache::{DIRECTORY, ask::Query},
    name::{Component, Kind},
};
use pathwalk_abi::{Errno, Result};

/// What is done with a walk; done again from where it stopped if it stopped undecided.
pub(crate) trait Job<'a> {
    /// The answer.
    type Out;

    /// Walks and answers.
    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<Self::Out, Stop>;
}

/// What is asked of the place where a lookup ends.
pub(crate) trait Terminal<'a> {
    /// The answer.
    type Out;

    /// Whether the answer holds the place.
    const HOLDS: bool = false;

    /// Whether it goes by more than who may read and search: then all attributes are to be those of now.
    #[inline(always)]
    fn wants_attributes(&self) -> bool {
        true
    }

    /// The answer if it is the same for whatever is there and is no symlink, where the file system does not decide permission itself.
    #[inline(always)]
    fn exists(&self) -> Option<Result<Self::Out>> {
        None
    }

    /// Answers. Where nothing is held it reads first and calls [`End::check`] then.
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<Self::Out, Stop>;
}

impl<'a, H: Hold<'a>, O: Observer> Walk<'a, H, O> {
    /// Walks to the last component, following the symlinks on the way.
    #[inline(always)]
    pub(crate) fn walk_to_last(&mut self, text: &mut Text<'a>) -> Result<Component, Stop> {
        loop {
            let (current, mut pos, pending) = text.current();
            let event = self.link_path_walk(current, &mut pos, pending);
            text.set_pos(pos);
            match event? {
                Event::Last(last) => return Ok(last),
                Event::Link(link, start) => {
                    if let Err(stop) = self.pick_link(link, text, false) {
                        // Whoever goes on from here finds the link again.
                        text.set_pos(start);
                        return Err(stop);
                    }
                }
                Event::End => {
                    self.observer.end_of_link();
                    text.pop();
                }
            }
        }
    }

    /// Walks the last component. Answers whether a symlink's body took the path's place, so that there is a new last
    /// component.
    ///
    /// Linux: `lookup_last`.
    #[inline(always)]
    pub(crate) fn lookup_last(
        &mut self,
        text: &mut Text<'a>,
        last: &Component,
    ) -> Result<bool, Stop> {
        if last.trailing_slash && last.kind() == Kind::Norm {
            self.flags |= Lookup::FOLLOW | Lookup::DIRECTORY;
        }
        let follow = if self.flags.contains(Lookup::FOLLOW) { Follow::Yes } else { Follow::No };
        let bytes = text.current().0;
        self.flags |= Lookup::LAST;
        let step = self.walk_component(bytes, last, follow);
        self.flags -= Lookup::LAST;
        match step? {
            Step::Moved => Ok(false),
            Step::Link(link) => {
                self.pick_link(link, text, true)?;
                Ok(true)
            }
        }
    }

    /// What is checked of every place where a walk ends.
    ///
    /// Linux: `complete_walk`, and the end of `path_lookupat`.
    #[inline(always)]
    pub(crate) fn complete(&self) -> Result<(), Stop> {
        self.complete_parent()?;
        if self.flags.contains(Lookup::DIRECTORY) && self.at.flags & DIRECTORY == 0 {
            self.check_at()?;
            return Err(Errno::ENOTDIR.into());
        }
        Ok(())
    }

    /// As [`Walk::complete`], for a directory whose child the call is about.
    #[inline(always)]
    fn complete_parent(&self) -> Result<(), Stop> {
        if self.topology_moved() { self.must_be_under_root() } else { Ok(()) }
    }

    /// Whether a directory or mount moved since a scoped walk began.
    #[inline(always)]
    pub(crate) fn topology_moved(&self) -> bool {
        self.topology.is_some_and(|topology| !self.vfs.topology_unchanged(topology))
    }

    /// Forgets the root where the walk has ended, so that who is to hold the place meets nobody at the root's counter.
    #[cold]
    pub(crate) fn forget_root(&mut self) {
        if H::RCU && !self.flags.is_scoped() && cfg!(not(pathwalk_ablate = "forget_root")) {
            self.root = None;
        }
    }

    /// Directories or mounts moved during a scoped walk: is it still inside?
    #[cold]
    fn must_be_under_root(&self) -> Result<(), Stop> {
        if H::RCU {
            return Err(Stop::Leave(Left::Changed));
        }
        let root = self.root.expect("a scoped walk has a root from its start");
        let (at, root) = ((self.at.mnt, self.at.dentry), (root.mnt, root.dentry));
        let inside = self.vfs.while_still(|still| Some(self.vfs.is_under(at, root, still)));
        if inside { Ok(()) } else { Err(Errno::EXDEV.into()) }
    }
}

/// Looks a path up and asks something of what is there.
pub(crate) struct LookupJob<T>(pub(crate) T);

impl<'a, T: Terminal<'a>> Job<'a> for LookupJob<T> {
    type Out = T::Out;

    #[inline(always)]
    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<T::Out, Stop> {
        loop {
            let last = walk.walk_to_last(text)?;
            if !walk.lookup_last(text, &last)? {
                break;
            }
        }
        H::ask_about_place(walk);
        let answer = walk.complete().and_then(|()| H::finish(walk, &mut self.0));
        if answer.is_err() {
            // Whoever goes on from here stands on the last component already.
            text.finish();
            walk.forget_root();
        }
        answer
    }
}

/// The place itself, to be kept.
pub(crate) struct Keep;

impl<'a> Terminal<'a> for Keep {
    type Out = HeldPath<'a>;
    const HOLDS: bool = true;

    #[inline]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<HeldPath<'a>, Stop> {
        end.hold()
    }
}

/// The directory of the last component, which is not looked up.
pub(crate) struct Parent<'a> {
    pub(crate) dir: HeldPath<'a>,
    pub(crate) last: Component,
    pub(crate) text: LastText<'a>,
    /// File systems are asked anew: [`Lookup::REVAL`].
    pub(crate) anew: bool,
}

impl Parent<'_> {
    /// The text that the last component lies in.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.bytes()
    }

    /// The last name.
    pub(crate) fn name(&self) -> &[u8] {
        self.last.bytes(self.text())
    }

    /// The last name, to be asked for.
    pub(crate) fn query(&self) -> Query<'_> {
        let (dir, inode) = (self.dir.dentry(), self.dir.inode());
        Query { dir, inode, text: self.text(), name: &self.last, anew: self.anew }
    }
}

/// Walks to the last component's directory.
///
/// Linux: `filename_parentat`.
pub(crate) struct ParentJob;

impl<'a> Job<'a> for ParentJob {
    type Out = Parent<'a>;

    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<Parent<'a>, Stop> {
        walk.flags |= Lookup::PARENT;
        let last = walk.walk_to_last(text)?;
        walk.complete_parent()?;
        let dir = H::finish(walk, &mut Keep)?;
        let anew = walk.flags.contains(Lookup::REVAL);
        Ok(Parent { dir, last, text: text.take_last(), anew })
    }
}
