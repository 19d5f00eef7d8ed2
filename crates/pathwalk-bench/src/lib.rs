//! The benchmarks: every speed a ratio in one run, every answer checked first.
//!
//! ```text
//!  tree + calls ──► contenders ──► subjects ──► check ──► time ──► report
//!  data/            floor          Crew: threads in here  interleaved
//!                   kernel-*       Remote: another build
//! ```
//!
//! A *contender* is one way to answer the calls; a *subject* is something that can be told to check
//! and to time itself: a contender with its threads, or another process that holds one.
//!
//! Invariant: nothing is timed before every subject has given every recorded answer, and each timed
//! round counts its answers again. A wrong answer ends the run.

pub mod contender;

mod gcc_205;
mod subject;

mod crew;
mod remote;

mod report;
mod stats;
mod timing;

pub mod floor;
pub mod kernel;
pub mod pathwalk;

pub mod calls;
pub mod tree;

mod error;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

pub use error::Error;
pub use gcc_205::{gcc_205_calls, gcc_205_tree};

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
  pathwalk bench gcc-205 --threads 1 --seconds 30
  pathwalk bench gcc-205 --json | jq 'select(.subject == \"pathwalk\").ratio_to_kernel'")]
pub struct Args {
    /// The benchmark to run; --list says what each one measures
    #[arg(value_name = "BENCH", required_unless_present = "list")]
    bench: Option<Bench>,

    /// List the benchmarks and end
    #[arg(long)]
    list: bool,

    /// Print one JSON object per line instead of the table
    ///
    /// The members are bench, subject, threads, ns_per_op (the median), spread (the distance of the
    /// quartiles over the median), ratio_to_kernel (the kernel's ns_per_op divided by this
    /// subject's: higher is better) and mismatches. The subject "kernel" is the faster of the
    /// kernel's file systems.
    #[arg(long)]
    json: bool,

    /// Time with 1 to N threads, each count reported; each thread gets a core of its own
    ///
    /// The default is 2, or 1 on a machine with one core. All threads of a contender run the same
    /// calls at the same time.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// How long to measure, all contenders together
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = positive)]
    seconds: f64,

    /// Measure for a moment only: the answers are checked in full, the times mean little
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,

    /// Add another build of this program to the contenders (repeatable)
    ///
    /// The program is started once and takes its turns like the others. This is how a build with an
    /// improvement switched off is compared: RUSTFLAGS='--cfg pathwalk_ablate="step_into"' cargo
    /// build --release --target-dir target/without, then --contender
    /// without-step_into=target/without/release/pathwalk.
    #[arg(long = "contender", value_name = "NAME=PROGRAM", value_parser = named_program)]
    contenders: Vec<(String, PathBuf)>,

    /// Be such a contender: read orders from standard input
    #[arg(long, hide = true, conflicts_with_all = ["json", "contenders"])]
    worker: bool,
}

/// The benchmarks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Bench {
    /// The 205 access calls of a real gcc and ld run
    #[value(name = "gcc-205")]
    Gcc205,
}

/// Runs `pathwalk bench`: the report goes to standard output, all else to standard error.
///
/// The exit status is 0 after a whole run, 1 where an answer was wrong or the run failed, and 2 for
/// arguments that cannot be met.
pub fn run(args: &Args) -> ExitCode {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or(cores.min(2));
    if !(1..=cores).contains(&threads) {
        eprintln!("pathwalk bench: --threads {threads}: this machine can run 1 to {cores} at once");
        return ExitCode::from(2);
    }
    let done = match args.bench {
        _ if args.list => report::list(),
        None | Some(Bench::Gcc205) if args.worker => gcc_205::work(threads),
        None | Some(Bench::Gcc205) => gcc_205::run(args, threads),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pathwalk bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn positive(seconds: &str) -> Result<f64, String> {
    match seconds.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(seconds),
        _ => Err("not a positive number of seconds".into()),
    }
}

fn named_program(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, program)) if !name.is_empty() && !program.is_empty() => {
            Ok((name.into(), program.into()))
        }
        _ => Err("not of the form NAME=PROGRAM".into()),
    }
}
