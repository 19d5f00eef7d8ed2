//! The same script with and without: what it says and what it leaves must be the same.

use crate::common::{can_run, listing, run, text};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Runs a script in a directory of its own, natively and in the tree.
fn same(programs: &[&str], script: &str) {
    if !can_run(programs) {
        return;
    }
    let (native, ours) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let script = format!("set -e; export LC_ALL=C; {script}");
    let plain = Command::new("sh")
        .args(["-c", &script])
        .current_dir(native.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let tree = run(ours.path(), &["sh", "-c", &script]);
    assert!(plain.status.success(), "the script itself: {}", text(&plain.stderr));
    assert!(tree.status.success(), "{}{}", text(&tree.stdout), text(&tree.stderr));
    assert_eq!(text(&tree.stdout), text(&plain.stdout));
    assert_eq!(listing(ours.path()), listing(native.path()));
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
cc -o m m.c; ./m 1 2 || echo $?; cc -static -o ms m.c; ./ms || echo $?; rm m ms
cp s none; chmod 644 none; ./none 2>/dev/null || echo $?; ./missing 2>/dev/null || echo $?"#,
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

#[test]
fn gcc_compiles() {
    same(
        &["cc"],
        "printf '#include <stdio.h>\n#include <stdlib.h>\nint f(void) { return puts(\"a\"); }' > a.c; cc -O1 -c a.c",
    );
}

#[test]
fn find_finds() {
    same(
        &["find"],
        "find /usr/include -name 'std*.h' | sort | head -50; find /etc -maxdepth 1 -type d | sort",
    );
}

#[test]
fn git_keeps_a_repository() {
    same(
        &["git"],
        "export GIT_AUTHOR_DATE='2020-01-01 00:00:00Z' GIT_COMMITTER_DATE='2020-01-01 00:00:00Z' HOME=$PWD
export GIT_CONFIG_NOSYSTEM=1; git init -q -b main .; git config user.name n; git config user.email e; git config gc.auto 0
mkdir d; echo a > d/a; echo b > b; git add .; git commit -q -m first; git status --short; echo c >> b; git status --short
echo x > ro; chmod 444 ro; (umask 777; : > none); stat -c %a ro none; rm -f ro none
git commit -q -a -m second; git log --format='%H %s'; git checkout -q -b other HEAD~1; cat b; git checkout -q main; git fsck
git diff HEAD~1 | cat; rm .git/index; git reset -q --hard; cat b; rm .git/index",
    );
}

#[test]
fn tar_and_cp_keep_what_is_there() {
    same(
        &["tar"],
        "mkdir -p a/b; echo x > a/x; touch -d @5 a/x; ln a/x a/b/hard; ln -s ../x a/b/soft; chmod 600 a/x; chmod 1777 a/b; mkfifo a/pipe
tar cf a.tar --sort=name --mtime=@0 --owner=0 --group=0 a; mkdir out; tar xf a.tar -C out; cp -a a copy; cmp a/x copy/x
cp -a a /tmp/a.$$; cp -a /tmp/a.$$ back; rm -r /tmp/a.$$; touch -d @1 a/x; stat -c %Y a/x copy/b/hard",
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
sqlite3 db 'pragma journal_mode=delete; select count(*) from t'; rm db; sqlite3 /tmp/db 'create table t(a); select 1'; rm /tmp/db",
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
