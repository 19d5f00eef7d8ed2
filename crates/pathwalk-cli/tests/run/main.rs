//! `pathwalk run`: real programs do in its tree what they do without it, and reach nothing else.
//!
//! Programs that are not installed are left out, with a line that says so; so is all of it where no program can be run, as
//! inside another supervisor.

mod common;
#[path = "../../../left_out.rs"]
mod left_out;

mod image;
mod proc;

mod programs;
mod sockets;

mod terminals;
mod tree;

mod words;

mod handles;

mod users;

mod attacks;
mod swaps;

mod refused;

mod removed;

mod beside;

mod exec;

mod stay;

mod numbers;

mod handed_in;

mod checks;

mod inside;

mod xattrs;

mod no_place;

mod ready;

mod place;

mod watches;

mod waits;

mod signals;

mod readme;
