//! A file that is about to be made: mode, owner, ACLs, and room in the tables, before the file system is asked.
//!
//! Linux: `vfs_prepare_mode`, `inode_init_owner`, `posix_acl_create`, `new_inode`.

use super::create::Make;
use crate::{
    acl::{self, Acls, store::NewAcls},
    cred::Subject,
    dcache::DentryId,
    ended::Moment,
    fs::{Found, NewInode},
    inode::{InodeId, Owner},
    vfs::{SuperBlock, Vfs},
};
use pathwalk_abi::{
    CapSet, Errno, FileType, Result, Timespec,
    mode::{S_ISGID, S_IXGRP},
};

/// All that a new file needs. Room first: what the file system made must find its place.
pub(crate) struct Making<'v, 'b> {
    vfs: &'v Vfs,
    make: &'b Make<'b>,
    mode: u32,
    uid: u32,
    gid: u32,
    now: Timespec,
    acls: NewAcls<'v>,
    room: Room<'v>,
}

impl<'v, 'b> Making<'v, 'b> {
    /// Applies the rules of the directory, and takes the room.
    ///
    /// # Errors
    ///
    /// - `EOVERFLOW`: the mount shows nobody by the subject's ids.
    /// - `ENOMEM`: the tables are full, and nothing could be evicted.
    /// - whatever the file system answers about the directory's ACLs.
    #[inline(always)]
    pub(crate) fn new(
        vfs: &'v Vfs,
        directory: InodeId,
        make: &'b Make<'b>,
        umask: u32,
        who: &Subject<'_>,
    ) -> Result<Self> {
        let (directory, acls) = match vfs.owner_without_acls(directory) {
            Some(owner) => (owner, Acls::default()),
            None => {
                let (attr, acls) = vfs.attr_and_acls(directory)?;
                (attr.owner(), acls)
            }
        };
        let (mode, acls) = new_mode(make, &directory, acls, umask, who);
        let inherits = directory.mode & S_ISGID != 0;
        let (uid, gid) = who.new_ids()?;
        Ok(Self {
            vfs,
            make,
            mode,
            uid,
            gid: if inherits { directory.gid } else { gid },
            now: vfs.now(),
            acls: NewAcls::new(vfs, acls)?,
            room: Room::new(vfs, make.body)?,
        })
    }

    /// What the file system is told.
    pub(crate) fn new_inode(&self) -> NewInode<'_> {
        let acls = self.acls.get();
        NewInode {
            file_type: self.make.file_type,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            rdev: self.make.rdev,
            body: self.make.body,
            access_acl: &acls.access,
            default_acl: &acls.default,
            now: self.now,
        }
    }

    /// The inode of what the file system made, for a dentry that does not stand for it yet.
    #[inline(always)]
    pub(crate) fn made(self, sb: &SuperBlock, found: &Found, dentry: DentryId) -> InodeId {
        let inode = self.room.fill(sb, found);
        self.vfs.set_first_alias(inode, dentry);
        self.vfs.init_acls(inode, self.acls);
        inode
    }
}

/// An inode slot and, for a symlink, the place for its body, taken before the file system is asked.
struct Room<'v> {
    vfs: &'v Vfs,
    inode: Option<InodeId>,
    body: u32,
}

impl<'v> Room<'v> {
    fn new(vfs: &'v Vfs, body: &[u8]) -> Result<Self> {
        let mut room = Self { vfs, inode: None, body: 0 };
        if !body.is_empty() {
            room.body = vfs.with_room(|| vfs.names.store(body)).ok_or(Errno::ENOMEM)?;
        }
        room.inode = Some(vfs.with_room(|| vfs.inode_alloc()).ok_or(Errno::ENOMEM)?);
        Ok(room)
    }

    fn fill(mut self, sb: &SuperBlock, found: &Found) -> InodeId {
        let inode = self.inode.take().expect("filled once");
        let body = std::mem::take(&mut self.body);
        let filled = self.vfs.inode_fill((inode, body), sb, found, Moment::FRESH);
        filled.expect("what was made is not old")
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.body != 0 {
            self.vfs.names.free(self.body);
        }
        if let Some(inode) = self.inode {
            self.vfs.inode_discard(inode);
        }
    }
}

/// Mode and ACLs of a new file: from the directory's default ACL if it has one, else from the umask.
///
/// Linux: `mode_strip_sgid`, `posix_acl_create`.
fn new_mode(
    make: &Make<'_>,
    directory: &Owner,
    acls: Acls,
    umask: u32,
    who: &Subject<'_>,
) -> (u32, Acls) {
    let mut mode = make.mode;
    let is_directory = make.file_type == FileType::Directory;
    let inherits = directory.mode & S_ISGID != 0;
    let runs_as_group = mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP;
    if inherits && runs_as_group && !is_directory && !may_keep_sgid(directory.gid, who) {
        mode &= !S_ISGID;
    }
    if inherits && is_directory {
        mode |= S_ISGID;
    }
    if make.file_type == FileType::Symlink {
        (mode, Acls::default())
    } else if acls.default.is_empty() {
        (mode & !umask, Acls::default())
    } else {
        acl::inherit(&acls.default, mode, is_directory)
    }
}

/// Linux: `in_group_or_capable`.
pub(crate) fn may_keep_sgid(gid: u32, who: &Subject<'_>) -> bool {
    who.in_group(gid) || who.capable(CapSet::FSETID)
}
