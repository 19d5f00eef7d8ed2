//! Two subjects side by side.

use crate::{
    answer::{Answer, Facts},
    call::{NewMount, Step},
    field::Slot,
    kernel::{Ground, Kernel, Nursery},
    look::{glance_at_all, look_at_all},
    normal::{
        Known, Normal, Pace,
        notify::{is_left_out, is_on_path_alone},
        spared::is_not_glanced_behind,
    },
    ours::{Ours, Settings},
    process::Process,
    subject::{Engine, Outcome, Subject},
};
use pathwalk::{
    Stat,
    abi::mode::{S_IFDIR, S_IFMT},
};
use std::fmt;

/// The kernel and pathwalk, each with a root of its own.
pub(crate) struct Pair {
    kernel: Watched<Kernel>,
    ours: Watched<Either>,
    engine: Engine,
    pace: Pace,
    /// Whether both are stamped by the kernel, each when its clock has gone on.
    both_stamped: bool,
}

/// Where the two differ.
pub(crate) struct Difference {
    /// How many of the calls had been made; the rest was the judge's.
    pub(crate) made: usize,
    /// The call.
    pub(crate) at: Box<Step>,
    /// What was seen of it: the kernel's and ours.
    pub(crate) seen: Box<[Seen; 2]>,
}

impl Pair {
    /// Makes both.
    pub(crate) fn new(nursery: &Nursery, settings: Settings, pace: Pace) -> Self {
        Self {
            pace,
            both_stamped: settings.on_host.is_some() || settings.engine == Engine::Notify,
            kernel: Watched::on(nursery.ground(), settings.engine, Kernel::new(nursery)),
            ours: Watched::on(nursery.ground(), settings.engine, Either::new(settings)),
            engine: settings.engine,
        }
    }

    /// Hides or shows what is known to differ.
    pub(crate) fn with(self, known: Known) -> Self {
        Self { kernel: self.kernel.with(known), ours: self.ours.with(known), ..self }
    }

    /// Has both make the calls, then lets the judge look at everything, and after each so many calls glance at it. What the
    /// kernel answered, and where they differ first.
    pub(crate) fn run(
        &mut self,
        steps: &[Step],
        glance: Option<usize>,
    ) -> (Vec<Answer>, Option<Difference>) {
        let mut answers = Vec::with_capacity(steps.len());
        let each = glance.unwrap_or(steps.len()).max(1);
        for part in steps.chunks(each) {
            let last = answers.len() + part.len() == steps.len();
            let looks = !last && !part.last().is_some_and(is_not_glanced_behind);
            let found = self.compare(part, &mut answers);
            let found = found.or_else(|| if looks { self.glance() } else { None });
            if let Some(difference) = found {
                let made = answers.len();
                return (answers, Some(Difference { made, ..difference }));
            }
        }
        let made = answers.len();
        (answers, self.look().map(|difference| Difference { made, ..difference }))
    }

    /// Has both make the calls; pathwalk is spared what the kernel is spared, a process what is left out of it.
    ///
    /// The kernel makes all of them before pathwalk makes the first: no answer of one depends on the other.
    pub(crate) fn both(&mut self, steps: &[Step]) -> Vec<(Seen, Option<Seen>)> {
        let kernels = self.kernel.steps(steps, self.pace);
        let is_asked = |kernel: &Seen, step: &Step| {
            let notify = self.engine == Engine::Notify;
            let left_out = is_left_out(step) || is_on_path_alone(&step.call, &kernel.answer);
            kernel.answer != Answer::NotAsked && !(notify && left_out)
        };
        let asked: Vec<bool> =
            kernels.iter().zip(steps).map(|(kernel, step)| is_asked(kernel, step)).collect();
        let todo = steps.iter().zip(&asked).filter(|(_, asked)| **asked);
        let todo: Vec<Step> = todo.map(|(step, _)| step.clone()).collect();
        let pace = if self.both_stamped { self.pace } else { Pace::Fast };
        let mut ours = self.ours.steps(&todo, pace).into_iter();
        let mut answer = |asked: bool| if asked { ours.next() } else { None };
        kernels.into_iter().zip(asked).map(|(kernel, asked)| (kernel, answer(asked))).collect()
    }

    /// Whether the two saw the same, as far as calls at this pace show it.
    pub(crate) fn agree(&self, kernel: &Seen, ours: &Seen) -> bool {
        kernel.agrees(ours, self.pace.of_stamps(self.both_stamped))
    }

    /// Has the kernel alone make calls.
    pub(crate) fn kernels(&mut self, steps: &[Step]) -> Vec<Answer> {
        let seen = self.kernel.steps(steps, self.pace);
        seen.into_iter().map(|seen| seen.answer).collect()
    }

    /// Lets the judge look at everything; where the two differ first.
    pub(crate) fn look(&mut self) -> Option<Difference> {
        look_at_all(|steps| self.judge(steps)).err()
    }

    /// Lets the judge glance at the tree; where the two differ first.
    fn glance(&mut self) -> Option<Difference> {
        glance_at_all(|steps| self.judge(steps)).err()
    }

    fn judge(&mut self, steps: &[Step]) -> Result<Vec<Answer>, Difference> {
        let mut answers = Vec::new();
        self.compare(steps, &mut answers).map_or(Ok(answers), Err)
    }

    fn compare(&mut self, steps: &[Step], answers: &mut Vec<Answer>) -> Option<Difference> {
        for ((kernel, ours), step) in self.both(steps).into_iter().zip(steps) {
            answers.push(kernel.answer.clone());
            if let Some(ours) = ours
                && !self.agree(&kernel, &ours)
            {
                let (made, at) = (answers.len(), Box::new(step.clone()));
                return Some(Difference { made, at, seen: Box::new([kernel, ours]) });
            }
        }
        None
    }
}

/// Who stands for pathwalk.
enum Either {
    Library(Box<Ours>),
    Process(Process),
}

impl Either {
    fn new(settings: Settings) -> Self {
        match settings.engine {
            Engine::Library => Self::Library(Box::new(Ours::new(settings))),
            Engine::Notify => Self::Process(Process::start().expect("there was one before")),
        }
    }
}

impl Subject for Either {
    type File = pathwalk::File;

    fn show(&mut self, known: Known) {
        match self {
            Self::Library(ours) => ours.show(known),
            Self::Process(process) => process.show(known),
        }
    }

    fn steps(&mut self, steps: &[Step], pace: Pace) -> Vec<Outcome<Self::File>> {
        match self {
            Self::Library(ours) => ours.steps(steps, pace),
            Self::Process(process) => process.steps(steps, pace),
        }
    }
}

/// A subject, its numbers, and what its open files were like before.
pub(crate) struct Watched<S> {
    subject: S,
    normal: Normal,
    before: Vec<Option<Stat>>,
}

/// What could be seen of a call, made comparable.
pub(crate) struct Seen {
    /// Its answer.
    pub(crate) answer: Answer,
    /// What each slot's file is like after it, and which of its times were stamped.
    files: Vec<Option<(Facts, [bool; 3])>>,
}

impl Seen {
    /// Whether the other saw the same, and the stamps that calls at that pace must show, if any are compared.
    pub(crate) fn agrees(&self, ours: &Self, stamps: Option<Pace>) -> bool {
        self.answer == ours.answer
            && self.files.len() == ours.files.len()
            && std::iter::zip(&self.files, &ours.files).all(|files| match files {
                (Some((facts, kernel)), Some((other, ours))) => {
                    facts == other && stamps.is_none_or(|pace| pace.agree(*kernel, *ours))
                }
                (None, None) => true,
                _ => false,
            })
    }
}

impl<S: Subject> Watched<S> {
    /// Begins to watch.
    pub(crate) fn new(subject: S) -> Self {
        Self::on(Ground::Tmpfs, Engine::Library, subject)
    }

    /// Ends to watch.
    pub(crate) fn into_subject(self) -> S {
        self.subject
    }

    /// Begins to watch one of two of which the other stands on this.
    pub(crate) fn on(ground: Ground, engine: Engine, subject: S) -> Self {
        Self { subject, normal: Normal::on(ground, engine), before: Vec::new() }
    }

    /// Hides or shows what is known to differ.
    pub(crate) fn with(mut self, known: Known) -> Self {
        self.subject.show(known);
        self.normal.known = known;
        self
    }

    /// Makes calls and looks at what they did.
    pub(crate) fn steps(&mut self, steps: &[Step], pace: Pace) -> Vec<Seen> {
        let outcomes = self.subject.steps(steps, pace);
        steps.iter().zip(outcomes).map(|(step, outcome)| self.see(step, outcome)).collect()
    }

    /// Makes a call and looks at what it did.
    pub(crate) fn step(&mut self, step: &Step) -> Seen {
        let outcome = self.subject.steps(std::slice::from_ref(step), Pace::Fast).pop();
        self.see(step, outcome.expect("a call has an outcome"))
    }

    fn see(&mut self, step: &Step, outcome: Outcome<S::File>) -> Seen {
        let Outcome { said, events, slots: after, new_device } = outcome;
        if let Some(dev) = new_device {
            self.normal.renew_device(dev, step.call.mounts_new() == Some(NewMount::Procfs));
        }
        let mut answer = self.normal.answer(&said);
        let call = &step.call;
        let slot = call.uses().first().copied();
        let directory = slot.is_some_and(|slot| self.is_directory(slot));
        answer = self.normal.of_call(call, directory, answer);
        self.before.resize(after.len(), None);
        if let Some(slot) = step.call.fills()
            && answer == Answer::Done
            && let Some(before) = self.before.get_mut(slot.0)
        {
            *before = None;
        }
        if !events.is_empty() {
            answer = Answer::Told(Box::new(answer), self.normal.events(events));
        }
        let files = std::iter::zip(&after, &self.before)
            .map(|(after, before)| {
                let after = after.as_ref()?;
                let stamps = self.normal.stamps(call, &answer, before.as_ref(), after);
                Some((self.normal.beside(after), stamps))
            })
            .collect();
        self.before = after;
        Seen { answer, files }
    }

    fn is_directory(&self, slot: Slot) -> bool {
        let file = self.before.get(slot.0).and_then(Option::as_ref);
        file.is_some_and(|stat| stat.st_mode & S_IFMT == S_IFDIR)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.answer)?;
        for (slot, file) in self.files.iter().enumerate() {
            let Some((facts, stamps)) = file else { continue };
            write!(f, "\n  h{slot}: {facts}")?;
            for (name, stamped) in ["atime", "mtime", "ctime"].iter().zip(stamps) {
                if *stamped {
                    write!(f, " +{name}")?;
                }
            }
        }
        Ok(())
    }
}
