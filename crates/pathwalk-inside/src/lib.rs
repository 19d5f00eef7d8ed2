//! Answers that a program finds by itself.
//!
//! ```text
//!   supervisor                                a process of the program
//!     Table ── put ──► memory, sealed  ◄── read-only ── image: looks for the answer of a call
//! ```
//!
//! To be told of a call and to answer it takes a supervisor two switches between processes. What it answered before it lays into a
//! table, and what is mapped into the program's process looks there first.
//!
//! Nothing is decided in the program's process: there stands what was answered, and on what that hangs. See [`layout`](Key) for the
//! rules, `docs/run.md` for what becomes of it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod table;

#[expect(dead_code, reason = "some of it the image alone uses")]
mod layout;

pub use layout::{
    ACCESS, AS_THE_HOST, BASE, CALLS, FACCESSAT, FACCESSAT2, FSTAT, GETCWD, GETDENTS64, GETXATTR,
    GIVEN, GIVEN_MOST, IMAGE_BYTES, Key, LGETXATTR, LSTAT, MARK, MESSAGE, MOST_PARTS, MOST_TEXT,
    MOST_WRITTEN, NEWFSTATAT, NEWS, NO_CALL, NO_NEWS, OFF, OPEN, OPENAT, OWN, PARTS, READLINK,
    READLINKAT, STAT, STATX, Shape, TABLE_BYTES, TAKES, given, ready_for, shape_of, take_by,
};
pub use table::{Answer, Counts, Laid, Table, Written};
