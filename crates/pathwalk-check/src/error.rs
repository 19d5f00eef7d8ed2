//! What ends a check before it has an answer.

use std::fmt;

/// Why nothing could be checked, in one line.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// What was asked for cannot be used.
    pub(crate) fn unusable(why: String) -> Self {
        Self(why)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
