//! Taking names away: unlink, rmdir, unlinkat.
//!
//! Linux: `do_unlinkat`, `do_rmdir`, `may_delete`.

use super::{only, retry_estale};
use crate::{
    cred::Subject,
    fs::Access,
    inode::{I_APPEND, I_IMMUTABLE, InodeId},
    name::Kind,
    security::{Entry, Hooks},
    task::{At, Task},
    vfs::Vfs,
    walk::{HeldPath, Lookup, lookup::parent},
};
use pathwalk_abi::{AtFlags, Errno, Result, mode::S_ISVTX};
use pathwalk_sync::lock_order;

impl Task {
    /// `unlink(path)`: takes a name from a file. unlink(2)
    ///
    /// # Errors
    ///
    /// As [`Task::unlinkat`].
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.unlinkat(At::Cwd, path, AtFlags::empty())
    }

    /// `rmdir(path)`: removes an empty directory. rmdir(2)
    ///
    /// # Errors
    ///
    /// As [`Task::unlinkat`] with `AT_REMOVEDIR`.
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.unlinkat(At::Cwd, path, AtFlags::REMOVEDIR)
    }

    /// `unlinkat(dir, path, flags)`: takes a name from a file, or removes an empty directory with `AT_REMOVEDIR`. unlinkat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: another flag.
    /// - those of the lookup of the directory that has the name.
    /// - `EISDIR`: the path ends in `.`, `..` or `/`. With `AT_REMOVEDIR`: `EINVAL`, `ENOTEMPTY`, `EBUSY`.
    /// - `EROFS`: the mount is read-only.
    /// - `ENOENT`: there is no such name. `ENAMETOOLONG`: there can be none.
    /// - `EISDIR`, `ENOTDIR`: a slash stands behind the name, and it is a directory, or none.
    /// - `EACCES`: the directory may not be written.
    /// - `EPERM`: the directory is immutable or append-only; or it is sticky, and neither it nor the file is one's own; or the
    ///   file is immutable or append-only.
    /// - `EISDIR`: it is a directory. With `AT_REMOVEDIR`, `ENOTDIR`: it is none.
    /// - `EBUSY`: something is mounted on it in the task's mount namespace; in others it is taken down.
    /// - `ENOTEMPTY`: the directory has entries.
    pub fn unlinkat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> Result<()> {
        only(flags, AtFlags::REMOVEDIR)?;
        let (dir, path) = (dir.into(), path.as_ref());
        let rmdir = flags.contains(AtFlags::REMOVEDIR);
        retry_estale(|reval| self.do_unlinkat(dir, path, rmdir, reval))
    }

    fn do_unlinkat(&self, dir: At<'_>, path: &[u8], rmdir: bool, reval: Lookup) -> Result<()> {
        let request = self.request(dir, path, reval)?;
        let parent = parent(&request)?;
        match (parent.last.kind(), rmdir) {
            (Kind::Norm, _) => {}
            (_, false) => return Err(Errno::EISDIR),
            (Kind::Dot, true) => return Err(Errno::EINVAL),
            (Kind::DotDot, true) => return Err(Errno::ENOTEMPTY),
            (Kind::Root, true) => return Err(Errno::EBUSY),
        }
        let _writing = parent.dir.want_write()?;
        let vfs = self.vfs();
        let name = vfs.reserve_known(parent.query())?;
        let victim = name.inode().ok_or(Errno::ENOENT)?;
        let is_directory = vfs.is_directory_inode(victim);
        if !rmdir && parent.last.trailing_slash {
            return Err(if is_directory { Errno::EISDIR } else { Errno::ENOTDIR });
        }
        let who = parent.dir.seen_by(self.cred.subject());
        let entry = || Entry::of(vfs, &parent, Some(victim));
        if rmdir {
            vfs.ask(Hooks::PATH_RMDIR, |module| module.path_rmdir(&who, &entry()))?;
        } else {
            vfs.ask(Hooks::PATH_UNLINK, |module| module.path_unlink(&who, &entry()))?;
        }
        vfs.may_delete(&parent.dir, victim, &who, rmdir)?;
        if vfs.is_local_mountpoint(name.id, self.mount_namespace().ns()) {
            return Err(Errno::EBUSY);
        }
        if rmdir {
            vfs.ask(Hooks::INODE_RMDIR, |module| module.inode_rmdir(&who, &entry()))?;
        } else {
            vfs.ask(Hooks::INODE_UNLINK, |module| module.inode_unlink(&who, &entry()))?;
        }
        let sb = parent.dir.sb();
        let (dir, inode, now) = (parent.dir.inode_ref(), vfs.inode_ref(victim), vfs.now());
        lock_order::assert_none_held();
        if rmdir {
            sb.fs.rmdir(dir, parent.name(), inode, now)?;
        } else {
            sb.fs.unlink(dir, parent.name(), inode, now)?;
        }
        vfs.d_delete(parent.dir.dentry(), name.id, rmdir);
        vfs.detach_mounts(name.id);
        if rmdir {
            vfs.shrink_dcache_parent(name.id);
        }
        if rmdir {
            vfs.fsnotify_rmdir(parent.dir.inode(), parent.name(), name.id);
        } else {
            vfs.fsnotify_unlink(parent.dir.inode(), parent.name(), name.id);
        }
        name.end(&sb);
        Ok(())
    }
}

impl Vfs {
    /// Asks whether the subject may take a name away.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: the mount does not show the victim's owner or group.
    /// - `EROFS`, `EACCES`: the directory may not be written and searched.
    /// - `EPERM`: it is append-only; or it is sticky, and neither it nor the victim is the subject's own; or the victim is
    ///   immutable or append-only.
    /// - `ENOTDIR`, `EISDIR`: the victim is no directory, and must be one; or the other way round.
    ///
    /// Linux: `may_delete`.
    pub(crate) fn may_delete(
        &self,
        dir: &HeldPath<'_>,
        victim: InodeId,
        who: &Subject<'_>,
        must_be_directory: bool,
    ) -> Result<()> {
        let (victim, victim_flags) = self.inode(victim).owner();
        who.must_be_mapped(victim.uid, victim.gid)?;
        let (directory, flags) = self.inode(dir.inode()).owner();
        let access = Access::WRITE | Access::EXEC;
        self.permission_of(dir.inode(), (directory, flags), access, who)?;
        if flags & I_APPEND != 0 {
            return Err(Errno::EPERM);
        }
        let own = || who.owns(directory.uid) || who.owner_or_capable(victim.uid);
        let fixed = victim_flags & (I_IMMUTABLE | I_APPEND) != 0;
        if directory.mode & S_ISVTX != 0 && !own() || fixed {
            return Err(Errno::EPERM);
        }
        match (victim.is_directory(), must_be_directory) {
            (false, true) => Err(Errno::ENOTDIR),
            (true, false) => Err(Errno::EISDIR),
            _ => Ok(()),
        }
    }
}
