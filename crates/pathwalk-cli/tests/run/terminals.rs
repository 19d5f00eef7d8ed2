//! Terminals of sessions that the program makes.

use crate::programs::same;

/// What a child says on a terminal of its own.
const ON_A_TERMINAL: &str = r#"
import os, pty, sys
def said(child):
    pid, fd = pty.fork()
    if pid == 0:
        try: child()
        except OSError as error: os.write(1, str(error).encode())
        os._exit(0)
    out = b""
    while True:
        try: part = os.read(fd, 1000)
        except OSError: break
        if not part: break
        out += part
    os.waitpid(pid, 0); return out
"#;

#[test]
fn the_terminal_of_a_session_is_found_by_its_name() {
    same(
        &["python3", "setsid"],
        &format!(
            r#"python3 -c '{ON_A_TERMINAL}
def child():
    tty = os.open("/dev/tty", os.O_RDWR); os.write(tty, b"by its name "); print(os.isatty(tty), os.tcgetpgrp(tty) == os.getpgrp())
    sys.stdout.flush(); print(os.stat("/dev/tty").st_rdev == os.makedev(5, 0), os.getsid(0) == os.getpid()); sys.stdout.flush()
    try: os.open("/dev/tty", os.O_RDWR | os.O_DIRECTORY)
    except OSError as error: print(error.strerror)
print(said(child))
print(said(lambda: os.execlp("sh", "sh", "-c", "echo from a shell > /dev/tty; setsid -w sh -c \"echo no > /dev/tty\" 2> /dev/null || echo none there")))'"#
        ),
    );
}

#[test]
fn a_terminal_becomes_the_session_s_by_being_opened() {
    same(
        &["python3"],
        r#"python3 -c 'import fcntl, os, termios
def by_opening(flags, leads=True):
    master, slave = os.openpty(); name = os.ttyname(slave)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if not leads and os.fork(): os.wait(); os._exit(0)
        try:
            fd = os.open(name, flags)
            try: print(os.tcgetpgrp(fd) == os.getpgrp(), os.get_inheritable(fd), os.ttyname(fd) == name, flush=True)
            except OSError as error: print(error.strerror, flush=True)
            try: print(os.isatty(os.open("/dev/tty", os.O_RDWR)), flush=True)
            except OSError as error: print(error.strerror, flush=True)
        finally: os._exit(0)
    os.waitpid(pid, 0); os.close(master); os.close(slave)
for flags in os.O_RDWR, os.O_RDONLY | os.O_CLOEXEC, os.O_RDWR | os.O_NOCTTY: by_opening(flags)
by_opening(os.O_RDWR, False)
# One that was taken stays whose it was.
master, slave = os.openpty(); name = os.ttyname(slave)
r, w = os.pipe()
first = os.fork()
if first == 0: os.setsid(); os.open(name, os.O_RDWR); os.write(w, b"x"); import time; time.sleep(60)
os.read(r, 1); pid = os.fork()
if pid == 0:
    os.setsid(); fd = os.open(name, os.O_RDWR); print(os.isatty(fd), flush=True)
    try: os.open("/dev/tty", os.O_RDWR)
    except OSError as error: print(error.strerror, flush=True)
    os._exit(0)
os.waitpid(pid, 0); os.kill(first, 9); os.waitpid(first, 0)'"#,
    );
}

#[test]
fn a_terminal_with_the_number_of_one_that_is_gone_is_another_one() {
    same(
        &["python3"],
        r#"python3 -c 'import os
for _ in range(3):
    master, slave = os.openpty(); name = os.ttyname(slave)
    fd = os.open(name, os.O_RDWR | os.O_NOCTTY); print(os.isatty(fd), os.fstat(fd).st_rdev == os.fstat(slave).st_rdev)
    for fd in fd, slave, master: os.close(fd)'"#,
    );
}

/// Which of them there are, and who may open them, is the machine's.
#[test]
fn devices_are_opened_as_they_are_natively() {
    same(
        &["python3"],
        r#"python3 -c 'import fcntl, os
for name in "null", "full", "autofs", "fuse", "kvm", "loop-control", "loop0", "rtc0", "net/tun", "sr0":
    for flags in os.O_RDONLY, os.O_RDONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK:
        try:
            fd = os.open("/dev/" + name, flags)
            print(name, oct(fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NOATIME), os.fstat(fd).st_rdev); os.close(fd)
        except OSError as error:
            print(name, error.strerror)'"#,
    );
}
