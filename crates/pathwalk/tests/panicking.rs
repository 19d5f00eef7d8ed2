//! A file system that panics, though it must not: what the call held is given back, and nobody waits for it.

mod common;

use common::{sample::SampleFs, watched};
use pathwalk::{
    AccessMode, At, Config, Cred, File, FileType, MemFs, MountFlags, OpenFlags, RenameFlags,
    Result, Task, UmountFlags, Vfs, fs::Features,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// A machine with a file system on `/m`, most of whose names are in the cache.
struct Machine {
    fs: Arc<SampleFs>,
    task: Task,
    file: File,
    dir: File,
}

/// What a file system is asked by, its features, and the call.
type Row = (&'static str, Features, fn(&Machine) -> Result<()>);

const NONE: Features = Features::empty();
const AGAIN: Features = Features::REVALIDATE;
const NAMED: Features = AGAIN.union(Features::REVALIDATE_PATH).union(Features::EACH_NAME);

const ROWS: [Row; 26] = [
    ("lookup", NONE, |m| m.task.stat("/m/new").map(drop)),
    ("lookup, in a directory", NONE, |m| m.task.stat("/m/d/new").map(drop)),
    ("revalidate", AGAIN, |m| m.task.stat("/m/f").map(drop)),
    ("revalidate, absent", AGAIN, |m| m.task.stat("/m/absent").map(drop)),
    ("revalidate, to be changed", AGAIN, |m| m.task.unlink("/m/f")),
    ("lookup_many", AGAIN.union(Features::LOOKUP_MANY), |m| m.task.stat("/m/d/in").map(drop)),
    ("revalidate_path", AGAIN.union(Features::REVALIDATE_PATH), |m| m.task.stat("/m/e").map(drop)),
    ("revalidate_path, of what has no name", NAMED, |m| m.task.access("/m", AccessMode::empty())),
    ("permission", Features::PERMISSION, |m| m.task.access("/m/f", AccessMode::R_OK)),
    ("getattr", Features::GETATTR, |m| m.task.stat("/m/f").map(drop)),
    ("acls", Features::POSIX_ACL, |m| {
        m.task.vfs().task(Cred::user(1, 1)).stat("/m/private/x").map(drop)
    }),
    ("readlink", NONE, |m| m.task.stat("/m/link").map(drop)),
    ("readlink, on the way", NONE, |m| m.task.stat("/m/link/in").map(drop)),
    ("open", NONE, |m| m.task.open("/m/f", OpenFlags::RDWR, 0).map(drop)),
    ("read", NONE, |m| m.task.read(&m.file, &mut [0]).map(drop)),
    ("write", NONE, |m| m.task.write(&m.file, b"x").map(drop)),
    ("readdir", NONE, |m| m.task.getdents64(&m.dir, &mut [0; 512]).map(drop)),
    ("create", NONE, |m| m.task.creat("/m/new", 0o644).map(drop)),
    ("create, a directory", NONE, |m| m.task.mkdir("/m/d/new", 0o755)),
    ("tmpfile", NONE, |m| {
        m.task.open("/m/d", OpenFlags::TMPFILE | OpenFlags::RDWR, 0o644).map(drop)
    }),
    ("link", NONE, |m| m.task.link("/m/f", "/m/d/f")),
    ("rmdir", NONE, |m| m.task.rmdir("/m/d")),
    ("rename", NONE, |m| m.task.rename("/m/d", "/m/e/d")),
    ("exchange", NONE, |m| {
        m.task.renameat2(At::Cwd, "/m/d", At::Cwd, "/m/f", RenameFlags::EXCHANGE)
    }),
    ("rename_whiteout", NONE, |m| {
        m.task.renameat2(At::Cwd, "/m/f", At::Cwd, "/m/e/f", RenameFlags::WHITEOUT)
    }),
    ("setattr", NONE, |m| m.task.chmod("/m/f", 0o600)),
];

fn machine(features: Features) -> Machine {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/m", 0o755).unwrap();
    let fs = SampleFs::new(features);
    fs.appear("link", FileType::Symlink, 0o777, "d");
    fs.appear("private", FileType::Directory, 0o700, "");
    task.mount(Arc::clone(&fs) as _, "/m", MountFlags::empty()).unwrap();
    for dir in ["/m/d", "/m/e"] {
        task.mkdir(dir, 0o777).unwrap();
    }
    let file = task.open("/m/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).unwrap();
    let dir = task.open("/m", OpenFlags::DIRECTORY, 0).unwrap();
    // Twice, so that the next look at it is a remembered one.
    assert!(task.stat("/m/e").is_ok() && task.stat("/m/e").is_ok());
    let known = ["/m/link", "/m/private", "/m/absent", "/m/d/in"];
    assert_eq!(known.map(|name| task.lstat(name).is_ok()), [true, true, false, false]);
    Machine { fs, task, file, dir }
}

#[test]
fn what_a_call_held_is_given_back() {
    watched(|| {
        for (what, features, call) in ROWS {
            let m = machine(features);
            let in_use = || {
                let usage = m.task.vfs().usage();
                (usage.dentries, usage.inodes, usage.mounts)
            };
            let before = in_use();
            m.fs.panics.store(true, Relaxed);
            let panicked = catch_unwind(AssertUnwindSafe(|| call(&m))).is_err();
            m.fs.panics.store(false, Relaxed);
            assert!(panicked, "{what}: it is not asked");
            assert_eq!(in_use(), before, "{what}");
            // Nothing is reserved any more.
            let _ = call(&m);
            let Machine { fs, task, file, dir } = m;
            drop((file, dir));
            assert_eq!(task.umount2("/m", UmountFlags::empty()), Ok(()), "{what}");
            assert_eq!((fs.answered(1), Arc::strong_count(&fs)), (0, 1), "{what}");
        }
    });
}
