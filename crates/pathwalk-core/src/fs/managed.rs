//! Directories that a file system manages: what it wants to do there, and what it mounts.

use super::FileSystem;
use crate::inode::{I_AUTOMOUNT, I_TRANSIT};
use bitflags::bitflags;
use pathwalk_abi::MountFlags;
use std::sync::Arc;

bitflags! {
    /// What a file system wants to do when a walk comes to a directory.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Managed: u32 {
        /// Mount something there: [`FileSystem::automount`].
        const AUTOMOUNT = 1 << 0;
        /// Be asked before anybody crosses it: [`FileSystem::manage`].
        const TRANSIT = 1 << 1;
    }
}

impl Managed {
    /// As the inode keeps it.
    pub(crate) fn inode_flags(self) -> u32 {
        let flag = |managed, flag| if self.contains(managed) { flag } else { 0 };
        flag(Self::AUTOMOUNT, I_AUTOMOUNT) | flag(Self::TRANSIT, I_TRANSIT)
    }
}

/// What is to be mounted on a directory.
pub struct Automount {
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// The flags of the file system, as mount(2) takes them. The mount has those of the mount that it hangs in; what is said
    /// here is refused besides: `MS_RDONLY`, `MS_NOSUID`, `MS_NODEV`, `MS_NOEXEC`, `MS_NOSYMFOLLOW`.
    pub flags: MountFlags,
}
