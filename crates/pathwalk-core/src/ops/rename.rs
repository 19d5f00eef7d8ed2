//! rename, renameat, renameat2.
//!
//! Linux: `do_renameat2`, `vfs_rename`, `lock_rename`.

use super::retry_estale;
use crate::{
    dcache::{DEAD_DIR, DIRECTORY, DentryId, reserve::Reserved},
    fs::{Access, Rename},
    inode::InodeId,
    lock,
    name::{INLINE_LEN, Kind},
    task::{At, Task},
    vfs::Vfs,
    walk::{
        Lookup,
        ladder::{Parent, parent},
    },
};
use pathwalk_abi::{Errno, RenameFlags, Result};
use pathwalk_sync::lock_order;

impl Task {
    /// `rename(old, new)`: gives a file another name; what had that name loses it. rename(2)
    ///
    /// # Errors
    ///
    /// As [`Task::renameat2`].
    pub fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.renameat2(At::Cwd, old, At::Cwd, new, RenameFlags::empty())
    }

    /// `renameat2(old_dir, old, new_dir, new, flags)`: gives a file another name, in one step. renameat2(2)
    ///
    /// Two names of one file are left as they are.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `RENAME_NOREPLACE`.
    /// - those of the lookup of the old name's directory, then of the new name's.
    /// - `EXDEV`: they lie in different mounts.
    /// - `EBUSY`: a path ends in `.`, `..` or `/`; `EEXIST` for the new one with `RENAME_NOREPLACE`.
    /// - `EROFS`: the mount is read-only.
    /// - `ENOENT`: the old name is not there, or a directory was removed.
    /// - `EEXIST`: `RENAME_NOREPLACE`, and the new name is there.
    /// - `ENOTDIR`: a slash stands behind a name, and what is renamed is no directory.
    /// - `EINVAL`: a directory would become its own descendant.
    /// - `ENOTEMPTY`: what would be replaced is an ancestor.
    /// - those of [`Task::unlinkat`] about the old name, up to `EPERM`.
    /// - of the new name those of [`Task::mkdirat`] about permission, or those of [`Task::unlinkat`] if it is there.
    /// - `EACCES`: a directory changes its parent and may not be written itself.
    /// - `EBUSY`: something is mounted on one of the two.
    /// - `ENOTEMPTY`: what would be replaced has entries.
    /// - `ENOMEM`, `ENOSPC`, `EMLINK`: there is no room.
    pub fn renameat2<'a, 'b>(
        &self,
        old_dir: impl Into<At<'a>>,
        old: impl AsRef<[u8]>,
        new_dir: impl Into<At<'b>>,
        new: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        if flags.bits() & !RenameFlags::NOREPLACE.bits() != 0 {
            return Err(Errno::EINVAL);
        }
        let no_replace = flags.contains(RenameFlags::NOREPLACE);
        let (old_dir, old) = (old_dir.into(), old.as_ref());
        let (new_dir, new) = (new_dir.into(), new.as_ref());
        retry_estale(|| self.do_renameat2(old_dir, old, new_dir, new, no_replace))
    }

    fn do_renameat2(
        &self,
        old_dir: At<'_>,
        old: &[u8],
        new_dir: At<'_>,
        new: &[u8],
        no_replace: bool,
    ) -> Result<()> {
        // The new path's own errors come after those of the old one's lookup.
        let old = parent(&self.request(old_dir, old, Lookup::empty())?)?;
        let new_request = self.request(new_dir, new, Lookup::empty())?;
        let new = parent(&new_request)?;
        if old.dir.mnt() != new.dir.mnt() {
            return Err(Errno::EXDEV);
        }
        if old.last.kind() != Kind::Norm {
            return Err(Errno::EBUSY);
        }
        if new.last.kind() != Kind::Norm {
            return Err(if no_replace { Errno::EEXIST } else { Errno::EBUSY });
        }
        old.dir.want_write()?;
        self.vfs().do_rename(self, &old, &new, no_replace)
    }
}

impl Vfs {
    /// Renames between two directories that the caller holds.
    ///
    /// The names are reserved first, which may ask the file system and wait. The rename lock comes after that and is held
    /// for as long as directories must stay where they are: to the end if one changes its parent, so that none becomes its
    /// own descendant, and else only for the move in the cache.
    fn do_rename(
        &self,
        task: &Task,
        old: &Parent<'_>,
        new: &Parent<'_>,
        no_replace: bool,
    ) -> Result<()> {
        let (source, target) = self.reserve_two(old, new)?;
        let inode = source.inode().ok_or(Errno::ENOENT)?;
        // One name twice is one reservation.
        let replaced = match &target {
            Some(target) => target.inode(),
            None => Some(inode),
        };
        if no_replace && replaced.is_some() {
            return Err(Errno::EEXIST);
        }
        let is_directory = source.dentry().is(DIRECTORY);
        if !is_directory && (old.last.trailing_slash || new.last.trailing_slash) {
            return Err(Errno::ENOTDIR);
        }
        let across = old.dir.dentry() != new.dir.dentry();
        let sb = old.dir.sb();
        let lock = || (sb.rename.lock(), lock_order::acquire(lock::RENAME, false));
        let replaces_directory = replaced.is_some_and(|victim| self.inode_is_directory(victim));
        let mut held = (across && (is_directory || replaces_directory)).then(lock);
        if self.is_ancestor(source.id, new.dir.dentry()) {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = &target
            && self.is_ancestor(target.id, old.dir.dentry())
        {
            return Err(Errno::ENOTEMPTY);
        }
        let Some(target) = target else { return Ok(()) };
        if replaced == Some(inode) {
            return Ok(());
        }
        let who = task.cred.subject();
        let must_be_directory = |victim| self.inode_is_directory(victim);
        self.may_delete(&old.dir, inode, &who, must_be_directory(inode))?;
        match replaced {
            None => self.may_create(&new.dir, &who)?,
            Some(victim) => self.may_delete(&new.dir, victim, &who, is_directory)?,
        }
        if is_directory && across {
            self.inode_permission(inode, Access::WRITE, &who)?;
        }
        if self.is_mountpoint(source.id) || self.is_mountpoint(target.id) {
            return Err(Errno::EBUSY);
        }
        // Room first: what the file system did must find its place.
        let blob = if new.last.len > INLINE_LEN {
            Some(self.with_room(|| self.names.store(new.name())).ok_or(Errno::ENOMEM)?)
        } else {
            None
        };
        let rename = Rename {
            old_dir: old.dir.inode_ref(),
            old_name: old.name(),
            inode: self.inode_ref(inode),
            new_dir: new.dir.inode_ref(),
            new_name: new.name(),
            replaced: replaced.map(|id| self.inode_ref(id)),
            now: self.now(),
        };
        if held.is_none() {
            lock_order::assert_none_held();
        }
        if let Err(errno) = sb.fs.rename(&rename) {
            if let Some(blob) = blob {
                self.names.free(blob);
            }
            return Err(errno);
        }
        if across && held.is_none() {
            held = Some(lock());
        }
        if replaced.is_some() && is_directory {
            self.mark_dead(target.id);
        }
        self.d_move(source.id, target.id, new.text(), &new.last, blob);
        drop(held);
        if is_directory {
            self.topology_changed();
        }
        Ok(())
    }

    /// Reserves both names, in the order that all renames keep; one reservation where they are the same.
    fn reserve_two(
        &self,
        old: &Parent<'_>,
        new: &Parent<'_>,
    ) -> Result<(Reserved<'_>, Option<Reserved<'_>>)> {
        let key = |parent: &Parent<'_>| (parent.dir.dentry(), parent.name().to_vec());
        let (old_key, new_key) = (key(old), key(new));
        if old_key == new_key {
            return Ok((self.reserve_known(old)?, None));
        }
        let (old_name, new_name);
        if old_key < new_key {
            old_name = self.reserve_known(old);
            new_name = self.reserve_known(new);
        } else {
            new_name = self.reserve_known(new);
            old_name = self.reserve_known(old);
        }
        // The old name's errors come first, whichever was reserved first.
        let old_name = old_name?;
        if old_name.inode().is_none() {
            return Err(Errno::ENOENT);
        }
        Ok((old_name, Some(new_name?)))
    }

    fn inode_is_directory(&self, inode: InodeId) -> bool {
        self.inode(inode).attr().file_type() == pathwalk_abi::FileType::Directory
    }

    fn mark_dead(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let _guard = dentry.lockref.lock(lock::DENTRY);
        let _change = dentry.seq.change();
        dentry.flags.set(dentry.flags.get() | DEAD_DIR);
    }
}
