//! Asking a file system what a name stands for; and at each use again, where it wants to be asked.
//!
//! What changes a name's meaning is done by who has it reserved, also where it turns out to be stale: else somebody who is
//! in the file system with the name reserved would be met there by somebody who reserved it anew.
//!
//! Linux: `lookup_slow`, `d_revalidate`, `lookup_dcache`.

use super::{
    DentryId, IN_LOOKUP, REVALIDATE, UNNAMED,
    reserve::{Busy, Reserved},
};
use crate::{fs::Features, inode::InodeId, name::Component, vfs::Vfs};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::lock_order;

/// A name in a directory that the caller holds.
#[derive(Clone, Copy)]
pub(crate) struct Query<'q> {
    pub(crate) dir: DentryId,
    /// The directory's inode.
    pub(crate) inode: InodeId,
    /// What the name lies in.
    pub(crate) text: &'q [u8],
    pub(crate) name: &'q Component,
    /// Whether nothing that the file system keeps for a while is to be believed: ESTALE came of that.
    pub(crate) anew: bool,
}

/// What came of asking about a reserved name.
pub(crate) enum Asked<'v> {
    /// It is known what it stands for.
    Known(Reserved<'v>),
    /// It is a directory whose old name somebody has reserved. The reservation is over.
    Busy(Busy<'v>),
    /// What was cached is not true any more. The reservation is over.
    Stale,
}

impl Vfs {
    /// Reserves a name and finds out what it stands for. The caller has no other name reserved.
    ///
    /// # Errors
    ///
    /// - those of [`Vfs::reserve`].
    /// - whatever the file system answers.
    pub(crate) fn reserve_known(&self, query: Query<'_>) -> Result<Reserved<'_>> {
        loop {
            match self.try_reserve_known(query)? {
                Ok(name) => return Ok(name),
                Err(busy) => busy.wait(),
            }
        }
    }

    /// As [`Vfs::reserve_known`], but where it is a directory whose old name is reserved by somebody else it gives that
    /// one, to be waited for without having this one reserved: that other may be waiting for it.
    ///
    /// # Errors
    ///
    /// As [`Vfs::reserve_known`].
    #[inline(always)]
    pub(crate) fn try_reserve_known(
        &self,
        query: Query<'_>,
    ) -> Result<std::result::Result<Reserved<'_>, Busy<'_>>> {
        loop {
            let name = self.reserve(query.dir, query.text, query.name)?;
            match self.ask_reserved(name, query)? {
                Asked::Known(name) => return Ok(Ok(name)),
                Asked::Busy(busy) => return Ok(Err(busy)),
                Asked::Stale => {}
            }
        }
    }

    /// Finds out what a reserved name stands for.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    #[inline(always)]
    pub(crate) fn ask_reserved<'v>(
        &'v self,
        name: Reserved<'v>,
        query: Query<'_>,
    ) -> Result<Asked<'v>> {
        let asks = name.dentry().is(IN_LOOKUP | REVALIDATE);
        if asks { self.ask_about_reserved(name, query) } else { Ok(Asked::Known(name)) }
    }

    /// As [`Vfs::ask_reserved`], of a name that is not known, or about which the file system wants to be asked at each use.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    fn ask_about_reserved<'v>(&'v self, name: Reserved<'v>, query: Query<'_>) -> Result<Asked<'v>> {
        if name.unknown() {
            let busy = self.fill(&name, query)?;
            return Ok(busy.map_or_else(|| Asked::Known(name), Asked::Busy));
        }
        if self.still_holds(name.id, query)? {
            return Ok(Asked::Known(name));
        }
        self.d_invalidate(&name);
        Ok(Asked::Stale)
    }

    /// Asks the file system what a reserved name stands for, and notes the answer. If it is a directory that has another
    /// name, which somebody has reserved, nothing is noted.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers; the name is unknown then, as before.
    pub(crate) fn fill(&self, name: &Reserved<'_>, query: Query<'_>) -> Result<Option<Busy<'_>>> {
        let sb_id = name.dentry().sb.get();
        let sb = self.superblock(sb_id).ok_or(Errno::ESTALE)?;
        lock_order::assert_none_held();
        let bytes = query.name.bytes(query.text);
        let inode = loop {
            let moment = self.ended.now();
            let dir = self.inode_ref(query.inode);
            let found =
                if query.anew { sb.fs.lookup_anew(dir, bytes) } else { sb.fs.lookup(dir, bytes) };
            let Some(found) = found? else { break InodeId::NONE };
            if let Some(inode) = self.iget(&sb, &found, moment)? {
                // It was here already by another name, with attributes of before. Which are the later ones, the file system knows.
                if sb.features.contains(Features::GETATTR)
                    && self.inode_ref(inode).attr() != found.attr
                {
                    // Who asks for them is told why they cannot be had.
                    let _ = sb.fs.getattr(self.inode_ref(inode));
                }
                break inode;
            }
        };
        if let Some(busy) = self.claim_alias(inode, name.id) {
            self.iput(inode);
            return Ok(Some(busy));
        }
        self.d_instantiate(name.id, inode, sb.kind);
        Ok(None)
    }

    /// Asks the file system whether what is cached of a name still holds, if it wants to be asked. The caller holds the
    /// name's dentry.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    pub(crate) fn still_holds(&self, id: DentryId, query: Query<'_>) -> Result<bool> {
        let dentry = self.dentry(id);
        if !dentry.is(REVALIDATE) {
            return Ok(true);
        }
        let sb = self.superblock(dentry.sb.get()).ok_or(Errno::ESTALE)?;
        lock_order::assert_none_held();
        let inode = InodeId(dentry.inode.get());
        let cached = (inode != InodeId::NONE).then(|| self.inode_ref(inode));
        let (dir, name) = (self.inode_ref(query.inode), query.name.bytes(query.text));
        if query.anew {
            return sb.fs.revalidate_anew(dir, name, cached);
        }
        sb.fs.revalidate(dir, name, cached)
    }

    /// Has the file system bring up to date who may search and read what the caller holds, where no name led to it, of which it was asked.
    /// What it cannot say stays as it is.
    pub(crate) fn ask_about_unnamed(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let inode = InodeId(dentry.inode.get());
        if !dentry.is(UNNAMED) || inode == InodeId::NONE {
            return;
        }
        if let Some(sb) = self.superblock(dentry.sb.get()) {
            lock_order::assert_none_held();
            let inode = self.inode_ref(inode);
            let _ = sb.fs.revalidate_path(inode, b"", Some(inode), false);
        }
    }
}
