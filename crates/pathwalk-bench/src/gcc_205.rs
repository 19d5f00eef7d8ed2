//! `gcc-205`: the access calls of a real compiler.
//!
//! One run of gcc and ld asks the kernel 205 times whether a file is there; 118 times it is not.
//! `data/gcc-205.tsv` has the calls with their answers, `data/gcc-205.tree` the files they depend
//! on.

use std::io;
use std::time::Duration;

use crate::calls::{self, Call};
use crate::crew::Crew;
use crate::floor::Floor;
use crate::kernel::{Chroot, Prefixed};
use crate::pathwalk::Pathwalk;
use crate::remote::{self, Remote};
use crate::report::{self, Report};
use crate::subject::{Subject, check};
use crate::timing::{self, Plan};
use crate::tree::Tree;
use crate::{Args, Error};

const NAME: &str = "gcc-205";

/// Returns the files that the calls of [`gcc_205_calls`] depend on.
///
/// # Errors
///
/// None: the file is part of the program, and a test reads it.
pub fn gcc_205_tree() -> Result<Tree, Error> {
    Tree::parse(include_bytes!("../data/gcc-205.tree"))
        .map_err(|cause| Error::doing("gcc-205.tree", cause))
}

/// Returns the 205 calls in the order in which they were made, with the recorded answers.
///
/// # Errors
///
/// None: the file is part of the program, and a test reads it.
pub fn gcc_205_calls() -> Result<Vec<Call>, Error> {
    calls::parse(include_bytes!("../data/gcc-205.tsv"))
        .map_err(|cause| Error::doing("gcc-205.tsv", cause))
}

/// Checks all subjects, times them and prints the report.
pub(crate) fn run(args: &Args, threads: usize) -> Result<(), Error> {
    let (tree, calls) = (gcc_205_tree()?, gcc_205_calls()?);
    let Field { mut subjects, kernels, mut notes } = Field::gather(args, &tree, &calls, threads)?;
    let names: Vec<String> = subjects.iter().map(|subject| subject.name().to_owned()).collect();
    if let Some(at) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        return Err(Error::new(format!("two contenders are called {}", names[at])));
    }

    let verdict = check(&mut subjects, &calls)?;
    if !verdict.wrong.is_empty() {
        for line in &verdict.wrong {
            eprintln!("wrong answer: {line}");
        }
        if args.json {
            Report::of_mismatches(NAME, &names, &verdict.mismatches, threads).print_json()?;
        }
        let count = verdict.wrong.len();
        return Err(Error::new(format!("{count} of {} calls got a wrong answer", calls.len())));
    }

    let plan =
        if args.quick { Plan::quick() } else { Plan::full(Duration::from_secs_f64(args.seconds)) };
    let cells = timing::time(&mut subjects, calls.len(), threads, plan)?;
    let report = Report::of_times(NAME, &names, kernels, &cells);
    if args.json {
        for note in notes {
            eprintln!("pathwalk bench: {note}");
        }
        return report.print_json();
    }
    let absent = calls.iter().filter(|call| call.answer.0.is_err()).count();
    let title = format!(
        "{NAME}: access(path, F_OK) of the {} paths of a gcc and ld run, {absent} of them absent\n{}",
        calls.len(),
        report::machine(),
    );
    let passes = cells.first().map_or(0, |cell| cell.ns_per_op.len());
    let turn_ms = plan.sample.as_secs_f64() * 1e3;
    notes.push(format!(
        "Every contender gave all {} recorded answers. Times are medians of {passes} interleaved turns \
         of {turn_ms} ms; half of the turns lie within the spread.",
        calls.len(),
    ));
    report.print_table(&title, &notes)
}

/// Is a contender of another process's run: this build of pathwalk.
pub(crate) fn work(threads: usize) -> Result<(), Error> {
    let (tree, calls) = (gcc_205_tree()?, gcc_205_calls()?);
    let mut own = Crew::start(Pathwalk::new(&tree)?, &calls, threads)?;
    remote::serve(&mut own, io::stdin().lock(), io::stdout().lock())
}

/// Everyone who takes part.
struct Field {
    subjects: Vec<Box<dyn Subject>>,
    /// How many of them, at the beginning, are file systems of the kernel.
    kernels: usize,
    /// What the reader of the report must know about them.
    notes: Vec<String>,
}

impl Field {
    fn gather(args: &Args, tree: &Tree, calls: &[Call], threads: usize) -> Result<Field, Error> {
        let mut field = Field { subjects: Vec::new(), kernels: 0, notes: Vec::new() };
        field.add_kernels(tree, calls, threads)?;
        field.kernels = field.subjects.len();
        field.subjects.push(Box::new(Crew::start(Pathwalk::new(tree)?, calls, threads)?));
        field.subjects.push(Box::new(Crew::start(Pathwalk::walking(tree)?, calls, threads)?));
        field.subjects.push(Box::new(Crew::start(Floor, calls, threads)?));
        for (name, program) in &args.contenders {
            field.subjects.push(Box::new(Remote::start(name, program, NAME, threads)?));
        }
        Ok(field)
    }

    /// Adds the kernel's file systems that can be had here, and a note for each that cannot.
    fn add_kernels(&mut self, tree: &Tree, calls: &[Call], threads: usize) -> Result<(), Error> {
        let start = |contender| Crew::start(contender, calls, threads);
        match Chroot::tmpfs(tree).and_then(start) {
            Ok(tmpfs) => {
                self.subjects.push(Box::new(tmpfs));
                match Chroot::ext4(tree).and_then(start) {
                    Ok(ext4) => self.subjects.push(Box::new(ext4)),
                    Err(error) => self.notes.push(format!(
                        "No kernel-ext4 ({error}), which is mostly the faster one: the ratios are \
                         too high."
                    )),
                }
            }
            Err(error) => {
                self.notes.push(format!(
                    "No kernel-tmpfs and kernel-ext4 ({error}): kernel-tmpdir is a temporary \
                     directory with its name before every path, so the ratios are too high."
                ));
                self.subjects.push(Box::new(Crew::start(Prefixed::tmpdir(tree)?, calls, threads)?));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pathwalk_abi::FileType;

    use super::*;

    #[test]
    fn the_data_is_what_it_is_said_to_be() {
        let calls = gcc_205_calls().expect("the calls");
        assert_eq!(calls.len(), 205);
        assert_eq!(calls.iter().filter(|call| call.answer.0.is_err()).count(), 118);
        let dotdot = |call: &&Call| call.path.split(|&b| b == b'/').any(|name| name == b"..");
        assert_eq!(calls.iter().filter(dotdot).count(), 42);

        let tree = gcc_205_tree().expect("the tree");
        let count = |kind| tree.entries.iter().filter(|entry| entry.kind == kind).count();
        assert_eq!(tree.entries.len(), 124);
        assert_eq!(count(FileType::Directory), 31);
        assert_eq!(count(FileType::Regular), 69);
        assert_eq!(count(FileType::Symlink), 24);
    }
}
