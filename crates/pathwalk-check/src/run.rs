//! `pathwalk check`: which tables to hold, how many calls to draw, and what to say of it.

use crate::{
    Error,
    host_dir::OnHost,
    kernel::{Ground, NOT_OF_ONE_USER, Nursery, Powers, powers},
    linux_md::write_linux_md,
    process::Process,
    races::{self, Raced},
    random::{Drawn, Plan, draw},
    scenarios::{Held, read, record_file},
    subject::Engine,
    worlds::{self, Asked},
};
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    fmt::{self, Write as _},
    io::{self, Write as _},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// The arguments of `pathwalk check`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    long_about = "\
Ask pathwalk and the running kernel the same, and compare every answer.

First the tables: calls whose answers Linux 6.18 gave, held against pathwalk and against this kernel. Then calls drawn \
at random, in runs of 250, by five tasks with different ids: after each call the result or errno, the bytes and the \
attributes of all open files are compared, after each run, and in every third after each 50 calls, the whole tree with all that statx tells.

A run in which the two differ is shrunk to the fewest calls that show it and printed as a scenario, which can be \
saved and given back with --scenario. Only what belongs to the machine is not compared: clocks, numbers of devices, \
inodes and mounts.",
    after_long_help = "\
The kernel is asked in mount namespaces of its own, with an empty tmpfs for each run; the host is not touched. That \
takes root. Without root the tables are held against pathwalk alone, by the answers that they have, and calls are drawn for \
one user, in a user namespace.

The exit status is 0 if every answer was the same, 1 if one was not, and 2 if the command line or a file cannot be used.

Examples:
  pathwalk check                                    the tables, then 200,000 calls from fixed seeds and a fresh one
  pathwalk check --seed 7 --ops 1000000             … from one seed
  pathwalk check --seed 1-200 --ops 5000000         … from 200 seeds
  pathwalk check --sysctls --ops 1000000            … under all settings of fs.protected_*
  pathwalk check --worlds --slice 3/100             every path in a hundredth of all small trees
  pathwalk check --races                            what two or three tasks see at the same time
  pathwalk check --ext4 --seed 3                    … where the kernel makes them on an ext4
  pathwalk check --hostfs=strict                    … where pathwalk makes them in a directory of the host
  pathwalk check --engine notify                    … where a process under pathwalk run makes them
  pathwalk check --scenario found.scn               one table
  pathwalk check --scenario new.scn --record        write the kernel's answers into it

A scenario is text: a line for each call, what Linux answered behind the arrow. h0 to h5 are open files; a path after \
h0: begins there. Users are root, u (1000), v (1001, also in group 1000), s (1000 with the powers of root):
  == a title
  mkdirat d 0755                               -> ok
  u: openat h0 d/f CREAT|WRONLY 0644           -> EACCES"
)]
pub struct Args {
    /// Who stands for pathwalk
    ///
    /// The process makes the system calls that the kernel is asked, by five threads with virtual credentials, in a tree that is
    /// an empty file system in memory. What pathwalk run refuses or leaves to the kernel is left out, and tables in which it is
    /// asked: docs/run.md lists it. It takes root.
    #[arg(long, value_name = "WHO", default_value = "library")]
    pub engine: Engine,

    /// Draw so many calls, of all seeds together [default: 200000]
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,

    /// Draw them from this seed, or from those of a range [default: 1-5 and a fresh one]
    #[arg(long, value_name = "S|S-T", value_parser = seeds)]
    pub seed: Option<RangeInclusive<u64>>,

    /// Draw with so many workers [default: eight for each core]
    #[arg(long, value_name = "T")]
    pub threads: Option<usize>,

    /// Check this table and draw nothing (repeatable)
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["ops", "seed"])]
    pub scenario: Vec<PathBuf>,

    /// Write the kernel's answers into the table first
    #[arg(long, requires = "scenario")]
    pub record: bool,

    /// Ask everything about all small trees: every short path, every caller
    ///
    /// The trees have up to five nodes: directories, mounts, files, and symlinks with nine bodies; up to four, where a
    /// mount has a map of owners in which one of the callers is nobody. The paths have up to
    /// four components of a, b, . and .., with and without a slash in front and behind. A question whose walk cannot come
    /// to a part of the tree is asked in the tree without that part. All of it takes an hour of one core.
    #[arg(long, conflicts_with = "scenario")]
    pub worlds: bool,

    /// Of the small trees, ask about the K-th of N slices only
    #[arg(long, value_name = "K/N", requires = "worlds", value_parser = slice)]
    pub slice: Option<(usize, usize)>,

    /// Draw the calls on an ext4 instead of a tmpfs, in an image in the temporary directory; and hold no tables
    ///
    /// What is ext4's own is not compared then: sizes of directories, blocks, inode numbers, flags, the limits of extended
    /// attributes.
    #[arg(long, conflicts_with = "scenario")]
    pub ext4: bool,

    /// Draw the calls with a directory of the host as pathwalk's root, in /dev/shm; and hold no tables
    #[arg(long, value_name = "COHERENCE", num_args = 0..=1, require_equals = true, default_missing_value = "exclusive", conflicts_with_all = ["scenario", "ext4"])]
    pub hostfs: Option<OnHost>,

    /// Race so many short scripts of two or three tasks
    ///
    /// What the tasks see when they race on pathwalk must be explained by some order of their calls on the kernel, where
    /// all orders are tried.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "1000",
        conflicts_with = "scenario"
    )]
    pub races: Option<u64>,

    /// Set fs.protected_* of the whole machine, as a table needs, and for drawn calls to all values in turn; and back
    ///
    /// They come back also if this is interrupted. Nothing else that depends on them should run meanwhile: two checks that
    /// draw calls at the same time would each find what the other set. Without this, calls are drawn under the kernel's
    /// settings, and tables that need others are held against pathwalk alone.
    #[arg(long)]
    pub sysctls: bool,

    /// Fail where the kernel cannot be asked everything, which takes root and mount namespaces
    #[arg(long)]
    pub require_kernel: bool,

    /// Print what was compared as a table in Markdown
    #[arg(long)]
    pub summary: bool,

    /// Print the answers that each call gave, as a table in Markdown
    #[arg(long)]
    pub coverage: bool,

    /// Write the table of calls and flags into this page, from the tables alone, and check nothing
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub linux_md: Option<PathBuf>,
}

fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| "not a number, nor two with - between");
    let seeds = number(first)?..=number(last)?;
    if seeds.is_empty() { Err("no seed is in this range".into()) } else { Ok(seeds) }
}

fn slice(text: &str) -> Result<(usize, usize), String> {
    let parse = |text: &str| text.parse::<usize>().ok();
    let parts = text.split_once('/').and_then(|(number, of)| Some((parse(number)?, parse(of)?)));
    parts
        .filter(|(number, of)| (1..=*of).contains(number))
        .ok_or("not of the form K/N, from 1/N to N/N".into())
}

/// What was compared and where the two differ.
pub struct Report {
    held: Held,
    drawn: Option<Drawn>,
    asked: Option<Asked>,
    raced: Option<Raced>,
    seeds: String,
    seconds: f64,
    notes: Vec<String>,
}

impl Report {
    /// What could not be covered, each in a line.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str)
    }

    /// Whether every answer was the same.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.held.wrong.is_empty()
            && self.drawn.as_ref().is_none_or(|drawn| drawn.found.is_empty())
            && self.asked.as_ref().is_none_or(|asked| asked.found.is_empty())
            && self.raced.as_ref().is_none_or(|raced| raced.found.is_empty())
    }
}

/// Runs `pathwalk check`: the report goes to standard output, all else to standard error.
///
/// The exit status is 0 if every answer was the same, 1 if one was not, 2 if nothing could be checked.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    if let Some(page) = &args.linux_md {
        return match write_linux_md(page) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => unusable(&error),
        };
    }
    let report = match check(args) {
        Ok(report) => report,
        Err(error) => return unusable(&error),
    };
    for note in &report.notes {
        eprintln!("pathwalk check: {note}");
    }
    let mut text = report.to_string();
    if args.summary {
        let _ = write!(text, "\n{}", report.summary());
    }
    if args.coverage {
        let mut coverage = report.held.coverage.clone();
        if let Some(drawn) = &report.drawn {
            coverage.merge(&drawn.coverage);
        }
        let _ = write!(text, "\n{coverage}");
    }
    // Whoever closed standard output has read enough.
    let _closed = io::stdout().lock().write_all(text.as_bytes());
    if report.agrees() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn unusable(error: &Error) -> ExitCode {
    eprintln!("pathwalk check: {error}");
    ExitCode::from(2)
}

/// One at a time: a procfs shows the numbers of the process's descriptors, and each check knows of its own only.
static CHECKING: Mutex<()> = Mutex::new(());

/// Checks what the arguments say; waits for whoever does so in the same process.
///
/// # Errors
///
/// A table cannot be used, or the kernel cannot be asked for what to record.
pub fn check(args: &Args) -> Result<Report, Error> {
    let _checking = CHECKING.lock().unwrap_or_else(PoisonError::into_inner);
    let nursery = (powers() == Powers::Root).then(Nursery::new);
    let mut notes = Vec::new();
    match powers() {
        Powers::Root => {}
        _ if args.require_kernel => {
            return Err(Error::unusable(
                "the kernel cannot be asked everything: that takes root and mount namespaces".into(),
            ));
        }
        _ if args.record => {
            return Err(Error::unusable(
                "only root can ask the kernel for answers to record".into(),
            ));
        }
        Powers::OneUser => notes.push(NOT_OF_ONE_USER.into()),
        Powers::None => notes.push("no right to make mount namespaces: pathwalk is held against recorded answers, no call is drawn".into()),
    }
    let begun = Instant::now();
    if args.engine == Engine::Notify && !args.may_notify(&mut notes)? {
        return Ok(Report {
            held: Held::default(),
            drawn: None,
            asked: None,
            raced: None,
            seeds: String::new(),
            seconds: 0.0,
            notes,
        });
    }
    let mut held = Held { sets: args.sysctls, engine: args.engine, ..Held::default() };
    if args.draws() && !args.ext4 && args.hostfs.is_none() {
        for (name, text) in tables() {
            held.hold(name, text, nursery.as_ref())?;
        }
    }
    for path in &args.scenario {
        if let Some(nursery) = nursery.as_ref().filter(|_| args.record) {
            record_file(path, nursery, args.sysctls)?;
        }
        held.hold(&name_of(path), &read(path)?, nursery.as_ref())?;
    }
    notes.append(&mut held.spared);
    if held.left_out != 0 {
        let left_out = held.left_out;
        notes.push(format!("{left_out} scenarios are not for a process under pathwalk run, or for other fs.protected_*: see docs/run.md"));
    }
    let mut seeds = String::new();
    let host_refused = args.hostfs.is_some() && powers() != Powers::Root;
    if host_refused {
        notes
            .push("only root can give files of the host to all of the tasks: none is drawn".into());
    }
    let drawn = (powers() != Powers::None && args.draws() && !host_refused).then(|| {
        let ground = args.ground(&mut notes)?;
        let plan = args.plan(ground, &mut seeds);
        let progress = progress(plan.ops, "calls");
        let drawn = draw(&plan, &progress);
        progress.finish_and_clear();
        drawn.map_err(|error| Error::unusable(format!("fs.protected_* cannot be set: {error}")))
    });
    let drawn = drawn.transpose()?;
    let asked = (nursery.is_some() && args.worlds).then(|| {
        let (number, of) = args.slice.unwrap_or((1, 1));
        let trees = worlds::slice(number, of);
        let progress = progress(trees.len() as u64, "trees");
        let asked = worlds::ask(&trees, args.threads(4), &progress);
        progress.finish_and_clear();
        asked
    });
    let raced = args.races.filter(|_| nursery.is_some()).map(|scripts| {
        let seed = args.seed.as_ref().map_or_else(fresh_seed, |seeds| *seeds.start());
        let progress = progress(scripts, "scripts");
        let raced = races::race(seed, scripts, args.threads(2), &progress);
        progress.finish_and_clear();
        raced
    });
    Ok(Report { held, drawn, asked, raced, seeds, seconds: begun.elapsed().as_secs_f64(), notes })
}

impl Args {
    /// Whether a process can stand for pathwalk.
    ///
    /// # Errors
    ///
    /// It cannot, and must; or it is asked for what no process can be asked.
    fn may_notify(&self, notes: &mut Vec<String>) -> Result<bool, Error> {
        let others = [
            (self.ext4, "--ext4"),
            (self.hostfs.is_some(), "--hostfs"),
            (self.worlds, "--worlds"),
            (self.races.is_some(), "--races"),
            (self.sysctls, "--sysctls"),
            (self.record, "--record"),
        ];
        if let Some((_, option)) = others.iter().find(|(asked, _)| *asked) {
            return Err(Error::unusable(format!("{option} is not for --engine notify")));
        }
        let why = match powers() {
            Powers::Root => Process::start().err(),
            _ => Some("--engine notify takes root: nothing is checked".into()),
        };
        match why {
            None => Ok(true),
            Some(why) if self.require_kernel => Err(Error::unusable(why)),
            Some(why) => {
                notes.push(why);
                Ok(false)
            }
        }
    }

    /// On what calls are drawn.
    ///
    /// # Errors
    ///
    /// There is no ext4, where the kernel must be asked.
    fn ground(&self, notes: &mut Vec<String>) -> Result<Ground, Error> {
        if !self.ext4 {
            return Ok(Ground::Tmpfs);
        }
        match Nursery::on(Ground::Ext4) {
            Ok(_) => Ok(Ground::Ext4),
            Err(why) if self.require_kernel => Err(Error::unusable(format!("no ext4: {why}"))),
            Err(why) => {
                notes.push(format!("no ext4, calls are drawn on a tmpfs: {why}"));
                Ok(Ground::Tmpfs)
            }
        }
    }

    fn plan(&self, ground: Ground, said: &mut String) -> Plan {
        let seeds = match &self.seed {
            Some(seeds) => {
                *said = match (seeds.start(), seeds.end()) {
                    (first, last) if first == last => format!("seed {first}"),
                    (first, last) => format!("seeds {first}-{last}"),
                };
                seeds.clone().collect()
            }
            None => {
                let fresh = fresh_seed();
                // Now, as whatever ends this program may end it before it has reported.
                eprintln!("pathwalk check: the fresh seed is {fresh}");
                *said = format!("seeds 1-5 and {fresh}");
                (1..=5).chain([fresh]).collect()
            }
        };
        // A worker mostly waits: for the kernel to take namespaces apart, for the clock to tick.
        if ground == Ground::Ext4 {
            said.push_str(" on ext4");
        }
        let (ops, on_host) = (self.ops.unwrap_or(200_000), self.hostfs);
        if let Some(coherence) = on_host {
            said.push_str(" on a hostfs that is ");
            said.push_str(coherence.name());
        }
        // Only root may set the machine.
        let sysctls = self.sysctls && powers() == Powers::Root;
        if sysctls {
            said.push_str(" under all of fs.protected_*");
        }
        if self.engine == Engine::Notify {
            said.push_str(" under pathwalk run");
        }
        let (threads, engine) = (self.threads(8), self.engine);
        Plan { seeds, ops, threads, ground, on_host, engine, sysctls }
    }

    /// Whether the tables are held and calls drawn: where nothing else is asked for, or that too.
    fn draws(&self) -> bool {
        let else_asked = self.worlds || self.races.is_some();
        self.scenario.is_empty() && (!else_asked || self.ops.is_some())
    }

    fn threads(&self, each_core: usize) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(each_core * cores).max(1)
    }
}

fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

fn progress(all: u64, what: &str) -> ProgressBar {
    let style =
        format!("{{wide_bar}} {{human_pos}} of {{human_len}} {what}, {{per_sec}}, {{eta}} to go");
    let style = ProgressStyle::with_template(&style).expect("the template is right");
    ProgressBar::new(all).with_style(style)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Report {
    /// What was compared, as a table in Markdown.
    fn summary(&self) -> String {
        let mut text = String::from(
            "| Compared with the running kernel | Calls | Differences |\n|---|--:|--:|\n",
        );
        let mut row = |what: String, calls: u64, found: usize| {
            let calls = with_commas(calls);
            let _ = writeln!(text, "| {what} | {calls} | {found} |");
        };
        if self.held.tables != 0 {
            let (tables, pairs) = (self.held.tables, self.held.coverage.pairs());
            let wrong = self.held.wrong.lines().filter(|line| !line.starts_with(' ')).count();
            let what = of_tables(tables, pairs, self.held.differ);
            let by_record = match self.held.by_record {
                0 => String::new(),
                calls => {
                    format!("; {} more are held against the record", with_commas(calls as u64))
                }
            };
            row(what + &by_record, (self.held.calls - self.held.by_record) as u64, wrong);
        }
        if let Some(Drawn { ops, found, coverage, .. }) = &self.drawn {
            let (seeds, pairs) = (&self.seeds, coverage.pairs());
            row(
                format!("calls drawn from {seeds}, {pairs} pairs of a call and `ok` or an errno"),
                *ops,
                found.len(),
            );
        }
        if let Some(Asked { trees, calls, found }) = &self.asked {
            row(format!("{} small worlds", with_commas(*trees as u64)), *calls, found.len());
        }
        if let Some(Raced { scripts, races, had, possible, found }) = &self.raced {
            let (had, possible) = (with_commas(*had), with_commas(*possible));
            let scripts = with_commas(*scripts);
            row(
                format!("races of {scripts} scripts, {had} of {possible} possible outcomes seen"),
                *races,
                found.len(),
            );
        }
        text
    }
}

fn of_tables(tables: usize, pairs: usize, differ: usize) -> String {
    format!(
        "{tables} tables of scenarios, {pairs} pairs of a call and `ok` or an errno; {differ} of the calls are known to differ"
    )
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { calls, by_record, tables, wrong, .. } = &self.held;
        f.write_str(wrong)?;
        let verdict = if wrong.is_empty() { "as Linux answered" } else { "WRONG, see above" };
        let how = match by_record {
            0 => String::new(),
            calls => format!(", {calls} of them held against the record alone"),
        };
        if *tables != 0 {
            writeln!(f, "{calls} calls in {tables} tables{how}: {verdict}")?;
        }
        if let Some(Asked { trees, calls, found }) = &self.asked {
            for scenario in found {
                writeln!(f, "\n{scenario}")?;
            }
            let (rate, found) = (*calls as f64 / self.seconds, found.len());
            writeln!(
                f,
                "{calls} calls in {trees} small worlds: {found} differences ({rate:.0} calls/s)"
            )?;
        }
        if let Some(Raced { scripts, races, possible, had, found }) = &self.raced {
            for scenario in found {
                writeln!(f, "\n{scenario}")?;
            }
            let found = found.len();
            writeln!(
                f,
                "{races} races of {scripts} scripts: {found} outcomes unexplained ({had} of {possible} possible ones seen)"
            )?;
        }
        let Some(Drawn { ops, found, coverage, .. }) = &self.drawn else { return Ok(()) };
        for scenario in found {
            writeln!(f, "\n{scenario}")?;
        }
        let rate = coverage.total() as f64 / self.seconds;
        let (seeds, pairs, found) = (&self.seeds, coverage.pairs(), found.len());
        writeln!(
            f,
            "{ops} calls drawn from {seeds}: {found} differences ({pairs} pairs of a call and ok or an errno, {rate:.0} calls/s)"
        )
    }
}

/// The tables that come with the program: name and text.
#[must_use]
pub fn tables() -> &'static [(&'static str, &'static str)] {
    include!(concat!(env!("OUT_DIR"), "/tables.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    #[test]
    fn the_readme_counts_what_the_tables_have() {
        let mut held = Held::default();
        for (name, text) in tables() {
            let scenarios = parse(text).unwrap_or_else(|error| panic!("{name}:{error}"));
            scenarios.iter().for_each(|scenario| held.count(scenario));
        }
        let what = of_tables(tables().len(), held.coverage.pairs(), held.differ);
        let row = format!("| {what} | {} | 0 |", with_commas(held.calls as u64));
        let readme = include_str!("../../../README.md");
        assert!(readme.lines().any(|line| line == row), "README.md lacks the line {row}");
    }
}
