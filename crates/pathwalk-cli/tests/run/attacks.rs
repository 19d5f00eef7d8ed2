//! Programs that try to reach what they were not given: a file in the host's `/tmp`, which the tree's hides.
//!
//! Where that can be, the same attack is made without the tree first, and reaches it.

use crate::{
    common::{can_run, copy, pathwalk_in, run, said, text},
    left_out::left_out,
    swaps::swapping,
};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::{UnixDatagram, UnixListener},
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};
use tempfile::TempDir;

/// The attacker, in a directory of its own, and a secret elsewhere.
pub(crate) struct Attack {
    pub(crate) here: TempDir,
    pub(crate) outside: TempDir,
}

impl Attack {
    /// None where no program can be run.
    pub(crate) fn new() -> Option<Self> {
        Self::of("attack")
    }

    /// With another attacker.
    pub(crate) fn of(program: &str) -> Option<Self> {
        if !can_run(&["cc"]) {
            return None;
        }
        let attack =
            Self { here: TempDir::new().unwrap(), outside: TempDir::new_in("/tmp").unwrap() };
        fs::write(attack.outside("secret"), "secret\n").unwrap();
        let source = format!("{}/tests/run/{program}.c", env!("CARGO_MANIFEST_DIR"));
        cc(attack.here.path(), &["-O1", "-no-pie", "-pthread", "-o", program, &source]);
        Some(attack)
    }

    pub(crate) fn here(&self, name: &str) -> PathBuf {
        self.here.path().join(name)
    }

    /// A path that is the host's alone.
    pub(crate) fn outside(&self, name: &str) -> String {
        self.outside.path().join(name).display().to_string()
    }

    fn secret(&self) -> String {
        self.outside("secret")
    }

    /// What the attacker says without the tree.
    pub(crate) fn natively(&self, args: &[&str]) -> String {
        let output = Command::new(self.here("attack"))
            .args(args)
            .current_dir(self.here.path())
            .output()
            .unwrap();
        text(&output.stdout)
    }

    pub(crate) fn said(&self, args: &[&str]) -> String {
        said(self.here.path(), &[&["./attack"], args].concat())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
        command.args(["run", "./attack"]).args(args).current_dir(self.here.path());
        command
    }
}

/// What a command says that must end by itself, and well.
fn in_time(mut command: Command) -> String {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    assert_eq!(ended(&mut child), None);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut out, &mut said).unwrap();
    said
}

/// By which signal a process ended, if by one; it must end soon.
pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.signal();
        }
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The same attack reaches the secret natively, and in the tree is answered so.
fn reaches_natively_alone(attack: &str, answer: &str) {
    let Some(place) = Attack::new() else { return };
    let args = [attack, &place.secret()];
    assert_eq!(place.natively(&args), "REACHED\n");
    assert_eq!(place.said(&args), answer);
}

/// Compiles something that must compile.
pub(crate) fn cc(dir: &Path, args: &[&str]) {
    let built = Command::new("cc").args(args).current_dir(dir).status().unwrap();
    assert!(built.success(), "{args:?}");
}

#[test]
fn the_secret_is_there_without_and_not_with() {
    reaches_natively_alone("open", "ENOENT\n");
}

#[test]
fn no_resolve_flag_of_openat2_leads_out() {
    reaches_natively_alone("openat2", "never\n");
}

#[test]
fn the_links_of_proc_do_not_lead_out() {
    reaches_natively_alone("links", "never\n");
}

#[test]
fn paths_that_a_thread_rewrites_do_not_reach_it() {
    let Some(attack) = Attack::new() else { return };
    for call in ["open", "openat2", "link"] {
        assert_eq!(attack.said(&["rewritten", call, &attack.secret()]), "never\n", "{call}");
    }
    let outside = attack.outside.path().display().to_string();
    assert_eq!(attack.said(&["rewritten", "chdir", &outside]), "never\n");
}

#[test]
fn chdir_leads_nobody_elsewhere_for_a_moment() {
    let Some(attack) = Attack::new() else { return };
    let outside = attack.outside.path().display().to_string();
    assert_eq!(attack.said(&["led", &outside]), "in 20 out 0\n");
}

#[test]
fn no_error_of_exec_tells_what_the_host_has() {
    let Some(attack) = Attack::new() else { return };
    copy("/bin/true", attack.outside("true"));
    for path in [attack.outside("true"), attack.outside("missing")] {
        assert_eq!(attack.said(&["told", &path]), "killed 0 other 0\n", "{path}");
    }
}

#[test]
fn arguments_that_are_too_many_or_nowhere_are_told_as_natively() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["too_much"]);
    assert!(
        native.starts_with("long E2BIG\nmany E2BIG\npointers E2BIG\nwrong EFAULT\n"),
        "{native}"
    );
    assert_eq!(attack.said(&["too_much"]), native);
}

#[test]
fn a_stack_that_is_nowhere_stops_nobody() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["stackless"]);
    assert_eq!(attack.said(&["stackless"]), native);
}

#[test]
fn who_is_stopped_in_the_middle_of_a_call_holds_nobody() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(in_time(attack.command(&["stopped"])), "held 0 wrong 0\n");
}

#[test]
fn a_program_that_the_kernel_ends_while_it_loads_it_holds_nobody() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["bad"]);
    assert_eq!(native, "killed on\nkilled on\n");
    assert_eq!(in_time(attack.command(&["bad"])), native);
}

#[test]
fn who_waits_for_a_tracer_that_does_not_can_be_ended() {
    let Some(attack) = Attack::new() else { return };
    let (mut child, _out, [outer, ..]) = that_waits(attack.command(&["unheard"]));
    signal(outer, Signal::TERM);
    assert_eq!(ended(&mut child), Some(Signal::TERM.as_raw()));
}

#[test]
fn who_traces_somebody_that_runs_a_program_is_answered() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["reaps"]);
    assert_eq!(native, "0 answered\n");
    assert_eq!(in_time(attack.command(&["reaps"])), native);
}

#[test]
fn who_looks_into_a_process_in_the_middle_of_exec_sees_no_set_id_program() {
    let Some(attack) = Attack::new() else { return };
    let script = "cp attack /tmp/p; chmod 4755 /tmp/p; exec ./attack into /tmp/p";
    let want = "before REACHED REACHED REACHED
while EPERM EACCES EACCES EPERM
heard 1
after EPERM EACCES EACCES EPERM
";
    assert_eq!(said(attack.here.path(), &["--uid", "0", "sh", "-c", script]), want);
}

#[test]
fn whose_instruction_is_changed_in_the_middle_of_a_call_holds_nobody() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(in_time(attack.command(&["instruction"])), "held 0 wrong 0\n");
}

#[test]
fn who_runs_a_program_while_another_thread_is_in_the_middle_of_a_call_is_not_taken_for_that() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(in_time(attack.command(&["meanwhile"])), "killed 0\n");
}

#[test]
fn who_closes_descriptors_of_others_kills_nobody() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(in_time(attack.command(&["closed"])), "killed 0 other 0\n");
}

#[test]
fn who_copies_much_holds_nobody() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["copies"]);
    assert_eq!(native, "2147479552 1 answered\n");
    assert_eq!(in_time(attack.command(&["copies"])), native);
}

/// Natively root is told.
#[test]
fn no_event_tells_what_the_host_has() {
    let Some(attack) = Attack::new() else { return };
    for path in [attack.secret(), attack.outside("missing")] {
        assert_eq!(attack.said(&["watched", &path]), "EACCES\n", "{path}");
    }
}

/// The kernel looks for a program's interpreter by itself.
#[test]
fn an_interpreter_that_is_swapped_in_does_not_run() {
    let Some(attack) = Attack::new() else { return };
    let Ok(loader) = fs::canonicalize("/lib64/ld-linux-x86-64.so.2") else {
        return left_out("no interpreter of the GNU C library");
    };
    fs::create_dir(attack.here("in")).unwrap();
    fs::copy(loader, attack.here("in/ld")).unwrap();
    symlink("in", attack.here("one")).unwrap();
    symlink(attack.outside.path(), attack.here("other")).unwrap();
    let stolen = "void _start(void) { __asm__ volatile(\"syscall\" :: \"a\"(60), \"D\"(77)); }";
    fs::write(attack.outside("m.c"), stolen).unwrap();
    cc(attack.outside.path(), &["-nostdlib", "-static-pie", "-fPIE", "-o", "ld", "m.c"]);
    fs::write(attack.here("m.c"), "int main(void) { return 0; }").unwrap();
    let interpreter = format!("-Wl,--dynamic-linker={}", attack.here("one/ld").display());
    cc(attack.here.path(), &[&interpreter, "-o", "program", "m.c"]);
    let (one, other) = (attack.here("one"), attack.here("other"));
    assert_eq!(attack.said(&["executes", "./program"]), "never ran\n");
    let out = swapping(&one, &other, || attack.said(&["executes", "./program"]));
    assert!(out.starts_with("never"), "{out}");
    let native = swapping(&one, &other, || attack.natively(&["executes", "./program"]));
    assert!(native.starts_with("REACHED"), "{native}");
}

#[test]
fn addresses_that_a_thread_rewrites_do_not_reach_a_socket() {
    let Some(attack) = Attack::new() else { return };
    let listens = UnixListener::bind(attack.outside("listens")).unwrap();
    assert_eq!(attack.said(&["rewritten", "connect", &attack.outside("listens")]), "never\n");
    listens.set_nonblocking(true).unwrap();
    assert!(listens.accept().is_err());
    let hears = UnixDatagram::bind(attack.outside("hears")).unwrap();
    hears.set_nonblocking(true).unwrap();
    let outside = attack.outside("hears");
    let all = |answer| format!("sendto {answer}\nsendmsg {answer}\nsendmmsg {answer}\n");
    assert_eq!(attack.natively(&["sends", &outside]), all("REACHED"));
    while hears.recv(&mut [0; 8]).is_ok() {}
    assert_eq!(attack.said(&["sends", &outside]), all("ENOENT"));
    for call in ["sendto", "sendmsg", "sendmmsg"] {
        let out = attack.said(&["rewritten", call, &outside]);
        assert_eq!(out, "never\n", "{call}");
        assert!(hears.recv(&mut [0; 8]).is_err());
    }
}

#[test]
fn calls_that_go_around_the_tree_are_refused() {
    let Some(attack) = Attack::new() else { return };
    let want = "\
io_uring_setup ENOSYS
io_uring_enter ENOSYS
io_uring_register ENOSYS
open_by_handle_at EINVAL
mount EPERM
umount2 EPERM
open_tree EPERM
move_mount EPERM
fsopen EPERM
mount_setattr EPERM
pivot_root EPERM
chroot EPERM
unshare EPERM
clone EPERM
clone3 ENOSYS
fanotify_init EPERM
userfaultfd EPERM
userfaultfd of a device EPERM
perf_event_open EACCES
unknown ENOSYS
x32 ENOSYS
own root ENOENT
root of the supervisor ENOENT
machine EACCES
typed EPERM
lease EINVAL
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
io_uring_enter ENOSYS
io_uring_register ENOSYS
open_by_handle_at EINVAL
mount REACHED
umount2 EINVAL
open_tree ENOSYS
move_mount ENOSYS
fsopen ENOSYS
mount_setattr ENOSYS
pivot_root EINVAL
chroot REACHED
unshare EPERM
clone EPERM
clone3 ENOSYS
fanotify_init EPERM
userfaultfd EPERM
userfaultfd of a device EPERM
perf_event_open EACCES
unknown ENOSYS
x32 ENOSYS
own root ENOENT
root of the supervisor ENOENT
machine ENOENT
typed EPERM
lease EINVAL
dumpable REACHED
";
    assert_eq!(root(&["calls", &attack.secret()]), want);
    assert_eq!(root(&["rewritten", "open", &attack.secret()]), "never\n");
    let outside = attack.outside.path().display().to_string();
    assert_eq!(root(&["rewritten", "chdir", &outside]), "never\n");
    assert_eq!(root(&["links", &attack.secret()]), "never\n");
}

#[test]
fn a_child_in_namespaces_of_its_own_mounts_nothing() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(attack.said(&["namespaces", &attack.secret()]), "never\n");
}

#[test]
fn a_handle_that_was_made_outside_opens_nothing() {
    let Some(attack) = Attack::new() else { return };
    let handle = attack.natively(&["handle", &attack.secret()]);
    let handle = handle.trim();
    // Only who is privileged may use one natively, and not all file systems have them.
    let native = attack.natively(&["by_handle", handle]);
    assert!(matches!(&*native, "REACHED\n" | "EPERM\n" | "EINVAL\n"), "{native}");
    // Nobody was given it here; and who is not privileged here may use none.
    let root = rustix::process::geteuid().is_root();
    let own = attack.said(&["by_handle", handle]);
    assert!(if root { own == "ESTALE\n" || own == "EINVAL\n" } else { own == "EPERM\n" }, "{own}");
    let by_root = ["--uid", "0", "./attack", "by_handle", handle];
    let by_root = said(attack.here.path(), &by_root);
    assert!(["ESTALE\n", "EINVAL\n"].contains(&&*by_root), "{by_root}");
}

/// Also not while another thread gives its number to something that may be.
#[test]
fn what_is_open_for_reading_is_not_opened_anew_for_writing() {
    let Some(attack) = Attack::new() else { return };
    fs::write(attack.here("file"), "to be read\n").unwrap();
    fs::set_permissions(attack.here("file"), fs::Permissions::from_mode(0o666)).unwrap();
    let out = as_a_user(&attack, &["--ro", "./attack", "reopened", "file"]).output().unwrap();
    let said = text(&out.stdout);
    assert_eq!(said, "for writing EROFS\nopened never\n", "{}", text(&out.stderr));
    assert_eq!(fs::read(attack.here("file")).unwrap(), b"to be read\n");
}

#[test]
fn the_supervisor_is_out_of_reach() {
    let Some(attack) = Attack::new() else { return };
    let want = "\
mem ENOENT
maps ENOENT
environ ENOENT
fd ENOENT
exe ENOENT
root ENOENT
cwd ENOENT
task ENOENT
ns/mnt ENOENT
mem written ENOENT
seize ESRCH
attach ESRCH
process_vm_readv ESRCH
process_vm_writev ESRCH
pidfd_getfd EPERM
setns EPERM
process_madvise EPERM
kcmp EPERM
";
    assert_eq!(attack.said(&["supervisor"]), want);
}

#[test]
fn the_memory_of_a_child_is_copied_as_natively() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["others"]);
    assert!(native.contains("\nwhere it may write 4096 \n"), "{native}");
    assert!(native.ends_with("seize REACHED\ndetach ESRCH\nends 0\n"), "{native}");
    assert_eq!(in_time(attack.command(&["others"])), native);
}

#[test]
fn who_reaches_into_a_process_late_reaches_no_set_id_program() {
    let Some(attack) = Attack::new() else { return };
    let late = |how| said(attack.here.path(), &["--uid", "0", "./attack", "late", how]);
    assert_eq!(late("write"), "victim 0 untouched\n");
    assert_eq!(late("seize"), "not run EPERM\n");
}

#[test]
fn a_number_that_was_the_asker_s_own_leads_to_nobody_else() {
    let Some(attack) = Attack::new() else { return };
    // The next process gets the number after this one.
    let last = "/proc/sys/kernel/ns_last_pid";
    if fs::read_to_string(last).and_then(|now| fs::write(last, now)).is_err() {
        return left_out("only root says which number is next");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.args(["run", "--uid", "0", "./attack", "reused"]).current_dir(attack.here.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        said = line.unwrap();
        let Ok(number) = said.parse::<u32>() else { break };
        fs::write(last, (number - 1).to_string()).unwrap();
        to.write_all(b"\n").unwrap();
    }
    child.wait().unwrap();
    assert_eq!(said, "never");
}

#[test]
fn a_place_that_is_handed_on_is_not_forgotten() {
    let Some(attack) = Attack::new() else { return };
    assert_eq!(attack.said(&["handed_on"]), "kept\n");
}

#[test]
fn calls_that_a_tracer_changes_are_answered_all_the_same() {
    let Some(attack) = Attack::new() else { return };
    let native = attack.natively(&["traced", &attack.secret()]);
    assert!(native.ends_with("open REACHED\n"), "{native}");
    assert_eq!(attack.said(&["traced", &attack.secret()]), "suspended refused\nopen never\n");
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

#[test]
fn without_descriptors_of_its_own_the_supervisor_says_so_and_goes_on() {
    let Some(attack) = Attack::new() else { return };
    let script = "ulimit -n 512; exec \"$0\" run ./attack memory \"$1\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pathwalk"), &attack.secret()])
        .current_dir(attack.here.path())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "EMFILE never\non\n", "{}", text(&output.stderr));
}

#[test]
fn children_beyond_all_number_reach_nothing_and_are_answered() {
    let Some(attack) = Attack::new() else { return };
    let mut bomb = as_a_user(&attack, &["./attack", "bomb", &attack.secret()]);
    let output = bomb.output().unwrap();
    assert_eq!(text(&output.stdout), "refused never works\n", "{}", text(&output.stderr));
}

/// `pathwalk run` by somebody without privilege, whom the limit of processes holds.
fn as_a_user(attack: &Attack, args: &[&str]) -> Command {
    let program = pathwalk_in(attack.here.path());
    let mut command = if rustix::process::geteuid().is_root() {
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        std::os::unix::fs::chown(attack.here.path(), Some(65534), Some(65534)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(nobody).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.arg("run").args(args).current_dir(attack.here.path()).stdin(Stdio::null());
    command
}

/// `pathwalk run` of a program that says a word and waits: what is read of it, and its processes, from the first to the one that
/// answers.
pub(crate) fn that_waits(mut command: Command) -> (Child, BufReader<ChildStdout>, [u32; 3]) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "runs on\n");
    let below = |pid: u32| -> u32 {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace().next().unwrap().parse().unwrap()
    };
    let outer = child.id();
    (child, out, [outer, below(outer), below(below(outer))])
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// What a process left in the host's memory that was to stand for directories.
pub(crate) fn left_by(process: u32) -> usize {
    let all = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let own = format!("pathwalk-{process}-");
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

#[test]
fn without_the_supervisor_no_path_leads_anywhere() {
    let Some(attack) = Attack::new() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    let args = ["run", "./attack", "killed", &attack.secret()];
    command.args(args).current_dir(attack.here.path());
    let (mut child, mut out, [_, guard, supervisor]) = that_waits(command);
    // Who would kill the program then is held.
    signal(guard, Signal::STOP);
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    assert_eq!(said, "never refused\n");
    signal(guard, Signal::CONT);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    assert_eq!(left_by(supervisor), 0);
}

#[test]
fn nobody_of_the_program_outlives_who_answers_or_who_started_it() {
    if !can_run(&["sleep"]) {
        return;
    }
    // Two that left their parents, one of them its group and session too.
    let script = "setsid sleep 4711 & (sleep 4711 &) ; echo runs on; read line && kill -KILL 0";
    for which in 0..6 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
        command.args(["run", "sh", "-c", script]).current_dir(std::env::temp_dir());
        command.process_group(0);
        let (mut child, mut out, processes) = that_waits(command);
        let program = fs::read_to_string(format!("/proc/{0}/task/{0}/children", processes[2]));
        let of_program: Vec<u32> =
            program.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert!(of_program.len() > 1, "one came to the supervisor: {of_program:?}");
        match which {
            3 => kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap(),
            4 => drop(child.stdin.take().unwrap().write_all(b"\n")),
            5 => {
                // Who would kill them is held.
                signal(processes[1], Signal::STOP);
                signal(processes[0], Signal::KILL);
            }
            which => signal(processes[which], Signal::KILL),
        }
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()), "{which}");
        // Its standard output is closed when nobody has it any more.
        assert_eq!(std::io::Read::read_to_string(&mut out, &mut String::new()).unwrap(), 0);
        for pid in of_program.iter().chain(&processes[1..]) {
            let since = Instant::now();
            while runs(*pid) {
                assert!(since.elapsed() < Duration::from_secs(20), "{which}: {pid}");
                thread::sleep(Duration::from_millis(5));
            }
        }
        if which != 1 {
            assert_eq!(left_by(processes[2]), 0, "{which}");
        }
    }
}

#[test]
fn an_interrupt_that_somebody_sends_is_passed_on() {
    if !can_run(&["sleep"]) {
        return;
    }
    let script = "trap 'echo heard; exit 3' INT; echo runs on; while :; do sleep 0.01; done";
    let (mut child, mut out, [outer, ..]) = that_waits(hearing(&["sh", "-c", script]));
    signal(outer, Signal::INT);
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    assert_eq!((&*said, child.wait().unwrap().code()), ("heard\n", Some(3)));
}

/// A script that says what it hears.
const HEARS: &str = "trap 'echo hup' HUP; trap 'echo int' INT; trap 'echo term' TERM; setsid sleep 4711 & echo runs on
while :; do sleep 0.01; done";

/// `pathwalk run`, with no signal ignored, as what runs the tests may have some.
fn hearing(args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_pathwalk"), "run"]);
    command.args(args).current_dir("/tmp");
    command
}

fn a_while() {
    thread::sleep(Duration::from_millis(300));
}

#[test]
fn who_is_asked_to_end_again_ends_and_who_hears_another_signal_again_does_not() {
    if !can_run(&["sleep", "setsid"]) {
        return;
    }
    let (mut child, out, [outer, ..]) = that_waits(hearing(&["sh", "-c", HEARS]));
    for sent in [Signal::HUP, Signal::HUP, Signal::INT, Signal::INT, Signal::TERM, Signal::TERM] {
        signal(outer, sent);
        a_while();
    }
    let said: Vec<String> = out.lines().map(|line| line.unwrap()).collect();
    assert_eq!(said, ["hup", "hup", "int", "int", "term"]);
    assert_eq!(ended(&mut child), Some(Signal::KILL.as_raw()));
}

#[test]
fn a_signal_that_was_ignored_is_not_heard() {
    if !can_run(&["sleep", "setsid"]) {
        return;
    }
    let script = "trap '' HUP; exec \"$0\" run sh -c \"$1\"";
    let mut command = Command::new("env");
    command
        .args([
            "--default-signal=INT,TERM",
            "sh",
            "-c",
            script,
            env!("CARGO_BIN_EXE_pathwalk"),
            HEARS,
        ])
        .current_dir("/tmp");
    let (mut child, mut out, [outer, ..]) = that_waits(command);
    signal(outer, Signal::HUP);
    a_while();
    signal(outer, Signal::INT);
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    assert_eq!(said, "int\n");
    signal(outer, Signal::TERM);
    a_while();
    signal(outer, Signal::TERM);
    assert_eq!(ended(&mut child), Some(Signal::KILL.as_raw()));
}

#[test]
fn those_that_the_program_left_behind_can_be_ended() {
    if !can_run(&["sleep", "setsid"]) {
        return;
    }
    let script = "setsid sleep 4711 & echo runs on";
    let (mut child, _out, [outer, ..]) = that_waits(hearing(&["sh", "-c", script]));
    a_while();
    signal(outer, Signal::TERM);
    // The program itself ended well.
    assert_eq!(ended(&mut child), None);
}

#[test]
fn a_signal_that_the_program_sends_its_group_comes_once() {
    if !can_run(&["python3"]) {
        return;
    }
    let code = "import os, signal, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
for n in 1, 2:
    os.kill(0, signal.SIGTERM)
    for _ in range(10): time.sleep(0.05)
    print(len(heard), flush=True)";
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.args(["run", "python3", "-c", code]).current_dir("/tmp").process_group(0);
    assert_eq!(in_time(command), "1\n2\n");
}

#[test]
fn ignored_signals_stay_ignored() {
    if !can_run(&["grep"]) {
        return;
    }
    for how in ["trap '' PIPE", "trap '' CHLD", ":"] {
        let script = format!("{how}; exec \"$@\"");
        let ignored = |words: &[&str]| {
            let all = [&["-c", &script, "sh"], words, &["grep", "SigIgn", "/proc/self/status"]];
            let mut command = Command::new("sh");
            text(&command.args(all.concat()).current_dir("/tmp").output().unwrap().stdout)
        };
        assert_eq!(ignored(&[env!("CARGO_BIN_EXE_pathwalk"), "run"]), ignored(&[]), "{how}");
    }
}

/// Whether there is a process that has not ended.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// A process that was there before, and is a child of who became `pathwalk`, is not the program's.
#[test]
fn a_child_from_before_is_out_of_reach() {
    let Some(attack) = Attack::new() else { return };
    let script = "sleep 60 >/dev/null 2>&1 & exec \"$0\" run ./attack foreign $!";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_pathwalk")])
        .current_dir(attack.here.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let want = "mem ENOENT\nstatus ENOENT\nattach ESRCH\nprocess_vm_readv ESRCH\n";
    assert_eq!(text(&output.stdout), want, "{}", text(&output.stderr));
}

#[test]
fn directories_of_others_are_not_tidied_up() {
    if !can_run(&["true"]) {
        return;
    }
    let own = format!("/dev/shm/pathwalk-results-{}", std::process::id());
    if fs::create_dir(&own).is_err() {
        return;
    }
    fs::write(format!("{own}/data"), "data").unwrap();
    let old = fs::File::open(&own).unwrap();
    old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    said(&std::env::temp_dir(), &["true"]);
    let there = fs::read(format!("{own}/data"));
    let _ = fs::remove_dir_all(&own);
    assert_eq!(there.unwrap(), b"data");
}

/// Who takes the descriptors away from who supervises ends with it, and leaves nobody who waits for ever.
#[test]
fn a_supervisor_that_can_hear_nothing_ends() {
    if !can_run(&["python3", "timeout"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "import os, resource
resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
for _ in range(1000): os.access('/', 0)";
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "20", env!("CARGO_BIN_EXE_pathwalk"), "run", "python3", "-c", script]);
    let status = command.current_dir(here.path()).stderr(Stdio::null()).status().unwrap();
    assert!(![Some(124), Some(137)].contains(&status.code()), "it went on for ever: {status}");
}
