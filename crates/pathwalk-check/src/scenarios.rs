//! Holds tables against pathwalk and, where it can be asked, the kernel.

use crate::{
    Error,
    call::Step,
    coverage::Coverage,
    kernel::{Nursery, Sysctls},
    normal::{Known, notify::is_left_out},
    ours::{Ours, Settings},
    pair::{Pair, Seen, Watched},
    scenario::{Row, Scenario, parse, record},
    subject::Engine,
};
use pathwalk::Usage;
use std::{fmt::Write, fs, path::Path};

/// As many points as most walks of the tables have.
#[cfg(debug_assertions)]
const POINTS: u32 = 12;

/// What came of it.
#[derive(Default)]
pub(crate) struct Held {
    /// Rows that are asked.
    pub(crate) calls: usize,
    /// Those of them of which the kernel was not asked: pathwalk is held to what it answered when they were recorded.
    pub(crate) by_record: usize,
    /// Those of them that are known to differ.
    pub(crate) differ: usize,
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
    /// Who stands for pathwalk.
    pub(crate) engine: Engine,
    /// How many scenarios a process cannot make.
    pub(crate) left_out: usize,
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
            if self.engine == Engine::Notify && !Self::is_held_by_process(scenario, nursery) {
                self.left_out += 1;
                continue;
            }
            self.count(scenario);
            if let (Engine::Notify, Some(nursery)) = (self.engine, nursery) {
                let settings = Settings { engine: self.engine, ..Settings::running() };
                self.hold_the_rest(name, scenario, nursery, settings);
                continue;
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
                    self.by_record += scenario.rows.iter().filter(|row| row.is_asked()).count();
                    self.hold_ours(name, scenario, settings);
                }
            }
        }
        Ok(())
    }

    /// Whether a process can make all calls of a scenario, on the kernel as it is set.
    fn is_held_by_process(scenario: &Scenario<'_>, nursery: Option<&Nursery>) -> bool {
        let left_out = scenario.rows.iter().any(|row| is_left_out(&row.step));
        let set_so = scenario.settings(Settings::running()) == Settings::running();
        nursery.is_some() && set_so && !left_out
    }

    /// Counts the rows of a scenario.
    pub(crate) fn count(&mut self, scenario: &Scenario<'_>) {
        for row in scenario.rows.iter().filter(|row| row.is_asked()) {
            self.coverage.add(&row.step.call, row.want);
            self.calls += 1;
            self.differ += usize::from(row.differs.is_some());
        }
    }

    /// Holds a table against pathwalk, and sees that in the end everything is given back.
    fn hold_ours(&mut self, name: &str, scenario: &Scenario<'_>, settings: Settings) {
        let mut ours = Watched::new(Ours::new(settings)).with(Known::Shown);
        for row in &scenario.rows {
            // What the kernel is spared the library is spared too.
            if !row.is_asked() {
                continue;
            }
            let got = ours.step(&row.step).answer.to_string();
            self.compare(&at(name, row.line, scenario), row, Whose::Pathwalks, &got);
        }
        let Usage { dentries, inodes, mounts, .. } = ours.into_subject().leave();
        let none = Ours::new(settings).leave();
        if (dentries, inodes, mounts) != (none.dentries, none.inodes, none.mounts) {
            let after = after(name, scenario);
            let _ = writeln!(
                self.wrong,
                "{after}: not given back: {} dentries, {} inodes, {} mounts",
                i64::from(dentries) - i64::from(none.dentries),
                i64::from(inodes) - i64::from(none.inodes),
                i64::from(mounts) - i64::from(none.mounts)
            );
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
        let mut pair = Pair::new(nursery, settings, scenario.pace).with(Known::Shown);
        let steps = steps_of(scenario);
        for (row, (kernel, ours)) in scenario.rows.iter().zip(pair.both(&steps)) {
            let at = at(name, row.line, scenario);
            let linux = kernel.answer.to_string();
            let mut fits = self.compare(&at, row, Whose::Linux, &linux);
            let Some(ours) = ours else { continue };
            let got = ours.answer.to_string();
            fits &= self.compare(&at, row, Whose::Pathwalks, &got);
            if fits && !scenario.differs() && !pair.agree(&kernel, &ours) {
                self.found(&at, &row.step, &[kernel, ours]);
            }
        }
        if scenario.differs() {
            self.hold_the_rest(name, scenario, nursery, settings);
        } else if scenario.looks
            && let Some(found) = pair.with(Known::Hidden).look()
        {
            self.found(&after(name, scenario), &found.at, &found.seen);
        }
    }

    /// Where rows differ, holds what is seen beside the answers, as of drawn calls: as far as it goes without the first row
    /// that differs there too.
    fn hold_the_rest(
        &mut self,
        name: &str,
        scenario: &Scenario<'_>,
        nursery: &Nursery,
        settings: Settings,
    ) {
        let mut steps = steps_of(scenario);
        loop {
            let mut pair = Pair::new(nursery, settings, scenario.pace);
            let seen = pair.both(&steps);
            let alike = |seen: &(Seen, Option<Seen>)| {
                let (kernel, ours) = seen;
                ours.as_ref().is_none_or(|ours| pair.agree(kernel, ours))
            };
            let Some(index) = seen.iter().position(|seen| !alike(seen)) else {
                let found = if scenario.looks { pair.look() } else { None };
                if let Some(found) = found {
                    self.found(&after(name, scenario), &found.at, &found.seen);
                }
                return;
            };
            let row = &scenario.rows[index];
            if row.differs.is_none() {
                if let Some((kernel, Some(ours))) = seen.into_iter().nth(index) {
                    self.found(&at(name, row.line, scenario), &row.step, &[kernel, ours]);
                }
                return;
            }
            steps.truncate(index);
        }
    }

    fn found(&mut self, at: &str, step: &Step, [kernel, ours]: &[Seen; 2]) {
        let _ = writeln!(self.wrong, "{at}\n  {step}\n  kernel:   {kernel}\n  pathwalk: {ours}");
    }

    fn compare(&mut self, at: &str, row: &Row<'_>, whose: Whose, got: &str) -> bool {
        let (want, other, who) = match whose {
            Whose::Linux => (row.want, row.ours(), "kernel:  "),
            Whose::Pathwalks => (row.ours(), row.want, "pathwalk:"),
        };
        let fits = want == got;
        if !fits {
            let step = &row.step;
            let _ = writeln!(self.wrong, "{at}\n  {step}\n    table:    {want}\n    {who} {got}");
            if row.differs.is_some() && other == got {
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

fn after(name: &str, scenario: &Scenario<'_>) -> String {
    format!("{name}: {}, after all", scenario.title)
}

fn steps_of(scenario: &Scenario<'_>) -> Vec<Step> {
    scenario.rows.iter().map(|row| row.step.clone()).collect()
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
        let steps = steps_of(scenario);
        let mut pair = Pair::new(nursery, running, scenario.pace).with(Known::Shown);
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
