//! One table of calls, by dynamic and static programs, by raw calls, over descriptors that were passed, from threads: what an
//! ordinary user is answered in the tree is what the kernel answers, and what is left behind is the same.

use crate::{
    attacks::cc,
    common::{can_run, copy, listing, pathwalk_in, text},
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A user without privilege, and without groups.
const NOBODY: u32 = 65534;

/// A directory of the user's, with the program in it.
fn directory(program: &Path) -> TempDir {
    let dir = TempDir::new_in("/tmp").unwrap();
    copy(program.to_str().unwrap(), dir.path().join("checks"));
    if rustix::process::geteuid().is_root() {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    dir
}

/// What it says there, natively or in a tree of the host's that nothing but permissions protects.
fn said(dir: &Path, how: &str, pathwalk: Option<&Path>) -> String {
    let mut words: Vec<String> = Vec::new();
    if rustix::process::geteuid().is_root() {
        let nobody = NOBODY.to_string();
        words.extend(["setpriv", "--reuid", &nobody, "--regid", &nobody].map(str::to_owned));
        words.push("--clear-groups".to_owned());
    }
    if let Some(pathwalk) = pathwalk {
        let here = dir.display().to_string();
        let bind = format!("{here}:{here}");
        words.push(pathwalk.display().to_string());
        words.extend(
            ["run", "--rootfs", "/:rw", "--cwd", &here, "--bind", &bind].map(str::to_owned),
        );
    }
    words.extend(["./checks", how].map(str::to_owned));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null());
    text(&command.output().unwrap().stdout)
}

fn the_same(how: &str) {
    if !can_run(&["cc"]) {
        return;
    }
    let built = TempDir::new_in("/tmp").unwrap();
    // Who runs it must be able to read it.
    fs::set_permissions(built.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let pathwalk = pathwalk_in(built.path());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/checks.c");
    for kind in ["dynamic", "static"] {
        let mut args = vec!["-O1", "-pthread", "-o", kind, source];
        args.extend((kind == "static").then_some("-static"));
        cc(built.path(), &args);
        let program = built.path().join(kind);
        let (native, ours) = (directory(&program), directory(&program));
        let want = said(native.path(), how, None);
        let have = said(ours.path(), how, Some(&pathwalk));
        // Those who know nothing of the other's directory name it the same.
        let rows = want.lines().filter(|line| !line.starts_with(' ')).count();
        let differ: Vec<_> = want.lines().zip(have.lines()).filter(|(a, b)| a != b).collect();
        assert!(differ.is_empty(), "{kind}, natively and in the tree: {differ:#?}");
        assert_eq!(have.lines().count(), want.lines().count(), "{kind}");
        assert!(rows >= 300, "{want}");
        assert_eq!(listing(ours.path()), listing(native.path()), "{kind}");
        println!("{rows} checks by a {kind} program, {how}: all as natively");
    }
}

#[test]
fn calls_from_the_current_directory_answer_as_natively() {
    the_same("relative");
}

#[test]
fn calls_by_a_descriptor_answer_as_natively() {
    the_same("descriptor");
}

#[test]
fn calls_by_a_descriptor_that_was_passed_answer_as_natively() {
    the_same("passed");
}

#[test]
fn calls_of_a_thread_answer_as_natively() {
    the_same("thread");
}
