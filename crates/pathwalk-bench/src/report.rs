//! What a run prints: a table for people, or a JSON object per row for programs.

use std::fs;
use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::stats::Summary;
use crate::timing::Cell;
use crate::{Bench, Error};

/// One row: a subject with a number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    subject: String,
    threads: usize,
    ns_per_op: Option<f64>,
    spread: Option<f64>,
    ratio_to_kernel: Option<f64>,
    mismatches: usize,
}

/// The rows of a run, and which of them are the kernel's.
pub(crate) struct Report {
    rows: Vec<Row>,
    /// How many rows each number of threads has.
    subjects: usize,
    /// How many of those, at their beginning, are file systems of the kernel.
    kernels: usize,
}

impl Report {
    /// Sums up a run; the first `kernels` names are file systems of the kernel.
    pub(crate) fn of_times(
        bench: &'static str,
        names: &[String],
        kernels: usize,
        cells: &[Cell],
    ) -> Report {
        let mut rows: Vec<Row> = Vec::with_capacity(cells.len());
        for cell in cells {
            let summary = Summary::of(&cell.ns_per_op);
            rows.push(Row {
                bench,
                subject: names[cell.subject].clone(),
                threads: cell.threads,
                ns_per_op: summary.map(|summary| summary.median),
                spread: summary.map(|summary| summary.spread),
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
        Report { rows, subjects: names.len(), kernels }
    }

    /// Makes the rows of a run that ended with wrong answers, before anything was timed.
    pub(crate) fn of_mismatches(
        bench: &'static str,
        names: &[String],
        mismatches: &[usize],
        threads: usize,
    ) -> Report {
        let rows = names.iter().zip(mismatches).map(|(name, &mismatches)| Row {
            bench,
            subject: name.clone(),
            threads,
            ns_per_op: None,
            spread: None,
            ratio_to_kernel: None,
            mismatches,
        });
        Report { rows: rows.collect(), subjects: names.len(), kernels: 0 }
    }

    /// Prints one object per row, and first in each group the row `kernel`.
    pub(crate) fn print_json(&self) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        for group in self.rows.chunks(self.subjects) {
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
    pub(crate) fn print_table(&self, title: &str, notes: &[String]) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
        writeln!(out, "{title}\n\n{}\n\n{notes}", self.table()).map_err(unprintable)
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header([
            "threads",
            "subject",
            "ns per access",
            "accesses per second",
            "ratio to kernel",
            "ratio to 1 thread",
            "spread",
        ]);
        for group in self.rows.chunks(self.subjects) {
            let kernel = fastest(&group[..self.kernels]);
            for (at, row) in group.iter().enumerate() {
                let is_kernel = if kernel == Some(at) { " = kernel" } else { "" };
                let alone = self.rows[at].ns_per_op.zip(row.ns_per_op);
                table.add_row([
                    row.threads.to_string(),
                    format!("{}{is_kernel}", row.subject),
                    shown(row.ns_per_op, |ns| format!("{ns:.1}")),
                    shown(row.ns_per_op, |ns| grouped(1e9 / ns)),
                    shown(row.ratio_to_kernel, |ratio| format!("{ratio:.2}")),
                    shown(alone, |(alone, ns)| format!("{:.2}", alone / ns)),
                    shown(row.spread, |spread| format!("{:.1} %", spread * 100.0)),
                ]);
            }
        }
        for at in (0..7).filter(|&at| at != 1) {
            if let Some(column) = table.column_mut(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// Says on what machine the run took place: kernel, processor, cores.
pub(crate) fn machine() -> String {
    let kernel = rustix::system::uname();
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|info| {
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    format!(
        "{} {}, {}",
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy(),
        processor.unwrap_or_else(|| kernel.machine().to_string_lossy().into_owned()),
    )
}

/// Prints the benchmarks, one a line.
pub(crate) fn list() -> Result<(), Error> {
    let mut out = io::stdout().lock();
    for value in Bench::value_variants().iter().filter_map(ValueEnum::to_possible_value) {
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        writeln!(out, "{:<12} {help}", value.get_name()).map_err(unprintable)?;
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
