//! readlink, readlinkat.
//!
//! Linux: `do_readlinkat`.

use crate::{
    dcache::SYMLINK,
    fs::LinkTarget,
    inode::{I_MAGIC_LINK, InodeId},
    mount::MntFlags,
    security::Hooks,
    task::{At, Task},
    tasks::HeldPlace,
    walk::{HeldPath, Lookup, Stop, end::End, job::Terminal, lookup::lookup, observe::Left},
};
use pathwalk_abi::{Errno, Result};

impl Task {
    /// `readlink(path, buf)`: copies a symlink's body, without NUL, as much as fits; returns how much. readlink(2)
    ///
    /// # Errors
    ///
    /// As [`Task::readlinkat`].
    pub fn readlink(&self, path: impl AsRef<[u8]>, buf: &mut [u8]) -> Result<usize> {
        self.readlinkat(At::Cwd, path, buf)
    }

    /// `readlinkat(dir, path, buf)`: copies a symlink's body, without NUL, as much as fits; returns how much. With an
    /// empty path, the body of `dir` itself. readlinkat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the buffer is empty.
    /// - those of the lookup.
    /// - `EINVAL`: it is no symlink; `ENOENT` if the path is empty.
    pub fn readlinkat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        buf: &mut [u8],
    ) -> Result<usize> {
        let path = path.as_ref();
        if buf.is_empty() {
            return Err(Errno::EINVAL);
        }
        let request = self.request(dir.into(), path, Lookup::EMPTY)?;
        lookup(request, ReadBody { task: self, buf, unnamed: path.is_empty() })
    }
}

impl Task {
    /// What a magic link shows: its text or, of a place, the path as this task sees it.
    ///
    /// Linux: `do_proc_readlink`.
    fn magic_text(&self, inode: InodeId) -> Result<Vec<u8>> {
        let vfs = self.vfs();
        match vfs.get_link(inode, &self.cred.subject())? {
            LinkTarget::Body(text) | LinkTarget::Jump(text) => Ok(text),
            LinkTarget::Place(HeldPlace(place)) => {
                let (mnt, dentry) = self.fs.hold_root(vfs);
                vfs.d_path(&place, &HeldPath::new(vfs, mnt, dentry))
            }
        }
    }
}

/// Copies a symlink's body where a walk ends.
struct ReadBody<'b> {
    task: &'b Task,
    buf: &'b mut [u8],
    unnamed: bool,
}

impl<'a> Terminal<'a> for ReadBody<'_> {
    type Out = usize;

    #[inline(always)]
    fn wants_attributes(&self) -> bool {
        false
    }

    /// What is asked about is mostly no symlink: realpath(3) asks about each prefix of a path.
    #[inline(always)]
    fn exists(&self) -> Option<Result<usize>> {
        Some(Err(self.not_a_link()))
    }

    #[inline(always)]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<usize, Stop> {
        if end.at.flags & SYMLINK == 0 {
            end.check()?;
            return Err(self.not_a_link().into());
        }
        self.copy(end)
    }
}

impl ReadBody<'_> {
    fn not_a_link(&self) -> Errno {
        if self.unnamed { Errno::ENOENT } else { Errno::EINVAL }
    }

    #[inline(never)]
    fn copy<const RCU: bool>(&mut self, end: &End<'_, RCU>) -> Result<usize, Stop> {
        let vfs = end.vfs;
        let inode = end.inode();
        if !RCU {
            vfs.ask(Hooks::INODE_READLINK, |module| {
                module.inode_readlink(&end.who(), vfs.inode_ref(inode))
            })?;
        }
        let slot = vfs.inode(inode);
        let flags: MntFlags = end.mount().flags();
        if RCU {
            let attr = slot.try_attr().ok_or(Stop::Leave(Left::Changed))?;
            if vfs.atime_needs_update(&attr, end.at.mnt, flags) {
                return Err(Stop::Leave(Left::Atime));
            }
        } else {
            vfs.touch_atime(inode, end.at.mnt, flags);
        }
        let Some(blob) = slot.body() else {
            if RCU {
                return Err(Stop::Leave(Left::LinkBody));
            }
            let magic = slot.flags.get() & I_MAGIC_LINK != 0;
            let body = if magic { self.task.magic_text(inode)? } else { vfs.link_body(inode)? };
            let len = body.len().min(self.buf.len());
            self.buf[..len].copy_from_slice(&body[..len]);
            return Ok(len);
        };
        let mut copied = 0;
        vfs.names.copy_str(blob, |piece| {
            let fits = piece.len().min(self.buf.len() - copied);
            self.buf[copied..copied + fits].copy_from_slice(&piece[..fits]);
            copied += fits;
        });
        end.check()?;
        Ok(copied)
    }
}
