//! What a file system says of its inodes and hears of them: its own record and the cache never differ.

mod common;

use common::{asking::found, sample::SampleFs, watched};
use pathwalk::{
    AtFlags, Attr, Config, Cred, Errno, FileType, InodeRef, MemFs, MountFlags, OpenFlags, Result,
    SetTime, Subject, Task, Timespec, Vfs,
    fs::{Features, FileSystem, Found},
};
use std::{sync::Arc, thread, time::Duration};

/// The number of the one file.
const NODE: u64 = 2;

/// A file of a user, and root and that user.
fn machine(mode: u32) -> (Arc<SampleFs>, Task, Task) {
    let fs = SampleFs::new(Features::empty());
    fs.appear("file", FileType::Regular, 0o644, "text");
    let vfs = Vfs::new(Config::default(), Arc::clone(&fs) as _).unwrap();
    let (root, user) = (vfs.task(Cred::root()), vfs.task(Cred::user(1, 1)));
    root.chown("/file", Some(1), Some(1)).unwrap();
    root.chmod("/file", mode).unwrap();
    (fs, root, user)
}

/// The record and the cache, and what is there when the cache has forgotten.
fn assert_agreed(fs: &SampleFs, task: &Task, what: &str) {
    let record = fs.attr(NODE);
    for when in ["cached", "asked again"] {
        let stat = task.stat("/file").unwrap();
        let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
        let want = (record.mtime, record.ctime);
        let want = (want.0.sec, want.0.nsec.into(), want.1.sec, want.1.nsec.into());
        assert_eq!(times, want, "{what}, {when}");
        assert_eq!((stat.st_atime, stat.st_atime_nsec), {
            (record.atime.sec, record.atime.nsec.into())
        });
        let owner = (stat.st_mode, stat.st_uid, stat.st_gid, stat.st_size as u64);
        assert_eq!(owner, (record.mode, record.uid, record.gid, record.size), "{what}, {when}");
        task.vfs().shrink(1000);
    }
}

type Call = fn(&Task, &Task) -> Result<()>;

#[test]
fn set_id_bits_are_dropped_where_they_are_kept() {
    let calls: [(&str, Call); 8] = [
        ("write", |_, user| {
            let file = user.open("/file", OpenFlags::WRONLY, 0)?;
            user.write(&file, b"x").map(drop)
        }),
        ("pwrite", |_, user| {
            let file = user.open("/file", OpenFlags::WRONLY, 0)?;
            user.pwrite(&file, b"x", 2).map(drop)
        }),
        ("truncate", |_, user| user.truncate("/file", 0)),
        ("ftruncate", |_, user| {
            let file = user.open("/file", OpenFlags::WRONLY, 0)?;
            user.ftruncate(&file, 0)
        }),
        ("O_TRUNC", |_, user| {
            user.open("/file", OpenFlags::WRONLY | OpenFlags::TRUNC, 0).map(drop)
        }),
        ("chown", |root, _| root.chown("/file", Some(7), None)),
        ("chgrp", |_, user| user.chown("/file", None, Some(1))),
        ("lchown", |_, user| user.lchown("/file", None, None)),
    ];
    for (name, call) in calls {
        let (fs, root, user) = machine(0o6755);
        assert_eq!(fs.attr(NODE).mode, 0o106_755);
        assert_eq!(call(&root, &user), Ok(()), "{name}");
        assert_eq!(fs.attr(NODE).mode, 0o100_755, "{name}");
        assert_agreed(&fs, &root, name);
    }
}

#[test]
fn times_are_kept_where_they_are_set() {
    let at = |sec| SetTime::At(Timespec { sec, nsec: 1 });
    let (fs, root, user) = machine(0o644);
    assert_eq!(root.utimensat(pathwalk::At::Cwd, "/file", at(1), at(2), AtFlags::empty()), Ok(()));
    assert_agreed(&fs, &root, "utimensat");
    assert_eq!(fs.attr(NODE).atime.sec, 1);
    let file = user.open("/file", OpenFlags::RDONLY, 0).unwrap();
    assert_eq!(user.read(&file, &mut [0; 8]), Ok(4));
    drop(file);
    assert!(fs.attr(NODE).atime.sec > 1, "it was read");
    assert_agreed(&fs, &root, "read");
}

#[test]
fn what_is_refused_changes_nothing() {
    let (fs, root, user) = machine(0o6755);
    let before = fs.attr(NODE);
    // The sample cannot make files larger.
    assert_eq!(user.truncate("/file", 10), Err(Errno::EFBIG));
    assert_eq!(user.chown("/file", Some(7), None), Err(Errno::EPERM));
    assert_eq!(fs.attr(NODE), before);
    assert_agreed(&fs, &root, "refused");
}

/// While one changes an inode's attributes nobody else does: the rules are applied to what is there.
#[test]
fn chown_and_chmod_at_once_are_one_after_the_other() {
    watched(|| {
        let (fs, root, user) = machine(0o644);
        fs.hold(Some("setattr"));
        thread::scope(|scope| {
            let chown = scope.spawn(|| root.chown("/file", Some(7), None));
            fs.until_held();
            // Its owner until the chown is done: then it must be refused.
            let chmod = scope.spawn(|| user.chmod("/file", 0o600));
            thread::sleep(Duration::from_millis(20));
            assert!(!chmod.is_finished());
            // Readers go on.
            assert_eq!(user.stat("/file").map(|stat| stat.st_uid), Ok(1));
            fs.hold(None);
            assert_eq!(chown.join().unwrap(), Ok(()));
            assert_eq!(chmod.join().unwrap(), Err(Errno::EPERM));
        });
        let record = fs.attr(NODE);
        assert_eq!((record.mode, record.uid), (0o100_644, 7));
        assert_agreed(&fs, &root, "chown and chmod");
    });
}

/// Says of a symlink what it is told to: the size, and the body at once or when asked.
struct Links {
    body: Vec<u8>,
    size: u64,
    at_once: bool,
}

impl FileSystem for Links {
    fn kind(&self) -> &str {
        "links"
    }

    fn features(&self) -> Features {
        Features::empty()
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, name: &[u8]) -> Result<Option<Found>> {
        let body = self.at_once.then(|| self.body.clone());
        Ok(match name {
            b"link" => {
                let link = found(2, FileType::Symlink, 0o777);
                Some(Found { attr: Attr { size: self.size, ..link.attr }, body, ..link })
            }
            b"target" => Some(found(3, FileType::Regular, 0o755)),
            _ => None,
        })
    }

    fn readlink(&self, _: InodeRef<'_>) -> Result<Vec<u8>> {
        Ok(self.body.clone())
    }
}

#[test]
fn a_symlinks_body_is_what_the_file_system_says_whatever_the_size() {
    let long = [b"./".repeat(2044), b"target".to_vec()].concat();
    assert_eq!(long.len(), 4094);
    let too_long = [b"./".repeat(2045), b"target".to_vec()].concat();
    assert_eq!(too_long.len(), 4096);
    let exact = [b"/".repeat(2), b"target".to_vec()].concat();
    assert_eq!(exact.len(), 8);
    let bodies: [(&[u8], Result<u32>); 8] = [
        (b"target", Ok(0o100_755)),
        (&exact, Ok(0o100_755)),
        (&long, Ok(0o100_755)),
        (b"missing", Err(Errno::ENOENT)),
        (b"", Err(Errno::EIO)),
        (b"target\0", Err(Errno::EIO)),
        (&too_long, Err(Errno::ENAMETOOLONG)),
        (&[b'x'; 100_000], Err(Errno::ENAMETOOLONG)),
    ];
    for (body, want) in bodies {
        let text = body[..body.len().min(10)].escape_ascii();
        for at_once in [true, false] {
            for size in [0, 1, body.len() as u64, 4095, u64::MAX] {
                let what = format!("{text}, {} bytes, size {size}, {at_once}", body.len());
                let fs = Arc::new(Links { body: body.to_vec(), size, at_once });
                let task = Vfs::new(Config::default(), fs).unwrap().task(Cred::root());
                for _ in 0..3 {
                    assert_eq!(task.stat("/link").map(|stat| stat.st_mode), want, "{what}");
                }
                let mut buf = vec![0; 5000];
                match task.readlink("/link", &mut buf) {
                    Ok(len) => assert_eq!(&buf[..len], body, "{what}"),
                    Err(errno) => assert_eq!(Err(errno), want, "{what}"),
                }
                if want != Err(Errno::EIO) && body.len() < 4096 {
                    assert_eq!(task.readlink("/link", &mut buf[..3]), Ok(3), "{what}");
                    assert_eq!(buf[..3], body[..3], "{what}");
                    assert_eq!(task.lstat("/link").map(|stat| stat.st_size as u64), Ok(size));
                }
            }
        }
    }
}

/// An answer about a node that the cache has already, or that finds no room, is given back at once.
#[test]
fn each_answer_is_given_back_once() {
    let (fs, root, _) = machine(0o644);
    root.link("/file", "/other").unwrap();
    root.vfs().shrink(1000);
    assert_eq!(fs.answered(NODE), 0);
    for path in ["/file", "/other", "/file"] {
        root.stat(path).unwrap();
        assert_eq!(fs.answered(NODE), 1, "{path}");
    }
    root.vfs().shrink(1000);
    assert_eq!(fs.answered(NODE), 0);
    assert_eq!(fs.answered(1), 1, "the root is mounted");
}

#[test]
fn an_answer_that_finds_no_room_is_given_back() {
    let config = Config { inode_bytes: 4096, ..Config::default() };
    let vfs = Vfs::new(config, MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/mnt", 0o755).unwrap();
    let fs = SampleFs::new(Features::empty());
    fs.appear("file", FileType::Regular, 0o644, "");
    task.mount(Arc::clone(&fs) as _, "/mnt", MountFlags::empty()).unwrap();
    let made = (0..).take_while(|number| task.creat(format!("/{number}"), 0o644).is_ok()).count();
    assert!(made > 10, "{made}");
    assert_eq!(task.stat("/mnt/file").map(drop), Err(Errno::ENOMEM));
    assert_eq!((fs.answered(1), fs.answered(NODE)), (1, 0));
    let second = SampleFs::new(Features::empty());
    let mounted = task.mount(Arc::clone(&second) as _, "/mnt", MountFlags::empty());
    assert_eq!((mounted, second.answered(1)), (Err(Errno::ENOMEM), 0));
    task.unlink("/0").unwrap();
    assert_eq!(task.stat("/mnt/file").map(drop), Ok(()));
    assert_eq!(fs.answered(NODE), 1);
}

/// Whatever meets: a node that somebody uses was answered more often than it was given back.
#[test]
fn a_node_in_use_is_never_given_back_for_good() {
    let rounds = if cfg!(debug_assertions) { 300 } else { 3000 };
    watched(move || {
        let (fs, task, _) = machine(0o644);
        for _ in 0..rounds {
            thread::scope(|scope| {
                scope.spawn(|| (0..100).for_each(|_| assert!(task.stat("/file").is_ok())));
                scope.spawn(|| (0..100).for_each(|_| assert!(task.vfs().shrink(u32::MAX) <= 2)));
            });
            let file = task.open("/file", OpenFlags::PATH, 0).unwrap();
            assert_eq!(fs.answered(NODE), 1);
            drop(file);
        }
    });
}
