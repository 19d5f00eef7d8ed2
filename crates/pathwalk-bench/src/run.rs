//! One benchmark from its beginning to its figures.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pathwalk::Coherence;

use crate::Error;
use crate::args::Args;
use crate::crew::Crew;
use crate::floor::Floor;
use crate::kernel::Kernel;
use crate::pathwalk::Pathwalk;
use crate::remote::{self, Remote};
use crate::report::{Figures, Row};
use crate::subject::{Subject, Verdict};
use crate::threads;
use crate::timing::{self, Cell, Plan};
use crate::workload::{Case, Guests, Workload};

/// What came of a benchmark.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) op: &'static str,
    pub(crate) cases: Vec<Case>,
    pub(crate) names: Vec<String>,
    /// How many of the subjects, at the beginning, are file systems of the kernel.
    pub(crate) kernels: usize,
    /// Nothing where an answer was wrong.
    pub(crate) cells: Vec<Cell>,
    pub(crate) rows: Vec<Row>,
    pub(crate) verdict: Verdict,
    pub(crate) plan: Plan,
    /// What follows from the figures.
    pub(crate) findings: Vec<String>,
    /// What the reader must know about the run.
    pub(crate) notes: Vec<String>,
}

/// Checks all subjects and times them.
pub(crate) fn run<W: Workload>(args: &Args) -> Result<Outcome, Error> {
    let counts = threads::counts(args.threads, threads::cores(), W::TWICE);
    let threads = counts.last().copied().unwrap_or(1);
    let workload = Arc::new(W::of(args)?);
    let Field { mut subjects, kernels, notes } = Field::gather(args, &workload, threads)?;
    let names: Vec<String> = subjects.iter().map(|subject| subject.name().to_owned()).collect();
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|&name| !seen.insert(name)) {
        return Err(Error::new(format!("two contenders are called {name}")));
    }
    let cases = workload.cases();
    let plan =
        if args.quick { Plan::quick() } else { Plan::full(Duration::from_secs_f64(args.seconds)) };

    let mut verdict = Verdict::default();
    for (at, case) in cases.iter().enumerate() {
        for thread in 0..case.threads(threads) {
            verdict.check(&mut subjects, (at, thread), workload.recorded(at))?;
        }
    }
    let cells = if verdict.wrong == 0 {
        timing::time(&mut subjects, &cases, &counts, plan)?
    } else {
        Vec::new()
    };
    let rows = if verdict.wrong == 0 {
        Row::of_times::<W>(&names, kernels, &cases, &cells)
    } else {
        Row::of_mismatches::<W>(&names, &verdict.mismatches, threads)
    };
    let mut findings = Vec::new();
    if verdict.wrong == 0 {
        findings = held(&subjects, &cases);
        let loading = subjects.iter().map(|subject| subject.loading()).collect();
        findings.extend(workload.findings(&Figures { rows: &rows, names: &names, loading }));
    }
    Ok(Outcome {
        name: W::NAME,
        about: W::ABOUT,
        op: W::OP,
        cases,
        names,
        kernels,
        cells,
        rows,
        verdict,
        plan,
        findings,
        notes,
    })
}

/// How many walks had to hold their place beside each disturbance.
fn held(subjects: &[Box<dyn Subject>], cases: &[Case]) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, case) in cases.iter().enumerate().filter(|(_, case)| case.disturbed) {
        for subject in subjects {
            if let Some((held, ops)) = subject.held(at) {
                let (case, name) = (&case.name, subject.name());
                findings
                    .push(format!("{case}: {held} of {ops} timed walks of {name} had to hold."));
            }
        }
    }
    findings
}

/// Is a contender of another process's run: this build of pathwalk.
pub(crate) fn work<W: Workload>(args: &Args) -> Result<(), Error> {
    let threads = args.threads.unwrap_or(1);
    let workload = Arc::new(W::of(args)?);
    let mut own = Crew::start(Pathwalk::new()?, &workload, threads)?;
    remote::serve(&mut own, io::stdin().lock(), io::stdout().lock())
}

/// Everyone who takes part.
struct Field {
    subjects: Vec<Box<dyn Subject>>,
    kernels: usize,
    notes: Vec<String>,
}

impl Field {
    fn gather<W: Workload>(args: &Args, workload: &Arc<W>, threads: usize) -> Result<Field, Error> {
        let mut field = Field { subjects: Vec::new(), kernels: 0, notes: Vec::new() };
        // They load before the kernel's do. The kernel's tables lie in large pages whenever they are made; a process gets few
        // of them once an ext4 of ten million files has taken the memory to pieces.
        let own = Crew::start(Pathwalk::new()?, workload, threads)?;
        let walking = Crew::start(Pathwalk::walking()?, workload, threads)?;
        field.add_kernels(workload, threads)?;
        field.kernels = field.subjects.len();
        field.subjects.push(Box::new(own));
        field.subjects.push(Box::new(walking));
        match W::GUESTS {
            Guests::None => {}
            Guests::HostFs => {
                for coherence in [Coherence::Exclusive, Coherence::Watched, Coherence::Strict] {
                    let guest = Pathwalk::on_host(coherence)?;
                    field.subjects.push(Box::new(Crew::start(guest, workload, threads)?));
                }
            }
            Guests::HostFsWithoutRoom => {
                let guest = Pathwalk::on_host_without_room()?;
                field.subjects.push(Box::new(Crew::start(guest, workload, threads)?));
            }
        }
        if W::FLOOR {
            field.subjects.push(Box::new(Crew::start(Floor, workload, threads)?));
        }
        for (name, program) in &args.contenders {
            let remote = Remote::start(name, program, (W::NAME, args.quick), threads)?;
            field.subjects.push(Box::new(remote));
        }
        Ok(field)
    }

    /// Adds the kernel's file systems that can be had here, and a note for each that cannot.
    fn add_kernels<W: Workload>(&mut self, work: &Arc<W>, threads: usize) -> Result<(), Error> {
        let start = |contender| Crew::start(contender, work, threads);
        match Kernel::tmpfs() {
            Ok(tmpfs) => {
                self.subjects.push(Box::new(start(tmpfs)?));
                match Kernel::ext4(work.files()) {
                    Ok(ext4) => self.subjects.push(Box::new(start(ext4)?)),
                    Err(error) => self.notes.push(format!(
                        "No kernel-ext4 ({error}), which is mostly the faster one of lookups: the ratios are \
                         too high."
                    )),
                }
            }
            Err(error) if W::MOUNTS => self.notes.push(format!(
                "No kernel-tmpfs and kernel-ext4 ({error}): without mounts there is nobody to compare with."
            )),
            Err(error) => {
                self.notes.push(format!(
                    "No kernel-tmpfs and kernel-ext4 ({error}): kernel-tmpdir is a temporary directory, on \
                     whatever file system it lies."
                ));
                self.subjects.push(Box::new(start(Kernel::tmpdir()?)?));
            }
        }
        Ok(())
    }
}
