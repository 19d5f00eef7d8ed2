//! Who opens what everybody may read: that too is somebody's to refuse, and somebody is told of it.

mod common;

use common::{
    asking::{found, root_task},
    lookups::acl,
};
use pathwalk::{
    At, AtFlags, Config, Cred, Errno, FdTable, FileType, Hooks, InodeRef, InotifyFlags,
    InotifyMask, MemFs, MountFlags, OpenFlags, PathRef, ProcFs, Result, SecurityModule, Subject,
    Task, Timespec, UmountFlags, Vfs, XattrFlags, acl_to_xattr,
    fs::{Access, Features, FileSystem, Found},
};
use std::sync::Arc;

/// A user, in a machine with a file and a directory that everybody may read; and root.
fn machine() -> (Arc<Vfs>, Task, Task) {
    let vfs = Vfs::new(Config::default(), MemFs::new()).unwrap();
    let root = vfs.task(Cred::root());
    root.umask(0);
    root.mkdir("/d", 0o755).unwrap();
    root.creat("/d/f", 0o644).unwrap();
    let user = vfs.task(Cred::user(1000, 1000));
    (vfs, root, user)
}

fn reads(task: &Task, path: &str) -> Result<()> {
    task.open(path, OpenFlags::RDONLY, 0).map(drop)
}

struct Refuses(Hooks);

impl SecurityModule for Refuses {
    fn hooks(&self) -> Hooks {
        self.0
    }

    fn inode_permission(&self, _: &Subject<'_>, _: InodeRef<'_>, access: Access) -> Result<()> {
        if access.contains(Access::READ) { Err(Errno::EL2HLT) } else { Ok(()) }
    }

    fn file_open(&self, _: &Subject<'_>, _: &PathRef<'_>, _: OpenFlags) -> Result<u64> {
        Err(Errno::EL2HLT)
    }
}

#[test]
fn a_security_module_refuses_it() {
    for hook in [Hooks::INODE_PERMISSION, Hooks::FILE_OPEN] {
        let (vfs, _, user) = machine();
        let before = user.fork();
        // Walked and remembered.
        let opens = |path| (0..4).map(|_| reads(&user, path)).collect::<Vec<_>>();
        assert_eq!(opens("/d/f"), [Ok(()); 4], "{hook:?}");
        vfs.register_security(Arc::new(Refuses(hook))).unwrap();
        for path in ["/d/f", "/d"] {
            assert_eq!(opens(path), [Err(Errno::EL2HLT); 4], "{path}, {hook:?}");
        }
        assert_eq!(reads(&before, "/d/f"), Err(Errno::EL2HLT));
    }
}

#[test]
fn an_acl_refuses_it() {
    let (vfs, root, user) = machine();
    let other = vfs.task(Cred::user(1001, 1001));
    let none = acl_to_xattr(&acl(0o444, 1000..1001, 0));
    root.setxattr("/d/f", "system.posix_acl_access", &none, XattrFlags::empty()).unwrap();
    assert_eq!(root.stat("/d/f").unwrap().st_mode & 0o444, 0o444, "the mode alone grants it");
    for _ in 0..4 {
        assert_eq!(reads(&user, "/d/f"), Err(Errno::EACCES));
        assert_eq!(reads(&other, "/d/f"), Ok(()));
    }
}

/// A file system that lets nobody read, whatever the mode says; or that cannot be reached.
struct Closed(Features);

impl FileSystem for Closed {
    fn kind(&self) -> &str {
        "closed"
    }

    fn features(&self) -> Features {
        self.0
    }

    fn root(&self, _: &Subject<'_>, _: Timespec) -> Result<Found> {
        Ok(found(1, FileType::Directory, 0o755))
    }

    fn lookup(&self, _: InodeRef<'_>, _: &[u8]) -> Result<Option<Found>> {
        Ok(Some(found(2, FileType::Regular, 0o644)))
    }

    fn permission(&self, _: InodeRef<'_>, access: Access, _: &Subject<'_>) -> Result<()> {
        if access.contains(Access::READ) { Err(Errno::EACCES) } else { Ok(()) }
    }

    fn getattr(&self, _: InodeRef<'_>) -> Result<()> {
        Err(Errno::EIO)
    }
}

#[test]
fn the_file_system_refuses_it() {
    let task = root_task(&Arc::new(Closed(Features::PERMISSION | Features::NO_OPEN)));
    for _ in 0..4 {
        assert_eq!(reads(&task, "/f"), Err(Errno::EACCES));
        assert_eq!(reads(&task, "/"), Err(Errno::EACCES));
    }
}

#[test]
fn who_watches_is_told_and_the_flags_are_those_of_an_open_file() {
    let (_, root, user) = machine();
    let queue = root.inotify_init1(InotifyFlags::NONBLOCK).unwrap();
    root.inotify_add_watch(&queue, "/d/f", InotifyMask::OPEN).unwrap();
    for opened in 1..4 {
        let flags = OpenFlags::CLOEXEC | OpenFlags::NOCTTY | OpenFlags::NONBLOCK;
        let file = user.open("/d/f", flags, 0).unwrap();
        assert_eq!(file.flags(), OpenFlags::NONBLOCK);
        assert_eq!(queue.bytes(), 16, "opened {opened} times");
        let mut event = [0; 16];
        assert_eq!(queue.read(&mut event), Ok(16));
    }
}

/// A file system that does not answer is still to be left, by whatever leads there.
#[test]
fn what_a_magic_link_leads_to_need_not_answer() {
    let (_, root, _) = machine();
    root.mkdir("/proc", 0o755).unwrap();
    root.mount(ProcFs::new(), "/proc", MountFlags::empty()).unwrap();
    root.mkdir("/m", 0o755).unwrap();
    let task = root.fork();
    let files = Arc::new(FdTable::new(8));
    task.set_files(Some(Arc::clone(&files)));
    task.mount(Arc::new(Closed(Features::GETATTR)), "/m", MountFlags::empty()).unwrap();
    let fd = files.insert(task.open("/m", OpenFlags::PATH, 0).unwrap()).unwrap();
    let link = format!("/proc/self/fd/{fd}");
    let place = |path: &str| task.open(path, OpenFlags::PATH, 0).map(drop);
    assert_eq!(place(&link), Ok(()));
    assert_eq!(place(&format!("{link}/..")), Ok(()));
    assert_eq!(task.fstatat(At::Cwd, &link, AtFlags::empty()).map(drop), Err(Errno::EIO));
    assert_eq!(task.umount2(&link, UmountFlags::DETACH), Ok(()));
}
