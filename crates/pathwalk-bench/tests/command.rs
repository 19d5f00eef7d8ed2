//! The command as a program sees it: rows, exit status, and the lines on standard error.
//!
//! Times are never compared here, only answers.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pathwalk-bench");

#[test]
fn a_quick_run_reports_the_kernel_the_floor_and_another_build() {
    let without = format!("without-nothing={PROGRAM}");
    let args = ["gcc-205", "--quick", "--json", "--threads", "1", "--contender", &without];
    let output = bench(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&output);
    let subjects: Vec<&str> =
        rows.iter().map(|row| row["subject"].as_str().expect("a subject")).collect();
    if subjects.contains(&"kernel-tmpdir") {
        left_out(format_args!("no mounts here: {}", stderr(&output)));
        assert_eq!(
            subjects,
            ["kernel", "kernel-tmpdir", "pathwalk", "without-memo", "floor", "without-nothing"]
        );
    } else if subjects.contains(&"kernel-ext4") {
        let all = [
            "kernel",
            "kernel-tmpfs",
            "kernel-ext4",
            "pathwalk",
            "without-memo",
            "floor",
            "without-nothing",
        ];
        assert_eq!(subjects, all);
    } else {
        left_out(format_args!("no ext4 here: {}", stderr(&output)));
        assert_eq!(
            subjects,
            ["kernel", "kernel-tmpfs", "pathwalk", "without-memo", "floor", "without-nothing"]
        );
    }
    for row in &rows {
        assert_eq!(row["bench"], "gcc-205");
        assert_eq!(row["threads"], 1);
        assert_eq!(row["mismatches"], 0);
        assert!(row["spread"].as_f64() >= Some(0.0), "{row}");
        let ns = |row: &Value| row["ns_per_op"].as_f64().expect("a time");
        let ratio = row["ratio_to_kernel"].as_f64().expect("a ratio");
        // Decimal text costs the last bit.
        assert!((ratio - ns(&rows[0]) / ns(row)).abs() < 1e-9 * ratio, "{row}");
        if row["subject"].as_str().is_some_and(|subject| subject.starts_with("kernel")) {
            assert!(ratio <= 1.0, "the kernel is the faster one: {row}");
        }
    }
}

#[test]
fn every_number_of_threads_has_its_rows() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let usual: BTreeSet<usize> = [1, cores.min(2), cores].into();
    let twice: BTreeSet<usize> = [1, cores.min(2), cores, 2 * cores].into();
    // A row of the floor, or of a case, for each.
    for (bench_args, subject, case, want) in [
        (&["gcc-205"][..], "floor", "", usual),
        (&["scale"], "pathwalk", "stat, same file", twice),
        (&["gcc-205", "--threads", "1"], "floor", "", [1].into()),
        (
            &["statx", "--threads", &(2 * cores).to_string()],
            "pathwalk",
            "fstat",
            (1..=2 * cores).collect(),
        ),
    ] {
        let output = bench(&[bench_args, &["--quick", "--json"]].concat());
        assert!(output.status.success(), "{bench_args:?}: {}", stderr(&output));
        let rows = rows(&output);
        let own = rows.iter().filter(|row| row["subject"] == subject && row["case"] == case);
        let threads: Vec<usize> =
            own.map(|row| row["threads"].as_u64().expect("a number") as usize).collect();
        assert_eq!(threads, want.into_iter().collect::<Vec<_>>(), "{bench_args:?}");
    }
    let output = bench(&["gcc-205", "--threads", &(2 * cores + 1).to_string()]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// One answer is turned round on its way, so that the rest of the run is as always.
#[test]
fn one_wrong_answer_fails_the_run_and_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let liar = dir.path().join("liar");
    // The last of the calls that found a file; the program's name is its own word.
    let script = format!(
        "#!/bin/sh\n{PROGRAM} \"$@\" | sed -u 's/^answers 2 \\(.*\\) 0/answers 2 \\1 13/'\n"
    );
    std::fs::write(&liar, script).expect("a script");
    std::fs::set_permissions(&liar, PermissionsExt::from_mode(0o755)).expect("executable");
    let contender = format!("liar={}", liar.display());
    let output =
        bench(&["gcc-205", "--quick", "--json", "--threads", "1", "--contender", &contender]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    let line = said.lines().find(|line| line.starts_with("wrong answer")).expect("the line");
    assert!(line.starts_with("wrong answer: access /"), "{line}");
    assert!(line.ends_with(": recorded OK, liar EACCES"), "{line}");
    assert!(
        said.ends_with("pathwalk bench: gcc-205: 1 of 205 calls got a wrong answer\n"),
        "{said}"
    );
    for row in rows(&output) {
        assert_eq!(row["mismatches"], usize::from(row["subject"] == "liar"));
        assert_eq!(row["ns_per_op"], Value::Null);
    }
}

#[test]
fn the_list_names_every_benchmark() {
    let output = bench(&["--list"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let listed = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names[..3], ["gcc-205", "compile-replay", "realpath"]);
    assert!(names.ends_with(&["instructions", "run", "all", "record"]), "{names:?}");
    for name in names {
        // Arguments are looked at before anything runs.
        let output = bench(&[name, "--threads", "0"]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", stderr(&output));
    }
}

#[test]
fn a_benchmark_of_several_cases_has_rows_for_each_and_is_drawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let plots = dir.path().to_str().expect("a path in UTF-8");
    let output = bench(&["scale", "--quick", "--json", "--threads", "1", "--plot", plots]);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&output);
    for case in ["stat, same file", "open, private trees"] {
        let own = |row: &&Value| row["case"] == case && row["subject"] == "pathwalk";
        assert_eq!(rows.iter().filter(own).count(), 1, "{case}");
    }
    let drawing = std::fs::read_to_string(dir.path().join("scale.svg")).expect("a drawing");
    assert!(drawing.contains("<svg") && drawing.contains("open, private trees"), "{drawing}");
}

#[test]
fn lookups_beside_mounts_have_quiet_ones_to_be_compared_with() {
    let output = bench(&["mount-storm", "--quick", "--threads", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).expect("text");
    for case in ["access", "access in one of the mounts,"] {
        let beside = format!("- pathwalk, {case} beside mount+umount over ");
        let line = said.lines().find(|line| line.starts_with(&beside)).expect(&said);
        assert!(line.contains("; target at most 1.1: "), "{line}");
    }
}

#[test]
fn arguments_that_mean_nothing_end_with_status_2() {
    for args in [
        &[][..],
        &["gcc-206"],
        &["gcc-205", "--threads", "0"],
        &["gcc-205", "--seconds", "0"],
        &["gcc-205", "--seconds", "nan"],
        &["gcc-205", "--quick", "--seconds", "1"],
        &["gcc-205", "--contender", "name"],
        &["gcc-205", "--data", "."],
        &["instructions", "--data", "."],
        &["gcc-205", "--", "true"],
        &["all", "--", "true"],
        &["instructions", "--json"],
        &["record"],
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// Something else stands where the directory is to be: root, too, cannot write there.
#[test]
fn where_nothing_can_be_written_nothing_is_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let below = file.join("below");
    let below = below.to_str().expect("a path in UTF-8");
    for args in [
        &["gcc-205", "--quick", "--json", "--out", below][..],
        &["gcc-205", "--quick", "--json", "--plot", below],
        &["all", "--quick", "--json", "--out", below],
        &["run", "--quick", "--json", "--out", below],
        &["instructions", "--out", below],
        &["record", "--out", below, "--", "touch", dir.path().join("ran").to_str().expect("UTF-8")],
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(stderr(&output).contains("writing to "), "{args:?}: {}", stderr(&output));
    }
    assert!(!dir.path().join("ran").exists());
}

fn bench(args: &[&str]) -> Output {
    Command::new(PROGRAM).arg("bench").args(args).output().expect("the program runs")
}

fn rows(output: &Output) -> Vec<Value> {
    let text = str::from_utf8(&output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
