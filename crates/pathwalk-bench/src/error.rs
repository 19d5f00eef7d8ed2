//! Why a run could not go on.

use std::fmt;

/// What was being done, and why it failed, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// Makes an error that is complete in itself.
    pub fn new(what: impl Into<String>) -> Error {
        Error(what.into())
    }

    /// Makes the error of something that failed for `cause`.
    pub fn doing(what: impl fmt::Display, cause: impl fmt::Display) -> Error {
        Error(format!("{what}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
