//! What every model needs: threads that share one thing, and the set of what can come of it.
//!
//! ```text
//! RUSTFLAGS="--cfg loom -C debug-assertions" cargo test --release -p pathwalk-sync --test 'loom_*'
//! ```
//!
//! `scripts/mutants` shows that for each memory ordering one of the models fails without it.

use loom::thread::JoinHandle;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// A schedule may take a thread off the processor this often where it could have gone on, unless
/// `LOOM_MAX_PREEMPTIONS` says otherwise.
const PREEMPTIONS: usize = 3;

/// Runs `model` in every schedule and with everything that its loads may see, and returns all that came of it.
pub(crate) fn explore<T: Ord + Send + 'static>(
    model: impl Fn() -> T + Send + Sync + 'static,
) -> BTreeSet<T> {
    let outcomes = Arc::new(Mutex::new(BTreeSet::new()));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    let mine = Arc::clone(&outcomes);
    builder.check(move || {
        let outcome = model();
        mine.lock().unwrap().insert(outcome);
    });
    std::mem::take(&mut *outcomes.lock().unwrap())
}

/// Spawns a thread that does `work` with what all threads of the model share.
pub(crate) fn spawn<S: 'static, T: 'static>(
    shared: &Arc<S>,
    work: impl FnOnce(&S) -> T + 'static,
) -> JoinHandle<T> {
    let shared = Arc::clone(shared);
    loom::thread::spawn(move || work(&shared))
}
