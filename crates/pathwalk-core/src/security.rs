//! Security hooks: a module that an embedder registers is asked before something is done.
//!
//! A hook stands where Linux calls its security modules. So the hooks of paths are asked *before* permission is, those of
//! inodes after it, and all before the file system. What a hook answers the call answers; nothing was changed then.
//!
//! | Hook | Asked after | and before |
//! |---|---|---|
//! | `inode_permission` | mode bits, ACL, the file system's own method | what the permission is for |
//! | `inode_follow_link` | `ELOOP` by flag or mount | the link is read |
//! | `inode_readlink` | `EINVAL`: it is no symlink | the link is read |
//! | `inode_getattr` | the lookup | the answer |
//! | `inode_setattr` | `EROFS`, `EINVAL`, `path_chmod`, `path_chown` | `EPERM`: it is another's file |
//! | `path_mkdir`, `path_mknod`, `path_symlink` | `EEXIST`, `ENOENT`, `EROFS` | permission in the directory |
//! | `path_link` | these, `EXDEV`, `fs.protected_hardlinks` | permission in the directory |
//! | `path_unlink`, `path_rmdir` | `ENOENT`, slashes behind the name | permission in the directory |
//! | `path_rename` | `EEXIST`, `ENOTDIR`, `EINVAL` and `ENOTEMPTY` of ancestors | permission in the directories |
//! | `inode_create`, `inode_mkdir`, `inode_mknod`, `inode_symlink`, `inode_link` | permission | the file system |
//! | `inode_unlink`, `inode_rmdir` | permission, `EBUSY` of a mountpoint | the file system |
//! | `inode_rename` | permission | `EBUSY` of a mountpoint |
//! | `inode_setxattr`, `inode_removexattr` | permission, capabilities | the file system |
//! | `inode_getxattr` | permission | the file system |
//! | `inode_listxattr`, `inode_get_acl` | the lookup | all else |
//! | `inode_set_acl`, `inode_remove_acl` | `EROFS`, `EPERM` of what is immutable or append-only | `EOPNOTSUPP`; whose file it is |
//! | `path_truncate` | permission, `EROFS` | the file system |
//! | `path_chmod`, `path_chown` | `EROFS`, `EINVAL` | whose file it is |
//! | `path_chroot` | `EACCES`, `EPERM` | the root is changed |
//! | `path_notify` | `EACCES` | the watch is made |
//! | `file_open` | permission, `EROFS` | `ENXIO`; the file is emptied |
//! | `sb_mount` | the lookup of the mountpoint | `EPERM` without `CAP_SYS_ADMIN` |
//! | `sb_umount` | `EPERM`; `EINVAL`: nothing is mounted there | `EBUSY` |
//! | `file_truncate` | `EINVAL`; of `O_TRUNC`, the opening | the file system |
//!
//! While no module is registered a walk pays nothing. A module that wants to be asked in walks ([`Hooks::WALK`]) takes
//! `SEARCH_ALL` from all directories, and where a directory without that was searched, runs and memos look whether there is
//! one: so none goes past it. Then every walk holds its
//! place, and `RESOLVE_CACHED` answers `EAGAIN`.
//!
//! Linux: `security/security.c`, `include/linux/lsm_hook_defs.h`.

use crate::{
    acl::{AclEntry, AclKind},
    cred::Subject,
    dcache::{DentryId, IS_ROOT, SEARCH_ALL},
    fs::Access,
    inode::{InodeId, InodeRef},
    lock,
    mount::MountId,
    ops::create::Make,
    vfs::Vfs,
    walk::{HeldPath, job::Parent},
};
use bitflags::bitflags;
use pathwalk_abi::{
    Dev, Errno, FileType, MountFlags, OpenFlags, RenameFlags, Result, SetTime, UmountFlags,
    XattrFlags,
};
use pathwalk_sync::{Cell64, Sample};
use std::sync::{Arc, OnceLock};

bitflags! {
    /// What a module wants to be asked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Hooks: u64 {
        /// [`SecurityModule::inode_permission`]
        const INODE_PERMISSION = 1 << 0;
        /// [`SecurityModule::inode_follow_link`]
        const INODE_FOLLOW_LINK = 1 << 1;
        /// [`SecurityModule::inode_readlink`]
        const INODE_READLINK = 1 << 2;
        /// [`SecurityModule::inode_getattr`]
        const INODE_GETATTR = 1 << 3;
        /// Those that are asked in walks or where lookups end.
        const WALK = 0xf;
        /// [`SecurityModule::inode_setattr`]
        const INODE_SETATTR = 1 << 4;
        /// [`SecurityModule::inode_create`]
        const INODE_CREATE = 1 << 5;
        /// [`SecurityModule::inode_mkdir`]
        const INODE_MKDIR = 1 << 6;
        /// [`SecurityModule::inode_mknod`]
        const INODE_MKNOD = 1 << 7;
        /// [`SecurityModule::inode_symlink`]
        const INODE_SYMLINK = 1 << 8;
        /// [`SecurityModule::inode_link`]
        const INODE_LINK = 1 << 9;
        /// [`SecurityModule::inode_unlink`]
        const INODE_UNLINK = 1 << 10;
        /// [`SecurityModule::inode_rmdir`]
        const INODE_RMDIR = 1 << 11;
        /// [`SecurityModule::inode_rename`]
        const INODE_RENAME = 1 << 12;
        /// [`SecurityModule::path_mkdir`]
        const PATH_MKDIR = 1 << 13;
        /// [`SecurityModule::path_mknod`]
        const PATH_MKNOD = 1 << 14;
        /// [`SecurityModule::path_symlink`]
        const PATH_SYMLINK = 1 << 15;
        /// [`SecurityModule::path_link`]
        const PATH_LINK = 1 << 16;
        /// [`SecurityModule::path_unlink`]
        const PATH_UNLINK = 1 << 17;
        /// [`SecurityModule::path_rmdir`]
        const PATH_RMDIR = 1 << 18;
        /// [`SecurityModule::path_rename`]
        const PATH_RENAME = 1 << 19;
        /// [`SecurityModule::path_truncate`]
        const PATH_TRUNCATE = 1 << 20;
        /// [`SecurityModule::path_chmod`]
        const PATH_CHMOD = 1 << 21;
        /// [`SecurityModule::path_chown`]
        const PATH_CHOWN = 1 << 22;
        /// [`SecurityModule::path_chroot`]
        const PATH_CHROOT = 1 << 23;
        /// [`SecurityModule::path_notify`]
        const PATH_NOTIFY = 1 << 24;
        /// [`SecurityModule::file_open`]
        const FILE_OPEN = 1 << 25;
        /// [`SecurityModule::file_truncate`]
        const FILE_TRUNCATE = 1 << 26;
        /// [`SecurityModule::sb_mount`]
        const SB_MOUNT = 1 << 27;
        /// [`SecurityModule::sb_umount`]
        const SB_UMOUNT = 1 << 28;
        /// [`SecurityModule::sb_remount`]
        const SB_REMOUNT = 1 << 29;
        /// [`SecurityModule::sb_pivotroot`]
        const SB_PIVOTROOT = 1 << 30;
        /// [`SecurityModule::move_mount`]
        const MOVE_MOUNT = 1 << 31;
        /// [`SecurityModule::inode_setxattr`]
        const INODE_SETXATTR = 1 << 32;
        /// [`SecurityModule::inode_getxattr`]
        const INODE_GETXATTR = 1 << 33;
        /// [`SecurityModule::inode_listxattr`]
        const INODE_LISTXATTR = 1 << 34;
        /// [`SecurityModule::inode_removexattr`]
        const INODE_REMOVEXATTR = 1 << 35;
        /// [`SecurityModule::inode_set_acl`]
        const INODE_SET_ACL = 1 << 36;
        /// [`SecurityModule::inode_get_acl`]
        const INODE_GET_ACL = 1 << 37;
        /// [`SecurityModule::inode_remove_acl`]
        const INODE_REMOVE_ACL = 1 << 38;
    }
}

/// A place as a module sees it: a mount and a dentry, held for the length of the question. Linux: `struct path`.
pub struct PathRef<'a> {
    vfs: &'a Vfs,
    held: Held<'a>,
}

/// Who is asked about a place takes no count of it: to give one back would be use of its mount, which `MNT_EXPIRE` sees.
enum Held<'a> {
    Asked(&'a HeldPath<'a>),
    Parent(Quiet<'a>),
}

/// A place that is given back without use of its mount.
struct Quiet<'a>(Option<HeldPath<'a>>);

impl<'a> Quiet<'a> {
    /// Takes over the caller's counts.
    fn new(vfs: &'a Vfs, mnt: MountId, dentry: DentryId) -> Self {
        Self(Some(HeldPath::new(vfs, mnt, dentry)))
    }

    fn held(&self) -> &HeldPath<'a> {
        self.0.as_ref().expect("it is held until it is dropped")
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.vfs().put_no_expire(held);
        }
    }
}

impl<'a> PathRef<'a> {
    pub(crate) fn of(vfs: &'a Vfs, path: &'a HeldPath<'a>) -> Self {
        Self { vfs, held: Held::Asked(path) }
    }

    fn held(&self) -> &HeldPath<'a> {
        match &self.held {
            Held::Asked(held) => held,
            Held::Parent(quiet) => quiet.held(),
        }
    }

    /// The inode.
    pub fn inode(&self) -> InodeRef<'a> {
        self.held().inode_ref()
    }

    /// The device of its file system: with the inode's number it tells which file it is.
    pub fn dev(&self) -> Dev {
        self.held().sb().dev
    }

    /// The unique number of its mount, as statx(2) gives it with `STATX_MNT_ID_UNIQUE`.
    pub fn mount_id(&self) -> u64 {
        self.held().mount().unique_id.get()
    }

    /// The directory above, out of mounts, whatever the task's root is; none above the root of all, or of a tree that hangs
    /// nowhere. Linux: `follow_up`, `dget_parent`.
    #[must_use]
    pub fn parent(&self) -> Option<PathRef<'a>> {
        let vfs = self.vfs;
        let mut above: Option<Quiet<'a>> = None;
        loop {
            let at = above.as_ref().map_or(self.held(), Quiet::held);
            if at.mount().root.get() != at.dentry().0 {
                break;
            }
            let (mnt, dentry) = vfs.hold_mountpoint(at.mnt())?;
            above = Some(Quiet::new(vfs, mnt, dentry));
        }
        let at = above.as_ref().map_or(self.held(), Quiet::held);
        if at.slot().is(IS_ROOT) {
            return None;
        }
        vfs.mntget(at.mnt());
        let parent = vfs.dget_parent(at.dentry());
        Some(Self { vfs, held: Held::Parent(Quiet::new(vfs, at.mnt(), parent)) })
    }
}

impl std::fmt::Debug for PathRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathRef")
            .field("dev", &self.dev())
            .field("ino", &self.inode().attr().ino)
            .finish_non_exhaustive()
    }
}

/// A name in a directory and what it stands for. Linux: a `struct path` and a dentry.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The directory.
    pub dir: PathRef<'a>,
    /// The name.
    pub name: &'a [u8],
    /// What it stands for; none where it is to be made.
    pub inode: Option<InodeRef<'a>>,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(vfs: &'a Vfs, parent: &'a Parent<'_>, inode: Option<InodeId>) -> Self {
        let inode = inode.map(|inode| vfs.inode_ref(inode));
        Self { dir: PathRef::of(vfs, &parent.dir), name: parent.name(), inode }
    }
}

/// What is to be changed of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAttr {
    /// The permission bits.
    Mode(u32),
    /// Owner and group; `None` stays.
    Owner(Option<u32>, Option<u32>),
    /// Times of last access and change.
    Times(SetTime, SetTime),
    /// The size.
    Size(u64),
}

macro_rules! hooks {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        /// A module that is asked before something is done.
        ///
        /// It is asked only what its [`SecurityModule::hooks`] say. It may look at what it is handed, and must not call the
        /// machine: names are reserved meanwhile. `who.security` is its own word in the credentials of the task.
        ///
        /// # Errors
        ///
        /// Of every hook: what the call is to answer.
        pub trait SecurityModule: Send + Sync + 'static {
            /// What it wants to be asked; asked once, when it is registered.
            fn hooks(&self) -> Hooks;

            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// What the call is to answer.
                fn $name(&self, who: &Subject<'_>, $($arg: $type),*) -> Result<()> {
                    let _ = (who, $(&$arg),*);
                    Ok(())
                }
            )*

            /// A file is to be opened, not by `O_PATH`. The answer is a word that is kept with the open file, for
            /// [`SecurityModule::file_truncate`].
            ///
            /// # Errors
            ///
            /// What the call is to answer.
            fn file_open(
                &self,
                who: &Subject<'_>,
                file: &PathRef<'_>,
                flags: OpenFlags,
            ) -> Result<u64> {
                let _ = (who, file, flags);
                Ok(0)
            }
        }
    };
}

hooks! {
    /// An inode is to be used so; without a bit, it is only asked whether it may be looked at.
    fn inode_permission(inode: InodeRef<'_>, access: Access);
    /// A symlink is to be followed.
    fn inode_follow_link(link: InodeRef<'_>);
    /// A symlink is to be read.
    fn inode_readlink(link: InodeRef<'_>);
    /// Somebody asks about a file.
    fn inode_getattr(file: &PathRef<'_>);
    /// Attributes are to be changed by a call. Of set-id bits that a write takes away it is not asked.
    fn inode_setattr(file: &PathRef<'_>, to: SetAttr);
    /// A regular file is to be made.
    fn inode_create(at: &Entry<'_>, mode: u32);
    /// A directory is to be made.
    fn inode_mkdir(at: &Entry<'_>, mode: u32);
    /// A fifo, a socket or a device is to be made.
    fn inode_mknod(at: &Entry<'_>, mode: u32, dev: Dev);
    /// A symlink is to be made.
    fn inode_symlink(at: &Entry<'_>, body: &[u8]);
    /// A file is to get one more name.
    fn inode_link(old: InodeRef<'_>, new: &Entry<'_>);
    /// A name is to be taken from what is no directory.
    fn inode_unlink(at: &Entry<'_>);
    /// A directory is to be removed.
    fn inode_rmdir(at: &Entry<'_>);
    /// A file is to get another name. Of an exchange it is asked twice.
    fn inode_rename(old: &Entry<'_>, new: &Entry<'_>);
    /// A directory is to be made.
    fn path_mkdir(at: &Entry<'_>, mode: u32);
    /// A file is to be made that is no directory and no symlink; by open too. The mode has its type.
    fn path_mknod(at: &Entry<'_>, mode: u32, dev: Dev);
    /// A symlink is to be made.
    fn path_symlink(at: &Entry<'_>, body: &[u8]);
    /// A file is to get one more name.
    fn path_link(old: &PathRef<'_>, new: &Entry<'_>);
    /// A name is to be taken from what is no directory, or is to be found to be one.
    fn path_unlink(at: &Entry<'_>);
    /// A directory is to be removed.
    fn path_rmdir(at: &Entry<'_>);
    /// A file is to get another name.
    fn path_rename(old: &Entry<'_>, new: &Entry<'_>, flags: RenameFlags);
    /// The size is to be set: truncate(2).
    fn path_truncate(file: &PathRef<'_>);
    /// Permission bits are to be changed.
    fn path_chmod(file: &PathRef<'_>, mode: u32);
    /// Owner or group are to be changed.
    fn path_chown(file: &PathRef<'_>, uid: Option<u32>, gid: Option<u32>);
    /// A task is to get another root.
    fn path_chroot(root: &PathRef<'_>);
    /// mount(2) is to do what the flags say at a place: mount a file system, show there what `source` leads to, move it there,
    /// or change what is mounted there.
    fn sb_mount(source: &[u8], at: &PathRef<'_>, flags: MountFlags);
    /// What is mounted at a place, whose root this is, is to be taken away.
    fn sb_umount(root: &PathRef<'_>, flags: UmountFlags);
    /// The flags of the file system are to be changed whose root, or part, this is: mount(2) with `MS_REMOUNT` and without
    /// `MS_BIND`, and umount(2) of the caller's root.
    fn sb_remount(root: &PathRef<'_>, flags: MountFlags);
    /// The root mount is to move to `put_old`, and `new_root` into its place.
    fn sb_pivotroot(put_old: &PathRef<'_>, new_root: &PathRef<'_>);
    /// A mount is to be moved, or a tree that hangs nowhere hung up: move_mount(2).
    fn move_mount(from: &PathRef<'_>, to: &PathRef<'_>);
    /// An extended attribute is to be set.
    fn inode_setxattr(file: &PathRef<'_>, name: &[u8], value: &[u8], flags: XattrFlags);
    /// An extended attribute is to be told.
    fn inode_getxattr(file: &PathRef<'_>, name: &[u8]);
    /// The names of extended attributes are to be told.
    fn inode_listxattr(file: &PathRef<'_>);
    /// An extended attribute is to be removed.
    fn inode_removexattr(file: &PathRef<'_>, name: &[u8]);
    /// An ACL is to be set.
    fn inode_set_acl(file: &PathRef<'_>, kind: AclKind, acl: &[AclEntry]);
    /// An ACL is to be told.
    fn inode_get_acl(file: &PathRef<'_>, kind: AclKind);
    /// An ACL is to be removed.
    fn inode_remove_acl(file: &PathRef<'_>, kind: AclKind);
    /// A file is to be watched.
    fn path_notify(file: &PathRef<'_>);
    /// The size is to be set: ftruncate(2) and `O_TRUNC`. `word` is what `file_open` answered.
    fn file_truncate(file: &PathRef<'_>, word: u64);
}

/// The module of a machine, and what it wants.
#[derive(Default)]
pub(crate) struct Security {
    hooks: Cell64,
    module: OnceLock<Arc<dyn SecurityModule>>,
}

impl Security {
    /// Whether somebody wants to be asked in walks.
    #[inline(always)]
    pub(crate) fn asks_in_walks(&self) -> bool {
        self.hooks.get() & Hooks::WALK.bits() != 0
    }
}

impl Vfs {
    /// Registers a module, for good.
    ///
    /// Calls that begin after this are asked about; of those under way some.
    ///
    /// # Errors
    ///
    /// `EBUSY`: there is one.
    pub fn register_security(&self, module: Arc<dyn SecurityModule>) -> Result<()> {
        let hooks = module.hooks();
        self.security.module.set(module).map_err(|_| Errno::EBUSY)?;
        self.security.hooks.set(hooks.bits());
        if self.security.asks_in_walks() {
            self.take_search_all();
        }
        Ok(())
    }

    /// Takes SEARCH_ALL from all directories; whoever gives flags from now on sees that it is not to be given.
    ///
    /// Who gave it did so under the dentry's lock: either before we took that, and we see it, or after, and then it
    /// saw what is wanted. A slot that was never in use when the count was read is given out after. A free slot may be locked
    /// too.
    fn take_search_all(&self) {
        // Under the arena's locks: a slot that is not counted is given out later.
        let _ = self.dentries.in_use();
        for id in 1..=self.dentries.high_water() {
            let dentry = self.dentry(DentryId(id));
            // One without memory is given out later, too, and need not get any for this.
            if dentry.seq.is(Sample::NONE) {
                continue;
            }
            let _guard = dentry.lockref.lock(lock::DENTRY);
            let flags = dentry.flags.get();
            // Who frees a dead one changes it without the lock.
            if flags & SEARCH_ALL != 0 && !dentry.lockref.is_dead() {
                // Every walk and every memo that believes the old flags finds the count moved.
                let _change = dentry.seq.change();
                dentry.flags.set(flags & !SEARCH_ALL);
            }
        }
    }

    /// Whether there is a module that wants to be asked this.
    #[inline]
    pub(crate) fn asks(&self, hook: Hooks) -> bool {
        self.security.hooks.get() & hook.bits() != 0
    }

    /// Asks the module, if there is one that wants to be asked this. The rename mutex may be held.
    ///
    /// # Errors
    ///
    /// What it answers.
    #[inline]
    pub(crate) fn ask<T: Default>(
        &self,
        hook: Hooks,
        question: impl FnOnce(&dyn SecurityModule) -> Result<T>,
    ) -> Result<T> {
        if !self.asks(hook) {
            return Ok(T::default());
        }
        self.security.module.get().map_or(Ok(T::default()), |module| question(&**module))
    }
}

impl Vfs {
    /// Asks whether attributes may be changed, before it is asked whose file it is.
    ///
    /// # Errors
    ///
    /// What the module answers.
    pub(crate) fn security_inode_setattr(
        &self,
        held: &HeldPath<'_>,
        who: &Subject<'_>,
        to: SetAttr,
    ) -> Result<()> {
        self.ask(Hooks::INODE_SETATTR, |module| {
            module.inode_setattr(who, &PathRef::of(self, held), to)
        })
    }
}

/// Making a file: which hook is asked depends on its type.
impl Vfs {
    /// Asked before permission is.
    pub(crate) fn security_path_make(
        &self,
        who: &Subject<'_>,
        parent: &Parent<'_>,
        make: &Make<'_>,
        umask: u32,
    ) -> Result<()> {
        let entry = || Entry::of(self, parent, None);
        let mode = make.file_type.to_mode() | make.mode & !umask;
        match make.file_type {
            FileType::Directory => {
                self.ask(Hooks::PATH_MKDIR, |module| module.path_mkdir(who, &entry(), mode))
            }
            FileType::Symlink => self
                .ask(Hooks::PATH_SYMLINK, |module| module.path_symlink(who, &entry(), make.body)),
            _ => self
                .ask(Hooks::PATH_MKNOD, |module| module.path_mknod(who, &entry(), mode, make.rdev)),
        }
    }

    /// Asked after permission is.
    pub(crate) fn security_inode_make(
        &self,
        who: &Subject<'_>,
        parent: &Parent<'_>,
        make: &Make<'_>,
        umask: u32,
    ) -> Result<()> {
        let entry = || Entry::of(self, parent, None);
        let mode = make.file_type.to_mode() | make.mode & !umask;
        match make.file_type {
            FileType::Directory => {
                self.ask(Hooks::INODE_MKDIR, |module| module.inode_mkdir(who, &entry(), mode))
            }
            FileType::Symlink => self
                .ask(Hooks::INODE_SYMLINK, |module| module.inode_symlink(who, &entry(), make.body)),
            FileType::Regular => {
                self.ask(Hooks::INODE_CREATE, |module| module.inode_create(who, &entry(), mode))
            }
            _ => self.ask(Hooks::INODE_MKNOD, |module| {
                module.inode_mknod(who, &entry(), mode, make.rdev)
            }),
        }
    }
}
