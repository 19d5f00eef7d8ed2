//! The one path of the place where a remembered walk ends, kept in the memo behind its text.
//!
//! ```text
//!   /lib/ld.so.2/usr/lib/ld-2.36.so
//!   └── text ──┘└─ the one path ──┘      where /lib is a symlink to usr/lib, and ld.so.2 one to ld-2.36.so
//! ```
//!
//! Invariant: it is made of nothing but names of dentries and places of mounts at which the memo looks, as they were while the
//! memo held. So it is true while that holds, and a hit looks at nothing more.
//!
//! It is made when somebody asks for it, and where there is no room for it in the memo it is not kept. A walk was in each directory
//! that lies above its end, as it comes to a place only from the directory above, or by `..` from one below it; so mostly the memo looks at
//! all of them.

use super::{super::road, MOST, Memo, STEPS, both};
use crate::{
    cred::Asker,
    dcache::{DentryId, IS_ROOT},
    mount::MountId,
    vfs::Vfs,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::Seq;
use smallvec::SmallVec;

/// The path is not in the memo: it was not asked for yet, …
pub(super) const UNASKED: u8 = 0;
/// … or there is no room for it, or the memo does not look at all that it depends on.
const NOWHERE: u8 = u8::MAX;
const _: () = assert!(super::LONG < NOWHERE as usize);

/// Writes the one path of the place where the walk ends that this thread found remembered last; returns how many bytes.
///
/// # Errors
///
/// - `ERANGE`: the buffer is too small.
pub(super) fn write(
    memo: &mut Memo,
    vfs: &Vfs,
    asker: Asker<'_>,
    buf: &mut [u8],
) -> Option<Result<usize>> {
    if memo.path == UNASKED {
        make(memo, vfs, asker)?;
    }
    let from = usize::from(memo.len);
    let path = memo.text.get(from..)?.get(..usize::from(memo.path))?;
    road::note_told();
    let Some(buf) = buf.get_mut(..path.len()) else { return Some(Err(Errno::ERANGE)) };
    buf.copy_from_slice(path);
    Some(Ok(path.len()))
}

/// Makes the path, unless the memo does not hold any more.
#[cold]
#[inline(never)]
fn make(memo: &mut Memo, vfs: &Vfs, asker: Asker<'_>) -> Option<()> {
    let len = compose(memo, vfs).and_then(|len| u8::try_from(len).ok());
    road::path_is_read();
    // What was read is what the memo was made of, if that is still so.
    Seq::acquire();
    if !memo.holds(vfs, asker) {
        return None;
    }
    memo.path = len.unwrap_or(NOWHERE);
    Some(())
}

/// Writes the path behind the memo's text, from what lies above the place, if the memo looks at all of that and has room; a guess until
/// it is found to hold. Returns how many bytes.
fn compose(memo: &mut Memo, vfs: &Vfs) -> Option<usize> {
    let names = memo.names_above(vfs)?;
    let room = memo.text.get_mut(usize::from(memo.len)..)?;
    let all = room.len();
    let mut rest = room;
    for &id in names.iter().rev() {
        rest = vfs.copy_name_to(vfs.dentry(id), put_slash(rest)?)?;
    }
    if names.is_empty() {
        rest = put_slash(rest)?;
    }
    Some(all - rest.len())
}

fn put_slash(out: &mut [u8]) -> Option<&mut [u8]> {
    let (slash, behind) = out.split_first_mut()?;
    *slash = b'/';
    Some(behind)
}

impl Memo {
    /// The dentries that give the place its path, the last one first, if the memo looks at each of them.
    fn names_above(&self, vfs: &Vfs) -> Option<SmallVec<[DentryId; STEPS]>> {
        let mut names = SmallVec::new();
        let (mut mnt, mut id) = (self.known.mnt.0, self.known.at.0);
        // While something changes they may lie in a circle.
        for _ in 0..MOST {
            if both((mnt, id)) == self.root {
                return Some(names);
            }
            let mount = vfs.mount_slot(mnt);
            if id.0 == mount.root.get() {
                if !self.looks_at_mount(mnt) {
                    return None;
                }
                (mnt, id) = (MountId(mount.parent.get()), DentryId(mount.mountpoint.get()));
                continue;
            }
            let dentry = vfs.dentry(id);
            if !self.looks_at(id) || dentry.is(IS_ROOT) {
                return None;
            }
            names.push(id);
            id = DentryId(dentry.parent.get());
        }
        None
    }

    /// Whether it holds only while that dentry stays as it is.
    fn looks_at(&self, id: DentryId) -> bool {
        id != DentryId::NONE && self.few.iter().chain(&self.more).any(|step| step.0 == id)
    }

    /// Whether it holds only while that mount hangs where it does.
    fn looks_at_mount(&self, id: MountId) -> bool {
        id != MountId::NONE
            && (self.known.mnt.0 == id || self.mounts.iter().any(|step| step.0 == id))
    }
}
