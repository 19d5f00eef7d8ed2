//! mount_setattr, open_tree_attr.
//!
//! Linux: `SYSCALL_DEFINE5(mount_setattr)`, `SYSCALL_DEFINE5(open_tree_attr)`, `build_mount_kattr`.

use crate::{
    file::File,
    idmap::MountIdMap,
    mount::{MntFlags, propagate::Propagation},
    task::{At, Task},
    walk::{HeldPath, Lookup, lookup::keep},
};
use pathwalk_abi::{CapSet, Errno, MountAttrFlags, MountFlags, OpenTreeFlags, Result};
use std::sync::Arc;

/// What mount_setattr(2) is told: `struct mount_attr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountAttr {
    /// What to set.
    pub attr_set: MountAttrFlags,
    /// What to clear, before.
    pub attr_clr: MountAttrFlags,
    /// `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE`, or nothing.
    pub propagation: MountFlags,
    /// With `MOUNT_ATTR_IDMAP`, how the mount is to show owners. Linux has it from a user namespace, `userns_fd`.
    pub idmap: Option<Arc<MountIdMap>>,
}

/// What is cleared, and what is set then.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) set: MntFlags,
    pub(crate) clear: MntFlags,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) all: bool,
    pub(crate) idmap: ChangeIdmap,
    /// Whether a map that is there may be replaced, or taken away: nobody saw the mounts yet.
    pub(crate) replaces_idmap: bool,
}

impl Change {
    /// Whether owners come to be seen otherwise.
    pub(crate) fn maps(&self) -> bool {
        !matches!(self.idmap, ChangeIdmap::Keep)
    }
}

/// What becomes of the map of owners.
#[derive(Debug)]
pub(crate) enum ChangeIdmap {
    Keep,
    Clear,
    Set(Arc<MountIdMap>),
}

impl Task {
    /// `mount_setattr(dir, path, flags, attr)`: changes the flags of a mount and how it takes part in propagation; with
    /// `AT_RECURSIVE`, of all below it too, all or none. mount_setattr(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: an unknown flag.
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - nothing, where nothing is to be changed: the path is not even looked at.
    /// - `EINVAL`: several types of propagation, or something else; an attribute that there is not; a kind of access times
    ///   that is set without clearing all kinds; some of the kinds that are cleared.
    /// - `EINVAL`: a map is to be taken away, or one is to be set and none is given.
    /// - those of the lookup.
    /// - `EINVAL`: it is no mount's root; it lies in another mount namespace and is not the root of a tree that hangs nowhere.
    /// - `EPERM`: a locked flag would change: see [`Task::unshare_mounts_less_privileged`].
    /// - of a map, `EPERM`: the mount has one. `EINVAL`: the file system cannot, or the mount was ever seen in a namespace: only a
    ///   tree that open_tree(2) made and that hangs nowhere can get one.
    /// - `EBUSY`: one would become read-only or get a map, and files are open for writing through it.
    /// - `ENOMEM`: there is no room for the map.
    pub fn mount_setattr<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: OpenTreeFlags,
        attr: &MountAttr,
    ) -> Result<()> {
        const KNOWN: OpenTreeFlags = OpenTreeFlags::EMPTY_PATH
            .union(OpenTreeFlags::RECURSIVE)
            .union(OpenTreeFlags::SYMLINK_NOFOLLOW)
            .union(OpenTreeFlags::NO_AUTOMOUNT);
        if flags.bits() & !KNOWN.bits() != 0 {
            return Err(Errno::EINVAL);
        }
        self.must_have(CapSet::SYS_ADMIN)?;
        if attr.is_empty() {
            return Ok(());
        }
        let change = build(attr, flags.contains(OpenTreeFlags::RECURSIVE), false)?;
        let mut lookup = Lookup::empty();
        lookup.set(Lookup::FOLLOW, !flags.contains(OpenTreeFlags::SYMLINK_NOFOLLOW));
        lookup.set(Lookup::EMPTY, flags.contains(OpenTreeFlags::EMPTY_PATH));
        lookup.set(Lookup::AUTOMOUNT, !flags.contains(OpenTreeFlags::NO_AUTOMOUNT));
        let held = keep(&self.request(dir.into(), path.as_ref(), lookup)?)?;
        self.change_mount(&held, &change)
    }

    /// `open_tree_attr(dir, path, flags, attr)`: opens a tree as [`Task::open_tree`] does and changes it as
    /// [`Task::mount_setattr`] does, before anybody else sees it. open_tree(2), mount_setattr(2)
    ///
    /// Of a copy, and of nothing else, a map of owners can be replaced, or taken away by clearing `MOUNT_ATTR_IDMAP`.
    ///
    /// # Errors
    ///
    /// - those of [`Task::open_tree`].
    /// - `EPERM`: without `CAP_SYS_ADMIN`.
    /// - those of [`Task::mount_setattr`] behind that; nothing is opened then.
    pub fn open_tree_attr<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        flags: OpenTreeFlags,
        attr: &MountAttr,
    ) -> Result<File> {
        let file = self.open_tree(dir, path, flags)?;
        self.must_have(CapSet::SYS_ADMIN)?;
        if !attr.is_empty() {
            let all = flags.contains(OpenTreeFlags::RECURSIVE);
            let change = build(attr, all, flags.contains(OpenTreeFlags::CLONE))?;
            self.change_mount(&file.hold(), &change)?;
        }
        Ok(file)
    }

    fn change_mount(&self, at: &HeldPath<'_>, change: &Change) -> Result<()> {
        if !at.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        self.vfs().do_mount_setattr(at, self.mount_namespace().ns(), change)
    }
}

impl MountAttr {
    /// Whether nothing is to be changed.
    fn is_empty(&self) -> bool {
        self.attr_set.bits() | self.attr_clr.bits() | self.propagation.bits() == 0
    }
}

/// Linux: `build_mount_kattr`.
fn build(attr: &MountAttr, all: bool, replaces_idmap: bool) -> Result<Change> {
    let propagation = match attr.propagation.bits() {
        0 => None,
        _ if !Propagation::FLAGS.contains(attr.propagation) => return Err(Errno::EINVAL),
        _ => Some(Propagation::from_ms(attr.propagation).ok_or(Errno::EINVAL)?),
    };
    if (attr.attr_set | attr.attr_clr).bits() & !MountAttrFlags::all().bits() != 0 {
        return Err(Errno::EINVAL);
    }
    let (mut set, mut clear) = (flags_of(attr.attr_set), flags_of(attr.attr_clr));
    let kind = attr.attr_set & MountAttrFlags::_ATIME;
    match attr.attr_clr & MountAttrFlags::_ATIME {
        MountAttrFlags::_ATIME => {
            clear |= MntFlags::RELATIME | MntFlags::NOATIME;
            set |= match kind {
                MountAttrFlags::NOATIME => MntFlags::NOATIME,
                MountAttrFlags::STRICTATIME => MntFlags::empty(),
                kind if kind.is_empty() => MntFlags::RELATIME,
                _ => return Err(Errno::EINVAL),
            };
        }
        cleared if cleared.is_empty() && kind.is_empty() => {}
        _ => return Err(Errno::EINVAL),
    }
    let clears = attr.attr_clr.contains(MountAttrFlags::IDMAP);
    if clears && !replaces_idmap {
        return Err(Errno::EINVAL);
    }
    let idmap = if attr.attr_set.contains(MountAttrFlags::IDMAP) {
        ChangeIdmap::Set(attr.idmap.clone().ok_or(Errno::EINVAL)?)
    } else if clears {
        ChangeIdmap::Clear
    } else {
        ChangeIdmap::Keep
    };
    Ok(Change { set, clear, propagation, all, idmap, replaces_idmap })
}

/// The flags but for the kind of access times.
fn flags_of(attr: MountAttrFlags) -> MntFlags {
    let mut flags = MntFlags::empty();
    for (bit, flag) in [
        (MountAttrFlags::RDONLY, MntFlags::RDONLY),
        (MountAttrFlags::NOSUID, MntFlags::NOSUID),
        (MountAttrFlags::NODEV, MntFlags::NODEV),
        (MountAttrFlags::NOEXEC, MntFlags::NOEXEC),
        (MountAttrFlags::NODIRATIME, MntFlags::NODIRATIME),
        (MountAttrFlags::NOSYMFOLLOW, MntFlags::NOSYMFOLLOW),
    ] {
        flags.set(flag, attr.contains(bit));
    }
    flags
}
