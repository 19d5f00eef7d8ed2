//! Virtual credentials: programs that change who they are, and what the tree then lets them do.

use crate::{
    attacks::cc,
    common::{can_run, pathwalk_in, run, said, text},
    left_out::left_out,
    swaps::swapping,
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A program that does what its arguments say, linked dynamically and statically; none where no program can be run.
struct Users {
    here: TempDir,
    programs: Vec<&'static str>,
}

impl Users {
    fn new() -> Option<Self> {
        if !can_run(&["cc"]) {
            return None;
        }
        let here = TempDir::new().unwrap();
        let built = |name: &str, how: &[&str]| {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/users.c");
            let mut cc = Command::new("cc");
            cc.args(["-O1", "-pthread", "-o", name, source]).args(how);
            cc.current_dir(here.path()).stderr(Stdio::null()).status().unwrap().success()
        };
        assert!(built("dynamic", &[]));
        let mut programs = vec!["./dynamic"];
        if built("static", &["-static"]) {
            programs.push("./static");
        } else {
            left_out("no static programs can be made");
        }
        Some(Self { here, programs })
    }

    /// Each of the programs says this, run so.
    fn say(&self, options: &[&str], words: &str, want: &str) {
        let words: Vec<&str> = words.split_ascii_whitespace().collect();
        for program in &self.programs {
            let out = said(self.here.path(), &[options, &[program], &words].concat());
            assert_eq!(out, want, "{program} {words:?}");
        }
    }

    /// A script says this, `$p` being each of the programs.
    fn script(&self, options: &[&str], script: &str, want: &str) {
        for program in &self.programs {
            let script = format!("p={program}; {script}");
            let out = said(self.here.path(), &[options, &["sh", "-c", &script]].concat());
            assert_eq!(out, want, "{program} {script}");
        }
    }
}

const ROOT: [&str; 2] = ["--uid", "0"];
const SRV: [&str; 4] = ["--uid", "0", "--tmpfs", "/srv:mode=755"];

#[test]
fn a_program_is_who_it_was_said_to_be() {
    let Some(users) = Users::new() else { return };
    let full = "effective 1ffffffffff permitted 1ffffffffff\n";
    users.say(&ROOT, "ids caps", &format!("0 0 0, 0 0 0,\n{full}"));
    let none = "effective 000000000 permitted 000000000\n";
    users.say(&["--uid", "5"], "ids caps", &format!("5 5 5, 5 5 5,\n{none}"));
    let options = ["--uid", "5", "--gid", "6", "--groups", "7,8"];
    users.say(&options, "ids secure", "5 5 5, 6 6 6, 7 8\nsecure 0 as 5 5\n");
    let status = said(users.here.path(), &["--uid", "5", "grep", "Uid:", "/proc/self/status"]);
    assert_eq!(status, "Uid:\t5\t5\t5\t5\n");
    let own = said(users.here.path(), &["--uid", "5", "stat", "-c", "%u %g", "/proc/self/"]);
    assert_eq!(own, "5 5\n");
    for wrong in [["--uid", "-1"], ["--gid", "4294967295"], ["--groups", "1,x"]] {
        assert_eq!(
            run(users.here.path(), &[&wrong[..], &["true"]].concat()).status.code(),
            Some(2)
        );
    }
}

#[test]
fn who_became_somebody_may_what_that_one_may() {
    let Some(users) = Users::new() else { return };
    users.say(
        &SRV,
        "make /srv/f chmod /srv/f 0600 setgroup 9 setgid 33 setuid 33 ids open /srv/f make /srv/g chown /srv/f 33 33 \
         mknod /srv/d chroot / mount x /srv tmpfs 0 - umount /srv 0 setuid 0 setgroup 1 setfsuid 0 setfsuid 33",
        "make yes\nchmod yes\nsetgroup yes\nsetgid yes\nsetuid yes\n33 33 33, 33 33 33, 9\nopen EACCES\nmake EACCES\n\
         chown EPERM\nmknod EACCES\nchroot EPERM\nmount EPERM\numount EPERM\nsetuid EPERM\nsetgroup EPERM\nsetfsuid 33\n\
         setfsuid 33\n",
    );
    // The saved user leads back; the file system's alone decides about files.
    users.say(
        &SRV,
        "make /srv/f chmod /srv/f 0600 seteuid 33 open /srv/f seteuid 0 open /srv/f setfsuid 33 open /srv/f setfsuid 0 \
         make /srv/g stat /srv/g",
        "make yes\nchmod yes\nseteuid yes\nopen EACCES\nseteuid yes\nopen yes\nsetfsuid 0\nopen EACCES\nsetfsuid 33\n\
         make yes\n0:0 100644 0:0\n",
    );
}

#[test]
fn what_one_process_gives_away_another_one_sees() {
    let Some(users) = Users::new() else { return };
    users.script(
        &SRV,
        "$p make /srv/f chown /srv/f 33 34 mknod /srv/d >&2; $p stat /srv/f stat /srv/d open /srv/d
$p setgid 34 setuid 33 chmod /srv/f 0640 chown /srv/f -1 35",
        "33:34 100644 0:0\n0:0 20600 1:3\nopen ENXIO\nsetgid yes\nsetuid yes\nchmod yes\nchown EPERM\n",
    );
}

#[test]
fn children_and_threads_have_what_their_makers_had() {
    let Some(users) = Users::new() else { return };
    let ids = |id: u32| format!("{id} {id} {id}, 0 0 0,\n");
    users.say(&ROOT, "setuid 33 fork ids fork ids", &format!("setuid yes\n{0}{0}", ids(33)));
    users.say(&ROOT, "change 33 ids", &ids(0));
    users.say(&ROOT, "setuid 33 orphan ids fork ids", &format!("setuid yes\n{0}{0}", ids(33)));
    users.say(&ROOT, "setuid 33 thread ids fork ids", &format!("setuid yes\n{0}{0}", ids(33)));
    // One thread is somebody else; so is what it makes.
    users.say(
        &ROOT,
        "thread alone 33 ids fork ids thread ids",
        "alone yes\n0 33 0, 0 0 0,\n0 33 0, 0 0 0,\n0 33 0, 0 0 0,\n",
    );
    // A call of the C library's changes all threads.
    if can_run(&["python3"]) {
        let code = "import os, threading
here, there = threading.Event(), threading.Event()
def work(): here.set(); there.wait(); print(os.getresuid())
thread = threading.Thread(target=work); thread.start(); here.wait()
os.setuid(33); there.set(); thread.join(); print(os.getresuid())
for n in range(5):
    pid = os.fork()
    if pid == 0: os._exit(0 if os.getuid() == 33 else 1)
    assert os.waitpid(pid, 0)[1] == 0";
        let out = said(users.here.path(), &["--uid", "0", "python3", "-c", code]);
        assert_eq!(out, "(33, 33, 33)\n(33, 33, 33)\n");
    }
}

/// For the kernel they are all one.
#[test]
fn what_a_process_has_is_for_those_who_may_trace_it() {
    if !can_run(&["setpriv", "sleep"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = r#"
as() { id=$1; shift; setpriv --reuid $id --regid $id --clear-groups "$@"; }
setpriv --reuid 33 --regid 33 --clear-groups sleep 60 </dev/null >/dev/null 2>&1 & p=$!
while ! grep -q sleep /proc/$p/comm; do :; done
for id in 33 34 0; do
    for link in exe cwd root fd/0; do as $id readlink /proc/$p/$link >/dev/null && echo $id $link; done
    for file in maps smaps environ .; do as $id head -c 1 /proc/$p/$file >/dev/null 2>&1 && echo $id $file; done
    as $id cut -d ' ' -f 26-30,45-52 /proc/$p/stat | grep -q '^1 1 0 0 0 0 0 0 0 0 0 0 0$' || echo $id stat
    as $id ls /proc/$p/fdinfo >/dev/null 2>&1 && echo $id fdinfo
done
kill $p
"#;
    let all = "exe cwd root fd/0 maps smaps environ stat fdinfo";
    let want: Vec<String> = ["33", "0"]
        .iter()
        .flat_map(|id| all.split(' ').map(move |what| format!("{id} {what}")))
        .collect();
    let out = run(here.path(), &[&ROOT[..], &["sh", "-c", script]].concat());
    let out = text(&out.stdout);
    assert_eq!(out.lines().collect::<Vec<_>>(), want);
}

#[test]
fn what_was_opened_of_a_process_tells_nothing_of_what_it_becomes() {
    if !can_run(&["python3", "sleep"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = r#"cp /bin/sleep /srv/runs; chmod 4755 /srv/runs
python3 -c '
import os, subprocess
os.setgroups([]); os.setresgid(33, 33, 33); os.setresuid(33, 33, 33)
process = subprocess.Popen(["sh", "-c", "read line; exec /srv/runs 60"], stdin=subprocess.PIPE, text=True)
while open("/proc/%d/comm" % process.pid).read() != "sh\n": pass
files = [os.open("/proc/%d/%s" % (process.pid, name), os.O_RDONLY) for name in ("stat", "io", "personality", "syscall")]
before = [os.pread(file, 1000, 0) for file in files]
process.stdin.write("go\n"); process.stdin.flush()
while open("/proc/%d/comm" % process.pid).read() != "runs\n": pass
print([os.pread(file, 1000, 0) for file in files] == before)
process.kill()'"#;
    assert_eq!(said(here.path(), &[&SRV[..], &["sh", "-c", script]].concat()), "True\n");
}

#[test]
fn an_orphan_has_what_its_maker_had_or_nothing() {
    let Some(users) = Users::new() else { return };
    let orphans = |program: &str, users_: &str, ends: &str| {
        let args = [&ROOT[..], &[program, "orphans", users_, "50", ends]].concat();
        let output = run(users.here.path(), &args);
        (text(&output.stdout), text(&output.stderr))
    };
    for program in &users.programs {
        // Whose makers ended by themselves are their makers' all.
        let (out, told) = orphans(program, "4", "exits");
        assert_eq!((&*out, &*told), ("200 orphans, 0 as another, 0 refused\n", ""), "{program}");
        let (out, told) = orphans(program, "4", "killed");
        let start = "200 orphans, 0 as another, ";
        assert!(out.starts_with(start), "{program}: {out}");
        // Whoever was refused is told of.
        assert!(told.lines().all(|line| line.ends_with("all its calls answer EPERM")), "{told}");
        assert_eq!(out, format!("{start}{} refused\n", told.lines().count()));
        // Those of one user are all his.
        let (out, told) = orphans(program, "1", "killed");
        assert_eq!((&*out, &*told), ("50 orphans, 0 as another, 0 refused\n", ""), "{program}");
    }
    // Who takes orphans is not their maker, and nobody's child is another one's.
    users.say(
        &ROOT,
        "reaper fork setuid 33 brother orphan ids fork ids",
        "reaper yes\nsetuid yes\nbrother EPERM\n33 33 33, 0 0 0,\n33 33 33, 0 0 0,\n",
    );
}

#[test]
fn set_id_bits_give_virtual_credentials() {
    let Some(users) = Users::new() else { return };
    let make = "cp $p /tmp/p; chmod 4755 /tmp/p;";
    let go = "exec $p setgid 33 setuid 33 fork exec /tmp/p ids secure";
    let yes = "setgid yes\nsetuid yes\n33 0 0, 33 33 33,\nsecure 1 as 33 0\n";
    let no = "setgid yes\nsetuid yes\n33 33 33, 33 33 33,\nsecure 0 as 33 33\n";
    users.script(&ROOT, &format!("{make} {go}"), yes);
    users.script(&ROOT, &format!("{make} chown 33 /tmp/p; chmod 4755 /tmp/p; {go}"), no);
    users.script(
        &ROOT,
        &format!("{make} chgrp 7 /tmp/p; chmod 2755 /tmp/p; {go}"),
        "setgid yes\nsetuid yes\n33 33 33, 33 7 7,\nsecure 1 as 33 33\n",
    );
    let newprivs = "exec $p setgid 33 setuid 33 newprivs newprivs exec /tmp/p ids secure";
    let refused = no.replace("setuid yes\n", "setuid yes\n0\nnewprivs yes\n1\nnewprivs yes\n");
    users.script(&ROOT, &format!("{make} {newprivs}"), &refused);
    // What was made before has none of it, also what another thread made.
    let go = "exec $p setgid 33 setuid 33 makes /tmp/p tell ids";
    let made = "setgid yes\nsetuid yes\nchild 33 33 33\n33 0 0, 33 33 33,\n";
    users.script(&ROOT, &format!("{make} {go}"), made);
    // Nor has it any of that where who ran it could move its current directory.
    let go = "exec $p setgid 33 setuid 33 shares exec /tmp/p ids";
    let shared = "setgid yes\nsetuid yes\n33 33 33, 33 33 33,\n";
    users.script(&ROOT, &format!("{make} {go}"), shared);
    // Without virtual credentials they give nothing.
    let native = rustix::process::getuid().as_raw();
    let out =
        said(users.here.path(), &["sh", "-c", &format!("p=./dynamic; {make} exec /tmp/p ids")]);
    assert!(out.starts_with(&format!("{native} {native} ")), "{out}");
}

/// What was taken down lazily is in nobody's namespace.
#[test]
fn a_mount_that_is_gone_gives_nothing_by_set_id_bits() {
    let Some(users) = Users::new() else { return };
    let script =
        "q=$(realpath $p); $p mount t /srv tmpfs 0 -; cp $p /srv/set; chmod 4755 /srv/set; cd /srv
$q setgid 5 setuid 5 exec ./set ids; $q umount /srv 2; $q setgid 5 setuid 5 exec ./set ids";
    let want = "mount yes\nsetgid yes\nsetuid yes\n5 0 0, 5 5 5,\numount yes\nsetgid yes\nsetuid yes\n5 5 5, 5 5 5,\n";
    users.script(&SRV, script, want);
}

#[test]
fn memory_gives_nothing_by_set_id_bits() {
    let Some(users) = Users::new() else { return };
    // So it does natively.
    let want = "setgid yes\nsetuid yes\nfchown EPERM\nfchmod yes\n33 33 33, 33 33 33,\n";
    users.say(&SRV, "setgid 33 setuid 33 memory x ids", want);
}

#[test]
fn what_a_thread_gave_up_before_it_runs_a_program_that_has_not() {
    let Some(users) = Users::new() else { return };
    let script = "cp $p /srv/s; chmod 4755 /srv/s; $p setgid 33 setuid 33 late /srv/s";
    users.script(&SRV, script, "setgid yes\nsetuid yes\nnever\n");
}

#[test]
fn a_program_of_somebody_else_s_is_closed_to_who_ran_it() {
    let Some(users) = Users::new() else { return };
    let go = "exec $p setgid 33 setuid 33 into";
    let answers = |answer: &str| {
        format!(
            "setgid yes\nsetuid yes\nits limit {answer}\nlimit {answer}\nown limit yes\n\
             robust {answer}\nnobody ESRCH\n"
        )
    };
    users.script(&ROOT, &format!("cp $p /tmp/p; {go} /tmp/p"), &answers("yes"));
    let make = "cp $p /tmp/p; chmod 4755 /tmp/p;";
    users.script(&ROOT, &format!("{make} {go} /tmp/p"), &answers("EPERM"));
}

#[test]
fn a_filter_of_ones_own_is_for_who_gave_up_what_programs_give() {
    let Some(users) = Users::new() else { return };
    users.say(&ROOT, "filter", "filter yes\nseccomp yes\n");
    let want =
        "setuid yes\nfilter EACCES\nseccomp EACCES\n0\nnewprivs yes\nfilter yes\nseccomp yes\n";
    users.say(&ROOT, "setuid 33 filter newprivs filter", want);
    users.say(&ROOT, "setuid 33 tsync filter", "setuid yes\n1\nfilter yes\nseccomp yes\n");
}

#[test]
fn who_may_enter_a_directory_does_not_list_it() {
    let Some(users) = Users::new() else { return };
    let make = "mkdir -m 711 /tmp/d; touch /tmp/d/secret; ls /tmp/d";
    let want = "secret\nsetgid yes\nsetuid yes\nlists EBADF\n";
    users.script(&ROOT, &format!("{make}; exec $p setgid 33 setuid 33 lists /tmp/d"), want);
}

/// Its interpreter is run, which opens the program by its path.
#[test]
fn a_set_id_program_with_an_interpreter_of_the_tree_s_own_is_that_program() {
    let Some(users) = Users::new() else { return };
    let here = users.here.path();
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    if !loader.exists() {
        left_out(format_args!("there is no {}", loader.display()));
        return;
    }
    fs::copy(loader, here.join("ld")).unwrap();
    let other = "#include <unistd.h>\nint main(void) { return geteuid() == 0 ? 7 : 0; }";
    fs::write(here.join("other.c"), other).unwrap();
    let linked = "-Wl,--dynamic-linker=/tmp/ld";
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/users.c");
    cc(here, &["-pthread", linked, "-o", "linked", source]);
    cc(here, &[linked, "-o", "other", "other.c"]);
    let race = "cd /tmp/w; ln -s ../linked l; ln -s ../other m
/tmp/linked exchange l m &
for i in 0 1 2 3 4 5 6 7 8 9; do for j in 0 1 2 3 4 5 6 7 8 9; do
./l secure > said 2>/dev/null; test $? = 7 && echo REACHED; done; done; kill $!; echo end";
    fs::write(here.join("race"), race).unwrap();
    let make = "cp ld linked other race /tmp; chmod 4755 /tmp/linked; mkdir -m 777 /tmp/w
cd /tmp; PATH=:$PATH; linked ids
chmod 4711 linked; unset LD_LIBRARY_PATH; /tmp/linked setgid 33 setuid 33 fork exec /tmp/linked secure";
    let want = "0 0 0, 0 0 0,\nsetgid yes\nsetuid yes\nsecure 1 as 33 0\n";
    users.script(&ROOT, make, want);
    // Nobody runs it any more: it keeps no mount, and may be written.
    let make = "cp ld linked /tmp; $p mount none /srv tmpfs 0 -; cp linked /srv; /srv/linked ids; $p umount /srv 0
/tmp/linked ids; : > /tmp/linked && echo written";
    users.script(&SRV, make, "mount yes\n0 0 0, 0 0 0,\numount yes\n0 0 0, 0 0 0,\nwritten\n");
    let ends = "void _start(void) { __asm__(\"mov $60, %eax\\n xor %edi, %edi\\n syscall\"); }";
    fs::write(here.join("ends.c"), ends).unwrap();
    cc(here, &["-nostdlib", "-static", "-o", "ends", "ends.c"]);
    let make = "cp linked /tmp; cp ends /tmp/ld; /tmp/linked; : > /tmp/linked && echo written";
    users.script(&SRV, make, "written\n");
    let make = "cp ld linked other race /tmp; chmod 4755 /tmp/linked; mkdir -m 777 /tmp/w";
    let go = "unset LD_LIBRARY_PATH; exec $p setgid 33 setuid 33 exec /bin/sh /tmp/race";
    users.script(&ROOT, &format!("{make}; {go}"), "setgid yes\nsetuid yes\nend\n");
}

/// As the kernel does, if the test may make the same calls natively.
#[test]
fn calls_about_credentials_answer_as_natively() {
    let Some(users) = Users::new() else { return };
    let here = users.here.path();
    let native = Command::new("./static").arg("caps").current_dir(here).output();
    let full = native.is_ok_and(|output| {
        let held = text(&output.stdout);
        held.contains("effective 1ff") && held.contains("permitted 1ff")
    });
    if !rustix::process::getuid().is_root() || !full {
        left_out("without privilege nobody becomes somebody else natively");
        return;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/identities.c");
    cc(here, &["-O1", "-o", "first", source]);
    fs::set_permissions(here, fs::Permissions::from_mode(0o755)).unwrap();
    let programs = "for p in plain user group both own none; do cp first $p; done
chown 5:6 user own both none; chgrp 7 group; chmod 4755 user; chmod 2755 group; chmod 6755 both; chmod 2745 none; chmod 4755 own";
    let go = "for seed in $(seq 1 60); do echo seed $seed; ./first $PWD 12 4 $seed; done";
    let native =
        |script: &str| Command::new("sh").args(["-c", script]).current_dir(here).output().unwrap();
    assert!(native(programs).status.success());
    let want = text(&native(go).stdout);
    let have = said(here, &["--uid", "0", "sh", "-c", go]);
    assert!(want.lines().count() > 2000, "{want}");
    let differ = want.lines().zip(have.lines()).position(|(want, have)| want != have);
    let lines = |all: &str| {
        let at = differ.unwrap_or_default();
        all.lines().take(at + 1).skip(at.saturating_sub(3)).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(lines(&have), lines(&want));
    assert_eq!(have.len(), want.len());
}

#[test]
fn a_mount_is_seen_by_all_of_the_program_and_not_by_the_host() {
    let Some(users) = Users::new() else { return };
    let host = fs::metadata("/srv").map(|stat| stat.ino()).ok();
    users.script(
        &ROOT,
        "mkdir /tmp/m; $p mount mine /tmp/m tmpfs 0 size=1m,mode=751,uid=7 >&2; $p stat /tmp/m make /tmp/m/f
$p mount /tmp/m /srv - 0x1000 - >&2; grep -c ' /srv ' /proc/self/mounts; ls /srv
$p mount - /srv - 0x1021 - make /srv/g umount /srv 0 umount /srv 0; ls /tmp/m
$p mount none /srv nonesuch 0 - mount none /srv tmpfs 0 size=x mount none /no tmpfs 0 - mount p /srv proc 0 -
test -e /srv/self/exe && echo proc",
        "7:0 40751 0:0\nmake yes\n1\nf\nmount yes\nmake EROFS\numount yes\numount EINVAL\nf\n\
         mount ENODEV\nmount EINVAL\nmount ENOENT\nmount yes\nproc\n",
    );
    assert_eq!(fs::metadata("/srv").map(|stat| stat.ino()).ok(), host);
    // A copy that is changed through a set-id bit is not where the mount forbids it.
    let script = "cp $p /tmp/p; chmod 4755 /tmp/p; $p mount - /tmp - 0x22 - >&2
exec $p setuid 33 exec /tmp/p ids";
    users.script(&ROOT, script, "setuid yes\n33 33 33, 0 0 0,\n");
}

#[test]
fn a_root_of_ones_own_is_ones_own() {
    let Some(users) = Users::new() else { return };
    users.say(
        &SRV,
        "chdir /srv chroot /srv cwd make /f chdir .. cwd chroot /no",
        "chdir yes\nchroot yes\n/\nmake yes\nchdir yes\n/\nchroot ENOENT\n",
    );
    // Threads share it, and children inherit it; who was made before does not.
    users.say(
        &SRV,
        "chroot /srv thread stat /usr fork stat /usr",
        "chroot yes\nstat ENOENT\nstat ENOENT\n",
    );
    users.script(
        &SRV,
        "cat /etc/passwd > /dev/null; ($p chroot /srv chdir / cwd) >&2; test -d /usr && echo still",
        "still\n",
    );
    let (out, want) = ("chdir / chroot /srv cwd", "chdir yes\nchroot yes\n(unreachable)/\n");
    users.say(&SRV, out, want);
}

/// A file of the host that the tree's `/tmp` hides.
fn hidden() -> (TempDir, String) {
    let outside = TempDir::new_in("/tmp").unwrap();
    fs::write(outside.path().join("secret"), "secret\n").unwrap();
    let secret = outside.path().join("secret").display().to_string();
    (outside, secret)
}

#[test]
fn who_may_mount_sees_nothing_that_was_not_given() {
    let Some(users) = Users::new() else { return };
    let (_outside, secret) = hidden();
    let inside = |dir: &str| format!("{dir}{secret}");
    for (words, want) in [
        ("umount /tmp 0 umount /tmp 2 umount / 2", "umount EINVAL\numount EINVAL\numount EINVAL\n"),
        // Shown elsewhere without what hides it, and moved aside.
        ("mount / /srv - 0x1000 -", "mount EINVAL\n"),
        ("mount /tmp /srv - 0x2000 -", "mount EINVAL\n"),
        // With it; a copy hides as well.
        (
            "mount / /srv - 0x5000 - umount /srv/tmp 2 umount /srv 2 mount /srv/tmp /mnt - 0x2000 -",
            "mount yes\numount EINVAL\numount EINVAL\nmount EINVAL\n",
        ),
        // By events of others.
        ("mount - / - 0x100000 - mount - / - 0x104000 -", "mount EINVAL\nmount EINVAL\n"),
        (
            "mount t /srv tmpfs 0 - mount - /srv - 0x100000 - mount / /srv - 0x5000 -",
            "mount yes\nmount yes\nmount EINVAL\n",
        ),
        // What is mounted over it is somebody's who asks.
        (
            "mount t /tmp tmpfs 0 - umount /tmp 0 umount /tmp 0",
            "mount yes\numount yes\numount EINVAL\n",
        ),
        // Left out of what is shown elsewhere.
        ("mount - /tmp - 0x20000 - mount / /srv - 0x5000 -", "mount yes\nmount EPERM\n"),
        // The host's files stay as they are.
        ("mount - / - 0x20 - make /usr/new", "mount yes\nmake EROFS\n"),
        (
            "mount /usr /srv - 0x1000 - mount - /srv - 0x1020 - make /srv/new",
            "mount yes\nmount yes\nmake EROFS\n",
        ),
    ] {
        let words =
            format!("{words} open {secret} open {} open {}", inside("/srv"), inside("/mnt"));
        users.say(&ROOT, &words, &format!("{want}open ENOENT\nopen ENOENT\nopen ENOENT\n"));
    }
}

/// What becomes the root of who stands in what hides something hides it then.
#[test]
fn who_changes_the_root_sees_nothing_that_was_not_given() {
    let Some(users) = Users::new() else { return };
    let (_outside, secret) = hidden();
    let script = format!(
        "mkdir /tmp/m; $p mount t /tmp/m tmpfs 0 -; mkdir /tmp/m/o; $p chroot /tmp chdir / pivot /m /m/o
$p mount /tmp /srv - 0x2000 - umount /tmp 0 umount /tmp 2 open {secret}"
    );
    let want = "mount yes\nchroot yes\nchdir yes\npivot yes\nmount EINVAL\numount EINVAL\numount EINVAL\nopen ENOENT\n";
    users.script(&ROOT, &script, want);
}

/// What is told of a mount by its path is not told of one whose path is too long.
#[test]
fn who_may_mount_sees_nothing_far_below() {
    let Some(users) = Users::new() else { return };
    let (_outside, secret) = hidden();
    let script = format!(
        "p=$(realpath $p); cd /srv; n=$(printf 'd%.0s' $(seq 250)); for i in $(seq 20); do mkdir $n; cd -P $n; done 2>/dev/null
mkdir x; $p mount / x - 0x5000 - umount x/tmp 0 mount . /mnt - 0x5000 - umount /mnt/x/tmp 0
cat /mnt/x{secret} 2>/dev/null || echo nothing"
    );
    let want = "mount yes\numount EINVAL\nmount yes\numount EINVAL\nnothing\n";
    users.script(&SRV, &script, want);
}

/// Somebody outside changes where the paths lead while they are used.
#[test]
fn who_may_mount_sees_nothing_by_paths_that_change() {
    let Some(users) = Users::new() else { return };
    let (_outside, secret) = hidden();
    let here = users.here.path();
    let link = |name: &str, to: &str| {
        symlink(to, here.join(name)).unwrap();
        here.join(name)
    };
    let sources = [link("source", "/usr"), link("source2", "/")];
    let mounted = [link("mounted", "/mnt"), link("mounted2", "/tmp")];
    let words = format!("swapped source mounted {secret}");
    let [[one, two], [three, four]] = [sources, mounted];
    swapping(&one, &two, || swapping(&three, &four, || users.say(&ROOT, &words, "never\n")));
}

/// An ordinary user.
const ORDINARY: u32 = 64_000;

/// Runs the command as an ordinary user, if this is root.
fn as_ordinary(dir: &Path, args: &[&str]) -> String {
    use std::os::unix::process::CommandExt;
    let program = pathwalk_in(dir);
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(program);
    command.arg("run").args(args).current_dir(dir).stdin(Stdio::null());
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(dir, Some(ORDINARY), Some(ORDINARY)).unwrap();
        command.uid(ORDINARY).gid(ORDINARY);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn options_of_a_tmpfs_are_what_they_are_on_linux() {
    let Some(users) = Users::new() else { return };
    for (options, want) in [
        ("nr_inodes=0,nr_blocks=0,size=0", "yes\nmake yes"),
        ("nr_inodes=1", "yes\nmake ENOSPC"),
        ("size=1t,huge=never", "yes\nmake yes"),
        ("size=1x", "EINVAL\nmake EROFS"),
        ("huge=sometimes", "EINVAL\nmake EROFS"),
        ("nr_inodes=18446744073709551615", "EINVAL\nmake EROFS"),
        ("uid=4294967295", "EINVAL\nmake EROFS"),
        ("gid=4294967295", "EINVAL\nmake EROFS"),
        ("uid=7,gid=8,mode=700", "yes\nmake yes"),
    ] {
        let words = format!("mount t /srv tmpfs 0 {options} make /srv/f");
        users.say(&ROOT, &words, &format!("mount {want}\n"));
    }
    // One flag is the kernel's own, whatever the type is.
    let own = "mount t /srv none 0x80000000 - mount t /none none 0x80000000 -";
    users.say(&ROOT, own, "mount EINVAL\nmount ENOENT\n");
}

#[test]
fn an_ordinary_user_is_root_in_the_tree_and_nowhere_else() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "id -u; touch new; stat -c '%u %g' new; chown 33 new 2>/dev/null || echo no
(cat /etc/shadow || ls /root) 2>/dev/null || echo no; chown 33:34 /srv; stat -c '%u %g' /srv";
    let out = as_ordinary(here.path(), &["--uid", "0", "--tmpfs", "/srv", "sh", "-c", script]);
    let native = rustix::process::getuid().is_root();
    let shadow = if native || fs::read("/etc/shadow").is_err() { "no\n" } else { "" };
    assert_eq!(out, format!("0\n0 0\nno\n{shadow}33 34\n"));
    let owner = fs::metadata(here.path()).unwrap().uid();
    assert_eq!(fs::metadata(here.path().join("new")).unwrap().uid(), owner);
}

#[test]
fn owners_are_kept_beside_files_where_that_was_said() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let kept = format!("{}:/mnt:ids=xattr", here.path().display());
    let make = "cd /mnt; touch f; mkdir d; chown 33:34 f; chmod 4711 f; mknod n c 1 3; stat -c '%u %g %a %F' f d n";
    let run = |uid: &str, script: &str| {
        as_ordinary(here.path(), &["--uid", uid, "--bind", &kept, "sh", "-c", script])
    };
    let out = run("0", make);
    assert_eq!(
        out,
        "33 34 4711 regular empty file\n0 0 755 directory\n0 0 644 character special file\n"
    );
    // Another run sees the same, and its permissions hold.
    let out = run(
        "35",
        "cd /mnt; stat -c '%u %g %a' f; cat f 2>/dev/null || echo no; touch d/x 2>/dev/null || echo no",
    );
    assert_eq!(out, "33 34 4711\nno\nno\n");
    let stat = fs::metadata(here.path().join("f")).unwrap();
    assert_eq!(stat.mode() & 0o7777, 0o700);
    // What is no such file on the host is opened as what it is.
    let out = run(
        "0",
        "cd /mnt; mkfifo p; (echo through > p &); cat p; cat n 2>&1 | sed 's/.*: //'; test -s p || test -s n || echo empty",
    );
    assert_eq!(out, "through\nNo such device or address\nempty\n");
    // By a table what is the user's is another's.
    let own = fs::metadata(here.path().join("f")).unwrap().uid();
    let table = format!("{}:/mnt:ids=70-{own}-1", here.path().display());
    let args = ["--uid", "70", "--bind", &table, "stat", "-c", "%u %g", "/mnt/f"];
    assert_eq!(as_ordinary(here.path(), &args), "70 70\n");
}

/// Files with set-id bits that are written, and one that is not; then their modes.
const WRITES: &str = "umask 022; cd \"$1\"; echo x > a; chmod 6755 a; echo y >> a; mode() { stat -c '%n %a' $1; }; mode a
echo x > b; exec 3>>b; chmod 4711 b; mode b; echo y >&3; mode b; chmod 2755 b; mode b; echo z >&3; mode b
echo x > c; chmod 6755 c; truncate -s 100 c; mode c
echo x > d; chmod 6755 d; dd if=a of=d conv=notrunc 2> /dev/null; mode d
cp a e; chmod 4755 e; cat a > e; mode e
echo x > f; exec 4>>f; chmod 6755 f; (echo y >&4); mode f
echo x > g; exec 5>>g; chmod 6755 g; mode g; chmod 755 g; echo y >&5; chmod 4755 g; mode g
echo x > h; chmod 2644 h; echo y >> h; mode h";

/// As on Linux, who has no right to keep them.
#[test]
fn set_id_bits_of_a_file_in_memory_go_when_it_is_written() {
    if !can_run(&["dd", "truncate"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let program = ["sh", "-c", WRITES, "sh", "/tmp"];
    let ours = as_ordinary(here.path(), &program);
    let want =
        "a 755\nb 4711\nb 711\nb 2755\nb 755\nc 755\nd 755\ne 755\nf 755\ng 6755\ng 4755\nh 2644\n";
    assert_eq!(ours, want);
    // The directory is that user's by now.
    let mut native = Command::new("sh");
    native.args(["-c", WRITES, "sh"]).arg(here.path());
    if rustix::process::getuid().is_root() {
        use std::os::unix::process::CommandExt;
        native.uid(ORDINARY).gid(ORDINARY);
    }
    assert_eq!(text(&native.output().unwrap().stdout), want);
    let user = as_ordinary(here.path(), &[&["--uid", "1"][..], &program].concat());
    assert_eq!(user, want);
}

/// Root may keep them.
#[test]
fn set_id_bits_of_a_file_in_memory_stay_where_only_root_writes() {
    if !can_run(&["dd", "truncate", "setpriv"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let root = ["--uid", "0", "sh", "-c"];
    let stay = said(here.path(), &[&root[..], &[WRITES, "sh", "/tmp"]].concat());
    let want = "a 6755\nb 4711\nb 4711\nb 2755\nb 2755\nc 6755\nd 6755\ne 4755\nf 6755\ng 6755\ng 4755\nh 2644\n";
    assert_eq!(stay, want);
    let another = "cd /tmp; echo x > f; chmod 6777 f; setpriv --reuid 34 --clear-groups sh -c 'echo y >> f'; stat -c %a f";
    assert_eq!(said(here.path(), &[&root[..], &[another]].concat()), "777\n");
}

/// Capabilities go whoever writes, and what has some may be open by then.
#[test]
fn capabilities_of_a_file_in_memory_go_when_it_is_written() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "import os
def has(path): return 'security.capability' in os.listxattr(path)
def give(path): os.setxattr(path, 'security.capability', bytes([1, 0, 0, 2] + [255, 0, 0, 0] * 4)); assert has(path)
before = os.open('/tmp/f', os.O_CREAT | os.O_RDWR, 0o755); give('/tmp/f'); os.chmod('/tmp/f', 0o4755)
os.read(before, 1); print(has('/tmp/f')); os.write(before, b'x'); print(has('/tmp/f')); os.close(before)
give('/tmp/f'); after = os.open('/tmp/f', os.O_WRONLY); print(has('/tmp/f')); os.ftruncate(after, 0); print(has('/tmp/f'))
print(oct(os.stat('/tmp/f').st_mode))";
    let said = said(here.path(), &["--uid", "0", "python3", "-c", script]);
    assert_eq!(said, "True\nFalse\nTrue\nFalse\n0o104755\n");
}
