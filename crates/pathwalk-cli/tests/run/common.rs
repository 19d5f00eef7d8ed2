//! Running programs with and without, and looking at what they left.

use crate::left_out::left_out;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::HashMap,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Once, OnceLock},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// `pathwalk run` with these options and this program.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.arg("run").args(args).current_dir(dir).stdin(Stdio::null());
    command.output().expect("it starts")
}

/// What it says on standard output; it must succeed.
pub(crate) fn said(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{args:?}: {}\n{out}{err}", output.status);
    out
}

/// A program that runs; it ends with the test, also with one that fails: else it would take the time of all others.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Puts `pathwalk` where another user can run it.
pub(crate) fn pathwalk_in(dir: &Path) -> PathBuf {
    let program = dir.join("pathwalk");
    copy(env!("CARGO_BIN_EXE_pathwalk"), &program);
    program
}

/// Copies a program. Another process does it: what is open for writing, if only in a child of another test, is not run.
pub(crate) fn copy(program: &str, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(program).arg(to.as_ref()).status();
    assert!(copied.expect("it starts").success());
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Many times what any program of a test takes.
const AT_MOST: Duration = Duration::from_secs(300);

/// A program that hangs is killed, so that its test fails and the others are run: a supervisor takes its programs with it.
fn kill_what_hangs() {
    let mut since = HashMap::new();
    loop {
        thread::sleep(Duration::from_secs(5));
        let now = Instant::now();
        let running = children();
        since.retain(|pid, _| running.contains(pid));
        for pid in running {
            if now - *since.entry(pid).or_insert(now) > AT_MOST {
                eprintln!("killed: process {pid} ran for {AT_MOST:?}");
                // Who has not been waited for is still there.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Those that threads of this process started.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").expect("it is mounted").flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let all: String = lists.collect();
    all.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Whether programs can be run here and these are installed; says what is not.
pub(crate) fn can_run(programs: &[&str]) -> bool {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| drop(thread::spawn(kill_what_hangs)));
    let here = std::env::temp_dir();
    let output = run(&here, &["true"]);
    let error = text(&output.stderr);
    if ["seccomp", "listener"].iter().any(|word| error.contains(word)) {
        left_out(format_args!("{}", error.trim()));
        return false;
    }
    assert!(output.status.success(), "{error}");
    let missing = programs.iter().find(|program| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|output| output.status.success())
    });
    if let Some(program) = missing {
        left_out(format_args!("{program} is not installed"));
    }
    missing.is_none()
}

/// The program that `python3` is; what is called so may be a script that runs others first.
pub(crate) fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let says = ["-c", "import sys; print(sys.executable)"];
        let output = Command::new("python3").args(says).output().unwrap();
        text(&output.stdout).trim_end().to_owned()
    })
}

/// What was written this long ago, or later, has its time of who writes now; any older one was set.
const NEW: Duration = Duration::from_secs(3600);

/// A directory as lines: path, type, mode, owner, links, time of writing where it was set, what it contains, and extended attributes with
/// ACLs.
pub(crate) fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    list(root, root, SystemTime::now() - NEW, &mut lines);
    lines.sort();
    lines
}

fn list(root: &Path, dir: &Path, new: SystemTime, lines: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("it is a directory").flatten() {
        let path = entry.path();
        let stat = entry.metadata().expect("it is there");
        let kind = stat.file_type();
        let what = if kind.is_symlink() {
            format!("-> {}", fs::read_link(&path).expect("it is one").display())
        } else if kind.is_file() {
            let contents = fs::read(&path).expect("it can be read");
            let sum = contents.iter().fold(7_u64, |sum, &byte| {
                (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(5)
            });
            format!("{} bytes, {sum:x}", contents.len())
        } else if kind.is_fifo() {
            "a fifo".to_owned()
        } else {
            String::new()
        };
        let name = path.strip_prefix(root).expect("it lies there").display();
        let written = if stat.modified().is_ok_and(|time| time < new) {
            format!("{}.{:09}", stat.mtime(), stat.mtime_nsec())
        } else {
            "new".to_owned()
        };
        let (mode, owner, group, links) = (stat.mode(), stat.uid(), stat.gid(), stat.nlink());
        let attributes = attributes(&path);
        lines.push(format!("{name} {mode:o} {owner}:{group} {links} {written} {what}{attributes}"));
        if kind.is_dir() {
            list(root, &path, new, lines);
        }
    }
}

/// The extended attributes of users, and ACLs.
fn attributes(path: &Path) -> String {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let mut said = String::new();
    let compared =
        |name: &&str| ["user.", "system.posix_acl_"].iter().any(|of| name.starts_with(of));
    let mut names: Vec<String> =
        text(&names[..len]).split('\0').filter(compared).map(str::to_owned).collect();
    names.sort();
    for name in names {
        let mut value = vec![0; 4096];
        let len = rustix::fs::lgetxattr(path, &name, &mut value).expect("it is there");
        said += &format!(" {name}={}", value[..len].escape_ascii());
    }
    said
}
