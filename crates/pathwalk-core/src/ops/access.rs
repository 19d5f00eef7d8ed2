//! access, faccessat2.
//!
//! Linux: `do_faccessat`.

use super::{lookup_flags, only};
use crate::{
    cred::Asker,
    fs::Access,
    inode::{I_IMMUTABLE, I_PERMISSION, Owner},
    mount::MntFlags,
    perm::Verdict,
    task::{At, Task},
    walk::{
        Request, Stop,
        end::End,
        job::Terminal,
        lookup::{lookup, lookup_asleep},
        memo,
        observe::Left,
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
        self.do_access(path.as_ref(), mode)
    }

    /// `faccessat2(dir, path, mode, flags)`: asks whether a file may be used so, by the real user or, with `AT_EACCESS`, by
    /// the effective one. faccessat2(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a mode or flag that it does not know.
    /// - those of the lookup, which runs as that user too.
    /// - `EACCES`: to be executed, but the mount forbids it.
    /// - `EPERM`: to be written, but it is immutable.
    /// - `EACCES`: permission is refused.
    /// - `EROFS`: to be written, but the mount or the file system is read-only.
    pub fn faccessat2<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        mode: AccessMode,
        flags: AtFlags,
    ) -> Result<()> {
        self.do_faccessat2(dir.into(), path.as_ref(), mode, flags)
    }

    /// Whether to remember or to walk is decided before there is a frame: so each has its own, and only that.
    #[inline(never)]
    fn do_access(&self, path: &[u8], mode: AccessMode) -> Result<()> {
        if memo::seem_asleep() {
            self.do_access_walking(path, mode)
        } else {
            self.do_access_remembering(path, mode)
        }
    }

    /// Out of line, wherever it is called: so all that a look takes is in line here.
    #[inline(never)]
    fn do_access_remembering(&self, path: &[u8], mode: AccessMode) -> Result<()> {
        self.do_faccessat::<false>(At::Cwd, path, mode, AtFlags::empty(), lookup)
    }

    /// As [`Task::do_access_remembering`], where all is walked.
    #[inline(never)]
    fn do_access_walking(&self, path: &[u8], mode: AccessMode) -> Result<()> {
        self.do_faccessat::<false>(At::Cwd, path, mode, AtFlags::empty(), lookup_asleep)
    }

    #[inline]
    fn do_faccessat2<'a>(
        &'a self,
        dir: At<'a>,
        path: &'a [u8],
        mode: AccessMode,
        flags: AtFlags,
    ) -> Result<()> {
        self.do_faccessat::<true>(dir, path, mode, flags, lookup)
    }

    /// In line in each, so that its lookup is, and `access` is told at compile time that there are no flags.
    #[inline(always)]
    fn do_faccessat<'a, const AT: bool>(
        &'a self,
        dir: At<'a>,
        path: &'a [u8],
        mode: AccessMode,
        flags: AtFlags,
        lookup: impl FnOnce(Request<'a>, MayAccess<AT>) -> Result<()>,
    ) -> Result<()> {
        if mode.bits() & !AccessMode::all().bits() != 0 {
            return Err(Errno::EINVAL);
        }
        only(flags, AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let asker = if flags.contains(AtFlags::EACCESS) {
            Asker::Effective(&self.cred)
        } else {
            Asker::Real(&self.cred)
        };
        let request = Request { asker, ..self.request(dir, path, lookup_flags(flags))? };
        lookup(request, MayAccess::<AT>(Access::from_bits_truncate(mode.bits())))
    }
}

/// Asks about access where a walk ends.
pub(crate) struct MayAccess<const AT: bool>(pub(crate) Access);

impl<'a, const AT: bool> Terminal<'a> for MayAccess<AT> {
    type Out = ();

    /// Who may write goes by `FS_IMMUTABLE_FL`, too.
    #[inline(always)]
    fn wants_attributes(&self) -> bool {
        self.0.contains(Access::WRITE)
    }

    #[inline(always)]
    fn exists(&self) -> Option<Result<()>> {
        self.0.is_empty().then_some(Ok(()))
    }

    #[inline(always)]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<(), Stop> {
        // Whether it is there: of that nobody is asked but who decides himself, or listens.
        if self.0.is_empty() && !end.decides() && (RCU || !end.vfs.security.asks_in_walks()) {
            return end.check();
        }
        self.ask(end)
    }
}

impl<const AT: bool> MayAccess<AT> {
    #[inline(always)]
    fn ask<const RCU: bool>(&self, end: &End<'_, RCU>) -> Result<(), Stop> {
        let vfs = end.vfs;
        let inode = vfs.inode(end.inode());
        let Some(read) = (if RCU { inode.try_owner() } else { Some(inode.owner()) }) else {
            return Err(Stop::Leave(Left::Changed));
        };
        if RCU && read.1 & I_PERMISSION != 0 {
            return Err(Stop::Leave(Left::Permission));
        }
        let mount = end.mount().flags();
        let verdict = self.verdict(end, read, mount);
        // The verdict is about this file at this moment, or there is none.
        end.check()?;
        verdict
    }

    fn verdict<const RCU: bool>(
        &self,
        end: &End<'_, RCU>,
        (owner, flags): (Owner, u32),
        mount: MntFlags,
    ) -> Result<(), Stop> {
        let kind = owner.mode & S_IFMT;
        if self.0.contains(Access::EXEC) && kind == S_IFREG && mount.contains(MntFlags::NOEXEC) {
            return Err(Errno::EACCES.into());
        }
        let special = matches!(kind, S_IFCHR | S_IFBLK | S_IFIFO | S_IFSOCK);
        let writes = self.0.contains(Access::WRITE) && !special;
        if RCU {
            if writes && mount.contains(MntFlags::SB_RDONLY) {
                return Err(Errno::EROFS.into());
            }
            if self.0.contains(Access::WRITE) && flags & I_IMMUTABLE != 0 {
                return Err(Errno::EPERM.into());
            }
            let who = end.who();
            if self.0.contains(Access::WRITE) && who.has_unmapped(owner.uid, owner.gid) {
                return Err(Errno::EACCES.into());
            }
            match end.vfs.try_decide(end.inode(), owner, flags, self.0, &who) {
                Verdict::Rule(rule) => rule.map_err(|_| Errno::EACCES)?,
                Verdict::Changed => return Err(Stop::Leave(Left::Changed)),
                Verdict::Unknown => return Err(Stop::Leave(Left::Permission)),
            };
        } else {
            end.vfs.inode_permission(end.inode(), self.0, &end.who())?;
        }
        if writes && mount.read_only() { Err(Errno::EROFS.into()) } else { Ok(()) }
    }
}
