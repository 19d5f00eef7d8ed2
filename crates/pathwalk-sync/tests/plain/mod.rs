//! Memory that is no atomic.

use loom::cell::UnsafeCell;
use std::sync::Mutex;

/// Stands for what a slot's holder may touch without atomics: a model in which two accesses race fails.
///
/// The mutex makes it `Sync` and is nothing to loom, which sees one access at a time and judges by what
/// happened before it.
#[derive(Debug, Default)]
pub(crate) struct Plain(Mutex<UnsafeCell<()>>);

impl Plain {
    pub(crate) fn read(&self) {
        self.0.lock().unwrap().with(|_| ());
    }

    pub(crate) fn write(&self) {
        self.0.lock().unwrap().with_mut(|_| ());
    }
}
