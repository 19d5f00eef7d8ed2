//! Errors in one line.

use clap::error::ErrorKind;
use pathwalk::Errno;
use std::{fmt, io, path::Path};

/// What could not be done, and why, in one line.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    /// Makes the error of something that failed for `cause`.
    pub(crate) fn doing(what: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self(format!("{what}: {cause}"))
    }

    /// Makes the error of a file that could not be used.
    pub(crate) fn at(path: &Path, cause: &io::Error) -> Self {
        Self::doing(path.display(), in_words(cause))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may have any bytes in it.
        self.0.chars().try_for_each(|char| {
            if char.is_control() {
                write!(f, "{}", char.escape_default())
            } else {
                fmt::Write::write_char(f, char)
            }
        })
    }
}

/// An error of the system, by the name that the rest of the output calls it by.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.raw_os_error().and_then(Errno::from_raw) {
        Some(errno) => errno.to_string(),
        None => error.to_string(),
    }
}

/// What is wrong with the command line, without the usage that clap shows below it.
pub(crate) fn in_one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing (see pathwalk --help)".into();
    }
    let text = error.render().to_string();
    let mut line = String::new();
    let said = text.lines().map(str::trim).take_while(|part| !part.starts_with("Usage:"));
    for part in said.filter(|part| !part.is_empty() && !part.starts_with("For more information")) {
        if !line.is_empty() {
            line += if line.ends_with(':') { " " } else { "; " };
        }
        line += part.strip_prefix("error: ").unwrap_or(part);
    }
    line + " (see pathwalk --help)"
}
