//! What is told of the calls that were answered: a line for each, and sums at the end.

use crate::{
    deny,
    engine::{Caller, Reply},
    table::Call,
};
use pathwalk::{HostFs, Result, Task, observe::Tally};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    time::{Duration, Instant},
};

/// What is told.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: Lines,
    sums: Option<Sums>,
    /// How many descriptors were handed to processes, and how many of them were not there.
    pub(crate) handed: Option<[u64; 2]>,
    /// How many descriptors lay ready before somebody asked for them, and how many of them are known to have been taken.
    pub(crate) ready: Option<[u64; 2]>,
    /// How many directories were looked at ahead, and in how many of them the program looked then.
    pub(crate) ahead: Option<[u64; 2]>,
}

/// Which calls a line is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    None,
    /// Those that were refused something that was not given.
    Denied,
    All,
}

#[derive(Debug)]
struct Sums {
    began: Instant,
    calls: BTreeMap<&'static str, Sum>,
    /// How many calls looked a path up; how many of them of what is cached, asking the host about no file; and how many without holding
    /// anything.
    walked: u64,
    hits: u64,
    held_nothing: u64,
    /// Why walks had to hold.
    left: Tally,
}

/// Of the calls of one name.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    errors: u64,
    time: Duration,
}

/// A call that is being answered.
pub(crate) struct Began {
    at: Instant,
    left: Tally,
    asked: u64,
}

impl Trace {
    pub(crate) fn new(lines: Lines, sums: bool) -> Self {
        let sums = sums.then(|| Sums {
            began: Instant::now(),
            calls: BTreeMap::new(),
            walked: 0,
            hits: 0,
            held_nothing: 0,
            left: Tally::default(),
        });
        Self { lines, sums, handed: None, ready: None, ahead: None }
    }

    /// Whether anything is told.
    pub(crate) fn listens(&self) -> bool {
        self.lines != Lines::None || self.sums.is_some()
    }

    /// A call begins to be answered.
    pub(crate) fn begin(&self) -> Option<Began> {
        self.listens().then(|| Began {
            at: Instant::now(),
            left: Tally::of_thread(),
            asked: HostFs::asked(),
        })
    }

    /// It was answered.
    pub(crate) fn end(
        &mut self,
        task: &Task,
        began: Option<Began>,
        call: &Call,
        caller: &Caller,
        reply: &Result<Reply>,
    ) {
        let Some(began) = began else { return };
        if let Some(sums) = &mut self.sums {
            let sum = sums.calls.entry(call.name).or_default();
            sum.calls += 1;
            sum.errors += u64::from(reply.is_err());
            sum.time += began.at.elapsed();
            let left = Tally::of_thread() - began.left;
            sums.left += left;
            if !caller.walked.borrow().is_empty() {
                sums.walked += 1;
                sums.hits += u64::from(HostFs::asked() == began.asked);
                sums.held_nothing += u64::from(left.total() == 0);
            }
        }
        let why = match reply {
            Err(errno) if self.lines != Lines::None => deny::why(task, call, caller, *errno),
            _ => deny::Why::default(),
        };
        let told = match self.lines {
            Lines::None => false,
            Lines::Denied => why.denied,
            Lines::All => true,
        };
        if told {
            // Standard error may be closed.
            let line = line(call.name, caller, reply) + &why.text;
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// The sums, most time first.
    pub(crate) fn sums(&self) -> String {
        let Some(sums) = &self.sums else { return String::new() };
        let mut rows: Vec<_> = sums.calls.iter().collect();
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.time));
        let mut text =
            format!("{:<20}{:>10}{:>10}{:>12}{:>10}\n", "call", "calls", "errors", "us", "us each");
        let mut all = Sum::default();
        let mut row = |name: &str, sum: &Sum| {
            let micros = sum.time.as_secs_f64() * 1e6;
            let each = micros / sum.calls.max(1) as f64;
            let Sum { calls, errors, .. } = sum;
            let _ = writeln!(text, "{name:<20}{calls:>10}{errors:>10}{micros:>12.0}{each:>10.1}");
        };
        for (name, sum) in rows {
            row(name, sum);
            all.calls += sum.calls;
            all.errors += sum.errors;
            all.time += sum.time;
        }
        row("all", &all);
        let Sums { walked, hits, held_nothing, left, began, .. } = sums;
        let _ = writeln!(
            text,
            "{hits} of {walked} calls with a path were answered of what is cached: the host was asked about no file"
        );
        let _ = writeln!(text, "{held_nothing} of them were answered without holding anything");
        let _ = writeln!(text, "{} walks had to hold their place:", left.total());
        let mut reasons: Vec<_> = left.reasons().collect();
        reasons.sort_by_key(|&(_, times)| std::cmp::Reverse(times));
        for (why, times) in reasons {
            let _ = writeln!(text, "{times:>10}  {}", why.describe());
        }
        if let Some([handed, missed]) = self.handed {
            let _ = writeln!(
                text,
                "{handed} descriptors were handed over, of which {missed} were not there to be taken"
            );
        }
        if let Some([ready, used]) = self.ready {
            let _ = writeln!(
                text,
                "{ready} descriptors lay ready before they were asked for, of which {used} are known to have been taken"
            );
        }
        if let Some([looked, used]) = self.ahead {
            let _ = writeln!(
                text,
                "{looked} directories were looked at ahead, of which {used} were looked at then"
            );
        }
        let (busy, whole) = (all.time.as_secs_f64() * 1e3, began.elapsed().as_secs_f64() * 1e3);
        let _ = writeln!(text, "{busy:.1} ms of {whole:.1} ms in the supervisor");
        text
    }
}

/// `1234 openat("/tmp/a") = ENOENT`
fn line(name: &str, caller: &Caller, reply: &Result<Reply>) -> String {
    let mut line = format!("{} {name}(", caller.tid);
    let (paths, walked) = (caller.paths.borrow(), caller.walked.borrow());
    // Those in addresses of sockets were looked up alone.
    let walked = walked.iter().map(|(_, path)| path).filter(|_| paths.is_empty());
    for (index, path) in paths.iter().map(|(_, path)| path).chain(walked).enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(line, "{comma}\"{}\"", path.escape_ascii());
    }
    line += match reply {
        Ok(Reply::Value(value)) => return format!("{line}) = {value}"),
        Ok(Reply::Install(..) | Reply::InstallFile(..)) => ") = a descriptor",
        Ok(Reply::Pass) => ") goes on in the kernel",
        Ok(Reply::Later | Reply::AfterExec(_)) => ") goes on",
        Err(errno) => return format!("{line}) = {errno}"),
    };
    line
}
