//! The oracle: the same calls to pathwalk and to the running kernel, and after each one the same answer.
//!
//! ```text
//!   scenarios   tables of calls with the answers that Linux 6.18 gave      ─┐
//!   random      calls drawn at random; a finding is shrunk and printed     ─┴─► Pair ─► Kernel, Ours
//! ```
//!
//! The kernel is asked in a mount namespace of its own, which takes root; without it the tables are held against pathwalk
//! alone and nothing is drawn.

mod pair;

mod scenarios;

mod random;

mod generate;

mod call;

mod field;

mod answer;

mod normal;

mod subject;

mod ours;

mod kernel;

use kernel::{Nursery, may_mount};
use std::{path::PathBuf, process::ExitCode};

/// The arguments of `pathwalk check`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "\
The kernel is asked in a mount namespace of its own, with an empty tmpfs for each run of calls; that takes \
root. The exit status is 0 if every answer was the same, 1 if one was not, and 2 for arguments that cannot be used.

Examples:
  pathwalk check                             the tables, then calls drawn from fixed seeds and from a fresh one
  pathwalk check --seed 7 --ops 100000
  pathwalk check --scenario found.scn        the calls of a finding
  pathwalk check --scenario new.scn --record write the kernel's answers into the file")]
pub struct Args {
    /// Draw so many calls
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,

    /// Draw them from this seed
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,

    /// Check this table instead of drawing calls
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ops", "seed"])]
    pub scenario: Option<PathBuf>,

    /// Write the kernel's answers into the table first
    #[arg(long, requires = "scenario")]
    pub record: bool,
}

/// Runs `pathwalk check`.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let done = match &args.scenario {
        Some(path) => tables(std::slice::from_ref(path), args.record),
        None => tables(&all_tables(), false).and_then(|()| random(args)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(found) => {
            println!("{found}");
            ExitCode::FAILURE
        }
    }
}

/// The tables that come with this crate.
#[must_use]
pub fn all_tables() -> Vec<PathBuf> {
    scenarios::all()
}

/// Holds tables against pathwalk and, if it can be asked, the kernel; with `record` the kernel's answers are written into
/// them first.
///
/// # Errors
///
/// The answers that are not the table's.
pub fn tables(paths: &[PathBuf], record: bool) -> Result<(), String> {
    let nursery = nursery("the tables are held against pathwalk alone");
    scenarios::check_all(paths, nursery.as_ref(), record)
}

/// Makes calls drawn at random, from a given seed or from those of every test run and a fresh one.
///
/// # Errors
///
/// Calls that are answered differently, the fewest that show it.
pub fn random(args: &Args) -> Result<(), String> {
    nursery("no random calls").map_or(Ok(()), |nursery| random::check(&nursery, args))
}

/// Where kernels are made, or a word about what is left out.
fn nursery(left_out: &str) -> Option<Nursery> {
    if may_mount() {
        return Some(Nursery::new());
    }
    eprintln!("no right to make mount namespaces: {left_out}");
    None
}
