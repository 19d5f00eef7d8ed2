//! Extended attributes: setxattr, getxattr, listxattr, removexattr, by path, by open file, and their `*at` calls.
//!
//! ```text
//!   arguments ── place ── mount writable ──┬─ ACL?       ops/acl.rs
//!                                          └─ any other  may_xattr ── security.* ── the file system
//! ```
//!
//! Linux: `fs/xattr.c`; `cap_inode_setxattr` and its neighbours.

use super::{
    acl::{acl_kind, has_acls},
    attr::may_write_xattr,
    caps, lookup_flags, only, retry_estale, within,
};
use crate::{
    acl::format,
    file::File,
    fs::Access,
    security::{Hooks, PathRef},
    task::{At, Task},
    walk::{HeldPath, Lookup, lookup::keep},
};
use pathwalk_abi::{
    AtFlags, CapSet, Errno, FileType, InotifyMask, Result, XATTR_LIST_MAX, XATTR_NAME_MAX,
    XATTR_SIZE_MAX, XattrFlags,
    mode::S_ISVTX,
    xattr::{
        XATTR_NAME_CAPS, XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT,
        XATTR_SECURITY_PREFIX, XATTR_SYSTEM_PREFIX, XATTR_TRUSTED_PREFIX, XATTR_USER_PREFIX,
    },
};
use pathwalk_sync::lock_order;
use std::borrow::Cow;

impl Task {
    /// `setxattr(path, name, value, flags)`: sets an extended attribute. setxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::setxattrat`].
    pub fn setxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        self.setxattrat(At::Cwd, path, AtFlags::empty(), name, value, flags)
    }

    /// `lsetxattr(path, name, value, flags)`: as [`Task::setxattr`], of a symlink itself. lsetxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::setxattrat`].
    pub fn lsetxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        self.setxattrat(At::Cwd, path, AtFlags::SYMLINK_NOFOLLOW, name, value, flags)
    }

    /// `fsetxattr(file, name, value, flags)`: as [`Task::setxattr`], of an open file. fsetxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::setxattrat`]; `EBADF` where the file was opened with `O_PATH`.
    pub fn fsetxattr(
        &self,
        file: &File,
        name: impl AsRef<[u8]>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        self.setxattrat(file, "", AtFlags::EMPTY_PATH, name, value, flags)
    }

    /// `setxattrat(dir, path, at_flags, name, value, flags)`: sets an extended attribute. With an empty path and
    /// `AT_EMPTY_PATH`, that of `dir`, which must not be opened with `O_PATH`. setxattrat(2)
    ///
    /// `system.posix_acl_access` and `system.posix_acl_default` are the file's ACLs: no entries remove one, and flags say
    /// nothing. An access ACL sets the permission bits; one that they can say all of is not kept.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`, or other than `XATTR_CREATE` and
    ///   `XATTR_REPLACE`.
    /// - `ERANGE`: the name is empty or has more than 255 bytes. `EINVAL`: it contains a NUL.
    /// - `E2BIG`: the value has more than 64 KiB.
    /// - those of the lookup.
    /// - `EROFS`: the mount is read-only.
    /// - of file capabilities, `EINVAL`: they are not in the format of revision 2 or 3; `EPERM`: `CAP_SETFCAP` is missing;
    ///   `EINVAL`: their root is user -1.
    /// - `EPERM`: the file is immutable or append-only.
    /// - `EPERM`: `trusted.` without `CAP_SYS_ADMIN`; `user.` of what is neither a regular file nor a directory, or of
    ///   another's sticky directory.
    /// - `EACCES`: `user.`, and the file may not be written.
    /// - `EPERM`: `security.` without `CAP_SYS_ADMIN`, capabilities aside.
    /// - `EOPNOTSUPP`: the file system has no names that begin so. `EINVAL`: the name is the beginning and nothing else.
    /// - `ENOSPC`: there is no room.
    /// - `EEXIST`: `XATTR_CREATE`, and it is there. `ENODATA`: `XATTR_REPLACE`, and it is not.
    /// - of ACLs, `EINVAL`, `EOPNOTSUPP`: they are not in the format of version 2, or the file has none, as a symlink;
    ///   `EACCES`: a default one of what is no directory; `EPERM`: of another's file; `EINVAL`: entries are missing or out
    ///   of order.
    pub fn setxattrat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        at_flags: AtFlags,
        name: impl AsRef<[u8]>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        known(at_flags)?;
        if !XattrFlags::all().contains(flags) {
            return Err(Errno::EINVAL);
        }
        let name = checked(name.as_ref())?;
        if value.len() > XATTR_SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        let (dir, path) = (dir.into(), path.as_ref());
        retry_estale(|reval| {
            let held = self.xattr_place(dir, path, lookup_flags(at_flags) | reval)?;
            let _writing = held.want_write()?;
            if let Some(kind) = acl_kind(name) {
                let acl = format::from_xattr(value)?;
                if has_acls(&held) {
                    self.set_acl(&held, kind, acl)?;
                    self.fsnotify_xattr(&held);
                    return Ok(());
                }
            }
            self.set_other(&held, name, value, flags)?;
            self.fsnotify_xattr(&held);
            Ok(())
        })
    }

    /// `getxattr(path, name, buf)`: copies the value of an extended attribute; returns its size, and with an empty buffer
    /// nothing else. getxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::getxattrat`].
    pub fn getxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        buf: &mut [u8],
    ) -> Result<usize> {
        self.getxattrat(At::Cwd, path, AtFlags::empty(), name, buf)
    }

    /// `lgetxattr(path, name, buf)`: as [`Task::getxattr`], of a symlink itself. lgetxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::getxattrat`].
    pub fn lgetxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        buf: &mut [u8],
    ) -> Result<usize> {
        self.getxattrat(At::Cwd, path, AtFlags::SYMLINK_NOFOLLOW, name, buf)
    }

    /// `fgetxattr(file, name, buf)`: as [`Task::getxattr`], of an open file. fgetxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::getxattrat`]; `EBADF` where the file was opened with `O_PATH`.
    pub fn fgetxattr(&self, file: &File, name: impl AsRef<[u8]>, buf: &mut [u8]) -> Result<usize> {
        self.getxattrat(file, "", AtFlags::EMPTY_PATH, name, buf)
    }

    /// `getxattrat(dir, path, at_flags, name, buf)`: copies the value of an extended attribute; returns its size, and with
    /// an empty buffer nothing else. getxattrat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - `ERANGE`: the name is empty or has more than 255 bytes. `EINVAL`: it contains a NUL.
    /// - those of the lookup.
    /// - `ENODATA`: `trusted.` without `CAP_SYS_ADMIN`; `user.` of what is neither a regular file nor a directory.
    /// - `EACCES`: `user.`, and the file may not be read.
    /// - `EOPNOTSUPP`: the file system has no names that begin so, or the file no ACLs. `EINVAL`: the name is the beginning
    ///   and nothing else.
    /// - `ENODATA`: there is no such attribute.
    /// - `ERANGE`: the buffer is too small.
    pub fn getxattrat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        at_flags: AtFlags,
        name: impl AsRef<[u8]>,
        buf: &mut [u8],
    ) -> Result<usize> {
        known(at_flags)?;
        let name = checked(name.as_ref())?;
        let (dir, path) = (dir.into(), path.as_ref());
        let value = retry_estale(|reval| {
            let held = self.xattr_place(dir, path, lookup_flags(at_flags) | reval)?;
            match acl_kind(name) {
                Some(kind) => self.get_acl(&held, kind),
                None => self.get_other(&held, name),
            }
        })?;
        give(&value, buf, XATTR_SIZE_MAX)
    }

    /// `listxattr(path, buf)`: copies the names of a file's extended attributes, each with a NUL behind it; returns their
    /// size, and with an empty buffer nothing else. listxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::listxattrat`].
    pub fn listxattr(&self, path: impl AsRef<[u8]>, buf: &mut [u8]) -> Result<usize> {
        self.listxattrat(At::Cwd, path, AtFlags::empty(), buf)
    }

    /// `llistxattr(path, buf)`: as [`Task::listxattr`], of a symlink itself. llistxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::listxattrat`].
    pub fn llistxattr(&self, path: impl AsRef<[u8]>, buf: &mut [u8]) -> Result<usize> {
        self.listxattrat(At::Cwd, path, AtFlags::SYMLINK_NOFOLLOW, buf)
    }

    /// `flistxattr(file, buf)`: as [`Task::listxattr`], of an open file. flistxattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::listxattrat`]; `EBADF` where the file was opened with `O_PATH`.
    pub fn flistxattr(&self, file: &File, buf: &mut [u8]) -> Result<usize> {
        self.listxattrat(file, "", AtFlags::EMPTY_PATH, buf)
    }

    /// `listxattrat(dir, path, at_flags, buf)`: copies the names of a file's extended attributes, each with a NUL behind
    /// it; returns their size, and with an empty buffer nothing else. `trusted.` names are shown to `CAP_SYS_ADMIN` only;
    /// all others to everyone. listxattrat(2)
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - `EBADF`: `AT_EMPTY_PATH` and an empty path, but no file.
    /// - those of the lookup.
    /// - `ERANGE`: the buffer is too small. `E2BIG`: it has 64 KiB, and that is too small.
    pub fn listxattrat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        at_flags: AtFlags,
        buf: &mut [u8],
    ) -> Result<usize> {
        known(at_flags)?;
        let (dir, path) = (dir.into(), path.as_ref());
        let names = retry_estale(|reval| {
            self.must_have_file(dir, path, at_flags)?;
            let held = self.xattr_place(dir, path, lookup_flags(at_flags) | reval)?;
            self.names_of(&held)
        })?;
        give(&names, buf, XATTR_LIST_MAX)
    }

    /// `removexattr(path, name)`: removes an extended attribute. removexattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::removexattrat`].
    pub fn removexattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<()> {
        self.removexattrat(At::Cwd, path, AtFlags::empty(), name)
    }

    /// `lremovexattr(path, name)`: as [`Task::removexattr`], of a symlink itself. lremovexattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::removexattrat`].
    pub fn lremovexattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<()> {
        self.removexattrat(At::Cwd, path, AtFlags::SYMLINK_NOFOLLOW, name)
    }

    /// `fremovexattr(file, name)`: as [`Task::removexattr`], of an open file. fremovexattr(2)
    ///
    /// # Errors
    ///
    /// As [`Task::removexattrat`]; `EBADF` where the file was opened with `O_PATH`.
    pub fn fremovexattr(&self, file: &File, name: impl AsRef<[u8]>) -> Result<()> {
        self.removexattrat(file, "", AtFlags::EMPTY_PATH, name)
    }

    /// `removexattrat(dir, path, at_flags, name)`: removes an extended attribute. removexattrat(2)
    ///
    /// To remove an ACL that is not there is no error.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a flag other than `AT_SYMLINK_NOFOLLOW` and `AT_EMPTY_PATH`.
    /// - `ERANGE`: the name is empty or has more than 255 bytes. `EINVAL`: it contains a NUL.
    /// - `EBADF`: `AT_EMPTY_PATH` and an empty path, but no file.
    /// - those of the lookup.
    /// - `EROFS`: the mount is read-only.
    /// - as [`Task::setxattrat`] from the namespaces' rules on; of capabilities, `EPERM`: `CAP_SETFCAP` is missing.
    /// - `ENODATA`: there is no such attribute.
    pub fn removexattrat<'a>(
        &self,
        dir: impl Into<At<'a>>,
        path: impl AsRef<[u8]>,
        at_flags: AtFlags,
        name: impl AsRef<[u8]>,
    ) -> Result<()> {
        known(at_flags)?;
        let name = checked(name.as_ref())?;
        let (dir, path) = (dir.into(), path.as_ref());
        retry_estale(|reval| {
            self.must_have_file(dir, path, at_flags)?;
            let held = self.xattr_place(dir, path, lookup_flags(at_flags) | reval)?;
            let _writing = held.want_write()?;
            match acl_kind(name).filter(|_| has_acls(&held)) {
                Some(kind) => self.set_acl(&held, kind, Vec::new()),
                None => self.remove_other(&held, name),
            }?;
            self.fsnotify_xattr(&held);
            Ok(())
        })
    }

    /// Tells who watches that an attribute was set or removed.
    fn fsnotify_xattr(&self, held: &HeldPath<'_>) {
        self.vfs().fsnotify_dentry(held.dentry(), InotifyMask::ATTRIB);
    }

    /// The place that a call is about.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: bounds that are none.
    /// - `EBADF`: the path is empty and the file was opened with `O_PATH`: the other calls do not mind.
    /// - those of the lookup.
    fn xattr_place<'s>(
        &'s self,
        dir: At<'s>,
        path: &'s [u8],
        flags: Lookup,
    ) -> Result<HeldPath<'s>> {
        match dir.dir() {
            Some(file) if path.is_empty() && flags.contains(Lookup::EMPTY) => {
                within(dir.bounds())?;
                self.held_file(file)?;
                self.vfs().ask_about_held(file.inode(), flags)?;
                Ok(file.hold())
            }
            _ => keep(&self.request(dir, path, flags)?),
        }
    }

    fn set_other(
        &self,
        held: &HeldPath<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        let (vfs, inode) = (self.vfs(), held.inode());
        let mut value = Cow::Borrowed(value);
        if name == XATTR_NAME_CAPS && !value.is_empty() {
            let attr = vfs.inode(inode).attr();
            let who = held.seen_by(self.cred.subject());
            if let Some(stored) = caps::to_store(&value, &attr, &who)? {
                value = stored.into();
            }
        }
        self.may_xattr(held, name, Access::WRITE)?;
        // Who may give a file capabilities was asked above.
        if is_security(name) && name != XATTR_NAME_CAPS {
            self.must_be_admin()?;
        }
        vfs.ask(Hooks::INODE_SETXATTR, |module| {
            module.inode_setxattr(
                &self.cred.subject(),
                &PathRef::of(vfs, held),
                name,
                &value,
                flags,
            )
        })?;
        vfs.forget_nosec(inode, name);
        lock_order::assert_none_held();
        let done = held.sb().fs.setxattr(held.inode_ref(), name, &value, flags, vfs.now());
        vfs.forget_nosec(inode, name);
        done
    }

    fn get_other(&self, held: &HeldPath<'_>, name: &[u8]) -> Result<Vec<u8>> {
        self.may_xattr(held, name, Access::READ)?;
        let vfs = self.vfs();
        vfs.ask(Hooks::INODE_GETXATTR, |module| {
            module.inode_getxattr(&self.cred.subject(), &PathRef::of(vfs, held), name)
        })?;
        lock_order::assert_none_held();
        let value = held.sb().fs.getxattr(held.inode_ref(), name)?;
        if name == XATTR_NAME_CAPS {
            caps::shown(value, &held.seen_by(self.cred.subject()))
        } else {
            Ok(value)
        }
    }

    fn remove_other(&self, held: &HeldPath<'_>, name: &[u8]) -> Result<()> {
        self.may_xattr(held, name, Access::WRITE)?;
        if name == XATTR_NAME_CAPS {
            let attr = self.vfs().inode(held.inode()).attr();
            let who = held.seen_by(self.cred.subject());
            if !who.capable_over(CapSet::SETFCAP, attr.uid, attr.gid) {
                return Err(Errno::EPERM);
            }
        } else if is_security(name) {
            self.must_be_admin()?;
        }
        let vfs = self.vfs();
        vfs.ask(Hooks::INODE_REMOVEXATTR, |module| {
            module.inode_removexattr(&self.cred.subject(), &PathRef::of(vfs, held), name)
        })?;
        lock_order::assert_none_held();
        held.sb().fs.removexattr(held.inode_ref(), name, self.vfs().now())
    }

    /// The names, each with a NUL; ACLs first.
    fn names_of(&self, held: &HeldPath<'_>) -> Result<Vec<u8>> {
        let (vfs, inode) = (self.vfs(), held.inode());
        vfs.ask(Hooks::INODE_LISTXATTR, |module| {
            module.inode_listxattr(&self.cred.subject(), &PathRef::of(vfs, held))
        })?;
        let mut names = Vec::new();
        let mut push = |name: &[u8]| {
            names.extend_from_slice(name);
            names.push(0);
        };
        let (_, acls) = vfs.attr_and_acls_now(inode)?;
        if !acls.access.is_empty() {
            push(XATTR_NAME_POSIX_ACL_ACCESS);
        }
        if !acls.default.is_empty() {
            push(XATTR_NAME_POSIX_ACL_DEFAULT);
        }
        lock_order::assert_none_held();
        let trusted = self.cred.subject().capable(CapSet::SYS_ADMIN);
        for name in held.sb().fs.listxattr(held.inode_ref())? {
            if trusted || !name.starts_with(XATTR_TRUSTED_PREFIX) {
                push(&name);
            }
        }
        Ok(names)
    }

    /// The rules of the namespaces.
    ///
    /// Linux: `xattr_permission`.
    fn may_xattr(&self, held: &HeldPath<'_>, name: &[u8], access: Access) -> Result<()> {
        let inode = held.inode();
        let who = held.seen_by(self.cred.subject());
        let refusal = if access.contains(Access::WRITE) { Errno::EPERM } else { Errno::ENODATA };
        if access.contains(Access::WRITE) {
            may_write_xattr(&self.vfs().inode(inode).attr(), &who)?;
        }
        if is_security(name) || name.starts_with(XATTR_SYSTEM_PREFIX) {
            return Ok(());
        }
        if name.starts_with(XATTR_TRUSTED_PREFIX) {
            return if who.capable(CapSet::SYS_ADMIN) { Ok(()) } else { Err(refusal) };
        }
        if name.starts_with(XATTR_USER_PREFIX) {
            let attr = self.vfs().inode(inode).attr();
            match FileType::from_mode(attr.mode) {
                Some(FileType::Regular) => {}
                Some(FileType::Socket) if self.vfs().config.profile.sockets_have_user_xattrs => {}
                Some(FileType::Directory) => {
                    let writes = access.contains(Access::WRITE);
                    if writes && attr.mode & S_ISVTX != 0 && !who.owner_or_capable(attr.uid) {
                        return Err(Errno::EPERM);
                    }
                }
                _ => return Err(refusal),
            }
        }
        self.vfs().inode_permission(inode, access, &who).map(|_| ())
    }

    fn must_be_admin(&self) -> Result<()> {
        let admin = self.cred.subject().capable(CapSet::SYS_ADMIN);
        if admin { Ok(()) } else { Err(Errno::EPERM) }
    }
}

fn known(flags: AtFlags) -> Result<()> {
    only(flags, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)
}

impl Task {
    /// Refuses the current directory by an empty path, which setxattrat and getxattrat take.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: the bounds are none.
    /// - `EBADF`: it is that.
    fn must_have_file(&self, dir: At<'_>, path: &[u8], flags: AtFlags) -> Result<()> {
        let empty = path.is_empty() && flags.contains(AtFlags::EMPTY_PATH);
        if empty && dir.dir().is_none() {
            self.request(dir, path, lookup_flags(flags))?;
            return Err(Errno::EBADF);
        }
        Ok(())
    }
}

/// The name, if it can be one.
fn checked(name: &[u8]) -> Result<&[u8]> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Errno::ERANGE);
    }
    if name.contains(&0) { Err(Errno::EINVAL) } else { Ok(name) }
}

/// Whether everybody may read an attribute: whether it is there is the file system's alone to say.
pub(super) fn is_everybodys(name: &[u8]) -> bool {
    name.len() <= XATTR_NAME_MAX && (is_security(name) || name.starts_with(XATTR_SYSTEM_PREFIX))
}

fn is_security(name: &[u8]) -> bool {
    name.starts_with(XATTR_SECURITY_PREFIX)
}

/// Copies what was asked for, or tells only its size.
fn give(bytes: &[u8], buf: &mut [u8], max: usize) -> Result<usize> {
    if !buf.is_empty() {
        let room = buf.len().min(max);
        if bytes.len() > room {
            return Err(if room == max { Errno::E2BIG } else { Errno::ERANGE });
        }
        buf[..bytes.len()].copy_from_slice(bytes);
    }
    Ok(bytes.len())
}
