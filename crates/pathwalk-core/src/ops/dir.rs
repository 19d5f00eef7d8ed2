//! Directories: getdents64, chdir, fchdir, getcwd, chroot.
//!
//! Linux: `fs/readdir.c`, `fs/open.c`, `d_path`.

use crate::{
    dcache::{COMPLETE, DEAD_DIR, DentryId, HASHED, IS_ROOT, NEGATIVE},
    file::{File, Position},
    fs::{Access, Features},
    inode::InodeId,
    lock,
    security::{Hooks, PathRef},
    task::{At, Task},
    vfs::Vfs,
    walk::{HeldPath, Lookup, lookup::keep},
};
use pathwalk_abi::{CapSet, Errno, FileType, OpenFlags, Result, dirent};

impl Task {
    /// `getdents64(dir, buf)`: lists a directory into `buf` as `struct linux_dirent64`s; returns how many bytes, 0 at the
    /// end. getdents64(2)
    ///
    /// The position counts in the directory's own cookies: whatever else comes and goes, an entry that is there all the
    /// time is listed once. What lies behind the bytes that are returned may be overwritten.
    ///
    /// # Errors
    ///
    /// - `EBADF`: opened with `O_PATH`, or of another machine.
    /// - `ENOTDIR`: it is no directory.
    /// - `ENOENT`: it was removed.
    /// - `EINVAL`: the buffer is too small for the next entry.
    pub fn getdents64(&self, dir: &File, buf: &mut [u8]) -> Result<usize> {
        self.place_of(dir)?;
        if dir.is_path() {
            return Err(Errno::EBADF);
        }
        let vfs = self.vfs();
        let (mnt, id) = dir.place();
        let dentry = vfs.dentry(id);
        if !dir.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        let mut position = dir.position().lock();
        if dentry.is(DEAD_DIR) {
            return Err(Errno::ENOENT);
        }
        let mut out = Dirents { buf, used: 0, full: false };
        let mut noted = true;
        if dentry.is(COMPLETE) {
            vfs.list_complete(id, &mut position, &mut out);
        } else {
            noted = vfs.list_asking(dir, &mut position, &mut out)?;
        }
        drop(position);
        dir.fsnotify_access();
        if noted && !dir.flags().contains(OpenFlags::NOATIME) {
            vfs.touch_atime(dir.inode(), mnt, vfs.mount_slot(mnt).flags());
        }
        if out.used == 0 && out.full { Err(Errno::EINVAL) } else { Ok(out.used) }
    }

    /// `chdir(path)`: changes the current directory. chdir(2)
    ///
    /// # Errors
    ///
    /// - those of the lookup; `ENOTDIR`: it is no directory.
    /// - `EACCES`: it may not be searched.
    pub fn chdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.chdirat(At::Cwd, path)
    }

    /// `chdirat(dir, path)`: changes the current directory. Linux has no such call: it is [`Task::chdir`] from a directory,
    /// or within bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::chdir`].
    pub fn chdirat<'a>(&self, dir: impl Into<At<'a>>, path: impl AsRef<[u8]>) -> Result<()> {
        let flags = Lookup::FOLLOW | Lookup::DIRECTORY;
        let held = keep(&self.request(dir.into(), path.as_ref(), flags)?)?;
        self.may_enter(&held)?;
        self.fs.set_cwd(held);
        Ok(())
    }

    /// `fchdir(dir)`: makes an open directory the current one. fchdir(2)
    ///
    /// # Errors
    ///
    /// - `EBADF`: it is of another machine.
    /// - `ENOTDIR`: it is no directory.
    /// - `EACCES`: it may not be searched.
    pub fn fchdir(&self, dir: &File) -> Result<()> {
        self.place_of(dir)?;
        let held = dir.hold();
        if !held.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        self.vfs().ask_about_unnamed(held.dentry());
        self.may_enter(&held)?;
        self.fs.set_cwd(held);
        Ok(())
    }

    /// `chroot(path)`: changes the root. The current directory stays where it is. chroot(2)
    ///
    /// # Errors
    ///
    /// - those of the lookup; `ENOTDIR`: it is no directory.
    /// - `EACCES`: it may not be searched.
    /// - `EPERM`: without `CAP_SYS_CHROOT`.
    pub fn chroot(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.chrootat(At::Cwd, path)
    }

    /// `chrootat(dir, path)`: changes the root. Linux has no such call: it is [`Task::chroot`] from a directory, or within
    /// bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::chroot`].
    pub fn chrootat<'a>(&self, dir: impl Into<At<'a>>, path: impl AsRef<[u8]>) -> Result<()> {
        let flags = Lookup::FOLLOW | Lookup::DIRECTORY;
        let held = keep(&self.request(dir.into(), path.as_ref(), flags)?)?;
        self.may_enter(&held)?;
        if !self.cred.subject().capable(CapSet::SYS_CHROOT) {
            return Err(Errno::EPERM);
        }
        let vfs = self.vfs();
        vfs.ask(Hooks::PATH_CHROOT, |module| {
            module.path_chroot(&self.cred.subject(), &PathRef::of(vfs, &held))
        })?;
        self.fs.set_root(held);
        Ok(())
    }

    /// `readlink("/proc/self/fd/N")`: the path of an open file as the root sees it, ` (deleted)` behind it where the name is gone.
    /// Where the root does not lie above, it is the path from the top of that tree, and nothing tells. proc_pid_fd(5)
    ///
    /// # Errors
    ///
    /// - `EBADF`: it is of another machine.
    /// - `ENAMETOOLONG`: the path has more than 4095 bytes.
    pub fn d_path(&self, file: &File) -> Result<Vec<u8>> {
        self.place_of(file)?;
        let vfs = self.vfs();
        let (mnt, dentry) = self.fs.hold_root(vfs);
        vfs.d_path(&file.hold(), &HeldPath::new(vfs, mnt, dentry))
    }

    /// `getcwd()`: the current directory's path, with `(unreachable)` before it if it lies outside the root. getcwd(2)
    ///
    /// # Errors
    ///
    /// - `ENOENT`: it was removed.
    /// - `ENAMETOOLONG`: the path has more than 4095 bytes.
    pub fn getcwd(&self) -> Result<Vec<u8>> {
        let vfs = self.vfs();
        let held = |(mnt, dentry)| HeldPath::new(vfs, mnt, dentry);
        let [root, cwd] = self.fs.hold_root_and_cwd(vfs).map(held);
        if !cwd.slot().is(HASHED | IS_ROOT) {
            return Err(Errno::ENOENT);
        }
        vfs.getcwd(&cwd, &root)
    }

    fn may_enter(&self, dir: &HeldPath<'_>) -> Result<()> {
        let who = dir.seen_by(self.cred.subject());
        self.vfs().inode_permission(dir.inode(), Access::EXEC, &who).map(|_| ())
    }
}

impl File {
    fn is_directory(&self) -> bool {
        self.vfs().dentry(self.place().1).is(crate::dcache::DIRECTORY)
    }
}

/// A listing being written.
struct Dirents<'b> {
    buf: &'b mut [u8],
    used: usize,
    full: bool,
}

impl Dirents<'_> {
    /// Writes one entry; false where there is no room for it.
    fn push(&mut self, ino: u64, next: u64, kind: FileType, name: &[u8]) -> bool {
        let Some(room) = self.begin(ino, next, kind, name.len()) else { return false };
        room[..name.len()].copy_from_slice(name);
        true
    }

    /// Begins an entry whose name has so many bytes; it is to be written to where the rest of the buffer begins, if there is room
    /// for it. Behind it there may be zeroes only.
    #[inline]
    fn begin(&mut self, ino: u64, next: u64, kind: FileType, name_len: usize) -> Option<&mut [u8]> {
        let len = dirent::reclen(name_len);
        let Some(entry) = self.buf.get_mut(self.used..).filter(|rest| rest.len() >= len) else {
            self.full = true;
            return None;
        };
        self.used += len;
        // No more than the last eight bytes lie behind the name.
        entry[len - dirent::ALIGN..][..dirent::ALIGN].fill(0);
        entry[dirent::D_INO..][..8].copy_from_slice(&ino.to_ne_bytes());
        entry[dirent::D_OFF..][..8].copy_from_slice(&next.to_ne_bytes());
        entry[dirent::D_RECLEN..][..2].copy_from_slice(&(len as u16).to_ne_bytes());
        entry[dirent::D_TYPE] = kind.to_dt();
        entry.get_mut(dirent::D_NAME..)
    }
}

/// The positions of `.` and `..`, and the first behind them.
const DOT: u64 = 0;
const DOTDOT: u64 = 1;
const FIRST: u64 = 2;
/// The position behind the last entry of a complete directory: no cookie is so small.
const END: u64 = crate::dcache::change::FIRST_COOKIE - 1 + (1 << 62);

impl Vfs {
    /// Lists `.` and `..`.
    fn list_dots(&self, id: DentryId, position: &mut Position, out: &mut Dirents<'_>) -> bool {
        let number = |id: DentryId| self.inode(InodeId(self.dentry(id).inode.get())).attr().ino;
        if position.offset == DOT {
            if !out.push(number(id), DOTDOT, FileType::Directory, b".") {
                return false;
            }
            position.offset = DOTDOT;
        }
        if position.offset == DOTDOT {
            let parent = self.dget_parent(id);
            let ino = number(parent);
            self.dput(parent);
            if !out.push(ino, FIRST, FileType::Directory, b"..") {
                return false;
            }
            *position = Position { offset: FIRST, hint: DentryId::NONE };
        }
        true
    }

    /// Lists a directory from the cache, newest first: below the cookie that was listed last. Who lists mostly asks for what
    /// was listed next, and would wait for each name's chain.
    fn list_complete(&self, id: DentryId, position: &mut Position, out: &mut Dirents<'_>) {
        if !self.list_dots(id, position, out) || position.offset == END {
            return;
        }
        let directory = self.dentry(id);
        let tables = self.tables();
        let _guard = directory.lockref.lock(lock::DENTRY);
        let mut at = self.resume(id, position);
        while at != DentryId::NONE {
            let dentry = self.dentry(at);
            let inode = InodeId(dentry.inode.get());
            let next = DentryId(dentry.next_sibling.get());
            if !dentry.is(NEGATIVE) && inode != InodeId::NONE {
                let (ino, kind) = self.inode(inode).number_and_type();
                let cookie = dentry.cookie.get();
                let Some(room) = out.begin(ino, cookie, kind, dentry.name_len()) else { return };
                self.copy_name_to(dentry, room);
                tables.expect(dentry);
                *position = Position { offset: cookie, hint: at };
            }
            at = next;
        }
        position.offset = END;
    }

    /// The first child to list; the caller holds the directory's lock.
    fn resume(&self, id: DentryId, position: &Position) -> DentryId {
        let first = DentryId(self.dentry(id).first_child.get());
        if position.offset == FIRST {
            return first;
        }
        let hint = self.dentry(position.hint);
        let still_there = position.hint != DentryId::NONE
            && hint.is(HASHED)
            && hint.parent.get() == id.0
            && hint.cookie.get() == position.offset;
        if still_there {
            return DentryId(hint.next_sibling.get());
        }
        let mut at = first;
        while at != DentryId::NONE && self.dentry(at).cookie.get() >= position.offset {
            at = DentryId(self.dentry(at).next_sibling.get());
        }
        at
    }

    /// Lists a directory by asking its file system; says whether that is to be noted.
    fn list_asking(
        &self,
        file: &File,
        position: &mut Position,
        out: &mut Dirents<'_>,
    ) -> Result<bool> {
        let (_, id) = file.place();
        let dentry = self.dentry(id);
        let sb = self.superblock(dentry.sb.get()).ok_or(Errno::ESTALE)?;
        let noted = !sb.features.contains(Features::NODIRATIME);
        if !self.list_dots(id, position, out) {
            return Ok(noted);
        }
        let dir = self.inode_ref(InodeId(dentry.inode.get()));
        let mut offset = position.offset;
        let from = offset - FIRST;
        let mut emit = |next, ino, kind, name: &[u8]| {
            let pushed = out.push(ino, next + FIRST, kind, name);
            if pushed {
                offset = next + FIRST;
            }
            pushed
        };
        match file.handle() {
            Some(handle) => handle.readdir(dir, from, &mut emit)?,
            None => sb.fs.readdir(dir, from, &mut emit)?,
        }
        position.offset = offset;
        Ok(noted)
    }
}
