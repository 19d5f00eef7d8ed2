//! What a program is told that it is: its path, what it was called by, and its process's name.

use crate::{
    attacks::cc,
    common::{can_run, said},
    left_out::left_out,
    programs::same,
};
use std::{fs, os::unix::fs::symlink, path::Path};
use tempfile::TempDir;

/// Says what it is; with an argument also what a child of it is, and what it is when it is run by what it is.
const SAYS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void says(const char *who, const char *name) {
    char exe[300], comm[20], of_kernel[20] = "";
    int len = readlink("/proc/self/exe", exe, 299);
    exe[len < 0 ? 0 : len] = 0;
    prctl(PR_GET_NAME, comm);
    FILE *file = fopen("/proc/self/comm", "r");
    if (file && fgets(of_kernel, 20, file)) of_kernel[strcspn(of_kernel, "\n")] = 0;
    printf("%s: %s is %s, run as %s, %s %s\n", who, name, exe, (char *)getauxval(AT_EXECFN), comm, of_kernel);
    fflush(stdout);
}
int main(int count, char **args) {
    says("it", args[0]);
    if (count == 1) return 0;
    int child = fork();
    if (child == 0) { says("its child", args[0]); return 0; }
    int status;
    waitpid(child, &status, 0);
    execl("/proc/self/exe", "again", NULL);
    return 1;
}
"#;

#[test]
fn a_program_is_told_how_it_was_run() {
    same(
        &["cc", "bash"],
        &format!(
            r##"cat > m.c <<'END'
{SAYS}
END
d=/tmp/$$; mkdir $d; cc -o $d/program m.c; cc -static -o $d/static m.c; cd $d; ln -s program link; ln -s $d/link with-a-name-that-is-too-long
printf '#!./link\n' > script; printf '#!%s/script -x\n' $d > second; chmod 755 script second
say() {{ "$@" | sed "s,$d,here,g"; }}
for name in ./program ./link ./static ./script ./second ./with-a-name-that-is-too-long; do say $name; say $name with; done
PATH=$d:$PATH; say link; bash -c 'exec -a other ./link one' | sed "s,$d,here,g"; cd bin 2> /dev/null || cd /; rm -r $d"##
        ),
    );
}

/// One signal tells of all who stopped since the last one; who is forgotten of them waits for ever. `sed` makes so many calls here that
/// it is stopped too.
#[test]
fn who_stops_at_the_same_time_as_another_one_goes_on() {
    same(
        &["cc"],
        &format!(
            r##"cat > m.c <<'END'
{SAYS}
END
d=/tmp/$$; mkdir $d; cc -o $d/program m.c; cd $d; export LC_ALL=C.UTF-8
i=0; while [ $i -lt 100 ]; do i=$((i + 1)); ./program with | sed s,$d,here,g; done; cd /; rm -r $d"##
        ),
    );
}

#[test]
fn a_process_that_names_itself_keeps_the_name() {
    same(
        &["bash"],
        r#"ln -s "$(command -v bash)" named; ./named -c 'cat /proc/$$/comm; echo mine > /proc/$$/comm; cat /proc/$$/comm; (cat /proc/$BASHPID/comm)'
printf '#!/usr/bin/env bash\ncat /proc/$$/comm\n' > script; chmod 755 script; ./script; (exec ./script)"#,
    );
}

/// A tree with an interpreter of its own, which is changed so.
fn tree(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Option<TempDir> {
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let libraries = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
    let library = libraries.into_iter().map(Path::new).find(|path| path.exists());
    let (Some(library), true, true) = (library, loader.exists(), can_run(&["cc"])) else {
        left_out("no interpreter of the GNU C library");
        return None;
    };
    let tree = TempDir::new().unwrap();
    for dir in ["lib64", "bin", "proc", "dev", "tmp"] {
        fs::create_dir(tree.path().join(dir)).unwrap();
    }
    let at = |path: &Path| tree.path().join(path.strip_prefix("/").unwrap());
    fs::copy(loader, at(loader)).unwrap();
    fs::write(at(loader), change(fs::read(loader).unwrap())).unwrap();
    fs::create_dir_all(at(library).parent().unwrap()).unwrap();
    fs::copy(library, at(library)).unwrap();
    fs::write(tree.path().join("m.c"), SAYS).unwrap();
    cc(tree.path(), &["-o", "bin/program", "m.c"]);
    symlink("program", tree.path().join("bin/link")).unwrap();
    Some(tree)
}

fn says(tree: &Path, program: &str) -> String {
    said(tree, &["--rootfs", &tree.display().to_string(), program, "with"])
}

#[test]
fn a_program_whose_interpreter_was_run_for_it_is_that_program() {
    let Some(tree) = tree(|loader| loader) else { return };
    // The interpreter itself says by which path it was given the program.
    let want = "\
it: /bin/link is /bin/program, run as /bin/program, link link
its child: /bin/link is /bin/program, run as /bin/program, link link
it: again is /bin/program, run as /bin/program, exe exe
";
    assert_eq!(says(tree.path(), "/bin/link"), want);
}

#[test]
fn an_interpreter_from_before_argv0_runs_programs_too() {
    let word = b"\0--argv0\0";
    let older = |mut loader: Vec<u8>| {
        let at = loader.windows(word.len()).position(|bytes| bytes == word);
        if let Some(at) = at {
            loader[at + 3] = b'x';
        }
        loader
    };
    let Some(tree) = tree(older) else { return };
    let told = says(tree.path(), "/bin/link");
    assert!(told.starts_with("it: /bin/link is /bin/program, "), "{told}");
    assert_eq!(told.lines().count(), 3, "{told}");
}
