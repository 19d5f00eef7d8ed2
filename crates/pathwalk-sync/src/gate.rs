//! Waiting for a slot to leave a state: a name that is being looked up, an operation on it that is under way.
//!
//! The queues live outside the slots (`parking_lot_core`), so a slot pays nothing for being waited on.
//!
//! Linux: `wait_var_event`, `wake_up_var`.

#[cfg(loom)]
use crate::shim::{park, park as park_for_a_while, unpark_all};
#[cfg(not(loom))]
use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN};
#[cfg(not(loom))]
use std::time::Instant;

/// Blocks while `closed` says true; looked at again at each [`wake_all`] on the same `key`.
pub fn wait<T>(key: &T, closed: impl Fn() -> bool) {
    while closed() {
        park(std::ptr::from_ref(key).addr(), &closed);
    }
}

/// Blocks until the next [`wake_all`] on `key`, unless `closed` says false by then; a millisecond at most.
pub(crate) fn nap<T>(key: &T, closed: impl Fn() -> bool) {
    park_for_a_while(std::ptr::from_ref(key).addr(), &closed);
}

/// Wakes all who wait on `key`; the caller has changed the state before.
pub fn wake_all<T>(key: &T) {
    unpark_all(std::ptr::from_ref(key).addr());
}

#[cfg(not(loom))]
fn park(key: usize, closed: &dyn Fn() -> bool) {
    park_until(key, closed, None);
}

#[cfg(not(loom))]
fn park_for_a_while(key: usize, closed: &dyn Fn() -> bool) {
    park_until(key, closed, Some(Instant::now() + crate::lock::NAP));
}

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "parking_lot_core's queues are keyed by bare addresses")]
fn park_until(key: usize, closed: &dyn Fn() -> bool, end: Option<Instant>) {
    // SAFETY: `key` is the address of a slot that we only use as a name; `closed` reads atomics, takes no
    // lock and does not call back into parking_lot_core; the other two callbacks do nothing.
    unsafe {
        parking_lot_core::park(key, closed, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, end);
    }
}

#[cfg(not(loom))]
#[expect(unsafe_code, reason = "parking_lot_core's queues are keyed by bare addresses")]
fn unpark_all(key: usize) {
    // SAFETY: `key` is only used as a name, and all who park on it use the same protocol.
    unsafe {
        parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN);
    }
}
