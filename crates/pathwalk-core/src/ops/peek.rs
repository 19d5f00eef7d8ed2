//! Telling about a name that is not kept: for who looks at many names of a directory, each once.
//!
//! Linux has no such call; `READDIRPLUS` of a network file system is the nearest.

use super::{
    acl::acl_kind,
    stat::{MountStat, Seen},
    xattr::is_everybodys,
};
use crate::{
    dcache::{DentryId, MANAGED, NEGATIVE},
    file::File,
    fs::{Access, Features, Peeked},
    name::{Kind, scan},
    security::Hooks,
    task::Task,
};
use pathwalk_abi::{Errno, FileType, Result, Stat, Statx, StatxMask};
use pathwalk_sync::Absent;
use std::fmt;

/// What [`Task::peekat`] tells of a name.
pub struct Peek {
    seen: Seen,
    as_told: bool,
    lacks: Vec<Option<Errno>>,
}

impl Peek {
    /// As [`Task::fstatat`] would tell it, if that is known.
    pub fn stat(&self) -> Option<Stat> {
        self.as_told.then(|| self.seen.stat())
    }

    /// As [`Task::statx`] would tell it, if that is known.
    pub fn statx(&self, mask: StatxMask) -> Option<Statx> {
        self.as_told.then(|| self.seen.statx(mask))
    }

    /// What [`Task::lgetxattr`] would answer of each extended attribute that was asked about, as it is not there: `ENODATA` or `EOPNOTSUPP`. None
    /// where it may be there, or that call has to be asked. Of an ACL it is what the file system says now, as of a file that is not cached.
    pub fn lacks(&self) -> &[Option<Errno>] {
        &self.lacks
    }
}

impl fmt::Debug for Peek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek").field("attr", &self.seen.attr).field("lacks", &self.lacks).finish()
    }
}

impl Task {
    /// `peekat(dir, name, xattrs)`: what [`Task::fstatat`] would tell with `AT_SYMLINK_NOFOLLOW` about a name of a directory that is not
    /// cached, and [`Task::lgetxattr`] of extended attributes that it has not, cached or not, if its file system can say so without that being
    /// kept. None where it is to be asked by those calls instead: it is not there, something is mounted there, or a security module would have to be asked.
    ///
    /// # Errors
    ///
    /// - `EBADF`: the directory is of another machine.
    /// - `ENOTDIR`: it is none.
    /// - `EACCES`: it may not be searched.
    /// - whatever the file system answers.
    pub fn peekat(
        &self,
        dir: &File,
        name: impl AsRef<[u8]>,
        xattrs: &[&[u8]],
    ) -> Result<Option<Peek>> {
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
        vfs.ask_about_unnamed(dentry);
        vfs.inode_permission(dir.inode(), Access::EXEC, &above.seen_by(self.cred.subject()))?;
        let cached = match vfs.d_lookup_hint(dentry, name, &component) {
            Absent::Sure => false,
            // What is mounted there is another file.
            Absent::Found(id) if !vfs.dentry(id).is(MANAGED | NEGATIVE) && !xattrs.is_empty() => {
                true
            }
            Absent::Found(_) | Absent::Unsure => return Ok(None),
        };
        let sb = vfs.superblock(vfs.dentry(dentry).sb.get()).ok_or(Errno::ESTALE)?;
        let modules_ask = vfs.asks(Hooks::INODE_GETXATTR | Hooks::INODE_GET_ACL);
        let is_asked = |xattr: &[u8]| !modules_ask && is_everybodys(xattr);
        let asked: Vec<&[u8]> = xattrs.iter().copied().filter(|xattr| is_asked(xattr)).collect();
        let Some(Peeked { mut attr, as_told, mut lacks }) =
            sb.fs.peek(vfs.inode_ref(dir.inode()), name, &asked)?
        else {
            return Ok(None);
        };
        if sb.features.contains(Features::POSIX_ACL) {
            // A symlink has no ACL; what else has none is told by its mode.
            let symlink = attr.file_type() == FileType::Symlink;
            let errno = if symlink { Errno::EOPNOTSUPP } else { Errno::ENODATA };
            for (_, lacks) in
                asked.iter().zip(&mut lacks).filter(|(name, _)| acl_kind(name).is_some())
            {
                *lacks = lacks.map(|_| errno);
            }
        }
        let mut said = lacks.into_iter();
        let of = |xattr: &&[u8]| if is_asked(xattr) { said.next().flatten() } else { None };
        let lacks = xattrs.iter().map(of).collect();
        // What is mounted there would be cached.
        let mount = MountStat::of(vfs.mount_slot(mnt), DentryId::NONE, 0);
        if mount.idmapped {
            (attr.uid, attr.gid) = vfs.shown_through(mnt, attr.uid, attr.gid);
        }
        Ok(Some(Peek { seen: Seen { attr, mount }, as_told: as_told && !cached, lacks }))
    }
}
