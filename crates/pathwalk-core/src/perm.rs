//! Permission: who may do what to an inode.
//!
//! Linux: `inode_permission`, `generic_permission`, `acl_permission_check`; path_resolution(7), acl(5).

use crate::{
    acl::{
        AclEntry, posix_acl_permission,
        store::{Entries, MOST_LOST},
    },
    cred::Subject,
    fs::Access,
    inode::{
        Attr, I_ACL, I_ACL_UNKNOWN, I_IMMUTABLE, I_MAY_EXEC, I_PERMISSION, InodeId, InodeRef, Owner,
    },
    security::Hooks,
    vfs::Vfs,
    walk::observe::Left,
};
use pathwalk_abi::{
    CapSet, Errno, FileType, Result,
    mode::{S_IFDIR, S_IFMT, S_IRWXG, S_IXUGO},
};
use pathwalk_sync::Spin;

/// Which rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All three classes have every bit that was asked for.
    Everyone,
    /// The owner's bits.
    Owner,
    /// The access ACL.
    Acl,
    /// The group's bits.
    Group,
    /// The bits of all others.
    Other,
    /// `CAP_DAC_READ_SEARCH`.
    CapDacReadSearch,
    /// `CAP_DAC_OVERRIDE`.
    CapDacOverride,
    /// The file system's own method.
    FileSystem,
}

impl Rule {
    /// The rule in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Everyone => "everyone may",
            Self::Owner => "owner's bits",
            Self::Acl => "access control list",
            Self::Group => "group's bits",
            Self::Other => "others' bits",
            Self::CapDacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::CapDacOverride => "CAP_DAC_OVERRIDE",
            Self::FileSystem => "the file system's own rule",
        }
    }
}

/// Decides by mode bits and capabilities alone, for an inode without ACL; see
/// [`InodeRef::generic_permission`] for all others.
///
/// # Errors
///
/// - `EACCES`: the class that the subject falls into lacks a bit, and no capability makes up for it.
pub fn generic_permission(attr: &Attr, access: Access, who: &Subject<'_>) -> Result<()> {
    let owner = attr.owner();
    decide(owner, NO_ACL, access, who).map(|_| ()).map_err(|_| Errno::EACCES)
}

/// No access ACL.
const NO_ACL: Option<std::iter::Empty<AclEntry>> = None;

/// The rule that grants, or the one that refuses.
fn decide(
    owner: Owner,
    acl: Option<impl Iterator<Item = AclEntry> + Clone>,
    access: Access,
    who: &Subject<'_>,
) -> Result<Rule, Rule> {
    match acl_permission_check(owner, acl, access, who) {
        Ok(rule) => Ok(rule),
        Err(rule) => capability(owner, access, who).ok_or(rule),
    }
}

fn acl_permission_check(
    owner: Owner,
    acl: Option<impl Iterator<Item = AclEntry> + Clone>,
    access: Access,
    who: &Subject<'_>,
) -> Result<Rule, Rule> {
    let want = access.bits() & 7;
    let lacks = |class: u32| want & !(owner.mode >> class) & 7;
    if lacks(6) | lacks(3) | lacks(0) == 0 && acl.is_none() {
        return Ok(Rule::Everyone);
    }
    // The owner's bits are final for the owner, the group's for the group: nobody falls through to a later class.
    let (rule, class) = if who.owns(owner.uid) {
        (Rule::Owner, 6)
    } else if let Some(acl) = acl.filter(|_| owner.mode & S_IRWXG != 0) {
        // An ACL whose mask lets nothing through is not looked at.
        return posix_acl_permission(acl, owner, access, who);
    } else if who.in_group(owner.gid) {
        (Rule::Group, 3)
    } else {
        (Rule::Other, 0)
    };
    if lacks(class) == 0 { Ok(rule) } else { Err(rule) }
}

/// The rule that decides whatever the access ACL says, if one does. Of several that grant it is not told which is the first.
fn whatever_the_acl(owner: Owner, access: Access, who: &Subject<'_>) -> Option<Result<Rule, Rule>> {
    // For the owner, and where its mask lets nothing through, it is not looked at.
    if who.owns(owner.uid) || owner.mode & S_IRWXG == 0 {
        return Some(decide(owner, NO_ACL, access, who));
    }
    capability(owner, access, who).map(Ok)
}

fn capability(owner: Owner, access: Access, who: &Subject<'_>) -> Option<Rule> {
    let directory = owner.mode & S_IFMT == S_IFDIR;
    let read_search =
        if directory { !access.contains(Access::WRITE) } else { access == Access::READ };
    if read_search && who.capable_over(CapSet::DAC_READ_SEARCH, owner.uid, owner.gid) {
        return Some(Rule::CapDacReadSearch);
    }
    // Nobody executes a file that has no x bit at all.
    let possible = directory || !access.contains(Access::EXEC) || owner.mode & S_IXUGO != 0;
    let may = possible && who.capable_over(CapSet::DAC_OVERRIDE, owner.uid, owner.gid);
    may.then_some(Rule::CapDacOverride)
}

impl Vfs {
    /// Decides about access to an inode that the caller holds.
    ///
    /// # Errors
    ///
    /// - `EROFS`: a write to a regular file, directory or symlink of a read-only file system.
    /// - `EPERM`: a write to what is immutable.
    /// - `EACCES`: a write to what has an owner or a group that the mount does not show.
    /// - whatever the file system's own method answers, else
    /// - `EACCES`: see [`generic_permission`].
    ///
    /// Linux: `inode_permission`.
    pub(crate) fn inode_permission(
        &self,
        inode: InodeId,
        access: Access,
        who: &Subject<'_>,
    ) -> Result<Rule> {
        let (owner, flags) = self.inode(inode).owner();
        self.permission_of(inode, (owner, flags), access, who)
    }

    /// Whether permission to an inode is nobody's to decide but ours.
    pub(crate) fn decides_permission(&self, inode: InodeId) -> bool {
        let file_system_decides = self.inode(inode).flags.get() & I_PERMISSION != 0;
        !file_system_decides && !self.asks(Hooks::INODE_PERMISSION)
    }

    /// The same as [`Vfs::inode_permission`], with what [`Inode::owner`](crate::inode::Inode::owner) gave.
    ///
    /// # Errors
    ///
    /// As [`Vfs::inode_permission`].
    pub(crate) fn permission_of(
        &self,
        inode: InodeId,
        (owner, flags): (Owner, u32),
        access: Access,
        who: &Subject<'_>,
    ) -> Result<Rule> {
        if access.contains(Access::WRITE) {
            let kind = FileType::from_mode(owner.mode);
            let matters =
                matches!(kind, Some(FileType::Regular | FileType::Directory | FileType::Symlink));
            if matters && self.sb_is_read_only(self.inode(inode).sb.get()) {
                return Err(Errno::EROFS);
            }
            if flags & I_IMMUTABLE != 0 {
                return Err(Errno::EPERM);
            }
            if who.has_unmapped(owner.uid, owner.gid) {
                return Err(Errno::EACCES);
            }
        }
        if flags & I_PERMISSION != 0 {
            let sb = self.superblock(self.inode(inode).sb.get()).ok_or(Errno::EACCES)?;
            sb.fs.permission(InodeRef { vfs: self, id: inode }, access, who)?;
            self.security_inode_permission(inode, access, who)?;
            return Ok(Rule::FileSystem);
        }
        let rule = match self.try_decide(inode, owner, flags, access, who) {
            Verdict::Rule(rule) => rule.map_err(|_| Errno::EACCES)?,
            Verdict::Changed | Verdict::Unknown => match whatever_the_acl(owner, access, who) {
                // Who may search is asked again and again, and mostly answered by a flag that says that there is no ACL: so that is
                // found out.
                Some(rule) if !access.contains(Access::EXEC) => rule.map_err(|_| Errno::EACCES)?,
                _ => self.generic_permission(inode, access, who)?,
            },
        };
        self.security_inode_permission(inode, access, who)?;
        Ok(rule)
    }
}

impl Vfs {
    /// Asks the security module, when all others have said yes.
    ///
    /// # Errors
    ///
    /// What it answers.
    #[inline]
    fn security_inode_permission(
        &self,
        inode: InodeId,
        access: Access,
        who: &Subject<'_>,
    ) -> Result<()> {
        self.ask(Hooks::INODE_PERMISSION, |module| {
            module.inode_permission(who, self.inode_ref(inode), access)
        })
    }

    /// Decides by mode bits, ACL and capabilities about an inode that the caller holds.
    ///
    /// # Errors
    ///
    /// - `EACCES`: see [`generic_permission`].
    /// - whatever the file system answers about ACLs that are not known.
    pub(crate) fn generic_permission(
        &self,
        inode: InodeId,
        access: Access,
        who: &Subject<'_>,
    ) -> Result<Rule> {
        self.generic_rule(inode, access, who)?.map_err(|_| Errno::EACCES)
    }

    /// The rule that grants, or the one that refuses, about an inode that the caller holds.
    ///
    /// # Errors
    ///
    /// Whatever the file system answers about ACLs that are not known.
    pub(crate) fn generic_rule(
        &self,
        inode: InodeId,
        access: Access,
        who: &Subject<'_>,
    ) -> Result<Result<Rule, Rule>> {
        let mut spin = Spin::default();
        let mut lost = 0;
        loop {
            let (owner, flags) = self.inode(inode).owner();
            match self.try_decide(inode, owner, flags, access, who) {
                Verdict::Rule(rule) => return Ok(rule),
                Verdict::Changed => spin.turn(),
                Verdict::Unknown => {
                    let Some(acls) = self.read_acls(inode)? else { continue };
                    lost += 1;
                    if lost == MOST_LOST {
                        let (owner, _) = self.inode(inode).owner();
                        let entries = (!acls.access.is_empty()).then(|| acls.access.into_iter());
                        return Ok(decide(owner, entries, access, who));
                    }
                }
            }
        }
    }

    /// The rule by which a directory may be searched or not, for who holds nothing; or why it must be held first.
    #[inline]
    pub(crate) fn try_may_search(
        &self,
        inode: InodeId,
        who: &Subject<'_>,
    ) -> Result<Result<Rule, Rule>, Left> {
        let (owner, flags) = self.inode(inode).try_owner().ok_or(Left::Changed)?;
        let opted_in = flags & I_MAY_EXEC != 0
            && flags & (I_ACL | I_ACL_UNKNOWN) == 0
            && owner.mode & S_IXUGO == S_IXUGO;
        if flags & I_PERMISSION != 0 && !opted_in || self.security.asks_in_walks() {
            return Err(Left::Permission);
        }
        match self.try_decide(inode, owner, flags, Access::EXEC, who) {
            Verdict::Rule(rule) => Ok(rule),
            Verdict::Changed => Err(Left::Changed),
            Verdict::Unknown => Err(Left::Permission),
        }
    }

    /// The same for who holds nothing, with what [`Inode::try_owner`](crate::inode::Inode::try_owner) gave. Stores nothing.
    #[inline]
    pub(crate) fn try_decide(
        &self,
        inode: InodeId,
        owner: Owner,
        flags: u32,
        access: Access,
        who: &Subject<'_>,
    ) -> Verdict {
        if flags & (I_ACL | I_ACL_UNKNOWN) == 0 {
            return Verdict::Rule(decide(owner, NO_ACL, access, who));
        }
        self.try_decide_by_acl(inode, access, who)
    }

    #[cold]
    #[inline(never)]
    fn try_decide_by_acl(&self, inode: InodeId, access: Access, who: &Subject<'_>) -> Verdict {
        let slot = self.inode(inode);
        let sample = slot.seq.sample();
        let (Some((owner, flags)), acl) = (slot.try_owner(), slot.acl.get()) else {
            return Verdict::Changed;
        };
        if flags & I_ACL_UNKNOWN != 0 {
            return Verdict::Unknown;
        }
        let entries = (flags & I_ACL != 0).then(|| Entries::access(&self.names, acl));
        let rule = decide(owner, entries, access, who);
        // What was read of mode and ACL is of one moment, or it is nothing.
        if slot.seq.unchanged(sample) { Verdict::Rule(rule) } else { Verdict::Changed }
    }
}

/// What [`Vfs::try_decide`] found out.
#[must_use]
pub(crate) enum Verdict {
    /// The rule that grants, or the one that refuses.
    Rule(Result<Rule, Rule>),
    /// The inode changed meanwhile.
    Changed,
    /// The file system must be asked for the ACL.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(mode: u32) -> Owner {
        Owner { mode, uid: 10, gid: 20 }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let subject = |fsuid, fsgid| Subject {
            fsuid,
            fsgid,
            groups: &[],
            caps: CapSet::empty(),
            security: 0,
            task: 0,
            idmap: None,
        };
        for (mode, who, want) in [
            (0o100_077, subject(10, 20), Err(Rule::Owner)),
            (0o100_707, subject(11, 20), Err(Rule::Group)),
            (0o100_770, subject(11, 21), Err(Rule::Other)),
            (0o100_700, subject(10, 21), Ok(Rule::Owner)),
            (0o100_070, subject(11, 20), Ok(Rule::Group)),
            (0o100_007, subject(11, 21), Ok(Rule::Other)),
            (0o100_777, subject(11, 21), Ok(Rule::Everyone)),
        ] {
            assert_eq!(decide(owner(mode), NO_ACL, Access::all(), &who), want, "{mode:o}");
        }
    }

    #[test]
    fn an_acl_that_decides_nothing_need_not_be_known() {
        let subject = |fsuid, caps| Subject {
            fsuid,
            fsgid: 20,
            groups: &[],
            caps,
            security: 0,
            task: 0,
            idmap: None,
        };
        let (none, all) = (CapSet::empty(), CapSet::FULL);
        for (mode, who, want) in [
            (0o100_640, subject(10, none), Some(Ok(Rule::Owner))),
            (0o100_244, subject(10, none), Some(Err(Rule::Owner))),
            (0o100_604, subject(11, none), Some(Err(Rule::Group))),
            (0o100_644, subject(11, none), None),
            (0o100_644, subject(0, all), Some(Ok(Rule::CapDacReadSearch))),
        ] {
            assert_eq!(whatever_the_acl(owner(mode), Access::READ, &who), want, "{mode:o}");
        }
    }

    #[test]
    fn capabilities_make_up_for_bits_but_not_for_a_missing_x() {
        let who = Subject {
            fsuid: 0,
            fsgid: 0,
            groups: &[],
            caps: CapSet::FULL,
            security: 0,
            task: 0,
            idmap: None,
        };
        assert_eq!(decide(owner(0o100_600), NO_ACL, Access::EXEC, &who), Err(Rule::Other));
        assert_eq!(decide(owner(0o100_100), NO_ACL, Access::EXEC, &who), Ok(Rule::CapDacOverride));
        assert_eq!(
            decide(owner(0o040_000), NO_ACL, Access::EXEC, &who),
            Ok(Rule::CapDacReadSearch)
        );
        assert_eq!(decide(owner(0o040_000), NO_ACL, Access::WRITE, &who), Ok(Rule::CapDacOverride));
        assert_eq!(
            decide(owner(0o100_000), NO_ACL, Access::READ, &who),
            Ok(Rule::CapDacReadSearch)
        );
    }
}
