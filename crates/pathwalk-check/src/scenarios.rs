//! Tables of calls with what Linux 6.18 answered.
//!
//! ```text
//!   == mkdir refuses what is there          a scenario: an empty root, four tasks
//!   mkdirat d 0755 -> ok                    a call of root's, and the answer
//!   u: mkdirat d 0755 -> EEXIST             the same as user 1000
//!   stat d -> * links=2                     an answer of which only a part matters is written with a star
//!   needs protected_symlinks=1              a setting that the answers below depend on, to the end of the scenario
//! ```
//!
//! Where the running kernel is set otherwise it is not asked.

use crate::{
    answer::Answer,
    call::Step,
    kernel::{Kernel, Nursery},
    ours::{Ours, Settings},
    pair::Watched,
    subject::Subject,
};
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// The tables that come with this crate.
pub(crate) fn all() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut tables: Vec<_> = fs::read_dir(&directory)
        .expect("the tables lie beside this file's directory")
        .map(|entry| entry.expect("a directory can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "scn"))
        .collect();
    tables.sort();
    assert!(!tables.is_empty(), "no tables in {}", directory.display());
    tables
}

/// Holds tables against pathwalk and, if it can be asked, the kernel.
pub(crate) fn check_all(
    tables: &[PathBuf],
    nursery: Option<&Nursery>,
    record: bool,
) -> Result<(), String> {
    let mut wrong = String::new();
    let mut calls = 0;
    for path in tables {
        let mut text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(nursery) = nursery.filter(|_| record) {
            let blessed = bless(&text, nursery, &name);
            fs::write(path, &blessed).map_err(|error| format!("{}: {error}", path.display()))?;
            text = blessed;
        }
        calls += check(&text, &name, nursery, &mut wrong);
    }
    println!("{calls} calls in {} tables", tables.len());
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// A line of a table.
enum Line<'t> {
    /// `== title`
    Title(&'t str),
    /// `needs name=value`
    Needs(&'t str),
    /// A call, and the answer that is written behind it.
    Row(Step, &'t str),
    /// A comment, or nothing.
    Other,
}

/// Between a call and its answer.
const ARROW: &str = " -> ";

fn read<'t>(line: &'t str, at: &str) -> Line<'t> {
    if let Some(title) = line.strip_prefix("== ") {
        return Line::Title(title);
    }
    if let Some(setting) = line.strip_prefix("needs ") {
        return Line::Needs(setting);
    }
    if line.trim().is_empty() || line.starts_with('#') {
        return Line::Other;
    }
    let (call, answer) = line.split_once(ARROW).unwrap_or((line, ""));
    match Step::parse(call) {
        Ok(step) => Line::Row(step, answer.trim()),
        Err(error) => panic!("{at}: {error}"),
    }
}

/// The subjects of a scenario, made anew for each.
struct Subjects<'n> {
    nursery: Option<&'n Nursery>,
    settings: Settings,
    ours: Watched<Ours>,
    kernel: Option<Watched<Kernel>>,
}

impl<'n> Subjects<'n> {
    fn new(nursery: Option<&'n Nursery>) -> Self {
        let settings = nursery.map_or(Settings::DEFAULT, |_| Settings::running());
        let kernel = nursery.map(|nursery| Watched::new(Kernel::new(nursery)));
        Self { nursery, settings, ours: Watched::new(Ours::new(settings)), kernel }
    }

    /// Sets what the scenario needs; no call has been made yet.
    fn need(&mut self, setting: &str, at: &str) {
        let known = setting
            .split_once('=')
            .and_then(|(name, value)| self.settings.set(name, value.parse().ok()?));
        known.unwrap_or_else(|| panic!("{at}: no setting is `{setting}`"));
        self.ours = Watched::new(Ours::new(self.settings));
        if self.nursery.is_some_and(|_| self.settings != Settings::running()) {
            eprintln!("{at}: the kernel is not set so, and not asked");
            self.kernel = None;
        }
    }
}

/// Holds a table against pathwalk and the kernel; returns how many calls it has.
fn check(text: &str, table: &str, nursery: Option<&Nursery>, wrong: &mut String) -> usize {
    let mut calls = 0;
    let mut subjects = Subjects::new(nursery);
    let mut title = "";
    for (index, line) in text.lines().enumerate() {
        let at = format!("{table}:{}", index + 1);
        match read(line, &at) {
            Line::Other => {}
            Line::Title(next) => {
                title = next;
                subjects = Subjects::new(nursery);
            }
            Line::Needs(setting) => subjects.need(setting, &at),
            // What the kernel is spared the library is spared too.
            Line::Row(_, want) if want == Answer::NotAsked.to_string() => {}
            Line::Row(step, want) => {
                calls += 1;
                let mut compare = |whose: &str, got: &str| {
                    if !matches(want, got) {
                        let _ = writeln!(
                            wrong,
                            "{at}: {title}\n  {step}\n    table:    {want}\n    {whose} {got}"
                        );
                    }
                };
                compare("pathwalk:", &said(&mut subjects.ours, &step));
                if let Some(kernel) = &mut subjects.kernel {
                    compare("kernel:  ", &said(kernel, &step));
                }
            }
        }
    }
    calls
}

fn said<S: Subject>(subject: &mut Watched<S>, step: &Step) -> String {
    subject.step(step).answer.to_string()
}

fn matches(want: &str, got: &str) -> bool {
    match want.strip_prefix('*') {
        Some(parts) => {
            let got: Vec<_> = got.split(' ').collect();
            parts.split_ascii_whitespace().all(|part| got.contains(&part))
        }
        None => want == got,
    }
}

/// The table with the kernel's answers; those that are only a part are left as they are, and so are those that need
/// other settings.
fn bless(text: &str, nursery: &Nursery, table: &str) -> String {
    let mut subjects = Subjects::new(Some(nursery));
    let mut blessed = String::new();
    for (index, line) in text.lines().enumerate() {
        let at = format!("{table}:{}", index + 1);
        match read(line, &at) {
            Line::Title(_) => subjects = Subjects::new(Some(nursery)),
            Line::Needs(setting) => subjects.need(setting, &at),
            Line::Row(step, want) => {
                let call = line.split(ARROW).next().unwrap_or(line).trim_end();
                let got = subjects.kernel.as_mut().map(|kernel| said(kernel, &step));
                let answer = match &got {
                    Some(got) if !want.starts_with('*') => got,
                    _ => want,
                };
                let _ = writeln!(blessed, "{call:<44}{ARROW}{answer}");
                continue;
            }
            Line::Other => {}
        }
        let _ = writeln!(blessed, "{line}");
    }
    blessed
}
