//! Runs an unmodified program in a file tree of pathwalk's: every path that it names is walked here.
//!
//! ```text
//!   guard       who is the program's and who is not; that nobody stays behind           guard
//!   launch      a process with a filter: its path calls wait for an answer        sys::process, table
//!   engine      receives them, copies what they point to, answers                 engine, room, answer/*
//!   tree        memfs, directories of the host, a view of /proc                   spec, tree, procfs
//!   cookies     what a descriptor of the host stands for in the tree              cookies, nameless
//!   handles     bytes that name a file whatever its names are                     handles
//!   patch       what only the thread itself can do: exec, chdir                   patch, passed, auxv, image, errand, tty
//!   people      who the threads are, with credentials that the kernel has not     people, kin, credentials, given
//!   floor       what the mechanism takes where nothing is answered                floor
//! ```
//!
//! Invariant: the program's descriptors are the kernel's own, and no state of it is kept that the kernel keeps. So fork, dup,
//! exec and all that works on descriptors need nobody's attention. Virtual credentials, which the kernel does not keep, are the
//! one thing that has to be followed; without them nobody pays for that.
//!
//! Manual: seccomp_unotify(2). `docs/run.md` says how it works, what it cannot do, and against whom it holds.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod args;

mod spec;

mod tree;

mod table;

mod engine;

mod watchman;

mod room;

mod answer;

mod patch;

mod passed;

mod program;

mod auxv;

mod image;

mod cpu;

mod credentials;
mod stay;

mod people;

mod kin;

mod given;

mod cookies;

mod sent;

mod nameless;

mod handles;

mod setid;

mod watches;

mod shadow;

mod cwd;

mod inside;

mod errand;

mod tty;

mod elf;

mod mapped;

mod procfs;

mod hidden;

mod unseen;

mod proc_text;

mod trace;

mod deny;

mod guard;

mod run;

mod floor;

mod sys;

#[cfg(test)]
#[path = "../../left_out.rs"]
mod left_out;

pub use args::Args;
pub use room::take_stack;
pub use run::{run, run_in_memory};
pub use spec::{HELP as MOUNTS_HELP, SpecError};
pub use table::markdown as calls_as_markdown;
