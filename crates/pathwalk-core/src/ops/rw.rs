//! Reading and writing: read, write, pread, pwrite, lseek.
//!
//! Linux: `fs/read_write.c`.

use crate::{dcache::COMPLETE, file::File, inode::InodeId, task::Task};
use pathwalk_abi::{Errno, FileType, OpenFlags, Result};
use pathwalk_sync::lock_order;

/// Where lseek counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// From the beginning: `SEEK_SET`.
    Set(i64),
    /// From the position: `SEEK_CUR`.
    Cur(i64),
    /// From the end: `SEEK_END`.
    End(i64),
}

impl Task {
    /// `read(file, buf)`: reads from the position, which moves on; 0 at the end. read(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: it is not open for reading, or of another machine.
    /// - `EINVAL`: the end would lie behind 2⁶³ - 1.
    /// - `EISDIR`: it is a directory.
    /// - whatever the file system answers.
    pub fn read(&self, file: &File, buf: &mut [u8]) -> Result<usize> {
        self.readable(file)?;
        let mut position = file.position().lock();
        must_fit(position.offset, buf.len())?;
        must_not_be_directory(file)?;
        let read = self.read_at(file, buf, position.offset)?;
        position.offset += read as u64;
        Ok(read)
    }

    /// `pread(file, buf, offset)`: reads from an offset; the position stays. pread(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the offset is negative.
    /// - those of [`Task::read`].
    pub fn pread(&self, file: &File, buf: &mut [u8], offset: i64) -> Result<usize> {
        let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        self.readable(file)?;
        must_fit(offset, buf.len())?;
        must_not_be_directory(file)?;
        self.read_at(file, buf, offset)
    }

    /// `write(file, data)`: writes at the position, which moves on; at the end with `O_APPEND`. write(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: it is not open for writing, or of another machine.
    /// - `EINVAL`: the end would lie behind 2⁶³ - 1.
    /// - `EFBIG`: the position lies behind what a file can have.
    /// - `ENOSPC`: there is no room for a single byte.
    pub fn write(&self, file: &File, data: &[u8]) -> Result<usize> {
        self.writable(file)?;
        let mut position = file.position().lock();
        must_fit(position.offset, data.len())?;
        let append = file.flags().contains(OpenFlags::APPEND);
        let offset = (!append).then_some(position.offset);
        let (end, written) = self.write_at(file, data, offset)?;
        if written != 0 {
            position.offset = end;
        }
        Ok(written)
    }

    /// `pwrite(file, data, offset)`: writes at an offset; the position stays. With `O_APPEND` it writes at the end all the
    /// same, as Linux does. pwrite(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the offset is negative.
    /// - those of [`Task::write`].
    pub fn pwrite(&self, file: &File, data: &[u8], offset: i64) -> Result<usize> {
        let offset = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        self.writable(file)?;
        must_fit(offset, data.len())?;
        let append = file.flags().contains(OpenFlags::APPEND);
        Ok(self.write_at(file, data, (!append).then_some(offset))?.1)
    }

    /// `lseek(file, to)`: moves the position and returns it. A listing goes on from a position that it gave, or from its
    /// beginning at 0. lseek(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - `EINVAL`: the position would be negative, or larger than the file system has any; or it counts from the end of a
    ///   directory whose file system knows no such, as tmpfs.
    pub fn lseek(&self, file: &File, to: Seek) -> Result<u64> {
        let (vfs, (_, dentry)) = (self.vfs(), self.place_of(file)?);
        if file.is_path() {
            return Err(Errno::EBADF);
        }
        vfs.getattr_if_wanted(file.inode())?;
        let attr = file.inode_ref().attr();
        let directory = attr.file_type() == FileType::Directory;
        let complete = directory && vfs.dentry(dentry).is(COMPLETE);
        let last = match directory && !complete {
            true => file.hold().sb().fs.max_position(),
            false => i64::MAX as u64,
        };
        let mut position = file.position().lock();
        let (from, by) = match to {
            Seek::Set(by) => (0, by),
            Seek::Cur(by) => (position.offset, by),
            Seek::End(_) if complete => return Err(Errno::EINVAL),
            Seek::End(by) if directory && let Some(handle) = file.handle() => {
                (handle.seek_end(file.inode_ref(), by)?, 0)
            }
            Seek::End(by) => (attr.size, by),
        };
        let offset = from.checked_add_signed(by).filter(|&offset| offset <= last);
        position.offset = offset.ok_or(Errno::EINVAL)?;
        Ok(position.offset)
    }

    fn readable(&self, file: &File) -> Result<()> {
        self.place_of(file)?;
        file.must_be_open_for(OpenFlags::RDONLY)
    }

    fn writable(&self, file: &File) -> Result<()> {
        self.place_of(file)?;
        file.must_be_open_for(OpenFlags::WRONLY)
    }

    fn read_at(&self, file: &File, buf: &mut [u8], offset: u64) -> Result<usize> {
        let held = file.borrow();
        lock_order::assert_none_held();
        let read = match file.handle() {
            Some(handle) => handle.read(file.inode_ref(), offset, buf)?,
            None => held.sb().fs.read(file.inode_ref(), offset, buf)?,
        };
        // Reading nothing is reading, as on tmpfs.
        if !file.flags().contains(OpenFlags::NOATIME) {
            self.vfs().touch_atime(held.inode(), held.mnt(), held.mnt_flags());
        }
        if read != 0 {
            file.fsnotify_access();
        }
        Ok(read)
    }

    fn write_at(&self, file: &File, data: &[u8], offset: Option<u64>) -> Result<(u64, usize)> {
        if data.is_empty() {
            return Ok((offset.unwrap_or(0), 0));
        }
        let held = file.borrow();
        debug_assert!(held.inode() != InodeId::NONE, "an open file stands for something");
        // Where no file system has a byte, before the file loses what it runs as.
        if offset.unwrap_or_else(|| file.inode_ref().attr().size) >= i64::MAX as u64 {
            return Err(Errno::EFBIG);
        }
        self.vfs().file_remove_privs(&held, &held.seen_by(self.cred.subject()))?;
        lock_order::assert_none_held();
        let now = self.vfs().now();
        let written = match file.handle() {
            Some(handle) => handle.write(file.inode_ref(), offset, data, now)?,
            None => held.sb().fs.write(file.inode_ref(), offset, data, now)?,
        };
        if written.1 != 0 {
            file.fsnotify_modify();
        }
        Ok(written)
    }
}

/// Refuses a range that does not end within what offsets can say.
///
/// # Errors
///
/// - `EINVAL`: it does not.
///
/// Linux: `rw_verify_area`.
fn must_fit(offset: u64, len: usize) -> Result<()> {
    let end = offset.checked_add(len as u64).and_then(|end| i64::try_from(end).ok());
    end.map(drop).ok_or(Errno::EINVAL)
}

fn must_not_be_directory(file: &File) -> Result<()> {
    let directory = file.inode_ref().attr().file_type() == FileType::Directory;
    if directory { Err(Errno::EISDIR) } else { Ok(()) }
}
