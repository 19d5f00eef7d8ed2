//! The rules of this repository that the compiler does not know.
//!
//! Each rule is a function from what it looks at to the breaches it found. `run` and the test at
//! the end of this file apply them all; the tests beside a rule show that it can fail.

mod checkout;
mod code;
mod docs;
mod layers;
mod text;

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use checkout::Checkout;

/// A rule that is broken, where, and what to do.
#[derive(Debug)]
struct Breach {
    /// Relative to the top of the checkout.
    path: String,
    line: usize,
    what: String,
}

impl Breach {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Prints every breach and fails if there is one.
pub(crate) fn run(root: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let breaches = check(root)?;
    for breach in &breaches {
        eprintln!("{breach}");
    }
    Ok(if breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(root: &Path) -> Result<Vec<Breach>, Box<dyn Error>> {
    let checkout = Checkout::read(root)?;
    let manifests = layers::Manifest::read_all(root)?;
    let (sources, mut breaches) = code::split(&checkout.files);
    breaches.extend(layers::arrows_point_down(&manifests));
    breaches.extend(layers::core_depends_on_no_system(&manifests));
    breaches.extend(code::core_asks_no_system(&sources));
    breaches.extend(code::orderings_stay_in_sync(&sources));
    breaches.extend(code::unsafe_stays_in_its_rooms(&sources, code::ROOMS));
    breaches.extend(code::nothing_is_left_to_do(&sources));
    breaches.extend(text::no_marker_is_left(&checkout.files));
    breaches.extend(text::no_file_is_a_giant(&checkout.files));
    breaches.extend(text::no_place_is_private(&checkout.files));
    breaches.extend(docs::links_lead_somewhere(&checkout));
    breaches.extend(docs::named_files_exist(&checkout));
    breaches.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(breaches)
}

/// The places of `breaches`, for the tests of the rules.
#[cfg(test)]
fn places(breaches: Vec<Breach>) -> Vec<String> {
    breaches.into_iter().map(|breach| format!("{}:{}", breach.path, breach.line)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_repository_is_tidy() {
        let root = crate::root();
        if !root.join(".git").exists() {
            // An unpacked archive: which files belong to it is no longer known.
            return;
        }
        let breaches = super::check(root).unwrap();
        let lines: Vec<_> = breaches.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "cargo xtask tidy:\n{}", lines.join("\n"));
    }
}
