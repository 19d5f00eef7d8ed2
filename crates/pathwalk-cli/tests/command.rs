//! The command as it is run: what it prints where, and its exit status.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};
use tempfile::{NamedTempFile, TempDir};

/// What a run left behind.
struct Ran {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

fn pathwalk() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pathwalk"))
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("it starts");
    Ran {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("it prints UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("it prints UTF-8"),
    }
}

/// Runs `pathwalk explain --load` on these files.
fn explain_tree(files: &str, args: &[&str]) -> Ran {
    let tree = NamedTempFile::with_suffix(".tree").unwrap();
    fs::write(tree.path(), files.replace(' ', "\t")).unwrap();
    ran(pathwalk().arg("explain").arg("--load").arg(tree.path()).args(args))
}

/// Fields with a space between them; a last one may be empty.
const FILES: &str = "\
d 0755 / \n\
d 0755 /usr \n\
d 0755 /usr/bin \n\
l 0777 /bin usr/bin\n\
l 0777 /usr/bin/cc /etc/cc\n\
d 0755 /etc \n\
l 0777 /etc/cc ../usr/bin/gcc\n\
f 0755 /usr/bin/gcc \n\
d 0750 /root \n\
f 0644 /root/notes \n\
l 0777 /loop /loop\n";

#[test]
fn a_path_through_symlinks_is_explained() {
    let ran = explain_tree(FILES, &["--uid", "1000", "--access", "x", "/bin/cc"]);
    let want = "\
/bin/cc as user 1000, group 1000

  component  mode        owner  inode  mount  walk  what happened
  /          drwxr-xr-x  0:0        1      2  rcu   search: everyone may
  bin        lrwxrwxrwx  0:0        4      2  rcu   symlink 1 of 40 to usr/bin
    usr      drwxr-xr-x  0:0        2      2  rcu   search: everyone may
    bin      drwxr-xr-x  0:0        3      2  rcu   search: everyone may
  cc         lrwxrwxrwx  0:0        5      2  rcu   symlink 2 of 40 to /etc/cc
    /        drwxr-xr-x  0:0        1      2  rcu   search: everyone may
    etc      drwxr-xr-x  0:0        6      2  rcu   search: everyone may
    cc       lrwxrwxrwx  0:0        7      2  rcu   symlink 3 of 40 to ../usr/bin/gcc
    ..       drwxr-xr-x  0:0        1      2  rcu   search: everyone may
    usr      drwxr-xr-x  0:0        2      2  rcu   search: everyone may
    bin      drwxr-xr-x  0:0        3      2  rcu   search: everyone may
    gcc      -rwxr-xr-x  0:0        8      2  rcu   arrived

It is /usr/bin/gcc, a regular file.
The access is granted: everyone may.
3 symlinks of 40 were followed; the walk held nothing (RCU-walk).
";
    assert_eq!((ran.status, &*ran.stdout, &*ran.stderr), (Some(0), want, ""));
}

/// Rows: what is asked, and what is said of it below the table.
#[test]
fn an_error_is_named_with_its_place() {
    let rows: &[(&[&str], &str)] = &[
        (
            &["--uid", "1000", "/usr/bin/../lib/x"],
            "ENOENT (No such file or directory): there is no /usr/lib.",
        ),
        (
            &["--uid", "1000", "/bin/gcc/x"],
            "ENOTDIR (Not a directory): /usr/bin/gcc is a regular file, and a directory is needed.",
        ),
        (
            &["--uid", "1000", "/root/notes"],
            "EACCES (Permission denied): /root may not be searched: user 1000 is not the owner 0, group 0 is none of \
             its groups, and others' bits --- lack x.",
        ),
        (
            &["--uid", "1000", "--groups", "4,0", "--access", "rw", "/root/notes"],
            "EACCES (Permission denied): /root/notes may not be used so: group 0 is one of its groups, and the \
             group's bits r-- lack what is asked for.",
        ),
        (
            &["--uid", "1000", "--cwd", "/etc", "../loop/x"],
            "ELOOP (Too many levels of symbolic links): /loop would be symlink 41 of 40 that may be followed.",
        ),
        (&["--uid", "1000", ""], "ENOENT (No such file or directory): the path is empty."),
    ];
    for (args, want) in rows {
        let ran = explain_tree(FILES, args);
        assert_eq!((ran.status, &*ran.stderr), (Some(1), ""), "{args:?}");
        assert!(ran.stdout.lines().any(|line| line == *want), "{args:?}\n{}", ran.stdout);
    }
}

#[test]
fn a_loop_is_followed_forty_times() {
    let ran = explain_tree(FILES, &["--uid", "1000", "/loop"]);
    assert_eq!(ran.status, Some(1));
    let links: Vec<&str> =
        ran.stdout.lines().filter(|line| line.contains(" of 40 to /loop")).collect();
    assert_eq!(links.len(), 40, "{}", ran.stdout);
    assert!(links[39].contains("symlink 40 of 40 to /loop"), "{}", links[39]);
    let last = ran.stdout.lines().rfind(|line| line.ends_with("ELOOP")).expect("the 41st");
    let row: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(row[..2], ["loop", "lrwxrwxrwx"], "{last}");
}

#[test]
fn the_first_lookup_says_why_it_had_to_hold_its_place() {
    let ran = explain_tree(FILES, &["--uid", "1000", "--first", "/bin/gcc"]);
    let why =
        "had to hold its place (ref-walk): the symlink's time of last access is to be written.";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    assert_eq!(ran.status, Some(0));
}

#[test]
fn a_symlink_at_the_end_is_not_followed_where_that_is_asked_for() {
    let ran = explain_tree(FILES, &["--uid", "1000", "--no-follow", "/loop"]);
    assert!(ran.stdout.contains("\nIt is /loop, a symlink.\n"), "{}", ran.stdout);
    assert_eq!(ran.status, Some(0));
}

#[test]
fn json_is_one_object_on_one_line() {
    let ran = explain_tree(FILES, &["--uid", "1000", "--json", "/bin/cc"]);
    assert_eq!((ran.status, ran.stdout.lines().count()), (Some(0), 1));
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["result"], "OK");
    assert_eq!(value["resolved"], "/usr/bin/gcc");
    assert_eq!((&value["links"], &value["walk"]), (&3.into(), &"rcu".into()));
    assert_eq!(value["steps"][1]["name"], "bin");
    assert_eq!(value["steps"][1]["link"]["target"], "usr/bin");
    assert_eq!(value["steps"][2]["mode"], "0755");

    let ran = explain_tree(FILES, &["--uid", "1000", "--json", "/root/notes"]);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.status, &value["result"]), (Some(1), &"EACCES".into()));
    assert_eq!(value["failure"]["errno"], 13);
    assert_eq!(value["failure"]["path"], "/root");
    assert_eq!(value["steps"][1]["search"]["allowed"], false);
}

#[test]
fn names_that_are_no_text_are_shown_so_that_none_is_mistaken() {
    let dir = TempDir::new().unwrap();
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"a\xff\x1b[2J");
    fs::write(dir.path().join(name), "").unwrap();
    let explain = |args: &[&str]| {
        let mut command = pathwalk();
        ran(command.arg("explain").arg("--load").arg(dir.path()).args(args).arg(name))
    };
    let text = explain(&[]);
    assert!(text.stdout.contains("\nIt is /a\\xff\\x1b[2J, a regular file.\n"), "{}", text.stdout);
    let json = explain(&["--json"]);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["steps"][1]["name"]["hex"], "61ff1b5b324a");
}

/// A directory of the host is looked up in as it is, and what lies outside is not there.
#[test]
fn a_directory_of_the_host_is_the_root() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/file"), "text").unwrap();
    symlink("/etc/file", dir.path().join("link")).unwrap();
    let explain =
        |args: &[&str]| ran(pathwalk().args(["explain", "--host"]).arg(dir.path()).args(args));
    let later = explain(&["--uid", "0", "/link"]);
    assert_eq!(later.status, Some(0), "{}", later.stdout);
    assert!(later.stdout.contains("\nIt is /etc/file, a regular file.\n"), "{}", later.stdout);
    assert!(later.stdout.contains("the walk held nothing"), "{}", later.stdout);
    let first = explain(&["--uid", "0", "--first", "/link"]);
    assert!(first.stdout.contains("held from here on"), "{}", first.stdout);
    let outside = explain(&["--uid", "0", "/etc/passwd"]);
    assert_eq!(outside.status, Some(1));
    assert!(outside.stdout.contains("there is no /etc/passwd"), "{}", outside.stdout);
    assert_eq!(explain(&["--load", "/", "/"]).status, Some(2), "it is one or the other");
    assert_eq!(ran(pathwalk().args(["explain", "--host", "/none", "/"])).status, Some(2));
}

/// What a directory holds is loaded with its modes and links, and looked up as if it were the root.
#[test]
fn a_directory_is_loaded_as_the_root() {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("etc/deep")).unwrap();
    fs::write(root.join("etc/deep/file"), "text").unwrap();
    fs::hard_link(root.join("etc/deep/file"), root.join("etc/other")).unwrap();
    symlink("/etc/deep", root.join("link")).unwrap();
    fs::set_permissions(root.join("etc/deep"), fs::Permissions::from_mode(0o2711)).unwrap();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();

    let explain = |args: &[&str]| ran(pathwalk().arg("explain").arg("--load").arg(root).args(args));
    let all = explain(&["/../link/file"]);
    assert_eq!((all.status, &*all.stderr), (Some(0), ""), "{}", all.stdout);
    assert!(all.stdout.contains("\nIt is /etc/deep/file, a regular file.\n"), "{}", all.stdout);
    assert!(all.stdout.contains("drwx--s--x"), "{}", all.stdout);
    let inode = |path: &str| {
        let json = explain(&["--json", path]).stdout;
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        value["steps"].as_array().unwrap().last().unwrap()["ino"].as_u64().unwrap()
    };
    assert_eq!(inode("/etc/deep/file"), inode("/etc/other"), "two names of one file");
    assert_ne!(inode("/etc/deep"), inode("/etc/other"));
    let relative = explain(&["--cwd", "/etc", "deep/none"]);
    assert_eq!(relative.status, Some(1));
    assert!(relative.stdout.contains("there is no /etc/deep/none."), "{}", relative.stdout);
}

#[test]
fn what_could_not_be_read_is_said_and_not_taken_for_absent() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    for sub in ["open", "shut/below"] {
        fs::create_dir_all(root.join(sub)).unwrap();
    }
    // Where the tests run as root, who may read everything, the command runs as somebody else.
    let copy = dir.path().join("pathwalk");
    // By a process of its own: what this one has open for writing cannot be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_pathwalk")).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    let explain = |path: &str| {
        let mut command = Command::new(&copy);
        command.args(["explain", "--load"]).arg(&root).args(["--uid", "0", path]);
        if runs_as_root() {
            command.uid(65_534).gid(65_534).current_dir("/");
        }
        ran(&mut command)
    };
    let skipped = format!("pathwalk: skipped {}/shut: EACCES (Permission denied)", root.display());
    let sum = format!("pathwalk: {}: 3 files loaded; skipped 1, unreadable or ", root.display());
    for (path, status, more) in [
        ("/open", 0, None),
        ("/none", 1, None),
        ("/shut", 0, None),
        ("/shut/below", 2, Some("pathwalk: /shut was not loaded: EACCES (Permission denied)")),
    ] {
        let ran = explain(path);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert_eq!(ran.status, Some(status), "{path}: {}", ran.stderr);
        assert_eq!(lines[0], skipped, "{path}");
        assert!(lines[1].starts_with(&sum), "{path}: {}", lines[1]);
        assert_eq!(lines.get(2).copied(), more, "{path}");
    }
    fs::set_permissions(root.join("shut"), fs::Permissions::from_mode(0o700)).unwrap();
}

fn runs_as_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Without `--load` it is about this machine, and the running kernel has the last word.
#[test]
fn the_running_kernel_agrees_about_its_own_files() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/file"), "").unwrap();
    symlink("d/../d/file", path("link")).unwrap();
    symlink("loop", path("loop")).unwrap();
    let explain = |args: &[&str], target: &Path| {
        ran(pathwalk().arg("explain").args(args).arg(target).current_dir(dir.path()))
    };
    for (args, target, status) in [
        (&[][..], path("link"), 0),
        (&["--access", "w"], path("link"), 0),
        (&["--no-follow"], path("loop"), 0),
        (&[], path("loop"), 1),
        (&[], path("d/file/x"), 1),
        (&[], path("none"), 1),
        (&[], "link".into(), 0),
        (&["--cwd", "d"], "../d/./file".into(), 0),
        (&[], "/".into(), 0),
        (&[], "/proc/self/status".into(), 0),
        (&["--access", "x"], "/proc/self/status".into(), 1),
        (&[], "/dev/../dev/null".into(), 0),
        (&[], "".into(), 1),
    ] {
        let ran = explain(args, &target);
        assert_eq!((ran.status, &*ran.stderr), (Some(status), ""), "{target:?}\n{}", ran.stdout);
        let agrees = ran.stdout.ends_with("The running kernel answers the same.\n");
        assert!(agrees, "{target:?}\n{}", ran.stdout);
    }
    // It is not asked for somebody else.
    let other = explain(&["--uid", "0"], &path("link"));
    assert!(!other.stdout.contains("kernel"), "{}", other.stdout);
}

/// A link of /proc may say one thing and lead to another: the kernel's answer differs, and that is an error.
#[test]
fn an_answer_that_the_kernel_does_not_give_is_not_passed_off() {
    let mut command = pathwalk();
    command.args(["explain", "/proc/self/fd/0"]).stdin(std::process::Stdio::piped());
    let ran = ran(&mut command);
    // The link reads pipe:[…], which is no path; the kernel follows it all the same.
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.ends_with("But the running kernel finds it.\n"), "{}", ran.stdout);
}

#[test]
fn what_cannot_be_used_is_one_line_and_status_2() {
    let bad = NamedTempFile::new().unwrap();
    fs::write(bad.path(), "d\t0755\t/\t\nf\t0644\t/a/b\t\n").unwrap();
    let bad = bad.path().to_str().unwrap();
    let tree = format!("pathwalk: {bad}: line 2: /a is not a directory listed before it");
    let rows: &[(&[&str], &str)] = &[
        (&[], "pathwalk: a command is missing (see pathwalk --help)"),
        (&["exlain"], "pathwalk: unrecognized subcommand 'exlain'"),
        (&["explain"], "pathwalk: the following required arguments were not provided: <PATH>"),
        (&["explain", "/", "--lod", "x"], "pathwalk: unexpected argument '--lod' found"),
        (&["explain", "/", "--uid", "root"], "pathwalk: invalid value 'root' for '--uid <ID>'"),
        (&["explain", "/", "--access", "rq"], "pathwalk: invalid value 'rq' for '--access <rwx>'"),
        (&["explain", "/", "--first"], "pathwalk: the following required arguments were not"),
        (
            &["explain", "/", "--load", "/none"],
            "pathwalk: /none: ENOENT (No such file or directory)",
        ),
        (&["explain", "/", "--load", bad], &tree),
        (
            &["explain", "x", "--cwd", "/none"],
            "pathwalk: /none: ENOENT (No such file or directory)",
        ),
        (&["bench"], "pathwalk: the following required arguments were not provided: <BENCH>"),
        (&["bench", "gcc-204"], "pathwalk: invalid value 'gcc-204' for '[BENCH]'"),
        (&["check", "--seed", "7-3"], "pathwalk: invalid value '7-3' for '--seed <S|S-T>'"),
        (
            &["check", "--worlds", "--slice", "3/2"],
            "pathwalk: invalid value '3/2' for '--slice <K/N>'",
        ),
        (&["check", "--record"], "pathwalk: the following required arguments were not provided"),
        (&["check", "--scenario", "/none"], "pathwalk check: /none: No such file or directory"),
    ];
    for (args, want) in rows {
        let ran = ran(pathwalk().args(*args));
        assert_eq!((ran.status, &*ran.stdout), (Some(2), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(want), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches('\n').count(), 1, "{args:?}: {}", ran.stderr);
    }
    let cwd = explain_tree(FILES, &["--cwd", "/none", "x"]);
    assert_eq!(cwd.status, Some(2));
    assert_eq!(cwd.stderr, "pathwalk: --cwd /none: ENOENT (No such file or directory)\n");
}

#[test]
fn help_teaches_with_examples() {
    for (args, wants) in [
        (&["--help"][..], &["explain", "bench", "pathwalk explain /usr/bin/cc"][..]),
        (
            &["explain", "--help"],
            &[
                "--load <DIR|FILE>",
                "--no-follow",
                "what happened",
                "exit status",
                "d<TAB>0755<TAB>/usr",
            ],
        ),
        (&["check", "--help"], &["--scenario <FILE>", "exit status", "u: openat h0 d/f"]),
        (&["bench", "--help"], &["--threads", "pathwalk bench gcc-205"]),
        (&["--version"], &["pathwalk 0."]),
    ] {
        let ran = ran(pathwalk().args(args));
        assert_eq!((ran.status, &*ran.stderr), (Some(0), ""), "{args:?}");
        for want in wants {
            assert!(ran.stdout.contains(want), "{args:?} says {want}:\n{}", ran.stdout);
        }
    }
}

#[test]
fn whoever_stops_reading_is_no_error() {
    for args in PRINT {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = pathwalk().args(*args).stdout(writer).output().expect("it starts");
        assert_eq!((ran.status.code(), &*ran.stderr), (Some(0), &b""[..]), "{args:?}");
    }
}

/// What goes to standard output.
const PRINT: &[&[&str]] =
    &[&["explain", "/"], &["help", "mounts"], &["run", "--help"], &["completions", "bash"]];

#[test]
fn what_cannot_be_printed_is_an_error() {
    for args in PRINT {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = pathwalk().args(*args).stdout(full).output().expect("it starts");
        let said = String::from_utf8(ran.stderr).unwrap();
        let want = "pathwalk: standard output: ENOSPC (No space left on device)\n";
        assert_eq!((ran.status.code(), &*said), (Some(2), want), "{args:?}");
    }
}

/// Another user asks the kernel in a user namespace, by one user, and says what that leaves out.
#[test]
fn check_draws_calls_without_root() {
    // What root built may lie where others cannot search.
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("pathwalk");
    // Another process copies it: what is open for writing, if only in a child of another test, is not run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_pathwalk")).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&program);
    command.args(["check", "--ops", "2000", "--seed", "1"]).current_dir("/").env_remove("TMPDIR");
    let output = match command.uid(65_534).gid(65_534).output() {
        Ok(output) => output,
        Err(error) => return left_out(format_args!("only root can become another: {error}")),
    };
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{stdout}{stderr}");
    if stderr.contains("no right to make mount namespaces") {
        return left_out(format_args!("no user namespaces here: {stderr}"));
    }
    assert!(stderr.contains("not root: the kernel is asked in a user namespace"), "{stderr}");
    assert!(stdout.contains("calls drawn from seed 1: 0 differences"), "{stdout}");
}
