//! readlink, readlinkat.
//!
//! Linux: `do_readlinkat`.

use crate::{
    dcache::SYMLINK,
    mount::MntFlags,
    task::{At, Task},
    walk::{
        Lookup, Stop, Walk,
        hold::Hold,
        ladder::{LookupJob, Terminal, climb},
        observe::{Left, Observer},
    },
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
        climb(&request, (), &mut LookupJob(ReadBody { buf, unnamed: path.is_empty() }))
    }
}

/// Copies a symlink's body where a walk ends.
struct ReadBody<'b> {
    buf: &'b mut [u8],
    unnamed: bool,
}

impl<'a> Terminal<'a> for ReadBody<'_> {
    type Out = usize;

    fn finish<H: Hold<'a>, O: Observer>(&mut self, walk: &Walk<'a, H, O>) -> Result<usize, Stop> {
        let vfs = walk.vfs;
        if walk.at.flags & SYMLINK == 0 {
            walk.check_end()?;
            return Err(if self.unnamed { Errno::ENOENT } else { Errno::EINVAL }.into());
        }
        let inode = walk.inode();
        let slot = vfs.inode(inode);
        let flags: MntFlags = walk.mount().flags();
        if H::RCU {
            let attr = slot.try_attr().ok_or(Stop::Leave(Left::Changed))?;
            if vfs.atime_needs_update(&attr, flags) {
                return Err(Stop::Leave(Left::Atime));
            }
        } else {
            vfs.touch_atime(inode, flags);
        }
        let (blob, len) = slot.body();
        if blob == 0 {
            if H::RCU {
                return Err(Stop::Leave(Left::LinkBody));
            }
            let body = vfs.link_body(inode)?;
            let len = body.len().min(self.buf.len());
            self.buf[..len].copy_from_slice(&body[..len]);
            return Ok(len);
        }
        let mut copied = 0;
        vfs.names.copy(blob, len.min(self.buf.len()), |piece| {
            self.buf[copied..copied + piece.len()].copy_from_slice(piece);
            copied += piece.len();
        });
        walk.check_end()?;
        Ok(copied)
    }
}
