//! What has no place in the tree, as a pipe, a socket and memory, and what is changed of the files of `/proc`: the answers are the
//! kernel's, to root and to nobody.

use crate::common::{can_run, pathwalk_in, said, text};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};
use tempfile::TempDir;

const NOBODY: &str = "65534";

/// Who runs a script: who runs the test, or nobody, which only root can become.
fn somebody() -> Vec<Option<&'static str>> {
    let root = rustix::process::geteuid().is_root();
    [None, Some(NOBODY)].into_iter().take(if root { 2 } else { 1 }).collect()
}

/// What a script of Python says of somebody's, run by this program, or natively.
fn says(somebody: Option<&str>, by: &[&str], script: &str) -> String {
    let here = TempDir::new_in("/tmp").unwrap();
    let mut words = Vec::new();
    if let Some(id) = somebody {
        chown(here.path(), id.parse().ok(), id.parse().ok()).unwrap();
        words.extend(["setpriv", "--reuid", id, "--regid", id, "--clear-groups"]);
    }
    words.extend_from_slice(by);
    // By the user who may not search what root's PATH begins with.
    words.extend(["env", "python3", "-c", script]);
    let output =
        Command::new(words[0]).args(&words[1..]).current_dir(here.path()).output().unwrap();
    assert!(output.status.success(), "{somebody:?} {by:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// That a script says the same natively and in the tree, whoever runs it.
fn same_for_all(script: &str) {
    if !can_run(&["python3", "setpriv"]) {
        return;
    }
    let built = TempDir::new_in("/tmp").unwrap();
    // Who runs it must be able to read it.
    fs::set_permissions(built.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let pathwalk = pathwalk_in(built.path());
    let pathwalk = pathwalk.to_str().unwrap();
    for somebody in somebody() {
        let native = says(somebody, &[], script);
        let tree = says(somebody, &[pathwalk, "run", "--"], script);
        for (native, tree) in native.lines().zip(tree.lines()) {
            assert_eq!(tree, native, "{somebody:?}");
        }
        assert_eq!(tree.lines().count(), native.lines().count(), "{somebody:?}");
        assert!(native.lines().count() > 0);
    }
}

/// That a script says to a virtual user what it says to such a one natively.
fn same_for_virtual(script: &str) {
    let native = says(Some(NOBODY), &[], script);
    let pathwalk = env!("CARGO_BIN_EXE_pathwalk");
    let tree = says(None, &[pathwalk, "run", "--uid", NOBODY, "--gid", NOBODY, "--"], script);
    for (native, tree) in native.lines().zip(tree.lines()) {
        assert_eq!(tree, native);
    }
    assert_eq!(tree.lines().count(), native.lines().count());
}

/// What the scripts below begin with: what has no place, each with its name, and what calls answer.
const OPENS: &str = r#"
import ctypes, errno, os, select, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(does, *args):
    try: answer = does(*args)
    except OSError as error: return errno.errorcode[error.errno]
    return "ok" if answer is None else answer
def raw(number, *args):
    answer = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args])
    return answer if answer >= 0 else errno.errorcode[ctypes.get_errno()]
r, w = os.pipe()
memory = os.memfd_create("memory"); shut = os.memfd_create("shut"); os.fchmod(shut, 0o444)
events = select.epoll()
opened = [("pipe", r), ("written", w), ("stream", socket.socket(socket.AF_UNIX).detach()), ("pair", socket.socketpair()[0].detach()),
    ("datagrams", socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach()), ("memory", memory), ("shut", shut),
    ("read only", os.open(f"/proc/self/fd/{os.memfd_create('read')}", os.O_RDONLY)), ("epoll", events.fileno()),
    ("eventfd", libc.eventfd(0, 0)), ("inotify", libc.inotify_init1(0)), ("timer", libc.timerfd_create(1, 0)),
    ("process", os.pidfd_open(os.getpid())), ("namespace", os.open("/proc/self/ns/net", os.O_RDONLY)), ("none", 999)]
"#;

/// Says what calls about extended attributes answer.
const ATTRIBUTES: &str = r#"
places = [("place of a pipe", os.open(f"/proc/self/fd/{r}", os.O_PATH)), ("place of memory", os.open(f"/proc/self/fd/{memory}", os.O_PATH))]
ACL = b"\2\0\0\0" + b"".join(bytes([tag, 0, perm, 0]) + b"\xff" * 4 for tag, perm in [(1, 6), (4, 4), (32, 4)])
names = [b"user.a", b"user.", b"trusted.a", b"security.a", b"security.", b"system.a", b"system.sockprotoname", b"bad", b"a.b", b"",
    b"user." + b"x" * 250, b"user." + b"x" * 251]
acls = [b"system.posix_acl_access", b"system.posix_acl_default"]
kept, buf, EMPTY, AT = [], ctypes.create_string_buffer(70000), 0x1000, tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 13)
def args(value, size, flags=0):
    at = value if isinstance(value, int) else ctypes.cast(value, ctypes.c_void_p).value or 0
    kept.append((ctypes.c_uint64 * 2)(at, size | flags << 32)); return kept[-1]
def by(fd, link):
    yield "fd", lambda n, v, s, f: raw(190, fd, n, v, s, f), lambda n, v, s: raw(193, fd, n, v, s), \
        lambda v, s: raw(196, fd, v, s), lambda n: raw(199, fd, n)
    yield "link", lambda n, v, s, f: raw(188, link, n, v, s, f), lambda n, v, s: raw(191, link, n, v, s), \
        lambda v, s: raw(194, link, v, s), lambda n: raw(197, link, n)
    if AT: yield "at", lambda n, v, s, f: raw(463, fd, b"", EMPTY, n, args(v, s, f), 16), \
        lambda n, v, s: raw(464, fd, b"", EMPTY, n, args(v, s), 16), lambda v, s: raw(465, fd, b"", EMPTY, v, s), \
        lambda n: raw(466, fd, b"", EMPTY, n)
def listed(lists):
    len = lists(buf, 70000)
    return buf.raw[:len] if isinstance(len, int) else len
def got(get, name):
    len = get(name, buf, 1000)
    return buf.raw[:len] if isinstance(len, int) else len
def goes(opened, names, ways):
    for what, fd in opened:
        for way, set, get, lists, remove in by(fd, b"/proc/self/fd/%d" % fd):
            if way not in ways: continue
            print(what, way, listed(lists), lists(None, 0), lists(buf, 1), lists(8, 1000))
            for name in names:
                value = ACL if b"acl" in name else b"value"
                print(what, way, name, got(get, name), get(name, None, 0), get(name, buf, 1), get(name, 8, 100),
                    [set(name, value, len(value), flags) for flags in range(5)], set(name, None, 0, 0), set(name, 8, 3, 0),
                    set(name, ctypes.create_string_buffer(65536), 65536, 0), set(name, buf, 65537, 0), set(name, value, len(value), 0),
                    got(get, name), get(name, None, 0), listed(lists), lists(None, 0), remove(name), remove(name), listed(lists))
"#;

#[test]
fn extended_attributes_of_what_has_no_place_are_the_kernel_s() {
    same_for_all(&format!(
        "{OPENS}{ATTRIBUTES}
goes(opened, names + acls, ['fd', 'link', 'at']); goes(places, names + acls, ['fd', 'at'])
# The current directory has a number for these, but not for listing and removing.
for here in '.', 'new':
    if here == 'new': os.mkdir(here)
    os.chdir(here); goes([('here', -100)], [b'user.a', b'bad', b''], ['fd', 'at'])"
    ));
}

/// Nobody gets by them what who started this may: the supervisor asks for a virtual user, too.
#[test]
fn a_virtual_user_has_the_attributes_that_such_a_one_has() {
    if !rustix::process::geteuid().is_root() || !can_run(&["python3", "setpriv"]) {
        return;
    }
    // A process is a regular file for the kernel, and is shown as none; and a namespace as one that can be changed.
    same_for_virtual(&format!(
        "{OPENS}{ATTRIBUTES}
goes([it for it in opened if it[0] not in ('process', 'namespace')], names + acls, ['fd', 'link', 'at'])"
    ));
    let script = "
fd = os.memfd_create('m'); link = f'/proc/self/fd/{fd}'
os.setxattr(fd, 'trusted.a', b'x'); os.setxattr(link, 'trusted.b', b'x'); os.setxattr(fd, 'user.a', b'x'); os.setxattr(fd, 'security.a', b'x')
def tells():
    for at in fd, link:
        print(sorted(os.listxattr(at)), call(os.getxattr, at, 'trusted.a'), call(os.setxattr, at, 'trusted.a', b'y'),
            call(os.setxattr, at, 'security.a', b'y'), call(os.removexattr, at, 'security.a'), call(os.setxattr, at, 'security.capability', b'\\0\\0\\0\\2' + bytes(16)),
            call(os.setxattr, at, 'security.capability', b''), call(os.removexattr, at, 'security.capability'), call(os.getxattr, at, 'security.b'),
            call(os.setxattr, at, 'user.a', b'y'))
        os.setxattr(at, 'user.a', b'x')
tells(); os.setxattr(fd, 'security.a', b'x'); os.setxattr(fd, 'security.capability', b''); os.fchmod(fd, 0o755); os.setresuid(33, 33, 33); os.fchmod(fd, 0o555); print(call(os.setxattr, fd, 'user.a', b'y'))
os.fchmod(fd, 0o755); tells()";
    let here = TempDir::new().unwrap();
    let tree = said(here.path(), &["--uid", "0", "python3", "-c", &(CALL.to_owned() + script)]);
    let all = "['security.a', 'trusted.a', 'trusted.b', 'user.a'] b'x'";
    let (none, no) = ("No data available", "Operation not permitted");
    let rest = format!(
        "['security.a', 'security.capability', 'user.a'] {none} {no} {no} {no} {no} None {no} {none} None"
    );
    let lines: Vec<_> = tree.lines().collect();
    assert!(lines[0].starts_with(all), "{tree}");
    assert_eq!(lines[2..], ["Permission denied", &rest, &rest], "{tree}");
}

#[test]
fn what_has_no_place_and_links_are_watched_as_the_kernel_watches_them() {
    same_for_all(&format!(
        "{OPENS}{}",
        r#"
queue = libc.inotify_init1(os.O_NONBLOCK)
opened += [("proc", os.open("/proc/self/status", os.O_RDONLY)), ("directory", os.open("/tmp", os.O_RDONLY)), ("text", os.open("/proc/self/maps", os.O_RDONLY))]
def heard():
    data, masks, at = call(os.read, queue, 4096), [], 0
    if isinstance(data, str): return data
    while at < len(data):
        masks.append(hex(int.from_bytes(data[at + 4:at + 8], "little"))); at += 16 + int.from_bytes(data[at + 12:at + 16], "little")
    return masks
for what, fd in opened:
    for mask in 0xfff, 2, 0x2000002, 0x1000002, 0x3000002, 0x10000002:
        wd = raw(254, queue, b"/proc/self/fd/%d" % fd, mask)
        print(what, hex(mask), "watched" if isinstance(wd, int) else wd, raw(255, queue, wd) if isinstance(wd, int) else "")
heard()
for what, does in ("pipe", lambda fd: (os.write(w, b"x"), os.read(fd, 1))), ("epoll", lambda fd: (events.register(r), events.poll(0))), \
    ("memory", lambda fd: (os.write(fd, b"x"), os.pread(fd, 1, 0), os.ftruncate(fd, 0))), \
    ("eventfd", lambda fd: (os.write(fd, b"\1" + b"\0" * 7), os.read(fd, 8))), \
    ("stream", lambda fd: socket.socket(fileno=os.dup(fd)).bind(b"\0pathwalk test %d" % os.getpid())):
    fd = dict(opened)[what]; wd = raw(254, queue, b"/proc/self/fd/%d" % fd, 0xfff); does(fd); print(what, heard())"#
    ));
}

/// What is changed of an inode of no kind, as an epoll's, and whose file system it is in.
#[test]
fn what_has_no_place_is_changed_as_the_kernel_has_it() {
    let script = format!(
        "{OPENS}{}",
        r#"
user, group = os.geteuid(), os.getegid()
stat = ctypes.create_string_buffer(120)
for what, fd in opened:
    if what == "none" or what == "namespace" and user: continue
    link = f"/proc/self/fd/{fd}"; place = os.open(link, os.O_PATH)
    def empty(at, number, *args): return raw(number, at, b"", *args, 0x1000)
    for way, at in ("fd", fd), ("link", link):
        print(what, way, call(os.chmod, at, 0o644), [call(os.chown, at, *to) for to in ((-1, -1), (user, -1), (-1, group), (77, -1), (-1, 77)) if user or 77 not in to],
            call(os.utime, at, (1, 2)), call(os.utime, at), os.stat(at).st_uid, oct(os.stat(at).st_mode))
    for way, at in ("empty", fd), ("place", place):
        print(what, way, empty(at, 452, 0o600), empty(at, 260, -1, -1), empty(at, 260, user, group))
    print(what, raw(137, link.encode(), stat), stat.raw[:8], raw(138, fd, stat), stat.raw[:8], raw(138, place, stat))"#
    );
    same_for_all(&script);
    if rustix::process::geteuid().is_root() {
        same_for_virtual(&script);
    }
}

/// Says what is answered where somebody changes a process's files, or what is the machine's.
const CHANGES: &str = r#"
import fcntl
me, root, user, group = os.getpid(), os.geteuid() == 0, os.geteuid(), os.getegid()
file = os.open("file", os.O_RDWR | os.O_CREAT, 0o644)
PROCESS = ["status", "comm", "mem", "cwd", "exe", "root", f"fd/{r}", f"fd/{memory}", f"fd/{file}", f"fdinfo/{r}", "ns/net", "environ", "maps", "smaps",
    "mountinfo", "mounts", "oom_score_adj", "auxv", "clear_refs", "uid_map", "setgroups", "coredump_filter", "limits", "io", "stat", "cmdline",
    f"task/{me}/comm", "nothere", f"task/{me}/fd/{memory}"]
DIRS = ["", "fd", "fdinfo", "task", f"task/{me}", f"task/{me}/fd", "ns", "map_files", "net"]
MACHINE = ["version", "meminfo", "sys", "sys/kernel", "sys/kernel/hostname", "sys/kernel/ostype", "sys/vm/drop_caches", "self", "thread-self", "net", "mounts", "tty", "nothere"]
process = [f"/proc/{of}/{name}".rstrip("/") for of in ("self", me) for name in DIRS + PROCESS]
machine = [f"/proc/{name}" for name in MACHINE]
def told(path): return path.replace(str(me), "PID")
def mode(path, follow):
    stat = call(lambda: os.stat(path, follow_symlinks=follow))
    return 0o600 if isinstance(stat, str) else stat.st_mode & 0o7777
def chmod(path, mode, follow):
    answer = raw(452, -100, path.encode(), mode, 0 if follow else 0x100)
    return "ok" if answer == 0 else answer
"#;

#[test]
fn names_in_proc_are_nobody_s_to_change() {
    same_for_all(&format!(
        "{OPENS}{CHANGES}{}",
        r#"
for path in process + machine:
    print(told(path), "unlink", call(os.unlink, path), "rmdir", call(os.rmdir, path), "rename", call(os.rename, path, path + "x"),
        [raw(316, -100, path.encode(), -100, path.encode() + b"x", flags) for flags in (2, 4)],
        [raw(316, -100, path.encode(), -100, b"/proc/self/status", flags) for flags in (2, 4)] if not path.startswith("/proc/sys") else "",
        "out", call(os.rename, path, "x"), "in", call(os.rename, "file", path), "link", call(lambda: os.link(path, "l", follow_symlinks=False)),
        "mkdir", call(os.mkdir, path), "symlink", call(os.symlink, "x", path), "mknod", call(os.mknod, path))
    for name in "new", "77", "status":
        if os.path.isdir(path) and "cwd" not in path and "root" not in path:
            new = f"{path}/{name}"
            print(told(new), "mkdir", call(os.mkdir, new), "make", call(os.open, new, os.O_CREAT | os.O_EXCL | os.O_WRONLY),
                "symlink", call(os.symlink, "x", new), "link", call(os.link, "file", new), "fifo", call(os.mkfifo, new),
                "rename", call(os.rename, "file", new), "unlink", call(os.unlink, new), "rmdir", call(os.rmdir, new))
    if os.path.isdir(path) and "cwd" not in path and "root" not in path:
        print(told(path), "nameless", call(os.open, path, os.O_TMPFILE | os.O_RDWR))"#
    ));
}

#[test]
fn who_may_change_what_is_in_proc_is_the_kernel_s_to_say() {
    same_for_all(&format!(
        "{OPENS}{CHANGES}{}",
        r#"
about = ctypes.create_string_buffer(256)
# What is in the tree has the modes that it has there.
process = [path for path in process if not path.endswith(("/cwd", "/exe", "/root"))]
for path in process + machine:
    print(told(path), [os.access(path, how) for how in range(8)], [os.access(path, how, follow_symlinks=False) for how in range(8)],
        [os.access(path, how, effective_ids=True) for how in range(8)])
    raw(332, -100, path.encode(), 0x100, 0x7ff, about)
    print(told(path), about.raw[8:16], about.raw[56:64], [raw(198, path.encode(), name) for name in (b"system.posix_acl_access", b"system.a", b"user.a")])
    # Root would change what is the machine's.
    changes = not root or path in process
    for follow in True, False:
        print(told(path), follow, "nothing", call(lambda: os.chown(path, -1, -1, follow_symlinks=follow)))
        if changes:
            print("own", call(lambda: os.chown(path, user, group, follow_symlinks=follow)),
                "other", call(lambda: os.chown(path, 77, 77, follow_symlinks=follow)) if not root else "", "mode", chmod(path, mode(path, follow), follow),
                "then", call(lambda: os.utime(path, (1, 2), follow_symlinks=follow)), "now", call(lambda: os.utime(path, follow_symlinks=follow)))
            stat = call(lambda: os.stat(path, follow_symlinks=follow))
            print("is", stat if isinstance(stat, str) else (oct(stat.st_mode), stat.st_uid, stat.st_gid, stat.st_mtime > 1000))
    if changes: print(told(path), "truncate", call(os.truncate, path, 0), call(os.truncate, path, 5))"#
    ));
}

#[test]
fn what_is_opened_in_proc_has_the_flags_that_were_given() {
    same_for_all(&format!(
        "{OPENS}{CHANGES}{}",
        r#"
names = ["O_WRONLY", "O_RDWR", "O_APPEND", "O_NONBLOCK", "O_DIRECT", "O_SYNC", "O_DSYNC", "O_NOFOLLOW", "O_EXCL", "O_ASYNC", "O_NOCTTY", "O_CREAT", "O_DIRECTORY"]
def flags(path, how):
    def does():
        fd = os.open(path, how, 0o600)
        try: return oct(fcntl.fcntl(fd, fcntl.F_GETFL))
        finally: os.close(fd)
    return call(does)
texts = "/proc/self/maps", "/proc/self/mounts", "/proc/self/mountstats"
for path in "/proc/self/status", "/proc/self/comm", "/proc/self/stat", "/proc/version", *texts:
    for access in os.O_RDONLY, os.O_WRONLY, os.O_RDWR:
        for name in names[2:]:
            # Root may open what is the machine's to be written.
            if (access == os.O_RDONLY or "self" in path) and (name != "O_NOFOLLOW" or path not in texts):
                print(path, access, name, flags(path, access | getattr(os, name)))
def slow(path):
    print(path, [(name, flags(path, os.O_RDWR | getattr(os, name))) for name in names[2:] if name not in ("O_NOFOLLOW", "O_CREAT")])
slow(f"/proc/self/fd/{r}"); os.mkfifo("fifo"); slow("fifo")
print("anew", flags(f"/proc/self/fd/{memory}", os.O_RDWR | os.O_APPEND | os.O_SYNC | os.O_ASYNC | os.O_NONBLOCK))
# In memory and on the host.
import tempfile
for dir in ".", "/tmp":
    path = f"{dir}/made-{me}"
    for how in os.O_RDONLY, os.O_WRONLY | os.O_EXCL, os.O_RDWR | os.O_APPEND | os.O_TRUNC:
        print(dir, "made", flags(path, how | os.O_CREAT)); os.unlink(path)
    os.close(os.open(path, os.O_CREAT, 0o600))
    for access in os.O_RDONLY, os.O_WRONLY, os.O_RDWR:
        print(dir, access, [(name, flags(path, access | getattr(os, name))) for name in names if name != "O_NOFOLLOW"])
    os.unlink(path)"#
    ));
}

/// What scripts begin with that say by words what calls answer.
const CALL: &str = "
import os
def call(does, *args):
    try: return does(*args)
    except OSError as error: return error.strerror";

/// What is told of the tree is told to who opened it: another opening tells anew.
#[test]
fn what_proc_tells_is_not_written() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "
for name in 'maps', 'mounts', 'mountinfo':
    path = f'/proc/self/{name}'
    fd = os.open(path, os.O_RDONLY); print(call(os.write, fd, b'x'), call(os.truncate, path, 0), len(os.read(fd, 10)))
    fd = call(os.open, path, os.O_RDWR)
    if isinstance(fd, int): print(call(os.write, fd, b'x') in ['Operation not permitted', 'Invalid argument'], len(os.read(fd, 10)))
    else: print(fd == 'Permission denied', 10)";
    let want = "Bad file descriptor None 10\nTrue 10\n".repeat(3);
    assert_eq!(
        said(here.path(), &["--uid", "0", "python3", "-c", &(CALL.to_owned() + script)]),
        want
    );
}

/// What root changes of the machine's files is seen in the tree, and nowhere else.
#[test]
fn the_machine_s_files_are_changed_for_the_tree_alone() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "
def shows(path):
    stat = os.stat(path); return oct(stat.st_mode), stat.st_uid, stat.st_gid, stat.st_mtime
path = '/proc/version'
print(call(os.chmod, path, 0o400), call(os.chown, path, 33, 34), call(os.utime, path, (1, 2)), shows(path), call(os.open, path, os.O_WRONLY))
print(call(os.chown, path, -1, 35), shows(path), open(path).read() != '')
path = '/proc/sys/kernel/ostype'; before = shows(path)
print(call(os.chmod, path, 0o600), call(os.chown, path, 33, 34), call(os.utime, path, (1, 2)), shows(path)[:3] == before[:3], shows(path)[3])";
    let before = fs::metadata("/proc/version").unwrap();
    let no = "Operation not permitted";
    assert_eq!(
        said(here.path(), &["--uid", "0", "python3", "-c", &(CALL.to_owned() + script)]),
        format!(
            "None None None ('0o100400', 33, 34, 2.0) Permission denied\nNone ('0o100400', 33, 35, 2.0) True\n{no} {no} None True 2.0\n"
        )
    );
    let after = fs::metadata("/proc/version").unwrap();
    assert_eq!(before.permissions(), after.permissions());
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
}
