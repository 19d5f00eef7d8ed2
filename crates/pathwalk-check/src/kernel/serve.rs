//! What a worker does with the calls that are handed to it.

use super::{
    calls::{Caller, Fds, misses_what_is_not_there, shows_what_is_below_all},
    sys,
    tasks::Tasks,
    userns,
    world::process_as_it_is,
};
use crate::{
    answer::{Raw, Said},
    call::{Call, QUEUES, SLOTS, Step, number},
    field::Octal,
    normal::{Known, NOTHING_BEHIND, Pace},
    ours::parse_events,
    subject::Outcome,
};
use pathwalk::{Errno, Event, FileType, InotifyMask, OpenFlags, UmountFlags};
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
                // What was let go of a moment ago, by a thread that ends, say, counts as use when the kernel comes to it.
                if marked.is_some_and(|marked| marked == step) && said_again(&said) {
                    said = make(&step.call, &mut slots, tasks, known);
                }
                marked = (expires(&step.call) && said_again(&said)).then_some(step);
                let stop = mounted(&step.call, &said);
                let events = listen(&slots, &said);
                outcomes.push(Outcome { said, events, slots: look(&slots), new_device: None });
                if stop {
                    break;
                }
            }
            Reply::Outcomes(outcomes)
        }
    }
}

/// Whether a mount is to go if nobody used it since it was last to go.
fn expires(call: &Call) -> bool {
    matches!(call, Call::Umount2 { flags, .. } if flags.contains(UmountFlags::EXPIRE))
}

fn said_again<F>(said: &Said<F>) -> bool {
    matches!(said, Said::Answer(Err(Errno::EAGAIN)))
}

/// Whether a file system came to be mounted: its device must be asked for before the next call.
pub(crate) fn mounted(call: &Call, said: &Said<OwnedFd>) -> bool {
    call.mounts_new().is_some() && matches!(said, Said::Answer(Ok(_)))
}

fn make(call: &Call, slots: &mut Slots, tasks: &Tasks, known: Known) -> Said<OwnedFd> {
    let fds: Fds = std::array::from_fn(|slot| slots[slot].as_ref().map_or(-1, AsRawFd::as_raw_fd));
    let call = &call.with_numbers();
    let missing = call.uses().iter().any(|slot| slots[slot.0].is_none());
    let unmade = matches!(
        call,
        Call::IdmapMount { map, .. } | Call::OpenTreeAttr { map, .. }
            if userns::with_map(*map).is_none()
    );
    let spared = missing || unmade || shows_what_is_below_all(call, tasks);
    if spared || (Caller { fds, tasks }).has_no_stand_in(call) {
        return Said::NotAsked;
    }
    if let Call::Close { slot } = call {
        slots[slot.0] = None;
        return Said::Answer(Ok(Raw::Done));
    }
    let answer = Caller { fds, tasks }.call(call);
    let hides = known == Known::Hidden;
    if hides && matches!(answer, Err(Errno::EAGAIN)) && misses_what_is_not_there(call, fds, tasks) {
        return Said::NotAsked;
    }
    let caller = Caller { fds, tasks };
    if hides && matches!(answer, Err(Errno::EINVAL)) && is_refused_for_direct(&caller, call) {
        return Said::Answer(Err(NOTHING_BEHIND));
    }
    match (call.fills(), answer) {
        (Some(slot), Ok(Raw::File(fd))) => {
            if hides && is_special(&fd) && !sys::is_path(fd.as_raw_fd()) {
                return Said::Answer(Err(NOTHING_BEHIND));
            }
            slots[slot.0] = Some(sys::moved_to(number(slot), fd, slots[slot.0].take()));
            Said::Answer(Ok(Raw::Done))
        }
        (_, answer) => Said::Answer(answer),
    }
}

fn is_special(fd: &OwnedFd) -> bool {
    let opened = sys::fstat(fd.as_raw_fd()).expect("an open file has attributes");
    matches!(
        FileType::from_mode(opened.st_mode),
        Some(FileType::Fifo | FileType::Socket | FileType::CharDevice | FileType::BlockDevice)
    )
}

/// Whether a fifo or a device was opened, and then closed for it cannot be read and written past the cache.
fn is_refused_for_direct(caller: &Caller<'_>, call: &Call) -> bool {
    let mut plain = call.clone();
    let (Call::Openat { flags, .. } | Call::Openat2 { flags, .. }) = &mut plain else {
        return false;
    };
    if !flags.contains(OpenFlags::DIRECT) || flags.contains(OpenFlags::PATH) {
        return false;
    }
    *flags -= OpenFlags::DIRECT;
    let mut found = plain.clone();
    if let Call::Openat { flags, mode, .. } | Call::Openat2 { flags, mode, .. } = &mut found {
        (*flags, *mode) = ((*flags & OpenFlags::NOFOLLOW) | OpenFlags::PATH, Octal(0));
    }
    matches!(caller.call(&found), Ok(Raw::File(fd)) if is_special(&fd))
        && caller.call(&plain).is_ok()
}

/// Reads the first queue. Of a call that pathwalk refuses nobody hears there.
fn listen(slots: &Slots, said: &Said<OwnedFd>) -> Vec<Event> {
    let Some(queue) = &slots[SLOTS] else { return Vec::new() };
    let mut events = Vec::new();
    let mut buf = [0; 1 << 12];
    while let Ok(read) = sys::read(queue.as_raw_fd(), &mut buf) {
        events.extend(parse_events(&buf[..read]));
    }
    if matches!(said, Said::Answer(Err(errno)) if *errno == NOTHING_BEHIND) {
        events.retain(|event| !event.mask.intersects(InotifyMask::OPEN | InotifyMask::CLOSE));
    }
    events
}

fn look(slots: &Slots) -> Vec<Option<pathwalk::Stat>> {
    let stat = |fd: &OwnedFd| sys::fstat(fd.as_raw_fd()).expect("fstat cannot fail");
    slots[..SLOTS].iter().map(|fd| fd.as_ref().map(stat)).collect()
}
