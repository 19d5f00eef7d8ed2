//! File systems that mount something when a walk comes by, or hold walks back.
//!
//! - [`asked`]: when they are asked, and what becomes of what they say.
//! - [`mounts`]: what becomes of what they mount.

mod managing;

mod asked;

mod mounts;
