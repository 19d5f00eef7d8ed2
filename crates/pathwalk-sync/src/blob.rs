//! A side arena for strings that do not fit into a slot: long names and symlink bodies.
//!
//! ```text
//!   pages   [64 blobs of 64 bytes] [1 of 4096] [hole] [16 of 256] [free] …      one budget for all sizes
//! ```
//!
//! A page has blobs of one size, 64 to 4096 bytes. One whose blobs are all free becomes a page of any other size;
//! where there are many of those, their memory goes back to the system. So the budget bounds the memory that is
//! committed, whatever sizes were in use before. Strings are read and written as 64-bit words, zero-padded.
//!
//! Invariant: every handle that was ever given out names readable words. A reader that holds nothing may find another
//! string in them, or zeros; the sequence count of the slot that named the blob tells it so.

use crate::{
    cell::Cell64,
    mapping::Mapping,
    shim::{Mutex, Ordering::Release, fence},
};
use crossbeam_utils::CachePadded;
use std::io;

/// The handle of a blob: one more than the number of its first 64 bytes; 0 is none.
pub type Blob = u32;

/// The longest string that a blob can hold; a zero ends it.
pub const MAX_LEN: usize = 4095;

const PAGE: usize = 4096;
/// The smallest blob, in words.
const UNIT_WORDS: u32 = 8;
/// The smallest blobs that a page has room for.
const UNITS: u32 = 64;
/// 64 bytes, 128, and so on to 4096.
const CLASSES: usize = 7;
/// So many free pages are kept in any case, and one for each so many in use.
const KEPT: usize = 16;
const KEPT_OF: usize = 8;

/// No page.
const NONE: u32 = u32::MAX;

/// Strings of up to [`MAX_LEN`] bytes, as words, each with a zero behind it.
pub struct BlobArena {
    words: Mapping<Cell64>,
    pages: CachePadded<Mutex<Pages>>,
}

/// What is free. The pages are in one of: some list of `partial`; full, in none; `free`; `holes`.
struct Pages {
    /// Those that were ever in use.
    all: Vec<Page>,
    /// As many as the budget allows.
    most: u32,
    /// By class, the first page that has both free blobs and others.
    partial: [u32; CLASSES],
    /// Wholly free, with memory behind them.
    free: Vec<u32>,
    /// Wholly free, without.
    holes: Vec<u32>,
}

/// A page of blobs.
#[derive(Clone, Copy)]
struct Page {
    /// A bit for each blob in use.
    used: u64,
    class: u8,
    /// Its neighbours in the list of its class, if it is in one.
    prev: u32,
    next: u32,
}

/// All bits of a page's blobs.
fn all_used(class: u8) -> u64 {
    u64::MAX >> (u64::BITS - (UNITS >> class))
}

impl Pages {
    /// Takes a blob of a class: its first unit's number.
    fn take(&mut self, class: u8) -> Option<u32> {
        if self.partial[class as usize] == NONE {
            let page = self.free.pop().or_else(|| self.holes.pop()).or_else(|| {
                let fresh = self.all.len() as u32;
                (fresh < self.most).then(|| {
                    self.all.push(Page { used: 0, class, prev: NONE, next: NONE });
                    fresh
                })
            })?;
            self.all[page as usize] = Page { used: 0, class, prev: NONE, next: NONE };
            self.link(page);
        }
        let number = self.partial[class as usize];
        let page = &mut self.all[number as usize];
        let blob = (!page.used).trailing_zeros();
        debug_assert!(blob < UNITS >> class, "a page in the list has a free blob");
        page.used |= 1 << blob;
        if page.used == all_used(class) {
            self.unlink(number);
        }
        Some(number * UNITS + (blob << class))
    }

    /// Gives a blob back; hands out the pages whose memory is to go back to the system.
    fn give(&mut self, unit: u32, mut punch: impl FnMut(u32)) {
        let (number, within) = (unit / UNITS, unit % UNITS);
        let page = &mut self.all[number as usize];
        let bit = 1 << (within >> page.class);
        debug_assert!(page.used & bit != 0, "only what was given out comes back");
        let full = page.used == all_used(page.class);
        page.used &= !bit;
        if page.used != 0 {
            if full {
                self.link(number);
            }
            return;
        }
        if !full {
            self.unlink(number);
        }
        self.free.push(number);
        let in_use = self.all.len() - self.free.len() - self.holes.len();
        for page in self.free.drain(self.free.len().min(KEPT + in_use / KEPT_OF)..) {
            punch(page);
            self.holes.push(page);
        }
    }

    fn link(&mut self, number: u32) {
        let first = &mut self.partial[self.all[number as usize].class as usize];
        let next = std::mem::replace(first, number);
        if next != NONE {
            self.all[next as usize].prev = number;
        }
        let page = &mut self.all[number as usize];
        (page.prev, page.next) = (NONE, next);
    }

    fn unlink(&mut self, number: u32) {
        let Page { class, prev, next, .. } = self.all[number as usize];
        match prev {
            NONE => self.partial[class as usize] = next,
            prev => self.all[prev as usize].next = next,
        }
        if next != NONE {
            self.all[next as usize].prev = prev;
        }
    }
}

impl BlobArena {
    /// Reserves address space for `limit` bytes of strings, a page at least.
    ///
    /// # Errors
    ///
    /// What mmap(2) answers if the range cannot be reserved.
    pub fn new(limit: u64) -> io::Result<Self> {
        let most = (limit / PAGE as u64).clamp(1, u64::from(u32::MAX / UNITS) - 1) as u32;
        let pages = Pages {
            all: Vec::new(),
            most,
            partial: [NONE; CLASSES],
            free: Vec::new(),
            holes: Vec::new(),
        };
        Ok(Self {
            words: Mapping::new(most as usize * (PAGE / size_of::<u64>()))?,
            pages: CachePadded::new(Mutex::new(pages)),
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
        let units = (bytes.len() + 1).div_ceil(PAGE / UNITS as usize).next_power_of_two();
        let unit = self.pages.lock().take(units.trailing_zeros() as u8)?;
        let blob = unit + 1;
        // Release fence: a reader that still follows the handle of who had these words before, and sees one of the
        // stores below, also sees that slot's count moved, which was done before the blob was freed. Pairs with the
        // Acquire fence in `Seq::unchanged`.
        fence(Release);
        let mut words = self.words(blob)[..units * UNIT_WORDS as usize].iter();
        for chunk in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            if let Some(word) = words.next() {
                word.set(u64::from_le_bytes(padded));
            }
        }
        // Where the string fills its last word the zero is in the next.
        if let Some(end) = words.next() {
            end.set(0);
        }
        Some(blob)
    }

    /// Gives a blob back. Whatever named it has its count moved before.
    pub fn free(&self, blob: Blob) {
        debug_assert!(blob != 0, "only what was given out comes back");
        // Taken under the lock: nobody may take the page before it is a hole. A reader that finds zeros there finds
        // the moved count as well: the call interrupts all threads.
        self.pages.lock().give(blob - 1, |page| {
            let first = page as usize * PAGE / size_of::<u64>();
            self.words.take_memory(first..first + PAGE / size_of::<u64>());
        });
    }

    /// The words of a blob, and of what lies behind it. Any handle is safe to ask for; what a stale one names is
    /// unspecified, and how many words it names too.
    #[inline]
    pub fn words(&self, blob: Blob) -> &[Cell64] {
        let words = self.words.slots().from(blob.wrapping_sub(1).wrapping_mul(UNIT_WORDS));
        &words[..words.len().min(PAGE / 8)]
    }

    /// Hands the first `len` bytes of a blob to `sink`, in pieces; fewer where a stale handle names fewer.
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

    /// Hands the bytes of a blob before the first zero to `sink`, in pieces, [`MAX_LEN`] of them at most.
    #[inline]
    pub fn copy_str(&self, blob: Blob, mut sink: impl FnMut(&[u8])) {
        for words in self.words(blob).chunks(4) {
            let mut piece = [0; 32];
            for (at, word) in words.iter().enumerate() {
                let word = word.get();
                piece[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
                if let Some(end) = first_zero(word) {
                    return sink(&piece[..at * 8 + end]);
                }
            }
            sink(&piece[..words.len() * 8]);
        }
    }

    /// Bytes of memory that strings have; never more than the budget.
    pub fn bytes(&self) -> u64 {
        let pages = self.pages.lock();
        ((pages.all.len() - pages.holes.len()) * PAGE) as u64
    }

    /// Bytes of memory beside the strings, for knowing what is free.
    pub fn overhead(&self) -> u64 {
        let pages = self.pages.lock();
        let lists = (pages.free.capacity() + pages.holes.capacity()) * size_of::<u32>();
        (pages.all.capacity() * size_of::<Page>() + lists) as u64
    }

    /// The addresses of the strings, for tools that watch stores.
    #[cfg(not(loom))]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.words.range()
    }

    /// Forbids or allows stores, to prove that readers make none.
    ///
    /// # Errors
    ///
    /// What mprotect(2) answers.
    #[cfg(not(loom))]
    pub fn set_writable(&self, writable: bool) -> io::Result<()> {
        self.words.set_writable(writable)
    }
}

/// Which byte of a little-endian word is the first zero.
#[inline]
fn first_zero(word: u64) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // The lowest bit that is set is that of the first zero; those above it may be wrong.
    let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

impl std::fmt::Debug for BlobArena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobArena").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn read(arena: &BlobArena, blob: Blob, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        arena.copy(blob, len, |piece| out.extend_from_slice(piece));
        out
    }

    #[test]
    fn strings_come_back_as_they_were() {
        let arena = BlobArena::new(1 << 20).unwrap();
        for len in [1, 7, 8, 63, 64, 65, 128, 129, 255, 256, 1000, 4095] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 255 + 1) as u8).collect();
            let blob = arena.store(&bytes).unwrap();
            assert_eq!(read(&arena, blob, len), bytes);
            let mut out = Vec::new();
            arena.copy_str(blob, |piece| out.extend_from_slice(piece));
            assert_eq!(out, bytes, "a zero ends it");
            arena.free(blob);
        }
    }

    #[test]
    fn one_budget_holds_for_all_sizes() {
        let budget = 64 * PAGE as u64;
        let arena = BlobArena::new(budget).unwrap();
        for len in [60, 120, 250, 500, 1000, 2000, 4000, 60] {
            let blobs: Vec<Blob> = std::iter::from_fn(|| arena.store(&vec![1; len])).collect();
            assert_eq!(blobs.len(), budget as usize / len.next_power_of_two(), "{len}");
            assert_eq!(arena.bytes(), budget, "{len}");
            blobs.iter().for_each(|&blob| assert_eq!(read(&arena, blob, len), vec![1; len]));
            blobs.into_iter().for_each(|blob| arena.free(blob));
            assert_eq!(arena.bytes(), (KEPT * PAGE) as u64, "{len}: the rest is given back");
        }
    }

    #[test]
    fn what_is_in_use_stays_while_pages_come_and_go() {
        let arena = BlobArena::new(256 * PAGE as u64).unwrap();
        let mut rng = 1_u64;
        let mut kept: Vec<(Blob, Vec<u8>)> = Vec::new();
        for round in 0..50_000_u64 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let draw = (rng >> 33) as usize;
            if draw % 5 < 2 || kept.len() > 400 {
                if !kept.is_empty() {
                    let (blob, bytes) = kept.swap_remove(draw % kept.len());
                    assert_eq!(read(&arena, blob, bytes.len()), bytes);
                    arena.free(blob);
                }
            } else {
                let bytes = vec![round as u8 | 1; 1 + draw % (60 << (draw % 7))];
                kept.extend(arena.store(&bytes).map(|blob| (blob, bytes)));
            }
        }
        for (blob, bytes) in kept {
            assert_eq!(read(&arena, blob, bytes.len()), bytes);
            arena.free(blob);
        }
        assert_eq!(arena.bytes(), (KEPT * PAGE) as u64);
    }

    #[test]
    fn any_handle_may_be_looked_at() {
        let arena = BlobArena::new(1).unwrap();
        for blob in [0, 1, 64, 65, u32::MAX] {
            assert!(arena.words(blob).len() <= PAGE / 8);
        }
        assert!(arena.store(&[1; 4095]).is_some());
        assert_eq!(arena.store(b"x"), None);
    }
}
