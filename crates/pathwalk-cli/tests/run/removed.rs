//! Who has a file open has it, whatever others did with its name since.

use crate::common::{can_run, pathwalk_in, python, text};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::{PermissionsExt, chown},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// What is asked in two steps, between which others come.
const HOLDS: &str = r#"
import errno, os, socket, sys, time
top, wrong, done = os.getcwd(), set(), set()
def says(what, call, *args):
    try: answer, said = call(*args), None
    except OSError as error: answer, said = None, error.errno
    done.add((what, said is None))
    if said not in (None, errno.ENOENT, errno.ENOTDIR, errno.EADDRINUSE, errno.ECONNREFUSED): wrong.add((what, errno.errorcode[said]))
    return answer
def opens(what, name, flags):
    fd = says(what, os.open, name, flags)
    if fd is not None: os.close(fd)
def socks(what, name):
    with socket.socket(socket.AF_UNIX) as sock: says(what, getattr(sock, what), name)
def lists(name):
    try: fd = os.open(name, os.O_DIRECTORY)
    except OSError: return
    says('list', os.listdir, fd)
    os.close(fd)
ends = time.monotonic() + float(sys.argv[1])
while time.monotonic() < ends:
    for name in 'abc':
        opens('open', name, os.O_PATH)
        says('chdir', os.chdir, name + '/d')
        os.chdir(top)
        socks('bind', name + '/d/socket')
        says('unlink', os.unlink, name + '/d/socket')
        socks('connect', name + '/file')
        lists(name)
print(sorted(wrong), {what for what, went in done if went} >= {'open', 'chdir', 'bind', 'list'})
"#;

/// Others at the names of that.
const OTHERS: &str = r#"
import os, random, shutil
random.seed(1)
def does(call, *args):
    try: call(*args)
    except OSError: pass
while True:
    a, b, what = random.choice('abc'), random.choice('abc'), random.randrange(6)
    if what == 0: shutil.rmtree(a, ignore_errors=True)
    elif what == 1: does(os.rename, a, b)
    elif what == 2: does(os.rename, a + '/d', b + '/e')
    elif what == 3: does(os.unlink, a + '/file')
    elif what == 4: does(os.rmdir, a + '/d')
    does(os.mkdir, a)
    does(os.mkdir, a + '/d')
    does(os.mknod, a + '/file')
    does(os.rename, b + '/d', a + '/d')
"#;

/// Asks all that can be asked of what is open, by its descriptor and by its link in /proc.
const ASKS: &str = r#"
import errno, os
def says(what, call, *args):
    try: answer = call(*args)
    except OSError as error: answer = errno.errorcode[error.errno]
    print(what, answer)
def asks(number, fd):
    for what, call, *args in [
        ('stat', lambda link: os.stat(link).st_size), ('access', os.access, os.W_OK), ('chmod', os.chmod, 0o606), ('truncate', os.truncate, 6),
        ('setxattr', os.setxattr, 'user.of', b'1'), ('getxattr', os.getxattr, 'user.of'),
        ('open', lambda link: os.fstat(os.open(link, os.O_RDWR)).st_size),
    ]:
        says(f'{number} {what} of the link', call, f'/proc/self/fd/{fd}', *args)
    for what, call, *args in [
        ('fchmod', os.fchmod, 0o604), ('fchown', os.fchown, -1, -1), ('ftruncate', os.ftruncate, 7), ('futimens', os.utime, (5, 6)),
        ('fsetxattr', os.setxattr, 'user.of', b'1'), ('fgetxattr', os.getxattr, 'user.of'), ('flistxattr', os.listxattr),
        ('fremovexattr', os.removexattr, 'user.of'),
    ]:
        says(f'{number} {what}', call, fd, *args)
    stat = os.fstat(fd)
    print(number, oct(stat.st_mode), stat.st_size, stat.st_nlink, stat.st_mtime)
"#;

/// Opens files, waits until others were at them, and says what each call answers then.
const HAS_OPEN: &str = r#"
open_in_turn = lambda flags: [os.open(name, flags | os.O_RDWR, 0o640) for name in ('removed', 'moved', 'replaced')]
made = open_in_turn(os.O_CREAT | os.O_EXCL)
for name in 'removed', 'moved', 'replaced': os.rename(name, 'made-' + name)
opened = open_in_turn(os.O_CREAT)
print('ready', flush=True)
input()
for number, fd in enumerate(made + opened): asks(number, fd)
"#;

#[test]
fn what_others_removed_or_moved_is_changed_by_who_has_it_open() {
    if !can_run(&["python3"]) {
        return;
    }
    let said = |coherence: Option<&str>| {
        let here = TempDir::new_in("/tmp").unwrap();
        let mut command = python_in(&here, coherence);
        command.args(["-c", &format!("{ASKS}{HAS_OPEN}")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        out.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        for made in ["", "made-"] {
            let at = |name: &str| here.path().join(format!("{made}{name}"));
            fs::remove_file(at("removed")).unwrap();
            fs::rename(at("moved"), at("elsewhere")).unwrap();
            fs::write(at("new"), "theirs").unwrap();
            fs::rename(at("new"), at("replaced")).unwrap();
        }
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        out.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{}", text(said.as_bytes()));
        for made in ["", "made-"] {
            let theirs = fs::read(here.path().join(format!("{made}replaced"))).unwrap();
            assert_eq!(theirs, b"theirs");
        }
        said
    };
    let native = said(None);
    for coherence in ["watched", "strict"] {
        assert_eq!(said(Some(coherence)), native, "{coherence}");
    }
}

/// Shuts the directory of what it has open, and says what each call answers then, and after more files were asked about than are kept at
/// hand.
const SHUTS: &str = r#"
os.mkdir('shut')
fd = os.open('shut/file', os.O_CREAT | os.O_RDWR, 0o640)
os.chmod('shut', 0)
asks('at once', fd)
for number in range(1100):
    os.close(os.open(f'other{number}', os.O_CREAT | os.O_RDWR))
    os.chmod(f'other{number}', 0o600)
asks('later', fd)
says('by its name', os.stat, 'shut/file')
os.chmod('shut', 0o700)
"#;

#[test]
fn what_is_open_is_changed_by_who_has_it_open_also_below_a_directory_that_was_shut() {
    if !can_run(&["python3"]) {
        return;
    }
    let built = TempDir::new_in("/tmp").unwrap();
    // Who runs it must be able to read it.
    fs::set_permissions(built.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let pathwalk = pathwalk_in(built.path());
    let said = |coherence: Option<&str>| {
        let here = TempDir::new_in("/tmp").unwrap();
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                chown(here.path(), Some(65534), Some(65534)).unwrap();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
                command
            }
            false => Command::new("env"),
        };
        if let Some(coherence) = coherence {
            command.arg(&pathwalk).args(["run", "--mount", &mount(&here, coherence), "--"]);
        }
        // By the user who may not search what root's PATH begins with.
        let program = format!("{ASKS}{SHUTS}");
        command.args(["env", "python3", "-c", &program]).current_dir(here.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{coherence:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let native = said(None);
    assert!(native.contains("by its name EACCES"), "{native}");
    for coherence in ["watched", "strict"] {
        assert_eq!(said(Some(coherence)), native, "{coherence}");
    }
}

/// So long each is at it.
const TAKES: &str = "4";

#[test]
fn what_is_found_is_held_whatever_others_do_to_its_name() {
    if !can_run(&["python3"]) {
        return;
    }
    let said = |coherence: Option<&str>| {
        let here = TempDir::new_in("/tmp").unwrap();
        let mut command = python_in(&here, coherence);
        command.args(["-c", HOLDS, TAKES]);
        let mut others = Command::new(python());
        let mut others = others.args(["-c", OTHERS]).current_dir(here.path()).spawn().unwrap();
        let output = command.output().unwrap();
        others.kill().unwrap();
        others.wait().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    for coherence in [None, Some("watched"), Some("strict")] {
        assert_eq!(said(coherence), "[] True\n", "{coherence:?}");
    }
}

fn python_in(here: &TempDir, coherence: Option<&str>) -> Command {
    let mut command = match coherence {
        None => Command::new(python()),
        Some(coherence) => {
            let mut run = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
            run.args(["run", "--mount", &mount(here, coherence), "--", python()]);
            run
        }
    };
    command.current_dir(here.path());
    command
}

fn mount(here: &TempDir, coherence: &str) -> String {
    let path = here.path().display();
    format!("host:{path}:{path}:rw:coherence={coherence}")
}
