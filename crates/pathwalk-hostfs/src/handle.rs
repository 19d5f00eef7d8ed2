//! Open files: a descriptor of the host each.

use crate::{
    hostfs::Shared,
    node::{Ident, Node},
};
use parking_lot::Mutex;
use pathwalk_abi::{Errno, FileType, OpenFlags, Result, Timespec};
use pathwalk_core::{
    InodeRef,
    fs::{Emit, Found, NewInode, OpenHandle},
};
use rustix::fs::OFlags;
use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// The flags of a directory's opening that the host is told, of a file's [`OpenFlags::IO`]: none of them matters there, and the host shows them.
const TOLD_OF_DIRECTORY: OpenFlags =
    OpenFlags::IO.union(OpenFlags::DIRECTORY).union(OpenFlags::NOFOLLOW).union(OpenFlags::NONBLOCK);

/// The last position of a listing that the cache can count on from: what some file systems say of a directory's end is the
/// largest number there is.
const END: u64 = i64::MAX as u64 - 2;

/// A file that somebody has open.
pub(crate) struct HostFile {
    fs: Arc<Shared>,
    fd: OwnedFd,
    /// What the host has is another kind of file, which is no use to who opened this one: what it is, is written beside it.
    stands_in: bool,
    writes: bool,
    /// One at a time writes at the end, for the descriptor's position says where that was.
    appending: Mutex<()>,
}

/// The same as the cache has it.
pub(crate) struct Opened(Arc<HostFile>);

impl HostFile {
    /// Opens a file or a directory.
    ///
    /// # Errors
    ///
    /// - those of [`Shared::reach`].
    /// - whatever the host answers.
    pub(crate) fn open(
        fs: &Arc<Shared>,
        inode: InodeRef<'_>,
        kind: FileType,
        flags: OpenFlags,
    ) -> Result<Arc<Self>> {
        let node = fs.node(inode)?;
        let held = fs.reach_node(&node)?;
        let of = |told: OpenFlags| host_flags(flags, told);
        let told = of(OpenFlags::IO);
        let nonblock = of(OpenFlags::NONBLOCK);
        let stands_in = kind != node.kind();
        let fd = fs.spare(|| match kind {
            _ if stands_in => fs.reopen(held.as_fd(), OFlags::PATH),
            FileType::Directory => {
                fs.unnoted(of(TOLD_OF_DIRECTORY), |flags| fs.host.open_dir(held.as_fd(), flags))
            }
            FileType::Fifo => fs.reopen(held.as_fd(), OFlags::PATH),
            FileType::CharDevice | FileType::BlockDevice
                if !flags.contains(OpenFlags::NONBLOCK) && fs.host.may_wait(held.as_fd())? =>
            {
                fs.reopen(held.as_fd(), OFlags::PATH)
            }
            FileType::CharDevice | FileType::BlockDevice => {
                fs.reopen(held.as_fd(), told | nonblock)
            }
            // Who leased it is waited for, or not.
            FileType::Regular => match fs.reopen(held.as_fd(), told | nonblock) {
                Err(Errno::EACCES) => fs.reopen_own(inode, held.as_fd(), told | nonblock),
                answer => answer,
            },
            _ => fs.reopen(held.as_fd(), told),
        })?;
        Ok(Self::of(fs, &node, fd, flags, stands_in))
    }

    /// Makes a regular file and opens it.
    ///
    /// # Errors
    ///
    /// - those of [`Shared::reach`].
    /// - whatever the host answers.
    pub(crate) fn create(
        fs: &Arc<Shared>,
        dir: InodeRef<'_>,
        name: &[u8],
        new: &NewInode<'_>,
        flags: OpenFlags,
    ) -> Result<(Found, Arc<Self>)> {
        let told = host_flags(flags, OpenFlags::IO | OpenFlags::NONBLOCK);
        let (node, found, fd) = fs.create_open(dir, name, new, told)?;
        Ok((found, Self::of(fs, &node, fd, flags, false)))
    }

    /// What somebody has open by a descriptor; none if it is not that file.
    pub(crate) fn opened_as(
        fs: &Arc<Shared>,
        inode: InodeRef<'_>,
        fd: OwnedFd,
    ) -> Option<Arc<Self>> {
        let node = fs.node(inode).ok()?;
        let stat = fs.host.statx(fd.as_fd(), b"").ok()?;
        let status = fs.host.status(fd.as_fd()).ok()?;
        // What stands for another kind of file nobody has open.
        if Ident::of(&stat) != node.ident || inode.attr().file_type() != node.kind() {
            return None;
        }
        let flags = OpenFlags::from_bits_truncate(status.bits().into());
        Some(Self::of(fs, &node, fd, flags, false))
    }

    fn of(
        fs: &Arc<Shared>,
        node: &Node,
        fd: OwnedFd,
        flags: OpenFlags,
        stands_in: bool,
    ) -> Arc<Self> {
        // With both it can do neither.
        let writes = flags.contains(OpenFlags::WRONLY) != flags.contains(OpenFlags::RDWR);
        let file =
            Arc::new(Self { fs: Arc::clone(fs), fd, stands_in, writes, appending: Mutex::new(()) });
        node.opened(&file);
        file
    }

    /// Whether it can be written to by this.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        // Reading nothing is reading too.
        loop {
            let more = self.fs.host.pread(self.fd(), &mut buf[read..], offset + read as u64)?;
            read += more;
            if more == 0 || read == buf.len() {
                return Ok(read);
            }
        }
    }

    pub(crate) fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
    ) -> Result<(u64, usize)> {
        let written = match offset {
            Some(offset) => {
                let written = self.fs.host.pwrite(self.fd(), data, offset)?;
                (offset + written as u64, written)
            }
            None => {
                let _appending = self.appending.lock();
                self.fs.host.append(self.fd(), data)?
            }
        };
        self.fs.refresh_after(inode, self.fd());
        Ok(written)
    }

    pub(crate) fn list(&self, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        let from = if offset >= END { i64::MAX as u64 } else { offset };
        self.fs.host.list(self.fd(), from, &mut |next, ino, kind, name| {
            let kind = self.fs.kind_of(self.fd(), name, kind)?;
            Ok(emit(next.min(END), ino, kind, name))
        })
    }
}

/// Those of an opening's flags, as the host has them.
fn host_flags(flags: OpenFlags, told: OpenFlags) -> OFlags {
    OFlags::from_bits_retain((flags & told).bits() as u32)
}

impl Opened {
    pub(crate) fn new(file: Arc<HostFile>) -> Self {
        Self(file)
    }
}

impl OpenHandle for Opened {
    fn read(&self, _inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.0.read(offset, buf)
    }

    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        _now: Timespec,
    ) -> Result<(u64, usize)> {
        self.0.write(inode, offset, data)
    }

    fn readdir(&self, _dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        self.0.list(offset, emit)
    }

    fn seek_end(&self, _dir: InodeRef<'_>, by: i64) -> Result<u64> {
        self.0.fs.host.seek_end(self.0.fd(), by).map(|position| position.min(END))
    }

    fn host_fd(&self, inode: InodeRef<'_>) -> Option<BorrowedFd<'_>> {
        if self.0.writes {
            inode.ask_for_attributes();
        }
        (!self.0.stands_in).then(|| self.0.fd())
    }
}

impl fmt::Debug for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFile").field("fd", &self.fd).finish_non_exhaustive()
    }
}
