//! The command line of `pathwalk bench`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use crate::Error;
use crate::workload::ALL;
use crate::{instructions, programs};

/// The arguments of `pathwalk bench`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
A run first asks every contender for every answer and compares them with the recorded ones; one wrong \
answer ends it with exit status 1. Then it times the contenders in turns, so that a noisy machine is \
noisy for all of them. Read the ratio: nanoseconds differ from machine to machine, ratios hardly.

The kernel's tmpfs and ext4 are mounted for the run alone, which needs root; without root a temporary \
directory stands in for them, and the table says so.

Examples:
  pathwalk bench gcc-205
  pathwalk bench all                        every benchmark, written to results/
  pathwalk bench instructions               what each call takes, counted, beside what it took
  pathwalk bench run                        programs in a tree of pathwalk run
  pathwalk bench scale --plot plots
  pathwalk bench record -- gcc -c main.c    write down the path calls of a command …
  pathwalk bench compile-replay --data recorded        … and make them again
  pathwalk bench gcc-205 --threads 1 --seconds 30
  pathwalk bench gcc-205 --json | jq 'select(.subject == \"pathwalk\").ratio_to_kernel'")]
pub struct Args {
    /// The benchmark to run, "all", or "record"; --list says what each one measures
    #[arg(value_name = "BENCH", required_unless_present = "list", value_parser = names())]
    pub(crate) bench: Option<String>,

    /// List the benchmarks and end
    #[arg(long)]
    pub(crate) list: bool,

    /// Print one JSON object per line instead of the table
    ///
    /// The members are bench, case, subject, threads, ns_per_op (the median), spread (the distance of the
    /// quartiles over the median), ratio_to_kernel (the kernel's ns_per_op divided by this
    /// subject's: higher is better) and mismatches. The subject "kernel" is the faster of the
    /// kernel's file systems.
    #[arg(long)]
    pub(crate) json: bool,

    /// Time with 1 to N threads, each count reported; N is at most twice the number of cores
    ///
    /// The default is 1, 2 where there are two cores, and as many as there are cores; "scale" runs with
    /// twice as many besides. All threads of a contender run the same calls at the same time, each on a
    /// core of its own where there are so many. With more, what counts is the time until the last one is
    /// done, and there are no targets.
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,

    /// How long to measure a benchmark, all contenders together; a few samples of each are taken
    /// however long that is
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// Measure for a moment only: the answers are checked in full, the times mean little
    #[arg(long, conflicts_with = "seconds")]
    pub(crate) quick: bool,

    /// Draw the figures of each benchmark into DIR, as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,

    /// Write samples, table and drawing into DIR; "all" does so into results/DATE-MACHINE, and "record" writes what it
    /// recorded, into recorded; "instructions" writes its counts into this file, instead of comparing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Add another build of this program to the contenders (repeatable)
    ///
    /// The program is started once and takes its turns like the others. This is how a build with an
    /// improvement switched off is compared: RUSTFLAGS='-C target-feature=+crt-static --cfg
    /// pathwalk_ablate="step_into"' cargo build --release --target-dir target/without, then
    /// --contender without-step_into=target/without/HOST/release/pathwalk, where HOST is the host
    /// that rustc -vV names. The first flag is that of .cargo/config.toml, which RUSTFLAGS takes
    /// the place of.
    #[arg(long = "contender", value_name = "NAME=PROGRAM", value_parser = named_program)]
    pub(crate) contenders: Vec<(String, PathBuf)>,

    /// Replay what "record" wrote to DIR instead of the compile that comes with the program: "compile-replay" and
    /// "realpath" do
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The command whose path calls "record" writes down, after --; strace(1) must be there
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    /// Make the calls of a case, once, to be counted
    #[arg(long, value_name = "SUBJECT=CASE", hide = true, value_parser = subject_and_case, conflicts_with_all = ["json", "contenders", "worker"])]
    pub(crate) counted: Option<(String, String)>,

    /// Be such a contender: read orders from standard input
    #[arg(long, hide = true, conflicts_with_all = ["json", "contenders"])]
    pub(crate) worker: bool,
}

impl Args {
    /// Refuses what the benchmark would not look at.
    pub(crate) fn fit(&self) -> Result<(), Error> {
        let name = self.bench.as_deref().unwrap_or_default();
        let replays = name == EVERY || ALL.iter().any(|entry| entry.name == name && entry.replays);
        let why = if self.list {
            return Ok(());
        } else if self.data.is_some() && !replays {
            format!("--data: {name} replays nothing")
        } else if name == RECORD && self.command.is_empty() {
            format!("{RECORD} what? It wants a command after --")
        } else if name != RECORD && !self.command.is_empty() {
            format!("{name} takes no command, only {RECORD} does")
        } else if name == instructions::NAME && self.json {
            format!("--json: {name} prints lines only")
        } else {
            return Ok(());
        };
        Err(Error::new(why))
    }
}

/// What stands for every benchmark.
pub(crate) const EVERY: &str = "all";
/// What records instead of running.
pub(crate) const RECORD: &str = "record";

fn names() -> PossibleValuesParser {
    ALL.iter()
        .map(|entry| entry.name)
        .chain([instructions::NAME, programs::NAME, EVERY, RECORD])
        .collect::<Vec<_>>()
        .into()
}

fn positive(seconds: &str) -> Result<f64, String> {
    match seconds.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("not a positive number of seconds".into()),
    }
}

fn subject_and_case(text: &str) -> Result<(String, String), String> {
    let (subject, case) = text.split_once('=').ok_or("not of the form SUBJECT=CASE")?;
    Ok((subject.into(), case.into()))
}

fn named_program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, program)) if !name.is_empty() && !program.is_empty() => {
            Ok((name.into(), program.into()))
        }
        _ => Err("not of the form NAME=PROGRAM".into()),
    }
}
