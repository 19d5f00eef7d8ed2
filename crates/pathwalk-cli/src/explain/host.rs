//! Files of this machine, one by one as a walk asks for them; and what its kernel says.
//!
//! The walk itself says what is missing: it ends at a name that is not in memory, the host is asked for that one name,
//! and the walk is made again. So nothing here takes a path apart.
//!
//! Invariant: the host is asked only for names in directories that were reached without symlinks, `.` and `..`.

use super::copy::{copy, liken, not_copied};
use crate::error::{Error, in_words};
use pathwalk::{
    AccessMode, AtFlags, Errno, MemFs, MountFlags, Task,
    abi::StatfsFlags,
    explain::{Cause, ExplainHow, Explanation},
};
use rustix::fs::{
    self as sys, Access, AtFlags as SysAtFlags, CWD, Statx, StatxAttributes, StatxFlags,
};
use std::{
    collections::HashSet, env, ffi::OsStr, fmt, fs, io::ErrorKind, os::unix::ffi::OsStrExt,
    path::Path,
};

/// This machine's files, as far as they were asked for.
pub(super) struct Host {
    task: Task,
    /// The paths that the host was asked for.
    asked: HashSet<Vec<u8>>,
}

impl Host {
    /// Begins with the root alone. The task may do anything.
    pub(super) fn new(task: Task) -> Result<Self, Error> {
        let root = Path::new("/");
        let metadata = fs::metadata(root).map_err(|cause| Error::at(root, &cause))?;
        copy(&task, root, &metadata, b"/")?;
        Ok(Self { task, asked: HashSet::new() })
    }

    /// Goes to this process's current directory.
    pub(super) fn enter_cwd(&mut self) -> Result<(), Error> {
        let failed = |cause: String| Error::doing("the current directory", cause);
        let cwd = env::current_dir().map_err(|cause| failed(in_words(&cause)))?;
        let cwd = cwd.as_os_str().as_bytes();
        let task = self.task.fork();
        self.explain(&task, cwd, ExplainHow::default())?;
        self.task.chdir(cwd).map_err(|errno| failed(errno.to_string()))
    }

    /// The task that may do anything, in the current directory.
    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    /// Explains a path to a task of the same machine, and gets what the walk needs.
    pub(super) fn explain(
        &mut self,
        task: &Task,
        path: &[u8],
        how: ExplainHow,
    ) -> Result<Explanation, Error> {
        loop {
            let explanation = task.explain(path, how);
            let Err(failure) = explanation.outcome else { return Ok(explanation) };
            let (Cause::Absent, Some(step)) = (failure.cause, failure.step) else {
                return Ok(explanation);
            };
            let missing = explanation.path_of(step);
            if !self.asked.insert(missing.clone()) {
                return Ok(explanation);
            }
            self.get(&missing)?;
        }
    }

    /// Copies one file, if the host has it; where something is mounted, mounts something too.
    fn get(&self, path: &[u8]) -> Result<(), Error> {
        let from = Path::new(OsStr::from_bytes(path));
        let metadata = match fs::symlink_metadata(from) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            metadata => metadata.map_err(|cause| Error::at(from, &cause))?,
        };
        copy(&self.task, from, &metadata, path)?;
        if !metadata.is_dir() {
            return Ok(());
        }
        let failed = |errno: rustix::io::Errno| Error::at(from, &errno.into());
        let statx = ask(from, SysAtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if statx.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            let flags = mount_flags(from).map_err(failed)?;
            self.task
                .mount(MemFs::new(), path, flags)
                .and_then(|()| liken(&self.task, &metadata, path))
                .map_err(|errno| not_copied(from, errno))?;
        }
        Ok(())
    }
}

/// The flags of a mount that lookups feel. One that is read-only stays writable: it has to be filled.
fn mount_flags(path: &Path) -> rustix::io::Result<MountFlags> {
    let has = StatfsFlags::from_bits_truncate(sys::statvfs(path)?.f_flag.bits());
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::NOEXEC, has.contains(StatfsFlags::NOEXEC));
    flags.set(MountFlags::NOSYMFOLLOW, has.contains(StatfsFlags::NOSYMFOLLOW));
    Ok(flags)
}

/// What the running kernel says, beside an explanation.
pub(super) struct Verdict {
    /// Whether that is what was explained.
    pub(super) agrees: bool,
    /// The answer; none for another file than the one explained.
    pub(super) kernel: Option<Result<(), Errno>>,
}

/// Asks the running kernel for the path that was explained, as who runs this.
pub(super) fn ask_kernel(explanation: &Explanation, how: ExplainHow) -> Verdict {
    let path = Path::new(OsStr::from_bytes(&explanation.path));
    let nofollow = how.flags.contains(AtFlags::SYMLINK_NOFOLLOW);
    let flags = if nofollow { SysAtFlags::SYMLINK_NOFOLLOW } else { SysAtFlags::empty() };
    let found = ask(path, flags);
    let answer = match found {
        Ok(_) if !how.access.is_empty() => {
            sys::accessat(CWD, path, access(how.access), flags | SysAtFlags::EACCESS)
        }
        found => found.map(drop),
    };
    let answer =
        answer.map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO));
    let explained = explanation.outcome.map_err(|failure| failure.errno);
    if let (Ok(arrival), Ok(found), Ok(())) = (explained, found, answer) {
        let real = explanation.path_of(arrival.step);
        let real = ask(Path::new(OsStr::from_bytes(&real)), SysAtFlags::SYMLINK_NOFOLLOW);
        if real.is_ok_and(|real| !is_same(&real, &found)) {
            return Verdict { agrees: false, kernel: None };
        }
    }
    Verdict { agrees: explained.map(drop) == answer, kernel: Some(answer) }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kernel {
            _ if self.agrees => f.write_str("The running kernel answers the same."),
            None => f.write_str("The running kernel finds another file there."),
            Some(Ok(())) => f.write_str("But the running kernel finds it."),
            Some(Err(errno)) => write!(f, "But the running kernel answers {errno}."),
        }
    }
}

fn ask(path: &Path, flags: SysAtFlags) -> rustix::io::Result<Statx> {
    sys::statx(CWD, path, flags, StatxFlags::BASIC_STATS)
}

fn is_same(a: &Statx, b: &Statx) -> bool {
    let id = |statx: &Statx| (statx.stx_dev_major, statx.stx_dev_minor, statx.stx_ino);
    id(a) == id(b)
}

fn access(mode: AccessMode) -> Access {
    let mut access = Access::empty();
    access.set(Access::READ_OK, mode.contains(AccessMode::R_OK));
    access.set(Access::WRITE_OK, mode.contains(AccessMode::W_OK));
    access.set(Access::EXEC_OK, mode.contains(AccessMode::X_OK));
    access
}
