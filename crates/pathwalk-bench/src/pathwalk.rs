//! pathwalk itself: a memfs, a task in each thread.

use std::ffi::CStr;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use pathwalk::observe::Tally;
use pathwalk::{
    AccessMode, AtFlags, Coherence, Config, Cred, Dev, Errno, File, HostFs, HostOptions, MemFs,
    MountFlags, OpenFlags, Stat, Statx, StatxMask, Task, UmountFlags, Vfs, XattrFlags,
};

use tempfile::TempDir;

use crate::Error;
use crate::asked::Asked;
use crate::contender::{Contender, Look, Mounted, Worker};

/// What this build is called.
const BUILD: &str = if cfg!(pathwalk_ablate = "step_into") {
    "without-step_into"
} else if cfg!(pathwalk_ablate = "may_exec") {
    "without-may_exec"
} else if cfg!(pathwalk_ablate = "statx") {
    "without-statx"
} else if cfg!(pathwalk_ablate = "forget_root") {
    "without-forget_root"
} else if cfg!(pathwalk_ablate = "memo") {
    "without-memo"
} else {
    "pathwalk"
};

/// pathwalk as it is compiled here, with an empty file system.
#[derive(Debug)]
pub struct Pathwalk {
    name: &'static str,
    vfs: Arc<Vfs>,
    /// Of a directory of the host: that directory. It goes last.
    _below: Option<TempDir>,
}

impl Pathwalk {
    /// Makes a machine.
    ///
    /// # Errors
    ///
    /// Where there is not enough memory.
    pub fn new() -> Result<Self, Error> {
        Self::of(BUILD, Config::default())
    }

    /// The same, but every path is walked, however often it was walked before.
    ///
    /// # Errors
    ///
    /// As [`Pathwalk::new`].
    pub fn walking() -> Result<Self, Error> {
        Self::of("without-memo", Config { memo_bytes: 0, ..Config::default() })
    }

    fn of(name: &'static str, config: Config) -> Result<Self, Error> {
        let made = Vfs::new(config, MemFs::new());
        let vfs = made.map_err(|errno| Error::doing("making a machine", errno))?;
        Ok(Self { name, vfs, _below: None })
    }

    /// The same on an empty directory of the host, in the temporary directory.
    ///
    /// # Errors
    ///
    /// As [`Pathwalk::new`], and where no directory can be made.
    pub fn on_host(coherence: Coherence) -> Result<Self, Error> {
        let name = match coherence {
            Coherence::Exclusive => "hostfs-exclusive",
            Coherence::Strict => "hostfs-strict",
            Coherence::Watched => "hostfs-watched",
        };
        Self::below(name, coherence, Config::default())
    }

    /// The same, exclusive, with room for so few names that each is asked for anew.
    ///
    /// # Errors
    ///
    /// As [`Pathwalk::on_host`].
    pub fn on_host_without_room() -> Result<Self, Error> {
        let config = Config { dentry_bytes: 128 << 10, memo_bytes: 0, ..Config::default() };
        Self::below("hostfs-without-room", Coherence::Exclusive, config)
    }

    fn below(name: &'static str, coherence: Coherence, config: Config) -> Result<Self, Error> {
        let dir = tempfile::Builder::new()
            .prefix("pathwalk-bench-")
            .tempdir()
            .map_err(|cause| Error::doing("making a temporary directory", cause))?;
        let options = HostOptions { coherence, ..HostOptions::default() };
        let made = HostFs::with_options(dir.path().as_os_str().as_bytes(), options)
            .and_then(|fs| Vfs::new(config, fs));
        let vfs = made.map_err(|errno| Error::doing("making a machine", errno))?;
        Ok(Self { name, vfs, _below: Some(dir) })
    }
}

impl Contender for Pathwalk {
    type Worker = Task;

    fn name(&self) -> &str {
        self.name
    }

    fn worker(&self) -> Result<Task, Error> {
        Ok(self.vfs.task(Cred::root()))
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.vfs.usage().bytes)
    }
}

impl Worker for Task {
    type File = File;

    #[inline]
    fn access(&mut self, path: &CStr) -> Result<(), Errno> {
        Task::access(self, path.to_bytes(), AccessMode::empty())
    }

    #[inline]
    fn stat(&mut self, path: &CStr) -> Result<Look, Errno> {
        Task::stat(self, path.to_bytes()).map(look)
    }

    #[inline]
    fn lstat(&mut self, path: &CStr) -> Result<Look, Errno> {
        Task::lstat(self, path.to_bytes()).map(look)
    }

    #[inline]
    fn readlink(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
        Task::readlink(self, path.to_bytes(), buf)
    }

    #[inline]
    fn realpath(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut stat = Stat::default();
        let len = Task::realpath(self, path.to_bytes(), buf, &mut stat)?;
        black_box(&stat);
        Ok(len)
    }

    #[inline]
    fn statx(&mut self, path: &CStr) -> Result<Look, Errno> {
        let all = StatxMask::BASIC_STATS;
        Task::statx(self, pathwalk::At::Cwd, path.to_bytes(), AtFlags::empty(), all).map(look_x)
    }

    #[inline]
    fn open(&mut self, path: &CStr, flags: OpenFlags, mode: u32) -> Result<File, Errno> {
        Task::open(self, path.to_bytes(), flags, mode)
    }

    #[inline]
    fn fstat(&mut self, file: &File) -> Result<Look, Errno> {
        Task::fstat(self, file).map(look)
    }

    #[inline]
    fn fstatat_empty(&mut self, file: &File) -> Result<Look, Errno> {
        Task::fstatat(self, file, b"", AtFlags::EMPTY_PATH).map(look)
    }

    #[inline]
    fn statx_empty(&mut self, file: &File) -> Result<Look, Errno> {
        Task::statx(self, file, b"", AtFlags::EMPTY_PATH, StatxMask::BASIC_STATS).map(look_x)
    }

    /// A path is a slice: none is an empty one.
    #[inline]
    fn statx_null(&mut self, file: &File) -> Result<Look, Errno> {
        self.statx_empty(file)
    }

    #[inline]
    fn openat(&mut self, dir: &File, name: &CStr, flags: OpenFlags) -> Result<File, Errno> {
        Task::openat(self, dir, name.to_bytes(), flags, 0)
    }

    #[inline]
    fn statx_at(&mut self, dir: &File, name: &CStr) -> Result<Look, Errno> {
        let (flags, all) = (AtFlags::SYMLINK_NOFOLLOW, StatxMask::BASIC_STATS);
        Task::statx(self, dir, name.to_bytes(), flags, all).map(look_x)
    }

    #[inline]
    fn mkdirat(&mut self, dir: &File, name: &CStr, mode: u32) -> Result<(), Errno> {
        Task::mkdirat(self, dir, name.to_bytes(), mode)
    }

    #[inline]
    fn symlinkat(&mut self, target: &CStr, dir: &File, name: &CStr) -> Result<(), Errno> {
        Task::symlinkat(self, target.to_bytes(), dir, name.to_bytes())
    }

    #[inline]
    fn mknodat(&mut self, dir: &File, name: &CStr, mode: u32) -> Result<(), Errno> {
        Task::mknodat(self, dir, name.to_bytes(), mode, Dev::default())
    }

    #[inline]
    fn getdents(&mut self, dir: &File, buf: &mut [u8]) -> Result<usize, Errno> {
        self.getdents64(dir, buf)
    }

    #[inline]
    fn mkdir(&mut self, path: &CStr, mode: u32) -> Result<(), Errno> {
        Task::mkdir(self, path.to_bytes(), mode)
    }

    #[inline]
    fn symlink(&mut self, target: &CStr, path: &CStr) -> Result<(), Errno> {
        Task::symlink(self, target.to_bytes(), path.to_bytes())
    }

    #[inline]
    fn rmdir(&mut self, path: &CStr) -> Result<(), Errno> {
        Task::rmdir(self, path.to_bytes())
    }

    #[inline]
    fn unlink(&mut self, path: &CStr) -> Result<(), Errno> {
        Task::unlink(self, path.to_bytes())
    }

    #[inline]
    fn rename(&mut self, old: &CStr, new: &CStr) -> Result<(), Errno> {
        Task::rename(self, old.to_bytes(), new.to_bytes())
    }

    fn chmod(&mut self, path: &CStr, mode: u32) -> Result<(), Errno> {
        Task::chmod(self, path.to_bytes(), mode)
    }

    fn chown(&mut self, path: &CStr, uid: u32, gid: u32) -> Result<(), Errno> {
        Task::chown(self, path.to_bytes(), Some(uid), Some(gid))
    }

    fn setxattr(&mut self, path: &CStr, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        Task::setxattr(self, path.to_bytes(), name.to_bytes(), value, XattrFlags::empty())
    }

    #[inline]
    fn mount(&mut self, what: Mounted, path: &CStr) -> Result<(), Errno> {
        match what {
            Mounted::Memory => {
                Task::mount(self, MemFs::new(), path.to_bytes(), MountFlags::empty())
            }
            Mounted::Asking { .. } | Mounted::Incomplete => {
                Task::mount(self, Asked::new(what), path.to_bytes(), MountFlags::empty())
            }
        }
    }

    #[inline]
    fn umount(&mut self, path: &CStr) -> Result<(), Errno> {
        Task::umount2(self, path.to_bytes(), UmountFlags::DETACH)
    }

    fn umask(&mut self, mask: u32) -> u32 {
        Task::umask(self, mask)
    }

    fn held(&self) -> Option<u64> {
        Some(Tally::of_thread().total())
    }
}

#[inline]
fn look(stat: Stat) -> Look {
    let stat = black_box(&stat);
    Look::of(stat.st_mode, stat.st_nlink as u32, stat.st_size as u64)
}

#[inline]
fn look_x(stat: Statx) -> Look {
    let stat = black_box(&stat);
    Look::of(u32::from(stat.stx_mode), stat.stx_nlink, stat.stx_size)
}
