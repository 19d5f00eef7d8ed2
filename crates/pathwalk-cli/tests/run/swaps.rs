//! Other processes that swap and move what a program is given while it asks: it is not led out.

use crate::{attacks::Attack, common::said};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use tempfile::TempDir;

#[test]
fn symlinks_that_are_swapped_in_do_not_lead_out() {
    let Some(attack) = Attack::new() else { return };
    fs::create_dir(attack.here("dir")).unwrap();
    fs::write(attack.here("dir/secret"), "harmless\n").unwrap();
    symlink(attack.outside.path(), attack.here("link")).unwrap();
    let out = swapping(&attack.here("dir"), &attack.here("link"), || {
        attack.said(&["often", "dir/secret"])
    });
    assert!(out.starts_with("never"), "{out}");
}

#[test]
fn directories_that_are_swapped_while_it_looks_do_not_lead_out() {
    let Some(attack) = Attack::new() else { return };
    fs::create_dir_all(attack.here("a/b")).unwrap();
    fs::create_dir_all(attack.outside("deep/b")).unwrap();
    fs::write(attack.outside("deep/secret"), "secret\n").unwrap();
    let out = swapping(&attack.here("a/b"), Path::new(&attack.outside("deep/b")), || {
        attack.said(&["often", "a/b/../secret"])
    });
    assert!(out.starts_with("never"), "{out}");
}

#[test]
fn directories_that_are_moved_out_lead_nowhere() {
    let Some(attack) = Attack::new() else { return };
    let inside = attack.here("a/dir/b");
    let elsewhere = PathBuf::from(attack.outside("deep/dir"));
    let reset = || {
        fs::create_dir_all(attack.here("a/dir/b")).unwrap();
        fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
        fs::write(attack.outside("deep/secret"), "secret\n").unwrap();
    };
    // It stands in `b`; `dir` is moved beside a secret while it does.
    let moved = |mut command: Command| {
        reset();
        command.current_dir(attack.here.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        fs::rename(attack.here("a/dir"), &elsewhere).unwrap();
        child.stdin.take().unwrap().write_all(b"moved\n").unwrap();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(&elsewhere).unwrap();
        rest
    };
    let mut native = Command::new(attack.here("attack"));
    native.arg("moved").arg(&inside);
    assert_eq!(moved(native), "REACHED\n");
    let mut ours = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    ours.args(["run", "./attack", "moved", "a/dir/b"]);
    assert_eq!(moved(ours), "never\n");
}

/// As a mount that was asked for, however it is noticed what others do.
#[test]
fn what_is_swapped_below_a_bind_does_not_lead_out() {
    let Some(attack) = Attack::new() else { return };
    let given = TempDir::new().unwrap();
    let at = |name: &str| given.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("dir/secret"), "harmless\n").unwrap();
    fs::write(at("file"), "harmless\n").unwrap();
    let out = |name: &str| PathBuf::from(attack.outside(name));
    symlink(attack.outside.path(), at("absolute")).unwrap();
    symlink(out("secret"), at("to")).unwrap();
    let name = attack.outside.path().file_name().unwrap();
    symlink(PathBuf::from("..").join(name), at("up")).unwrap();
    fs::create_dir_all(out("deep/b")).unwrap();
    fs::write(out("deep/secret"), "secret\n").unwrap();
    for (one, other, path, opened) in [
        (at("dir"), at("absolute"), "dir/secret", "opened"),
        (at("dir"), at("up"), "dir/secret", "opened"),
        (at("file"), at("to"), "file", "opened"),
        (at("a/b"), out("deep/b"), "a/b/../secret", "not opened"),
    ] {
        let host = at(path).display().to_string();
        if opened == "opened" {
            let args = ["often", &host, "5000", "reached"];
            let native = swapping(&one, &other, || attack.natively(&args));
            assert_eq!(native, "REACHED opened\n", "{path}");
        }
        for coherence in ["watched", "strict"] {
            let bind = format!("{}:/tmp/data:coherence={coherence}", given.path().display());
            let path = format!("/tmp/data/{path}");
            let args = ["--bind", &bind, "./attack", "often", &path, "5000", opened];
            let said = swapping(&one, &other, || said(attack.here.path(), &args));
            assert_eq!(said, format!("never {opened}\n"), "{path} {coherence}");
        }
    }
}

/// What is mounted is what was there when it was mounted, also where others put something else in its place.
#[test]
fn what_is_swapped_with_a_bind_is_not_reached() {
    let Some(attack) = Attack::new() else { return };
    let given = TempDir::new().unwrap();
    let at = |name: &str| given.path().join(name);
    let secret = PathBuf::from(attack.outside("secret"));
    let begin = || {
        fs::create_dir_all(at("dir")).unwrap();
        fs::write(at("dir/secret"), "harmless\n").unwrap();
        fs::write(at("file"), "harmless\n").unwrap();
        fs::write(&secret, "secret\n").unwrap();
    };
    let cases = [
        ("dir", attack.outside.path().to_path_buf(), "/tmp/data/secret"),
        ("file", secret.clone(), "/tmp/data"),
    ];
    for (name, other, path) in cases {
        for coherence in ["watched", "strict"] {
            begin();
            let bind = format!("{}:/tmp/data:coherence={coherence}", at(name).display());
            let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
            let script = format!("echo; read line; cat {path} && ./attack often {path} 5000");
            command.args(["run", "--bind", &bind, "sh", "-c", &script]);
            command.current_dir(attack.here.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            out.read_line(&mut String::new()).unwrap();
            let rest = swapping(&at(name), &other, || {
                child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
                let mut rest = String::new();
                out.read_to_string(&mut rest).unwrap();
                rest
            });
            assert!(child.wait().unwrap().success());
            assert_eq!(rest, "harmless\nnever opened\n", "{name} {coherence}");
        }
    }
}

/// Exchanges two names all the time while something is done, and leaves them as they were.
pub(crate) fn swapping<T>(one: &Path, other: &Path, f: impl FnOnce() -> T) -> T {
    let ends = AtomicBool::new(false);
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                // There and back.
                for _ in 0..2 {
                    let cwd = rustix::fs::CWD;
                    rustix::fs::renameat_with(cwd, one, cwd, other, flags).unwrap();
                }
            }
        });
        let done = f();
        ends.store(true, Relaxed);
        done
    })
}
