//! mount and umount2, and pivot_root.
//!
//! Linux: `path_mount`, `do_new_mount`, `do_loopback`, `do_move_mount_old`, `do_change_type`, `path_umount`,
//! `SYSCALL_DEFINE2(pivot_root)`.

use crate::{
    dcache::MOUNTED,
    fs::FileSystem,
    mount::{MntFlags, graft::Side, propagate::Propagation},
    security::{Hooks, PathRef},
    task::{At, Task},
    walk::{HeldPath, Lookup, lookup::keep},
};
use pathwalk_abi::{CapSet, Errno, MountFlags, PATH_MAX, Result, UmountFlags};
use std::sync::Arc;

/// What is to be mounted.
enum What<'s> {
    /// A file system.
    New(Arc<dyn FileSystem>),
    /// What a path leads to.
    Source(Whither<'s>),
}

/// A path and where it begins: at a directory, which it means itself if it is empty.
#[derive(Clone, Copy)]
struct Whither<'s> {
    dir: At<'s>,
    path: &'s [u8],
}

impl Whither<'_> {
    fn is_nothing(self) -> bool {
        let given = self.dir.dir().is_some() || matches!(self.dir, At::Nowhere(_));
        self.path.is_empty() && !given
    }

    fn lookup(self, mut lookup: Lookup) -> Lookup {
        lookup.set(Lookup::EMPTY, self.dir.dir().is_some());
        lookup
    }
}

impl What<'_> {
    /// Where the source is looked up.
    fn source(&self) -> Whither<'_> {
        match self {
            Self::New(fs) => Whither { dir: At::Cwd, path: fs.source() },
            Self::Source(source) => *source,
        }
    }

    /// The source as a path.
    fn path(&self) -> &[u8] {
        match self {
            Self::New(fs) => fs.source(),
            Self::Source(source) => source.path,
        }
    }
}

/// The kernel's own, which no user may set: 1 << 31, and with it, as the sign of an `int`, all above.
const MS_NOUSER: u64 = !0 << 31;
/// The upper half of an `int` of flags, which once had to say that the call is of the new kind.
const MS_MGC_MSK: u64 = 0xffff_0000;
/// What such a call can say beside that.
const MS_OLD: u64 = 0xffff;
/// What it said.
const MS_MGC_VAL: u64 = 0xc0ed_0000;

impl Task {
    /// `mount(source, path, type, flags)`: mounts a file system on a path. mount(2)
    ///
    /// With `MS_REMOUNT`, `MS_BIND`, `MS_MOVE` or a type of propagation it does what [`Task::mount_tree`] does, with the
    /// file system's source as the path that one takes. Other flags that nobody knows are ignored, as mount(2) does.
    ///
    /// # Errors
    ///
    /// - those of the lookup.
    /// - `EINVAL`: a flag from 1 << 31 on.
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - whatever keeps the file system from being mounted.
    /// - `ENOENT`: the mountpoint was removed, or lies in a mount that was unmounted.
    /// - `EINVAL`: it lies in another mount namespace.
    /// - `ENOTDIR`: it is no directory.
    /// - `ENOSPC`, `ENOMEM`: there is no room for one more mount.
    pub fn mount(
        &self,
        fs: Arc<dyn FileSystem>,
        path: impl AsRef<[u8]>,
        flags: MountFlags,
    ) -> Result<()> {
        self.mountat(fs, At::Cwd, path, flags)
    }

    /// `mountat(fs, dir, path, flags)`: mounts a file system. Linux has no such call: it is [`Task::mount`] on a path
    /// from a directory, or within bounds.
    ///
    /// With an open file an empty path means the file itself, as with `AT_EMPTY_PATH`: it is not looked up again.
    ///
    /// # Errors
    ///
    /// As [`Task::mount`].
    pub fn mountat<'a>(
        &self,
        fs: Arc<dyn FileSystem>,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: MountFlags,
    ) -> Result<()> {
        let to = Whither { dir: dir.into(), path: path.as_ref() };
        self.path_mount(What::New(fs), to, flags)
    }

    /// `mount(source, path, NULL, flags)`: changes what is mounted: mount(2) with a flag that says how.
    ///
    /// | flags | what happens at `path` |
    /// |---|---|
    /// | `MS_REMOUNT` with `MS_BIND` | the flags of the mount change |
    /// | `MS_REMOUNT` | the flags of the file system change, and those of the mount |
    /// | `MS_BIND` | `source` is shown there too; with `MS_REC`, with all that is mounted below it |
    /// | `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE` | the propagation changes; with `MS_REC`, of all below it too |
    /// | `MS_MOVE` | what is mounted at `source` moves there |
    ///
    /// The first that is given is done.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the source has more than 4095 bytes.
    /// - those of the lookup of the path.
    /// - `EINVAL`: a flag from 1 << 31 on. `EPERM`: without `CAP_SYS_ADMIN`.
    ///
    /// Remounting: `EINVAL`: the path is no mount's root, or lies in another mount namespace; `EPERM`: a locked flag of the mount
    /// would change: see [`Task::unshare_mounts_less_privileged`]; `EBUSY`: it would become read-only, and files are open for
    /// writing there.
    ///
    /// Binding: `EINVAL`: the source is empty; those of its lookup; `ENOENT`: the path was removed, or lies in a mount that
    /// was unmounted; `EINVAL`: one of the two lies in another mount namespace, or the source may not be bound, or something
    /// locked is mounted in it that would not be shown; `EPERM`: with `MS_REC`: that may not be bound; `ENOTDIR`: one is a directory
    /// and the other is not; `ENOENT`: the source was removed; `ENOSPC`: there is no room.
    ///
    /// Propagation: `EINVAL`: several types, or another flag beside them; the path is no mount's root, or was unmounted.
    ///
    /// Moving: `EINVAL`: the source is empty; those of its lookup; `EINVAL`: it is no mount's root, or one is a directory and
    /// the other is not; `ENOENT`: the path was removed; `EINVAL`: one of the two lies in another mount namespace, the source
    /// is at the bottom, locked or in a shared mount, or has unbindable mounts and the path is shared; `ELOOP`: the path lies in the
    /// source.
    ///
    /// Else: `EINVAL`: a new mount has a type.
    pub fn mount_tree(
        &self,
        source: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
        flags: MountFlags,
    ) -> Result<()> {
        self.mount_treeat(At::Cwd, source, At::Cwd, path, flags)
    }

    /// `mount_treeat(source_dir, source, dir, path, flags)`: changes what is mounted. Linux has no such call: it is [`Task::mount_tree`] of paths
    /// from directories, or within bounds.
    ///
    /// With an open file an empty path means the file itself, as with `AT_EMPTY_PATH`: it is not looked up again.
    ///
    /// # Errors
    ///
    /// As [`Task::mount_tree`].
    pub fn mount_treeat<'a>(
        &self,
        source_dir: impl Into<At<'a>>,
        source: impl AsRef<[u8]>,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: MountFlags,
    ) -> Result<()> {
        let source = source.as_ref();
        // mount(2) takes its source for a string of any kind, whose length it checks before all else.
        if source.len() >= PATH_MAX {
            return Err(Errno::EINVAL);
        }
        let source = Whither { dir: source_dir.into(), path: source };
        let to = Whither { dir: dir.into(), path: path.as_ref() };
        self.path_mount(What::Source(source), to, flags)
    }

    /// `bind(source, path)`: shows a directory or file at another path too: mount(2) with `MS_BIND`.
    ///
    /// What is mounted below the source is not shown.
    ///
    /// # Errors
    ///
    /// As [`Task::mount_tree`].
    pub fn bind(&self, source: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.mount_tree(source, path, MountFlags::BIND)
    }

    /// Linux: `path_mount`.
    fn path_mount(&self, what: What<'_>, to: Whither<'_>, flags: MountFlags) -> Result<()> {
        let at =
            keep(&self.request(to.dir, to.path, to.lookup(Lookup::FOLLOW | Lookup::MOVES))?)?;
        let mut bits = flags.bits();
        if bits & MS_MGC_MSK == MS_MGC_VAL {
            bits &= MS_OLD;
        }
        if bits & MS_NOUSER != 0 {
            return Err(Errno::EINVAL);
        }
        let ms = MountFlags::from_bits_retain(bits);
        let vfs = self.vfs();
        vfs.ask(Hooks::SB_MOUNT, |module| {
            module.sb_mount(&self.cred.subject(), what.path(), &PathRef::of(vfs, &at), ms)
        })?;
        self.must_have(CapSet::SYS_ADMIN)?;
        if ms.contains(MountFlags::REMOUNT) {
            self.do_remount(&at, ms)
        } else if ms.contains(MountFlags::BIND) {
            self.do_loopback(what.source(), &at, ms)
        } else if ms.intersects(Propagation::FLAGS) {
            self.do_change_type(&at, ms)
        } else if ms.contains(MountFlags::MOVE) {
            self.do_move_mount_old(what.source(), &at)
        } else {
            self.do_new_mount(what, &at, ms)
        }
    }

    fn do_new_mount(&self, what: What<'_>, at: &HeldPath<'_>, ms: MountFlags) -> Result<()> {
        let What::New(fs) = what else { return Err(Errno::EINVAL) };
        let vfs = self.vfs();
        let new = vfs.new_superblock(&self.cred.subject(), fs, ms)?;
        vfs.do_add_mount(new, at, self.mount_namespace().ns())
    }

    /// Linux: `do_remount`, `do_reconfigure_mnt`.
    fn do_remount(&self, at: &HeldPath<'_>, ms: MountFlags) -> Result<()> {
        if !self.is_ours(at) || !at.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        let mut flags = MntFlags::from_ms(ms);
        let says_atime = MountFlags::NOATIME
            | MountFlags::NODIRATIME
            | MountFlags::RELATIME
            | MountFlags::STRICTATIME;
        if !ms.intersects(says_atime) {
            flags = flags.difference(MntFlags::ATIME) | at.mnt_flags() & MntFlags::ATIME;
        }
        if ms.contains(MountFlags::BIND) {
            self.vfs().reconfigure_mnt(at, flags)
        } else {
            self.vfs().remount(at, ms, flags, &self.cred.subject())
        }
    }

    fn do_loopback(&self, source: Whither<'_>, at: &HeldPath<'_>, ms: MountFlags) -> Result<()> {
        if source.is_nothing() {
            return Err(Errno::EINVAL);
        }
        let lookup = source.lookup(Lookup::FOLLOW | Lookup::AUTOMOUNT);
        let source = keep(&self.request(source.dir, source.path, lookup)?)?;
        self.vfs().do_loopback(
            &source,
            at,
            self.mount_namespace().ns(),
            ms.contains(MountFlags::REC),
        )
    }

    fn do_change_type(&self, at: &HeldPath<'_>, ms: MountFlags) -> Result<()> {
        let propagation = Propagation::from_ms(ms).ok_or(Errno::EINVAL)?;
        if !at.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        self.vfs().do_change_type(at, propagation, ms.contains(MountFlags::REC))
    }

    fn do_move_mount_old(&self, source: Whither<'_>, at: &HeldPath<'_>) -> Result<()> {
        if source.is_nothing() {
            return Err(Errno::EINVAL);
        }
        let lookup = source.lookup(Lookup::FOLLOW);
        let source = keep(&self.request(source.dir, source.path, lookup)?)?;
        self.do_move_mount(&source, at, Side::OnTop)
    }

    /// `umount2(path, flags)`: takes away what is mounted at a path. umount(2)
    ///
    /// With `MNT_DETACH` it goes at once, with all below it, and who uses it goes on to; else only if nobody does. Where the
    /// mount that it hangs in is shared, what is mounted there in those who receive goes too. The mount of the task's own
    /// root is not taken away but made read-only, unless lazily.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: another flag than `MNT_FORCE`, `MNT_DETACH`, `MNT_EXPIRE` and `UMOUNT_NOFOLLOW`.
    /// - those of the lookup.
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - `EINVAL`: nothing is mounted there, it is the bottom of the tree, it lies in another mount namespace, or it is locked: see
    ///   [`Task::unshare_mounts_less_privileged`].
    /// - with `MNT_EXPIRE`: `EINVAL`: it is the task's root, or `MNT_FORCE` or `MNT_DETACH` is given; `EBUSY`: somebody uses it;
    ///   `EAGAIN`: somebody did since this was last asked, or it never was.
    /// - `EBUSY`: somebody uses it, or something is mounted in it. What is there by [`FileSystem::automount`] and unused is taken
    ///   down first, whatever the answer is; with `MNT_EXPIRE` and `MNT_DETACH` not.
    ///
    /// A file system that unmounts another while it is asked something itself: that one goes when the outer call ends.
    ///
    /// [`FileSystem::automount`]: crate::fs::FileSystem::automount
    pub fn umount2(&self, path: impl AsRef<[u8]>, flags: UmountFlags) -> Result<()> {
        self.umount2at(At::Cwd, path, flags)
    }

    /// `umount2at(dir, path, flags)`: takes away what is mounted at a path. Linux has no such call: it is [`Task::umount2`] from
    /// a directory, or within bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::umount2`]; `ENOENT`: the path is empty.
    pub fn umount2at<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: UmountFlags,
    ) -> Result<()> {
        if flags.bits() & !UmountFlags::all().bits() != 0 {
            return Err(Errno::EINVAL);
        }
        let mut lookup = Lookup::MOVES | Lookup::MOUNTPOINT;
        lookup.set(Lookup::FOLLOW, !flags.contains(UmountFlags::NOFOLLOW));
        let vfs = self.vfs();
        let work = vfs.task_work();
        let mut held = keep(&self.request(dir.into(), path.as_ref(), lookup)?)?;
        // `.` and `/` are places below what was mounted on them since: the topmost is meant.
        while held.slot().is(MOUNTED)
            && let Some((seen, root)) = vfs.lookup_mnt(held.mnt(), held.dentry())
        {
            held = HeldPath::new(vfs, seen.id, root);
        }
        let root = self.fs.sample_root(vfs).mnt;
        let may = || {
            self.must_have(CapSet::SYS_ADMIN)?;
            let locked = held.mnt_flags().contains(MntFlags::LOCKED);
            if !held.is_mount_root() || !self.is_ours(&held) || locked {
                return Err(Errno::EINVAL);
            }
            vfs.ask(Hooks::SB_UMOUNT, |module| {
                module.sb_umount(&self.cred.subject(), &PathRef::of(vfs, &held), flags)
            })
        };
        if let Err(errno) = may() {
            vfs.put_no_expire(held);
            return Err(errno);
        }
        vfs.do_umount(held, root, flags, &self.cred.subject(), &work)
    }

    /// `pivot_root(new_root, put_old)`: moves the task's root mount to `put_old` and `new_root` into its place. All tasks of
    /// the machine whose root or current directory was the old root go to the new one. pivot_root(2)
    ///
    /// # Errors
    ///
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - those of the lookup of the new root, then of the old root's place; `ENOTDIR`: one is no directory.
    /// - `ENOENT`: the old root's place was removed, or lies in a mount that was unmounted.
    /// - `EINVAL`: the mount of the old root's place is shared, or that which the new root or the root hangs in; the root or
    ///   the new root lies in another mount namespace; the new root is locked.
    /// - `ENOENT`: the new root was removed.
    /// - `EBUSY`: the new root, or the old root's place, is on the root mount.
    /// - `EINVAL`: the task's root or the new root is no mount's root, or at the bottom; the old root's place is not below
    ///   the new root; the new root is not below the root.
    pub fn pivot_root(&self, new_root: impl AsRef<[u8]>, put_old: impl AsRef<[u8]>) -> Result<()> {
        self.pivot_rootat(At::Cwd, new_root, At::Cwd, put_old)
    }

    /// `pivot_rootat(new_dir, new_root, old_dir, put_old)`: changes the root mount. Linux has no such call: it is [`Task::pivot_root`] of paths
    /// from directories, or within bounds.
    ///
    /// # Errors
    ///
    /// As [`Task::pivot_root`]; `ENOENT`: a path is empty.
    pub fn pivot_rootat<'a>(
        &self,
        new_dir: impl Into<At<'a>>,
        new_root: impl AsRef<[u8]>,
        old_dir: impl Into<At<'a>>,
        put_old: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.must_have(CapSet::SYS_ADMIN)?;
        let flags = Lookup::FOLLOW | Lookup::DIRECTORY;
        let new = keep(&self.request(new_dir.into(), new_root.as_ref(), flags)?)?;
        let old = keep(&self.request(old_dir.into(), put_old.as_ref(), flags)?)?;
        let vfs = self.vfs();
        vfs.ask(Hooks::SB_PIVOTROOT, |module| {
            let (old, new) = (PathRef::of(vfs, &old), PathRef::of(vfs, &new));
            module.sb_pivotroot(&self.cred.subject(), &old, &new)
        })?;
        let (mnt, dentry) = self.fs.hold_root(vfs);
        let root = HeldPath::new(vfs, mnt, dentry);
        vfs.pivot_root(&root, &new, &old, self.mount_namespace().ns())?;
        vfs.chroot_fs_refs(&root, &new);
        Ok(())
    }

    /// Whether a place lies in the task's mount namespace.
    ///
    /// Linux: `check_mnt`.
    pub(crate) fn is_ours(&self, at: &HeldPath<'_>) -> bool {
        at.mount().ns() == self.mount_namespace().ns()
    }
}
