//! Which files a process has in its memory when a program begins: its own and its interpreter's, or it does not begin.
//!
//! The kernel looks for the interpreter that a program names by itself, in its own tree, and later than the library did.
//! Meanwhile the name may have been rewritten, or a symlink on the way to it been exchanged.
//!
//! Manual: proc_pid_maps(5).

use crate::sys::{answer, errno_of, memory};
use pathwalk::{Executable, Result};
use rustix::fs;
use std::os::fd::BorrowedFd;

/// A file as it is shown in a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `MAJOR:MINOR`
    device: String,
    ino: u64,
}

impl Shown {
    fn by_stat(file: BorrowedFd<'_>) -> Result<Self> {
        let stat = answer(fs::fstat(file))?;
        let (major, minor) = (fs::major(stat.st_dev), fs::minor(stat.st_dev));
        Ok(Self { device: format!("{major:02x}:{minor:02x}"), ino: stat.st_ino })
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

/// Whether a process that runs this file has nothing in its memory but that, and its interpreter.
///
/// # Errors
///
/// - `ENOENT`: the process is gone.
pub(crate) fn is_alone(tid: u32, interpreter: Option<&Executable>) -> Result<bool> {
    let path = format!("/proc/{tid}/exe");
    let own = answer(fs::open(path, fs::OFlags::RDONLY | fs::OFlags::CLOEXEC, fs::Mode::empty()))?;
    let own = std::os::fd::AsFd::as_fd(&own);
    let interpreter = interpreter.and_then(|file| file.file().host_fd());
    let has = files(&read_maps(&tid.to_string())?);
    let all = |by: fn(BorrowedFd<'_>) -> Result<Shown>| -> Result<bool> {
        let mut may = vec![by(own)?];
        may.extend(interpreter.map(by).transpose()?);
        Ok(has.iter().all(|file| may.contains(file)))
    };
    Ok(all(Shown::by_stat)? || all(Shown::by_map)?)
}

fn read_maps(process: &str) -> Result<String> {
    std::fs::read(format!("/proc/{process}/maps"))
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
    use std::os::fd::AsFd;

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
    fn what_is_mapped_is_shown() {
        let own = std::fs::File::open("/proc/self/exe").expect("it runs");
        let map = Shown::by_map(own.as_fd()).expect("it is mapped");
        assert!(files(&read_maps("self").expect("it is there")).contains(&map));
    }
}
