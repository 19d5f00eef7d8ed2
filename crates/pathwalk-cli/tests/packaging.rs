//! What a package brings along: each command has a manual page with examples, and shells know its options.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use std::{fs, process::Command};
use tempfile::TempDir;

fn said(args: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_pathwalk")).args(args).output().expect("it starts");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

/// What `--help` lists below a heading: the first words of its lines that are not the rest of others.
fn listed(help: &str, heading: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != heading).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn commands() -> Vec<String> {
    let commands = listed(&said(&["--help"]), "Commands:");
    assert!(commands.iter().any(|name| name == "run"), "{commands:?}");
    commands.into_iter().filter(|name| name != "help").collect()
}

/// The long options of a command.
fn options(command: &str) -> Vec<String> {
    let help = said(&[command, "--help"]);
    let words = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words =
        words.flat_map(|line| line.split([' ', ',', '='])).filter(|word| word.starts_with("--"));
    words
        .map(|word| {
            word.trim_matches(|char: char| !char.is_alphanumeric() && char != '-').to_owned()
        })
        .collect()
}

/// Whether groff is there to read pages, and what it complains about.
fn complaints(page: &std::path::Path) -> String {
    let groff = Command::new("groff")
        .args(["-man", "-ww", "-z", "-Tutf8", "-K", "utf8"])
        .arg(page)
        .output();
    match groff {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(_) => {
            left_out("groff is not installed");
            String::new()
        }
    }
}

#[test]
fn each_command_has_a_page_with_its_options_and_examples() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("share/man/man1");
    assert_eq!(said(&["man", to.to_str().unwrap()]), "");
    let commands = commands();
    assert_eq!(fs::read_dir(&to).unwrap().count(), commands.len() + 1);
    let first = fs::read_to_string(to.join("pathwalk.1")).unwrap();
    for command in &commands {
        let page = to.join(format!("pathwalk-{command}.1"));
        let text = fs::read_to_string(&page).unwrap();
        assert!(first.contains(&format!("pathwalk\\-{command}(1)")), "{command}: {first}");
        let (_, examples) = text.split_once(".SH EXAMPLES\n").unwrap_or_else(|| panic!("{text}"));
        assert!(examples.contains(&format!("\n  pathwalk {command}")), "{text}");
        for option in options(command) {
            assert!(text.contains(&option.replace('-', "\\-")), "{command} {option}: {text}");
        }
        assert_eq!(complaints(&page), "", "{command}");
    }
    assert!(first.contains(".SH EXAMPLES\n"), "{first}");
}

#[test]
fn a_directory_that_cannot_be_made_is_one_line() {
    let command = ["man", "/dev/null/man1"];
    let output = Command::new(env!("CARGO_BIN_EXE_pathwalk")).args(command).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "pathwalk: /dev/null/man1: ENOTDIR (Not a directory)\n");
}

#[test]
fn shells_know_each_command_and_its_options() {
    for shell in ["bash", "zsh", "fish"] {
        let text = said(&["completions", shell]);
        for command in commands() {
            assert!(text.contains(&command), "{shell} does not know {command}");
            for option in options(&command) {
                let option = if shell == "fish" { option.trim_start_matches('-') } else { &option };
                assert!(text.contains(option), "{shell} does not know {command} {option}");
            }
        }
    }
}

/// Asks bash, which `scripts/setup` needs anyway, what comes after `pathwalk run --tra`.
#[test]
fn bash_completes_an_option() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("pathwalk");
    fs::write(&file, said(&["completions", "bash"])).unwrap();
    let script = "source \"$1\"; COMP_WORDS=(pathwalk run --tra); COMP_CWORD=2; \
                  _pathwalk pathwalk --tra run; echo \"${COMPREPLY[*]}\"";
    let output = Command::new("bash").args(["-uc", script, "bash"]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--trace\n", "{output:?}");
}
