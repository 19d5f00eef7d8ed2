//! What the host's file system decides itself of what is made there, is so, as it is for who makes it without us.

use crate::{
    common::{Ground, as_ordinary_user},
    fuse::{Rules, mounted},
};
use pathwalk_abi::{Dev, Errno, OpenFlags, RenameFlags, Result, mode};
use pathwalk_core::{At, Config, Cred, Task, Vfs};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions, Identities};
use rustix::{io, process::geteuid};
use std::{
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// Makes a name.
type Kind = (&'static str, fn(&Task, &str) -> Result<()>);

const KINDS: [Kind; 5] = [
    ("open", |task, path| {
        task.open(path, OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::RDWR, 0o640).map(drop)
    }),
    ("mkdir", |task, path| task.mkdir(path, 0o750)),
    ("mknod", |task, path| task.mknod(path, mode::S_IFREG | 0o640, Dev::default())),
    ("mkfifo", |task, path| task.mknod(path, mode::S_IFIFO | 0o640, Dev::default())),
    ("symlink", |task, path| task.symlink("body", path)),
];

fn task(dir: &Path, options: HostOptions, cred: Cred) -> Task {
    let fs = HostFs::with_options(dir.as_os_str().as_bytes(), options).unwrap();
    let task = Vfs::new(Config::default(), fs).unwrap().task(cred);
    task.umask(0);
    task
}

/// Owner, group and permissions.
type Has = (u32, u32, u32);

/// Makes one of each kind on a file system with these rules; what the host has then, and the tree.
fn each(rules: Rules, cred: &Cred, has: impl Fn(&str, Result<()>, Option<Has>) + Sync) {
    for coherence in [Coherence::Exclusive, Coherence::Strict] {
        mounted(rules, |dir| {
            let options = HostOptions { coherence, ..HostOptions::default() };
            let task = task(dir, options, cred.clone());
            for (what, makes) in KINDS {
                let path = format!("/{what}");
                let made = makes(&task, &path);
                let host = dir.join(what).symlink_metadata().ok();
                let host = host.map(|stat| (stat.uid(), stat.gid(), stat.mode() & 0o7777));
                let here = task.lstat(&path).ok();
                let here = here.map(|stat| (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777));
                assert_eq!(here, host, "{what}, {coherence:?}");
                has(what, made, host);
            }
        });
    }
}

/// As vfat and sshfs: whoever makes a file makes it, and it is as all are there.
#[test]
fn what_has_no_owners_and_no_modes_is_made_all_the_same() {
    let own = geteuid().as_raw();
    // Bits that are the file's, and those of it that some umask leaves.
    for mode in [0o755, 0o600] {
        for (uid, gid) in [(own, 0), (own, 2), (1, 2)] {
            let refuses = Some(io::Errno::PERM);
            let rules = Rules {
                uid: Some(uid),
                gid: Some(gid),
                mode: Some(mode),
                refuses,
                ..Rules::default()
            };
            for cred in [Cred::root(), Cred::user(1000, 1000)] {
                each(rules, &cred, |what, made, has| {
                    assert_eq!((made, has), (Ok(()), Some((uid, gid, mode))), "{what}, {cred:?}");
                });
            }
        }
    }
}

/// As ext4 with `grpid`, and a server that gives modes by rules of its own.
#[test]
fn what_is_decided_stays_where_it_could_be_changed() {
    let rules = Rules { gid: Some(7), mode: Some(0o711), ..Rules::default() };
    for cred in [Cred::root(), Cred::user(1000, 1000)] {
        each(rules, &cred, |what, made, has| {
            assert_eq!(made, Ok(()));
            let (uid, gid, mode) = has.unwrap();
            assert_eq!((gid, mode), (7, 0o711), "{what}");
            // It is not provably what was made, so it is given to nobody: see `made`.
            let given = ["open", "symlink"].contains(&what);
            assert_eq!(uid, if given { cred.fsuid } else { 0 }, "{what}");
        });
    }
}

/// Where it cannot be given away, it is not to be this process's own program.
#[test]
fn what_stays_this_process_s_has_no_set_id_bits() {
    let rules = Rules { keeps: Some(io::Errno::PERM), ..Rules::default() };
    mounted(rules, |dir| {
        for (cred, wanted) in [(Cred::user(1000, 1000), 0o755), (Cred::root(), 0o6755)] {
            let task = task(dir, HostOptions::default(), cred);
            let flags = OpenFlags::CREAT | OpenFlags::EXCL | OpenFlags::RDWR;
            assert_eq!(task.open("/open", flags, 0o6755).map(drop), Ok(()));
            assert_eq!(task.mknod("/mknod", mode::S_IFREG | 0o6755, Dev::default()), Ok(()));
            for what in ["open", "mknod"] {
                let host = dir.join(what).symlink_metadata().unwrap();
                assert_eq!((host.uid(), host.mode() & 0o7777), (0, wanted), "{what}");
                task.unlink(format!("/{what}")).unwrap();
            }
        }
    });
}

/// Whose quota is used up, nothing is made for.
#[test]
fn what_cannot_be_given_to_its_owner_is_not_made() {
    let rules = Rules { refuses: Some(io::Errno::DQUOT), ..Rules::default() };
    each(rules, &Cred::user(1000, 1000), |what, made, has| {
        assert_eq!((made, has), (Err(Errno::EDQUOT), None), "{what}");
    });
}

/// Nor is what this process may not give to its group.
#[test]
fn what_cannot_be_given_to_its_group_is_not_made() {
    let name = "decided::what_cannot_be_given_to_its_group_is_not_made";
    as_ordinary_user(4321, name, || {
        let ground = Ground::new();
        let own = geteuid().as_raw();
        ground.task.creat("/file", 0o644).unwrap();
        let task = ground.task.vfs().task(Cred::user(own, own + 1));
        for (what, makes) in KINDS {
            assert_eq!(makes(&task, &format!("/{what}")), Err(Errno::EPERM), "{what}");
            assert!(ground.host(what).symlink_metadata().is_err(), "{what}");
        }
        let renamed = task.renameat2(At::Cwd, "/file", At::Cwd, "/to", RenameFlags::WHITEOUT);
        assert_eq!(renamed, Err(Errno::EPERM));
        for path in ["/file", "/to"] {
            let there = ground.host(&path[1..]).symlink_metadata().is_ok();
            assert_eq!((task.lstat(path).is_ok(), path == "/file"), (there, there), "{path}");
        }
    });
}

/// What is written beside a file is all that counts there.
#[test]
fn what_is_kept_is_kept_whatever_is_decided() {
    let refuses = Some(io::Errno::PERM);
    let rules =
        Rules { uid: Some(1), gid: Some(2), mode: Some(0o755), refuses, ..Rules::default() };
    mounted(rules, |dir| {
        let options = HostOptions { identities: Identities::Kept, ..HostOptions::default() };
        let maker = task(dir, options.clone(), Cred::user(1000, 1001));
        for (what, makes) in &KINDS[..4] {
            assert_eq!(makes(&maker, &format!("/{what}")), Ok(()), "{what}");
        }
        maker.chmod("/mknod", 0o600).unwrap();
        for task in [&maker, &task(dir, options, Cred::root())] {
            for (what, wanted) in [
                ("open", mode::S_IFREG | 0o640),
                ("mkdir", mode::S_IFDIR | 0o750),
                ("mknod", mode::S_IFREG | 0o600),
                ("mkfifo", mode::S_IFIFO | 0o640),
            ] {
                let stat = task.lstat(format!("/{what}")).unwrap();
                let has = (stat.st_uid, stat.st_gid, stat.st_mode);
                assert_eq!(has, (1000, 1001, wanted), "{what}");
            }
        }
    });
}
