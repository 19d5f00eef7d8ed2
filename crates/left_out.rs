//! A test that cannot be made here says so, and fails where all must be made. Shared by the tests of all crates.

use std::{env, fmt::Display};

/// Set to anything but nothing where no test may be left out.
const REQUIRE_ALL: &str = "PATHWALK_REQUIRE_ALL";

/// Says what a test is left out for, or a part of it.
#[track_caller]
pub(crate) fn left_out(why: impl Display) {
    assert!(env::var_os(REQUIRE_ALL).is_none_or(|set| set.is_empty()), "left out: {why}");
    eprintln!("left out: {why}");
}
