//! Setting and telling ACLs, which calls reach by the names of two extended attributes.
//!
//! Linux: `vfs_set_acl`, `vfs_get_acl`, `set_posix_acl`, `simple_set_acl`.

use super::{attr::may_write_xattr, making::may_keep_sgid};
use crate::{
    acl::{self, AclEntry, AclKind, format, store::NewAcls},
    fs::Features,
    security::{Hooks, PathRef},
    setattr::{Changing, Iattr},
    task::Task,
    walk::HeldPath,
};
use pathwalk_abi::{
    Errno, FileType, Result,
    mode::{S_IALLUGO, S_IRWXUGO, S_ISGID},
    xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT, posix_acl},
};
use pathwalk_sync::lock_order;

/// Which ACL an attribute's name means.
pub(crate) fn acl_kind(name: &[u8]) -> Option<AclKind> {
    match name {
        XATTR_NAME_POSIX_ACL_ACCESS => Some(AclKind::Access),
        XATTR_NAME_POSIX_ACL_DEFAULT => Some(AclKind::Default),
        _ => None,
    }
}

impl Task {
    /// Sets an ACL or, without entries, removes it.
    ///
    /// # Errors
    ///
    /// - `EPERM`: the file is immutable or append-only.
    /// - `EOPNOTSUPP`: the file has none: the file system keeps none, or it is a symlink.
    /// - `EACCES`: a default ACL is set to what is no directory.
    /// - `EPERM`: it is another's file.
    /// - `EINVAL`: entries are missing or out of order.
    /// - `ENOMEM`: there is no room.
    /// - whatever the file system answers.
    pub(crate) fn set_acl(
        &self,
        held: &HeldPath<'_>,
        kind: AclKind,
        acl: Vec<AclEntry>,
    ) -> Result<()> {
        let vfs = self.vfs();
        let who = held.seen_by(self.cred.subject());
        may_write_xattr(&vfs.inode(held.inode()).attr(), &who)?;
        if acl.is_empty() {
            vfs.ask(Hooks::INODE_REMOVE_ACL, |module| {
                module.inode_remove_acl(&who, &PathRef::of(vfs, held), kind)
            })?;
        } else {
            vfs.ask(Hooks::INODE_SET_ACL, |module| {
                module.inode_set_acl(&who, &PathRef::of(vfs, held), kind, &acl)
            })?;
        }
        let file_type = must_have_acls(held)?;
        if kind == AclKind::Default && file_type != FileType::Directory {
            return if acl.is_empty() { Ok(()) } else { Err(Errno::EACCES) };
        }
        let _changing = Changing::new(vfs, held.inode());
        let (attr, mut acls) = vfs.attr_and_acls_now(held.inode())?;
        if !who.owner_or_capable(attr.uid) {
            return Err(Errno::EPERM);
        }
        let acl = acl::map_ids(
            acl,
            |uid| who.stored_uid(uid).ok_or(Errno::EINVAL),
            |gid| who.stored_gid(gid).ok_or(Errno::EINVAL),
        )?;
        if !acl.is_empty() {
            acl::validate(&acl)?;
        }
        let now = vfs.now();
        let mut change = Iattr { now, ctime: Some(now), ..Iattr::default() };
        *acls.of_mut(kind) = acl;
        if kind == AclKind::Access {
            let mut mode = attr.mode & S_IALLUGO;
            let (bits, equivalent) = acl::equiv_mode(&acls.access);
            if !acls.access.is_empty() {
                mode = mode & !S_IRWXUGO | bits;
            }
            if equivalent {
                acls.access.clear();
            }
            if !may_keep_sgid(attr.gid, &who) {
                mode &= !S_ISGID;
            }
            change.mode = Some(mode);
        }
        // Room first: what the file system did must find its place.
        let acls = NewAcls::new(vfs, acls)?;
        lock_order::assert_none_held();
        held.sb().fs.set_acl(held.inode_ref(), kind, acls.get().of(kind), &mut change)?;
        vfs.note_acls(held.inode(), &change, acls);
        Ok(())
    }

    /// An ACL as an attribute's value.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: the file has none: the file system keeps none, or it is a symlink.
    /// - `ENODATA`: the mode says all.
    /// - whatever the file system answers.
    pub(crate) fn get_acl(&self, held: &HeldPath<'_>, kind: AclKind) -> Result<Vec<u8>> {
        let vfs = self.vfs();
        vfs.ask(Hooks::INODE_GET_ACL, |module| {
            module.inode_get_acl(&self.cred.subject(), &PathRef::of(vfs, held), kind)
        })?;
        must_have_acls(held)?;
        let (_, acls) = vfs.attr_and_acls_now(held.inode())?;
        match acls.of(kind) {
            [] => Err(Errno::ENODATA),
            acl => {
                let who = held.seen_by(self.cred.subject());
                let nobody = posix_acl::UNDEFINED_ID;
                let shown = acl::map_ids(
                    acl.to_vec(),
                    |uid| Ok(who.seen_uid(uid).unwrap_or(nobody)),
                    |gid| Ok(who.seen_gid(gid).unwrap_or(nobody)),
                )?;
                Ok(format::to_xattr(&shown))
            }
        }
    }
}

/// Whether the file system keeps ACLs. One that does not is asked for the two names as for any other.
pub(crate) fn has_acls(held: &HeldPath<'_>) -> bool {
    held.sb().features.contains(Features::POSIX_ACL)
}

fn must_have_acls(held: &HeldPath<'_>) -> Result<FileType> {
    let file_type = held.inode_ref().attr().file_type();
    if file_type == FileType::Symlink || !has_acls(held) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(file_type)
}
