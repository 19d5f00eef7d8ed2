//! inotify: of a tree in memory the program is told what the kernel tells of a tmpfs, event for event.

use crate::{
    attacks::{Attack, left_by, signal, that_waits},
    common::{Running, can_run, listing, said, text},
    left_out::left_out,
    programs::same,
};
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    process::Signal,
};
use std::{
    fs,
    mem::MaybeUninit,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// `TMPFS_MAGIC`
const TMPFS: i64 = 0x0102_1994;

/// The program that watches, and a directory in the tree that is memory.
fn watching() -> Option<(Attack, String)> {
    let attack = Attack::of("watches")?;
    let memory = attack.here("memory").display().to_string();
    Some((attack, memory))
}

fn in_memory(attack: &Attack, memory: &str, how: &[&str]) -> String {
    said(attack.here.path(), &[&["--tmpfs", memory], how].concat())
}

/// Has the program say what it is told on a tmpfs of the host and in the tree, which must be the same; returns it.
fn the_same(attack: &Attack, memory: &str, how: &[&str]) -> Option<String> {
    if !rustix::fs::statfs("/dev/shm").is_ok_and(|stat| stat.f_type == TMPFS) {
        left_out("/dev/shm is no tmpfs");
        return None;
    }
    let native = TempDir::new_in("/dev/shm").unwrap();
    let mut command = Command::new(attack.here("watches"));
    let natively = command.arg(native.path()).args(how).output().unwrap();
    let want = text(&natively.stdout);
    assert!(natively.status.success(), "{want}");
    let have = in_memory(attack, memory, &[&["./watches", memory], how].concat());
    are_the_same(&want, &have, how);
    Some(want)
}

fn are_the_same(want: &str, have: &str, how: &[&str]) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (native, ours) = (lines(want), lines(have));
    let differs = native.iter().zip(&ours).position(|(a, b)| a != b);
    if let Some(at) = differs.or((native.len() != ours.len()).then_some(native.len())) {
        let near = |lines: &[String]| {
            lines.iter().skip(at.saturating_sub(8)).take(16).cloned().collect::<Vec<_>>()
        };
        panic!("{how:?}: natively {:#?}, in the tree {:#?}", near(&native), near(&ours));
    }
}

#[test]
fn a_tree_in_memory_is_told_of_as_the_kernel_tells_of_one() {
    let Some((attack, memory)) = watching() else { return };
    if let Some(said) = the_same(&attack, &memory, &[]) {
        assert!(said.lines().count() > 400, "{said}");
    }
}

/// The same of a directory of the host that the tree shows, all but in which place among a call's events it is told that something is gone.
fn the_same_on_the_host(attack: &Attack, how: &[&str]) -> String {
    let [native, ours] = ["native", "ours"].map(|name| attack.here(name));
    [&native, &ours].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let how = [how, &["host"]].concat();
    let mut command = Command::new(attack.here("watches"));
    let natively = command.arg(&native).args(&how).output().unwrap();
    let want = text(&natively.stdout);
    assert!(natively.status.success(), "{want}");
    let program = ["./watches", ours.to_str().unwrap()];
    let have = said(attack.here.path(), &[&program, &how[..]].concat());
    are_the_same(&want, &have, &how);
    [native, ours].iter().for_each(|dir| fs::remove_dir_all(dir).unwrap());
    want
}

#[test]
fn a_directory_of_the_host_is_told_of_as_natively() {
    let Some((attack, _)) = watching() else { return };
    let said = the_same_on_the_host(&attack, &[]);
    assert!(said.lines().count() > 400, "{said}");
}

/// Nothing is open that loses its last name: of that it is told a moment later.
#[test]
fn calls_drawn_at_random_on_the_host_are_told_of_as_natively() {
    let Some((attack, _)) = watching() else { return };
    let mut told = 0;
    for seed in (2..=24).step_by(2) {
        let said = the_same_on_the_host(&attack, &[&seed.to_string()]);
        told += said.lines().filter(|line| line.starts_with("  queue")).count();
    }
    assert!(told > 1000, "{told} events");
}

/// Some time later, if the program calls at all.
#[test]
fn who_watches_outside_is_told_that_what_was_used_is_gone() {
    if !can_run(&["sh"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let watch = |name: &str| {
        inotify::add_watch(&queue, dir.path().join(name), WatchFlags::DELETE_SELF).unwrap();
    };
    ["removed", "replaced"].iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
    fs::create_dir(dir.path().join("emptied")).unwrap();
    ["removed", "replaced", "emptied"].iter().for_each(|name| watch(name));
    let script =
        "cat removed replaced; ls emptied; : > new; rm removed; mv -f new replaced; rmdir emptied
until test -e end; do sleep 0.05; done";
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.args(["run", "sh", "-c", script]).current_dir(dir.path());
    let mut running = Running(command.spawn().unwrap());
    let mut buf = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&queue, &mut buf);
    let (since, mut gone) = (Instant::now(), 0);
    while gone < 3 && since.elapsed() < Duration::from_secs(30) {
        match events.next() {
            Ok(event) => gone += u32::from(event.events().contains(ReadFlags::DELETE_SELF)),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    fs::write(dir.path().join("end"), "").unwrap();
    assert!(running.0.wait().unwrap().success());
    assert_eq!(gone, 3);
}

#[test]
fn calls_drawn_at_random_are_told_of_as_the_kernel_tells_of_them() {
    let Some((attack, memory)) = watching() else { return };
    let mut told = 0;
    for seed in 1..=24 {
        let Some(said) = the_same(&attack, &memory, &[&seed.to_string()]) else { return };
        told += said.lines().filter(|line| line.starts_with("  queue")).count();
    }
    assert!(told > 3000, "{told} events");
}

/// The kernel alone can say that a file system was unmounted.
#[test]
fn of_what_is_unmounted_it_is_told_that_the_watch_is_gone() {
    let Some((attack, memory)) = watching() else { return };
    let told = in_memory(&attack, &memory, &["--uid", "0", "./watches", &memory, "unmounted"]);
    let lines: Vec<_> = told.lines().skip_while(|line| !line.starts_with("umount")).collect();
    let want = [
        "umount(\"m\")",
        "  queue 0, watch 2: IGNORED",
        "  queue 0, watch 1: IGNORED",
        "  queue 1, watch 1: IGNORED",
        "inotify_add_watch(queues[0], \"m\", 0x00000100) = 3",
        "mkdir(\"m/e\", 0755)",
        "  queue 0, watch 3: CREATE|ISDIR e",
    ];
    assert_eq!(lines, want, "{told}");
}

/// What stands for watched files on the host.
fn shadows(supervisor: u32) -> usize {
    let own = format!("pathwalk-{supervisor}-");
    let list = |path: &Path| fs::read_dir(path).unwrap().flatten().collect::<Vec<_>>();
    let rooms = list(Path::new("/dev/shm")).into_iter();
    let rooms = rooms.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own));
    let names = rooms.flat_map(|room| list(&room.path()));
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with('w')).count()
}

fn many(attack: &Attack, memory: &str, how: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.args(["run", "--tmpfs", memory, "./watches", memory, how]);
    command.current_dir(attack.here.path());
    command
}

#[test]
fn what_nobody_watches_any_more_leaves_nothing_on_the_host() {
    let Some((attack, memory)) = watching() else { return };
    let (mut child, _out, [.., supervisor]) = that_waits(many(&attack, &memory, "goes"));
    assert_eq!(shadows(supervisor), 0);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(left_by(supervisor), 0);
}

/// How many files of the host a process watches.
fn watched_by(process: u32) -> usize {
    let infos = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten();
    let texts = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
    texts.map(|text| text.lines().filter(|line| line.starts_with("inotify ")).count()).sum()
}

/// 2,000 were opened; it is looked what is open after each 512 at most.
#[test]
fn what_was_closed_is_watched_by_the_supervisor_no_more() {
    let Some((attack, memory)) = watching() else { return };
    if !rustix::process::geteuid().is_root() {
        left_out("root alone sees what the supervisor watches");
        return;
    }
    let (mut child, _out, [.., supervisor]) = that_waits(many(&attack, &memory, "opens"));
    let watched = watched_by(supervisor);
    assert!((1..1200).contains(&watched), "{watched}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_of_what_is_watched() {
    let Some((attack, memory)) = watching() else { return };
    let (mut child, _out, [.., supervisor]) = that_waits(many(&attack, &memory, "stays"));
    assert_eq!(shadows(supervisor), 100);
    signal(supervisor, Signal::KILL);
    assert!(!child.wait().unwrap().success());
    assert_eq!(left_by(supervisor), 0);
}

#[test]
fn tail_follows_a_file_in_memory() {
    same(
        &["tail", "timeout"],
        "cd $(mktemp -d /tmp/XXXXXX); echo one > log; timeout 20 tail -F log > out 2>/dev/null & tail=$!
until_there() { n=0; until grep -q $1 out; do n=$((n + 1)); test $n -lt 500; sleep 0.02; done; }
until_there one; echo two >> log; until_there two; mv log log.1; echo three > log; until_there three
echo four >> log; until_there four; kill $tail; wait $tail || true; cat out; rm -r $PWD",
    );
}

#[test]
fn a_watch_is_heard_of_by_who_waits_for_it() {
    if !can_run(&["python3"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let script = "mkdir /tmp/w; python3 -c 'import ctypes, os, struct
libc = ctypes.CDLL(None); queue = libc.inotify_init()
libc.inotify_add_watch(queue, b\"/tmp/w\", 0x108); os.mkdir(\"/tmp/ready\"); seen = []
while len(seen) < 2:
    data = os.read(queue, 4096); at = 0
    while at < len(data):
        _, mask, _, len_ = struct.unpack_from(\"iIII\", data, at)
        seen.append((hex(mask), data[at + 16:at + 16 + len_].rstrip(b\"\\0\").decode())); at += 16 + len_
print(seen)' & until test -d /tmp/ready; do sleep 0.01; done; echo x > /tmp/w/file; wait";
    let seen = said(dir.path(), &["timeout", "20", "sh", "-c", script]);
    assert_eq!(seen, "[('0x100', 'file'), ('0x8', 'file')]\n");
}

/// Runs a script in a tree in which the host's memory may be written, where what stands for watched files lies. It finds in `shadow` what
/// stands for a file of its own by the name that it is given, and `target` is a path that is the host's alone. Who lists what another
/// supervisor made may keep it for a moment.
fn with_shadows_in_reach(attack: &Attack, memory: &str, target: &str, script: &str) -> String {
    let before = "import ctypes, glob, os, sys
libc = ctypes.CDLL(None); queues = [libc.inotify_init() for _ in range(2)]
memory, target, name = sys.argv[1:]; os.chdir(memory); os.mkdir('d'); file = 'd/' + name
def make(path): os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
def watch(queue, path): return libc.inotify_add_watch(queues[queue], path.encode(), 0xfff)
def told(): os.access('/', 0)
def all_done_to(path):
    os.utime(path, (1, 1)); told(); fd = os.open(path, os.O_RDWR); os.write(fd, b'1'); told()
    os.unlink(path); os.write(fd, b'2'); told(); os.close(fd); told()
make(file); assert watch(0, 'd') > 0 and not os.path.exists(target)
shadow, = glob.glob('/dev/shm/pathwalk-%d-*/w*/' % os.getppid() + name); directory, room = os.path.dirname(shadow), os.path.dirname(os.path.dirname(shadow))
";
    let script = format!("{before}{script}\nprint('done')");
    // No other test's.
    let name = attack.outside.path().file_name().unwrap().to_str().unwrap();
    let shown = ["--mount", "host:/dev/shm:/dev/shm:rw"];
    let program = ["python3", "-c", &script, memory, target, name];
    in_memory(attack, memory, &[&shown[..], &program].concat())
}

/// Where a program may write what stands for its files: another socket in the place of its own is neither found nor made nor removed.
#[test]
fn what_is_put_in_the_place_of_sockets_leads_nowhere() {
    let Some((attack, memory)) = watching().filter(|_| can_run(&["python3"])) else { return };
    let victim = attack.outside("secret");
    let hidden = std::path::Path::new(&victim).parent().unwrap().to_owned();
    let listener = std::os::unix::net::UnixListener::bind(hidden.join("s1")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = "import glob, os, socket, sys
hidden, memory = sys.argv[1:]; os.chdir(memory)
def made(path): s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(1); return s
def tried(call):
    try: call(); return 'yes'
    except OSError as error: return os.strerror(error.errno)
def connects(path): return tried(lambda: socket.socket(socket.AF_UNIX).connect(path))
mine = made('mine'); shadow, = glob.glob('/dev/shm/pathwalk-%d-*/s1' % os.getppid())
room = os.path.dirname(shadow)
kept = []; print(connects('mine'))
os.rename(room, room + '-aside'); os.symlink(hidden, room)
print(connects('mine'), tried(lambda: kept.append(made('other'))), connects('other'))
os.unlink('mine'); made('third')
os.unlink(room); os.rename(room + '-aside', room)
fourth = made('fourth'); last = max(glob.glob(room + '/s*'), key=lambda p: int(os.path.basename(p)[1:], 16))
os.unlink(last); os.symlink(hidden + '/s1', last); print(connects('fourth')); os.unlink(last)
";
    let shown = ["--mount", "host:/dev/shm:/dev/shm:rw"];
    let hidden_text = hidden.to_str().unwrap();
    let program = ["python3", "-c", script, hidden_text, &memory];
    let out = in_memory(&attack, &memory, &[&shown[..], &program].concat());
    assert_eq!(out, "yes\nyes yes yes\nConnection refused\n");
    assert!(listener.accept().is_err(), "somebody outside was reached");
    let mut left: Vec<_> =
        fs::read_dir(&hidden).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["s1", "secret"]);
}

#[test]
fn links_in_place_of_what_stands_for_watched_files_lead_nowhere() {
    let Some((attack, memory)) = watching().filter(|_| can_run(&["python3"])) else { return };
    let victim = attack.outside("secret");
    let times = || {
        let stat = fs::metadata(&victim).unwrap();
        (stat.modified().unwrap(), stat.accessed().unwrap())
    };
    let before = times();
    for script in [
        // A name in a directory.
        "os.unlink(shadow); os.symlink(target, shadow); all_done_to(file)",
        // A file that is watched itself: nobody watches the host's either.
        "others = set(os.listdir(room)); assert watch(0, file) > 0
own, = set(os.listdir(room)) - others; own = room + '/' + own; os.unlink(own); os.symlink(target, own)
assert watch(1, file) == -1; all_done_to(file); os.path.lexists(own) and os.unlink(own)",
        // One that comes from elsewhere.
        "make('other'); os.unlink(shadow); os.symlink(target, shadow); fd = os.open('other', os.O_RDWR)
os.rename('other', file); os.write(fd, b'1'); told(); all_done_to(file)",
    ] {
        assert_eq!(with_shadows_in_reach(&attack, &memory, &victim, script), "done\n", "{script}");
        assert_eq!(times(), before, "{script}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "secret\n");
}

#[test]
fn a_directory_in_place_of_what_stands_for_a_watched_one_stays_as_it_is() {
    let Some((attack, memory)) = watching().filter(|_| can_run(&["python3"])) else { return };
    let victim = attack.outside("");
    let name = attack.outside.path().file_name().unwrap();
    fs::write(attack.outside.path().join(name), "untouched").unwrap();
    let before = listing(attack.outside.path());
    let script = "aside = directory + '-aside'; os.rename(directory, aside); os.symlink(target, directory)
assert watch(1, 'd') == -1; all_done_to(file); os.mkdir('d/made'); make('d/a'); os.rename('d/a', 'd/b'); make('a'); os.rename('a', 'd/a')
os.rename('d/b', 'b'); told(); os.rmdir('d/made'); os.unlink('d/a'); os.rmdir('d'); told()
os.path.lexists(directory) and os.unlink(directory); os.rename(aside, directory)";
    assert_eq!(with_shadows_in_reach(&attack, &memory, &victim, script), "done\n");
    assert_eq!(listing(attack.outside.path()), before);
}

#[test]
fn an_opening_of_a_fifo_that_fails_is_not_told() {
    let Some((attack, memory)) = watching().filter(|_| can_run(&["python3"])) else { return };
    let script = "import ctypes, os, struct, sys
libc = ctypes.CDLL(None); queue = libc.inotify_init1(0o4000)
os.chdir(sys.argv[1]); os.mkdir('d'); os.mkfifo('d/fifo'); libc.inotify_add_watch(queue, b'd', 0x38); failed = 0
for _ in range(40):
    try: os.open('d/fifo', os.O_WRONLY | os.O_NONBLOCK)
    except OSError: failed += 1
fd = os.open('d/fifo', os.O_RDWR); os.access('/', 0); print(failed, len(os.read(queue, 65536)))";
    let told = in_memory(&attack, &memory, &["python3", "-c", script, &memory]);
    assert_eq!(told, "40 32\n");
}
