//! What takes part in a benchmark: a contender, and a worker of it in each thread.
//!
//! Everything between two looks at the clock is generic over the worker, so that a contender is
//! called as directly as by a program of its own.

use std::ffi::{CStr, CString};

use pathwalk_abi::Errno;

use crate::Error;

/// One way to answer the calls, its tree loaded.
pub trait Contender: Send + Sync + 'static {
    /// What makes the calls in one thread.
    type Worker: Worker;

    /// Whether a call answers what access(2) answers; the floor's do not.
    const ANSWERS: bool = true;

    /// Returns the name of its rows in the report.
    fn name(&self) -> &str;

    /// Spells a recorded path the way this contender has to be asked for it.
    fn spell(&self, path: &[u8]) -> Vec<u8> {
        path.to_vec()
    }

    /// Makes the worker of the calling thread, which it never leaves: a root directory, for one,
    /// can belong to a thread.
    ///
    /// # Errors
    ///
    /// Where the thread cannot be given what the calls need.
    fn worker(&self) -> Result<Self::Worker, Error>;
}

/// What makes the calls in one thread.
pub trait Worker {
    /// `access(path, F_OK)`.
    ///
    /// A C string, so that nobody has to copy it: the kernel wants the NUL, and the bytes without it
    /// are as near.
    ///
    /// # Errors
    ///
    /// What access(2) fails with.
    fn access(&mut self, path: &CStr) -> Result<(), Errno>;

    /// Makes each call once and returns how many found their file.
    ///
    /// The count keeps the answers from being optimised away, and is compared afterwards.
    #[inline]
    fn round(&mut self, paths: &[CString]) -> u64 {
        paths.iter().map(|path| u64::from(self.access(path).is_ok())).sum()
    }
}
