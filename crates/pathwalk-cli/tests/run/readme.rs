//! The transcript of a run in the README: each command is executed, and says what is written there.

use crate::common::{can_run, text};
use std::{env, fs, path::Path, process::Command};
use tempfile::TempDir;

const MARKER: &str = "<!-- run-transcript -->";

/// The commands behind `$ `, each with the lines below it.
fn transcript() -> Vec<(String, String)> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let parts: Vec<_> = readme.split(MARKER).collect();
    assert_eq!(parts.len(), 3, "README.md must have two lines {MARKER}");
    let block = parts[1].trim().strip_prefix("```console\n").expect("a block of it is fenced");
    let block = block.strip_suffix("```").expect("the fence is closed");
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, said))) => *said += &format!("{line}\n"),
            (None, None) => panic!("not a command: {line}"),
        }
    }
    commands
}

#[test]
fn the_transcript_is_what_happens() {
    let commands = transcript();
    assert!(commands.iter().any(|(command, _)| command.starts_with("pathwalk run ")));
    if !can_run(&["sh", "grep", "touch"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_pathwalk")).parent().unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([program.to_owned()].into_iter().chain(env::split_paths(&path)));
    let path = path.unwrap();
    for (command, want) in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1 </dev/null; {command}")]);
        let output = shell.current_dir(here.path()).env("PATH", &path).env("LC_ALL", "C").output();
        assert_eq!(text(&output.unwrap().stdout), want, "{command}");
    }
}
