//! A directory of the host: what the host and the cache see of each other's doings.

mod acls;

mod common;
#[path = "../../../left_out.rs"]
mod left_out;

mod open;

mod changes;

mod calls;

mod coherence;

mod threads;

mod elsewhere;

mod begins;

mod beside;

mod held;

mod bounds;

mod decided;

mod fuse;

mod escape;

mod identities;

mod made;

mod peek;
mod replaced;

mod watched;
