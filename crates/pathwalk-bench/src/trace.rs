//! What strace(1) writes with `-f -y -e trace=%file`, read as calls about paths.
//!
//! ```text
//! 1273  access("/etc/ld.so.preload", R_OK) = -1 ENOENT (No such file or directory)
//! 1273  openat(AT_FDCWD</home/me>, "main.c", O_RDONLY|O_CLOEXEC) = 3</home/me/main.c>
//! 1274  openat(AT_FDCWD</home/me>, "main.o", O_RDWR|O_CREAT <unfinished ...>
//! 1274  <... openat resumed>, 0666) = 4</home/me/main.o>
//! ```

use std::collections::HashMap;
use std::ffi::CString;

use pathwalk_abi::OpenFlags;

use crate::calls::PathCall;

/// A call of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Traced {
    pub(crate) call: PathCall,
    /// Absolute.
    pub(crate) path: CString,
    /// `OK`, or the name of the error.
    pub(crate) answer: String,
}

/// Reads a trace; returns its calls, and how many others it has that a recording cannot have.
pub(crate) fn parse(text: &str, cwd: &str) -> (Vec<Traced>, usize) {
    let (mut calls, mut others) = (Vec::new(), 0);
    // What each task has begun and not finished.
    let mut begun: HashMap<&str, String> = HashMap::new();
    for line in text.lines() {
        let Some((task, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        let whole = if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(task, first.to_owned());
            continue;
        } else if rest.starts_with("<... ") {
            let Some((first, (_, more))) = begun.remove(task).zip(rest.split_once(" resumed>"))
            else {
                continue;
            };
            first + more
        } else {
            rest.to_owned()
        };
        // Signals and exits are no calls.
        if !whole.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            continue;
        }
        match call(&whole, cwd) {
            Some(Some(traced)) => calls.push(traced),
            Some(None) => {}
            None => others += 1,
        }
    }
    (calls, others)
}

/// Reads a call; `Some(None)` is one about an open file, `None` one of another kind.
fn call(text: &str, cwd: &str) -> Option<Option<Traced>> {
    let (name, rest) = text.split_once('(')?;
    // strace aligns the results.
    let (args, result) = rest.rsplit_once(" = ")?;
    let args = args.trim_end().strip_suffix(')')?;
    let args = split(args);
    let has = |at: usize, flag: &str| args.get(at).is_some_and(|arg| arg.contains(flag));
    let (at, call) = match name {
        "access" => (0, PathCall::Access),
        "faccessat" | "faccessat2" => (1, PathCall::Access),
        "stat" => (0, PathCall::Stat),
        "lstat" => (0, PathCall::Lstat),
        "newfstatat" if has(3, "AT_SYMLINK_NOFOLLOW") => (1, PathCall::Lstat),
        "statx" if has(2, "AT_SYMLINK_NOFOLLOW") => (1, PathCall::Lstat),
        "newfstatat" | "statx" => (1, PathCall::Stat),
        "readlink" => (0, PathCall::Readlink),
        "readlinkat" => (1, PathCall::Readlink),
        "unlink" => (0, PathCall::Unlink),
        "unlinkat" if !has(2, "AT_REMOVEDIR") => (1, PathCall::Unlink),
        "open" => (0, PathCall::Open(flags(args.get(1)?))),
        "openat" => (1, PathCall::Open(flags(args.get(2)?))),
        _ => return None,
    };
    let path = unquoted(args.get(at)?)?;
    if path.is_empty() {
        return Some(None);
    }
    let path = if path.starts_with(b"/") {
        path
    } else {
        // The directory stands in angle brackets behind its descriptor.
        let dir =
            at.checked_sub(1).and_then(|dir| args.get(dir)?.split_once('<')?.1.strip_suffix('>'));
        [dir.unwrap_or(cwd).as_bytes(), b"/", &path].concat()
    };
    let answer = match result.trim_start().strip_prefix("-1 ") {
        Some(error) => error.split(' ').next()?.to_owned(),
        None => "OK".to_owned(),
    };
    Some(Some(Traced { call, path: CString::new(path).ok()?, answer }))
}

/// The flags of open that a recording keeps.
fn flags(text: &str) -> OpenFlags {
    let kept = OpenFlags::WRONLY
        | OpenFlags::RDWR
        | OpenFlags::CREAT
        | OpenFlags::EXCL
        | OpenFlags::TRUNC
        | OpenFlags::APPEND
        | OpenFlags::DIRECTORY
        | OpenFlags::NOFOLLOW;
    let names = text.split('|').filter_map(|name| name.trim().strip_prefix("O_"));
    kept & names.filter_map(OpenFlags::from_name).collect()
}

/// Splits arguments at the commas that stand in no string and no brackets.
fn split(args: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, letter) in args.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' | '<' => depth += 1,
            '}' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(args[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(args[start..].trim());
    parts
}

/// The bytes of a string as strace writes it, `None` of one that it cut off.
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.strip_prefix('"')?.strip_suffix('"')?.bytes().peekable();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else {
                        break;
                    };
                    value = value * 8 + u32::from(digit - b'0');
                }
                value as u8
            }
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_with_its_interruptions() {
        let trace = "\
1 execve(\"/bin/cc\", [\"cc\", \"a,b\"], 0x7ffe /* 35 vars */) = 0
1 access(\"/etc/a\\303\\244\\tb\", R_OK) = -1 ENOENT (No such file or directory)
1 openat(AT_FDCWD</home/me>, \"m,a\\\"in.c\", O_RDONLY|O_CLOEXEC) = 3</home/me/main.c>
1 newfstatat(3</home/me/main.c>, \"\", {st_mode=S_IFREG|0644, st_size=1, ...}, AT_EMPTY_PATH) = 0
2 openat(AT_FDCWD</home/me>, \"out.o\", O_RDWR|O_CREAT|O_TRUNC <unfinished ...>
1 newfstatat(5</x/y>, \"z\", {st_mode=S_IFLNK|0777, ...}, AT_SYMLINK_NOFOLLOW) = 0
2 <... openat resumed>, 0666) = 4</home/me/out.o>
1 --- SIGCHLD {si_signo=SIGCHLD} ---
1 readlink(\"here\", 0x7ff, 1023)     = -1 EINVAL (Invalid argument)
1 +++ exited with 0 +++
";
        let (calls, others) = parse(trace, "/home/me");
        let shown: Vec<String> = calls
            .iter()
            .map(|one| format!("{} {} {}", one.call.word(), one.path.to_string_lossy(), one.answer))
            .collect();
        assert_eq!(
            shown,
            [
                "access /etc/a\u{e4}\tb ENOENT",
                r#"open  /home/me/m,a"in.c OK"#,
                "lstat /x/y/z OK",
                "open RDWR|CREAT|TRUNC /home/me/out.o OK",
                "readlink /home/me/here EINVAL",
            ]
        );
        assert_eq!(others, 1, "execve");
    }
}
