//! The same script with and without: what it says and what it leaves must be the same.

use crate::common::{can_run, listing, pathwalk_in, python, run, text};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Runs a script in a directory of its own, natively and in the tree; both times in one of the same path, as that may be written down.
pub(crate) fn same(programs: &[&str], script: &str) {
    if !can_run(programs) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let (here, native) = (dir.path().join("here"), dir.path().join("native"));
    fs::create_dir(&here).unwrap();
    let script = format!("set -e; export LC_ALL=C; {script}");
    let plain = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&here)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    fs::rename(&here, &native).unwrap();
    fs::create_dir(&here).unwrap();
    let tree = run(&here, &["sh", "-c", &script]);
    assert!(plain.status.success(), "the script itself: {}", text(&plain.stderr));
    assert!(tree.status.success(), "{}{}", text(&tree.stdout), text(&tree.stderr));
    assert_eq!(text(&tree.stdout), text(&plain.stdout));
    assert_eq!(listing(&here), listing(&native));
}

#[test]
fn a_shell_with_pipes_and_here_documents() {
    same(
        &[],
        "echo one | tr a-z A-Z | cat > up; cat > here <<X
$(cat up) and $((1 + 2))
X
cat here; mkdir -p a/b/c; (cd a/b && echo in > c/file); cat a/b/c/file; ln -s b a/link; cat a/link/c/file
umask 027; echo y > masked; mkdir masked.d; mv a/b/c/file a/moved; ln a/moved a/second; rm up
for i in 1 2 3; do echo $i; done > three; while read n; do echo got $n; done < three
mkfifo pipe; (echo through > pipe) & cat pipe; wait; test ! -e nothing; cat /dev/null; echo gone > /dev/null
false || echo false; (exit 3) || echo $?; kill -0 $$; trap 'echo trapped' USR1; kill -USR1 $$; echo end",
    );
}

#[test]
fn scripts_and_programs_that_it_makes_itself() {
    same(
        &["cc"],
        r#"printf '#!/bin/sh\necho script $1 of $#\n' > s; chmod 755 s; ./s a b
printf '#!./s -x\n' > t; chmod 755 t; ./t c
printf 'int puts(const char *); int main(int c, char **v) { puts(v[0]); return c; }' > m.c
cc -o m m.c; ./m 1 2 || echo $?; cc -static -o ms m.c; ./ms || echo $?
cp s none; chmod 644 none; ./none 2>/dev/null || echo $?; ./missing 2>/dev/null || echo $?"#,
    );
}

/// The supervisor keeps a thread on its own CPU while it gives it a descriptor, has it run a program or change its directory.
#[test]
fn threads_may_run_where_they_might() {
    same(
        &["nproc", "taskset", "python3"],
        r#"for i in 1 2 3 4 5 6 7 8 9 10; do nproc; (cd / && nproc); grep Cpus_allowed_list /proc/self/status; done
taskset -c 0 nproc; taskset -c 0 sh -c 'cd /; nproc; cat /proc/self/status' | grep -x '1\|Cpus_allowed_list:.*'
python3 -c 'import os, threading
before = os.sched_getaffinity(0)
exec = lambda: os.execvp("nproc", ["nproc"])
print(all((open("/dev/null").close(), os.sched_getaffinity(0))[1] == before for _ in range(1000)), flush=True)
threading.Thread(target=exec).start()'"#,
    );
}

#[test]
fn a_program_in_memory_runs() {
    same(
        &["cc"],
        r#"d=$(mktemp -d /tmp/XXXXXX); cd $d
printf 'int puts(const char *); int main(int c, char **v) { puts("in memory"); return 0; }' > m.c
cc -o m m.c; ./m; cc -c m.c; cc -static -o ms m.o; ./ms; printf '#!%s/m\n' $d > s; chmod 755 s; ./s
test "$(readlink /proc/self/cwd)" = "$d" && echo here; ls | sort; cd /; rm -r $d"#,
    );
}

/// Of who runs what he may not read nobody could tell what it loaded; so it is refused, and nobody is killed for it.
#[test]
fn memory_that_may_be_run_and_not_read_is_not_run() {
    const RUNS: &str = "
import errno, os
for mode in 0o111, 0o644, 0o755:
    memory = os.memfd_create('m'); os.write(memory, open('/bin/true', 'rb').read()); os.fchmod(memory, mode)
    child = os.fork()
    if not child:
        try: os.execve(memory, ['m'], {})
        except OSError as error: os._exit(error.errno)
    print(errno.errorcode.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))";
    if !can_run(&["python3", "setpriv"]) {
        return;
    }
    let built = TempDir::new_in("/tmp").unwrap();
    // Who runs it must be able to read it.
    fs::set_permissions(built.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            command
        }
        false => Command::new("env"),
    };
    command.arg(pathwalk_in(built.path())).args(["run", "--rootfs", "/", "env", "python3"]);
    let output = command.args(["-c", RUNS]).current_dir("/").output().unwrap();
    assert_eq!(text(&output.stdout), "EACCES\nEACCES\nNone\n", "{}", text(&output.stderr));
}

#[test]
fn gcc_compiles() {
    same(
        &["cc"],
        "printf '#include <stdio.h>\n#include <stdlib.h>\nint f(void) { return puts(\"a\"); }' > a.c; cc -O1 -c a.c",
    );
}

#[test]
fn make_builds_a_project_and_builds_it_anew() {
    same(
        &["cc", "make"],
        r#"mkdir src; echo 'int one(void);' > src/one.h
printf '#include "one.h"\nint one(void) { return 1; }\n' > src/one.c
printf '#include "one.h"\nint main(void) { return one() - 1; }\n' > src/main.c
printf 'objects = src/one.o src/main.o\nprogram: $(objects)\n\tcc -o $@ $^\n%%.o: %%.c src/one.h\n\tcc -g0 -c -o $@ $<\n' > Makefile
printf 'clean:\n\trm -f program $(objects)\n.PHONY: clean\n' >> Makefile
make -s -j2; ./program; make -q; touch -d '+1 hour' src/one.h; make -q || echo old; make -n | sort
make -s -B; mkdir kept; cp program src/*.o kept; make -s clean; ls src"#,
    );
}

/// Two files of cargo's own are other ones each time: in one the order is, and in the other when what was used.
#[test]
fn cargo_builds_a_crate() {
    same(
        &["cargo", "cc"],
        r#"export CARGO_HOME=$PWD/home CARGO_TARGET_DIR=$PWD/target CARGO_INCREMENTAL=0
mkdir -p tiny/src; cd tiny; printf '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n[workspace]\n' > Cargo.toml
echo 'fn main() { println!("built {}", std::env::args().count()); }' > src/main.rs
cargo build -q --offline; ../target/debug/tiny a b; cargo run -q --offline; cd ..
rm target/.rustc_info.json home/.global-cache"#,
    );
}

/// How large a directory is, is its file system's: those that are made lie here on disk and there in memory.
#[test]
fn find_finds() {
    same(
        &["find"],
        r#"find /usr/include -printf '%p %y %m %s %n %U %G %T@ %l\n' | sort
find /usr/include -name 'std*.h' -newermt 1990-01-01 | sort; find /etc -maxdepth 1 -type d | sort
fill() { for a in 1 2 3 4 5 6; do for b in 1 2 3 4 5 6; do mkdir -p $a/$b/c/d; for f in 1 2 3 4 5 6; do echo $a $b > $a/$b/$f; done
ln $a/$b/1 $a/$b/c/hard; ln -s ../$f $a/$b/c/link; ln -s nowhere $a/$b/c/d/broken; mkfifo $a/$b/c/pipe; chmod 70$b $a/$b/$a $a/$b/c
touch -hd @$a.$b $a/$b/c/* $a/$b/[1-4]; touch -d @$b $a/$b/c; done; done; }
look() { find . -printf '%P %y %Y %m %n %U %G %l\n' | sort; find . ! -type d -printf '%P %s\n' | sort
find . -mindepth 3 ! -name '*[hp]*' -printf '%P %TY %Td %h %f %d\n' -o -prune | sort; find . -depth | grep -c c
find . -type l -xtype f | sort; find -L . -samefile 3/3/c/hard | sort; find . -empty | sort; find . -perm -7 -links +1 | sort
find . -newermt @3 ! -newermt @5 | sort; find . -size -2c -o -type p -exec test -p {} ';' -print | sort; find . -name '[12]' -type f -delete
find . | wc -l; find . -execdir pwd ';' | sort -u | grep -c .; }
fill; look; mkdir /tmp/$$; cd /tmp/$$; fill; look; cd /; rm -r /tmp/$$"#,
    );
}

#[test]
fn a_local_socket_is_found_by_each_of_its_names() {
    same(
        &["python3"],
        "python3 -c 'import os, socket, tempfile
for base in \".\", tempfile.mkdtemp(dir=\"/tmp\"):
    a, b, c = (base + \"/\" + name for name in \"abc\")
    server = socket.socket(socket.AF_UNIX); server.bind(a); server.listen()
    other = socket.socket(socket.AF_UNIX); other.bind(base + \"/other\")
    def reach(path):
        client = socket.socket(socket.AF_UNIX); client.connect(path)
        return os.path.basename(client.getpeername())
    os.link(a, b); print(reach(a), reach(b)); os.unlink(a); print(reach(b)); os.rename(b, c); print(reach(c))
    last = socket.socket(socket.AF_UNIX); last.bind(b); print(reach(c))
    for name in b, c, base + \"/other\": os.unlink(name)
os.rmdir(base)'",
    );
}

#[test]
fn a_watch_does_not_see_itself_being_made() {
    same(
        &["python3"],
        "echo x > file; mkdir dir; echo x > /tmp/$$; python3 -c 'import ctypes, os, struct, time
libc = ctypes.CDLL(None); queue = libc.inotify_init1(os.O_NONBLOCK)
for path in b\"file\", b\"dir\", b\"/tmp/'$$'\":
    print(libc.inotify_add_watch(queue, path, 0xfff) > 0)
    try: print(os.read(queue, 4096))
    except BlockingIOError: print(\"nothing yet\")
    if path != b\"dir\":
        os.close(os.open(path, os.O_RDONLY)); time.sleep(0.2); data = os.read(queue, 4096)
        print([hex(struct.unpack_from(\"iI\", data, at)[1]) for at in range(0, len(data), 16)])
'; rm /tmp/$$",
    );
}

/// In a new repository, whose commits are the same whenever they are made. Its index tells inode numbers, so it is compared by what it lists.
fn same_repository(script: &str) {
    let new = "export GIT_AUTHOR_DATE='2020-01-01 00:00:00Z' GIT_COMMITTER_DATE='2020-01-01 00:00:00Z' HOME=$PWD
export GIT_CONFIG_NOSYSTEM=1; git init -q -b main .; git config user.name n; git config user.email e; git config gc.auto 0";
    same(&["git"], &format!("{new}\n{script}"));
}

#[test]
fn git_keeps_a_repository() {
    same_repository(
        "mkdir d; echo a > d/a; echo b > b; git add .; git commit -q -m first; git status --short; echo c >> b; git status --short
echo x > ro; chmod 444 ro; (umask 777; : > none); stat -c %a ro none; rm -f ro none; git ls-files -s > index
git commit -q -a -m second; git log --format='%H %s'; git checkout -q -b other HEAD~1; cat b; git checkout -q main; git fsck
git diff HEAD~1 | cat; git ls-files -s >> index; rm .git/index; git reset -q --hard; cat b; git ls-files -s >> index; rm .git/index",
    );
}

#[test]
fn git_packs_a_repository() {
    same_repository(
        "git config pack.threads 1; for n in 1 2 3 4 5 6 7 8; do echo line $n >> a; cp a copy.$n; git add .; git commit -q -m $n; done
git count-objects; git gc -q --prune=now; git count-objects; git fsck --full; git checkout -q -b other HEAD~4; ls; git status --short
git checkout -q main; git clone -q . clone; git -C clone log --oneline | wc -l; git -C clone status --short; rm -rf clone
git rev-list --objects --all | sort; git ls-files -s > index; rm .git/index",
    );
}

/// What is run as root gives the files to others, too.
#[test]
fn tar_and_cp_keep_what_is_there() {
    same(
        &["tar"],
        "mkdir -p a/b a/d; echo x > a/x; ln a/x a/b/hard; ln -s ../x a/b/soft; chmod 600 a/x; mkfifo a/pipe
echo y > a/y; chown 1:2 a/y a/d 2> /dev/null || true; chown -h 3:4 a/b/soft 2> /dev/null || true; chmod 4755 a/y; chmod 2770 a/d
touch -d @5.123456789 a/x; touch -d @6 a/pipe a/y; touch -hd @7.5 a/b/soft; chmod 1777 a/b; touch -d @8 a/b a/d; touch -d @9 a
tar cf a.tar --sort=name --mtime=@0 --owner=0 --group=0 a; mkdir out; tar xpf a.tar -C out; cp -a a copy; cmp a/x copy/x
tar cf b.tar --sort=name --format=posix --pax-option=delete=atime,delete=ctime a; mkdir kept; tar xpf b.tar -C kept
cp -a a /tmp/a.$$; cp -a /tmp/a.$$ back; tar cf - -C /tmp/a.$$ . | tar xpf - -C out; rm -r /tmp/a.$$; touch -d @1 a/x; stat -c %Y a/x copy/b/hard",
    );
}

#[test]
fn copies_keep_extended_attributes_and_acls() {
    same(
        &["python3", "tar"],
        "echo x > a; mkdir d; chmod 750 d; cat > sets.py <<'X'
import os, struct
def acl(*entries): return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in entries)
def some(mine): return acl((1, mine, 2**32 - 1), (2, 4, 1), (2, 7, 2), (4, 4, 2**32 - 1), (0x10, 6, 2**32 - 1), (0x20, 0, 2**32 - 1))
os.setxattr('a', 'user.one', b'1'); os.setxattr('d', 'user.two', b'2')
try:
    os.setxattr('a', 'system.posix_acl_access', some(6))
    os.setxattr('d', 'system.posix_acl_access', some(7)); os.setxattr('d', 'system.posix_acl_default', some(7))
except OSError as error: print(error.strerror)
X
python3 sets.py; echo inherits > d/file; mkdir d/dir; chmod 700 d/dir
touch -d @5 a d/file; touch -d @6 d d/dir; cp -a a b; cp -a d e; cp -r d plain
tar --xattrs --xattrs-include='*' --acls -cf - a d | (mkdir out; tar --xattrs --xattrs-include='*' --acls -xpf - -C out)
cp -a a d /dev/shm; cp -a /dev/shm/a /dev/shm/d .; mkdir back; cp -a /dev/shm/a /dev/shm/d back; rm -r /dev/shm/a /dev/shm/d
mkdir /tmp/$$; cp -a a d /tmp/$$; echo inherits > /tmp/$$/d/more; cp -a /tmp/$$ again; rm -r /tmp/$$",
    );
}

#[test]
fn python_makes_an_environment_of_its_own() {
    same(
        &["python3"],
        "export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 SOURCE_DATE_EPOCH=315532800; python3 -m venv v
v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix, sys.prefix.endswith(\"/v\"))'
v/bin/pip --version | grep -c '^pip .* from .*/v/lib'
. v/bin/activate; command -v python; deactivate",
    );
}

#[test]
fn python_compiles_its_files() {
    same(
        &["python3"],
        "export PYTHONHASHSEED=0 SOURCE_DATE_EPOCH=0; mkdir p; echo 'def f(): return 1' > p/a.py; echo 'import os' > p/b.py
python3 -m compileall -q --invalidation-mode checked-hash p; find p -name '*.pyc' | wc -l
python3 -c 'import os, threading, subprocess
d = os.open(\"/tmp\", os.O_RDONLY | os.O_DIRECTORY)
os.mkdir(\"t\", dir_fd=d); f = os.open(\"t/f\", os.O_CREAT | os.O_RDWR, dir_fd=d)
os.write(f, b\"abc\"); print(os.fstat(f).st_size, os.stat(\"/tmp/t/f\").st_size); os.fchmod(f, 0o640)
print(oct(os.stat(\"/tmp/t/f\").st_mode), os.listdir(\"/tmp/t\")); os.fchdir(d); print(os.getcwd())
print(subprocess.run([\"echo\", \"sub\"], capture_output=True).stdout)
def work(n):
    for i in range(20): open(f\"/tmp/t/{n}-{i}\", \"w\").write(\"x\" * i)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sum(os.stat(\"/tmp/t/\" + name).st_size for name in os.listdir(\"/tmp/t\")))
os.truncate(f, 1); print(os.fstat(f).st_size); import shutil; shutil.rmtree(\"/tmp/t\")'",
    );
}

#[test]
fn sqlite_keeps_a_database() {
    same(
        &["sqlite3"],
        "sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values(1),(2); select sum(a) from t'
printf 'insert into t values(3);\\n.shell ls db* && sqlite3 db \"insert into t values(4); select sum(a) from t\"\\nselect sum(a) from t;\\n' | sqlite3 db
sqlite3 db .dump > dump; sqlite3 db 'pragma journal_mode=delete; select count(*) from t'; sqlite3 /tmp/db 'create table t(a); select 1'; rm /tmp/db",
    );
}

#[test]
fn local_sockets_have_paths() {
    same(
        &["python3"],
        "python3 -c 'import os, socket, stat, threading
os.umask(0o022)
for path in \"here\", \"/tmp/there\":
    server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
    print(server.getsockname(), oct(os.stat(path).st_mode))
    try: socket.socket(socket.AF_UNIX).bind(path)
    except OSError as error: print(error.strerror)
    client = socket.socket(socket.AF_UNIX); client.connect(path); print(client.getpeername())
    got, _ = server.accept(); client.send(b\"hello\"); print(got.recv(9)); server.close()
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError as error: print(error.strerror)
    os.rename(path, path + \"2\"); os.unlink(path + \"2\")
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); datagrams.bind(path)
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b\"one\", path); print(datagrams.recv(9)); os.unlink(path)
open(\"file\", \"w\"); os.mknod(\"left\", 0o600 | stat.S_IFSOCK)
for path in \"missing\", \"file\", \"left\", \".\", \"/no/such\":
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError as error: print(error.strerror)
a = socket.socket(socket.AF_UNIX); a.bind(b\"\\0name\" + str(os.getpid()).encode()); print(len(a.getsockname()) > 5)
t = socket.socket(); t.bind((\"127.0.0.1\", 0)); t.listen(); c = socket.create_connection(t.getsockname())
print(c.getpeername() == t.getsockname()); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((\"127.0.0.1\", 0))
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"two\", u.getsockname()); print(u.recv(9))
import multiprocessing
with multiprocessing.Pool(3) as pool: print(sum(pool.map(abs, range(-9, 0))))'",
    );
}

/// What its process is called is the file that runs since Linux 6.14.
#[test]
fn what_is_run_by_a_descriptor_has_its_name_and_a_script_must_be_found_by_it() {
    same(
        &["python3"],
        r##"printf '#!/bin/cat\nscript\n' > s; chmod 755 s; cp /bin/cat d
cat > run.py <<'X'
import os, sys
def run(text, file, *args):
    sys.stdout.flush()
    if os.fork() == 0:
        try: os.execve(file, ["x", *args], os.environ)
        except OSError as error: print(text, error.strerror, flush=True)
        os._exit(0)
    os.wait()
for mode in os.O_RDONLY, os.O_PATH:
    fd = os.open("s", mode)
    run("closed", fd); os.set_inheritable(fd, True); run("kept", fd)
memory = os.memfd_create("m"); os.write(memory, b"#!/bin/cat\nmemory\n")
run("closed", memory); os.set_inheritable(memory, True); run("kept", memory); run("by its link", "/proc/self/fd/%d" % memory)
release = tuple(int(number) for number in os.uname().release.split("-")[0].split(".")[:2])
fd = os.open("d", os.O_RDONLY); run("there", fd, "/proc/self/comm" if release >= (6, 14) else "/dev/null")
os.unlink("d"); run("gone", fd, "/proc/self/comm" if release >= (6, 14) else "/dev/null")
X
python3 run.py"##,
    );
}

#[test]
fn a_fifo_is_one_by_all_its_names() {
    same(&[], "mkfifo one; ln one other; echo through > one & cat other; wait; rm one other");
}

/// What a process has to find answers by itself takes none of an address space that is scarce.
#[test]
fn who_has_little_address_space_has_it_for_himself() {
    same(
        &["bash"],
        r#"for kib in 10000 20000 30000; do for n in 1 2 3; do
bash -c "ulimit -v $kib; bash -c 'ls -l /etc > /dev/null; ls / > /dev/null; test -e /usr && cat /dev/null; echo through'"; done; done"#,
    );
}

/// Also where nothing but the path is given, as the limit is the caller's.
#[test]
fn who_may_make_no_large_file_is_told_so_as_natively() {
    same(
        &["python3"],
        r#"cat > grows.py <<'X'
import ctypes, os, resource, signal, tempfile
libc = ctypes.CDLL(None, use_errno=True); XFSZ = signal.SIGXFSZ
def truncate(path, size):
    return "ok" if libc.truncate(path.encode(), ctypes.c_long(size)) == 0 else os.strerror(ctypes.get_errno())
def may(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
def tells(number, _): print("  signal", number)
def shows(path): return (os.stat(path).st_size, oct(os.stat(path).st_mode)) if os.path.isfile(path) else None
def tries(how):
    signal.signal(XFSZ, {"default": signal.SIG_DFL, "ignored": signal.SIG_IGN}.get(how, tells))
    if how == "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, [XFSZ])
    may(4096)
    for size in 4096, 5, 4097, 100000, 1 << 62, (1 << 63) - 1, -1:
        print(how, size, truncate("f", size), shows("f"), signal.sigpending(), flush=True)
        if how == "blocked": signal.sigtimedwait([XFSZ], 0)
    for path, size in ("big", 8000), ("big", 7000), ("big", 7000), ("big", 7001), ("link", 5000), ("d", 5000), ("p", 5000), \
        ("gone", 5000), ("f/x", 5000), ("/dev/null", 5000), ("", 5000), ("/proc/self/comm", 5000):
        print(how, path, size, truncate(path, size), shows(path), signal.sigpending(), flush=True)
        if how == "blocked": signal.sigtimedwait([XFSZ], 0)
    fd = os.open("f", os.O_RDWR)
    for does in lambda: os.ftruncate(fd, 5000), lambda: os.posix_fallocate(fd, 0, 5000), lambda: os.close(os.open("big", os.O_RDWR | os.O_TRUNC)), \
        lambda: os.pwrite(fd, bytes(10), 4090), lambda: os.pwrite(fd, bytes(10), 5000):
        try: print("descriptor", does(), flush=True)
        except OSError as error: print("descriptor", error.strerror, flush=True)
    may(resource.RLIM_INFINITY); print(truncate("f", 100000), truncate("f", 5000))
for base in ".", tempfile.mkdtemp(dir="/tmp"):
    os.chmod(base, 0o755); os.chdir(base); os.mkdir("d"); os.mkfifo("p"); os.symlink("f", "link")
    for how in "ignored", "handled", "blocked", "default":
        open("f", "w").write("x" * 10); open("big", "w").write("x" * 9000); os.chmod("f", 0o6777)
        if os.fork() == 0: tries(how); os._exit(0)
        print(os.wait()[1])
X
python3 grows.py"#,
    );
}

/// What a program says that is started with limits of prlimit(1), and with these signals ignored.
fn limited(dir: &TempDir, limit: &str, ignored: &str, command: &[&str]) -> String {
    let ignoring = format!("trap '' {ignored}; exec \"$@\"");
    let output = Command::new("sh")
        .args(["-c", if ignored.is_empty() { "exec \"$@\"" } else { &ignoring }, "sh"])
        .args(["prlimit", limit])
        .args(command)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{limit}, {command:?}: {}\n{out}{err}", output.status);
    out
}

/// The supervisor has a soft limit of nobody, and reaching its hard one is an error of the call.
#[test]
fn how_large_a_file_may_be_is_the_programs_own() {
    if !can_run(&["prlimit", "python3", "sh"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = r#"
import os, resource, shutil, subprocess, tempfile
def sh(script): return subprocess.run(["sh", "-c", script], stderr=subprocess.DEVNULL).returncode
print([resource.getrlimit(which) for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)])
print([line for line in open("/proc/self/status") if line.startswith(("SigIgn", "SigBlk"))])
for dir in os.getcwd(), "/tmp":
    base = tempfile.mkdtemp(dir=dir); os.chdir(base)
    print(sh("echo small > small; head -c 9000 /dev/zero > large; exit $?"), os.path.getsize("small"), os.path.getsize("large"))
    print(sh("truncate -s 9000 small"), os.path.getsize("small"))
    shutil.rmtree(base)
def reads(path):
    try: return len(open(path).read()) > 4096
    except OSError as error: return error.strerror
print(reads("/proc/self/maps"))
"#;
    for (limit, maps) in [("--fsize=4096:", "True"), ("--fsize=4096", "File too large")] {
        for ignored in ["", "XFSZ XCPU"] {
            let program = [python(), "-c", script];
            let native = limited(&here, limit, ignored, &program);
            let begins = native.strip_suffix("True\n").expect(&native);
            let run = [&[env!("CARGO_BIN_EXE_pathwalk"), "run"], &program[..]].concat();
            assert_eq!(limited(&here, limit, ignored, &run), format!("{begins}{maps}\n"));
        }
    }
}

/// What it takes to answer all of them is not taken by one.
#[test]
fn how_long_a_program_may_run_each_may() {
    if !can_run(&["prlimit", "python3", "sh"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let run = [env!("CARGO_BIN_EXE_pathwalk"), "run", "--inside", "0", python(), "-c"];
    let many = "
import os
for _ in range(40):
    child = os.fork()
    if not child: [os.access('/none/%d' % n, 0) for n in range(30000)]; os._exit(0)
    print(os.waitpid(child, 0)[1])
child = os.fork()
while not child: pass
print(os.waitpid(child, 0)[1])
";
    let said = limited(&here, "--cpu=1:", "", &[&run[..], &[many]].concat());
    assert_eq!(said, "0\n".repeat(40) + &format!("{}\n", rustix::process::Signal::XCPU.as_raw()));
}

/// As any of the user's programs may have it be; a run ends all the same, and who waits for a fifo is interrupted.
#[test]
fn a_run_needs_no_room_for_signals() {
    if !can_run(&["prlimit", "python3", "mkfifo", "sleep"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "
import os, signal, subprocess
os.mkfifo('fifo')
def tells(*_): raise InterruptedError
signal.signal(signal.SIGALRM, tells); signal.setitimer(signal.ITIMER_REAL, 0.3)
try: os.open('fifo', os.O_RDONLY)
except InterruptedError: print('interrupted', flush=True)
for n in range(100): os.stat('/tmp')
print(subprocess.run(['sleep', '0.3']).returncode, flush=True)
";
    let run = [env!("CARGO_BIN_EXE_pathwalk"), "run", python(), "-c", script];
    assert_eq!(limited(&here, "--sigpending=0", "", &run), "interrupted\n0\n");
}
