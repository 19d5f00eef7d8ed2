//! Values on cache lines of their own.

use std::ops::Deref;

/// A value beside which nothing lies on its cache lines: who changes it is not felt by who reads what would.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Apart<T>(T);

impl<T> Apart<T> {
    /// Puts a value there.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
