//! What a run holds of each contender: something that checks and times itself when told.
//!
//! These calls are dynamic, since there is one of them for thousands of timed calls.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Error;
use crate::recorder::{Answer, Said};

/// A contender with its threads, in this process or in another one.
pub(crate) trait Subject {
    /// Returns the name of its rows in the report.
    fn name(&self) -> &str;

    /// Makes the calls of a case once in one thread and returns what was answered, or `None` of one that
    /// has no answers to give.
    fn check(&mut self, case: usize, thread: usize) -> Result<Option<Heard>, Error>;

    /// Makes the calls of a case `rounds` times in each of `threads` threads at once and returns the time
    /// that a thread took: the harmonic mean, so that the rates of the threads add up.
    fn sample(&mut self, case: usize, threads: usize, rounds: u64) -> Result<Duration, Error>;

    /// Whether the machine has work of its turn left afterwards.
    fn leaves_work(&self) -> bool {
        false
    }

    /// How many walks had to hold their place in all samples of a case, and of how many operations;
    /// `None` where that cannot be seen.
    fn held(&self, _case: usize) -> Option<(u64, u64)> {
        None
    }

    /// What it took to make the files, where that is known.
    fn loading(&self) -> Option<Loading> {
        None
    }
}

/// What it took to make the files of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loading {
    pub(crate) time: Duration,
    /// Bytes of memory behind them, where the contender can tell.
    pub(crate) bytes: Option<u64>,
}

/// What a subject answered in a check, in the order of the paths.
pub(crate) enum Heard {
    /// With the calls.
    All(Vec<Said>),
    /// By another process, which says only the answers.
    Answers(Vec<Answer>),
}

impl Heard {
    fn len(&self) -> usize {
        match self {
            Heard::All(log) => log.len(),
            Heard::Answers(answers) => answers.len(),
        }
    }

    /// The answer to one call of the reference, `None` if it made another call there.
    fn answer(&self, at: usize, call: &Said) -> Option<Answer> {
        match self {
            Heard::All(log) => {
                let said = &log[at];
                (said.path == call.path && said.call == call.call).then_some(said.answer)
            }
            Heard::Answers(answers) => Some(answers[at]),
        }
    }
}

/// What a check of all subjects found.
#[derive(Default)]
pub(crate) struct Verdict {
    /// How many answers of each subject differ from the reference.
    pub(crate) mismatches: Vec<usize>,
    /// How many calls were compared.
    pub(crate) calls: usize,
    /// How many of them somebody answered wrongly.
    pub(crate) wrong: usize,
    /// One line for each of the first of those: the call, and what each one said.
    pub(crate) lines: Vec<String>,
}

/// So many wrong answers of a case are spelt out.
const SPELT: usize = 20;

impl Verdict {
    /// Asks every subject for every answer of a case in one thread and compares them with what was
    /// recorded, or else with what the first one said.
    pub(crate) fn check(
        &mut self,
        subjects: &mut [Box<dyn Subject>],
        (case, thread): (usize, usize),
        recorded: Option<Vec<Said>>,
    ) -> Result<(), Error> {
        self.mismatches.resize(subjects.len(), 0);
        let mut by = "recorded".to_owned();
        self.calls += recorded.as_ref().map_or(0, Vec::len);
        let mut reference = recorded;
        let mut wrong: BTreeMap<usize, String> = BTreeMap::new();
        for (who, subject) in subjects.iter_mut().enumerate() {
            let Some(heard) = subject.check(case, thread)? else { continue };
            let Some(reference) = &reference else {
                if let Heard::All(log) = heard {
                    self.calls += log.len();
                    subject.name().clone_into(&mut by);
                    reference = Some(log);
                }
                continue;
            };
            if heard.len() != reference.len() {
                let (name, count, want) = (subject.name(), heard.len(), reference.len());
                return Err(Error::new(format!("{name} answered {count} calls, {by} {want}")));
            }
            for (at, call) in reference.iter().enumerate() {
                let answer = heard.answer(at, call);
                if answer == Some(call.answer) {
                    continue;
                }
                self.mismatches[who] += 1;
                let said = match answer {
                    Some(answer) => format!(", {} {answer}", subject.name()),
                    None => format!(", {} made another call", subject.name()),
                };
                let line = wrong.entry(at).or_insert_with(|| {
                    let path = String::from_utf8_lossy(&call.path);
                    format!("{} {path}: {by} {}", call.call, call.answer)
                });
                line.push_str(&said);
            }
        }
        self.wrong += wrong.len();
        self.lines.extend(wrong.into_values().take(SPELT));
        Ok(())
    }
}
