//! Mount options: what a [`MemFs`] is to be like.
//!
//! Manual: tmpfs(5).

use crate::{memfs::MemFs, space::Limits};
use pathwalk_abi::mode::{S_IALLUGO, S_IRWXUGO, S_ISVTX};
use std::sync::Arc;

/// What a new [`MemFs`] is to be like: see [`MemFs::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) limits: Option<Limits>,
    pub(crate) root_mode: u32,
    /// User and group; none are those of who mounts it.
    pub(crate) root_owner: (Option<u32>, Option<u32>),
    pub(crate) memfd: bool,
}

/// The permission bits that a root has by default.
pub(crate) const ROOT_MODE: u32 = S_ISVTX | S_IRWXUGO;

impl Builder {
    pub(crate) fn new() -> Self {
        Self { limits: None, root_mode: ROOT_MODE, root_owner: (None, None), memfd: false }
    }

    /// Sets how much it may hold.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Sets the permission bits of the root: the option `mode=`.
    #[must_use]
    pub fn root_mode(self, mode: u32) -> Self {
        Self { root_mode: mode & S_IALLUGO, ..self }
    }

    /// Sets the owner and the group of the root, which else are those of who mounts it: the options `uid=` and `gid=`. All ones,
    /// which is nobody's number, sets none, as in chown(2).
    #[must_use]
    pub fn root_owner(self, uid: u32, gid: u32) -> Self {
        let said = |id: u32| (id != u32::MAX).then_some(id);
        Self { root_owner: (said(uid), said(gid)), ..self }
    }

    /// Keeps the contents of each file that was ever opened or written in a memfd(2): an open file then has a descriptor of
    /// the host ([`File::host_fd`](pathwalk_core::File::host_fd)), which other processes can read, write, map and execute. Fifos
    /// and devices can be opened, as far as there is something to open them elsewhere.
    ///
    /// It takes a descriptor per file. What is written by those descriptors is counted when somebody looks, at the file or by statfs(2), so that the limit
    /// of bytes does not hold them back.
    #[must_use]
    pub fn memfd(self) -> Self {
        Self { memfd: true, ..self }
    }

    /// Makes the file system.
    pub fn build(self) -> Arc<MemFs> {
        Arc::new(MemFs::made_as(self))
    }
}
