//! Virtual credentials: who a thread of the program is in the tree, and how its calls change that.
//!
//! The kernel knows nothing of them: for it the thread is who started `pathwalk`. The rules are Linux's, so that what gives
//! a privilege away has given it away.
//!
//! Linux: `kernel/sys.c`, `cap_task_fix_setuid`, `cap_capset`, `cap_bprm_creds_from_file`; credentials(7), capabilities(7).

use pathwalk::{CapSet, Cred, Errno, Result};

/// The number that says "as it is".
pub(crate) const KEEP: u32 = u32::MAX;
/// Whose a file is whose owner has no number here: its set-id bits give nothing.
const NOBODY: u32 = 65_534;

/// `SECBIT_NOROOT`
const NOROOT: u32 = 1 << 0;
/// `SECBIT_NO_SETUID_FIXUP`
const NO_SETUID_FIXUP: u32 = 1 << 2;
/// `SECBIT_KEEP_CAPS`
const KEEP_CAPS: u32 = 1 << 4;
/// `SECBIT_NO_CAP_AMBIENT_RAISE`
const NO_CAP_AMBIENT_RAISE: u32 = 1 << 6;
/// `SECURE_ALL_BITS` and `SECURE_ALL_LOCKS`; each lock is the bit above what it locks.
const ALL_BITS: u32 = 0x555;
const ALL_LOCKS: u32 = ALL_BITS << 1;
/// `SECBIT_EXEC_RESTRICT_FILE`, `SECBIT_EXEC_DENY_INTERACTIVE` and their locks: the kernel does nothing by them.
const UNPRIVILEGED: u32 = 0xf << 8;

/// A user or a group, four times over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) real: u32,
    pub(crate) effective: u32,
    pub(crate) saved: u32,
    /// Who permission is checked for.
    pub(crate) fs: u32,
}

impl Ids {
    fn all(id: u32) -> Self {
        Self { real: id, effective: id, saved: id, fs: id }
    }

    fn any_is(self, id: u32) -> bool {
        [self.real, self.effective, self.saved].contains(&id)
    }

    /// `setreuid`, `setregid`
    fn set_real_effective(self, real: u32, effective: u32, privileged: bool) -> Result<Self> {
        let mut new = self;
        if real != KEEP {
            if !privileged && ![self.real, self.effective].contains(&real) {
                return Err(Errno::EPERM);
            }
            new.real = real;
        }
        if effective != KEEP {
            if !privileged && !self.any_is(effective) {
                return Err(Errno::EPERM);
            }
            new.effective = effective;
        }
        if real != KEEP || effective != KEEP && effective != self.real {
            new.saved = new.effective;
        }
        new.fs = new.effective;
        Ok(new)
    }

    /// `setuid`, `setgid`
    fn set(self, id: u32, privileged: bool) -> Result<Self> {
        if id == KEEP {
            return Err(Errno::EINVAL);
        }
        if privileged {
            return Ok(Self::all(id));
        }
        let own = [self.real, self.saved].contains(&id);
        if own { Ok(Self { effective: id, fs: id, ..self }) } else { Err(Errno::EPERM) }
    }

    /// `setresuid`, `setresgid`
    fn set_all(self, ids: [u32; 3], privileged: bool) -> Result<Self> {
        let [real, effective, saved] = ids;
        let stays = |id: u32, old: u32| id == KEEP || id == old;
        // The file system's follows only where something changes, or is said anew.
        if stays(real, self.real)
            && stays(effective, self.effective)
            && stays(effective, self.fs)
            && stays(saved, self.saved)
        {
            return Ok(self);
        }
        if !privileged && ids.iter().any(|&id| id != KEEP && !self.any_is(id)) {
            return Err(Errno::EPERM);
        }
        let or = |id: u32, old: u32| if id == KEEP { old } else { id };
        let effective = or(effective, self.effective);
        Ok(Self {
            real: or(real, self.real),
            effective,
            saved: or(saved, self.saved),
            fs: effective,
        })
    }

    /// `setfsuid`, `setfsgid`, which tell no errors.
    fn set_fs(self, id: u32, privileged: bool) -> Self {
        let may = privileged || self.any_is(id) || self.fs == id;
        if id != KEEP && may { Self { fs: id, ..self } } else { self }
    }
}

/// Which ids a call sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    User,
    Group,
}

/// How a call sets ids.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Set {
    Id(u32),
    RealEffective(u32, u32),
    All([u32; 3]),
    Fs(u32),
}

/// By which of its ids somebody is asked who looks into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// `PTRACE_MODE_FSCREDS`
    Fs,
    /// `PTRACE_MODE_REALCREDS`
    Real,
}

/// The credentials of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Ids,
    pub(crate) group: Ids,
    /// The supplementary groups, in order.
    pub(crate) groups: Vec<u32>,
    pub(crate) effective: CapSet,
    pub(crate) permitted: CapSet,
    pub(crate) inheritable: CapSet,
    pub(crate) bounding: CapSet,
    pub(crate) ambient: CapSet,
    pub(crate) securebits: u32,
    /// What the program said; the kernel's own is always set.
    pub(crate) no_new_privs: bool,
}

impl Credentials {
    /// A user: 0 has all capabilities, any other none.
    pub(crate) fn new(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let caps = if uid == 0 { CapSet::FULL } else { CapSet::empty() };
        Self {
            user: Ids::all(uid),
            group: Ids::all(gid),
            groups: groups.to_vec(),
            effective: caps,
            permitted: caps,
            inheritable: CapSet::empty(),
            bounding: CapSet::FULL,
            ambient: CapSet::empty(),
            securebits: 0,
            no_new_privs: false,
        }
    }

    /// The same for the library.
    pub(crate) fn cred(&self) -> Cred {
        Cred {
            fsuid: self.user.fs,
            fsgid: self.group.fs,
            permitted: self.permitted,
            ..Cred::user(self.user.real, self.group.real)
                .with_groups(&self.groups)
                .with_caps(self.effective)
        }
    }

    pub(crate) fn has(&self, cap: CapSet) -> bool {
        self.effective.contains(cap)
    }

    /// setuid(2) and its family.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: of setuid and setgid, no user or group has that number.
    /// - `EPERM`: it is none of one's own, and one may not.
    pub(crate) fn set_ids(&self, which: Which, set: Set) -> Result<Self> {
        let (old, cap) = match which {
            Which::User => (self.user, CapSet::SETUID),
            Which::Group => (self.group, CapSet::SETGID),
        };
        let privileged = self.has(cap);
        let new = match set {
            Set::Id(id) => old.set(id, privileged)?,
            Set::RealEffective(real, effective) => {
                old.set_real_effective(real, effective, privileged)?
            }
            Set::All(ids) => old.set_all(ids, privileged)?,
            Set::Fs(id) => old.set_fs(id, privileged),
        };
        let mut creds = self.clone();
        match which {
            Which::Group => creds.group = new,
            Which::User => {
                creds.user = new;
                if self.securebits & NO_SETUID_FIXUP == 0 {
                    creds.fix_caps(old, matches!(set, Set::Fs(_)));
                }
            }
        }
        Ok(creds)
    }

    /// What comes of the capabilities when the user changes.
    ///
    /// Linux: `cap_task_fix_setuid`.
    fn fix_caps(&mut self, old: Ids, fs_only: bool) {
        let new = self.user;
        if fs_only {
            match (old.fs, new.fs) {
                (0, fs) if fs != 0 => self.effective -= CapSet::FS,
                (fs, 0) if fs != 0 => self.effective |= CapSet::FS & self.permitted,
                _ => {}
            }
            return;
        }
        if old.any_is(0) && !new.any_is(0) {
            if self.securebits & KEEP_CAPS == 0 {
                (self.permitted, self.effective) = (CapSet::empty(), CapSet::empty());
            }
            self.ambient = CapSet::empty();
        }
        match (old.effective, new.effective) {
            (0, effective) if effective != 0 => self.effective = CapSet::empty(),
            (effective, 0) if effective != 0 => self.effective = self.permitted,
            _ => {}
        }
    }

    /// setgroups(2)
    ///
    /// # Errors
    ///
    /// - `EPERM`: without `CAP_SETGID`.
    pub(crate) fn set_groups(&self, mut groups: Vec<u32>) -> Result<Self> {
        if !self.has(CapSet::SETGID) {
            return Err(Errno::EPERM);
        }
        groups.sort_unstable();
        Ok(Self { groups, ..self.clone() })
    }

    /// capset(2)
    ///
    /// # Errors
    ///
    /// - `EPERM`: more than one has, or effective what is not permitted.
    ///
    /// Linux: `cap_capset`.
    pub(crate) fn set_caps(
        &self,
        effective: CapSet,
        permitted: CapSet,
        inheritable: CapSet,
    ) -> Result<Self> {
        let capped = !self.has(CapSet::SETPCAP);
        let more = !(self.inheritable | self.permitted).contains(inheritable);
        let outside = !(self.inheritable | self.bounding).contains(inheritable);
        let refused = capped && more
            || outside
            || !self.permitted.contains(permitted)
            || !permitted.contains(effective);
        if refused {
            return Err(Errno::EPERM);
        }
        let ambient = self.ambient & permitted & inheritable;
        Ok(Self { effective, permitted, inheritable, ambient, ..self.clone() })
    }

    /// `PR_CAPBSET_DROP`
    ///
    /// # Errors
    ///
    /// - `EPERM`: without `CAP_SETPCAP`.
    /// - `EINVAL`: there is no such capability.
    pub(crate) fn drop_bounding(&self, cap: u64) -> Result<Self> {
        if !self.has(CapSet::SETPCAP) {
            return Err(Errno::EPERM);
        }
        Ok(Self { bounding: self.bounding - capability(cap)?, ..self.clone() })
    }

    /// `PR_CAP_AMBIENT_RAISE` and `PR_CAP_AMBIENT_LOWER`
    ///
    /// # Errors
    ///
    /// - `EINVAL`: there is no such capability.
    /// - `EPERM`: it is not both permitted and inheritable, or none may be raised.
    pub(crate) fn set_ambient(&self, cap: u64, raise: bool) -> Result<Self> {
        let cap = capability(cap)?;
        if !raise {
            return Ok(Self { ambient: self.ambient - cap, ..self.clone() });
        }
        let may = (self.permitted & self.inheritable).contains(cap)
            && self.securebits & NO_CAP_AMBIENT_RAISE == 0;
        if may {
            Ok(Self { ambient: self.ambient | cap, ..self.clone() })
        } else {
            Err(Errno::EPERM)
        }
    }

    /// `PR_SET_SECUREBITS`
    ///
    /// # Errors
    ///
    /// - `EPERM`: a bit that is locked or unknown, or without `CAP_SETPCAP` another one than a program asks of itself.
    pub(crate) fn set_securebits(&self, bits: u64) -> Result<Self> {
        let bits = u32::try_from(bits).map_err(|_| Errno::EPERM)?;
        let old = self.securebits;
        let changed = old ^ bits;
        let refused = (old & ALL_LOCKS) >> 1 & changed != 0
            || old & ALL_LOCKS & !bits != 0
            || bits & !(ALL_BITS | ALL_LOCKS) != 0
            || !self.has(CapSet::SETPCAP) && (changed == 0 || changed & !UNPRIVILEGED != 0);
        if refused { Err(Errno::EPERM) } else { Ok(Self { securebits: bits, ..self.clone() }) }
    }

    /// `PR_SET_KEEPCAPS`
    ///
    /// # Errors
    ///
    /// - `EINVAL`: neither 0 nor 1.
    /// - `EPERM`: it is locked.
    pub(crate) fn set_keep_caps(&self, keep: u64) -> Result<Self> {
        let securebits = match keep {
            0 => self.securebits & !KEEP_CAPS,
            1 => self.securebits | KEEP_CAPS,
            _ => return Err(Errno::EINVAL),
        };
        let locked = self.securebits & KEEP_CAPS << 1 != 0;
        if locked { Err(Errno::EPERM) } else { Ok(Self { securebits, ..self.clone() }) }
    }

    pub(crate) fn keeps_caps(&self) -> bool {
        self.securebits & KEEP_CAPS != 0
    }

    /// After the execution of a file of this mode and these owners; on a mount without `nosuid` if `suid` says so. Whether another
    /// process shares root and current directory is asked where it matters: who does is not to lead a program that has more than itself.
    ///
    /// Linux: `check_unsafe_exec`, `bprm_fill_uid`, `cap_bprm_creds_from_file`.
    pub(crate) fn after_exec(
        &self,
        mode: u32,
        uid: u32,
        gid: u32,
        suid: bool,
        shared: impl FnOnce() -> bool,
    ) -> Ran {
        const BOTH: u32 = libc::S_ISGID | libc::S_IXGRP;
        let mut new = self.clone();
        if suid && !self.no_new_privs && uid != NOBODY && gid != NOBODY {
            if mode & libc::S_ISUID != 0 {
                new.user.effective = uid;
            }
            if mode & BOTH == BOTH {
                new.group.effective = gid;
            }
        }
        let (user, group) = (&mut new.user, &mut new.group);
        let becomes = user.effective != self.user.effective || !self.is_in(group.effective);
        let roots = self.securebits & NOROOT == 0;
        let root = roots && (user.real == 0 || user.effective == 0);
        let all = roots && user.effective == 0;
        new.permitted = if root { new.bounding | new.inheritable } else { CapSet::empty() };
        let more = becomes || !self.permitted.contains(new.permitted);
        let gains = more && !self.no_new_privs && !shared();
        if more && !gains {
            if self.no_new_privs || !self.has(CapSet::SETUID) {
                (user.effective, group.effective) = (user.real, group.real);
            }
            new.permitted &= self.permitted;
        }
        (user.saved, user.fs) = (user.effective, user.effective);
        (group.saved, group.fs) = (group.effective, group.effective);
        if becomes {
            new.ambient = CapSet::empty();
        }
        new.permitted |= new.ambient;
        new.effective = if all { new.permitted } else { new.ambient };
        new.securebits &= !KEEP_CAPS;
        let secure = becomes
            || new.user.effective != self.user.real
            || new.group.effective != self.group.real
            || new.user.real != 0 && (all || !new.ambient.contains(new.permitted));
        Ran { who: new, secure, gains }
    }

    /// Whether who has these may look into a process of somebody, or trace it; by the ids that files are opened with, or by the real
    /// ones.
    ///
    /// Linux: `__ptrace_may_access`, but for what is not dumpable though all its ids are the same.
    pub(crate) fn may_access(&self, target: &Self, by: By) -> bool {
        let (uid, gid, caps) = match by {
            By::Fs => (self.user.fs, self.group.fs, self.effective),
            By::Real => (self.user.real, self.group.real, self.permitted),
        };
        let all = |ids: Ids, id: u32| [ids.real, ids.effective, ids.saved] == [id; 3];
        let same = all(target.user, uid) && all(target.group, gid);
        same && caps.contains(target.permitted) || self.has(CapSet::SYS_PTRACE)
    }

    /// Whether who has these may set the limits of a process of somebody.
    ///
    /// Linux: `check_prlimit_permission`.
    pub(crate) fn may_limit(&self, target: &Self) -> bool {
        let all = |ids: Ids, id: u32| [ids.real, ids.effective, ids.saved] == [id; 3];
        let same = all(target.user, self.user.real) && all(target.group, self.group.real);
        same || self.has(CapSet::SYS_RESOURCE)
    }

    /// Whether it is one of the groups for which permission is checked.
    fn is_in(&self, group: u32) -> bool {
        self.group.fs == group || self.groups.contains(&group)
    }
}

/// What becomes of somebody who runs a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) who: Credentials,
    /// Whether the program must not trust who ran it: `AT_SECURE`.
    pub(crate) secure: bool,
    /// Whether it has what it had not.
    pub(crate) gains: bool,
}

/// The capability of a number.
///
/// # Errors
///
/// - `EINVAL`: there is no such.
pub(crate) fn capability(number: u64) -> Result<CapSet> {
    let bit = u32::try_from(number).ok().and_then(|number| 1_u64.checked_shl(number));
    bit.and_then(CapSet::from_bits).ok_or(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(real: u32, effective: u32, saved: u32, fs: u32) -> Ids {
        Ids { real, effective, saved, fs }
    }

    #[test]
    fn who_was_root_and_is_nobody_has_no_capability() {
        let root = Credentials::new(0, 0, &[]);
        let user = root.set_ids(Which::User, Set::Id(33)).expect("it may");
        assert_eq!(user.user, Ids::all(33));
        assert!(user.effective.is_empty() && user.permitted.is_empty());
        assert_eq!(user.set_ids(Which::User, Set::Id(0)), Err(Errno::EPERM));
        assert_eq!(user.set_groups(vec![1]), Err(Errno::EPERM));
        assert_eq!(root.set_ids(Which::User, Set::Id(KEEP)), Err(Errno::EINVAL));
    }

    #[test]
    fn who_is_somebody_else_or_has_more_is_not_looked_into() {
        let root = Credentials::new(0, 0, &[]);
        let [one, other] = [33, 34].map(|id| Credentials::new(id, id, &[]));
        for by in [By::Fs, By::Real] {
            assert!(one.may_access(&one, by) && root.may_access(&one, by));
            assert!(!one.may_access(&other, by) && !one.may_access(&root, by));
            let set_id = one.after_exec(0o104_755, 0, 0, true, || false).who;
            assert!(!one.may_access(&set_id, by));
            let none = CapSet::empty();
            let less = root.set_caps(none, none, none).expect("less than it has");
            assert!(!less.may_access(&root, by) && root.may_access(&less, by));
        }
    }

    #[test]
    fn a_saved_user_comes_back() {
        let root = Credentials::new(0, 0, &[]);
        let away = root.set_ids(Which::User, Set::All([KEEP, 33, KEEP])).expect("it may");
        assert_eq!(away.user, ids(0, 33, 0, 33));
        assert!(away.effective.is_empty());
        assert_eq!(away.permitted, CapSet::FULL);
        let back = away.set_ids(Which::User, Set::RealEffective(KEEP, 0)).expect("it is its own");
        assert_eq!(back.user, Ids::all(0));
        assert_eq!(back.effective, CapSet::FULL);
        let fs = root.set_ids(Which::User, Set::Fs(5)).expect("no error");
        assert_eq!(fs.effective, CapSet::FULL - CapSet::FS);
        assert_eq!(fs.set_ids(Which::User, Set::Fs(0)).expect("no error"), root);
    }

    #[test]
    fn capabilities_are_kept_where_that_was_said() {
        let root = Credentials::new(0, 0, &[]).set_keep_caps(1).expect("it may");
        let user = root.set_ids(Which::User, Set::Id(33)).expect("it may");
        assert_eq!((user.permitted, user.effective), (CapSet::FULL, CapSet::empty()));
        let one = CapSet::CHOWN;
        let user = user.set_caps(one, one, one).expect("they are permitted");
        assert_eq!(user.set_caps(CapSet::FULL, one, one), Err(Errno::EPERM));
        let ambient = user.set_ambient(0, true).expect("permitted and inheritable");
        let ran = ambient.after_exec(0o100_755, 0, 0, true, || false);
        assert_eq!((ran.who.effective, ran.who.permitted), (one, one));
        assert!(!ran.secure && !ran.who.keeps_caps());
        assert_eq!(user.after_exec(0o100_755, 0, 0, true, || false).who.permitted, CapSet::empty());
    }

    #[test]
    fn a_set_user_id_program_has_its_owner() {
        let user = Credentials::new(33, 33, &[]);
        let ran = user.after_exec(0o104_755, 0, 0, true, || false);
        assert_eq!(ran.who.user, ids(33, 0, 0, 0));
        assert_eq!(ran.who.effective, CapSet::FULL);
        assert!(ran.secure);
        let group = user.after_exec(0o102_755, 0, 7, true, || false).who;
        assert_eq!(group.group, ids(33, 7, 7, 7));
        assert_eq!(group.effective, CapSet::empty());
        let same = |who: &Credentials| Ran { who: who.clone(), secure: false, gains: false };
        assert_eq!(user.after_exec(0o102_745, 0, 7, true, || false), same(&user));
        assert_eq!(user.after_exec(0o104_755, 0, 0, false, || false), same(&user));
        assert_eq!(user.after_exec(0o104_755, NOBODY, 0, true, || false), same(&user));
        let refuses = Credentials { no_new_privs: true, ..user };
        assert_eq!(refuses.after_exec(0o104_755, 0, 0, true, || false), same(&refuses));
        // Nor does who shares its current directory, unless it may become anybody.
        let shared = user_of(33).after_exec(0o104_755, 0, 0, true, || true);
        assert_eq!(shared, Ran { who: user_of(33), secure: true, gains: false });
        let may = user_of(33).with(CapSet::SETUID);
        let shared = may.after_exec(0o104_755, 5, 0, true, || true);
        assert_eq!((shared.who.user, shared.gains), (ids(33, 5, 5, 5), false));
        // Not what it gave away either.
        let (none, root) = (CapSet::empty(), Credentials::new(0, 0, &[]));
        let less = root.set_caps(none, none, none).expect("less than it has");
        assert_eq!(less.after_exec(0o100_755, 0, 0, true, || false).who.permitted, CapSet::FULL);
        let refuses = Credentials { no_new_privs: true, ..less };
        assert_eq!(refuses.after_exec(0o100_755, 0, 0, true, || false).who.permitted, none);
    }

    fn user_of(id: u32) -> Credentials {
        Credentials::new(id, id, &[])
    }

    impl Credentials {
        fn with(self, caps: CapSet) -> Self {
            Self { effective: caps, permitted: caps, ..self }
        }
    }

    #[test]
    fn bits_that_are_locked_stay() {
        let root = Credentials::new(0, 0, &[]);
        let locked = root.set_securebits(0x30).expect("it may");
        assert_eq!(locked.set_securebits(0), Err(Errno::EPERM));
        assert_eq!(locked.set_keep_caps(0), Err(Errno::EPERM));
        assert_eq!(root.set_securebits(1 << 12), Err(Errno::EPERM));
        let bound = root.drop_bounding(21).expect("it may");
        assert!(!bound.after_exec(0o100_755, 0, 0, true, || false).who.has(CapSet::SYS_ADMIN));
        assert_eq!(root.drop_bounding(64), Err(Errno::EINVAL));
    }
}
