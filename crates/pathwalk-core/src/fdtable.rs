//! A table of descriptors: small numbers for open files, as the kernel gives them out.
//!
//! Linux: `struct files_struct`; getrlimit(2) about `RLIMIT_NOFILE`.

use crate::file::File;
use parking_lot::Mutex;
use pathwalk_abi::{Errno, Result};

/// Open files by number: the lowest free number first.
///
/// Tasks need none: a [`File`] is a handle. This is for front ends whose users speak in numbers.
#[derive(Debug)]
pub struct FdTable {
    files: Mutex<Vec<Option<File>>>,
    limit: usize,
}

impl FdTable {
    /// An empty table for up to `limit` files: `RLIMIT_NOFILE`.
    pub fn new(limit: usize) -> Self {
        Self { files: Mutex::default(), limit }
    }

    /// Gives an open file the lowest free number.
    ///
    /// # Errors
    ///
    /// `EMFILE`: the table is full; the file is closed.
    pub fn insert(&self, file: File) -> Result<i32> {
        let mut files = self.files.lock();
        let free = (0..files.len()).find(|&index| files[index].is_none());
        let index = free.unwrap_or(files.len());
        if index >= self.limit {
            return Err(Errno::EMFILE);
        }
        if index == files.len() {
            files.push(None);
        }
        files[index] = Some(file);
        Ok(index as i32)
    }

    /// The open file of that number.
    ///
    /// # Errors
    ///
    /// `EBADF`: there is none.
    pub fn get(&self, fd: i32) -> Result<File> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        self.files.lock().get(index).cloned().flatten().ok_or(Errno::EBADF)
    }

    /// `close(fd)`: makes the number free. close(2)
    ///
    /// # Errors
    ///
    /// `EBADF`: there is no such.
    pub fn close(&self, fd: i32) -> Result<()> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        let file = self.files.lock().get_mut(index).and_then(Option::take);
        file.map(drop).ok_or(Errno::EBADF)
    }

    /// `dup(fd)`: gives the same open file one more number. dup(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: there is no such. `EMFILE`: the table is full.
    pub fn dup(&self, fd: i32) -> Result<i32> {
        self.insert(self.get(fd)?)
    }

    /// `dup2(fd, to)`: gives the same open file the number `to`, closing what had it. dup2(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: there is no such, or `to` is no number that the table can give.
    pub fn dup2(&self, fd: i32, to: i32) -> Result<i32> {
        self.install(to, self.get(fd)?)?;
        Ok(to)
    }

    /// Gives an open file the number `fd`, closing what had it.
    ///
    /// # Errors
    ///
    /// `EBADF`: it is no number that the table can give.
    pub fn install(&self, fd: i32, file: File) -> Result<()> {
        let index = usize::try_from(fd).ok().filter(|&fd| fd < self.limit).ok_or(Errno::EBADF)?;
        let mut files = self.files.lock();
        if files.len() <= index {
            files.resize(index + 1, None);
        }
        let old = files[index].replace(file);
        drop(files);
        drop(old);
        Ok(())
    }

    /// The numbers in use from `from` on, in order.
    pub fn numbers(&self, from: usize) -> Vec<i32> {
        let files = self.files.lock();
        let used = (from..files.len()).filter(|&index| files[index].is_some());
        used.map(|index| index as i32).collect()
    }

    /// A table of the same open files under the same numbers: what fork(2) does.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { files: Mutex::new(self.files.lock().clone()), limit: self.limit }
    }
}
