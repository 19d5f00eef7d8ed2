//! The promises, each with a test that fails when it is broken.
//!
//! - [`read_only`]: a cached lookup stores nothing that another thread reads.
//! - [`elsewhere`]: a writer elsewhere is not felt.
//! - [`current`]: what is remembered changes no answer.
//! - [`remembered`]: what is remembered tells nobody more, and leaves nothing undone.
//! - [`walked`]: what is remembered is what would be walked.
//! - [`acl`]: an ACL that comes or goes is seen by the next lookup, also by one that is remembered.
//! - [`private`]: what only some may search is remembered for them.
//! - [`mounted`]: what lies in mounts is remembered while they stay.
//! - [`long`]: what lies far away is remembered as long as nothing on the way changes.
//! - [`budgets`]: every cache is bounded.
//!
//! Those about file systems stand in `fs_contract.rs`, those about bad input in `bad_input.rs`.

#[path = "../common/mod.rs"]
mod common;

mod read_only;

mod remembered;

mod walked;

mod elsewhere;

mod current;

mod acl;

mod private;

mod long;

mod mounted;

mod budgets;
