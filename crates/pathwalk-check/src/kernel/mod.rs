//! The running kernel as a subject.
//!
//! ```text
//!   Nursery, a thread        mount namespace with an empty tmpfs as its root, nothing of the host (but an ext4 image)
//!     World, a thread        a copy of it, with one more tmpfs, or a directory of the ext4, as its root
//!       Worker × 5           a thread per task: own root, current directory and umask; ids by raw calls
//! ```
//!
//! Descriptors belong to the world, so a file that one task opened is there for all, as slots want it. Everything else
//! goes with the threads. Calls are handed over in runs: a worker makes those that are its own until another's turn comes.

mod bounds;
mod calls;
mod ext4;
mod listmount;
mod powers;
mod rights;
#[cfg(test)]
mod running_files;
mod serve;
pub(crate) mod sys;
mod sysctls;
mod tasks;
#[cfg(test)]
mod tests;
mod userns;
mod within;
mod world;
mod xattr;

pub(crate) use calls::Caller;
pub(crate) use ext4::Ground;
pub(crate) use powers::{NOT_OF_ONE_USER, Powers, powers};
pub(crate) use sys::parent_mount;
pub(crate) use sysctls::Sysctls;
pub(crate) use userns::{make_maps, with_map};
pub(crate) use within::as_openat2;
pub(crate) use world::{Nursery, root_of_ones_own};

use crate::{
    call::Step,
    normal::{Known, Pace},
    subject::{Outcome, Subject},
};
use serve::{Job, Reply};
use std::{os::fd::OwnedFd, sync::Arc};

/// A root of the kernel's made for one run.
pub(crate) struct Kernel {
    world: world::World,
    known: Known,
    /// Whether the number of a file system that is gone is soon given to a new one.
    reuses_devices: bool,
}

impl Kernel {
    /// Makes a root and its tasks.
    pub(crate) fn new(nursery: &Nursery) -> Self {
        Self { world: nursery.world(), known: Known::Hidden, reuses_devices: true }
    }

    /// Makes tasks in the process's own root, which are answered by whoever answers this process.
    pub(crate) fn here() -> Self {
        Self { world: world::World::here(), known: Known::Hidden, reuses_devices: false }
    }
}

impl Subject for Kernel {
    type File = OwnedFd;

    fn show(&mut self, known: Known) {
        self.known = known;
    }

    fn steps(&mut self, steps: &[Step], pace: Pace) -> Vec<Outcome<OwnedFd>> {
        let steps: Arc<[Step]> = steps.into();
        let mut outcomes: Vec<Outcome<OwnedFd>> = Vec::with_capacity(steps.len());
        while let Some(next) = steps.get(outcomes.len()) {
            let (all, from, known) = (Arc::clone(&steps), outcomes.len(), self.known);
            let job = Job::Steps { steps: all, from, pace, known };
            let Reply::Outcomes(made) = self.world.ask(next.who, job);
            outcomes.extend(made);
            let made = outcomes.len() - 1;
            if self.reuses_devices && serve::mounted(&steps[made].call, &outcomes[made].said) {
                let (tasks, who) = (self.world.tasks(), steps[made].who);
                let newest = || sys::newest_device(&tasks.namespace_of(who));
                outcomes[made].new_device = Some(world::with_descriptors_of_no_world(newest));
            }
        }
        outcomes
    }
}
