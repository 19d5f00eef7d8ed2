//! `pathwalk bench all`: every benchmark, and a folder with what came of it.
//!
//! ```text
//!   results/DATE-MACHINE/
//!     raw.csv        every sample: bench, case, subject, threads, number, nanoseconds per operation
//!     summary.md     machine, command, and each benchmark's table with what follows from it
//!     plots/*.svg
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Error;
use crate::args::Args;
use crate::plot;
use crate::report::{machine, processor};
use crate::run::Outcome;
use crate::workload::ALL;

/// Runs every benchmark, whatever comes of those before it.
pub(crate) fn run(args: &Args, threads: usize) -> Result<(), Error> {
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for entry in ALL {
        let start = Instant::now();
        match (entry.run)(args, threads) {
            Ok(outcome) => {
                if args.json {
                    outcome.print_json()?;
                } else {
                    outcome.print()?;
                }
                if let Err(error) = outcome.verdict() {
                    failed.push(error.to_string());
                }
                outcomes.push(outcome);
            }
            Err(error) => failed.push(format!("{}: {error}", entry.name)),
        }
        eprintln!("pathwalk bench: {} took {:.1} s", entry.name, start.elapsed().as_secs_f64());
    }
    if let Some(dir) = folder(args) {
        write(&outcomes, &dir, args, threads)?;
        eprintln!("pathwalk bench: written to {}", dir.display());
    }
    if let Some(dir) = &args.plot {
        for outcome in &outcomes {
            plot::draw(outcome, dir)?;
        }
    }
    match failed.len() {
        0 => Ok(()),
        _ => Err(Error::new(failed.join("; "))),
    }
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

fn write(outcomes: &[Outcome], dir: &Path, args: &Args, threads: usize) -> Result<(), Error> {
    let failed = |cause| Error::doing(format_args!("writing to {}", dir.display()), cause);
    fs::create_dir_all(dir).map_err(failed)?;
    fs::write(dir.join("raw.csv"), raw(outcomes)).map_err(failed)?;
    fs::write(dir.join("summary.md"), summary(outcomes, args, threads)).map_err(failed)?;
    for outcome in outcomes {
        plot::draw(outcome, &dir.join("plots"))?;
    }
    Ok(())
}

fn raw(outcomes: &[Outcome]) -> String {
    let mut text = String::from("bench,case,subject,threads,sample,ns_per_op\n");
    for outcome in outcomes {
        for cell in &outcome.cells {
            // Cases have commas and quotation marks in them.
            let case = outcome.cases[cell.case].name.replace('"', "\"\"");
            let (bench, subject) = (outcome.name, &outcome.names[cell.subject]);
            for (number, ns) in cell.ns_per_op.iter().enumerate() {
                let threads = cell.threads;
                let _ = writeln!(text, "{bench},\"{case}\",{subject},{threads},{number},{ns:.3}");
            }
        }
    }
    text
}

fn summary(outcomes: &[Outcome], args: &Args, threads: usize) -> String {
    let how =
        if args.quick { " --quick".to_owned() } else { format!(" --seconds {}", args.seconds) };
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let mut text = format!(
        "Machine: {}, {threads} threads at most. Date: {date}.\nCommand: `pathwalk bench all{how}`.\n",
        machine()
    );
    for outcome in outcomes {
        text += &format!("\n## {}\n\n{}\n\n{}", outcome.name, outcome.about, outcome.markdown());
    }
    text
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
