//! How an answer of a file system becomes an inode, and how an inode ends.
//!
//! Each [`Found`] is given back once: at once where an inode of its node is here already or none can be made, else when
//! the last count of its inode goes. Between an inode's end and the word to its file system another may begin, of a new
//! answer about the same node: so it is answers that are counted, and not nodes.
//!
//! Linux: `iget_locked`, `iput`, `evict`.

use crate::{
    ended::Moment,
    fs::{Features, Found, Managed},
    inode::{I_HASHED, I_WRITTEN, InodeId, must_be_a_body, node_hash},
    lock,
    vfs::{SuperBlock, Vfs},
};
use pathwalk_abi::{Errno, FileType, Result};
use pathwalk_sync::{Blob, lock_order};

impl Vfs {
    /// The inode of what a file system found when asked after `moment`, with one count; none where that may be old by now, and
    /// it is to be asked again.
    ///
    /// # Errors
    ///
    /// - those of [`must_be_a_body`].
    /// - `ENOMEM`: the inode table or the names' arena is full, and nothing could be evicted.
    ///
    /// Linux: `iget_locked`.
    pub(crate) fn iget(
        &self,
        sb: &SuperBlock,
        found: &Found,
        moment: Moment,
    ) -> Result<Option<InodeId>> {
        if sb.inode_flags & I_HASHED != 0
            && let Some(id) = self.ilookup(sb.id(), found.node)
        {
            give_back(sb, found);
            return Ok(Some(id));
        }
        let room = self.inode_room(found).inspect_err(|_| give_back(sb, found))?;
        Ok(self.inode_fill(room, sb, found, moment))
    }

    /// Room for what a file system found: a slot, and of a symlink the place of its body.
    fn inode_room(&self, found: &Found) -> Result<(InodeId, Blob)> {
        let body = match &found.body {
            Some(body) if found.attr.file_type() == FileType::Symlink => {
                must_be_a_body(body)?;
                self.with_room(|| self.names.store(body)).ok_or(Errno::ENOMEM)?
            }
            _ => 0,
        };
        let Some(id) = self.with_room(|| self.inode_alloc()) else {
            if body != 0 {
                self.names.free(body);
            }
            return Err(Errno::ENOMEM);
        };
        Ok((id, body))
    }

    /// Fills a fresh inode slot with what a file system found or made; takes over the body. Where the table of nodes has
    /// the inode already, it is that one, and the slot is given back. None where what was found after `moment` may be old.
    pub(crate) fn inode_fill(
        &self,
        (id, body): (InodeId, Blob),
        sb: &SuperBlock,
        found: &Found,
        moment: Moment,
    ) -> Option<InodeId> {
        let managed = sb.features.contains(Features::MANAGED);
        let managed = if managed { sb.fs.managed(found) } else { Managed::empty() };
        let flags = sb.inode_flags | managed.inode_flags();
        self.inode(id).begin(sb.id(), found, flags & !I_HASHED, body);
        if found.attr.nlink == 0 {
            self.unlinked(sb.id()).get();
        }
        if flags & I_HASHED == 0 {
            return Some(id);
        }
        let published = self.inode_publish(id, moment);
        if published != Some(id) {
            give_back(sb, found);
        }
        published
    }

    /// Puts an inode into the table of nodes, or gives the one that is there already; neither where it may be old.
    fn inode_publish(&self, id: InodeId, moment: Moment) -> Option<InodeId> {
        let slot = self.inode(id);
        let (sb, node) = (slot.sb.get(), slot.node.get());
        let _publishing = self.publishing[node as usize % self.publishing.len()].lock();
        let other = self.ilookup(sb, node);
        if other.is_some() || self.ended.since(moment, node_hash(sb, node)) {
            self.inode_discard(id);
            return other;
        }
        slot.flags.set(slot.flags.get() | I_HASHED);
        self.ihash.insert(id.0, slot);
        Some(id)
    }

    /// The inode of a node, if it is in the table, with one more count.
    fn ilookup(&self, sb: u32, node: u64) -> Option<InodeId> {
        self.ihash.find_locked(&self.inodes, node_hash(sb, node), |id, slot| {
            let it = slot.sb.get() == sb && slot.node.get() == node;
            (it && slot.lockref.get_not_dead()).then_some(InodeId(id))
        })
    }

    /// Gives a count of an inode back; the last one frees the slot, and the file if it has no name left. No inode is at count 0
    /// and alive.
    ///
    /// Linux: `iput`, `evict`.
    pub(crate) fn iput(&self, id: InodeId) {
        self.iput_of(id, None);
    }

    /// As [`Vfs::iput`], of who may have the superblock at hand.
    pub(crate) fn iput_of(&self, id: InodeId, known: Option<&SuperBlock>) {
        let slot = self.inode(id);
        // The last count is given back with the mark: who had none any more could find the slot another's when he gets the
        // lock.
        let guard = loop {
            if slot.lockref.put_unless_last() {
                return;
            }
            let guard = slot.lockref.lock(lock::INODE);
            if slot.flags.get() & (I_HASHED | I_WRITTEN) == I_HASHED | I_WRITTEN {
                self.ended.note(node_hash(slot.sb.get(), slot.node.get()));
            }
            if guard.put_and_mark_dead() {
                break guard;
            }
            // Somebody found it meanwhile.
        };
        if slot.flags.get() & I_HASHED != 0 {
            self.ihash.remove(&self.inodes, id.0, slot);
        }
        let (sb, node, unlinked) = (slot.sb.get(), slot.node.get(), slot.is_unlinked());
        let blobs = slot.clear_locked();
        drop(guard);
        self.free_blobs(blobs);
        if unlinked {
            self.unlinked(sb).put();
        }
        // Who gave a dentry back may have freed another's that has its slot by now: then it is not his superblock.
        let _panicked = self.outlast(|| match known.filter(|known| known.id() == sb) {
            Some(known) => known.fs.evict(node, unlinked),
            None => {
                let sb = self.superblock(sb);
                debug_assert!(sb.is_some(), "a superblock outlives its inodes");
                if let Some(sb) = sb {
                    sb.fs.evict(node, unlinked);
                }
            }
        });
        self.inodes.free(id.0);
    }

    /// Takes an inode slot, with one count, for a thing that does not exist yet.
    pub(crate) fn inode_alloc(&self) -> Option<InodeId> {
        let id = self.inodes.alloc()?;
        self.ihash.grow(&self.inodes, self.inodes.high_water());
        self.inodes.get(id).lockref.revive();
        Some(InodeId(id))
    }

    /// Gives back an inode slot that no dentry and no table knows; its file system hears nothing of it.
    pub(crate) fn inode_discard(&self, id: InodeId) {
        let slot = self.inode(id);
        if slot.is_unlinked() {
            self.unlinked(slot.sb.get()).put();
        }
        let blobs = {
            let guard = slot.lockref.lock(lock::INODE);
            let dead = guard.put_and_mark_dead();
            debug_assert!(dead, "nobody else knows a slot that was never published");
            slot.clear_locked()
        };
        self.free_blobs(blobs);
        self.inodes.free(id.0);
    }

    fn free_blobs(&self, (body, acl): (Blob, Blob)) {
        if body != 0 {
            self.names.free(body);
        }
        self.acl_free(acl);
    }
}

/// Gives an answer back that no inode comes of, so that the file system's count of its answers stays right.
fn give_back(sb: &SuperBlock, found: &Found) {
    lock_order::assert_none_held();
    sb.fs.evict(found.node, false);
}
