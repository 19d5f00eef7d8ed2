//! Mount namespaces: trees of their own over the same file systems.
//!
//! Linux: `copy_mnt_ns`, `mntns_install`, `put_mnt_ns`; mount_namespaces(7).

use super::{
    MountId, NsId,
    graft::Copy,
    ordered::Ordered,
    rootfs::RootFs,
    tree::{Namespace, Rights, TreeGuard},
    umount::Umount,
};
use crate::{cred::Cred, dcache::DentryId, fs::FileSystem, vfs::Vfs};
use pathwalk_abi::{Errno, MountFlags, Result};
use rustc_hash::FxHashMap as HashMap;
use std::sync::Arc;

/// A mount namespace: a handle, as an open `/proc/PID/ns/mnt` is one. Tasks in it have one each; when the last handle goes,
/// the namespace goes, with all that is mounted in it.
///
/// The namespace that a machine begins with stays as long as the machine.
#[derive(Clone)]
pub struct MountNamespace(Arc<Handle>);

struct Handle {
    vfs: Arc<Vfs>,
    id: NsId,
}

/// For whom a namespace is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyFor {
    /// For who may there what they might in the original.
    SameRights,
    /// For who may less, whose root this is: nothing is shown that is covered there.
    FewerRights { root: (MountId, DentryId) },
}

impl MountNamespace {
    pub(crate) fn initial(vfs: &Arc<Vfs>) -> Self {
        Self(Arc::new(Handle { vfs: Arc::clone(vfs), id: NsId::INIT }))
    }

    pub(crate) fn ns(&self) -> NsId {
        self.0.id
    }

    pub(crate) fn vfs(&self) -> &Arc<Vfs> {
        &self.0.vfs
    }

    /// The number of the namespace; no other of the machine ever has it.
    pub fn id(&self) -> u64 {
        u64::from(self.0.id.0)
    }

    /// Lets go of it before its user does.
    pub(crate) fn leave(&self) {
        if Arc::strong_count(&self.0) == 1 {
            self.0.leave();
        }
    }

    /// Copies the namespace; returns the copy, and which mount is a copy of which.
    ///
    /// # Errors
    ///
    /// - `EPERM`: for fewer rights: the root is not the namespace's.
    /// - `ENOSPC`: there are as many mounts as there may be.
    pub(crate) fn copy(&self, kind: CopyFor) -> Result<(Self, HashMap<MountId, MountId>)> {
        let vfs = &self.0.vfs;
        let mut tree = vfs.mount_tree();
        let Namespace { root: old, rights, .. } = tree.namespaces[&self.0.id];
        let how = match kind {
            CopyFor::SameRights => Copy::All,
            CopyFor::FewerRights { root } if root != tree.ns_root(self.0.id) => {
                return Err(Errno::EPERM);
            }
            CopyFor::FewerRights { .. } => Copy::AllSlaves,
        };
        let root = vfs.mount_slot(old).root();
        let room = tree.room_in(NsId::NONE);
        let (new, copies) = tree.copy_tree_noting(old, root, how, room)?;
        let rights = match kind {
            CopyFor::SameRights => rights,
            CopyFor::FewerRights { .. } => {
                tree.lock_mnt_tree(new);
                tree.last_rights += 1;
                Rights(tree.last_rights)
            }
        };
        let id = tree.new_namespace(new, None, rights);
        drop(tree);
        Ok((Self(Arc::new(Handle { vfs: Arc::clone(vfs), id })), copies))
    }
}

impl PartialEq for MountNamespace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.vfs, &other.0.vfs) && self.0.id == other.0.id
    }
}

impl Eq for MountNamespace {}

impl std::fmt::Debug for MountNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountNamespace").field("id", &self.0.id.0).finish_non_exhaustive()
    }
}

impl Handle {
    /// Takes the namespace's mounts down, if they are there.
    fn leave(&self) {
        if self.id == NsId::INIT {
            return;
        }
        let mut tree = self.vfs.mount_tree();
        if let Some(namespace) = tree.namespaces.remove(&self.id) {
            tree.umount_tree(&[namespace.root], Umount::Alone);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.leave();
    }
}

impl TreeGuard<'_> {
    /// Makes a namespace of a tree that is in none.
    pub(super) fn new_namespace(
        &mut self,
        root: MountId,
        anonymous: Option<NsId>,
        rights: Rights,
    ) -> NsId {
        self.last_ns += 1;
        let id = NsId(self.last_ns);
        self.namespaces
            .insert(id, Namespace { root, mounts: Ordered::default(), anonymous, rights });
        self.set_ns(&self.subtree(root), id);
        id
    }

    /// Whose rights count in a namespace.
    pub(super) fn rights_in(&self, ns: NsId) -> Rights {
        self.namespaces.get(&ns).map_or_else(Rights::default, |namespace| namespace.rights)
    }

    /// The root of a namespace: what is on top of the mount at the bottom.
    pub(super) fn ns_root(&self, ns: NsId) -> (MountId, DentryId) {
        let bottom = self.namespaces[&ns].root;
        let top = self.topmost(bottom);
        (top, self.vfs.mount_slot(top).root())
    }
}

impl Vfs {
    /// Makes the first namespace: an empty directory, and the root on it.
    pub(crate) fn mount_root(&self, root: Arc<dyn FileSystem>) -> Result<()> {
        let cred = Cred::root();
        let mount = |fs| self.new_mount(&cred.subject(), fs, MountFlags::empty());
        let bottom = mount(Arc::new(RootFs))?;
        let root = mount(root);
        let root = root.inspect_err(|_| self.mount_abandon(bottom))?;
        let mut tree = self.mount_tree();
        let ns = tree.new_namespace(bottom, None, Rights::default());
        let dentry = self.mount_slot(bottom).root();
        tree.attach_recursive(root, (bottom, dentry), ns)
    }

    /// Takes down all that is mounted: the machine goes.
    pub(crate) fn umount_all(&self) {
        let mut tree = self.mount_tree();
        let namespaces = std::mem::take(&mut tree.namespaces);
        let roots: Vec<_> = namespaces.into_values().map(|namespace| namespace.root).collect();
        tree.umount_tree(&roots, Umount::Alone);
    }

    /// The root of a namespace, counted.
    pub(crate) fn hold_ns_root(&self, ns: NsId) -> (MountId, DentryId) {
        let tree = self.mount_tree();
        let root = tree.ns_root(ns);
        self.hold_both(root);
        root
    }
}
