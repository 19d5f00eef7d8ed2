//! What is told of the calls that were answered: a line for each, and sums at the end.

use crate::{
    engine::{Caller, Reply},
    table::Call,
};
use pathwalk::Result;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    time::{Duration, Instant},
};

/// What is told.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: bool,
    sums: Option<BTreeMap<&'static str, Sum>>,
}

/// Of the calls of one name.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    errors: u64,
    time: Duration,
}

impl Trace {
    pub(crate) fn new(lines: bool, sums: bool) -> Self {
        Self { lines, sums: sums.then(BTreeMap::new) }
    }

    /// A call begins to be answered.
    pub(crate) fn begin(&self) -> Option<Instant> {
        (self.lines || self.sums.is_some()).then(Instant::now)
    }

    /// It was answered.
    pub(crate) fn end(
        &mut self,
        began: Option<Instant>,
        call: &Call,
        caller: &Caller,
        reply: &Result<Reply>,
    ) {
        let Some(began) = began else { return };
        if let Some(sums) = &mut self.sums {
            let sum = sums.entry(call.name).or_default();
            sum.calls += 1;
            sum.errors += u64::from(reply.is_err());
            sum.time += began.elapsed();
        }
        if self.lines {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{}", line(call.name, caller, reply));
        }
    }

    /// The sums, most time first.
    pub(crate) fn sums(&self) -> String {
        let Some(sums) = &self.sums else { return String::new() };
        let mut rows: Vec<_> = sums.iter().collect();
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
        text
    }
}

/// `1234 openat("/tmp/a") = ENOENT`
fn line(name: &str, caller: &Caller, reply: &Result<Reply>) -> String {
    let mut line = format!("{} {name}(", caller.tid);
    for (index, path) in caller.paths.borrow().iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(line, "{comma}\"{}\"", path.escape_ascii());
    }
    line += match reply {
        Ok(Reply::Value(value)) => return format!("{line}) = {value}"),
        Ok(Reply::Install(..) | Reply::InstallFile(..)) => ") = a descriptor",
        Ok(Reply::Pass) => ") goes on in the kernel",
        Ok(Reply::Later) => ") goes on",
        Err(errno) => return format!("{line}) = {errno}"),
    };
    line
}
