//! rename, renameat, renameat2.
//!
//! Linux: `do_renameat2`, `vfs_rename`, `lock_rename`.

use super::{create::Make, making::Making, retry_estale};
use crate::{
    dcache::{
        DEAD_DIR, DIRECTORY, DentryId,
        ask::Asked,
        reserve::{Again, Reserved, Target},
    },
    fs::{Access, Rename},
    lock,
    name::{INLINE_LEN, Kind},
    security::{Entry, Hooks},
    task::{At, Task},
    vfs::Vfs,
    walk::{
        Lookup,
        counts::Counts,
        job::Parent,
        lookup::{parent, parent_beside},
    },
};
use pathwalk_abi::{Dev, Errno, FileType, RenameFlags, Result};
use pathwalk_sync::{Blob, lock_order};

impl Task {
    /// `rename(old, new)`: gives a file another name; what had that name loses it. rename(2)
    ///
    /// # Errors
    ///
    /// As [`Task::renameat2`].
    pub fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.renameat2(At::Cwd, old, At::Cwd, new, RenameFlags::empty())
    }

    /// `renameat2(old_dir, old, new_dir, new, flags)`: gives a file another name, in one step. renameat2(2)
    ///
    /// With `RENAME_EXCHANGE` the two names exchange what they stand for; with `RENAME_WHITEOUT` a whiteout, the character
    /// device 0:0, stays under the old name. Two names of one file are left as they are.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: an unknown flag, or `RENAME_EXCHANGE` with another one.
    /// - those of the lookup of the old name's directory, then of the new name's.
    /// - `EXDEV`: they lie in different mounts.
    /// - `EBUSY`: a path ends in `.`, `..` or `/`; `EEXIST` for the new one with `RENAME_NOREPLACE`.
    /// - `EROFS`: the mount is read-only.
    /// - `ENOENT`: the old name is not there, or a directory was removed; the new name with `RENAME_EXCHANGE`.
    /// - `EEXIST`: `RENAME_NOREPLACE`, and the new name is there.
    /// - `ENOTDIR`: a slash stands behind a name, and what is renamed is no directory; with `RENAME_EXCHANGE`, what has that
    ///   name.
    /// - `EINVAL`: a directory would become its own descendant.
    /// - `ENOTEMPTY`: what would be replaced is an ancestor.
    /// - those of [`Task::unlinkat`] about the old name, up to `EPERM`.
    /// - of the new name those of [`Task::mkdirat`] about permission, or those of [`Task::unlinkat`] if it is there.
    /// - `EACCES`: a directory changes its parent and may not be written itself.
    /// - `EBUSY`: something is mounted on one of the two in the task's mount namespace; in others it goes along, or is taken
    ///   down with what is replaced.
    /// - `ENOTEMPTY`: what would be replaced has entries.
    /// - `EINVAL`: the file system cannot exchange, or has no whiteouts.
    /// - `ENOMEM`, `ENOSPC`, `EMLINK`: there is no room.
    pub fn renameat2<'a, 'b>(
        &self,
        old_dir: impl Into<At<'a>>,
        old: impl AsRef<[u8]>,
        new_dir: impl Into<At<'b>>,
        new: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        let alone = RenameFlags::NOREPLACE | RenameFlags::WHITEOUT;
        let unknown = flags.bits() & !RenameFlags::all().bits() != 0;
        if unknown || flags.contains(RenameFlags::EXCHANGE) && flags.intersects(alone) {
            return Err(Errno::EINVAL);
        }
        let (old_dir, old) = (old_dir.into(), old.as_ref());
        let (new_dir, new) = (new_dir.into(), new.as_ref());
        retry_estale(|reval| self.do_renameat2((old_dir, old), (new_dir, new), flags, reval))
    }

    fn do_renameat2(
        &self,
        (old_dir, old): (At<'_>, &[u8]),
        (new_dir, new): (At<'_>, &[u8]),
        flags: RenameFlags,
        reval: Lookup,
    ) -> Result<()> {
        // The new path's own errors come after those of the old one's lookup.
        let old_request = self.request(old_dir, old, reval)?;
        let old = parent(&old_request)?;
        let new = parent_beside(&self.request(new_dir, new, reval)?, (&old, &old_request))?;
        if old.dir.mnt() != new.dir.mnt() {
            return Err(Errno::EXDEV);
        }
        if old.last.kind() != Kind::Norm {
            return Err(Errno::EBUSY);
        }
        if new.last.kind() != Kind::Norm {
            let no_replace = flags.contains(RenameFlags::NOREPLACE);
            return Err(if no_replace { Errno::EEXIST } else { Errno::EBUSY });
        }
        let _writing = old.dir.want_write()?;
        self.vfs().do_rename(self, &old, &new, flags)
    }
}

/// What is left behind, where a name is renamed away and others are to see that it is gone.
const WHITEOUT: Make<'static> =
    Make { file_type: FileType::CharDevice, mode: 0, rdev: Dev::new(0, 0), body: b"" };

/// A name that has no room in a dentry, kept until a dentry has it.
struct LongName<'v> {
    vfs: &'v Vfs,
    blob: Blob,
}

impl<'v> LongName<'v> {
    /// Keeps a name.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the names' memory is used up, and nothing could be evicted.
    fn new(vfs: &'v Vfs, name: &[u8]) -> Result<Self> {
        let blob = vfs.with_room(|| vfs.names.store(name)).ok_or(Errno::ENOMEM)?;
        Ok(Self { vfs, blob })
    }

    /// Hands it over.
    fn into_raw(self) -> Blob {
        let blob = self.blob;
        std::mem::forget(self);
        blob
    }
}

impl Drop for LongName<'_> {
    fn drop(&mut self) {
        self.vfs.names.free(self.blob);
    }
}

impl Vfs {
    /// Renames between two directories that the caller holds.
    ///
    /// The names are reserved first, which may ask the file system and wait. The rename lock comes after that and is held
    /// for as long as directories must stay where they are: to the end if one changes its parent, so that none becomes its
    /// own descendant, and else only for the move in the cache.
    fn do_rename(
        &self,
        task: &Task,
        old: &Parent<'_>,
        new: &Parent<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        let (mut source, target) = self.reserve_two(old, new)?;
        let inode = source.inode().ok_or(Errno::ENOENT)?;
        // One name twice is one reservation.
        let replaced = match &target {
            Some(target) => target.name().and_then(Reserved::inode),
            None => Some(inode),
        };
        if flags.contains(RenameFlags::NOREPLACE) && replaced.is_some() {
            return Err(Errno::EEXIST);
        }
        if exchange && replaced.is_none() {
            return Err(Errno::ENOENT);
        }
        let is_directory = source.dentry().is(DIRECTORY);
        let onto_directory = replaced.is_some_and(|victim| self.is_directory_inode(victim));
        // What will have the new name, or has it now, must be what the slash behind it says.
        let fits_new = if exchange { onto_directory } else { is_directory };
        let slash =
            old.last.trailing_slash && !is_directory || new.last.trailing_slash && !fits_new;
        if slash && self.config.profile.rename_slash_first {
            return Err(Errno::ENOTDIR);
        }
        let across = old.dir.dentry() != new.dir.dentry();
        let sb = old.dir.sb();
        // Room first: what the file system did must find its place. And before the lock: to make room, others may be asked to
        // let go of what they have.
        let long = new.last.len > INLINE_LEN && !exchange && target.is_some();
        let long_name = long.then(|| LongName::new(self, new.name()));
        let whiteout = (flags.contains(RenameFlags::WHITEOUT) && target.is_some())
            .then(|| self.room_for_whiteout(old, task));
        let mut held = (across && (is_directory || onto_directory)).then(|| sb.lock_rename());
        // Without that lock neither can lie above the other's directory: it is no directory, or lies in that one.
        if let Some(held) = &held {
            if self.is_ancestor(source.id, new.dir.dentry(), held.still()) {
                return Err(Errno::EINVAL);
            }
            if let Some(target) = target.as_ref().and_then(Target::name)
                && self.is_ancestor(target.id, old.dir.dentry(), held.still())
            {
                return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
            }
        }
        if slash {
            return Err(Errno::ENOTDIR);
        }
        let who = old.dir.seen_by(task.cred.subject());
        let old_entry = || Entry::of(self, old, Some(inode));
        let new_entry = || Entry::of(self, new, replaced);
        self.ask(Hooks::PATH_RENAME, |module| {
            module.path_rename(&who, &old_entry(), &new_entry(), flags)
        })?;
        let Some(mut target) = target else { return Ok(()) };
        if replaced == Some(inode) {
            return Ok(());
        }
        self.may_delete(&old.dir, inode, &who, is_directory)?;
        match replaced {
            // To take a name from the directory and to put one there is the same permission.
            None if !across && self.decides_permission(new.dir.inode()) => _ = who.new_ids()?,
            None => self.may_create(&new.dir, &who)?,
            Some(victim) => {
                let must_be = if exchange { onto_directory } else { is_directory };
                self.may_delete(&new.dir, victim, &who, must_be)?;
            }
        }
        // Who gets another parent is written to: it has a new `..`.
        if across && is_directory {
            self.inode_permission(inode, Access::WRITE, &who)?;
        }
        if let Some(other) = replaced.filter(|_| across && exchange && onto_directory) {
            self.inode_permission(other, Access::WRITE, &who)?;
        }
        self.ask(Hooks::INODE_RENAME, |module| {
            if exchange {
                module.inode_rename(&who, &new_entry(), &old_entry())?;
            }
            module.inode_rename(&who, &old_entry(), &new_entry())
        })?;
        let ns = task.mount_namespace().ns();
        let onto = target.name().map(|name| name.id);
        if self.is_local_mountpoint(source.id, ns)
            || onto.is_some_and(|onto| self.is_local_mountpoint(onto, ns))
        {
            return Err(Errno::EBUSY);
        }
        let long_name = long_name.transpose()?;
        let whiteout = whiteout.transpose()?;
        let rename = Rename {
            old_dir: old.dir.inode_ref(),
            old_name: old.name(),
            inode: self.inode_ref(inode),
            new_dir: new.dir.inode_ref(),
            new_name: new.name(),
            replaced: replaced.map(|id| self.inode_ref(id)),
            no_replace: flags.contains(RenameFlags::NOREPLACE),
            now: self.now(),
        };
        if held.is_none() {
            lock_order::assert_none_held();
        }
        let mut left = None;
        if exchange {
            sb.fs.exchange(&rename)?;
        } else if let Some((making, dentry)) = whiteout {
            if let Some(found) = sb.fs.rename_whiteout(&rename, &making.new_inode())? {
                let inode = making.made(&sb, &found, dentry.dentry());
                self.d_instantiate(dentry.dentry(), inode, sb.kind);
                left = Some(dentry.into_raw());
            }
        } else {
            sb.fs.rename(&rename)?;
        }
        let blob = long_name.map(LongName::into_raw);
        if across && held.is_none() {
            held = Some(sb.lock_rename());
        }
        let onto = onto.filter(|_| replaced.is_some());
        match &mut target {
            Target::Name(target) if exchange => {
                self.d_exchange(&mut source, target, held.as_ref());
            }
            target => {
                if let Some(onto) = onto.filter(|_| is_directory) {
                    self.mark_dead(onto);
                }
                let name = (new.text(), &new.last);
                self.d_move(&mut source, target, held.as_ref(), name, blob, left);
            }
        }
        drop(held);
        if let Some(left) = left {
            self.dput(left);
        }
        if let Some(onto) = onto.filter(|_| !exchange) {
            self.detach_mounts(onto);
            if onto_directory {
                self.shrink_dcache_parent(onto);
            }
        }
        if source.has_ended() {
            // Nobody watches, so nobody is told.
            return Ok(());
        }
        let (from, to) = ((old.dir.inode(), old.name()), (new.dir.inode(), new.name()));
        self.fsnotify_move(from, to, inode, replaced.filter(|_| !exchange));
        if let Some(other) = replaced.filter(|_| exchange) {
            self.fsnotify_move(to, from, other, None);
        }
        Ok(())
    }

    /// What a whiteout needs that is left behind: a place for its inode, and a dentry, which no name leads to yet.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: the tables are full, and nothing could be evicted.
    /// - whatever the file system answers about ACLs.
    fn room_for_whiteout(
        &self,
        old: &Parent<'_>,
        task: &Task,
    ) -> Result<(Making<'_, 'static>, Counts<'_>)> {
        let who = old.dir.seen_by(task.cred.subject());
        let making = Making::new(self, old.dir.inode(), &WHITEOUT, 0, &who)?;
        let left = self.dentry_alloc(old.dir.dentry(), old.text(), &old.last)?;
        Ok((making, Counts::of_child(self, left)))
    }

    /// Reserves both names, in the order that all renames keep; one reservation where they are the same. File systems are
    /// asked about the old name first, and about the new one if that is there.
    ///
    /// While one name is waited for, or its file system is asked about it, nobody else's lookup of the other one has to wait.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the old name is not there.
    /// - `ESTALE`: the new name stands for a directory that has another name, which is reserved, be it as the old one. Waiting
    ///   for that might be waiting for oneself. The call is made once more, asking anew; where a file system then still
    ///   gives the directory two names, or another rename has reserved one of them, the user is told, as by Linux, whose
    ///   `__d_unalias` does not wait for another rename either.
    /// - whatever the file systems answer.
    fn reserve_two(
        &self,
        old: &Parent<'_>,
        new: &Parent<'_>,
    ) -> Result<(Reserved<'_>, Option<Target<'_>>)> {
        if old.dir.dentry() == new.dir.dentry()
            && let Some((old_name, new_name)) = self.reserve_to_move(
                old.dir.dentry(),
                (old.text(), &old.last),
                (new.text(), &new.last),
            )
        {
            return Ok((old_name, Some(Target::Absent(new_name))));
        }
        let (old_name, new_name) = self.reserve_in_order(old, new)?;
        Ok((old_name, new_name.map(Target::Name)))
    }

    /// As [`Vfs::reserve_two`], whatever is to be waited for or asked about.
    fn reserve_in_order(
        &self,
        old: &Parent<'_>,
        new: &Parent<'_>,
    ) -> Result<(Reserved<'_>, Option<Reserved<'_>>)> {
        let (old_key, new_key) = ((old.dir.dentry(), old.name()), (new.dir.dentry(), new.name()));
        loop {
            let old_name = self.reserve_known(old.query())?.that_is_there()?;
            if old_key == new_key {
                return Ok((old_name, None));
            }
            if old_key < new_key {
                // Whoever has one name may not wait for others than the second: a directory's other name may be the first.
                let new_name = self.try_reserve_known(new.query())?;
                return Ok((old_name, Some(new_name.map_err(|_busy| Errno::ESTALE)?)));
            }
            // The new name comes first: it is had if nobody has to be waited for.
            if let Ok(new_name) = self.reserve_or_busy(new.dir.dentry(), new.text(), &new.last)? {
                match self.ask_reserved(new_name, new.query())? {
                    Asked::Known(new_name) => return Ok((old_name, Some(new_name))),
                    Asked::Busy(_) => return Err(Errno::ESTALE),
                    Asked::Stale => {}
                }
            }
            // Until the file system is asked about it, its lookups wait.
            let known = old_name.let_go();
            let new_name = self.reserve(new.dir.dentry(), new.text(), &new.last)?;
            let old_name = match known.reserve_again() {
                Again::Reserved(old_name) => old_name,
                Again::Busy(busy) => {
                    drop(new_name);
                    busy.wait();
                    continue;
                }
                Again::Changed => continue,
            };
            match self.ask_reserved(new_name, new.query())? {
                Asked::Known(new_name) => return Ok((old_name, Some(new_name))),
                Asked::Busy(_) => return Err(Errno::ESTALE),
                // It is reserved anew before the old name is.
                Asked::Stale => {}
            }
        }
    }

    fn mark_dead(&self, id: DentryId) {
        let dentry = self.dentry(id);
        let _guard = dentry.lockref.lock(lock::DENTRY);
        let _change = dentry.seq.change();
        dentry.flags.set(dentry.flags.get() | DEAD_DIR);
    }
}
