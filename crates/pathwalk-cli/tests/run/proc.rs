//! What the view of `/proc` shows, and what is opened by it.

use crate::{
    attacks::cc,
    common::{can_run, said, text},
    programs::same,
};
use std::{fs, process::Command};
use tempfile::TempDir;

#[test]
fn what_has_no_place_is_opened_by_its_link_as_often_as_somebody_likes() {
    same(
        &["bash", "python3"],
        r#"sh -c 'echo a > /dev/stderr; echo b > /dev/stderr; sh -c "echo c > /dev/stderr"; echo d > /dev/stderr' 2>&1 | cat
sh -c 'sh -c "echo e > /dev/stdout"; readlink /proc/self/fd/1 | cut -c 1-6; ls -lL /dev/stdout | cut -c 1-10; echo f > /dev/stdout' | cat
echo in | { head -c 1 /dev/stdin > /dev/null; cat /dev/stdin; }
bash -c 'f() { cat "$1"; cat "$1"; }; f <(echo once)'
python3 -c 'import os
def opens(number, flags, text):
    for path in "/proc/self/fd/", "/dev/fd/":
        for _ in range(3):
            fd = os.open(path + str(number), flags | os.O_NONBLOCK)
            print(text, oct(os.fstat(fd).st_mode), os.readlink("/proc/self/fd/" + str(fd)).split(":")[0]); os.close(fd)
opens(os.memfd_create("a"), os.O_RDWR, "memory")
r, w = os.pipe()
# Each end leads to both.
opens(w, os.O_WRONLY, "written"); opens(w, os.O_RDWR, "both"); opens(w, os.O_RDONLY, "read"); opens(r, os.O_WRONLY, "back")'"#,
    );
}

#[test]
fn files_are_opened_to_be_written_anew() {
    same(
        &["python3"],
        r#"sh -c 'echo 100 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj'
sh -c 'echo renamed > /proc/$$/comm; cat /proc/$$/comm; truncate -s 0 /proc/$$/comm && cat /proc/$$/comm'
python3 -c 'import os
for name in "clear_refs", "coredump_filter":
    fd = os.open("/proc/self/" + name, os.O_WRONLY | os.O_TRUNC); print(os.write(fd, b"1"))'"#,
    );
}

#[test]
fn what_was_handed_in_and_is_not_in_the_tree_is_opened_by_its_link() {
    if !can_run(&[]) {
        return;
    }
    let (here, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (read, written) = (other.path().join("read"), other.path().join("written"));
    fs::write(&read, "in\n").unwrap();
    let script = "echo first, and long > /dev/stderr; echo then > /dev/stderr; echo last >> /dev/stderr
cat /dev/stdin; (echo no > /dev/stdin) 2> /dev/null || echo refused; (: > /proc/self/fd/0) 2> /dev/null || echo refused";
    let output = Command::new(env!("CARGO_BIN_EXE_pathwalk"))
        .args(["run", "sh", "-c", script])
        .current_dir(here.path())
        .stdin(fs::File::open(&read).unwrap())
        .stderr(fs::File::create(&written).unwrap())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "in\nrefused\nrefused\n");
    assert_eq!(fs::read_to_string(&written).unwrap(), "then\nlast\n");
    assert_eq!(fs::read_to_string(&read).unwrap(), "in\n");
}

#[test]
fn what_leads_on_from_a_descriptor_tells_nothing_by_itself() {
    if !can_run(&["setpriv"]) {
        return;
    }
    let (here, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let handed = other.path().join("file");
    fs::write(&handed, "in\n").unwrap();
    let says = |script: &str, want: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_pathwalk"))
            .args(["run", "--uid", "0", "sh", "-c", script])
            .current_dir(here.path())
            .stdin(fs::File::open(&handed).unwrap())
            .output()
            .unwrap();
        assert_eq!(text(&output.stdout), want, "{script}{}", text(&output.stderr));
    };
    // Any symlink can have such a name, and such a name need not be one of a link.
    says(
        "echo > /tmp/f; exec 3< /tmp/f; ln -s .fd-$$-3 /tmp/3; ln -s ../../.fd-$$-0 /tmp/0
for n in 3 0; do readlink /tmp/$n | sed s/$$/PID/; done; stat -c %s /proc/.fd-$$-3
stat -L -c %s /proc/$$/fd/0 /proc/.fd-$$-0",
        ".fd-PID-3\n../../.fd-PID-0\n3\n3\n",
    );
    says(
        "setpriv --reuid 33 --clear-groups sh -c \"readlink /proc/$$/fd/0; stat -c %s /proc/.fd-$$-0\"; echo end",
        "end\n",
    );
}

#[test]
fn maps_show_the_paths_of_the_tree() {
    if !can_run(&["python3"]) {
        return;
    }
    let (here, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(other.path().join("file"), "in\n").unwrap();
    let script = "
import mmap, os
file = open('/tmp/data/file'); map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); map[0]
texts = [open('/proc/self/' + name).read() for name in ('maps', 'smaps', 'numa_maps') if os.path.exists('/proc/self/' + name)]
dir = '/proc/self/map_files/'
texts.append('\\n'.join(os.readlink(dir + name) for name in os.listdir(dir)))
for text in texts: print([word for word in text.replace('=', ' ').split() if word.endswith('/file')])
print([open(dir + name).read() for name in os.listdir(dir) if os.readlink(dir + name) == '/tmp/data/file'])
";
    let bind = format!("{}:/tmp/data", other.path().display());
    let out = said(here.path(), &["--bind", &bind, "python3", "-c", script]);
    let mut lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.pop(), Some("['in\\n']"));
    assert!(lines.len() >= 3 && lines.iter().all(|line| *line == "['/tmp/data/file']"), "{out}");
}

#[test]
fn a_pipe_is_its_maker_s_also_for_whom_the_kernel_does_not_know() {
    if !can_run(&["bash"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "cat <(echo through); stat -L -c %u /dev/fd/9 9< <(:)";
    assert_eq!(said(here.path(), &["--uid", "4321", "bash", "-c", script]), "through\n4321\n");
    if !can_run(&["python3"]) {
        return;
    }
    let script = "import os
for fd in os.pipe()[0], os.memfd_create(''):
    told = os.fstat(fd), os.stat(fd), os.stat('/proc/self/fd/%d' % fd)
    print([(stat.st_uid, stat.st_gid) for stat in told])";
    let said = said(here.path(), &["--uid", "4321", "python3", "-c", script]);
    assert_eq!(said, "[(4321, 4321), (4321, 4321), (4321, 4321)]\n".repeat(2));
}

/// What has no name is its maker's to change, as `chmod o+w /dev/stdout` in many a start script does.
#[test]
fn what_has_no_name_is_changed_by_its_link() {
    same(
        &["python3"],
        r#"cat > change.py <<'X'
import os, select, socket
me, group = os.geteuid(), os.getegid()
def tells(does):
    try: return does()
    except OSError as error: return error.strerror
for name, fd in ("pipe", os.pipe()[1]), ("socket", socket.socketpair()[0].detach()), ("memory", os.memfd_create("m")):
    path = "/proc/self/fd/%d" % fd
    for does in lambda: os.chmod(path, 0o620), lambda: os.chown(path, me, group), lambda: os.chown(path, me, -1), \
        lambda: os.utime(path, (3, 4)), lambda: os.chown(path, me + 1 if me else 0, -1), lambda: os.truncate(path, 5):
        print(name, tells(does)); now = os.fstat(fd)
        print(oct(now.st_mode), now.st_uid == me, now.st_gid == group, now.st_size, int(now.st_mtime) == 4)
    print(tells(lambda: os.utime(path)), os.fstat(fd).st_mtime > 4, tells(lambda: os.chmod(path, 0)), oct(os.stat(path).st_mode))
events = select.epoll(); epoll = "/proc/self/fd/%d" % events.fileno()
print(oct(os.stat(epoll).st_mode), oct(os.stat(os.open(epoll, os.O_PATH)).st_mode))
# For who is not root they are closed.
for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC, os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_DIRECTORY:
    print(flags, tells(lambda: os.open(epoll, flags)))
print(tells(lambda: os.truncate(epoll, 0)), tells(lambda: os.execv(epoll, ["x"])))
X
python3 change.py; chmod 600 /dev/stdout; stat -L -c %a /dev/stdout"#,
    );
}

/// Somebody whom the host does not know changes what he made, and not what was handed in.
#[test]
fn what_was_handed_in_is_not_changed_by_a_virtual_user() {
    if !can_run(&["python3"]) {
        return;
    }
    let (here, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let handed = other.path().join("file");
    fs::write(&handed, "in\n").unwrap();
    let before = fs::metadata(&handed).unwrap().permissions();
    let script = "import os
r, w = os.pipe()
for fd in w, 0:
    try: print(os.chmod('/proc/self/fd/%d' % fd, 0o777), oct(os.fstat(fd).st_mode))
    except OSError as error: print(error.strerror)";
    let output = Command::new(env!("CARGO_BIN_EXE_pathwalk"))
        .args(["run", "--uid", "4321", "python3", "-c", script])
        .current_dir(here.path())
        .stdin(fs::File::open(&handed).unwrap())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "None 0o10777\nOperation not permitted\n");
    assert_eq!(fs::metadata(&handed).unwrap().permissions(), before);
}

#[test]
fn directories_are_listed_as_they_are() {
    same(
        &["python3"],
        r#"python3 -c 'import os, subprocess, threading
def numbers(path): return {int(name) for name in os.listdir(path) if name.isdigit()}
before = numbers("/proc"); child = subprocess.Popen(["sleep", "60"]); print(child.pid in before, child.pid in numbers("/proc"))
child.kill(); child.wait(); print(child.pid in numbers("/proc"))
before = numbers("/proc/self/fd"); os.dup2(0, 800); print(numbers("/proc/self/fd") - before == {800})
os.close(800); print(numbers("/proc/self/fd") == before, os.listdir("/proc/self/fd") == sorted(os.listdir("/proc/self/fd"), key=int))
event = threading.Event(); thread = threading.Thread(target=event.wait); print(len(numbers("/proc/self/task")))
thread.start(); print(len(numbers("/proc/self/task"))); event.set(); thread.join()
while len(numbers("/proc/self/task")) > 1: pass
# Who is gone moves nobody that comes behind.
os.dup2(0, 900); os.dup2(0, 950); import ctypes
d = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY); seen = []
def listed():
    buf = ctypes.create_string_buffer(48); n = ctypes.CDLL(None).syscall(217, d, buf, 48)
    raw, at, names = buf.raw, 0, []
    while at < n:
        size = int.from_bytes(raw[at + 16:at + 18], "little"); names.append(raw[at + 19:at + size].split(b"\0")[0].decode()); at += size
    return names
while True:
    names = listed(); seen += names
    if not names: break
    if "900" not in seen: os.listdir("/proc/self/fd")
    elif "950" not in seen: os.close(900); os.listdir("/proc/self/fd")
print(seen.count("900"), seen.count("950"), len(seen) == len(set(seen)))'"#,
    );
}

#[test]
fn what_lost_its_name_and_is_closed_takes_no_room() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "
import os
def used():
    return next(int(line.split()[1]) >> 10 for line in open('/proc/meminfo') if line.startswith('Shmem:'))
def write(f): f.write(bytes(4 << 20)); f.close()
def room(make):
    before = used()
    for _ in range(100): make()
    grown = used() - before
    return 'given back' if grown < 200 else grown
path = '/tmp/f'
def unlinks(): write(open(path, 'wb')); os.unlink(path)
def renames(): write(open(path + '2', 'wb')); os.rename(path + '2', path)
def nameless(): write(os.fdopen(os.open('/tmp', os.O_TMPFILE | os.O_RDWR), 'wb'))
def unlinked():
    f = open(path, 'wb'); os.unlink(path); write(f)
for make in unlinks, renames, nameless, unlinked: print(room(make))
# What somebody has open stays.
kept = open(path, 'w+b'); os.unlink(path); kept.write(b'kept'); kept.flush(); unlinks(); unlinked(); room(unlinks)
kept.seek(0); print(kept.read(), os.fstat(kept.fileno()).st_nlink, os.readlink('/proc/self/fd/%d' % kept.fileno()))
";
    let args = ["python3", "-c", script];
    let want = "given back\n".repeat(4) + "b'kept' 0 /tmp/f (deleted)\n";
    assert_eq!(said(here.path(), &args), want);
}

#[test]
fn namespaces_are_told_apart() {
    same(
        &["python3"],
        r#"readlink /proc/self/ns/mnt | cut -d : -f 1; test "$(stat -L -c '%i' /proc/self/ns/net)" = "$(stat -L -c '%i' /proc/$$/ns/net)" && echo the same
python3 -c 'import os
fd = os.open("/proc/self/ns/mnt", os.O_RDONLY); print(os.fstat(fd).st_ino == os.stat("/proc/self/ns/mnt").st_ino)
print(os.readlink("/proc/self/fd/" + str(fd)).split(":")[0], len(os.listdir("/proc/self/ns")))'"#,
    );
}

#[test]
fn mounts_are_the_tree_s_in_each_of_the_files() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "cut -d ' ' -f 2,3 /proc/self/mounts; cat /proc/self/mountstats";
    let out = said(here.path(), &["--rootfs", "/", "sh", "-c", script]);
    let (stats, mounts): (Vec<_>, Vec<_>) =
        out.lines().partition(|line| line.starts_with("device"));
    let told = |line: &str| {
        let (at, kind) = line.split_once(" mounted on ")?.1.split_once(" with fstype ")?;
        Some(format!("{at} {kind}"))
    };
    assert_eq!(stats.into_iter().filter_map(told).collect::<Vec<_>>(), mounts);
    assert!(mounts.len() > 2 && mounts[0].starts_with("/ "), "{out}");
}

/// Who asks for no magic links, or for none that leads out, relies on it.
#[test]
fn links_that_lead_elsewhere_by_magic_are_followed_only_where_they_may_be() {
    if !can_run(&["cc"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/magic.c");
    cc(here.path(), &["-O1", "-o", "magic", source]);
    let native = Command::new(here.path().join("magic")).current_dir(here.path()).output().unwrap();
    let native = text(&native.stdout);
    assert_eq!(native.lines().count(), 11 * 8 * 3);
    assert_eq!(said(here.path(), &["./magic"]), native);
}
