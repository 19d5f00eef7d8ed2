//! Holds tables against pathwalk and, where it can be asked, the kernel.

use crate::{
    Error,
    answer::Answer,
    call::Step,
    coverage::Coverage,
    kernel::{Nursery, Sysctls},
    normal::Known,
    ours::{Ours, Settings},
    pair::{Pair, Watched},
    scenario::{Row, Scenario, matches, parse, record},
};
use std::{fmt::Write, fs, path::Path};

/// As many points as most walks of the tables have.
#[cfg(debug_assertions)]
const POINTS: u32 = 12;

/// What came of it.
#[derive(Default)]
pub(crate) struct Held {
    /// Rows.
    pub(crate) calls: usize,
    /// Tables.
    pub(crate) tables: usize,
    /// What is not as the tables say, for people.
    pub(crate) wrong: String,
    /// Why the kernel was not asked everything.
    pub(crate) spared: Vec<String>,
    /// Which answers the tables have.
    pub(crate) coverage: Coverage,
    /// The machine may be set as a table needs.
    pub(crate) sets: bool,
}

impl Held {
    /// Holds a table against pathwalk and the kernel.
    ///
    /// # Errors
    ///
    /// The table cannot be read.
    pub(crate) fn hold(
        &mut self,
        name: &str,
        text: &str,
        nursery: Option<&Nursery>,
    ) -> Result<(), Error> {
        let scenarios = parse(text).map_err(|error| Error::unusable(format!("{name}:{error}")))?;
        self.tables += 1;
        for scenario in &scenarios {
            self.calls += scenario.rows.len();
            for row in &scenario.rows {
                self.coverage.add(&row.step.call, row.want);
            }
            let settings = scenario.settings(running(nursery));
            #[cfg(debug_assertions)]
            self.hold_roads(name, scenario, settings);
            let sets = self.sets && nursery.is_some() && settings != running(nursery);
            let _set = sets.then(|| Sysctls::set(settings));
            match nursery {
                Some(nursery) if settings == running(Some(nursery)) => {
                    self.hold_both(name, scenario, nursery, settings);
                }
                _ => {
                    if nursery.is_some() {
                        let title = scenario.title;
                        self.spared.push(format!("{name}: {title}: the kernel is not set so"));
                    }
                    self.hold_ours(name, scenario, settings);
                }
            }
        }
        Ok(())
    }

    fn hold_ours(&mut self, name: &str, scenario: &Scenario<'_>, settings: Settings) {
        let mut ours = Watched::new(Ours::new(settings)).with(scenario.known());
        for row in &scenario.rows {
            // What the kernel is spared the library is spared too.
            if row.want == Answer::NotAsked.to_string() {
                continue;
            }
            let got = ours.step(&row.step).answer.to_string();
            self.compare(&at(name, row.line, scenario), row, Whose::Pathwalks, &got);
        }
    }

    /// Holds a table against pathwalk by every road that a lookup may take: it leaves the way that holds nothing at each of
    /// its points, to go on or to begin anew, or nowhere.
    #[cfg(debug_assertions)]
    fn hold_roads(&mut self, name: &str, scenario: &Scenario<'_>, settings: Settings) {
        use pathwalk::road::{How, NEVER, Road, take};
        let points =
            (0..POINTS).flat_map(|at| [How::Unlazy, How::Echild].map(|how| Road { at, how }));
        for road in points.chain([Road { at: NEVER, how: How::Unlazy }]) {
            let wrong = std::mem::take(&mut self.wrong);
            take(Some(road));
            self.hold_ours(name, scenario, settings);
            take(None);
            if !self.wrong.is_empty() {
                let _ = writeln!(self.wrong, "  by {road:?}");
            }
            self.wrong.insert_str(0, &wrong);
        }
    }

    fn hold_both(
        &mut self,
        name: &str,
        scenario: &Scenario<'_>,
        nursery: &Nursery,
        settings: Settings,
    ) {
        let known = scenario.known();
        let mut pair = Pair::new(nursery, settings, scenario.pace).with(known);
        let steps: Vec<Step> = scenario.rows.iter().map(|row| row.step.clone()).collect();
        let differs = known == Known::Shown;
        for (row, (kernel, ours)) in scenario.rows.iter().zip(pair.both(&steps)) {
            let at = at(name, row.line, scenario);
            let linux = kernel.answer.to_string();
            let mut fits = self.compare(&at, row, Whose::Linux, &linux);
            let Some(ours) = ours else { continue };
            let got = ours.answer.to_string();
            fits &= self.compare(&at, row, Whose::Pathwalks, &got);
            if fits && !differs && !kernel.agrees(&ours, Some(scenario.pace)) {
                let step = &row.step;
                let _ = writeln!(
                    self.wrong,
                    "{at}\n  {step}\n  kernel:   {kernel}\n  pathwalk: {ours}"
                );
            }
        }
        // Where one call is answered otherwise, the trees may differ too.
        if let Some(found) = Some(&mut pair).filter(|_| !differs).and_then(Pair::look) {
            let [kernel, ours] = &*found.seen;
            let (title, step) = (scenario.title, &found.at);
            let _ = writeln!(
                self.wrong,
                "{name}: {title}, after all\n  {step}\n  kernel:   {kernel}\n  pathwalk: {ours}"
            );
        }
    }

    fn compare(&mut self, at: &str, row: &Row<'_>, whose: Whose, got: &str) -> bool {
        let (want, other, who) = match whose {
            Whose::Linux => (row.want, row.ours(), "kernel:  "),
            Whose::Pathwalks => (row.ours(), row.want, "pathwalk:"),
        };
        let fits = matches(want, got);
        if !fits {
            let step = &row.step;
            let _ = writeln!(self.wrong, "{at}\n  {step}\n    table:    {want}\n    {who} {got}");
            if row.differs.is_some() && matches(other, got) {
                let _ = writeln!(self.wrong, "    no longer differs");
            }
        }
        fits
    }
}

/// Whose answer is held against a row.
#[derive(Clone, Copy)]
enum Whose {
    Linux,
    Pathwalks,
}

fn at(name: &str, line: usize, scenario: &Scenario<'_>) -> String {
    format!("{name}:{}: {}", line + 1, scenario.title)
}

fn running(nursery: Option<&Nursery>) -> Settings {
    nursery.map_or(Settings::DEFAULT, |_| Settings::running())
}

/// Writes the kernel's answers into a table; where it is set otherwise than a scenario needs, and must not be set so, they are
/// left as they are.
///
/// # Errors
///
/// The table cannot be read or written.
pub(crate) fn record_file(path: &Path, nursery: &Nursery, sets: bool) -> Result<(), Error> {
    let text = read(path)?;
    let scenarios =
        parse(&text).map_err(|error| Error::unusable(format!("{}:{error}", path.display())))?;
    let mut answers = std::collections::HashMap::new();
    for scenario in &scenarios {
        let wanted = scenario.settings(Settings::running());
        let _set = (sets && wanted != Settings::running()).then(|| Sysctls::set(wanted));
        let running = Settings::running();
        if wanted != running {
            continue;
        }
        let steps: Vec<Step> = scenario.rows.iter().map(|row| row.step.clone()).collect();
        let mut pair = Pair::new(nursery, running, scenario.pace).with(scenario.known());
        for (row, answer) in scenario.rows.iter().zip(pair.kernels(&steps)) {
            answers.insert(row.line, answer.to_string());
        }
    }
    let recorded = record(&text, |line| answers.get(&line).cloned());
    fs::write(path, recorded)
        .map_err(|error| Error::unusable(format!("{}: {error}", path.display())))
}

/// The text of a table.
///
/// # Errors
///
/// The file cannot be read.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path)
        .map_err(|error| Error::unusable(format!("{}: {error}", path.display())))
}
