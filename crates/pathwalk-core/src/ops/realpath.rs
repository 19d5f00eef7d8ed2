//! realpath: the one path of a file that has no symlink, no `.` and no `..` in it.
//!
//! Linux has no such call: a C library asks for each prefix whether it is a symlink, realpath(3). Here the walk has been
//! wherever the symlinks lead; from its end the names are read upwards, under the counts by which it is believed.

use super::{
    lookup_flags,
    stat::{GetAttr, SEEN},
};
use crate::{
    task::{At, Task},
    walk::{
        HeldPath, Stop,
        end::{End, OnePath},
        job::Terminal,
        lookup::lookup,
        observe::Left,
    },
};
use pathwalk_abi::{AtFlags, Errno, Result, Stat};

impl Task {
    /// `realpath(path, buf, stat)`: writes the canonical path of a file into `buf`, without NUL, and the file's attributes into
    /// `stat`; returns how many bytes the path has. realpath(3)
    ///
    /// # Errors
    ///
    /// As [`Task::realpathat`].
    pub fn realpath(
        &self,
        path: impl AsRef<[u8]>,
        buf: &mut [u8],
        stat: &mut Stat,
    ) -> Result<usize> {
        self.realpathat(At::Cwd, path, AtFlags::empty(), buf, stat)
    }

    /// `realpathat(dir, path, flags, buf, stat)`: writes the canonical path of a file into `buf`, without NUL, and the file's
    /// attributes into `stat`; returns how many bytes the path has. Linux has no such call.
    ///
    /// Both are of one file. If a directory above it is moved meanwhile, the path may be the one of just before, and the attributes
    /// of just after. Of a call that fails there may be something in both.
    ///
    /// With `AT_SYMLINK_NOFOLLOW` a symlink that stands last is the file; with `AT_EMPTY_PATH` and an empty path `dir` is.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: another flag.
    /// - those of the lookup; `ENOENT`: the path is empty, and may not be.
    /// - `ENOENT`: the file does not lie below the task's root, or its name is gone.
    /// - `ERANGE`: the buffer is too small; no path has more than 4095 bytes, a longer one is `ENAMETOOLONG`.
    pub fn realpathat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: AtFlags,
        buf: &mut [u8],
        stat: &mut Stat,
    ) -> Result<usize> {
        super::only(flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
        let path = path.as_ref();
        let request = self.request(dir.into(), path, lookup_flags(flags))?;
        lookup(request, RealPath { task: self, path, buf, stat })
    }
}

/// Writes the path of the place where a walk ends, and its attributes.
struct RealPath<'b> {
    task: &'b Task,
    path: &'b [u8],
    buf: &'b mut [u8],
    stat: &'b mut Stat,
}

impl<'a> Terminal<'a> for RealPath<'_> {
    type Out = usize;

    #[inline(always)]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<Self::Out, Stop> {
        let len = match end.path {
            OnePath::Asked => copy_to(self.buf, self.path),
            _ => self.write_path(*end)?,
        };
        // It checks the end: what was written is a path of this file.
        let mut seen = None;
        GetAttr(&mut seen).finish(end)?;
        seen.as_ref().expect(SEEN).fill(self.stat);
        Ok(len?)
    }
}

impl RealPath<'_> {
    /// Writes the path from what a memo has of it, or from the names on the way up. By value: so the end is put into memory only
    /// on the way here.
    #[inline(never)]
    fn write_path<'a, const RCU: bool>(
        &mut self,
        end: End<'a, RCU>,
    ) -> Result<Result<usize>, Stop> {
        let vfs = end.vfs;
        if end.path == OnePath::InMemo
            && let Some(len) = end.path_in_memo(self.buf)
        {
            return Ok(len);
        }
        if RCU {
            let (root, at) = (self.task.fs.sample_root(vfs), &end.at);
            let path = vfs.path_below_rcu((at.mnt, at.dentry), (root.mnt, root.dentry), self.buf);
            path.ok_or(Stop::Leave(Left::Changed))
        } else {
            let (mnt, dentry) = self.task.fs.hold_root(vfs);
            let path = vfs.path_below(&end.hold()?, &HeldPath::new(vfs, mnt, dentry))?;
            Ok(copy_to(self.buf, &path))
        }
    }
}

/// Writes a path into a buffer.
#[inline(always)]
fn copy_to(buf: &mut [u8], path: &[u8]) -> Result<usize> {
    buf.get_mut(..path.len()).ok_or(Errno::ERANGE)?.copy_from_slice(path);
    Ok(path.len())
}
