//! What nobody is asked, and what the kernel is asked again, or otherwise.

use crate::{
    answer::Said,
    call::{Call, QUEUES, SLOTS, Step},
    field::{Text, Where},
    kernel::{Caller, parent_mount, with_map},
};
use pathwalk::{AtFlags, Errno, OpenFlags, ResolveFlags, StatxMask, UmountFlags};

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
    let Call::Umount2 { path, flags } = call else { return false };
    if !flags.contains(UmountFlags::DETACH) {
        // To look at it would be to use it: see `MNT_EXPIRE`.
        return false;
    }
    let mut at = AtFlags::empty();
    at.set(AtFlags::SYMLINK_NOFOLLOW, flags.contains(UmountFlags::NOFOLLOW));
    let path = Where { dir: None, path: path.0.clone() };
    let caller = Caller { fds: [-1; SLOTS + QUEUES], ..*caller };
    let statx = caller.statx(&path, at, StatxMask::MNT_ID_UNIQUE);
    let parent = |mount| parent_mount(mount).ok();
    let above = statx.ok().and_then(|statx| parent(statx.stx_mnt_id));
    above.is_some_and(|bottom| parent(bottom) == Some(bottom))
}

/// Whether what a call within bounds does cannot be told from what is done in its place: where a symlink leads to the
/// file that is to be truncated, it is opened, of which somebody may hear, and stamped even where its size stays.
fn has_no_stand_in(caller: &Caller<'_>, call: &Call) -> bool {
    let Call::Within { resolve, call } = call else { return false };
    let Call::Truncate { path: Text(path), size } = &**call else { return false };
    let heard = caller.fds[SLOTS..].iter().any(|&queue| queue >= 0);
    let found = caller.size_by_symlink(*resolve, path);
    found.is_some_and(|found| heard || found == Ok(size.0))
}

/// Whether the kernel is asked again, as it has just been told the same: that a mount goes at the next call. What was let go
/// of a moment ago, by a thread that ends, say, counts as use when the kernel comes to it.
pub(crate) fn is_asked_again<F>(marked: Option<&Step>, step: &Step, said: &Said<F>) -> bool {
    marked == Some(step) && marks(&step.call, said)
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
