//! From a run in which the two differ to the fewest calls that show it, as a scenario.

use crate::{
    call::Step,
    kernel::Nursery,
    normal::Pace,
    ours::Settings,
    pair::{Difference, Pair},
    scenario::row,
};
use std::fmt::Write;

/// Shrinks a run and writes what is left as a scenario, with the kernel's answers.
pub(crate) fn shrink(
    nursery: &Nursery,
    settings: Settings,
    pace: Pace,
    steps: &[Step],
    found: Difference,
    title: &str,
) -> String {
    let mut runs = Runs { nursery, settings, pace };
    let mut steps = steps[..found.made].to_vec();
    // Calls a tick apart take long: most differences show without.
    if pace == Pace::Slow {
        runs.pace = Pace::Fast;
        if runs.run(&steps).1.is_none() {
            runs.pace = Pace::Slow;
        }
    }
    let steps = runs.fewest(&mut steps);
    let (answers, again) = runs.run(steps);
    // A difference that does not show again depends on something else than the calls.
    let lost = again.is_none();
    let Difference { made, at, seen } = again.unwrap_or(found);
    let [kernel, ours] = *seen;
    let mut text = format!("== {title}\n");
    for (name, value) in settings.protections() {
        let _ = writeln!(text, "needs {name}={value}");
    }
    if lost {
        text.push_str("# It did not show again.\n");
    }
    if runs.pace == Pace::Slow {
        text.push_str("needs slow\n");
    }
    for (step, answer) in steps.iter().zip(&answers) {
        let _ = writeln!(text, "{}", row(&step.to_string(), &answer.to_string()));
    }
    if lost || steps[..made].last() != Some(&at) {
        let _ = writeln!(text, "{}", row(&at.to_string(), &kernel.answer.to_string()));
    }
    for (whose, seen) in [("kernel:  ", kernel), ("pathwalk:", ours)] {
        let seen = seen.to_string().replace('\n', "\n#           ");
        let _ = writeln!(text, "# {whose} {seen}");
    }
    text
}

/// How runs are made.
struct Runs<'n> {
    nursery: &'n Nursery,
    settings: Settings,
    pace: Pace,
}

impl Runs<'_> {
    fn run(&self, steps: &[Step]) -> (Vec<crate::answer::Answer>, Option<Difference>) {
        Pair::new(self.nursery, self.settings, self.pace).run(steps, None)
    }

    /// Drops calls while the two still differ: half of them, a quarter, …, one.
    fn fewest<'s>(&self, steps: &'s mut Vec<Step>) -> &'s [Step] {
        let mut size = steps.len().div_ceil(2);
        loop {
            let before = steps.len();
            let mut start = 0;
            while start < steps.len() {
                let end = (start + size).min(steps.len());
                let fewer = [&steps[..start], &steps[end..]].concat();
                match self.run(&fewer).1 {
                    Some(difference) => *steps = fewer[..difference.made].to_vec(),
                    None => start = end,
                }
            }
            if size <= 1 && steps.len() == before {
                return steps;
            }
            size = size.div_ceil(2).max(1);
        }
    }
}
