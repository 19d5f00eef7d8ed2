//! A file system of numbers: `/12/factors` says `2 2 3`, and `/12/next` leads to `/13`. Nothing of it is kept anywhere.

use pathwalk::{
    Attr, Config, Cred, Errno, FileType, InodeRef, OpenFlags, Result, Subject, Timespec, Vfs,
    fs::{Emit, Features, FileSystem, Found, FsStat},
};
use std::sync::Arc;

/// The directories are those of the numbers below this.
const END: u64 = 1_000_000;

/// What a node's word says: the number, and which of the three it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Root,
    Number(u64),
    Factors(u64),
    Next(u64),
}

impl Node {
    fn of(word: u64) -> Self {
        match (word / 4, word % 4) {
            (0, _) => Self::Root,
            (number, 0) => Self::Number(number),
            (number, 1) => Self::Factors(number),
            (number, _) => Self::Next(number),
        }
    }

    fn found(self) -> Found {
        let (node, kind, mode) = match self {
            Self::Root => (1, FileType::Directory, 0o555),
            Self::Number(number) => (4 * number, FileType::Directory, 0o555),
            Self::Factors(number) => (4 * number + 1, FileType::Regular, 0o444),
            Self::Next(number) => (4 * number + 2, FileType::Symlink, 0o777),
        };
        let size = if let Self::Factors(number) = self { factors(number).len() } else { 0 };
        let nlink = if kind == FileType::Directory { 2 } else { 1 };
        let mode = kind.to_mode() | mode;
        let attr = Attr { mode, nlink, ino: node, size: size as u64, ..Attr::default() };
        Found { node, attr, body: None }
    }
}

fn factors(mut number: u64) -> String {
    let mut factors = Vec::new();
    let mut factor = 2;
    while factor * factor <= number {
        if number.is_multiple_of(factor) {
            factors.push(factor.to_string());
            number /= factor;
        } else {
            factor += 1;
        }
    }
    factors.push(number.to_string());
    factors.join(" ") + "\n"
}

/// The file system.
pub(crate) struct Numbers;

impl FileSystem for Numbers {
    fn kind(&self) -> &str {
        "numbers"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _who: &Subject<'_>, _now: Timespec) -> Result<Found> {
        Ok(Node::Root.found())
    }

    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let number = || std::str::from_utf8(name).ok()?.parse().ok();
        let node = match (Node::of(dir.node()), name) {
            (Node::Root, _) => number()
                .filter(|number: &u64| (1..END).contains(number))
                .filter(|number| number.to_string().as_bytes() == name)
                .map(Node::Number),
            (Node::Number(number), b"factors") => Some(Node::Factors(number)),
            (Node::Number(number), b"next") => Some(Node::Next(number)),
            _ => None,
        };
        Ok(node.map(Node::found))
    }

    fn readlink(&self, inode: InodeRef<'_>) -> Result<Vec<u8>> {
        match Node::of(inode.node()) {
            Node::Next(number) => Ok(format!("../{}", number + 1).into_bytes()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let Node::Factors(number) = Node::of(inode.node()) else { return Err(Errno::EIO) };
        let text = factors(number);
        let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn readdir(&self, dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        let Node::Number(number) = Node::of(dir.node()) else {
            // Those below a hundred stand for all of them.
            for number in offset + 1..100 {
                let name = number.to_string();
                if !emit(number, 4 * number, FileType::Directory, name.as_bytes()) {
                    break;
                }
            }
            return Ok(());
        };
        let entries = [
            (1, 4 * number + 1, FileType::Regular, "factors"),
            (2, 4 * number + 2, FileType::Symlink, "next"),
        ];
        for (next, ino, kind, name) in entries.into_iter().filter(|(next, ..)| *next > offset) {
            if !emit(next, ino, kind, name.as_bytes()) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Result<FsStat> {
        Ok(FsStat { magic: 0x6e75_6d73, bsize: 4096, ..FsStat::default() })
    }
}

/// Reads `/12/next/next/factors`.
pub(crate) fn main() -> Result<()> {
    let vfs = Vfs::new(Config::default(), Arc::new(Numbers))?;
    let task = vfs.task(Cred::user(1000, 1000));
    let file = task.open("/12/next/next/factors", OpenFlags::RDONLY, 0)?;
    let mut buf = [0; 32];
    let len = task.read(&file, &mut buf)?;
    assert_eq!(&buf[..len], b"2 7\n");
    assert_eq!(task.stat("/0").err(), Some(Errno::ENOENT));
    Ok(())
}
