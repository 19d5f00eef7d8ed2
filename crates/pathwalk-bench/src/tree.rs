//! The `.tree` file: a file tree as text, one file a line.
//!
//! ```text
//! type TAB mode TAB path TAB target        type: d directory, f regular file, l symlink
//!
//! d       0755    /usr
//! d       0755    /usr/bin
//! l       0777    /usr/bin/cc     /etc/alternatives/cc
//! ```
//!
//! Paths and targets are bytes; a name with a tab or a newline cannot be written.
//!
//! Invariant: the directory that holds an entry stands before it, as a directory. So a tree can be
//! loaded in one pass, and loading it follows no symlink: nothing is ever made outside its root.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt;

use pathwalk_abi::{Errno, FileType, OpenFlags};

use crate::Error;
use crate::contender::Worker;

/// A file tree, in an order in which it can be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The files, every directory before what it holds.
    pub entries: Vec<Entry>,
}

/// One file of a [`Tree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The type: directory, regular file or symlink.
    pub kind: FileType,
    /// The permission bits, without the type.
    pub mode: u32,
    /// The path from the root, with a leading slash; the root itself is `/`.
    pub path: Vec<u8>,
    /// The body of a symlink; empty for every other type.
    pub target: Vec<u8>,
}

impl Tree {
    /// Reads a tree from the text of a `.tree` file.
    ///
    /// The root may be left out; it then has no entry. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// The first line that is not an entry, or whose directory does not stand before it.
    pub fn parse(text: &[u8]) -> Result<Tree, ParseError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = HashMap::from([(b"/".to_vec(), FileType::Directory)]);
        for (number, line) in lines(text) {
            let at = |what| ParseError { line: number, what };
            let entry = Entry::parse(line).map_err(at)?;
            if entry.path == b"/" {
                if entry.kind != FileType::Directory || !entries.is_empty() {
                    return Err(at("the root must be a directory and the first entry".into()));
                }
            } else {
                let parent = parent(&entry.path);
                if seen.get(parent) != Some(&FileType::Directory) {
                    let parent = String::from_utf8_lossy(parent);
                    return Err(at(format!("{parent} is not a directory listed before it")));
                }
                if seen.insert(entry.path.clone(), entry.kind).is_some() {
                    return Err(at("the path is listed twice".into()));
                }
            }
            entries.push(entry);
        }
        Ok(Tree { entries })
    }

    /// Makes every file of the tree, empty.
    ///
    /// # Errors
    ///
    /// The first entry that cannot be made, and why.
    pub fn load<W: Worker>(&self, worker: &mut W) -> Result<(), Error> {
        let umask = worker.umask(0);
        let loaded = self.load_as_it_is(worker);
        worker.umask(umask);
        loaded
    }

    fn load_as_it_is<W: Worker>(&self, worker: &mut W) -> Result<(), Error> {
        let failed = |entry: &Entry, errno| {
            Error::doing(format_args!("making {}", String::from_utf8_lossy(&entry.path)), errno)
        };
        let mut text = Vec::new();
        // Mostly the next file is in the directory of the last one.
        let mut dir = None;
        for entry in self.entries.iter().filter(|entry| entry.path != b"/") {
            let dir = enter(worker, &mut dir, parent(&entry.path), &mut text);
            dir.and_then(|dir| entry.make(worker, dir, &mut text))
                .map_err(|errno| failed(entry, errno))?;
        }
        // Last, and what is deepest first: a mode may forbid its owner to go on.
        for entry in self.entries.iter().rev().filter(|entry| entry.is_closed()) {
            worker
                .chmod(c_string(&entry.path, &mut text), entry.mode)
                .map_err(|errno| failed(entry, errno))?;
        }
        Ok(())
    }
}

/// The directory at `path`, opened if it is not the one that was opened last.
fn enter<'d, 'p, W: Worker>(
    worker: &mut W,
    last: &'d mut Option<(&'p [u8], W::File)>,
    path: &'p [u8],
    text: &mut Vec<u8>,
) -> Result<&'d W::File, Errno> {
    if last.as_ref().is_none_or(|(last, _)| *last != path) {
        let flags = OpenFlags::PATH | OpenFlags::DIRECTORY;
        *last = Some((path, worker.open(c_string(path, text), flags, 0)?));
    }
    let (_, dir) = last.as_ref().expect("it was opened");
    Ok(dir)
}

/// A path as the calls take it, written into a buffer.
fn c_string<'b>(path: &[u8], text: &'b mut Vec<u8>) -> &'b CStr {
    text.clear();
    text.extend_from_slice(path);
    text.push(0);
    CStr::from_bytes_with_nul(text).expect("no line of a tree has a NUL")
}

impl Entry {
    /// Whether a directory gets its mode only when it is full: the root, which is there already, those whose owner
    /// could not make anything in them, and those with bits that mkdir(2) takes away.
    fn is_closed(&self) -> bool {
        self.kind == FileType::Directory && (self.path == b"/" || self.mode & 0o6300 != 0o300)
    }

    /// The last name of the path.
    fn name(&self) -> &[u8] {
        self.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    /// Makes the file in its directory.
    fn make<W: Worker>(
        &self,
        worker: &mut W,
        dir: &W::File,
        text: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let name = c_string(self.name(), text);
        match self.kind {
            FileType::Directory => worker.mkdirat(dir, name, self.mode | 0o300),
            FileType::Symlink => {
                worker.symlinkat(c_string(&self.target, &mut Vec::new()), dir, name)
            }
            _ => worker.mknodat(dir, name, self.mode),
        }
    }

    fn parse(line: &[u8]) -> Result<Entry, String> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
        let [kind, mode, path, target] = fields[..] else {
            return Err(format!(
                "{} fields, where type, mode, path and target are four",
                fields.len()
            ));
        };
        let kind = match kind {
            b"d" => FileType::Directory,
            b"f" => FileType::Regular,
            b"l" => FileType::Symlink,
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(format!("the type is {other:?}, not d, f or l"));
            }
        };
        let mode = str::from_utf8(mode)
            .ok()
            .filter(|mode| mode.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|mode| u32::from_str_radix(mode, 8).ok())
            .filter(|mode| *mode <= 0o7777)
            .ok_or("the mode is not an octal number up to 7777")?;
        if !is_plain(path) {
            return Err("the path must begin with / and hold no empty, . or .. component".into());
        }
        if (kind == FileType::Symlink) == target.is_empty() {
            return Err("a symlink has a target, and nothing else has one".into());
        }
        if line.contains(&0) {
            return Err("a NUL byte, which no path can hold".into());
        }
        Ok(Entry { kind, mode, path: path.to_vec(), target: target.to_vec() })
    }
}

/// A line that could not be read, in a `.tree` or in a `.tsv` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Writes `line 7: the path is listed twice`.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// Returns the lines that are not empty, with their numbers from 1.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(|&byte| byte == b'\n')
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.is_empty())
}

/// Tells whether a path is absolute and names each directory once, without `.` and `..`.
fn is_plain(path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"/") else { return false };
    rest.is_empty()
        || rest.split(|&byte| byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Returns the path of the directory that holds `path`, which is plain and not the root.
fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) | None => b"/",
        Some(slash) => &path[..slash],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_in_order() {
        let tree = Tree::parse(b"d\t0755\t/\t\nd\t1777\t/tmp\t\n\nl\t0777\t/tmp/a\t../b c\n");
        let entry = |kind, mode, path: &str, target: &str| Entry {
            kind,
            mode,
            path: path.into(),
            target: target.into(),
        };
        let entries = vec![
            entry(FileType::Directory, 0o755, "/", ""),
            entry(FileType::Directory, 0o1777, "/tmp", ""),
            entry(FileType::Symlink, 0o777, "/tmp/a", "../b c"),
        ];
        assert_eq!(tree, Ok(Tree { entries }));
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let rows: &[(&str, &str)] = &[
            ("x\t0755\t/a\t", "line 1: the type is \"x\", not d, f or l"),
            ("d\t0755\t/a", "line 1: 3 fields, where type, mode, path and target are four"),
            ("d\t0855\t/a\t", "line 1: the mode is not an octal number up to 7777"),
            ("d\t+755\t/a\t", "line 1: the mode is not an octal number up to 7777"),
            ("d\t10000\t/a\t", "line 1: the mode is not an octal number up to 7777"),
            ("d\t0755\ta\t", "line 1: the path must begin with / and hold no empty, . or .."),
            ("d\t0755\t/a/\t", "line 1: the path must begin with / and hold no empty, . or .."),
            ("d\t0755\t/../a\t", "line 1: the path must begin with / and hold no empty, . or .."),
            ("l\t0777\t/a\t", "line 1: a symlink has a target, and nothing else has one"),
            ("f\t0644\t/a\tb", "line 1: a symlink has a target, and nothing else has one"),
            ("f\t0644\t/a\0\t", "line 1: a NUL byte, which no path can hold"),
            ("f\t0644\t/a\t\n\nf\t0644\t/a\t", "line 3: the path is listed twice"),
            ("f\t0644\t/a/b\t", "line 1: /a is not a directory listed before it"),
            ("l\t0777\t/a\t/etc\nf\t0644\t/a/b\t", "line 2: /a is not a directory listed before"),
            ("f\t0644\t/a\t\nd\t0755\t/\t", "line 2: the root must be a directory and the first"),
        ];
        for (text, want) in rows {
            let error = Tree::parse(text.as_bytes()).expect_err(text);
            assert!(error.to_string().starts_with(want), "{text:?}: {error}");
        }
    }
}
