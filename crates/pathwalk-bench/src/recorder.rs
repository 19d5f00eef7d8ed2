//! A worker that writes down what every call answered, so that contenders can be compared.
//!
//! A workload runs through it once before anything is timed. What it wrote is put in the order of the
//! paths, and stays in the order of the calls for each path: two contenders may list a directory in
//! different orders, and then go on in different orders.

use std::cell::Cell;
use std::ffi::CStr;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use pathwalk_abi::{Errno, OpenFlags};

use crate::contender::{Look, Mounted, Worker};
use crate::dirents::Dirents;

/// What a call answered: an error, or a word made of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer(pub Result<u64, Errno>);

/// Writes `OK`, `OK` and the word, or the name of the error.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(0) => f.write_str("OK"),
            Ok(word) => write!(f, "OK {word:x}"),
            Err(errno) => f.write_str(errno.name()),
        }
    }
}

/// One call and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) path: Box<[u8]>,
    pub(crate) call: &'static str,
    pub(crate) answer: Answer,
}

/// Puts answers in the order in which those of all contenders can be compared.
pub(crate) fn sort(log: &mut [Said]) {
    log.sort_by(|one, other| one.path.cmp(&other.path));
}

/// A worker, and what it was heard to answer.
pub(crate) struct Recorder<'w, W> {
    worker: &'w mut W,
    log: Vec<Said>,
}

/// An open file and the path by which it was opened.
pub(crate) struct Opened<F> {
    file: F,
    path: Box<[u8]>,
    /// What was listed so far: a sum, since the order is anybody's.
    listed: Cell<u64>,
}

impl<F> Opened<F> {
    fn new(file: F, path: &[u8]) -> Self {
        Self { file, path: path.into(), listed: Cell::new(0) }
    }

    /// The path of a name in a directory.
    fn join(&self, name: &CStr) -> Vec<u8> {
        [&self.path, &b"/"[..], name.to_bytes()].concat()
    }
}

impl<'w, W: Worker> Recorder<'w, W> {
    pub(crate) fn new(worker: &'w mut W) -> Self {
        Self { worker, log: Vec::new() }
    }

    /// What it heard, in the order of the paths.
    pub(crate) fn into_log(mut self) -> Vec<Said> {
        sort(&mut self.log);
        self.log
    }

    fn note<T>(
        &mut self,
        call: &'static str,
        path: &[u8],
        result: Result<T, Errno>,
        word: impl FnOnce(&T) -> u64,
    ) -> Result<T, Errno> {
        let answer = Answer(result.as_ref().map(word).map_err(|&errno| errno));
        self.log.push(Said { path: path.into(), call, answer });
        result
    }
}

/// A look as one word.
fn word(look: &Look) -> u64 {
    u64::from(look.mode) << 48 | u64::from(look.nlink as u16) << 32 | look.size & 0xffff_ffff
}

/// What is longer than a word as one word.
fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Writes calls that ask the worker and note the answer.
macro_rules! note {
    ($($call:ident($path:ident $(, $arg:ident: $type:ty)*) -> $out:ty, $word:expr;)*) => {$(
        fn $call(&mut self, $path: &CStr $(, $arg: $type)*) -> Result<$out, Errno> {
            let result = self.worker.$call($path $(, $arg)*);
            self.note(stringify!($call), $path.to_bytes(), result, $word)
        }
    )*};
}

/// The same of calls about open files.
macro_rules! note_file {
    ($($call:ident -> $out:ty, $word:expr;)*) => {$(
        fn $call(&mut self, file: &Self::File) -> Result<$out, Errno> {
            let result = self.worker.$call(&file.file);
            self.note(stringify!($call), &file.path, result, $word)
        }
    )*};
}

impl<W: Worker> Worker for Recorder<'_, W> {
    type File = Opened<W::File>;

    note! {
        access(path) -> (), |()| 0;
        stat(path) -> Look, word;
        lstat(path) -> Look, word;
        statx(path) -> Look, word;
        mkdir(path, mode: u32) -> (), |()| 0;
        symlink(target, path: &CStr) -> (), |()| 0;
        rmdir(path) -> (), |()| 0;
        unlink(path) -> (), |()| 0;
        rename(old, new: &CStr) -> (), |()| 0;
        chmod(path, mode: u32) -> (), |()| 0;
        chown(path, uid: u32, gid: u32) -> (), |()| 0;
        setxattr(path, name: &CStr, value: &[u8]) -> (), |()| 0;
        umount(path) -> (), |()| 0;
    }

    note_file! {
        fstat -> Look, word;
        fstatat_empty -> Look, word;
        statx_empty -> Look, word;
        statx_null -> Look, word;
    }

    fn open(&mut self, path: &CStr, flags: OpenFlags, mode: u32) -> Result<Self::File, Errno> {
        let result = self.worker.open(path, flags, mode);
        let file = self.note("open", path.to_bytes(), result, |_| 0)?;
        Ok(Opened::new(file, path.to_bytes()))
    }

    fn openat(
        &mut self,
        dir: &Self::File,
        name: &CStr,
        flags: OpenFlags,
    ) -> Result<Self::File, Errno> {
        let result = self.worker.openat(&dir.file, name, flags);
        let path = dir.join(name);
        let file = self.note("openat", &path, result, |_| 0)?;
        Ok(Opened::new(file, &path))
    }

    fn statx_at(&mut self, dir: &Self::File, name: &CStr) -> Result<Look, Errno> {
        let result = self.worker.statx_at(&dir.file, name);
        self.note("statx", &dir.join(name), result, word)
    }

    fn mkdirat(&mut self, dir: &Self::File, name: &CStr, mode: u32) -> Result<(), Errno> {
        let result = self.worker.mkdirat(&dir.file, name, mode);
        self.note("mkdirat", &dir.join(name), result, |()| 0)
    }

    fn symlinkat(&mut self, target: &CStr, dir: &Self::File, name: &CStr) -> Result<(), Errno> {
        let result = self.worker.symlinkat(target, &dir.file, name);
        self.note("symlinkat", &dir.join(name), result, |()| 0)
    }

    fn mknodat(&mut self, dir: &Self::File, name: &CStr, mode: u32) -> Result<(), Errno> {
        let result = self.worker.mknodat(&dir.file, name, mode);
        self.note("mknodat", &dir.join(name), result, |()| 0)
    }

    /// Noted when the end is reached: how much comes at once is anybody's.
    fn getdents(&mut self, dir: &Self::File, buf: &mut [u8]) -> Result<usize, Errno> {
        let result = self.worker.getdents(&dir.file, buf);
        if let Ok(len @ 1..) = result {
            let sum = Dirents::of(&buf[..len]).fold(0, |sum, entry| hash(entry).wrapping_add(sum));
            dir.listed.set(dir.listed.get().wrapping_add(sum));
            return result;
        }
        self.note("getdents", &dir.path, result, |_| dir.listed.get())
    }

    fn readlink(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
        let result = self.worker.readlink(path, buf);
        self.note("readlink", path.to_bytes(), result, |&len| hash(&buf[..len]))
    }

    fn realpath(&mut self, path: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
        let result = self.worker.realpath(path, buf);
        self.note("realpath", path.to_bytes(), result, |&len| hash(&buf[..len]))
    }

    fn umask(&mut self, mask: u32) -> u32 {
        self.worker.umask(mask)
    }

    fn mount(&mut self, what: Mounted, path: &CStr) -> Result<(), Errno> {
        let result = self.worker.mount(what, path);
        self.note("mount", path.to_bytes(), result, |()| 0)
    }
}
