//! Calls drawn at random, in runs; each run in a root of its own.
//!
//! After the last call a task that never moved looks at everything. Where the two differ, calls are dropped as long as
//! they still do, and what is left is printed.

use crate::{
    answer::Answer,
    call::{Call, SLOTS, Step, Who},
    field::{Int, Octal, Slot, Text, Where},
    generate::Generator,
    kernel::Nursery,
    normal::Pace,
    ours::Settings,
    pair::Pair,
};
use pathwalk::{OpenFlags, abi::FileType};
use std::{
    fmt::Write,
    time::{SystemTime, UNIX_EPOCH},
};

/// The seeds of every test run.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// Calls from each of them, and from the fresh one.
const OPS: u64 = 6_000;
/// After so many findings of a seed the rest is not drawn.
const ENOUGH: usize = 12;
/// Calls in a run.
const RUN: usize = 250;
/// One run of so many is slow, and shorter.
const SLOW: usize = 8;
/// Calls in a slow run.
const SLOW_RUN: usize = 80;

/// Draws from a given seed, or from the seeds of every test run and a fresh one.
pub(crate) fn check(nursery: &Nursery, args: &crate::Args) -> Result<(), String> {
    let settings = Settings::running();
    let seeds = match args.seed {
        Some(seed) => vec![seed],
        None => SEEDS.into_iter().chain([fresh_seed()]).collect(),
    };
    let ops = args.ops.unwrap_or(OPS * seeds.len() as u64);
    let mut found = Vec::new();
    for &seed in &seeds {
        println!("--seed {seed} --ops {}", ops / seeds.len() as u64);
        let mut generator = Generator::new(seed);
        let mut left = ops / seeds.len() as u64;
        for number in 1.. {
            let (pace, calls) =
                if number % SLOW == 0 { (Pace::Slow, SLOW_RUN) } else { (Pace::Fast, RUN) };
            let steps = generator.run(calls.min(left as usize));
            if steps.is_empty() {
                break;
            }
            left -= steps.len() as u64;
            found.extend((Runs { nursery, settings, pace }).find(&steps));
            if found.len() == ENOUGH {
                break;
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Where the two differ.
struct Difference {
    /// How many of the calls had been made; the rest was the judge's.
    made: usize,
    at: Box<Step>,
    seen: Box<[String; 2]>,
}

/// How runs are made.
struct Runs<'n> {
    nursery: &'n Nursery,
    settings: Settings,
    pace: Pace,
}

impl Runs<'_> {
    /// Makes the calls; where the two differ, the fewest of them that show it.
    fn find(&self, steps: &[Step]) -> Option<String> {
        let first = self.run(steps)?;
        let fewest = self.shrink(steps[..first.made].to_vec());
        // A difference that does not show again depends on something else than the calls.
        let Difference { at, seen, .. } = self.run(&fewest).unwrap_or(first);
        let [kernel, ours] = *seen;
        let mut text = format!("a difference, {:?}:\n\n", self.pace);
        for step in &fewest {
            let _ = writeln!(text, "{step}");
        }
        let _ = write!(text, "\nat: {at}\n  kernel: {kernel}\n  ours:   {ours}\n");
        Some(text)
    }

    /// Makes the calls, then looks at everything.
    fn run(&self, steps: &[Step]) -> Option<Difference> {
        let mut pair = Pair::new(self.nursery, self.settings, self.pace);
        let mut step = |made, step: &Step| {
            pair.step(step).map(|seen| seen.answer).map_err(|seen| {
                let seen = seen.map(|seen| seen.to_string());
                Difference { made, at: Box::new(step.clone()), seen: Box::new(seen) }
            })
        };
        for (index, next) in steps.iter().enumerate() {
            if let Err(difference) = step(index + 1, next) {
                return Some(difference);
            }
        }
        look_at_all(&mut |call| step(steps.len(), &Step { who: Who::Judge, call })).err()
    }

    /// Drops calls while the two still differ: half of them, a quarter, …, one.
    fn shrink(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let mut size = steps.len().div_ceil(2);
        loop {
            let before = steps.len();
            let mut start = 0;
            while start < steps.len() {
                let end = (start + size).min(steps.len());
                let fewer = [&steps[..start], &steps[end..]].concat();
                match self.run(&fewer) {
                    Some(difference) => steps = fewer[..difference.made].to_vec(),
                    None => start = end,
                }
            }
            if size <= 1 && steps.len() == before {
                return steps;
            }
            size = size.div_ceil(2);
        }
    }
}

/// Looks at the open files and at the tree.
fn look_at_all(
    judge: &mut impl FnMut(Call) -> Result<Answer, Difference>,
) -> Result<(), Difference> {
    for slot in (0..SLOTS).map(Slot) {
        judge(Call::Pread { slot, len: Int(3 << 12), offset: Int(0) })?;
        judge(Call::Getdents64 { slot })?;
        judge(Call::Close { slot })?;
    }
    let slot = Slot(0);
    let mut todo = vec![b"/".to_vec()];
    while let Some(path) = todo.pop() {
        let place = || Where { dir: None, path: path.clone() };
        let Answer::Facts(facts) = judge(Call::Lstat { path: Text(path.clone()) })? else {
            continue;
        };
        let open = |flags| Call::Openat { slot, path: place(), flags, mode: Octal(0) };
        match FileType::from_mode(facts.mode) {
            Some(FileType::Directory) => {
                judge(open(OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW))?;
                if let Answer::Names(names) = judge(Call::Getdents64 { slot })? {
                    for (name, _) in names {
                        if name != b"." && name != b".." {
                            todo.push([path.as_slice(), b"/", &name].concat());
                        }
                    }
                }
                judge(Call::Close { slot })?;
            }
            Some(FileType::Regular) => {
                judge(open(OpenFlags::NOFOLLOW))?;
                judge(Call::Pread { slot, len: Int(3 << 12), offset: Int(0) })?;
                judge(Call::Close { slot })?;
            }
            Some(FileType::Symlink) => {
                judge(Call::Readlinkat { path: place(), size: Int(4096) })?;
            }
            _ => {}
        }
    }
    Ok(())
}
