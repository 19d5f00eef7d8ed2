//! What a program is expected to open lies ready, and is what it would be given.

use crate::{
    attacks::cc,
    common::{can_run, python, text},
    inside::{Teller, in_the_tree, said, succeeded},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How many files there are.
const FILES: usize = 40;

/// A directory with files that the program may read, and not write.
fn files() -> Option<TempDir> {
    files_in("/tmp")
}

fn files_in(above: &str) -> Option<TempDir> {
    if !can_run(&["python3"]) {
        return None;
    }
    let here = TempDir::new_in(above).unwrap();
    fs::create_dir_all(here.path().join("data/below")).unwrap();
    for number in 0..FILES {
        fs::write(here.path().join(format!("data/below/{number}")), format!("file {number}\n"))
            .unwrap();
    }
    for number in 0..8 {
        fs::write(here.path().join(format!("data/{number}")), "").unwrap();
    }
    symlink("below", here.path().join("data/link")).unwrap();
    Some(here)
}

/// A program that has children open files one after the other, by what each line says.
const OPENS: &str = r#"
import fcntl, os, random, resource, sys, time
top = sys.argv[1]
def name(number): return f'{top}/below/{number}'
def told(path, flags=os.O_RDONLY):
    try: fd = os.open(path, flags)
    except OSError as error: return (error.errno,)
    stat = os.fstat(fd)
    said = (fd, os.read(fd, 5), os.lseek(fd, 0, 1), os.read(fd, 100), os.get_inheritable(fd),
        fcntl.fcntl(fd, fcntl.F_GETFL) & ~(os.O_NOATIME | os.O_NOFOLLOW), stat.st_size, stat.st_nlink, os.readlink(f'/proc/self/fd/{fd}'))
    os.close(fd)
    return said
def child(does):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(ours)
        for number in range(8): os.close(os.open(f'{top}/{number}', os.O_RDONLY))
        os.write(theirs, (repr(does()) + '\n').encode())
        os._exit(0)
    os.close(theirs)
    with open(ours) as lines: said = lines.read()
    os.wait()
    return said.strip()
def in_order(count=40): return [told(name(number)) for number in range(count)]
"#;

/// What the program says, natively and in the tree, and what `--stats` says of it there.
fn both(here: &Path, script: &str) -> [String; 3] {
    let script = format!("{OPENS}{script}");
    let data = here.join("data").display().to_string();
    let native = said(Command::new(python()).args(["-c", &script, &data]));
    let bind = format!("{data}:{data}:ro");
    let mut command = in_the_tree(here, &["--inside", "1", "--stats", "--bind", &bind]);
    let output =
        command.args([python(), "-c", &script, &data]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    [native, text(&output.stdout), text(&output.stderr)]
}

/// What stands between what is said of one file and of the next.
const BETWEEN: &str = "), (";

/// All that is said is the same.
fn same(native: &str, tree: &str, when: &str) {
    let (mut native, mut tree) = (native.split(BETWEEN), tree.split(BETWEEN));
    loop {
        let both = (native.next(), tree.next());
        assert_eq!(both.0, both.1, "{when}");
        if both == (None, None) {
            return;
        }
    }
}

/// How many descriptors lay ready, and how many of them were taken.
pub(crate) fn ready(stats: &str) -> [u64; 2] {
    let line = stats.lines().find(|line| line.contains("lay ready")).unwrap();
    let mut words = line.split(' ').filter_map(|word| word.parse().ok());
    [(); 2].map(|()| words.next().unwrap())
}

/// Who opens what others opened before in the same order takes nearly all of it without asking, and it is what was named.
#[test]
fn what_is_opened_in_the_same_order_lies_ready() {
    let Some(here) = files() else { return };
    let [native, tree, stats] = both(here.path(), "for turn in range(10): print(child(in_order))");
    same(&native, &tree, "");
    let [ready, taken] = ready(&stats);
    // All of 40 of nine children, of which the last ones of each are not known to have been taken.
    assert!(ready > 8 * 40 && taken > 8 * 25, "{stats}");
    // Who takes them does not ask for them. It is all but the first ones, eight others of each, and what the program opens to begin,
    // which looks for its libraries in more places here and there.
    assert!(succeeded(&stats, "openat") < 240, "{stats}");
}

/// What a thread did itself once is not expected of it, but of others.
#[test]
fn what_one_did_once_is_expected_of_others() {
    let Some(here) = files() else { return };
    let does = "
def does(): return in_order(20) + [told(name(number)) for number in [0, 25, 3, 26, 7, 27, 12, 28]]
print(child(does))
";
    let [native, tree, stats] = both(here.path(), does);
    same(&native, &tree, "");
    assert!(ready(&stats)[0] < 4, "{stats}");
    let [native, tree, stats] = both(here.path(), &format!("{does}print(child(in_order))"));
    same(&native, &tree, "");
    assert!(ready(&stats)[1] > 4, "{stats}");
}

/// How a child opens files and directories in turns, in an order that is not that in which they are listed.
const AMONG_FILES: &str = r#"
order = random.Random(1).sample(range(20), 20)
def listed(path):
    try: fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
    except OSError as error: return (error.errno,)
    said = (fd, os.listdir(fd), os.listdir(fd), os.get_inheritable(fd), fcntl.fcntl(fd, fcntl.F_GETFL) & ~(os.O_NOATIME | os.O_NOFOLLOW),
        os.readlink(f'/proc/self/fd/{fd}'))
    os.close(fd)
    return said
def both(numbers):
    said = []
    for number in numbers: said += [told(name(number)), listed(f'{top}/dirs/{number}')]
    return said
"#;

/// Directories with a file in each, beside the files; where the way there goes through few mounts.
fn files_and_directories() -> Option<TempDir> {
    let here = files_in("/var/tmp")?;
    for number in 0..20 {
        let directory = here.path().join(format!("data/dirs/{number}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(format!("in {number}")), "").unwrap();
    }
    Some(here)
}

/// A directory that is opened between files lies ready as they do.
#[test]
fn directories_among_files_lie_ready() {
    let Some(here) = files_and_directories() else { return };
    let opens = "for turn in range(10): print(child(lambda: both(order)))";
    let [native, tree, stats] = both(here.path(), &format!("{AMONG_FILES}{opens}"));
    same(&native, &tree, "");
    // All of 20 files and 20 directories of eight children.
    let [ready, taken] = ready(&stats);
    assert!(ready > 8 * 40 && taken > 8 * 25, "{stats}");
    assert!(succeeded(&stats, "openat") < 260, "{stats}");
}

/// A directory that others change after it was laid ready is opened as it is by then.
#[test]
fn directories_that_others_change_are_opened_as_they_are() {
    let Some(here) = files_and_directories() else { return };
    let does = "
def does():
    said = both(order[:4])
    print('ready', flush=True)
    sys.stdin.readline()
    return said + both(order[4:])
for turn in range(4): child(lambda: both(order))
while True: print(child(does), flush=True)
";
    let data = here.path().join("data");
    let bind = format!("{0}:{0}:ro", data.display());
    let mut command = in_the_tree(here.path(), &["--inside", "1", "--bind", &bind]);
    let script = format!("{OPENS}{AMONG_FILES}{does}");
    command.args([python(), "-c", &script]).arg(&data);
    let mut tree = Teller::of(command);
    let native = || {
        let script = format!("{OPENS}{AMONG_FILES}print(child(lambda: both(order)))");
        said(Command::new(python()).args(["-c", &script]).arg(&data)).trim_end().to_owned()
    };
    let changes = [
        "true",
        "for n in $(seq 0 19); do touch dirs/$n/new; done",
        "for n in $(seq 0 19); do mv dirs/$n away$n; mkdir dirs/$n; touch dirs/$n/other; done",
        "for n in $(seq 0 9); do rmdir dirs/$n 2>/dev/null || rm -r dirs/$n; done",
        "for n in $(seq 0 9); do ln -s ../away$n dirs/$n; done",
        "mv dirs gone; mkdir dirs",
        "rmdir dirs; mv gone dirs",
        "true",
    ];
    tells_what_is_there(&mut tree, &data, &changes, 8, native);
}

/// Others change what is there after the process has told of so much: the rest is of after that.
fn tells_what_is_there(
    tree: &mut Teller,
    data: &Path,
    changes: &[&str],
    before: usize,
    native: impl Fn() -> String,
) {
    for change in changes {
        assert_eq!(tree.tells(), "ready", "{change}");
        let was = native();
        let mut other = Command::new("sh");
        assert!(other.args(["-c", change]).current_dir(data).status().unwrap().success());
        let (told, is) = (tree.tells_after(""), native());
        let (first, rest) = (was.split(BETWEEN).take(before), is.split(BETWEEN).skip(before));
        same(&first.chain(rest).collect::<Vec<_>>().join(BETWEEN), &told, change);
    }
}

/// Who opens them in other orders, with other flags, by other names, and some again, gets what he named.
#[test]
fn what_is_opened_in_another_order_is_what_was_named() {
    let Some(here) = files() else { return };
    let script = "
flags = [os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC, os.O_RDONLY | os.O_NOFOLLOW, os.O_RDONLY | os.O_NONBLOCK]
for turn in range(30):
    draws = random.Random(turn)
    first = draws.randrange(40)
    def does():
        said = [in_order(first)]
        for number in range(20):
            path = name(draws.randrange(40))
            if draws.random() < .2: path = path.replace('below', draws.choice(['link', '../data/below', 'absent']))
            libc_flags = draws.choice(flags)
            said.append(told(path, libc_flags))
        return said + [told(name(number)) for number in range(first, 40)]
    print(child(does))
";
    let [native, tree, stats] = both(here.path(), script);
    same(&native, &tree, "");
    assert!(ready(&stats)[1] > 100, "{stats}");
}

/// A child that comes of who was about to open them, a number that is taken away, no room for one more, and what is locked by another
/// descriptor: all as natively.
#[test]
fn what_lies_ready_is_in_nobodys_way() {
    let Some(here) = files() else { return };
    let script = "
for turn in range(4): child(in_order)
def forks():
    said = [told(name(number)) for number in range(3)]
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.write(theirs, repr([told(name(number)) for number in range(3, 12)]).encode())
        os._exit(0)
    os.wait()
    return said, os.read(ours, 100000), [told(name(number)) for number in range(3, 40)]
def closes():
    said = [told(name(number)) for number in range(3)]
    try: os.close(1020)
    except OSError: pass
    said.append(os.dup2(0, 1020))
    return said + [told(name(number)) for number in range(3, 40)]
def is_full():
    said = [told(name(number)) for number in range(3)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    said += [told(name(number)) for number in range(3, 9)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return said + [told(name(number)) for number in range(9, 40)]
def locks():
    held = os.open(name(5), os.O_RDONLY)
    fcntl.lockf(held, fcntl.LOCK_SH)
    said = [told(name(number)) for number in range(3)]
    said += [told(name(number)) for number in range(8, 40)]
    ours, theirs = os.pipe()
    if os.fork() == 0:
        import struct
        asks = struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)
        fd = os.open(name(5), os.O_RDONLY)
        asks = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
        os.write(theirs, repr(struct.unpack('hhqqi4x', fcntl.fcntl(fd, fcntl.F_GETLK, asks))[0]).encode())
        os._exit(0)
    os.wait()
    return said, os.read(ours, 100)
for does in [forks, closes, is_full, locks]: print(child(does))
";
    let [native, tree, stats] = both(here.path(), script);
    same(&native, &tree, "");
    assert!(ready(&stats)[1] > 2 * 30, "{stats}");
}

/// What others change after it was laid ready is opened as it is by then.
#[test]
fn what_others_change_is_opened_as_it_is() {
    let Some(here) = files() else { return };
    let script = format!(
        "{OPENS}
def does():
    said = [told(name(number)) for number in range(4)]
    print('ready', flush=True)
    sys.stdin.readline()
    return said + [told(name(number)) for number in range(4, 40)]
for turn in range(4): child(in_order)
while True: print(child(does), flush=True)
"
    );
    let data = here.path().join("data");
    let bind = format!("{0}:{0}:ro", data.display());
    let mut command = in_the_tree(here.path(), &["--inside", "1", "--bind", &bind]);
    command.args([python(), "-c", &script]).arg(&data);
    let mut tree = Teller::of(command);
    let native = || {
        let script = format!("{OPENS}print(child(in_order))");
        said(Command::new(python()).args(["-c", &script]).arg(&data)).trim_end().to_owned()
    };
    let changes = [
        "true",
        "echo new > new; mv new below/5",
        "rm below/6 below/30",
        "echo more >> below/7",
        "mv below away; mkdir below; cp away/* below; echo other > below/9",
        "rm -r below; mv away below",
        "ln -sf 12 below/11",
        "true",
    ];
    tells_what_is_there(&mut tree, &data, &changes, 4, native);
}

/// Who watches from within the tree hears of what is opened, also of what lay ready when he began.
#[test]
fn who_watches_hears_of_what_is_opened() {
    let Some(here) = files() else { return };
    let script = "
import ctypes, struct, time
libc = ctypes.CDLL(None)
for turn in range(4): child(in_order)
ours, theirs = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    for number in range(8): os.close(os.open(f'{top}/{number}', os.O_RDONLY))
    for number in range(4): os.close(os.open(name(number), os.O_RDONLY))
    os.write(ours[1], b'x')
    os.read(theirs[0], 1)
    for number in range(4, 12): os.close(os.open(name(number), os.O_RDONLY))
    os._exit(0)
os.read(ours[0], 1)
queue = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(queue, f'{top}/below'.encode(), 0x20 | 0x10)
os.write(theirs[1], b'x')
os.waitpid(pid, 0)
# Who handed them over may close them a moment later.
time.sleep(.2)
told, at = os.read(queue, 100000), 0
while at < len(told):
    _, mask, _, length = struct.unpack_from('iIII', told, at)
    print(hex(mask), told[at + 16:at + 16 + length].rstrip(b'\\0'))
    at += 16 + length
";
    let [native, tree, stats] = both(here.path(), script);
    assert_eq!(native, tree);
    assert!(ready(&stats)[1] > 60, "{stats}");
}

/// What lay ready for a process that ended, or opened something else, is open no more; and who has leased a file that nobody opens keeps
/// nobody waiting.
#[test]
fn what_nobody_opens_is_in_nobodys_way() {
    let Some(here) = files() else { return };
    let leases = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
def lease(number, how):
    fd = os.open(f'{sys.argv[1]}/below/{number}', os.O_RDWR)
    try: fcntl.fcntl(fd, fcntl.F_SETLEASE, how)
    except OSError: return False
    return True
";
    let script = format!(
        "{OPENS}
for turn in range(5): child(in_order)
def short(): return in_order(3)
for turn in range(3): print(child(short), flush=True)
def leaves_one_behind():
    said = short()
    if os.fork() == 0:
        os.closerange(0, 1000)
        time.sleep(5)
        os._exit(0)
    return said
child(leaves_one_behind)
# Who gets to take descriptors by himself next has what lies there for nobody taken back.
child(short)
print('now', flush=True)
sys.stdin.readline()
print(child(short), flush=True)
sys.stdin.readline()
"
    );
    let data = here.path().join("data");
    let bind = format!("{0}:{0}:ro", data.display());
    let mut command = in_the_tree(here.path(), &["--inside", "1", "--bind", &bind]);
    command.args([python(), "-c", &script]).arg(&data);
    let mut tree = Teller::of(command);
    while tree.tells() != "now" {}
    let asks = format!("{leases}print(sum(not lease(n, fcntl.F_WRLCK) for n in range(40)))");
    assert_eq!(said(Command::new(python()).args(["-c", &asks]).arg(&data)), "0\n");
    // Far less than the time after which the kernel breaks a lease.
    let holds = format!("{leases}print(lease(7, fcntl.F_WRLCK), flush=True)\nsys.stdin.readline()");
    let mut holder = Command::new(python());
    holder.args(["-c", &holds]).arg(&data);
    let mut holder = Teller::of(holder);
    assert_eq!(holder.tells(), "True");
    let since = Instant::now();
    tree.tells_after("");
    assert!(since.elapsed() < Duration::from_secs(5));
}

/// Who is interrupted before he takes what he opened gets it all the same, and what the handler opens is what that named, though room is made
/// meanwhile for what lies ready for others.
#[test]
fn what_is_taken_is_what_was_asked_for() {
    if !can_run(&["cc"]) {
        return;
    }
    let (here, mut command, data) = compiled("ready", &[]);
    assert_eq!(said(command.args(["./ready", &data])), "interrupted, 0 wrong\n");
    drop(here);
}

/// A program of this name among the tests, files with their own paths in them, and a run in which it finds answers by itself.
fn compiled(name: &str, options: &[&str]) -> (TempDir, Command, String) {
    let here = TempDir::new_in("/tmp").unwrap();
    let source = format!("{}/tests/run/{name}.c", env!("CARGO_MANIFEST_DIR"));
    cc(here.path(), &["-O1", "-pthread", "-o", name, &source]);
    for (dir, count) in [("warm", 8), ("below", 40), ("main", 500), ("handler", 500)] {
        fs::create_dir_all(here.path().join("data").join(dir)).unwrap();
        for name in (0..count).map(|number| format!("{dir}/{number}")) {
            fs::write(here.path().join("data").join(&name), &name).unwrap();
        }
    }
    let data = here.path().join("data").display().to_string();
    let bind = format!("{data}:{data}:ro");
    let options = [&["--inside", "1", "--bind", &bind], options].concat();
    let command = in_the_tree(here.path(), &options);
    (here, command, data)
}

/// A handler that forks before something is taken leaves two who are to take it: each gets what he named.
#[test]
fn who_forks_before_he_takes_gets_what_he_named() {
    if !can_run(&["cc"]) {
        return;
    }
    let (_here, mut command, data) = compiled("interrupted", &[]);
    assert_eq!(said(command.args(["./interrupted", "forks", &data])), "0 wrong\n");
}

/// A handler that jumps away leaves what was to be taken where it is: some openings later it is as before.
#[test]
fn who_jumps_away_takes_nothing_and_then_goes_on() {
    if !can_run(&["cc"]) {
        return;
    }
    let (_here, mut command, data) = compiled("interrupted", &["--stats"]);
    let output = command.args(["./interrupted", "jumps", &data]).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert_eq!(text(&output.stdout), "0 wrong\n");
    let stats = text(&output.stderr);
    // Most of ten times 500 files.
    assert!(ready(&stats)[1] > 3000, "{stats}");
}

/// A filter for all threads of a process knows nothing of what is done in it to find answers, and nobody is killed for that.
#[test]
fn nobody_is_killed_for_finding_answers() {
    if !can_run(&["cc"]) {
        return;
    }
    for _ in 0..5 {
        let (_here, mut command, data) = compiled("interrupted", &[]);
        assert_eq!(said(command.args(["./interrupted", "filters", &data])), "0\n");
    }
    let (_here, mut command, data) = compiled("interrupted", &[]);
    assert_eq!(said(command.args(["./interrupted", "handler", &data])), "0\n");
    let (_here, mut command, data) = compiled("interrupted", &[]);
    assert_eq!(said(command.args(["./interrupted", "opens", &data])), "0\n");
    let (_here, mut command, data) = compiled("interrupted", &[]);
    assert_eq!(said(command.args(["./interrupted", "steps", &data])), "0 of some\n");
}

/// What is opened again and again lies there once, and what lies there is taken.
#[test]
fn one_file_lies_ready_once() {
    let Some(here) = files() else { return };
    let script = "
def again():
    for time in range(2000): os.close(os.open(name(time % 2 * 7), os.O_RDONLY))
    return told(name(0))
print(child(again))";
    let [native, own, stats] = both(here.path(), script);
    assert_eq!(own, native);
    let [lay, used] = ready(&stats);
    assert!(used > 500 && lay < used + used / 4, "{stats}");
}

/// What may not lie ready is not opened: who has the other end of a terminal hears nothing of who does not open it.
#[test]
fn what_may_not_lie_ready_is_not_opened() {
    let Some(here) = files() else { return };
    let script = "
import select, struct
def terminal():
    master = os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(master, 0x40045431, struct.pack('i', 0))
    number, = struct.unpack('i', fcntl.ioctl(master, 0x80045430, struct.pack('i', 0)))
    return master, f'/dev/pts/{number}'
def hears(master):
    poll = select.poll()
    poll.register(master, select.POLLIN)
    return poll.poll(50)
def opens():
    for number in range(5): os.close(os.open(name(number), os.O_RDONLY))
    if other: os.close(os.open(other, os.O_RDONLY | os.O_NOCTTY))
for turn in range(5):
    master, other = terminal()
    if turn == 4: other = None
    child(opens)
    print(hears(master) != [])
    os.close(master)
";
    let [native, tree, _] = both(here.path(), script);
    assert_eq!(native, "True\nTrue\nTrue\nTrue\nFalse\n");
    assert_eq!(native, tree);
}
