//! Who was made meanwhile by who stays: it has his one CPU of him.

use crate::{cpu::Cpus, kin};

/// So often it is looked whether somebody was made meanwhile.
const MOST_LOOKS: usize = 8;

/// Lets all go whom a process made, or one of these, after the one of this number; but for one process.
///
/// Those whom it made are somebody else's where it has ended. And who is made while it is looked may have one CPU of another one.
pub(super) fn let_go(cpus: &Cpus, process: u32, after: u64, but: Option<u32>) {
    for _ in 0..MOST_LOOKS {
        let mut processes = kin::below(process).unwrap_or_default();
        if kin::is_ending(process) {
            processes.extend(kin::descendants().unwrap_or_default());
        }
        processes.push(process);
        let others = processes.into_iter().filter(|process| Some(*process) != but);
        let threads = others.flat_map(|process| kin::threads_of(process).unwrap_or_default());
        let made = threads.filter(|&tid| u64::from(tid) > after);
        if made.filter(|&tid| cpus.let_go(tid)).count() == 0 {
            break;
        }
    }
}
