//! `pathwalk check` as it is run: tables that hold, tables that do not, and files that are no tables.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use std::{fs, path::Path, process::Command};
use tempfile::NamedTempFile;

/// Exit status, standard output, standard error without the remark that the kernel cannot be asked.
fn check(table: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let file = NamedTempFile::with_suffix(".scn").expect("a temporary file");
    fs::write(file.path(), table).expect("it can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    let output = command.args(["check", "--scenario"]).arg(file.path()).args(args).output();
    let output = output.expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
    let stderr = text(output.stderr);
    let stderr = stderr.lines().filter(|line| !line.contains("no right to make mount"));
    (output.status.code(), text(output.stdout), stderr.collect::<Vec<_>>().join("\n"))
}

/// It says that so many calls are as Linux answered, now or when they were recorded.
fn hold(stdout: &str, calls: u32) {
    let all = format!("{calls} calls in 1 tables");
    let how = [String::new(), format!(", {calls} of them held against the record alone")];
    let said = how.map(|how| format!("{all}{how}: as Linux answered\n"));
    assert!(said.contains(&stdout.to_owned()), "{stdout}");
}

#[test]
fn a_table_that_holds_is_status_0() {
    let table = "== a title\n# a comment\nmkdirat d 0755 -> ok\nu: mkdirat d 0755 -> EEXIST\naccess d 0 -> ok\n";
    let (status, stdout, stderr) = check(table, &[]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    hold(&stdout, 3);
}

#[test]
fn a_wrong_row_is_status_1_and_shown() {
    let (status, stdout, _) = check("== a title\nmkdirat d 0755 -> EACCES\n", &[]);
    assert_eq!(status, Some(1));
    for want in [":2: a title", "root: mkdirat d 0755", "table:    EACCES", "pathwalk: ok", "WRONG"]
    {
        assert!(stdout.contains(want), "{want}:\n{stdout}");
    }
}

#[test]
fn an_answer_that_differs_on_purpose_must_be_the_one_that_is_told() {
    let told = "mknodat s 0140644 0 -> ok\nrmdir s -> EISDIR\ndiffers ENOTDIR: because\n";
    let (status, stdout, _) = check(told, &[]);
    // The kernel is held to its own answer, pathwalk to its.
    assert!(!stdout.contains("pathwalk:"), "{stdout}");
    let (other, stdout, _) = check(&told.replace("ENOTDIR", "EPERM"), &[]);
    assert!(stdout.contains("pathwalk:"), "{stdout}");
    assert_eq!((status.is_some(), other), (true, Some(1)));
}

#[test]
fn a_row_that_no_longer_differs_is_wrong() {
    for word in ["differs", "lacks"] {
        let same = format!("mkdirat d 0755 -> ok\n{word} EPERM: because\n");
        let (status, stdout, _) = check(&same, &[]);
        assert_eq!(status, Some(1));
        assert!(stdout.contains("pathwalk: ok\n    no longer differs\n"), "{stdout}");
    }
}

#[test]
fn what_is_no_table_is_status_2_in_one_line() {
    for (table, want) in [
        ("mkdir d\n", "no call is named `mkdir`"),
        ("== a\nmkdirat d\n", ":2: mkdirat: no mode"),
        ("mkdirat d rwx\n", "mkdirat: mode is not `rwx`"),
        ("mkdirat d 0755 0\n", "mkdirat: too much: `0`"),
        ("\nread h0 -1\n", ":2: read: len is not `-1`: from 0 to 16777216"),
        ("pread h0 16777217 0\n", ":1: pread: len is not `16777217`: from 0 to 16777216"),
        ("read h0 999999999999999\n", ":1: read: len is not `999999999999999`: from 0 to"),
        ("readlinkat l -1\n", ":1: readlinkat: size is not `-1`: from 0 to"),
        ("getdents64_by h0 -1\n", ":1: getdents64_by: size is not `-1`: from 0 to"),
        ("getxattr f user.a -1\n", ":1: getxattr: size is not `-1`: from 0 to"),
        ("listxattr f -1\n", ":1: listxattr: size is not `-1`: from 0 to"),
        ("inotify_read q1 -1\n", ":1: inotify_read: len is not `-1`: from 0 to"),
        ("listmount_id -1 0 -1 0\n", ":1: listmount_id: max is not `-1`: from 0 to"),
        ("stat {x*999999999999999999}\n", "}`: at most 1048576 bytes"),
        ("stat {xy*18446744073709551615}\n", "}`: at most 1048576 bytes"),
        ("stat {x*1048576}{y*1}\n", "}`: at most 1048576 bytes"),
        ("fstatat h0:{x*1048577} 0\n", ":1: fstatat: path is not `h0:{x*1048577}`: at most"),
        ("setxattr f user.a {x*1048577} 0\n", ":1: setxattr: value is not `{x*1048577}`: at most"),
        ("needs everything\n", "nothing that can be needed is `everything`"),
        ("mkdirat d 0755\nneeds slow\n", "a scenario begins with what it needs"),
        ("differs ok: why\n", "follows a call"),
        ("mkdirat d 0755 -> ok\nlacks EPERM\n", "`lacks ANSWER: why` follows a call"),
        ("mkdirat d 0755 -> ok\ndiffers ok: why\n", "no longer differs"),
    ] {
        let (status, stdout, stderr) = check(table, &[]);
        assert_eq!((status, &*stdout), (Some(2), ""), "{table}: {stderr}");
        assert!(stderr.starts_with("pathwalk check: ") && stderr.contains(want), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

/// Its calls are answered by the supervisor, whose differences `docs/run.md` lists.
#[test]
fn a_process_under_run_answers_as_the_kernel_does() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    let output =
        command.args(["check", "--engine", "notify", "--seed", "1-4", "--ops", "6000"]).output();
    let output = output.expect("it starts");
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    if !stdout.contains("calls drawn from seeds 1-4 under pathwalk run: 0 differences") {
        assert!(stdout.is_empty(), "{stdout}");
        left_out(stderr);
    }
}

/// What drawn calls once found to differ.
#[test]
fn a_process_under_run_answers_in_the_order_of_the_kernel() {
    let table = "\
== the second path is looked at second
pivot_root missing {./*2048}a -> ENOENT
renameat2 missing/a {./*2048} 0 -> ENOENT

== flags before a path that is none
unlinkat '' 0x1 -> EINVAL
fchmodat2 '' 0644 0x1 -> EINVAL

== a change of propagation goes before a move
mkdirat c 0755 -> ok
mount_tree none c MOVE|UNBINDABLE -> EINVAL

== a path that is none, from a directory that may not be searched
fchmodat2 . 00 0 -> ok
v: mount_tree b {./*2048} BIND -> ENAMETOOLONG

== the current directory is no descriptor
openat h0 f CREAT 0644 -> ok
u: linkat f/x g EMPTY_PATH -> ENOTDIR

== a mount that nobody used expires
mkdirat c 0755 -> ok
mount c 0 -> ok
umount2 c EXPIRE -> EAGAIN
umount2 c EXPIRE -> ok

== a file that is open for writing keeps its mount writable
mkdirat m 0755 -> ok
mount m 0 -> ok
openat h0 m/f CREAT|RDWR 0644 -> ok
mount_tree none m REMOUNT|RDONLY -> EBUSY
mount_tree none m REMOUNT|BIND|RDONLY -> EBUSY
umount2 / 0 -> ok
close h0 -> ok
mount_tree none m REMOUNT|RDONLY -> ok

== the root is made read-only, not unmounted
openat h0 f CREAT|RDWR 0644 -> ok
umount2 / 0 -> EBUSY
close h0 -> ok
umount2 / 0 -> ok
mkdirat d 0755 -> EROFS
";
    for engine in ["library", "notify"] {
        let (status, stdout, stderr) = check(table, &["--engine", engine]);
        assert_eq!(status, Some(0), "{engine}: {stdout}{stderr}");
        if stdout.is_empty() {
            left_out(stderr);
        } else {
            hold(&stdout, 27);
        }
    }
}

#[test]
fn what_no_process_can_be_asked_is_status_2() {
    for option in ["--ext4", "--hostfs", "--worlds", "--races", "--sysctls"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
        let output = command.args(["check", "--engine", "notify", option]).output();
        let output = output.expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let want = format!("pathwalk check: {option} is not for --engine notify\n");
        assert!(stderr.ends_with(&want), "{stderr}");
    }
}

#[test]
fn linux_md_says_what_the_scenarios_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../LINUX.md");
    let page = fs::read_to_string(page).expect("the page lies at the top of the checkout");
    let copy = NamedTempFile::new().expect("a temporary file");
    fs::write(copy.path(), &page).expect("it can be written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    let status = command.args(["check", "--linux-md"]).arg(copy.path()).status();
    assert!(status.expect("it starts").success());
    let written = fs::read_to_string(copy.path()).expect("it can be read");
    let differs = page.lines().zip(written.lines()).find(|(is, should)| is != should);
    assert!(
        page == written,
        "cargo run -p pathwalk-cli -- check --linux-md LINUX.md makes it current: {differs:?}"
    );
}

#[test]
fn a_check_that_must_ask_an_ext4_is_status_2_where_none_can_be_made() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathwalk"));
    // There mkfs.ext4 is not found.
    command.env("PATH", "/nonexistent");
    command.args(["check", "--require-kernel", "--ext4", "--ops", "10", "--seed", "1"]);
    let output = command.output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    // Whoever is not root cannot ask at all.
    assert!(stderr.contains("no ext4") || stderr.contains("takes root"), "{stderr}");
}
