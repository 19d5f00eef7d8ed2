//! Whether what is cached still holds, where others change the tree too.

use crate::{
    host::{Kind, is_believed, questions},
    hostfs::Shared,
    node::{Ident, Node, ROOT},
    watch::{Believed, Watches, each},
};
use pathwalk_abi::{Errno, FileType, Result};
use pathwalk_core::{Attr, InodeRef, fs::CachedName};
use rustix::fs::{Statx, StatxAttributes};
use std::{
    mem::replace,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A name for which something of this kind stands is not learned.
const BEYOND: StatxAttributes = StatxAttributes::MOUNT_ROOT.union(StatxAttributes::ENCRYPTED);

/// What becomes of a descriptor of what a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// There is none: the file is found again by the name, unless others change that meanwhile.
    Nothing,
    /// It is at hand for what comes next.
    Found,
}

/// An inode of the cache, and which file it is.
type Named<'a> = (InodeRef<'a>, Arc<Node>);

impl Shared {
    /// Who tells what others do, if there is anybody yet.
    pub(crate) fn watches(&self) -> Option<&Watches> {
        self.watches.get()
    }

    /// The same, and where there is nobody yet it is tried: less and less often, as long as that fails.
    fn begin_to_watch(&self) -> Option<&Watches> {
        if self.watches.get().is_none() {
            let tries = self.tries.fetch_add(1, Relaxed).saturating_add(1);
            let here = || self.host.is_mounted_here(self.root.as_fd()).unwrap_or(false);
            if tries.is_power_of_two()
                && here()
                && let Ok(new) = Watches::new(&self.host, Believed::Names, self.options.watches)
            {
                // Of two that began at once one is kept.
                _ = self.watches.set(new);
            }
        }
        self.watches()
    }

    /// The same where all that it does not tell of is believed.
    fn believed(&self) -> Option<&Watches> {
        self.watches().filter(|watches| watches.believed() == Believed::All)
    }

    /// A file was seen to have several names.
    pub(crate) fn note_linked(&self) {
        if let Some(watches) = self.watches() {
            watches.note_linked();
        }
    }

    /// What a name stands for in a directory that is held, and a descriptor of it, if that is to be kept.
    ///
    /// # Errors
    ///
    /// Whatever the host answers.
    pub(crate) fn look(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        keep: Keep,
    ) -> Result<(Statx, Option<OwnedFd>)> {
        if keep == Keep::Nothing {
            return Ok((self.host.statx(dir, name)?, None));
        }
        let held = self.spare(|| self.host.open_path(dir, name))?;
        Ok((self.host.statx(held.as_fd(), b"")?, Some(held)))
    }

    /// Whether a name still stands for what is cached.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`], and whatever the host answers.
    pub(crate) fn revalidate(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
        keep: Keep,
    ) -> Result<bool> {
        let cached = self.named(cached)?;
        let watches = self.believed();
        if let Some(watches) = watches {
            watches.drain(&self.host);
            let known = watches.knows(dir.node(), name, cached.as_ref().map(|(_, node)| &**node));
            // Others' change is told some time after it was made: who met it before asks anew.
            if known && keep == Keep::Nothing {
                return Ok(true);
            }
        }
        let parent = self.reach(dir)?;
        let seen =
            watches.and_then(|watches| watches.watch(&self.host, dir.node(), parent.as_fd()));
        let (itself, turn) =
            cached.as_ref().map(|(_, node)| self.question(node)).unwrap_or_default();
        let holds = match (self.look(parent.as_fd(), name, keep), cached) {
            (Err(Errno::ENOENT), cached) => cached.is_none(),
            (Err(errno), _) => return Err(errno),
            (Ok((stat, kept)), Some((inode, node))) if Ident::of(&stat) == node.ident => {
                if let Some(kept) = kept {
                    self.keep_at_hand(&node, &Arc::new(kept));
                }
                let attr = self.attr_at(&stat, parent.as_fd(), name)?;
                let told = self.is_told_of(&stat, &attr);
                if !self.show(&node, inode, turn, &attr) {
                    return Ok(false);
                }
                node.add_name(dir.node(), name);
                self.is_fresh(&node, itself);
                if told {
                    self.believe(dir, name, Some(&node), seen);
                }
                return Ok(true);
            }
            (Ok(_), _) => false,
        };
        if holds {
            self.believe(dir, name, None, seen);
        }
        Ok(holds)
    }

    /// How many names of a run still hold, from the first on.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`].
    pub(crate) fn lookup_many(&self, dir: InodeRef<'_>, run: &[CachedName<'_>]) -> Result<usize> {
        if let Some(watches) = self.believed() {
            watches.drain(&self.host);
            let mut above = dir.node();
            let mut way = Vec::with_capacity(run.len());
            let known = run.iter().take_while(|cached| {
                if cached.name == b".." {
                    above = way.pop().unwrap_or(0);
                    return true;
                }
                way.push(above);
                let node = cached.inode.and_then(|inode| self.nodes.get(inode.node()));
                let knows = node.is_some() == cached.inode.is_some()
                    && watches.knows(above, cached.name, node.as_deref());
                above = node.map_or(0, |node| node.id);
                knows
            });
            return Ok(known.count());
        }
        if !self.host.goes_up() && run.iter().any(|cached| cached.name == b"..") {
            return Ok(0);
        }
        let names: Vec<&[u8]> = run.iter().map(|cached| cached.name).collect();
        let last = run.last().and_then(|cached| cached.inode);
        Ok(if self.leads_to(dir, &names, last, false)? { run.len() } else { 0 })
    }

    /// Whether a path of cached names still leads to a file, or for `None` to none.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`].
    pub(crate) fn revalidate_path(
        &self,
        dir: InodeRef<'_>,
        path: &[u8],
        cached: Option<InodeRef<'_>>,
        attributes: bool,
    ) -> Result<bool> {
        let to = cached.map(|inode| inode.node());
        let still =
            |watches: &Watches| watches.still_leads(&self.host, dir.node(), path, to, attributes);
        if self.watches().is_some_and(still) {
            return Ok(true);
        }
        let Some(watches) = self.believed() else {
            return self.leads_to(dir, &[path], cached, attributes);
        };
        if path.is_empty() {
            watches.drain(&self.host);
            return self.may_begin(watches, dir);
        }
        let last = self.named(cached)?;
        // What is not known is asked about name by name.
        Ok(self.is_known_to_lead(watches, dir, &[path], last.as_ref(), attributes)
            && self.may_begin(watches, dir)?)
    }

    /// Whether a run of names still leads to a file, or for `None` to none.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`].
    fn leads_to(
        &self,
        dir: InodeRef<'_>,
        names: &[&[u8]],
        cached: Option<InodeRef<'_>>,
        attributes: bool,
    ) -> Result<bool> {
        debug_assert!(
            self.host.goes_up() || names.iter().all(|name| !name.contains(&b'/')),
            "only openat2 walks a path"
        );
        let last = self.named(cached)?;
        if let Some(watches) = self.watches()
            && self.is_known_to_lead(watches, dir, names, last.as_ref(), attributes)
        {
            return Ok(true);
        }
        let holds = self.still_leads(dir, names, last)?;
        if holds && self.options.watches != 0 && self.asked.again(dir.node(), names) {
            // Who does not learn it asks again.
            if self.learn(dir, names).unwrap_or(false) {
                self.asked.watched(dir.node(), names);
            }
        }
        Ok(holds)
    }

    fn named<'a>(&self, cached: Option<InodeRef<'a>>) -> Result<Option<Named<'a>>> {
        cached.map(|inode| Ok((inode, self.node(inode)?))).transpose()
    }

    /// Whether all names on a way are known, and lead where they led; then what the right to read what they lead to goes by is up to date,
    /// and if they are wanted all its attributes are.
    fn is_known_to_lead(
        &self,
        watches: &Watches,
        dir: InodeRef<'_>,
        names: &[&[u8]],
        last: Option<&Named<'_>>,
        attributes: bool,
    ) -> bool {
        let node = last.map(|(_, node)| &**node);
        let led = watches.leads(&self.host, dir.node(), names, node);
        let Some(led) = led.filter(|led| led.node == last.map(|(_, node)| node.id)) else {
            return false;
        };
        let Some((inode, node)) = last else { return true };
        if led.tells || led.permits && !attributes {
            return true;
        }
        if watches.believed() == Believed::All {
            return self.is_still(*inode, node);
        }
        self.may_still(watches, *inode, node).is_some()
    }

    /// Brings up to date of a node what permission goes by, and has it watched itself if it was asked about often: by whatever name mode, owner
    /// or ACLs are changed, it is told of that. Whether it is told from now on; none if it is not what it was.
    fn may_still(&self, watches: &Watches, inode: InodeRef<'_>, node: &Node) -> Option<bool> {
        self.watch_often_asked(watches, node);
        let itself = watches.version_of_itself(node.id);
        self.is_still(inode, node)
            .then(|| itself.is_some_and(|itself| watches.told_who_may(node.id, itself)))
    }

    /// Brings up to date who may search and read what names begin at: they say nothing of it. Whether it is what it was.
    fn may_begin(&self, watches: &Watches, dir: InodeRef<'_>) -> Result<bool> {
        if watches.permits(dir.node()) {
            return Ok(true);
        }
        let node = self.node(dir)?;
        if self.is_known_by_name(watches, &node) {
            return Ok(true);
        }
        // Nothing else is told of it here, so that is all that has to be believed.
        let asked = questions();
        // The root is asked about by most calls, any other as where a name in it is asked about for the second time.
        if node.id == ROOT || node.is_directory() && node.asked_in.load(Relaxed) {
            watches.watch(&self.host, node.id, self.reach_node(&node)?.as_fd());
        }
        let told = self.may_still(watches, dir, &node);
        if told == Some(true) {
            is_believed(asked);
        }
        Ok(told.is_some())
    }

    /// Whether it is told of what becomes of a node by the name under which it was seen last, and nothing was.
    fn is_known_by_name(&self, watches: &Watches, node: &Node) -> bool {
        node.last_name().is_some_and(|(dir, name)| watches.knows(dir, &name, Some(node)))
    }

    /// The same of what the host says now.
    fn still_leads(
        &self,
        dir: InodeRef<'_>,
        names: &[&[u8]],
        last: Option<Named<'_>>,
    ) -> Result<bool> {
        let parent = self.reach(dir)?;
        let turn = last.as_ref().map(|(_, node)| node.turn());
        let found = match self.spare(|| self.host.open_below(parent.as_fd(), names)) {
            Ok(found) => found,
            // It is as absent as it was, whatever became of the directories before it.
            Err(Errno::ENOENT) if last.is_none() => return Ok(true),
            Err(_) => return Ok(false),
        };
        let Some((inode, node)) = last else { return Ok(false) };
        let stat = self.host.statx(found.as_fd(), b"")?;
        if Ident::of(&stat) != node.ident {
            return Ok(false);
        }
        if !self.show(&node, inode, turn.unwrap_or(0), &self.attr(&stat, found.as_fd())?) {
            return Ok(false);
        }
        // Who asks for a name mostly asks about what it stands for next.
        self.keep_at_hand(&node, &Arc::new(found));
        Ok(true)
    }

    /// Brings the attributes of what names are known to lead to up to date; whether it is what it was.
    fn is_still(&self, inode: InodeRef<'_>, node: &Node) -> bool {
        let (itself, turn) = self.question(node);
        let still = self.look_at(node).is_ok_and(|attr| self.show(node, inode, turn, &attr));
        if still {
            self.is_fresh(node, itself);
        }
        still
    }

    /// Watches the directories on a way that was just gone, and learns what their names stand for; whether the whole way is known then.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`], and whatever the host answers.
    fn learn(&self, dir: InodeRef<'_>, names: &[&[u8]]) -> Result<bool> {
        let Some(watches) = self.begin_to_watch() else { return Ok(false) };
        let mut way = Vec::new();
        let mut at = self.node(dir)?;
        for name in each(names) {
            if !at.is_directory() {
                return Ok(false);
            }
            let held = self.reach_node(&at)?;
            let Some(seen) = watches.watch(&self.host, at.id, held.as_fd()) else {
                return Ok(false);
            };
            let below = match name {
                b"." => continue,
                b".." => match way.pop() {
                    Some(above) => {
                        at = above;
                        continue;
                    }
                    None => return Ok(false),
                },
                _ => match self.host.statx(held.as_fd(), name) {
                    // What is mounted there is seen by this way alone; and names change with a key where it is encrypted.
                    Ok(stat) if stat.stx_attributes.intersects(BEYOND) => return Ok(false),
                    Ok(stat) => match self.nodes.of_file(&Ident::of(&stat)) {
                        Some(node) => Some(node),
                        None => return Ok(false),
                    },
                    Err(Errno::ENOENT) => None,
                    Err(errno) => return Err(errno),
                },
            };
            if !watches.learn(at.id, name, below.as_ref().map(|node| node.id), seen) {
                return Ok(false);
            }
            let Some(below) = below else { break };
            way.push(replace(&mut at, below));
        }
        Ok(true)
    }

    /// Brings the cached attributes up to date.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`], and whatever the host answers.
    pub(crate) fn getattr(&self, inode: InodeRef<'_>) -> Result<()> {
        let node = self.node(inode)?;
        if let Some(watches) = self.believed() {
            watches.drain(&self.host);
            // The root is held: it is what it is by whatever name.
            let is_it = || node.id == ROOT || self.is_known_by_name(watches, &node);
            if watches.tells_about(&node) && is_it() {
                return Ok(());
            }
        }
        let itself = self.watched_itself(&node);
        let attr = if let Some(open) = node.who_has_it_open(false) {
            self.refresh(inode, open.fd())?
        } else {
            let turn = node.turn();
            let attr = self.look_at(&node)?;
            self.show(&node, inode, turn, &attr);
            attr
        };
        // Of what is removed nothing is told.
        if attr.nlink > 0 {
            self.is_fresh(&node, itself);
        }
        Ok(())
    }

    /// What is asked now about attributes: the version of what is watched itself, and a turn. The turn comes second: what is told of a later one
    /// stays, so no answer of an earlier version may have it.
    fn question(&self, node: &Node) -> (Option<u64>, u64) {
        let itself = self.watched_itself(node);
        (itself, node.turn())
    }

    /// The version of what is watched itself, as directories are and files that have several names; it is now, where that was said.
    fn watched_itself(&self, node: &Node) -> Option<u64> {
        let watches = self.believed()?;
        if node.is_linked() {
            return self.watch_often_asked(watches, node);
        }
        if !node.is_directory() {
            return None;
        }
        let root = node.id == ROOT;
        if root && !self.hears_of_root(watches, node.turns()) {
            return None;
        }
        if root || self.watches_found() {
            // Where it cannot be, it is asked about each time.
            let version = watches.watch(&self.host, node.id, self.reach_node(node).ok()?.as_fd());
            // It may have been given up meanwhile to hear of the root's end; what is given up from here on has another version.
            return version.filter(|_| !root || watches.is_above_watched());
        }
        watches.version(node.id)
    }

    /// The version of a file or directory that is watched itself; it is now, if it was asked about so often.
    fn watch_often_asked(&self, watches: &Watches, node: &Node) -> Option<u64> {
        let known = watches.version(node.id);
        if known.is_some() || !node.is_to_be_watched() {
            return known;
        }
        let held = self.reach_node(node).ok()?;
        let kind = if node.is_directory() { Kind::Directory } else { Kind::File };
        watches.watch_as(kind, &self.host, node.id, held.as_fd())
    }

    /// Whether it is told from now on that the root is removed, or moved, as it was asked about so often. What is mounted on the host has
    /// its name elsewhere.
    fn hears_of_root(&self, watches: &Watches, turns: u64) -> bool {
        let above = || {
            let root = self.root.as_fd();
            let above = self.host.above(root)?;
            let [here, there] = [root, above.as_fd()].map(|fd| self.host.statx(fd, b""));
            let (here, there) = (here?, there?);
            let mounted = here.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
            if mounted { Err(Errno::EXDEV) } else { Ok((above, Ident::of(&there))) }
        };
        watches.watch_above(&self.host, turns, above)
    }

    /// The attributes were told of what is watched itself, when it had this version.
    fn is_fresh(&self, node: &Node, itself: Option<u64>) {
        if let (Some(watches), Some(version)) = (self.believed(), itself) {
            watches.fresh(node.id, version);
        }
    }

    /// Before the host is asked about a name that is not cached: whether what it says can be believed later. Of a directory in which nothing
    /// else is asked about it cannot: to watch one takes as long as some questions, and one with many files as long as hundreds.
    pub(crate) fn before_lookup(&self, dir: InodeRef<'_>) -> Result<Option<u64>> {
        let Some(watches) = self.believed() else { return Ok(None) };
        watches.drain(&self.host);
        if let Some(version) = watches.version(dir.node()) {
            return Ok(Some(version));
        }
        let node = self.node(dir)?;
        // Relaxed: of two who ask at once either may be the second.
        if !node.asked_in.swap(true, Relaxed) && !self.watches_found() {
            return Ok(None);
        }
        Ok(watches.watch(&self.host, dir.node(), self.reach_node(&node)?.as_fd()))
    }

    /// The attributes of a directory that was just found, as they are told from now on; none where it is not watched itself.
    pub(crate) fn told_from_now_on(&self, node: &Node) -> Option<Attr> {
        let itself = self.watched_itself(node)?;
        let attr = self.look_at(node).ok()?;
        self.is_fresh(node, Some(itself));
        Some(attr)
    }

    /// Whether all that becomes of a file is told of the directory in which it was found, or of the file, if it has several names and is
    /// watched itself: of what is mounted here its own directory is told.
    pub(crate) fn is_told_of(&self, stat: &Statx, attr: &Attr) -> bool {
        let mounted = stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
        attr.file_type() == FileType::Directory || attr.nlink > 0 && !mounted
    }

    /// Notes what the host has by a name, or that it has nothing, if that can be believed. Says whether it is from now on.
    ///
    /// Not of a file that was told of before, by another name: an inode that the cache had then keeps its attributes, those of which
    /// this name's directory told nobody. That is noted when it is asked about again.
    pub(crate) fn believe(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        node: Option<&Node>,
        seen: Option<u64>,
    ) -> bool {
        let (Some(watches), Some(seen)) = (self.believed(), seen) else { return false };
        watches.learn(dir.node(), name, node.map(|node| node.id), seen)
    }
}
