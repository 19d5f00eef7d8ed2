//! The concurrent check: tasks race on pathwalk, and some order of their calls must explain on the kernel what they saw.
//!
//! ```text
//!   script ──► kernel: every order of the calls, one after the other  ──► set of outcomes
//!          └─► pathwalk: a thread per task, all at once, many times   ──► each outcome is in the set
//! ```
//!
//! An outcome is what each call answered and what is where in the end.

mod script;

use crate::{
    answer::{Raw, Said},
    call::{Call, SLOTS, Step, Who},
    field::{Octal, Slot, Text, Where},
    kernel::{Kernel, Nursery},
    normal::Pace,
    ours::{Ours, Settings},
    subject::Subject,
};
use indicatif::ProgressBar;
use pathwalk::Errno;
use script::{Script, TASKS};
use std::{
    collections::HashSet,
    fmt::Write,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

/// How often each script is raced.
const RACES: usize = 150;
/// After so many findings no more is raced.
const ENOUGH: usize = 5;

/// In so many of them walks within bounds may have given up: a rename that comes in between is rare, one that is taken for
/// such is not.
const GAVE_UP: usize = RACES / 4;
/// What a call answers that is done.
const DONE: &str = "ok";

/// What came of it.
#[derive(Default)]
pub(crate) struct Raced {
    /// Scripts.
    pub(crate) scripts: u64,
    /// Races.
    pub(crate) races: u64,
    /// Outcomes that the kernel can have, of all scripts together.
    pub(crate) possible: u64,
    /// How many of them pathwalk had.
    pub(crate) had: u64,
    /// Outcomes that nothing explains.
    pub(crate) found: Vec<String>,
}

/// Races scripts drawn from a seed.
pub(crate) fn race(seed: u64, scripts: u64, threads: usize, progress: &ProgressBar) -> Raced {
    let settings = Settings::running();
    let next = AtomicU64::new(0);
    let raced = Mutex::new(Raced::default());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let nursery = Nursery::new();
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= scripts {
                        break;
                    }
                    let mut rng = fastrand::Rng::with_seed(seed ^ number << 32);
                    let script = Script::draw(&mut rng);
                    let possible = possible(&script, &nursery);
                    let excused = excused(&script, &nursery);
                    let (had, found) = had(&script, settings, [&possible, &excused], &mut rng);
                    progress.inc(1);
                    let mut raced = raced.lock().expect("nobody panics with it");
                    raced.scripts += 1;
                    raced.races += RACES as u64;
                    raced.possible += possible.len() as u64;
                    raced.had += had as u64;
                    let title = format!("== a race: seed {seed}, script {number}\n");
                    raced.found.extend(found.map(|found| title + &found));
                    if raced.found.len() >= ENOUGH {
                        break;
                    }
                }
            });
        }
    });
    raced.into_inner().expect("nobody panicked with it")
}

/// What each call answered, task by task, and what is where.
type Outcome = Vec<String>;

/// All outcomes that the kernel has when the calls follow each other in some order.
fn possible(script: &Script, nursery: &Nursery) -> HashSet<Outcome> {
    let mut kernel = Kernel::new(nursery);
    let orders = script.orders();
    let mut steps = Vec::new();
    let mut ends = Vec::new();
    for (number, order) in orders.iter().enumerate() {
        steps.extend(begin(number));
        steps.extend(script.setup.iter().map(by_root));
        let first = steps.len();
        steps.extend(script.steps(order));
        let looks = steps.len();
        steps.extend(script.looks().iter().map(by_root));
        ends.push((first, looks, steps.len()));
    }
    let outcomes = kernel.steps(&steps, Pace::Fast);
    let mut possible = HashSet::new();
    for (order, (first, looks, end)) in orders.iter().zip(ends) {
        let mut said = outcomes[first..end].iter().map(|outcome| brief(&outcome.said));
        let answers = script.answers(order, said.by_ref().take(looks - first));
        possible.insert(answers.into_iter().chain(said).collect());
    }
    possible
}

/// The outcomes where the tree gets no map, because somebody writes there at that moment.
fn excused(script: &Script, nursery: &Nursery) -> HashSet<Outcome> {
    let Some((without, at)) = script.without_map() else { return HashSet::new() };
    let busy = |mut outcome: Outcome| {
        outcome.insert(at, Errno::EBUSY.name().into());
        outcome
    };
    possible(&without, nursery).into_iter().map(busy).collect()
}

/// Races the script on pathwalk: how many of the possible outcomes it had, and one that is not possible.
fn had(
    script: &Script,
    settings: Settings,
    [possible, excused]: [&HashSet<Outcome>; 2],
    rng: &mut fastrand::Rng,
) -> (usize, Option<String>) {
    let mut ours = Ours::new(settings);
    let mut had = HashSet::new();
    let mut gave_up = 0;
    for number in 0..RACES {
        ours.steps(&begin(number), Pace::Fast);
        ours.steps(&script.setup.iter().map(by_root).collect::<Vec<_>>(), Pace::Fast);
        let mut outcome = race_once(script, &ours, rng);
        for call in script.looks() {
            outcome.push(brief(&ours.ask_as(Who::Root, &call)));
        }
        if possible.contains(&outcome) {
            had.insert(outcome);
        } else if !excused.contains(&outcome) {
            gave_up += 1;
            if gave_up > GAVE_UP || !script.is_explained(&outcome, possible) {
                return (had.len(), Some(unexplained(script, &outcome, possible)));
            }
        }
    }
    (had.len(), None)
}

fn race_once(script: &Script, ours: &Ours, rng: &mut fastrand::Rng) -> Outcome {
    let start = Barrier::new(script.tasks.len());
    thread::scope(|scope| {
        let racers: Vec<_> = script
            .tasks
            .iter()
            .zip(TASKS)
            .map(|(calls, who)| {
                // Threads never start at the same moment; a few hundred rounds move one call against another.
                let rounds = rng.u32(..600);
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    (0..rounds).for_each(|_| std::hint::spin_loop());
                    calls.iter().map(|call| brief(&ours.ask_as(who, call))).collect::<Vec<_>>()
                })
            })
            .collect();
        racers.into_iter().flat_map(|racer| racer.join().expect("calls do not panic")).collect()
    })
}

/// Gives all tasks an empty directory of the run's own, and closes what was opened.
fn begin(number: usize) -> Vec<Step> {
    let path = format!("/{number}").into_bytes();
    let place = Where { dir: None, path: path.clone() };
    let mut steps: Vec<Step> = (0..SLOTS)
        .map(|slot| Call::Close { slot: Slot(slot) })
        .chain([Call::Umask { mask: Octal(0) }, Call::Mkdirat { path: place, mode: Octal(0o777) }])
        .map(|call| Step { who: Who::Root, call })
        .collect();
    for who in TASKS {
        steps.push(Step { who, call: Call::Umask { mask: Octal(0) } });
        steps.push(Step { who, call: Call::Chdir { path: Text(path.clone()) } });
    }
    steps
}

fn by_root(call: &Call) -> Step {
    Step { who: Who::Root, call: call.clone() }
}

/// Of an answer, what does not change once it is true: see [`script`].
fn brief<F>(said: &Said<F>) -> String {
    match said {
        Said::NotAsked => "not asked".into(),
        Said::Answer(Err(errno)) => errno.name().into(),
        Said::Answer(Ok(Raw::Stat(stat))) => format!("{:o} of {}", stat.st_mode, stat.st_uid),
        Said::Answer(Ok(Raw::Bytes(bytes))) => bytes.escape_ascii().to_string(),
        Said::Answer(Ok(_)) => DONE.into(),
    }
}

fn unexplained(script: &Script, outcome: &Outcome, possible: &HashSet<Outcome>) -> String {
    let mut text = String::new();
    for call in &script.setup {
        let _ = writeln!(text, "{}", by_root(call));
    }
    text.push_str("# at the same time:\n");
    let mut answers = outcome.iter();
    for (who, calls) in TASKS.into_iter().zip(&script.tasks) {
        for (call, answer) in calls.iter().zip(&mut answers) {
            let step = Step { who, call: call.clone() };
            let _ = writeln!(text, "{step}    # {answer}");
        }
    }
    text.push_str("# and then:\n");
    for (call, answer) in script.looks().iter().zip(answers) {
        if answer != "ENOENT" && answer != "EINVAL" && answer != "ENOTDIR" {
            let _ = writeln!(text, "# {call}: {answer}");
        }
    }
    let _ = writeln!(
        text,
        "# No order of the calls explains it; the kernel has {} outcomes.",
        possible.len()
    );
    text
}
