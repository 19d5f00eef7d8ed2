//! That a file has no extended attribute of a name a process finds by itself, where it asks so of all files of a directory; and what it
//! finds is what it would be told.

use crate::{
    common::{can_run, python, text},
    inside::{Teller, are_few, calls, calls_if_any, in_the_tree, said, told_of},
    left_out::left_out,
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Says of all that is in the directories below its first argument what `ls -l` asks: what it is, and two extended attributes; once for each
/// line, which may be a command to be run before.
const LISTS: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def get(call, path, name, size):
    buf = ctypes.create_string_buffer(256)
    len = call(os.fsencode(path), name, buf if size else None, size)
    return ctypes.get_errno() if len < 0 else (len, buf.raw[:max(len, 0)] if size else b'')
def what(path):
    try: stat = os.lstat(path)
    except OSError as error: return error.errno
    attributes = [get(libc.lgetxattr, path, b'security.pathwalk', 255), get(libc.getxattr, path, b'system.posix_acl_access', 0)]
    return oct(stat.st_mode), stat.st_size, stat.st_nlink, attributes
def go(path):
    try: names = os.listdir(path)
    except OSError as error: return print(path, error.errno, end=' ')
    said = [(name, what(f'{path}/{name}')) for name in names]
    print(path, sorted(said), end=' ')
    for name in sorted(names):
        if os.path.isdir(f'{path}/{name}') and not os.path.islink(f'{path}/{name}'): go(f'{path}/{name}')
ACL = b'\\2\\0\\0\\0' + b''.join(bytes([tag, 0, perm, 0]) + id.to_bytes(4, 'little') for tag, perm, id in
    [(1, 6, 2**32 - 1), (2, 4, 12345), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1)])
os.chdir(sys.argv[1])
while True:
    go('.')
    print(flush=True)
    line = sys.stdin.readline().strip()
    if not line: break
    try: exec(line)
    except OSError as error: print(error.errno, end=' ')
";

/// A directory with others and files in it.
fn files() -> Option<TempDir> {
    let here = told_of()?;
    for dir in 0..12 {
        let dir = here.path().join(format!("top/{dir}"));
        fs::create_dir_all(dir.join("below")).unwrap();
        for name in 0..20 {
            fs::write(dir.join(name.to_string()), "x".repeat(name)).unwrap();
        }
        symlink("3", dir.join("link")).unwrap();
    }
    Some(here)
}

/// Changes as scripts of Python in the directory: by an attribute that only root may set, where the kernel's modules do not know it; and by one
/// that anybody may.
const OF_ROOT: &[&str] = &[
    "os.setxattr('1/7', 'security.pathwalk', b'set')",
    "os.setxattr('1/7', 'security.pathwalk', b'another')",
    "os.removexattr('1/7', 'security.pathwalk')",
    "[os.setxattr(f'{n}/below', 'security.pathwalk', b'of a directory') for n in range(12)]",
    "os.setxattr('4/link', 'security.pathwalk', b'of a symlink', follow_symlinks=False)",
    "os.setxattr('4/3', 'security.pathwalk', b'of what it leads to')",
    "open('5/new', 'w').close(); os.setxattr('5/new', 'security.pathwalk', b'x'); os.rename('5/new', '5/6')",
    "f = os.open('10/3', os.O_RDWR); os.setxattr(f, 'security.pathwalk', b'by a descriptor'); os.close(f)",
];
const OF_ALL: &[&str] = &[
    "os.setxattr('2/8', 'system.posix_acl_access', ACL)",
    "os.removexattr('2/8', 'system.posix_acl_access')",
    "[os.setxattr(f'{n}', 'system.posix_acl_access', ACL) for n in range(12)]",
    "[os.removexattr(f'{n}', 'system.posix_acl_access') for n in range(12)]",
    "open('5/new', 'w').close(); os.setxattr('5/new', 'system.posix_acl_access', ACL); os.rename('5/new', '5/8')",
    "f = os.open('10/4', os.O_RDWR); os.setxattr(f, 'system.posix_acl_access', ACL); os.close(f)",
];
const OF_NAMES: &[&str] = &[
    "os.chmod('8/3', 0o600); os.unlink('8/4'); os.mkdir('8/4'); os.unlink('8/5'); os.symlink('6', '8/5')",
    "os.rename('9', 'away'); os.mkdir('9'); open('9/3', 'w').close()",
    "os.rename('9', 'other'); os.rename('away', '9')",
    "os.chmod('11', 0)",
    "os.chmod('11', 0o755)",
];

/// The script in the tree, which has a directory there.
fn lists(dir: &Path, mode: &str) -> Teller {
    let bind = format!("{}:/tmp/data:{mode}", dir.display());
    let mut tree = in_the_tree(dir, &["--inside", "1", "--bind", &bind]);
    tree.args([python(), "-c", LISTS, "/tmp/data"]);
    Teller::of(tree)
}

fn lists_natively(dir: &Path) -> Teller {
    let mut native = Command::new(python());
    native.args(["-c", LISTS]).arg(dir);
    Teller::of(native)
}

/// The program sees after each change of its own, or of another process of the tree, what it would see natively.
#[test]
fn what_the_program_changes_it_sees() {
    for by in ["{}", "if not os.fork(): {}; os._exit(0)\nelse: os.wait()"] {
        let (Some(there), Some(here)) = (files(), files()) else { return };
        let (mut tree, mut native) = (lists(&top(&there), "rw"), lists_natively(&top(&here)));
        assert_eq!(tree.tells(), native.tells());
        for change in [OF_ALL, OF_NAMES].concat() {
            let line = format!("exec({:?})", by.replace("{}", change));
            assert_eq!(tree.tells_after(&line), native.tells_after(&line), "{line}");
            assert_eq!(tree.tells_after("0"), native.tells_after("0"), "{line}");
        }
    }
}

/// And of another process of the host, where the program may write and where it only reads. But for ACLs: what the library has read of one it
/// keeps.
#[test]
fn what_others_change_is_seen() {
    for mode in ["rw", "ro"] {
        let Some(there) = files() else { return };
        let top = top(&there);
        let (mut tree, mut native) = (lists(&top, mode), lists_natively(&top));
        assert_eq!(tree.tells(), native.tells());
        for change in [OF_ROOT, OF_NAMES].concat() {
            let mut other = Command::new(python());
            other.args(["-c", &format!("import os\n{change}")]).current_dir(&top);
            if !other.output().unwrap().status.success() {
                left_out(format_args!("who runs this may not: {change}"));
            }
            for _ in 0..3 {
                assert_eq!(tree.tells_after("0"), native.tells_after("0"), "{mode} {change}");
            }
        }
    }
}

fn top(dir: &TempDir) -> PathBuf {
    dir.path().join("top")
}

/// Of some 270 files the supervisor hears a few questions about extended attributes.
#[test]
fn who_asks_about_all_files_finds_most() {
    let Some(there) = files() else { return };
    for mode in ["rw", "ro"] {
        let bind = format!("{}:/tmp/data:{mode}", top(&there).display());
        let heard = |after: &str, name: &str| {
            let mut command = in_the_tree(there.path(), &["--stats", "--inside", after]);
            command.args(["--bind", &bind, python(), "-c", LISTS, "/tmp/data"]);
            calls(&text(&command.stdin(Stdio::null()).output().unwrap().stderr), name)
        };
        for name in ["lgetxattr", "getxattr"] {
            are_few(&format!("{mode} {name}"), || (3 * heard("1", name), heard("0", name)));
        }
    }
}

/// Who has listed directories, as `ls -l` does by `statx`, finds all that is in those that it opens then, from the first name on: files, directories and
/// symlinks. And it says what it says natively.
#[test]
fn ls_finds_what_is_in_each_directory_from_the_first_name_on() {
    let Some(there) = files().filter(|_| can_run(&["ls"])) else { return };
    let (top, elsewhere) = (top(&there), TempDir::new().unwrap());
    let args = ["ls", "-lR", "--time-style=full-iso", "."];
    let native = said(Command::new(args[0]).args(&args[1..]).current_dir(&top));
    let bind = format!("{}:/tmp/data:ro", top.display());
    let told = |after: &str| {
        let options = ["--stats", "--inside", after, "--cwd", "/tmp/data", "--bind", &bind];
        // It writes nothing there, by no other mount either.
        let mut command = in_the_tree(elsewhere.path(), &options);
        // What its loader looks for is not counted.
        let output = command.args(args).env_remove("LD_LIBRARY_PATH").output().unwrap();
        assert_eq!(text(&output.stdout), native, "--inside {after}");
        text(&output.stderr)
    };
    told("0");
    let directories = native.lines().filter(|line| line.starts_with("./")).count() as u64;
    let heard = || {
        let stats = told("1");
        ["statx", "newfstatat", "lgetxattr", "getxattr"]
            .map(|name| calls_if_any(&stats, name))
            .into_iter()
            .flatten()
            .sum()
    };
    are_few("of a directory", || (heard(), 6 * directories));
}

/// What is mounted on a name has its own.
#[test]
fn what_is_mounted_has_its_own() {
    let (Some(there), Some(other)) = (files(), files()) else { return };
    let set = format!("import os\nos.setxattr({:?}, 'security.pathwalk', b'mounted')", top(&other));
    if !Command::new(python()).args(["-c", &set]).output().unwrap().status.success() {
        return left_out("who runs this may not set it");
    }
    let bind = format!("{}:/tmp/data:ro", top(&there).display());
    let over = format!("{}:/tmp/data/5/below:ro", top(&other).display());
    let options = ["--inside", "1", "--bind", &bind, "--bind", &over];
    let mut command = in_the_tree(there.path(), &options);
    command.args([python(), "-c", LISTS, "/tmp/data"]);
    let mut tree = Teller::of(command);
    tree.tells();
    for _ in 0..3 {
        let told = tree.tells_after("0");
        assert_eq!(told.matches("b'mounted").count(), 1, "{told}");
    }
}

/// Buffers of all sizes, and such that are not there.
const SIZES: &str = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for call in [libc.getxattr, libc.lgetxattr]: call.argtypes = [ctypes.c_void_p] * 4
def get(call, path, name, to, size):
    ctypes.set_errno(0)
    string = lambda text: ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p) if isinstance(text, bytes) else text
    return call(string(path), string(name), to, size), ctypes.get_errno()
buf = ctypes.create_string_buffer(70000)
names = [b'security.pathwalk', b'security.selinux', b'system.posix_acl_access', b'system.posix_acl_default', b'system.none', b'user.none',
    b'trusted.none', b'none', b'security.', b'', b'security.' + b'x' * 246, b'security.' + b'x' * 247, None, 8, 2**63]
for n in range(30):
    os.lstat(f'dir/{n}')
    for call in [libc.lgetxattr, libc.getxattr]:
        for name in names:
            for to, size in [(ctypes.addressof(buf), 255), (None, 0), (ctypes.addressof(buf), 1), (ctypes.addressof(buf), 4), (8, 255), (None, 5),
                    (2**63, 70000), (ctypes.addressof(buf), 70000), (ctypes.addressof(buf), 2**63)]:
                print(n, name, size, get(call, f'dir/{n}'.encode(), name, to, size), buf.raw[:8])
for path in [None, 8, b'', b'dir/none', b'dir/1/', b'x' * 300, b'dir/' + b'./' * 120 + b'3']:
    print(path, [get(libc.getxattr, path, name, None, 0) for name in names])
";

/// What SIZES looks at.
const SIZED: &str = "
import os
os.mkdir('dir')
for n in range(30): open(f'dir/{n}', 'w').close()
for name in ['security.pathwalk', 'user.none']:
    try: os.setxattr('dir/9', name, b'value')
    except OSError as error: print(error)
";

#[test]
fn sizes_and_pointers_are_as_natively() {
    let (Some(there), Some(here)) = (files(), files()) else { return };
    for dir in [&there, &here] {
        said(Command::new(python()).args(["-c", SIZED]).current_dir(dir.path()));
    }
    let native = said(Command::new(python()).args(["-c", SIZES]).current_dir(here.path()));
    for after in ["0", "1", "64"] {
        let mut command = in_the_tree(there.path(), &["--inside", after, python(), "-c", SIZES]);
        let told = said(&mut command);
        let differs = native.lines().zip(told.lines()).find(|(native, told)| native != told);
        assert_eq!(differs, None, "--inside {after}");
        assert_eq!(native.lines().count(), told.lines().count());
    }
}
