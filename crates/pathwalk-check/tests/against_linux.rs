//! The tables and random calls, in every test run. `PATHWALK_BLESS=1` writes the kernel's answers into the tables.

use pathwalk_check::{Args, all_tables, random, tables};

#[test]
fn the_tables_hold() {
    let record = std::env::var_os("PATHWALK_BLESS").is_some();
    tables(&all_tables(), record).unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn random_calls_agree() {
    random(&Args::default()).unwrap_or_else(|found| panic!("{found}"));
}
