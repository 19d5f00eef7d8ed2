//! Nothing that can be asked is left out of what is drawn.

use super::Generator;
use crate::{
    call::{Call, Step},
    normal::undrawn::UNDRAWN,
};
use std::collections::BTreeSet;

/// Runs of a fixed seed.
const RUNS: u64 = 1200;
/// Calls in each.
const CALLS: usize = 250;

/// Which calls were drawn, and each call's flags.
#[derive(Default)]
struct Seen {
    calls: BTreeSet<&'static str>,
    /// Call, word and flag.
    flags: BTreeSet<(&'static str, &'static str, &'static str)>,
}

fn seen() -> Seen {
    let mut seen = Seen::default();
    for step in (0..RUNS).flat_map(|run| Generator::new(1, run).run(CALLS)) {
        let (name, flags) = (step.call.name(), step.call.flags());
        seen.calls.insert(name);
        seen.flags.extend(flags.into_iter().map(|(word, flag)| (name, word, flag)));
    }
    seen
}

#[test]
fn a_call_that_takes_no_bounds_is_none_within_bounds() {
    for call in ["stat d", "fstat h0", "within BENEATH fstatat d 0"] {
        let read = Step::parse(&format!("within BENEATH {call}"));
        assert!(read.is_err_and(|error| error.contains("no bounds")), "{call}");
    }
    assert!(Step::parse("within BENEATH fstatat d 0").is_ok());
}

#[test]
fn what_is_drawn_is_read_again_from_its_text() {
    for step in (0..100).flat_map(|run| Generator::new(2, run).run(CALLS)) {
        assert_eq!(Step::parse(&step.to_string()).as_ref(), Ok(&step), "{step}");
    }
}

#[test]
fn every_call_is_drawn_with_every_flag() {
    let seen = seen();
    let mut missing: Vec<String> = Vec::new();
    for name in Call::NAMES {
        if !seen.calls.contains(name) {
            missing.push((*name).to_owned());
        }
        let left_out = |flag: &&str| {
            UNDRAWN.iter().any(|(call, flags, _)| call == name && flags.contains(flag))
        };
        for (word, flags) in Call::known_flags(name) {
            let drawn = |flag: &&str| seen.flags.contains(&(name, word, flag));
            let flags = flags.into_iter().filter(|flag| !drawn(flag) && !left_out(flag));
            missing.extend(flags.map(|flag| format!("{name} {word}: {flag}")));
        }
    }
    assert!(missing.is_empty(), "never drawn: {missing:?}");
}
