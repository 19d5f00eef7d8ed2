//! With how many threads a workload is timed.

use std::thread;

/// How many threads this machine can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// More threads than this nobody may ask for.
pub(crate) fn most() -> usize {
    2 * cores()
}

/// The numbers of threads, each greater than the one before: each up to what is wanted, or else 1, 2, all cores, and of a
/// workload that wants it twice as many.
pub(crate) fn counts(wanted: Option<usize>, cores: usize, twice: bool) -> Vec<usize> {
    if let Some(most) = wanted {
        return (1..=most).collect();
    }
    let mut counts = vec![1, cores.min(2), cores];
    counts.extend(twice.then_some(2 * cores));
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_nothing_gets_one_two_and_all_cores() {
        for (cores, plain, twice) in [
            (1, &[1][..], &[1, 2][..]),
            (2, &[1, 2], &[1, 2, 4]),
            (3, &[1, 2, 3], &[1, 2, 3, 6]),
            (16, &[1, 2, 16], &[1, 2, 16, 32]),
        ] {
            assert_eq!(counts(None, cores, false), plain);
            assert_eq!(counts(None, cores, true), twice);
            assert_eq!(counts(Some(4), cores, twice.len() > 1), [1, 2, 3, 4]);
        }
    }
}
