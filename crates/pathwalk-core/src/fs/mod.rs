//! The contract for file systems: what is below the walk.
//!
//! A file system is asked for one step at a time and never walks itself. It names its inodes by a 64-bit word of its
//! own, gets names as bytes, and answers errno values. The cache above it holds attributes, names and the answers
//! "not there"; what a method changes it says by [`InodeRef::update`].
//!
//! For every method:
//!
//! - It is called with no lock of pathwalk held, by any number of threads at once.
//! - The directory entries that it changes are reserved: no other call is made for the same name in the same
//!   directory meanwhile. Nothing else is excluded: a directory may be removed while a name in it is being created, and
//!   the file system decides which of the two wins.
//! - Permission, the kind of the victim, read-only mounts and existence of the name were checked before.
//! - It either does what it says or answers an errno and has changed nothing.
//! - It returns on the thread that it was called on: what a walk may still follow is counted there.
//! - It does not panic. If it does, the call gives back what it held, but what was done below is not noted.
//! - It may make calls of the same machine meanwhile. Those that it makes while it is asked about a symlink, to mount something
//!   or about a gate share the budget of 40 symlinks of the walk outside.
//!
//! Linux: `struct super_operations`, `inode_operations`, `file_operations`.

mod features;

mod said;

mod managed;

mod open;

pub use crate::setattr::Iattr;
pub use features::{Access, Features};
pub use managed::{Automount, Managed};
pub use open::OpenHandle;

pub(crate) use open::Handle;
pub use said::{CachedName, Emit, Found, FsStat, LinkTarget, NewInode, Peeked, Rename};

use crate::{
    acl::{AclEntry, AclKind, Acls},
    cred::Subject,
    inode::InodeRef,
};
use pathwalk_abi::{Errno, FileType, InodeFlags, OpenFlags, Result, Timespec, XattrFlags};
use std::{convert::Infallible, os::fd::OwnedFd};

/// A file system.
pub trait FileSystem: Send + Sync + 'static {
    /// The type's name, as /proc/filesystems has it.
    fn kind(&self) -> &str;

    /// What was mounted, as /proc/mounts has it.
    fn source(&self) -> &[u8] {
        b"none"
    }

    /// Its own options, each as `/proc/PID/mountinfo` shows it behind those that every file system has: `size=1024k`. One that
    /// is what it is by default is not shown.
    ///
    /// It is asked while no mount may change: it does not block, and looks nothing up.
    fn options(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// What it is like.
    fn features(&self) -> Features;

    /// What its root directory is, for who mounts it at this time: of what is made then, he may be the owner. The root of a
    /// [`Vfs`](crate::Vfs) is mounted by user 0, an automount by who walks there.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being mounted.
    fn root(&self, who: &Subject<'_>, now: Timespec) -> Result<Found>;

    /// The preferred block size, `st_blksize`, below 2²⁸. It is asked for once, before the file system is mounted.
    fn blksize(&self) -> u32 {
        4096
    }

    /// The largest position in a directory: what lseek(2) moves to.
    fn max_position(&self) -> u64 {
        i64::MAX as u64
    }

    /// What is wrong with a name of more than 255 bytes, about which nothing else is asked.
    fn long_name(&self) -> Errno {
        Errno::ENAMETOOLONG
    }

    /// Looks up a name that is not in the cache. No such name is `None`, not an error.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: there is no such name, none can be made, and that is not to be remembered.
    /// - `ENAMETOOLONG`: no name of this file system is so long (255 bytes are checked before).
    /// - `ESTALE`: the directory is not what the cache takes it for; the walk asks again from its start.
    /// - `EIO` and its like.
    fn lookup(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let _ = (dir, name);
        Err(Errno::EIO)
    }

    /// As [`FileSystem::lookup`], after `ESTALE`: what is found is what the rest of the call is about, whatever others do with its name
    /// meanwhile, if the file system can keep it at hand so long.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::lookup`].
    fn lookup_anew(&self, dir: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.lookup(dir, name)
    }

    /// Says whether a cached name still stands for the same; asked if [`Features::REVALIDATE`] is set. `None` is a
    /// name that was not there.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from saying; the walk ends with it.
    fn revalidate(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        let _ = (dir, name, cached);
        Ok(true)
    }

    /// As [`FileSystem::revalidate`], after `ESTALE`: what is answered now must be true, not merely recent. A file system
    /// that believes its answers for a while asks anew. What still holds is kept at hand, as by [`FileSystem::lookup_anew`].
    ///
    /// # Errors
    ///
    /// As [`FileSystem::revalidate`].
    fn revalidate_anew(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        cached: Option<InodeRef<'_>>,
    ) -> Result<bool> {
        self.revalidate(dir, name, cached)
    }

    /// Says of a run of cached names, each in the directory that the one before it stands for, how many still hold, from the
    /// first on; asked instead of [`FileSystem::revalidate`] if [`Features::LOOKUP_MANY`] is set and there is more than one.
    /// With 0 the first is asked about alone. It is for who is far away, or dear to ask: all in one round trip.
    ///
    /// A `..` among them leads back to the directory that was gone through before; it is never the first nor the last, and
    /// never leads above `dir`.
    ///
    /// That so many names hold says that together they lead where they led, and nothing of the directories between, unless
    /// [`Features::EACH_NAME`] is set; without it there is a symlink in no run of more than one name. Names are asked about below
    /// directories that the caller may search as far as the cache knows.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from saying; that is as 0, for the walk has not come to the names behind the first yet, and it asks
    /// about each name alone from then on.
    fn lookup_many(&self, dir: InodeRef<'_>, run: &[CachedName<'_>]) -> Result<usize> {
        let _ = (dir, run);
        Ok(0)
    }

    /// Says whether a path of cached names, from `dir` on, still leads where it led: to `cached`, or for `None` to no file.
    /// Asked if [`Features::REVALIDATE_PATH`] is set, where a thread walked a path before and the cache knows of no change
    /// since: once about the whole path, and before that once about the way to each symlink on it. Where
    /// [`Config::protected_symlinks`](crate::Config::protected_symlinks) goes by it, the directory of the last symlink is asked about
    /// too. Of what the path leads to it brings up to date what the right to read and to search goes by: mode, owner, group
    /// and ACLs; and if `attributes` are wanted all of them, as [`FileSystem::getattr`] does.
    ///
    /// Of `dir` itself no name says anything. Where [`Features::EACH_NAME`] is set, what the right to search and to read it goes by
    /// is brought up to date as well. And where a walk comes to `dir` by no name, as it begins there, enters a mount, goes up beyond where
    /// it began, or jumps by a symlink, or no walk leads there (fchdir(2)), an empty path is asked about, with `dir` as `cached`, which may be
    /// another file than a directory; whatever is answered then, it goes on. A walk that may not wait (`RESOLVE_CACHED`) asks nobody.
    ///
    /// The last name may stand for a symlink, none before it did. Else it has no empty names; it may have dots, also as the last, but
    /// leads nowhere above `dir`. Where the answer is `false`, the path is walked, and each name asked about. Who asks may search the
    /// directories on the way as far as the cache knows.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from saying; that is as `false`.
    fn revalidate_path(
        &self,
        dir: InodeRef<'_>,
        path: &[u8],
        cached: Option<InodeRef<'_>>,
        attributes: bool,
    ) -> Result<bool> {
        let _ = (dir, path, cached, attributes);
        Ok(false)
    }

    /// The attributes of what a name stands for, of which nothing is cached by this: no inode is answered,
    /// and none is given back; and which of these extended attributes it has not, all of them of names that everybody may read. None
    /// where there is no such, and where it has to be looked up, because it costs as much. For who looks at many names, each once ([`Task::peekat`](crate::Task::peekat)).
    ///
    /// # Errors
    ///
    /// As [`FileSystem::lookup`].
    fn peek(&self, dir: InodeRef<'_>, name: &[u8], xattrs: &[&[u8]]) -> Result<Option<Peeked>> {
        let _ = (dir, name, xattrs);
        Ok(None)
    }

    /// Brings the cached attributes up to date, by [`InodeRef::update`], before somebody is told them or changes them, or changes the
    /// contents and may lose what the file runs as by that; and of what a call is given by a handle or by a magic link. Asked if
    /// [`Features::GETATTR`] is set, and of inodes of which [`InodeRef::ask_for_attributes`] said so.
    ///
    /// Others ask and change meanwhile, so an answer that came late must not be put over a later one. Who asks in order to change an inode
    /// has it reserved: a file system makes no call, while it is asked, that changes the attributes of that inode.
    ///
    /// # Errors
    ///
    /// `EIO` and its like; `ESTALE`: it cannot be found any more, and who has it by a handle or a magic link goes by what is cached.
    ///
    /// Linux: `vfs_getattr`.
    fn getattr(&self, inode: InodeRef<'_>) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Decides about access; asked if [`Features::PERMISSION`] is set. `access` is empty where it is asked whether the file is
    /// there (`F_OK`; Linux's mask 0).
    ///
    /// # Errors
    ///
    /// - `EACCES`: no.
    fn permission(&self, inode: InodeRef<'_>, access: Access, who: &Subject<'_>) -> Result<()> {
        inode.generic_permission(access, who)
    }

    /// Makes a file. The directory's own attributes (size, links, times) are the file system's to change. `None` says that it was
    /// made, and that others have taken it away since, or may have put something else there: the name is looked up when it is used next.
    ///
    /// # Errors
    ///
    /// - `EEXIST`: others made the name since it was looked up; who opens without `O_EXCL` opens what they made.
    /// - `EACCES`, and `EPERM` of what is no regular file: the file system makes none, as Linux says it.
    /// - `ENOENT`: the directory was removed.
    /// - `EMLINK`: the directory has as many subdirectories as it can have.
    /// - `ENOSPC`, `EDQUOT`: there is no room.
    fn create(&self, dir: InodeRef<'_>, name: &[u8], new: &NewInode<'_>) -> Result<Option<Found>> {
        let _ = (dir, name);
        Err(if new.file_type == FileType::Regular { Errno::EACCES } else { Errno::EPERM })
    }

    /// Makes a regular file for a call that opens it next with these flags, and opens it: where it does, [`FileSystem::open`] is not asked about
    /// it. The flags are as there. Where the call fails after that, what was opened is closed. Asked if [`Features::ATOMIC_OPEN`] is set.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::create`] and [`FileSystem::open`].
    ///
    /// Linux: `i_op->atomic_open`.
    fn atomic_open(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        new: &NewInode<'_>,
        flags: OpenFlags,
    ) -> Result<(Found, Option<Box<dyn OpenHandle>>)> {
        let _ = flags;
        Ok((self.create(dir, name, new)?.ok_or(Errno::ESTALE)?, None))
    }

    /// Makes a regular file without a name: no links, which [`InodeRef::is_linkable`] may give it later.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: the file system has no such files.
    /// - `ENOSPC`, `EDQUOT`: there is no room.
    fn tmpfile(&self, dir: InodeRef<'_>, new: &NewInode<'_>) -> Result<Found> {
        let _ = (dir, new);
        Err(Errno::EOPNOTSUPP)
    }

    /// Gives a file that is no directory one more name; or its first, if it has none and [`InodeRef::is_linkable`].
    ///
    /// # Errors
    ///
    /// - `EPERM`: the file system has no such names.
    /// - `ENOENT`: the directory was removed, or the file has no name left.
    /// - `EMLINK`: the file has as many names as it can have.
    /// - `ENOSPC`: there is no room.
    fn link(
        &self,
        inode: InodeRef<'_>,
        dir: InodeRef<'_>,
        name: &[u8],
        now: Timespec,
    ) -> Result<()> {
        let _ = (inode, dir, name, now);
        Err(Errno::EPERM)
    }

    /// Takes a name from a file that is no directory. The data stay until [`FileSystem::evict`].
    ///
    /// # Errors
    ///
    /// - `EPERM`: the file system's names stay.
    /// - `EIO` and its like.
    fn unlink(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        now: Timespec,
    ) -> Result<()> {
        let _ = (dir, name, inode, now);
        Err(Errno::EPERM)
    }

    /// Removes an empty directory; from then on nothing can be created in it.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the file system's names stay.
    /// - `ENOTEMPTY`: it has entries.
    fn rmdir(
        &self,
        dir: InodeRef<'_>,
        name: &[u8],
        inode: InodeRef<'_>,
        now: Timespec,
    ) -> Result<()> {
        let _ = (dir, name, inode, now);
        Err(Errno::EPERM)
    }

    /// Renames.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the file system's names stay.
    /// - `EEXIST`: [`Rename::no_replace`], and others made the new name.
    /// - `ENOENT`: the new directory was removed.
    /// - `ENOTEMPTY`: what is replaced is a directory with entries.
    /// - `EMLINK`: the new directory has as many subdirectories as it can have.
    /// - `ENOSPC`: there is no room.
    fn rename(&self, rename: &Rename<'_>) -> Result<()> {
        let _ = rename;
        Err(Errno::EPERM)
    }

    /// Renames, and leaves a whiteout under the old name: what it is has been decided, as for [`FileSystem::create`], and `None` says
    /// the same.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the file system has no whiteouts.
    /// - those of [`FileSystem::create`] and [`FileSystem::rename`].
    fn rename_whiteout(
        &self,
        rename: &Rename<'_>,
        whiteout: &NewInode<'_>,
    ) -> Result<Option<Found>> {
        let _ = (rename, whiteout);
        Err(Errno::EINVAL)
    }

    /// Exchanges what two names stand for; [`Rename::replaced`] gets the old name.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the file system cannot do so.
    /// - `EMLINK`: a directory would get more subdirectories than it can have.
    fn exchange(&self, rename: &Rename<'_>) -> Result<()> {
        let _ = rename;
        Err(Errno::EINVAL)
    }

    /// The flags that `FS_IOC_SETFLAGS` may set, by [`FileSystem::setattr`]; none where there are no such flags at all.
    fn inode_flags(&self) -> Option<InodeFlags> {
        None
    }

    /// Changes what is given, and nothing else, in one step, here and in the cache: by [`InodeRef::update`] and
    /// [`Iattr::copy_to`]. No other change of this inode's attributes is asked for meanwhile.
    ///
    /// It comes from chmod, chown, utimensat, truncate, `O_TRUNC` and `FS_IOC_SETFLAGS`, and before a write that takes the set-id bits. A
    /// size is given for regular files only; what is new of the file reads as zero, and where the size becomes another
    /// one `mtime` and `ctime` are [`Iattr::now`], also if they are not given.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the file system's attributes stay.
    /// - `EFBIG`: a file cannot be so large.
    /// - `EIO` and its like.
    fn setattr(&self, inode: InodeRef<'_>, change: &Iattr) -> Result<()> {
        let _ = (inode, change);
        Err(Errno::EPERM)
    }

    /// Hears that an inode was read, and notes the time in the cache; one that keeps times also notes it below, now or
    /// later. It cannot fail: what was read was read.
    fn update_time(&self, inode: InodeRef<'_>, atime: Timespec) {
        let Ok(()) = inode.update(|attr| {
            attr.atime = atime;
            Ok::<_, Infallible>(())
        });
    }

    /// Tells an inode's ACLs, valid ones; asked once while it is in the cache, where they may decide something, if
    /// [`Features::POSIX_ACL`] is set and the file system is not complete. If others may change them, [`InodeRef::forget_acls`]
    /// makes it be asked again.
    ///
    /// # Errors
    ///
    /// `EIO` and its like.
    fn acls(&self, inode: InodeRef<'_>) -> Result<Acls> {
        let _ = inode;
        Ok(Acls::default())
    }

    /// Sets or, with no entries, removes an ACL, and changes the attributes that follow from it: mode and time of change.
    /// What the call allows was decided before, and the caller notes both in the cache, in one step, with the time of change
    /// that the file system puts there; one that is asked for attributes is asked for the ACLs, too. Asked if
    /// [`Features::POSIX_ACL`] is set.
    ///
    /// A mode that is changed by [`FileSystem::setattr`] changes the access ACL: below it is the file system's to do, by
    /// [`acl_chmod`](crate::acl_chmod); in the cache it is done.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it has none.
    /// - `ENOSPC`, `EIO` and its like.
    fn set_acl(
        &self,
        inode: InodeRef<'_>,
        kind: AclKind,
        acl: &[AclEntry],
        change: &mut Iattr,
    ) -> Result<()> {
        let _ = (inode, kind, acl, change);
        Err(Errno::EOPNOTSUPP)
    }

    /// Tells the value of an extended attribute. ACLs are not asked for here.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: it has no attributes of names that begin so. `EINVAL`: the name is a beginning and nothing else.
    /// - `ENODATA`: there is no attribute of that name.
    fn getxattr(&self, inode: InodeRef<'_>, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (inode, name);
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets an extended attribute, and the inode's time of change. ACLs only where [`Features::POSIX_ACL`] is not set.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`, `EINVAL`: as [`FileSystem::getxattr`].
    /// - `ENOSPC`: there is no room.
    /// - `EEXIST`: `XATTR_CREATE`, and it is there. `ENODATA`: `XATTR_REPLACE`, and it is not.
    fn setxattr(
        &self,
        inode: InodeRef<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timespec,
    ) -> Result<()> {
        let _ = (inode, name, value, flags, now);
        Err(Errno::EOPNOTSUPP)
    }

    /// Removes an extended attribute, and sets the inode's time of change. ACLs only where [`Features::POSIX_ACL`] is not
    /// set.
    ///
    /// # Errors
    ///
    /// As [`FileSystem::getxattr`].
    fn removexattr(&self, inode: InodeRef<'_>, name: &[u8], now: Timespec) -> Result<()> {
        let _ = (inode, name, now);
        Err(Errno::EOPNOTSUPP)
    }

    /// Tells the names of all extended attributes, ACLs aside; none where there can be none.
    ///
    /// # Errors
    ///
    /// `EIO` and its like.
    fn listxattr(&self, inode: InodeRef<'_>) -> Result<Vec<Vec<u8>>> {
        let _ = inode;
        Ok(Vec::new())
    }

    /// Reads a symlink's body that is not in the cache: 1 to 4095 bytes, none of them NUL. What is longer makes the walk
    /// answer `ENAMETOOLONG`, what else is no body `EIO`, and it is not kept.
    ///
    /// # Errors
    ///
    /// `EIO` and its like.
    fn readlink(&self, inode: InodeRef<'_>) -> Result<Vec<u8>> {
        let _ = inode;
        Err(Errno::EIO)
    }

    /// Says where a symlink leads whoever follows or reads it; asked at each use if [`Features::MAGIC_LINKS`] is set. Of a
    /// place, readlink(2) shows the path as the caller sees it.
    ///
    /// # Errors
    ///
    /// - `EACCES`: not for this caller.
    /// - `ENOENT`: it leads nowhere any more.
    fn get_link<'v>(&self, inode: InodeRef<'v>, who: &Subject<'_>) -> Result<LinkTarget<'v>> {
        let _ = who;
        self.readlink(inode).map(LinkTarget::Body)
    }

    /// Opens a regular file or a directory, after everything was checked; what the file system keeps for this one opening
    /// is then asked instead of itself, until the file is closed. `None` is a file system that keeps nothing: it is asked by
    /// inode, as memfs. With [`Features::NO_OPEN`] it is not even asked this.
    ///
    /// The flags are those that stay: the access mode, `O_APPEND`, `O_NOATIME` …; that also where the mount by which the file
    /// is opened notes no reading. An `O_TRUNC` comes after, by [`FileSystem::setattr`].
    ///
    /// # Errors
    ///
    /// - `ESTALE`: the file is not what the cache takes it for; the walk asks again from its start.
    /// - `EMFILE`, `ENFILE`, `ENOMEM`: there is no room for one more.
    /// - `EIO` and its like.
    ///
    /// Linux: `f_op->open`, by `do_dentry_open`.
    fn open(&self, inode: InodeRef<'_>, flags: OpenFlags) -> Result<Option<Box<dyn OpenHandle>>> {
        let _ = (inode, flags);
        Ok(None)
    }

    /// A descriptor with `O_PATH` of the host's file that an inode is, if it is one: for what is done on the host with files that
    /// are not opened, as connecting to a socket.
    ///
    /// # Errors
    ///
    /// - `ESTALE`: the file is not what the cache takes it for.
    /// - `EMFILE`, `ENFILE`: there is no room for one more.
    fn host_place(&self, inode: InodeRef<'_>) -> Result<Option<OwnedFd>> {
        let _ = inode;
        Ok(None)
    }

    /// Takes a descriptor of the host by which somebody has a file open: as long as what is returned is there, the file is reached by that,
    /// whatever others do with its names. `None` where it is another file's.
    fn opened_as(&self, inode: InodeRef<'_>, fd: OwnedFd) -> Option<Box<dyn OpenHandle>> {
        let _ = (inode, fd);
        None
    }

    /// Reads from a regular file; fewer bytes only at its end.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the file system's files are not read.
    /// - `EIO` and its like.
    fn read(&self, inode: InodeRef<'_>, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let _ = (inode, offset, buf);
        Err(Errno::EINVAL)
    }

    /// Writes to a regular file; fewer bytes where the room ends. `None` as offset is the end of the file, found and
    /// written as one step. Returns the offset behind what was written, and how much that was.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the file system's files are not written.
    /// - `EFBIG`: the offset lies behind what a file can have.
    /// - `ENOSPC`: there is no room for a single byte. (The times may have changed all the same, as they do in Linux.)
    fn write(
        &self,
        inode: InodeRef<'_>,
        offset: Option<u64>,
        data: &[u8],
        now: Timespec,
    ) -> Result<(u64, usize)> {
        let _ = (inode, offset, data, now);
        Err(Errno::EINVAL)
    }

    /// Lists a directory from `offset` (0 at first): calls `emit` with the offset behind an entry, its inode number,
    /// type and name, until it says `false` or the end is reached. `.` and `..` are not listed.
    ///
    /// # Errors
    ///
    /// `EIO` and its like.
    fn readdir(&self, dir: InodeRef<'_>, offset: u64, emit: &mut Emit<'_>) -> Result<()> {
        let _ = (dir, offset, emit);
        Err(Errno::EIO)
    }

    /// Whether something may be mounted on the inode; where not, mounting there answers `ENOENT`. It is asked with the name
    /// reserved, and must not block.
    ///
    /// Linux: `dont_mount`.
    fn may_be_covered(&self, inode: InodeRef<'_>) -> bool {
        let _ = inode;
        true
    }

    /// Says what is to be done when a walk comes to a directory that was found or made; asked if [`Features::MANAGED`] is
    /// set. [`InodeRef::set_managed`] changes it later.
    fn managed(&self, found: &Found) -> Managed {
        let _ = found;
        Managed::empty()
    }

    /// Gives what is to be mounted on a directory that has [`Managed::AUTOMOUNT`], on which nothing is mounted where the walk
    /// stands. `None` says that somebody else mounts it: the walk looks again.
    ///
    /// It is asked by walks through the directory, and by those that end there and want to be inside: open without `O_PATH`,
    /// chdir, statx without `AT_NO_AUTOMOUNT`, a slash behind the name; by stat, chmod and the like it is not. Each time counts
    /// as a symlink, and so does what the walks follow that are made in here.
    ///
    /// The mount has the flags of the one that it hangs in. Unused, it is in nobody's way: umount2(2) of what it hangs in takes
    /// it down.
    ///
    /// # Errors
    ///
    /// - `EISDIR`: nothing, the directory is to be seen as it is.
    /// - whatever keeps it from being mounted: the walk ends with it.
    ///
    /// Linux: `d_automount`.
    fn automount(&self, dir: InodeRef<'_>, who: &Subject<'_>) -> Result<Option<Automount>> {
        let _ = (dir, who);
        Err(Errno::EISDIR)
    }

    /// Says whether a walk may cross a directory that has [`Managed::TRANSIT`], into what is mounted there. Where it is given
    /// the directory it may wait before it does, and mount something there.
    ///
    /// Where it is not given it, it must not wait, and nobody holds the directory: it may go while this is asked, so that
    /// [`FileSystem::evict`] has taken the node back. A walk asks once in this way, and once more if it must hold its place.
    ///
    /// # Errors
    ///
    /// - `EISDIR`: it is to see the directory as it is, whatever is mounted there.
    /// - `ECHILD`, where it may not wait, or whatever else: that cannot be said at once; it is asked again when it may.
    /// - any other: the walk ends with it.
    ///
    /// Linux: `d_manage`.
    fn manage(&self, node: u64, who: &Subject<'_>, dir: Option<InodeRef<'_>>) -> Result<()> {
        let _ = (node, who, dir);
        Ok(())
    }

    /// Tells about the whole.
    ///
    /// # Errors
    ///
    /// - `ENOSYS`: there is nothing to tell.
    /// - `EIO` and its like.
    fn statfs(&self) -> Result<FsStat> {
        Err(Errno::ENOSYS)
    }

    /// Takes one [`Found`] of a node back: no inode of the cache comes of it, or that inode has gone. `unlinked` says
    /// that the inode had no name left, and its data can go.
    ///
    /// It may come inside any call, by any thread, also inside one of another machine's or of the file system's own: so it takes
    /// no lock that is held where a call is made. Where it panics, what goes with the inode goes all the same, and the panic goes
    /// on when the call ends.
    ///
    /// Of a complete file system that is the end of the file. Any other may have answered the node anew meanwhile, and
    /// that answer counts: what it keeps per node it keeps until it got as many back as it gave, as FUSE's
    /// `nlookup` has it.
    fn evict(&self, node: u64, unlinked: bool) {
        let _ = (node, unlinked);
    }
}
