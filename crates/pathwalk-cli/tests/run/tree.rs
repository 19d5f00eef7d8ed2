//! What the tree is, and how a run ends.

use crate::common::{Running, can_run, copy, listing, python, run, said, text};
use std::{fs, path::Path};
use tempfile::TempDir;

#[test]
fn without_a_word_here_and_tmp_are_writable_and_all_else_is_not() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "echo a > here; echo b > /tmp/there; ls /tmp | grep -c there; (echo c > /etc/no) 2>/dev/null || echo no";
    assert_eq!(said(here.path(), &["sh", "-c", script]), "1\nno\n");
    assert_eq!(fs::read_to_string(here.path().join("here")).unwrap(), "a\n");
    let ro = run(here.path(), &["--ro", "--", "sh", "-c", "echo x > here"]);
    assert!(!ro.status.success());
    assert_eq!(fs::read_to_string(here.path().join("here")).unwrap(), "a\n");
}

#[test]
fn what_is_asked_for_is_mounted() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    fs::write(other.path().join("file"), "given\n").unwrap();
    fs::create_dir(here.path().join("a")).unwrap();
    let at = |dst: &str| format!("{}/{dst}", here.path().display());
    let bind = format!("{}:{}", other.path().display(), at("b"));
    let (tmpfs, mem) = (at("a"), format!("mem:{}:mode=700", at("m")));
    let script = "cat b/file; echo new > b/new; echo x > a/x; stat -c %a m; ls a; echo $NAME; pwd";
    let args = [
        "--bind",
        &bind,
        "--tmpfs",
        &tmpfs,
        "--mount",
        &mem,
        "--env",
        "NAME=value",
        "sh",
        "-c",
        script,
    ];
    let out = said(here.path(), &args);
    assert_eq!(out, format!("given\n700\nx\nvalue\n{}\n", here.path().display()));
    assert_eq!(fs::read_to_string(other.path().join("new")).unwrap(), "new\n");
    assert_eq!(fs::read_dir(here.path().join("a")).unwrap().count(), 0);
    let ro = format!("{}:{}:ro", other.path().display(), at("b"));
    let refused = run(here.path(), &["--bind", &ro, "sh", "-c", "echo y > b/new"]);
    assert!(text(&refused.stderr).contains("Read-only"), "{}", text(&refused.stderr));
}

/// What lies beside it is not there, and what others put in its place is not seen, as with `mount --bind`.
#[test]
fn a_file_is_mounted_alone() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    let at = |name: &str| other.path().join(name).display().to_string();
    fs::write(at("file"), "given\n").unwrap();
    fs::write(at("beside"), "not given\n").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    fs::copy("/bin/echo", at("program")).unwrap();
    let bind = |name: &str, to: &str| format!("{}:{to}", at(name));
    let names = "import os; print([e.name for e in os.scandir('/etc') if e.name == 'passwd'])";
    let script = format!(
        "cat /etc/passwd; python3 -c \"{names}\"; cat /tmp/deep/link; ls /tmp/deep; /tmp/said so
        echo more >> /etc/passwd; (echo no >> /tmp/deep/link) 2>&1 | grep -o Read-only
        (mv /tmp/deep/link /tmp/elsewhere; rm /tmp/deep/link) 2>&1 | grep -o busy
        grep -o '/file /[^ ]* r[ow]' /proc/self/mountinfo; ls /tmp/deep/../beside 2>&1 | grep -o 'No such'"
    );
    let args = [
        "--bind",
        &bind("file", "/etc/passwd"),
        "--bind",
        &bind("link", "/tmp/deep/link:ro"),
        "--bind",
        &bind("program", "/tmp/said"),
        "sh",
        "-c",
        &script,
    ];
    assert_eq!(
        said(here.path(), &args),
        "given\n['passwd']\ngiven\nlink\nso\nRead-only\nbusy\nbusy\n/file /etc/passwd rw\n/file /tmp/deep/link ro\nNo such\n"
    );
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "given\nmore\n");
    assert_eq!(fs::read_to_string(at("beside")).unwrap(), "not given\n");
    // Where it is made on the host it stays, and is empty.
    let made = here.path().join("made");
    let to = bind("file", made.to_str().unwrap());
    assert_eq!(said(here.path(), &["--bind", &to, "cat", "made"]), "given\nmore\n");
    assert_eq!(fs::read_to_string(made).unwrap(), "");
}

/// Its process is there before the tree is.
#[test]
fn where_the_tree_cannot_be_made_the_program_is_not_run() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    for (option, value, says) in [
        ("--cwd", "/none", "/none cannot be entered in the tree: ENOENT"),
        ("--bind", "/none:/mnt", "/none cannot be mounted at /mnt: ENOENT"),
        (
            "--bind",
            "/etc/passwd:/mnt",
            "/mnt: it is a file, and what is there in the tree is a directory",
        ),
        (
            "--bind",
            "/mnt:/etc/passwd",
            "passwd: it is a directory, and what is there in the tree is a file",
        ),
        (
            "--bind",
            "/etc/passwd:/etc/no",
            "/etc/no: there is no such file in the tree, and none can be made: EROFS",
        ),
        (
            "--bind",
            "/etc/passwd:/mnt/no/",
            "/mnt/no/: it is a file, and a path that ends so is a directory's",
        ),
        ("--bind", "/etc/passwd:/tmp/no/.", "/tmp/no/.: it is a file, and a path that ends so is"),
        ("--cwd", "none", "/none cannot be entered in the tree: ENOENT"),
        (
            "--tmpfs",
            "/no such/directory",
            "mem cannot be mounted at /no such/directory: there is no such directory in the tree, and none can be made: EROFS",
        ),
        ("--mount", "mem:/tmp:size=1k:size=2k", "character 18, 'size=2k'"),
    ] {
        let ran = format!("{}/ran", here.path().display());
        let output = run(here.path(), &[option, value, "touch", &ran]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    }
    let bind = format!("/etc/passwd:{}/no/", here.path().display());
    assert_eq!(run(here.path(), &["--bind", &bind, "true"]).status.code(), Some(2));
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing was made for it");
}

#[test]
fn another_root_and_another_directory() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let out = said(
        here.path(),
        &["--rootfs", "/", "--cwd", "/usr", "sh", "-c", "pwd; ls -d bin; echo x > /tmp/x; ls /tmp"],
    );
    assert_eq!(out, "/usr\nbin\nx\n");
    // From where it would begin.
    assert_eq!(said(here.path(), &["--rootfs", "/", "--cwd", "usr/lib", "pwd"]), "/usr/lib\n");
    fs::create_dir(here.path().join("sub")).unwrap();
    let sub = said(here.path(), &["--cwd", "sub", "sh", "-c", "pwd; ls -d ../sub"]);
    assert_eq!(sub, format!("{}/sub\n../sub\n", here.path().display()));
    // Nothing but memory, where no program is.
    let empty = run(here.path(), &["--mount", "mem:/", "--cwd", "/", "true"]);
    assert_eq!(empty.status.code(), Some(127), "{}", text(&empty.stderr));
}

#[test]
fn who_begins_elsewhere_needs_no_current_directory() {
    if !can_run(&["sh"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"";
    let begins = |options: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_pathwalk"), "run"]);
        command.args(options).args(["sh", "-c", "pwd"]).current_dir(here.path());
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let at = |path: &str| (Some(0), format!("{path}\n"));
    assert_eq!(begins(&["--rootfs", "/"]), at("/"));
    assert_eq!(begins(&["--rootfs", "/", "--cwd", "usr"]), at("/usr"));
    assert_eq!(begins(&["--bind", "/:/:ro", "--cwd", "/usr"]), at("/usr"));
    let gone = (
        Some(2),
        "pathwalk: the current directory: ENOENT (No such file or directory)\n".to_owned(),
    );
    for options in [&[][..], &["--cwd", "/usr"], &["--bind", "/:/:ro"]] {
        assert_eq!(begins(options), gone, "{options:?}");
    }
}

#[test]
fn a_place_that_is_missing_is_made_where_one_may_write() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let made = here.path().join("made/deep");
    let made = made.to_str().unwrap();
    let script = format!("cd {made} && echo x > file && ls");
    assert_eq!(said(here.path(), &["--tmpfs", made, "sh", "-c", &script]), "file\n");
    assert_eq!(listing(here.path()).len(), 2, "the two directories");
}

/// A root with the host's programs in it, and no more than that.
fn little_root() -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("usr")).unwrap();
    for name in ["bin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), root.path().join(name)).unwrap();
    }
    root
}

#[test]
fn a_root_without_places_for_what_is_mounted_by_default_is_one() {
    if !can_run(&["sh"]) {
        return;
    }
    let root = little_root();
    let dir = root.path().to_str().unwrap();
    let run = |root: &str| {
        let ran = run(
            dir.as_ref(),
            &["--rootfs", root, "--bind", "/usr:/usr:ro", "sh", "-c", "echo /*; cd /usr && pwd"],
        );
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        (text(&ran.stdout), text(&ran.stderr))
    };
    let (out, err) = run(dir);
    assert_eq!(out, "/bin /lib /lib64 /usr\n/usr\n");
    let shm = if Path::new("/dev/shm").is_dir() { ", /dev/shm" } else { "" };
    let says = "pathwalk: left out, as the root has no such directory and none can be made: ";
    assert_eq!(err, format!("{says}/proc, /dev, /tmp{shm}\n"));
    // They are made where one may write.
    let all = "/bin /dev /lib /lib64 /proc /tmp /usr\n/usr\n";
    assert_eq!(run(&format!("{dir}:rw")), (all.to_owned(), String::new()));
    assert_eq!(run(dir), (all.to_owned(), String::new()));
}

#[test]
fn a_script_of_another_root_is_shown_as_it_was_called() {
    use std::os::unix::fs::PermissionsExt;
    if !can_run(&["sh", "tr"]) {
        return;
    }
    let root = little_root();
    fs::create_dir(root.path().join("proc")).unwrap();
    let script = root.path().join("script");
    fs::write(&script, "#!/bin/sh -e\ntr '\\0' ' ' < /proc/$$/cmdline\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let dir = root.path().to_str().unwrap();
    for rootfs in [dir, &format!("{dir}:rw")] {
        let args = ["--rootfs", rootfs, "--bind", "/usr:/usr:ro", "/script", "a", "b"];
        assert_eq!(said(root.path(), &args), "/script a b ");
    }
}

#[test]
fn what_is_written_by_descriptors_is_counted_when_it_is_asked_how_much_room_is_left() {
    if !can_run(&["sh", "stat"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "exec 3> /tmp/m/f; stat -f -c '%b %f' /tmp/m; head -c 100000 /dev/zero >&3; stat -f -c '%b %f' /tmp/m
head -c 2000000 /dev/zero >&3; stat -f -c '%b %f' /tmp/m; rm /tmp/m/f; exec 3>&-; stat -f -c '%b %f' /tmp/m";
    let out = said(here.path(), &["--mount", "mem:/tmp/m:size=1m", "sh", "-c", script]);
    assert_eq!(out, "256 256\n256 231\n256 0\n256 256\n");
}

/// However often, and however many processes are looked at for it; and who watches what else is gone is told it in time.
#[test]
fn who_asks_how_much_room_is_left_is_told_it_and_keeps_nobody_waiting() {
    if !can_run(&["python3", "sleep"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let asks = r#"
import ctypes, os, select, subprocess, time
libc = ctypes.CDLL(None)
sleep = [subprocess.Popen(["sleep", "1000"]) for _ in range(100)]
counted = 0
for n in range(300):
    fd = os.open("/tmp/m/f", os.O_CREAT | os.O_RDWR); os.write(fd, bytes(100000)); os.unlink("/tmp/m/f"); os.close(fd)
    counted += os.statvfs("/tmp/m").f_bfree != 256
print(counted); time.sleep(2.2); os.stat(".")
open("gone", "w").close(); queue = libc.inotify_init(); libc.inotify_add_watch(queue, b"gone", 0x400)
os.unlink("gone"); print(select.select([queue], [], [], 5)[0] == [queue]); [one.kill() for one in sleep]
"#;
    let said = said(here.path(), &["--mount", "mem:/tmp/m:size=1m", python(), "-c", asks]);
    assert_eq!(said, "0\nTrue\n");
}

/// At exactly as many as it says that it needs all works; with one less nothing begins.
#[test]
fn with_too_few_descriptors_it_does_not_begin() {
    if !can_run(&["sh", "find", "python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let with = |most: u64, script: &str| {
        let limited = format!("ulimit -n {most} && exec \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_pathwalk"), "run", "sh", "-c"]);
        command.arg(script).current_dir(here.path()).output().unwrap()
    };
    let refused = text(&with(40, "echo begun").stderr);
    let words: Vec<&str> = refused.split(' ').collect();
    let says = "pathwalk: this tree needs N descriptors, and `ulimit -Hn` is 40\n";
    let needs = words.get(4).and_then(|word| word.parse().ok()).expect(&refused);
    assert_eq!(refused, says.replace('N', words[4]));
    let less = with(needs - 1, "echo begun");
    assert_eq!((less.status.code(), text(&less.stdout)), (Some(2), String::new()));
    let script = "find /etc -name passwd -maxdepth 1; ls -R /usr/lib 2>&1 | sort | wc -l | grep -c .
python3 -c 'import json, ctypes, subprocess; print(subprocess.run([\"cat\", \"/etc/passwd\"]).returncode)' | tail -n 1
for n in 1 2 3 4 5 6 7 8; do echo $n > /tmp/f$n; done; cat /tmp/f* | sort | uniq | wc -l
(cd /usr && (cd /etc && (cd /tmp && pwd | cat | cat | cat | cat)))";
    let enough = with(needs, script);
    assert_eq!(text(&enough.stderr), "");
    assert_eq!(text(&enough.stdout), "/etc/passwd\n1\n0\n8\n/tmp\n");
}

/// Where there is less than by default less is remembered. Limits that are soft are the program's alone.
#[test]
fn with_too_little_memory_or_stack_it_does_not_begin() {
    if !can_run(&["bash", "find"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let with = |limit: &str, script: &str| {
        let limited = format!("ulimit {limit} && exec \"$@\"");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &limited, "bash", env!("CARGO_BIN_EXE_pathwalk"), "run", "bash", "-c"]);
        command.arg(script).current_dir(here.path()).output().unwrap()
    };
    let memory = "pathwalk: the root cannot be mounted at /: `ulimit -Hv` or `ulimit -Hd` leaves no memory for what is \
                  remembered of files; 2 GiB are enough\n";
    let stack =
        |has| format!("pathwalk: this needs a stack of 256 KiB, and `ulimit -Hs` is {has}\n");
    for (limit, says) in [
        ("-v 200000", memory.to_owned()),
        ("-d 200000", memory.to_owned()),
        ("-s 64", stack(64)),
        ("-s 255", stack(255)),
    ] {
        let refused = with(limit, "echo begun");
        assert_eq!((refused.status.code(), &*text(&refused.stderr)), (Some(2), &*says), "{limit}");
        assert_eq!(text(&refused.stdout), "", "{limit}");
    }
    let script = "ulimit -v; ulimit -Hv; ulimit -d; ulimit -Hd; ulimit -s; ulimit -Hs; \
                  find /usr/lib 2>&1 | wc -l | grep -c '...'; echo x > /tmp/x; cat /tmp/x";
    for limit in ["-v 2097152", "-d 2097152", "-Sv 200000", "-Sd 200000", "-s 256", "-Ss 64"] {
        let ran = with(limit, script);
        let script = format!("ulimit {limit}; {}", script.replace("/tmp", "."));
        let mut native = std::process::Command::new("bash");
        let native = native.args(["-c", &script]).current_dir(here.path()).output();
        assert_eq!(text(&ran.stderr), "", "{limit}");
        assert_eq!(text(&ran.stdout), text(&native.unwrap().stdout), "{limit}");
    }
}

/// What is in memory, and what nobody else changes, is asked about once; with `strict`, each time; and to open a file asks the host always.
#[test]
fn the_sums_say_what_was_answered_of_what_is_cached() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    fs::write(here.path().join("f"), "").unwrap();
    let dir = here.path().to_str().unwrap();
    let [exclusive, strict] =
        ["exclusive", "strict"].map(|how| format!("host:{dir}:/tmp/m:coherence={how}"));
    let hits = |spec: &str, call: &str| {
        let flags = if spec == "mem:/tmp/m" { "os.O_CREAT" } else { "0" };
        let script =
            format!("import os; os.open('/tmp/m/f', {flags}); [{call} for _ in range(500)]");
        let output = run(
            here.path(),
            &["--stats", "--inside", "0", "--mount", spec, python(), "-c", &script],
        );
        let said = text(&output.stderr);
        let line = said.lines().find(|line| line.contains("what is cached")).expect(&said);
        let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] <= numbers[1], "{said}");
        (numbers[0] >= 500, numbers[1] - numbers[0] >= 500)
    };
    for (spec, call, want) in [
        ("mem:/tmp/m", "os.stat('/tmp/m/f')", (true, false)),
        ("mem:/tmp/m", "os.close(os.open('/tmp/m/f', 0))", (true, false)),
        (&exclusive, "os.stat('/tmp/m/f')", (true, false)),
        (&exclusive, "os.path.exists('/tmp/m/none')", (true, false)),
        (&exclusive, "os.close(os.open('/tmp/m/f', 0))", (false, true)),
        (&strict, "os.stat('/tmp/m/f')", (false, true)),
    ] {
        assert_eq!(hits(spec, call), want, "{spec}: {call}");
    }
}

#[test]
fn a_program_ends_as_it_ends() {
    use std::os::unix::process::ExitStatusExt;
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    assert_eq!(run(here.path(), &["sh", "-c", "exit 7"]).status.code(), Some(7));
    // Also where the kernel answers all, for comparison.
    let passed = run(here.path(), &["--pass-all", "sh", "-c", "cd /tmp && pwd; exit 7"]);
    assert_eq!((passed.status.code(), &*passed.stdout), (Some(7), &b"/tmp\n"[..]));
    assert_eq!(run(here.path(), &["sh", "-c", "kill -9 $$"]).status.signal(), Some(9));
    assert_eq!(
        run(here.path(), &["--env", "PATH=/usr/bin:/bin", "no such program"]).status.code(),
        Some(127)
    );
    assert_eq!(run(here.path(), &["/etc/passwd"]).status.code(), Some(126));
    // What it leaves behind is waited for.
    let orphan = "(sleep 0.2; echo late > late) & exit 0";
    assert_eq!(run(here.path(), &["sh", "-c", orphan]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(here.path().join("late")).unwrap(), "late\n");
}

/// Rust's runtime opens `/dev/null` in the place of each.
#[test]
fn a_descriptor_that_was_closed_is_closed() {
    if !can_run(&["sh", "cat"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let looks = "exec 3> answers; for fd in 0 1 2; do test -e /proc/self/fd/$fd && echo $fd is open >&3; done
cat >&3; echo $? >&3; echo said; echo $? >&3; (cd / && cat proc/self/comm) >&3; (exec cat /etc/passwd) > /dev/null; echo $? >&3";
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let script = format!("exec </dev/null {closed}; \"$@\"");
        let answers = |words: &[&str]| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &script, "sh"]).args(words).args(["sh", "-c", looks]);
            command.current_dir(here.path()).output().unwrap();
            let answers = fs::read_to_string(here.path().join("answers")).unwrap();
            fs::remove_file(here.path().join("answers")).unwrap();
            answers
        };
        let native = answers(&[]);
        let lines = native.lines().filter(|line| line.ends_with("open")).count();
        assert_eq!(lines, 3 - closed.matches('-').count(), "{closed}: {native}");
        assert_eq!(answers(&[env!("CARGO_BIN_EXE_pathwalk"), "run"]), native, "{closed}");
    }
}

#[test]
fn one_run_in_another_is_refused_with_a_sentence() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let program = here.path().join("pathwalk");
    copy(env!("CARGO_BIN_EXE_pathwalk"), &program);
    let inner = run(here.path(), &["./pathwalk", "run", "true"]);
    assert_eq!(inner.status.code(), Some(2));
    assert!(text(&inner.stderr).contains("does not run inside another"), "{}", text(&inner.stderr));
}

#[test]
fn what_is_wrong_with_a_mount_is_said_with_its_place() {
    let here = TempDir::new().unwrap();
    for (args, want) in [
        (["--mount", "men:/x"], "character 1, 'men': not mem, host or proc"),
        (["--mount", "host:/a:b"], "character 9, 'b': the path in the tree begins with a slash"),
        (["--bind", "/a"], "character 3: a colon and where it is to be mounted are missing"),
        (["--tmpfs", "/a:size=many"], "character 4, 'size=many': no size"),
    ] {
        let wrong = run(here.path(), &[&args[..], &["true"]].concat());
        assert_eq!(wrong.status.code(), Some(2));
        assert!(text(&wrong.stderr).contains(want), "{}", text(&wrong.stderr));
        assert_eq!(text(&wrong.stderr).lines().count(), 1);
    }
    let missing = run(here.path(), &["--bind", "/no/such:/tmp/x", "true"]);
    assert_eq!(
        text(&missing.stderr),
        "pathwalk: /no/such cannot be mounted at /tmp/x: ENOENT (No such file or directory)\n"
    );
}

#[test]
fn calls_are_told_and_counted() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let ran = run(here.path(), &["--trace", "--stats", "cat", "/no/such"]);
    let told = text(&ran.stderr);
    assert!(told.contains(" openat(\"/no/such\") = ENOENT"), "{told}");
    assert!(told.lines().any(|line| line.starts_with("openat ")), "{told}");
    assert!(told.contains(": there is no /no\n"), "{told}");
    assert!(told.lines().any(|line| line.starts_with("all ")), "{told}");
    // The program itself was not in the cache.
    let held = told.lines().find(|line| line.contains("the name is not in the cache"));
    let times = held.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    assert!(times > Some(0), "{told}");
    assert!(told.lines().last().is_some_and(|line| line.contains("in the supervisor")), "{told}");
}

/// Also where no directory on the way decided, but what the path leads to.
#[test]
fn an_error_is_told_with_what_decided() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    fs::write(here.path().join("f"), "").unwrap();
    std::os::unix::fs::symlink("f", here.path().join("link")).unwrap();
    let script = r#"
import ctypes, os, socket
libc = ctypes.CDLL(None)
def beneath(path, resolve): libc.syscall(437, -100, path, (ctypes.c_uint64 * 3)(0, 0, resolve), 24)
for does in lambda: os.chdir("f"), lambda: os.rmdir("f"), lambda: os.readlink("f"), lambda: os.mkdir("f"), lambda: os.stat("loop"),     lambda: os.open("f", os.O_DIRECTORY), lambda: os.open("link", os.O_NOFOLLOW), lambda: os.open("/tmp", os.O_RDWR),     lambda: os.rename("f", "/tmp/g"), lambda: os.rmdir("/tmp/d"), lambda: beneath(b"/etc", 8), lambda: beneath(b"..", 8),     lambda: beneath(b"link", 4), lambda: socket.socket(socket.AF_UNIX).connect("/nope/s"):
    os.makedirs("/tmp/d/e", exist_ok=True)
    try: does()
    except OSError: pass
"#;
    let ran = run(here.path(), &["--trace", python(), "-c", script]);
    let (told, at) = (text(&ran.stderr), here.path().display());
    for want in [
        format!(r#"chdir("f") = ENOTDIR (Not a directory): {at}/f is a regular file, and a directory is needed"#),
        format!(r#"rmdir("f") = ENOTDIR (Not a directory): {at}/f is a regular file, and a directory is needed"#),
        format!(r#"readlink("f") = EINVAL (Invalid argument): {at}/f is a regular file"#),
        format!(r#"mkdir("f") = EEXIST (File exists): {at}/f is a regular file"#),
        format!(r#"openat("f") = ENOTDIR (Not a directory): {at}/f is a regular file, and a directory is needed"#),
        format!(r#"openat("link") = ELOOP (Too many levels of symbolic links): {at}/link is a symlink"#),
        r#"openat("/tmp") = EISDIR (Is a directory): /tmp is a directory"#.to_owned(),
        format!(r#"rename("f", "/tmp/g") = EXDEV (Invalid cross-device link): {at} and /tmp lie in different mounts"#),
        r#"rmdir("/tmp/d") = ENOTEMPTY (Directory not empty): /tmp/d is a directory, and not empty"#.to_owned(),
        r#"openat2("/etc") = EXDEV (Invalid cross-device link): an absolute path begins outside of what the walk must stay in"#.to_owned(),
        r#"openat2("..") = EXDEV (Invalid cross-device link): at "#.to_owned(),
        format!(r#"openat2("link") = ELOOP (Too many levels of symbolic links): the symlink {at}/link may not be followed: the mount or the call forbids it"#),
        r#"connect("/nope/s") = ENOENT (No such file or directory): there is no /nope"#.to_owned(),
    ] {
        assert!(told.contains(&format!(" {want}")), "{want}\n{told}");
    }
}

#[test]
fn what_was_not_given_is_told_and_nothing_else() {
    if !can_run(&[]) {
        return;
    }
    let (here, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let hidden = other.path().join("hidden");
    fs::write(&hidden, "").unwrap();
    let hidden = hidden.display();
    let script = format!(
        "cat /no/such {hidden}; echo > /etc/new; cd /usr; mkdir made; echo > {hidden}.new; ln {hidden}.new bin/made; true"
    );
    let gone = other.path().display().to_string();
    let ran = run(here.path(), &["--deny-trace", "--tmpfs", &gone, "sh", "-c", &script]);
    let told = text(&ran.stderr);
    let lines: Vec<_> = told.lines().filter_map(|line| line.split_once(' ')).collect();
    let of =
        |call: &str| lines.iter().find(|(_, line)| line.starts_with(call)).map(|(_, line)| *line);
    let want = format!(
        "openat(\"{hidden}\") = ENOENT (No such file or directory): there is no {hidden}; the host has it"
    );
    assert_eq!(of(&format!("openat(\"{hidden}\"")), Some(&*want), "{told}");
    let read_only = "is on a read-only mount or file system";
    let want = format!("openat(\"/etc/new\") = EROFS (Read-only file system): /etc {read_only}");
    assert_eq!(of("openat(\"/etc/new\""), Some(&*want), "{told}");
    let want = format!("mkdir(\"made\") = EROFS (Read-only file system): /usr {read_only}");
    assert_eq!(of("mkdir("), Some(&*want), "{told}");
    let link = lines.iter().find(|(_, line)| line.starts_with("link") && line.contains("EROFS"));
    assert!(link.is_some_and(|(_, line)| line.contains(": /usr/bin is on a read-only")), "{told}");
    assert!(!told.contains("(\"/no/such\")"), "{told}");
    assert!(!told.contains(") = a descriptor"), "{told}");
}

#[test]
fn the_grammar_of_mounts_is_told() {
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_pathwalk"))
        .args(["help", "mounts"])
        .output()
        .unwrap();
    assert!(command.status.success());
    for word in ["mem:DST", "host:DIR:DST", "coherence", "--rootfs"] {
        assert!(text(&command.stdout).contains(word), "{word}");
    }
}

#[test]
fn a_socket_of_the_host_is_reached_where_it_was_given() {
    use std::{io::Read, os::unix::net::UnixListener, thread};
    if !can_run(&["python3"]) {
        return;
    }
    let (here, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let listener = UnixListener::bind(other.path().join("socket")).unwrap();
    let heard = thread::spawn(move || {
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    });
    let bind = format!("{}:{}/b", other.path().display(), here.path().display());
    let connect = |path: &str| {
        let code = format!(
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}'); s.send(b'hello')"
        );
        run(here.path(), &["--bind", &bind, "python3", "-c", &code])
    };
    let outside = connect(&other.path().join("socket").display().to_string());
    assert!(text(&outside.stderr).contains("No such file"), "{}", text(&outside.stderr));
    let given = connect("b/socket");
    assert!(given.status.success(), "{}", text(&given.stderr));
    assert_eq!(heard.join().unwrap(), "hello");
}

#[test]
fn a_terminal_has_its_name() {
    if !can_run(&["script"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let out =
        said(here.path(), &["script", "-q", "-c", "tty; test -t 0 && echo terminal", "/dev/null"]);
    assert!(out.starts_with("/dev/pts/") && out.contains("terminal"), "{out}");
}

#[test]
fn what_is_handed_in_is_known_where_the_tree_has_it() {
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    fs::write(here.path().join("in"), "handed in\n").unwrap();
    let script = "stat -L -c '%d %i' /proc/self/fd/0 in; cat; readlink /proc/self/fd/0";
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pathwalk"))
        .args(["run", "sh", "-c", script])
        .current_dir(here.path())
        .stdin(fs::File::open(here.path().join("in")).unwrap())
        .output()
        .unwrap();
    let out = text(&output.stdout);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}{}", text(&output.stderr));
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[2..], ["handed in", &here.path().join("in").display().to_string()]);
}

#[test]
fn what_is_handed_in_has_its_extended_attributes() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    fs::write(here.path().join("in"), "").unwrap();
    let script = "import os
def tells(does):
    try: return does()
    except OSError as error: return error.strerror
for fd in 0, os.open('/dev/null', os.O_RDWR):
    for does in lambda: os.listxattr(fd), lambda: os.setxattr(fd, 'user.a', b'1'), lambda: os.getxattr(fd, 'user.a'), \\
        lambda: os.removexattr(fd, 'user.a'), lambda: os.getxattr(fd, 'user.a'): print(tells(does))";
    let said = |command: &mut std::process::Command| {
        let stdin = fs::File::open(here.path().join("in")).unwrap();
        let output = command.current_dir(here.path()).stdin(stdin).output().unwrap();
        text(&output.stdout)
    };
    let native = said(std::process::Command::new(python()).args(["-c", script]));
    assert_eq!(native.lines().count(), 10);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    let null = "--mount=host:/dev/null:/dev/null:rw";
    command.args(["run", null, python(), "-c", script]);
    assert_eq!(said(&mut command), native);
}

#[test]
fn signals_are_passed_on_to_the_program() {
    use std::io::{BufRead, BufReader};
    if !can_run(&[]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "trap 'echo one' USR1; trap 'echo last; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_pathwalk"))
        .args(["run", "sh", "-c", script])
        .current_dir(here.path())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = Running(child.unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut heard = || lines.next().unwrap().unwrap();
    assert_eq!(heard(), "ready");
    let pid = rustix::process::Pid::from_child(&child.0);
    for _ in 0..2 {
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        assert_eq!(heard(), "one");
    }
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(heard(), "last");
    assert_eq!(child.0.wait().unwrap().code(), Some(9));
}

#[test]
fn while_nobody_calls_signals_are_passed_on_and_orphans_are_waited_for() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    if !can_run(&["sleep"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    // So many calls that it is not asked any more whether there is one, each of another path, as one that was answered before may be found
    // by the program itself; then none.
    let script = "trap 'echo one' USR1; trap 'kill $!; exit 9' TERM; (sleep 0.3 &); sleep 60 & i=0
while [ $i -lt 500 ]; do [ -e /missing$i ]; i=$((i+1)); done; echo ready; while :; do wait; done";
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_pathwalk"))
        .args(["run", "sh", "-c", script])
        .current_dir(here.path())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = Running(child.unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut heard = || lines.next().unwrap().unwrap();
    assert_eq!(heard(), "ready");
    let children = |of: u32| -> Vec<u32> {
        let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    let supervisor = children(children(child.0.id())[0])[0];
    let threads = fs::read_dir(format!("/proc/{supervisor}/task")).unwrap().count();
    assert_eq!(threads, 2, "who answers, and who looks at all else");
    // The orphan is the supervisor's, and ends; then it is waited for.
    let time = std::time::Instant::now();
    while children(supervisor).len() > 1 || time.elapsed().as_millis() < 500 {
        assert!(time.elapsed().as_secs() < 20, "nobody waits for the orphan");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = Pid::from_child(&child.0);
    for _ in 0..2 {
        kill_process(pid, Signal::USR1).unwrap();
        assert_eq!(heard(), "one");
    }
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(9));
}

#[test]
fn who_waited_for_a_fifo_and_was_killed_takes_nothing() {
    if !can_run(&["timeout", "mkfifo"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let (reads, writes) = ("timeout 5 cat fifo", "timeout 5 sh -c 'echo data > fifo'");
    for dir in ["/tmp", "."] {
        for (killed, first, then) in [
            ("timeout 0.3 cat fifo", writes, reads),
            ("timeout 0.3 sh -c 'echo lost > fifo'", reads, writes),
        ] {
            let script = format!(
                "cd {dir}; mkfifo fifo; {killed}\n(sleep 0.6; {then}) & {first}; wait; rm fifo"
            );
            assert_eq!(said(here.path(), &["sh", "-c", &script]), "data\n", "{script}");
        }
    }
}

#[test]
fn what_is_in_memory_is_shown_by_its_path_in_the_tree() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let other = TempDir::new().unwrap();
    fs::write(other.path().join("file"), [b'x'; 4096]).unwrap();
    let bind = format!("{}:{}/b", other.path().display(), here.path().display());
    // What is mapped stays there when it is closed, renamed and removed.
    let script = "
import mmap, os
def map(path, mode):
    with open(path, mode) as f:
        if mode == 'w+b': f.write(bytes(4096)); f.flush()
        return mmap.mmap(f.fileno(), 4096, prot=mmap.PROT_READ)
def shown():
    lines = (line.split(maxsplit=5) for line in open('/proc/self/maps'))
    return sorted({line[5].strip() for line in lines if len(line) > 5 and line[5].startswith(('/tmp/in', here))})
here = os.getcwd() + '/b'
maps = [map('/tmp/in memory', 'w+b'), map('b/file', 'rb')]
print(shown())
os.rename('/tmp/in memory', '/tmp/in'); os.unlink('b/file')
print(shown())
print(any(' (deleted)' in line for line in open('/proc/self/smaps')))
";
    let out = said(here.path(), &["--bind", &bind, "python3", "-c", script]);
    let b = format!("{}/b/file", here.path().display());
    let mut first = ["/tmp/in memory".to_owned(), b.clone()];
    let mut then = ["/tmp/in".to_owned(), format!("{b} (deleted)")];
    first.sort();
    then.sort();
    let list = |paths: &[String; 2]| format!("['{}', '{}']\n", paths[0], paths[1]);
    assert_eq!(out, format!("{}{}True\n", list(&first), list(&then)));
}

#[test]
fn when_a_file_in_memory_was_read_is_told() {
    if !can_run(&["dd"]) {
        return;
    }
    let here = TempDir::new().unwrap();
    let script = "now() { test $(stat -c %.9X f | tr -d .) -gt $(stat -c %.9Y f | tr -d .) && echo $1 read || echo $1 unread; };\
        rest() { sleep 0.03; };\
        echo a > f; rest; now made; cat f > /dev/null; now then; rest; echo b >> f; now written; rest; cat f > /dev/null; now then;\
        touch -a -d 2001-01-01T00:00:00Z f; stat -c %X f; dd if=f of=/dev/null iflag=noatime 2> /dev/null; stat -c %X f;\
        rest; cat f > /dev/null; now then; rest; : > f; now emptied; rest; stat f > /dev/null; exec 3> f; now opened;\
        rest; echo c >&3; now written";
    let want = "made unread\nthen read\nwritten unread\nthen read\n978307200\n978307200\nthen read\nemptied unread\n\
        opened unread\nwritten unread\n";
    let options = ["--uid", "0", "--tmpfs", "/srv", "--cwd", "/srv", "sh", "-c"];
    assert_eq!(said(here.path(), &[&options[..], &[script]].concat()), want);
    let unnoted = format!("mkdir n; mount -t tmpfs -o noatime x n; cd n; {script}");
    let unread = want.replace("then read", "then unread");
    assert_eq!(said(here.path(), &[&options[..], &[&*unnoted]].concat()), unread);
    // As the kernel says of a tmpfs.
    if let Ok(native) = TempDir::new_in("/dev/shm") {
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", script]).current_dir(native.path()).output().unwrap();
        assert_eq!(text(&output.stdout), want);
    }
}
