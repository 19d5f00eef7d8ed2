//! Waiting, under the tree's lock, for walks that hold a mount for a moment. For tests: how often, and what happens meanwhile;
//! release builds have nothing of that.

#[cfg(debug_assertions)]
pub use heard::{meanwhile, waits};

/// Gives those who hold a mount for a moment the time to let it go.
pub(super) fn wait() {
    #[cfg(debug_assertions)]
    heard::note();
    std::thread::yield_now();
}

#[cfg(debug_assertions)]
mod heard {
    use std::cell::{Cell, RefCell};

    thread_local! {
        static WAITS: Cell<u64> = const { Cell::new(0) };
        static MEANWHILE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    }

    /// How often this thread waited.
    pub fn waits() -> u64 {
        WAITS.get()
    }

    /// Has `happens` happen whenever this thread waits in `call`, as if another thread had done it just then. It must not
    /// want the tree's lock.
    pub fn meanwhile<R>(happens: impl FnMut() + 'static, call: impl FnOnce() -> R) -> R {
        MEANWHILE.set(Some(Box::new(happens)));
        let answer = call();
        MEANWHILE.set(None);
        answer
    }

    pub(super) fn note() {
        WAITS.set(WAITS.get() + 1);
        MEANWHILE.with_borrow_mut(|happens| {
            if let Some(happens) = happens {
                happens();
            }
        });
    }
}
