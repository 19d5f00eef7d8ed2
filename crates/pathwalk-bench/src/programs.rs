//! `pathwalk bench run`: real programs in a tree of `pathwalk run`, beside the same without, and beside others that give programs
//! a tree of their own, where they are installed.
//!
//! All take turns. What each prints must be what it prints natively; else there is no figure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use crate::Error;
use crate::all;
use crate::args::Args;
use crate::report::{Figure, at_most, machine, table};
use crate::stats::Summary;

pub(crate) const NAME: &str = "run";
pub(crate) const ABOUT: &str =
    "programs in a tree of pathwalk run: compiling, git, find, python, starting";

/// Files of the repository that git looks at.
const FILES: usize = 5_000;

/// What is run.
struct Work {
    name: &'static str,
    /// What must be there for it.
    program: &'static str,
    script: &'static str,
    /// How many times the native time it may take in a tree.
    at_most: f64,
}

const WORK: [Work; 5] = [
    Work {
        name: "gcc -c, 30 times",
        program: "cc",
        script: "for i in $(seq 30); do cc -c main.c -o /tmp/$$.o; done; rm /tmp/$$.o",
        at_most: 1.45,
    },
    Work {
        name: "git status, 5,000 files",
        program: "git",
        script: "cd repository && git status --short",
        at_most: 4.6,
    },
    Work {
        name: "find /usr -type f",
        program: "find",
        script: "find /usr -type f | wc -l",
        at_most: 4.7,
    },
    Work {
        name: "python with imports, 20 times",
        program: "python3",
        script: "for i in $(seq 20); do python3 -c 'import json, os, re, subprocess'; done",
        at_most: 1.25,
    },
    Work {
        name: "/bin/true, 200 times",
        program: "sh",
        script: "for i in $(seq 200); do /bin/true; done",
        at_most: 1.5,
    },
];

/// Who runs it. `DIR` is the directory that it runs in.
const WAYS: [(&str, &[&str]); 6] = [
    ("native", &[]),
    ("pathwalk", &["SELF", "run"]),
    // Every path call is received, and the kernel goes on with it.
    ("notify floor", &["SELF", "run", "--pass-all"]),
    (
        "bwrap",
        &[
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
            "--bind",
            "DIR",
            "DIR",
            "--chdir",
            "DIR",
        ],
    ),
    ("proot", &["proot", "-w", "DIR"]),
    ("fakechroot", &["fakechroot"]),
];

#[derive(Serialize)]
struct Row<'r> {
    bench: &'static str,
    case: &'r str,
    subject: &'r str,
    ms: f64,
    spread: f64,
    ratio_to_native: f64,
    ratio_spread: f64,
}

/// Runs all of it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let rounds = if args.quick { 1 } else { 9 };
    let dir = tempfile::tempdir().map_err(|cause| Error::doing("a directory", cause))?;
    prepare(dir.path())?;
    let ways: Vec<_> = WAYS.iter().filter(|(_, words)| there(words)).collect();
    let mut out = std::io::stdout().lock();
    let unprintable = |cause| Error::doing("printing", cause);
    let names = std::iter::once("work").chain(ways.iter().map(|way| way.0));
    let names: Vec<String> = names.map(str::to_owned).collect();
    let mut shown = table(&names, &[0]);
    let mut raw = String::from("bench,case,subject,sample,ms\n");
    let mut findings = String::new();
    for Work { name: case, program, script, at_most: most } in WORK {
        if !is_installed(program) {
            eprintln!("pathwalk bench: {program} is not installed: {case} is left out");
            continue;
        }
        let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut wrong: BTreeMap<&str, String> = BTreeMap::new();
        let (_, want) = once(&[], dir.path(), script).map_err(Error::new)?;
        // The first round only fills caches.
        for round in 0..=rounds {
            for (name, words) in &ways {
                match once(words, dir.path(), script) {
                    Ok((ms, said)) if said == want => {
                        if round > 0 {
                            times.entry(name).or_default().push(ms);
                        }
                    }
                    Ok(_) => _ = wrong.insert(name, "it prints something else".into()),
                    Err(error) => _ = wrong.insert(name, error),
                }
            }
        }
        for name in ["native", "pathwalk"] {
            if let Some(error) = wrong.get(name) {
                return Err(Error::new(format!("{case}: {name}: {error}")));
            }
        }
        let mut cells = vec![case.to_owned()];
        for (name, _) in &ways {
            let Some(sum) = summary(&times, name).filter(|_| !wrong.contains_key(name)) else {
                cells.push("wrong".into());
                continue;
            };
            for (number, ms) in times[name].iter().enumerate() {
                let _ = writeln!(raw, "{NAME},\"{case}\",{name},{number},{ms:.3}");
            }
            // A machine that is slower for a while is so for both.
            let natively = times.get("native").into_iter().flatten();
            let turns: Vec<_> =
                times[name].iter().zip(natively).map(|(own, of)| own / of).collect();
            let Some(over) = Summary::of(&turns) else { continue };
            if *name == "pathwalk"
                && let Some(finding) =
                    at_most(&format!("{case}, over native"), Figure::of(turns), most)
            {
                let _ = writeln!(findings, "- {finding}");
            }
            let ratio = over.median;
            if args.json {
                let Summary { median: ms, spread } = sum;
                let (bench, subject, ratio_to_native) = (NAME, name, ratio);
                let ratio_spread = over.spread;
                let row = Row { bench, case, subject, ms, spread, ratio_to_native, ratio_spread };
                let line = serde_json::to_string(&row).map_err(|c| Error::doing("json", c))?;
                writeln!(out, "{line}").map_err(unprintable)?;
            }
            cells.push(match *name {
                "native" => format!("{:.0} ms ±{:.0}%", sum.median, 100.0 * sum.spread),
                _ => format!("{ratio:.2} ±{:.0}%", 100.0 * over.spread),
            });
        }
        shown.add_row(cells);
    }
    let times = format!(
        "Medians of {rounds}, in turns; each over the native one of its turn. ± is how far their quartiles lie apart, of native that of the times. Notify floor: the same calls are told to a \
         supervisor, which has the kernel go on with each."
    );
    if !args.json {
        writeln!(out, "{}\n\n{shown}\n\n{findings}\n{times}", machine()).map_err(unprintable)?;
    }
    match &args.out {
        Some(dir) => {
            let summary = all::summary(NAME, ABOUT, &format!("{shown}\n\n{findings}\n{times}\n"));
            all::write_texts(dir, NAME, &raw, &summary)
        }
        None => Ok(()),
    }
}

fn summary(times: &BTreeMap<&str, Vec<f64>>, name: &str) -> Option<Summary> {
    times.get(name).and_then(|samples| Summary::of(samples))
}

/// A C file, and a repository.
fn prepare(dir: &Path) -> Result<(), Error> {
    let failed = |cause: std::io::Error| Error::doing("preparing the work", cause);
    let program = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { return puts(\"a\"); }\n";
    fs::write(dir.join("main.c"), program).map_err(failed)?;
    for number in 0..FILES {
        let below = dir.join(format!("repository/{:02}/{:02}", number / 500, number / 50 % 10));
        fs::create_dir_all(&below).map_err(failed)?;
        fs::write(below.join(number.to_string()), number.to_string()).map_err(failed)?;
    }
    if is_installed("git") {
        let script = "cd repository; git init -q; git add .; git -c user.name=n -c user.email=e commit -q -m all; echo new > new";
        once(&[], dir, script).map_err(Error::new)?;
    }
    Ok(())
}

/// Runs a script one way; says how many milliseconds it took, and what it printed.
fn once(way: &[&str], dir: &Path, script: &str) -> Result<(f64, Vec<u8>), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let words = way.iter().map(|&word| match word {
        "SELF" => own.as_os_str(),
        "DIR" => dir.as_os_str(),
        word => word.as_ref(),
    });
    let mut words = words.chain(["sh", "-c", script].map(AsRef::as_ref));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(dir).stdin(Stdio::null());
    let began = Instant::now();
    let output = command.output().map_err(|error| error.to_string())?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    if output.status.success() {
        Ok((ms, output.stdout))
    } else {
        Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn there(way: &[&str]) -> bool {
    way.first().is_none_or(|&program| program == "SELF" || is_installed(program))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
