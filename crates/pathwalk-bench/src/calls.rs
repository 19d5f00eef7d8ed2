//! The `.tsv` file: recorded calls of access(2), one a line, and what Linux answered.
//!
//! ```text
//! /usr/bin/gcc TAB OK
//! /usr/local/bin/gcc TAB ENOENT
//! ```

use pathwalk_abi::Errno;

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
}
