//! Who a new program is told that it is: the auxiliary vector, which the kernel has filled with whom it knows.
//!
//! It says too whether the program should trust its environment: one that has its owner's rights must not, and the dynamic
//! loader acts on that before anything else.
//!
//! Manual: getauxval(3).

use crate::{
    credentials::Ran,
    sys::{memory, ptrace},
};
use pathwalk::Result;

/// So many words are read at once.
const WORDS: usize = 512;
/// `AT_NULL`
const NULL: u64 = 0;

/// Writes them into the stack of a program of which no instruction ran yet; its thread is stopped.
///
/// # Errors
///
/// - `EFAULT`: the stack is not as the kernel makes it.
/// - `ESRCH`: the thread is gone.
pub(crate) fn tell(tid: u32, Ran { who, secure }: &Ran) -> Result<()> {
    let mut words = Words { tid, at: ptrace::registers(tid)?.rsp, read: Vec::new(), next: 0 };
    let arguments = words.next()?.1;
    for _ in 0..=arguments {
        words.next()?;
    }
    while words.next()?.1 != 0 {}
    loop {
        let (_, kind) = words.next()?;
        let (at, value) = words.next()?;
        let told = match kind {
            NULL => return Ok(()),
            libc::AT_UID => who.user.real.into(),
            libc::AT_EUID => who.user.effective.into(),
            libc::AT_GID => who.group.real.into(),
            libc::AT_EGID => who.group.effective.into(),
            libc::AT_SECURE => (*secure).into(),
            _ => value,
        };
        if told != value {
            memory::write(tid, at, &told.to_ne_bytes())?;
        }
    }
}

/// The words of a thread's memory from an address on.
struct Words {
    tid: u32,
    at: u64,
    read: Vec<u8>,
    next: usize,
}

impl Words {
    /// The next one, and its address.
    fn next(&mut self) -> Result<(u64, u64)> {
        if self.next + 8 > self.read.len() {
            self.at += self.next as u64;
            self.read.resize(8 * WORDS, 0);
            let read = memory::read(self.tid, self.at, &mut self.read)?;
            self.read.truncate(read);
            self.next = 0;
        }
        let mut word = [0; 8];
        let bytes = self.read.get(self.next..self.next + 8).ok_or(pathwalk::Errno::EFAULT)?;
        word.copy_from_slice(bytes);
        let at = self.at + self.next as u64;
        self.next += 8;
        Ok((at, u64::from_ne_bytes(word)))
    }
}
