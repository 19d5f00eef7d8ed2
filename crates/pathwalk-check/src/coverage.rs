//! Which answers of which calls were compared.

use crate::call::Call;
use std::{collections::BTreeMap, fmt};

/// How often each call gave each answer: `ok`, or the errno's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    calls: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

impl Coverage {
    /// Counts an answer as it is written.
    pub(crate) fn add(&mut self, call: &Call, answer: &str) {
        let answer = answer.split(" | ").next().unwrap_or(answer);
        let errno = !answer.is_empty()
            && answer.starts_with('E')
            && answer.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        let key = match answer {
            _ if errno => answer,
            "(not asked)" => return,
            _ => "ok",
        };
        self.count(call.name(), key, 1);
    }

    /// Adds what another counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (name, answers) in &other.calls {
            for (key, times) in answers {
                self.count(name, key, *times);
            }
        }
    }

    fn count(&mut self, name: &'static str, key: &str, times: u64) {
        let answers = self.calls.entry(name).or_default();
        match answers.get_mut(key) {
            Some(count) => *count += times,
            None => drop(answers.insert(key.into(), times)),
        }
    }

    /// The answers of a call, success first.
    pub(crate) fn answers(&self, name: &str) -> Vec<&str> {
        let answers = self.calls.get(name).into_iter().flat_map(BTreeMap::keys);
        let mut answers: Vec<_> = answers.map(String::as_str).collect();
        answers.sort_by_key(|answer| *answer != "ok");
        answers
    }

    /// The pairs of a call and an answer.
    pub(crate) fn pairs(&self) -> usize {
        self.calls.values().map(BTreeMap::len).sum()
    }

    /// How many calls were counted.
    pub(crate) fn total(&self) -> u64 {
        self.calls.values().flat_map(BTreeMap::values).sum()
    }
}

/// A table in Markdown, a row for each call that there is, also for one that was never made.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| call | compared | answers |\n|---|--:|---|")?;
        let mut names = Call::NAMES.to_vec();
        names.sort_unstable();
        for name in names {
            let Some(answers) = self.calls.get(name) else {
                writeln!(f, "| `{name}` | 0 | |")?;
                continue;
            };
            let total: u64 = answers.values().sum();
            writeln!(f, "| `{name}` | {total} | {} |", self.answers(name).join(" "))?;
        }
        Ok(())
    }
}
