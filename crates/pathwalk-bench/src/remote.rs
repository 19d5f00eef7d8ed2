//! A contender in another process: another build of this program, told by lines what to do.
//!
//! ```text
//!   order                        answer
//!   check CASE THREAD            answers 0 2 =1f …    of each call the errno; 0, or a word, for success
//!   sample CASE THREADS ROUNDS   nanoseconds 5012345
//!   (anything)                   error WHY
//! ```
//!
//! The worker ends when its standard input does, so it never outlives the run.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use pathwalk_abi::Errno;

use crate::Error;
use crate::recorder::Answer;
use crate::subject::{Heard, Subject};

/// The other process, as the run sees it.
pub(crate) struct Remote {
    name: String,
    child: Child,
    /// Closed by `None`, which ends the process.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Remote {
    /// Starts `program` as the worker of a benchmark.
    pub(crate) fn start(
        name: &str,
        program: &Path,
        (bench, quick): (&str, bool),
        threads: usize,
    ) -> Result<Remote, Error> {
        let failed = |cause| Error::doing(format_args!("{name}: starting {program:?}"), cause);
        let mut child = Command::new(program)
            .args(["bench", bench, "--worker", "--threads", &threads.to_string()])
            .args(quick.then_some("--quick"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(format!("{name}: started without pipes")));
        };
        let answers = BufReader::new(answers);
        Ok(Remote { name: name.to_owned(), child, orders: Some(orders), answers })
    }

    /// Gives an order and returns the rest of the answer after `word`.
    fn ask(&mut self, order: &str, word: &str) -> Result<String, Error> {
        let failed = |cause: String| Error::doing(&self.name, cause);
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}").map_err(|cause| failed(cause.to_string()))?;
        }
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|cause| failed(cause.to_string()))?;
        let answer = answer.trim_end();
        match answer.split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            Some(("error", why)) => Err(failed(why.to_owned())),
            _ if answer.is_empty() => Err(failed("it ended without an answer".to_owned())),
            _ => Err(failed(format!("{order:?} was answered {answer:?}"))),
        }
    }
}

impl Subject for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&mut self, case: usize, thread: usize) -> Result<Option<Heard>, Error> {
        let answers = self.ask(&format!("check {case} {thread}"), "answers")?;
        let answers: Option<Vec<Answer>> = answers.split(' ').map(parse_answer).collect();
        match answers {
            Some(answers) => Ok(Some(Heard::Answers(answers))),
            None => Err(Error::doing(&self.name, "an answer is not an errno")),
        }
    }

    fn sample(&mut self, case: usize, threads: usize, rounds: u64) -> Result<Duration, Error> {
        let time = self.ask(&format!("sample {case} {threads} {rounds}"), "nanoseconds")?;
        time.parse()
            .map(Duration::from_nanos)
            .map_err(|cause| Error::doing(&self.name, format_args!("{time:?}: {cause}")))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.orders = None;
        // It ends by itself; there is nothing left to do for one that cannot be waited for.
        let _ = self.child.wait();
    }
}

/// Is the worker: obeys the orders of `input` until they end.
pub(crate) fn serve(
    subject: &mut dyn Subject,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Error> {
    for order in input.lines() {
        let order = order.map_err(|cause| Error::doing("reading orders", cause))?;
        let answer = obey(subject, &order).unwrap_or_else(|error| format!("error {error}"));
        writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .map_err(|cause| Error::doing("answering", cause))?;
    }
    Ok(())
}

fn obey(subject: &mut dyn Subject, order: &str) -> Result<String, Error> {
    let unknown = || Error::new(format!("no such order: {order:?}"));
    let words: Vec<&str> = order.split(' ').collect();
    match words[..] {
        ["check", case, thread] => {
            let case = case.parse().map_err(|_| unknown())?;
            let thread = thread.parse().map_err(|_| unknown())?;
            let answers = match subject.check(case, thread)? {
                Some(Heard::All(log)) => log.into_iter().map(|said| said.answer).collect(),
                Some(Heard::Answers(answers)) => answers,
                None => return Err(Error::new("it has no answers")),
            };
            let words: Vec<String> = answers.iter().map(written).collect();
            Ok(format!("answers {}", words.join(" ")))
        }
        ["sample", case, threads, rounds] => {
            let case = case.parse().map_err(|_| unknown())?;
            let threads = threads.parse().map_err(|_| unknown())?;
            let rounds = rounds.parse().map_err(|_| unknown())?;
            Ok(format!("nanoseconds {}", subject.sample(case, threads, rounds)?.as_nanos()))
        }
        _ => Err(unknown()),
    }
}

fn written(answer: &Answer) -> String {
    match answer.0 {
        Ok(0) => "0".to_owned(),
        Ok(word) => format!("={word:x}"),
        Err(errno) => errno.raw().to_string(),
    }
}

fn parse_answer(text: &str) -> Option<Answer> {
    if let Some(word) = text.strip_prefix('=') {
        return u64::from_str_radix(word, 16).ok().map(|word| Answer(Ok(word)));
    }
    match text.parse().ok()? {
        0 => Some(Answer(Ok(0))),
        errno => Errno::from_raw(errno).map(|errno| Answer(Err(errno))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers OK and ENOENT, and takes a microsecond for a round.
    struct Clockwork;

    impl Subject for Clockwork {
        fn name(&self) -> &str {
            "clockwork"
        }

        fn check(&mut self, _case: usize, _thread: usize) -> Result<Option<Heard>, Error> {
            let answers = [Ok(0), Err(Errno::ENOENT), Ok(0x1f)].map(Answer);
            Ok(Some(Heard::Answers(answers.to_vec())))
        }

        fn sample(&mut self, _case: usize, threads: usize, rounds: u64) -> Result<Duration, Error> {
            match threads {
                1 => Ok(Duration::from_micros(rounds)),
                _ => Err(Error::new("there is one thread")),
            }
        }
    }

    #[test]
    fn each_order_has_one_line_of_answer() {
        let orders = "check 0 0\nsample 0 1 7\nsample 0 2 7\nsample 0 1 x\nstop\n\n";
        let mut said = Vec::new();
        serve(&mut Clockwork, orders.as_bytes(), &mut said).expect("six answers");
        let said = String::from_utf8(said).expect("text");
        let want = [
            "answers 0 2 =1f",
            "nanoseconds 7000",
            "error there is one thread",
            "error no such order: \"sample 0 1 x\"",
            "error no such order: \"stop\"",
            "error no such order: \"\"",
        ];
        assert_eq!(said.lines().collect::<Vec<&str>>(), want);
    }

    #[test]
    fn a_program_that_is_no_worker_is_an_error() {
        let start = |name, program| Remote::start(name, Path::new(program), ("gcc-205", true), 1);
        let mut silent = start("silent", "true").expect("started");
        let error = silent.check(0, 0).err().expect("true answers nothing").to_string();
        assert!(error.starts_with("silent: "), "{error}");

        let mut echo = start("echo", "echo").expect("started");
        let error = echo.check(0, 0).err().expect("echo answers nonsense").to_string();
        assert!(error.starts_with("echo: "), "{error}");

        let error = start("missing", "/no/such").err().expect("nothing to start").to_string();
        assert_eq!(error, "missing: starting \"/no/such\": No such file or directory (os error 2)");
    }
}
