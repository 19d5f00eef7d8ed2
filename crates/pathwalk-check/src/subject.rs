//! Who is asked.

use crate::{
    answer::Said,
    call::{Call, Who},
};
use pathwalk::{Dev, Stat};

/// A machine with a root of its own, four tasks and a few slots for open files.
///
/// Every task begins at the root with umask 022. The root is an empty tmpfs.
pub(crate) trait Subject {
    /// An open file.
    type File;

    /// Makes one call as one of the tasks. A call about a slot that holds no file is not made.
    ///
    /// A file that was opened is in its slot afterwards; what was there before is closed.
    fn call(&mut self, who: Who, call: &Call) -> Said<Self::File>;

    /// What fstat tells about each slot's file.
    fn slots(&mut self) -> Vec<Option<Stat>>;

    /// The device number of the file system that the last call mounted.
    fn new_device(&mut self) -> Option<Dev>;
}
