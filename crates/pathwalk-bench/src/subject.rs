//! What a run holds of each contender: something that checks and times itself when told.
//!
//! These calls are dynamic, since there is one of them for thousands of timed calls.

use std::time::Duration;

use crate::Error;
use crate::calls::{Answer, Call};

/// A contender with its threads, in this process or in another one.
pub(crate) trait Subject {
    /// Returns the name of its rows in the report.
    fn name(&self) -> &str;

    /// Makes every call once in every thread and returns the answers, or `None` of one that has no
    /// answers to give.
    fn check(&mut self) -> Result<Option<Vec<Answer>>, Error>;

    /// Makes every call `rounds` times in each of `threads` threads at once and returns the time that
    /// a thread took: the harmonic mean, so that the rates of the threads add up.
    fn sample(&mut self, threads: usize, rounds: u64) -> Result<Duration, Error>;
}

/// What a check of all subjects found.
pub(crate) struct Verdict {
    /// How many answers of each subject differ from the recorded ones.
    pub(crate) mismatches: Vec<usize>,
    /// One line for each call that somebody answered wrongly: the path, and what each one said.
    pub(crate) wrong: Vec<String>,
}

/// Asks every subject for every answer and compares them with the recorded ones.
pub(crate) fn check(subjects: &mut [Box<dyn Subject>], calls: &[Call]) -> Result<Verdict, Error> {
    let mut answers = Vec::with_capacity(subjects.len());
    for subject in &mut *subjects {
        let given = subject.check()?;
        if given.as_ref().is_some_and(|given| given.len() != calls.len()) {
            let what = format!("{} did not answer each of {} calls", subject.name(), calls.len());
            return Err(Error::new(what));
        }
        answers.push(given);
    }
    let mut mismatches = vec![0; subjects.len()];
    let mut wrong = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let mut line = format!("{}: recorded {}", String::from_utf8_lossy(&call.path), call.answer);
        let mut differs = false;
        for (at, (subject, given)) in subjects.iter().zip(&answers).enumerate() {
            let Some(given) = given else { continue };
            line += &format!(", {} {}", subject.name(), given[index]);
            if given[index] != call.answer {
                mismatches[at] += 1;
                differs = true;
            }
        }
        if differs {
            wrong.push(line);
        }
    }
    Ok(Verdict { mismatches, wrong })
}
