//! The one seam between this crate and its model checker: the real primitives, or loom's.

#[cfg(loom)]
pub(crate) use self::model::{
    Mutex, Mutex as ShortMutex, next_thread, park, thread_local, unpark_all,
};
#[cfg(not(loom))]
pub(crate) use crate::lock::Mutex as ShortMutex;
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    thread::yield_now,
    thread_local,
};

/// Stores a word that others change by read-modify-writes, and returns what it said just before. For the model checker it is
/// one step, as a store may be lost to those beside it there; in fact it is two.
#[inline(always)]
pub(crate) fn put(word: &AtomicU32, value: u32, order: Ordering) -> u32 {
    if cfg!(loom) {
        return word.swap(value, order);
    }
    let before = word.load(Ordering::Relaxed);
    word.store(value, order);
    before
}

/// Memory that is no atomic, by loom's names, which sees who goes there at once.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A number for the calling thread, which asks once.
#[cfg(not(loom))]
pub(crate) fn next_thread() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What loom has under another name, or not at all.
#[cfg(loom)]
mod model {
    use loom::sync::{Condvar, MutexGuard};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A mutex that is not poisoned, like `parking_lot`'s.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model that panicked has ended")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// loom's macro does not know `const`, which makes a real thread-local cheap.
    macro_rules! local {
        (static $name:ident: $type:ty = const $value:block;) => {
            loom::thread_local! { static $name: $type = $value; }
        };
    }
    pub(crate) use local as thread_local;

    loom::lazy_static! {
        static ref NEXT: AtomicUsize = AtomicUsize::new(0);
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// A number for the calling thread, which asks once.
    pub(crate) fn next_thread() -> usize {
        NEXT.fetch_add(1, Relaxed)
    }

    /// `parking_lot_core`'s call by its contract: `closed` is asked, and the sleep begins, under the queue's
    /// lock. All keys share one queue: whoever sleeps must expect to be woken for nothing.
    pub(crate) fn park(_key: usize, closed: &dyn Fn() -> bool) {
        let guard = QUEUE.0.lock();
        if closed() {
            drop(QUEUE.1.wait(guard));
        }
    }

    /// Wakes whoever sleeps now; whoever comes later asks `closed` first.
    pub(crate) fn unpark_all(_key: usize) {
        let _guard = QUEUE.0.lock();
        QUEUE.1.notify_all();
    }
}
