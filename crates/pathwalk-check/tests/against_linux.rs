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

/// A few small worlds; `pathwalk check --worlds` asks all of them.
#[test]
fn small_worlds_agree() {
    let args = Args { worlds: true, slice: Some((500, 1500)), ..Args::default() };
    let report = check(&args).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.agrees(), "{report}");
    println!("{report}");
}

#[test]
fn some_order_of_the_calls_explains_each_race() {
    let args = Args { races: Some(25), ..Args::default() };
    let report = check(&args).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.agrees(), "{report}");
    println!("{report}");
}
