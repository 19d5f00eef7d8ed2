//! Everything at once from many threads; afterwards the tree is checked whole.
//!
//! Each test prints its seed; `PATHWALK_SEED=…` runs it with that one again, `PATHWALK_SECONDS=…` for longer. In debug
//! builds the order of the locks is checked all the time.

#[path = "../common/mod.rs"]
mod common;

mod everything;

mod circles;

mod mounts;

mod atomic;

mod moves;

mod opens;

mod umount;

mod remounts;

mod idmaps;

mod pairs;

mod private;

mod asked;

#[cfg(debug_assertions)]
mod interrupted;

mod listing;

mod vacant;

use pathwalk::{Config, Cred, MemFs, Task, Vfs};
use std::time::{Duration, Instant};

/// An empty machine, and a task of the superuser.
fn machine() -> Task {
    Vfs::new(Config::default(), MemFs::new()).unwrap().task(Cred::root())
}

/// When a test ends.
fn deadline() -> Instant {
    let seconds = std::env::var("PATHWALK_SECONDS").ok().and_then(|text| text.parse().ok());
    Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// Checks the tree and that the tables hold it and nothing else.
fn check_whole(task: &Task) {
    let census = common::tree::census(task);
    let usage = task.vfs().usage();
    assert_eq!(usage.dentries, census.names, "orphans among the dentries");
    assert_eq!(usage.inodes, census.inodes, "orphans among the inodes");
    assert_eq!(usage.mounts, 1, "orphans among the mounts");
}
