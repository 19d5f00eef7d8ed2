//! What a worker does with the calls that are handed to it.

use super::{
    calls::{Caller, Fds},
    sys,
    tasks::Tasks,
    world::process_as_it_is,
};
use crate::{
    answer::{Raw, Said},
    call::{Call, QUEUES, SLOTS, Step, number},
    normal::{
        Known, Pace,
        spared::{is_asked_again, is_spared, marks},
    },
    ours::parse_events,
    subject::Outcome,
};
use pathwalk::Event;
use std::{
    os::fd::{AsRawFd, OwnedFd},
    sync::{Arc, Mutex},
};

/// The open files of a world, and its queues of events.
pub(crate) type Slots = [Option<OwnedFd>; SLOTS + QUEUES];

/// What a worker is asked for.
pub(crate) enum Job {
    /// Calls from a place on, as long as they are its own.
    Steps {
        /// All of them.
        steps: Arc<[Step]>,
        /// The first to make.
        from: usize,
        /// How fast.
        pace: Pace,
        /// Whether the kernel's answer stands where pathwalk's is known to differ.
        known: Known,
    },
}

/// What it replies.
pub(crate) enum Reply {
    /// Of the calls that it made.
    Outcomes(Vec<Outcome<OwnedFd>>),
}

/// Does what is asked, in the calling thread.
pub(crate) fn serve(job: Job, slots: &Mutex<Slots>, tasks: &Tasks) -> Reply {
    match job {
        Job::Steps { steps, from, pace, known } => {
            let mut slots = slots.lock().expect("nobody panics with the slots");
            let who = steps[from].who;
            let mut outcomes = Vec::new();
            // Has just been told that a mount goes at the next call.
            let mut marked: Option<&Step> = None;
            for step in steps[from..].iter().take_while(|step| step.who == who) {
                pace.wait();
                let changes = matches!(step.call, Call::Setcred { .. });
                let shows = tasks.have_procfs(&step.call) && !changes;
                let _as_it_is = shows.then(process_as_it_is);
                let mut said = make(&step.call, &mut slots, tasks, known);
                if is_asked_again(marked, step, &said) {
                    said = make(&step.call, &mut slots, tasks, known);
                }
                marked = marks(&step.call, &said).then_some(step);
                let stop = mounted(&step.call, &said);
                let mut events = listen(&slots);
                known.heard(&said, &mut events);
                outcomes.push(Outcome { said, events, slots: look(&slots), new_device: None });
                if stop {
                    break;
                }
            }
            Reply::Outcomes(outcomes)
        }
    }
}

/// Whether a file system came to be mounted: its device must be asked for before the next call.
pub(crate) fn mounted(call: &Call, said: &Said<OwnedFd>) -> bool {
    call.mounts_new().is_some() && matches!(said, Said::Answer(Ok(_)))
}

fn make(call: &Call, slots: &mut Slots, tasks: &Tasks, known: Known) -> Said<OwnedFd> {
    let fds: Fds = std::array::from_fn(|slot| slots[slot].as_ref().map_or(-1, AsRawFd::as_raw_fd));
    let call = &call.with_numbers();
    let caller = Caller { fds, tasks };
    if is_spared(&caller, call) {
        return Said::NotAsked;
    }
    if let Call::Close { slot } = call {
        slots[slot.0] = None;
        return Said::Answer(Ok(Raw::Done));
    }
    let answer = caller.call(call);
    match (call.fills(), known.stand_in(&caller, call, answer)) {
        (Some(slot), Said::Answer(Ok(Raw::File(fd)))) => {
            slots[slot.0] = Some(sys::moved_to(number(slot), fd, slots[slot.0].take()));
            Said::Answer(Ok(Raw::Done))
        }
        (_, said) => said,
    }
}

/// Reads the first queue.
fn listen(slots: &Slots) -> Vec<Event> {
    let Some(queue) = &slots[SLOTS] else { return Vec::new() };
    let mut events = Vec::new();
    let mut buf = [0; 1 << 12];
    while let Ok(read) = sys::read(queue.as_raw_fd(), &mut buf) {
        events.extend(parse_events(&buf[..read]));
    }
    events
}

fn look(slots: &Slots) -> Vec<Option<pathwalk::Stat>> {
    let stat = |fd: &OwnedFd| sys::fstat(fd.as_raw_fd()).expect("fstat cannot fail");
    slots[..SLOTS].iter().map(|fd| fd.as_ref().map(stat)).collect()
}
