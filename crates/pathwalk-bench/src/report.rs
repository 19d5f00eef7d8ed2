//! What a run prints: a table for people, or a JSON object per row for programs.

use std::fmt;
use std::fs;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::Error;
use crate::args::{EVERY, RECORD};
use crate::run::Outcome;
use crate::stats::{Summary, noise_of_median};
use crate::subject::Loading;
use crate::threads;
use crate::timing::Cell;
use crate::workload::{ALL, Case, Workload};
use crate::{instructions, programs};

/// One row: a subject in a case, with a number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) bench: &'static str,
    pub(crate) case: String,
    pub(crate) subject: String,
    pub(crate) threads: usize,
    pub(crate) ns_per_op: Option<f64>,
    pub(crate) spread: Option<f64>,
    /// What the median is of, pass by pass.
    #[serde(skip)]
    pub(crate) samples: Vec<f64>,
    pub(crate) ratio_to_kernel: Option<f64>,
    pub(crate) mismatches: usize,
}

impl Row {
    /// Sums up a run; the first `kernels` names are file systems of the kernel.
    pub(crate) fn of_times<W: Workload>(
        names: &[String],
        kernels: usize,
        cases: &[Case],
        cells: &[Cell],
    ) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::with_capacity(cells.len());
        for cell in cells {
            let summary = Summary::of(&cell.ns_per_op);
            rows.push(Row {
                bench: W::NAME,
                case: cases[cell.case].name.clone(),
                subject: names[cell.subject].clone(),
                threads: cell.threads,
                ns_per_op: summary.map(|summary| summary.median),
                spread: summary.map(|summary| summary.spread),
                samples: cell.ns_per_op.clone(),
                ratio_to_kernel: None,
                mismatches: 0,
            });
        }
        for group in rows.chunks_mut(names.len()) {
            let kernel = fastest(&group[..kernels]).and_then(|at| group[at].ns_per_op);
            for row in group {
                row.ratio_to_kernel = kernel.zip(row.ns_per_op).map(|(kernel, own)| kernel / own);
            }
        }
        rows
    }

    /// Makes the rows of a run that ended with wrong answers, before anything was timed.
    pub(crate) fn of_mismatches<W: Workload>(
        names: &[String],
        mismatches: &[usize],
        threads: usize,
    ) -> Vec<Row> {
        let rows = names.iter().zip(mismatches).map(|(name, &mismatches)| Row {
            bench: W::NAME,
            case: String::new(),
            subject: name.clone(),
            threads,
            ns_per_op: None,
            spread: None,
            samples: Vec::new(),
            ratio_to_kernel: None,
            mismatches,
        });
        rows.collect()
    }
}

/// The rows of a run, to look figures up; the subject `kernel` is the fastest of the kernel's.
pub(crate) struct Figures<'r> {
    pub(crate) rows: &'r [Row],
    pub(crate) names: &'r [String],
    /// What it took each subject to make the files.
    pub(crate) loading: Vec<Option<Loading>>,
}

/// A figure, and by how much it would be another one if it were measured again in the same run.
///
/// What two took is compared pass by pass: a machine that is slower for a while, as others use it, is so for both. So the figure is the
/// median of the quotients, which need not be the quotient of the medians that the table has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// Nineteen of twenty figures would lie within so much of it, as a part of it.
    noise: f64,
    /// What it is the median of, pass by pass; nothing of what was counted.
    samples: Vec<f64>,
}

impl Figure {
    /// A figure that was counted, not measured.
    pub(crate) fn exact(value: f64) -> Self {
        Self { value, noise: 0.0, samples: Vec::new() }
    }

    /// The median of these, if there are any.
    pub(crate) fn of(samples: Vec<f64>) -> Option<Self> {
        let Summary { median, spread } = Summary::of(&samples)?;
        Some(Self { value: median, noise: noise_of_median(spread, samples.len()), samples })
    }

    fn of_row(row: &Row) -> Option<Self> {
        Self::of(row.samples.clone())
    }

    /// How many times another one of the same run it is; none of what was counted.
    pub(crate) fn over(&self, other: &Self) -> Option<Self> {
        let both = self.samples.iter().zip(&other.samples);
        Self::of(both.map(|(own, other)| own / other).collect())
    }

    /// The figure that follows from it by a rule in proportion.
    pub(crate) fn map(self, rule: impl Fn(f64) -> f64) -> Self {
        let samples = self.samples.into_iter().map(&rule).collect();
        Self { value: rule(self.value), noise: self.noise, samples }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.value, f)
    }
}

impl Figures<'_> {
    /// The time of an operation.
    pub(crate) fn ns(&self, case: &str, subject: &str, threads: usize) -> Option<Figure> {
        let rows = self.rows.iter().filter(|row| row.case == case && row.threads == threads);
        match subject {
            "kernel" => rows
                .filter(|row| row.subject.starts_with("kernel-"))
                .filter_map(Figure::of_row)
                .min_by(|one, other| one.value.total_cmp(&other.value)),
            _ => rows.filter(|row| row.subject == subject).find_map(Figure::of_row),
        }
    }

    /// How many times the rate of one subject is that of another one.
    pub(crate) fn ratio(&self, case: &str, of: &str, to: &str, threads: usize) -> Option<Figure> {
        self.ns(case, of, threads)?.over(&self.ns(case, to, threads)?)
    }

    /// Percent by which a subject takes longer than another one in a case with one thread, pass by pass.
    pub(crate) fn loss(&self, case: &str, without: &str, with: &str) -> Option<Figure> {
        let times = self.ns(case, without, 1)?.over(&self.ns(case, with, 1)?)?;
        Figure::of(times.samples.iter().map(|times| (times - 1.0) * 100.0).collect())
    }

    /// How many times the rate with one thread is that with several, where each has a core.
    pub(crate) fn scaling(&self, case: &str, subject: &str, threads: usize) -> Option<Figure> {
        if threads > threads::cores() {
            return None;
        }
        self.ns(case, subject, 1)?.over(&self.ns(case, subject, threads)?)
    }

    /// How many times the time of one case is that of another.
    pub(crate) fn beside(&self, case: &str, quiet: &str, subject: &str) -> Option<Figure> {
        self.ns(case, subject, 1)?.over(&self.ns(quiet, subject, 1)?)
    }

    /// Says whether a case takes at most so many times what another one takes in which nobody disturbs.
    pub(crate) fn undisturbed(&self, subject: &str, cases: [&str; 2], most: f64) -> Option<String> {
        let [case, quiet] = cases;
        let what = format!("{subject}, {case} over quiet");
        at_most(&what, self.beside(case, quiet, subject), most)
    }

    /// What it took a subject to make the files.
    pub(crate) fn loading(&self, subject: &str) -> Option<Loading> {
        self.loading[self.names.iter().position(|name| name == subject)?]
    }
}

/// Says whether a figure reaches its target, where there is a figure.
pub(crate) fn at_least(what: &str, got: Option<Figure>, want: f64) -> Option<String> {
    against(what, got?, "at least", want, |value| value >= want)
}

/// Says whether a figure stays below its target, where there is a figure.
pub(crate) fn at_most(what: &str, got: Option<Figure>, want: f64) -> Option<String> {
    against(what, got?, "at most", want, |value| value <= want)
}

/// What lies no farther from its target than by noise says nothing either way, and is said so.
fn against(
    what: &str,
    got: Figure,
    side: &str,
    want: f64,
    met: impl Fn(f64) -> bool,
) -> Option<String> {
    let noise = got.noise * got.value;
    let verdict = match [got.value - noise, got.value, got.value + noise].map(met) {
        [_, true, _] => "met".to_owned(),
        [false, _, false] => "missed".to_owned(),
        _ => format!("not told apart from it, the noise is {noise:.2}"),
    };
    Some(format!("{what}: {got:.2}; target {side} {want}: {verdict}."))
}

impl Outcome {
    /// Ends the run where an answer was wrong.
    pub(crate) fn verdict(&self) -> Result<(), Error> {
        let count = self.verdict.wrong;
        if count == 0 {
            return Ok(());
        }
        for line in &self.verdict.lines {
            eprintln!("wrong answer: {line}");
        }
        let calls = self.verdict.calls;
        Err(Error::new(format!("{}: {count} of {calls} calls got a wrong answer", self.name)))
    }

    /// Prints one object per row, and first in each group the row `kernel`.
    pub(crate) fn print_json(&self) -> Result<(), Error> {
        for note in &self.notes {
            eprintln!("pathwalk bench: {note}");
        }
        let mut out = io::stdout().lock();
        for group in self.rows.chunks(self.names.len()) {
            let kernel = fastest(&group[..self.kernels])
                .map(|at| Row { subject: "kernel".to_owned(), ..group[at].clone() });
            for row in kernel.iter().chain(group) {
                let json = serde_json::to_string(row).map_err(unprintable)?;
                writeln!(out, "{json}").map_err(unprintable)?;
            }
        }
        Ok(())
    }

    /// Prints the table between a title and its notes.
    pub(crate) fn print(&self) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        let title = format!("{}: {}", self.name, self.about);
        writeln!(out, "{title}\n{}\n\n{}", machine(), self.markdown()).map_err(unprintable)
    }

    /// The table, what follows from it, and the notes.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.table());
        for finding in &self.findings {
            text += &format!("\n- {finding}");
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        if let Some(cell) = self.cells.first() {
            let (passes, calls) = (cell.ns_per_op.len(), self.verdict.calls);
            let turn_ms = self.plan.sample.as_secs_f64() * 1e3;
            text += &format!(
                "\nEvery contender gave the same {calls} answers. Times are medians of {passes} interleaved turns of at \
                 least {turn_ms} ms; half of the turns lie within the spread.\n",
            );
        }
        text
    }

    fn table(&self) -> Table {
        if self.cases.len() == 1 { self.long_table() } else { self.wide_table() }
    }

    /// A row for each subject.
    fn long_table(&self) -> Table {
        let head = [
            "threads".to_owned(),
            "subject".to_owned(),
            format!("ns per {}", self.op),
            "per second".to_owned(),
            "ratio to kernel".to_owned(),
            "ratio to 1 thread".to_owned(),
            "spread".to_owned(),
        ];
        let mut table = table(&head, &[1]);
        for group in self.rows.chunks(self.names.len()) {
            let kernel = fastest(&group[..self.kernels]);
            for (at, row) in group.iter().enumerate() {
                let is_kernel = if kernel == Some(at) { " = kernel" } else { "" };
                table.add_row([
                    row.threads.to_string(),
                    format!("{}{is_kernel}", row.subject),
                    shown(row.ns_per_op, |ns| format!("{ns:.1}")),
                    shown(row.ns_per_op, |ns| grouped(1e9 / ns)),
                    shown(row.ratio_to_kernel, |ratio| format!("{ratio:.2}")),
                    shown(self.to_one_thread(row), |ratio| format!("{ratio:.2}")),
                    shown(row.spread, |spread| format!("{:.1} %", spread * 100.0)),
                ]);
            }
        }
        table
    }

    /// A row for each case and number of threads, a column for each subject's nanoseconds, and what is said of
    /// pathwalk; the spread is the worst of the row.
    fn wide_table(&self) -> Table {
        let mut head = vec![format!("ns per {}", self.op), "threads".to_owned()];
        head.extend(self.names.iter().cloned());
        head.extend(["kernel : pathwalk", "1 thread : this", "worst spread"].map(str::to_owned));
        let mut table = table(&head, &[0]);
        for group in self.rows.chunks(self.names.len()) {
            let mut cells = vec![group[0].case.clone(), group[0].threads.to_string()];
            cells.extend(group.iter().map(|row| shown(row.ns_per_op, |ns| format!("{ns:.1}"))));
            let own = group.get(self.kernels);
            let ratio = own.and_then(|row| row.ratio_to_kernel);
            cells.push(shown(ratio, |ratio| format!("{ratio:.2}")));
            cells.push(shown(own.and_then(|row| self.to_one_thread(row)), |r| format!("{r:.2}")));
            let worst = group.iter().filter_map(|row| row.spread).max_by(f64::total_cmp);
            cells.push(shown(worst, |spread| format!("{:.0} %", spread * 100.0)));
            table.add_row(cells);
        }
        table
    }

    /// How many times the rate with one thread is that of a row.
    fn to_one_thread(&self, row: &Row) -> Option<f64> {
        let same = |other: &&Row| {
            other.threads == 1 && other.case == row.case && other.subject == row.subject
        };
        Some(self.rows.iter().find(same)?.ns_per_op? / row.ns_per_op?)
    }
}

/// An empty table, numbers to the right; the columns of `words` hold none.
pub(crate) fn table(head: &[String], words: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(head);
    for at in (0..head.len()).filter(|at| !words.contains(at)) {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Says on what machine the run took place: kernel, processor, cores.
pub(crate) fn machine() -> String {
    let kernel = rustix::system::uname();
    format!(
        "{} {}, {}",
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy(),
        processor()
    )
}

/// The processor by its name.
pub(crate) fn processor() -> String {
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    name.unwrap_or_else(|| rustix::system::uname().machine().to_string_lossy().into_owned())
}

/// Prints the benchmarks, one a line.
pub(crate) fn list() -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let counted = (instructions::NAME, instructions::ABOUT);
    let run = (programs::NAME, programs::ABOUT);
    let all = (EVERY, "each of these but instructions and run, written to results/");
    let record = (RECORD, "writes down the path calls of a command, for --data");
    let others = [counted, run, all, record];
    for (name, about) in ALL.iter().map(|entry| (entry.name, entry.about)).chain(others) {
        writeln!(out, "{name:<16} {about}").map_err(unprintable)?;
    }
    Ok(())
}

/// Returns the row with the least time.
fn fastest(rows: &[Row]) -> Option<usize> {
    (0..rows.len()).filter(|&at| rows[at].ns_per_op.is_some()).min_by(|&a, &b| {
        rows[a].ns_per_op.partial_cmp(&rows[b].ns_per_op).unwrap_or_else(|| a.cmp(&b))
    })
}

fn shown<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// Writes a whole number with a comma after each thousand.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn unprintable(cause: impl std::fmt::Display) -> Error {
    Error::doing("writing the report", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slower_for_a_while_is_so_for_both() {
        // Four passes of ten are on a machine that takes half as long again.
        let slow = |pass: usize| if pass % 10 < 4 { 1.5 } else { 1.0 };
        let of = |ns: f64| Figure::of((0..100).map(|pass| ns * slow(pass)).collect()).unwrap();
        let table =
            [(1.05, "1.05; target at most 1.1: met."), (1.13, "1.13; target at most 1.1: missed.")];
        for (times, want) in table {
            let ratio = of(10.0 * times).over(&of(10.0));
            assert_eq!(at_most("it", ratio, 1.1).unwrap(), format!("it: {want}"));
        }
    }

    #[test]
    fn a_loss_is_that_of_each_pass() {
        let row = |subject: &str, samples: &[f64]| Row {
            bench: "bench",
            case: String::new(),
            subject: subject.to_owned(),
            threads: 1,
            ns_per_op: None,
            spread: None,
            samples: samples.to_vec(),
            ratio_to_kernel: None,
            mismatches: 0,
        };
        // The medians are 110 and 100; but in most passes it takes half as long again.
        let rows = [
            row("without", &[150.0, 110.0, 110.0, 75.0, 150.0]),
            row("with", &[100.0, 100.0, 110.0, 50.0, 100.0]),
        ];
        let figures = Figures { rows: &rows, names: &[], loading: Vec::new() };
        let loss = figures.loss("", "without", "with");
        let said = at_least("it", loss, 40.0).unwrap();
        assert!(said.starts_with("it: 50.00; target at least 40: "), "{said}");
        assert_eq!(figures.loss("", "nobody", "with"), None);
    }

    #[test]
    fn what_noise_explains_is_not_told_apart() {
        let one = Figure::of((0..9).map(|pass| 10.0 + f64::from(pass % 3)).collect()).unwrap();
        let other = Figure::of((0..9).map(|pass| 10.0 + f64::from(pass / 3)).collect()).unwrap();
        let said = at_most("it", one.over(&other), 0.97).unwrap();
        assert!(said.starts_with("it: 1.00; target at most 0.97: not told apart"), "{said}");
    }
}
