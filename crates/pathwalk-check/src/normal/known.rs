//! What is known to differ, and what stands in for it where calls are drawn: a table tells both answers, a drawn call cannot.
//!
//! The rows of `scenarios` that begin with `differs` show each of them; [`procfs`](super::procfs) has those of a procfs.

use crate::{
    answer::{Raw, Said},
    call::Call,
    field::Octal,
    kernel::{Caller, as_openat2, sys},
};
use pathwalk::{CapSet, Errno, Event, FileType, InotifyMask, OpenFlags, ResolveFlags};
use std::os::fd::{AsRawFd, OwnedFd};

/// What becomes of that in which the two are known to differ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Known {
    /// Something that is the same stands in for it, or nothing: of drawn calls, and of what is seen beside an answer.
    #[default]
    Hidden,
    /// Each answers as it does: in tables.
    Shown,
}

/// Behind a fifo, a socket or a device there is nothing here: where the kernel opens one, the answer is that of a device
/// without a driver.
const NOTHING_BEHIND: Errno = Errno::ENXIO;

impl Known {
    /// What stands for the kernel's answer.
    pub(crate) fn stand_in(
        self,
        caller: &Caller<'_>,
        call: &Call,
        answer: Result<Raw<OwnedFd>, Errno>,
    ) -> Said<OwnedFd> {
        let open = match call {
            Call::Within { resolve, call } => as_openat2(*resolve, call),
            _ => None,
        };
        let call = open.as_ref().unwrap_or(call);
        match (self, &answer) {
            (Self::Shown, _) => {}
            (_, Err(Errno::EAGAIN)) if misses_what_is_not_there(caller, call) => {
                return Said::NotAsked;
            }
            (_, Err(Errno::EINVAL)) if is_refused_for_direct(caller, call) => {
                return Said::Answer(Err(NOTHING_BEHIND));
            }
            (_, Ok(Raw::File(fd))) if is_opened_special(call, fd) => {
                return Said::Answer(Err(NOTHING_BEHIND));
            }
            _ => {}
        }
        Said::Answer(answer)
    }

    /// What is heard of a call that was answered so: of one that pathwalk refuses nobody hears there.
    pub(crate) fn heard<F>(self, said: &Said<F>, events: &mut Vec<Event>) {
        let refused = matches!(said, Said::Answer(Err(errno)) if *errno == NOTHING_BEHIND);
        if self == Self::Hidden && refused {
            events.retain(|event| !event.mask.intersects(InotifyMask::OPEN | InotifyMask::CLOSE));
        }
    }

    /// The capabilities that a task of pathwalk's gets before those that `setcred` gives it: the kernel's has other credentials
    /// after that, even where they are the same, and a `Cred` that is the same is no other.
    pub(crate) fn caps_between(self, permitted: CapSet) -> Option<CapSet> {
        (self == Self::Hidden).then_some(permitted)
    }
}

/// Whether openat2 finds nothing cached where nothing is: of names that are not there a tmpfs keeps no memory, and is to be
/// asked each time; pathwalk knows that a directory of its own holds no more than it has.
fn misses_what_is_not_there(caller: &Caller<'_>, call: &Call) -> bool {
    let Call::Openat2 { slot, path, flags, mode: _, resolve } = call else { return false };
    let refused =
        flags.intersects(OpenFlags::CREAT | OpenFlags::TRUNC) || flags.contains(OpenFlags::TMPFILE);
    if !resolve.contains(ResolveFlags::CACHED) || refused {
        return false;
    }
    let (slot, path) = (*slot, path.clone());
    // Which nobody hears of.
    let flags = *flags & (OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW) | OpenFlags::PATH;
    let resolve = *resolve - ResolveFlags::CACHED;
    let call = Call::Openat2 { slot, path, flags, mode: Octal(0), resolve };
    matches!(caller.call(&call), Err(Errno::ENOENT))
}

/// Whether a call opened a fifo, a socket or a device.
fn is_opened_special(call: &Call, fd: &OwnedFd) -> bool {
    let (Call::Openat { flags, .. } | Call::Openat2 { flags, .. }) = call else { return false };
    !flags.contains(OpenFlags::PATH) && is_special(fd)
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
