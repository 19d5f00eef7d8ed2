//! The floor: one pass over the bytes of the path, which nobody who looks at a path can undercut.

use std::ffi::CStr;
use std::hint::black_box;

use pathwalk_abi::{Errno, OpenFlags};

use crate::Error;
use crate::contender::{Contender, Look, Mounted, Worker};

/// A contender that reads every path, eight bytes at a time, and answers nothing.
#[derive(Clone, Copy, Debug)]
pub struct Floor;

impl Contender for Floor {
    type Worker = Floor;

    const ANSWERS: bool = false;

    fn name(&self) -> &str {
        "floor"
    }

    fn worker(&self) -> Result<Floor, Error> {
        Ok(Floor)
    }
}

/// Writes calls that pass over each of their paths.
macro_rules! pass {
    ($($call:ident($($path:ident),*; $($rest:ty),*) -> $out:ty;)*) => {$(
        #[inline]
        fn $call(&mut self, $($path: &CStr,)* $(_: $rest),*) -> Result<$out, Errno> {
            // The box on the sum keeps the loads; the one on the path keeps them in this call.
            $(black_box(sum(black_box($path).to_bytes()));)*
            Ok(Default::default())
        }
    )*};
}

impl Worker for Floor {
    type File = ();

    pass! {
        access(path;) -> ();
        stat(path;) -> Look;
        lstat(path;) -> Look;
        readlink(path; &mut [u8]) -> usize;
        realpath(path; &mut [u8]) -> usize;
        statx(path;) -> Look;
        open(path; OpenFlags, u32) -> ();
        fstat(; &()) -> Look;
        fstatat_empty(; &()) -> Look;
        statx_empty(; &()) -> Look;
        statx_null(; &()) -> Look;
        mkdir(path; u32) -> ();
        symlink(target, path;) -> ();
        rmdir(path;) -> ();
        unlink(path;) -> ();
        rename(old, new;) -> ();
        chmod(path; u32) -> ();
        chown(path; u32, u32) -> ();
        setxattr(path, name; &[u8]) -> ();
        umount(path;) -> ();
    }

    fn openat(&mut self, _dir: &(), name: &CStr, _flags: OpenFlags) -> Result<(), Errno> {
        self.access(name)
    }

    fn statx_at(&mut self, _dir: &(), name: &CStr) -> Result<Look, Errno> {
        self.stat(name)
    }

    fn mkdirat(&mut self, _dir: &(), name: &CStr, mode: u32) -> Result<(), Errno> {
        self.mkdir(name, mode)
    }

    fn symlinkat(&mut self, target: &CStr, _dir: &(), name: &CStr) -> Result<(), Errno> {
        self.symlink(target, name)
    }

    fn mknodat(&mut self, _dir: &(), name: &CStr, mode: u32) -> Result<(), Errno> {
        self.mkdir(name, mode)
    }

    fn getdents(&mut self, _dir: &(), _buf: &mut [u8]) -> Result<usize, Errno> {
        Ok(0)
    }

    fn umask(&mut self, mask: u32) -> u32 {
        mask
    }

    fn mount(&mut self, _what: Mounted, path: &CStr) -> Result<(), Errno> {
        self.access(path)
    }
}

/// Adds up the bytes in words, the last word overlapping the one before it.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().map(|&byte| u64::from(byte)).sum();
    };
    words
        .iter()
        .fold(u64::from_ne_bytes(*last), |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_path_changes_the_sum() {
        for length in 1..40 {
            let path = vec![b'a'; length];
            for at in 0..length {
                let mut other = path.clone();
                other[at] = b'b';
                assert_ne!(sum(&path), sum(&other), "byte {at} of {length}");
            }
        }
    }
}
