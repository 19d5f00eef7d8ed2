//! mount, bind mounts, umount2.
//!
//! Linux: `path_mount`, `do_loopback`, `path_umount`.

use crate::{
    fs::FileSystem,
    mount::{MntFlags, MountId},
    security::{Hooks, PathRef},
    task::{At, Task},
    walk::{HeldPath, Lookup, ladder::keep},
};
use pathwalk_abi::{CapSet, Errno, MountFlags, PATH_MAX, Result, UmountFlags};
use std::sync::Arc;

impl Task {
    /// `mount(fs, path, flags)`: mounts a file system on a path. mount(2)
    ///
    /// Of the flags it knows `MS_RDONLY`, `MS_NOSUID`, `MS_NODEV`, `MS_NOEXEC`, `MS_NOSYMFOLLOW` and those about times of
    /// last access.
    ///
    /// # Errors
    ///
    /// - those of the lookup.
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - `EINVAL`: another flag.
    /// - whatever keeps the file system from being mounted.
    /// - `ENOENT`: the mountpoint was removed, or lies in a mount that was unmounted.
    /// - `ENOTDIR`: the mountpoint is no directory.
    /// - `ENOSPC`, `ENOMEM`: there is no room for one more mount.
    pub fn mount(
        &self,
        fs: Arc<dyn FileSystem>,
        path: impl AsRef<[u8]>,
        flags: MountFlags,
    ) -> Result<()> {
        let at = self.mountpoint(path.as_ref())?;
        if !KNOWN.contains(flags) {
            return Err(Errno::EINVAL);
        }
        let id = self.vfs().new_mount(fs, flags)?;
        self.hang(id, &at)
    }

    /// `bind(source, path)`: shows a directory or file at another path too: mount(2) with `MS_BIND`.
    ///
    /// What is mounted below the source is not shown.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the source has more than 4095 bytes.
    /// - those of the lookup of the path.
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - `EINVAL`: the source is empty; else those of its lookup.
    /// - `ENOENT`: the mountpoint lies in a mount that was unmounted. `EINVAL`: the source does.
    /// - `ENOENT`: the mountpoint was removed.
    /// - `ENOTDIR`: one is a directory and the other is not.
    /// - `ENOSPC`: there is no room for one more mount.
    pub fn bind(&self, source: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let source = source.as_ref();
        // mount(2) takes its source for a string of any kind, whose length it checks before all else.
        if source.len() >= PATH_MAX {
            return Err(Errno::EINVAL);
        }
        let at = self.mountpoint(path.as_ref())?;
        if source.is_empty() {
            return Err(Errno::EINVAL);
        }
        let source = keep(&self.request(At::Cwd, source, Lookup::FOLLOW)?)?;
        let vfs = self.vfs();
        if at.mnt_flags().contains(MntFlags::DETACHED) {
            return Err(Errno::ENOENT);
        }
        if source.mnt_flags().contains(MntFlags::DETACHED) {
            return Err(Errno::EINVAL);
        }
        vfs.dget(source.dentry());
        let flags = source.mnt_flags().difference(MntFlags::SB_RDONLY);
        let sb = source.slot().sb.get();
        let id = vfs
            .mount_alloc(sb, source.dentry(), flags)
            .inspect_err(|_| vfs.dput(source.dentry()))?;
        self.hang(id, &at)
    }

    /// `umount2(path, flags)`: takes away what is mounted at a path. umount(2)
    ///
    /// With `MNT_DETACH` it goes at once, with all below it, and who uses it goes on to; else only if nobody does.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `MNT_DETACH` and `UMOUNT_NOFOLLOW`.
    /// - those of the lookup.
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - `EINVAL`: nothing is mounted there, or it is the root of the tree.
    /// - `EBUSY`: somebody uses it, or something is mounted in it.
    pub fn umount2(&self, path: impl AsRef<[u8]>, flags: UmountFlags) -> Result<()> {
        const KNOWN: UmountFlags = UmountFlags::DETACH.union(UmountFlags::NOFOLLOW);
        if !KNOWN.contains(flags) {
            return Err(Errno::EINVAL);
        }
        let mut lookup = Lookup::empty();
        lookup.set(Lookup::FOLLOW, !flags.contains(UmountFlags::NOFOLLOW));
        let mut held = keep(&self.request(At::Cwd, path.as_ref(), lookup)?)?;
        // `.` and `/` are places below what was mounted on them since: the topmost is meant.
        while let Some((mnt, root)) = self.vfs().lookup_mnt(held.mnt(), held.dentry()) {
            held = HeldPath::new(self.vfs(), mnt, root);
        }
        self.may_mount()?;
        if held.mount().root.get() != held.dentry().0 {
            return Err(Errno::EINVAL);
        }
        let vfs = self.vfs();
        vfs.ask(Hooks::SB_UMOUNT, |module| {
            module.sb_umount(&self.cred.subject(), &PathRef::of(vfs, &held))
        })?;
        vfs.detach(held.mnt(), flags.contains(UmountFlags::DETACH))
    }

    fn mountpoint<'a>(&'a self, path: &'a [u8]) -> Result<HeldPath<'a>> {
        let at = keep(&self.request(At::Cwd, path, Lookup::FOLLOW)?)?;
        let vfs = self.vfs();
        vfs.ask(Hooks::SB_MOUNT, |module| {
            module.sb_mount(&self.cred.subject(), &PathRef::of(vfs, &at))
        })?;
        self.may_mount()?;
        Ok(at)
    }

    fn may_mount(&self) -> Result<()> {
        if self.cred.subject().capable(CapSet::SYS_ADMIN) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Hangs a new mount up, or drops it.
    fn hang(&self, id: MountId, at: &HeldPath<'_>) -> Result<()> {
        let vfs = self.vfs();
        match vfs.attach(id, at) {
            Ok(()) => {
                vfs.mntput(id);
                Ok(())
            }
            Err(errno) => {
                vfs.mount_abandon(id);
                Err(errno)
            }
        }
    }
}

/// What a new mount knows of mount(2)'s flags.
const KNOWN: MountFlags = MountFlags::RDONLY
    .union(MountFlags::NOSUID)
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOSYMFOLLOW)
    .union(MountFlags::NOATIME)
    .union(MountFlags::NODIRATIME)
    .union(MountFlags::RELATIME)
    .union(MountFlags::STRICTATIME)
    .union(MountFlags::SILENT);
