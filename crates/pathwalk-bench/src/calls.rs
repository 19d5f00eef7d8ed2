//! The `.tsv` file: recorded calls of access(2), one a line, and what Linux answered.
//!
//! ```text
//! /usr/bin/gcc TAB OK
//! /usr/local/bin/gcc TAB ENOENT
//! ```

use std::ffi::CString;

use pathwalk_abi::{Errno, OpenFlags};

pub use crate::recorder::Answer;
use crate::tree::{ParseError, lines};

/// One call `access(path, F_OK)` and the recorded answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The path, absolute, as the program spelt it.
    pub path: Vec<u8>,
    /// What Linux answered.
    pub answer: Answer,
}

/// Reads calls from the text of a `.tsv` file.
///
/// # Errors
///
/// The first line that is not a path, a tab and `OK` or `ENOENT`.
pub fn parse(text: &[u8]) -> Result<Vec<Call>, ParseError> {
    lines(text)
        .map(|(line, row)| Call::parse(row).map_err(|what| ParseError { line, what }))
        .collect()
}

impl Call {
    fn parse(row: &[u8]) -> Result<Call, String> {
        let tab = row.iter().position(|&byte| byte == b'\t').ok_or("no tab after the path")?;
        let path = &row[..tab];
        if !path.starts_with(b"/") || path.contains(&0) {
            return Err("the path must begin with / and hold no NUL byte".into());
        }
        let answer = match &row[tab + 1..] {
            b"OK" => Answer(Ok(0)),
            b"ENOENT" => Answer(Err(Errno::ENOENT)),
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(format!("the answer is {other:?}, not OK or ENOENT"));
            }
        };
        Ok(Call { path: path.to_vec(), answer })
    }
}

/// A call about a path, of those that a recording can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathCall {
    Access,
    Stat,
    Lstat,
    Readlink,
    Unlink,
    Open(OpenFlags),
}

/// One line of a `.calls` file: a call, a path and whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) call: PathCall,
    pub(crate) path: CString,
    pub(crate) found: bool,
}

impl PathCall {
    /// The word for it in a `.calls` file: its name and, of open, its flags.
    pub(crate) fn word(self) -> String {
        match self {
            PathCall::Access => "access".to_owned(),
            PathCall::Stat => "stat".to_owned(),
            PathCall::Lstat => "lstat".to_owned(),
            PathCall::Readlink => "readlink".to_owned(),
            PathCall::Unlink => "unlink".to_owned(),
            PathCall::Open(flags) => {
                let names: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
                format!("open {}", names.join("|"))
            }
        }
    }

    fn parse(word: &str) -> Option<PathCall> {
        Some(match word.split_once(' ') {
            Some(("open", names)) => {
                let names = names.split('|').filter(|name| !name.is_empty());
                let flags: Option<Vec<OpenFlags>> = names.map(OpenFlags::from_name).collect();
                PathCall::Open(flags?.into_iter().collect())
            }
            _ => match word {
                "access" => PathCall::Access,
                "stat" => PathCall::Stat,
                "lstat" => PathCall::Lstat,
                "readlink" => PathCall::Readlink,
                "unlink" => PathCall::Unlink,
                _ => return None,
            },
        })
    }
}

/// Reads the text of a `.calls` file.
///
/// # Errors
///
/// The first line that is not a call, a path and an answer, with tabs between them.
pub(crate) fn parse_recording(text: &[u8]) -> Result<Vec<Recording>, ParseError> {
    let parse = |row: &[u8]| {
        let fields: Vec<&[u8]> = row.split(|&byte| byte == b'\t').collect();
        let [call, path, answer] = fields[..] else {
            return Err(format!("{} fields, where call, path and answer are three", fields.len()));
        };
        let call = str::from_utf8(call)
            .ok()
            .and_then(PathCall::parse)
            .ok_or_else(|| format!("no such call: {:?}", String::from_utf8_lossy(call)))?;
        let path = CString::new(path).map_err(|_| "the path has a NUL byte".to_owned())?;
        Ok(Recording { call, path, found: answer == b"OK" })
    };
    lines(text).map(|(line, row)| parse(row).map_err(|what| ParseError { line, what })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_path_and_an_answer() {
        let calls = parse(b"/a b/./\tOK\n/c\tENOENT\n").expect("two calls");
        let shown: Vec<String> = calls
            .iter()
            .map(|call| format!("{} {}", String::from_utf8_lossy(&call.path), call.answer))
            .collect();
        assert_eq!(shown, ["/a b/./ OK", "/c ENOENT"]);
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let rows: &[(&str, &str)] = &[
            ("/a\tOK\n/b OK", "line 2: no tab after the path"),
            ("a\tOK", "line 1: the path must begin with / and hold no NUL byte"),
            ("/a\0\tOK", "line 1: the path must begin with / and hold no NUL byte"),
            ("/a\tEPERM", "line 1: the answer is \"EPERM\", not OK or ENOENT"),
            ("/a\tOK\t", "line 1: the answer is \"OK\\t\", not OK or ENOENT"),
        ];
        for (text, want) in rows {
            let error = parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.to_string(), *want);
        }
    }

    #[test]
    fn a_recording_is_a_call_a_path_and_an_answer() {
        let text = b"access\t/a b\tENOENT\nopen \t/c\tOK\nopen WRONLY|CREAT\t/d\tEACCES\n";
        let recording = parse_recording(text).expect("three calls");
        let words: Vec<String> = recording.iter().map(|one| one.call.word()).collect();
        assert_eq!(words, ["access", "open ", "open WRONLY|CREAT"]);
        assert_eq!(recording[0].path.to_bytes(), b"/a b");
        assert_eq!(recording.iter().map(|one| one.found).collect::<Vec<_>>(), [false, true, false]);
        for (text, want) in [
            ("access\t/a", "line 1: 2 fields, where call, path and answer are three"),
            ("chmod\t/a\tOK", "line 1: no such call: \"chmod\""),
            ("open CREATE\t/a\tOK", "line 1: no such call: \"open CREATE\""),
            ("stat\t/a\0\tOK", "line 1: the path has a NUL byte"),
        ] {
            let error = parse_recording(text.as_bytes()).expect_err(text);
            assert_eq!(error.to_string(), want);
        }
    }
}
