//! What each optimisation is worth: the same program without it, in the same run.
//!
//! ```text
//! target/ablate/plain/HOST/release/pathwalk bench gcc-205
//!     --contender without-step_into=target/ablate/step_into/HOST/release/pathwalk
//!     --contender without-may_exec=target/ablate/may_exec/HOST/release/pathwalk …
//! ```
//!
//! One run, because two runs on a noisy machine differ by more than an optimisation gains. Each
//! build has a target directory of its own, so that a second run compiles nothing.

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The values of `--cfg pathwalk_ablate="…"`: each restores the way of before one optimisation.
#[cfg(test)]
const SWITCHES: [&str; 5] = ["memo", "step_into", "may_exec", "statx", "forget_root"];

/// What is measured: each switch alone; and for those that do more where a walk is walked, which a remembered one is not,
/// also together with `memo`. So `memo+step_into` is to be compared with `without-memo`, which every run has.
const VARIANTS: [&str; 7] = [
    "memo+step_into",
    "memo+may_exec",
    "memo+forget_root",
    "step_into",
    "may_exec",
    "statx",
    "forget_root",
];

/// How `ablate` measures.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The benchmark, as `pathwalk bench` knows it.
    #[arg(default_value = "gcc-205")]
    bench: String,

    /// Measures in fewer rounds: a first look, not a figure to publish.
    #[arg(long)]
    quick: bool,

    /// Writes samples, table and drawing into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Builds every variant, then lets the plain one measure itself against the others.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let host = host()?;
    let plain = build(root, &host, None)?;
    let mut contenders = Vec::new();
    for variant in VARIANTS {
        contenders.push((variant, build(root, &host, Some(variant))?));
    }

    let mut bench = Command::new(plain);
    bench.args(bench_arguments(&contenders, options)).current_dir(root);
    eprintln!("running {bench:?}");
    Ok(if bench.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What cargo calls this machine, and the directory of what it builds for it.
fn host() -> Result<String, Box<dyn Error>> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).args(["--print", "host-tuple"]).output()?;
    if !said.status.success() {
        return Err(format!("rustc does not say what this machine is: {}", said.status).into());
    }
    Ok(String::from_utf8(said.stdout)?.trim().into())
}

/// Builds the program, without the optimisations of `variant` if there is one, and says where it is.
fn build(root: &Path, host: &str, variant: Option<&str>) -> Result<PathBuf, Box<dyn Error>> {
    let name = variant.unwrap_or("plain");
    let target = root.join("target/ablate").join(name);
    eprintln!("building {name}");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--release", "--package", "pathwalk-cli"])
        .args(["--target", host, "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", rustflags(env::var_os("RUSTFLAGS").as_deref(), variant))
        // Cargo would take it instead of RUSTFLAGS.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(root)
        .status()?;
    if !status.success() {
        return Err(format!("the build of {name} failed: {status}").into());
    }
    Ok(target.join(host).join("release/pathwalk"))
}

/// Linked as `.cargo/config.toml` says, whose flags these take the place of.
const STATICALLY: &str = " -C target-feature=+crt-static";

/// The caller's flags, so that a `-C target-cpu` holds for all variants, and how to link, if he does not say; and the switches.
fn rustflags(callers: Option<&OsStr>, variant: Option<&str>) -> OsString {
    let mut flags = callers.unwrap_or_default().to_owned();
    if !flags.to_string_lossy().contains("crt-static") {
        flags.push(STATICALLY);
    }
    for switch in variant.into_iter().flat_map(|variant| variant.split('+')) {
        flags.push(format!(" --cfg pathwalk_ablate=\"{switch}\""));
    }
    flags
}

fn bench_arguments(contenders: &[(&str, PathBuf)], options: &Options) -> Vec<OsString> {
    let mut arguments = vec!["bench".into(), options.bench.clone().into()];
    if options.quick {
        arguments.push("--quick".into());
    }
    if let Some(dir) = &options.out {
        arguments.extend(["--out".into(), dir.into()]);
    }
    for (switch, binary) in contenders {
        arguments.push("--contender".into());
        let mut contender = OsString::from(format!("without-{switch}="));
        contender.push(binary);
        arguments.push(contender);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_switch_is_added_to_the_flags_of_the_caller() {
        let callers = OsStr::new("-C target-cpu=native");
        assert_eq!(
            rustflags(Some(callers), Some("statx")),
            r#"-C target-cpu=native -C target-feature=+crt-static --cfg pathwalk_ablate="statx""#
        );
        assert_eq!(
            rustflags(None, Some("memo+statx")),
            r#" -C target-feature=+crt-static --cfg pathwalk_ablate="memo" --cfg pathwalk_ablate="statx""#
        );
        assert_eq!(rustflags(None, None), STATICALLY);
        let dynamically = OsStr::new("-C target-feature=-crt-static");
        assert_eq!(rustflags(Some(dynamically), None), dynamically);
    }

    #[test]
    fn every_variant_is_a_contender() {
        let contenders = [("step_into", "a/pathwalk".into()), ("statx", "b c/pathwalk".into())];
        assert_eq!(
            bench_arguments(
                &contenders,
                &Options { bench: "statx".into(), quick: true, out: Some("dir".into()) }
            ),
            [
                "bench",
                "statx",
                "--quick",
                "--out",
                "dir",
                "--contender",
                "without-step_into=a/pathwalk",
                "--contender",
                "without-statx=b c/pathwalk"
            ]
        );
        let usual = Options { bench: "gcc-205".into(), quick: false, out: None };
        assert_eq!(bench_arguments(&[], &usual), ["bench", "gcc-205"]);
    }

    #[test]
    fn every_switch_is_in_a_variant() {
        // Every run of the benchmark has a row without the memo.
        for switch in SWITCHES.into_iter().filter(|&switch| switch != "memo") {
            assert!(VARIANTS.contains(&switch), "{switch}");
        }
        for variant in VARIANTS {
            assert!(variant.split('+').all(|switch| SWITCHES.contains(&switch)), "{variant}");
        }
    }

    #[test]
    fn what_is_measured_is_linked_as_what_is_used() {
        let config = fs::read_to_string(crate::root().join(".cargo/config.toml")).unwrap();
        let flags: Vec<&str> = STATICALLY.split_whitespace().collect();
        let said: Vec<_> = config.lines().filter(|line| line.starts_with("rustflags")).collect();
        assert_eq!(said, [format!("rustflags = {flags:?}")]);
    }

    #[test]
    fn the_switches_are_those_that_the_compiler_knows() {
        let manifest = fs::read_to_string(crate::root().join("Cargo.toml")).unwrap();
        let values = SWITCHES.map(|switch| format!("{switch:?}")).join(", ");
        let declared = format!("cfg(pathwalk_ablate, values({values}))");
        assert!(manifest.contains(&declared), "Cargo.toml has no check-cfg {declared}");
    }
}
