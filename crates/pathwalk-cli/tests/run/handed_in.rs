//! Descriptors that come from outside: by inheritance, or sent through a socket.

use crate::{
    attacks::{Attack, cc},
    common::{can_run, python, text},
};
use rustix::fs::{Mode, OFlags};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::{Command, Stdio},
    time::SystemTime,
};
use tempfile::TempDir;

/// What came of each try. Each fills the outside anew, and none may change it where it is in the tree.
fn tries(
    attack: &Attack,
    how: &str,
    what: &str,
    does: &str,
    tree: bool,
) -> BTreeMap<String, String> {
    let own = attack.here("handed_in").display().to_string();
    let mut command = Command::new(&own);
    command.args([how, what]);
    if tree {
        command.args([env!("CARGO_BIN_EXE_pathwalk"), "run"]);
    }
    let output = command
        .args(["./handed_in", does])
        .current_dir(attack.here.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert!(!out.is_empty(), "{}", text(&output.stderr));
    let lines = out.lines().filter_map(|line| line.rsplit_once(' '));
    lines.map(|(what, answer)| (what.to_owned(), answer.to_owned())).collect()
}

/// The host's directory, as it is before an attack.
fn fill(dir: &Path) {
    for name in ["victim", "victim2"] {
        fs::write(dir.join(name), "victim\n").unwrap();
    }
    symlink("secret", dir.join("link")).unwrap();
    fs::write(dir.join("m.c"), "int main(void) { return 77; }").unwrap();
}

fn state(dir: &Path) -> Vec<String> {
    let mut lines = crate::common::listing(dir);
    let stat = fs::metadata(dir).unwrap();
    lines.push(format!("{:o} {} {}", stat.mode(), stat.mtime(), stat.mtime_nsec()));
    lines
}

fn a_directory_is_closed(how: &str, does: &str) {
    let Some(attack) = Attack::of("handed_in") else { return };
    let outside = attack.outside.path();
    fill(outside);
    let before = state(outside);
    let tried = tries(&attack, how, &outside.display().to_string(), does, true);
    assert_eq!(tried.len(), 26);
    for (what, answer) in tried {
        assert_ne!(answer, "REACHED", "{what}");
    }
    assert_eq!(state(outside), before);
    // Natively nearly all of it reaches something.
    let tried = tries(&attack, how, &outside.display().to_string(), does, false);
    let reached = tried.values().filter(|answer| *answer == "REACHED").count();
    assert!(reached >= 10, "{tried:?}");
}

#[test]
fn a_directory_that_is_sent_is_closed() {
    a_directory_is_closed("send", "receive");
}

#[test]
fn a_directory_that_is_inherited_is_closed() {
    a_directory_is_closed("inherit", "inherited");
}

#[test]
fn a_file_that_is_sent_is_no_way_to_another() {
    let Some(attack) = Attack::of("handed_in") else { return };
    let outside = attack.outside.path();
    let tried = tries(&attack, "send", &attack.outside("secret"), "receive", true);
    // What was open is the receiver's to read, as with every sandbox.
    assert_eq!(tried["read"], "REACHED");
    for (what, answer) in tried.iter().filter(|(what, _)| *what != "read") {
        assert_ne!(answer, "REACHED", "{what}");
    }
    assert!(!attack.here("stolen").exists());
    fs::write(attack.outside("m.c"), "int main(void) { return 77; }").unwrap();
    cc(outside, &["-o", "program", "m.c"]);
    let tried = tries(&attack, "send", &attack.outside("program"), "receive", true);
    assert_eq!(["execveat", "execve"].map(|how| &*tried[how]), ["EACCES"; 2]);
}

#[test]
fn a_file_that_was_opened_for_nothing_is_not_read() {
    let Some(attack) = Attack::of("handed_in") else { return };
    let tried = tries(&attack, "inherit", &attack.outside("secret"), "inherited", true);
    let want = ["proc open", "execve"].map(|how| (how.to_owned(), "EACCES".to_owned()));
    assert_eq!(tried, BTreeMap::from(want));
}

#[test]
fn a_directory_under_the_number_of_another_one_is_nobody_s_current_one() {
    let Some(attack) = Attack::of("handed_in") else { return };
    let outside = attack.outside.path().display().to_string();
    let tried = tries(&attack, "send", &outside, "races", true);
    // Nobody stands in a directory of the host that the tree gave him either.
    let hows = ["chdir", "chdir given", "core", "fchdir", "fchdir given"];
    let want = hows.map(|how| (how, "never")).into_iter().chain([("limit", "1-1-0-0-0")]);
    let want = want.map(|(how, answer)| (how.to_owned(), answer.to_owned()));
    assert_eq!(tried, want.collect());
}

/// What a procfs tells of who started this is no file of the tree; what it tells everybody is opened again.
#[test]
fn what_tells_of_the_supervisor_s_memory_is_not_opened_again() {
    if !can_run(&["sh"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let said = |handed: &str, does: &str| {
        let script = format!("exec {handed}; exec \"$0\" run -- sh -c '{does}'");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_pathwalk")]).current_dir(&here);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let all = ["environ", "maps", "auxv", "fdinfo/0"].map(|file| (file, "<", "<"));
    for (file, handed, again) in [("mem", "<>", "<"), ("mem", "<>", ">")].into_iter().chain(all) {
        let handed = format!("3{handed}/proc/self/{file}");
        let does = format!("(: {again} /proc/self/fd/3) 2>/dev/null && echo opened; echo done");
        assert_eq!(said(&handed, &does), (Some(0), "done\n".to_owned()), "{file} {again}");
    }
    let does = "read was < /proc/self/fd/3; echo $was > /proc/self/fd/3 && cat /proc/self/fd/4 && echo done";
    let (code, out) = said("3<>/proc/self/oom_score_adj 4</proc/self/comm", does);
    assert_eq!((code, out.lines().last()), (Some(0), Some("done")), "{out}");
}

/// Asks all that can be asked of what it was given, and of the same file as it opens it.
const OF_WHAT_IS_GIVEN: &str = "
import errno, os
def says(call, *args):
    try: answer = call(*args)
    except OSError as error: answer = errno.errorcode[error.errno]
    print(call.__name__, answer)
for fd in 0, os.open('given', os.O_RDWR), os.open('/proc/self/fd/0', os.O_RDONLY), os.open('given', os.O_PATH):
    says(os.setxattr, fd, 'user.of', b'1'); says(os.getxattr, fd, 'user.of'); says(os.listxattr, fd); says(os.removexattr, fd, 'user.of')
    says(os.fchmod, fd, 0o640); says(os.fchown, fd, -1, -1); says(os.utime, fd, (5, 6))
    stat = os.fstat(fd)
    print(oct(stat.st_mode), stat.st_size, stat.st_mtime)
says(os.ftruncate, 0, 5)
";

#[test]
fn a_file_that_was_given_is_as_if_it_had_been_opened_here() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let given = here.path().join("given");
    let said = |run: &[&str], how: OFlags| {
        fs::write(&given, "given").unwrap();
        let written = fs::File::options().write(true).open(&given).unwrap();
        written.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let program = [run, &[python(), "-c", OF_WHAT_IS_GIVEN]].concat();
        let stdin = rustix::fs::open(&given, how | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut command = Command::new(program[0]);
        let output = command.args(&program[1..]).current_dir(here.path()).stdin(stdin).output();
        let output = output.unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    for how in [OFlags::RDONLY, OFlags::RDWR, OFlags::PATH] {
        let native = said(&[], how);
        assert!(native.contains("listxattr ['user.of']"), "{native}");
        assert_eq!(native.starts_with("setxattr EBADF"), how == OFlags::PATH, "{native}");
        assert_eq!(said(&[env!("CARGO_BIN_EXE_pathwalk"), "run"], how), native);
    }
}
