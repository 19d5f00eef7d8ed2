//! Whether what is cached still holds, where others change the tree too.

use crate::{
    hostfs::Shared,
    node::{Ident, Node},
    reach::show,
};
use pathwalk_abi::{Errno, FileType, Result};
use pathwalk_core::{InodeRef, fs::CachedName};
use std::{os::fd::AsFd, sync::Arc};

impl Shared {
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
    ) -> Result<bool> {
        let cached = match cached {
            Some(inode) => Some((inode, self.node(inode)?)),
            None => None,
        };
        let parent = self.reach(dir)?;
        let seen = match &self.watches {
            Some(watches) => {
                watches.drain(&self.host);
                if watches.knows(dir.node(), name, cached.as_ref().map(|(_, node)| &**node)) {
                    return Ok(true);
                }
                watches.watch(&self.host, dir.node(), parent.as_fd())
            }
            None => None,
        };
        let turn = cached.as_ref().map(|(_, node)| node.turn());
        let holds = match (self.host.statx(parent.as_fd(), name), cached) {
            (Err(Errno::ENOENT), cached) => cached.is_none(),
            (Err(errno), _) => return Err(errno),
            (Ok(stat), Some((inode, node))) if Ident::of(&stat) == node.ident => {
                let attr = self.attr_at(&stat, parent.as_fd(), name)?;
                let single = attr.nlink == 1 || node.is_directory();
                if !show(&node, inode, turn.unwrap_or(0), &attr) {
                    return Ok(false);
                }
                node.add_name(dir.node(), name);
                if let (Some(watches), Some(seen)) = (&self.watches, seen) {
                    watches.fresh(node.id);
                    // What has other names can be changed by those.
                    if single {
                        watches.learn(dir.node(), name, seen);
                    }
                }
                return Ok(true);
            }
            (Ok(_), _) => false,
        };
        if let (true, Some(watches), Some(seen)) = (holds, &self.watches, seen) {
            watches.learn(dir.node(), name, seen);
        }
        Ok(holds)
    }

    /// How many names of a run still hold, from the first on.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`].
    pub(crate) fn lookup_many(&self, dir: InodeRef<'_>, run: &[CachedName<'_>]) -> Result<usize> {
        if let Some(watches) = &self.watches {
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
        Ok(if self.leads_to(dir, &names, last)? { run.len() } else { 0 })
    }

    /// Whether a run of names still leads to a file, or for `None` to none.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`].
    pub(crate) fn leads_to(
        &self,
        dir: InodeRef<'_>,
        names: &[&[u8]],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        debug_assert!(
            self.host.goes_up() || names.iter().all(|name| !name.contains(&b'/')),
            "only openat2 walks a path"
        );
        let parent = self.reach(dir)?;
        let last = match cached {
            Some(inode) => Some((inode, self.node(inode)?)),
            None => None,
        };
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
        if !show(&node, inode, turn.unwrap_or(0), &self.attr(&stat, found.as_fd())?) {
            return Ok(false);
        }
        // Who asks for a name mostly asks about what it stands for next.
        self.keep_at_hand(&node, &Arc::new(found));
        Ok(true)
    }

    /// Brings the cached attributes up to date.
    ///
    /// # Errors
    ///
    /// Those of [`Shared::reach`], and whatever the host answers.
    pub(crate) fn getattr(&self, inode: InodeRef<'_>) -> Result<()> {
        let node = self.node(inode)?;
        if let Some(watches) = &self.watches {
            watches.drain(&self.host);
            if node.last_name().is_some_and(|(dir, name)| watches.knows(dir, &name, Some(&node))) {
                return Ok(());
            }
        }
        if let Some(open) = node.who_has_it_open(false) {
            return self.refresh(inode, open.fd()).map(drop);
        }
        self.refresh(inode, self.reach_node(&node)?.as_fd()).map(drop)
    }

    /// Before the host is asked about a name that is not cached: whether what it says can be believed later.
    pub(crate) fn before_lookup(&self, dir: InodeRef<'_>) -> Result<Option<u64>> {
        let Some(watches) = &self.watches else { return Ok(None) };
        watches.drain(&self.host);
        Ok(watches.watch(&self.host, dir.node(), self.reach(dir)?.as_fd()))
    }

    /// Notes what the host said of a name.
    pub(crate) fn after_lookup(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        found: Option<(&Node, u32)>,
        seen: Option<u64>,
    ) {
        if let (Some(watches), Some(seen)) = (&self.watches, seen)
            && found.is_none_or(|(node, nlink)| nlink == 1 || node.kind() == FileType::Directory)
        {
            watches.learn(dir.node(), name, seen);
        }
    }
}
