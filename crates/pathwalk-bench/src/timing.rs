//! The timed part of a run: many short samples, the subjects taking turns.
//!
//! A machine is noisy for seconds at a time. Turns of milliseconds spread the noise over all
//! subjects, and the median leaves it out. Each pass has an order of its own, so that nobody always
//! follows the one that leaves the caches worst. (Misses that always came after those of tmpfs, which makes and drops a dentry for
//! each, took 1 to 3 % longer than hits that came after hits.) What the kernel drops it frees a while later, in whatever runs then:
//! before the next one's turn that is waited for. (After misses of tmpfs others took 2 to 8 % longer.)

use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::Error;
use crate::subject::Subject;
use crate::workload::Case;

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The whole time, roughly.
    pub(crate) time: Duration,
    /// The least time of one sample.
    pub(crate) sample: Duration,
    /// The least number of samples, whatever time it takes.
    pub(crate) least: usize,
    /// How long nobody has a turn after one who leaves work behind.
    pub(crate) settle: Duration,
}

/// A few of the kernel's grace periods.
const SETTLE: Duration = Duration::from_millis(20);

impl Plan {
    /// A plan whose times can be relied on.
    pub(crate) fn full(time: Duration) -> Plan {
        Plan { time, sample: Duration::from_millis(5), least: 7, settle: SETTLE }
    }

    /// A plan that only shows that everything runs.
    pub(crate) fn quick() -> Plan {
        Plan {
            time: Duration::ZERO,
            sample: Duration::from_micros(500),
            least: 3,
            settle: Duration::ZERO,
        }
    }
}

/// The samples of one subject in one case with one number of threads.
pub(crate) struct Cell {
    /// The case, as an index.
    pub(crate) case: usize,
    /// The subject, as an index.
    pub(crate) subject: usize,
    /// The threads that ran at once.
    pub(crate) threads: usize,
    /// For each sample the time over all operations of all threads. Those of one number were taken in one pass: within milliseconds
    /// where there are few cells, within seconds where there are hundreds.
    pub(crate) ns_per_op: Vec<f64>,
    rounds: u64,
}

/// Times each subject in each case with each of these numbers of threads.
pub(crate) fn time(
    subjects: &mut [Box<dyn Subject>],
    cases: &[Case],
    counts: &[usize],
    plan: Plan,
) -> Result<Vec<Cell>, Error> {
    let mut cells = Vec::new();
    // What one sample of each takes.
    let mut pass_time = Duration::ZERO;
    for (at, case) in cases.iter().enumerate() {
        for threads in case.counts(counts) {
            for (index, subject) in subjects.iter_mut().enumerate() {
                let turn = (at, threads);
                let (rounds, time) = rounds_for(subject.as_mut(), turn, plan.sample)?;
                pass_time += time;
                let ns_per_op = Vec::new();
                cells.push(Cell { case: at, subject: index, threads, ns_per_op, rounds });
            }
        }
    }
    let passes = plan.time.as_nanos() / pass_time.as_nanos().max(1);
    let passes = plan.least.max(passes as usize);
    let bar = progress(passes * cells.len());
    let mut unsettled = false;
    // The same orders in each run: what differs from run to run is the machine.
    let mut random = fastrand::Rng::with_seed(205);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    for _ in 0..passes {
        random.shuffle(&mut order);
        for &at in &order {
            let cell = &mut cells[at];
            let subject = &mut subjects[cell.subject];
            if unsettled && !subject.leaves_work() {
                thread::sleep(plan.settle);
            }
            unsettled = subject.leaves_work();
            let time = subject.sample(cell.case, cell.threads, cell.rounds)?;
            let ops = cell.rounds as f64 * cases[cell.case].ops as f64 * cell.threads as f64;
            cell.ns_per_op.push(time.as_nanos() as f64 / ops);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(cells)
}

/// Finds how many rounds take the time of a sample, and how long that is; it also warms the subject up.
fn rounds_for(
    subject: &mut dyn Subject,
    (case, threads): (usize, usize),
    sample: Duration,
) -> Result<(u64, Duration), Error> {
    let mut rounds = 1;
    loop {
        let time = subject.sample(case, threads, rounds)?;
        if time >= sample {
            let one = time.as_secs_f64() / rounds as f64;
            let fitting = (sample.as_secs_f64() / one).ceil().max(1.0);
            return Ok((fitting as u64, Duration::from_secs_f64(fitting * one)));
        }
        rounds *= 2;
    }
}

/// Shows the progress on standard error, and nothing where that is not a terminal.
fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    match ProgressStyle::with_template("timing {bar:40} {percent:>3} %, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Instant;

    use super::*;
    use crate::subject::Heard;

    /// Takes as long as it is told and writes down when it was asked.
    struct Sundial {
        name: &'static str,
        ns_per_round: u64,
        log: Rc<RefCell<String>>,
    }

    impl Subject for Sundial {
        fn name(&self) -> &str {
            self.name
        }

        fn leaves_work(&self) -> bool {
            self.name == "untidy"
        }

        fn check(&mut self, _case: usize, _thread: usize) -> Result<Option<Heard>, Error> {
            Ok(None)
        }

        fn sample(&mut self, case: usize, _threads: usize, rounds: u64) -> Result<Duration, Error> {
            self.log.borrow_mut().push_str(self.name);
            Ok(Duration::from_nanos(self.ns_per_round * rounds * (case as u64 + 1)))
        }
    }

    fn plan(least: usize) -> Plan {
        let sample = Duration::from_nanos(1000);
        Plan { time: Duration::ZERO, sample, least, settle: Duration::from_millis(3) }
    }

    #[test]
    fn who_leaves_work_behind_is_waited_for() {
        // Who waited for the tidy one would wait for days.
        for (first, settle) in [("untidy", 3), ("tidy", 1_000_000_000)] {
            let log = Rc::new(RefCell::new(String::new()));
            let sundial = |name| -> Box<dyn Subject> {
                Box::new(Sundial { name, ns_per_round: 1000, log: Rc::clone(&log) })
            };
            // One who leaves work behind does not wait for another.
            let mut subjects = [sundial(first), sundial(first), sundial("last")];
            let plan = Plan { settle: Duration::from_millis(settle), ..plan(3) };
            let began = Instant::now();
            time(&mut subjects, &[Case::new("", 1)], &[1], plan).expect("times");
            let took = began.elapsed();
            let log = log.borrow();
            let passes = log.strip_prefix(&format!("{first}{first}last"));
            let waits = passes.expect("the rounds are fitted").matches("untidylast").count();
            assert!(first == "tidy" || waits > 0, "in three passes it comes behind one of two");
            assert!(took >= plan.settle * waits as u32, "{took:?}, {waits} times");
        }
    }

    #[test]
    fn the_subjects_take_turns_and_each_follows_each() {
        const PASSES: usize = 50;
        let log = Rc::new(RefCell::new(String::new()));
        let sundial = |name, ns_per_round| -> Box<dyn Subject> {
            Box::new(Sundial { name, ns_per_round, log: Rc::clone(&log) })
        };
        // Each takes a whole sample for a round, so that one look is enough to fit the rounds.
        let mut subjects = [sundial("a", 1000), sundial("b", 2000), sundial("c", 4000)];
        let cells = time(&mut subjects, &[Case::new("", 10)], &[1], plan(PASSES)).expect("times");
        let times: Vec<&[f64]> = cells.iter().map(|cell| &cell.ns_per_op[..]).collect();
        assert_eq!(times, [[100.0; PASSES], [200.0; PASSES], [400.0; PASSES]]);
        let log = log.borrow();
        let passes = log.strip_prefix("abc").expect("the rounds are fitted");
        for pass in passes.as_bytes().chunks(3) {
            let mut pass = pass.to_vec();
            pass.sort_unstable();
            assert_eq!(pass, b"abc", "each has one turn in each pass");
        }
        for one in ["ab", "ac", "ba", "bc", "ca", "cb"] {
            // In a third of the passes, and in a ninth of them from one to the next.
            let times = passes.matches(one).count();
            assert!(times >= PASSES / 4, "{one} {times} times in {PASSES} passes");
        }
    }

    #[test]
    fn two_threads_do_twice_the_calls() {
        let log = Rc::default();
        let mut subjects: [Box<dyn Subject>; 1] =
            [Box::new(Sundial { name: "a", ns_per_round: 10, log })];
        let plan = plan(1);
        let cases = [Case::new("short", 5), Case::new("long", 5)];
        let cells = time(&mut subjects, &cases, &[1, 2], plan).expect("times");
        let times: Vec<(usize, usize, f64)> =
            cells.iter().map(|cell| (cell.case, cell.threads, cell.ns_per_op[0])).collect();
        assert_eq!(times, [(0, 1, 2.0), (0, 2, 1.0), (1, 1, 4.0), (1, 2, 2.0)]);
    }

    #[test]
    fn the_rounds_fill_a_sample() {
        let log = Rc::default();
        let mut subject = Sundial { name: "a", ns_per_round: 300, log };
        let rounds = rounds_for(&mut subject, (0, 1), Duration::from_nanos(1000));
        assert_eq!(rounds, Ok((4, Duration::from_nanos(1200))));
    }
}
