//! Where an inode's ACLs lie: a chain of blobs that the inode names, so that a walk that holds nothing can read them.
//!
//! ```text
//!   inode.acl ─► │ next:32 default:16 access:16 │ entry │ entry │ …        511 words at most
//!                   └──► │ next:32 … │ entry │ …                           the access ACL's entries first
//! ```
//!
//! Invariant: while an inode names a blob, its words change only between two increments of the inode's `seq`, and only in
//! what they permit. To set an ACL is to write new blobs and then, between two such increments, their number. So who read
//! words and finds the count unmoved read an ACL.

use super::{
    AclEntry, AclTag, Acls,
    format::{from_word, to_word},
};
use crate::{
    inode::{Attr, I_ACL, I_ACL_UNKNOWN, I_GETATTR, Inode, InodeId, InodeRef, Owner},
    lock,
    setattr::Iattr,
    vfs::Vfs,
};
use pathwalk_abi::{Errno, Result};
use pathwalk_sync::{Blob, BlobArena, Cell64, Spin, blob::MAX_LEN};

/// So often ACLs are asked for that cannot be noted, as others change the inode, or say that they may be others: what was told last is of after
/// the call began, and is gone by.
pub(crate) const MOST_LOST: u32 = 3;

/// The words of a part; all but the last have so many.
const PART: usize = MAX_LEN / 8;

/// The entries of an access ACL, or of both ACLs, read from where they lie. A guess until the inode's count is checked.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    names: &'a BlobArena,
    words: &'a [Cell64],
    next: usize,
    left: usize,
}

impl<'a> Entries<'a> {
    /// The entries, and how many of them are the access ACL's.
    fn all(names: &'a BlobArena, acl: Blob) -> (Self, usize) {
        let words = names.words(acl);
        let head = words.first().map_or(0, Cell64::get);
        let (access, default) = ((head & 0xffff) as usize, (head >> 16 & 0xffff) as usize);
        (Self { names, words, next: 1, left: access + default }, access)
    }

    /// The access ACL's entries.
    pub(crate) fn access(names: &'a BlobArena, acl: Blob) -> Self {
        let (entries, access) = Self::all(names, acl);
        Self { left: access, ..entries }
    }
}

impl<'a> Entries<'a> {
    /// The word of the next entry.
    fn next_cell(&mut self) -> Option<&'a Cell64> {
        self.left = self.left.checked_sub(1)?;
        // A late reader may be led anywhere, and out of the arena, but not further than the head said.
        if self.next == PART {
            self.words = self.names.words((self.words.first()?.get() >> 32) as u32);
            self.next = 1;
        }
        let cell = self.words.get(self.next)?;
        self.next += 1;
        Some(cell)
    }
}

impl Iterator for Entries<'_> {
    type Item = AclEntry;

    fn next(&mut self) -> Option<AclEntry> {
        self.next_cell().map(|cell| from_word(cell.get()))
    }
}

/// Blobs that no inode names yet, or no longer; freed with it.
struct Chain<'v> {
    vfs: &'v Vfs,
    first: Blob,
}

impl<'v> Chain<'v> {
    /// Writes ACLs; the last part first.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the names' arena is full, and nothing could be evicted.
    #[inline]
    fn write(vfs: &'v Vfs, acls: &Acls) -> Result<Self> {
        if acls.is_empty() { Ok(Self { vfs, first: 0 }) } else { Self::write_some(vfs, acls) }
    }

    #[cold]
    fn write_some(vfs: &'v Vfs, acls: &Acls) -> Result<Self> {
        let mut chain = Self { vfs, first: 0 };
        let counts = acls.access.len() as u64 | (acls.default.len() as u64) << 16;
        let words: Vec<u64> =
            acls.access.iter().chain(&acls.default).copied().map(to_word).collect();
        for part in words.chunks(PART - 1).rev() {
            let head = u64::from(chain.first) << 32 | counts;
            let bytes: Vec<u8> =
                std::iter::once(&head).chain(part).flat_map(|word| word.to_le_bytes()).collect();
            chain.first = vfs.with_room(|| vfs.names.store(&bytes)).ok_or(Errno::ENOMEM)?;
        }
        Ok(chain)
    }
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        self.vfs.acl_free(self.first);
    }
}

impl Inode {
    /// The ACLs; a guess for who does not hold the inode's lock.
    fn acls(&self, names: &BlobArena) -> Acls {
        match self.acl.get() {
            0 => Acls::default(),
            acl => {
                let (mut entries, access) = Entries::all(names, acl);
                let access = entries.by_ref().take(access).collect();
                Acls { access, default: entries.collect() }
            }
        }
    }

    /// Names other blobs; those of before are the chain's then. The caller changes the inode.
    fn exchange_acls(&self, chain: &mut Chain<'_>, acls: &Acls) {
        let old = self.acl.get();
        self.acl.set(std::mem::replace(&mut chain.first, old));
        let flags = self.flags.get() & !(I_ACL | I_ACL_UNKNOWN);
        self.flags.set(if acls.access.is_empty() { flags } else { flags | I_ACL });
    }

    /// Names no blobs, as nobody knows which; those of before are the chain's then. The caller changes the inode.
    fn forget_acls(&self, chain: &mut Chain<'_>) {
        self.exchange_acls(chain, &Acls::default());
        self.flags.set(self.flags.get() | I_ACL_UNKNOWN);
    }
}

impl InodeRef<'_> {
    /// Says that its ACLs may not be those any more that the file system told: [`FileSystem::acls`](crate::fs::FileSystem::acls) is asked
    /// where they may decide something next, and what it is being asked just now is not believed.
    ///
    /// Only for file systems that are asked for them: with [`Features::POSIX_ACL`](crate::fs::Features::POSIX_ACL), and not complete.
    pub fn forget_acls(&self) {
        let mut none = Chain { vfs: self.vfs, first: 0 };
        let slot = self.slot();
        let _guard = slot.lockref.lock(lock::INODE);
        let _change = slot.seq.change();
        slot.forget_acls(&mut none);
        self.vfs.update_search_all(self.id);
    }
}

impl Vfs {
    /// Frees the blobs of ACLs that no inode names any more.
    pub(crate) fn acl_free(&self, mut acl: Blob) {
        while acl != 0 {
            let next = self.names.words(acl).first().map_or(0, |head| (head.get() >> 32) as u32);
            self.names.free(acl);
            acl = next;
        }
    }

    /// As [`Vfs::attr_and_acls`], what the file system has now.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    pub(crate) fn attr_and_acls_now(&self, id: InodeId) -> Result<(Attr, Acls)> {
        self.getattr_if_wanted(id)?;
        self.attr_and_acls(id)
    }

    /// Mode, owner and group of what surely has no ACLs, at one moment; a guess that it may have some is none.
    #[inline]
    pub(crate) fn owner_without_acls(&self, id: InodeId) -> Option<Owner> {
        let slot = self.inode(id);
        let sample = slot.seq.sample();
        let owner = slot.owner_cells();
        let none = slot.acl.get() == 0 && slot.flags.get() & I_ACL_UNKNOWN == 0;
        (none && slot.seq.unchanged(sample)).then_some(owner)
    }

    /// Attributes and ACLs at one moment; asks the file system for ACLs that are not known. Where others change them all the time the ACLs
    /// are those that were told last, so of some moment of the call.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers.
    pub(crate) fn attr_and_acls(&self, id: InodeId) -> Result<(Attr, Acls)> {
        let slot = self.inode(id);
        let mut spin = Spin::default();
        let mut lost = 0;
        loop {
            let sample = slot.seq.sample();
            let known = slot.flags.get() & I_ACL_UNKNOWN == 0;
            let both = (slot.attr_cells(), slot.acls(&self.names));
            if !slot.seq.unchanged(sample) {
                spin.turn();
            } else if known {
                return Ok(both);
            } else if let Some(acls) = self.read_acls(id)? {
                lost += 1;
                if lost == MOST_LOST {
                    return Ok((slot.attr(), acls));
                }
            }
        }
    }

    /// Asks the file system for ACLs that are not known, and notes them. Gives them where they could not be noted, as the inode changed
    /// meanwhile; none where they are known by now. No lock is held, but perhaps the rename mutex.
    ///
    /// # Errors
    ///
    /// - `EIO`: it has entries that make no ACL.
    /// - whatever the file system answers.
    ///
    /// Linux: `get_inode_acl`.
    pub(crate) fn read_acls(&self, id: InodeId) -> Result<Option<Acls>> {
        let slot = self.inode(id);
        let sb = self.superblock(slot.sb.get()).ok_or(Errno::ESTALE)?;
        // Who changes an ACL moves the count: then what was read is of before.
        let sample = slot.seq.sample();
        if slot.flags.get() & I_ACL_UNKNOWN == 0 {
            return Ok(None);
        }
        let acls = sb.fs.acls(self.inode_ref(id))?;
        for acl in [&acls.access, &acls.default] {
            if !acl.is_empty() && super::validate(acl).is_err() {
                return Err(Errno::EIO);
            }
        }
        let mut chain = Chain::write(self, &acls)?;
        let _guard = slot.lockref.lock(lock::INODE);
        if slot.seq.unchanged(sample) {
            self.put_acls_locked(id, &mut chain, &acls);
            return Ok(None);
        }
        Ok(Some(acls))
    }

    /// Gives ACLs to a fresh inode that no dentry stands for yet.
    pub(crate) fn init_acls(&self, id: InodeId, acls: NewAcls<'_>) {
        let slot = self.inode(id);
        if !acls.get().is_empty() && slot.flags.get() & I_ACL_UNKNOWN == 0 {
            let NewAcls { mut chain, acls } = acls;
            let _guard = slot.lockref.lock(lock::INODE);
            self.put_acls_locked(id, &mut chain, &acls);
        }
    }

    /// Notes attributes and ACLs in one step; nobody else changes either.
    pub(crate) fn note_acls(&self, id: InodeId, change: &Iattr, acls: NewAcls<'_>) {
        let NewAcls { mut chain, acls } = acls;
        let slot = self.inode(id);
        const OTHERS: u32 = I_GETATTR | I_ACL_UNKNOWN;
        let sb = self.superblock(slot.sb.get());
        let others = sb.is_some_and(|sb| sb.inode_flags & OTHERS == OTHERS);
        let _guard = slot.lockref.lock(lock::INODE);
        let mut attr = slot.attr_cells();
        change.copy_to(&mut attr);
        let _change = slot.seq.change();
        slot.rewrite(&attr);
        if others {
            // They may have set another one since.
            slot.forget_acls(&mut chain);
        } else {
            slot.exchange_acls(&mut chain, &acls);
        }
        self.update_search_all(id);
    }

    /// Changes an access ACL with the mode, in its place; the caller changes the inode.
    pub(crate) fn acl_chmod_locked(&self, slot: &Inode, mode: u32) {
        let entries = || Entries::access(&self.names, slot.acl.get());
        let masked = entries().any(|entry| entry.tag == AclTag::Mask);
        let mut cells = entries();
        while let Some(cell) = cells.next_cell() {
            let mut entry = from_word(cell.get());
            if let Some(class) = super::class_of(entry.tag, masked) {
                entry.access = super::class_bits(mode, class);
                cell.set(to_word(entry));
            }
        }
    }

    /// Exchanges an inode's blobs for others; the caller holds the inode's lock.
    fn put_acls_locked(&self, id: InodeId, chain: &mut Chain<'_>, acls: &Acls) {
        let slot = self.inode(id);
        let _change = slot.seq.change();
        slot.exchange_acls(chain, acls);
        self.update_search_all(id);
    }
}

/// The ACLs of an inode that is to be made, with room for them.
pub(crate) struct NewAcls<'v> {
    chain: Chain<'v>,
    acls: Acls,
}

impl<'v> NewAcls<'v> {
    /// Takes the room.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: there is none.
    pub(crate) fn new(vfs: &'v Vfs, acls: Acls) -> Result<Self> {
        Ok(Self { chain: Chain::write(vfs, &acls)?, acls })
    }

    pub(crate) fn get(&self) -> &Acls {
        &self.acls
    }
}
