//! Words that any thread may read at any time and that carry no order of their own.
//!
//! A slot is made of these. Whoever reads them learns from the slot's [`Seq`](crate::Seq) whether what it
//! read belonged together.

use crate::shim::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A 32-bit word of a slot; all access is relaxed.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Cell32(AtomicU32);

impl Cell32 {
    /// A word of that value.
    #[cfg(not(loom))]
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// Reads the word.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Writes the word; the caller holds the lock or the sequence count that the word is written under.
    #[inline(always)]
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    /// Adds to the word, wrapping, and returns what it was. For statistics and identifiers only.
    #[inline]
    pub fn add(&self, value: u32) -> u32 {
        self.0.fetch_add(value, Relaxed)
    }
}

#[cfg(loom)]
impl Cell32 {
    /// What becomes of it where its memory is taken away.
    pub(crate) fn zero(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A 64-bit word of a slot; all access is relaxed.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Cell64(AtomicU64);

impl Cell64 {
    /// A word of that value.
    #[cfg(not(loom))]
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Reads the word.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Writes the word; the caller holds the lock or the sequence count that the word is written under.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds to the word, wrapping, and returns what it was. For statistics and identifiers only.
    #[inline]
    pub fn add(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Relaxed)
    }

    /// Makes the word this value, unless it is more already.
    #[inline]
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Relaxed);
    }
}

#[cfg(loom)]
impl Cell64 {
    /// What becomes of it where its memory is taken away.
    pub(crate) fn zero(&self) {
        self.0.store(0, Relaxed);
    }
}
