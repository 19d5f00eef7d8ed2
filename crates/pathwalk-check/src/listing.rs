//! statmount and listmount, of a mount that a path leads to, of one by its number, and of the root; in the caller's mount
//! namespace or in another.

use crate::{
    answer::Raw,
    call::{Call, Who},
    field::{Text, Where},
    normal::mounts::listmount,
};
use pathwalk::{AtFlags, LSMT_ROOT, ListmountFlags, Result, StatMount, StatmountMask};

/// The caller's mount namespace.
const OWN: u64 = 0;
/// So many mounts no run has.
const MAX: usize = 1000;
/// Few, so that a list has several pages.
const PAGE: usize = 2;

/// Who is asked: each call as the subject has it.
pub(crate) trait Lists {
    /// The number of a task's mount namespace.
    fn namespace(&self, of: Who) -> u64;

    /// The unique number of the mount that a path leads to.
    fn mount_id(&self, path: &Where) -> Result<u64>;

    fn statmount(&self, ns: u64, id: u64, mask: StatmountMask) -> Result<StatMount>;

    fn listmount(
        &self,
        ns: u64,
        id: u64,
        last: u64,
        max: usize,
        flags: ListmountFlags,
    ) -> Result<Vec<u64>>;
}

/// Makes the call, if it is one of these.
pub(crate) fn listed<F>(who: &impl Lists, call: &Call) -> Option<Result<Raw<F>>> {
    let here = |Text(path): &Text| Where { dir: None, path: path.clone() };
    let stat = |ns, id, mask| Ok(Raw::Statmount(id, Box::new(who.statmount(ns, id, mask)?)));
    let places = |ns, ids| listmount(ids, |id| who.statmount(ns, id, StatmountMask::MNT_POINT));
    let part = |ns, id, last, max, flags| places(ns, who.listmount(ns, id, last, max, flags)?);
    let whole = |ns, path: &Where, flags| {
        let id = who.mount_id(path)?;
        places(ns, by_pages(|last, max| who.listmount(ns, id, last, max, flags))?)
    };
    Some(match call {
        Call::Statmount { path, mask } => {
            who.mount_id(&here(path)).and_then(|id| stat(OWN, id, *mask))
        }
        Call::StatmountOf { of, path, mask } => {
            who.mount_id(path).and_then(|id| stat(who.namespace(*of), id, *mask))
        }
        Call::StatmountId { id, mask } => stat(OWN, id.0 as u64, *mask),
        Call::StatmountNs { ns, id, mask } => stat(ns.0 as u64, id.0 as u64, *mask),
        Call::Listmount { path, flags } => whole(OWN, &here(path), *flags),
        Call::ListmountOf { of, path, flags } => whole(who.namespace(*of), path, *flags),
        Call::ListmountRoot { flags } => part(OWN, LSMT_ROOT, 0, MAX, *flags),
        Call::ListmountRootOf { of, flags } => part(who.namespace(*of), LSMT_ROOT, 0, MAX, *flags),
        Call::ListmountId { id, last, max, flags } => {
            part(OWN, id.0 as u64, last.0 as u64, max.0, *flags)
        }
        Call::ListmountNs { ns, id, last, max, flags } => {
            part(ns.0 as u64, id.0 as u64, last.0 as u64, max.0, *flags)
        }
        _ => return None,
    })
}

/// The flags with which statx(2) tells of a path's mount: no path is what the descriptor stands for.
pub(crate) fn flags_of(path: &Where) -> AtFlags {
    if path.path.is_empty() && path.dir.is_some() { AtFlags::EMPTY_PATH } else { AtFlags::empty() }
}

/// All that listmount(2) lists, which is told the last one of a page and how many the next one has at most.
fn by_pages(list: impl Fn(u64, usize) -> Result<Vec<u64>>) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    loop {
        let page = list(all.last().copied().unwrap_or(0), PAGE)?;
        all.extend_from_slice(&page);
        if page.len() < PAGE {
            return Ok(all);
        }
    }
}
