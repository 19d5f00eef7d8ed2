//! Who stays on the supervisor's CPU for a moment sees nothing of it, nor does who was made meanwhile.

use super::{
    attacks::cc,
    common::can_run,
    inside::{in_the_tree, said},
};
use crate::left_out::left_out;
use std::process::Command;
use tempfile::TempDir;

fn stay(dir: &TempDir) -> String {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/stay.c");
    cc(dir.path(), &["-o", "stay", source, "-ldl", "-lpthread"]);
    dir.path().join("stay").display().to_string()
}

/// What it says natively, and where its directory is read-only: there a program is run by its path.
fn same(script: &str) {
    if !can_run(&["cc"]) {
        return;
    }
    if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
        left_out("there is one CPU");
        return;
    }
    let (dir, here) = (TempDir::new_in("/var/tmp").unwrap(), TempDir::new_in("/tmp").unwrap());
    let script = script.replace("stay", &stay(&dir));
    let sorted = |command: &mut Command| {
        // A test has one, by which the interpreter looks for each library in many directories.
        let said = said(command.env_remove("LD_LIBRARY_PATH").args(["sh", "-c", &script]));
        let mut lines: Vec<String> = said.lines().map(Into::into).collect();
        lines.sort();
        lines
    };
    let native = sorted(Command::new("env").current_dir(here.path()));
    let bind = format!("{0}:{0}:ro", dir.path().display());
    assert_eq!(sorted(&mut in_the_tree(here.path(), &["--bind", &bind])), native);
    assert!(native.len() >= 3, "{native:?}");
}

#[test]
fn who_is_made_by_a_program_that_begins_runs_where_it_might() {
    same(
        "for i in 1 2 3 4 5 6; do stay loads; done; for i in 1 2 3 4 5 6 7 8 9 10; do stay begins; stay leaves; stay daemon; done; sleep 0.1",
    );
}

#[test]
fn who_is_made_by_who_runs_programs_runs_where_he_might() {
    same("stay runs; stay runs; stay runs");
}

/// Whoever is given those whose parents ended.
#[test]
fn who_is_made_by_who_runs_programs_and_has_another_parent_runs_where_he_might() {
    let job = "for i in 1 2 3 4 5 6 7 8; do /bin/true; done; (sleep 0.4; nproc) &";
    same(&format!("for i in 1 2 3 4; do stay reaps sh -c '{job}'; done"));
}

#[test]
fn who_asks_at_once_is_told_where_one_may_run() {
    same("stay told; stay asks; stay told; stay asks");
}

/// Where somebody is said to run he stays, and who comes of him.
#[test]
fn who_is_bound_stays_bound() {
    let short = "/bin/true; /bin/true; /bin/true; /bin/true";
    let asks = "taskset -c $cpu sh -c 'nproc; sleep 0.2; nproc; taskset -p $$ | sed s/.*://'";
    let [first, last] = cpus();
    same(&format!("for cpu in {first} {last} {first} {last}; do {short}; {asks}; {short}; done"));
}

/// Also who was run just then.
#[test]
fn who_is_bound_while_he_is_run_stays_bound() {
    // Nobody is kept from the first time on.
    for _ in 0..12 {
        same("stay binds; stay told");
    }
}

/// The first CPU on which a test may run, and the last.
fn cpus() -> [u32; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let mut numbers = list.trim().split([',', '-']).map(|number| number.parse().unwrap());
    let first = numbers.next().unwrap();
    [first, numbers.next_back().unwrap_or(first)]
}
