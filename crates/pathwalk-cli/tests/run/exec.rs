//! Programs that are exchanged, or whose path is, at the moment in which they are run.

use crate::{
    attacks::{Attack, cc},
    common::{can_run, copy, run, said, text},
    inside::{self, Teller, in_the_tree},
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

#[test]
fn programs_whose_path_a_thread_rewrites_do_not_run() {
    let Some(attack) = Attack::new() else { return };
    let rewritten = ["rewritten", "exec", &reached(&attack, "program"), "/bin/true"];
    assert_eq!(attack.said(&rewritten), "never\n");
}

/// What the first line says is given to the interpreter, which the tree has.
#[test]
fn no_script_that_is_put_in_the_place_of_its_interpreter_tells_what_is_in_it() {
    let Some(attack) = Attack::new() else { return };
    let script = attack.outside("script");
    fs::write(&script, "#!/usr/bin/env -S sh -c 'exit 77'\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let rewritten = ["rewritten", "exec", &script, "/usr/bin/env"];
    assert_eq!(attack.natively(&rewritten), "REACHED\n");
    assert_eq!(attack.said(&rewritten), "never\n");
    // Where the thread gets a descriptor, and a path by which nothing is, that ends where this one does.
    let behind = format!("/usr/bin/env{script}");
    let by_descriptor = ["--uid", "0", "./attack", "rewritten", "exec", &behind, "/usr/bin/env"];
    assert_eq!(said(attack.here.path(), &by_descriptor), "never\n");
}

#[test]
fn scripts_in_a_read_only_mount_are_given_what_they_say_and_no_other_ones() {
    let Some(attack) = Attack::new() else { return };
    fs::create_dir(attack.here("ro")).unwrap();
    let dir = attack.here("ro").display().to_string();
    let bind = format!("{dir}:{dir}:ro");
    let script = |path: &Path, text: &str| {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let says = "echo $0 $@ $-; tr '\\0' ' ' < /proc/$$/cmdline; cat /proc/$$/comm";
    script(&attack.here("ro/plain"), &format!("#!/bin/sh\n{says}\n"));
    script(&attack.here("ro/one"), &format!("#! /bin/sh -f \n{says}\n"));
    script(&attack.here("ro/short"), "#!/bin/sh -f\necho $0 $@ $-\n");
    script(&attack.here("ro/two"), &format!("#!{dir}/short\n"));
    script(&attack.here("ro/none"), "#!/missing\n");
    script(&attack.here("ro/wrong"), "\x7fELF");
    let calls =
        ["plain", "one", "two", "none", "wrong"].map(|name| format!("{dir}/{name} a 'b c';"));
    let all = format!("ulimit -c 0; {} exit 0", calls.concat());
    let native = Command::new("sh").args(["-c", &all]).output().unwrap();
    let ours = run(attack.here.path(), &["--bind", &bind, "sh", "-c", &all]);
    assert_eq!(text(&ours.stdout), text(&native.stdout));
    assert_eq!(text(&ours.stderr), text(&native.stderr));
    script(&attack.here("ro/mine"), "#!/usr/bin/env true\n");
    let theirs = attack.outside("script");
    script(theirs.as_ref(), "#!/usr/bin/env -S sh -c 'exit 77'\n");
    let mine = attack.here("ro/mine").display().to_string();
    let rewritten = ["rewritten", "exec", &theirs, &mine];
    assert_eq!(attack.natively(&rewritten), "REACHED\n");
    let rewritten = [&["--bind", &bind, "./attack"], &rewritten[..]].concat();
    assert_eq!(said(attack.here.path(), &rewritten), "never\n");
}

/// The kernel does the call, and cannot.
#[test]
fn a_program_that_somebody_outside_writes_is_busy() {
    let Some(attack) = Attack::new() else { return };
    let (program, dir) = (attack.outside("program"), attack.outside.path().display());
    copy("/bin/true", &program);
    let writer = fs::OpenOptions::new().append(true).open(&program).unwrap();
    let runs = |program: &str| format!("{program} 2> /dev/null; echo $?");
    let bind = format!("{dir}:{dir}:ro");
    let said = || said(attack.here.path(), &["--bind", &bind, "sh", "-c", &runs(&program)]);
    assert_eq!(said(), "126\n");
    drop(writer);
    assert_eq!(said(), "0\n");
}

#[test]
fn who_runs_what_somebody_outside_exchanges_is_not_killed() {
    let Some(attack) = Attack::new() else { return };
    let (one, other) = (attack.outside("one"), attack.outside("other"));
    for path in [&one, &other] {
        copy("/bin/true", path);
    }
    let dir = attack.outside.path().display();
    let run = format!("echo begun; for n in $(seq 500); do {one} || echo $?; done");
    let bind = format!("{dir}:{dir}:ro");
    let said = exchanging(&one, &other, || {
        in_the_tree(attack.here.path(), &["--bind", &bind, "sh", "-c", &run])
    });
    assert_eq!(said, "");
}

/// Though what is run again is not looked for each time.
#[test]
fn what_somebody_outside_puts_in_the_place_of_a_program_that_is_run_again_does_not_run() {
    let Some(attack) = Attack::new() else { return };
    fs::create_dir(attack.here("ro")).unwrap();
    let [dir, program, link] =
        ["ro", "ro/program", "ro/link"].map(|name| attack.here(name).display().to_string());
    copy("/bin/true", &program);
    let reached = reached(&attack, "program");
    std::os::unix::fs::symlink(reached, &link).unwrap();
    is_not_reached(&attack, &dir, (&program, 3000), [&program, &link]);
}

/// Of what lies above a bound directory on the host nobody tells, and the tree has something else there.
#[test]
fn what_lies_by_the_path_of_a_bound_directory_by_now_does_not_run() {
    let Some(attack) = Attack::new() else { return };
    let [top, other] = ["top", "other"].map(|name| attack.outside(name));
    for dir in [&top, &other] {
        fs::create_dir_all(format!("{dir}/ro")).unwrap();
    }
    let (dir, program) = (format!("{top}/ro"), format!("{top}/ro/program"));
    copy("/bin/true", &program);
    reached(&attack, "other/ro/program");
    is_not_reached(&attack, &dir, (&program, 500), [&top, &other]);
}

/// A program that is the host's alone, and tells that it ran.
fn reached(attack: &Attack, name: &str) -> String {
    fs::write(attack.outside("m.c"), "int main(void) { return 77; }").unwrap();
    cc(attack.outside.path(), &["-o", name, "m.c"]);
    attack.outside(name)
}

/// Of so many runs of a program in a bound directory, while these are exchanged, none is of the other one; natively some are.
fn is_not_reached(
    attack: &Attack,
    dir: &str,
    (program, count): (&str, u32),
    [one, other]: [&str; 2],
) {
    let run = format!(
        "echo begun; ran=no; for n in $(seq {count}); do {program}; case $? in 0) ran=yes;; 77) echo REACHED;; esac; done 2>/dev/null; echo ended, $ran"
    );
    let native = || {
        let mut command = Command::new("sh");
        command.args(["-c", &run]);
        command
    };
    let said = exchanging(one, other, native);
    assert!(said.starts_with("REACHED\n"), "{said}");
    let bind = format!("{dir}:{dir}:ro");
    let ours = || in_the_tree(attack.here.path(), &["--bind", &bind, "sh", "-c", &run]);
    assert_eq!(exchanging(one, other, ours), "ended, yes\n");
}

/// What a program says while two names are exchanged every some milliseconds, behind its first line. They are then as they were.
fn exchanging(one: &str, other: &str, command: impl FnOnce() -> Command) -> String {
    let mut ran = command().stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut says = BufReader::new(ran.stdout.take().unwrap());
    let (mut first, mut said) = (String::new(), String::new());
    says.read_line(&mut first).unwrap();
    assert_eq!(first, "begun\n");
    while ran.try_wait().unwrap().is_none() {
        for _ in 0..2 {
            let (cwd, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
            rustix::fs::renameat_with(cwd, one, cwd, other, flags).unwrap();
            thread::sleep(Duration::from_millis(5));
        }
    }
    says.read_to_string(&mut said).unwrap();
    said
}

/// What is run again and again is not looked for each time, and is what its path leads to by then.
#[test]
fn what_is_run_again_is_what_its_path_leads_to_by_then() {
    if !can_run(&["cc", "sh"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    fs::create_dir_all(here.path().join("data/bin")).unwrap();
    fs::write(
        here.path().join("says.c"),
        "int puts(const char *);\nint main(void) { puts(SAYS); return 0; }\n",
    )
    .unwrap();
    for says in ["one", "two"] {
        let says_it = format!("-DSAYS=\"{says}\"");
        cc(here.path(), &[&says_it, "-o", &format!("data/{says}"), "says.c"]);
        cc(here.path(), &[&says_it, "-static", "-o", &format!("data/{says}-static"), "says.c"]);
    }
    let data = here.path().join("data");
    let change = |change: &str| {
        let mut other = Command::new("sh");
        assert!(other.args(["-c", change]).current_dir(&data).status().unwrap().success());
    };
    change("cp one bin/program");
    let bind = format!("{0}:{0}:ro", data.display());
    let script =
        format!("while read line; do {}/bin/program 2>/dev/null; echo $?; done", data.display());
    let mut command = in_the_tree(here.path(), &["--inside", "1", "--bind", &bind]);
    command.args(["sh", "-c", &script]);
    let mut tree = Teller::of(command);
    let mut says = |what: &str, when: &str| {
        // It is kept at the second time, and found at the third.
        for _ in 0..4 {
            let mut told = tree.tells_after("");
            if let "one" | "two" = &told[..] {
                told = format!("{told} {}", tree.tells());
            }
            assert_eq!(told, what, "{when}");
        }
    };
    let changes = [
        ("true", "one 0"),
        ("cp two new; mv new bin/program", "two 0"),
        ("cat one > bin/program", "one 0"),
        ("chmod 644 bin/program", "126"),
        ("chmod 755 bin/program", "one 0"),
        ("rm bin/program", "127"),
        ("cp two-static bin/program", "two 0"),
        ("cp one-static new; mv new bin/program", "one 0"),
        ("mv bin old; mkdir bin; cp two bin/program", "two 0"),
        ("rm -r bin; mv old bin", "one 0"),
        ("rm bin/program; ln -s ../two bin/program", "two 0"),
        ("ln -sf ../one bin/program", "one 0"),
        ("cp two new; mv new one", "two 0"),
        (
            "rm bin/program; printf '#!/bin/sh\\nexit 3\\n' > bin/program; chmod 755 bin/program",
            "3",
        ),
        ("rm bin/program; mkdir bin/program", "126"),
    ];
    for (what, then) in changes {
        change(what);
        says(then, what);
    }
}

/// The kernel counts the path, too, and no stack grows further than it may: what does not fit is not run, and nobody is killed that would not
/// be natively.
#[test]
fn arguments_that_do_not_fit_are_as_natively() {
    if !can_run(&["cc"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/too_big.c");
    cc(here.path(), &["-o", "too_big", source]);
    for words in [
        ["3900", "0", "0", "2090000", "2098000", "400"],
        ["20", "65536", "0", "20000", "110000", "10000"],
        ["20", "0", "65536", "65000", "66000", "50"],
        ["9", "0", "0", "2096900", "2096999", "3"],
    ] {
        let native = inside::said(Command::new("./too_big").args(words).current_dir(here.path()));
        for inside in ["0", "1"] {
            let mut command = in_the_tree(here.path(), &["--inside", inside]);
            assert_eq!(inside::said(command.arg("./too_big").args(words)), native, "{words:?}");
        }
    }
    // A script's interpreter is given more, which may be what does not fit into a page.
    fs::write(here.path().join("script"), "#!/bin/sh -e\nexit 0\n").unwrap();
    fs::set_permissions(here.path().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    let runs =
        "for n in $(seq 3000 7 4200); do env -i X=$(printf %0${n}d 1) ./script || echo $n; done";
    assert_eq!(inside::said(in_the_tree(here.path(), &[]).args(["sh", "-c", runs])), "");
}

/// What others do to a process in the middle of exec: it waits only as long as nobody is needed for that, and is done once.
#[test]
fn who_is_in_exec_is_written_to_and_opened_as_natively() {
    if !can_run(&["cc"]) {
        return;
    }
    let (dir, here) = (TempDir::new_in("/var/tmp").unwrap(), TempDir::new().unwrap());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/in_exec.c");
    cc(dir.path(), &["-o", "in_exec", source, "-lpthread"]);
    let program = dir.path().join("in_exec").display().to_string();
    let bind = format!("{0}:{0}:ro", dir.path().display());
    for what in ["traced", "again"] {
        let want = inside::said(Command::new(&program).arg(what).current_dir(&here));
        for options in [&["--bind", &bind][..], &["--uid", "0", "--bind", &bind]] {
            let mut command = in_the_tree(here.path(), options);
            assert_eq!(inside::said(command.args([&program, what])), want, "{options:?} {what}");
        }
    }
}

/// The kernel follows a script's interpreter that is a script five times.
#[test]
fn scripts_of_scripts_end_where_the_kernel_ends_them() {
    if !can_run(&["cc", "sh"]) {
        return;
    }
    let (dir, here) = (TempDir::new_in("/var/tmp").unwrap(), TempDir::new_in("/tmp").unwrap());
    let shows = "#include <stdio.h>\nint main(int c, char **v) { for (int n = 0; n < c; n++) puts(v[n]); return 0; }\n";
    // The last one is a program; each other one is run by the one before it.
    let script = "make() { cc -o s0 \"$1\" || exit 99; for n in 1 2 3 4 5 6 7; do printf '#!%s/s%d of %d\\n' \"$2\" $((n - 1)) $n > s$n; done
chmod 755 s?; }
chain() { for n in 1 2 3 4 5 6 7; do echo depth $n; \"$1/s$n\" a 'b c'; echo $?; (exec \"$1/s$n\" d); echo $?; done 2>&1; }";
    fs::write(here.path().join("shows.c"), shows).unwrap();
    let bash = |script: &str| ["-c".to_owned(), script.to_owned()];
    let source = here.path().join("shows.c").display().to_string();
    let (on_disk, here_) = (dir.path().display().to_string(), here.path().display().to_string());
    // Where it is only read, by relative names, in the current directory, and in memory.
    let made = format!("{script}; cd {on_disk}; make {source} {on_disk}");
    assert!(Command::new("sh").args(bash(&made)).status().unwrap().success());
    let bind = format!("{on_disk}:{on_disk}:ro");
    let rows = [
        format!("{script}; chain {on_disk}"),
        format!("{script}; cd {on_disk}; chain ."),
        format!("{script}; make shows.c {here_}; chain {here_}; chain .; rm s?"),
        format!("{script}; make shows.c .; chain .; cd /; chain {here_}; cd {here_}; rm s?"),
        format!(
            "{script}; mkdir /tmp/m.$$; cd /tmp/m.$$; make {source} .; chain .; cd /; rm -r /tmp/m.$$"
        ),
    ];
    for row in rows {
        let mut native = Command::new("sh");
        let want = inside::said(native.args(bash(&row)).current_dir(here.path()));
        assert!(want.contains("depth 5\n") && want.contains("depth 6\n"), "{want}");
        for options in [
            &["--bind", &bind][..],
            &["--uid", "0", "--bind", &bind],
            &["--inside", "0", "--bind", &bind],
        ] {
            let mut command = in_the_tree(here.path(), options);
            let said = inside::said(command.arg("sh").args(bash(&row)));
            assert_eq!(said, want, "{options:?} {row}");
        }
    }
}
