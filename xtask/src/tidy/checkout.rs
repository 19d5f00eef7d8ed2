//! The files of the checkout that are, or are about to be, in the repository.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the rules look at.
pub(super) struct Checkout {
    pub(super) files: Vec<File>,
    /// The files and the directories that they lie in.
    paths: BTreeSet<String>,
}

/// A file in the repository.
pub(super) struct File {
    /// Relative to the top, with slashes.
    pub(super) path: String,
    /// The contents; what is not UTF-8 is replaced, so that binary files can be searched too.
    pub(super) text: String,
}

impl Checkout {
    /// Reads what git tracks and what it would if all were added: a new file is checked before it
    /// is committed, build output is not.
    pub(super) fn read(root: &Path) -> Result<Self, Box<dyn Error>> {
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git cannot be run: {error}"))?;
        if !listing.status.success() {
            return Err(String::from_utf8_lossy(&listing.stderr).trim().into());
        }

        let mut files = Vec::new();
        for path in String::from_utf8(listing.stdout)?.split_terminator('\0') {
            let on_disk = root.join(path);
            // Removed but not yet committed, or a link: what it points to is listed itself.
            if on_disk.symlink_metadata().is_ok_and(|file| file.is_file()) {
                let text = String::from_utf8_lossy(&fs::read(on_disk)?).into_owned();
                files.push(File { path: path.to_owned(), text });
            }
        }
        Ok(Self::of(files))
    }

    pub(super) fn of(files: Vec<File>) -> Self {
        let mut paths = BTreeSet::from([String::new()]);
        for file in &files {
            paths.insert(file.path.clone());
            paths.extend(file.path.match_indices('/').map(|(end, _)| file.path[..end].to_owned()));
        }
        Self { files, paths }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }
}

impl File {
    #[cfg(test)]
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The lines with their numbers, which begin at 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}
