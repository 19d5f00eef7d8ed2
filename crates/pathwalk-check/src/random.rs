//! Calls drawn at random, in runs; each run in a root of its own.
//!
//! A run is drawn from its seed and its number, so that several workers can share a seed, and any run can be drawn again.
//! After its last call the judge looks at everything, in some runs between calls too. A run in which the two differ is
//! shrunk and printed as a scenario.

use crate::{
    call::Step,
    coverage::Coverage,
    generate::Generator,
    host_dir::OnHost,
    kernel::{Ground, Nursery, Sysctls, powers},
    normal::{Pace, ground::is_known_of_host, notify::is_drawn},
    ours::Settings,
    pair::Pair,
    shrink::shrink,
    subject::Engine,
};
use indicatif::ProgressBar;
use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// After so many findings no more is drawn.
const ENOUGH: usize = 8;
/// Calls in a run.
const RUN: usize = 250;
/// One run of so many is slow, and shorter.
const SLOW: u64 = 24;
/// In one run of so many the judge glances at the tree between calls.
const GLANCED: u64 = 3;
/// After so many calls.
const GLANCE: usize = 50;
/// So often the same is drawn where somebody else sets the machine meanwhile.
const TRIES: usize = 5;
/// Calls in a slow run.
const SLOW_RUN: usize = 80;

/// What to draw.
pub(crate) struct Plan {
    /// From which seeds.
    pub(crate) seeds: Vec<u64>,
    /// How many calls, of all seeds together.
    pub(crate) ops: u64,
    /// By how many workers.
    pub(crate) threads: usize,
    /// On what the kernel makes them.
    pub(crate) ground: Ground,
    /// How pathwalk looks at the directory of the host in which it makes them, if it does.
    pub(crate) on_host: Option<OnHost>,
    /// Who stands for pathwalk.
    pub(crate) engine: Engine,
    /// Whether the machine is set for them to each combination of `fs.protected_*` in turn.
    pub(crate) sysctls: bool,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Drawn {
    /// Calls that were made in both.
    pub(crate) ops: u64,
    /// Where the two differ, each as a scenario.
    pub(crate) found: Vec<String>,
    /// Which answers were reached.
    pub(crate) coverage: Coverage,
}

/// A run to be made.
struct Run {
    seed: u64,
    number: u64,
    calls: usize,
    pace: Pace,
    /// After so many calls the judge glances at the tree.
    glance: Option<usize>,
}

impl Plan {
    fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for (index, &seed) in self.seeds.iter().enumerate() {
            let seeds = self.seeds.len() as u64;
            let mut left = self.ops / seeds + u64::from((index as u64) < self.ops % seeds);
            for number in 1.. {
                if left == 0 {
                    break;
                }
                let (pace, calls) = match number % SLOW {
                    8 => (Pace::Slow, SLOW_RUN),
                    _ => (Pace::Fast, RUN),
                };
                let calls = calls.min(left as usize);
                left -= calls as u64;
                let glance = number.is_multiple_of(GLANCED).then_some(GLANCE);
                runs.push(Run { seed, number, calls, pace, glance });
            }
        }
        runs
    }
}

/// Draws calls and has both make them. Where somebody else set the machine otherwise meanwhile, nothing is said of what was
/// found, and it is drawn again.
///
/// # Errors
///
/// The machine cannot be set as the plan says, or does not stay so.
pub(crate) fn draw(plan: &Plan, progress: &ProgressBar) -> io::Result<Drawn> {
    let running = Settings::running();
    let settings = Settings { on_host: plan.on_host, engine: plan.engine, ..running };
    if !plan.sysctls {
        return Ok(plan.draw_all(&plan.runs(), settings, progress));
    }
    // Which of them a run has follows from its seed and its number.
    let all = settings.however_protected();
    let mut runs: Vec<Vec<Run>> = all.iter().map(|_| Vec::new()).collect();
    for run in plan.runs() {
        let number = run.seed.wrapping_add(run.number) % all.len() as u64;
        runs[number as usize].push(run);
    }
    let mut drawn = Drawn::default();
    for (settings, runs) in all.into_iter().zip(&runs).filter(|(_, runs)| !runs.is_empty()) {
        let mut undisturbed = None;
        for _ in 0..TRIES {
            let set = Sysctls::set(settings)?;
            let part = plan.draw_all(runs, settings, progress);
            let stayed = Settings::running().protections() == settings.protections();
            drop(set);
            if stayed {
                undisturbed = Some(part);
                break;
            }
        }
        let part = undisturbed.ok_or_else(|| io::Error::other("somebody else sets them"))?;
        drawn.add(part);
        if drawn.found.len() >= ENOUGH {
            break;
        }
    }
    Ok(drawn)
}

impl Drawn {
    fn add(&mut self, part: Self) {
        self.ops += part.ops;
        self.found.extend(part.found);
        self.coverage.merge(&part.coverage);
    }
}

impl Plan {
    /// Draws runs and has both make them, on a machine that is set so.
    fn draw_all(&self, runs: &[Run], settings: Settings, progress: &ProgressBar) -> Drawn {
        let drawn = Mutex::new(Drawn::default());
        let next = AtomicUsize::new(0);
        let worker = || {
            let nursery = Nursery::on(self.ground).expect("there was one before");
            let mut coverage = Coverage::default();
            while let Some(run) = runs.get(next.fetch_add(1, Relaxed)) {
                if drawn.lock().expect("nobody panics with it").found.len() >= ENOUGH {
                    break;
                }
                let steps: Vec<_> = Generator::new(run.seed, run.number)
                    .run(run.calls)
                    .into_iter()
                    .filter(|step| self.ground.knows(&step.call))
                    .filter(|step| self.on_host.is_none() || is_known_of_host(&step.call))
                    .filter(|step| self.engine == Engine::Library || is_drawn(step))
                    .filter_map(|step| powers().step(step))
                    .collect();
                let found = run.make(&nursery, settings, &steps, &mut coverage);
                progress.inc(run.calls as u64);
                let mut drawn = drawn.lock().expect("nobody panics with it");
                drawn.ops += steps.len() as u64;
                drawn.found.extend(found);
            }
            drawn.lock().expect("nobody panics with it").coverage.merge(&coverage);
        };
        thread::scope(|scope| {
            for _ in 0..self.threads.min(runs.len()) {
                scope.spawn(worker);
            }
        });
        drawn.into_inner().expect("nobody panicked with it")
    }
}

impl Run {
    fn make(
        &self,
        nursery: &Nursery,
        settings: Settings,
        steps: &[Step],
        coverage: &mut Coverage,
    ) -> Option<String> {
        let (answers, difference) = Pair::new(nursery, settings, self.pace).run(steps, self.glance);
        for (step, answer) in steps.iter().zip(&answers) {
            coverage.add(&step.call, &answer.to_string());
        }
        let difference = difference?;
        let title = format!("seed {}, run {}", self.seed, self.number);
        Some(shrink(nursery, settings, self.pace, steps, difference, &title))
    }
}
