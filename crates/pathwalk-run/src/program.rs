//! A file that runs.
//!
//! What has no place in the tree runs only where it is memory of the program's own: what is in it could as well be written to a file
//! there. Its set-id bits give nothing, as on Linux, where a memfd lies in no mount that anybody has.
//!
//! Linux: `mnt_may_suid`.

use crate::{
    cookies::HostId,
    engine::Engine,
    sys::{
        answer,
        process::{by_number, may_run},
    },
};
use pathwalk::{Errno, Executable, File, OpenFlags, Result};
use rustix::{fs, io};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A file that runs.
pub(crate) enum Program {
    /// One of the tree, and which file of the host it is.
    Placed(Executable, HostId),
    /// A memfd of the program's own.
    Memory(OwnedFd, HostId),
}

impl Program {
    /// What was opened to be run: also by the link of a descriptor that leads to no place.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it has no place in the tree, and is no memory of the program's own.
    pub(crate) fn opened(engine: &Engine, file: Executable) -> Result<Self> {
        let host = file.file().host_fd().ok_or(Errno::EACCES)?;
        let id = HostId::of_fd(host)?;
        if !engine.asker.is_stranger(id) {
            return Ok(Self::Placed(file, id));
        }
        Self::memory(answer(host.try_clone_to_owned().map_err(|_| io::Errno::MFILE))?)
    }

    /// What has no place in the tree.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it is no readable memfd, or none that may be run. Only a file in memory has seals; one that has a name is somebody else's.
    pub(crate) fn memory(fd: OwnedFd) -> Result<Self> {
        let stat = answer(fs::fstat(&fd))?;
        let told = answer(fs::readlink(by_number(&fd), Vec::new()))?;
        // Of who runs what may not be read anew the kernel shows nobody which files it loaded.
        let shown =
            fs::accessat(fs::CWD, by_number(&fd), fs::Access::READ_OK, fs::AtFlags::EACCESS);
        let readable = answer(fs::fcntl_getfl(&fd))? & fs::OFlags::RWMODE != fs::OFlags::WRONLY
            && shown.is_ok();
        let memory = told.as_bytes().starts_with(b"/memfd:") && fs::fcntl_get_seals(&fd).is_ok();
        let own = memory && readable && stat.st_nlink == 0;
        if !own {
            return Err(Errno::EACCES);
        }
        may_run(fd.as_fd())?;
        Ok(Self::Memory(fd, HostId::of(&stat)))
    }

    /// The open file of the host that it is.
    pub(crate) fn host(&self) -> Result<BorrowedFd<'_>> {
        match self {
            Self::Placed(file, _) => file.file().host_fd().ok_or(Errno::EACCES),
            Self::Memory(fd, _) => Ok(fd.as_fd()),
        }
    }

    /// Whether the host runs it, from where it is.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it does not.
    pub(crate) fn may_run_on_host(&self) -> Result<()> {
        may_run(self.host()?)
    }

    /// Which file of the host that is.
    pub(crate) fn id(&self) -> HostId {
        match self {
            Self::Placed(_, id) | Self::Memory(_, id) => *id,
        }
    }

    /// Its name, also where that is gone.
    pub(crate) fn name(&self, engine: &Engine) -> Vec<u8> {
        const GONE: &[u8] = b" (deleted)";
        let path = match self {
            Self::Placed(file, _) => engine.task.d_path(file.file()).unwrap_or_default(),
            Self::Memory(fd, _) => {
                fs::readlink(by_number(fd), Vec::new()).map_or_else(|_| Vec::new(), Into::into)
            }
        };
        let leads_to_it = |file: &File| {
            let flags = OpenFlags::PATH | OpenFlags::NOFOLLOW;
            let found = engine.task.open(&path, flags, 0);
            found.is_ok_and(|found| found.place_id() == file.place_id())
        };
        let whole = match path.strip_suffix(GONE) {
            Some(rest) if !self.file().is_some_and(leads_to_it) => rest,
            _ => &path,
        };
        whole.rsplit(|&byte| byte == b'/').next().unwrap_or(whole).to_vec()
    }

    /// Its place in the tree.
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            Self::Placed(file, _) => Some(file.file()),
            Self::Memory(..) => None,
        }
    }

    /// Whether it could be run, where only that is asked.
    ///
    /// # Errors
    ///
    /// - `ETXTBSY`: somebody has it open for writing.
    pub(crate) fn may_run(&self, engine: &Engine) -> Result<()> {
        match self {
            Self::Placed(_, id) if engine.cookies.written()?.contains(id) => Err(Errno::ETXTBSY),
            _ => Ok(()),
        }
    }
}
