//! What several tests share.

#![expect(dead_code, reason = "no test needs all of it")]

pub(crate) mod asking;
pub(crate) mod lookups;
pub(crate) mod sample;
pub(crate) mod tree;

use std::{sync::mpsc, time::Duration};

/// Runs `f` in a thread of its own; if it is not over after a minute, something waits for ever.
pub(crate) fn watched<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = f();
        let _ = send.send(());
        result
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = receive.recv_timeout(Duration::from_secs(60)) {
        panic!("it hangs");
    }
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A seed from PATHWALK_SEED, or a new one; it is printed, so that a failure can be had again.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("PATHWALK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("PATHWALK_SEED={seed}");
    seed
}

/// Bytes of memory that the process has.
pub(crate) fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
