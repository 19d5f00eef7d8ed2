//! `instructions`: how many instructions pathwalk's calls take, counted under valgrind.
//!
//! Unlike time they do not depend on what else the machine does, so a call that became dearer is seen at once, and by
//! everybody. What they are to be is written down in `data/instructions.tsv`; who changes it on purpose writes it anew.
//!
//! This program is run once more for each case, as a contender of its own: `valgrind` counts while [`measured`] runs, and
//! only then.

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::contender::{Contender, Worker};
use crate::pathwalk::Pathwalk;
use crate::workload::Workload;
use pathwalk::Coherence;

/// What stands for this on the command line.
pub(crate) const NAME: &str = "instructions";
/// What it does, in one line.
pub(crate) const ABOUT: &str =
    "instructions of pathwalk's calls, counted by valgrind, beside what they were";

/// What the calls took when it was last written: the compiler; then workload, case, subject (pathwalk, without-memo, or
/// hostfs-strict), and the instructions of an operation.
const WRITTEN: &str = include_str!("../data/instructions.tsv");
/// What built this program.
const RUSTC: &str = env!("PATHWALK_RUSTC");
/// A count may be so much higher, and so much where another compiler built this program than the one whose counts were written.
const SLACK: f64 = 1.05;
const SLACK_OF_ANOTHER: f64 = 1.15;
/// So often at most.
const TURNS: usize = 3;
/// Rounds before those that are counted: paths are met, memory is there.
const WARM: usize = 3;

/// One line of the file.
struct Line {
    workload: String,
    case: String,
    subject: String,
    instructions: f64,
}

/// Counts all cases of the file, prints them, and fails where one takes more than it did.
pub(crate) fn run(out: Option<&Path>) -> Result<(), Error> {
    let (compiler, lines) = parse(WRITTEN)?;
    let slack = slack(compiler, RUSTC);
    if slack > SLACK {
        println!("Built with {RUSTC}, written with {compiler}: {slack} times as many may be.");
    }
    let mut counted = format!("{RUSTC}\n");
    let mut dearer = Vec::new();
    for Line { workload, case, subject, instructions: before } in lines {
        // Names hash differently in each run, and meet in other chains: the least counts.
        let mut now = f64::INFINITY;
        for _ in 0..TURNS {
            now = now.min(count(&workload, &case, &subject)?);
            if now <= before * slack && out.is_none() {
                break;
            }
        }
        println!(
            "{workload:<14} {case:<18} {subject:<12} {now:8.1} instructions, {before:.1} before"
        );
        counted += &format!("{workload}\t{case}\t{subject}\t{now:.1}\n");
        if now > before * slack {
            dearer.push(format!("{workload} {case} {subject}: {now:.1} instead of {before:.1}"));
        }
    }
    if let Some(file) = out {
        return fs::write(file, counted).map_err(|cause| Error::doing(file.display(), cause));
    }
    if dearer.is_empty() {
        return Ok(());
    }
    let dearer = dearer.join("; ");
    let what = format!(
        "{dearer}. If that is what a change is worth, write them anew: \
         pathwalk bench instructions --out crates/pathwalk-bench/data/instructions.tsv"
    );
    Err(Error::new(what))
}

/// How many times what was written a count may be.
fn slack(written_with: &str, built_with: &str) -> f64 {
    if written_with == built_with { SLACK } else { SLACK_OF_ANOTHER }
}

fn parse(text: &str) -> Result<(&str, Vec<Line>), Error> {
    let (compiler, rest) = text.split_once('\n').unwrap_or((text, ""));
    let lines = rest.lines().map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
        [workload, case, subject, count] => count.parse().ok().map(|instructions| {
            let [workload, case, subject] = [workload, case, subject].map(str::to_owned);
            Line { workload, case, subject, instructions }
        }),
        _ => None,
    });
    let lines = lines.collect::<Option<_>>();
    Ok((compiler, lines.ok_or_else(|| Error::new("data/instructions.tsv: not of four columns"))?))
}

/// Instructions of one operation: this program once more, under valgrind.
fn count(workload: &str, case: &str, subject: &str) -> Result<f64, Error> {
    let doing = format!("counting the instructions of {workload} {case} {subject}");
    let program = env::current_exe().map_err(|cause| Error::doing(&doing, cause))?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg("--toggle-collect=*instructions*measured*").arg(program);
    valgrind.args(["bench", workload, "--quick", "--counted", &format!("{subject}={case}")]);
    let output = valgrind.output().map_err(|cause| Error::doing(&doing, cause))?;
    let (said, counted) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let ops: Option<f64> = said.trim().parse().ok().filter(|&ops| ops > 0.0);
    let collected = counted.lines().find_map(|line| line.split_once("Collected : "));
    let collected: Option<f64> = collected.and_then(|(_, count)| count.trim().parse().ok());
    match (output.status.success(), ops, collected) {
        (true, Some(ops), Some(collected)) if collected > ops => Ok(collected / ops),
        _ => Err(Error::doing(&doing, format_args!("{}: {counted}", output.status))),
    }
}

/// Is the counted program: makes the calls of a case, and says how many it made while it was counted.
pub(crate) fn be_counted<W: Workload>(subject: &str, case: &str) -> Result<(), Error> {
    let workload = W::new(true)?;
    let cases = workload.cases();
    let Some(at) = cases.iter().position(|known| known.name == case) else {
        return Err(Error::new(format!("{} has no case {case:?}", W::NAME)));
    };
    let strict = Pathwalk::on_host(Coherence::Strict)?;
    let contenders = [Pathwalk::new()?, Pathwalk::walking()?, strict];
    let Some(contender) = contenders.iter().find(|known| known.name() == subject) else {
        return Err(Error::new(format!("there is no subject {subject:?}")));
    };
    let mut worker = contender.worker()?;
    workload.setup(&mut worker, 1)?;
    for _ in 0..WARM {
        workload.round(at, 0, &mut worker);
    }
    black_box(measured(&workload, at, &mut worker));
    println!("{}", cases[at].ops);
    Ok(())
}

/// What is counted: one round. Its name is what valgrind looks for.
#[inline(never)]
fn measured<W: Workload, T: Worker>(work: &W, case: usize, worker: &mut T) -> u64 {
    work.round(case, 0, worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ALL;

    #[test]
    fn with_another_compiler_too_there_is_a_limit() {
        let (written_with, _) = parse(WRITTEN).expect("it can be read");
        assert_eq!(slack(written_with, written_with), 1.05);
        assert_eq!(slack(written_with, "rustc 1.0.0"), 1.15);
    }

    #[test]
    fn what_is_counted_is_there() {
        let (_, lines) = parse(WRITTEN).expect("it can be read");
        assert!(lines.len() >= 6, "six at least");
        for Line { workload, instructions, .. } in lines {
            assert!(ALL.iter().any(|entry| entry.name == workload), "{workload}");
            assert!(instructions > 10.0);
        }
    }
}
