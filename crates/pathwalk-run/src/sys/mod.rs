//! The calls to the kernel that need `unsafe`, each as a safe function.

pub(crate) mod memory;

pub(crate) mod process;

pub(crate) mod ptrace;

pub(crate) mod seccomp;

pub(crate) mod socket;

use pathwalk::{Errno, Result};
use std::{fs::File, io, io::Read, path::Path};

/// Most of what the kernel tells by a file fits in here.
const TOLD: usize = 16 << 10;

/// What a call of the C library failed with.
fn last_errno() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}

/// What the kernel tells by a file. Such a file does not say how long it is, so that [`std::fs::read`] asks, and begins with small pieces.
///
/// # Errors
///
/// Those of opening and reading.
pub(crate) fn read_told(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(TOLD);
    File::open(path)?.take(u64::MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// The same of a file that is one record, as `/proc/PID/status`: of what is shorter than there is room for nothing is left.
///
/// # Errors
///
/// As [`read_told`].
pub(crate) fn read_record(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut text = vec![0; TOLD];
    let mut file = File::open(path)?;
    let read = loop {
        match file.read(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    text.truncate(read);
    if read == TOLD {
        file.read_to_end(&mut text)?;
    }
    Ok(text)
}

/// The number of an error of the system.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().and_then(Errno::from_raw).unwrap_or(Errno::EIO)
}

/// The same of what rustix answered.
pub(crate) fn answer<T>(answer: rustix::io::Result<T>) -> Result<T> {
    answer.map_err(|errno| Errno::from_raw(errno.raw_os_error()).unwrap_or(Errno::EIO))
}

/// What a call of the C library answered.
fn checked(answer: i64) -> Result<i64> {
    if answer < 0 { Err(last_errno()) } else { Ok(answer) }
}
