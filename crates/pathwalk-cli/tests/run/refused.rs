//! A host on which no program can be run: it is said what is missing, and nothing is run.

use crate::{
    attacks::cc,
    common::{can_run, text},
};
use pathwalk::Errno;
use std::{
    fs,
    process::{Command, Stdio},
};
use tempfile::TempDir;

#[test]
fn without_seccomp_notification_it_is_said_what_is_missing() {
    if !can_run(&["cc"]) {
        return;
    }
    let (here, beside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let refused = beside.path().join("refused");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/refused.c");
    cc(beside.path(), &["-o", "refused", source]);
    let missing = "pathwalk: this kernel has no seccomp user notification: Linux 5.14 or newer is needed, and 6.9 for \
                   programs with threads\n";
    let there =
        "pathwalk: a seccomp listener is there already: pathwalk run does not run inside another\n";
    let rows = [
        (Errno::ENOSYS, missing),
        (Errno::EINVAL, missing),
        (Errno::EBUSY, there),
        (
            Errno::EPERM,
            "pathwalk: the seccomp filter is refused: EPERM (Operation not permitted)\n",
        ),
    ];
    for (errno, want) in rows {
        for options in [&[][..], &["--uid", "0"], &["--rootfs", "/"]] {
            let mut command = Command::new(&refused);
            command.arg(errno.raw().to_string()).arg(env!("CARGO_BIN_EXE_pathwalk")).arg("run");
            command.args(options).args(["sh", "-c", "echo ran; : > ran"]);
            let output = command.current_dir(here.path()).stdin(Stdio::null()).output().unwrap();
            assert_eq!(text(&output.stderr), want, "{errno} {options:?}");
            assert_eq!(output.status.code(), Some(2), "{errno} {options:?}");
            assert_eq!(text(&output.stdout), "");
            assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing ran");
        }
    }
}
