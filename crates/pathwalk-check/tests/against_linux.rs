//! The tables and random calls, in every test run.

use pathwalk_check::{Args, check};

/// Calls from fixed seeds and a fresh one; `pathwalk check` draws more.
const OPS: u64 = 30_000;

#[test]
fn the_tables_hold_and_random_calls_agree() {
    let report = check(&Args { ops: Some(OPS), ..Args::default() });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.agrees(), "{report}");
    println!("{report}");
}
