//! What a new program finds on its stack, of which no instruction ran yet: its arguments, and who it is told that it is.
//!
//! ```text
//!   rsp ─► argc, argv…, NULL, envp…, NULL, auxiliary vector…, AT_NULL
//! ```
//!
//! A script's interpreter has further arguments in front of those that were given, and so has a loader. They are put here, not into
//! the memory of who ran it, as nobody knows what it has where. And the kernel is given a descriptor, so that `AT_EXECFN`, by which
//! name the program was run, has to be put here too.
//!
//! The auxiliary vector the kernel has filled with whom it knows. It says too whether the program should trust its environment: one
//! that has its owner's rights must not, and the dynamic loader acts on that before anything else.
//!
//! Manual: getauxval(3).

use crate::{
    credentials::Ran,
    sys::{memory, ptrace},
};
use pathwalk::{Errno, Result, abi::PATH_MAX};
use std::ffi::CString;

/// So many words are read at once.
const WORDS: usize = 1024;
/// How the kernel names what is run by a descriptor.
const BY_DESCRIPTOR: &[u8; 8] = b"/dev/fd/";
/// `AT_NULL`
const NULL: u64 = 0;

/// What a program is told beside what it was given.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Arguments instead of the first that was given, if there are any.
    pub(crate) before: Vec<CString>,
    /// By which name it was run.
    pub(crate) name: CString,
    /// What its process is called.
    pub(crate) comm: CString,
}

/// Where something is in its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) comm: u64,
    /// What the kernel gives each program.
    pub(crate) vdso: u64,
}

/// Tells a program what it is told; its thread is stopped.
///
/// # Errors
///
/// - `EFAULT`: the stack is not as the kernel makes it where it ran a file by a descriptor, or has no room.
/// - `ESRCH`: the thread is gone.
pub(crate) fn arguments(tid: u32, Told { before, name, comm }: &Told) -> Result<Put> {
    let mut regs = ptrace::registers(tid)?;
    let mut words = Words::from(tid, regs.rsp);
    let given = words.next()?.1;
    // What follows the first argument stays as it is, and where it ends is where the strings end.
    let mut rest = Vec::new();
    let mut nulls = 0;
    for index in 0_u64.. {
        let (_, word) = words.next()?;
        if index > 0 || given == 0 || before.is_empty() {
            rest.push(word);
        }
        nulls += usize::from(word == 0);
        if nulls == 2 {
            break;
        }
    }
    let (mut vdso, mut execfn) = (0, None);
    let end = loop {
        let (_, kind) = words.next()?;
        let (at, value) = words.next()?;
        rest.extend([kind, value]);
        match kind {
            libc::AT_SYSINFO_EHDR => vdso = value,
            libc::AT_EXECFN => {
                // Another name is that of a script, which another thread put in the place of its interpreter.
                if memory::read_exact(tid, value)? != *BY_DESCRIPTOR {
                    return Err(Errno::EFAULT);
                }
                execfn = Some(rest.len() - 1);
            }
            NULL => break at + 8,
            _ => {}
        }
    };
    let texts = || before.iter().chain([name, comm]);
    let len = |text: &CString| text.as_bytes_with_nul().len();
    let strings: usize = texts().map(len).sum();
    let count = 1 + before.len() + rest.len();
    let room = (8 * count + strings) as u64;
    // The ABI has it end so.
    let top = end.checked_sub(room).ok_or(Errno::EFAULT)? & !15;
    let mut bytes = Vec::with_capacity(room as usize);
    let taken = if before.is_empty() { given } else { given.max(1) - 1 };
    let argc = taken + before.len() as u64;
    bytes.extend_from_slice(&argc.to_ne_bytes());
    let mut at = top + 8 * count as u64;
    for text in before {
        bytes.extend_from_slice(&at.to_ne_bytes());
        at += len(text) as u64;
    }
    if let Some(execfn) = execfn {
        rest[execfn] = at;
    }
    bytes.extend(rest.into_iter().flat_map(u64::to_ne_bytes));
    bytes.extend(texts().flat_map(|text| text.as_bytes_with_nul()));
    // Mostly the stack is there already.
    if memory::write(tid, top, &bytes).is_err() {
        memory::write_stack(tid, top, &bytes)?;
    }
    regs.rsp = top;
    ptrace::set_registers(tid, regs)?;
    Ok(Put { comm: at + len(name) as u64, vdso })
}

/// Whether the kernel knows by this name what a process runs, of which no instruction ran yet, and gave it these arguments instead of the
/// first, if there are any; its thread is stopped, and this is where its stack begins.
///
/// # Errors
///
/// - `EFAULT`: the stack is not as the kernel makes it.
/// - `ESRCH`: the thread is gone.
pub(crate) fn is_run_as(tid: u32, stack: u64, name: &[u8], before: &[Vec<u8>]) -> Result<bool> {
    let mut words = Words::from(tid, stack);
    let (count, first) = words.arguments()?;
    // They lie one behind the other.
    let mut text = Vec::new();
    before.iter().for_each(|argument| text.extend([&argument[..], b"\0"].concat()));
    let mut has = vec![0; text.len()];
    if !before.is_empty() && memory::read(tid, first, &mut has)? != text.len()
        || has != text
        || count < before.len() as u64
    {
        return Ok(false);
    }
    loop {
        match (words.next()?.1, words.next()?.1) {
            (NULL, _) => return Err(Errno::EFAULT),
            (libc::AT_EXECFN, at) => {
                return Ok(match words.text(at) {
                    Some(text) => text == name,
                    None => memory::read_string(tid, at, PATH_MAX)? == name,
                });
            }
            _ => {}
        }
    }
}

/// Writes who it is into the stack of a program of which no instruction ran yet; its thread is stopped.
///
/// # Errors
///
/// - `EFAULT`: the stack is not as the kernel makes it.
/// - `ESRCH`: the thread is gone.
pub(crate) fn tell(tid: u32, Ran { who, secure, .. }: &Ran) -> Result<()> {
    let mut words = Words::from(tid, ptrace::registers(tid)?.rsp);
    words.arguments()?;
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
    fn from(tid: u32, at: u64) -> Self {
        Self { tid, at, read: Vec::new(), next: 0 }
    }

    /// How many arguments there are, and where the first is; the auxiliary vector is next.
    fn arguments(&mut self) -> Result<(u64, u64)> {
        let count = self.next()?.1;
        let first = self.next()?.1;
        for _ in 0..count {
            self.next()?;
        }
        while self.next()?.1 != 0 {}
        Ok((count, first))
    }

    /// The text at an address, if it is among what was read last.
    fn text(&self, at: u64) -> Option<&[u8]> {
        let text = self.read.get(usize::try_from(at.checked_sub(self.at)?).ok()?..)?;
        text.split(|&byte| byte == 0).next().filter(|found| found.len() < text.len())
    }

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
        let bytes = self.read.get(self.next..self.next + 8).ok_or(Errno::EFAULT)?;
        word.copy_from_slice(bytes);
        let at = self.at + self.next as u64;
        self.next += 8;
        Ok((at, u64::from_ne_bytes(word)))
    }
}
