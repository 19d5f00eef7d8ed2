//! Renaming: what it does to the attributes of the two directories and of what is renamed.
//!
//! Linux: `shmem_rename2`, `simple_rename_exchange`, `shmem_whiteout`.

use crate::{
    directory::{self, ENTRY_SIZE},
    memfs::{MemFs, change},
    node::Node,
};
use pathwalk_abi::{Errno, FileType, Result};
use pathwalk_core::{
    InodeRef,
    fs::{Found, NewInode, Rename},
};

impl MemFs {
    /// Renames. Only one inode can refuse: the directory that is replaced or, if nothing is, the new directory; one that
    /// has a name to be replaced cannot be removed.
    ///
    /// # Errors
    ///
    /// - `ENOTEMPTY`: the directory that is replaced has names.
    /// - `ENOENT`: the new directory was removed.
    /// - `EMLINK`: the new directory has 2³² - 1 links; tmpfs has no limit, and no room for so many.
    pub(crate) fn move_name(&self, rename: &Rename<'_>) -> Result<()> {
        let &Rename { old_dir, inode, new_dir, replaced, now, .. } = rename;
        let moved = inode.file_type() == FileType::Directory;
        let same_dir = old_dir.is(new_dir);
        self.note_others(inode)?;
        replaced.map_or(Ok(()), |victim| self.note_others(victim))?;
        match replaced {
            Some(victim) if moved => victim.update(|victim| directory::remove(victim, now))?,
            Some(victim) => self.drop_name(victim, now),
            None if same_dir => {}
            None => new_dir.update(|dir| directory::enter(dir, moved, now))?,
        }
        // A name went from the old directory, unless it only changed. What came to the new one is counted: as what was
        // replaced there, or just now.
        match replaced {
            None if same_dir => directory::note(old_dir, now),
            _ => change(old_dir, |dir| directory::leave(dir, moved, now)),
        }
        if replaced.is_some() && !same_dir {
            directory::note(new_dir, now);
        }
        inode.set_changed(None, now);
        Ok(())
    }

    /// Renames, and leaves a whiteout, which takes an inode: the old directory keeps its size.
    ///
    /// # Errors
    ///
    /// - `ENOSPC`: no inode is left.
    /// - those of [`MemFs::move_name`].
    pub(crate) fn leave_whiteout(
        &self,
        rename: &Rename<'_>,
        whiteout: &NewInode<'_>,
    ) -> Result<Found> {
        self.space.take_inode(0)?;
        // Counted first: it has the name that goes, so it is there; and it is not found empty before the other has come.
        change(rename.old_dir, |dir| dir.size += ENTRY_SIZE);
        self.move_name(rename).inspect_err(|_| {
            change(rename.old_dir, |dir| dir.size -= ENTRY_SIZE);
            self.space.give_inodes(1);
        })?;
        let attr = self.new_attr(whiteout, rename.old_dir.attr().flags);
        Ok(Found { node: Node::EMPTY.0, attr, body: None })
    }

    /// Exchanges two names. Only a directory that gets a subdirectory for what was none can refuse.
    ///
    /// # Errors
    ///
    /// - `EMLINK`: the directory has 2³² - 1 links; tmpfs has no limit, and no room for so many.
    pub(crate) fn exchange_names(&self, rename: &Rename<'_>) -> Result<()> {
        let &Rename { old_dir, inode, new_dir, replaced, now, .. } = rename;
        let other = replaced.ok_or(Errno::ENOENT)?;
        let is_directory = |inode: InodeRef<'_>| inode.file_type() == FileType::Directory;
        let same_dir = old_dir.is(new_dir);
        self.note_others(inode)?;
        self.note_others(other)?;
        match (is_directory(inode), is_directory(other)) {
            _ if same_dir => directory::note(old_dir, now),
            (true, false) => directory::pass_on(old_dir, new_dir, now)?,
            (false, true) => directory::pass_on(new_dir, old_dir, now)?,
            _ => {
                directory::note(old_dir, now);
                directory::note(new_dir, now);
            }
        }
        inode.set_changed(None, now);
        other.set_changed(None, now);
        Ok(())
    }
}
