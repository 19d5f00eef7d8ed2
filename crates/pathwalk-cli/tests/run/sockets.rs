//! Local sockets that answer to the address that they were told.

use crate::{
    attacks::Attack,
    common::{can_run, python, said, text},
    programs::same,
};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A process that answers what another one sends it, by each call that tells an address and each that takes one. It says what became
/// of that.
const SERVER: &str = r#"
import os, socket, struct, subprocess, sys, tempfile
DGRAM = socket.SOCK_DGRAM
def local(kind, path=None):
    made = socket.socket(socket.AF_UNIX, kind)
    if path: made.bind(path)
    made.settimeout(20)
    return made
def tried(what):
    try: return what()
    except OSError as error: return error.strerror
def serve(mine, orders):
    while order := orders.recv(99).decode():
        order = order.split(" ")
        if order[0] == "end": os._exit(0)
        if order[0] == "enter": os.chdir(order[1])
        elif order[0] == "recvfrom": data, told = mine.recvfrom(99)
        elif order[0] == "recvmsg": data, _, _, told = mine.recvmsg(99)
        reply = b"to " + data
        def connects():
            other = local(DGRAM); other.connect(told)
            return other.send(reply), os.path.basename(other.getpeername())
        done = {"sendto": lambda: mine.sendto(reply, told), "sendmsg": lambda: mine.sendmsg([reply], [], 0, told),
            "connect": connects, "tells": lambda: told, "nothing": lambda: 0}[order[-1]]
        orders.send(repr(tried(done)).encode())
def server(path):
    mine = local(DGRAM, path)
    here, there = socket.socketpair()
    if os.fork() == 0: here.close(); serve(mine, there)
    mine.close(); there.close()
    def order(*words): here.send(" ".join(words).encode()); return here.recv(999).decode()
    return order
"#;

#[test]
fn a_datagram_is_answered_to_the_address_that_it_came_from() {
    let asks = r#"
for base in ".", tempfile.mkdtemp(dir="/tmp"):
    names = [base + "/" + name for name in ("server", "client", "moved", "other")]
    path, name, moved, more = names
    order = server(path)
    client = local(DGRAM, name)
    for receives in "recvfrom", "recvmsg":
        for sends in "sendto", "sendmsg", "connect":
            client.sendto(sends.encode(), path)
            print(receives, order(receives, sends), client.recv(99))
    to = local(DGRAM); to.connect(path); print(to.getpeername() == path)
    client.connect(path); print(client.getpeername() == path, client.getsockname() == name)
    client.send(b"connected"); print(order("recvfrom", "sendto"), client.recv(99))
    nameless = local(DGRAM); nameless.sendto(b"nobody", path); print(order("recvfrom", "tells"))
    # The name is looked up when it is answered, from where that one stands.
    client.send(b"renamed"); os.rename(name, moved); print(order("recvfrom", "sendto"), client.getsockname() == name)
    heir = local(DGRAM, name); client.send(b"inherited"); print(order("recvfrom", "sendto"), heir.recv(99))
    os.unlink(name); client.send(b"gone"); print(order("recvfrom", "sendto"))
    print(client.getsockname() == name, heir.getsockname() == name, client.getpeername() == path)
    os.mkdir(name); client.send(b"a directory"); print(order("recvfrom", "sendto")); os.rmdir(name)
    os.rename(moved, name); client.send(b"back"); print(order("recvfrom", "sendto"), client.recv(99))
    last = local(DGRAM, more); last.sendto(b"closed", path); last.close(); print(order("recvfrom", "sendto"))
    os.mkdir(base + "/dir")
    order("enter", base + "/dir", "nothing"); client.send(b"elsewhere"); print(order("recvfrom", "sendto"))
    order("end"); os.wait(); print(tried(lambda: client.send(b"ended")))
    for name in path, name, more: os.unlink(name)
    # Of a connection.
    listens = local(socket.SOCK_STREAM, path); listens.listen()
    named = local(socket.SOCK_STREAM, name); named.connect(path)
    got, told = listens.accept()
    print(got.getpeername() == name, got.getsockname() == path, tried(lambda: local(socket.SOCK_STREAM).connect(told)))
    os.unlink(path); again = local(socket.SOCK_STREAM, path)
    print(listens.getsockname() == path, got.getsockname() == path, named.getpeername() == path)
    print(tried(lambda: local(DGRAM).sendto(b"another kind", told))); os.unlink(name)
    print(tried(lambda: local(socket.SOCK_STREAM).connect(told)))
"#;
    same(&["python3"], &format!("cat > asks.py <<'X'\n{SERVER}{asks}\nX\npython3 asks.py"));
}

/// That of the socket, without the bits of the umask, also where the directory has ACLs for what is made in it.
#[test]
fn a_sockets_file_has_the_sockets_mode() {
    same(
        &["python3"],
        r#"cat > modes.py <<'X'
import os, socket, struct, tempfile
def acl(*entries): return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in entries)
given = acl((1, 7, 2**32 - 1), (2, 7, 77), (4, 5, 2**32 - 1), (0x10, 7, 2**32 - 1), (0x20, 7, 2**32 - 1))
for base in tempfile.mkdtemp(dir="."), tempfile.mkdtemp(dir="/tmp"):
    for attribute in None, "system.posix_acl_default":
        if attribute:
            try: os.setxattr(base, attribute, given)
            except OSError as error: print(error.strerror)
        for umask in 0, 0o027:
            os.umask(umask)
            for mode in None, 0o600, 0o4755, 0o666:
                made = socket.socket(socket.AF_UNIX)
                if mode is not None: os.fchmod(made.fileno(), mode)
                path = base + "/socket"
                made.bind(path)
                print(mode, oct(os.stat(path).st_mode), oct(os.fstat(made.fileno()).st_mode))
                os.unlink(path)
    os.rmdir(base)
X
python3 modes.py"#,
    );
}

/// More than are looked through at once.
#[test]
fn many_sockets_have_their_names_until_they_are_closed() {
    same(
        &["python3"],
        r#"cat > many.py <<'X'
import os, socket
kept, base = [], "/tmp/many-%d-" % os.getpid()
for n in range(400):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); made.bind(base + str(n)); os.unlink(base + str(n))
    if n % 8 == 0: kept.append((n, made))
print(all(made.getsockname() == base + str(n) for n, made in kept))
X
python3 many.py"#,
    );
}

/// What the kernel tells of a socket of the tree is its path in the tree, and reaches it as far as that does.
#[test]
fn an_address_that_was_told_reaches_what_its_path_in_the_tree_does() {
    let Some(attack) = Attack::new().filter(|_| can_run(&["python3"])) else { return };
    let tells = r#"
def sends(to): return subprocess.run(["./attack", "sends", to], capture_output=True, text=True).stdout.split()[1::2]
names = tempfile.mkdtemp(dir="/tmp"); os.chmod(names, 0o755); os.chmod(".", 0o755)
hears, client = local(DGRAM, names + "/hears"), local(DGRAM, names + "/client")
client.sendto(b"x", names + "/hears"); told = hears.recvfrom(9)[1]
print(sends(told)); print([client.recv(9) for _ in range(3)])
os.chmod(names + "/client", 0)
if os.fork() == 0: os.setuid(1); print(sends(told), flush=True); os._exit(0)
os.wait(); os.chmod(names, 0)
if os.fork() == 0: os.setuid(1); print(tried(lambda: local(DGRAM).connect(told)), flush=True); os._exit(0)
os.wait(); os.unlink(names + "/client"); print(sends(told))
os.mkdir(names + "/root"); os.rename(names + "/hears", names + "/root/hears")
client = local(DGRAM, names + "/client"); client.sendto(b"x", names + "/root/hears"); told = hears.recvfrom(9)[1]
if os.fork() == 0: os.chroot(names + "/root"); print(tried(lambda: hears.sendto(b"x", told)), flush=True); os._exit(0)
os.wait(); print(sends(told), flush=True)
"#;
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    command.args(["run", "--uid", "0", python(), "-c", &format!("{SERVER}{tells}")]);
    let output = command.current_dir(attack.here.path()).stdin(Stdio::null()).output().unwrap();
    let want = "\
['REACHED', 'REACHED', 'REACHED']
[b'stolen', b'stolen', b'stolen']
['EACCES', 'EACCES', 'EACCES']
Permission denied
['ENOENT', 'ENOENT', 'ENOENT']
No such file or directory
['REACHED', 'REACHED', 'REACHED']
";
    assert_eq!(text(&output.stdout), want, "{}", text(&output.stderr));
}

/// Neither what another run has, nor what the host has by such a path, nor what has no name yet.
#[test]
fn no_address_of_the_host_reaches_a_socket_that_was_not_given() {
    let Some(attack) = Attack::new().filter(|_| can_run(&["python3"])) else { return };
    let waits = r#"
mine, other = local(DGRAM, "/tmp/mine"), local(DGRAM, "/tmp/other")
other.sendto(b"x", "/tmp/mine"); print(mine.recvfrom(9)[1], flush=True)
sys.stdin.read(); other.setblocking(False); print(tried(lambda: other.recv(9)))
"#;
    let in_python = |program: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
        command.args(["run", python(), "-c", &format!("{SERVER}{program}")]);
        command.current_dir(attack.here.path()).stdout(Stdio::piped());
        command
    };
    let mut other = in_python(waits).stdin(Stdio::piped()).spawn().unwrap();
    let mut says = std::io::BufReader::new(other.stdout.take().unwrap());
    let mut told = String::new();
    std::io::BufRead::read_line(&mut says, &mut told).unwrap();
    let told = told.trim_end();
    assert!(told.starts_with("/proc/"), "{told}");
    // The host has it there.
    assert_eq!(
        attack.natively(&["sends", told]),
        "sendto REACHED\nsendmsg REACHED\nsendmmsg REACHED\n"
    );
    let tries = format!(
        r#"
def sends(to): return subprocess.run(["./attack", "sends", to], capture_output=True, text=True).stdout.split()[1::2]
print(sends("{told}"), tried(lambda: local(DGRAM).connect("{told}")))
mine, other = local(DGRAM, "/tmp/mine"), local(DGRAM, "/tmp/other")
other.sendto(b"x", "/tmp/mine"); own = mine.recvfrom(9)[1]
room = os.path.dirname(own)
for to in room + "/s9", room + "/../" + os.path.basename(room) + "/" + os.path.basename(own), room + "/./" + os.path.basename(own), own + "/":
    print(sends(to))
print(sends(own))
"#
    );
    let output = in_python(&tries).stdin(Stdio::null()).output().unwrap();
    let none = "['ENOENT', 'ENOENT', 'ENOENT']\n";
    let reached = "['REACHED', 'REACHED', 'REACHED']\n";
    let want =
        format!("{} No such file or directory\n{}{reached}", none.trim_end(), none.repeat(4));
    assert_eq!(text(&output.stdout), want);
    drop(other.stdin.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut says, &mut rest).unwrap();
    // What came is what the host sent.
    assert_eq!(rest, "b'stolen'\n");
    assert!(other.wait().unwrap().success());
}

/// What is sent and closed, and what is done before it is received.
const SENDS: &str = r#"
import os, socket, sys, tempfile, time
def sends(fd, how):
    here, there = socket.socketpair()
    if how == "connects":
        name = tempfile.mktemp(dir="/tmp"); listens = socket.socket(socket.AF_UNIX); listens.bind(name); listens.listen()
        here = socket.socket(socket.AF_UNIX); here.connect(name); os.unlink(name)
    socket.send_fds(here, [b"x"], [fd]); os.close(fd)
    if how == "connects": here.close(); return lambda: socket.recv_fds(listens.accept()[0], 9, 1)[1][0]
    if how == "in another":
        above, below = socket.socketpair(); socket.send_fds(above, [b"x"], [there.fileno()]); there.close(); above.close()
        return lambda: socket.recv_fds(socket.socket(fileno=socket.recv_fds(below, 9, 1)[1][0]), 9, 1)[1][0]
    if how == "closes": here.close()
    receives = lambda: socket.recv_fds(there, 9, 1)[1][0]
    receives.keeps = here
    return receives
def new(name): return os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
def nameless(base):
    fd = new(base + "/pool"); os.fchmod(fd, 0o640); os.write(fd, b"pool"); os.unlink(base + "/pool"); return fd
def many(base):
    for n in range(70): os.close(new(base + "/one")); os.unlink(base + "/one")
    os.stat(base)
def much(base):
    fd = new(base + "/one"); os.write(fd, bytes(20 << 20)); os.close(fd); os.unlink(base + "/one"); os.stat(base)
def named(base):
    for n in range(1200): os.close(new(base + "/" + str(n)))
    for n in range(1200): os.unlink(base + "/" + str(n))
def asks(base): os.statvfs(base)
def late(base): time.sleep(2.2); os.stat(base)
"#;

#[test]
fn what_was_sent_and_not_yet_received_is_what_it_was() {
    let asks_all = r#"
def told(fd):
    stat = os.fstat(fd)
    try: attribute = os.setxattr(fd, "user.a", b"1")
    except OSError as error: attribute = error.strerror
    return stat.st_dev, stat.st_ino, stat.st_mode, stat.st_nlink, stat.st_size, os.readlink("/proc/self/fd/%d" % fd), attribute
def reads(fd, name):
    try: return os.read(os.open(name, os.O_RDONLY, dir_fd=fd), 9)
    except OSError as error: return error.strerror
for base in ".", tempfile.mkdtemp(dir="/tmp"):
    os.mkdir(base + "/dir"); os.close(new(base + "/dir/file")); open(base + "/dir/file", "w").write("within")
    for does in many, much, named:
        for flags in os.O_DIRECTORY, os.O_PATH:
            receives = sends(os.open(base + "/dir", flags), "keeps")
            does(base); print(does.__name__, flags, reads(receives(), "file"))
        receives = sends(os.open(base + "/dir/file", os.O_PATH), "keeps")
        does(base); print(does.__name__, told(receives())[2:5])
    for does in asks, late, many, much, named:
        for how in ["keeps"] if does != asks else ["keeps", "closes", "connects", "in another"]:
            fd = nameless(base); before = told(fd); receives = sends(fd, how)
            does(base); after = told(receives()); print(does.__name__, how, after == before or (before, after))
"#;
    same(&["python3"], &format!("cat > sends.py <<'X'\n{SENDS}{asks_all}\nX\npython3 sends.py"));
}

/// Linux 6.18 says so, in a mount namespace of one's own.
#[test]
fn what_is_no_socket_is_no_place_to_connect_to() {
    if !can_run(&["python3"]) {
        return;
    }
    let script = r#"
import ctypes, errno, os, socket
os.umask(0); os.chdir("/srv"); libc = ctypes.CDLL(None)
for name, mode in ("open", 0o666), ("shut", 0o644): os.close(os.open(name, os.O_CREAT, mode))
os.mkdir("dir"); os.mkfifo("fifo", 0o644)
bound = socket.socket(socket.AF_UNIX); bound.bind("bound"); os.chmod("bound", 0o644)
def connect(name):
    try: socket.socket(socket.AF_UNIX).connect("/srv/" + name)
    except OSError as error: return errno.errorcode[error.errno]
def connects():
    print(*[connect(name) for name in ("open", "shut", "dir", "fifo", "bound", "none")], flush=True)
RDONLY, REMOUNT, BIND = 1, 32, 4096
for flags in None, REMOUNT | BIND | RDONLY, REMOUNT | RDONLY, REMOUNT | BIND | RDONLY:
    if flags: assert libc.mount(None, b"/srv", None, flags, None) == 0
    connects()
    if not os.fork(): os.setgid(65534); os.setuid(65534); connects(); os._exit(0)
    os.wait()
"#;
    let here = TempDir::new().unwrap();
    let (refused, denied) = ("ECONNREFUSED ", "EACCES ");
    let root = format!("{}ENOENT\n", refused.repeat(5));
    let other = format!("{refused}{}{refused}{}ENOENT\n", denied, denied.repeat(2));
    let (root_of_fs, other_of_fs) = (
        format!("{}{}ENOENT\n", "EROFS ".repeat(3), refused.repeat(2)),
        format!("{}{}ENOENT\n", "EROFS ".repeat(3), denied.repeat(2)),
    );
    let want = [&root, &other].map(String::as_str).concat().repeat(2)
        + &[&root_of_fs, &other_of_fs].map(String::as_str).concat().repeat(2);
    let args = ["--uid", "0", "--tmpfs", "/srv", python(), "-c", script];
    assert_eq!(said(here.path(), &args), want);
}

#[test]
fn what_was_received_and_closed_takes_no_room() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let takes = r#"
def free(): return os.statvfs("/tmp/m").f_bfree
def full(): fd = new("/tmp/m/f"); os.write(fd, bytes(100000)); os.unlink("/tmp/m/f"); return fd
for how in "keeps", "closes", "connects", "in another":
    receives = sends(full(), how); lies = free(); fd = receives(); has = free(); os.close(fd); print(lies, has, free())
# While something lies in another one.
stays = sends(os.open("/tmp", os.O_DIRECTORY), "keeps")
here, there = socket.socketpair()
for n in range(9):
    fd = full(); socket.send_fds(here, [b"x"], [fd]); os.close(fd); os.close(socket.recv_fds(there, 9, 1)[1][0])
    print(free())
os.close(stays()); print(free())
"#;
    let program = format!("{SENDS}{takes}");
    let said = said(here.path(), &["--mount", "mem:/tmp/m:size=1m", python(), "-c", &program]);
    let want = "231 231 256\n".repeat(4) + &"231\n".repeat(9) + "256\n";
    assert_eq!(said, want);
}

/// As soon as somebody asks, however often that was lately.
#[test]
fn what_lost_its_name_is_not_counted_by_who_asks_for_room() {
    if !can_run(&["python3"]) {
        return;
    }
    let script = r#"
import os
def left(): return os.statvfs('/tmp').f_bfree
was, counted = left(), 0
for n in range(1000):
    fd = os.open('/tmp/lost', os.O_CREAT | os.O_RDWR); os.write(fd, bytes(100_000)); os.unlink('/tmp/lost')
    with_it = left(); os.close(fd)
    counted += with_it >= was or left() < was
print(counted)
"#;
    let here = TempDir::new().unwrap();
    let idle = "for i in $(seq 50); do sleep 1000 & done; python3 -c \"$0\"; kill $(jobs -p)";
    let args = ["--mount", "mem:/tmp:size=1g", "--cwd", "/", "bash", "-c", idle, script];
    assert_eq!(said(here.path(), &args), "0\n");
}
