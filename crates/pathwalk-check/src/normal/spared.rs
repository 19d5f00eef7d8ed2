//! What nobody is asked, and what the kernel is asked again, or otherwise.

use crate::{
    answer::Said,
    call::{Call, Step},
    field::Text,
    kernel::{Caller, parent_mount, with_map},
};
use pathwalk::{AtFlags, Errno, OpenFlags, ResolveFlags, UmountFlags};

/// So often a walk within bounds is asked for again.
const MOVES: u32 = 1000;
/// The same for one that asks for what is cached, for which that is an answer too.
const CACHED: u32 = 30;

/// Whether neither of the two is asked.
pub(crate) fn is_spared(caller: &Caller<'_>, call: &Call) -> bool {
    let missing = call.uses().iter().any(|slot| caller.fds[slot.0] < 0);
    missing
        || is_unmade(call)
        || shows_what_is_below_all(caller, call)
        || has_no_stand_in(caller, call)
}

/// Whether a map is a user namespace's that could not be made.
fn is_unmade(call: &Call) -> bool {
    let (Call::IdmapMount { map, .. } | Call::OpenTreeAttr { map, .. }) = call else {
        return false;
    };
    with_map(*map).is_none()
}

/// Whether it is a lazy umount of the root of all, and not to be made: below it the kernel has a file system that belongs to
/// the whole machine, which setns(2) would then lead to.
fn shows_what_is_below_all(caller: &Caller<'_>, call: &Call) -> bool {
    let (resolve, call) = match call {
        Call::Within { resolve, call } => (*resolve, &**call),
        call => (ResolveFlags::empty(), call),
    };
    let Call::Umount2 { path: Text(path), flags } = call else { return false };
    // To look at it would be to use it.
    if !flags.contains(UmountFlags::DETACH) || flags.contains(UmountFlags::EXPIRE) {
        return false;
    }
    let mount = caller.mount_within(resolve, path, flags.contains(UmountFlags::NOFOLLOW));
    let parent = |mount| parent_mount(mount).ok();
    let above = mount.ok().and_then(parent);
    above.is_some_and(|bottom| parent(bottom) == Some(bottom))
}

/// Whether what a call within bounds does cannot be told from what is done in its place.
fn has_no_stand_in(caller: &Caller<'_>, call: &Call) -> bool {
    let Call::Within { resolve, call } = call else { return false };
    match &**call {
        // By name too: then the descriptor's credentials are looked at beside it.
        Call::Linkat { old, flags, .. } => {
            flags.contains(AtFlags::EMPTY_PATH) && !old.path.is_empty()
        }
        // It is opened first, which is to use it.
        Call::Umount2 { flags, .. } if flags.contains(UmountFlags::EXPIRE) => true,
        // Who is in its directory uses what is mounted there, if the path ends elsewhere than in its name.
        Call::Umount2 { path: Text(path), flags } => {
            let nofollow = flags.contains(UmountFlags::NOFOLLOW);
            !flags.contains(UmountFlags::DETACH) && !caller.ends_in_a_name(*resolve, path, nofollow)
        }
        _ => false,
    }
}

/// Whether the kernel is asked again, as it has just been told the same: that a mount goes at the next call. What was let go
/// of a moment ago, by a thread that ends, say, counts as use when the kernel comes to it.
pub(crate) fn is_asked_again<F>(marked: Option<&Step>, step: &Step, said: &Said<F>) -> bool {
    marked == Some(step) && marks(&step.call, said)
}

/// Whether the judge does not glance behind a step: a mount may be to go at the next, and to look is to use it for the kernel
/// alone, as the tables know.
pub(crate) fn is_not_glanced_behind(step: &Step) -> bool {
    matches!(step.call, Call::Umount2 { flags, .. } if flags.contains(UmountFlags::EXPIRE))
}

/// Whether a mount is to go if nobody uses it until the same is called again.
pub(crate) fn marks<F>(call: &Call, said: &Said<F>) -> bool {
    matches!(call, Call::Umount2 { flags, .. } if flags.contains(UmountFlags::EXPIRE))
        && matches!(said, Said::Answer(Err(Errno::EAGAIN)))
}

/// How often openat2 is asked again that answers `EAGAIN`: a walk within bounds, or that may wait for nothing, gives up where
/// anything moved on the whole machine, other runs' mounts too.
pub(crate) fn times(resolve: ResolveFlags) -> u32 {
    if resolve.contains(ResolveFlags::CACHED) { CACHED } else { MOVES }
}

/// The flags by which the kernel is asked to open: a fifo that nobody else has open would hold up the run.
pub(crate) fn without_waiting(flags: OpenFlags) -> OpenFlags {
    if flags.contains(OpenFlags::PATH) { flags } else { flags | OpenFlags::NONBLOCK }
}
