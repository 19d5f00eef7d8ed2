//! Directories that only some may search are remembered, too: for who could, and while they can.

use crate::common::lookups::acl;
use pathwalk::{
    AccessMode, CapSet, Config, Cred, Errno, Hooks, InodeRef, MemFs, Result, SecurityModule,
    Subject, Task, Vfs, XattrFlags, acl_to_xattr, fs::Access,
};

use std::sync::Arc;

const FILE: &str = "/home/me/file";
const OWNER: u32 = 1000;

/// Root and the owner of a directory that nobody else may search, with a file in it.
fn machine() -> (Arc<Vfs>, Task, Task) {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    root.mkdir("/home", 0o755).unwrap();
    root.mkdir("/home/me", 0o700).unwrap();
    root.creat(FILE, 0o644).unwrap();
    root.chown("/home/me", Some(OWNER), Some(OWNER)).unwrap();
    let owner = vfs.task(Cred::user(OWNER, OWNER));
    (vfs, root, owner)
}

fn look(task: &Task) -> Result<()> {
    task.access(FILE, AccessMode::empty())
}

/// Looks until it is remembered, if it can be.
fn know(task: &Task) {
    (0..5).for_each(|_| assert_eq!(look(task), Ok(())));
}

/// Without this all others could pass because nothing is remembered.
#[cfg(debug_assertions)]
#[test]
fn they_are_remembered() {
    let (_vfs, _, owner) = machine();
    let before = pathwalk::road::made();
    know(&owner);
    let made = pathwalk::road::made();
    assert!(made > before, "it is walked to be remembered");
    (0..100).for_each(|_| assert_eq!(look(&owner), Ok(())));
    assert_eq!(pathwalk::road::made(), made, "it held");
}

/// access(2) and stat(2) ask as the same user, unless a task is another one for real.
#[cfg(debug_assertions)]
#[test]
fn they_are_remembered_for_both_users_that_one_is() {
    let (_vfs, _, owner) = machine();
    know(&owner);
    let made = pathwalk::road::made();
    for _ in 0..100 {
        assert_eq!(look(&owner), Ok(()));
        assert_eq!(owner.stat(FILE).map(drop), Ok(()));
    }
    assert_eq!(pathwalk::road::made(), made);
}

#[test]
fn not_for_others_of_the_same_thread() {
    let (vfs, root, owner) = machine();
    let stranger = vfs.task(Cred::user(OWNER + 1, OWNER + 1));
    for _ in 0..50 {
        assert_eq!(look(&owner), Ok(()));
        assert_eq!(look(&stranger), Err(Errno::EACCES));
        assert_eq!(stranger.stat("/home/me/missing").map(drop), Err(Errno::EACCES));
        assert_eq!(owner.stat("/home/me/missing").map(drop), Err(Errno::ENOENT));
        assert_eq!(look(&root), Ok(()));
    }
}

#[test]
fn not_past_a_change_of_who_one_is() {
    let (_vfs, _, mut owner) = machine();
    for _ in 0..10 {
        know(&owner);
        let child = owner.fork();
        assert_eq!(look(&child), Ok(()), "the same credentials");
        owner.set_cred(Cred::user(OWNER + 1, OWNER + 1));
        assert_eq!(look(&owner), Err(Errno::EACCES));
        assert_eq!(look(&child), Ok(()));
        owner.set_cred(Cred::user(OWNER, OWNER));
    }
}

/// A group or a capability may be all that lets somebody in.
#[test]
fn not_past_the_loss_of_a_group_or_a_capability() {
    let (vfs, root, _) = machine();
    root.chown("/home/me", None, Some(7)).unwrap();
    root.chmod("/home/me", 0o750).unwrap();
    let stranger = || Cred::user(OWNER + 1, OWNER + 1);
    let may = [
        stranger().with_groups(&[7]),
        stranger().with_caps(CapSet::DAC_READ_SEARCH),
        stranger().with_caps(CapSet::DAC_OVERRIDE),
    ];
    for cred in may {
        let mut task = vfs.task(stranger());
        for _ in 0..5 {
            task.set_cred(cred.clone());
            (0..5).for_each(|_| assert_eq!(task.stat(FILE).map(drop), Ok(()), "{cred:?}"));
            task.set_cred(stranger());
            assert_eq!(task.stat(FILE).map(drop), Err(Errno::EACCES), "{cred:?}");
        }
    }
}

/// By a symlink's body, by `..`, and as the directory of a new name.
#[test]
fn not_by_another_way() {
    let (_vfs, root, owner) = machine();
    root.symlink("/home/me/file", "/link").unwrap();
    root.chmod("/", 0o777).unwrap();
    let ways = ["/link", "/home/me/../me/file", "/home/me/missing"];
    let answers = || ways.map(|path| owner.access(path, AccessMode::empty()));
    for round in 0..5 {
        for _ in 0..5 {
            assert_eq!(answers(), [Ok(()), Ok(()), Err(Errno::ENOENT)]);
            owner.mkdir("/home/me/new", 0o755).unwrap();
            owner.rename("/home/me/new", "/home/me/newer").unwrap();
            owner.rmdir("/home/me/newer").unwrap();
        }
        root.chmod("/home/me", 0o600).unwrap();
        assert_eq!(answers(), [Err(Errno::EACCES); 3], "round {round}");
        assert_eq!(owner.mkdir("/home/me/new", 0o755), Err(Errno::EACCES));
        root.chmod("/home/me", 0o700).unwrap();
    }
}

/// access(2) asks as the real user, stat(2) as the effective one.
#[test]
fn not_for_the_other_user_that_one_is() {
    let (vfs, _, _) = machine();
    let cred = Cred { uid: OWNER + 1, ..Cred::user(OWNER, OWNER) };
    let task = vfs.task(cred);
    for _ in 0..20 {
        assert_eq!(task.stat(FILE).map(drop), Ok(()));
        assert_eq!(look(&task), Err(Errno::EACCES));
    }
}

#[test]
fn not_past_a_change_of_the_directory() {
    let (_vfs, root, owner) = machine();
    let own = |mode| {
        root.chown("/home/me", Some(OWNER), Some(OWNER)).and_then(|()| root.chmod("/home/me", mode))
    };
    for _ in 0..10 {
        know(&owner);
        root.chmod("/home/me", 0o600).unwrap();
        assert_eq!(look(&owner), Err(Errno::EACCES), "nobody may search it");
        own(0o700).unwrap();
        know(&owner);
        root.chown("/home/me", Some(0), Some(0)).unwrap();
        assert_eq!(look(&owner), Err(Errno::EACCES), "it is not theirs");
        let entries = acl(0o700, OWNER..OWNER + 1, 5);
        let value = acl_to_xattr(&entries);
        let name = "system.posix_acl_access";
        root.setxattr("/home/me", name, &value, XattrFlags::empty()).unwrap();
        know(&owner);
        root.removexattr("/home/me", name).unwrap();
        assert_eq!(look(&owner), Err(Errno::EACCES), "the ACL said that they may");
        own(0o700).unwrap();
    }
}

/// A module that lets nobody search.
struct Nobody;

impl SecurityModule for Nobody {
    fn hooks(&self) -> Hooks {
        Hooks::INODE_PERMISSION
    }

    fn inode_permission(&self, who: &Subject<'_>, _: InodeRef<'_>, _: Access) -> Result<()> {
        if who.fsuid == OWNER { Err(Errno::EPERM) } else { Ok(()) }
    }
}

#[test]
fn not_past_a_module_that_wants_to_be_asked() {
    let (vfs, root, owner) = machine();
    // Nothing on the way may be searched by everyone.
    root.chown("/", Some(OWNER), Some(OWNER)).unwrap();
    root.chmod("/", 0o700).unwrap();
    root.chown("/home", Some(OWNER), Some(OWNER)).unwrap();
    root.chmod("/home", 0o700).unwrap();
    know(&owner);
    vfs.register_security(Arc::new(Nobody)).unwrap();
    assert_eq!(look(&owner), Err(Errno::EPERM));
}
