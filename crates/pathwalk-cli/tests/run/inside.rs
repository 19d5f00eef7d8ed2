//! Answers that a program finds by itself are those that it would be given, and it finds them.

use crate::{
    attacks::cc,
    common::{can_run, python, text},
    left_out::left_out,
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// After so many calls a process finds answers by itself: never, from the first on, and as it is if nothing is said.
const AFTER: [&str; 3] = ["0", "1", "64"];

/// A directory with the program in it, built in both ways; none where no program can be run.
fn built() -> Option<TempDir> {
    if !can_run(&["cc"]) {
        return None;
    }
    let dir = TempDir::new_in("/tmp").unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/inside.c");
    cc(dir.path(), &["-O1", "-pthread", "-o", "dynamic", source]);
    cc(dir.path(), &["-O1", "-pthread", "-static", "-o", "static", source]);
    Some(dir)
}

pub(crate) fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn in_the_tree(dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.arg("run").args(options).current_dir(dir);
    command
}

/// What the program says of this, natively and in the tree.
fn the_same(args: &[&str]) {
    let Some(built) = built() else { return };
    for program in ["./dynamic", "./static"] {
        let want = said(Command::new(built.path().join(program)).args(args).current_dir(&built));
        for after in AFTER {
            let mut command = in_the_tree(built.path(), &["--inside", after, program]);
            let have = said(command.args(args));
            let differs = want.lines().zip(have.lines()).find(|(want, have)| want != have);
            assert_eq!(differs, None, "{program} {args:?} --inside {after}");
            assert_eq!(want.lines().count(), have.lines().count(), "{program} --inside {after}");
        }
    }
}

#[test]
fn a_call_changes_no_register_that_it_does_not_change_natively() {
    the_same(&["registers"]);
}

#[test]
fn what_is_not_there_or_not_to_be_written_is_no_crash() {
    the_same(&["pointers"]);
}

#[test]
fn what_the_program_changes_on_the_host_it_sees_at_once() {
    the_same(&["changes", "."]);
}

#[test]
fn what_the_program_changes_in_memory_it_sees_at_once() {
    the_same(&["changes", "/dev/shm"]);
}

#[test]
fn threads_children_and_closed_descriptors_are_as_natively() {
    the_same(&["processes"]);
}

#[test]
fn what_is_opened_is_what_was_named() {
    the_same(&["opens"]);
}

/// Most descriptors are taken by the process itself, and those that are not there are given.
#[test]
fn descriptors_are_handed_over_and_missed() {
    let Some(built) = built() else { return };
    let mut command =
        in_the_tree(built.path(), &["--stats", "--inside", "1", "./dynamic", "opens"]);
    let told = text(&command.stdin(Stdio::null()).output().unwrap().stderr);
    let line = told.lines().find(|line| line.contains("handed over")).unwrap();
    let numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let [handed, missed] = numbers.collect::<Vec<u64>>()[..] else { panic!("{line}") };
    assert!(handed > 2000 && (1..100).contains(&missed), "{line}");
}

/// Those who ended keep nobody from taking descriptors.
#[test]
fn many_processes_take_descriptors_one_after_the_other() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let script = "
import os
for n in range(100): os.close(os.open('/etc/passwd', os.O_RDONLY))
for child in range(400):
    if not os.fork():
        for n in range(30): os.close(os.open('/etc/passwd', os.O_RDONLY))
        os._exit(0)
    os.wait()
";
    let mut command = in_the_tree(here.path(), &["--stats", "--inside", "1", python(), "-c"]);
    let told = text(&command.arg(script).stdin(Stdio::null()).output().unwrap().stderr);
    let line = told.lines().find(|line| line.contains("handed over")).unwrap();
    let handed: u64 = line.split(' ').next().unwrap().parse().unwrap();
    // Of one file each second one lies ready.
    assert!(handed > 400 * 10, "{line}");
}

/// While a process is stopped that has not yet taken what was opened for it, others open so much that what nobody has is forgotten.
#[test]
fn what_is_on_its_way_is_not_forgotten() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let script = "
import os, signal, time
dirs = [path for path, _, _ in os.walk('/usr')][1:2000]
pid = os.fork()
if not pid:
    wrong = []
    signal.signal(signal.SIGALRM, lambda *_: (print(wrong, flush=True), os._exit(0)))
    signal.alarm(3)
    while True:
        for path in dirs[:50]:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                os.stat('.', dir_fd=fd)
                os.close(fd)
            except OSError as error:
                wrong.append(error.errno)
at, end = 50, time.time() + 2
while time.time() < end:
    os.kill(pid, signal.SIGSTOP)
    for path in dirs[at:at + 600]:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    at = 50 + (at + 600) % 1300
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.002)
os.waitpid(pid, 0)
";
    let said = said(
        in_the_tree(here.path(), &["--inside", "1", python(), "-c", script]).stdin(Stdio::null()),
    );
    assert_eq!(said, "[]\n");
}

/// The flags by which a directory was opened are shown as natively, whether it is given as the host has it or another one stands for it; but that one shows
/// `O_DIRECTORY` and `O_NOFOLLOW` always.
#[test]
fn a_directory_shows_by_which_flags_it_was_opened() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let given = here.path().join("given");
    fs::create_dir_all(given.join("below")).unwrap();
    let script = "
import fcntl, itertools, os, sys
# Those that Linux does not show are among them.
names = 'NONBLOCK APPEND ASYNC DSYNC SYNC NOATIME DIRECT CLOEXEC NOCTTY DIRECTORY NOFOLLOW'.split()
hides = os.O_DIRECTORY | os.O_NOFOLLOW if sys.argv[2] else 0
for some in itertools.chain.from_iterable(itertools.combinations(names, count) for count in range(4)):
    flags = sum({getattr(os, 'O_' + name) for name in some if not (name == 'DSYNC' and 'SYNC' in some)})
    try: fd = os.open(sys.argv[1], flags)
    except OSError as error: print(*some, error.errno); continue
    shown = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
    print(*some, oct(shown & ~hides), oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~hides), os.listdir(fd))
    os.close(fd)
";
    let data = here.path().display().to_string();
    let bind = format!("{data}:{data}");
    for (after, hides) in [("1", ""), ("0", "another stands for it")] {
        let args = ["-c", script, given.to_str().unwrap(), hides];
        let native = said(Command::new(python()).args(args));
        let options = ["--inside", after, "--bind", &bind, python()];
        let tree = said(in_the_tree(here.path(), &options).args(args));
        for (native, tree) in native.lines().zip(tree.lines()) {
            assert_eq!(native, tree, "--inside {after}");
        }
        assert_eq!(native.lines().count(), tree.lines().count());
    }
}

/// Who watches a directory is not told that it is read when another one opens it.
#[test]
fn who_watches_hears_of_no_reading_that_nobody_did() {
    let Some((others, bind)) = only_read() else { return };
    let script = "
import ctypes, os
libc = ctypes.CDLL(None)
top = os.open('/tmp/data/top', os.O_RDONLY)
for n in range(100): os.path.exists('/usr')
os.stat('a', dir_fd=top, follow_symlinks=False)
queue = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(queue, b'/tmp/data/top/a', 1)
os.close(os.open('/tmp/data/top/a', os.O_RDONLY))
try: print(os.read(queue, 4096))
except BlockingIOError: print('nothing')
";
    let heard = said(in_the_tree(others.path(), &["--inside", "1", "--bind", &bind]).args([
        python(),
        "-c",
        script,
    ]));
    assert_eq!(heard, "nothing\n");
}

/// How many calls of a name reached the supervisor, by what `--stats` says.
pub(crate) fn calls(stats: &str, name: &str) -> u64 {
    calls_if_any(stats, name).unwrap_or_else(|| panic!("no {name} in {stats}"))
}

/// How many of them succeeded.
pub(crate) fn succeeded(stats: &str, name: &str) -> u64 {
    calls(stats, name) - column(stats, name, 2).unwrap()
}

/// The same, if any did.
pub(crate) fn calls_if_any(stats: &str, name: &str) -> Option<u64> {
    column(stats, name, 1)
}

fn column(stats: &str, name: &str, which: usize) -> Option<u64> {
    let line = stats.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(which).unwrap().parse().ok()
}

/// Whether as few calls reach the supervisor as are to: what somebody else does on the host meanwhile has them asked again, so it may be tried
/// more than once.
pub(crate) fn are_few(what: &str, few: impl Fn() -> (u64, u64)) {
    let mut tried = Vec::new();
    for _ in 0..6 {
        let (heard, less_than) = few();
        if heard < less_than {
            return;
        }
        tried.push((heard, less_than));
    }
    panic!("{what}: {tried:?}, and not fewer");
}

/// Of 2,000 calls of each of three paths the supervisor hears a few: the others were found. With virtual credentials it hears all.
#[test]
fn answers_are_found() {
    let Some(built) = built() else { return };
    for program in ["./dynamic", "./static"] {
        let heard = |options: &[&str]| {
            let mut command = in_the_tree(built.path(), options);
            let output = command.args(["--stats", program, "registers"]).output().unwrap();
            calls(&text(&output.stderr), "access")
        };
        are_few(program, || (heard(&[]), 100));
        assert!(heard(&["--inside", "0"]) >= 2000);
        assert!(heard(&["--uid", "0"]) >= 2000);
        // Of a program of which one process made many calls the next ones make few.
        let five = format!("for n in 1 2 3 4 5; do {program} registers; done");
        are_few(&five, || {
            let mut command = in_the_tree(built.path(), &["--stats", "sh", "-c", &five]);
            (calls(&text(&command.output().unwrap().stderr), "access"), 2 * heard(&[]))
        });
    }
}

/// Each of the files of a directory is asked about once, and the supervisor hears of a few.
#[test]
fn who_looks_at_all_files_of_a_directory_finds_most() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    for number in 0..1000 {
        fs::write(here.path().join(format!("file{number}")), "x".repeat(number)).unwrap();
    }
    let script = "import os\nprint(sum(os.lstat(f'file{n}').st_size for n in range(1000)))";
    let heard = |after: &str| {
        let mut command = in_the_tree(here.path(), &["--stats", "--inside", after]);
        let output = command.args([python(), "-c", script]).output().unwrap();
        assert_eq!(text(&output.stdout), "499500\n", "{}", text(&output.stderr));
        calls(&text(&output.stderr), "newfstatat")
    };
    are_few("with --inside 0 all", || (heard("64") + 800, heard("0")));
}

/// Of a directory of more files than are looked at at once the others are looked at when they are asked about, and none twice: with each
/// of 10,000 files the supervisor would list the first ones again, and take minutes.
#[test]
fn who_looks_at_all_files_of_a_large_directory_finds_most() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    fs::create_dir(here.path().join("large")).unwrap();
    for number in 0..10_000 {
        fs::write(here.path().join(format!("large/{number}")), "").unwrap();
    }
    let script = "import os\nprint(sum(os.stat(f'large/{n}').st_nlink for n in range(10000)))";
    are_few("a fifth of 10,000", || {
        let mut command = in_the_tree(here.path(), &["--stats"]);
        let output = command.args([python(), "-c", script]).output().unwrap();
        assert_eq!(text(&output.stdout), "10000\n", "{}", text(&output.stderr));
        (calls(&text(&output.stderr), "newfstatat"), 2000)
    });
}

/// Says of all files in the directories below this one what they are, by their paths; once for each line.
const LOOKS: &str = "
import os, sys
def what(path):
    try: stat = os.lstat(path)
    except OSError as error: return error.errno
    return oct(stat.st_mode), stat.st_size, stat.st_mtime_ns, stat.st_ino
names = [f'{a}/{b}/{c}' for a in range(3) for b in range(12) for c in range(20)]
while True:
    print(hash(tuple(what(name) for name in names)), [what(name) for name in names[::17]], flush=True)
    line = sys.stdin.readline().strip()
    if not line: break
    if line != '-': os.system(line)
";

fn directories_of_files() -> TempDir {
    let here = TempDir::new_in("/tmp").unwrap();
    for (a, b) in (0..3).flat_map(|a| (0..12).map(move |b| (a, b))) {
        let dir = here.path().join(format!("{a}/{b}"));
        fs::create_dir_all(&dir).unwrap();
        for name in 0..20 {
            fs::write(dir.join(name.to_string()), "x".repeat(name)).unwrap();
        }
    }
    here
}

/// How many directories were looked at ahead of the program, and in how many of them it looked then.
fn ahead(stats: &str) -> [u64; 2] {
    let line = stats.lines().find(|line| line.contains("were looked at ahead"));
    let mut words = line.into_iter().flat_map(str::split_whitespace);
    [(); 2].map(|()| words.by_ref().find_map(|word| word.parse().ok()).unwrap_or(0))
}

/// Whether in so many directories somebody looked ahead of a program that looked there then; on a busy machine the program may be
/// faster, so it may be tried more than once.
fn is_ahead_in(least: u64, looks: impl Fn() -> String) {
    if thread::available_parallelism().is_ok_and(|many| many.get() == 1) {
        return left_out("nobody goes ahead where one processor is all that there is");
    }
    let mut tried = Vec::new();
    while tried.len() < 6 {
        let looked = ahead(&looks());
        if looked[1] >= least {
            return;
        }
        tried.push(looked);
    }
    panic!("looked at ahead, and then: {tried:?}, and not {least}");
}

/// What `--stats` says of a script that succeeds.
fn stats_of(dir: &Path, options: &[&str], script: &str) -> String {
    let mut command = in_the_tree(dir, &["--stats"]);
    command.args(options).args([python(), "-c", script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr)
}

/// Who asks about the files of one directory after the other finds most of them, as somebody asked ahead of him.
#[test]
fn who_looks_at_the_files_of_many_directories_finds_most() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = directories_of_files();
    let stats = |after: &str| stats_of(here.path(), &["--inside", after], LOOKS);
    let heard = |after: &str| calls(&stats(after), "newfstatat");
    are_few("with --inside 0 all", || (heard("1") + 500, heard("0")));
    is_ahead_in(4, || stats("1"));
}

/// He sees what others change, and what he changes himself, as he would natively.
#[test]
fn who_looks_at_the_files_of_many_directories_sees_what_is_changed() {
    if !can_run(&["python3", "sh"]) {
        return;
    }
    let here = directories_of_files();
    let native = || {
        let mut native = Command::new(python());
        native.args(["-c", LOOKS]).current_dir(here.path()).env("PYTHONHASHSEED", "0");
        let native = native.stdin(Stdio::null()).output().unwrap();
        text(&native.stdout).trim_end().to_owned()
    };
    let mut tree = in_the_tree(here.path(), &["--inside", "1", "--env", "PYTHONHASHSEED=0"]);
    tree.args([python(), "-c", LOOKS]);
    let mut tree = Teller::of(tree);
    assert_eq!(tree.tells(), native());
    let changes = [
        "echo > 0/3/7",
        "chmod 711 1/5/0 2/11/19",
        "rm 0/9/1 1/9/1; ln -s 0 0/9/1",
        "mv 0/4 0/away; mv 0/5 0/4; mv 0/away 0/5",
        "mv 2 away; mkdir 2; mv away/3 2/3",
        "rm -r 2; mv away 2",
        "touch -d @1000000000 1/1/*",
    ];
    for (turn, change) in changes.into_iter().cycle().take(28).enumerate() {
        // Now others do, now the program.
        if turn % 2 == 0 {
            let mut other = Command::new("sh");
            // What was done already fails, and does something else.
            other.args(["-c", change]).current_dir(here.path()).stderr(Stdio::null());
            let _ = other.status().unwrap();
            assert_eq!(tree.tells_after("-"), native(), "others: {change}");
        } else {
            let change = format!("({change}) 2>/dev/null");
            assert_eq!(tree.tells_after(&change), native(), "the program: {change}");
        }
        assert_eq!(tree.tells_after("-"), native(), "{change}");
    }
}

/// What a process has to find answers is in no list of its descriptors.
#[test]
fn what_answers_are_found_by_is_not_listed() {
    if !can_run(&["bash"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let says = |script: &str| {
        said(
            in_the_tree(here.path(), &["--inside", "1", "bash", "-c", script]).stdin(Stdio::null()),
        )
    };
    assert!(says("readlink /proc/$$/fd/1021").contains("eventpoll"), "it has it");
    // What is listed has a heading, in which no number of a process may look like one of these descriptors.
    let listed = says("cd /proc/$$; ls /proc/self/fd fd /proc/self/fdinfo fdinfo; :");
    let not_listed = !listed.contains("1021") && !listed.contains("1020");
    assert!(listed.contains('0') && not_listed, "{listed}");
    // After a few openings it has a socket.
    let opens = "for n in $(seq 32); do : < /etc/passwd; done";
    assert!(
        says(&format!("{opens}; readlink /proc/$$/fd/1020; :")).contains("socket"),
        "it has it"
    );
    let listed = says(&format!("{opens}; cd /proc/$$; ls fd fdinfo; :"));
    assert!(!listed.contains("102"), "{listed}");
}

/// Of a program of which one process made many calls the next ones make few, by way of the library, which may lie close to the interpreter
/// that was seen first.
#[test]
fn what_is_known_to_make_many_calls_finds_answers_at_once() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let program = python();
    let heard = |times: &str| {
        let script = format!("for n in {times}; do {program} -c 'import json, re'; done");
        let mut command = in_the_tree(here.path(), &["--stats", "sh", "-c", &script]);
        calls(&text(&command.output().unwrap().stderr), "newfstatat")
    };
    are_few("eight times", || (heard("1 2 3 4 5 6 7 8"), 4 * heard("1")));
}

/// What the kernel alone has, and what a directory of the host has that tells nothing, is told by the kernel.
#[test]
fn what_is_no_file_of_the_tree_is_told_by_the_kernel() {
    let Some(built) = built() else { return };
    let script = "
import os, socket, sys
ends, (read, write), null = socket.socketpair(), os.pipe(), os.open('/dev/null', os.O_RDONLY)
all = [0, 1, 2, read, write, null] + [end.fileno() for end in ends]
def looks(fd): stat = os.fstat(fd); return [stat.st_mode, stat.st_nlink, stat.st_uid, stat.st_rdev, stat.st_size, stat.st_blksize]
for fd in all: print([looks(fd) for _ in range(int(sys.argv[1]))][-1])
os.write(write, b'more'); print(looks(read))
print([os.fstat(fd).st_dev == os.stat('/dev/null').st_dev for fd in all])
os.dup2(null, read); print(looks(read), os.path.samestat(os.fstat(read), os.stat('/dev/null')))
";
    let native = said(Command::new(python()).args(["-c", script, "1"]));
    let told = ["1", "100"].map(|times| {
        let options = ["--inside", "1", "--stats", python(), "-c", script, times];
        let output = in_the_tree(built.path(), &options).stdin(Stdio::null()).output().unwrap();
        assert_eq!(text(&output.stdout), native);
        calls(&text(&output.stderr), "newfstatat")
    });
    assert!(told[1] < told[0] + 50, "{told:?}");
}

/// A program that tells what a path is, after each line that it is sent.
pub(crate) struct Teller {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Teller {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn tells(&mut self) -> String {
        self.lines.next().expect("it goes on").unwrap()
    }

    fn tells_again(&mut self) -> String {
        self.tells_after("")
    }

    pub(crate) fn tells_after(&mut self, line: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.tells()
    }
}

/// Another process changes a directory of the host, and the program asks after each change: it sees what a program on the host sees,
/// every time, however often it found the answer before. What `Coherence::Watched` is not told of is left out.
#[test]
fn what_others_change_is_seen_at_once() {
    let Some(built) = built() else { return };
    let others = TempDir::new_in("/tmp").unwrap();
    let at = |name: &str| others.path().join(name);
    fs::create_dir(at("dir")).unwrap();
    let name = at("dir/name");
    let bind = format!("{}:/tmp/data", others.path().display());
    let mut tree = in_the_tree(built.path(), &["--inside", "1", "--bind", &bind]);
    tree.args(["./dynamic", "told", "/tmp/data/dir/name"]);
    let mut native = Command::new(built.path().join("dynamic"));
    native.arg("told").arg(&name);
    let (mut tree, mut native) = (Teller::of(tree), Teller::of(native));
    for teller in [&mut tree, &mut native] {
        teller.tells();
    }
    let mut compare = |what: &str| {
        // Found, asked about and believed.
        for _ in 0..3 {
            let said = |line: String| line.split_once(": ").map(|(_, said)| said.to_owned());
            assert_eq!(said(tree.tells_again()), said(native.tells_again()), "{what}");
        }
    };
    for round in 0..40 {
        fs::write(&name, "x".repeat(round)).unwrap();
        compare("made");
        fs::write(&name, "y".repeat(100 + round)).unwrap();
        compare("written");
        fs::set_permissions(&name, PermissionsExt::from_mode(0o711)).unwrap();
        compare("mode");
        fs::rename(&name, at("third")).unwrap();
        compare("moved away");
        symlink("../third", &name).unwrap();
        compare("symlink");
        fs::remove_file(at("third")).unwrap();
        compare("dangling");
        fs::remove_file(&name).unwrap();
        compare("absent");
        fs::create_dir(&name).unwrap();
        compare("directory");
        fs::remove_dir(&name).unwrap();
        fs::rename(at("dir"), at("other")).unwrap();
        compare("directory away");
        fs::create_dir(at("dir")).unwrap();
        compare("another directory");
        fs::remove_dir(at("dir")).unwrap();
        fs::rename(at("other"), at("dir")).unwrap();
        compare("back");
    }
}

/// Goes through the directories below its second argument, by their names in each other, and says what each is; once for each line.
const GOES: &str = "
import os, sys
def go(at, path):
    names = sorted(os.listdir(at))
    print(path, names, end=' ')
    for name in names:
        stat = os.stat(name, dir_fd=at, follow_symlinks=False)
        print(oct(stat.st_mode), stat.st_nlink, stat.st_mtime_ns, stat.st_ino, end=' ')
        if stat.st_mode & 0o40000:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            stat = os.stat(below)
            print(stat.st_nlink, stat.st_mtime_ns, stat.st_size, end=' ')
            go(below, path + '/' + name)
            os.close(below)
top = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
while True:
    go(top, '')
    print(flush=True)
    if not sys.stdin.readline(): break
    os.lseek(top, 0, os.SEEK_SET)
";

/// A directory of the host of whose changes the kernel tells, for scripts; none where it does not, or they do not run.
pub(crate) fn told_of() -> Option<TempDir> {
    if !can_run(&["python3", "stat", "sh"]) {
        return None;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let kind = said(Command::new("stat").args(["-f", "-c", "%T"]).arg(here.path()));
    if !["ext2/ext3", "tmpfs", "xfs", "btrfs", "f2fs"].contains(&kind.trim()) {
        left_out(format_args!("{} does not tell of all that happens", kind.trim()));
        return None;
    }
    Some(here)
}

/// A tree of the host that is only read in the tree, and the options that put it there; none where it cannot be told of.
fn only_read() -> Option<(TempDir, String)> {
    let others = told_of()?;
    for name in ["top/a/b/c", "top/a/d", "top/e/f", "top/g"] {
        fs::create_dir_all(others.path().join(name)).unwrap();
    }
    for number in 0..40 {
        fs::create_dir_all(others.path().join(format!("top/many/{number}/below"))).unwrap();
    }
    fs::write(others.path().join("top/a/file"), "").unwrap();
    let bind = format!("{}:/tmp/data:ro", others.path().display());
    Some((others, bind))
}

/// Who goes through a tree of the host sees after each change what he would see natively.
#[test]
fn who_goes_through_directories_sees_what_others_change() {
    let Some((others, bind)) = only_read() else { return };
    let mut tree = in_the_tree(others.path(), &["--inside", "1", "--bind", &bind]);
    tree.args([python(), "-c", GOES, "/tmp/data/top"]);
    let mut native = Command::new(python());
    native.args(["-c", GOES]).arg(others.path().join("top"));
    let (mut tree, mut native) = (Teller::of(tree), Teller::of(native));
    assert_eq!(tree.tells(), native.tells());
    for script in [
        "mkdir a/b/new",
        "chmod 711 a/b",
        "touch a/b/c/file",
        "rmdir a/b/new",
        "mv a/d a/b/d",
        "mv e a/e",
        "rm -r a/b/c; echo > a/b/c",
        "rm a/b/c; mkdir a/b/c",
        "mv a/b other; mkdir a/b a/b/z",
        "rm -r a; mkdir -p a/b/c/d/e/f",
        "rm -r g; ln -s a g",
        "touch -d @1000000000 a a/b",
        "for n in 7 17 27 37; do mkdir many/$n/new; rmdir many/$n/below; done",
        "mv many/7 many/39/below/; chmod 700 many/30 many/39",
        "mv many other; mkdir many many/7; touch -d @1000000000 other/*",
        "rm -r many; mv other many",
    ] {
        let mut change = Command::new("sh");
        change.args(["-c", script]).current_dir(others.path().join("top"));
        assert!(change.status().unwrap().success(), "{script}");
        for _ in 0..3 {
            assert_eq!(tree.tells_again(), native.tells_again(), "{script}");
        }
    }
}

/// Directories of the host that are only read are listed by the process itself; and who goes through a tree finds what those in each are.
#[test]
fn who_goes_through_directories_makes_one_call_for_each() {
    let Some((others, bind)) = only_read() else { return };
    for number in 0..300 {
        fs::create_dir_all(others.path().join(format!("top/{number}/below"))).unwrap();
    }
    let heard = |options: &[&str]| {
        let mut tree = in_the_tree(others.path(), &["--stats", "--bind", &bind]);
        tree.args(options).args([python(), "-c", GOES, "/tmp/data/top"]);
        let output = tree.stdin(Stdio::null()).output().unwrap();
        let (out, told) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{told}");
        assert!(calls(&told, "openat") > 600, "each directory is opened: {told}");
        (out, ["getdents64", "newfstatat"].map(|name| calls_if_any(&told, name).unwrap_or(0)))
    };
    // Where the program may write, too, it lists by itself.
    let written = bind.trim_end_matches(":ro").replace("/tmp/data", "/tmp/written");
    let lists = |after: &str| {
        let mut tree = in_the_tree(others.path(), &["--stats", "--bind", &written]);
        tree.args(["--inside", after, python(), "-c", GOES, "/tmp/written/top"]);
        let told = text(&tree.stdin(Stdio::null()).output().unwrap().stderr);
        assert!(calls(&told, "openat") > 600, "each directory is opened: {told}");
        calls_if_any(&told, "getdents64").unwrap_or(0)
    };
    are_few("getdents64 where the program may write", || (lists("64") + 400, lists("0")));
    // Who takes his time is not faster than who goes ahead, whoever else there is.
    let slowly = GOES.replace("    names =", "    time.sleep(.002)\n    names =");
    let slowly = format!("import time{slowly}");
    is_ahead_in(20, || {
        let mut tree = in_the_tree(others.path(), &["--stats", "--bind", &bind]);
        tree.args(["--inside", "1", python(), "-c", &slowly, "/tmp/data/top"]);
        text(&tree.stdin(Stdio::null()).output().unwrap().stderr)
    });
    let (want, all) = heard(&["--inside", "0"]);
    for (index, name) in ["getdents64", "newfstatat"].into_iter().enumerate() {
        are_few(name, || {
            let (have, few) = heard(&[]);
            assert_eq!(have, want);
            (few[index] + 400, all[index])
        });
    }
}

/// Who goes deep has few directories open for what is asked ahead of him, and none when he is gone: a chain of directories with others
/// beside each is gone through where few may be open at once, of which one asked ahead would take too many.
#[test]
fn who_goes_deep_has_room_for_what_is_opened() {
    let Some((others, bind)) = only_read() else { return };
    let mut dir = others.path().join("deep");
    for _ in 0..400 {
        dir.push("d");
        for beside in ["a", "b"] {
            fs::create_dir_all(dir.join(beside)).unwrap();
        }
    }
    for limit in [128, 1024] {
        let limited = format!("ulimit -n {limit}; exec \"$@\"");
        let mut tree = Command::new("sh");
        tree.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_pathwalk"), "run", "--inside", "1"]);
        tree.args(["--bind", &bind, "--", "sh", "-c"]);
        let script = "find /tmp/data/deep -type d | wc -l; sleep 6; echo done";
        let mut tree = Teller::of({
            tree.arg(script);
            tree
        });
        assert_eq!(tree.tells(), "1201", "{limit}");
        let few = || {
            thread::sleep(Duration::from_millis(100));
            held_below(tree.child.id(), others.path()) < 4
        };
        assert!((0..50).any(|_| few()), "directories are held that were read ahead");
        assert_eq!(tree.tells(), "done");
    }
}

const O_PATH: u32 = 0o10_000_000;

/// How many directories below this one are open to be read in the processes that come of one.
fn held_below(process: u32, dir: &Path) -> usize {
    let children = |pid: u32| -> Vec<u32> {
        let all = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let told = all.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        told.flat_map(|told| {
            told.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect()
    };
    let mut all = vec![process];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children(pid));
        next += 1;
    }
    let open = |pid: &u32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let below = fds.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(dir)));
        let info = |fd: fs::DirEntry| {
            fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd.file_name().display()))
                .unwrap_or_default()
        };
        // Those of `O_PATH` are kept to ask by.
        let path = |info: &String| {
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            flags.is_none_or(|flags| u32::from_str_radix(flags.trim(), 8).unwrap() & O_PATH != 0)
        };
        below.map(info).filter(|info| !path(info)).count()
    };
    all.iter().map(open).sum()
}

/// Who asks about files of some directories and leaves those beside them alone is followed again where he goes next.
#[test]
fn who_leaves_others_alone_is_followed_again() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = directories_of_files();
    for dir in 0..60 {
        fs::create_dir_all(here.path().join(format!("many/{dir}"))).unwrap();
        for file in 0..4 {
            fs::write(here.path().join(format!("many/{dir}/{file}")), "").unwrap();
        }
    }
    // Where it was not asked for as many directories as it goes ahead.
    let script = format!(
        "import os, time
for dir in range(3): [os.stat(f'many/{{dir}}/{{file}}') for file in range(4)]
time.sleep(.3)
{LOOKS}"
    );
    is_ahead_in(10, || stats_of(here.path(), &["--inside", "1"], &script));
}

/// To look into a directory before it is listed is not to read it: who opens it and does not list it leaves its times alone.
#[test]
fn a_directory_that_is_opened_is_not_read() {
    let Some((others, bind)) = only_read() else { return };
    let script = "
import os
top = os.open('/tmp/data/top', os.O_RDONLY)
for name in ['e', 'a']:
    os.stat(name, dir_fd=top)
    below = os.open(name, os.O_RDONLY, dir_fd=top)
print(sorted(os.listdir(below)))
";
    let set = "touch -a -d @1000000000 a e";
    let top = others.path().join("top");
    assert!(Command::new("sh").args(["-c", set]).current_dir(&top).status().unwrap().success());
    let said = said(in_the_tree(others.path(), &["--inside", "1", "--bind", &bind]).args([
        python(),
        "-c",
        script,
    ]));
    assert_eq!(said, "['b', 'd', 'file']\n");
    let read = |name: &str| fs::metadata(top.join(name)).unwrap().accessed().unwrap();
    assert_eq!(read("e"), std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000));
}

/// What a program does with a directory of the host that it may change, and what it is told of it.
const DIRECTORY: &str = "
import os, fcntl, ctypes, struct, errno, stat, shutil
def t(name, f):
    try: r=f()
    except OSError as e: r=errno.errorcode[e.errno]
    print(name, r, flush=True)
for n in range(70): os.path.exists('/usr')
os.mkdir('d'); os.mkdir('d/s'); open('d/f','w').write('x')
fd=os.open('d',os.O_RDONLY|os.O_DIRECTORY)
ls=lambda: (os.lseek(fd,0,0), sorted(os.listdir(fd)))[1]
t('ls',ls)
os.mkdir('d/new'); t('ls2',ls)
os.rename('d','e'); t('link',lambda: os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))); t('ls3',ls)
t('fstat',lambda: (os.fstat(fd).st_nlink, oct(os.fstat(fd).st_mode), os.fstat(fd).st_ino==os.stat('e').st_ino, os.fstat(fd).st_dev==os.stat('e').st_dev))
t('fsync',lambda: os.fsync(fd))
t('fchmod',lambda: os.fchmod(fd,0o711)); t('mode',lambda: oct(os.fstat(fd).st_mode))
t('utime',lambda: os.utime(fd,(5,6))); t('times',lambda:(os.fstat(fd).st_atime,os.fstat(fd).st_mtime))
t('xattr',lambda: os.setxattr(fd,'user.a',b'1')); t('getx',lambda: os.getxattr(fd,'user.a'))
t('create',lambda: os.close(os.open('made',os.O_CREAT|os.O_WRONLY,0o600,dir_fd=fd))); t('ls4',ls)
two=os.open('e',os.O_RDONLY)
t('flock',lambda: fcntl.flock(fd,fcntl.LOCK_EX|fcntl.LOCK_NB)); t('flock2',lambda: fcntl.flock(two,fcntl.LOCK_EX|fcntl.LOCK_NB))
t('fchdir',lambda: os.fchdir(fd)); t('cwd',lambda: os.path.basename(os.getcwd())); os.chdir('..')
t('write',lambda: os.write(fd,b'x')); t('read',lambda: os.read(fd,10)); t('trunc',lambda: os.ftruncate(fd,0))
libc=ctypes.CDLL(None,use_errno=True); q=libc.inotify_init1(os.O_NONBLOCK); libc.inotify_add_watch(q,b'e',0xfff)
os.close(os.open('e',os.O_RDONLY)); x=os.open('e',os.O_RDONLY); os.listdir(x); os.close(x); os.mkdir('e/w')
def ev():
    try: b=os.read(q,65536)
    except BlockingIOError: return []
    r=[];o=0
    while o<len(b):
        wd,m,c,l=struct.unpack_from('iIII',b,o); r.append((hex(m),b[o+16:o+16+l].rstrip(b'\\0').decode())); o+=16+l
    return r
t('events',ev)
pid=os.fork()
if not pid:
    t('child',ls); os._exit(0)
os.waitpid(pid,0)
shutil.rmtree('e'); t('gone',ls); t('nlink',lambda: os.fstat(fd).st_nlink)
t('create gone',lambda: os.open('x',os.O_CREAT|os.O_WRONLY,dir_fd=fd)); t('linkgone',lambda: os.path.basename(os.readlink(f'/proc/self/fd/{fd}')))
t('dotdot',lambda: os.stat('..',dir_fd=fd).st_ino==os.stat('.').st_ino)
t('fchdir gone',lambda: os.fchdir(fd)); t('getcwd',os.getcwd); os.chdir('/'); 
t('old',lambda: libc.syscall(78,fd,ctypes.create_string_buffer(4096),4096))
";

/// A directory of the host is one in all that is done with it, and with its descriptor, where the program may write too.
#[test]
fn a_directory_is_as_natively_whatever_is_done_with_it() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = || TempDir::new_in("/tmp").unwrap();
    let native = here();
    let want = said(Command::new(python()).args(["-c", DIRECTORY]).current_dir(&native));
    assert!(want.contains("dotdot"), "{want}");
    for after in ["1", "64"] {
        let tree = here();
        let options = ["--inside", after, python(), "-c", DIRECTORY];
        assert_eq!(said(&mut in_the_tree(tree.path(), &options)), want, "--inside {after}");
    }
}
