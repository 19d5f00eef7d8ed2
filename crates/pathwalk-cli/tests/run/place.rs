//! Where a process is, it finds by itself.

use crate::{
    common::{can_run, python, text},
    inside::{Teller, are_few, calls, in_the_tree},
};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// Does what each line says below its argument, and says where it is then: more than once, and with too little room.
const STANDS: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.getcwd.restype = ctypes.c_char_p
base = os.path.realpath(sys.argv[1])
os.chdir(base)
def where(room):
    text = libc.getcwd(ctypes.create_string_buffer(4096), ctypes.c_size_t(room))
    return ctypes.get_errno() if text is None else text.decode().replace(base, '', 1)
def stat(path):
    try: stat = os.stat(path)
    except OSError as error: return error.errno
    return oct(stat.st_mode), stat.st_nlink
def there():
    try: return stat(os.getcwd())
    except OSError as error: return error.errno
while True:
    print([(where(4096), there()) for _ in range(8)], where(len(base)), where(1), [stat('.') for _ in range(4)], flush=True)
    line = sys.stdin.readline().strip()
    if not line: break
    exec(line)
";

/// Where a process is, it finds by itself, and is told as natively whatever becomes of the directories above; where another process moves
/// one of them, as it is told where it finds nothing.
#[test]
fn where_a_process_is_it_says_as_natively() {
    if !can_run(&["python3", "sh"]) {
        return;
    }
    let dirs = [(); 3].map(|()| TempDir::new_in("/tmp").unwrap());
    let tree = |dir: &Path, after: &str, base: &Path| {
        let mut tree = in_the_tree(dir, &["--inside", after, "sh", "-c"]);
        tree.args(["mkdir -p $2; exec python3 -c \"$1\" $2", "sh", STANDS]).arg(base);
        Teller::of(tree)
    };
    let native = |base: &Path| {
        let mut native = Command::new(python());
        native.args(["-c", STANDS]).arg(base);
        Teller::of(native)
    };
    // What somebody else does on the host stands behind a mark; behind two what moves directories above.
    let lines = [
        "os.makedirs('a/b/c')",
        "os.chdir('a/b/c')",
        "os.rename(base + '/a', base + '/away')",
        "! chmod 711 away/b/c",
        "os.chdir('..')",
        "! mkdir away/b/c/other",
        "fd = os.open('c', os.O_RDONLY); os.fchdir(fd)",
        "! rmdir away/b/c/other; touch -d @1000000000 away/b/c",
        "os.rename(base + '/away/b/c', base + '/d')",
        "os.chdir(base + '/away/b')",
        "os.chdir(base)",
        "os.chdir('/')",
        "os.mkdir(base + '/gone'); os.chdir(base + '/gone'); os.rmdir(base + '/gone')",
        "os.chdir(base + '/away/b')",
        "!! mkdir new; mv away new/a",
        "os.chdir(base + '/new/a')",
        "!! mv new/a/b b; mkdir new/a/b",
        "os.chdir(base + '/new/a/b')",
    ];
    let [one, other, third] = dirs.each_ref().map(TempDir::path);
    let mut all = [tree(one, "1", one), tree(other, "0", other), native(third)];
    let [have, heard, want] = all.each_mut().map(Teller::tells);
    assert_eq!([&have, &heard], [&want, &want]);
    for line in lines {
        let script = line.trim_start_matches('!');
        if script != line {
            for dir in &dirs {
                let mut other = Command::new("sh");
                assert!(other.args(["-c", script]).current_dir(dir).status().unwrap().success());
            }
        }
        let does = if script == line { line } else { "pass" };
        let [have, heard, want] = all.each_mut().map(|teller| teller.tells_after(does));
        assert_eq!(have, heard, "{line}");
        assert!(have == want || line.starts_with("!!"), "{line}: {have}, and natively {want}");
    }
    // That somebody else removes what is mounted there the program sees as it is told where it finds nothing.
    let [have, heard, _] = all.each_mut().map(|teller| teller.tells_after("os.chdir(base)"));
    assert_eq!(have, heard);
    for dir in &dirs[..2] {
        let gone = format!("rm -r {0}/* && rmdir {0}", dir.path().display());
        assert!(Command::new("sh").args(["-c", &gone]).status().unwrap().success());
    }
    let [have, heard, _] = all.each_mut().map(|teller| teller.tells_after("pass"));
    assert_eq!(have, heard);
    fs::create_dir(one).unwrap();
    // And in memory, where nobody else is; what a directory there has in it is a question of its own.
    let (dir, memory) = (TempDir::new_in("/tmp").unwrap(), Path::new("/tmp/memory"));
    let mut both = [tree(one, "1", memory), native(dir.path())];
    let paths = |said: String| said.split_once(']').map(|(paths, _)| paths.to_owned());
    let [have, want] = both.each_mut().map(Teller::tells).map(paths);
    assert_eq!(have, want);
    for line in lines.into_iter().filter(|line| !line.starts_with('!')).take(9) {
        let [have, want] = both.each_mut().map(|teller| teller.tells_after(line)).map(paths);
        assert_eq!(have, want, "{line}");
    }
}

/// Of 2,000 questions where it is, and what the directory is, the supervisor hears few.
#[test]
fn where_a_process_is_it_finds() {
    if !can_run(&["python3"]) {
        return;
    }
    let here = TempDir::new_in("/tmp").unwrap();
    let script = "import os\nfor n in range(2000): os.stat(os.getcwd())";
    // The rest are what the program asks to begin.
    for (name, rest) in [("getcwd", 100), ("newfstatat", 300)] {
        are_few(name, || {
            let mut command = in_the_tree(here.path(), &["--stats", python(), "-c", script]);
            (calls(&text(&command.output().unwrap().stderr), name), rest)
        });
    }
}
