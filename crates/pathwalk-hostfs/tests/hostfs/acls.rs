//! ACLs that another process changes: what they decide.

use crate::{
    coherence::{each, elsewhere, ground, often, unwatched},
    common::Ground,
    left_out::left_out,
};
use pathwalk_abi::{
    AccessMode, Errno, OpenFlags,
    xattr::{XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT},
};
use pathwalk_core::Cred;
use pathwalk_hostfs::Coherence;
use rustix::process::geteuid;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Of an ACL that others change the mode may stay as it is.
#[test]
fn the_acls_of_others_decide_from_then_on() {
    if !geteuid().is_root() {
        left_out("only root has files that somebody else may not read");
        return;
    }
    each(|ground| {
        elsewhere(ground, "chmod 755 .; chmod 755 a a/b/c; chmod 770 a/b a/b/c/file");
        let task = &ground.task;
        let mut user = task.fork();
        user.set_cred(Cred::user(1000, 1000));
        let held = task.open("/a/b", OpenFlags::RDONLY | OpenFlags::DIRECTORY, 0).unwrap();
        let file = task.open("/a/b/c/file", OpenFlags::RDONLY, 0).unwrap();
        let may = |path: &str| {
            // Strict asks about what a path leads to.
            often(|| task.stat("/a/b").map(drop)).unwrap();
            often(|| user.access(path, AccessMode::R_OK))
        };
        let told = |file| {
            let mut value = [0; 100];
            let len = task.fgetxattr(file, XATTR_NAME_POSIX_ACL_ACCESS, &mut value)?;
            Ok::<_, Errno>(value[..len].to_vec())
        };
        for round in 0..3 {
            give_acl(ground, "a/b/c/file", XATTR_NAME_POSIX_ACL_ACCESS, 7);
            give_acl(ground, "a/b", XATTR_NAME_POSIX_ACL_ACCESS, 7);
            assert_eq!(may("/a/b/c/file"), Ok(()), "round {round}");
            // Other changes leave what is known as it is.
            elsewhere(ground, "touch a/b/new; echo >> a/b/c/file; rm a/b/new");
            assert_eq!(may("/a/b/c/file"), Ok(()));
            give_acl(ground, "a/b/c/file", XATTR_NAME_POSIX_ACL_ACCESS, 0);
            assert_eq!(may("/a/b/c/file"), Err(Errno::EACCES), "of the file itself");
            give_acl(ground, "a/b/c/file", XATTR_NAME_POSIX_ACL_ACCESS, 4);
            assert_eq!(may("/a/b/c/file"), Ok(()));
            give_acl(ground, "a/b", XATTR_NAME_POSIX_ACL_ACCESS, 0);
            // The time of change is that of this.
            elsewhere(ground, "touch a/b/new; rm a/b/new");
            assert_eq!(may("/a/b/c/file"), Err(Errno::EACCES), "of a directory on the way");
            for perm in 0..8 {
                give_acl(ground, "a/b", XATTR_NAME_POSIX_ACL_ACCESS, perm);
                give_acl(ground, "a/b/c/file", XATTR_NAME_POSIX_ACL_ACCESS, perm);
                assert_eq!(told(&held), Ok(acl(perm)));
                assert_eq!(told(&file), Ok(acl(perm)));
            }
            elsewhere(ground, "chmod 700 a/b/c/file");
            give_acl(ground, "a/b/c", XATTR_NAME_POSIX_ACL_DEFAULT, round);
            _ = task.creat(format!("/a/b/c/{round}"), 0o777).unwrap();
            let made = ground.host(&format!("a/b/c/{round}"));
            let mut value = [0; 100];
            let len = rustix::fs::getxattr(made, XATTR_NAME_POSIX_ACL_ACCESS, &mut value).unwrap();
            assert_eq!(value[..len], acl(round), "what is made inherits it");
        }
    });
}

/// What others do to the names in a directory is none of its ACL's business, nor what happened to nothing for a while.
#[test]
fn acls_are_asked_for_where_they_may_be_others() {
    if !geteuid().is_root() {
        left_out("only root has files that somebody else may not read");
        return;
    }
    let with_acl = |ground: &Ground| {
        elsewhere(ground, "chmod 755 . a a/b/c; chmod 770 a/b a/b/c/file");
        give_acl(ground, "a/b", XATTR_NAME_POSIX_ACL_ACCESS, 7);
        give_acl(ground, "a/b/c/file", XATTR_NAME_POSIX_ACL_ACCESS, 7);
        let mut user = ground.task.fork();
        user.set_cred(Cred::user(1000, 1000));
        user
    };
    let watched = ground(Coherence::Watched);
    let user = with_acl(&watched);
    let asks = || watched.calls(|| user.access("/a/b/c/file", AccessMode::R_OK).unwrap());
    let told = || often(|| watched.task.stat("/a/b").map(|stat| stat.st_ctime_nsec)).unwrap();
    // First it was asked for when nothing was watched.
    // Walked, watched, remembered.
    for _ in 0..8 {
        told();
        asks();
    }
    let (ctime, nothing_new) = (told(), asks());
    elsewhere(&watched, "touch a/b/new");
    assert_ne!(told(), ctime);
    assert_eq!((nothing_new, asks()), (1, 2), "it is walked, and looked whether anything happened");
    // Where nobody tells, the time of change does, once it is not that of a moment ago.
    let unwatched = unwatched();
    let user = with_acl(&unwatched);
    let asks = || unwatched.calls(|| user.access("/a/b/c/file", AccessMode::R_OK).unwrap());
    thread::sleep(Duration::from_millis(100));
    _ = (asks(), asks());
    assert_eq!(asks(), 2, "it is walked to, and looked at");
}

/// While one changes who may read a file others ask, and look at it: the answers are those of their time, and nobody waits for the end.
#[test]
fn who_may_read_is_true_at_its_time() {
    if !geteuid().is_root() {
        left_out("only root has files that somebody else may not read");
        return;
    }
    let by_mode = |ground: &Ground, yes| {
        let mode = fs::Permissions::from_mode(if yes { 0o604 } else { 0o600 });
        fs::set_permissions(ground.host("a/b/c/file"), mode).unwrap();
    };
    let by_acl = |ground: &Ground, yes| {
        give_acl(ground, "a/b/c/file", XATTR_NAME_POSIX_ACL_ACCESS, if yes { 7 } else { 0 });
    };
    each(|ground| {
        elsewhere(ground, "chmod 755 . a a/b a/b/c");
        race(ground, &by_mode);
        race(ground, &by_acl);
    });
}

fn race(ground: &Ground, change: &dyn Fn(&Ground, bool)) {
    // Odd while it is being changed, and a multiple of 4 where one may not.
    let (changes, checked) = (Mutex::new(0_u64), AtomicU64::new(0));
    change(ground, false);
    thread::scope(|scope| {
        for looks in [false, true, true] {
            let mut user = ground.task.fork();
            user.set_cred(Cred::user(1000, 1000));
            let (changes, checked) = (&changes, &checked);
            scope.spawn(move || {
                loop {
                    let before = *changes.lock().unwrap();
                    if before == u64::MAX {
                        break;
                    }
                    let may = user.access("/a/b/c/file", AccessMode::R_OK);
                    if looks {
                        user.stat("/a/b/c/file").unwrap();
                    }
                    if before.is_multiple_of(2) && *changes.lock().unwrap() == before {
                        checked.fetch_add(1, Relaxed);
                        assert_eq!(may.is_ok(), before % 4 == 2, "{may:?} after {before}");
                    }
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(1);
        for turn in 1_u64.. {
            *changes.lock().unwrap() += 1;
            change(ground, turn % 2 == 1);
            *changes.lock().unwrap() += 1;
            if Instant::now() > end {
                break;
            }
            thread::sleep(Duration::from_micros(50 * (turn % 40)));
        }
        *changes.lock().unwrap() = u64::MAX;
    });
    assert!(checked.into_inner() > 100);
}

/// One that gives somebody else so much, as the value of its attribute.
fn acl(perm: u16) -> Vec<u8> {
    let entry = |tag: u16, perm: u16, id: u32| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let entries = [
        entry(1, 7, none),
        entry(2, perm, 1000),
        entry(4, 0, none),
        entry(0x10, 7, none),
        entry(0x20, 0, none),
    ];
    [2_u32.to_le_bytes().to_vec(), entries.concat()].concat()
}

fn give_acl(ground: &Ground, path: &str, name: &[u8], perm: u16) {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(ground.host(path), name, &acl(perm), flags).unwrap();
}
