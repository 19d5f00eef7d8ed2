//! Chores of this repository that are more than a cargo command.
//!
//! `cargo xtask tidy` checks what the compiler does not; `cargo xtask ablate` measures what each
//! optimisation is worth; `cargo xtask benchmarks` writes results into BENCHMARKS.md.

mod ablate;
mod benchmarks;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// Chores of this repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Xtask {
    /// Checks the rules that the compiler does not know and prints each breach as file:line.
    Tidy,
    /// Builds the program once without each optimisation and benchmarks all builds in one run.
    Ablate(ablate::Options),
    /// Writes the results of `pathwalk bench all` into BENCHMARKS.md.
    Benchmarks {
        /// The folder with the results.
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Xtask::parse() {
        Xtask::Tidy => tidy::run(root()),
        Xtask::Ablate(options) => ablate::run(root(), &options),
        Xtask::Benchmarks { dir } => benchmarks::run(root(), &dir),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}

/// The top of the checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
