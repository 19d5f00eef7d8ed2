//! Signals that others send, and that the program sends its own group.

use crate::common::{Running, can_run, python, text};
use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{ChildStdout, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// By what a program is run: nobody, and this one.
const RUNS: [&[&str]; 2] = [&[], &[env!("CARGO_BIN_EXE_pathwalk"), "run"]];

/// A program of Python in each of [`RUNS`]; none where there is no Python.
fn programs(script: &str) -> Vec<Vec<&str>> {
    if !can_run(&["python3"]) {
        return Vec::new();
    }
    RUNS.map(|run| [run, &[python(), "-c", script]].concat()).to_vec()
}

/// A program that runs in a group of its own, and what it says.
struct Begun {
    child: Running,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Begun {
    fn of(here: &Path, program: &[&str]) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(here).process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = Running(child.unwrap());
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line.
    fn says(&mut self) -> Option<String> {
        self.lines.next().and_then(Result::ok)
    }

    /// Has a shell do something to it, where it is called `PID`.
    fn is_sent(&self, script: &str) {
        let script = script.replace("PID", &self.child.0.id().to_string());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }
}

/// A program that handles all signals that can be. It sends its group some, says which it got, and says which it gets then.
const HANDLES: &str = r#"
import os, signal, sys, time
mine = [getattr(signal, 'SIG' + name) for name in
    'HUP INT QUIT ILL TRAP ABRT BUS FPE USR1 SEGV USR2 PIPE ALRM TERM STKFLT XCPU XFSZ VTALRM PROF WINCH URG IO PWR SYS'.split()]
mine += range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
got = []
for number in mine: signal.signal(number, lambda number, _: got.append(int(number)))
for number in mine:
    os.kill(0, number)
    os.stat('/')
time.sleep(0.5)
all = sorted(got) == sorted(map(int, mine)) or got[:]
got.clear()
print(all, flush=True)
while True:
    while not got: time.sleep(0.01)
    print(got.pop(0), flush=True)
"#;

#[test]
fn all_signals_are_the_programs() {
    let here = TempDir::new().unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for program in programs(HANDLES) {
        let mut begun = Begun::of(here.path(), &program);
        assert_eq!(begun.says().as_deref(), Some("True"), "{program:?}");
        // None waits for anybody else of the group, as it would count for the user.
        let waiting = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            status.contains("ShdPnd:\t0000000000000000\n").then_some(()).ok_or(status)
        };
        let mut pid = Some(begun.child.0.id());
        while let Some(process) = pid {
            assert_eq!(waiting(process), Ok(()), "{program:?}");
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
            pid = children.unwrap().split_whitespace().next().map(|pid| pid.parse().unwrap());
        }
        for number in (1..=16).chain(24..=27).chain(29..=31).chain(34..=64) {
            // Those that nobody handles, or that are not passed on; and what is ignored here is ignored there.
            if [9, 13].contains(&number) || ignored & 1 << (number - 1) != 0 {
                continue;
            }
            begun.is_sent(&format!("kill -{number} PID"));
            assert_eq!(begun.says(), Some(number.to_string()), "{program:?}");
        }
    }
}

/// A program that handles some, of which it has children send its group each, several times. A child is gone when anybody looks who sent it. It says
/// how many it got, and whenever it is told how many there must be, how many more.
const COUNTS: &str = r#"
import os, signal, sys, time
mine = signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGRTMIN, signal.SIGRTMAX
got = dict.fromkeys(map(int, mine), 0)
def counts(number, _): got[number] += 1
def says():
    time.sleep(0.3)
    now = dict(got)
    for number in now: got[number] -= now[number]
    print(*now.values(), flush=True)
for number in mine: signal.signal(number, counts)
for number in mine:
    for wanted in 1, 2, 3:
        child = os.fork()
        if not child:
            signal.signal(number, signal.SIG_IGN)
            os.kill(0, number)
            os._exit(0)
        os.waitpid(child, 0)
        while got[number] < wanted: time.sleep(0.01)
        time.sleep(0.15)
says()
for wanted in sys.stdin:
    while sum(got.values()) < int(wanted): time.sleep(0.01)
    says()
"#;

#[test]
fn what_a_group_is_sent_comes_once_whoever_sent_it() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    for run in RUNS {
        // What is ignored by who runs the tests is nobody's then.
        let program = [&["env", "--default-signal"], run, &[python(), "-c", COUNTS]].concat();
        let mut begun = Begun::of(here.path(), &program);
        let mut tells = begun.child.0.stdin.take().unwrap();
        assert_eq!(begun.says().as_deref(), Some("3 3 3 3 3"), "{run:?}");
        // Also of what another process sends it, that is gone as well.
        for (to, wanted) in
            [("-", "1 1 1 1 1"), ("-", "1 1 1 1 1"), ("", "1 0 1 1 1"), ("-", "1 1 1 1 1")]
        {
            let numbers: &[_] = if to == "-" { &[10, 15, 1, 34, 64] } else { &[10, 1, 34, 64] };
            for number in numbers {
                begun.is_sent(&format!("kill -{number} {to}PID"));
            }
            writeln!(tells, "{}", numbers.len()).unwrap();
            assert_eq!(begun.says().as_deref(), Some(wanted), "{run:?} {to}");
        }
    }
}

/// As who asks a process and its group to end, where the program has a group of its own by then.
#[test]
fn who_has_left_the_group_is_asked_to_end() {
    const LEAVES: &str = "
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), os._exit(0)))
os.setpgid(0, 0)
print('left', flush=True)
time.sleep(20)
print('slept')";
    let here = TempDir::new().unwrap();
    for program in programs(LEAVES) {
        let mut begun = Begun::of(here.path(), &program);
        assert_eq!(begun.says().as_deref(), Some("left"), "{program:?}");
        // Natively there is nobody in the group. Who asks again later than that wants all to end at once.
        begun.is_sent("kill -15 -PID 2> /dev/null; kill -15 PID");
        assert_eq!(begun.says().as_deref(), Some("asked"), "{program:?}");
    }
}

/// As a terminal asks all of a group, by its keys; and who has left that.
#[test]
fn who_has_left_the_group_of_a_terminal_is_interrupted_by_its_key() {
    const PRESSES: &str = "
import os, pty, signal, sys
pid, terminal = pty.fork()
# What was ignored here would be there, and is nobody's then.
if not pid: signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])
said = b''
def reads(*words):
    global said
    while not any(word in said for word in words): said += os.read(terminal, 100)
reads(b'left')
os.write(terminal, b'\\x03')
reads(b'slept', b'asked')
print(b'asked' in said)
";
    const LEAVES: &str = "
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: (print('asked', flush=True), os._exit(0)))
try: os.setpgid(0, 0)
except PermissionError: pass
print('left', flush=True)
time.sleep(20)
print('slept')";
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    for run in RUNS {
        let program = [&["-c", PRESSES], run, &[python(), "-c", LEAVES]].concat();
        let output = Command::new(python()).args(program).current_dir(here.path()).output();
        let said = text(&output.unwrap().stdout);
        assert_eq!(said, "True\n", "{run:?}");
    }
}

/// A program that is ended by a signal that its group is sent, or ends by itself. Another one is of that, or not, and takes its time to end.
const ENDS: &str = "
import os, signal, sys, time
ready, readies = os.pipe()
def ends(*_): time.sleep(0.5); print('ended', flush=True); os._exit(0)
if not os.fork():
    if sys.argv[1] == 'leaves': os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, ends)
    os.close(readies)
    time.sleep(20); print('slept', flush=True); os._exit(0)
os.close(readies); os.read(ready, 1)
if sys.argv[2] == 'ends': signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
if sys.argv[2] == 'stays': time.sleep(20)
";

#[test]
fn who_is_of_a_group_ends_as_it_likes_when_that_is_asked_to() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let [_, pathwalk] = RUNS;
    let begins = |run: &[&str], how: [&str; 2]| {
        let program = [run, &[python(), "-c", ENDS], &how].concat();
        let mut begun = Begun::of(here.path(), &program);
        assert_eq!(begun.says().as_deref(), Some("ready"), "{run:?}");
        begun
    };
    for _ in 0..5 {
        for run in RUNS {
            let mut begun = begins(run, ["is in it", "stays"]);
            begun.is_sent("kill -15 -PID");
            assert_eq!(begun.says().as_deref(), Some("ended"), "{run:?}");
            assert_eq!(begun.child.0.wait().unwrap().signal(), Some(15), "{run:?}");
        }
    }
    // When the program has ended and nobody is of the group, all are killed.
    let mut begun = begins(pathwalk, ["leaves", "ends"]);
    let status = loop {
        if let Some(status) = begun.child.0.try_wait().unwrap() {
            break status;
        }
        // It may be that the program has not ended yet.
        begun.is_sent("kill -15 -PID");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(begun.says(), None);
    assert_eq!(status.code(), Some(0));
}

/// What the C library tells nobody of, as [`SENDS_ALL`] and [`COUNTS_ODD`] need it, by a program of whose calls so many were answered that
/// its supervisor has several threads.
const ODD: &str = r#"
import ctypes, os, sys, time
kernel = ctypes.CDLL(None).syscall
for _ in range(300): os.mkdir('made'); os.rmdir('made')
"#;

/// A program that ignores what the C library has for itself and what tells of faults, and sends its group each of them several times.
const SENDS_ALL: &str = r#"
odd, ignores = (7, 11, 32, 33), (ctypes.c_uint64 * 4)(1)
for number in odd: print(kernel(13, number, ignores, None, 8), flush=True)
for number in odd:
    for _ in range(3):
        os.kill(0, number)
        time.sleep(0.02)
        os.close(os.open('.', os.O_RDONLY))
print('lives')
"#;

#[test]
fn nobody_above_is_ended_by_what_a_group_is_sent() {
    let here = TempDir::new().unwrap();
    for program in programs(&format!("{ODD}{SENDS_ALL}")) {
        let mut command = Command::new(program[0]);
        let output = command.args(&program[1..]).current_dir(here.path()).process_group(0).output();
        let output = output.unwrap();
        let said = (output.status.code(), text(&output.stdout));
        let want = (Some(0), "0\n0\n0\n0\nlives\n".to_owned());
        assert_eq!(said, want, "{program:?} {}", output.status);
    }
}

/// A program that ends by a signal, also where that was ignored: who spawns may have the C library ignore its own.
const ENDS_BY: &str = r#"
import ctypes, os, sys
number, kernel = int(sys.argv[1]), ctypes.CDLL(None).syscall
kernel(13, number, (ctypes.c_uint64 * 4)(0), None, 8)
os.kill(os.getpid(), number)
"#;

#[test]
fn who_ends_by_a_signal_ends_so() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    for number in [7, 11, 15, 32, 33, 34] {
        for before in ["", ODD] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
            command.args([
                "run",
                python(),
                "-c",
                &format!("{before}{ENDS_BY}"),
                &number.to_string(),
            ]);
            let output = command.current_dir(here.path()).output().unwrap();
            assert_eq!(output.status.signal(), Some(number), "{output:?}");
        }
    }
}

/// A program that has blocked what the C library has for itself, and says how many it took.
const COUNTS_ODD: &str = r#"
odd, second = ctypes.c_uint64(3 << 31), (ctypes.c_int64 * 2)(1)
kernel(14, 0, ctypes.byref(odd), None, 8)
print('ready', flush=True)
taken = []
while (number := kernel(128, ctypes.byref(odd), None, second, 8)) > 0: taken.append(number)
print(sorted(taken))
"#;

#[test]
fn what_the_c_library_has_for_itself_comes_once_to_who_is_of_the_group() {
    let here = TempDir::new().unwrap();
    for program in programs(&format!("{ODD}{COUNTS_ODD}")) {
        let mut begun = Begun::of(here.path(), &program);
        assert_eq!(begun.says().as_deref(), Some("ready"), "{program:?}");
        begun.is_sent("for number in 32 33 32 33; do kill -$number -PID; done");
        assert_eq!(begun.says().as_deref(), Some("[32, 32, 33, 33]"), "{program:?}");
    }
}

/// Holds a lease of a file, and gives it up a while after it is told to.
const LEASES: &str = "
import fcntl, os, signal, time
told = []
signal.signal(signal.SIGIO, lambda *_: told.append(1))
fd = os.open('leased', os.O_RDONLY); fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print('leased', flush=True)
while not told: signal.pause()
time.sleep(0.5)
";

/// Opens that, while its group gets a signal that it does not handle.
const WAITS: &str = "
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
while not child:
    os.kill(0, signal.SIGURG)
    time.sleep(0.01)
print('opened' if libc.open(b'leased', os.O_RDWR) >= 0 else os.strerror(ctypes.get_errno()))
os.kill(child, signal.SIGKILL)
";

#[test]
fn who_waits_is_not_interrupted_by_what_the_supervisor_is_sent() {
    let here = TempDir::new().unwrap();
    fs::write(here.path().join("leased"), "").unwrap();
    for program in programs(WAITS) {
        let mut leases = Command::new(python());
        leases.args(["-c", LEASES]).current_dir(here.path()).stdout(Stdio::piped());
        let mut leases = Running(leases.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(leases.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "leased\n");
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(here.path()).process_group(0);
        assert_eq!(text(&command.output().unwrap().stdout), "opened\n", "{program:?}");
    }
}
