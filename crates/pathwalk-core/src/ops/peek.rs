//! Telling about a name that is not kept: for who looks at many names of a directory, each once.
//!
//! Linux has no such call; `READDIRPLUS` of a network file system is the nearest.

use super::stat::{MountStat, fill_stat};
use crate::{
    dcache::DentryId,
    file::File,
    fs::Access,
    name::{Kind, scan},
    security::Hooks,
    task::Task,
};
use pathwalk_abi::{Errno, FileType, Result, Stat};
use pathwalk_sync::Absent;

impl Task {
    /// `peekat(dir, name)`: what [`Task::fstatat`] would tell with `AT_SYMLINK_NOFOLLOW` about a name of a directory that is not
    /// cached, if its file system can say so without that being kept. None where it is to be asked by that call instead: it is
    /// cached, or not there, or a security module would have to be asked.
    ///
    /// # Errors
    ///
    /// - `EBADF`: the directory is of another machine.
    /// - `ENOTDIR`: it is none.
    /// - `EACCES`: it may not be searched.
    /// - whatever the file system answers.
    pub fn peekat(&self, dir: &File, name: impl AsRef<[u8]>) -> Result<Option<Stat>> {
        let (mnt, dentry) = self.place_of(dir)?;
        let (vfs, name) = (self.vfs(), name.as_ref());
        if vfs.inode(dir.inode()).file_type() != Some(FileType::Directory) {
            return Err(Errno::ENOTDIR);
        }
        let component = scan(name, 0, vfs.secret);
        let plain = component.len == name.len()
            && component.kind() == Kind::Norm
            && !component.too_long()
            && !vfs.asks(Hooks::INODE_GETATTR);
        if !plain {
            return Ok(None);
        }
        let above = dir.borrow();
        vfs.inode_permission(dir.inode(), Access::EXEC, &above.seen_by(self.cred.subject()))?;
        let Absent::Sure = vfs.d_lookup_hint(dentry, name, &component) else { return Ok(None) };
        let sb = vfs.superblock(vfs.dentry(dentry).sb.get()).ok_or(Errno::ESTALE)?;
        let Some(mut attr) = sb.fs.peek(vfs.inode_ref(dir.inode()), name)? else {
            return Ok(None);
        };
        // What is mounted there would be cached.
        let mount = MountStat::of(vfs.mount_slot(mnt), DentryId::NONE, 0);
        if mount.idmapped {
            (attr.uid, attr.gid) = vfs.shown_through(mnt, attr.uid, attr.gid);
        }
        Ok(Some(fill_stat(&attr, &mount)))
    }
}
