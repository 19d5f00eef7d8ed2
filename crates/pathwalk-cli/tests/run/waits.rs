//! Who waits in a call with a path in it, as in opening a fifo, is interrupted as natively.

use crate::{
    attacks::cc,
    common::{Running, can_run, said, text},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::Read,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

#[test]
fn who_waits_is_interrupted_as_natively() {
    if !can_run(&["cc"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/waits.c");
    cc(here.path(), &["-O1", "-pthread", "-Wno-unused-result", "-o", "waits", source]);
    // Who does not come to wait in time, as others use the machine, is interrupted before: then it is tried again.
    let turn = |turn: usize| {
        let dirs = ["native", "tree"].map(|name| format!("{name}{turn}"));
        dirs.iter().for_each(|dir| std::fs::create_dir(here.path().join(dir)).unwrap());
        let native = Command::new("./waits").arg(&dirs[0]).current_dir(here.path()).output();
        let want = text(&native.unwrap().stdout);
        assert!(want.contains("handled 1\n"), "{want}");
        let have = said(here.path(), &["./waits", &dirs[1]]);
        let differ = want.lines().zip(have.lines()).filter(|(want, have)| want != have);
        let mut differ: Vec<_> = differ.map(|(want, have)| format!("{want} / {have}")).collect();
        if have.lines().count() != want.lines().count() {
            differ.push(have);
        }
        differ
    };
    let differ: Vec<_> = (0..3).map(turn).take_while(|differ| !differ.is_empty()).collect();
    assert!(differ.len() < 3, "natively / in the tree: {differ:#?}");
}

/// A shell that waits is told to end, which it does by its own words.
#[test]
fn a_shell_that_waits_for_a_fifo_springs_its_trap() {
    if !can_run(&["sh", "mkfifo"]) {
        return;
    }
    for waits in ["true < f", "exec cat < f"] {
        let script = format!("mkfifo f; trap 'echo got; exit 3' TERM; echo ready; {waits}; exit 4");
        let here = [(); 2].map(|()| TempDir::new().unwrap());
        let native = is_told_to_end(here[0].path(), &["sh", "-c", &script]);
        let program = env!("CARGO_BIN_EXE_pathwalk");
        let have = is_told_to_end(here[1].path(), &[program, "run", "sh", "-c", &script]);
        assert_eq!(have, native, "{waits}");
    }
}

/// What a program says and how it ends that is sent `SIGTERM` when it has said a line and waits.
fn is_told_to_end(here: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(args[0]);
    command.args(&args[1..]).current_dir(here).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = Running(child.expect("it starts"));
    let (mut out, mut err) = (String::new(), String::new());
    let mut line = [0; 6];
    let mut stdout = running.0.stdout.take().unwrap();
    stdout.read_exact(&mut line).unwrap();
    thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    stdout.read_to_string(&mut out).unwrap();
    running.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (running.0.wait().unwrap().code(), out, err)
}
