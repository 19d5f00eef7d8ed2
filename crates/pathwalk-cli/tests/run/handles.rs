//! File handles: bytes that name a file, and open it again.

use crate::{
    attacks::cc,
    common::{can_run, run, said, text},
    left_out::left_out,
};
use rustix::fs::statfs;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// `TMPFS_MAGIC`
const TMPFS: i64 = 0x0102_1994;
/// An empty file system in memory, in which one is root and begins.
const MEM: [&str; 6] = ["--uid", "0", "--tmpfs", "/srv:mode=755", "--cwd", "/srv"];

/// The program, in a directory of its own; none where no program can be run.
fn built() -> Option<(TempDir, PathBuf)> {
    if !can_run(&["cc"]) {
        return None;
    }
    let here = TempDir::new().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/handles.c");
    cc(here.path(), &["-O1", "-o", "handles", source]);
    let program = here.path().join("handles");
    Some((here, program))
}

fn in_memory(here: &Path, program: &Path, words: &[&str]) -> String {
    said(here, &[&MEM[..], &[program.to_str().unwrap()], words].concat())
}

#[test]
fn root_is_answered_about_them_as_on_a_tmpfs() {
    let Some((here, program)) = built() else { return };
    let have = in_memory(here.path(), &program, &[]);
    let rows = have.lines().filter(|line| !line.starts_with(' ')).count();
    assert!(rows >= 200, "{have}");
    assert!(!have.contains("wrong") && !have.contains("changed"), "{have}");
    assert!(have.contains("asks(AT_FDCWD, \"file\", 0, UNIQUE): EOVERFLOW"), "{have}");
    let native = TempDir::new_in("/dev/shm").ok().filter(|dir| {
        rustix::process::geteuid().is_root()
            && statfs(dir.path()).is_ok_and(|stat| stat.f_type == TMPFS)
    });
    let Some(native) = native else {
        left_out("the kernel is asked by root, on a tmpfs");
        return;
    };
    fs::set_permissions(native.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new(&program).current_dir(native.path()).output().unwrap();
    let want = text(&output.stdout);
    let differ: Vec<_> = want.lines().zip(have.lines()).filter(|(a, b)| a != b).collect();
    assert!(differ.is_empty(), "natively and in the tree: {differ:#?}");
    assert_eq!(have.lines().count(), want.lines().count(), "{have}");
}

#[test]
fn bytes_that_were_not_given_open_nothing() {
    let Some((here, program)) = built() else { return };
    let out = in_memory(here.path(), &program, &["forged", "3000"]);
    assert_eq!(out, "0 opened, 0 answered otherwise\n");
    // In files of the host neither.
    let program = format!("./{}", program.file_name().unwrap().display());
    let out = said(here.path(), &["--uid", "0", &program, "forged", "1000"]);
    assert!(
        out == "0 opened, 0 answered otherwise\n" || out.contains("has none: EOPNOTSUPP"),
        "{out}"
    );
}

/// A handle keeps no mount from being unmounted, and leads nowhere when its file system is gone; in another mount of that it opens the
/// file, and in one that shows a part of it that part alone where something is hidden.
#[test]
fn they_are_of_a_file_system_and_of_no_mount() {
    let Some((here, _)) = built() else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/handle.c");
    cc(here.path(), &["-O1", "-o", "handle", source]);
    let says = |script: &str| {
        said(
            here.path(),
            &["--uid", "0", "--tmpfs", "/srv", "sh", "-c", &format!("{script}; true")],
        )
    };
    let script = "cd .; mkdir /srv/a /srv/b /srv/c; mount -t tmpfs x /srv/a; mkdir /srv/a/d; echo one > /srv/a/f;\
         echo two > /srv/a/d/g; f=$(./handle of /srv/a/f); g=$(./handle of /srv/a/d/g);\
         ./handle by $f /srv/a; mount --bind /srv/a /srv/b; ./handle by $f /srv/b; umount /srv/a; ./handle by $f /srv/b;\
         ./handle by $f /srv/a; mount --bind /srv/b/d /srv/c; ./handle by $g /srv/c; ./handle by $f /srv/c;\
         umount /srv/c; umount /srv/b; mount -t tmpfs x /srv/a; ./handle by $f /srv/a";
    assert_eq!(says(script), "one\none\none\nESTALE\ntwo\nESTALE\nESTALE\n");
    // A mount that is given up at once, with what was held of it.
    let lazily = "mount -t tmpfs x /srv; echo one > /srv/f; f=$(./handle of /srv/f); umount -l /srv;\
         mount -t tmpfs x /srv; ./handle by $f /srv";
    assert_eq!(says(lazily), "ESTALE\n");
}

#[test]
fn of_files_of_the_host_they_are_as_the_host_has_them() {
    let Some((here, _)) = built() else { return };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/handle.c");
    cc(here.path(), &["-O1", "-o", "handle", source]);
    fs::write(here.path().join("file"), "of the host\n").unwrap();
    let native = Command::new("./handle").args(["of", "file"]).current_dir(here.path()).output();
    let native = text(&native.unwrap().stdout);
    let script =
        "h=$(./handle of file); mv file other; ./handle by $h .; rm other; ./handle by $h .";
    let out = run(here.path(), &["--uid", "0", "sh", "-c", script]);
    let want =
        if native == "EOPNOTSUPP\n" { "no handle\nno handle\n" } else { "of the host\nESTALE\n" };
    assert_eq!(text(&out.stdout), want, "{}", text(&out.stderr));
}
