//! The calls that change something.
//!
//! Each is one call of the host on a directory that is held and a name in it; what it did is then read back from the host,
//! so the cache has the host's times, sizes and counts of links.

use crate::{
    host::{IFlags, RenameFlags, XattrFlags},
    hostfs::{Shared, is_of_group},
    identity::{Kept, unless_refused},
    node::{Ident, Node},
    reach::has_settled,
};
use pathwalk_abi::{
    Errno, FileType, InodeFlags, Result, SetTime, Timespec,
    mode::{S_IALLUGO, S_ISGID, S_ISUID},
    xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
};
use pathwalk_core::{
    AclEntry, AclKind, InodeRef, acl_to_xattr,
    fs::{Found, Iattr, NewInode, Rename},
};
use rustix::{
    fs::{OFlags, Statx},
    process::{getegid, geteuid},
    thread::{CapabilitySet, capabilities},
};
use std::{
    convert::Infallible,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::SystemTime,
};

/// The numbers of a user and a group on the host; none where they are kept beside the file.
type Owner = Option<(u32, u32)>;

/// What the host was asked to make.
struct AsMade {
    mode: u32,
    /// Before it was asked.
    since: SystemTime,
    /// It stays, whatever it is: a rename left it.
    stays: bool,
}

/// What is to be changed of what was made.
struct Differs {
    uid: Option<u32>,
    gid: Option<u32>,
    /// Mode or ACLs.
    else_too: bool,
}

impl Differs {
    fn any(&self) -> bool {
        self.uid.is_some() || self.gid.is_some() || self.else_too
    }
}

fn differs(stat: &Statx, new: &NewInode<'_>, owner: Owner) -> Differs {
    let mode = u32::from(stat.stx_mode) & S_IALLUGO;
    let has_mode = new.file_type == FileType::Symlink || mode == new.mode & S_IALLUGO;
    let has_acls = new.access_acl.is_empty() && new.default_acl.is_empty();
    let (uid, gid) = owner.unzip();
    Differs {
        uid: uid.filter(|&uid| uid != stat.stx_uid),
        gid: gid.filter(|&gid| gid != stat.stx_gid),
        else_too: !(has_mode && has_acls),
    }
}

/// Whether this process has a capability.
fn is_capable(of: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(of))
}

impl Shared {
    /// Makes a file; none where it was made and others have taken it away since, or may have put something else there: that is theirs, and
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// - those of [`Shared::reach`].
    /// - `EOVERFLOW`, `EPERM`: it cannot belong to that user.
    /// - whatever the host answers.
    pub(crate) fn create(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Option<Found>> {
        let parent = self.reach(dir)?;
        let (at, mode) = (parent.as_fd(), new.mode & S_IALLUGO);
        let (kind, kept) = (new.file_type, self.options.identities.is_kept());
        let owner = self.owner_of(new, at)?;
        // What is only said beside it to be what it is, is a directory, or a regular file.
        if kept && kind != FileType::Directory {
            let made = self.spare(|| self.host.create(at, name, 0o600, OFlags::WRONLY))?;
            let written = self.write_body(made.as_fd(), new.body);
            let made = self.is_made(dir, at, name, (new, owner), (made, 0o600), written);
            return made.map(|it| Some(it.1));
        }
        let mode = if kept { 0o700 } else { mode };
        // What is made is finished by a descriptor: where there is none left for it, it is not made.
        let room = self.spare(|| self.host.reserve(at))?;
        let since = SystemTime::now();
        match kind {
            FileType::Directory => self.host.mkdir(at, name, mode)?,
            FileType::Symlink => self.host.symlink(new.body, at, name)?,
            _ => self.host.mknod(at, name, kind, mode, new.rdev.to_stat())?,
        }
        drop(room);
        self.was_made(dir, at, name, (new, owner), &AsMade { mode, since, stays: false })
    }

    /// Finishes what a name was made for that says not what it stands for now, and notes it.
    fn was_made(
        &self,
        dir: InodeRef<'_>,
        at: BorrowedFd<'_>,
        name: &[u8],
        (new, owner): (&NewInode<'_>, Owner),
        as_made: &AsMade,
    ) -> Result<Option<Found>> {
        let kept = self.options.identities.is_kept();
        let made = match self.spare(|| self.host.open_path(at, name)) {
            Ok(made) => made,
            Err(Errno::ENOENT) => return Ok(None),
            // Another thread has the descriptor by now: it can only be as the host made it.
            Err(errno) => {
                let stat = self.host.statx(at, name);
                let stays = stat.map_or(true, |stat| !kept && !differs(&stat, new, owner).any());
                return if stays { Ok(None) } else { Err(errno) };
            }
        };
        let Ok(stat) = self.host.statx(made.as_fd(), b"") else { return Ok(None) };
        let is_to_change = kept || differs(&stat, new, owner).any();
        if !self.looks_new(&stat, made.as_fd(), new)
            || is_to_change && !self.is_as_made(&stat, made.as_fd(), at, new.file_type, as_made)
        {
            return Ok(None);
        }
        let finished = self
            .finish(made.as_fd(), stat, at, (new, owner), as_made.mode)
            .and_then(|stat| Ok((self.attr(&stat, made.as_fd())?, stat)));
        let (attr, stat) = finished.inspect_err(|_| {
            if !as_made.stays {
                self.take_away(at, name, &stat);
            }
        })?;
        self.refresh_after(dir, at);
        Ok(Some(self.found(dir.node(), name, &stat, attr).1))
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
        let owner = self.owner_of(new, parent.as_fd())?;
        let mode = if self.options.identities.is_kept() { 0o600 } else { new.mode & S_IALLUGO };
        // With that one it could be made and not be opened.
        let at_once = flags.difference(OFlags::NOATIME);
        let made = self.spare(|| self.host.create(parent.as_fd(), name, mode, at_once))?;
        if flags.contains(OFlags::NOATIME) {
            // Its owner may.
            let _ = self.host.set_status(made.as_fd(), flags);
        }
        self.is_made(dir, parent.as_fd(), name, (new, owner), (made, mode), Ok(()))
    }

    /// Finishes what was made with this mode, where the descriptor is of that for sure, and notes it.
    fn is_made(
        &self,
        dir: InodeRef<'_>,
        at: BorrowedFd<'_>,
        name: &[u8],
        (new, owner): (&NewInode<'_>, Owner),
        (made, mode): (OwnedFd, u32),
        written: Result<()>,
    ) -> Result<(Arc<Node>, Found, OwnedFd)> {
        let stat = self.host.statx(made.as_fd(), b"")?;
        let finished = written
            .and_then(|()| self.finish(made.as_fd(), stat, at, (new, owner), mode))
            .and_then(|stat| Ok((self.attr(&stat, made.as_fd())?, stat)));
        // It cannot be as it is to be, so it is not to be.
        let (attr, stat) = finished.inspect_err(|_| self.take_away(at, name, &stat))?;
        self.refresh_after(dir, at);
        let (node, found) = self.found(dir.node(), name, &stat, attr);
        Ok((node, found, made))
    }

    /// Takes a name away, if it still stands for that file.
    fn take_away(&self, at: BorrowedFd<'_>, name: &[u8], made: &Statx) {
        let Ok(stat) = self.host.statx(at, name) else { return };
        let ident = Ident::of(made);
        if Ident::of(&stat) == ident {
            let directory = ident.kind() == FileType::Directory;
            let _ = if directory { self.host.rmdir(at, name) } else { self.host.unlink(at, name) };
        }
    }

    /// Whether a file can be what was just made, by all that does not depend on who made it.
    fn looks_new(&self, stat: &Statx, held: BorrowedFd<'_>, new: &NewInode<'_>) -> bool {
        let kind = new.file_type;
        let rdev = (stat.stx_rdev_major, stat.stx_rdev_minor);
        FileType::from_mode(stat.stx_mode.into()) == Some(kind)
            && self.nodes.of_file(&Ident::of(stat)).is_none()
            && match kind {
                // Its own `.`, which some do not count.
                FileType::Directory => stat.stx_nlink <= 2,
                _ => stat.stx_nlink == 1,
            }
            && match kind {
                FileType::Regular => stat.stx_size == 0,
                FileType::Symlink => self.host.readlink(held).is_ok_and(|body| body == new.body),
                FileType::CharDevice | FileType::BlockDevice => {
                    rdev == (new.rdev.major(), new.rdev.minor())
                }
                _ => true,
            }
    }

    /// Whether a file that looks new is as the host makes one for this process: what others made and have the same right to is to stay as it is.
    fn is_as_made(
        &self,
        stat: &Statx,
        held: BorrowedFd<'_>,
        dir: BorrowedFd<'_>,
        kind: FileType,
        as_made: &AsMade,
    ) -> bool {
        let is_older = || {
            let birth = Timespec { sec: stat.stx_btime.tv_sec, nsec: stat.stx_btime.tv_nsec };
            let since = as_made.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            // By the clock of this machine.
            birth != Timespec::default()
                && has_settled(birth, since)
                && self.host.tells_all(stat, held).unwrap_or(false)
        };
        // Some file systems decide themselves whose a file is and which mode it has; to be only said beside it, it must be said of those too.
        let says_nothing = || {
            let kept = self.options.identities.is_kept();
            kept && !self.host.tells_all(stat, held).unwrap_or(true)
        };
        let own = stat.stx_uid == geteuid().as_raw()
            && (kind == FileType::Symlink || self.has_mode_as_made(stat, dir, as_made.mode));
        (own || says_nothing()) && !is_older()
    }

    /// Whether the host gives this mode to what this process makes with the one that it asks for: without the bits of its umask, or of what the directory's
    /// default ACL does not grant.
    fn has_mode_as_made(&self, stat: &Statx, dir: BorrowedFd<'_>, asked: u32) -> bool {
        // The set-group-ID bit is the directory's, or is left to its group.
        let bits = |mode: u32| mode & S_IALLUGO & !S_ISGID;
        let (is, asked) = (bits(stat.stx_mode.into()), bits(asked));
        is == asked
            || is & !asked == 0
                && (self.host.umask().is_none_or(|umask| is == asked & !umask)
                    || self.host.getxattr(dir, XATTR_NAME_POSIX_ACL_DEFAULT).is_ok())
    }

    /// The group that the host gives to what this process makes in a directory.
    fn group_as_made(&self, dir: BorrowedFd<'_>) -> u32 {
        match self.host.statx(dir, b"") {
            Ok(stat) if u32::from(stat.stx_mode) & S_ISGID != 0 => stat.stx_gid,
            _ => getegid().as_raw(),
        }
    }

    /// Whose a file is to be on the host that is made in a directory.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: there is no such user.
    /// - `EPERM`: this process cannot give files to that user, or that group.
    fn owner_of(&self, new: &NewInode<'_>, dir: BorrowedFd<'_>) -> Result<Owner> {
        if self.options.identities.is_kept() {
            return Ok(None);
        }
        let (uid, gid) =
            self.options.identities.to_host(new.uid, new.gid).ok_or(Errno::EOVERFLOW)?;
        let own = uid == geteuid().as_raw() && (is_of_group(gid) || gid == self.group_as_made(dir));
        if own || is_capable(CapabilitySet::CHOWN) {
            Ok(Some((uid, gid)))
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Writes what a symlink says that is a regular file there; nothing else has a body.
    fn write_body(&self, made: BorrowedFd<'_>, body: &[u8]) -> Result<()> {
        if body.is_empty() {
            return Ok(());
        }
        let written = self.host.pwrite(made, body, 0)?;
        if written == body.len() { Ok(()) } else { Err(Errno::ENOSPC) }
    }

    pub(crate) fn tmpfile(&self, dir: InodeRef<'_>, new: &NewInode<'_>) -> Result<Found> {
        let parent = self.reach(dir)?;
        let owner = self.owner_of(new, parent.as_fd())?;
        let mode = if self.options.identities.is_kept() { 0o600 } else { new.mode & S_IALLUGO };
        let made = self.spare(|| self.host.tmpfile(parent.as_fd(), mode))?;
        let stat = self.host.statx(made.as_fd(), b"")?;
        let stat = self.finish(made.as_fd(), stat, parent.as_fd(), (new, owner), mode)?;
        let attr = self.attr(&stat, made.as_fd())?;
        let (node, _) = self.nodes.answer(Ident::of(&stat));
        node.set_nameless(Some(Arc::new(made)));
        Ok(Found { node: node.id, attr, body: None })
    }

    /// Gives what was made in a directory with some mode the owner, the mode and the ACLs that it is to have: the host gave it those of this
    /// process. What a file system decides itself, for whoever makes a file, stays: that it has no owners or modes, as vfat, or others than
    /// were asked for, as where a server knows better.
    fn finish(
        &self,
        made: BorrowedFd<'_>,
        stat: Statx,
        dir: BorrowedFd<'_>,
        (new, owner): (&NewInode<'_>, Owner),
        asked: u32,
    ) -> Result<Statx> {
        if self.options.identities.is_kept() {
            let mode = new.file_type.to_mode() | new.mode & S_IALLUGO;
            Kept::new(mode, new.uid, new.gid, new.rdev).write(&self.host, made)?;
            return self.host.statx(made, b"");
        }
        let differs = differs(&stat, new, owner);
        if !differs.any() {
            return Ok(stat);
        }
        let own = stat.stx_uid == geteuid().as_raw();
        let uid = differs.uid.filter(|_| own);
        let gid = differs.gid.filter(|_| self.group_as_made(dir) == stat.stx_gid);
        let mut changed = uid.is_some() || gid.is_some();
        let mut stays = false;
        if changed {
            let given = self.host.chown(made, uid, gid);
            stays = given.is_err();
            // That this process may was looked at before it was made.
            unless_refused(given)?;
        }
        for (name, acl) in [
            (XATTR_NAME_POSIX_ACL_ACCESS, new.access_acl),
            (XATTR_NAME_POSIX_ACL_DEFAULT, new.default_acl),
        ] {
            if !acl.is_empty() {
                self.host.setxattr(made, name, &acl_to_xattr(acl), XattrFlags::empty())?;
                changed = true;
            }
        }
        if new.file_type != FileType::Symlink {
            let is = u32::from(stat.stx_mode) & S_IALLUGO;
            let as_made = own && self.has_mode_as_made(&stat, dir, asked);
            let mut mode = if as_made { new.mode & S_IALLUGO } else { is };
            // They were for who was to have it, and this process has it.
            if stays && new.file_type != FileType::Directory {
                mode &= !(S_ISUID | S_ISGID);
            }
            // Changing the owner takes the set-id bits.
            if changed || mode != is {
                let done = self.host.chmod(made, mode);
                // Of what was given away it takes a privilege.
                let may = uid.is_none() || is_capable(CapabilitySet::FOWNER);
                if may { unless_refused(done)? } else { done? }
            }
        }
        self.host.statx(made, b"")
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
    ) -> Result<Option<Found>> {
        if self.options.identities.is_kept() {
            return Err(Errno::EINVAL);
        }
        let parent = self.reach(rename.old_dir)?;
        let owner = self.owner_of(whiteout, parent.as_fd())?;
        let as_made = AsMade { mode: 0, since: SystemTime::now(), stays: true };
        self.move_name(rename, RenameFlags::WHITEOUT)?;
        let made = (whiteout, owner);
        let left = self.was_made(rename.old_dir, parent.as_fd(), rename.old_name, made, &as_made);
        // It was renamed, whatever became of what that left.
        Ok(left.unwrap_or_default())
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
        let kept = if rename.no_replace { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        match self.host.rename(old, new, flags | kept) {
            // Some file systems cannot look at that moment; it was looked before.
            Err(Errno::EINVAL) if rename.no_replace => self.host.rename(old, new, flags)?,
            answer => answer?,
        }
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
