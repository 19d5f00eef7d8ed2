//! Security hooks: where each stands, that its answer is the call's, and that nothing was changed then.

mod common;

use common::asking::found;
use pathwalk::{
    AccessMode, AclEntry, AclKind, At, AtFlags, Config, Cred, Dev, Entry, Errno, File, FileType,
    Hooks, InodeRef, InotifyFlags, InotifyMask, MemFs, MountFlags, MoveMountFlags, OpenFlags,
    OpenHow, PathRef, RenameFlags, ResolveFlags, Result, SecurityModule, SetAttr, SetTime,
    StatxMask, Subject, Task, Timespec, UmountFlags, Vfs, XattrFlags,
    fs::{Access, Features, FileSystem, Found},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Notes what it is asked, and refuses one thing.
struct Noter {
    wants: Hooks,
    asked: Mutex<Vec<Hooks>>,
    refuses: Mutex<Hooks>,
}

/// What it refuses with: no call answers so by itself.
const NO: Errno = Errno::EDOM;

impl Noter {
    fn ask(&self, hook: Hooks) -> Result<()> {
        self.asked.lock().unwrap().push(hook);
        if self.refuses.lock().unwrap().contains(hook) { Err(NO) } else { Ok(()) }
    }
}

macro_rules! noted {
    ($($name:ident $hook:ident ($($type:ty),*))*) => {
        impl SecurityModule for Noter {
            fn hooks(&self) -> Hooks {
                self.wants
            }

            $(fn $name(&self, _: &Subject<'_>, $(_: $type),*) -> Result<()> {
                self.ask(Hooks::$hook)
            })*

            fn file_open(&self, who: &Subject<'_>, _: &PathRef<'_>, _: OpenFlags) -> Result<u64> {
                self.ask(Hooks::FILE_OPEN)?;
                Ok(who.security)
            }

            fn file_truncate(&self, _: &Subject<'_>, _: &PathRef<'_>, word: u64) -> Result<()> {
                assert!(word == 0 || word == WORD, "the word of the opening task");
                self.ask(Hooks::FILE_TRUNCATE)
            }
        }
    };
}

noted! {
    inode_permission INODE_PERMISSION (InodeRef<'_>, Access)
    inode_follow_link INODE_FOLLOW_LINK (InodeRef<'_>)
    inode_readlink INODE_READLINK (InodeRef<'_>)
    inode_getattr INODE_GETATTR (&PathRef<'_>)
    inode_setattr INODE_SETATTR (&PathRef<'_>, SetAttr)
    inode_create INODE_CREATE (&Entry<'_>, u32)
    inode_mkdir INODE_MKDIR (&Entry<'_>, u32)
    inode_mknod INODE_MKNOD (&Entry<'_>, u32, Dev)
    inode_symlink INODE_SYMLINK (&Entry<'_>, &[u8])
    inode_link INODE_LINK (InodeRef<'_>, &Entry<'_>)
    inode_unlink INODE_UNLINK (&Entry<'_>)
    inode_rmdir INODE_RMDIR (&Entry<'_>)
    inode_rename INODE_RENAME (&Entry<'_>, &Entry<'_>)
    path_mkdir PATH_MKDIR (&Entry<'_>, u32)
    path_mknod PATH_MKNOD (&Entry<'_>, u32, Dev)
    path_symlink PATH_SYMLINK (&Entry<'_>, &[u8])
    path_link PATH_LINK (&PathRef<'_>, &Entry<'_>)
    path_unlink PATH_UNLINK (&Entry<'_>)
    path_rmdir PATH_RMDIR (&Entry<'_>)
    path_rename PATH_RENAME (&Entry<'_>, &Entry<'_>, RenameFlags)
    path_truncate PATH_TRUNCATE (&PathRef<'_>)
    path_chmod PATH_CHMOD (&PathRef<'_>, u32)
    path_chown PATH_CHOWN (&PathRef<'_>, Option<u32>, Option<u32>)
    path_chroot PATH_CHROOT (&PathRef<'_>)
    path_notify PATH_NOTIFY (&PathRef<'_>)
    sb_mount SB_MOUNT (&[u8], &PathRef<'_>, MountFlags)
    sb_umount SB_UMOUNT (&PathRef<'_>, UmountFlags)
    sb_remount SB_REMOUNT (&PathRef<'_>, MountFlags)
    sb_pivotroot SB_PIVOTROOT (&PathRef<'_>, &PathRef<'_>)
    move_mount MOVE_MOUNT (&PathRef<'_>, &PathRef<'_>)
    inode_setxattr INODE_SETXATTR (&PathRef<'_>, &[u8], &[u8], XattrFlags)
    inode_getxattr INODE_GETXATTR (&PathRef<'_>, &[u8])
    inode_listxattr INODE_LISTXATTR (&PathRef<'_>)
    inode_removexattr INODE_REMOVEXATTR (&PathRef<'_>, &[u8])
    inode_set_acl INODE_SET_ACL (&PathRef<'_>, AclKind, &[AclEntry])
    inode_get_acl INODE_GET_ACL (&PathRef<'_>, AclKind)
    inode_remove_acl INODE_REMOVE_ACL (&PathRef<'_>, AclKind)
}

const WORD: u64 = 7;

struct World {
    vfs: Arc<Vfs>,
    root: Task,
    user: Task,
    noter: Arc<Noter>,
}

/// A machine with a file, a symlink and a directory of user 1000's in `/own`, and the same of root's in `/other`, which
/// nobody else may write.
fn world(wants: Hooks) -> World {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    let user = vfs.task(Cred::user(1000, 1000).with_security(WORD));
    for (dir, id) in [("/own", 1000), ("/other", 0)] {
        root.mkdir(dir, 0o755).unwrap();
        root.mkdir(format!("{dir}/d"), 0o755).unwrap();
        root.mknod(format!("{dir}/f"), 0o100_644, Dev::default()).unwrap();
        root.symlink("f", format!("{dir}/l")).unwrap();
        for name in ["", "/d", "/f"] {
            root.chown(format!("{dir}{name}"), Some(id), Some(id)).unwrap();
        }
    }
    let (asked, refuses) = (Mutex::default(), Mutex::new(Hooks::empty()));
    let noter = Arc::new(Noter { wants, asked, refuses });
    vfs.register_security(Arc::clone(&noter) as Arc<dyn SecurityModule>).unwrap();
    World { vfs, root, user, noter }
}

impl World {
    /// What a call is asked about.
    fn asked(&self, call: impl FnOnce() -> Result<()>) -> (Result<()>, Vec<Hooks>) {
        self.noter.asked.lock().unwrap().clear();
        let answer = call();
        (answer, std::mem::take(&mut *self.noter.asked.lock().unwrap()))
    }

    /// All names with their attributes; asked with nothing refused.
    fn tree(&self) -> Vec<String> {
        let refused = std::mem::replace(&mut *self.noter.refuses.lock().unwrap(), Hooks::empty());
        let paths = ["/", "/own", "/own/d", "/own/f", "/own/l", "/own/n", "/other", "/other/f"];
        let look = |path: &&str| format!("{path} {:?}", self.root.lstat(path));
        let tree = paths.iter().map(look).collect();
        *self.noter.refuses.lock().unwrap() = refused;
        tree
    }
}

type Call = fn(&Task, &str) -> Result<()>;
type Row = (&'static str, Call, &'static [Hooks], &'static [Hooks], Errno);

/// A call in a directory, the hooks that it asks in that order (but for those of walks), and what the user is told in
/// another's directory without a module. Hooks before the bar are asked before that, those behind it after.
const CALLS: &[Row] = {
    use Errno as E;
    use Hooks as H;
    &[
        (
            "mkdir",
            |t, d| t.mkdir(format!("{d}/n"), 0o755),
            &[H::PATH_MKDIR],
            &[H::INODE_MKDIR],
            E::EACCES,
        ),
        (
            "mknod",
            |t, d| t.mknod(format!("{d}/n"), 0o010_644, Dev::default()),
            &[H::PATH_MKNOD],
            &[H::INODE_MKNOD],
            E::EACCES,
        ),
        (
            "mknod of a file",
            |t, d| t.mknod(format!("{d}/n"), 0o644, Dev::default()),
            &[H::PATH_MKNOD],
            &[H::INODE_CREATE],
            E::EACCES,
        ),
        (
            "creat",
            |t, d| t.creat(format!("{d}/n"), 0o644).map(drop),
            &[H::PATH_MKNOD],
            &[H::INODE_CREATE, H::FILE_OPEN],
            E::EACCES,
        ),
        (
            "symlink",
            |t, d| t.symlink("x", format!("{d}/n")),
            &[H::PATH_SYMLINK],
            &[H::INODE_SYMLINK],
            E::EACCES,
        ),
        (
            "link",
            |t, d| t.link("/own/f", format!("{d}/n")),
            &[H::PATH_LINK],
            &[H::INODE_LINK],
            E::EACCES,
        ),
        (
            "unlink",
            |t, d| t.unlink(format!("{d}/f")),
            &[H::PATH_UNLINK],
            &[H::INODE_UNLINK],
            E::EACCES,
        ),
        (
            "unlink of a directory",
            |t, d| t.unlink(format!("{d}/d")),
            &[H::PATH_UNLINK],
            &[],
            E::EACCES,
        ),
        ("rmdir", |t, d| t.rmdir(format!("{d}/d")), &[H::PATH_RMDIR], &[H::INODE_RMDIR], E::EACCES),
        (
            "rename",
            |t, d| t.rename(format!("{d}/f"), format!("{d}/n")),
            &[H::PATH_RENAME],
            &[H::INODE_RENAME],
            E::EACCES,
        ),
        (
            "exchange",
            |t, d| {
                t.renameat2(
                    At::Cwd,
                    format!("{d}/f"),
                    At::Cwd,
                    format!("{d}/d"),
                    RenameFlags::EXCHANGE,
                )
            },
            &[H::PATH_RENAME],
            &[H::INODE_RENAME, H::INODE_RENAME],
            E::EACCES,
        ),
        (
            "truncate",
            |t, d| t.truncate(format!("{d}/f"), 5),
            &[],
            &[H::PATH_TRUNCATE, H::INODE_SETATTR],
            E::EACCES,
        ),
        (
            "chmod",
            |t, d| t.chmod(format!("{d}/f"), 0o600),
            &[H::PATH_CHMOD, H::INODE_SETATTR],
            &[],
            E::EPERM,
        ),
        (
            "chown",
            |t, d| t.chown(format!("{d}/f"), None, Some(1000)),
            &[H::PATH_CHOWN, H::INODE_SETATTR],
            &[],
            E::EPERM,
        ),
        (
            "touch",
            |t, d| {
                t.utimensat(At::Cwd, format!("{d}/f"), SetTime::Now, SetTime::Now, AtFlags::empty())
            },
            &[],
            &[H::INODE_SETATTR],
            E::EACCES,
        ),
        (
            "utimensat",
            |t, d| {
                t.utimensat(
                    At::Cwd,
                    format!("{d}/f"),
                    SetTime::Now,
                    SetTime::Omit,
                    AtFlags::empty(),
                )
            },
            &[H::INODE_SETATTR],
            &[],
            E::EPERM,
        ),
        (
            "open",
            |t, d| t.open(format!("{d}/f"), OpenFlags::RDWR, 0).map(drop),
            &[],
            &[H::FILE_OPEN],
            E::EACCES,
        ),
        (
            "open O_TRUNC",
            |t, d| t.open(format!("{d}/f"), OpenFlags::WRONLY | OpenFlags::TRUNC, 0).map(drop),
            &[],
            &[H::FILE_OPEN, H::FILE_TRUNCATE, H::INODE_SETATTR],
            E::EACCES,
        ),
        (
            "open O_TMPFILE",
            |t, d| t.open(d, OpenFlags::TMPFILE | OpenFlags::RDWR, 0o600).map(drop),
            &[],
            &[H::FILE_OPEN],
            E::EACCES,
        ),
    ]
};

#[test]
fn each_hook_stands_before_or_behind_permission_and_changes_nothing() {
    for (name, call, before, after, refused) in CALLS {
        let world = world(Hooks::all() - Hooks::WALK);
        let (answer, asked) = world.asked(|| call(&world.user, "/other"));
        assert_eq!((answer, &asked[..]), (Err(*refused), *before), "{name}, refused");
        for &hook in before.iter().chain(*after) {
            let tree = world.tree();
            *world.noter.refuses.lock().unwrap() = hook;
            assert_eq!(call(&world.user, "/own"), Err(NO), "{name}, {hook:?}");
            if !matches!(hook, Hooks::FILE_OPEN) || *name != "creat" {
                assert_eq!(world.tree(), tree, "{name}, {hook:?}");
            } else {
                // As in Linux: it was made, and cannot be opened.
                world.root.unlink("/own/n").unwrap();
                *world.noter.refuses.lock().unwrap() = Hooks::empty();
                continue;
            }
            let first = before.contains(&hook);
            let other = call(&world.user, "/other");
            assert_eq!(
                other,
                Err(if first { NO } else { *refused }),
                "{name}, {hook:?}, in another's"
            );
            *world.noter.refuses.lock().unwrap() = Hooks::empty();
        }
        if *name == "unlink of a directory" {
            continue;
        }
        let (answer, asked) = world.asked(|| call(&world.user, "/own"));
        let all: Vec<_> = before.iter().chain(*after).copied().collect();
        assert_eq!((answer, asked), (Ok(()), all), "{name}");
    }
}

/// An ACL of version 2 that says what mode 0664 says, and one of another user's.
const ACL: &[u8] =
    b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xe9\x03\0\0\x04\0\x06\0\xff\xff\xff\xff\x10\0\x06\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

#[test]
fn extended_attributes_and_acls() {
    const ACCESS: &str = "system.posix_acl_access";
    let set = |t: &Task, d: &str, name: &str, value: &[u8]| {
        t.setxattr(format!("{d}/f"), name, value, XattrFlags::empty())
    };
    // A call; its hook; what the user is told of another's file without a module, and whether that comes before the hook.
    type Ask<'c> = Box<dyn Fn(&Task, &str) -> Result<()> + 'c>;
    let rows: Vec<(&str, Ask<'_>, Hooks, Result<()>, bool)> = vec![
        (
            "set",
            Box::new(|t, d| set(t, d, "user.a", b"1")),
            Hooks::INODE_SETXATTR,
            Err(Errno::EACCES),
            true,
        ),
        (
            "get",
            Box::new(|t, d| t.getxattr(format!("{d}/f"), "user.a", &mut []).map(drop)),
            Hooks::INODE_GETXATTR,
            Err(Errno::ENODATA),
            false,
        ),
        (
            "list",
            Box::new(|t, d| t.listxattr(format!("{d}/f"), &mut []).map(drop)),
            Hooks::INODE_LISTXATTR,
            Ok(()),
            false,
        ),
        (
            "remove",
            Box::new(|t, d| t.removexattr(format!("{d}/f"), "user.a")),
            Hooks::INODE_REMOVEXATTR,
            Err(Errno::EACCES),
            true,
        ),
        (
            "set an ACL",
            Box::new(|t, d| set(t, d, ACCESS, ACL)),
            Hooks::INODE_SET_ACL,
            Err(Errno::EPERM),
            false,
        ),
        (
            "get an ACL",
            Box::new(|t, d| t.getxattr(format!("{d}/f"), ACCESS, &mut []).map(drop)),
            Hooks::INODE_GET_ACL,
            Err(Errno::ENODATA),
            false,
        ),
        (
            "remove an ACL",
            Box::new(|t, d| t.removexattr(format!("{d}/f"), ACCESS)),
            Hooks::INODE_REMOVE_ACL,
            Err(Errno::EPERM),
            false,
        ),
    ];
    let world = world(Hooks::all() - Hooks::WALK);
    for (name, call, hook, refused, early) in &rows {
        let asked = if *early { vec![] } else { vec![*hook] };
        assert_eq!(
            world.asked(|| call(&world.user, "/other")),
            (*refused, asked),
            "{name}, another's"
        );
        *world.noter.refuses.lock().unwrap() = *hook;
        let tree = world.tree();
        assert_eq!(call(&world.user, "/own"), Err(NO), "{name}");
        assert_eq!(world.tree(), tree, "{name}");
        let other = if *early { *refused } else { Err(NO) };
        assert_eq!(call(&world.user, "/other"), other, "{name}, another's");
        *world.noter.refuses.lock().unwrap() = Hooks::empty();
        assert_eq!(world.asked(|| call(&world.user, "/own")), (Ok(()), vec![*hook]), "{name}");
    }
}

#[test]
fn what_is_not_about_a_name_is_asked_too() {
    let world = world(Hooks::all() - Hooks::WALK);
    let file = world.user.open("/own/f", OpenFlags::RDWR, 0).unwrap();
    let queue = world.user.inotify_init1(InotifyFlags::empty()).unwrap();
    let all = InotifyMask::ALL_EVENTS;
    type Made<'c> = Box<dyn Fn() -> Result<()> + 'c>;
    let calls: [(Made<'_>, &[Hooks]); 5] = [
        (
            Box::new(|| world.user.ftruncate(&file, 3)),
            &[Hooks::FILE_TRUNCATE, Hooks::INODE_SETATTR],
        ),
        (Box::new(|| world.user.fchmod(&file, 0o600)), &[Hooks::PATH_CHMOD, Hooks::INODE_SETATTR]),
        (
            Box::new(|| world.user.inotify_add_watch(&queue, "/own", all).map(drop)),
            &[Hooks::PATH_NOTIFY],
        ),
        (Box::new(|| world.root.fork().chroot("/own")), &[Hooks::PATH_CHROOT]),
        (Box::new(|| world.user.open("/own/f", OpenFlags::PATH, 0).map(drop)), &[]),
    ];
    for (call, hooks) in &calls {
        assert_eq!(world.asked(call), (Ok(()), hooks.to_vec()));
        for &hook in *hooks {
            *world.noter.refuses.lock().unwrap() = hook;
            assert_eq!(call(), Err(NO), "{hook:?}");
        }
        *world.noter.refuses.lock().unwrap() = Hooks::empty();
    }
    let mount = |task: &Task| task.mount(MemFs::new(), "/own", MountFlags::empty());
    assert_eq!(world.asked(|| mount(&world.user)), (Err(Errno::EPERM), vec![Hooks::SB_MOUNT]));
    assert_eq!(world.asked(|| mount(&world.root)), (Ok(()), vec![Hooks::SB_MOUNT]));
    let umount = |task: &Task| task.umount2("/own", UmountFlags::DETACH);
    assert_eq!(world.asked(|| umount(&world.user)), (Err(Errno::EPERM), vec![]));
    *world.noter.refuses.lock().unwrap() = Hooks::SB_MOUNT | Hooks::SB_UMOUNT;
    assert_eq!((mount(&world.user), umount(&world.root)), (Err(NO), Err(NO)));
    *world.noter.refuses.lock().unwrap() = Hooks::empty();
    assert_eq!(world.asked(|| umount(&world.root)), (Ok(()), vec![Hooks::SB_UMOUNT]));
    assert_eq!(umount(&world.root), Err(Errno::EINVAL), "before the hook");
    assert_eq!(world.user.fork().chroot("/own"), Err(Errno::EPERM), "before the hook");
    assert_eq!(world.vfs.register_security(Arc::clone(&world.noter) as _), Err(Errno::EBUSY));
}

/// Who is asked whether a mount may go does not use it by that.
#[test]
fn a_mount_that_nobody_used_expires_also_where_a_module_is_asked() {
    let world = world(Hooks::SB_UMOUNT);
    world.root.mount(MemFs::new(), "/own", MountFlags::empty()).expect("a directory is there");
    let expire = || world.root.umount2("/own", UmountFlags::EXPIRE);
    assert_eq!((expire(), expire()), (Err(Errno::EAGAIN), Ok(())));
}

/// Climbs from what is to be unmounted as far as there is something above.
struct Climber(AtomicUsize);

impl SecurityModule for Climber {
    fn hooks(&self) -> Hooks {
        Hooks::SB_UMOUNT
    }

    fn sb_umount(&self, _: &Subject<'_>, root: &PathRef<'_>, _: UmountFlags) -> Result<()> {
        let mut above = root.parent();
        while let Some(at) = above {
            self.0.fetch_add(1, Relaxed);
            above = at.parent();
        }
        Ok(())
    }
}

/// Nor does a module use the mounts that it climbs through. What is mounted in the one that is to expire came there without a
/// walk, which would be use of it.
#[test]
fn a_mount_expires_though_a_module_climbs_through_it() {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    for dir in ["/one", "/other"] {
        task.mkdir(dir, 0o755).unwrap();
    }
    task.mount(MemFs::new(), "/one", MountFlags::empty()).unwrap();
    task.mount_tree("", "/one", MountFlags::SHARED).unwrap();
    task.bind("/one", "/other").unwrap();
    task.mkdir("/one/a", 0o755).unwrap();
    task.mkdir("/one/a/b", 0o755).unwrap();
    let climber = Arc::new(Climber(AtomicUsize::new(0)));
    vfs.register_security(Arc::clone(&climber) as _).unwrap();
    let expire = |path| task.umount2(path, UmountFlags::EXPIRE);
    assert_eq!(expire("/other"), Err(Errno::EAGAIN));
    task.mount(MemFs::new(), "/one/a/b", MountFlags::empty()).unwrap();
    climber.0.store(0, Relaxed);
    assert_eq!((expire("/other/a/b"), expire("/other/a/b")), (Err(Errno::EAGAIN), Ok(())));
    assert_eq!(climber.0.load(Relaxed), 6, "a, the root of the mount, and that of all, twice");
    assert_eq!(expire("/other"), Ok(()));
}

/// Each stands behind the lookups, and sb_mount before capabilities are looked at, the others after.
#[test]
fn hooks_of_mounts() {
    let world = world(
        Hooks::SB_MOUNT
            | Hooks::SB_UMOUNT
            | Hooks::SB_REMOUNT
            | Hooks::SB_PIVOTROOT
            | Hooks::MOVE_MOUNT,
    );
    let change = |task: &Task, flags| task.mount_tree("none", "/own", flags);
    let moves =
        |task: &Task| task.move_mount(At::Cwd, "/own", At::Cwd, "/own/d", MoveMountFlags::empty());
    let mount = |task: &Task| task.mount(MemFs::new(), "/own", MountFlags::empty());
    let umount = |task: &Task| task.umount2("/own", UmountFlags::empty());
    let pivot = |task: &Task| task.pivot_root("/own", "/own/d");
    let shut = |task: &Task| task.umount2("/", UmountFlags::empty());
    mount(&world.root).unwrap();
    world.root.mkdir("/own/d", 0o755).unwrap();
    let remount = MountFlags::REMOUNT;
    type Ask<'a> = Box<dyn Fn(&Task) -> Result<()> + 'a>;
    let rows: &[(Ask<'_>, &[Hooks])] = &[
        (Box::new(|task| change(task, remount)), &[Hooks::SB_MOUNT, Hooks::SB_REMOUNT]),
        (Box::new(|task| change(task, remount | MountFlags::BIND)), &[Hooks::SB_MOUNT]),
        (Box::new(|task| change(task, MountFlags::PRIVATE)), &[Hooks::SB_MOUNT]),
        (Box::new(shut), &[Hooks::SB_UMOUNT, Hooks::SB_REMOUNT]),
        (Box::new(umount), &[Hooks::SB_UMOUNT]),
        (Box::new(moves), &[Hooks::MOVE_MOUNT]),
        (Box::new(pivot), &[Hooks::SB_PIVOTROOT]),
    ];
    for (index, (call, hooks)) in rows.iter().enumerate() {
        for &hook in *hooks {
            *world.noter.refuses.lock().unwrap() = hook;
            assert_eq!(call(&world.root), Err(NO), "{index}: {hook:?}");
        }
        *world.noter.refuses.lock().unwrap() = Hooks::empty();
        // Of mount(2) the module is asked before it is asked who calls.
        let early: Vec<_> = hooks.iter().copied().filter(|&hook| hook == Hooks::SB_MOUNT).collect();
        assert_eq!(world.asked(|| call(&world.user)), (Err(Errno::EPERM), early), "{index}");
    }
    assert_eq!(world.asked(|| moves(&world.root)), (Err(Errno::ELOOP), vec![Hooks::MOVE_MOUNT]));
    let asked = world.asked(|| umount(&world.root));
    assert_eq!(asked, (Ok(()), vec![Hooks::SB_UMOUNT]));
    assert_eq!(world.asked(|| umount(&world.root)), (Err(Errno::EINVAL), vec![]), "before it");
    let asked = world.asked(|| pivot(&world.root));
    assert_eq!(asked, (Err(Errno::EBUSY), vec![Hooks::SB_PIVOTROOT]));
    let asked = world.asked(|| shut(&world.root));
    assert_eq!(asked, (Ok(()), vec![Hooks::SB_UMOUNT, Hooks::SB_REMOUNT]));
    assert_eq!(world.root.mkdir("/n", 0o755), Err(Errno::EROFS));
}

#[test]
fn a_registered_module_is_asked_on_every_walk_remembered_or_not() {
    let wants = Hooks::INODE_PERMISSION;
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let task = vfs.task(Cred::root());
    task.mkdir("/a", 0o755).unwrap();
    task.mkdir("/a/b", 0o755).unwrap();
    task.symlink("/a/b", "/l").unwrap();
    let look = || task.access("/l/../b", AccessMode::empty());
    for _ in 0..4 {
        look().unwrap();
    }
    let (asked, refuses) = (Mutex::default(), Mutex::new(Hooks::empty()));
    let noter = Arc::new(Noter { wants, asked, refuses });
    vfs.register_security(Arc::clone(&noter) as Arc<dyn SecurityModule>).unwrap();
    for _ in 0..4 {
        noter.asked.lock().unwrap().clear();
        look().unwrap();
        // The root, the root again for the link's body, `a`, `b`, `a`, and `b` itself.
        assert_eq!(noter.asked.lock().unwrap().len(), 6);
        *noter.refuses.lock().unwrap() = wants;
        assert_eq!(look(), Err(NO));
        assert_eq!(task.stat("/a/b").map(drop), Err(NO));
        assert_eq!(task.stat("/a/missing").map(drop), Err(NO));
        *noter.refuses.lock().unwrap() = Hooks::empty();
    }
    // What is made or changed from now on is no different.
    task.mkdir("/a/c", 0o755).unwrap();
    task.chmod("/a", 0o711).unwrap();
    *noter.refuses.lock().unwrap() = wants;
    assert_eq!(task.access("/a/c/x", AccessMode::empty()), Err(NO));
    let how = OpenHow { flags: 0, mode: 0, resolve: ResolveFlags::CACHED.bits() };
    assert_eq!(task.openat2(At::Cwd, "/a", &how).map(drop), Err(Errno::EAGAIN));
}

#[test]
fn where_lookups_end_a_module_is_asked_too() {
    let world = world(Hooks::WALK - Hooks::INODE_PERMISSION);
    let task = &world.user;
    let file = task.open("/own/f", OpenFlags::empty(), 0).unwrap();
    let mut buf = [0; 8];
    for (hook, answer) in [
        (Hooks::INODE_GETATTR, task_stat as fn(&Task) -> Result<()>),
        (Hooks::INODE_GETATTR, |t| {
            t.statx(At::Cwd, "/", AtFlags::empty(), StatxMask::all()).map(drop)
        }),
        (Hooks::INODE_FOLLOW_LINK, |t| t.access("/own/l", AccessMode::empty())),
        (Hooks::INODE_FOLLOW_LINK, |t| t.open("/own/l", OpenFlags::empty(), 0).map(drop)),
    ] {
        let (said, asked) = world.asked(|| answer(task));
        assert_eq!((said, asked), (Ok(()), vec![hook]));
        *world.noter.refuses.lock().unwrap() = hook;
        assert_eq!(answer(task), Err(NO), "{hook:?}");
        *world.noter.refuses.lock().unwrap() = Hooks::empty();
    }
    *world.noter.refuses.lock().unwrap() = Hooks::INODE_GETATTR | Hooks::INODE_READLINK;
    assert_eq!(task.fstat(&file).map(drop), Err(NO));
    assert_eq!(task.readlink("/own/l", &mut buf), Err(NO));
    assert_eq!(task.readlink("/own/f", &mut buf), Err(Errno::EINVAL));
    assert_eq!(task.stat("/own/missing").map(drop), Err(Errno::ENOENT));
}

/// A root of whose attributes nobody is told.
struct Untold;

impl FileSystem for Untold {
    fn kind(&self) -> &str {
        "untold"
    }

    fn features(&self) -> Features {
        Features::GETATTR
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        Ok(None)
    }

    fn getattr(&self, _: InodeRef<'_>) -> Result<()> {
        Err(Errno::EIO)
    }
}

/// Linux: `vfs_getattr`.
#[test]
fn a_module_is_asked_about_attributes_before_the_file_system() {
    let vfs = Vfs::new(Config::default(), Arc::new(Untold)).unwrap();
    let task = vfs.task(Cred::root());
    let root = task.open("/", OpenFlags::PATH, 0).unwrap();
    let calls: [fn(&Task, &File) -> Result<()>; 3] = [
        |task, root| task.fstat(root).map(drop),
        |task, root| task.statx(root, "", AtFlags::EMPTY_PATH, StatxMask::all()).map(drop),
        |task, _| task.stat("/").map(drop),
    ];
    let (asked, refuses) = (Mutex::default(), Mutex::new(Hooks::empty()));
    let noter = Arc::new(Noter { wants: Hooks::INODE_GETATTR, asked, refuses });
    vfs.register_security(Arc::clone(&noter) as Arc<dyn SecurityModule>).unwrap();
    for call in calls {
        assert_eq!(call(&task, &root), Err(Errno::EIO));
        assert_eq!(std::mem::take(&mut *noter.asked.lock().unwrap()), [Hooks::INODE_GETATTR]);
        *noter.refuses.lock().unwrap() = Hooks::INODE_GETATTR;
        assert_eq!(call(&task, &root), Err(NO));
        noter.asked.lock().unwrap().clear();
        *noter.refuses.lock().unwrap() = Hooks::empty();
    }
}

fn task_stat(task: &Task) -> Result<()> {
    task.stat("/own/f").map(drop)
}
