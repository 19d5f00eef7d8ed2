//! File systems that mount something when a walk comes by, or hold walks back.
//!
//! - [`asked`]: when they are asked, and what becomes of what they say.
//! - [`mounts`]: what becomes of what they mount.
//! - [`shrinking`]: who feels that it is unmounted.

#[path = "../common/mod.rs"]
mod common;

mod managing;

mod asked;

mod mounts;

#[cfg(debug_assertions)]
mod shrinking;
