//! Contents in a memfd: for who shows them to other processes.
//!
//! ```text
//!   inode ── node ──► File ──► Memfd: descriptor M, owned by the file system
//!                                └── /proc/self/fd/M, opened once per opening: a position and flags of its own
//! ```
//!
//! Others read and write by their openings, and nobody is told. So size, blocks and times are read back from the memfd before
//! somebody is told them, and before the file system changes one of them itself.
//!
//! Of reading the memfd says when it was done last; who reads in a mount that notes none does so by an opening that notes none.
//! The file says it as a mount with relatime would have noted it, if that was also the first time since the last change.
//! Whether it was before or after a change is only known of a look in between: whatever stamps the file, or reads it,
//! looks first.
//!
//! Invariant: `seen` is what the memfd said when the inode's attributes were last made to agree with it; both change under
//! its lock. What a call changes by itself it notes too, but no time of reading: others may have read meanwhile. How many pages are
//! counted in the file system's room is a number of its own, which is made to agree also where no inode is at hand.

use crate::{data::File, memfs::change, space::Space};
use parking_lot::{Mutex, MutexGuard};
use pathwalk_abi::{Errno, InodeFlags, OpenFlags, Result, Timespec};
use pathwalk_core::{
    Attr, InodeRef,
    fs::{Iattr, OpenHandle},
};
use rustix::{
    fs::{self, MemfdFlags, Mode, OFlags},
    io,
};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// A time of reading that is so many seconds old is not kept, whatever was changed since: a day.
const OLD: i64 = 24 * 60 * 60;

/// The contents of a file, in a memfd.
#[derive(Debug)]
pub(crate) struct Memfd {
    fd: OwnedFd,
    seen: Mutex<Seen>,
}

/// What the memfd said.
#[derive(Debug, Default)]
struct Seen {
    atime: Timespec,
    mtime: Timespec,
    size: u64,
    pages: u64,
    /// The pages that are counted as taken: fewer where there was no room for more.
    counted: u64,
    /// The file is gone: nothing is counted of it any more.
    gone: bool,
}

impl Memfd {
    /// An empty one.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: there is no room for one more.
    pub(crate) fn new() -> Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::EXEC;
        let made = match fs::memfd_create(c"pathwalk", flags) {
            // A kernel that does not know the flag makes them executable.
            Err(io::Errno::INVAL) => fs::memfd_create(c"pathwalk", MemfdFlags::CLOEXEC),
            made => made,
        };
        let memfd = Self { fd: answer(made)?, seen: Mutex::default() };
        // Who reads by this process is noted by who asks it to.
        answer(fs::fcntl_setfl(&memfd.fd, OFlags::RDWR | OFlags::NOATIME))?;
        let Look { atime, mtime, .. } = memfd.look()?;
        *memfd.seen.lock() = Seen { atime, mtime, ..Seen::default() };
        Ok(memfd)
    }

    /// Reads. Who reads is noted behind this, by what is known of readings before.
    pub(crate) fn read(
        &self,
        space: &Space,
        inode: InodeRef<'_>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        self.refresh(space, inode)?;
        let mut read = 0;
        while read < buf.len() {
            let more = answer(io::pread(&self.fd, &mut buf[read..], offset + read as u64))?;
            if more == 0 {
                break;
            }
            read += more;
        }
        Ok(read)
    }

    /// Writes, at the end where there is no offset, and notes it. Returns the offset behind it, and how much that was.
    ///
    /// # Errors
    ///
    /// - `EFBIG`: the offset lies behind what a file can have.
    /// - `ENOSPC`: there is no room for a single byte.
    pub(crate) fn write(
        &self,
        space: &Space,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        now: Timespec,
    ) -> Result<(u64, usize)> {
        let mut seen = self.agree(space, inode)?;
        let offset = offset.unwrap_or(seen.size);
        let mut written = 0;
        let mut last = Ok(());
        while written < data.len() {
            match answer(io::pwrite(&self.fd, &data[written..], offset + written as u64)) {
                Ok(more) if more > 0 => written += more,
                answer => {
                    last = answer.and(Err(Errno::ENOSPC));
                    break;
                }
            }
        }
        let look = self.look()?;
        seen.note_contents(space, look);
        change(inode, |attr| {
            (attr.size, attr.blocks) = (look.size, blocks(look.pages));
            (attr.mtime, attr.ctime) = (now, now);
        });
        if written == 0 {
            last?;
        }
        Ok((offset + written as u64, written))
    }

    /// Changes attributes, in one step. A size that is given stamps the file if it is another one, or if there are contents.
    ///
    /// # Errors
    ///
    /// - `EFBIG`, `ENOSPC`: a file cannot be so large.
    pub(crate) fn setattr(&self, space: &Space, inode: InodeRef<'_>, new: &Iattr) -> Result<()> {
        let mut seen = self.agree(space, inode)?;
        let mut stamps = false;
        if let Some(size) = new.size {
            stamps = size != seen.size || seen.pages != 0;
            answer(fs::ftruncate(&self.fd, size))?;
            seen.note_contents(space, self.look()?);
        }
        change(inode, |attr| {
            (attr.size, attr.blocks) = (seen.size, blocks(seen.pages));
            if stamps {
                (attr.mtime, attr.ctime) = (new.now, new.now);
            }
            new.copy_to(attr);
        });
        Ok(())
    }

    /// Makes the inode's attributes those of the memfd, where somebody wrote to that.
    ///
    /// # Errors
    ///
    /// None that a memfd answers.
    pub(crate) fn refresh(&self, space: &Space, inode: InodeRef<'_>) -> Result<()> {
        self.agree(space, inode).map(drop)
    }

    /// Counts the room that it takes by now, whoever wrote there.
    ///
    /// # Errors
    ///
    /// None that a memfd answers.
    pub(crate) fn count(&self, space: &Space) -> Result<()> {
        let mut seen = self.seen.lock();
        let Look { pages, .. } = self.look()?;
        seen.count(space, pages);
        Ok(())
    }

    /// Gives back the room that was counted.
    pub(crate) fn forget(&self, space: &Space) {
        let mut seen = self.seen.lock();
        seen.count(space, 0);
        // Who is about to count it finds that it is too late.
        seen.gone = true;
    }

    fn agree(&self, space: &Space, inode: InodeRef<'_>) -> Result<MutexGuard<'_, Seen>> {
        let mut seen = self.seen.lock();
        let look = self.look()?;
        let Look { atime, mtime, size, pages } = look;
        let (read, written) = (atime != seen.atime, mtime != seen.mtime);
        if read || written || size != seen.size || pages != seen.pages {
            change(inode, |attr| {
                if read && is_noted(attr, atime, mtime) {
                    attr.atime = atime;
                }
                (attr.size, attr.blocks) = (size, blocks(pages));
                if written {
                    (attr.mtime, attr.ctime) = (mtime, attr.ctime.max(mtime));
                }
            });
            seen.atime = atime;
            seen.note_contents(space, look);
        }
        Ok(seen)
    }

    fn look(&self) -> Result<Look> {
        let stat = answer(fs::fstat(&self.fd))?;
        let time = |sec, nsec: u64| Timespec { sec, nsec: nsec as u32 };
        Ok(Look {
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            size: stat.st_size as u64,
            pages: (stat.st_blocks as u64).div_ceil(8),
        })
    }
}

/// Whether a file that was last read then, and last written then, was read for the first time since it was changed, as far as
/// that can be told; and whether the file wants that noted.
///
/// Linux: `atime_needs_update`, `relatime_need_update`.
fn is_noted(attr: &Attr, read: Timespec, written: Timespec) -> bool {
    if attr.flags.contains(InodeFlags::NOATIME) {
        return false;
    }
    let before = attr.atime <= attr.mtime || attr.atime <= attr.ctime;
    let between = attr.atime <= written && written <= read;
    before || between || read.sec.saturating_sub(attr.atime.sec) >= OLD
}

/// What a memfd says now.
#[derive(Clone, Copy)]
struct Look {
    atime: Timespec,
    mtime: Timespec,
    size: u64,
    pages: u64,
}

impl Seen {
    fn note_contents(&mut self, space: &Space, Look { mtime, size, pages, .. }: Look) {
        (self.mtime, self.size, self.pages) = (mtime, size, pages);
        self.count(space, pages);
    }

    fn count(&mut self, space: &Space, pages: u64) {
        if self.gone {
            return;
        }
        if pages >= self.counted {
            self.counted += space.pages.take_up_to(pages - self.counted);
        } else {
            space.pages.give(self.counted - pages);
            self.counted = pages;
        }
    }
}

fn blocks(pages: u64) -> u64 {
    pages * 8
}

fn answer<T>(answer: io::Result<T>) -> Result<T> {
    answer.map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO))
}

/// An opening of a file: a descriptor with a position and flags of its own.
pub(crate) struct Opening {
    fd: OwnedFd,
    /// What is done by it changes attributes.
    changes: bool,
    file: Arc<File>,
    space: Arc<Space>,
}

impl Opening {
    /// Opens the contents of a file.
    ///
    /// # Errors
    ///
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: there is no room for one more.
    pub(crate) fn open(space: &Arc<Space>, file: Arc<File>, flags: OpenFlags) -> Result<Self> {
        let told = OFlags::from_bits_retain(flags.bits() as u32 & OpenFlags::IO.bits() as u32);
        let path = format!("/proc/self/fd/{}", file.memfd_or_new()?.fd.as_raw_fd());
        let open = |flags| answer(fs::open(&*path, flags | OFlags::CLOEXEC, Mode::empty()));
        let (fd, noted) = match open(told) {
            // This process was another user when it made the memfd; then a reading is noted that was not to be.
            Err(Errno::EPERM) if told.contains(OFlags::NOATIME) => {
                (open(told - OFlags::NOATIME)?, true)
            }
            opened => (opened?, !told.contains(OFlags::NOATIME)),
        };
        let access = flags & OpenFlags::ACCMODE;
        // With both bits it can do neither.
        let reads = access != OpenFlags::WRONLY && access != OpenFlags::ACCMODE;
        let writes = access == OpenFlags::WRONLY || access == OpenFlags::RDWR;
        let changes = writes || reads && noted;
        Ok(Self { fd, changes, file, space: Arc::clone(space) })
    }
}

impl OpenHandle for Opening {
    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.memfd_or_new()?.read(&self.space, inode, offset, buf)
    }

    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        now: Timespec,
    ) -> Result<(u64, usize)> {
        self.file.memfd_or_new()?.write(&self.space, inode, offset, data, now)
    }

    fn host_fd(&self, inode: InodeRef<'_>) -> Option<BorrowedFd<'_>> {
        if self.changes {
            inode.ask_for_attributes();
        }
        Some(self.fd.as_fd())
    }
}
