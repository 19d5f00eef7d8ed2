//! `pathwalk-bench bench …`: the benchmarks without the rest of the pathwalk command.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(about = "The benchmarks of pathwalk")]
enum Command {
    /// Measure pathwalk against the running kernel, in one run
    Bench(pathwalk_bench::Args),
}

fn main() -> ExitCode {
    let Command::Bench(args) = Command::parse();
    pathwalk_bench::run(&args)
}
