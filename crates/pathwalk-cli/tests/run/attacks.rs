//! Programs that try to reach what they were not given: a file in the host's `/tmp`, which the tree's hides.

use crate::common::{can_run, run, said, text};
use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use tempfile::TempDir;

/// The attacker, in a directory of its own, and a secret elsewhere.
struct Attack {
    here: TempDir,
    outside: TempDir,
}

impl Attack {
    /// None where no program can be run.
    fn new() -> Option<Self> {
        if !can_run(&["cc"]) {
            return None;
        }
        let here = TempDir::new().unwrap();
        let outside = TempDir::new_in("/tmp").unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret\n").unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/attack.c");
        let built = Command::new("cc")
            .args(["-O1", "-no-pie", "-pthread", "-o", "attack", source])
            .current_dir(here.path())
            .status()
            .unwrap();
        assert!(built.success());
        Some(Self { here, outside })
    }

    fn secret(&self) -> String {
        self.outside.path().join("secret").display().to_string()
    }

    fn said(&self, args: &[&str]) -> String {
        said(self.here.path(), &[&["./attack"], args].concat())
    }
}

#[test]
fn the_secret_is_there_without_and_not_with() {
    let Some(attack) = Attack::new() else { return };
    let native = Command::new(attack.here.path().join("attack"))
        .args(["open", &attack.secret()])
        .output()
        .unwrap();
    assert_eq!(text(&native.stdout), "REACHED\n");
    assert_eq!(attack.said(&["open", &attack.secret()]), "ENOENT\n");
    assert_eq!(attack.said(&["openat2", &attack.secret()]), "never\n");
}

#[test]
fn arguments_that_a_thread_rewrites_do_not_reach_it() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(attack.said(&["rewritten", "open", &attack.secret()]), "never\n");
    let outside = attack.outside.path().display().to_string();
    assert_eq!(attack.said(&["rewritten", "chdir", &outside]), "never\n");
    let program = attack.outside.path().join("program");
    fs::write(attack.outside.path().join("m.c"), "int main(void) { return 77; }").unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-o", "program", "m.c"]).current_dir(attack.outside.path()).status();
    assert!(built.unwrap().success());
    let program = program.display().to_string();
    assert_eq!(attack.said(&["rewritten", "exec", &program]), "never\n");
}

#[test]
fn calls_that_go_around_the_tree_are_refused() {
    let Some(attack) = Attack::new() else { return };
    let want = "\
io_uring_setup ENOSYS
open_by_handle_at EPERM
mount EPERM
umount2 EPERM
open_tree EPERM
fsopen EPERM
pivot_root EPERM
chroot EPERM
unshare EPERM
unknown ENOSYS
x32 ENOSYS
ptrace EPERM
process_vm_readv EPERM
pidfd_getfd EPERM
mem ENOENT
root of the supervisor ENOENT
own root ENOENT
own cwd ENOENT
machine EACCES
dumpable REACHED
";
    assert_eq!(attack.said(&["calls", &attack.secret()]), want);
    assert_eq!(attack.said(&["i386", &attack.secret()]), "ENOSYS\n");
}

#[test]
fn who_is_root_in_the_tree_goes_around_nothing() {
    let Some(attack) = Attack::new() else { return };
    let root =
        |args: &[&str]| said(attack.here.path(), &[&["--uid", "0", "./attack"], args].concat());
    // It may mount and have a root of its own there: the tree's, in which nothing that is asked for later is.
    let want = "\
io_uring_setup ENOSYS
open_by_handle_at EPERM
mount REACHED
umount2 EINVAL
open_tree ENOSYS
fsopen ENOSYS
pivot_root EINVAL
chroot REACHED
unshare EPERM
unknown ENOSYS
x32 ENOSYS
ptrace EPERM
process_vm_readv EPERM
pidfd_getfd EPERM
mem ENOENT
root of the supervisor ENOENT
own root ENOENT
own cwd ENOENT
machine ENOENT
dumpable REACHED
";
    assert_eq!(root(&["calls", &attack.secret()]), want);
    assert_eq!(root(&["rewritten", "open", &attack.secret()]), "never\n");
    let outside = attack.outside.path().display().to_string();
    assert_eq!(root(&["rewritten", "chdir", &outside]), "never\n");
}

#[test]
fn a_directory_that_is_handed_in_is_closed() {
    let Some(attack) = Attack::new() else { return };
    let script = format!(
        "exec 9<{}; exec {} run ./attack directory 9 secret",
        attack.outside.path().display(),
        env!("CARGO_BIN_EXE_pathwalk"),
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(attack.here.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "EBADF\n", "{}", text(&output.stderr));
}

#[test]
fn symlinks_that_are_swapped_in_do_not_lead_out() {
    let Some(attack) = Attack::new() else { return };
    let path = |name: &str| attack.here.path().join(name);
    fs::create_dir(path("dir")).unwrap();
    fs::write(path("dir/secret"), "harmless\n").unwrap();
    symlink(attack.outside.path(), path("link")).unwrap();
    let ends = AtomicBool::new(false);
    let swap = |from: PathBuf, to: PathBuf| {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)
    };
    let out = thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                let _ = swap(path("dir"), path("link"));
            }
        });
        let out = attack.said(&["often", "dir/secret"]);
        ends.store(true, Relaxed);
        out
    });
    assert!(out.starts_with("never"), "{out}");
}

#[test]
fn without_descriptors_it_is_told_so() {
    let Some(attack) = Attack::new() else { return };
    let script = "ulimit -n 16; ./attack descriptors";
    let native =
        Command::new("sh").args(["-c", script]).current_dir(attack.here.path()).output().unwrap();
    let ours = run(attack.here.path(), &["sh", "-c", script]);
    assert!(text(&ours.stdout).ends_with(" EMFILE\n"), "{}", text(&ours.stderr));
    assert_eq!(text(&ours.stdout), text(&native.stdout));
}
