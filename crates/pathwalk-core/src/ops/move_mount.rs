//! open_tree, move_mount.
//!
//! Linux: `SYSCALL_DEFINE3(open_tree)`, `SYSCALL_DEFINE5(move_mount)`.

use crate::{
    file::File,
    mount::graft::Side,
    security::{Hooks, PathRef},
    task::{At, Task},
    walk::{Lookup, lookup::keep},
};
use pathwalk_abi::{CapSet, Errno, MoveMountFlags, OpenFlags, OpenTreeFlags, Result};

impl Task {
    /// `open_tree(dir, path, flags)`: opens a place as with `O_PATH` or, with `OPEN_TREE_CLONE`, a copy of what is mounted
    /// there, which hangs nowhere. open_tree(2)
    ///
    /// The copy can be hung up by [`Task::move_mount`]; if it was not, it goes when the file is closed.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: an unknown flag, or `AT_RECURSIVE` without `OPEN_TREE_CLONE`.
    /// - `EPERM`: a copy without `CAP_SYS_ADMIN`.
    /// - those of the lookup.
    /// - `EINVAL`: what is to be copied lies in another mount namespace, was unmounted, or may not be bound; or something locked is
    ///   mounted in it that is not to be copied. `EPERM`: it is, and may not be bound.
    /// - `ENOSPC`: there are as many mounts as there may be.
    pub fn open_tree<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: OpenTreeFlags,
    ) -> Result<File> {
        let (all, copy) =
            (flags.contains(OpenTreeFlags::RECURSIVE), flags.contains(OpenTreeFlags::CLONE));
        if flags.bits() & !OpenTreeFlags::all().bits() != 0 || all && !copy {
            return Err(Errno::EINVAL);
        }
        if copy {
            self.must_have(CapSet::SYS_ADMIN)?;
        }
        let mut lookup = Lookup::empty();
        lookup.set(Lookup::FOLLOW, !flags.contains(OpenTreeFlags::SYMLINK_NOFOLLOW));
        lookup.set(Lookup::EMPTY, flags.contains(OpenTreeFlags::EMPTY_PATH));
        lookup.set(Lookup::AUTOMOUNT, !flags.contains(OpenTreeFlags::NO_AUTOMOUNT));
        let held = keep(&self.request(dir.into(), path.as_ref(), lookup)?)?;
        if !copy {
            return Ok(File::new(&self.anchor, held, OpenFlags::PATH));
        }
        let root = self.vfs().detached_copy(&held, self.mount_namespace().ns(), all)?;
        Ok(File::new_tree(&self.anchor, root))
    }

    /// `move_mount(from_dir, from, to_dir, to, flags)`: moves a mount, or hangs up a copy that hangs nowhere. move_mount(2)
    ///
    /// # Errors
    ///
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - `EINVAL`: an unknown flag, or `MOVE_MOUNT_BENEATH` with `MOVE_MOUNT_SET_GROUP`.
    /// - those of the lookup of the target, then of the source.
    /// - those of `MS_MOVE`, see [`Task::mount_tree`].
    /// - `EINVAL`: with `MOVE_MOUNT_BENEATH`: the target is no mount's root, is the task's root, hangs in the mount at the
    ///   bottom, is locked, or lies above the source; or something covers the source; or the mount would also be propagated onto the
    ///   target.
    /// - `EINVAL`: with `MOVE_MOUNT_SET_GROUP`: one of the two is no mount's root, or was unmounted; they are of different file
    ///   systems; the target shows what the source does not, or what something locked covers there; the target takes part in propagation already, or the source
    ///   does not.
    pub fn move_mount<'a, 'b>(
        &self,
        from_dir: impl Into<At<'a>>,
        from: impl AsRef<[u8]>,
        to_dir: impl Into<At<'b>>,
        to: impl AsRef<[u8]>,
        flags: MoveMountFlags,
    ) -> Result<()> {
        self.must_have(CapSet::SYS_ADMIN)?;
        let both = MoveMountFlags::BENEATH | MoveMountFlags::SET_GROUP;
        if flags.bits() & !MoveMountFlags::all().bits() != 0 || flags.contains(both) {
            return Err(Errno::EINVAL);
        }
        let lookup = |follow, automount, empty| {
            let mut lookup = Lookup::empty();
            lookup.set(Lookup::FOLLOW, flags.contains(follow));
            lookup.set(Lookup::AUTOMOUNT, flags.contains(automount));
            lookup.set(Lookup::EMPTY, flags.contains(empty));
            lookup
        };
        let (to_dir, from_dir) = (to_dir.into(), from_dir.into());
        let follow = lookup(
            MoveMountFlags::T_SYMLINKS,
            MoveMountFlags::T_AUTOMOUNTS,
            MoveMountFlags::T_EMPTY_PATH,
        );
        let to = keep(&self.request(to_dir, to.as_ref(), follow)?)?;
        let follow = lookup(
            MoveMountFlags::F_SYMLINKS,
            MoveMountFlags::F_AUTOMOUNTS,
            MoveMountFlags::F_EMPTY_PATH,
        );
        let from = keep(&self.request(from_dir, from.as_ref(), follow)?)?;
        let vfs = self.vfs();
        vfs.ask(Hooks::MOVE_MOUNT, |module| {
            let (from, to) = (PathRef::of(vfs, &from), PathRef::of(vfs, &to));
            module.move_mount(&self.cred.subject(), &from, &to)
        })?;
        if flags.contains(MoveMountFlags::SET_GROUP) {
            return vfs.set_group(&from, &to);
        }
        let side =
            if flags.contains(MoveMountFlags::BENEATH) { Side::Beneath } else { Side::OnTop };
        self.do_move_mount(&from, &to, side)
    }
}
