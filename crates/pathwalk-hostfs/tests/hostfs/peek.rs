//! Names that are told about and not kept.

use crate::{common::Ground, left_out::left_out};
use pathwalk_abi::{AtFlags, Errno, OpenFlags};
use pathwalk_core::{Cred, File, Task};
use pathwalk_hostfs::{Coherence, HostFs, HostOptions, IdMap, IdRange, Identities};
use std::{fs, os::unix::fs::symlink, process::Command};

/// So many files there are.
const FILES: usize = 20;

fn ground(options: HostOptions) -> Option<Ground> {
    let ground = Ground::with(options);
    fs::create_dir_all(ground.host("dir/below")).unwrap();
    for number in 0..FILES {
        fs::write(ground.host(&format!("dir/{number}")), vec![b'x'; number]).unwrap();
    }
    symlink("3", ground.host("dir/link")).unwrap();
    fs::hard_link(ground.host("dir/4"), ground.host("dir/other")).unwrap();
    if ground.fs.news().is_none() {
        left_out("this file system does not tell of all");
        return None;
    }
    Some(ground)
}

fn watched() -> HostOptions {
    HostOptions { coherence: Coherence::Watched, ..HostOptions::default() }
}

/// What is told is what a lookup tells, and nothing is kept of it; it is believed, as nothing else is asked then.
#[test]
fn what_is_told_is_what_a_lookup_tells_and_nothing_is_kept() {
    let range = IdRange { inside: 70_000, host: 0, count: 60_000 };
    let map = IdMap { users: vec![range], groups: vec![range] };
    for identities in [Identities::Host, Identities::Mapped(map)] {
        let Some(ground) = ground(HostOptions { identities, ..watched() }) else { return };
        let task = &ground.task;
        let dir = task.open("/dir", OpenFlags::DIRECTORY, 0).unwrap();
        let peek = |name: &str| {
            let before = HostFs::questions();
            let stat = task.peekat(&dir, name, &[]).unwrap().and_then(|told| told.stat());
            (stat, HostFs::questions() == before)
        };
        // The directory is watched from the second question on.
        peek("0");
        peek("1");
        let known = ground.fs.known_files();
        let names = (0..FILES).filter(|&number| number != 4).map(|number| number.to_string());
        let names: Vec<_> = names.chain(["link".to_owned()]).collect();
        let told: Vec<_> = names.iter().map(|name| peek(name)).collect();
        assert_eq!(ground.fs.known_files(), known);
        for (name, (told, believed)) in names.iter().zip(told) {
            let stat = task.fstatat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!(told, Some(stat), "{name}");
            assert!(believed, "{name}");
            assert_eq!(peek(name).0, None, "{name} is cached");
        }
        for other in ["4", "other", "below", "absent", ".", "..", "", "5/", "/", "below/../5"] {
            assert_eq!(peek(other).0, None, "{other}");
        }
    }
}

/// The extended attributes that a file has not are told of each, cached or not, as they are asked for; of others nothing is told.
#[test]
fn what_it_lacks_is_told_as_it_is_asked_for() {
    let Some(ground) = ground(watched()) else { return };
    let task = &ground.task;
    let dir = task.open("/dir", OpenFlags::DIRECTORY, 0).unwrap();
    let set = |name: &str, xattr: &str| {
        let path = ground.host(&format!("dir/{name}"));
        rustix::fs::setxattr(path, xattr, b"x", rustix::fs::XattrFlags::empty()).is_ok()
    };
    let root = set("7", "security.pathwalk") && set("below", "security.pathwalk");
    let xattrs: [&[u8]; 4] = [
        b"security.pathwalk",
        b"system.posix_acl_access",
        b"system.posix_acl_default",
        b"system.none",
    ];
    for name in ["7", "8", "below", "link", "7", "8", "below", "link"] {
        let peek = || task.peekat(&dir, name, &xattrs).unwrap();
        let lacks = [peek(), peek()].into_iter().flatten().next().unwrap();
        for (xattr, lacks) in xattrs.iter().zip(lacks.lacks()) {
            let path = format!("/dir/{name}");
            let have = task.lgetxattr(path, xattr, &mut []).err();
            assert_eq!(*lacks, have, "{name} {}", String::from_utf8_lossy(xattr));
        }
        assert_eq!(lacks.lacks()[0].is_none(), root && ["7", "below"].contains(&name), "{name}");
    }
    // Which need not be told to everybody.
    for xattr in [&b"user.none"[..], b"trusted.none", &[b'x'; 300]] {
        let told = task.peekat(&dir, "9", &[b"security.none", xattr]).unwrap().unwrap();
        assert_eq!(told.lacks(), [Some(Errno::ENODATA), None]);
    }
    // One that has several names: by another one nobody hears of it.
    assert!(task.peekat(&dir, "4", &xattrs).unwrap().is_none());
}

/// What others change is told as it is by then.
#[test]
fn what_is_told_is_so_now() {
    let Some(ground) = ground(watched()) else { return };
    let dir = ground.task.open("/dir", OpenFlags::DIRECTORY, 0).unwrap();
    let size = |name: &str| {
        ground
            .task
            .peekat(&dir, name, &[])
            .unwrap()
            .and_then(|told| told.stat())
            .map(|stat| stat.st_size)
    };
    assert_eq!((size("7"), size("8"), size("7")), (None, Some(8), Some(7)));
    let changes = [
        ("echo more >> 7", Some(12)),
        ("mv 9 7", Some(9)),
        ("ln 7 more", None),
        ("rm more", Some(9)),
        ("rm 7; mkdir 7", None),
        ("rmdir 7; ln -s 7 7", Some(1)),
        ("rm 7", None),
    ];
    for (change, want) in changes {
        let mut other = Command::new("sh");
        other.args(["-c", change]).current_dir(ground.host("dir"));
        assert!(other.status().unwrap().success());
        assert_eq!(size("7"), want, "{change}");
    }
}

/// Where nobody tells what others do, where something is mounted or cached, and where the caller may not look, nothing is told.
#[test]
fn what_is_not_told() {
    for coherence in [Coherence::Strict, Coherence::Exclusive] {
        let ground = Ground::with(HostOptions { coherence, ..HostOptions::default() });
        fs::write(ground.host("file"), "").unwrap();
        let root = ground.task.open("/", OpenFlags::DIRECTORY, 0).unwrap();
        for _ in 0..2 {
            assert!(ground.task.peekat(&root, "file", &[]).unwrap().is_none());
        }
    }
    let Some(ground) = ground(watched()) else { return };
    let task = &ground.task;
    let dir = task.open("/dir", OpenFlags::DIRECTORY, 0).unwrap();
    let file = task.open("/dir/5", OpenFlags::RDONLY, 0).unwrap();
    let errno = |task: &Task, dir: &File| task.peekat(dir, "6", &[]).unwrap_err();
    assert_eq!(errno(task, &file), Errno::ENOTDIR);
    let other = Ground::new();
    assert_eq!(errno(&other.task, &dir), Errno::EBADF);
    let user = task.vfs().task(Cred::user(4321, 4321));
    task.chmod("/dir", 0o744).unwrap();
    assert_eq!(errno(&user, &dir), Errno::EACCES);
    task.chmod("/dir", 0o755).unwrap();
    assert!(user.peekat(&dir, "6", &[]).unwrap().is_some());
    task.bind("/dir/5", "/dir/6").unwrap();
    let mounted = task.peekat(&dir, "6", &[b"security.capability"]).unwrap();
    assert!(mounted.is_none());
}
