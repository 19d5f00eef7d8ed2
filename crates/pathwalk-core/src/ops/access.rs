//! access, faccessat2.
//!
//! Linux: `do_faccessat`.

use super::{lookup_flags, only};
use crate::{
    fs::Access,
    inode::{I_PERMISSION, Owner},
    mount::MntFlags,
    perm,
    task::{At, Task},
    walk::{
        Request, Stop, Walk,
        hold::Hold,
        ladder::{LookupJob, Terminal, climb},
        observe::{Left, Observer},
    },
};
use pathwalk_abi::{
    AccessMode, AtFlags, Errno, Result,
    mode::{S_IFBLK, S_IFCHR, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK},
};

impl Task {
    /// `access(path, mode)`: asks whether the real user may use a file so. access(2)
    ///
    /// # Errors
    ///
    /// As [`Task::faccessat2`].
    #[inline]
    pub fn access(&self, path: impl AsRef<[u8]>, mode: AccessMode) -> Result<()> {
        self.do_faccessat(At::Cwd, path.as_ref(), mode, AtFlags::empty())
    }

    /// `faccessat2(dir, path, mode, flags)`: asks whether a file may be used so, by the real user or, with `AT_EACCESS`, by
    /// the effective one. faccessat2(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a mode or flag that it does not know.
    /// - those of the lookup, which runs as that user too.
    /// - `EACCES`: to be executed, but the mount forbids it.
    /// - `EACCES`: permission is refused.
    /// - `EROFS`: to be written, but the mount or the file system is read-only.
    pub fn faccessat2<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        mode: AccessMode,
        flags: AtFlags,
    ) -> Result<()> {
        self.do_faccessat(dir.into(), path.as_ref(), mode, flags)
    }

    #[inline]
    fn do_faccessat(
        &self,
        dir: At<'_>,
        path: &[u8],
        mode: AccessMode,
        flags: AtFlags,
    ) -> Result<()> {
        if mode.bits() & !AccessMode::all().bits() != 0 {
            return Err(Errno::EINVAL);
        }
        only(flags, AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let who = if flags.contains(AtFlags::EACCESS) {
            self.cred.subject()
        } else {
            self.cred.real_subject()
        };
        let request = Request { who, ..self.request(dir, path, lookup_flags(flags))? };
        climb(&request, (), &mut LookupJob(MayAccess(Access::from_bits_truncate(mode.bits()))))
    }
}

/// Asks about access where a walk ends.
pub(crate) struct MayAccess(pub(crate) Access);

impl<'a> Terminal<'a> for MayAccess {
    type Out = ();

    #[inline(always)]
    fn finish<H: Hold<'a>, O: Observer>(&mut self, walk: &Walk<'a, H, O>) -> Result<(), Stop> {
        if self.0.is_empty() {
            return walk.check_end();
        }
        self.ask(walk)
    }
}

impl MayAccess {
    fn ask<'a, H: Hold<'a>, O: Observer>(&self, walk: &Walk<'a, H, O>) -> Result<(), Stop> {
        let vfs = walk.vfs;
        let inode = vfs.inode(walk.inode());
        let Some((owner, flags)) = (if H::RCU { inode.try_owner() } else { Some(inode.owner()) })
        else {
            return Err(Stop::Leave(Left::Changed));
        };
        if H::RCU && flags & I_PERMISSION != 0 {
            return Err(Stop::Leave(Left::Permission));
        }
        let mount = walk.mount().flags();
        let verdict = self.verdict(walk, owner, mount);
        // The verdict is about this file at this moment, or there is none.
        walk.check_end()?;
        Ok(verdict?)
    }

    fn verdict<'a, H: Hold<'a>, O: Observer>(
        &self,
        walk: &Walk<'a, H, O>,
        owner: Owner,
        mount: MntFlags,
    ) -> Result<()> {
        let kind = owner.mode & S_IFMT;
        if self.0.contains(Access::EXEC) && kind == S_IFREG && mount.contains(MntFlags::NOEXEC) {
            return Err(Errno::EACCES);
        }
        let special = matches!(kind, S_IFCHR | S_IFBLK | S_IFIFO | S_IFSOCK);
        let writes = self.0.contains(Access::WRITE) && !special;
        if H::RCU {
            if writes && mount.contains(MntFlags::SB_RDONLY) {
                return Err(Errno::EROFS);
            }
            perm::decide(owner, self.0, &walk.who).map_err(|_| Errno::EACCES)?;
        } else {
            walk.vfs.inode_permission(walk.inode(), self.0, &walk.who)?;
        }
        if writes && mount.read_only() { Err(Errno::EROFS) } else { Ok(()) }
    }
}
