//! ELF, as far as has to be known of a program before it runs: what kind it is, and its interpreter.
//!
//! Manual: elf(5).

use crate::sys::answer;
use pathwalk::{Errno, Result, abi::PATH_MAX};
use rustix::io;
use std::os::fd::BorrowedFd;

/// `PT_INTERP`
const INTERP: u32 = 3;
/// `ELFCLASS32`
const NARROW: u8 = 1;
/// `ELFDATA2LSB`
const LITTLE: u8 = 1;
/// `EM_X86_64`
const X86_64: u16 = 62;
/// So many bytes have the headers of nearly all programs in them, and the interpreter's path.
const BEGINNING: usize = 1024;
/// `struct elf64_hdr` is so long.
const HEADER: usize = 64;
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

/// The beginning of a file, in which mostly all is that has to be known of it: read at once.
pub(crate) struct Beginning<'f> {
    file: BorrowedFd<'f>,
    bytes: Vec<u8>,
}

impl<'f> Beginning<'f> {
    /// # Errors
    ///
    /// Those of reading it.
    pub(crate) fn of(file: BorrowedFd<'f>) -> Result<Self> {
        let mut bytes = vec![0; BEGINNING];
        let read = answer(io::pread(file, &mut bytes, 0))?;
        bytes.truncate(read);
        Ok(Self { file, bytes })
    }

    /// So many bytes, or all where there are fewer.
    pub(crate) fn up_to(&self, most: usize) -> &[u8] {
        &self.bytes[..most.min(self.bytes.len())]
    }

    /// # Errors
    ///
    /// - `EIO`: the file ends before.
    fn at(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(bytes) = from.checked_add(len).and_then(|to| self.bytes.get(from..to)) {
            return Ok(bytes.to_vec());
        }
        let mut bytes = vec![0; len];
        let read = answer(io::pread(self.file, &mut bytes, at))?;
        if read == len { Ok(bytes) } else { Err(Errno::EIO) }
    }
}

/// Reads what has to be known of a program.
///
/// # Errors
///
/// - `ENOEXEC`: it is no program for this machine, or ends before its headers do.
/// - `EIO`: it ends before its interpreter's path does.
pub(crate) fn read_elf(file: &Beginning<'_>) -> Result<Elf> {
    let header = file.up_to(HEADER);
    if header.len() < HEADER {
        return Err(Errno::ENOEXEC);
    }
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    // The magic number, 64 bits, the machine's order of bytes; to be executed, or shared; for this machine.
    let right = header.starts_with(b"\x7fELF\x02\x01")
        && matches!(half(16), 2 | 3)
        && half(18) == X86_64
        && usize::from(half(54)) == PHDR;
    let count = usize::from(half(56));
    if !right || count == 0 || count > MOST_PHDRS {
        return Err(Errno::ENOEXEC);
    }
    let headers = file.at(word(header, 32), count * PHDR).map_err(|_| Errno::ENOEXEC)?;
    let interp = headers
        .chunks_exact(PHDR)
        .find(|header| u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) == INTERP);
    let Some(interp) = interp else { return Ok(Elf { interpreter: None }) };
    let len = word(interp, 32) as usize;
    if !(2..=PATH_MAX).contains(&len) {
        return Err(Errno::ENOEXEC);
    }
    let mut path = file.at(word(interp, 8), len)?;
    if path.pop() != Some(0) {
        return Err(Errno::ENOEXEC);
    }
    // The kernel takes it for a string.
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    path.truncate(end);
    Ok(Elf { interpreter: Some(path) })
}

/// What a program is that is none for x86-64; none where it is one, or is no program.
pub(crate) fn other_kind(file: &Beginning<'_>) -> Option<&'static str> {
    let header = file.up_to(HEADER);
    let magic = header.starts_with(b"\x7fELF") && header.len() >= 20;
    let (class, order) = magic.then(|| (header[4], header[5]))?;
    let half = |at: usize| {
        let bytes = [header[at], header[at + 1]];
        if order == LITTLE { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    };
    // To be executed, or shared.
    match (half(16), class, half(18)) {
        (2 | 3, NARROW, _) => Some("a 32-bit program"),
        (2 | 3, _, machine) if machine != X86_64 => Some("a program for another machine"),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Write, os::fd::AsFd};

    #[test]
    fn the_test_itself_is_a_program_and_a_text_is_none() {
        let own = File::open("/proc/self/exe").expect("it runs");
        let read = |file: &File| read_elf(&Beginning::of(file.as_fd())?);
        let elf = read(&own).expect("it runs");
        assert!(elf.interpreter.is_none_or(|path| path.starts_with(b"/")));
        let mut text = tempfile::tempfile().expect("a file");
        text.write_all(&[b'a'; 100]).expect("room");
        assert_eq!(read(&text), Err(Errno::ENOEXEC));
    }
    #[test]
    fn what_lies_behind_the_beginning_is_read() {
        let mut file = tempfile::tempfile().expect("a file");
        let all: Vec<u8> = (0..2 * BEGINNING).map(|n| n as u8).collect();
        file.write_all(&all).expect("room");
        let beginning = Beginning::of(file.as_fd()).expect("it is open");
        for (at, len) in [(0, 64), (BEGINNING - 8, 8), (BEGINNING - 4, 8), (BEGINNING, 56)] {
            assert_eq!(beginning.at(at as u64, len).as_deref(), Ok(&all[at..at + len]), "{at}");
        }
        assert_eq!(beginning.at(all.len() as u64 - 4, 8), Err(Errno::EIO));
        assert_eq!(beginning.at(u64::MAX, 8), Err(Errno::EINVAL));
    }
}
