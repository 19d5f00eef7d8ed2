//! Access control lists: permission for single users and groups, beside the three classes of the mode.
//!
//! ```text
//!   u::rwx  u:1000:rw-  g::r-x  g:50:rwx  m::rw-  o::---
//!   owner   ╰─ named ─╯ group   ╰ named ╯   │     everyone else
//!              ╰───────────┴────────┴───────┘ the mask limits these; the mode shows it as the group's bits
//! ```
//!
//! A file has an access ACL if the mode alone cannot say it; a directory may have a default ACL beside, which new files in
//! it begin with.
//!
//! Invariant: an ACL that an inode has is valid (see [`validate`]), and the mode's bits repeat its owner's, mask's or
//! group's, and others' entry.
//!
//! Linux: `fs/posix_acl.c`; acl(5).

pub(crate) mod format;

pub(crate) mod store;

use crate::{cred::Subject, fs::Access, inode::Owner, perm::Rule};
use pathwalk_abi::{
    Errno, Result,
    mode::{S_IRWXO, S_IRWXUGO},
};

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclTag {
    /// The owner.
    UserObj,
    /// A user.
    User(u32),
    /// The file's group.
    GroupObj,
    /// A group.
    Group(u32),
    /// What named users and all groups have at most.
    Mask,
    /// Everyone else.
    Other,
}

/// An entry of an ACL: who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Who.
    pub tag: AclTag,
    /// What.
    pub access: Access,
}

/// Which of a file's two ACLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    /// Who may access it.
    Access,
    /// What new files in it begin with; of directories only.
    Default,
}

/// A file's ACLs; an empty one is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// Who may access it.
    pub access: Vec<AclEntry>,
    /// What new files in it begin with.
    pub default: Vec<AclEntry>,
}

impl Acls {
    pub(crate) fn of(&self, kind: AclKind) -> &[AclEntry] {
        match kind {
            AclKind::Access => &self.access,
            AclKind::Default => &self.default,
        }
    }

    pub(crate) fn of_mut(&mut self, kind: AclKind) -> &mut Vec<AclEntry> {
        match kind {
            AclKind::Access => &mut self.access,
            AclKind::Default => &mut self.default,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.access.is_empty() && self.default.is_empty()
    }
}

/// What an access ACL says to a subject that does not own the file, and that the rule is the ACL's.
///
/// # Errors
///
/// The same rule, as a refusal.
///
/// Linux: `posix_acl_permission`.
pub(crate) fn posix_acl_permission(
    entries: impl Iterator<Item = AclEntry> + Clone,
    owner: Owner,
    access: Access,
    who: &Subject<'_>,
) -> Result<Rule, Rule> {
    let says = |granted: bool| if granted { Ok(Rule::Acl) } else { Err(Rule::Acl) };
    let want = access & Access::all();
    let mask = |have: Access| {
        let mask = entries.clone().find(|entry| entry.tag == AclTag::Mask);
        says((have & mask.map_or(have, |mask| mask.access)).contains(want))
    };
    let mut found = false;
    for entry in entries.clone() {
        let group = match entry.tag {
            AclTag::UserObj | AclTag::Mask => continue,
            AclTag::User(uid) if who.owns(uid) => return mask(entry.access),
            AclTag::User(_) => continue,
            AclTag::GroupObj => owner.gid,
            AclTag::Group(gid) => gid,
            // A group that the subject is in, and that has not all that is wanted, refuses.
            AclTag::Other => return says(!found && entry.access.contains(want)),
        };
        if who.in_group(group) {
            found = true;
            if entry.access.contains(want) {
                return mask(entry.access);
            }
        }
    }
    Err(Rule::Acl)
}

/// The entries with other ids.
///
/// # Errors
///
/// Those of the two functions.
pub(crate) fn map_ids(
    mut acl: Vec<AclEntry>,
    uid: impl Fn(u32) -> Result<u32>,
    gid: impl Fn(u32) -> Result<u32>,
) -> Result<Vec<AclEntry>> {
    for entry in &mut acl {
        match &mut entry.tag {
            AclTag::User(id) => *id = uid(*id)?,
            AclTag::Group(id) => *id = gid(*id)?,
            AclTag::UserObj | AclTag::GroupObj | AclTag::Mask | AclTag::Other => {}
        }
    }
    Ok(acl)
}

/// Whether the entries make an ACL: owner, users, group, groups, mask, others, in this order; the mask is there if there
/// are users or groups.
///
/// # Errors
///
/// `EINVAL`: they do not, or an entry has bits that are no permission.
///
/// Linux: `posix_acl_valid`.
pub(crate) fn validate(acl: &[AclEntry]) -> Result<()> {
    let mut before = None;
    let mut named = false;
    for entry in acl {
        let follows = match (before, entry.tag) {
            (None, AclTag::UserObj)
            | (Some(AclTag::UserObj | AclTag::User(_)), AclTag::User(_) | AclTag::GroupObj)
            | (Some(AclTag::GroupObj | AclTag::Group(_)), AclTag::Group(_) | AclTag::Mask)
            | (Some(AclTag::Mask), AclTag::Other) => true,
            (Some(AclTag::GroupObj), AclTag::Other) => !named,
            _ => false,
        };
        if !follows || !Access::all().contains(entry.access) {
            return Err(Errno::EINVAL);
        }
        named |= matches!(entry.tag, AclTag::User(_) | AclTag::Group(_));
        before = Some(entry.tag);
    }
    if before == Some(AclTag::Other) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// The permission bits that show the ACL, and whether they say all of it.
///
/// Linux: `posix_acl_equiv_mode`.
pub(crate) fn equiv_mode(acl: &[AclEntry]) -> (u32, bool) {
    let mut mode = 0;
    let mut equivalent = true;
    for entry in acl {
        let bits = entry.access.bits();
        match entry.tag {
            AclTag::UserObj => mode |= bits << 6,
            AclTag::GroupObj => mode |= bits << 3,
            AclTag::Other => mode |= bits,
            AclTag::Mask => {
                mode = mode & !0o070 | bits << 3;
                equivalent = false;
            }
            AclTag::User(_) | AclTag::Group(_) => equivalent = false,
        }
    }
    (mode, equivalent)
}

/// Changes an access ACL with the mode: the group's bits of a mode are the mask's, if there is one.
///
/// Linux: `__posix_acl_chmod_masq`.
pub fn acl_chmod(acl: &mut [AclEntry], mode: u32) {
    let masked = acl.iter().any(|entry| entry.tag == AclTag::Mask);
    for entry in acl {
        if let Some(class) = class_of(entry.tag, masked) {
            entry.access = class_bits(mode, class);
        }
    }
}

/// The class of the mode that repeats an entry, as a shift; none for what the mask limits.
fn class_of(tag: AclTag, masked: bool) -> Option<u32> {
    match tag {
        AclTag::UserObj => Some(6),
        AclTag::Mask => Some(3),
        AclTag::GroupObj if !masked => Some(3),
        AclTag::Other => Some(0),
        AclTag::GroupObj | AclTag::User(_) | AclTag::Group(_) => None,
    }
}

fn class_bits(mode: u32, class: u32) -> Access {
    Access::from_bits_truncate(mode >> class & S_IRWXO)
}

/// Mode and ACLs of what is made with `mode` in a directory with a default ACL: the ACL takes the umask's place.
///
/// Linux: `posix_acl_create`, `posix_acl_create_masq`.
pub(crate) fn inherit(default: &[AclEntry], mode: u32, directory: bool) -> (u32, Acls) {
    let mut access = default.to_vec();
    let masked = access.iter().any(|entry| entry.tag == AclTag::Mask);
    for entry in &mut access {
        if let Some(class) = class_of(entry.tag, masked) {
            entry.access &= class_bits(mode, class);
        }
    }
    let (bits, equivalent) = equiv_mode(&access);
    let acls = Acls {
        access: if equivalent { Vec::new() } else { access },
        default: if directory { default.to_vec() } else { Vec::new() },
    };
    (mode & !S_IRWXUGO | bits, acls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use AclTag::{Group, GroupObj, Mask, Other, User, UserObj};
    use pathwalk_abi::CapSet;

    fn acl(entries: &[(AclTag, u32)]) -> Vec<AclEntry> {
        entries
            .iter()
            .map(|&(tag, bits)| AclEntry { tag, access: Access::from_bits_retain(bits) })
            .collect()
    }

    #[test]
    fn an_acl_has_its_entries_in_order() {
        let plain = [(UserObj, 7), (GroupObj, 5), (Other, 0)];
        let valid = [
            plain.to_vec(),
            vec![(UserObj, 7), (GroupObj, 5), (Mask, 7), (Other, 0)],
            vec![(UserObj, 7), (User(2), 1), (User(1), 1), (GroupObj, 5), (Mask, 7), (Other, 0)],
            vec![(UserObj, 7), (GroupObj, 5), (Group(2), 1), (Group(2), 1), (Mask, 7), (Other, 0)],
        ];
        for entries in valid {
            assert_eq!(validate(&acl(&entries)), Ok(()), "{entries:?}");
        }
        let invalid = [
            vec![],
            vec![(UserObj, 8), (GroupObj, 5), (Other, 0)],
            vec![(GroupObj, 5), (UserObj, 7), (Other, 0)],
            vec![(UserObj, 7), (GroupObj, 5)],
            vec![(UserObj, 7), (Other, 5)],
            vec![(UserObj, 7), (User(1), 1), (GroupObj, 5), (Other, 0)],
            vec![(UserObj, 7), (GroupObj, 5), (Group(1), 5), (Other, 0)],
            vec![(UserObj, 7), (Mask, 7), (GroupObj, 5), (Other, 0)],
            vec![(UserObj, 7), (GroupObj, 5), (Mask, 7), (Mask, 7), (Other, 0)],
            vec![(UserObj, 7), (GroupObj, 5), (Other, 0), (Other, 0)],
            vec![(UserObj, 7), (UserObj, 7), (GroupObj, 5), (Other, 0)],
        ];
        for entries in invalid {
            assert_eq!(validate(&acl(&entries)), Err(Errno::EINVAL), "{entries:?}");
        }
    }

    #[test]
    fn users_before_groups_before_all_others() {
        let list = acl(&[
            (UserObj, 7),
            (User(1), 7),
            (User(2), 2),
            (GroupObj, 4),
            (Group(30), 5),
            (Mask, 5),
            (Other, 2),
        ]);
        let owner = Owner { mode: 0o100_752, uid: 10, gid: 20 };
        for (fsuid, fsgid, access, granted) in [
            (1, 99, Access::READ, true),
            (1, 99, Access::WRITE, false),
            (2, 20, Access::READ, false),
            (3, 20, Access::READ, true),
            (3, 20, Access::EXEC, false),
            (3, 30, Access::READ | Access::EXEC, true),
            (3, 30, Access::WRITE, false),
            (3, 99, Access::WRITE, true),
            (3, 99, Access::READ, false),
        ] {
            let who = Subject {
                fsuid,
                fsgid,
                groups: &[],
                caps: CapSet::empty(),
                security: 0,
                task: 0,
                idmap: None,
            };
            let answer = posix_acl_permission(list.iter().copied(), owner, access, &who);
            assert_eq!(answer.is_ok(), granted, "{fsuid}:{fsgid} {access:?}");
        }
    }

    #[test]
    fn what_is_made_gets_no_more_than_it_asks_for() {
        let default = acl(&[(UserObj, 7), (User(1), 7), (GroupObj, 5), (Mask, 7), (Other, 5)]);
        let (mode, acls) = inherit(&default, 0o2640, true);
        assert_eq!(mode, 0o2640);
        let access = acl(&[(UserObj, 6), (User(1), 7), (GroupObj, 5), (Mask, 4), (Other, 0)]);
        assert_eq!(acls, Acls { access, default: default.clone() });
        let (mode, acls) = inherit(&acl(&[(UserObj, 7), (GroupObj, 5), (Other, 0)]), 0o666, false);
        assert_eq!((mode, acls), (0o640, Acls::default()));
    }
}
