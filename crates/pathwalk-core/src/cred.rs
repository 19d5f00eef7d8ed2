//! Credentials: who asks.
//!
//! Linux: `struct cred`, as far as names and inodes look at it; credentials(7), capabilities(7).

use crate::idmap::MntIdmap;
use pathwalk_abi::CapSet;
use pathwalk_sync::Cell64;
use std::ops::Deref;

/// The credentials of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// The real user: who access(2) asks for.
    pub uid: u32,
    /// The real group.
    pub gid: u32,
    /// The user that permission is checked for and that new files belong to.
    pub fsuid: u32,
    /// The group that permission is checked for and that new files belong to.
    pub fsgid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The effective capabilities.
    pub caps: CapSet,
    /// A word of the security module's: see [`SecurityModule`](crate::SecurityModule). Nobody else looks at it.
    pub security: u64,
    /// The capabilities that may be made effective: what access(2) counts for a real user 0.
    pub permitted: CapSet,
}

impl Cred {
    /// User 0 with all capabilities.
    pub fn root() -> Self {
        Self { caps: CapSet::FULL, permitted: CapSet::FULL, ..Self::user(0, 0) }
    }

    /// An ordinary user without capabilities.
    pub fn user(uid: u32, gid: u32) -> Self {
        Self {
            uid,
            gid,
            fsuid: uid,
            fsgid: gid,
            groups: Vec::new(),
            caps: CapSet::empty(),
            security: 0,
            permitted: CapSet::empty(),
        }
    }

    /// The same with these supplementary groups.
    #[must_use]
    pub fn with_groups(mut self, groups: &[u32]) -> Self {
        self.groups = groups.to_vec();
        self
    }

    /// The same with these capabilities, effective and permitted.
    #[must_use]
    pub fn with_caps(mut self, caps: CapSet) -> Self {
        (self.caps, self.permitted) = (caps, caps);
        self
    }

    /// The same with this word of the security module's.
    #[must_use]
    pub fn with_security(mut self, security: u64) -> Self {
        self.security = security;
        self
    }

    /// The credentials that permission is checked by; those of no task, where no mount has a map.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            fsuid: self.fsuid,
            fsgid: self.fsgid,
            groups: &self.groups,
            caps: self.caps,
            task: 0,
            security: self.security,
            idmap: None,
        }
    }

    /// The credentials that access(2) checks by, otherwise as [`Cred::subject`]: the real user's, with the permitted capabilities for
    /// user 0, and with none for others.
    ///
    /// Linux: `access_override_creds`.
    pub fn real_subject(&self) -> Subject<'_> {
        let caps = if self.uid == 0 { self.permitted } else { CapSet::empty() };
        let (fsuid, fsgid, security) = (self.uid, self.gid, self.security);
        Subject { fsuid, fsgid, groups: &self.groups, caps, security, task: 0, idmap: None }
    }
}

/// A task's credentials and its number.
#[derive(Clone, Debug)]
pub(crate) struct TaskCred {
    pub(crate) cred: Cred,
    /// Credentials that may be others have another number.
    pub(crate) version: CredVersion,
    pub(crate) task: u32,
}

impl TaskCred {
    /// As [`Cred::subject`], of this task.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { task: self.task, ..self.cred.subject() }
    }

    /// As [`Cred::real_subject`], of this task.
    pub(crate) fn real_subject(&self) -> Subject<'_> {
        Subject { task: self.task, ..self.cred.real_subject() }
    }
}

impl Deref for TaskCred {
    type Target = Cred;

    fn deref(&self) -> &Cred {
        &self.cred
    }
}

/// The number of some credentials, never given twice in the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CredVersion {
    number: u64,
    /// The real user may do other things than the effective one.
    real_differs: bool,
}

impl CredVersion {
    pub(crate) fn new(cred: &Cred) -> Self {
        static LAST: Cell64 = Cell64::new(0);
        let may = |who: Subject<'_>| (who.fsuid, who.fsgid, who.caps);
        let real_differs = may(cred.real_subject()) != may(cred.subject());
        Self { number: LAST.add(1) + 1, real_differs }
    }
}

/// As which user a call asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker<'a> {
    /// As the effective one.
    Effective(&'a TaskCred),
    /// As the real one: access(2).
    Real(&'a TaskCred),
}

/// Who asks, in a word: see [`Asker::identity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64);

impl Identity {
    /// Nobody's.
    pub(crate) const NONE: Self = Self(0);
}

impl<'a> Asker<'a> {
    /// What permission is checked by.
    pub(crate) fn subject(self) -> Subject<'a> {
        match self {
            Self::Effective(cred) => cred.subject(),
            Self::Real(cred) => cred.real_subject(),
        }
    }

    /// Two that have the same may do the same.
    pub(crate) fn identity(self) -> Identity {
        match self {
            Self::Effective(cred) => Identity(cred.version.number << 1),
            Self::Real(TaskCred { version, .. }) => {
                Identity(version.number << 1 | u64::from(version.real_differs))
            }
        }
    }
}

/// What a permission check looks at.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The user.
    pub fsuid: u32,
    /// The group.
    pub fsgid: u32,
    /// The supplementary groups.
    pub groups: &'a [u32],
    /// The effective capabilities.
    pub caps: CapSet,
    /// The number of the task that asks; 0 where it does not matter who. Permission looks at it only in file systems that
    /// show tasks.
    pub task: u32,
    /// The security module's word.
    pub security: u64,
    /// How the mount shows owners that the subject looks through, where not as they are.
    pub idmap: Option<MntIdmap<'a>>,
}

impl Subject<'_> {
    /// Says whether an inode's user is the subject.
    pub fn owns(&self, uid: u32) -> bool {
        self.seen_uid(uid) == Some(self.fsuid)
    }

    /// Says whether an inode's group is the subject's own or a supplementary one.
    pub fn in_group(&self, gid: u32) -> bool {
        self.seen_gid(gid).is_some_and(|gid| self.is_member(gid))
    }

    /// Says whether a group, by the number that the subject knows it by, is his own or a supplementary one.
    pub(crate) fn is_member(&self, gid: u32) -> bool {
        self.fsgid == gid || self.groups.contains(&gid)
    }

    /// Says whether the subject has the capability.
    pub fn capable(&self, cap: CapSet) -> bool {
        self.caps.contains(cap)
    }

    /// Says whether the subject has the capability over what belongs to these: it must see them.
    ///
    /// Linux: `capable_wrt_inode_uidgid`.
    pub fn capable_over(&self, cap: CapSet, uid: u32, gid: u32) -> bool {
        self.capable(cap) && !self.has_unmapped(uid, gid)
    }

    /// Says whether the subject owns what `uid` owns, or may act as if.
    ///
    /// Linux: `inode_owner_or_capable`.
    pub fn owner_or_capable(&self, uid: u32) -> bool {
        self.owns(uid) || self.capable(CapSet::FOWNER) && self.seen_uid(uid).is_some()
    }
}
