//! pathwalk against the running kernel: the same calls to both, and after each one the same answer.
//!
//! ```text
//!   scenarios   tables of calls with the answers that Linux 6.18 gave      ─┐
//!   random      calls drawn at random; a finding is shrunk and printed     ─┴─► Pair ─► Kernel, Ours
//! ```
//!
//! The kernel is asked in a mount namespace of its own, which takes root; without it the tables are held against pathwalk
//! alone and nothing is drawn.
//!
//! - `PATHWALK_SEED=n` draws from that seed, `PATHWALK_OPS=n` that many calls.
//! - `PATHWALK_REPLAY=file` makes the calls in a file, as a finding prints them.
//! - `PATHWALK_BLESS=1` writes the kernel's answers into the tables.

mod pair;

mod scenarios;

mod random;

mod generate;

mod call;

mod field;

mod answer;

mod normal;

mod subject;

mod ours;

mod kernel;

use kernel::{Nursery, may_mount};

/// Where kernels are made, or a word about what is left out.
fn nursery(left_out: &str) -> Option<Nursery> {
    if may_mount() {
        return Some(Nursery::new());
    }
    eprintln!("no right to make mount namespaces: {left_out}");
    None
}

#[test]
fn the_tables_hold() {
    scenarios::check_all(nursery("the tables are held against pathwalk alone").as_ref());
}

#[test]
fn random_calls_agree() {
    if let Some(nursery) = nursery("no random calls") {
        random::check(&nursery);
    }
}
