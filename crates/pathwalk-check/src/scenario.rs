//! Tables of calls with what Linux 6.18 answered.
//!
//! ```text
//!   == mkdir refuses what is there          a scenario: an empty root, five tasks
//!   needs protected_symlinks=1              a setting that the answers depend on
//!   needs slow                              calls a tick of the clock apart, so that every time stamp is seen
//!   needs no look                           the tree is not compared: the judge would find what a row shows to differ
//!   mkdirat d 0755 -> ok                    a call of root's, and the answer
//!   u: mkdirat d 0755 -> EEXIST             the same as user 1000
//!   openat h0 s 0 0 -> ok
//!   differs ENXIO: there is no driver       what pathwalk answers instead to the call before, and why
//!   lacks EINVAL: no such option            the same, where it is to become Linux's answer one day
//! ```
//!
//! Of an answer in a table nothing is hidden, also where the two are known to differ: see [`Known`](crate::normal::Known).
//! The open files and the tree are compared as drawn calls leave them, up to the first row that differs there too.
//!
//! The answers are written by the kernel (`pathwalk check --record`), never by hand.

use crate::{answer::Answer, call::Step, normal::Pace, ours::Settings};
use std::fmt::Write;

/// A tree, calls and answers.
pub(crate) struct Scenario<'t> {
    /// What it shows.
    pub(crate) title: &'t str,
    /// What is set otherwise than on the running kernel.
    needs: Vec<(&'t str, u8)>,
    /// How fast the calls follow each other.
    pub(crate) pace: Pace,
    /// Whether the judge looks at what the calls left.
    pub(crate) looks: bool,
    /// The calls.
    pub(crate) rows: Vec<Row<'t>>,
}

/// A call and its answer.
pub(crate) struct Row<'t> {
    /// Its line, counted from 0.
    pub(crate) line: usize,
    /// The call.
    pub(crate) step: Step,
    /// What Linux answers.
    pub(crate) want: &'t str,
    /// What pathwalk answers, where that is not the same.
    pub(crate) differs: Option<Differs<'t>>,
}

/// Another answer than Linux's.
#[derive(Clone, Copy)]
pub(crate) struct Differs<'t> {
    /// What pathwalk answers.
    pub(crate) ours: &'t str,
    /// Why.
    pub(crate) why: &'t str,
    /// Whether it is to become the same.
    pub(crate) not_yet: bool,
}

/// Between a call and its answer.
const ARROW: &str = " -> ";

/// Reads a table.
///
/// # Errors
///
/// The number of the line that cannot be read, from 1, and why.
pub(crate) fn parse(text: &str) -> Result<Vec<Scenario<'_>>, String> {
    let mut scenarios: Vec<Scenario<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("{}: {what}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            scenarios.push(Scenario {
                title,
                needs: vec![],
                pace: Pace::Fast,
                looks: true,
                rows: vec![],
            });
            continue;
        }
        if scenarios.is_empty() {
            // The calls of a finding, say, without anything around them.
            scenarios.push(Scenario {
                title: "",
                needs: vec![],
                pace: Pace::Fast,
                looks: true,
                rows: vec![],
            });
        }
        let scenario = scenarios.last_mut().expect("there is one by now");
        if let Some(need) = line.strip_prefix("needs ") {
            if !scenario.rows.is_empty() {
                return Err(wrong("a scenario begins with what it needs"));
            }
            match need.split_once('=') {
                None if need == "slow" => scenario.pace = Pace::Slow,
                None if need == "no look" => scenario.looks = false,
                Some((name, value)) if Settings::DEFAULT.with(name, 0).is_some() => {
                    let value = value.parse().map_err(|_| wrong("a setting is a number"))?;
                    scenario.needs.push((name, value));
                }
                _ => return Err(wrong(&format!("nothing that can be needed is `{need}`"))),
            }
        } else if let Some((word, differs)) =
            line.split_once(' ').filter(|(word, _)| ["differs", "lacks"].contains(word))
        {
            let (Some(row), Some((ours, why))) =
                (scenario.rows.last_mut(), differs.split_once(": "))
            else {
                return Err(wrong(&format!("`{word} ANSWER: why` follows a call")));
            };
            if row.want == ours {
                return Err(wrong("no longer differs: Linux answers the same"));
            }
            row.differs = Some(Differs { ours, why, not_yet: word == "lacks" });
        } else {
            let (call, want) = line.split_once(ARROW).unwrap_or((line, ""));
            let step = Step::parse(call).map_err(|error| wrong(&error))?;
            scenario.rows.push(Row { line: index, step, want, differs: None });
        }
    }
    Ok(scenarios)
}

impl Scenario<'_> {
    /// Whether the two differ in a row.
    pub(crate) fn differs(&self) -> bool {
        self.rows.iter().any(|row| row.differs.is_some())
    }

    /// The settings that its answers hold for.
    pub(crate) fn settings(&self, running: Settings) -> Settings {
        self.needs.iter().fold(running, |settings, (name, value)| {
            settings.with(name, *value).expect("the table was read")
        })
    }
}

impl Row<'_> {
    /// Whether anybody is asked: the kernel cannot be asked everything, and what it is spared pathwalk is spared too.
    pub(crate) fn is_asked(&self) -> bool {
        self.want != Answer::NotAsked.to_string()
    }

    /// What pathwalk is to answer.
    pub(crate) fn ours(&self) -> &str {
        self.differs.map_or(self.want, |differs| differs.ours)
    }
}

/// The table with other answers.
pub(crate) fn record(text: &str, answers: impl Fn(usize) -> Option<String>) -> String {
    let mut recorded = String::new();
    for (index, line) in text.lines().enumerate() {
        let call = line.split_once(ARROW).map_or(line, |(call, _)| call);
        let _ = match answers(index) {
            Some(answer) => writeln!(recorded, "{}", row(call.trim_end(), &answer)),
            None => writeln!(recorded, "{line}"),
        };
    }
    recorded
}

/// The line of a call and its answer.
pub(crate) fn row(call: &str, answer: &str) -> String {
    format!("{call:<44}{ARROW}{answer}")
}
