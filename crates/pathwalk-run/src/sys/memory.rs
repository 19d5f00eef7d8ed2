//! The memory of another process, and a file in that of this one.
//!
//! Manual: process_vm_readv(2), proc_pid_mem(5).

#![expect(unsafe_code, reason = "another process's memory is reached by no safe call")]

use super::{answer, checked, errno_of};
use libc::{c_void, iovec};
use pathwalk::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    fs::OpenOptions,
    ops::Range,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::FileExt,
    },
    ptr::null_mut,
};

const PAGE: u64 = 4096;

/// Reads from a thread's memory as far as there is some, without crossing more than the pages that `buf` takes.
///
/// # Errors
///
/// - `EFAULT`: there is none at the address.
/// - `ESRCH`: the thread is gone.
pub(crate) fn read(tid: u32, address: u64, buf: &mut [u8]) -> Result<usize> {
    let local = iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    // A piece per page: what is read ends in front of the first that is not there.
    let pieces = pieces(address, buf.len());
    // SAFETY: the kernel writes to `buf` alone; the other addresses are another process's.
    let read = unsafe {
        libc::process_vm_readv(
            tid as i32,
            &raw const local,
            1,
            pieces.as_ptr(),
            pieces.len() as u64,
            0,
        )
    };
    checked(read as i64).map(|read| read as usize)
}

/// Reads pieces of one length of a thread's memory by their addresses, all at once: as many as there are, up to the first that is not
/// all there. One call reads no more than 1,024.
///
/// # Errors
///
/// - `EFAULT`: there is none at the first address.
/// - `ESRCH`: the thread is gone.
pub(crate) fn read_pieces(tid: u32, addresses: &[u64], len: usize) -> Result<Vec<Vec<u8>>> {
    let mut bytes = vec![0; addresses.len() * len];
    let local = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let piece = |&at: &u64| iovec { iov_base: at as *mut c_void, iov_len: len };
    let pieces: Vec<_> = addresses.iter().map(piece).collect();
    let (pieces_ptr, count) = (pieces.as_ptr(), pieces.len() as u64);
    // SAFETY: the kernel writes to `bytes` alone; the other addresses are another process's.
    let read =
        unsafe { libc::process_vm_readv(tid as i32, &raw const local, 1, pieces_ptr, count, 0) };
    let read = checked(read as i64)? as usize;
    Ok(bytes[..read].chunks_exact(len).map(Into::into).collect())
}

/// Writes to a thread's memory, all of it.
///
/// # Errors
///
/// - `EFAULT`: it is not all there, or not to be written.
/// - `ESRCH`: the thread is gone.
pub(crate) fn write(tid: u32, address: u64, data: &[u8]) -> Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let local = iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let remote = iovec { iov_base: address as *mut c_void, iov_len: data.len() };
    // SAFETY: the kernel reads `data` alone; the other address is another process's.
    let written = unsafe {
        libc::process_vm_writev(tid as i32, &raw const local, 1, &raw const remote, 1, 0)
    };
    if checked(written as i64)? as usize == data.len() { Ok(()) } else { Err(Errno::EFAULT) }
}

/// Writes to a thread's stack, which may have to grow for it.
///
/// # Errors
///
/// - `EFAULT`: there is no room.
/// - `EACCES`, `ENOENT`: the thread is gone.
pub(crate) fn write_stack(tid: u32, address: u64, data: &[u8]) -> Result<()> {
    write_code(tid, &[(address, data)])
}

/// Writes to memory of a process's own that it may not write itself, as its code is.
///
/// # Errors
///
/// - `EFAULT`: there is none of its own.
/// - `EACCES`, `ENOENT`: it is gone.
pub(crate) fn write_code(tid: u32, pieces: &[(u64, &[u8])]) -> Result<()> {
    let file = OpenOptions::new().write(true).open(format!("/proc/{tid}/mem"));
    let file = file.map_err(|error| errno_of(&error))?;
    let write = |&(at, piece): &(u64, &[u8])| file.write_all_at(piece, at);
    pieces.iter().try_for_each(write).map_err(|_| Errno::EFAULT)
}

/// Reads a string that ends with NUL, without it.
///
/// # Errors
///
/// - `EFAULT`: it is not all there.
/// - `ENAMETOOLONG`: it has more than `most` bytes.
pub(crate) fn read_string(tid: u32, address: u64, most: usize) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    // Most paths are short.
    let mut piece = 256;
    loop {
        let from = text.len();
        let len = piece.min(most + 1 - from);
        text.resize(from + len, 0);
        let at = address.checked_add(from as u64).ok_or(Errno::EFAULT)?;
        let read = read(tid, at, &mut text[from..])?;
        if let Some(end) = text[from..from + read].iter().position(|&byte| byte == 0) {
            text.truncate(from + end);
            return Ok(text);
        }
        if read < len {
            return Err(Errno::EFAULT);
        }
        if text.len() > most {
            return Err(Errno::ENAMETOOLONG);
        }
        piece = 4096;
    }
}

/// An array of bytes, all of it.
///
/// # Errors
///
/// - `EFAULT`: it is not all there.
pub(crate) fn read_exact<const N: usize>(tid: u32, address: u64) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    if read(tid, address, &mut bytes)? == N { Ok(bytes) } else { Err(Errno::EFAULT) }
}

/// `struct procmap_query`
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// A part of a process's memory that is a file's.
pub(crate) struct Part {
    /// The two numbers of the file's device.
    pub(crate) device: (u32, u32),
    pub(crate) ino: u64,
    /// Where it is.
    pub(crate) at: Range<u64>,
}

/// Which file a process has in its memory at an address or, if there is none, at the next one where there is. `maps` is the process's file
/// of that name.
///
/// # Errors
///
/// - `ENOTTY`: a kernel before 6.11.
/// - `ESRCH`: the process is gone.
pub(crate) fn file_at(maps: BorrowedFd<'_>, address: u64, at: Where) -> Result<Option<Part>> {
    /// `PROCMAP_QUERY`
    const QUERY: libc::Ioctl = 0xc068_6611;
    /// `PROCMAP_QUERY_FILE_BACKED_VMA`, `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`
    const FILE: u64 = 0x20;
    const NEXT: u64 = 0x10;
    let size = size_of::<ProcmapQuery>() as u64;
    let query_flags = FILE | if at == Where::OrBehind { NEXT } else { 0 };
    let mut query = ProcmapQuery { size, query_flags, query_addr: address, ..Default::default() };
    // SAFETY: the kernel reads and writes one `struct procmap_query` there, and nothing that it points to.
    let found = unsafe { libc::ioctl(maps.as_raw_fd(), QUERY, &raw mut query) };
    match checked(found.into()) {
        Ok(_) => {
            let device = (query.dev_major, query.dev_minor);
            Ok(Some(Part { device, ino: query.inode, at: query.vma_start..query.vma_end }))
        }
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Where a part of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Here,
    OrBehind,
}

/// The first page of a file, mapped.
pub(crate) struct Map(*mut c_void);

impl Map {
    /// # Errors
    ///
    /// Those of mmap(2): the file cannot be read, or not be mapped.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<Self> {
        let flags = MapFlags::PRIVATE;
        // SAFETY: it is put where nothing is, and nobody reads what it holds.
        let at = unsafe { mmap(null_mut(), PAGE as usize, ProtFlags::READ, flags, file, 0) };
        answer(at).map(Self)
    }

    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `of`, and nothing points there.
        let _ = unsafe { munmap(self.0, PAGE as usize) };
    }
}

fn pieces(address: u64, len: usize) -> Vec<iovec> {
    let (mut at, mut left) = (address, len as u64);
    let mut pieces = Vec::with_capacity(len / PAGE as usize + 2);
    while left > 0 {
        let len = left.min(PAGE - at % PAGE);
        pieces.push(iovec { iov_base: at as *mut c_void, iov_len: len as usize });
        at = at.wrapping_add(len);
        left -= len;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_across_pieces_and_not_beyond_its_end() {
        let tid = std::process::id();
        for len in [0, 1, 255, 256, 257, 4095] {
            let mut text = vec![b'a'; len];
            text.push(0);
            let at = text.as_ptr() as u64;
            assert_eq!(read_string(tid, at, 4095).as_deref(), Ok(&text[..len]));
        }
        let text = [b'a'; 5000];
        let at = text.as_ptr() as u64;
        assert_eq!(read_string(tid, at, 4095), Err(Errno::ENAMETOOLONG));
        assert_eq!(read_string(tid, 8, 4095), Err(Errno::EFAULT));
    }

    #[test]
    fn what_is_written_is_there() {
        let to = [0_u8; 5000];
        let at = to.as_ptr() as u64;
        let data: Vec<u8> = (0..5000).map(|n| n as u8).collect();
        assert_eq!(write(std::process::id(), at, &data), Ok(()));
        assert_eq!(std::hint::black_box(&to)[..], data[..]);
        assert_eq!(write(std::process::id(), 8, &data), Err(Errno::EFAULT));
    }
}
