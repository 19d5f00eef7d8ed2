//! A directory with an ACL is not one that everyone may search, whatever its mode says; and is one again without it.

use crate::common::lookups::acl;
use pathwalk::{
    AccessMode, Config, Cred, Errno, MemFs, OpenFlags, Rule, Task, Vfs, XattrFlags, acl_to_xattr,
    explain::ExplainHow,
};

const ACL: &str = "system.posix_acl_access";
const NAME: &str = "a-name-of-more-than-thirty-two-bytes-in-all";

/// Root and two users, in a machine with /d/e/f, all of it open to everyone.
fn machine() -> Result<[Task; 3], Errno> {
    let vfs = Vfs::new(Config::default(), MemFs::new())?;
    let root = vfs.task(Cred::root());
    root.umask(0);
    root.mkdir("/d", 0o777)?;
    root.mkdir("/d/e", 0o777)?;
    root.creat("/d/e/f", 0o666)?;
    Ok([root, vfs.task(Cred::user(1000, 1000)), vfs.task(Cred::user(1001, 1001))])
}

fn set(task: &Task, path: &str, access: u32) -> Result<(), Errno> {
    let value = acl_to_xattr(&acl(0o777, 1000..1001, access));
    task.setxattr(path, ACL, &value, XattrFlags::empty())
}

/// The rule by which the walk went through /d.
fn rule(task: &Task) -> Result<Rule, Rule> {
    let explanation = task.explain("/d/e/f", ExplainHow::default());
    explanation.steps.iter().filter_map(|step| step.search).nth(1).expect("it was searched")
}

/// The thread remembers the path for both users, as long as nobody has to be asked.
#[test]
fn what_is_remembered_of_a_path_is_not_remembered_past_an_acl() {
    let [root, u, v] = machine().unwrap();
    for round in 0..50 {
        for task in [&u, &v] {
            for path in ["/d/e/f", "/d/e/none"] {
                let want = if path == "/d/e/f" { Ok(()) } else { Err(Errno::ENOENT) };
                assert_eq!(task.access(path, AccessMode::empty()), want);
            }
        }
        let (dir, access) = if round % 2 == 0 { ("/d", 4) } else { ("/d/e", 6) };
        set(&root, dir, access).unwrap();
        for _ in 0..4 {
            for path in ["/d/e/f", "/d/e/none"] {
                assert_eq!(u.access(path, AccessMode::empty()), Err(Errno::EACCES), "{dir}");
            }
            assert_eq!(v.access("/d/e/f", AccessMode::R_OK), Ok(()), "{dir}");
            assert_eq!(v.access("/d/e/none", AccessMode::R_OK), Err(Errno::ENOENT), "{dir}");
        }
        match round % 3 {
            0 => root.removexattr(dir, ACL).unwrap(),
            1 => root.setxattr(dir, ACL, &[], XattrFlags::empty()).unwrap(),
            // The mode can say all of it.
            _ => {
                let mut plain = acl(0o777, 0..0, 0);
                plain.remove(2);
                root.setxattr(dir, ACL, &acl_to_xattr(&plain), XattrFlags::empty()).unwrap();
            }
        }
    }
}

/// A directory that everyone may search is asked for nothing else, with an ACL its list is, and without it it is not.
#[test]
fn everyone_may_search_again_when_the_acl_has_gone() {
    let [root, u, v] = machine().unwrap();
    assert_eq!(rule(&u), Ok(Rule::Everyone));
    set(&root, "/d", 5).unwrap();
    assert_eq!((rule(&u), rule(&v)), (Ok(Rule::Acl), Ok(Rule::Acl)));
    assert_eq!(rule(&root), Ok(Rule::Owner));
    root.removexattr("/d", ACL).unwrap();
    assert_eq!((rule(&u), rule(&v)), (Ok(Rule::Everyone), Ok(Rule::Everyone)));
    // One whose mask lets nothing through is not looked at.
    set(&root, "/d", 0).unwrap();
    root.chmod("/d", 0o707).unwrap();
    assert_eq!(rule(&u), Ok(Rule::Other));
}

/// ACLs come and go while others walk; every answer is one of the two that there can be.
#[test]
fn an_acl_is_seen_whole_or_not_at_all() {
    let [root, u, v] = machine().unwrap();
    root.creat(["/d/e/", NAME].concat(), 0o666).unwrap();
    let many = acl_to_xattr(&acl(0o777, 1..2000, 0));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for (task, may) in [(&u, false), (&v, false), (&root, true)] {
            let (stop, task) = (&stop, task.fork());
            scope.spawn(move || {
                while !stop.load(relaxed) {
                    for path in ["/d/e/f".to_owned(), ["/d/e/", NAME].concat()] {
                        let answer = task.access(&path, AccessMode::R_OK);
                        assert!(answer == Ok(()) || !may && answer == Err(Errno::EACCES));
                    }
                }
            });
        }
        for _ in 0..2000 {
            root.setxattr("/d/e", ACL, &many, XattrFlags::empty()).unwrap();
            root.setxattr("/d", ACL, &many, XattrFlags::empty()).unwrap();
            // Names take the place of what was freed.
            let other = ["/d/e/other-", NAME].concat();
            root.open(&other, OpenFlags::CREAT, 0o666).unwrap();
            root.unlink(&other).unwrap();
            root.removexattr("/d", ACL).unwrap();
            root.removexattr("/d/e", ACL).unwrap();
        }
        stop.store(true, relaxed);
    });
}
