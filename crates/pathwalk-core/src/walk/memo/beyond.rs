//! What a memo has no room for: it is made for most paths, and few have more. A thread takes bytes of the budget for it in lumps, so
//! that mostly nobody meets another at the lock of that.

use super::{DentryId, InodeId, MountId, Step, ask::Questions, thread::Budgeted};
use crate::vfs::Vfs;
use std::cell::RefCell;

/// The rest of a memo.
pub(super) struct Beyond {
    pub(super) rest: Rest,
    /// What a file system is to be asked.
    pub(super) questions: Option<Questions>,
    bytes: usize,
}

/// What a thread may have beside its memos, so that one which goes long ways leaves room for others.
const MOST: usize = 1 << 20;
/// So much is taken of the budget at once.
const LUMP: usize = 16 << 10;

thread_local! {
    static POT: RefCell<Pot> = const { RefCell::new(Pot { left: 0, taken: 0, lumps: Vec::new() }) };
}

/// What a thread has taken of the budget for what lies beside its memos.
struct Pot {
    left: usize,
    taken: usize,
    lumps: Vec<Budgeted>,
}

impl Pot {
    /// Takes so many bytes; whether there are. Where there are too few, none of the budget are taken.
    fn take(&mut self, bytes: usize, budget: u64) -> bool {
        let missing = bytes.saturating_sub(self.left).next_multiple_of(LUMP);
        if missing > 0 {
            let room = self.taken + missing <= MOST;
            let Some(lumps) = room.then(|| Budgeted::new(missing, budget)).flatten() else {
                return false;
            };
            self.lumps.push(lumps);
            self.taken += missing;
            self.left += missing;
        }
        self.left -= bytes;
        true
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        // Where the thread ends, all was given back.
        let _ = POT.try_with(|pot| pot.borrow_mut().left += self.bytes);
    }
}

/// What there is no room for, and what must hold too.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) text: Box<[u8]>,
    pub(super) dentries: Box<[Step<DentryId>]>,
    pub(super) inodes: Box<[Step<InodeId>]>,
    pub(super) mounts: Box<[Step<MountId>]>,
}

impl Rest {
    /// Whether there is something that must hold.
    pub(super) fn matters(&self) -> bool {
        !(self.dentries.is_empty() && self.inodes.is_empty() && self.mounts.is_empty())
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.text)
            + size_of_val(&*self.dentries)
            + size_of_val(&*self.inodes)
            + size_of_val(&*self.mounts)
    }
}

impl Beyond {
    /// Keeps that, or nothing where there is nothing.
    ///
    /// # Errors
    ///
    /// There is no room for it in the budget.
    pub(super) fn of(
        rest: Rest,
        questions: Option<Questions>,
        budget: u64,
    ) -> Result<Option<Self>, ()> {
        let asked = questions.as_ref().map_or(0, Questions::bytes);
        let bytes = rest.bytes() + asked;
        if bytes == 0 {
            return Ok(None);
        }
        let bytes = size_of::<Self>() + bytes;
        let taken = POT.try_with(|pot| pot.borrow_mut().take(bytes, budget));
        if taken == Ok(true) { Ok(Some(Self { rest, questions, bytes })) } else { Err(()) }
    }

    /// The text behind what is in the memo.
    pub(super) fn text(&self) -> &[u8] {
        &self.rest.text
    }

    /// Whether nothing of it moved.
    pub(super) fn holds(&self, vfs: &Vfs) -> bool {
        let Rest { dentries, inodes, mounts, .. } = &self.rest;
        dentries.iter().all(|&(id, seq)| vfs.dentry(id).seq.is(seq))
            && inodes.iter().all(|&(id, seq)| vfs.inode(id).seq.is(seq))
            && mounts.iter().all(|&(id, seq)| vfs.mount_slot(id).seq.is(seq))
    }
}
