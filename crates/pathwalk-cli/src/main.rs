//! The pathwalk command: `pathwalk explain PATH`, `pathwalk run PROGRAM`, `pathwalk check`, `pathwalk bench NAME`.
//!
//! ```text
//!   0   the path leads to a file; every answer was right; the benchmark ran
//!   1   the path leads to an error; an answer was wrong
//!   2   the command line, or what it names, cannot be used
//! ```
//!
//! `pathwalk run` ends as the program does. `pathwalk man` and `pathwalk completions` are for who makes packages.
//!
//! What was asked for goes to standard output; an error is one line on standard error, `pathwalk: …`.

mod explain;

mod packaging;

mod error;

use clap::{Parser, Subcommand};
use error::Error;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// The exit status for what cannot be used.
const UNUSABLE: u8 = 2;

/// The Linux VFS as a library: this command shows what it does
#[derive(Parser)]
#[command(
    name = "pathwalk",
    version,
    after_help = "\
Examples:
  pathwalk explain /usr/bin/cc                 why does this path resolve as it does?
  pathwalk explain --uid 1000 /root/.profile   … and for another user?
  pathwalk run make                            a program in a tree of its own, whose paths are walked here
  pathwalk check                               does it answer as the running kernel does?
  pathwalk bench gcc-205                       how fast is it, beside the running kernel?

pathwalk COMMAND --help says more about a command."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Explain(explain::Args),
    /// Ask pathwalk and the running kernel the same, and compare every answer
    Check(pathwalk_check::Args),
    Run(pathwalk_run::Args),
    /// Measure pathwalk against the running kernel, in one run
    Bench(pathwalk_bench::Args),
    Man(packaging::ManArgs),
    Completions(packaging::CompletionsArgs),
}

fn main() -> ExitCode {
    // To read the command line takes more than some have.
    if let Err(text) = pathwalk_run::take_stack() {
        eprintln!("pathwalk: {text}");
        return ExitCode::from(UNUSABLE);
    }
    if std::env::args_os().skip(1).eq(["help", "mounts"]) {
        return ended(print(pathwalk_run::MOUNTS_HELP).map(|()| ExitCode::SUCCESS));
    }
    // What `pathwalk check --engine notify` starts; it is for nobody else, and no help names it.
    if std::env::args_os().skip(1).eq([pathwalk_check::SUBJECT]) {
        return pathwalk_run::run_in_memory(pathwalk_check::subject);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            eprintln!("pathwalk: {}", error::in_one_line(&error));
            return ExitCode::from(UNUSABLE);
        }
        // Help was asked for.
        Err(help) => return ended(said(help.print()).map(|()| ExitCode::SUCCESS)),
    };
    let done = match cli.command {
        Command::Explain(args) => explain::run(&args),
        Command::Check(args) => Ok(pathwalk_check::run(&args)),
        Command::Run(args) => Ok(pathwalk_run::run(&args)),
        Command::Bench(args) => Ok(pathwalk_bench::run(&args)),
        Command::Man(args) => packaging::man(&args).map(|()| ExitCode::SUCCESS),
        Command::Completions(args) => {
            packaging::completions(&args).and_then(|text| print(&text)).map(|()| ExitCode::SUCCESS)
        }
    };
    ended(done)
}

fn ended(done: Result<ExitCode, Error>) -> ExitCode {
    done.unwrap_or_else(|error| {
        eprintln!("pathwalk: {error}");
        ExitCode::from(UNUSABLE)
    })
}

fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    said(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Whoever closed standard output has read enough.
fn said(printed: io::Result<()>) -> Result<(), Error> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::doing("standard output", error::in_words(&error)))
        }
        _ => Ok(()),
    }
}
