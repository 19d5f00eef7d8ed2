//! The tables of `LINUX.md`, of what the scenarios hold pathwalk and the kernel to: call by call and flag by flag, what differs,
//! what is not there yet.
//!
//! Each is written between two marker lines; what is around them, the remarks, is written by hand.

use crate::{
    Error,
    call::Call,
    coverage::Coverage,
    scenario::{Row, Scenario, parse},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

/// Writes the tables into a page.
///
/// # Errors
///
/// The page cannot be read or written, or has no place for a table.
pub(crate) fn write_linux_md(path: &Path) -> Result<(), Error> {
    let failed = |error| Error::unusable(format!("{}: {error}", path.display()));
    let page = fs::read_to_string(path).map_err(failed)?;
    let page = linux_md(page)
        .map_err(|marker| Error::unusable(format!("{}: no two lines {marker}", path.display())))?;
    fs::write(path, page).map_err(failed)
}

/// The page with the tables as they should be.
///
/// # Errors
///
/// The marker that the page has not twice.
fn linux_md(mut page: String) -> Result<String, String> {
    let scenarios = all_scenarios();
    let differences = differences(&scenarios);
    for (what, table) in [
        ("calls", calls(&scenarios, &differences)),
        ("differences", table_of(&differences, false)),
        ("not yet", table_of(&differences, true)),
    ] {
        let marker = format!("<!-- {what}: written by pathwalk check --linux-md -->");
        let parts: Vec<_> = page.split(&marker).collect();
        let [before, _, after] = parts[..] else { return Err(marker) };
        page = format!("{before}{marker}\n\n{table}\n{marker}{after}");
    }
    Ok(page)
}

fn all_scenarios() -> Vec<Scenario<'static>> {
    let read = |(name, text): &(&str, &'static str)| {
        parse(text).unwrap_or_else(|error| panic!("{name}:{error}"))
    };
    crate::tables().iter().flat_map(read).collect()
}

/// A scenario in which the two differ.
struct Difference<'s> {
    /// By which the table of calls names it.
    number: usize,
    scenario: &'s Scenario<'static>,
}

impl<'s> Difference<'s> {
    /// The rows in which they differ for good, or only until something is there.
    fn rows(&self, not_yet: bool) -> impl Iterator<Item = &'s Row<'static>> {
        let differs =
            move |row: &&Row<'_>| row.differs.is_some_and(|differs| differs.not_yet == not_yet);
        self.scenario.rows.iter().filter(differs)
    }
}

fn differences<'s>(scenarios: &'s [Scenario<'static>]) -> Vec<Difference<'s>> {
    let differs = |scenario: &&Scenario<'_>| scenario.rows.iter().any(|row| row.differs.is_some());
    let numbered = scenarios.iter().filter(differs).zip(1..);
    numbered.map(|(scenario, number)| Difference { number, scenario }).collect()
}

/// What both answer, a line for each row in which they differ.
fn table_of(differences: &[Difference<'_>], not_yet: bool) -> String {
    if differences.iter().all(|difference| difference.rows(not_yet).next().is_none()) {
        return "None.\n".into();
    }
    let mut text = String::from(
        "|   | Scenario | Call | Linux | pathwalk | Why |\n|--:|---|---|---|---|---|\n",
    );
    for difference in differences {
        let mut first = (difference.number.to_string(), difference.scenario.title);
        for row in difference.rows(not_yet) {
            let Some(differs) = row.differs else { continue };
            let (number, title) = std::mem::take(&mut first);
            let [want, ours] = where_they_differ(row.want, differs.ours);
            // A line between cells is none.
            let [call, want, ours] =
                [row.step.to_string(), want, ours].map(|text| text.replace('|', "\\|"));
            let call = call.strip_prefix("root: ").unwrap_or(&call);
            let why = differs.why;
            let _ = writeln!(text, "| {number} | {title} | `{call}` | {want} | {ours} | {why} |");
        }
    }
    text
}

/// Of two answers of many words, which are the same words otherwise, those that differ.
fn where_they_differ(want: &str, ours: &str) -> [String; 2] {
    let words = |text: &str| text.split([' ', ',', '"']).count();
    let several = words(want) == words(ours) && words(want) > 3;
    let differ = |text: &str, other: &str| {
        let words = text.split([' ', ',', '"']).zip(other.split([' ', ',', '"']));
        let words = words.filter(|(word, other)| word != other).map(|(word, _)| word);
        words.collect::<Vec<_>>().join(" ")
    };
    if several { [differ(want, ours), differ(ours, want)] } else { [want.into(), ours.into()] }
}

/// How rows answer.
#[derive(Clone, Default)]
struct Rows {
    /// As Linux.
    exact: usize,
    /// Otherwise.
    differ: usize,
    /// By which differences these are told.
    by: BTreeSet<usize>,
}

impl Rows {
    /// Adds a row of the scenario of a difference, if it is one.
    fn add(&mut self, row: &Row<'_>, number: Option<usize>) {
        match number.filter(|_| row.differs.is_some()) {
            None => self.exact += 1,
            Some(number) => {
                self.differ += 1;
                self.by.insert(number);
            }
        }
    }
}

/// A flag, behind it the differences that have rows with it; without a row that both answer alike it stands in brackets.
fn flag_with(name: &str, rows: &Rows) -> String {
    let numbers: Vec<_> = rows.by.iter().map(usize::to_string).collect();
    match (rows.exact, numbers.is_empty()) {
        (_, true) => format!("`{name}`"),
        (0, _) => format!("(`{name}`<sup>{}</sup>)", numbers.join(", ")),
        _ => format!("`{name}`<sup>{}</sup>", numbers.join(", ")),
    }
}

/// What the scenarios have of a call.
#[derive(Default)]
struct Asked {
    rows: Rows,
    /// By the word that tells them.
    flags: BTreeMap<(&'static str, &'static str), Rows>,
}

/// A line for each call.
fn calls(scenarios: &[Scenario<'static>], differences: &[Difference<'_>]) -> String {
    let mut asked: BTreeMap<&str, Asked> = BTreeMap::new();
    let mut coverage = Coverage::default();
    for scenario in scenarios {
        let difference = differences.iter().find(|one| std::ptr::eq(one.scenario, scenario));
        let number = difference.map(|difference| difference.number);
        for row in scenario.rows.iter().filter(|row| row.is_asked()) {
            let call = &row.step.call;
            coverage.add(call, row.want);
            let asked = asked.entry(call.name()).or_default();
            asked.rows.add(row, number);
            for flag in call.flags() {
                asked.flags.entry(flag).or_default().add(row, number);
            }
        }
    }
    let mut text = String::from(
        "| Call | Rows | Answers | Flags | Differs | Not yet | Flags that no scenario has |\n|---|--:|---|---|---|---|---|\n",
    );
    let mut names = Call::NAMES.to_vec();
    names.sort_unstable();
    for name in &names {
        let nothing = Asked::default();
        let asked = asked.get(name).unwrap_or(&nothing);
        let rows = match asked.rows {
            Rows { differ: 0, exact, .. } => exact.to_string(),
            Rows { differ, exact, .. } => format!("{exact}, and {differ} that differ"),
        };
        let flags =
            flags_of(name, |flag, shown| asked.flags.get(&flag).map(|rows| flag_with(shown, rows)));
        let nothing = Rows::default();
        let missing = flags_of(name, |flag, shown| {
            (!asked.flags.contains_key(&flag)).then(|| flag_with(shown, &nothing))
        });
        let [differs, not_yet] = [false, true].map(|not_yet| {
            let has = |difference: &&Difference<'_>| {
                difference.rows(not_yet).any(|row| row.step.call.name() == *name)
            };
            let numbers = differences.iter().filter(has);
            numbers.map(|difference| difference.number.to_string()).collect::<Vec<_>>().join(", ")
        });
        let answers = coverage.answers(name).join(" ");
        let _ = writeln!(
            text,
            "| `{name}` | {rows} | {answers} | {flags} | {differs} | {not_yet} | {missing} |"
        );
    }
    text
}

/// The flags that a call can be told, each as `show` shows it or not, with the name that the call has for it; by the word
/// that tells them, where there are several.
fn flags_of(
    call: &str,
    show: impl Fn((&'static str, &'static str), &str) -> Option<String>,
) -> String {
    let known = Call::known_flags(call);
    let several = known.len() > 1;
    let mut lists = Vec::new();
    for (word, flags) in known {
        let shown = |flag: &'static str| show((word, flag), in_call(call, flag));
        let flags: Vec<_> = flags.into_iter().filter_map(shown).collect();
        if flags.is_empty() {
            continue;
        }
        let flags = flags.join(" ");
        lists.push(if several { format!("{}: {flags}", in_manual(word)) } else { flags });
    }
    lists.join("; ")
}

/// Two flags are the same bit, which each call calls by another name.
fn in_call<'f>(call: &str, flag: &'f str) -> &'f str {
    if (call, flag) == ("faccessat2", "REMOVEDIR") { "EACCESS" } else { flag }
}

/// The name that the manual has for a word of a call.
fn in_manual(word: &str) -> &str {
    match word {
        "set" => "attr_set",
        "clear" => "attr_clr",
        "at" => "at_flags",
        word => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(line: &str) -> Vec<&str> {
        line.split('|').map(str::trim).collect()
    }

    #[test]
    fn every_call_and_every_flag_has_a_row() {
        let scenarios = all_scenarios();
        let table = calls(&scenarios, &differences(&scenarios));
        let rows: Vec<_> = table.lines().skip(2).map(cells).collect();
        assert_eq!(rows.len(), Call::NAMES.len());
        for row in rows {
            assert_ne!(row[2], "0", "{} has no row", row[1]);
            assert_eq!(row[7], "", "{} has no row with these flags", row[1]);
        }
    }

    #[test]
    fn of_long_answers_the_words_that_differ_are_shown() {
        let shown =
            where_they_differ("\"type=1,flags=2,fsid=some\"", "\"type=1,flags=2,fsid=none\"");
        assert_eq!(shown, ["fsid=some", "fsid=none"]);
        assert_eq!(where_they_differ("\"none\"", "\"\""), ["\"none\"", "\"\""]);
        assert_eq!(where_they_differ("ok", "EINVAL"), ["ok", "EINVAL"]);
    }

    #[test]
    fn flags_of_several_words_are_told_apart() {
        let only = |wanted: bool, flag: &str| wanted.then(|| format!("`{flag}`"));
        let flags = flags_of("mount_setattr", |(word, flag), shown| {
            only(word != "flags" && flag == "NOSUID", shown)
        });
        assert_eq!(flags, "attr_set: `NOSUID`; attr_clr: `NOSUID`; propagation: `NOSUID`");
        assert_eq!(flags_of("umount2", |(_, flag), shown| only(flag == "FORCE", shown)), "`FORCE`");
    }

    #[test]
    fn a_flag_leads_to_what_differs_with_it() {
        let mut rows = Rows { exact: 1, ..Rows::default() };
        assert_eq!(flag_with("EXPIRE", &rows), "`EXPIRE`");
        rows.by = BTreeSet::from([2, 10]);
        assert_eq!(flag_with("EXPIRE", &rows), "`EXPIRE`<sup>2, 10</sup>");
        rows.exact = 0;
        assert_eq!(flag_with("EXPIRE", &rows), "(`EXPIRE`<sup>2, 10</sup>)");
        let scenarios = all_scenarios();
        let calls = calls(&scenarios, &differences(&scenarios));
        let row = calls.lines().find(|line| line.starts_with("| `umount2` |"));
        assert!(row.is_some_and(|row| row.contains("`EXPIRE`<sup>")), "{row:?}");
    }

    #[test]
    fn a_row_that_differs_is_shown_and_its_call_leads_there() {
        let scenarios = all_scenarios();
        let differences = differences(&scenarios);
        let calls = calls(&scenarios, &differences);
        let mut shown = 0;
        for (not_yet, column) in [(false, 5), (true, 6)] {
            let table = table_of(&differences, not_yet);
            for difference in &differences {
                let number = difference.number.to_string();
                for row in difference.rows(not_yet) {
                    let call = row.step.call.name();
                    let why = row.differs.map_or("", |differs| differs.why);
                    let has =
                        |line: &str| line.contains(call) && line.ends_with(&format!(" {why} |"));
                    assert!(table.lines().any(has), "{}", row.step);
                    let call = format!("`{call}`");
                    let line = calls.lines().map(cells).find(|cells| cells.get(1) == Some(&&*call));
                    let leads =
                        line.is_some_and(|cells| cells[column].split(", ").any(|to| to == number));
                    assert!(leads, "{call} does not lead to {number}");
                    shown += 1;
                }
            }
        }
        let all = scenarios.iter().flat_map(|scenario| &scenario.rows);
        assert_eq!(shown, all.filter(|row| row.differs.is_some()).count());
    }
}
