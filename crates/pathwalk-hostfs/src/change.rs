//! The calls that change something.
//!
//! Each is one call of the host on a directory that is held and a name in it; what it did is then read back from the host,
//! so the cache has the host's times, sizes and counts of links.

use crate::{
    host::{IFlags, RenameFlags, XattrFlags},
    hostfs::Shared,
    identity::Kept,
    node::{Ident, Node},
};
use pathwalk_abi::{
    Errno, FileType, InodeFlags, Result, SetTime, Timespec,
    mode::S_IALLUGO,
    xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
};
use pathwalk_core::{
    AclEntry, AclKind, InodeRef, acl_to_xattr,
    fs::{Found, Iattr, NewInode, Rename},
};
use rustix::fs::{OFlags, Statx};
use std::{
    convert::Infallible,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

impl Shared {
    pub(crate) fn create(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Found> {
        let parent = self.reach(dir)?;
        let (at, mode) = (parent.as_fd(), new.mode & S_IALLUGO);
        // What is only said beside it to be what it is, is a directory, or a regular file.
        let kept = self.options.identities.is_kept();
        if kept && new.file_type == FileType::Symlink {
            let made = self.spare(|| self.host.create(at, name, 0o600, OFlags::WRONLY))?;
            let made = self.write_body(made.as_fd(), new.body).map(|()| made);
            return self.is_made(dir, at, name, new, made).map(|(_, found, _)| found);
        }
        let kind = if kept { FileType::Regular } else { new.file_type };
        match new.file_type {
            FileType::Directory => self.host.mkdir(at, name, if kept { 0o700 } else { mode })?,
            _ if kept => self.host.mknod(at, name, kind, 0o600, 0)?,
            FileType::Symlink => self.host.symlink(new.body, at, name)?,
            _ => self.host.mknod(at, name, kind, mode, new.rdev.to_stat())?,
        }
        let made = self.spare(|| self.host.open_path(at, name));
        if let Ok(made) = &made
            && let Ok(stat) = self.host.statx(made.as_fd(), b"")
            && new.file_type != FileType::Directory
        {
            // Others may have put another file there, which is to stay as it is.
            let is_empty = kind != FileType::Regular || stat.stx_size == 0;
            let found = FileType::from_mode(u32::from(stat.stx_mode));
            if found != Some(kind) || stat.stx_nlink != 1 || !is_empty {
                return Err(Errno::ESTALE);
            }
        }
        self.is_made(dir, at, name, new, made).map(|(_, found, _)| found)
    }

    /// Makes a regular file and opens it, as its maker may whatever its mode forbids, and so that who watches is told no more than of that.
    pub(crate) fn create_open(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        new: &NewInode<'_>,
        flags: OFlags,
    ) -> Result<(Arc<Node>, Found, OwnedFd)> {
        let parent = self.reach(dir)?;
        let mode = if self.options.identities.is_kept() { 0o600 } else { new.mode & S_IALLUGO };
        // With that one it could be made and not be opened.
        let at_once = flags.difference(OFlags::NOATIME);
        let made = self.spare(|| self.host.create(parent.as_fd(), name, mode, at_once))?;
        if flags.contains(OFlags::NOATIME) {
            // Its owner may.
            let _ = self.host.set_status(made.as_fd(), flags);
        }
        self.is_made(dir, parent.as_fd(), name, new, Ok(made))
    }

    /// Finishes what was made, and notes it.
    fn is_made<F: AsFd>(
        &self,
        dir: InodeRef<'_>,
        at: BorrowedFd<'_>,
        name: &[u8],
        new: &NewInode<'_>,
        made: Result<F>,
    ) -> Result<(Arc<Node>, Found, F)> {
        let finished = made.and_then(|made| {
            let stat = self.finish(made.as_fd(), new)?;
            Ok((self.attr(&stat, made.as_fd())?, stat, made))
        });
        let (attr, stat, made) = finished.inspect_err(|_| {
            // It cannot be as it is to be, so it is not to be.
            let directory = new.file_type == FileType::Directory;
            let _ = if directory { self.host.rmdir(at, name) } else { self.host.unlink(at, name) };
        })?;
        self.refresh_after(dir, at);
        let (node, found) = self.found(dir.node(), name, &stat, attr);
        Ok((node, found, made))
    }

    /// Writes what a symlink says that is a regular file there.
    fn write_body(&self, made: BorrowedFd<'_>, body: &[u8]) -> Result<()> {
        let written = self.host.pwrite(made, body, 0)?;
        if written == body.len() { Ok(()) } else { Err(Errno::ENOSPC) }
    }

    pub(crate) fn tmpfile(&self, dir: InodeRef<'_>, new: &NewInode<'_>) -> Result<Found> {
        let parent = self.reach(dir)?;
        let mode = if self.options.identities.is_kept() { 0o600 } else { new.mode & S_IALLUGO };
        let made = self.spare(|| self.host.tmpfile(parent.as_fd(), mode))?;
        let stat = self.finish(made.as_fd(), new)?;
        let attr = self.attr(&stat, made.as_fd())?;
        let (node, _) = self.nodes.answer(Ident::of(&stat));
        node.set_nameless(Some(Arc::new(made)));
        Ok(Found { node: node.id, attr, body: None })
    }

    /// Gives what was made the owner, the mode and the ACLs that it is to have: the host gave it those of this process.
    fn finish(&self, made: BorrowedFd<'_>, new: &NewInode<'_>) -> Result<Statx> {
        if self.options.identities.is_kept() {
            let mode = new.file_type.to_mode() | new.mode & S_IALLUGO;
            Kept::new(mode, new.uid, new.gid, new.rdev).write(&self.host, made)?;
            return self.host.statx(made, b"");
        }
        let wanted = self.options.identities.to_host(new.uid, new.gid);
        let (wanted_uid, wanted_gid) = wanted.ok_or(Errno::EOVERFLOW)?;
        let mut stat = self.host.statx(made, b"")?;
        let mut again = false;
        let owner = |is: u32, wanted: u32| (is != wanted).then_some(wanted);
        let (uid, gid) = (owner(stat.stx_uid, wanted_uid), owner(stat.stx_gid, wanted_gid));
        if uid.is_some() || gid.is_some() {
            self.host.chown(made, uid, gid)?;
            again = true;
        }
        for (name, acl) in [
            (XATTR_NAME_POSIX_ACL_ACCESS, new.access_acl),
            (XATTR_NAME_POSIX_ACL_DEFAULT, new.default_acl),
        ] {
            if !acl.is_empty() {
                self.host.setxattr(made, name, &acl_to_xattr(acl), XattrFlags::empty())?;
                again = true;
            }
        }
        let mode = u32::from(stat.stx_mode) & S_IALLUGO;
        let symlink = new.file_type == FileType::Symlink;
        // Changing the owner takes the set-id bits.
        if !symlink && (again || mode != new.mode & S_IALLUGO) {
            self.host.chmod(made, new.mode & S_IALLUGO)?;
            again = true;
        }
        if again {
            stat = self.host.statx(made, b"")?;
        }
        Ok(stat)
    }

    pub(crate) fn link(&self, inode: InodeRef<'_>, dir: InodeRef<'_>, name: &[u8]) -> Result<()> {
        if inode.attr().nlink == 0 && !inode.is_linkable() {
            return Err(Errno::ENOENT);
        }
        let (held, parent, node) = (self.reach(inode)?, self.reach(dir)?, self.node(inode)?);
        self.host.link(held.as_fd(), parent.as_fd(), name)?;
        node.add_name(dir.node(), name);
        node.set_nameless(None);
        self.refresh_after(inode, held.as_fd());
        self.refresh_after(dir, parent.as_fd());
        Ok(())
    }

    pub(crate) fn remove(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        kind: FileType,
    ) -> Result<()> {
        let (held, parent, node) = (self.reach(inode)?, self.reach(dir)?, self.node(inode)?);
        match kind {
            FileType::Directory => self.host.rmdir(parent.as_fd(), name)?,
            _ => self.host.unlink(parent.as_fd(), name)?,
        }
        node.remove_name(dir.node(), name);
        self.lost_a_name(inode, &node, held);
        self.refresh_after(dir, parent.as_fd());
        Ok(())
    }

    /// Tells the cache of a file that has lost a name; if that was the last, it is held from now on.
    fn lost_a_name(&self, inode: InodeRef<'_>, node: &Node, held: Arc<OwnedFd>) {
        let directory = node.is_directory();
        self.refresh_after(inode, held.as_fd());
        if directory {
            // What some file systems say of removed ones.
            let Ok(()) = inode.update(|attr| {
                attr.nlink = 0;
                Ok::<_, Infallible>(())
            });
        }
        // By the name that it lost what is opened later is not to be opened: whoever watches is told otherwise.
        self.pool.lock().remove(node.id);
        if inode.attr().nlink == 0 {
            node.set_nameless(Some(held));
        }
    }

    pub(crate) fn rename(&self, rename: &Rename<'_>) -> Result<()> {
        self.move_name(rename, RenameFlags::empty())
    }

    pub(crate) fn exchange(&self, rename: &Rename<'_>) -> Result<()> {
        let other = rename.replaced.ok_or(Errno::ENOENT)?;
        let (old_dir, new_dir) = (self.reach(rename.old_dir)?, self.reach(rename.new_dir)?);
        let (node, other_node) = (self.node(rename.inode)?, self.node(other)?);
        let old = (old_dir.as_fd(), rename.old_name);
        let new = (new_dir.as_fd(), rename.new_name);
        self.host.rename(old, new, RenameFlags::EXCHANGE)?;
        node.remove_name(rename.old_dir.node(), rename.old_name);
        other_node.remove_name(rename.new_dir.node(), rename.new_name);
        node.add_name(rename.new_dir.node(), rename.new_name);
        other_node.add_name(rename.old_dir.node(), rename.old_name);
        self.moved(rename, &old_dir, &new_dir);
        if let Ok(held) = self.reach_node(&other_node) {
            self.refresh_after(other, held.as_fd());
        }
        Ok(())
    }

    pub(crate) fn rename_whiteout(
        &self,
        rename: &Rename<'_>,
        whiteout: &NewInode<'_>,
    ) -> Result<Found> {
        if self.options.identities.is_kept() {
            return Err(Errno::EINVAL);
        }
        self.move_name(rename, RenameFlags::WHITEOUT)?;
        let parent = self.reach(rename.old_dir)?;
        let made = self.spare(|| self.host.open_path(parent.as_fd(), rename.old_name))?;
        let stat = self.finish(made.as_fd(), whiteout)?;
        let attr = self.attr(&stat, made.as_fd())?;
        Ok(self.found(rename.old_dir.node(), rename.old_name, &stat, attr).1)
    }

    /// Gives a file another name, which another may lose.
    fn move_name(&self, rename: &Rename<'_>, flags: RenameFlags) -> Result<()> {
        let (old_dir, new_dir) = (self.reach(rename.old_dir)?, self.reach(rename.new_dir)?);
        let node = self.node(rename.inode)?;
        // Held before, for it may have no other name.
        let replaced = match rename.replaced {
            Some(victim) => Some((victim, self.node(victim)?, self.reach(victim)?)),
            None => None,
        };
        let old = (old_dir.as_fd(), rename.old_name);
        let new = (new_dir.as_fd(), rename.new_name);
        self.host.rename(old, new, flags)?;
        node.remove_name(rename.old_dir.node(), rename.old_name);
        node.add_name(rename.new_dir.node(), rename.new_name);
        if let Some((victim, node, held)) = replaced {
            node.remove_name(rename.new_dir.node(), rename.new_name);
            self.lost_a_name(victim, &node, held);
        }
        self.moved(rename, &old_dir, &new_dir);
        Ok(())
    }

    /// Tells the cache what became of the directories of a rename, and of what was renamed.
    fn moved(&self, rename: &Rename<'_>, old_dir: &OwnedFd, new_dir: &OwnedFd) {
        self.refresh_after(rename.old_dir, old_dir.as_fd());
        if rename.old_dir.node() != rename.new_dir.node() {
            self.refresh_after(rename.new_dir, new_dir.as_fd());
        }
        if let Ok(held) = self.reach(rename.inode) {
            self.refresh_after(rename.inode, held.as_fd());
        }
    }

    pub(crate) fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        let held = self.reach(inode)?;
        let changed = self.change(inode, held.as_fd(), change);
        self.refresh_after(inode, held.as_fd());
        changed
    }

    fn change(&self, inode: InodeRef<'_>, held: BorrowedFd<'_>, change: &Iattr) -> Result<()> {
        if let Some(size) = change.size {
            self.set_size(inode, held, size, change.mtime.is_some())?;
        }
        // A chown of nothing stamps.
        let nothing = Iattr { now: change.now, ctime: change.ctime, ..Iattr::default() } == *change;
        let owner = change.uid.is_some() || change.gid.is_some();
        let kept = self.options.identities.is_kept() && self.node(inode)?.can_have_attributes();
        if kept && (owner || change.mode.is_some()) {
            let mut attr = inode.attr();
            change.copy_to(&mut attr);
            Kept::of(&attr).write(&self.host, held)?;
        } else {
            if owner || nothing && change.ctime.is_some() {
                let owner = self.options.identities.change_to_host(change.uid, change.gid);
                let (uid, gid) = owner.ok_or(Errno::EINVAL)?;
                self.host.chown(held, uid, gid)?;
            }
            if let Some(mode) = change.mode {
                self.chmod(inode, held, mode & S_IALLUGO)?;
            }
        }
        if let Some(flags) = change.flags {
            self.set_flags(inode, held, flags)?;
        }
        // A new size stamps of itself.
        let mtime = change.mtime.filter(|_| change.size.is_none());
        if change.atime.is_some() || mtime.is_some() {
            let set = |time: Option<Timespec>| match time {
                None => SetTime::Omit,
                // By the host's own clock, as all that it stamps.
                Some(time) if time == change.now => SetTime::Now,
                Some(time) => SetTime::At(time),
            };
            self.host.utimens(held, set(change.atime), set(mtime))?;
            if change.atime.is_some() {
                self.node(inode)?.set_unnoted(None);
            }
        }
        Ok(())
    }

    /// Also where nobody may: then the bits go with what is written, to a file that was open before it was made so. For that
    /// moment the host's file is like others.
    fn chmod(&self, inode: InodeRef<'_>, held: BorrowedFd<'_>, mode: u32) -> Result<()> {
        let kept = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
        match self.host.chmod(held, mode) {
            Err(Errno::EPERM) if inode.attr().flags.intersects(kept) => {
                let before = self.host.statx(held, b"")?.stx_mode;
                let file = self.spare(|| self.host.reopen(held, OFlags::RDONLY))?;
                // The host's, not those that are cached: somebody else may have set one.
                let flags = self.host.getflags(file.as_fd())?;
                let plain = flags.difference(IFlags::IMMUTABLE | IFlags::APPEND);
                self.host.setflags(file.as_fd(), plain)?;
                let done = self.host.chmod(held, mode);
                let restored = self.host.setflags(file.as_fd(), flags);
                if restored.is_err() {
                    // As it was, as far as that is left to us.
                    let _ = self.host.chmod(held, u32::from(before) & S_IALLUGO);
                    self.host.setflags(file.as_fd(), flags)?;
                }
                done
            }
            done => done,
        }
    }

    /// Where it can be, by no opening, of which others are told. ftruncate(2) stamps a file that keeps its size too, truncate(2) does not.
    fn set_size(
        &self,
        inode: InodeRef<'_>,
        held: BorrowedFd<'_>,
        size: u64,
        stamps: bool,
    ) -> Result<()> {
        let open = self.node(inode)?.who_has_it_open(true);
        let changes = || self.refresh(inode, held).map(|attr| attr.size != size);
        match open {
            Some(open) if stamps => self.host.truncate(open.fd(), size),
            None if stamps && !changes()? => {
                let file = self.spare(|| self.host.reopen(held, OFlags::WRONLY))?;
                self.host.truncate(file.as_fd(), size)
            }
            open => match (self.host.truncate_held(held, size), open) {
                // Who opened it may; and whom no mode binds here, as where he opens it.
                (Err(Errno::EACCES), Some(open)) => {
                    if changes()? {
                        self.host.truncate(open.fd(), size)
                    } else {
                        Ok(())
                    }
                }
                (Err(Errno::EACCES), None) => {
                    let file = self.spare(|| self.reopen_own(inode, held, OFlags::WRONLY))?;
                    self.host.truncate(file.as_fd(), size)
                }
                (answer, _) => answer,
            },
        }
    }

    fn set_flags(
        &self,
        inode: InodeRef<'_>,
        held: BorrowedFd<'_>,
        flags: InodeFlags,
    ) -> Result<()> {
        let file = self.spare(|| self.host.reopen(held, OFlags::RDONLY))?;
        let bits = |flags: InodeFlags| IFlags::from_bits_retain(flags.bits());
        let other = self.host.getflags(file.as_fd())?.difference(bits(InodeFlags::all()));
        self.host.setflags(file.as_fd(), other | bits(flags))?;
        // Of this one statx says nothing.
        let Ok(()) = inode.update(|attr| {
            attr.flags.set(InodeFlags::NOATIME, flags.contains(InodeFlags::NOATIME));
            Ok::<_, Infallible>(())
        });
        Ok(())
    }

    pub(crate) fn set_acl(
        &self,
        inode: InodeRef<'_>,
        kind: AclKind,
        acl: &[AclEntry],
        change: &mut Iattr,
    ) -> Result<()> {
        let held = self.reach(inode)?;
        let name = match kind {
            AclKind::Access => XATTR_NAME_POSIX_ACL_ACCESS,
            AclKind::Default => XATTR_NAME_POSIX_ACL_DEFAULT,
        };
        if acl.is_empty() {
            match self.host.removexattr(held.as_fd(), name) {
                Ok(()) | Err(Errno::ENODATA) => {}
                Err(errno) => return Err(errno),
            }
        } else {
            self.host.setxattr(held.as_fd(), name, &acl_to_xattr(acl), XattrFlags::empty())?;
        }
        if let Some(mode) = change.mode {
            self.host.chmod(held.as_fd(), mode & S_IALLUGO)?;
        }
        if let Ok(attr) = self.refresh(inode, held.as_fd()) {
            change.ctime = Some(attr.ctime);
        }
        Ok(())
    }
}
