//! The benchmarks: every speed a ratio in one run, every answer checked first.
//!
//! ```text
//!  workload ──► contenders ──► subjects ──► check ──► time ──► report
//!  files,       kernel-*       Crew: threads in here  interleaved
//!  calls        pathwalk       Remote: another build
//! ```
//!
//! A *workload* makes files and calls, and is written once, generic over who answers. A *contender* is
//! one way to answer the calls. A *subject* is something that can be told to check and to time itself: a
//! contender with its threads, or another process that holds one.
//!
//! Invariant: nothing is timed before every subject has given the same answers, and each timed round
//! counts its successes again. A wrong answer ends the run.

mod args;
mod workload;
mod workloads;

pub mod contender;
pub mod floor;
pub mod kernel;
pub mod pathwalk;

mod asked;

mod run;
mod threads;

mod dirents;
mod recorder;
mod subject;

mod crew;
mod remote;

mod all;
mod instructions;
mod plot;
mod report;
mod stats;
mod timing;

pub mod calls;
pub mod tree;

mod programs;
mod record;
mod trace;

mod error;

#[cfg(test)]
#[path = "../../left_out.rs"]
mod left_out;

use std::process::ExitCode;

pub use args::Args;
pub use error::Error;
pub use workloads::gcc_205::{gcc_205_calls, gcc_205_tree};

use args::RECORD;
use workload::ALL;

/// Runs `pathwalk bench`: the report goes to standard output, all else to standard error.
///
/// The exit status is 0 after a whole run, 1 where an answer was wrong or the run failed, and 2 for
/// arguments that cannot be met.
pub fn run(args: &Args) -> ExitCode {
    if let Some(threads) = args.threads
        && !(1..=threads::most()).contains(&threads)
    {
        let most = threads::most();
        eprintln!("pathwalk bench: --threads {threads}: it is 1 to {most}, twice the cores, here");
        return ExitCode::from(2);
    }
    if let Err(error) = args.fit().and_then(|()| all::try_places(args)) {
        eprintln!("pathwalk bench: {error}");
        return ExitCode::from(2);
    }
    match carry_out(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pathwalk bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(args: &Args) -> Result<(), Error> {
    if args.list {
        return report::list();
    }
    if args.bench.as_deref() == Some(RECORD) {
        return record::run(args);
    }
    if args.bench.as_deref() == Some(instructions::NAME) {
        return instructions::run(args.out.as_deref());
    }
    if args.bench.as_deref() == Some(programs::NAME) {
        return programs::run(args);
    }
    let Some(entry) = ALL.iter().find(|entry| Some(entry.name) == args.bench.as_deref()) else {
        return all::run(args);
    };
    if let Some((subject, case)) = &args.counted {
        return (entry.be_counted)(subject, case);
    }
    if args.worker {
        return (entry.work)(args);
    }
    let outcome = (entry.run)(args)?;
    if args.json {
        outcome.print_json()?;
    } else {
        outcome.print()?;
    }
    outcome.verdict()?;
    all::keep(&outcome, args, args.out.as_deref())
}
