//! The tables and random calls, in every test run.

#[path = "../../left_out.rs"]
mod left_out;

use left_out::left_out;
use pathwalk_check::{Args, OnHost, check};

/// Calls from fixed seeds and a fresh one; `pathwalk check` draws more.
const OPS: u64 = 30_000;

/// Checks, and says what could not be covered, but for tables that are for other settings of the machine.
fn holds(args: &Args) {
    let report = check(args).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.agrees(), "{report}");
    let is_a_setting =
        |note: &&str| ["fs.protected_", "not set so"].iter().any(|of| note.contains(of));
    report.notes().filter(|note| !is_a_setting(note)).for_each(left_out);
    println!("{report}");
}

#[test]
fn the_tables_hold_and_random_calls_agree() {
    holds(&Args { ops: Some(OPS), ..Args::default() });
}

/// What depends on the file system differs there; the rest must not.
#[test]
fn calls_on_ext4_agree() {
    holds(&Args { ext4: true, ops: Some(5_000), ..Args::default() });
}

/// A directory of the host as pathwalk's root: the kernel on both sides, with everything of pathwalk between.
#[test]
fn calls_on_a_directory_of_the_host_agree() {
    for coherence in [OnHost::Exclusive, OnHost::Strict] {
        holds(&Args { hostfs: Some(coherence), ops: Some(5_000), ..Args::default() });
    }
}

/// A few small worlds; `pathwalk check --worlds` asks all of them.
#[test]
fn small_worlds_agree() {
    holds(&Args { worlds: true, slice: Some((500, 1500)), ..Args::default() });
}

#[test]
fn some_order_of_the_calls_explains_each_race() {
    holds(&Args { races: Some(25), ..Args::default() });
}

/// A queue that is as full as the kernel lets it be is too long for a table.
#[test]
fn queues_overflow_alike() {
    let mut table = String::from("inotify_init1 q1 0\nmkdirat a 0755\nmkdirat b 0755\n");
    table.push_str("inotify_add_watch q1 a ATTRIB\ninotify_add_watch q1 b ATTRIB\n");
    for _ in 0..8193 {
        table.push_str("fchmodat2 a 0755 0 -> ok\nfchmodat2 b 0755 0 -> ok\n");
    }
    table.push_str("inotify_rm_watch q1 1\ninotify_read q1 32\nfchmodat2 b 0755 0\n");
    table.push_str("inotify_read q1 300000\nfchmodat2 b 0755 0\ninotify_read q1 300000\n");
    let name = format!("pathwalk-queue-{}.scn", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, table).expect("a table can be written");
    let args = Args { scenario: vec![path.clone()], record: true, ..Args::default() };
    let report = check(&args);
    let recorded = std::fs::read_to_string(&path).expect("the table is there");
    std::fs::remove_file(&path).expect("the table is there");
    // Only the kernel knows the answers.
    if recorded.contains("Q_OVERFLOW") {
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        assert!(report.agrees(), "{report}");
    } else {
        left_out("only root asks the kernel for answers");
    }
}
