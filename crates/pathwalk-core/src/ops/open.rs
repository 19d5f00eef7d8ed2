//! open, openat, openat2, creat.
//!
//! Linux: `build_open_flags`, `open_last_lookups`, `lookup_open`, `do_open`, `may_open`.

use super::{create::Make, exec::WriteAccess, get_out_of_step, retry_estale_often, within};
use crate::{
    dcache::{DentryId, IS_ROOT, NEGATIVE},
    file::File,
    fs::{Access, Features, Handle},
    inode::{I_ACL, I_ACL_UNKNOWN, I_APPEND, I_NO_OPEN, I_PERMISSION, InodeId, Owner},
    mount::{MntFlags, remount::Writing},
    name::{Component, Kind},
    security::{Hooks, PathRef},
    setattr::Stamp,
    task::{At, Task},
    walk::{
        Follow, HeldPath, Lookup, Request, Step, Stop, Walk,
        end::End,
        hold::Hold,
        job::{Job, Keep, Parent, Terminal},
        ladder::climb_from,
        link::notes_reading,
        lookup::{Remembered, keep, keep_remembered, lookup, remember, remembered_parent},
        observe::{Left, Observer},
        text::Text,
    },
};
use pathwalk_abi::{
    Dev, Errno, FileType, OpenFlags, OpenHow, ResolveFlags, Result,
    mode::{S_IFDIR, S_IFMT, S_IFREG, S_IRUGO, S_ISVTX, S_IWGRP, S_IWOTH},
};
use pathwalk_sync::{Absent, lock_order};

/// What O_PATH keeps of the flags beside it.
const PATH_FLAGS: OpenFlags = OpenFlags::PATH
    .union(OpenFlags::DIRECTORY)
    .union(OpenFlags::NOFOLLOW)
    .union(OpenFlags::CLOEXEC);

/// What only the opening itself looks at.
const OPENING: OpenFlags = OpenFlags::CREAT
    .union(OpenFlags::EXCL)
    .union(OpenFlags::NOCTTY)
    .union(OpenFlags::TRUNC)
    .union(OpenFlags::CLOEXEC);

/// So many times others may make a name while it is about to be made, and take it away before it is looked up again, or before it is opened;
/// a file system that says so of every name keeps nobody for ever.
const TRIES: u32 = 32;

/// Flags with which a file is read, and nothing depends on what else it is but a regular one or a directory.
const READS: OpenFlags = OpenFlags::CLOEXEC
    .union(OpenFlags::NONBLOCK)
    .union(OpenFlags::NOCTTY)
    .union(OpenFlags::DIRECTORY)
    .union(OpenFlags::NOFOLLOW)
    .union(OpenFlags::LARGEFILE);

/// Flags with which nothing is to be checked or completed.
const PLAIN: OpenFlags = OpenFlags::WRONLY.union(OpenFlags::CLOEXEC).union(OpenFlags::NONBLOCK);

impl Task {
    /// `open(path, flags, mode)`: opens a file. open(2)
    ///
    /// # Errors
    ///
    /// As [`Task::openat`].
    pub fn open(&self, path: impl AsRef<[u8]>, flags: OpenFlags, mode: u32) -> Result<File> {
        self.openat(At::Cwd, path, flags, mode)
    }

    /// `creat(path, mode)`: opens a file for writing, made or emptied. creat(2)
    ///
    /// # Errors
    ///
    /// As [`Task::openat`].
    pub fn creat(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<File> {
        self.open(path, OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC, mode)
    }

    /// `openat(dir, path, flags, mode)`: opens a file. Flags that open does not know are ignored, as Linux does. openat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: `O_CREAT` with `O_DIRECTORY`; `O_TMPFILE` for reading only.
    /// - those of the lookup.
    /// - `O_TMPFILE`: as [`Task::mkdirat`] about the directory, which must be one (`ENOTDIR`). The file can be given a name by
    ///   [`Task::linkat`], unless `O_EXCL` is given.
    /// - `EISDIR`: to be made, and the path ends in a slash.
    /// - `EEXIST`: `O_EXCL`, and the name is there.
    /// - to be made: as [`Task::mkdirat`].
    /// - `EISDIR`: `O_CREAT`, and it is a directory.
    /// - `EACCES`: `O_CREAT`, and it is somebody else's in a sticky directory: see [`Config`](crate::Config).
    /// - `ENOTDIR`: `O_DIRECTORY`, and it is none.
    /// - `EROFS`: `O_TRUNC` in a read-only mount.
    /// - `ELOOP`: it is a symlink, and `O_NOFOLLOW` is given.
    /// - `EISDIR`: a directory is to be written. `EACCES`: a device in a mount without devices.
    /// - `EACCES`: permission is refused.
    /// - `EPERM`: it is immutable and to be written, or append-only and to be written without `O_APPEND` or cut off.
    /// - `EPERM`: `O_NOATIME`, and it is another's file.
    /// - `EINVAL`: `O_DIRECT`, and it is a directory.
    /// - `ETXTBSY`: to be written, but it runs: see [`Task::open_exec`].
    /// - `EROFS`: to be written, but the mount is read-only.
    /// - `EINVAL`: a fifo is opened with access mode 3.
    /// - `ENXIO`: it is a fifo, a socket or a device: there is nothing behind those here.
    pub fn openat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<File> {
        let empty = self.empty_path_flag(flags.bits());
        let mut flags = OpenFlags::from_bits_truncate(flags.bits());
        if flags.contains(OpenFlags::PATH) {
            flags &= PATH_FLAGS;
        }
        let makes = flags.intersects(OpenFlags::CREAT) || flags.contains(OpenFlags::TMPFILE);
        let how = OpenHow {
            flags: flags.bits() | empty,
            mode: if makes { u64::from(mode & 0o7777) } else { 0 },
            resolve: 0,
        };
        self.openat2(dir, path, &how)
    }

    /// `openat2(dir, path, how)`: opens a file, within the bounds that `how.resolve` sets to the walk. openat2(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: an unknown flag or bound, `RESOLVE_BENEATH` with `RESOLVE_IN_ROOT`, a mode with bits outside 07777 or
    ///   without `O_CREAT`, `O_CREAT` with `O_DIRECTORY`, `O_PATH` with a flag that it does not go with.
    /// - `EAGAIN`: `RESOLVE_CACHED` with a flag that changes something.
    /// - `EOPNOTSUPP`: `O_TMPFILE`, and the file system has no files without a name.
    /// - those of [`Task::openat`]; besides, `EXDEV` and `ELOOP` where the walk would leave its bounds, `EAGAIN` where that
    ///   cannot be told because a directory or mount moved, or where the answer is not cached.
    pub fn openat2<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        how: &OpenHow,
    ) -> Result<File> {
        let (dir, path) = (dir.into(), path.as_ref());
        let empty = self.empty_path_flag(how.flags);
        let (flags, resolve) = (how.flags & !empty, how.resolve | dir.bounds().bits());
        let empty = if empty != 0 { Lookup::EMPTY } else { Lookup::empty() };
        // Lent, not handed on: who copies what was just written waits for it.
        match &build_open_flags(&OpenHow { flags, resolve, ..*how }, empty) {
            Ok(op) => self.open_as(dir, path, op),
            Err(errno) => Err(*errno),
        }
    }

    /// `reopen(place, flags)`: opens the file of a place anew, whatever name leads there, as open(2) would that found it. Linux
    /// does so with what a file handle leads to: open_by_handle_at(2). See [`File::in_mount_of`](File::in_mount_of).
    ///
    /// # Errors
    ///
    /// - `EBADF`: the place is of another machine.
    /// - those of [`Task::openat`] about what was found; with `O_TMPFILE` as there, about the directory.
    pub fn reopen(&self, place: &File, flags: OpenFlags) -> Result<File> {
        let mut flags =
            OpenFlags::from_bits_truncate(flags.bits()).difference(OpenFlags::EMPTYPATH);
        if flags.contains(OpenFlags::PATH) {
            flags &= PATH_FLAGS;
        }
        let how = OpenHow { flags: flags.bits(), mode: 0, resolve: 0 };
        self.open_as(At::Dir(place), b"", &build_open_flags(&how, Lookup::EMPTY)?)
    }

    fn open_as(&self, dir: At<'_>, path: &[u8], op: &Open) -> Result<File> {
        // In Linux a file of this machine is held from its lookup on, whoever takes its name away meanwhile.
        retry_estale_often(TRIES, |reval| {
            if op.tmpfile {
                self.do_tmpfile(dir, path, op, reval)
            } else {
                self.do_openat2(dir, path, op, reval)
            }
        })
    }

    /// `O_EMPTYPATH`, if it is given and there is such a flag.
    fn empty_path_flag(&self, flags: u64) -> u64 {
        let known = self.vfs().config.profile.open_empty_path;
        if known { flags & OpenFlags::EMPTYPATH.bits() } else { 0 }
    }

    /// Makes and opens a file without a name.
    ///
    /// Linux: `do_tmpfile`, `vfs_tmpfile`.
    fn do_tmpfile(&self, dir: At<'_>, path: &[u8], op: &Open, reval: Lookup) -> Result<File> {
        let vfs = self.vfs();
        let dir = keep(&self.request(dir, path, op.lookup | reval)?)?;
        let _writing = dir.want_write()?;
        let who = dir.seen_by(self.cred.subject());
        vfs.may_create(&dir, &who)?;
        let make =
            Make { file_type: FileType::Regular, mode: op.mode, rdev: Dev::default(), body: b"" };
        let linkable = !op.flags.contains(OpenFlags::EXCL);
        let dentry = vfs.make_unnamed(&dir, &make, self.fs.umask(), &who, linkable)?;
        vfs.mntget(dir.mnt());
        let held = HeldPath::new(vfs, dir.mnt(), dentry);
        let inode = held.inode();
        let writes = open_for_writing(op.flags);
        let access =
            if writes { Some((vfs.get_write_access(inode)?, held.want_write()?)) } else { None };
        let file = self.file_open(held, op.flags, access, None)?;
        file.fsnotify_open();
        Ok(file)
    }

    /// Opens a place of which everything was checked but what the security module and the file system have to say; the latter has opened
    /// it already where it made it.
    ///
    /// # Errors
    ///
    /// - what the security module answers.
    /// - `EINVAL`, `ENXIO`: it is a fifo, a socket or a device.
    /// - whatever the file system answers.
    ///
    /// Linux: `do_dentry_open`.
    pub(crate) fn file_open(
        &self,
        held: HeldPath<'_>,
        flags: OpenFlags,
        access: Option<(WriteAccess<'_>, Writing<'_>)>,
        opened: Handle,
    ) -> Result<File> {
        let word = self.security_file_open(&held, flags)?;
        match held.inode_ref().slot().file_type() {
            // Access mode 3 makes neither end of a pipe.
            Some(FileType::Fifo) if flags.contains(OpenFlags::ACCMODE) => {
                return Err(Errno::EINVAL);
            }
            Some(FileType::Socket) => return Err(Errno::ENXIO),
            Some(FileType::CharDevice | FileType::BlockDevice | FileType::Fifo)
                if !held.sb().features.contains(Features::SPECIAL) =>
            {
                return Err(Errno::ENXIO);
            }
            _ => {}
        }
        let flags = flags.difference(OPENING);
        lock_order::assert_none_held();
        let asked = held.inode_ref().slot().flags.get() & I_NO_OPEN == 0;
        let handle = match opened {
            None if asked => {
                let kind = held.inode_ref().slot().file_type().unwrap_or(FileType::Regular);
                held.sb().fs.open(held.inode_ref(), told(held.mnt_flags(), kind, flags))?
            }
            opened => opened,
        };
        let file = File::new(&self.anchor, held, flags).with_security(word).with_handle(handle);
        Ok(match access {
            Some(access) => file.with_write_access(access),
            None => file,
        })
    }

    /// Asks the security module; its word is kept with the file.
    ///
    /// # Errors
    ///
    /// What it answers.
    pub(crate) fn security_file_open(&self, held: &HeldPath<'_>, flags: OpenFlags) -> Result<u64> {
        let vfs = self.vfs();
        vfs.ask(Hooks::FILE_OPEN, |module| {
            module.file_open(&self.cred.subject(), &PathRef::of(vfs, held), flags)
        })
    }

    /// In line in its one caller.
    #[inline(always)]
    fn do_openat2(&self, dir: At<'_>, path: &[u8], op: &Open, reval: Lookup) -> Result<File> {
        let vfs = self.vfs();
        let request = self.request(dir, path, op.lookup | reval)?;
        if !op.flags.contains(OpenFlags::CREAT) {
            return match lookup(request, Opening { task: self, op }) {
                Ok(Arrived::Open(file)) => {
                    file.fsnotify_open();
                    Ok(file)
                }
                Ok(Arrived::At(held)) => self.do_open(held, op, Origin::Found(None)),
                Err(errno) => Err(errno),
            };
        }
        if !op.flags.contains(OpenFlags::EXCL)
            && let Some((held, directory)) = self.found_by_memory(&request)
        {
            return self.do_open(held, op, Origin::Found(Some(directory)));
        }
        // What seems to be there is looked up; a guess, and no more is made of it.
        let is_there = |dir, last: &Component| {
            matches!(vfs.d_lookup_hint(dir, request.path, last), Absent::Found(_))
        };
        let mut tries = TRIES;
        let mut directory = match remembered_parent(&request, is_there)? {
            Remembered::Parent(parent) => match self.lookup_open(&parent, op, &mut tries)? {
                Some((held, opened)) => return self.do_open(held, op, Origin::Made(opened)),
                None => None,
            },
            Remembered::Other(directory) => directory,
            Remembered::Nothing => None,
        };
        loop {
            let mut job = CreateJob { directory: None };
            match climb_from(&request, (), &mut job, directory.take())? {
                Opened::Found(held) => {
                    remember(&request);
                    return self.do_open(held, op, Origin::Found(job.directory));
                }
                Opened::Missing(parent) => {
                    if let Some((held, opened)) = self.lookup_open(&parent, op, &mut tries)? {
                        return self.do_open(held, op, Origin::Made(opened));
                    }
                    // Somebody made it meanwhile: it is looked up again, symlink or not.
                }
            }
        }
    }

    /// The place that this thread remembers a path to lead to, and the directory that has the last name.
    fn found_by_memory<'a>(&self, request: &Request<'a>) -> Option<(HeldPath<'a>, DirectorySeen)> {
        let (held, seq, asked) = keep_remembered(request)?;
        let vfs = request.vfs;
        // The name of what is mounted there lies elsewhere; and a directory that nobody was asked about says nothing.
        if held.slot().is(IS_ROOT) || held.is_mount_root() || asked && !self.opens_anywhere(&held) {
            return None;
        }
        let parent = vfs.dentry(DentryId(held.slot().parent.get()));
        let owner = vfs.inode(InodeId(parent.inode.get())).owner().0;
        let uid = held.seen_by(self.cred.subject()).seen_uid(owner.uid);
        // While it is the dentry's name, the dentry counts its parent.
        let stays = held.slot().seq.unchanged(seq);
        stays.then_some((held, DirectorySeen { mode: owner.mode, uid }))
    }

    /// Makes a file that is missing, and says by what it was opened, if it was; none where it is there after all, or was when the file
    /// system came to make it. That happens so many times more before it is `EEXIST`.
    ///
    /// Linux: `lookup_open`.
    fn lookup_open(
        &self,
        parent: &Parent<'_>,
        op: &Open,
        tries: &mut u32,
    ) -> Result<Option<(HeldPath<'_>, Handle)>> {
        let vfs = self.vfs();
        let name = vfs.reserve_known(parent.query())?;
        if name.inode().is_some() {
            return if op.flags.contains(OpenFlags::EXCL) { Err(Errno::EEXIST) } else { Ok(None) };
        }
        let _writing = parent.dir.want_write()?;
        let (who, umask) = (parent.dir.seen_by(self.cred.subject()), self.fs.umask());
        let make =
            Make { file_type: FileType::Regular, mode: op.mode, rdev: Dev::default(), body: b"" };
        vfs.security_path_make(&who, parent, &make, umask)?;
        vfs.may_create(&parent.dir, &who)?;
        vfs.security_inode_make(&who, parent, &make, umask)?;
        let made = if parent.dir.sb().features.contains(Features::ATOMIC_OPEN) {
            let flags = op.flags.difference(OPENING);
            let flags = told(parent.dir.mnt_flags(), FileType::Regular, flags);
            vfs.atomic_open(parent, &name, (&make, umask), &who, flags)
        } else {
            match vfs.make(parent, &name, &make, umask, &who) {
                Ok(true) => Ok(None),
                Ok(false) => Err(Errno::ESTALE),
                Err(errno) => Err(errno),
            }
        };
        let opened = match made {
            Err(Errno::EEXIST) if !op.flags.contains(OpenFlags::EXCL) && *tries > 0 => {
                *tries -= 1;
                drop(name);
                get_out_of_step(TRIES - *tries);
                return Ok(None);
            }
            made => made?,
        };
        let dentry = name.hold();
        vfs.mntget(parent.dir.mnt());
        let held = HeldPath::new(vfs, parent.dir.mnt(), dentry);
        // Before the answer is the caller's: what panics when the name is given up would take the counts along.
        drop(name);
        Ok(Some((held, opened)))
    }

    /// Opens what was found or made.
    ///
    /// Linux: `do_open`, `may_open`, `do_dentry_open`.
    fn do_open(&self, held: HeldPath<'_>, op: &Open, origin: Origin) -> Result<File> {
        let vfs = self.vfs();
        let inode = held.inode();
        let (owner, inode_flags) = vfs.inode(inode).owner();
        let kind = FileType::from_mode(owner.mode).unwrap_or(FileType::Regular);
        // What has no type, as an epoll of the kernel's, is none: who writes to it is not counted.
        let regular = owner.mode & S_IFMT == S_IFREG;
        if op.flags.contains(OpenFlags::PATH) {
            return Ok(File::new(&self.anchor, held, op.flags));
        }
        let made = matches!(origin, Origin::Made(_));
        if op.flags.contains(OpenFlags::CREAT) && !made {
            if op.flags.contains(OpenFlags::EXCL) {
                return Err(Errno::EEXIST);
            }
            if kind == FileType::Directory {
                return Err(Errno::EISDIR);
            }
            if let Origin::Found(Some(directory)) = &origin {
                self.may_create_in_sticky(&held, *directory, (kind, owner.uid))?;
            }
        }
        let writes = op.access.contains(Access::WRITE);
        let truncates = op.flags.contains(OpenFlags::TRUNC) && regular && !made;
        // Until it is truncated.
        let _writing = truncates.then(|| held.want_write()).transpose()?;
        if !made {
            let device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
            match kind {
                FileType::Symlink => return Err(Errno::ELOOP),
                FileType::Directory if writes => return Err(Errno::EISDIR),
                _ if device && held.mnt_flags().contains(MntFlags::NODEV) => {
                    return Err(Errno::EACCES);
                }
                _ => {}
            }
            let who = held.seen_by(self.cred.subject());
            vfs.permission_of(inode, (owner, inode_flags), op.access, &who)?;
            let overwrites = held_for_writing(op.flags) && !op.flags.contains(OpenFlags::APPEND);
            let cuts = op.flags.contains(OpenFlags::TRUNC);
            if inode_flags & I_APPEND != 0 && (overwrites || cuts) {
                return Err(Errno::EPERM);
            }
            if op.flags.intersects(OpenFlags::NOATIME | OpenFlags::DIRECT) {
                if op.flags.contains(OpenFlags::NOATIME) && !who.owner_or_capable(owner.uid) {
                    return Err(Errno::EPERM);
                }
                if op.flags.contains(OpenFlags::DIRECT) && kind == FileType::Directory {
                    // Known only when it is open: whoever watches hears that it is closed.
                    drop(self.file_open(held, op.flags, None, None)?);
                    return Err(Errno::EINVAL);
                }
            }
        }
        let mut access = None;
        if regular && open_for_writing(op.flags) {
            access = Some((vfs.get_write_access(inode)?, held.want_write()?));
        }
        let opened = if let Origin::Made(opened) = origin { opened } else { None };
        let file = self.file_open(held, op.flags, access, opened)?;
        file.fsnotify_open();
        if truncates {
            let at = file.borrow();
            let who = at.seen_by(self.cred.subject());
            // Also where it is not open for writing.
            let _access = vfs.get_write_access(inode)?;
            file.may_truncate(&who)?;
            vfs.do_truncate(&at, (0, u64::MAX), &who, Stamp::Always)?;
        }
        Ok(file)
    }

    /// The rule of `fs.protected_regular` and `fs.protected_fifos`, which no setting lifts from all other types: in sticky
    /// directories that others may write, `O_CREAT` does not open what is somebody else's.
    ///
    /// # Errors
    ///
    /// - `EACCES`: it is somebody else's.
    fn may_create_in_sticky(
        &self,
        held: &HeldPath<'_>,
        directory: DirectorySeen,
        (kind, uid): (FileType, u32),
    ) -> Result<()> {
        let setting = self.protected_in_sticky(kind);
        let who = held.seen_by(self.cred.subject());
        // The file may be shown by a mount of its own.
        let seen = who.seen_uid(uid);
        let own = seen.is_some() && (seen == directory.uid || seen == Some(who.fsuid));
        let group_counts = setting >= 2 && directory.mode & S_IWGRP != 0;
        let shared = directory.mode & S_IWOTH != 0 || group_counts;
        if directory.mode & S_ISVTX != 0 && setting != 0 && !own && shared {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// `fs.protected_regular` and its like, for what has the type `kind`.
    fn protected_in_sticky(&self, kind: FileType) -> u8 {
        let config = &self.vfs().config;
        match kind {
            FileType::Regular => config.protected_regular,
            FileType::Fifo => config.protected_fifos,
            _ => 1,
        }
    }

    /// Whether `may_create_in_sticky` lets it be opened in any directory.
    fn opens_anywhere(&self, held: &HeldPath<'_>) -> bool {
        let (owner, _) = self.vfs().inode(held.inode()).owner();
        let kind = FileType::from_mode(owner.mode).unwrap_or(FileType::Regular);
        let who = held.seen_by(self.cred.subject());
        self.protected_in_sticky(kind) == 0 || who.seen_uid(owner.uid) == Some(who.fsuid)
    }
}

/// Opens where a walk ends.
struct Opening<'o> {
    task: &'o Task,
    op: &'o Open,
}

/// What came of it.
enum Arrived<'a> {
    /// Nobody need be asked; nobody was told either.
    Open(File),
    /// All is to be done by [`Task::do_open`].
    At(HeldPath<'a>),
}

impl<'a> Terminal<'a> for Opening<'_> {
    type Out = Arrived<'a>;
    const HOLDS: bool = true;

    #[inline(always)]
    fn finish<const RCU: bool>(&mut self, end: &End<'a, RCU>) -> Result<Arrived<'a>, Stop> {
        let (held, flags) = (end.hold()?, self.op.flags);
        let (owner, inode_flags) = end.vfs.inode(held.inode()).owner();
        let asks_nobody = READS.contains(flags)
            && everyone_may_read(owner, inode_flags)
            && !end.vfs.asks(Hooks::INODE_PERMISSION | Hooks::FILE_OPEN);
        Ok(match asks_nobody {
            true => Arrived::Open(File::new(&self.task.anchor, held, flags.difference(OPENING))),
            false => Arrived::At(held),
        })
    }
}

/// Whether nobody need be asked who opens a file to read it: it is a regular file or a directory, everyone may, and its file system decides
/// neither that nor keeps anything for who has it open.
fn everyone_may_read(owner: Owner, inode_flags: u32) -> bool {
    const ASKS: u32 = I_ACL | I_ACL_UNKNOWN | I_PERMISSION;
    let may = owner.mode & S_IRUGO == S_IRUGO && matches!(owner.mode & S_IFMT, S_IFREG | S_IFDIR);
    may && inode_flags & (ASKS | I_NO_OPEN) == I_NO_OPEN
}

/// What the file system is told of an opening's flags: a mount that notes no reading is as `O_NOATIME`.
fn told(mount: MntFlags, kind: FileType, flags: OpenFlags) -> OpenFlags {
    let notes = notes_reading(mount, kind == FileType::Directory);
    if notes { flags } else { flags | OpenFlags::NOATIME }
}

/// Whether it can be written to once it is open; with access mode 3 it cannot.
fn open_for_writing(flags: OpenFlags) -> bool {
    let mode = flags.bits() & OpenFlags::ACCMODE.bits();
    mode == OpenFlags::WRONLY.bits() || mode == OpenFlags::RDWR.bits()
}

/// Whether the access mode is another than reading; 3 counts.
fn held_for_writing(flags: OpenFlags) -> bool {
    flags.intersects(OpenFlags::ACCMODE)
}

/// Where what is opened comes from.
enum Origin {
    /// It was there; with `O_CREAT`, in this directory.
    Found(Option<DirectorySeen>),
    /// This call made it, and the file system may have opened it.
    Made(Handle),
}

/// Of a directory, what `may_create_in_sticky` looks at.
#[derive(Clone, Copy)]
struct DirectorySeen {
    mode: u32,
    /// Its owner, as the mount shows it; none whom it does not show.
    uid: Option<u32>,
}

/// How to open.
struct Open {
    flags: OpenFlags,
    mode: u32,
    access: Access,
    lookup: Lookup,
    /// Without a name.
    tmpfile: bool,
}

/// Checks and completes what openat2 is told; `empty` where the path may be.
///
/// Linux: `build_open_flags`.
#[inline(always)]
fn build_open_flags(how: &OpenHow, empty: Lookup) -> Result<Open> {
    let flags = OpenFlags::from_bits(how.flags).ok_or(Errno::EINVAL)?;
    let resolve = ResolveFlags::from_bits_retain(how.resolve);
    if resolve.is_empty() && how.mode == 0 && PLAIN.contains(flags) {
        // Most are so: what follows would come to the same.
        let access = if flags.intersects(OpenFlags::WRONLY) { Access::WRITE } else { Access::READ };
        let lookup = Lookup::FOLLOW | Lookup::AUTOMOUNT | empty;
        return Ok(Open { flags, mode: 0, access, lookup, tmpfile: false });
    }
    build_other_flags(how, (flags, resolve), empty)
}

/// The same of flags that are to be checked.
#[inline(never)]
fn build_other_flags(
    how: &OpenHow,
    (flags, resolve): (OpenFlags, ResolveFlags),
    empty: Lookup,
) -> Result<Open> {
    let mut lookup = within(resolve)? | empty;
    let tmpfile = flags.bits() & (OpenFlags::TMPFILE.bits() & !OpenFlags::DIRECTORY.bits()) != 0;
    let creates = flags.contains(OpenFlags::CREAT);
    if how.mode & !(if creates || tmpfile { 0o7777 } else { 0 }) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags.contains(OpenFlags::DIRECTORY | OpenFlags::CREAT) {
        return Err(Errno::EINVAL);
    }
    let writable = flags.intersects(OpenFlags::WRONLY | OpenFlags::RDWR);
    if tmpfile && !(flags.contains(OpenFlags::DIRECTORY) && writable) {
        return Err(Errno::EINVAL);
    }
    if flags.contains(OpenFlags::PATH) && !PATH_FLAGS.contains(flags) {
        return Err(Errno::EINVAL);
    }
    let changes = OpenFlags::TRUNC | OpenFlags::CREAT;
    if resolve.contains(ResolveFlags::CACHED) && (flags.intersects(changes) || tmpfile) {
        return Err(Errno::EAGAIN);
    }
    let mode = flags.bits() & OpenFlags::ACCMODE.bits();
    let mut access =
        [Access::READ, Access::WRITE, Access::READ | Access::WRITE, Access::READ | Access::WRITE]
            [mode as usize & 3];
    if flags.contains(OpenFlags::TRUNC) {
        access |= Access::WRITE;
    }
    if flags.contains(OpenFlags::PATH) {
        access = Access::empty();
    }
    let excl = flags.contains(OpenFlags::CREAT | OpenFlags::EXCL);
    lookup.set(Lookup::FOLLOW, !flags.contains(OpenFlags::NOFOLLOW) && !excl);
    lookup.set(Lookup::DIRECTORY, flags.contains(OpenFlags::DIRECTORY));
    lookup.set(Lookup::AUTOMOUNT, !flags.contains(OpenFlags::PATH));
    Ok(Open { flags, mode: how.mode as u32, access, lookup, tmpfile })
}

/// Where the walk of an open ended.
enum Opened<'a> {
    /// On a file.
    Found(HeldPath<'a>),
    /// In a directory that lacks the last name, which is to be made.
    Missing(Parent<'a>),
}

/// Looks up what is to be opened, or made if it is missing.
///
/// Linux: `open_last_lookups`.
struct CreateJob {
    /// Of the directory that has the last name, for `may_create_in_sticky`.
    directory: Option<DirectorySeen>,
}

impl<'a> Job<'a> for CreateJob {
    type Out = Opened<'a>;

    fn run<H: Hold<'a>, O: Observer>(
        &mut self,
        walk: &mut Walk<'a, H, O>,
        text: &mut Text<'a>,
    ) -> Result<Opened<'a>, Stop> {
        walk.flags |= Lookup::PARENT;
        loop {
            let last = walk.walk_to_last(text)?;
            if last.kind() != Kind::Norm {
                if walk.lookup_last(text, &last)? {
                    continue;
                }
                break;
            }
            if last.trailing_slash {
                walk.must_ask_about_place()?;
                walk.check_at()?;
                return Err(Errno::EISDIR.into());
            }
            // Finding the child shows that this was the directory.
            let owner = walk.vfs.inode(walk.inode()).owner().0;
            let uid = walk.vfs.through(walk.at.mnt, &walk.who).seen_uid(owner.uid);
            self.directory = Some(DirectorySeen { mode: owner.mode, uid });
            match create_last(walk, text, &last)? {
                Last::Stands => break,
                Last::Again => {}
                Last::Missing => {
                    let dir = H::finish(walk, &mut Keep)?;
                    let anew = walk.flags.contains(Lookup::REVAL);
                    let text = text.take_last();
                    return Ok(Opened::Missing(Parent { dir, last, text, anew }));
                }
            }
        }
        // What `O_CREAT` says of a directory comes before what `O_DIRECTORY` would: see `do_open`.
        walk.flags.remove(Lookup::DIRECTORY);
        H::ask_about_place(walk);
        let held = walk.complete().and_then(|()| H::finish(walk, &mut Keep));
        if held.is_err() {
            // Whoever goes on from here stands on the last component already.
            text.finish();
            walk.forget_root();
        }
        Ok(Opened::Found(held?))
    }
}

/// What the last component of an `O_CREAT` is.
enum Last {
    /// The walk stands on it.
    Stands,
    /// A symlink, whose body is walked now.
    Again,
    /// It is not there; the walk stands on its directory.
    Missing,
}

/// Walks the last component if it is there.
fn create_last<'a, H: Hold<'a>, O: Observer>(
    walk: &mut Walk<'a, H, O>,
    text: &mut Text<'a>,
    last: &Component,
) -> Result<Last, Stop> {
    let bytes = text.current().0;
    let child = match H::lookup(walk, bytes, last) {
        Ok(child) => child,
        // Only its absence is ours to mend; the making itself finds out about all else.
        Err(Stop::Errno(Errno::ENOENT)) => return Ok(Last::Missing),
        Err(stop) => return Err(stop),
    };
    if child.flags & NEGATIVE != 0 {
        H::put_child(walk.vfs, child.id);
        return if H::RCU { Err(Stop::Leave(Left::Create)) } else { Ok(Last::Missing) };
    }
    let follow = if walk.flags.contains(Lookup::FOLLOW) { Follow::Yes } else { Follow::No };
    match walk.step_into_slowpath(child, follow)? {
        Step::Moved => Ok(Last::Stands),
        Step::Link(link) => {
            walk.pick_link(link, text, true)?;
            Ok(Last::Again)
        }
    }
}
