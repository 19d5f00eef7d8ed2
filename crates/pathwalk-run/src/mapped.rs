//! Which files a process has in its memory.
//!
//! When a program begins these are its own and its interpreter's, or it does not begin; of one in a read-only mount it is looked which
//! file it is, and in which it begins. The kernel looks for the interpreter
//! that a program names by itself, in its own tree, and later than the library did. Meanwhile the name may have been
//! rewritten, or a symlink on the way to it been exchanged.
//!
//! Later they are shown by the paths that they have in the tree.
//!
//! Manual: proc_pid_maps(5).

use crate::{
    cookies::{HostId, of_thread},
    kin,
    sys::{answer, errno_of, memory, read_told},
};
use pathwalk::{Errno, Executable, Result};
use rustix::fs;
use std::{
    collections::HashMap,
    fs::File,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

/// An address is shown by so many digits at least.
const SHORTEST: usize = 8;

/// A file as it is shown in a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `MAJOR:MINOR`
    device: String,
    ino: u64,
}

impl Shown {
    /// The file that stat(2) would tell by this device.
    fn id(&self) -> Option<HostId> {
        let (major, minor) = self.device.split_once(':')?;
        let number = |hex| u32::from_str_radix(hex, 16).ok();
        Some(HostId::new(fs::makedev(number(major)?, number(minor)?), self.ino))
    }

    fn by_stat(file: HostId) -> Self {
        let (major, minor) = (fs::major(file.dev()), fs::minor(file.dev()));
        Self { device: format!("{major:02x}:{minor:02x}"), ino: file.ino() }
    }

    /// Where a file system shows another device there than stat(2) does, it is looked what it shows of this process.
    fn by_map(file: BorrowedFd<'_>) -> Result<Self> {
        let map = memory::Map::of(file)?;
        let text = read_maps("self")?;
        let start = format!("{:x}-", map.address());
        let line = text.lines().find(|line| line.starts_with(&start));
        line.and_then(shown).ok_or(pathwalk::Errno::EIO)
    }
}

/// A file that runs, and its interpreter, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) program: HostId,
    pub(crate) interpreter: Option<HostId>,
}

impl Image {
    /// The interpreter's code in which a process begins, of which no instruction ran yet, if it runs this: that file, and it begins in this
    /// interpreter, at this address; empty where there is none.
    ///
    /// The kernel puts nothing into its memory but the file and its interpreter. So where both are there that is what it runs, or the other way
    /// round, if the interpreter begins in the file: the library found both. Of a single one it is asked.
    pub(crate) fn is_run_by(self, process: u32, at: u64) -> Option<Range<u64>> {
        let Self { program, interpreter } = self;
        let maps = File::open(format!("/proc/{process}/maps")).ok()?;
        let part = |at, which| {
            let part = memory::file_at(maps.as_fd(), at, which).ok().flatten()?;
            let (major, minor) = part.device;
            Some((HostId::new(fs::makedev(major, minor), part.ino), part.at))
        };
        let (begins_in, code) = part(at, memory::Where::Here)?;
        let interpreter = interpreter.unwrap_or(program);
        let has_another = || {
            let first = part(0, memory::Where::OrBehind);
            interpreter != program && first.is_some_and(|(first, _)| first == program)
        };
        let is_it =
            begins_in == interpreter && (has_another() || of_thread(process, "exe") == Ok(program));
        // What has none begins in its own.
        is_it.then(|| if self.interpreter.is_some() { code } else { 0..0 })
    }
}

/// Whether a process, of which no instruction ran yet, runs this file, and has nothing in its memory but that and its interpreter: also where
/// the kernel says of its memory no more than a text, or another device than stat(2) does.
pub(crate) fn is_run(
    process: u32,
    program: HostId,
    interpreter: Option<&(Executable, HostId)>,
) -> bool {
    of_thread(process, "exe") == Ok(program) && is_alone(process, program, interpreter) == Ok(true)
}

/// Whether a process that runs a file, which is this one, has nothing in its memory but that, and its interpreter.
///
/// # Errors
///
/// - `ENOENT`: the process is gone.
fn is_alone(tid: u32, own: HostId, interpreter: Option<&(Executable, HostId)>) -> Result<bool> {
    let has = files_of(tid)?;
    let has_no_other = |may: Vec<Shown>| has.iter().all(|file| may.contains(file));
    let by_stat = [own].into_iter().chain(interpreter.map(|(_, id)| *id)).map(Shown::by_stat);
    if has_no_other(by_stat.collect()) {
        return Ok(true);
    }
    let path = format!("/proc/{tid}/exe");
    let own = answer(fs::open(path, fs::OFlags::RDONLY | fs::OFlags::CLOEXEC, fs::Mode::empty()))?;
    let interpreter = interpreter.and_then(|(file, _)| file.file().host_fd());
    let by_map = [own.as_fd()].into_iter().chain(interpreter).map(Shown::by_map);
    Ok(has_no_other(by_map.collect::<Result<_>>()?))
}

/// The files that a process has in its memory. The kernel tells of them one by one, without the paths, which take most of the time.
fn files_of(tid: u32) -> Result<Vec<Shown>> {
    let maps = File::open(format!("/proc/{tid}/maps")).map_err(|error| errno_of(&error))?;
    let (mut files, mut at) = (Vec::new(), 0);
    loop {
        match memory::file_at(maps.as_fd(), at, memory::Where::OrBehind) {
            Ok(Some(memory::Part { device: (major, minor), ino, at: part })) => {
                files.push(Shown { device: format!("{major:02x}:{minor:02x}"), ino });
                at = part.end;
            }
            Ok(None) => break,
            Err(Errno::ENOTTY) => return Ok(self::files(&read_maps(&tid.to_string())?)),
            Err(errno) => return Err(errno),
        }
    }
    files.dedup();
    Ok(files)
}

/// The files that a thread, by its directory in `/proc`, has in its memory, as far as they are shown with the device that stat(2) tells.
///
/// # Errors
///
/// - `EMFILE`, `ENFILE`, `ENOMEM`: it cannot be looked at.
pub(crate) fn ids(thread: &Path) -> Result<Vec<HostId>> {
    let text = kin::read(thread.join("maps"))?.unwrap_or_default();
    Ok(files(&String::from_utf8_lossy(&text)).iter().filter_map(Shown::id).collect())
}

/// `/proc/PID/maps` or `smaps` with the paths that files have in the tree, where they are files of the tree.
pub(crate) fn by_paths_of_the_tree(
    maps: &[u8],
    path: impl Fn(HostId) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(maps.len());
    for line in maps.split_inclusive(|&byte| byte == b'\n') {
        match place_of_path(line).and_then(|(at, id)| Some((at, path(id)?))) {
            Some((at, path)) => {
                text.extend_from_slice(&line[..at]);
                // As the kernel writes them.
                for byte in path {
                    match byte {
                        b'\n' => text.extend_from_slice(b"\\012"),
                        byte => text.push(byte),
                    }
                }
                text.push(b'\n');
            }
            None => text.extend_from_slice(line),
        }
    }
    text
}

/// The same, or `numa_maps`, without what begins at some addresses.
pub(crate) fn without(maps: &[u8], hides: impl Fn(u64) -> bool) -> Vec<u8> {
    let mut hidden = false;
    let lines = maps.split_inclusive(|&byte| byte == b'\n').filter(|line| {
        let first = line.split(|byte| b"- ".contains(byte)).next();
        let start = first.and_then(|text| std::str::from_utf8(text).ok());
        // Other lines of smaps are about what was named before them.
        if let Some(start) = start.filter(|start| start.len() >= SHORTEST)
            && let Ok(start) = u64::from_str_radix(start, 16)
        {
            hidden = hides(start);
        }
        !hidden
    });
    lines.flatten().copied().collect()
}

/// `/proc/PID/numa_maps`, which does not say which files these are, but where they begin, as `/proc/PID/maps` does. What is none of the
/// tree's has no path there.
pub(crate) fn numa_by_paths_of_the_tree(
    numa: &[u8],
    maps: &[u8],
    path: impl Fn(HostId) -> Option<Vec<u8>>,
) -> Vec<u8> {
    const FILE: &[u8] = b"file=";
    let begins = |line: &str| {
        let begin = u64::from_str_radix(line.split_once('-')?.0, 16).ok()?;
        Some((begin, shown(line)?.id()?))
    };
    let files: HashMap<u64, HostId> =
        String::from_utf8_lossy(maps).lines().filter_map(begins).collect();
    let of_line = |line: &[u8]| {
        let begin = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
        path(*files.get(&u64::from_str_radix(begin, 16).ok()?)?)
    };
    let mut text = Vec::with_capacity(numa.len());
    for line in numa.split_inclusive(|&byte| byte == b'\n') {
        for (index, word) in line.split(|&byte| byte == b' ').enumerate() {
            if index > 0 {
                text.push(b' ');
            }
            if !word.starts_with(FILE) {
                text.extend_from_slice(word);
                continue;
            }
            text.extend_from_slice(FILE);
            for byte in of_line(line).unwrap_or_default() {
                match byte {
                    b'\n' | b'\t' | b' ' | b'=' | b'\\' => {
                        text.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                    }
                    byte => text.push(byte),
                }
            }
            text.extend(word.ends_with(b"\n").then_some(b'\n'));
        }
    }
    text
}

/// The file that a process has in its memory in a range, `FROM-TO` as `/proc/PID/map_files` names it.
pub(crate) fn in_range(maps: &str, range: &str) -> Option<HostId> {
    let bounds = |range: &str| {
        let (from, to) = range.split_once('-')?;
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        Some((number(from)?, number(to)?))
    };
    let range = bounds(range)?;
    let line = maps
        .lines()
        .find(|line| line.split_once(' ').and_then(|(of_line, _)| bounds(of_line)) == Some(range));
    shown(line?)?.id()
}

/// Where the path begins in the line of a map of a file, and the file.
fn place_of_path(line: &[u8]) -> Option<(usize, HostId)> {
    let start = line.iter().position(|&byte| byte == b'/')?;
    let fields = std::str::from_utf8(&line[..start]).ok()?;
    // Other lines of smaps have a name and a colon in front.
    let range = fields.split_ascii_whitespace().next()?;
    let bounds = range.split_once('-')?;
    for bound in [bounds.0, bounds.1] {
        u64::from_str_radix(bound, 16).ok()?;
    }
    if fields.split_ascii_whitespace().count() != 5 {
        return None;
    }
    Some((start, shown(fields)?.id()?))
}

/// Where a process has a right, `r` or `w`, as its maps say; what lies side by side is one.
pub(crate) fn with_right(maps: &str, right: char) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let (range, rights) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let bound = |text| u64::from_str_radix(text, 16).ok();
        rights.get(..2).filter(|rights| rights.contains(right))?;
        Some((bound(start)?, bound(end)?))
    };
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (start, end) in maps.lines().filter_map(range) {
        match ranges.last_mut() {
            Some((_, before)) if *before == start => *before = end,
            _ => ranges.push((start, end)),
        }
    }
    ranges
}

fn read_maps(process: &str) -> Result<String> {
    read_told(format!("/proc/{process}/maps"))
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .map_err(|error| errno_of(&error))
}

fn files(maps: &str) -> Vec<Shown> {
    let mut files: Vec<Shown> = maps.lines().filter_map(shown).collect();
    files.dedup();
    files
}

/// The file of a line; none where it is no file's.
fn shown(line: &str) -> Option<Shown> {
    let mut fields = line.split_ascii_whitespace().skip(3);
    let device = fields.next()?.to_owned();
    let ino = fields.next()?.parse().ok()?;
    (ino != 0).then_some(Shown { device, ino })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_has_no_lines() {
        let maps = b"\
55500000-55501000 r--p 00000000 fe:00 7 /bin/a
Size:                  4 kB
200000000000-200000010000 r-xp 00000000 00:01 5 /memfd:b (deleted)
Size:                 64 kB
VmFlags: rd ex
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
Size:                  4 kB
";
        let left = without(maps, |start| start == 0x2000_0000_0000);
        let want: Vec<&[u8]> = maps.split_inclusive(|&byte| byte == b'\n').collect();
        assert_eq!(left, [&want[..2], &want[5..]].concat().concat());
        let numa = b"55500000 default\n200000000000 default anon=1\n7f0000000000 default\n";
        let left = without(numa, |start| start == 0x2000_0000_0000);
        assert_eq!(left, b"55500000 default\n7f0000000000 default\n");
    }

    #[test]
    fn a_file_in_memory_is_told_by_device_and_number() {
        let maps = "\
55d6c0a00000-55d6c0a02000 r--p 00000000 08:01 1234                       /usr/bin/a b
55d6c0a02000-55d6c0a06000 r-xp 00002000 08:01 1234                       /usr/bin/a b
7ffd6e9f4000-7ffd6ea15000 rw-p 00000000 00:00 0                          [stack]
7f0000000000-7f0000001000 r--p 00000000 fe:10 99                         /lib/ld.so
";
        let shown = |device: &str, ino| Shown { device: device.to_owned(), ino };
        assert_eq!(files(maps), [shown("08:01", 1234), shown("fe:10", 99)]);
    }

    #[test]
    fn what_is_told_file_by_file_is_what_the_list_says() {
        let tid = std::process::id();
        let mut has = files_of(tid).expect("it is there");
        let mut listed = files(&read_maps("self").expect("it is there"));
        for files in [&mut has, &mut listed] {
            files.sort_by_key(|file| (file.device.clone(), file.ino));
            files.dedup();
        }
        assert_eq!(has, listed);
        assert!(!has.is_empty());
    }

    #[test]
    fn a_path_is_exchanged_and_nothing_else() {
        let maps = b"\
55d6c0a00000-55d6c0a02000 r--p 00000000 08:01 1234                       /bin/a b (deleted)
Rss:                   4 kB
7ffd6e9f4000-7ffd6ea15000 rw-p 00000000 00:00 0                          [stack]
7f0000000000-7f0000001000 r--p 00000000 fe:10 99                         /lib/ld.so
7f0000002000-7f0000003000 r--s 00000000 00:01 7                          /memfd:pathwalk (deleted)
";
        let path = |id: HostId| match id {
            _ if id == HostId::new(fs::makedev(8, 1), 1234) => Some(b"/in/the\ntree".to_vec()),
            _ if id == HostId::new(fs::makedev(0, 1), 7) => Some(b"/tmp/f".to_vec()),
            _ => None,
        };
        let text = String::from_utf8(by_paths_of_the_tree(maps, path)).expect("it is ASCII");
        let want = "\
55d6c0a00000-55d6c0a02000 r--p 00000000 08:01 1234                       /in/the\\012tree
Rss:                   4 kB
7ffd6e9f4000-7ffd6ea15000 rw-p 00000000 00:00 0                          [stack]
7f0000000000-7f0000001000 r--p 00000000 fe:10 99                         /lib/ld.so
7f0000002000-7f0000003000 r--s 00000000 00:01 7                          /tmp/f
";
        assert_eq!(text, want);
    }

    #[test]
    fn a_file_is_told_by_where_it_begins() {
        let maps = "\
55d6c0a00000-55d6c0a02000 r--p 00000000 08:01 1234                       /bin/a b
7f0000000000-7f0000001000 r--p 00000000 fe:10 99                         /lib/ld.so
7ffd6e9f4000-7ffd6ea15000 rw-p 00000000 00:00 0                          [stack]
";
        let numa = b"\
55d6c0a00000 default file=/bin/a\\040b mapped=2 N0=2 kernelpagesize_kB=4
7f0000000000 default file=/lib/ld.so
7ffd6e9f4000 default stack anon=3 dirty=3 N0=3
";
        let known = HostId::new(fs::makedev(8, 1), 1234);
        let path = |id: HostId| (id == known).then(|| b"/in the\ntree".to_vec());
        let text = numa_by_paths_of_the_tree(numa, maps.as_bytes(), path);
        let want = "\
55d6c0a00000 default file=/in\\040the\\012tree mapped=2 N0=2 kernelpagesize_kB=4
7f0000000000 default file=
7ffd6e9f4000 default stack anon=3 dirty=3 N0=3
";
        assert_eq!(String::from_utf8(text).expect("it is ASCII"), want);
        assert_eq!(in_range(maps, "55d6c0a00000-55d6c0a02000"), Some(known));
        assert_eq!(in_range(maps, "55d6c0a00000-55d6c0a03000"), None);
        assert_eq!(in_range(maps, "7ffd6e9f4000-7ffd6ea15000"), None);
    }

    #[test]
    fn rights_are_told_by_range() {
        let maps = "\
1000-2000 r--p 00000000 08:01 1234                       /usr/bin/a
2000-3000 rw-p 00002000 08:01 1234                       /usr/bin/a
3000-4000 ---p 00000000 00:00 0
4000-5000 rw-p 00000000 00:00 0                          [stack]
";
        assert_eq!(with_right(maps, 'r'), [(0x1000, 0x3000), (0x4000, 0x5000)]);
        assert_eq!(with_right(maps, 'w'), [(0x2000, 0x3000), (0x4000, 0x5000)]);
    }

    #[test]
    fn what_is_mapped_is_shown() {
        let own = std::fs::File::open("/proc/self/exe").expect("it runs");
        let map = Shown::by_map(own.as_fd()).expect("it is mapped");
        assert!(files(&read_maps("self").expect("it is there")).contains(&map));
    }
}
