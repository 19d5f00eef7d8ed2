//! The table of `LINUX.md`: call by call and flag by flag, what the scenarios hold pathwalk to.
//!
//! It is written between two marker lines; what is around them, the remarks and the reasons, is written by hand.

use crate::{Error, call::Call, coverage::Coverage, scenario::parse};
use std::{collections::BTreeMap, fmt::Write, fs, path::Path};

/// The line before the table and after it.
const MARKER: &str = "<!-- written by pathwalk check --linux-md -->";

/// How rows answer.
#[derive(Clone, Copy, Default)]
struct Rows {
    /// As Linux.
    exact: usize,
    /// Otherwise, for a reason that stands there.
    differ: usize,
}

impl Rows {
    fn add(&mut self, differs: bool) {
        if differs { self.differ += 1 } else { self.exact += 1 }
    }
}

/// What the scenarios have of a call.
#[derive(Default)]
struct Asked {
    rows: Rows,
    flags: BTreeMap<&'static str, Rows>,
    /// Lines of the table of differences.
    differences: Vec<String>,
}

/// Writes the table into a page.
///
/// # Errors
///
/// The page cannot be read or written, or has no place for the table.
pub(crate) fn write_linux_md(path: &Path) -> Result<(), Error> {
    let failed = |error| Error::unusable(format!("{}: {error}", path.display()));
    let page = fs::read_to_string(path).map_err(failed)?;
    let page = linux_md(&page)
        .ok_or_else(|| Error::unusable(format!("{}: no two lines {MARKER}", path.display())))?;
    fs::write(path, page).map_err(failed)
}

/// The page with the table as it should be; none where the page has no place for it.
fn linux_md(page: &str) -> Option<String> {
    let mut parts = page.split(MARKER);
    let (Some(before), Some(_), Some(after), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some(format!("{before}{MARKER}\n\n{}\n{MARKER}{after}", table()))
}

/// Two flags are the same bit, which each call calls by another name.
fn in_call<'f>(call: &str, flag: &'f str) -> &'f str {
    if (call, flag) == ("faccessat2", "REMOVEDIR") { "EACCESS" } else { flag }
}

fn table() -> String {
    let mut calls: BTreeMap<&str, Asked> = BTreeMap::new();
    let mut coverage = Coverage::default();
    for (name, text) in crate::tables() {
        let scenarios = parse(text).unwrap_or_else(|error| panic!("{name}:{error}"));
        for row in scenarios.iter().flat_map(|scenario| &scenario.rows) {
            let call = &row.step.call;
            coverage.add(call, row.want);
            let asked = calls.entry(call.name()).or_default();
            asked.rows.add(row.differs.is_some());
            for flag in call.flags() {
                asked.flags.entry(flag).or_default().add(row.differs.is_some());
            }
            if let Some((ours, why)) = row.differs {
                asked.differences.push(format!("| `{call}` | {} | {ours} | {why} |", row.want));
            }
        }
    }
    let mut text = String::from(
        "| Call | Rows | Answers | Flags, exact | Flags that no scenario has |\n|---|--:|---|---|---|\n",
    );
    let mut names = Call::NAMES.to_vec();
    names.sort_unstable();
    for name in &names {
        let nothing = Asked::default();
        let asked = calls.get(name).unwrap_or(&nothing);
        let rows = match asked.rows {
            Rows { differ: 0, exact } => exact.to_string(),
            Rows { differ, exact } => format!("{exact}, and {differ} that differ"),
        };
        let known = Call::known_flags(name);
        let list = |wanted: &dyn Fn(Option<&Rows>) -> bool| -> String {
            let flags = known.iter().filter(|flag| wanted(asked.flags.get(*flag)));
            flags.map(|flag| format!("`{}`", in_call(name, flag))).collect::<Vec<_>>().join(" ")
        };
        let exact = list(&|rows| rows.is_some_and(|rows| rows.exact > 0));
        let missing = list(&|rows| rows.is_none());
        let answers = coverage.answers(name).join(" ");
        let _ = writeln!(text, "| `{name}` | {rows} | {answers} | {exact} | {missing} |");
    }
    let differences: Vec<_> = calls.values().flat_map(|asked| &asked.differences).collect();
    if !differences.is_empty() {
        text.push_str("\n| Row | Linux | pathwalk | Why |\n|---|---|---|---|\n");
        for line in differences {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_and_every_flag_has_a_row() {
        let table = table();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .take_while(|line| !line.is_empty())
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        assert_eq!(rows.len(), Call::NAMES.len());
        for row in rows {
            assert_ne!(row[2], "0", "{} has no row", row[1]);
            assert_eq!(row[5], "", "{} has no row with these flags", row[1]);
        }
    }
}
