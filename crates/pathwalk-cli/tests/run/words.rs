//! The words of `pathwalk run`: what is an option and what is the program's, and what is bytes.

use crate::common::{can_run, run, text};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

fn script(path: &Path, text: impl AsRef<[u8]>) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_first_word_with_a_hyphen_is_an_option() {
    let here = TempDir::new().unwrap();
    for (word, hint) in [("--rof", "a similar argument exists: '--ro'"), ("-x", "use '-- -x'")] {
        let ran = run(here.path(), &[word, "true"]);
        let said = text(&ran.stderr);
        assert_eq!((ran.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("unexpected argument '{word}' found")), "{said}");
        assert!(said.contains(hint), "{said}");
    }
    if !can_run(&["sh"]) {
        return;
    }
    script(&here.path().join("-prog"), "#!/bin/sh\necho \"$@\"\n");
    let path = format!("PATH={}:/usr/bin:/bin", here.path().display());
    let ran = run(here.path(), &["--env", &path, "--", "-prog", "--ro", "--", "-x"]);
    assert_eq!(text(&ran.stdout), "--ro -- -x\n", "{}", text(&ran.stderr));
    let ran = run(here.path(), &["--ro", "echo", "--ro", "--rof", "--", "-x"]);
    assert_eq!(text(&ran.stdout), "--ro --rof -- -x\n", "{}", text(&ran.stderr));
}

fn run_bytes(dir: &Path, args: &[&[u8]]) -> Output {
    let args = args.iter().map(|arg| OsStr::from_bytes(arg));
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.arg("run").args(args).current_dir(dir).output().expect("it starts")
}

#[test]
fn paths_and_variables_are_bytes() {
    if !can_run(&["sh"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let path = |name: &[u8]| here.path().join(OsStr::from_bytes(name));
    fs::create_dir(path(b"x\xff")).unwrap();
    fs::write(path(b"x\xff/file"), "contents\n").unwrap();
    let dir = here.path().as_os_str().as_bytes();
    let join = |parts: &[&[u8]]| parts.concat();
    let x = join(&[dir, b"/x\xff"]);
    let said = |args: &[&[u8]]| {
        let ran = run_bytes(here.path(), args);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        ran.stdout
    };
    let bind = join(&[b"x\xff:/tmp/b\xfe"]);
    assert_eq!(said(&[b"--bind", &bind, b"cat", b"/tmp/b\xfe/file"]), b"contents\n");
    let mount = join(&[b"host:", &x, b":/tmp/m\xfe:ro"]);
    assert_eq!(said(&[b"--mount", &mount, b"cat", b"/tmp/m\xfe/file"]), b"contents\n");
    assert_eq!(said(&[b"--tmpfs", b"/tmp/t\xfe", b"ls", b"/tmp"]), b"t\xfe\n");
    assert_eq!(said(&[b"--cwd", &x, b"pwd"]), join(&[&x, b"\n"]));
    assert_eq!(said(&[b"--env", b"A=\xff=b", b"sh", b"-c", b"echo \"$A\""]), b"\xff=b\n");
    // A tree of which nothing can be run, but that is found.
    let root = join(&[b"--rootfs=", &x]);
    let ran = run_bytes(here.path(), &[&root, b"/file"]);
    assert!(!text(&ran.stderr).contains("UTF-8"), "{}", text(&ran.stderr));
    let wrong = run_bytes(here.path(), &[b"--bind", b"/\xff:b", b"true"]);
    assert!(text(&wrong.stderr).contains("character 4, 'b'"), "{}", text(&wrong.stderr));
}

/// The header of an ELF program: its class, type and machine.
fn header(class: u8, machine: u16) -> Vec<u8> {
    let mut bytes = vec![0; if class == 1 { 52 } else { 64 }];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    bytes[16..20].copy_from_slice(&[2, 0, machine.to_le_bytes()[0], machine.to_le_bytes()[1]]);
    bytes
}

const I386: u16 = 3;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

#[test]
fn a_program_for_another_machine_is_refused_with_a_sentence() {
    if !can_run(&["sh"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let rows = [
        ("m32", 1, I386, "a 32-bit program"),
        ("x32", 1, X86_64, "a 32-bit program"),
        ("arm", 2, AARCH64, "a program for another machine"),
    ];
    for (name, class, machine, kind) in rows {
        script(&here.path().join(name), header(class, machine));
        let called = format!("./{name}");
        let says = format!("pathwalk: {called} is {kind}: only x86-64 programs are run\n");
        let ran = run(here.path(), &[&called, "a"]);
        assert_eq!((ran.status.code(), &*text(&ran.stderr)), (Some(126), &*says));
        // Found by its name alone, and by a script.
        let path = format!("PATH={}:/usr/bin:/bin", here.path().display());
        let ran = run(here.path(), &["--env", &path, name]);
        assert_eq!(ran.status.code(), Some(126));
        assert!(text(&ran.stderr).ends_with(&says[says.find(" is ").unwrap()..]), "{name}");
        script(&here.path().join("script"), format!("#!{called}\n"));
        let ran = run(here.path(), &["./script"]);
        assert_eq!((ran.status.code(), &*text(&ran.stderr)), (Some(126), &*says));
        // One that is run by another is told once.
        let runs = here.path().join("runs");
        let python = "import os\nfor _ in range(3):\n  try: os.execv('PROG', ['PROG'])\n  \
                      except OSError as error: print(error.errno)";
        script(&runs, python.replace("PROG", &called));
        if can_run(&["python3"]) {
            let ran = run(here.path(), &["python3", "./runs"]);
            assert_eq!((&*text(&ran.stdout), &*text(&ran.stderr)), ("8\n8\n8\n", &*says));
        }
        // That is what Linux answers where it has no such format, as of the last two here.
        if machine != I386 && can_run(&["python3"]) {
            let native = Command::new("python3").arg("./runs").current_dir(here.path()).output();
            assert_eq!(text(&native.unwrap().stdout), "8\n8\n8\n", "{name}");
        }
    }
    // What is no program at all is a shell's, as ever.
    script(&here.path().join("text"), "echo text $1\n");
    assert_eq!(text(&run(here.path(), &["./text", "a"]).stdout), "text a\n");
}
