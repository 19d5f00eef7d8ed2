//! The running kernel as a subject.
//!
//! ```text
//!   Nursery, a thread        mount namespace with an empty tmpfs as its root, nothing of the host
//!     World, a thread        a copy of it, with one more tmpfs put in the place of the root
//!       Worker × 4           a thread per task: own root, current directory and umask; ids by raw calls
//! ```
//!
//! Descriptors belong to the process, so a file that one task opened is there for all, as slots want it. Everything else
//! goes with the threads.

mod calls;
mod sys;
mod world;

pub(crate) use world::{Nursery, may_mount};

use crate::{
    answer::{Raw, Said},
    call::{Call, SLOTS, Who},
    normal::NOTHING_BEHIND,
    subject::Subject,
};
use calls::{Fds, Job, Reply};
use pathwalk::{Dev, FileType, Stat};
use std::os::fd::{AsRawFd, OwnedFd};

/// A root of the kernel's made for one run.
pub(crate) struct Kernel {
    world: world::World,
    slots: [Option<OwnedFd>; SLOTS],
    last_mounted: bool,
}

impl Kernel {
    /// Makes a root and its tasks.
    pub(crate) fn new(nursery: &Nursery) -> Self {
        Self { world: nursery.world(), slots: Default::default(), last_mounted: false }
    }

    fn fds(&self) -> Fds {
        std::array::from_fn(|slot| self.slots[slot].as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }
}

impl Subject for Kernel {
    type File = OwnedFd;

    fn call(&mut self, who: Who, call: &Call) -> Said<OwnedFd> {
        self.last_mounted = false;
        if call.uses().any(|slot| self.slots[slot.0].is_none()) {
            return Said::NotAsked;
        }
        if let Call::Close { slot } = call {
            self.slots[slot.0] = None;
            return Said::Answer(Ok(Raw::Done));
        }
        let job = Job::Call(Box::new((call.clone(), self.fds())));
        let answer = match self.world.ask(who, job) {
            Reply::Answer(answer) => answer,
            Reply::NotAsked => return Said::NotAsked,
            Reply::Device(_) => unreachable!("a call is answered"),
        };
        match (call, answer) {
            (Call::Openat { slot, .. } | Call::Openat2 { slot, .. }, Ok(Raw::File(fd))) => {
                let opened = sys::fstat(fd.as_raw_fd()).expect("an open file has attributes");
                let special = !matches!(
                    FileType::from_mode(opened.st_mode),
                    Some(FileType::Regular | FileType::Directory | FileType::Symlink)
                );
                if special && !sys::is_path(fd.as_raw_fd()) {
                    return Said::Answer(Err(NOTHING_BEHIND));
                }
                self.slots[slot.0] = Some(fd);
                Said::Answer(Ok(Raw::Done))
            }
            (call, answer) => {
                self.last_mounted = matches!(call, Call::Mount { .. }) && answer.is_ok();
                Said::Answer(answer)
            }
        }
    }

    fn slots(&mut self) -> Vec<Option<Stat>> {
        self.slots
            .iter()
            .map(|fd| fd.as_ref().map(|fd| sys::fstat(fd.as_raw_fd()).expect("fstat cannot fail")))
            .collect()
    }

    fn new_device(&mut self) -> Option<Dev> {
        if !self.last_mounted {
            return None;
        }
        match self.world.ask(Who::Judge, Job::NewestDevice) {
            Reply::Device(dev) => Some(dev),
            _ => unreachable!("a question about a device is answered with one"),
        }
    }
}
