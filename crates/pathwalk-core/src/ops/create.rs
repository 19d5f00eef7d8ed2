//! Making names: mkdir, mknod, symlink, link; and the creating half of open.
//!
//! Linux: `filename_create`, `may_create`, `vfs_mkdir`, `vfs_mknod`, `vfs_symlink`, `vfs_link`.

use super::{making::Making, only, retry_estale};
use crate::{
    cred::Subject,
    dcache::{DentryId, reserve::Reserved},
    fs::{Access, FileSystem, Found, Handle, NewInode},
    inode::{Attr, InodeId, InodeRef},
    mount::remount::Writing,
    name::{Kind, scan},
    security::{Entry, Hooks, PathRef},
    task::{At, Task},
    vfs::Vfs,
    walk::{
        HeldPath, Lookup,
        job::Parent,
        lookup::{keep, parent},
    },
};
use pathwalk_abi::{
    AtFlags, CapSet, Dev, Errno, FileType, InodeFlags, OpenFlags, PATH_MAX, Result,
    mode::{S_IFMT, S_ISGID, S_ISUID, S_ISVTX, S_IXGRP},
};
use pathwalk_sync::lock_order;

/// A file to be made, before the umask and the rules about groups.
#[derive(Clone, Copy)]
pub(crate) struct Make<'b> {
    pub(crate) file_type: FileType,
    pub(crate) mode: u32,
    pub(crate) rdev: Dev,
    pub(crate) body: &'b [u8],
}

impl Task {
    /// `mkdir(path, mode)`: makes a directory. mkdir(2)
    ///
    /// # Errors
    ///
    /// As [`Task::mkdirat`].
    pub fn mkdir(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<()> {
        self.mkdirat(At::Cwd, path, mode)
    }

    /// `mkdirat(dir, path, mode)`: makes a directory. mkdirat(2)
    ///
    /// # Errors
    ///
    /// - those of the lookup of the directory that it is made in.
    /// - `EEXIST`: the name is there, be it a dangling symlink, or the path ends in `.`, `..` or `/`.
    /// - `ENOENT`: the directory was removed.
    /// - `ENAMETOOLONG`: the name has more than 255 bytes.
    /// - `EROFS`: the mount is read-only.
    /// - `EPERM`: the directory is immutable. `EACCES`: it may not be written.
    /// - `ENOMEM`, `ENOSPC`, `EMLINK`: there is no room.
    pub fn mkdirat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        mode: u32,
    ) -> Result<()> {
        let mode = mode & (0o777 | S_ISVTX);
        let make = Make { file_type: FileType::Directory, mode, rdev: Dev::default(), body: b"" };
        self.make_at(dir.into(), path.as_ref(), &make)
    }

    /// `mknod(path, mode, dev)`: makes a file of any type but a directory or a symlink. mknod(2)
    ///
    /// # Errors
    ///
    /// As [`Task::mknodat`].
    pub fn mknod(&self, path: impl AsRef<[u8]>, mode: u32, dev: Dev) -> Result<()> {
        self.mknodat(At::Cwd, path, mode, dev)
    }

    /// `mknodat(dir, path, mode, dev)`: makes a regular file, a fifo, a socket or a device. mknodat(2)
    ///
    /// # Errors
    ///
    /// - `EPERM`: the mode is that of a directory; `EINVAL`: of a symlink, or of nothing.
    /// - those of [`Task::mkdirat`]; besides, `ENOENT` if the path ends in a slash and nothing is there.
    /// - `EPERM`: a device is made without `CAP_MKNOD` (a whiteout, the character device 0:0, needs none).
    pub fn mknodat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        mode: u32,
        dev: Dev,
    ) -> Result<()> {
        let file_type = match FileType::from_mode(mode) {
            _ if mode & S_IFMT == 0 => FileType::Regular,
            Some(FileType::Directory) => return Err(Errno::EPERM),
            Some(FileType::Symlink) | None => return Err(Errno::EINVAL),
            Some(file_type) => file_type,
        };
        let device = matches!(file_type, FileType::CharDevice | FileType::BlockDevice);
        let rdev = if device { dev } else { Dev::default() };
        let make = Make { file_type, mode: mode & 0o7777, rdev, body: b"" };
        self.make_at(dir.into(), path.as_ref(), &make)
    }

    /// `symlink(target, path)`: makes a symlink. symlink(2)
    ///
    /// # Errors
    ///
    /// As [`Task::symlinkat`].
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.symlinkat(target, At::Cwd, path)
    }

    /// `symlinkat(target, dir, path)`: makes a symlink whose body is `target`, whatever that is. symlinkat(2)
    ///
    /// # Errors
    ///
    /// - `ENOENT`: the target is empty. `ENAMETOOLONG`: it has more than 4095 bytes. `EINVAL`: it contains a NUL.
    /// - those of [`Task::mkdirat`]; besides, `ENOENT` if the path ends in a slash and nothing is there.
    pub fn symlinkat<'a>(
        &self,
        target: impl AsRef<[u8]>,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
    ) -> Result<()> {
        let body = target.as_ref();
        if body.is_empty() {
            return Err(Errno::ENOENT);
        }
        if body.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if body.contains(&0) {
            return Err(Errno::EINVAL);
        }
        let make = Make { file_type: FileType::Symlink, mode: 0o777, rdev: Dev::default(), body };
        self.make_at(dir.into(), path.as_ref(), &make)
    }

    /// `link(old, new)`: gives a file one more name; a symlink at the end is not followed. link(2)
    ///
    /// # Errors
    ///
    /// As [`Task::linkat`].
    pub fn link(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        self.linkat(At::Cwd, old, At::Cwd, new, AtFlags::empty())
    }

    /// `linkat(old_dir, old, new_dir, new, flags)`: gives a file one more name. linkat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_FOLLOW` and `AT_EMPTY_PATH`.
    /// - `ENOENT`: `AT_EMPTY_PATH` with a directory handle that another task opened, or this one with other credentials,
    ///   without `CAP_DAC_READ_SEARCH`.
    /// - those of the lookup of the old name.
    /// - those of [`Task::mkdirat`] about the new name, up to `EROFS`; `ENOENT` if it ends in a slash.
    /// - `EXDEV`: the new name is in another mount.
    /// - `EPERM`: `fs.protected_hardlinks`, and the file is neither one's own nor a regular one that one may read and
    ///   write.
    /// - `EACCES`: the directory may not be written.
    /// - `EPERM`: the old name is a directory, or immutable, or append-only.
    /// - `ENOENT`: the file has no name left.
    /// - `EMLINK`, `ENOSPC`, `ENOMEM`: there is no room.
    pub fn linkat<'a, 'b>(
        &self,
        old_dir: impl Into<At<'a>>,
        old: impl AsRef<[u8]>,
        new_dir: impl Into<At<'b>>,
        new: impl AsRef<[u8]>,
        flags: AtFlags,
    ) -> Result<()> {
        only(flags, AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH)?;
        let (old_dir, old) = (old_dir.into(), old.as_ref());
        let (new_dir, new) = (new_dir.into(), new.as_ref());
        retry_estale(|reval| self.do_linkat((old_dir, old), (new_dir, new), flags, reval))
    }

    fn do_linkat(
        &self,
        (old_dir, old): (At<'_>, &[u8]),
        (new_dir, new): (At<'_>, &[u8]),
        flags: AtFlags,
        reval: Lookup,
    ) -> Result<()> {
        let mut lookup = reval;
        lookup.set(Lookup::FOLLOW, flags.contains(AtFlags::SYMLINK_FOLLOW));
        lookup.set(Lookup::EMPTY, flags.contains(AtFlags::EMPTY_PATH));
        let request = self.request(old_dir, old, lookup)?;
        if lookup.contains(Lookup::EMPTY) && request.dir.is_some() {
            self.may_link_by_handle(old_dir)?;
        }
        let old = keep(&request)?;
        let request = self.request(new_dir, new, reval)?;
        let parent = parent(&request)?;
        let vfs = self.vfs();
        let (name, _writing) = vfs.filename_create(&parent, FileType::Regular)?;
        if old.mnt() != parent.dir.mnt() {
            return Err(Errno::EXDEV);
        }
        let who = old.seen_by(self.cred.subject());
        let attr = vfs.inode(old.inode()).attr();
        vfs.may_linkat(old.inode(), &attr, &who)?;
        let entry = || Entry::of(vfs, &parent, None);
        vfs.ask(Hooks::PATH_LINK, |module| {
            module.path_link(&who, &PathRef::of(vfs, &old), &entry())
        })?;
        vfs.may_create(&parent.dir, &who)?;
        let fixed = attr.flags.intersects(InodeFlags::IMMUTABLE | InodeFlags::APPEND);
        if fixed || attr.file_type() == FileType::Directory {
            return Err(Errno::EPERM);
        }
        vfs.ask(Hooks::INODE_LINK, |module| module.inode_link(&who, old.inode_ref(), &entry()))?;
        lock_order::assert_none_held();
        let linked = parent.dir.sb().fs.link(
            old.inode_ref(),
            parent.dir.inode_ref(),
            parent.name(),
            vfs.now(),
        );
        linked.map_err(|errno| match errno {
            // By a handle or a magic link others' removing it is not noticed, however often it is asked.
            Errno::ESTALE if reval.contains(Lookup::REVAL) => Errno::ENOENT,
            errno => errno,
        })?;
        vfs.inode(old.inode()).lockref.get();
        vfs.d_instantiate(name.id, old.inode(), parent.dir.sb().kind);
        vfs.fsnotify_link(old.inode(), parent.dir.inode(), parent.name());
        Ok(())
    }

    /// With `AT_EMPTY_PATH`, asks whether a handle may serve to link what it stands for: it may if this task opened it and
    /// is still who it was then. Linux asks so of every path that begins at a handle, empty or not.
    ///
    /// # Errors
    ///
    /// - `ENOENT`: it may not.
    fn may_link_by_handle(&self, dir: At<'_>) -> Result<()> {
        let Some(file) = dir.dir() else { return Ok(()) };
        let may = self.is_opener_of(file) || self.cred.subject().capable(CapSet::DAC_READ_SEARCH);
        if may { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn make_at(&self, dir: At<'_>, path: &[u8], make: &Make<'_>) -> Result<()> {
        retry_estale(|reval| self.do_make_at(dir, path, make, reval))
    }

    fn do_make_at(&self, dir: At<'_>, path: &[u8], make: &Make<'_>, reval: Lookup) -> Result<()> {
        let request = self.request(dir, path, reval)?;
        let parent = parent(&request)?;
        let vfs = self.vfs();
        let (name, _writing) = vfs.filename_create(&parent, make.file_type)?;
        let who = parent.dir.seen_by(self.cred.subject());
        let umask = self.fs.umask();
        vfs.security_path_make(&who, &parent, make, umask)?;
        vfs.may_create(&parent.dir, &who)?;
        let device = matches!(make.file_type, FileType::CharDevice | FileType::BlockDevice);
        let whiteout = make.file_type == FileType::CharDevice && make.rdev == Dev::default();
        if device && !whiteout && !who.capable(CapSet::MKNOD) {
            return Err(Errno::EPERM);
        }
        vfs.security_inode_make(&who, &parent, make, umask)?;
        // What others did to it since does not matter to who made it.
        vfs.make(&parent, &name, make, umask, &who).map(|_stays| ())
    }
}

impl Vfs {
    /// Reserves a name that is to be made.
    ///
    /// # Errors
    ///
    /// - `EEXIST`: the path ends in `.`, `..` or `/`, or the name is there.
    /// - `ENOENT`: the directory was removed.
    /// - `ENAMETOOLONG`: the name has more than 255 bytes.
    /// - `ENOENT`: the path ends in a slash, and it is no directory that is to be made.
    /// - `EROFS`: the mount is read-only.
    ///
    /// Linux: `filename_create`.
    #[inline(always)]
    pub(crate) fn filename_create<'v>(
        &'v self,
        parent: &Parent<'v>,
        kind: FileType,
    ) -> Result<(Reserved<'v>, Writing<'v>)> {
        if parent.last.kind() != Kind::Norm {
            return Err(Errno::EEXIST);
        }
        let name = self.reserve_known(parent.query())?;
        if name.inode().is_some() {
            return Err(Errno::EEXIST);
        }
        if parent.last.trailing_slash && kind != FileType::Directory {
            return Err(Errno::ENOENT);
        }
        let writing = parent.dir.want_write()?;
        Ok((name, writing))
    }

    /// Asks whether the subject may make names in a directory.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: the mount shows nobody by the subject's ids.
    /// - `EROFS`: the file system is read-only.
    /// - `EACCES`: the directory may not be written and searched.
    ///
    /// Linux: `may_create`.
    #[inline(always)]
    pub(crate) fn may_create(&self, dir: &HeldPath<'_>, who: &Subject<'_>) -> Result<()> {
        who.new_ids()?;
        self.inode_permission(dir.inode(), Access::WRITE | Access::EXEC, who).map(|_| ())
    }

    /// Linux: `may_linkat`, `safe_hardlink_source`.
    fn may_linkat(&self, inode: InodeId, attr: &Attr, who: &Subject<'_>) -> Result<()> {
        who.must_be_mapped(attr.uid, attr.gid)?;
        if !self.config.protected_hardlinks || who.owner_or_capable(attr.uid) {
            return Ok(());
        }
        let gains_group = attr.mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP;
        let safe = attr.file_type() == FileType::Regular
            && attr.mode & S_ISUID == 0
            && !gains_group
            && self.inode_permission(inode, Access::READ | Access::WRITE, who).is_ok();
        if safe { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Makes a file under a reserved name; says whether it is known to be there still, and the name stands for it.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`: the tables are full, and nothing could be evicted.
    /// - whatever the file system answers; after `EEXIST` it is not known any more what the name stands for.
    pub(crate) fn make(
        &self,
        parent: &Parent<'_>,
        name: &Reserved<'_>,
        make: &Make<'_>,
        umask: u32,
        who: &Subject<'_>,
    ) -> Result<bool> {
        self.make_by(parent, name, (make, umask), who, |fs, dir, name, new| {
            fs.create(dir, name, new)
        })
    }

    /// Makes a file under a reserved name for a call that opens it next with these flags; what it was opened by, if its file system did
    /// so at once.
    ///
    /// # Errors
    ///
    /// As [`Vfs::make`].
    #[cold]
    #[inline(never)]
    pub(crate) fn atomic_open(
        &self,
        parent: &Parent<'_>,
        name: &Reserved<'_>,
        make: (&Make<'_>, u32),
        who: &Subject<'_>,
        flags: OpenFlags,
    ) -> Result<Handle> {
        let mut opened = None;
        self.make_by(parent, name, make, who, |fs, dir, name, new| {
            let (found, handle) = fs.atomic_open(dir, name, new, flags)?;
            opened = handle;
            Ok(Some(found))
        })?;
        Ok(opened)
    }

    #[inline(always)]
    fn make_by(
        &self,
        parent: &Parent<'_>,
        name: &Reserved<'_>,
        (make, umask): (&Make<'_>, u32),
        who: &Subject<'_>,
        create: impl FnOnce(
            &dyn FileSystem,
            InodeRef<'_>,
            &[u8],
            &NewInode<'_>,
        ) -> Result<Option<Found>>,
    ) -> Result<bool> {
        let making = Making::new(self, parent.dir.inode(), make, umask, who)?;
        let sb = parent.dir.sb();
        lock_order::assert_none_held();
        let found = create(&*sb.fs, parent.dir.inode_ref(), parent.name(), &making.new_inode());
        let found = found.inspect_err(|&errno| {
            // Others made it since it was looked up.
            if errno == Errno::EEXIST {
                self.d_invalidate(name);
            }
        })?;
        if let Some(found) = &found {
            let inode = making.made(&sb, found, name.id);
            self.d_instantiate(name.id, inode, sb.kind);
        } else {
            self.d_invalidate(name);
        }
        self.fsnotify_create(parent.dir.inode(), parent.name(), make.file_type);
        Ok(found.is_some())
    }
}

impl Vfs {
    /// Makes a file in a directory under no name, and returns its dentry, counted. `linkable` says that it may get one.
    ///
    /// # Errors
    ///
    /// As [`Vfs::make`].
    ///
    /// Linux: `vfs_tmpfile`, `d_tmpfile`.
    pub(crate) fn make_unnamed(
        &self,
        dir: &HeldPath<'_>,
        make: &Make<'_>,
        umask: u32,
        who: &Subject<'_>,
        linkable: bool,
    ) -> Result<DentryId> {
        let making = Making::new(self, dir.inode(), make, umask, who)?;
        let sb = dir.sb();
        lock_order::assert_none_held();
        let found = sb.fs.tmpfile(dir.inode_ref(), &making.new_inode())?;
        let text = format!("#{}", found.attr.ino).into_bytes();
        let inode = making.made(&sb, &found, DentryId::NONE);
        let name = scan(&text, 0, self.secret);
        let dentry =
            self.dentry_alloc(dir.dentry(), &text, &name).inspect_err(|_| self.iput(inode))?;
        if linkable {
            self.inode_ref(inode).set_linkable();
        }
        self.d_instantiate(dentry, inode, sb.kind);
        Ok(dentry)
    }
}
