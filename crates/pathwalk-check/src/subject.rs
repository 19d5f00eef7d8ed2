//! Who is asked.

use crate::{
    answer::Said,
    call::Step,
    normal::{Known, Pace},
};
use pathwalk::{Dev, Event, Stat};

/// Who stands for pathwalk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// The library, called in this process
    #[default]
    Library,
    /// A process that makes real system calls, under the supervisor of pathwalk run
    Notify,
}

/// A machine with a root of its own, five tasks and a few slots for open files.
///
/// Every task begins at the root with umask 022. The root is an empty tmpfs.
pub(crate) trait Subject {
    /// An open file.
    type File;

    /// Hides or shows what is known to differ, from now on.
    fn show(&mut self, known: Known);

    /// Makes calls, one after the other.
    ///
    /// A call about a slot that holds no file is not made. A file that was opened is in its slot afterwards; what was there
    /// before is closed.
    fn steps(&mut self, steps: &[Step], pace: Pace) -> Vec<Outcome<Self::File>>;
}

/// What could be seen of a call.
#[derive(Debug)]
pub(crate) struct Outcome<F> {
    /// Its answer.
    pub(crate) said: Said<F>,
    /// What came to the first queue.
    pub(crate) events: Vec<Event>,
    /// What fstat tells about each slot's file after it.
    pub(crate) slots: Vec<Option<Stat>>,
    /// The device number of the file system that it mounted, where such numbers are used again.
    pub(crate) new_device: Option<Dev>,
}
