//! ELF, as far as has to be known of a program before it runs: what kind it is, and its interpreter.
//!
//! Manual: elf(5).

use crate::sys::answer;
use pathwalk::{Errno, Result, abi::PATH_MAX};
use rustix::io;
use std::os::fd::BorrowedFd;

/// `PT_INTERP`
const INTERP: u32 = 3;
/// `EM_X86_64`
const X86_64: u16 = 62;
/// `struct elf64_phdr` is so long.
const PHDR: usize = 56;
/// The kernel reads no more of those.
const MOST_PHDRS: usize = 65_536 / PHDR;

/// A program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The path of its interpreter, if it has one.
    pub(crate) interpreter: Option<Vec<u8>>,
}

/// Reads what has to be known of a program.
///
/// # Errors
///
/// - `ENOEXEC`: it is no program for this machine.
/// - `EIO`: it ends within what it promises.
pub(crate) fn read_elf(file: BorrowedFd<'_>) -> Result<Elf> {
    let mut header = [0; 64];
    let read = answer(io::pread(file, &mut header, 0))?;
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    // The magic number, 64 bits, the machine's order of bytes; to be executed, or shared; for this machine.
    let right = read == header.len()
        && header.starts_with(b"\x7fELF\x02\x01")
        && matches!(half(16), 2 | 3)
        && half(18) == X86_64
        && usize::from(half(54)) == PHDR;
    let count = usize::from(half(56));
    if !right || count == 0 || count > MOST_PHDRS {
        return Err(Errno::ENOEXEC);
    }
    let mut headers = vec![0; count * PHDR];
    read_all(file, word(&header, 32), &mut headers)?;
    let interp = headers
        .chunks_exact(PHDR)
        .find(|header| u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) == INTERP);
    let Some(interp) = interp else { return Ok(Elf { interpreter: None }) };
    let len = word(interp, 32) as usize;
    if !(2..=PATH_MAX).contains(&len) {
        return Err(Errno::ENOEXEC);
    }
    let mut path = vec![0; len];
    read_all(file, word(interp, 8), &mut path)?;
    if path.pop() != Some(0) {
        return Err(Errno::ENOEXEC);
    }
    // The kernel takes it for a string.
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    path.truncate(end);
    Ok(Elf { interpreter: Some(path) })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn read_all(file: BorrowedFd<'_>, at: u64, buf: &mut [u8]) -> Result<()> {
    let read = answer(io::pread(file, &mut *buf, at))?;
    if read == buf.len() { Ok(()) } else { Err(Errno::EIO) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Write, os::fd::AsFd};

    #[test]
    fn the_test_itself_is_a_program_and_a_text_is_none() {
        let own = File::open("/proc/self/exe").expect("it runs");
        let elf = read_elf(own.as_fd()).expect("it runs");
        assert!(elf.interpreter.is_none_or(|path| path.starts_with(b"/")));
        let mut text = tempfile::tempfile().expect("a file");
        text.write_all(&[b'a'; 100]).expect("room");
        assert_eq!(read_elf(text.as_fd()), Err(Errno::ENOEXEC));
    }
}
