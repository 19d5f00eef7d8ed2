//! `pathwalk bench all`: every benchmark, and a folder with what came of it.
//!
//! ```text
//!   results/DATE-MACHINE/
//!     raw/NAME.csv       every sample: bench, case, subject, threads, number, nanoseconds per operation
//!     summary/NAME.md    machine, date, the table and what follows from it
//!     plots/NAME.svg
//! ```
//!
//! Each benchmark has its own files, so that one alone can be run again into the same folder.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use crate::Error;
use crate::args::{Args, EVERY, RECORD};
use crate::plot;
use crate::report::{machine, processor};
use crate::run::Outcome;
use crate::workload::ALL;
use crate::{instructions, record};

/// Runs every benchmark, whatever comes of those before it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let folder = folder(args);
    let mut failed = Vec::new();
    for entry in ALL {
        let start = Instant::now();
        match (entry.run)(args) {
            Ok(outcome) => {
                if args.json {
                    outcome.print_json()?;
                } else {
                    outcome.print()?;
                }
                if let Err(error) = outcome.verdict() {
                    failed.push(error.to_string());
                }
                keep(&outcome, args, folder.as_deref())?;
            }
            Err(error) => failed.push(format!("{}: {error}", entry.name)),
        }
        eprintln!("pathwalk bench: {} took {:.1} s", entry.name, start.elapsed().as_secs_f64());
    }
    if let Some(dir) = folder {
        eprintln!("pathwalk bench: written to {}", dir.display());
    }
    match failed.len() {
        0 => Ok(()),
        _ => Err(Error::new(failed.join("; "))),
    }
}

/// Writes what came of a benchmark wherever it is wanted.
pub(crate) fn keep(outcome: &Outcome, args: &Args, folder: Option<&Path>) -> Result<(), Error> {
    if let Some(dir) = folder {
        write(outcome, dir)?;
    }
    match &args.plot {
        Some(dir) => plot::draw(outcome, dir),
        None => Ok(()),
    }
}

/// Finds out whether what comes of a run can be written where it is wanted, before anything is measured.
pub(crate) fn try_places(args: &Args) -> Result<(), Error> {
    let name = args.bench.as_deref().unwrap_or_default();
    if args.list {
        return Ok(());
    }
    let out = match name {
        EVERY => folder(args),
        RECORD => Some(record::folder(args)),
        // That is a file.
        instructions::NAME => args.out.as_deref().map(|file| match file.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        }),
        _ => args.out.clone(),
    };
    for dir in out.iter().chain(&args.plot) {
        let tried = fs::create_dir_all(dir).and_then(|()| tempfile::tempfile_in(dir));
        tried.map_err(|cause| Error::doing(format_args!("writing to {}", dir.display()), cause))?;
    }
    Ok(())
}

/// Where the results go: times that mean little go nowhere, unless it is said where.
fn folder(args: &Args) -> Option<PathBuf> {
    let usual = || {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        Path::new("results").join(format!("{date}-{}", slug(&processor())))
    };
    args.out.clone().or_else(|| (!args.quick).then(usual))
}

/// A name of letters and digits, the first few words of the text.
fn slug(text: &str) -> String {
    let lower = text.to_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).take(3).collect();
    words.join("-")
}

fn write(outcome: &Outcome, dir: &Path) -> Result<(), Error> {
    let summary = summary(outcome.name, outcome.about, &outcome.markdown());
    write_texts(dir, outcome.name, &raw(outcome), &summary)?;
    plot::draw(outcome, &dir.join("plots"))
}

/// Writes the samples of a benchmark and its summary.
pub(crate) fn write_texts(dir: &Path, name: &str, raw: &str, summary: &str) -> Result<(), Error> {
    let failed = |cause| Error::doing(format_args!("writing to {}", dir.display()), cause);
    for (folder, ending, text) in [("raw", "csv", raw), ("summary", "md", summary)] {
        fs::create_dir_all(dir.join(folder)).map_err(failed)?;
        fs::write(dir.join(folder).join(format!("{name}.{ending}")), text).map_err(failed)?;
    }
    Ok(())
}

fn raw(outcome: &Outcome) -> String {
    let mut text = String::from("bench,case,subject,threads,sample,ns_per_op\n");
    for cell in &outcome.cells {
        // Cases have commas and quotation marks in them.
        let case = outcome.cases[cell.case].name.replace('"', "\"\"");
        let (bench, subject, threads) = (outcome.name, &outcome.names[cell.subject], cell.threads);
        for (number, ns) in cell.ns_per_op.iter().enumerate() {
            let _ = writeln!(text, "{bench},\"{case}\",{subject},{threads},{number},{ns:.3}");
        }
    }
    text
}

/// What was measured, where and when, and what came of it.
pub(crate) fn summary(name: &str, about: &str, table: &str) -> String {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let (machine, cores) = (machine(), thread::available_parallelism().map_or(1, usize::from));
    format!("{name}: {about}. {machine}, {cores} cores, {date}.\n\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_by_its_first_words() {
        assert_eq!(slug("Intel(R) Xeon(R) Processor @ 2.10GHz"), "intel-xeon-processor");
        assert_eq!(slug("x86_64"), "x86-64");
        assert_eq!(slug(""), "");
    }
}
