//! A side arena for strings that do not fit into a slot: long names and symlink bodies.
//!
//! Blobs lie in arenas of size classes, 64 to 4096 bytes, and are read and written as 64-bit words, zero-padded.
//! A reader that holds nothing may find another string in a blob that was freed; the sequence count of the
//! slot that named the blob tells it so.

use crate::{
    arena::Arena,
    cell::{Cell32, Cell64},
    mapping::Zeroed,
};
use std::io;

/// The handle of a blob: the class in the top three bits, the slot's id below; 0 is none.
pub type Blob = u32;

/// The longest string that a blob can hold.
pub const MAX_LEN: usize = 4096;

const CLASS_SHIFT: u32 = 29;

/// `N` words of a blob.
#[derive(Debug)]
#[repr(transparent)]
struct Words<const N: usize>([Cell64; N]);

impl<const N: usize> Default for Words<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Cell64::default()))
    }
}

#[expect(unsafe_code, reason = "see the argument")]
// SAFETY: an array of transparent atomics; zero is a value; no drop.
unsafe impl<const N: usize> Zeroed for Words<N> {}

/// Strings of up to [`MAX_LEN`] bytes, as words.
#[derive(Debug)]
pub struct BlobArena {
    words8: Arena<Words<8>>,
    words16: Arena<Words<16>>,
    words32: Arena<Words<32>>,
    words64: Arena<Words<64>>,
    words128: Arena<Words<128>>,
    words256: Arena<Words<256>>,
    words512: Arena<Words<512>>,
    /// The bytes in use, in units of 64; bounded by `limit`. Approximate while many allocate at once.
    used: Cell32,
    limit: u32,
}

impl BlobArena {
    /// Reserves address space for `limit` bytes of strings.
    ///
    /// # Errors
    ///
    /// What mmap(2) answers if a range cannot be reserved.
    pub fn new(limit: u64) -> io::Result<Self> {
        let units = (limit / 64).clamp(64, 1 << 28) as u32;
        Ok(Self {
            words8: Arena::new(units)?,
            words16: Arena::new(units / 2)?,
            words32: Arena::new(units / 4)?,
            words64: Arena::new(units / 8)?,
            words128: Arena::new(units / 16)?,
            words256: Arena::new(units / 32)?,
            words512: Arena::new(units / 64)?,
            used: Cell32::default(),
            limit: units,
        })
    }

    /// Stores a string; none where the budget is used up.
    ///
    /// # Panics
    ///
    /// Panics if the string is longer than [`MAX_LEN`]: callers check the limit of what they store.
    #[must_use = "a blob that is forgotten is lost until the arena is dropped"]
    pub fn store(&self, bytes: &[u8]) -> Option<Blob> {
        assert!(bytes.len() <= MAX_LEN, "a blob holds at most {MAX_LEN} bytes");
        let class = bytes.len().max(1).div_ceil(64).next_power_of_two().trailing_zeros();
        if self.used.add(1 << class).saturating_add(1 << class) > self.limit {
            self.used.add((1u32 << class).wrapping_neg());
            return None;
        }
        let id = match class {
            0 => self.words8.alloc(),
            1 => self.words16.alloc(),
            2 => self.words32.alloc(),
            3 => self.words64.alloc(),
            4 => self.words128.alloc(),
            5 => self.words256.alloc(),
            _ => self.words512.alloc(),
        };
        let Some(id) = id else {
            self.used.add((1u32 << class).wrapping_neg());
            return None;
        };
        let blob = class << CLASS_SHIFT | id;
        for (word, chunk) in self.words(blob).iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.set(u64::from_le_bytes(padded));
        }
        Some(blob)
    }

    /// Gives a blob back.
    pub fn free(&self, blob: Blob) {
        let (class, id) = (blob >> CLASS_SHIFT, blob & ((1 << CLASS_SHIFT) - 1));
        match class {
            0 => self.words8.free(id),
            1 => self.words16.free(id),
            2 => self.words32.free(id),
            3 => self.words64.free(id),
            4 => self.words128.free(id),
            5 => self.words256.free(id),
            _ => self.words512.free(id),
        }
        self.used.add((1u32 << class).wrapping_neg());
    }

    /// The words of a blob. Any handle is safe to ask for; what a stale one names is unspecified.
    #[inline]
    pub fn words(&self, blob: Blob) -> &[Cell64] {
        let id = blob & ((1 << CLASS_SHIFT) - 1);
        match blob >> CLASS_SHIFT {
            0 => &self.words8.get(id).0,
            1 => &self.words16.get(id).0,
            2 => &self.words32.get(id).0,
            3 => &self.words64.get(id).0,
            4 => &self.words128.get(id).0,
            5 => &self.words256.get(id).0,
            _ => &self.words512.get(id).0,
        }
    }

    /// Hands the first `len` bytes of a blob to `sink`, in pieces; fewer where a stale handle names a shorter one.
    #[inline]
    pub fn copy(&self, blob: Blob, len: usize, mut sink: impl FnMut(&[u8])) {
        let mut left = len;
        for word in self.words(blob) {
            let taken = left.min(8);
            if taken == 0 {
                break;
            }
            sink(&word.get().to_le_bytes()[..taken]);
            left -= taken;
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        u64::from(self.used.get()) * 64
    }

    /// The addresses of the strings, for tools that watch stores.
    #[cfg(not(loom))]
    pub fn ranges(&self) -> [std::ops::Range<usize>; 7] {
        [
            self.words8.range(),
            self.words16.range(),
            self.words32.range(),
            self.words64.range(),
            self.words128.range(),
            self.words256.range(),
            self.words512.range(),
        ]
    }

    /// Forbids or allows stores, to prove that readers make none.
    ///
    /// # Errors
    ///
    /// What mprotect(2) answers.
    #[cfg(not(loom))]
    pub fn set_writable(&self, writable: bool) -> io::Result<()> {
        self.words8.set_writable(writable)?;
        self.words16.set_writable(writable)?;
        self.words32.set_writable(writable)?;
        self.words64.set_writable(writable)?;
        self.words128.set_writable(writable)?;
        self.words256.set_writable(writable)?;
        self.words512.set_writable(writable)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_they_were() {
        let arena = BlobArena::new(1 << 20).unwrap();
        for len in [1, 7, 8, 63, 64, 65, 128, 129, 255, 256, 1000, 4095, 4096] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 255 + 1) as u8).collect();
            let blob = arena.store(&bytes).unwrap();
            let mut out = Vec::new();
            arena.copy(blob, len, |piece| out.extend_from_slice(piece));
            assert_eq!(out, bytes);
            arena.free(blob);
        }
        assert_eq!(arena.bytes(), 0);
    }

    #[test]
    fn the_budget_is_kept_and_nothing_is_lost() {
        let arena = BlobArena::new(64 * 64).unwrap();
        let blobs: Vec<Blob> = std::iter::from_fn(|| arena.store(&[1; 100])).collect();
        assert_eq!(blobs.len(), 32);
        blobs.into_iter().for_each(|blob| arena.free(blob));
        assert_eq!(arena.bytes(), 0);
        assert!(arena.store(&[1; 4096]).is_some());
    }
}
