//! Two subjects side by side.

use crate::{
    answer::{Answer, Facts},
    call::{Call, Step},
    field::Slot,
    kernel::{Kernel, Nursery},
    normal::{Normal, Pace, stamps},
    ours::{Ours, Settings},
    subject::Subject,
};
use pathwalk::{
    Stat,
    abi::mode::{S_IFDIR, S_IFMT},
};
use std::fmt;

/// The kernel and pathwalk, each with a root of its own.
pub(crate) struct Pair {
    kernel: Watched<Kernel>,
    ours: Watched<Ours>,
    pace: Pace,
}

impl Pair {
    /// Makes both.
    pub(crate) fn new(nursery: &Nursery, settings: Settings, pace: Pace) -> Self {
        Self {
            pace,
            kernel: Watched::new(Kernel::new(nursery)),
            ours: Watched::new(Ours::new(settings)),
        }
    }

    /// Has both make a call. What they agree on, or what each one said.
    pub(crate) fn step(&mut self, step: &Step) -> Result<Seen, Box<[Seen; 2]>> {
        self.pace.wait();
        let kernel = self.kernel.step(step);
        if kernel.answer == Answer::NotAsked {
            return Ok(kernel);
        }
        let ours = self.ours.step(step);
        if kernel.agrees(&ours, self.pace) { Ok(kernel) } else { Err(Box::new([kernel, ours])) }
    }
}

/// A subject, its numbers, and what its open files were like before.
pub(crate) struct Watched<S> {
    subject: S,
    normal: Normal,
    before: Vec<Option<Stat>>,
}

/// What could be seen of a call.
pub(crate) struct Seen {
    /// Its answer.
    pub(crate) answer: Answer,
    /// What each slot's file is like after it, and which of its times were stamped.
    files: Vec<Option<(Facts, [bool; 3])>>,
}

impl Seen {
    fn agrees(&self, ours: &Self, pace: Pace) -> bool {
        self.answer == ours.answer
            && self.files.len() == ours.files.len()
            && std::iter::zip(&self.files, &ours.files).all(|files| match files {
                (Some((facts, kernel)), Some((other, ours))) => {
                    facts == other && pace.agree(*kernel, *ours)
                }
                (None, None) => true,
                _ => false,
            })
    }
}

impl<S: Subject> Watched<S> {
    /// Begins to watch.
    pub(crate) fn new(subject: S) -> Self {
        Self { subject, normal: Normal::default(), before: Vec::new() }
    }

    /// Makes a call and looks at what it did.
    pub(crate) fn step(&mut self, step: &Step) -> Seen {
        let said = self.subject.call(step.who, &step.call);
        if let Some(dev) = self.subject.new_device() {
            self.normal.renew_device(dev);
        }
        let mut answer = self.normal.answer(&said);
        // Positions in a directory are the file system's own.
        if let Call::LseekSet { slot, .. } | Call::LseekCur { slot, .. } = &step.call
            && matches!(answer, Answer::Number(_))
            && self.is_directory(*slot)
        {
            answer = Answer::Done;
        }
        let after = self.subject.slots();
        self.before.resize(after.len(), None);
        if let Call::Openat { slot, .. } | Call::Openat2 { slot, .. } = &step.call
            && answer == Answer::Done
        {
            self.before[slot.0] = None;
        }
        let files = std::iter::zip(&after, &self.before)
            .map(|(after, before)| {
                let after = after.as_ref()?;
                Some((self.normal.stat(after), stamps(before.as_ref(), after)))
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
            write!(f, "\n      h{slot}: {facts}")?;
            for (name, stamped) in ["atime", "mtime", "ctime"].iter().zip(stamps) {
                if *stamped {
                    write!(f, " +{name}")?;
                }
            }
        }
        Ok(())
    }
}
