//! statmount and listmount of pathwalk's.

use crate::{
    call::Who,
    field::Where,
    listing::{Lists, flags_of},
    normal::ground::statmount_as_tmpfs,
    ours::Asking,
};
use pathwalk::{ListmountFlags, Result, StatMount, StatmountMask, StatxMask, Task};

/// A task that asks.
pub(crate) struct Listing<'a>(pub(crate) &'a Asking<'a>, pub(crate) &'a Task);

impl Lists for Listing<'_> {
    fn namespace(&self, of: Who) -> u64 {
        self.0.tasks[of as usize].mount_namespace().id()
    }

    fn mount_id(&self, path: &Where) -> Result<u64> {
        let Self(asking, task) = self;
        let mask = StatxMask::MNT_ID_UNIQUE;
        Ok(task.statx(asking.at(path)?, &path.path, flags_of(path), mask)?.stx_mnt_id)
    }

    fn statmount(&self, ns: u64, id: u64, mask: StatmountMask) -> Result<StatMount> {
        self.1.statmount_in(ns, id, mask).map(statmount_as_tmpfs)
    }

    fn listmount(
        &self,
        ns: u64,
        id: u64,
        last: u64,
        max: usize,
        flags: ListmountFlags,
    ) -> Result<Vec<u64>> {
        self.1.listmount_in(ns, id, last, max, flags)
    }
}
