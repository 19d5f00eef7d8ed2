//! From an inode of the cache to its file on the host.
//!
//! A descriptor is at hand, or the file is walked to by the names that it was seen under, and is only what is wanted if it
//! is the same file there: `ESTALE` where it is not.
//!
//! Linux: `exportfs_decode_fh`; open_by_handle_at(2), which takes a privilege.

use crate::{
    hostfs::Shared,
    node::{AclsOf, Ident, Node, ROOT},
    options::Coherence,
};
use pathwalk_abi::{Errno, InodeFlags, Result, Timespec};
use pathwalk_core::{Attr, InodeRef};
use rustix::fs::OFlags;
use std::{
    convert::Infallible,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime},
};

/// Deeper down nothing is looked for: names that others moved meanwhile can make a circle.
const DEEPEST: usize = 1 << 16;

/// After so long the next change of a file has another time, where they are counted by seconds; and where finer, which is by ticks of 10 ms at most.
const SETTLES: Duration = Duration::from_secs(2);
const SETTLES_FINE: Duration = Duration::from_millis(50);

impl Shared {
    /// The node of an inode.
    ///
    /// # Errors
    ///
    /// - `ESTALE`: there is none.
    pub(crate) fn node(&self, inode: InodeRef<'_>) -> Result<Arc<Node>> {
        self.nodes.get(inode.node()).ok_or(Errno::ESTALE)
    }

    /// Holds the file of an inode.
    ///
    /// # Errors
    ///
    /// - `EACCES`: a directory above may not be searched any more on the host, and nobody has it open.
    /// - `ESTALE`: it is nowhere that it was seen, and nobody has it open.
    /// - `EMFILE`, `ENFILE`: no descriptor is left, and none could be spared.
    pub(crate) fn reach(&self, inode: InodeRef<'_>) -> Result<Arc<OwnedFd>> {
        self.reach_node(&*self.node(inode)?)
    }

    /// Holds the file of a node.
    ///
    /// # Errors
    ///
    /// As [`Shared::reach`].
    pub(crate) fn reach_node(&self, node: &Node) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = self.at_hand(node) {
            return Ok(fd);
        }
        let mut gone = Errno::ESTALE;
        for (dir, name) in node.names() {
            let fd = match self.walk_to(dir, name) {
                Ok(Some(fd)) => fd,
                Ok(None) => continue,
                Err(Errno::EACCES) => {
                    gone = Errno::EACCES;
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            let found = self.host.statx(fd.as_fd(), b"")?;
            if Ident::of(&found) == node.ident {
                let fd = Arc::new(fd);
                self.keep_at_hand(node, &fd);
                return Ok(fd);
            }
        }
        // Who has it open has it, whoever removed its name or shut a directory above; it is not held beyond that.
        let open = node.who_has_it_open(false).ok_or(gone)?;
        self.spare(|| self.host.reopen(open.fd(), OFlags::PATH)).map(Arc::new)
    }

    /// The attributes of a node, as the host tells them now: by a name of it where the directory is held, that need not be held for that.
    ///
    /// # Errors
    ///
    /// As [`Shared::reach`], and whatever the host answers.
    pub(crate) fn look_at(&self, node: &Node) -> Result<Attr> {
        if let Some(fd) = self.at_hand(node) {
            return self.attr(&self.host.statx(fd.as_fd(), b"")?, fd.as_fd());
        }
        // What is kept beside a file is read by another call, and must be the same file's.
        let by_name = !self.options.identities.is_kept();
        for (dir, name) in node.names().into_iter().filter(|_| by_name) {
            if let Some(dir) = self.nodes.get(dir).and_then(|dir| self.at_hand(&dir))
                && let Ok(stat) = self.host.statx(dir.as_fd(), &name)
                && Ident::of(&stat) == node.ident
            {
                return self.attr_at(&stat, dir.as_fd(), &name);
            }
        }
        let fd = self.reach_node(node)?;
        self.attr(&self.host.statx(fd.as_fd(), b"")?, fd.as_fd())
    }

    /// Holds a descriptor of a node from now on, if by that it is always reached.
    pub(crate) fn keep_at_hand(&self, node: &Node, fd: &Arc<OwnedFd>) {
        if node.may_be_held() {
            self.pool.lock().put(node.id, Arc::clone(fd));
        }
    }

    /// The descriptor of a node, if one is held.
    fn at_hand(&self, node: &Node) -> Option<Arc<OwnedFd>> {
        if node.id == ROOT {
            return Some(Arc::clone(&self.root));
        }
        let held = self.holds.as_ref().filter(|(ident, _)| *ident == node.ident);
        if let Some((_, fd)) = held {
            return Some(Arc::clone(fd));
        }
        let pooled = self.pool.lock().get(node.id).map(|fd| Arc::clone(fd));
        pooled.or_else(|| node.nameless())
    }

    /// Walks to a name from the nearest directory above that is held; none where it is not there any more.
    fn walk_to(&self, mut dir: u64, name: Box<[u8]>) -> Result<Option<OwnedFd>> {
        let mut names = vec![name];
        let start = loop {
            let Some(node) = self.nodes.get(dir) else { return Ok(None) };
            if let Some(fd) = self.at_hand(&node) {
                break fd;
            }
            let Some((above, name)) = node.last_name() else { return Ok(None) };
            names.push(name);
            dir = above;
            if names.len() > DEEPEST {
                return Ok(None);
            }
        };
        let names: Vec<&[u8]> = names.iter().rev().map(|name| &**name).collect();
        match self.spare(|| self.host.open_below(start.as_fd(), &names)) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes a call that takes a descriptor; where there is none left some that are held are let go of.
    ///
    /// # Errors
    ///
    /// Those of the call.
    pub(crate) fn spare<T>(&self, call: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match call() {
                Err(Errno::EMFILE | Errno::ENFILE) if self.pool.lock().halve() => {}
                answer => return answer,
            }
        }
    }

    /// Asks the host for the attributes of a file that is held, and tells the cache.
    ///
    /// # Errors
    ///
    /// Whatever the host answers.
    pub(crate) fn refresh(&self, inode: InodeRef<'_>, held: BorrowedFd<'_>) -> Result<Attr> {
        let node = self.node(inode)?;
        let turn = node.turn();
        let attr = self.attr(&self.host.statx(held, b"")?, held)?;
        self.show(&node, inode, turn, &attr);
        Ok(attr)
    }

    /// As [`Shared::refresh`] after a change that was made, whether or not the host says what came of it.
    pub(crate) fn refresh_after(&self, inode: InodeRef<'_>, held: BorrowedFd<'_>) {
        // The next that is asked about it says it again.
        let _ = self.refresh(inode, held);
    }

    /// Tells the cache what the host answered in that turn, unless it has a later answer. Says whether it is of the type that it was:
    /// what is written beside a file may say another one, and then it is to be looked up again.
    pub(crate) fn show(&self, node: &Node, inode: InodeRef<'_>, turn: u64, new: &Attr) -> bool {
        let unnoted = node.unnoted();
        let (mut same_type, mut linked) = (false, false);
        let Ok(()) = inode.update(|attr| {
            same_type = attr.file_type() == new.file_type();
            if node.shown.load(Relaxed) < turn && same_type {
                node.shown.store(turn, Relaxed);
                linked = node.note_links(new.nlink);
                let (kept, atime) = (attr.flags & InodeFlags::NOATIME, attr.atime);
                *attr = *new;
                attr.flags |= kept;
                if unnoted == Some(new.atime) {
                    attr.atime = atime;
                }
            }
            Ok::<_, Infallible>(())
        });
        if linked {
            self.note_linked();
        }
        if self.options.coherence != Coherence::Exclusive {
            self.forget_old_acls(node, inode, new);
        }
        same_type
    }

    /// Forgets ACLs that others may have changed since they were asked for: each change moves the time of change, and is told where
    /// something is watched itself. Whoever asked, in whatever turn, goes on by no older ones.
    fn forget_old_acls(&self, node: &Node, inode: InodeRef<'_>, now: &Attr) {
        let Some(known) = node.acls().filter(|acls| acls.ctime != Some(now.ctime)) else { return };
        let version = known.version.and_then(|_| self.version_of_itself(node));
        let same = |acls: &AclsOf| acls.version.is_some() && acls.version == version;
        node.forget_acls_unless(same, || inode.forget_acls());
    }

    /// Notes that the host is about to be asked for ACLs.
    pub(crate) fn asks_for_acls(&self, node: &Node, inode: InodeRef<'_>) {
        let version = self.version_of_itself(node);
        let ctime = inode.attr().ctime;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ctime = has_settled(ctime, now).then_some(ctime);
        node.asks_for_acls(AclsOf { version, ctime });
    }

    /// The version of what is watched itself, by all that has happened.
    fn version_of_itself(&self, node: &Node) -> Option<u64> {
        let watches = self.watches()?;
        watches.drain(&self.host);
        watches.version_of_itself(node.id)
    }
}

/// Whether what changes now gets a later time of change than that. Where a server's clock is behind this machine's by more than it takes to settle,
/// two changes within one tick of it are taken for one.
pub(crate) fn has_settled(ctime: Timespec, now: Duration) -> bool {
    let Ok(sec) = u64::try_from(ctime.sec) else { return false };
    let settles = if ctime.nsec == 0 { SETTLES } else { SETTLES_FINE };
    now.checked_sub(Duration::new(sec, ctime.nsec)).is_some_and(|since| since > settles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_settles_by_what_it_is_counted_in() {
        let settled = |nsec, since| {
            let ctime = Timespec { sec: 1000, nsec };
            has_settled(ctime, Duration::new(1000, nsec) + Duration::from_millis(since))
        };
        assert_eq!([10, 100, 1900, 2100].map(|since| settled(5, since)), [false, true, true, true]);
        assert_eq!(
            [10, 100, 1900, 2100].map(|since| settled(0, since)),
            [false, false, false, true]
        );
        assert!(
            !has_settled(Timespec { sec: 1001, nsec: 5 }, Duration::from_secs(1000)),
            "to come"
        );
        assert!(!has_settled(Timespec { sec: -5, nsec: 5 }, Duration::from_secs(1000)));
    }
}
